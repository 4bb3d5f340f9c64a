//! In-memory runs and conversations.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    future::pending,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use turnwire_contract::{
    Allowed, ConversationId, ConversationRecord, Conversations, Created, Entries, Entry,
    IdempotencyKey, ItemId, NewRun, RunId, RunOutcome, RunProgress, RunRecord, RunRecords,
    RunStatus, RunSummary, SealedSecret, StoreError, TenantId, Timestamp, ports::Result,
};

use super::{FINISHED_RUNS_KEPT, FinishedRuns, MemoryJournal, json_length};
use crate::sync::lock;

/// Lifetime of an idempotency key: one day.
const KEYS_HOLD_FOR_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Runs and conversations in memory.
#[derive(Debug)]
pub struct MemoryRunStore {
    kept: Mutex<StoreState>,
    /// The journal of the same runs.
    journal: Option<Arc<MemoryJournal>>,
}

#[derive(Debug)]
struct StoreState {
    runs: HashMap<RunId, Run>,
    n_runs: u64,
    finished: FinishedRuns,
    conversations: HashMap<(TenantId, ConversationId), Conversation>,
    /// Runs by tenant, endpoint and idempotency key.
    keys: HashMap<(TenantId, String, String), KeyedRun>,
}

/// The run created by a request with an idempotency key.
#[derive(Debug)]
struct KeyedRun {
    fingerprint: String,
    run_id: RunId,
    at: Timestamp,
}

#[derive(Debug)]
struct Run {
    /// Creation order.
    number: u64,
    record: RunRecord,
    /// The context of the run and, once finished, its added entries.
    context: Vec<Entry>,
    /// Encrypted, and deleted when the run ends.
    secrets: Vec<SealedSecret>,
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

    /// Takes the entry `from` and everything after it out. Runs keep their contexts.
    fn supersede(&mut self, from: &ItemId) -> Result<()> {
        let position = self.entries.iter().position(|entry| entry.id == *from);
        let position = position.ok_or_else(|| StoreError::NotFound(format!("item `{from}`")))?;
        self.entries.truncate(position);
        Ok(())
    }
}

impl StoreState {
    fn run(&self, tenant: &TenantId, run_id: &RunId) -> Result<&Run> {
        let run = self.runs.get(run_id).filter(|run| run.record.request.tenant == *tenant);
        run.ok_or_else(|| StoreError::NotFound(format!("run `{run_id}`")))
    }

    fn finished_run(&self, tenant: &TenantId, run_id: &RunId) -> Result<&Run> {
        match self.run(tenant, run_id)? {
            run if run.record.status == RunStatus::Active => {
                Err(StoreError::Unfinished(run_id.clone()))
            }
            run => Ok(run),
        }
    }

