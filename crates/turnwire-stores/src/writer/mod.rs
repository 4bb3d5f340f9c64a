//! The one writer of this process: it commits the events of all runs together.
//!
//! Whoever appends hands its rows over and waits. What has gathered while one batch is being
//! committed is the next batch, so the busier a node is, the more runs share a commit, and none
//! waits longer than for the commit before its own.
//!
//! A batch that got no answer is sent again as it is: its rows carry a tag, by which the writer
//! tells what it has written itself from what somebody else has. What happens next depends on
//! whose fault it is, and a [probe](Journal::probe) tells: if the database does not take the
//! smallest of writes either, it is away, and the batch is sent again until it is back. If it
//! does, something in the batch is at fault, and the appends are [isolated](isolation) so that
//! the other runs go on.

use std::{
    collections::{HashSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt, future::join};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{
    JournalError, RecordedEvent, RunEnd, RunId, Seq, TenantId,
    seeded::{Fault, is_seeded},
};

use crate::{
    database::{DatabaseError, Dialect, STATEMENT_TIMEOUT},
    live_tails::LiveTails,
    notify::Publisher,
    outage::{Backoff, Outage},
    rows::{EventRow, to_rows},
    sync::lock,
};

mod isolation;
mod postgres;
mod sqlite;

pub(crate) use isolation::IsolatedWriter;
pub(crate) use postgres::PostgresBatchWriter;
pub(crate) use sqlite::SqliteBatchWriter;

/// How many appends wait to be taken into a batch. The rest wait for their turn to wait.
const QUEUE: usize = 4096;

/// How many appends make a batch at most, and how much they may weigh together. One that weighs
/// more is isolated from the start.
const BATCH_JOBS: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What somebody wants to append.
pub(crate) struct Job {
    tenant: TenantId,
    run_id: RunId,
    tag: i64,
    events: Vec<Arc<RecordedEvent>>,
    rows: Vec<EventRow>,
    bytes: usize,
    ending: Option<RunEnd>,
    answer: oneshot::Sender<Result<(), JournalError>>,
}

impl Job {
    fn first(&self) -> Seq {
        self.events.first().map_or(Seq::START, |first| first.seq)
    }

    fn conflict(&self) -> JournalError {
        JournalError::Conflict { run_id: self.run_id.clone(), seq: self.first() }
    }
}

/// What the writer is asked to do.
enum Request {
    Append(Job),
    /// Answered once something was written.
    Probe(oneshot::Sender<()>),
}

/// Where batches are written.
#[async_trait]
pub(crate) trait BatchWriter: Send {
    /// Writes all `jobs`, each of another run, and tells which of them are kept: those that won
    /// their place now, or had won it before. The others left nothing behind. No statement may
    /// take longer than `time`. If this fails, it may have happened all the same, and can be done
    /// again.
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>, DatabaseError>;

    /// Writes something small to the tables that appends write to. If this works, an append that
    /// does not is at fault itself.
    async fn probe(&mut self) -> Result<(), DatabaseError>;
}

/// The way to the writer.
#[derive(Debug, Clone)]
pub(crate) struct WriterHandle {
    requests: mpsc::Sender<Request>,
    at_work_since: AtWorkSince,
}

/// Since when the writer has been at its present batch, if it is at one.
type AtWorkSince = Arc<Mutex<Option<Instant>>>;

impl WriterHandle {
    /// Appends `events` of one run, which must not be empty.
    pub(crate) async fn append(
        &self,
        tenant: &TenantId,
        events: Vec<Arc<RecordedEvent>>,
        ending: Option<RunEnd>,
    ) -> Result<(), JournalError> {
        let Some(first) = events.first() else { return Ok(()) };
        let run_id = first.run_id.clone();
        let rows = to_rows(&events).map_err(|error| JournalError::Rejected {
            run_id: run_id.clone(),
            reason: error.to_string(),
        })?;
        let bytes = rows.iter().map(|row| row.body.len()).sum();
        let (answer, answered) = oneshot::channel();
        let tag = new_tag();
        let job = Job { tenant: tenant.clone(), run_id, tag, events, rows, bytes, ending, answer };
        self.requests.send(Request::Append(job)).await.map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// For how long the writer has been at its present batch.
    pub(crate) fn stuck_for(&self) -> Duration {
        lock(&self.at_work_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns once the writer has written something, whatever it is.
    pub(crate) async fn probe(&self) -> Result<(), JournalError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Probe(answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }
}

fn closed() -> JournalError {
    JournalError::Unavailable("the writer has stopped".to_owned())
}

/// Something that no other append to the same place has: a number that begins anywhere.
pub(crate) fn new_tag() -> i64 {
    static NEXT: LazyLock<AtomicI64> = LazyLock::new(|| {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        AtomicI64::new((high ^ low.rotate_left(32)).cast_signed())
    });
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The writer.
pub(crate) struct Writer {
    requests: mpsc::Receiver<Request>,
    /// Taken from the queue, and not yet in a batch.
    waiting: VecDeque<Job>,
    /// Who wants to know whether something can be written.
    probes: Vec<oneshot::Sender<()>>,
    journal: Box<dyn BatchWriter>,
    /// Where appends go that must not hold up the others.
    isolated: mpsc::UnboundedSender<Job>,
    notifier: CommitNotifier,
    outage: Arc<Outage>,
    at_work_since: AtWorkSince,
    stop: CancellationToken,
}

/// A batch that the database has answered, and what it has kept of it.
struct WrittenBatch {
    batch: Vec<Job>,
    kept: Vec<bool>,
}

impl Writer {
    /// A writer that stops when it is told to, after it has written what it was given before.
    pub(crate) fn new(
        journal: Box<dyn BatchWriter>,
        isolated: mpsc::UnboundedSender<Job>,
        notifier: CommitNotifier,
        outage: Arc<Outage>,
        stop: CancellationToken,
    ) -> (WriterHandle, Self) {
        let (sender, requests) = mpsc::channel(QUEUE);
        let at_work_since = AtWorkSince::default();
        let handle = WriterHandle { requests: sender, at_work_since: Arc::clone(&at_work_since) };
        let writer = Self {
            requests,
            waiting: VecDeque::new(),
            probes: Vec::new(),
            journal,
            isolated,
            notifier,
            outage,
            at_work_since,
            stop,
        };
        (handle, writer)
    }

    /// Writes until there is nobody left who could append, or it is told to stop. A panic costs
    /// the appends of the batch it happened in, and not those of everybody after them.
    pub(crate) async fn run(mut self) {
        while AssertUnwindSafe(self.write_all()).catch_unwind().await.is_err() {
            *lock(&self.at_work_since) = None;
            tracing::error!("writer panicked, continuing with the next batch");
        }
    }

    async fn write_all(&mut self) {
        let mut written = None;
        loop {
            while self.waiting.len() < BATCH_JOBS
                && let Ok(request) = self.requests.try_recv()
            {
                self.take(request);
            }
            if self.waiting.is_empty() {
                // Nothing to do meanwhile.
                self.notifier.tell(written.take());
                if !self.probes.is_empty() {
                    self.probe().await;
                } else if !self.has_work().await {
                    return;
                }
                continue;
            }
            let batch = self.take_batch();
            written = self.write(batch, written).await;
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Append(job) if job.bytes > BATCH_BYTES => self.isolate(job),
            Request::Append(job) => self.waiting.push_back(job),
            Request::Probe(answer) => self.probes.push(answer),
        }
    }

    /// Waits for something to do. There will be nothing any more if this says no.
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

    /// As many of those that wait as go into one batch, but one of each run.
    fn take_batch(&mut self) -> Vec<Job> {
        let (mut batch, mut later): (Vec<Job>, VecDeque<Job>) = Default::default();
        let (mut runs, mut bytes) = (HashSet::new(), 0);
        for job in self.waiting.drain(..) {
            let fits = batch.is_empty() || bytes + job.bytes <= BATCH_BYTES;
            if batch.len() < BATCH_JOBS && fits && runs.insert(job.run_id.clone()) {
                bytes += job.bytes;
                batch.push(job);
            } else {
                // Those of the same run stay behind this one.
                runs.insert(job.run_id.clone());
                later.push_back(job);
            }
        }
        self.waiting = later;
        batch
    }

    /// Writes `batch`. While the database is at it, those of the batch `before` are told.
    async fn write(
        &mut self,
        batch: Vec<Job>,
        before: Option<WrittenBatch>,
    ) -> Option<WrittenBatch> {
        if is_seeded(Fault::PublishBeforeCommit) {
            for job in &batch {
                self.notifier.tails.note_written(&job.tenant, &job.events, job.bytes);
            }
        }
        let attempts =
            BatchAttempt { journal: &mut *self.journal, outage: &self.outage, stop: &self.stop };
        *lock(&self.at_work_since) = Some(Instant::now());
        // In this order: the statement is on its way before anybody is told.
        let (done, ()) = join(attempts.write(&batch), async { self.notifier.tell(before) }).await;
        *lock(&self.at_work_since) = None;
        match done {
            Some(Ok(kept)) => {
                self.answer_probes();
                return Some(WrittenBatch { batch, kept });
            }
            Some(Err(error @ DatabaseError::Taken(_))) if batch.len() == 1 => {
                self.notifier.refuse(batch, &error);
            }
            Some(Err(error)) => {
                tracing::warn!(%error, n_runs = batch.len(), "appends isolated");
                for job in batch {
                    self.isolate(job);
                }
            }
            // Dropping the jobs answers them.
            None => {}
        }
        None
    }

    fn isolate(&self, job: Job) {
        // Whoever writes them lives as long as this writer; dropping a job answers it.
        let _ = self.isolated.send(job);
    }

    async fn probe(&mut self) {
        match self.journal.probe().await {
            Ok(()) => {
                self.outage.note_back();
                self.answer_probes();
            }
            Err(error) => {
                self.outage.note_away(&error.to_string());
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

/// How often the connection may break over a batch while the database takes other writes before
/// the batch is blamed: once can be chance.
const CHANCES: u32 = 5;

/// One batch on its way into the database.
struct BatchAttempt<'a> {
    journal: &'a mut dyn BatchWriter,
    outage: &'a Outage,
    stop: &'a CancellationToken,
}

impl BatchAttempt<'_> {
    /// Tries until the database has answered, or has refused this batch while it takes other
    /// writes. Only gives up when it is away, this process is about to end and nobody waits for
    /// an answer any more.
    async fn write(self, batch: &[Job]) -> Option<Result<Vec<bool>, DatabaseError>> {
        let mut backoff = Backoff::default();
        let mut n_broken = 0;
        loop {
            let error = match self.journal.write(batch, STATEMENT_TIMEOUT).await {
                Err(error) if !matches!(error, DatabaseError::Taken(_)) => error,
                done => {
                    self.outage.note_back();
                    return Some(done);
                }
            };
            let is_up = self.journal.probe().await.is_ok();
            if is_up {
                n_broken += 1;
                if !matches!(error, DatabaseError::Away(_)) || n_broken >= CHANCES {
                    return Some(Err(error));
                }
                sleep(backoff.next_pause()).await;
            } else {
                n_broken = 0;
                self.outage.note_away(&error.to_string());
                if !comes_back(self.journal, self.stop, batch).await {
                    return None;
                }
            }
        }
    }
}

/// Waits until the database takes writes again; not if this process is about to end and nobody
/// waits for an answer.
async fn comes_back(
    journal: &mut dyn BatchWriter,
    stop: &CancellationToken,
    batch: &[Job],
) -> bool {
    let mut backoff = Backoff::default();
    loop {
        if stop.is_cancelled() && batch.iter().all(|job| job.answer.is_closed()) {
            return false;
        }
        sleep(backoff.next_pause()).await;
        if journal.probe().await.is_ok() {
            return true;
        }
    }
}

/// Writes to the tables that appends write to, and changes nothing of note: `$1` is the worker.
/// Waits, as an append would, for whoever locks the journal.
fn probe_sql(dialect: &Dialect) -> String {
    let touch = format!(
        "insert into workers (id, lease_until, probed_at) values ($1, {now}, {now})
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

/// Tells everybody concerned what has become of a batch.
#[derive(Clone)]
pub(crate) struct CommitNotifier {
    pub(crate) tails: Arc<LiveTails>,
    pub(crate) publisher: Option<Publisher>,
}

impl CommitNotifier {
    fn tell(&self, written: Option<WrittenBatch>) {
        let Some(WrittenBatch { batch, kept }) = written else { return };
        for (job, is_kept) in batch.into_iter().zip(kept) {
            if is_kept {
                self.tails.note_written(&job.tenant, &job.events, job.bytes);
                let _ = job.answer.send(Ok(()));
                if let Some(publisher) = &self.publisher {
                    publisher.publish(job.run_id, job.rows);
                }
            } else {
                self.tails.release(&job.run_id);
                let conflict = job.conflict();
                let _ = job.answer.send(Err(conflict));
            }
        }
    }

    fn refuse(&self, batch: Vec<Job>, error: &DatabaseError) {
        for job in batch {
            let run_id = job.run_id.clone();
            let refusal = match error {
                // A second end of a call or of the run: whoever wrote the first one owns it.
                DatabaseError::Taken(index) => {
                    tracing::warn!(%run_id, index, "append refused by a unique index");
                    self.tails.release(&run_id);
                    job.conflict()
                }
                DatabaseError::Away(reason)
                | DatabaseError::TooSlow(reason)
                | DatabaseError::Refused(reason)
                | DatabaseError::Broken(reason) => {
                    tracing::error!(%run_id, bytes = job.bytes, reason, "append rejected");
                    JournalError::Rejected { run_id, reason: reason.clone() }
                }
            };
            let _ = job.answer.send(Err(refusal));
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
