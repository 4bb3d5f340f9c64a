//! Storage of events: append, and read from a sequence number.

use std::{pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::{Entry, RecordedEvent, RunId, RunOutcome, Seq, StoreStatistics, TenantId};

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// Events in order, as they become visible.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Arc<RecordedEvent>>> + Send + 'static>>;

/// An append-only log of events, with one sequence per run.
///
/// Guarantees of an implementation:
///
/// * after [`append`](Self::append) returns `Ok`, the events are as durable as this journal claims
///   to be, and no reader has seen them earlier;
/// * sequence numbers are 1, 2, 3, … without gaps;
/// * the expected sequence number is the fence: of two writers that append after the same number,
///   one gets [`JournalError::Conflict`], and nothing of its batch is stored;
/// * a batch is stored atomically;
/// * stored events can be read back: a batch that could not be read back, or can never be stored,
///   is [rejected](JournalError::Rejected);
/// * nothing can be appended after the event that ends the run;
/// * a slow reader delays neither the writer nor other readers;
/// * a tenant cannot see data of another tenant.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends `batch`. Its sequence numbers follow the last stored one. All events belong to one
    /// run.
    async fn append(&self, tenant: &TenantId, batch: Vec<Arc<RecordedEvent>>) -> Result<()>;

    /// Appends the batch that ends its run. If the journal and the run store are one database,
    /// `end` is stored in the same transaction. Returns whether it was; if not, the caller calls
    /// [`RunRecords::finish`](crate::RunRecords::finish) afterwards.
    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        _run_end: RunEnd,
    ) -> Result<bool> {
        self.append(tenant, batch).await?;
        Ok(false)
    }

    /// Returns all events after `after`: first the stored ones, then new ones as they arrive, up to
    /// and including the event that ends the run.
    async fn read(&self, tenant: &TenantId, run_id: &RunId, after: Seq) -> Result<EventStream>;

    /// Returns how far the journal has come.
    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead>;

    /// Returns the events after `after` that are stored now, without waiting for more. Streams
    /// them, so that a long journal is never in memory as a whole.
    async fn stored(&self, tenant: &TenantId, run_id: &RunId, after: Seq) -> Result<EventStream> {
        let last = self.head(tenant, run_id).await?.last;
        // Sequence numbers have no gaps, so the count is known.
        let n_stored = usize::try_from(last.0.saturating_sub(after.0)).unwrap_or(usize::MAX);
        Ok(Box::pin(self.read(tenant, run_id, after).await?.take(n_stored)))
    }

    /// Like [`stored`](Self::stored), as a list. For journals that are known to be short.
    async fn read_stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<Vec<Arc<RecordedEvent>>> {
        self.stored(tenant, run_id, after).await?.try_collect().await
    }

    /// Writes to the journal, and returns when the write has succeeded. Used as a health check.
    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    /// Returns what the store has counted about itself, if it counts.
    fn statistics(&self) -> Option<StoreStatistics> {
        None
    }

    /// Deletes all events of a run. Does nothing if there are none.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<()>;
}

/// Position of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    /// Sequence number of the last event.
    pub last: Seq,
    /// Whether the last event ends the run.
    pub is_over: bool,
}

/// What is stored when a run ends.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Entries that the run adds to its conversation.
    pub entries: Vec<Entry>,
}

/// Error of a journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Another writer has used this sequence number. The caller no longer owns the run.
    #[error("run `{run_id}` has events after {seq} already; another worker owns it")]
    Conflict {
        /// ID of the run.
        run_id: RunId,
        /// Sequence number that was already in use.
        seq: Seq,
    },
    /// No such run.
    #[error("there is no run `{0}`")]
    NotFound(RunId),
    /// The journal is unavailable. The operation may be retried.
    #[error("the journal is not available: {0}")]
    Unavailable(String),
    /// The journal cannot store these events. A retry does not help.
    #[error("the journal rejects events of run `{run_id}`: {reason}")]
    Rejected {
        /// ID of the run.
        run_id: RunId,
        /// Reason, for the operator.
        reason: String,
    },
    /// The journal is encrypted, and this process does not have the key. Another one may.
    #[error("the journal is encrypted, and the key is missing: {0}")]
    KeyMissing(String),
}
