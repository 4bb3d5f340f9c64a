//! The writer of this process. It commits events of all runs in batches, and [tells](reports)
//! whoever waits for them.
//!
//! Callers queue their rows and wait. Appends queued during a commit form the next batch. So more
//! runs share a commit under load, and no append waits for more than one earlier commit, unless its
//! tenant has more appends than fit into a batch ([`batch`]).
//!
//! A batch without a response is sent again unchanged. Its rows carry a tag that distinguishes this
//! writer's rows from others'. Then a [probe](BatchWriter::probe) finds the cause. If a minimal
//! write also fails, the database is unavailable, and the batch is retried with backoff. If it
//! succeeds, some append in the batch is faulty, and the appends are [isolated](isolation) so that
//! other runs continue.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{
    FutureExt,
    future::{Either, select},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::yield_now,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{JournalError, RecordedEvent, RunId, Seq, TenantId};

use crate::{
    catalogues::HeldCatalogue,
    database::{DatabaseError, Dialect, Result, STATEMENT_TIMEOUT},
    heartbeats::FORMAT,
    outage::{Availability, Backoff},
    progress::SummaryColumns,
    rows::{EventRow, new_tag, sealed_rows, to_rows_beside},
    run_ends::{EndOfRun, StoredEnd},
    sealing::DataKey,
    sync::lock,
    webhook_rows::NewDelivery,
};

mod batch;
mod isolation;
mod postgres;
mod reports;
mod sqlite;

use self::{batch::take_batch, reports::Reports};
pub(crate) use isolation::IsolatedWriter;
pub(crate) use postgres::PostgresBatchWriter;
pub(crate) use reports::CommitNotifier;
pub(crate) use sqlite::SqliteBatchWriter;

/// Queue length. Further callers wait for a free slot.
const QUEUE: usize = 4096;

/// Maximum number of appends per batch, and their maximum total size. A larger append is isolated
/// at once.
const BATCH_JOBS: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What a caller appends to one run.
pub(crate) struct Append {
    pub(crate) tenant: TenantId,
    /// Not empty.
    pub(crate) events: Vec<Arc<RecordedEvent>>,
    /// Lists of tools in `events` that are stored elsewhere.
    pub(crate) catalogues: Vec<HeldCatalogue>,
    pub(crate) run_end: Option<StoredEnd>,
    /// What a list says about the run from now on, if it changes.
    pub(crate) summary: Option<SummaryColumns>,
    /// What the events cause for receivers of webhooks.
    pub(crate) deliveries: Vec<NewDelivery>,
    /// The run itself, if these are its first events.
    pub(crate) new_run: Option<NewRunRow>,
    /// Encrypts what is stored.
    pub(crate) key: Option<Arc<DataKey>>,
}

/// The row of a new run that has no conversation, continues no run and has no idempotency key.
#[derive(Debug)]
pub(crate) struct NewRunRow {
    pub(crate) created_at: i64,
    pub(crate) request: String,
    pub(crate) model: String,
    pub(crate) input_text: String,
    /// Names of tools, as a JSON array.
    pub(crate) tools: String,
    pub(crate) n_calls: i64,
    /// Who asked for it, as for quotas.
    pub(crate) holder: Option<String>,
}

/// A queued append.
pub(crate) struct Job {
    tenant: TenantId,
    run_id: RunId,
    tag: i64,
    events: Vec<Arc<RecordedEvent>>,
    rows: Vec<EventRow>,
    bytes: usize,
    /// What `events` has and `rows` has not.
    bytes_elsewhere: usize,
    run_end: Option<StoredEnd>,
    /// What a list says about the run from now on, if it changes.
    summary: Option<Box<SummaryColumns>>,
    /// What the events cause for receivers of webhooks.
    deliveries: Vec<NewDelivery>,
    new_run: Option<Box<NewRunRow>>,
    /// Encrypts what the end of the run adds to its conversation.
    key: Option<Arc<DataKey>>,
    answer: oneshot::Sender<Result<(), JournalError>>,
}

impl Job {
    fn first(&self) -> Seq {
        self.events.first().map_or(Seq::START, |first| first.seq)
    }

    /// Returns the number of events.
    pub(crate) fn n_events(&self) -> usize {
        self.events.len()
    }

