//! Files, collections and their index, in the same database as runs.
//!
//! * [`files`] stores uploaded files, [`uploads`] streams them in and out, [`collections`] group
//!   them for search;
//! * [`attachments`] are files in collections, and their batches;
//! * [`queue`] indexes files and deletes stale index entries;
//! * [`search`] finds chunks by words and by [`vectors`], with [`pgvector`] where available.
//!
//! Large data (files, chunks, the rest of a deleted collection) is written and deleted in slices,
//! each in its own transaction. SQLite has one writer, and runs must not wait for files.

mod attachments;
mod collections;
mod files;
mod pgvector;
mod queue;
mod search;
mod uploads;
mod vectors;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value as Json};
use tokio::sync::{Notify, OnceCell};
use turnwire_contract::{
    Attachment, Attachments, BatchId, BatchRecord, CollectionId, CollectionNotes, CollectionRecord,
    CollectionUsage, Collections, ContentStream, FileId, FileRecord, FileUpload, Files, IndexQueue,
    IndexWork, Indexed, LibraryError, Query, SearchResults, TenantId, TextAnalyzer,
};

use crate::{
    Store,
    database::{Database, LibraryDialect},
    time::{micros, now},
};

use self::uploads::Upload;

/// Maximum size of a file.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// The library of a [`Store`]. Cheap to clone.
#[derive(Clone)]
pub struct StoreLibrary(Arc<Inner>);

struct Inner {
    /// Keeps the database and its background tasks open.
    store: Store,
    database: Arc<dyn Database>,
    reader: Arc<dyn TextAnalyzer>,
    /// Notified when there is work for the index.
    changed: Notify,
    /// Whether vectors use a pgvector column, once known.
    column: OnceCell<bool>,
}

impl Store {
    /// Returns the library in this database, with `reader` as text analyzer.
    pub fn library(&self, reader: Arc<dyn TextAnalyzer>) -> StoreLibrary {
        StoreLibrary(Arc::new(Inner {
            store: self.clone(),
            database: Arc::clone(&self.0.database),
            reader,
            changed: Notify::new(),
            column: OnceCell::new(),
        }))
    }
}

impl Inner {
    fn dialect(&self) -> &'static LibraryDialect {
        self.database.dialect().library
    }
}

/// The current time, for timestamps shown to clients.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[async_trait]
impl Files for StoreLibrary {
    async fn upload(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Box<dyn FileUpload>, LibraryError> {
        let library = Arc::clone(&self.0);
        Ok(Box::new(Upload::begin(library, tenant.clone(), file_id.clone()).await?))
    }

    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord, LibraryError> {
        self.0.file(tenant, file_id).await
    }

    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError> {
        self.0.files(tenant).await
    }

    async fn stored_bytes(&self, tenant: &TenantId) -> Result<u64, LibraryError> {
        self.0.stored_bytes(tenant).await
    }

    async fn content(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Arc<[u8]>, LibraryError> {
        self.0.content(tenant, file_id).await
    }

    async fn content_stream(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<ContentStream, LibraryError> {
        self.0.content_stream(tenant, file_id).await
    }

    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<(), LibraryError> {
        self.0.remove_file(tenant, file_id).await
    }
}

#[async_trait]
impl Collections for StoreLibrary {
    async fn open_collection(
        &self,
        tenant: &TenantId,
        collection: CollectionRecord,
    ) -> Result<(), LibraryError> {
        self.0.open_collection(tenant, &collection).await
    }

    async fn collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionRecord, LibraryError> {
        self.0.collection(tenant, collection_id).await
    }

    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>, LibraryError> {
        self.0.collections(tenant).await
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionUsage, LibraryError> {
        self.0.usage(tenant, collection_id).await
    }

    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        notes: CollectionNotes,
    ) -> Result<(), LibraryError> {
        self.0.annotate_collection(tenant, collection_id, &notes).await
    }

    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<(), LibraryError> {
        self.0.remove_collection(tenant, collection_id).await
    }

    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults, LibraryError> {
        self.0.search(tenant, collections, query).await
    }
}

#[async_trait]
impl Attachments for StoreLibrary {
    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch: Option<BatchRecord>,
        attachments: Vec<Attachment>,
    ) -> Result<(), LibraryError> {
        self.0.attach(tenant, collection_id, batch.as_ref(), &attachments).await
    }

    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment, LibraryError> {
        self.0.attachment(tenant, collection_id, file_id).await
    }

    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>, LibraryError> {
        self.0.attachments(tenant, collection_id).await
    }

    async fn set_attributes(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
        attributes: Map<String, Json>,
    ) -> Result<(), LibraryError> {
        self.0.set_attributes(tenant, collection_id, file_id, &attributes).await
    }

    async fn chunks(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Vec<String>, LibraryError> {
        self.0.chunks(tenant, collection_id, file_id).await
    }

    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<(), LibraryError> {
        self.0.detach(tenant, collection_id, file_id).await
    }

    async fn batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<BatchRecord, LibraryError> {
        self.0.batch(tenant, collection_id, batch_id).await
    }

    async fn cancel_batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<(), LibraryError> {
        self.0.cancel_batch(tenant, collection_id, batch_id).await
    }
}

#[async_trait]
impl IndexQueue for StoreLibrary {
    async fn claim(
        &self,
        model: Option<&str>,
        lease: Duration,
    ) -> Result<Option<IndexWork>, LibraryError> {
        self.0.claim(model, lease).await
    }

    async fn renew(&self, work: &IndexWork, lease: Duration) -> Result<bool, LibraryError> {
        self.0.renew(work, lease).await
    }

    async fn finish(&self, work: &IndexWork, end: Indexed) -> Result<bool, LibraryError> {
        self.0.finish(work, end).await
    }

    async fn changed(&self) {
        self.0.changed.notified().await;
    }

    async fn tidy(&self) -> Result<(), LibraryError> {
        self.0.tidy().await
    }
}

impl fmt::Debug for StoreLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLibrary").finish_non_exhaustive()
    }
}
