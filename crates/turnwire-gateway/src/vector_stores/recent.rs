//! What became of files that were attached lately.
//!
//! Whether a batch has been done is a question of the next few seconds, so batches are kept in
//! memory, the latest of each tenant, and are gone when the server closes. The same goes for
//! files that could not be attached: the library has no place for them, but a client that polls
//! after it has attached a file must learn the reason.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use turnwire_contract::{CollectionId, FileId, TenantId, Timestamp};

use super::body::MAX_FILES;

/// How many batches of a tenant are kept.
const MAX_BATCHES: usize = 100;

/// How many files they may have together.
const MAX_FILES_KEPT: usize = 5 * MAX_FILES;

/// The latest batches.
#[derive(Debug, Default)]
pub(crate) struct Batches(Mutex<HashMap<TenantId, VecDeque<Arc<Batch>>>>);

/// Files that were attached together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) collection: CollectionId,
    pub(super) created_at: Timestamp,
    pub(super) files: Vec<Tried>,
}

/// A file, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) file_id: FileId,
    /// Why it is not in the collection.
    pub(super) refused: Option<String>,
}

impl Batch {
    pub(super) fn n_refused(&self) -> usize {
        self.files.iter().filter(|file| file.refused.is_some()).count()
    }
}

impl Batches {
    /// Keeps a batch, and forgets the oldest if there are too many.
    pub(super) fn keep(&self, tenant: &TenantId, batch: Arc<Batch>) {
        let mut all = self.lock();
        let kept = all.entry(tenant.clone()).or_default();
        kept.push_front(batch);
        let n_files = |kept: &VecDeque<Arc<Batch>>| -> usize {
            kept.iter().map(|batch| batch.files.len()).sum()
        };
        while kept.len() > MAX_BATCHES || n_files(kept) > MAX_FILES_KEPT {
            kept.pop_back();
        }
    }

    /// A batch of this tenant and this collection.
    pub(super) fn find(
        &self,
        tenant: &TenantId,
        collection: &CollectionId,
        id: &str,
    ) -> Option<Arc<Batch>> {
        let all = self.lock();
        let mut kept = all.get(tenant)?.iter().filter(|batch| batch.collection == *collection);
        kept.find(|batch| batch.id == id).cloned()
    }

    /// When and why a file was last not attached to a collection.
    pub(super) fn refusal(
        &self,
        tenant: &TenantId,
        collection: &CollectionId,
        file_id: &FileId,
    ) -> Option<(Timestamp, String)> {
        let all = self.lock();
        let mut kept = all.get(tenant)?.iter().filter(|batch| batch.collection == *collection);
        kept.find_map(|batch| {
            let mut files = batch.files.iter().filter(|file| file.file_id == *file_id);
            files.find_map(|file| Some((batch.created_at, file.refused.clone()?)))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, VecDeque<Arc<Batch>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