    fn end(&self) -> Option<EndOfRun<'_>> {
        Some((&self.tenant, &self.run_id, self.run_end.as_ref()?, self.key.as_deref()))
    }

    /// Whether nobody would execute the run that this creates: its client was told that it was not
    /// created.
    fn is_abandoned(&self) -> bool {
        self.new_run.is_some() && self.answer.is_closed()
    }

    fn conflict(&self) -> JournalError {
        JournalError::Conflict { run_id: self.run_id.clone(), seq: self.first() }
    }
}

/// A request to the writer.
enum Request {
    Append(Box<Job>),
    /// Answered after the next successful write.
    Probe(oneshot::Sender<()>),
}

/// Writes batches to a database.
#[async_trait]
pub(crate) trait BatchWriter: Send {
    /// Writes all `jobs`, each of a different run, and returns which are stored: those that won
    /// their seq now, or in an earlier attempt. The others leave nothing behind. `time` is the
    /// statement timeout. After an error the write may have happened, and can be repeated.
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>>;

    /// Makes a minimal write to the tables of the journal. If it succeeds, a failing append is
    /// itself at fault.
    async fn probe(&mut self) -> Result<()>;
}

/// Handle of the writer.
#[derive(Debug, Clone)]
pub(crate) struct WriterHandle {
    requests: mpsc::Sender<Request>,
    at_work_since: AtWorkSince,
    n_waiting: Arc<AtomicU64>,
}

/// Counts an append until it is answered.
struct Waiting(Arc<AtomicU64>);

