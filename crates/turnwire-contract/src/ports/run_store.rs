//! Storage of runs and conversations.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    ConversationId, Entry, ItemId, RecordedEvent, RunCounts, RunFilter, RunId, RunOutcome, RunPage,
    RunProgress, RunQuery, RunRecord, RunRequest, RunStatus, RunSummary, SealedSecret, TenantId,
    Timestamp,
};

use super::Result;

/// Runs: created, found, finished, deleted. See [`RunStore`] for the guarantees.
#[async_trait]
pub trait RunRecords: Send + Sync {
    /// Stores a new run, and creates its conversation if needed. What the run
    /// [replaces](RunRequest::replaces) is superseded with it, or fails it with
    /// [`NotFound`](StoreError::NotFound) if the conversation does not have it. A request whose
    /// idempotency key has already created a run creates none. A store that also holds the journal
    /// writes the first events in the same transaction: where several workers share a store, a run
    /// must not exist without its journal.
    async fn create(&self, run: NewRun) -> Result<Created>;

    /// Returns the run that a request with this key created, if it was created within one day
    /// before `now` and still exists. Called before anything else that the first request may have
    /// changed. A shared store uses its own clock instead of `now`.
    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Option<RunId>>;

    /// Returns a run.
    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord>;

    /// Returns up to `most` runs, newest first.
    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>>;

