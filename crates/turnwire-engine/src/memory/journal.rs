//! The in-memory journal.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::stream;
use tokio::sync::Notify;
use turnwire_contract::{
    EventStream, Journal, JournalError, JournalHead, RecordedEvent, RunId, RunProgress, Seq,
    TenantId,
};

use super::{FINISHED_RUNS_KEPT, FinishedRuns, json_length};
use crate::{Result, output::delta_of, sync::lock};

/// Number of lock shards, to reduce contention between runs.
const N_SHARDS: usize = 64;

/// An in-memory [`Journal`].
#[derive(Debug)]
pub struct MemoryJournal {
    shards: Vec<Mutex<HashMap<RunId, Arc<RunJournal>>>>,
    finished: Mutex<FinishedRuns>,
    /// Notified when the progress of a run changes.
    progressed: Notify,
}

/// The events of one run, with a notification for followers.
#[derive(Debug)]
struct RunJournal {
    tenant: TenantId,
    events: Mutex<Vec<Arc<RecordedEvent>>>,
    progress: Mutex<RunProgress>,
    n_bytes: AtomicUsize,
    grown: Notify,
}

impl RunJournal {
    fn of(tenant: &TenantId) -> Arc<Self> {
        let (events, progress) = (Mutex::default(), Mutex::default());
        let (n_bytes, grown) = (AtomicUsize::new(0), Notify::new());
        Arc::new(Self { tenant: tenant.clone(), events, progress, n_bytes, grown })
    }
}

impl MemoryJournal {
    /// Creates a journal that stores all live runs and the last `finished_kept` finished ones.
    pub fn keeping(finished_kept: usize) -> Self {
        let shards = (0..N_SHARDS).map(|_| Mutex::default()).collect();
        let finished = Mutex::new(FinishedRuns::keeping(finished_kept));
        Self { shards, finished, progressed: Notify::new() }
    }

    /// Limits the total size of finished runs.
    pub fn within_bytes(self, max_bytes: usize) -> Self {
        lock(&self.finished).max_bytes = max_bytes;
        self
    }

    /// Returns what a list says about the events of a run.
    pub(super) fn progress(&self, tenant: &TenantId, run_id: &RunId) -> RunProgress {
        let journal = self.journal(tenant, run_id);
        journal.map(|journal| lock(&journal.progress).clone()).unwrap_or_default()
    }

    /// Waits until the progress of a run changes.
    pub(super) async fn progressed(&self) {
        self.progressed.notified().await;
    }

    fn shard(&self, run_id: &RunId) -> Option<&Mutex<HashMap<RunId, Arc<RunJournal>>>> {
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        let seq = hasher.finish() % N_SHARDS as u64;
        self.shards.get(usize::try_from(seq).unwrap_or_default())
    }

    fn journal(&self, tenant: &TenantId, run_id: &RunId) -> Result<Arc<RunJournal>> {
        let journal = self.shard(run_id).and_then(|shard| lock(shard).get(run_id).cloned());
        let theirs = journal.filter(|journal| journal.tenant == *tenant);
        theirs.ok_or_else(|| JournalError::NotFound(run_id.clone()))
    }

    /// Returns the journal of a run. Creates it if `first` marks the first event.
    fn journal_to_append(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        first: Seq,
    ) -> Result<Arc<RunJournal>> {
        if first == Seq(1)
            && let Some(shard) = self.shard(run_id)
        {
            lock(shard).entry(run_id.clone()).or_insert_with(|| RunJournal::of(tenant));
        }
        self.journal(tenant, run_id)
    }

    /// Deletes the oldest finished runs above the limits.
    fn note_finished(&self, run_id: &RunId, n_bytes: usize) {
        let forgotten = lock(&self.finished).add(run_id.clone(), n_bytes);
        for run_id in forgotten {
            if let Some(shard) = self.shard(&run_id) {
                lock(shard).remove(&run_id);
            }
        }
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::keeping(FINISHED_RUNS_KEPT)
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn append(&self, tenant: &TenantId, batch: Vec<Arc<RecordedEvent>>) -> Result<()> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let run_id = first.run_id.clone();
        let ends = last.event.ends_the_run();
        let n_ends = batch.iter().filter(|recorded| recorded.event.ends_the_run()).count();
        let journal = self.journal_to_append(tenant, &run_id, first.seq)?;
        let n_bytes: usize = batch.iter().map(|recorded| event_bytes(recorded)).sum();
        {
            let mut events = lock(&journal.events);
            let expected = Seq(events.len() as u64 + 1);
            let over = events.last().is_some_and(|last| last.event.ends_the_run());
            if over || first.seq != expected || n_ends > usize::from(ends) {
                return Err(JournalError::Conflict { run_id, seq: first.seq });
            }
            if batch.iter().any(|recorded| RunProgress::concerns(&recorded.event)) {
                let mut progress = lock(&journal.progress);
                for recorded in &batch {
                    progress.note(recorded);
                }
                self.progressed.notify_waiters();
            }
            events.extend(batch);
        }
        let before = journal.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        journal.grown.notify_waiters();
        if ends {
            self.note_finished(&run_id, before + n_bytes);
        }
        Ok(())
    }

    async fn read(&self, tenant: &TenantId, run_id: &RunId, after: Seq) -> Result<EventStream> {
        let journal = self.journal(tenant, run_id)?;
        let reader = JournalReader { journal, after, ready: VecDeque::new() };
        Ok(Box::pin(stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            let recorded = reader.next().await;
            let more = (!recorded.event.ends_the_run()).then_some(reader);
            Some((Ok(recorded), more))
        })))
    }

    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead> {
        let journal = self.journal(tenant, run_id)?;
        let events = lock(&journal.events);
        let is_over = events.last().is_some_and(|last| last.event.ends_the_run());
        Ok(JournalHead { last: Seq(events.len() as u64), is_over })
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<()> {
        if self.journal(tenant, run_id).is_err() {
            return Ok(());
        }
        if let Some(shard) = self.shard(run_id) {
            lock(shard).remove(run_id);
        }
        lock(&self.finished).remove(run_id);
        Ok(())
    }
}

/// A reader is a position in a journal. It buffers nothing between reads.
#[derive(Debug)]
struct JournalReader {
    journal: Arc<RunJournal>,
    after: Seq,
    ready: VecDeque<Arc<RecordedEvent>>,
}

impl JournalReader {
    async fn next(&mut self) -> Arc<RecordedEvent> {
        loop {
            if let Some(recorded) = self.ready.pop_front() {
                self.after = recorded.seq;
                return recorded;
            }
            let journal = Arc::clone(&self.journal);
            // Registered before the check, so that no notification is missed.
            let grown = journal.grown.notified();
            self.take_what_is_there();
            if self.ready.is_empty() {
                grown.await;
            }
        }
    }

    /// Bounded, so that a reader never copies a whole long journal.
    fn take_what_is_there(&mut self) {
        const AT_ONCE: usize = 256;
        let events = lock(&self.journal.events);
        let seen = usize::try_from(self.after.0).unwrap_or(usize::MAX);
        self.ready.extend(events.iter().skip(seen).take(AT_ONCE).cloned());
    }
}

/// Estimates the size of an event in bytes.
fn event_bytes(recorded: &RecordedEvent) -> usize {
    // Frequent deltas are measured without serialization.
    let text = match (delta_of(&recorded.event), &recorded.event) {
        (Some(text), _) => text.len(),
        (None, event) => json_length(event),
    };
    size_of::<RecordedEvent>() + text
}
