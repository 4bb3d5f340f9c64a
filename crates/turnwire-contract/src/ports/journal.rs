//! Where events are kept: append, read on from a place, nothing else.

use std::{pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::{Entry, RecordedEvent, RunId, RunOutcome, Seq, TenantId};

/// Events as they become visible, in order.
pub type EventStream =
    Pin<Box<dyn Stream<Item = Result<Arc<RecordedEvent>, JournalError>> + Send + 'static>>;

/// An append-only log of events, one sequence per run.
///
/// Promises an implementation makes:
///
/// * when [`append`](Self::append) returns `Ok`, the events survive whatever this log claims
///   to survive, and no reader saw them before;
/// * places are 1, 2, 3, … without gaps;
/// * appending at the expected place is the fence: of two writers that both append after the
///   same place, one gets [`JournalError::Conflict`] and nothing of its batch is kept;
/// * a batch is kept whole or not at all;
/// * what is kept can be read again: a batch that could not is
///   [rejected](LogError::Rejected), and so is one that can never be stored;
/// * nothing can be appended after the event that ends the run;
/// * a reader that does not read costs no one anything but its own place;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends `batch`, whose places follow on the last one kept. All of it belongs to one run.
    async fn append(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError>;

    /// Appends the batch that ends its run. If this log and the run store are one, what the run
    /// leaves behind is stored together with it. Says whether it is; where it is not,
    /// [`RunStore::finish`](crate::RunStore::finish) is called afterwards.
    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        _ending: RunEnd,
    ) -> Result<bool, JournalError> {
        self.append(tenant, batch).await?;
        Ok(false)
    }

    /// Everything after `after`: first what is stored, then what arrives, up to and including
    /// the event that ends the run.
    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError>;

    /// How far the run has come.
    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, JournalError>;

    /// Everything after `after` that is stored now, without waiting for more. A long journal is
    /// never in memory as a whole.
    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        let last = self.head(tenant, run_id).await?.last;
        // Places have no gaps, so their number is known.
        let n_stored = usize::try_from(last.0.saturating_sub(after.0)).unwrap_or(usize::MAX);
        Ok(Box::pin(self.read(tenant, run_id, after).await?.take(n_stored)))
    }

    /// The same, all of it at once: for journals that are known to be short.
    async fn read_stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<Vec<Arc<RecordedEvent>>, JournalError> {
        self.stored(tenant, run_id, after).await?.try_collect().await
    }

    /// Returns once something was written, if this log can be written to.
    async fn probe(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Forgets a run and all of its events. Forgetting what is not there is fine.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError>;
}

/// How far a journal has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    /// The place of its last event.
    pub last: Seq,
    /// Whether that is the event that ends the run.
    pub is_over: bool,
}

/// What a run leaves behind when it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it adds to its conversation.
    pub entries: Vec<Entry>,
}

/// Why the log did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Somebody else has written at this place; this writer no longer owns the run.
    #[error("run `{run_id}` has moved on past {seq}; another worker owns it")]
    Conflict {
        /// The run.
        run_id: RunId,
        /// The seq that was taken.
        seq: Seq,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    NotFound(RunId),
    /// The log is away; try again.
    #[error("the event log is not available: {0}")]
    Unavailable(String),
    /// The log will not take these events, however often they are appended.
    #[error("the event log rejects events of run `{run_id}`: {reason}")]
    Rejected {
        /// The run.
        run_id: RunId,
        /// Why, for the operator.
        reason: String,
    },
}
