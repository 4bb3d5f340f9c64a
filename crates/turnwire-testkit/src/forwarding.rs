//! A store behind a watcher: every call is forwarded, and the watcher may delay it, count it, fail
//! it, or lose its answer.
//!
//! Tests that need a slow or broken store say in a [`Watcher`] what differs, and leave the rest to
//! [`Forwarding`].

use std::{collections::BTreeMap, fmt, ops::Deref, sync::Arc, time::Duration};

use async_trait::async_trait;
use turnwire_contract::{
    AbandonedRun, Allowed, BlobError, BlobId, BlobStore, Commands, ConversationId,
    ConversationRecord, Conversations, Created, Entries, Entry, EventStream, IdempotencyKey,
    ItemId, Journal, JournalError, JournalHead, Lease, Leases, NewRun, PendingCommand,
    RecordedEvent, RunCommand, RunCounts, RunEnd, RunFilter, RunId, RunOutcome, RunPage, RunQuery,
    RunRecord, RunRecords, RunSummary, SealedSecret, Seq, StoreError, TenantId, Timestamp,
};

#[derive(Debug, Clone, Copy, Default)]
pub struct StoreCall<'a> {
    /// The method. `delete` of the three ports is `delete_run`, `delete_journal` and
    /// `delete_blobs`.
    pub name: &'static str,
    /// The events to append.
    pub batch: &'a [Arc<RecordedEvent>],
    /// The runs that were claimed, after `claim`.
    pub claimed: &'a [AbandonedRun],
}

/// Why a call fails: its error is `Unavailable` with this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

impl Default for Broken {
    fn default() -> Self {
        Self("as the test wants it".to_owned())
    }
}

impl From<Broken> for StoreError {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.0)
    }
}

impl From<Broken> for JournalError {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.0)
    }
}

impl From<Broken> for BlobError {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.0)
    }
}

/// Stands between a test and a store.
#[async_trait]
pub trait Watcher: Send + Sync {
    /// Before a call. If it fails, the store never hears of the call.
    async fn before(&self, _call: StoreCall<'_>) -> Result<(), Broken> {
        Ok(())
    }

    /// After a call, whatever its answer. If it fails, the answer is lost.
    async fn after(&self, _call: StoreCall<'_>) -> Result<(), Broken> {
        Ok(())
    }
}

/// Forwards every call to `store`, past `watcher`. Clones share both.
pub struct Forwarding<S, W> {
    pub store: Arc<S>,
    pub watcher: Arc<W>,
}

impl<S: Default, W> Forwarding<S, W> {
    /// A new store behind `watcher`.
    pub fn watched_by(watcher: W) -> Self {
        Self { store: Arc::default(), watcher: Arc::new(watcher) }
    }
}

impl<S: Default, W: Default> Default for Forwarding<S, W> {
    fn default() -> Self {
        Self::watched_by(W::default())
    }
}

impl<S, W> Clone for Forwarding<S, W> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), watcher: Arc::clone(&self.watcher) }
    }
}

impl<S, W> Deref for Forwarding<S, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.watcher
    }
}

impl<S: fmt::Debug, W> fmt::Debug for Forwarding<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Forwarding").field(&self.store).finish()
    }
}

impl<S, W: Watcher> Forwarding<S, W> {
    async fn around<T, E: From<Broken>>(
        &self,
        name: &'static str,
        answer: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        self.around_call(StoreCall { name, ..StoreCall::default() }, answer).await
    }

    async fn around_call<T, E: From<Broken>>(
        &self,
        call: StoreCall<'_>,
        answer: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        self.watcher.before(call).await?;
        let answer = answer.await;
        self.watcher.after(call).await?;
        answer
    }
}

#[async_trait]
impl<S: Journal, W: Watcher> Journal for Forwarding<S, W> {
    async fn append(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError> {
        let events = batch.clone();
        let call = StoreCall { name: "append", batch: &events, ..StoreCall::default() };
        self.around_call(call, self.store.append(tenant, batch)).await
    }

    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        run_end: RunEnd,
    ) -> Result<bool, JournalError> {
        let events = batch.clone();
        let call = StoreCall { name: "append_end", batch: &events, ..StoreCall::default() };
        self.around_call(call, self.store.append_end(tenant, batch, run_end)).await
    }

    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.around("read", self.store.read(tenant, run_id, after)).await
    }

    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, JournalError> {
        self.around("head", self.store.head(tenant, run_id)).await
    }

    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.around("stored", self.store.stored(tenant, run_id, after)).await
    }

    async fn probe(&self) -> Result<(), JournalError> {
        self.around("probe", self.store.probe()).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError> {
        self.around("delete_journal", self.store.delete(tenant, run_id)).await
    }
}

#[async_trait]
impl<S: BlobStore, W: Watcher> BlobStore for Forwarding<S, W> {
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        self.around("put", self.store.put(tenant, run_id, id, text)).await
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        self.around("get", self.store.get(tenant, id)).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        self.around("delete_blobs", self.store.delete(tenant, run_id)).await
    }
}

