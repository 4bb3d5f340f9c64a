//! Which runs there are, and the conversations they add to.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ConversationId, Item, RunId, RunOutcome, RunRequest, TenantId, Timestamp};

/// Keeps runs and conversations.
///
/// Promises an implementation makes:
///
/// * a conversation has at most one run that is not finished; a second is refused with
///   [`StoreError::Busy`];
/// * [`finish`](Self::finish) stores the status and all new items of the conversation together
///   or not at all, and a second call changes nothing;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Keeps a new run, and opens its conversation if that is new.
    async fn create(&self, run: NewRun) -> Result<(), StoreError>;

    /// One run.
    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError>;

    /// The newest runs first.
    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError>;

    /// Marks the run as finished and adds `items` to its conversation.
    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        items: Vec<Item>,
    ) -> Result<(), StoreError>;

    /// All items of a conversation; none if it is new.
    async fn history(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Vec<Item>, StoreError>;

    /// Puts a conversation in place, as when it was loaded from elsewhere.
    async fn restore(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
        items: Vec<Item>,
    ) -> Result<(), StoreError>;
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
    /// There is no such thing for this tenant.
    #[error("there is no {0}")]
    NotFound(String),
    /// The store is away; try again.
    #[error("the run store is not available: {0}")]
    Unavailable(String),
}
