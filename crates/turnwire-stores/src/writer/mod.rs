//! The one writer of this process: it commits the events of all runs together.
//!
//! Whoever appends hands its rows over and waits. What has gathered while one batch is being
//! committed is the next batch, so the busier a node is, the more runs share a commit, and none
//! waits longer than for the commit before its own.
//!
//! A batch that got no answer is sent again as it is: its rows carry a tag, by which the writer
//! tells what it has written itself from what somebody else has. While the database is away it is
//! sent again and again; its runs wait meanwhile.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI64, Ordering},
    },
};

use async_trait::async_trait;
use futures::future::join;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{
    Ending, LogError, Recorded, RunId, Seq, TenantId,
    seeded::{Fault, is_seeded},
};

use crate::{
    database::DatabaseError,
    news::Publisher,
    outage::{Outage, Patience},
    rows::{EventRow, to_rows},
    tails::Tails,
};

mod postgres;
mod sqlite;

pub(crate) use postgres::PostgresJournal;
pub(crate) use sqlite::SqliteJournal;

/// How many appends wait to be taken into a batch. The rest wait for their turn to wait.
const QUEUE: usize = 4096;

/// How many appends make a batch at most, and how much they may weigh together. One that weighs
/// more is a batch of its own.
const BATCH_JOBS: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What somebody wants to append.
pub(crate) struct Job {
    tenant: TenantId,
    run_id: RunId,
    tag: i64,
    events: Vec<Arc<Recorded>>,
    rows: Vec<EventRow>,
    bytes: usize,
    ending: Option<Ending>,
    answer: oneshot::Sender<Result<(), LogError>>,
}

impl Job {
    fn first(&self) -> Seq {
        self.events.first().map_or(Seq::START, |first| first.seq)
    }

    fn conflict(&self) -> LogError {
        LogError::Conflict { run_id: self.run_id.clone(), place: self.first() }
    }
}

/// Where batches are written.
#[async_trait]
pub(crate) trait Journal: Send {
    /// Writes all `jobs`, each of another run, and tells which of them are kept: those that won
    /// their place now, or had won it before. The others left nothing behind. If this fails, it
    /// may have happened all the same, and can be done again.
    async fn write(&mut self, jobs: &[Job]) -> Result<Vec<bool>, DatabaseError>;
}

/// The way to the writer.
#[derive(Debug, Clone)]
pub(crate) struct WriterHandle {
    jobs: mpsc::Sender<Job>,
}

impl WriterHandle {
    /// Appends `events` of one run, which must not be empty.
    pub(crate) async fn append(
        &self,
        tenant: &TenantId,
        events: Vec<Arc<Recorded>>,
        ending: Option<Ending>,
    ) -> Result<(), LogError> {
        let Some(first) = events.first() else { return Ok(()) };
        let run_id = first.run_id.clone();
        let rows = to_rows(&events).map_err(|error| LogError::Unavailable(error.to_string()))?;
        let bytes = rows.iter().map(|row| row.body.len()).sum();
        let (answer, answered) = oneshot::channel();
        let tag = new_tag();
        let job = Job { tenant: tenant.clone(), run_id, tag, events, rows, bytes, ending, answer };
        let closed = || LogError::Unavailable("the store is closed".to_owned());
        self.jobs.send(job).await.map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }
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
    jobs: mpsc::Receiver<Job>,
    /// Taken from the queue, and not yet in a batch.
    waiting: VecDeque<Job>,
    journal: Box<dyn Journal>,
    herald: Herald,
    outage: Arc<Outage>,
    stop: CancellationToken,
}

/// A batch that the database has answered, and what it has kept of it.
struct Written {
    batch: Vec<Job>,
    kept: Vec<bool>,
}

impl Writer {
    /// A writer that stops when it is told to, after it has written what it was given before.
    pub(crate) fn new(
        journal: Box<dyn Journal>,
        tails: Arc<Tails>,
        publisher: Option<Publisher>,
        outage: Arc<Outage>,
        stop: CancellationToken,
    ) -> (WriterHandle, Self) {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let waiting = VecDeque::new();
        let herald = Herald { tails, publisher };
        let writer = Self { jobs, waiting, journal, herald, outage, stop };
        (WriterHandle { jobs: sender }, writer)
    }