#[async_trait]
impl<S: RunRecords, W: Watcher> RunRecords for Forwarding<S, W> {
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        self.around("create", self.store.create(run)).await
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        self.around("find_by_key", self.store.find_by_key(tenant, key, now)).await
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        self.around("find", self.store.find(tenant, run_id)).await
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.around("list", self.store.list(tenant, most)).await
    }

    async fn summaries(
        &self,
        tenant: &TenantId,
        most: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.around("summaries", self.store.summaries(tenant, most)).await
    }

    async fn select(&self, tenant: &TenantId, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.around("select", self.store.select(tenant, query)).await
    }

    async fn count(&self, tenant: &TenantId, filter: &RunFilter) -> Result<RunCounts, StoreError> {
        self.around("count", self.store.count(tenant, filter)).await
    }

    async fn changed(
        &self,
        tenant: &TenantId,
        within: Duration,
        most: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.around("changed", self.store.changed(tenant, within, most)).await
    }

    async fn change_noted(&self) {
        self.store.change_noted().await;
    }

    async fn secrets(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<SealedSecret>, StoreError> {
        self.around("secrets", self.store.secrets(tenant, run_id)).await
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.around("finish", self.store.finish(run_id, outcome, entries)).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
        self.around("delete_run", self.store.delete(tenant, run_id)).await
    }

    async fn force_end(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        outcome: RunOutcome,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.around("force_end", self.store.force_end(tenant, run_id, outcome, at)).await
    }
}

#[async_trait]
impl<S: Conversations, W: Watcher> Conversations for Forwarding<S, W> {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError> {
        let opened = self.store.open_conversation(tenant, conversation);
        self.around("open_conversation", opened).await
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        self.around("conversation", self.store.conversation(tenant, id)).await
    }

    async fn active_run(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Option<RunId>, StoreError> {
        self.around("active_run", self.store.active_run(tenant, id)).await
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let annotated = self.store.annotate_conversation(tenant, id, metadata);
        self.around("annotate_conversation", annotated).await
    }

    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        self.around("delete_conversation", self.store.delete_conversation(tenant, id)).await
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.around("restore", self.store.restore(tenant, conversation, entries)).await
    }

    async fn allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        self.around("allowed", self.store.allowed(tenant, id)).await
    }

    async fn allow(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError> {
        self.around("allow", self.store.allow(tenant, id, allowed)).await
    }
}

#[async_trait]
impl<S: Entries, W: Watcher> Entries for Forwarding<S, W> {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        self.around("context", self.store.context(tenant, run_id)).await
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        self.around("entries_named", self.store.entries_named(tenant, names)).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        self.around("history", self.store.history(tenant, id)).await
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.around("add_entries", self.store.add_entries(tenant, id, entries)).await
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<(), StoreError> {
        self.around("remove_entry", self.store.remove_entry(tenant, id, item_id)).await
    }
}

#[async_trait]
impl<S: Leases, W: Watcher> Leases for Forwarding<S, W> {
    fn is_durable(&self) -> bool {
        self.store.is_durable()
    }

    fn worker_name(&self) -> Option<String> {
        self.store.worker_name()
    }

    async fn heartbeat(&self) -> Result<Lease, StoreError> {
        self.around("heartbeat", self.store.heartbeat()).await
    }

    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        let call = StoreCall { name: "claim", ..StoreCall::default() };
        self.watcher.before(call).await?;
        let answer = self.store.claim(most).await;
        let claimed = answer.as_deref().unwrap_or_default();
        self.watcher.after(StoreCall { claimed, ..call }).await?;
        answer
    }

    async fn end_probation(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.around("end_probation", self.store.end_probation(run_id)).await
    }

    async fn release(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.around("release", self.store.release(run_id)).await
    }

    async fn defer(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.around("defer", self.store.defer(run_id)).await
    }

    async fn decline(&self, run_id: &RunId, reason: &str) -> Result<(), StoreError> {
        self.around("decline", self.store.decline(run_id, reason)).await
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.around("owned_runs", self.store.owned_runs()).await
    }

    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        self.around("lost_runs", self.store.lost_runs(run_ids)).await
    }
}

#[async_trait]
impl<S: Commands, W: Watcher> Commands for Forwarding<S, W> {
    async fn enqueue(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<(), StoreError> {
        self.around("enqueue", self.store.enqueue(tenant, run_id, command)).await
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>, StoreError> {
        self.around("pending_commands", self.store.pending_commands()).await
    }

    async fn pending_commands_for(
        &self,
        run_id: &RunId,
    ) -> Result<Vec<PendingCommand>, StoreError> {
        self.around("pending_commands_for", self.store.pending_commands_for(run_id)).await
    }

    async fn acknowledge(&self, pending_commands: &[i64]) -> Result<(), StoreError> {
        self.around("acknowledge", self.store.acknowledge(pending_commands)).await
    }

    async fn woken(&self) {
        self.store.woken().await;
    }
}
