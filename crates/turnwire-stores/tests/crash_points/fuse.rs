//! A process that dies at a chosen point.
//!
//! Every port is wrapped: just before and just after each interaction with the store, the model
//! or a tool there is a point with a name. At the chosen one the fuse burns: whoever got there
//! never gets on, and the test drops the whole runtime, as the end of a process would.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tokio::sync::Notify;
use turnwire_contract::{
    Allowed, BlobError, BlobId, BlobStore, ConversationId, ConversationRecord, Conversations,
    Created, Entries, Entry, EventStream, ItemId, Journal, JournalError, JournalHead, Model,
    ModelError, ModelStream, NewRun, Prompt, RecordedEvent, RequestKey, RunEnd, RunId, RunOutcome,
    RunRecord, RunRecords, Seq, StoreError, TenantId, Timestamp, Tool, ToolContext, ToolError,
    ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_stores::Store;

/// Knows every point that was reached, and where it has to end.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    at: Option<String>,
    reached: Mutex<Reached>,
    burnt: Notify,
}

#[derive(Debug, Default)]
struct Reached {
    counts: HashMap<String, usize>,
    names: Vec<String>,
}

impl Fuse {
    /// Burns at the point of this name; never, if there is none.
    pub(crate) fn new(at: Option<String>) -> Arc<Self> {
        Arc::new(Self { at, ..Self::default() })
    }

    /// All points that were reached, in order.
    pub(crate) fn reached(&self) -> Vec<String> {
        self.reached.lock().unwrap().names.clone()
    }

    /// Waits until it has burnt.
    pub(crate) async fn burnt(&self) {
        self.burnt.notified().await;
    }

    async fn point(&self, side: &str, what: &str) {
        let name = {
            let mut reached = self.reached.lock().unwrap();
            let kind = format!("{side} {what}");
            let count = reached.counts.entry(kind.clone()).or_default();
            *count += 1;
            let name = format!("{kind} {count}");
            reached.names.push(name.clone());
            name
        };
        if self.at.as_ref() == Some(&name) {
            self.burnt.notify_one();
            pending::<()>().await;
        }
    }

    async fn around<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.point("before", what).await;
        let done = work.await;
        self.point("after", what).await;
        done
    }
}

/// A port with a fuse.
#[derive(Clone)]
pub(crate) struct Fused<T> {
    pub(crate) inner: T,
    pub(crate) fuse: Arc<Fuse>,
}

#[async_trait]
impl Model for Fused<turnwire_models::Scripted> {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        self.fuse.around("model", self.inner.stream(prompt)).await
    }
}

#[async_trait]
impl Tool for Fused<turnwire_testkit::FakeTool> {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.fuse.around("tool", self.inner.call(request, context)).await
    }
}

#[async_trait]
impl Journal for Fused<Store> {
    async fn append(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError> {
        self.fuse.around("append", self.inner.append(tenant, batch)).await
    }

    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        ending: RunEnd,
    ) -> Result<bool, JournalError> {
        self.fuse.around("append the end", self.inner.append_end(tenant, batch, ending)).await
    }

    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.inner.read(tenant, run_id, after).await
    }

    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, JournalError> {
        self.inner.head(tenant, run_id).await
    }

    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.inner.stored(tenant, run_id, after).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError> {
        Journal::delete(&self.inner, tenant, run_id).await
    }
}

#[async_trait]
impl BlobStore for Fused<Store> {
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        self.fuse.around("put aside", self.inner.put(tenant, run_id, id, text)).await
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        self.inner.get(tenant, id).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        BlobStore::delete(&self.inner, tenant, run_id).await
    }
}

#[async_trait]
impl RunRecords for Fused<Store> {
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        self.fuse.around("create", self.inner.create(run)).await
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        self.inner.find_by_key(tenant, key, now).await
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        self.inner.find(tenant, run_id).await
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.list(tenant, most).await
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.fuse.around("finish", self.inner.finish(run_id, outcome, entries)).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
        RunRecords::delete(&self.inner, tenant, run_id).await
    }

    async fn force_end(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        outcome: RunOutcome,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.inner.force_end(tenant, run_id, outcome, at).await
    }
}

#[async_trait]
impl Conversations for Fused<Store> {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError> {
        self.inner.open_conversation(tenant, conversation).await
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        self.inner.conversation(tenant, id).await
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        self.inner.annotate_conversation(tenant, id, metadata).await
    }

    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        self.inner.delete_conversation(tenant, id).await
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.inner.restore(tenant, conversation, entries).await
    }

    async fn allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        self.fuse.around("allowed", self.inner.allowed(tenant, id)).await
    }

    async fn allow(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError> {
        self.fuse.around("allow", self.inner.allow(tenant, id, allowed)).await
    }
}

#[async_trait]
impl Entries for Fused<Store> {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        self.fuse.around("context", self.inner.context(tenant, run_id)).await
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries_named(tenant, names).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        self.fuse.around("history", self.inner.history(tenant, id)).await
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.inner.add_entries(tenant, id, entries).await
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<(), StoreError> {
        self.inner.remove_entry(tenant, id, item_id).await
    }
}