impl Waiting {
    fn begin(n_waiting: &Arc<AtomicU64>) -> Self {
        n_waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(n_waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Start of the current batch, if there is one.
type AtWorkSince = Arc<Mutex<Option<Instant>>>;

impl WriterHandle {
    /// Writes `append` with those of other runs.
    pub(crate) async fn append(&self, append: Append) -> Result<(), JournalError> {
        let Append { tenant, events, catalogues, run_end, summary, deliveries, new_run, key } =
            append;
        let Some(first) = events.first() else { return Ok(()) };
        let run_id = first.run_id.clone();
        let rows = to_rows_beside(&events, &catalogues)
            .and_then(|rows| sealed_rows(rows, &run_id, key.as_deref()));
        let rows = rows.map_err(|error| JournalError::Rejected {
            run_id: run_id.clone(),
            reason: error.to_string(),
        })?;
        let in_run = new_run.as_ref().map_or(0, |run| run.request.len() + run.input_text.len());
        let bytes = in_run + rows.iter().map(|row| row.body.len()).sum::<usize>();
        let bytes_elsewhere = catalogues.iter().map(|held| held.n_bytes).sum();
        let (answer, answered) = oneshot::channel();
        let tag = new_tag();
        let (summary, new_run) = (summary.map(Box::new), new_run.map(Box::new));
        let _waiting = Waiting::begin(&self.n_waiting);
        let job = Box::new(Job {
            tenant,
            run_id,
            tag,
            events,
            rows,
            bytes,
            bytes_elsewhere,
            run_end,
            summary,
            deliveries,
            new_run,
            key,
            answer,
        });
        self.requests.send(Request::Append(job)).await.map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Returns the number of appends whose callers wait.
    pub(crate) fn n_waiting(&self) -> u64 {
        self.n_waiting.load(Ordering::Relaxed)
    }

    /// Returns how long the current batch has been in progress.
    pub(crate) fn stuck_for(&self) -> Duration {
        lock(&self.at_work_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns after the next successful write.
    pub(crate) async fn probe(&self) -> Result<(), JournalError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Probe(answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }
}

fn closed() -> JournalError {
    JournalError::Unavailable("the writer has stopped".to_owned())
}

pub(crate) struct Writer {
    requests: mpsc::Receiver<Request>,
    /// Received, and not yet in a batch.
    waiting: VecDeque<Job>,
    /// Callers that wait for a successful write.
    probes: Vec<oneshot::Sender<()>>,
    journal: Box<dyn BatchWriter>,
    /// Queue of isolated appends.
    isolated: mpsc::UnboundedSender<Job>,
    /// Written, and not yet reported.
    reports: Reports,
    outage: Arc<Availability>,
    at_work_since: AtWorkSince,
    stop: CancellationToken,
}

impl Writer {
    /// Creates a writer. When stopped, it first writes what was queued before.
    pub(crate) fn new(
        journal: Box<dyn BatchWriter>,
        isolated: mpsc::UnboundedSender<Job>,
        notifier: CommitNotifier,
        outage: Arc<Availability>,
        stop: CancellationToken,
    ) -> (WriterHandle, Self) {
        let (sender, requests) = mpsc::channel(QUEUE);
        let at_work_since = AtWorkSince::default();
        let handle = WriterHandle {
            requests: sender,
            at_work_since: Arc::clone(&at_work_since),
            n_waiting: Arc::default(),
        };
        let writer = Self {
            requests,
            waiting: VecDeque::new(),
            probes: Vec::new(),
            journal,
            isolated,
            reports: Reports::new(notifier),
            outage,
            at_work_since,
            stop,
        };
        (handle, writer)
    }

    /// Runs until all handles are dropped or it is stopped. A panic fails only the appends of its
    /// batch.
    pub(crate) async fn run(mut self) {
        while AssertUnwindSafe(self.write_all()).catch_unwind().await.is_err() {
            *lock(&self.at_work_since) = None;
            tracing::error!("writer panicked, continuing with the next batch");
        }
    }

    async fn write_all(&mut self) {
        loop {
            // All that are queued, so that the batch can have some of every tenant.
            while self.waiting.len() < QUEUE
                && let Ok(request) = self.requests.try_recv()
            {
                self.take(request);
            }
            if !self.waiting.is_empty() {
                let batch = take_batch(&mut self.waiting);
                self.write(batch).await;
            } else if !self.reports.is_empty() {
                // Nothing to overlap with.
                self.reports.next_group();
                yield_now().await;
            } else if !self.probes.is_empty() {
                self.probe().await;
            } else if !self.has_work().await {
                return;
            }
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Append(job) if job.bytes > BATCH_BYTES => self.isolate(*job),
            Request::Append(job) => self.waiting.push_back(*job),
            Request::Probe(answer) => self.probes.push(answer),
        }
    }

    /// Waits for a request. Returns `false` if there will be none.
    async fn has_work(&mut self) -> bool {
        let mut arrived = Vec::new();
        let stop = self.stop.clone();
        let n = tokio::select! {
            n = self.requests.recv_many(&mut arrived, BATCH_JOBS) => n,
            () = stop.cancelled(), if !self.requests.is_closed() => {
                self.requests.close();
                self.requests.recv_many(&mut arrived, BATCH_JOBS).await
            }
        };
        for request in arrived {
            self.take(request);
        }
        n > 0
    }

    /// Writes `batch`. Meanwhile, callers of the batches before are notified.
    async fn write(&mut self, batch: Vec<Job>) {
        let attempts =
            BatchAttempt { journal: &mut *self.journal, outage: &self.outage, stop: &self.stop };
        *lock(&self.at_work_since) = Some(Instant::now());
        // The statement is sent first, then callers are notified.
        let done = {
            let (writing, reporting) = (pin!(attempts.write(&batch)), pin!(self.reports.all()));
            match select(writing, reporting).await {
                Either::Left((done, _)) => done,
                Either::Right(((), writing)) => writing.await,
            }
        };
        *lock(&self.at_work_since) = None;
        match done {
            Some(Ok(kept)) => {
                self.answer_probes();
                self.reports.add(batch, kept);
            }
            Some(Err(error @ DatabaseError::UniqueViolation(_))) if batch.len() == 1 => {
                self.reports.notifier().refuse(batch, &error);
            }
            Some(Err(error)) => {
                tracing::warn!(%error, n_runs = batch.len(), "appends isolated");
                for job in batch {
                    self.isolate(job);
                }
            }
            // Dropping the jobs reports the failure to their callers.
            None => {}
        }
    }

    fn isolate(&self, job: Job) {
        // The isolated writer lives as long as this one; dropping a job reports the failure.
        let _ = self.isolated.send(job);
    }

    async fn probe(&mut self) {
        match self.journal.probe().await {
            Ok(()) => {
                self.outage.mark_up();
                self.answer_probes();
            }
            Err(error) => {
                self.outage.mark_down(&error.to_string());
                self.probes.clear();
            }
        }
    }

    fn answer_probes(&mut self) {
        for probe in self.probes.drain(..) {
            let _ = probe.send(());
        }
    }
}

/// Maximum connection failures during a batch while other writes succeed. A single one can be
/// chance.
const MAX_CONNECTION_FAILURES: u32 = 5;

/// One batch being written.
struct BatchAttempt<'a> {
    journal: &'a mut dyn BatchWriter,
    outage: &'a Availability,
    stop: &'a CancellationToken,
}

impl BatchAttempt<'_> {
    /// Retries until the database responds, or rejects this batch while it accepts other writes.
    /// Returns `None` only if the database is unavailable, the process shuts down and no caller
    /// waits.
    async fn write(self, batch: &[Job]) -> Option<Result<Vec<bool>>> {
        let mut backoff = Backoff::default();
        let mut n_broken = 0;
        loop {
            let error = match self.journal.write(batch, STATEMENT_TIMEOUT).await {
                Err(error) if !matches!(error, DatabaseError::UniqueViolation(_)) => error,
                done => {
                    self.outage.mark_up();
                    return Some(done);
                }
            };
            if matches!(error, DatabaseError::NoRoom(_)) {
                // The probe would find room, as it needs none; the batch waits for it.
                self.outage.mark_down(&error.to_string());
                if is_given_up(self.stop, batch) {
                    return None;
                }
                sleep(backoff.next_pause()).await;
                continue;
            }
            let is_up = self.journal.probe().await.is_ok();
            if is_up {
                n_broken += 1;
                if !matches!(error, DatabaseError::Unavailable(_))
                    || n_broken >= MAX_CONNECTION_FAILURES
                {
                    return Some(Err(error));
                }
                sleep(backoff.next_pause()).await;
            } else {
                n_broken = 0;
                self.outage.mark_down(&error.to_string());
                if !comes_back(self.journal, self.stop, batch).await {
                    return None;
                }
            }
        }
    }
}

/// Whether the process shuts down and no caller waits.
fn is_given_up(stop: &CancellationToken, batch: &[Job]) -> bool {
    stop.is_cancelled() && batch.iter().all(|job| job.answer.is_closed())
}

/// Waits until the database accepts writes. Returns early if the process shuts down and no caller
/// waits.
async fn comes_back(
    journal: &mut dyn BatchWriter,
    stop: &CancellationToken,
    batch: &[Job],
) -> bool {
    let mut backoff = Backoff::default();
    loop {
        if is_given_up(stop, batch) {
            return false;
        }
        sleep(backoff.next_pause()).await;
        if journal.probe().await.is_ok() {
            return true;
        }
    }
}

/// A harmless write to the tables of the journal; `$1` is the worker. It waits for table locks, as
/// an append does.
fn probe_sql(dialect: &Dialect) -> String {
    let touch = format!(
        "insert into workers (id, lease_until, probed_at, reads_lists)
             values ($1, {now}, {now}, {FORMAT})
         on conflict (id) do update set probed_at = excluded.probed_at",
        now = dialect.now
    );
    if !dialect.writes_in_with {
        return touch;
    }
    format!(
        "with nothing as (
             insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
             select '', '', 0, 0, 0, '', '' where false)
         {touch}"
    )
}

#[cfg(test)]
impl Job {
    /// A job of one event without rows, and where its answer arrives.
    fn of_one_event(
        tenant: &str,
        run: &str,
        seq: u64,
    ) -> (Self, oneshot::Receiver<Result<(), JournalError>>) {
        let (answer, answered) = oneshot::channel();
        let (run_id, at) = (RunId::from(run), turnwire_contract::Timestamp::from_micros(1));
        let event = turnwire_contract::Event::RunStarted;
        let event = RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event };
        let job = Self {
            tenant: TenantId::from(tenant),
            run_id,
            tag: 1,
            events: vec![Arc::new(event)],
            rows: Vec::new(),
            bytes: 1,
            bytes_elsewhere: 0,
            run_end: None,
            summary: None,
            deliveries: Vec::new(),
            new_run: None,
            key: None,
            answer,
        };
        (job, answered)
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
