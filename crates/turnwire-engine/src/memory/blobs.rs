//! The in-memory blob store.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use turnwire_contract::{BlobError, BlobId, BlobStore, RunId, TenantId};

use super::MAX_FINISHED_BYTES;
use crate::sync::lock;

/// Blobs in memory. Stores the latest 64 by default.
#[derive(Debug)]
pub struct MemoryBlobStore {
    blobs: Mutex<VecDeque<Blob>>,
    most: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Blob {
    tenant: TenantId,
    run_id: RunId,
    id: BlobId,
    text: String,
}

impl MemoryBlobStore {
    /// Creates a store for the latest `most` blobs.
    pub fn keeping(most: usize) -> Self {
        Self { blobs: Mutex::default(), most, max_bytes: MAX_FINISHED_BYTES }
    }

    /// Limits the total size of all blobs.
    pub fn within_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }
}

impl Default for MemoryBlobStore {
    fn default() -> Self {
        Self::keeping(64)
    }
}

#[async_trait]
impl BlobStore for MemoryBlobStore {
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        let (tenant, run_id, id) = (tenant.clone(), run_id.clone(), id.clone());
        let mut blobs = lock(&self.blobs);
        blobs.push_back(Blob { tenant, run_id, id, text });
        let is_too_much = |blobs: &VecDeque<Blob>| {
            let n_bytes: usize = blobs.iter().map(|blob| blob.text.len()).sum();
            blobs.len() > self.most || n_bytes > self.max_bytes && blobs.len() > 1
        };
        while is_too_much(&blobs) {
            blobs.pop_front();
        }
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        let blobs = lock(&self.blobs);
        let found = blobs.iter().find(|blob| blob.tenant == *tenant && blob.id == *id);
        found.map(|blob| blob.text.clone()).ok_or_else(|| BlobError::NotFound(id.clone()))
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        lock(&self.blobs).retain(|blob| blob.tenant != *tenant || blob.run_id != *run_id);
        Ok(())
    }
}
