//! Journal, runs and big results in memory: for embedded runs, development and tests.
//!
//! They keep the same promises as the databases do, except that nothing outlives the process.
//! Finished runs and big results are forgotten after a while, oldest first, so that a program
//! which embeds an agent does not grow with every run. Conversations are not: a program that
//! has endlessly many brings a store of its own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::stream;
use tokio::sync::Notify;
use turnwire_contract::{
    Allowed, BlobError, BlobId, BlobStore, ConversationId, ConversationRecord, Created, Entry,
    EventLog, EventStream, ItemId, LogError, NewRun, Pinned, Pins, Recorded, RequestKey, RunId,
    RunOutcome, RunRecord, RunStatus, RunStore, Seq, StoreError, TenantId, Timestamp,
};

use crate::sync::lock;

/// How many finished runs are kept unless told otherwise.
const FINISHED_RUNS_KEPT: usize = 1_000;

/// For how long a request's key stands for the run it made: a day.
const KEYS_HOLD_FOR_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

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
#[derive(Debug)]
struct Journal {
    tenant: TenantId,
    events: Mutex<Vec<Arc<Recorded>>>,
    grown: Notify,
}

impl Journal {
    fn of(tenant: &TenantId) -> Arc<Self> {
        let (events, grown) = (Mutex::default(), Notify::new());
        Arc::new(Self { tenant: tenant.clone(), events, grown })
    }
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

    fn journal(&self, tenant: &TenantId, run_id: &RunId) -> Result<Arc<Journal>, LogError> {
        let journal = self.shard(run_id).and_then(|shard| lock(shard).get(run_id).cloned());
        let theirs = journal.filter(|journal| journal.tenant == *tenant);
        theirs.ok_or_else(|| LogError::NotFound(run_id.clone()))
    }

    /// The journal of a run, made if `first` says that this is its first event.
    fn journal_to_append(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        first: Seq,
    ) -> Result<Arc<Journal>, LogError> {
        if first == Seq(1)
            && let Some(shard) = self.shard(run_id)
        {
            lock(shard).entry(run_id.clone()).or_insert_with(|| Journal::of(tenant));
        }
        self.journal(tenant, run_id)
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
    async fn append(&self, tenant: &TenantId, batch: Vec<Arc<Recorded>>) -> Result<(), LogError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let run_id = first.run_id.clone();
        let ends = last.event.ends_the_run();
        let n_ends = batch.iter().filter(|recorded| recorded.event.ends_the_run()).count();
        let journal = self.journal_to_append(tenant, &run_id, first.seq)?;
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

    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, LogError> {
        let journal = self.journal(tenant, run_id)?;
        let reader = Reader { journal, after, ready: VecDeque::new() };
        Ok(Box::pin(stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            let recorded = reader.next().await;
            let more = (!recorded.event.ends_the_run()).then_some(reader);
            Some((Ok(recorded), more))
        })))
    }

    async fn read_stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<Vec<Arc<Recorded>>, LogError> {
        let journal = self.journal(tenant, run_id)?;
        let seen = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(lock(&journal.events).iter().skip(seen).cloned().collect())
    }

    async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), LogError> {
        if self.journal(tenant, run_id).is_err() {
            return Ok(());
        }
        if let Some(shard) = self.shard(run_id) {
            lock(shard).remove(run_id);
        }
        lock(&self.finished).retain(|finished| finished != run_id);
        Ok(())
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
    runs: HashMap<RunId, Run>,
    n_runs: u64,
    /// Those that are finished, the one finished last at the end.
    finished: VecDeque<RunId>,
    conversations: HashMap<(TenantId, ConversationId), Conversation>,
    /// The runs that requests with a key have made, by tenant, endpoint and key.
    keys: HashMap<(TenantId, String, String), Made>,
}

/// What a request with a key has made.
#[derive(Debug)]
struct Made {
    fingerprint: String,
    run_id: RunId,
    at: Timestamp,
}

#[derive(Debug)]
struct Run {
    /// They are numbered as they come.
    number: u64,
    record: RunRecord,
    /// What came before it, and, once it is finished, what it added.
    context: Vec<Entry>,
}

#[derive(Debug)]
struct Conversation {
    created_at: Timestamp,
    metadata: BTreeMap<String, String>,
    entries: Vec<Entry>,
    busy_with: Option<RunId>,
    allowed: Vec<Allowed>,
}

impl Conversation {
    fn opened(created_at: Timestamp) -> Self {
        let (metadata, entries) = (BTreeMap::new(), Vec::new());
        Self { created_at, metadata, entries, busy_with: None, allowed: Vec::new() }
    }
}

impl Kept {
    fn run(&self, tenant: &TenantId, run_id: &RunId) -> Result<&Run, StoreError> {
        let run = self.runs.get(run_id).filter(|run| run.record.request.tenant == *tenant);
        run.ok_or_else(|| StoreError::NotFound(format!("run `{run_id}`")))
    }