    /// Finds the run that the same request created within the last day.
    fn find_by_key(
        &mut self,
        tenant: &TenantId,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Option<RunId>> {
        let oldest = now.as_micros() - KEYS_HOLD_FOR_MICROS;
        self.keys.retain(|_, made| made.at.as_micros() > oldest);
        let full = (tenant.clone(), key.endpoint.clone(), key.key.clone());
        let made = self.keys.get(&full).filter(|made| self.runs.contains_key(&made.run_id));
        match made {
            Some(made) if made.fingerprint != key.fingerprint => {
                Err(StoreError::IdempotencyKeyReused(key.key.clone()))
            }
            made => Ok(made.map(|made| made.run_id.clone())),
        }
    }

    fn conversation(
        &mut self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<&mut Conversation> {
        let found = self.conversations.get_mut(&(tenant.clone(), id.clone()));
        found.ok_or_else(|| StoreError::NotFound(format!("conversation `{id}`")))
    }

    /// Returns a conversation without an active run.
    fn idle_conversation(
        &mut self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<&mut Conversation> {
        let conversation = self.conversation(tenant, id)?;
        match conversation.busy_with.clone() {
            Some(run_id) => Err(StoreError::Busy { conversation_id: id.clone(), run_id }),
            None => Ok(conversation),
        }
    }
}

impl MemoryRunStore {
    /// Creates a store that keeps all live runs and the last `finished_kept` finished ones.
    /// Conversations are never deleted.
    pub fn keeping(finished_kept: usize) -> Self {
        let finished = FinishedRuns::keeping(finished_kept);
        let (runs, conversations, keys) = (HashMap::new(), HashMap::new(), HashMap::new());
        let kept = StoreState { runs, n_runs: 0, finished, conversations, keys };
        Self { kept: Mutex::new(kept), journal: None }
    }

    /// Lists runs with what the events in `journal` say about them.
    pub fn beside(self, journal: &Arc<MemoryJournal>) -> Self {
        Self { journal: Some(Arc::clone(journal)), ..self }
    }

    /// Limits the total size of finished runs.
    pub fn within_bytes(self, max_bytes: usize) -> Self {
        lock(&self.kept).finished.max_bytes = max_bytes;
        self
    }
}

impl Default for MemoryRunStore {
    fn default() -> Self {
        Self::keeping(FINISHED_RUNS_KEPT)
    }
}

#[async_trait]
impl RunRecords for MemoryRunStore {
    async fn create(&self, run: NewRun) -> Result<Created> {
        let NewRun { run_id, created_at, request, idempotency_key: key, first_events: _, secrets } =
            run;
        let mut kept = lock(&self.kept);
        if let Some(key) = &key
            && let Some(before) = kept.find_by_key(&request.tenant, key, created_at)?
        {
            return Ok(Created::Existing(before));
        }
        let context = match (&request.conversation_id, &request.continues) {
            (Some(id), _) => {
                let key = (request.tenant.clone(), id.clone());
                let opened = || Conversation::opened(created_at);
                kept.conversations.entry(key).or_insert_with(opened);
                let conversation = kept.idle_conversation(&request.tenant, id)?;
                if let Some(from) = &request.replaces {
                    conversation.supersede(from)?;
                }
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
            let IdempotencyKey { endpoint, key, fingerprint } = key;
            let made = KeyedRun { fingerprint, run_id: run_id.clone(), at: created_at };
            kept.keys.insert((record.request.tenant.clone(), endpoint, key), made);
        }
        kept.runs.insert(run_id, Run { number, record, context, secrets });
        Ok(Created::RowOnly)
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Option<RunId>> {
        lock(&self.kept).find_by_key(tenant, key, now)
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        Ok(lock(&self.kept).run(tenant, run_id)?.record.clone())
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>> {
        let kept = lock(&self.kept);
        let runs = kept.runs.values().filter(|run| run.record.request.tenant == *tenant);
        let mut theirs: Vec<&Run> = runs.collect();
        theirs.sort_unstable_by_key(|run| Reverse(run.number));
        Ok(theirs.into_iter().take(most).map(|run| run.record.clone()).collect())
    }

    async fn summaries(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunSummary>> {
        let records = self.list(tenant, most).await?.into_iter();
        let summary = |record: RunRecord| {
            let progress = match &self.journal {
                Some(journal) => journal.progress(tenant, &record.run_id),
                None => RunProgress::default(),
            };
            RunSummary::of(record, &progress)
        };
        Ok(records.map(summary).collect())
    }

    async fn change_noted(&self) {
        match &self.journal {
            Some(journal) => journal.progressed().await,
            None => pending().await,
        }
    }

    async fn secrets(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<SealedSecret>> {
        let kept = lock(&self.kept);
        Ok(kept.run(tenant, run_id).map(|run| run.secrets.clone()).unwrap_or_default())
    }

    async fn finish(&self, run_id: &RunId, outcome: RunOutcome, entries: Vec<Entry>) -> Result<()> {
        let mut kept = lock(&self.kept);
        let StoreState { runs, finished, conversations, .. } = &mut *kept;
        let Some(Run { record, context, secrets, .. }) = runs.get_mut(run_id) else {
            return Err(StoreError::NotFound(format!("run `{run_id}`")));
        };
        if record.status != RunStatus::Active {
            return Ok(());
        }
        record.status = RunStatus::Finished { outcome };
        secrets.clear();
        // The context is shared with earlier runs and is not counted.
        let n_bytes = json_length(&record.request) + json_length(&entries);
        context.extend(entries.iter().cloned());
        if let Some(conversation_id) = record.request.conversation_id.clone() {
            let key = (record.request.tenant.clone(), conversation_id);
            if let Some(conversation) = conversations.get_mut(&key) {
                conversation.entries.extend(entries);
                conversation.busy_with = None;
            }
        }
        for forgotten in finished.add(run_id.clone(), n_bytes) {
            runs.remove(&forgotten);
        }
        Ok(())
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<()> {
        let mut kept = lock(&self.kept);
        kept.finished_run(tenant, run_id)?;
        kept.runs.remove(run_id);
        kept.finished.remove(run_id);
        Ok(())
    }
}

#[async_trait]
impl Conversations for MemoryRunStore {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<()> {
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
    ) -> Result<ConversationRecord> {
        let mut kept = lock(&self.kept);
        let Conversation { created_at, metadata, .. } = kept.conversation(tenant, id)?;
        let (id, metadata) = (id.clone(), metadata.clone());
        Ok(ConversationRecord { id, created_at: *created_at, metadata })
    }

    async fn active_run(&self, tenant: &TenantId, id: &ConversationId) -> Result<Option<RunId>> {
        let mut kept = lock(&self.kept);
        Ok(kept.conversation(tenant, id).ok().and_then(|found| found.busy_with.clone()))
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<()> {
        lock(&self.kept).conversation(tenant, id)?.metadata = metadata;
        Ok(())
    }

    async fn delete_conversation(&self, tenant: &TenantId, id: &ConversationId) -> Result<()> {
        let mut kept = lock(&self.kept);
        kept.idle_conversation(tenant, id)?;
        kept.conversations.remove(&(tenant.clone(), id.clone()));
        Ok(())
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<()> {
        let ConversationRecord { id, created_at, metadata } = conversation;
        let mut kept = lock(&self.kept);
        if let Err(busy @ StoreError::Busy { .. }) = kept.idle_conversation(tenant, &id) {
            return Err(busy);
        }
        let restored = Conversation { metadata, entries, ..Conversation::opened(created_at) };
        kept.conversations.insert((tenant.clone(), id), restored);
        Ok(())
    }

    async fn allowed(&self, tenant: &TenantId, id: &ConversationId) -> Result<Vec<Allowed>> {
        let mut kept = lock(&self.kept);
        Ok(kept.conversation(tenant, id).map(|found| found.allowed.clone()).unwrap_or_default())
    }

    async fn allow(&self, tenant: &TenantId, id: &ConversationId, allowed: Allowed) -> Result<()> {
        let mut kept = lock(&self.kept);
        let known = &mut kept.conversation(tenant, id)?.allowed;
        if !known.contains(&allowed) {
            known.push(allowed);
        }
        Ok(())
    }
}

#[async_trait]
impl Entries for MemoryRunStore {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>> {
        Ok(lock(&self.kept).finished_run(tenant, run_id)?.context.clone())
    }

    async fn entries_named(&self, tenant: &TenantId, names: &[ItemId]) -> Result<Vec<Entry>> {
        let kept = lock(&self.kept);
        let runs = kept.runs.values().filter(|run| run.record.request.tenant == *tenant);
        let conversations = kept.conversations.iter().filter(|((owner, _), _)| owner == tenant);
        let entries = runs
            .flat_map(|run| &run.context)
            .chain(conversations.flat_map(|(_, conversation)| &conversation.entries));
        // A continued run shares entries; each is returned once.
        let mut wanted: HashSet<&ItemId> = names.iter().collect();
        Ok(entries.filter(|entry| wanted.remove(&entry.id)).cloned().collect())
    }

    async fn history(&self, tenant: &TenantId, id: &ConversationId) -> Result<Vec<Entry>> {
        let mut kept = lock(&self.kept);
        Ok(kept.conversation(tenant, id).map(|found| found.entries.clone()).unwrap_or_default())
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<()> {
        lock(&self.kept).idle_conversation(tenant, id)?.entries.extend(entries);
        Ok(())
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<()> {
        let mut kept = lock(&self.kept);
        let entries = &mut kept.idle_conversation(tenant, id)?.entries;
        let n_before = entries.len();
        entries.retain(|entry| entry.id != *item_id);
        if entries.len() == n_before {
            return Err(StoreError::NotFound(format!("item `{item_id}`")));
        }
        Ok(())
    }
}
