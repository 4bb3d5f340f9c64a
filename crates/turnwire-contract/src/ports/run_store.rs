//! Which runs there are, and the conversations they add to.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    ConversationId, Entry, ItemId, RecordedEvent, RunId, RunOutcome, RunRequest, TenantId,
    Timestamp,
};

/// Keeps runs and conversations.
///
/// Promises an implementation makes:
///
/// * a conversation has at most one run that is not finished; a second is refused with
///   [`StoreError::Busy`], and so is every change to the conversation from outside;
/// * [`finish`](Self::finish) stores the status and all new entries of the conversation
///   together or not at all, and a second call changes nothing;
/// * of all requests of one tenant with the same [key](RequestKey), one makes a run and the
///   others find it, for a day or until the run is forgotten;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Keeps a new run, and opens its conversation if that is new. A request whose key has made
    /// a run before makes none. A store that also has the journal begins it in the same breath:
    /// where several workers share one, a run must not be there without its journal.
    async fn create(&self, run: NewRun) -> Result<Created, StoreError>;

    /// The run that a request with this key has made, if it made one within a day of `now` and
    /// the run is still there. Asked before anything else is looked up that the first request
    /// may have changed; a store that others share goes by its own clock.
    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError>;

    /// One run.
    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError>;

    /// The newest runs first.
    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError>;

    /// Marks the run as finished, and adds `entries` to its conversation.
    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError>;

    /// All that a finished run had seen and said: what came before it, its input, its output.
    /// This is what a run that [continues](RunRequest::continues) it begins with.
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError>;

    /// The entries of these names, of finished runs and of conversations. What is not there is
    /// left out.
    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError>;

    /// Forgets a run that is finished. What it added to a conversation stays there.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError>;

    /// Opens a conversation; refused if there is one of that id.
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError>;

    /// One conversation.
    async fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError>;

    /// Replaces the client's notes on a conversation.
    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError>;

    /// Forgets a conversation with all of its entries. Its runs stay.
    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<(), StoreError>;

    /// All entries of a conversation; none if it is new.
    async fn history(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Adds entries to a conversation that is there.
    async fn add_entries(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError>;

    /// Takes one entry out of a conversation.
    async fn remove_entry(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<(), StoreError>;

    /// What a person has allowed for the rest of a conversation. Forgotten with it.
    async fn allowed(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError>;

    /// Keeps what a person has allowed for the rest of a conversation that is there, also while
    /// a run goes on in it; twice is as good as once.
    async fn allow(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError>;

    /// Puts a conversation in place, as when it was loaded from elsewhere.
    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError>;
}

/// A tool that a person has allowed for the rest of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The tool's name, as the model is offered it.
    pub tool: String,
    /// What stands for its definition: another one is not allowed with it.
    pub definition: String,
}

/// A run about to exist.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub run_id: RunId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// What was asked for.
    pub request: Arc<RunRequest>,
    /// What makes the request one of a kind, if its client gave it such a key.
    pub key: Option<RequestKey>,
    /// What its journal begins with; nothing, if somebody else is to begin it.
    pub beginning: Vec<Arc<RecordedEvent>>,
}

impl NewRun {
    /// A run that was asked for without a key, and whose journal somebody else begins.
    pub fn new(run_id: RunId, created_at: Timestamp, request: Arc<RunRequest>) -> Self {
        Self { run_id, created_at, request, key: None, beginning: Vec::new() }
    }
}

/// A client's own mark on a request, by which it can be sent again without being done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Where the request was sent: the same key elsewhere is another one.
    pub endpoint: String,
    /// The mark.
    pub key: String,
    /// What the request says, in short; the same key with another one is a mistake.
    pub fingerprint: String,
}

/// What came of keeping a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is kept, and its journal is still to be begun.
    New,
    /// It is kept, and so is the beginning of its journal.
    Begun,
    /// The same request has made this run before.
    Existing(RunId),
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub run_id: RunId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// What was asked for.
    pub request: Arc<RunRequest>,
    /// Where it stands.
    pub status: RunStatus,
    /// What a worker lacks that has left the run to others, if nobody works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
}

/// A conversation as it is kept, without its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationRecord {
    /// Its id.
    pub id: ConversationId,
    /// When it was opened.
    pub created_at: Timestamp,
    /// The client's own notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunStatus {
    /// Not finished.
    Active,
    /// Finished.
    Finished {
        /// How.
        outcome: RunOutcome,
    },
}

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The conversation has a run that is not finished.
    #[error(
        "conversation `{conversation_id}` is busy with run `{run_id}`; wait for it or cancel it"
    )]
    Busy {
        /// The conversation.
        conversation_id: ConversationId,
        /// The run it is busy with.
        run_id: RunId,
    },
    /// The run is not finished.
    #[error("run `{0}` is not finished; wait for it or cancel it")]
    Unfinished(RunId),
    /// The key was used before, for another request.
    #[error("the key `{0}` was used before for another request")]
    KeyReused(String),
    /// There is one already.
    #[error("there is already a {0}")]
    Exists(String),
    /// There is no such thing for this tenant.
    #[error("there is no {0}")]
    NotFound(String),
    /// The store is away; try again.
    #[error("the run store is not available: {0}")]
    Unavailable(String),
    /// The store will not keep this, however often it is asked to.
    #[error("this cannot be stored: {0}")]
    Rejected(String),
}