    /// Returns the summaries of up to `most` runs, newest first.
    async fn summaries(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunSummary>> {
        let records = self.list(tenant, most).await?.into_iter();
        Ok(records.map(|record| RunSummary::of(record, &RunProgress::default())).collect())
    }

    /// Returns a page of the newest runs, at least a thousand. Fails with
    /// [`NotFound`](StoreError::NotFound) if the run that the page starts after or ends before is
    /// not among them.
    async fn select(&self, tenant: &TenantId, query: &RunQuery) -> Result<RunPage> {
        let runs = self.summaries(tenant, usize::MAX).await?;
        query.page_of(runs).ok_or_else(|| StoreError::NotFound("such run in this list".to_owned()))
    }

    /// Counts the newest runs by status, at least a thousand. The statuses of the filter are
    /// ignored.
    async fn count(&self, tenant: &TenantId, filter: &RunFilter) -> Result<RunCounts> {
        Ok(filter.count(&self.summaries(tenant, usize::MAX).await?))
    }

    /// Returns up to `most` runs, the last ones that changed first: at least those that were
    /// created, changed their status or called a tool within the time `within` before now.
    async fn changed(
        &self,
        tenant: &TenantId,
        _within: Duration,
        most: usize,
    ) -> Result<Vec<RunSummary>> {
        self.summaries(tenant, most).await
    }

    /// Waits until a run of any tenant may have changed. May wait forever, for example if another
    /// worker changes it; the caller also polls.
    async fn change_noted(&self) {
        pending::<()>().await;
    }

    /// Returns the encrypted secrets of a run; none if it has ended.
    async fn secrets(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<SealedSecret>>;

    /// Marks the run as finished, deletes its secrets, and adds `entries` to its conversation.
    async fn finish(&self, run_id: &RunId, outcome: RunOutcome, entries: Vec<Entry>) -> Result<()>;

    /// Returns the status of a run. Works also where its request cannot be read.
    async fn status(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunStatus> {
        Ok(self.find(tenant, run_id).await?.status)
    }

    /// Deletes a finished run. The entries that it added to a conversation are kept. A store that
    /// is also a [`Journal`](crate::Journal) and a [`BlobStore`](crate::BlobStore) deletes its
    /// events and blobs with it.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<()>;

    /// Ends a run whose journal cannot be decoded: appends the final event after whatever is there,
    /// and marks the run as finished.
    async fn force_end(
        &self,
        _tenant: &TenantId,
        run_id: &RunId,
        _outcome: RunOutcome,
        _at: Timestamp,
    ) -> Result<()> {
        Err(StoreError::NotFound(format!("journal of run `{run_id}`")))
    }
}

/// Conversations, and what a person has allowed in them. See [`RunStore`] for the guarantees.
#[async_trait]
pub trait Conversations: Send + Sync {
    /// Creates a conversation. Fails if the ID exists.
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<()>;

    /// Returns a conversation.
    async fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<ConversationRecord>;

    /// Returns the unfinished run of a conversation, if there is one. Changes nothing.
    async fn active_run(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<RunId>>;

    /// Replaces the client's metadata of a conversation.
    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<()>;

    /// Deletes a conversation and its entries. Its runs are kept.
    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<()>;

    /// Creates a conversation with the given entries, for example from an export.
    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<()>;

    /// Returns the tools that are approved for the rest of a conversation. Deleted with the
    /// conversation.
    async fn allowed(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Allowed>>;

    /// Stores an approval for the rest of an existing conversation. Possible during a run.
    /// Idempotent.
    async fn allow(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        allowed: Allowed,
    ) -> Result<()>;
}

/// The entries of conversations and of finished runs. See [`RunStore`] for the guarantees.
#[async_trait]
pub trait Entries: Send + Sync {
    /// Returns all entries of a finished run: its history, input and output. A run that
    /// [continues](RunRequest::continues) it starts with them.
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>>;

    /// Returns the entries with these IDs, from finished runs and conversations. Unknown IDs are
    /// skipped.
    async fn entries_named(&self, tenant: &TenantId, names: &[ItemId]) -> Result<Vec<Entry>>;

    /// Returns all entries of a conversation that are not superseded; none if it is new.
    async fn history(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Entry>>;

    /// Adds entries to an existing conversation.
    async fn add_entries(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<()>;

    /// Removes an entry from a conversation.
    async fn remove_entry(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<()>;
}

/// Stores runs and conversations.
///
/// Guarantees of an implementation:
///
/// * a conversation has at most one unfinished run; a second one, and every external change to the
///   conversation, is refused with [`StoreError::Busy`];
/// * [`finish`](RunRecords::finish) stores the status and all new entries of the conversation
///   atomically, and a second call changes nothing;
/// * the [secrets](NewRun::secrets) of a run are stored when it is created, and deleted when it ends,
///   atomically with both;
/// * of all requests of one tenant with the same [idempotency key](IdempotencyKey), one creates a
///   run and the others find it, for one day or until the run is deleted;
/// * a tenant cannot see data of another tenant.
pub trait RunStore: RunRecords + Conversations + Entries {}

impl<T: RunRecords + Conversations + Entries> RunStore for T {}

/// A tool that is approved for the rest of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// Name of the tool, as offered to the model.
    pub tool: String,
    /// Hash of the approved definition. Another definition needs a new approval.
    pub definition: String,
}

/// A run to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// ID of the run.
    pub run_id: RunId,
    /// Time of the request.
    pub created_at: Timestamp,
    /// The request.
    pub request: Arc<RunRequest>,
    /// Idempotency key of the request, if the client sent one.
    pub idempotency_key: Option<IdempotencyKey>,
    /// First events of the journal; empty if the caller appends them separately.
    pub first_events: Vec<Arc<RecordedEvent>>,
    /// Encrypted secrets of the run, deleted when it ends.
    pub secrets: Vec<SealedSecret>,
}

impl NewRun {
    /// Creates a run without an idempotency key and without events.
    pub fn new(run_id: RunId, created_at: Timestamp, request: Arc<RunRequest>) -> Self {
        Self {
            run_id,
            created_at,
            request,
            idempotency_key: None,
            first_events: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

/// Idempotency key of a request. A request that is sent again with the same key has no further
/// effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Endpoint of the request. The same key at another endpoint is a different key.
    pub endpoint: String,
    /// The key.
    pub key: String,
    /// Fingerprint of the request. The same key with another fingerprint is an error.
    pub fingerprint: String,
}

/// Result of [`RunRecords::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The run is stored. Its first events still have to be appended.
    RowOnly,
    /// The run and its first events are stored.
    WithEvents,
    /// The same request created this run before.
    Existing(RunId),
}

/// A stored conversation, without its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationRecord {
    /// ID of the conversation.
    pub id: ConversationId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Metadata set by the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Error of a run store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The conversation has an unfinished run.
    #[error(
        "conversation `{conversation_id}` is busy with run `{run_id}`; wait for it or cancel it"
    )]
    Busy {
        /// ID of the conversation.
        conversation_id: ConversationId,
        /// ID of the unfinished run.
        run_id: RunId,
    },
    /// The run is not finished.
    #[error("run `{0}` is not finished; wait for it or cancel it")]
    Unfinished(RunId),
    /// The key was used for another request.
    #[error("the key `{0}` was used before for another request")]
    IdempotencyKeyReused(String),
    /// The ID exists already.
    #[error("there is already a {0}")]
    Exists(String),
    /// This tenant has no such object.
    #[error("there is no {0}")]
    NotFound(String),
    /// The store is unavailable. The operation may be retried.
    #[error("the run store is not available: {0}")]
    Unavailable(String),
    /// The store cannot store this. A retry does not help.
    #[error("this cannot be stored: {0}")]
    Rejected(String),
    /// What is stored is encrypted, and this process does not have the key. Another one may.
    #[error("this is encrypted, and the key is missing: {0}")]
    KeyMissing(String),
}