    fn finished_run(&self, tenant: &TenantId, run_id: &RunId) -> Result<&Run, StoreError> {
        match self.run(tenant, run_id)? {
            run if run.record.status == RunStatus::Active => {
                Err(StoreError::Unfinished(run_id.clone()))
            }
            run => Ok(run),
        }
    }

    /// The run that the same request has made before, if it was within a day.
    fn made_by(
        &mut self,
        tenant: &TenantId,
        key: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        let oldest = now.as_micros() - KEYS_HOLD_FOR_MICROS;
        self.keys.retain(|_, made| made.at.as_micros() > oldest);
        let full = (tenant.clone(), key.endpoint.clone(), key.key.clone());
        let made = self.keys.get(&full).filter(|made| self.runs.contains_key(&made.run_id));
        match made {
            Some(made) if made.fingerprint != key.fingerprint => {
                Err(StoreError::KeyReused(key.key.clone()))
            }
            made => Ok(made.map(|made| made.run_id.clone())),
        }
    }

    fn conversation(
        &mut self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<&mut Conversation, StoreError> {
        let found = self.conversations.get_mut(&(tenant.clone(), id.clone()));
        found.ok_or_else(|| StoreError::NotFound(format!("conversation `{id}`")))
    }

    /// A conversation that no run is adding to.
    fn idle_conversation(
        &mut self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<&mut Conversation, StoreError> {
        let conversation = self.conversation(tenant, id)?;
        match conversation.busy_with.clone() {
            Some(run_id) => Err(StoreError::Busy { conversation_id: id.clone(), run_id }),
            None => Ok(conversation),
        }
    }
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
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        let NewRun { run_id, created_at, request, key, beginning: _ } = run;
        let mut kept = lock(&self.kept);
        if let Some(key) = &key
            && let Some(before) = kept.made_by(&request.tenant, key, created_at)?
        {
            return Ok(Created::Before(before));
        }
        let context = match (&request.conversation_id, &request.continues) {
            (Some(id), _) => {
                let key = (request.tenant.clone(), id.clone());
                let opened = || Conversation::opened(created_at);
                kept.conversations.entry(key).or_insert_with(opened);
                let conversation = kept.idle_conversation(&request.tenant, id)?;
                conversation.busy_with = Some(run_id.clone());
                conversation.entries.clone()
            }
            (None, Some(before)) => kept.finished_run(&request.tenant, before)?.context.clone(),
            (None, None) => request.before.clone(),
        };
        kept.n_runs += 1;
        let (number, status) = (kept.n_runs, RunStatus::Active);
        let (id, stalled) = (run_id.clone(), None);
        let record = RunRecord { run_id: id, created_at, request, status, stalled };
        if let Some(key) = key {
            let RequestKey { endpoint, key, fingerprint } = key;
            let made = Made { fingerprint, run_id: run_id.clone(), at: created_at };
            kept.keys.insert((record.request.tenant.clone(), endpoint, key), made);
        }
        kept.runs.insert(run_id, Run { number, record, context });
        Ok(Created::New)
    }

    async fn made_by(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        lock(&self.kept).made_by(tenant, key, now)
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        Ok(lock(&self.kept).run(tenant, run_id)?.record.clone())
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        let kept = lock(&self.kept);
        let runs = kept.runs.values().filter(|run| run.record.request.tenant == *tenant);
        let mut theirs: Vec<&Run> = runs.collect();
        theirs.sort_unstable_by_key(|run| Reverse(run.number));
        Ok(theirs.into_iter().take(most).map(|run| run.record.clone()).collect())
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        let Kept { runs, finished, conversations, .. } = &mut *kept;
        let Some(Run { record, context, .. }) = runs.get_mut(run_id) else {
            return Err(StoreError::NotFound(format!("run `{run_id}`")));
        };
        if record.status != RunStatus::Active {
            return Ok(());
        }
        record.status = RunStatus::Finished { outcome };
        context.extend(entries.iter().cloned());
        if let Some(conversation_id) = record.request.conversation_id.clone() {
            let key = (record.request.tenant.clone(), conversation_id);
            if let Some(conversation) = conversations.get_mut(&key) {
                conversation.entries.extend(entries);
                conversation.busy_with = None;
            }
        }
        finished.push_back(run_id.clone());
        if finished.len() > self.finished_kept
            && let Some(oldest) = finished.pop_front()
        {
            runs.remove(&oldest);
        }
        Ok(())
    }

    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        Ok(lock(&self.kept).finished_run(tenant, run_id)?.context.clone())
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        let kept = lock(&self.kept);
        let runs = kept.runs.values().filter(|run| run.record.request.tenant == *tenant);
        let conversations = kept.conversations.iter().filter(|((owner, _), _)| owner == tenant);
        let entries = runs
            .flat_map(|run| &run.context)
            .chain(conversations.flat_map(|(_, conversation)| &conversation.entries));
        // A run that continues another has its entries too; each is wanted once.
        let mut wanted: HashSet<&ItemId> = names.iter().collect();
        Ok(entries.filter(|entry| wanted.remove(&entry.id)).cloned().collect())
    }

