//! Storage for tool results that are too large for the journal.

use async_trait::async_trait;

use crate::{BlobId, RunId, TenantId};

/// Stores large texts outside the journal.
///
/// Guarantees of an implementation:
///
/// * after [`put`](Self::put) returns `Ok`, [`get`](Self::get) returns the same text for as long as
///   the run is retained, and not longer;
/// * a tenant cannot see data of another tenant.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores `text` under `id`, as part of the run `run_id`.
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError>;

    /// Returns the text stored under `id`.
    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError>;

    /// Deletes all texts of a run. Does nothing if there are none.
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError>;
}

/// Error of a blob store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BlobError {
    /// This tenant has no such text.
    #[error("there is no `{0}`")]
    NotFound(BlobId),
    /// The store is unavailable. The operation may be retried.
    #[error("the blob store is not available: {0}")]
    Unavailable(String),
    /// The store cannot store this text. A retry does not help.
    #[error("the blob store rejected it: {0}")]
    Rejected(String),
    /// It is encrypted, and this process does not have the key. Another one may.
    #[error("this is encrypted, and the key is missing: {0}")]
    KeyMissing(String),
}