    /// Writes until there is nobody left who could append, or it is told to stop.
    pub(crate) async fn run(mut self) {
        let mut written = None;
        loop {
            while self.waiting.len() < BATCH_JOBS
                && let Ok(job) = self.jobs.try_recv()
            {
                self.waiting.push_back(job);
            }
            if self.waiting.is_empty() {
                // Nothing to do meanwhile.
                self.herald.tell(written.take());
                if !self.has_work().await {
                    return;
                }
            }
            let batch = self.take_batch();
            written = self.write(batch, written).await;
        }
    }

    /// Waits for something to write. There will be nothing any more if this says no.
    async fn has_work(&mut self) -> bool {
        let mut arrived = Vec::new();
        let stop = self.stop.clone();
        let n = tokio::select! {
            n = self.jobs.recv_many(&mut arrived, BATCH_JOBS) => n,
            () = stop.cancelled(), if !self.jobs.is_closed() => {
                self.jobs.close();
                self.jobs.recv_many(&mut arrived, BATCH_JOBS).await
            }
        };
        self.waiting.extend(arrived);
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
    async fn write(&mut self, batch: Vec<Job>, before: Option<Written>) -> Option<Written> {
        if is_seeded(Fault::PublishBeforeCommit) {
            for job in &batch {
                self.herald.tails.written(&job.tenant, &job.events, job.bytes);
            }
        }
        let attempts =
            Attempts { journal: &mut *self.journal, outage: &self.outage, stop: &self.stop };
        // In this order: the statement is on its way before anybody is told.
        let (done, ()) = join(attempts.write(&batch), async { self.herald.tell(before) }).await;
        match done {
            Some(Ok(kept)) => Some(Written { batch, kept }),
            Some(Err(_)) if batch.len() > 1 => {
                // One of them is guilty; the others are not to suffer for it.
                for job in batch {
                    let written = Box::pin(self.write(vec![job], None)).await;
                    self.herald.tell(written);
                }
                None
            }
            Some(Err(error)) => {
                self.herald.refuse(batch, &error);
                None
            }
            // Dropping the jobs answers them.
            None => None,
        }
    }
}

/// One batch on its way into the database.
struct Attempts<'a> {
    journal: &'a mut dyn Journal,
    outage: &'a Outage,
    stop: &'a CancellationToken,
}

impl Attempts<'_> {
    /// Tries until the database has answered; only gives up when it is away, this process is
    /// about to end and nobody waits for an answer any more.
    async fn write(self, batch: &[Job]) -> Option<Result<Vec<bool>, DatabaseError>> {
        let mut patience = Patience::default();
        loop {
            match self.journal.write(batch).await {
                Err(DatabaseError::Away(words)) => self.outage.note_away(&words),
                done => {
                    self.outage.note_back();
                    return Some(done);
                }
            }
            if self.stop.is_cancelled() && batch.iter().all(|job| job.answer.is_closed()) {
                return None;
            }
            sleep(patience.next_pause()).await;
        }
    }
}

/// Tells everybody concerned what has become of a batch.
struct Herald {
    tails: Arc<Tails>,
    publisher: Option<Publisher>,
}

impl Herald {
    fn tell(&self, written: Option<Written>) {
        let Some(Written { batch, kept }) = written else { return };
        for (job, is_kept) in batch.into_iter().zip(kept) {
            if is_kept {
                self.tails.written(&job.tenant, &job.events, job.bytes);
                let _ = job.answer.send(Ok(()));
                if let Some(publisher) = &self.publisher {
                    publisher.publish(job.run_id, job.rows);
                }
            } else {
                self.tails.let_go(&job.run_id);
                let conflict = job.conflict();
                let _ = job.answer.send(Err(conflict));
            }
        }
    }

    fn refuse(&self, batch: Vec<Job>, error: &DatabaseError) {
        for job in batch {
            let run_id = &job.run_id;
            let refusal = match error {
                // A second end of a call or of the run: whoever wrote the first one owns it.
                DatabaseError::Taken(index) => {
                    tracing::warn!(%run_id, index, "an append was refused");
                    self.tails.let_go(run_id);
                    job.conflict()
                }
                DatabaseError::Away(words)
                | DatabaseError::Refused(words)
                | DatabaseError::Broken(words) => {
                    tracing::error!(%run_id, "an append failed: {words}");
                    LogError::Unavailable(words.clone())
                }
            };
            let _ = job.answer.send(Err(refusal));
        }
    }
}
