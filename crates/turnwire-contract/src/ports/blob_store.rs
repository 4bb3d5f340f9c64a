//! Where results go that are too big for the journal.

use async_trait::async_trait;

use crate::{BlobId, RunId, TenantId};

/// Keeps big texts beside the journal.
///
/// Promises an implementation makes:
///
/// * when [`put`](Self::put) returns `Ok`, [`get`](Self::get) returns the very same text for
///   as long as the run is retained, and not a moment longer;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Keeps `text` of the run `run_id` under `id`.
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError>;

    /// The text kept under `id`.
    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError>;

    /// Forgets every text of a run. Forgetting what is not there is fine.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError>;
}

/// Why the blob store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BlobError {
    /// There is no such text for this tenant.
    #[error("there is no `{0}`")]
    NotFound(BlobId),
    /// The store is away; try again.
    #[error("the blob store is not available: {0}")]
    Unavailable(String),
    /// The store will not keep this text, however often it is asked to.
    #[error("the blob store does not take it: {0}")]
    Rejected(String),
}
