//! Journal, runs and big results in memory: for embedded runs, development and tests.
//!
//! They keep the same promises as the databases do, except that nothing outlives the process.
//! Finished runs and big results are forgotten after a while, oldest first, so that a program
//! which embeds an agent does not grow with every run. Conversations are not: a program that
//! has endlessly many brings a store of its own.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::stream;
use tokio::sync::Notify;
use turnwire_contract::{
    BlobError, BlobId, BlobStore, ConversationId, EventLog, EventStream, Item, LogError, NewRun,
    Recorded, RunId, RunOutcome, RunRecord, RunStatus, RunStore, Seq, StoreError, TenantId,
};

use crate::sync::lock;

/// How many finished runs are kept unless told otherwise.
const FINISHED_RUNS_KEPT: usize = 1_000;

/// Runs are spread over this many locks, so that no two busy runs are likely to meet.
const N_SHARDS: usize = 64;

/// An event log in memory.
#[derive(Debug)]
pub struct MemoryEventLog {
    shards: Vec<Mutex<HashMap<RunId, Arc<Journal>>>>,
    finished: Mutex<VecDeque<RunId>>,
    finished_kept: usize,
}

/// The events of one run, and a bell for those who wait for more.
#[derive(Debug, Default)]
struct Journal {
    events: Mutex<Vec<Arc<Recorded>>>,
    grown: Notify,
}

impl MemoryEventLog {
    /// A log that keeps the last `finished_kept` finished runs, and all others.
    pub fn keeping(finished_kept: usize) -> Self {
        let shards = (0..N_SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, finished: Mutex::default(), finished_kept }
    }

    fn shard(&self, run_id: &RunId) -> Option<&Mutex<HashMap<RunId, Arc<Journal>>>> {
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        let place = hasher.finish() % N_SHARDS as u64;
        self.shards.get(usize::try_from(place).unwrap_or_default())
    }

    fn journal(&self, run_id: &RunId) -> Option<Arc<Journal>> {
        lock(self.shard(run_id)?).get(run_id).cloned()
    }

    /// The journal of a run, made if `first` says that this is its first event.
    fn journal_to_append(&self, run_id: &RunId, first: Seq) -> Result<Arc<Journal>, LogError> {
        let missing = || LogError::NotFound(run_id.clone());
        if first == Seq(1) {
            let mut shard = lock(self.shard(run_id).ok_or_else(missing)?);
            return Ok(shard.entry(run_id.clone()).or_default().clone());
        }
        self.journal(run_id).ok_or_else(missing)
    }

    /// Forgets the oldest finished run once there are too many.
    fn note_finished(&self, run_id: &RunId) {
        let oldest = {
            let mut finished = lock(&self.finished);
            finished.push_back(run_id.clone());
            if finished.len() <= self.finished_kept { None } else { finished.pop_front() }
        };
        if let Some(oldest) = oldest
            && let Some(shard) = self.shard(&oldest)
        {
            lock(shard).remove(&oldest);
        }
    }
}

impl Default for MemoryEventLog {
    fn default() -> Self {
        Self::keeping(FINISHED_RUNS_KEPT)
    }
}

#[async_trait]
impl EventLog for MemoryEventLog {
    async fn append(&self, batch: Vec<Arc<Recorded>>) -> Result<(), LogError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let run_id = first.run_id.clone();
        let ends = last.event.ends_the_run();
        let n_ends = batch.iter().filter(|recorded| recorded.event.ends_the_run()).count();
        let journal = self.journal_to_append(&run_id, first.seq)?;
        {
            let mut events = lock(&journal.events);
            let expected = Seq(events.len() as u64 + 1);
            let over = events.last().is_some_and(|last| last.event.ends_the_run());
            if over || first.seq != expected || n_ends > usize::from(ends) {
                return Err(LogError::Conflict { run_id, place: first.seq });
            }
            events.extend(batch);
        }
        journal.grown.notify_waiters();
        if ends {
            self.note_finished(&run_id);
        }
        Ok(())
    }

    async fn read(&self, run_id: &RunId, after: Seq) -> Result<EventStream, LogError> {
        let journal = self.journal(run_id).ok_or_else(|| LogError::NotFound(run_id.clone()))?;
        let reader = Reader { journal, after, ready: VecDeque::new() };
        Ok(Box::pin(stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            let recorded = reader.next().await;
            let more = (!recorded.event.ends_the_run()).then_some(reader);
            Some((Ok(recorded), more))
        })))
    }
}

/// A reader is a place in a journal; while nobody reads, it costs nothing else.
#[derive(Debug)]
struct Reader {
    journal: Arc<Journal>,
    after: Seq,
    ready: VecDeque<Arc<Recorded>>,
}

impl Reader {
    async fn next(&mut self) -> Arc<Recorded> {
        loop {
            if let Some(recorded) = self.ready.pop_front() {
                self.after = recorded.seq;
                return recorded;
            }
            let journal = Arc::clone(&self.journal);
            // Made before the look, so that what comes in between is not missed.
            let grown = journal.grown.notified();
            self.take_what_is_there();
            if self.ready.is_empty() {
                grown.await;
            }
        }
    }

    /// Bounded, so that a reader of a long journal does not hold a second copy of it.
    fn take_what_is_there(&mut self) {
        const AT_ONCE: usize = 256;
        let events = lock(&self.journal.events);
        let seen = usize::try_from(self.after.0).unwrap_or(usize::MAX);
        self.ready.extend(events.iter().skip(seen).take(AT_ONCE).cloned());
    }
}