    async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        kept.finished_run(tenant, run_id)?;
        kept.runs.remove(run_id);
        kept.finished.retain(|finished| finished != run_id);
        Ok(())
    }

    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError> {
        let ConversationRecord { id, created_at, metadata } = conversation;
        let mut kept = lock(&self.kept);
        if kept.conversation(tenant, &id).is_ok() {
            return Err(StoreError::Exists(format!("conversation `{id}`")));
        }
        let opened = Conversation { metadata, ..Conversation::opened(created_at) };
        kept.conversations.insert((tenant.clone(), id), opened);
        Ok(())
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        let mut kept = lock(&self.kept);
        let Conversation { created_at, metadata, .. } = kept.conversation(tenant, id)?;
        let (id, metadata) = (id.clone(), metadata.clone());
        Ok(ConversationRecord { id, created_at: *created_at, metadata })
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        lock(&self.kept).conversation(tenant, id)?.metadata = metadata;
        Ok(())
    }

    async fn forget_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        kept.idle_conversation(tenant, id)?;
        kept.conversations.remove(&(tenant.clone(), id.clone()));
        Ok(())
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut kept = lock(&self.kept);
        Ok(kept.conversation(tenant, id).map(|found| found.entries.clone()).unwrap_or_default())
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        lock(&self.kept).idle_conversation(tenant, id)?.entries.extend(entries);
        Ok(())
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        let entries = &mut kept.idle_conversation(tenant, id)?.entries;
        let n_before = entries.len();
        entries.retain(|entry| entry.id != *item_id);
        if entries.len() == n_before {
            return Err(StoreError::NotFound(format!("item `{item_id}`")));
        }
        Ok(())
    }

    async fn allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        let mut kept = lock(&self.kept);
        Ok(kept.conversation(tenant, id).map(|found| found.allowed.clone()).unwrap_or_default())
    }

    async fn allow(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError> {
        let mut kept = lock(&self.kept);
        let known = &mut kept.conversation(tenant, id)?.allowed;
        if !known.contains(&allowed) {
            known.push(allowed);
        }
        Ok(())
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        let ConversationRecord { id, created_at, metadata } = conversation;
        let mut kept = lock(&self.kept);
        if let Err(busy @ StoreError::Busy { .. }) = kept.idle_conversation(tenant, &id) {
            return Err(busy);
        }
        let restored = Conversation { metadata, entries, ..Conversation::opened(created_at) };
        kept.conversations.insert((tenant.clone(), id), restored);
        Ok(())
    }
}

/// Trusted definitions of tools, in memory.
#[derive(Debug, Default)]
pub struct MemoryPins {
    /// By tenant, server and tool.
    trusted: Mutex<HashMap<(TenantId, String, String), String>>,
}

#[async_trait]
impl Pins for MemoryPins {
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[Pinned],
    ) -> Result<Vec<Pinned>, StoreError> {
        let mut trusted = lock(&self.trusted);
        let met = tools.iter().map(|Pinned { tool, definition }| {
            let key = (tenant.clone(), server.to_owned(), tool.clone());
            let definition = trusted.entry(key).or_insert_with(|| definition.clone()).clone();
            Pinned { tool: tool.clone(), definition }
        });
        Ok(met.collect())
    }

    async fn trust(&self, tenant: &TenantId, server: &str, tool: Pinned) -> Result<(), StoreError> {
        let Pinned { tool, definition } = tool;
        lock(&self.trusted).insert((tenant.clone(), server.to_owned(), tool), definition);
        Ok(())
    }
}

/// Big results in memory: the last few, 64 unless told otherwise.
#[derive(Debug)]
pub struct MemoryBlobStore {
    blobs: Mutex<VecDeque<Blob>>,
    most: usize,
}

#[derive(Debug)]
struct Blob {
    tenant: TenantId,
    run_id: RunId,
    id: BlobId,
    text: String,
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
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        let (tenant, run_id, id) = (tenant.clone(), run_id.clone(), id.clone());
        let mut blobs = lock(&self.blobs);
        blobs.push_back(Blob { tenant, run_id, id, text });
        if blobs.len() > self.most {
            blobs.pop_front();
        }
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        let blobs = lock(&self.blobs);
        let found = blobs.iter().find(|blob| blob.tenant == *tenant && blob.id == *id);
        found.map(|blob| blob.text.clone()).ok_or_else(|| BlobError::NotFound(id.clone()))
    }

    async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        lock(&self.blobs).retain(|blob| blob.tenant != *tenant || blob.run_id != *run_id);
        Ok(())
    }
}