/// Runs and conversations in memory.
#[derive(Debug)]
pub struct MemoryRunStore {
    kept: Mutex<Kept>,
    finished_kept: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// Each run with its number: they are numbered as they come.
    runs: HashMap<RunId, (u64, RunRecord)>,
    n_runs: u64,
    /// Those that are finished, the one finished last at the end.
    finished: VecDeque<RunId>,
    conversations: HashMap<(TenantId, ConversationId), Conversation>,
}

#[derive(Debug, Default)]
struct Conversation {
    items: Vec<Item>,
    busy_with: Option<RunId>,
}

impl MemoryRunStore {
    /// A store that remembers the last `finished_kept` finished runs, and all others.
    /// Conversations stay for as long as the store does.
    pub fn keeping(finished_kept: usize) -> Self {
        Self { kept: Mutex::default(), finished_kept }
    }
}

impl Default for MemoryRunStore {
    fn default() -> Self {
        Self::keeping(FINISHED_RUNS_KEPT)
    }
}

#[async_trait]
impl RunStore for MemoryRunStore {
    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        let NewRun { run_id, created_at, request } = run;
        let mut kept = lock(&self.kept);
        if let Some(conversation_id) = &request.conversation_id {
            let key = (request.tenant.clone(), conversation_id.clone());
            let conversation = kept.conversations.entry(key).or_default();
            if let Some(run_id) = &conversation.busy_with {
                return Err(busy(conversation_id, run_id));
            }
            conversation.busy_with = Some(run_id.clone());
        }
        kept.n_runs += 1;
        let (number, status) = (kept.n_runs, RunStatus::Active);
        let record = RunRecord { run_id: run_id.clone(), created_at, request, status };
        kept.runs.insert(run_id, (number, record));
        Ok(())
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        let kept = lock(&self.kept);
        let record = kept.runs.get(run_id).map(|(_, record)| record);
        let theirs = record.filter(|record| record.request.tenant == *tenant);
        theirs.cloned().ok_or_else(|| StoreError::NotFound(format!("run `{run_id}`")))
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        let kept = lock(&self.kept);
        let runs = kept.runs.values().filter(|(_, record)| record.request.tenant == *tenant);
        let mut theirs: Vec<&(u64, RunRecord)> = runs.collect();
        theirs.sort_unstable_by_key(|(number, _)| Reverse(*number));
        Ok(theirs.into_iter().take(most).map(|(_, record)| record.clone()).collect())
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        items: Vec<Item>,
    ) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        let Kept { runs, finished, conversations, .. } = &mut *kept;
        let Some((_, record)) = runs.get_mut(run_id) else {
            return Err(StoreError::NotFound(format!("run `{run_id}`")));
        };
        if record.status != RunStatus::Active {
            return Ok(());
        }
        record.status = RunStatus::Finished { outcome };
        if let Some(conversation_id) = record.request.conversation_id.clone() {
            let key = (record.request.tenant.clone(), conversation_id);
            let conversation = conversations.entry(key).or_default();
            conversation.items.extend(items);
            conversation.busy_with = None;
        }
        finished.push_back(run_id.clone());
        if finished.len() > self.finished_kept
            && let Some(oldest) = finished.pop_front()
        {
            runs.remove(&oldest);
        }
        Ok(())
    }

    async fn history(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Item>, StoreError> {
        let key = (tenant.clone(), conversation_id.clone());
        let kept = lock(&self.kept);
        Ok(kept.conversations.get(&key).map(|found| found.items.clone()).unwrap_or_default())
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        items: Vec<Item>,
    ) -> Result<(), StoreError> {
        let key = (tenant.clone(), conversation_id.clone());
        let mut kept = lock(&self.kept);
        let conversation = kept.conversations.entry(key).or_default();
        if let Some(run_id) = &conversation.busy_with {
            return Err(busy(conversation_id, run_id));
        }
        conversation.items = items;
        Ok(())
    }
}

fn busy(conversation_id: &ConversationId, run_id: &RunId) -> StoreError {
    StoreError::Busy { conversation_id: conversation_id.clone(), run_id: run_id.clone() }
}

/// Big results in memory: the last few, 64 unless told otherwise.
#[derive(Debug)]
pub struct MemoryBlobStore {
    blobs: Mutex<VecDeque<(TenantId, BlobId, String)>>,
    most: usize,
}

impl MemoryBlobStore {
    /// A store for the last `most` big results.
    pub fn keeping(most: usize) -> Self {
        Self { blobs: Mutex::default(), most }
    }
}

impl Default for MemoryBlobStore {
    fn default() -> Self {
        Self::keeping(64)
    }
}

#[async_trait]
impl BlobStore for MemoryBlobStore {
    async fn put(&self, tenant: &TenantId, id: &BlobId, text: String) -> Result<(), BlobError> {
        let mut blobs = lock(&self.blobs);
        blobs.push_back((tenant.clone(), id.clone(), text));
        if blobs.len() > self.most {
            blobs.pop_front();
        }
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        let blobs = lock(&self.blobs);
        let found = blobs.iter().find(|(owner, name, _)| owner == tenant && name == id);
        found.map(|(_, _, text)| text.clone()).ok_or_else(|| BlobError::NotFound(id.clone()))
    }
}
