//! Storage of uploaded files, and of the collections in which they are searched.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Filter;
use crate::{BatchId, CollectionId, FileId, TenantId, Timestamp};

type Result<T, E = LibraryError> = std::result::Result<T, E>;

/// Files and their content. See [`Library`] for the guarantees.
#[async_trait]
pub trait Files: Send + Sync {
    /// Starts an upload in pieces. Fails if the ID exists.
    async fn upload(&self, tenant: &TenantId, file_id: &FileId) -> Result<Box<dyn FileUpload>>;

    /// Stores a file from memory. Fails if the ID exists.
    async fn add_file(
        &self,
        tenant: &TenantId,
        file: FileRecord,
        content: Arc<[u8]>,
    ) -> Result<()> {
        let mut upload = self.upload(tenant, &file.id).await?;
        upload.write(&content).await?;
        upload.finish(file).await
    }

    /// Returns a file without its content.
    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord>;

    /// Returns all files.
    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>>;

    /// Returns the size of all files together, in bytes.
    async fn stored_bytes(&self, tenant: &TenantId) -> Result<u64>;

    /// Returns the content of a file.
    async fn content(&self, tenant: &TenantId, file_id: &FileId) -> Result<Arc<[u8]>>;

    /// Like [`content`](Self::content), as a stream. Yields an error if the file is removed
    /// meanwhile.
    async fn content_stream(&self, tenant: &TenantId, file_id: &FileId) -> Result<ContentStream>;

    /// Deletes a file and detaches it from all collections.
    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<()>;
}

/// Collections of files, and the search in them. See [`Library`] for the guarantees.
#[async_trait]
pub trait Collections: Send + Sync {
    /// Creates a collection. Fails if the ID exists.
    async fn open_collection(&self, tenant: &TenantId, collection: CollectionRecord) -> Result<()>;

    /// Returns a collection.
    async fn collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionRecord>;

    /// Returns all collections.
    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>>;

    /// Returns the number of files and bytes in a collection.
    async fn usage(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionUsage>;

    /// Replaces the name, metadata and expiry of a collection, and marks it as active now.
    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        notes: CollectionNotes,
    ) -> Result<()>;

    /// Deletes a collection. Its files are kept.
    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<()>;

    /// Returns the chunks in `collections` that match `query` best. An expired collection is
    /// [refused](LibraryError::Refused).
    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults>;
}

/// Files in collections. See [`Library`] for the guarantees.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// Attaches files to a collection, as part of `batch` if one is given, and queues them for
    /// indexing. A file that is already attached is indexed again. The library sets `state` and
    /// `usage_bytes`; their values in `attachments` are ignored.
    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch: Option<BatchRecord>,
        attachments: Vec<Attachment>,
    ) -> Result<()>;

    /// Returns a file of a collection.
    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment>;

    /// Returns all files of a collection.
    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>>;

    /// Replaces the attributes of a file in a collection, without indexing it again.
    async fn set_attributes(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
        attributes: Map<String, Value>,
    ) -> Result<()>;

    /// Returns the chunks of a file in a collection; none before it is indexed.
    async fn chunks(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Vec<String>>;

    /// Removes a file from a collection. The file itself is kept.
    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<()>;

    /// Returns a batch.
    async fn batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<BatchRecord>;

    /// Cancels the files of a batch that are not indexed yet.
    async fn cancel_batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<()>;
}

/// Stores files and searches them.
///
/// Guarantees of an implementation:
///
/// * after [`add_file`](Files::add_file) or [`FileUpload::finish`] returns `Ok`,
///   [`content`](Files::content) returns the same bytes until the file is removed or expires;
/// * a file is invisible until its upload is finished, and the data of an aborted upload is
///   deleted;
/// * [`attach`](Attachments::attach) attaches all files or none, and each of them is in the
///   [queue](super::IndexQueue) when it returns; a file can be found in a collection from the
///   moment it is [`Indexing::Completed`] until it is detached or removed, or the collection is
///   removed or expires; removing a collection does not remove its files;
/// * search results are sorted by descending score between 0 and 1, and contain only chunks that
///   match the filter;
/// * lists are sorted newest first;
/// * a tenant cannot see data of another tenant, nor expired files.
pub trait Library: Files + Collections + Attachments {}

impl<T: Files + Collections + Attachments> Library for T {}

/// Content of a file, in pieces.
pub type ContentStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

/// An upload in progress. Dropping it before [`finish`](Self::finish) discards the file.
#[async_trait]
pub trait FileUpload: Send {
    /// Appends a piece of content.
    async fn write(&mut self, piece: &[u8]) -> Result<()>;

    /// Stores the file with the properties in `file`. The size is the number of bytes written;
    /// `file.bytes` is ignored.
    async fn finish(self: Box<Self>, file: FileRecord) -> Result<()>;
}

/// A stored file, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// ID of the file.
    pub id: FileId,
    /// Name given by the owner. Never used for lookup.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Purpose given by the owner.
    pub purpose: String,
    /// Time of the upload.
    pub created_at: Timestamp,
    /// Time at which the file is deleted automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A stored collection, without its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRecord {
    /// ID of the collection.
    pub id: CollectionId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last search, change or attachment, to the minute.
    pub last_active_at: Timestamp,
    /// Properties set by the owner.
    #[serde(flatten)]
    pub notes: CollectionNotes,
}

impl CollectionRecord {
    /// Time at which the collection expires if it is not used before.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let micros = |days: u32| Duration::from_hours(24 * u64::from(days)).as_micros();
        let micros = i64::try_from(micros(self.notes.expires_after_days?)).unwrap_or(i64::MAX);
        Some(Timestamp::from_micros(self.last_active_at.as_micros().saturating_add(micros)))
    }

    /// Whether the collection has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|moment| moment <= now)
    }
}

/// Properties of a collection that its owner sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionNotes {
    /// Display name; may be empty.
    pub name: String,
    /// Metadata set by the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Number of days without use after which the collection expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_days: Option<u32>,
}

/// Size of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectionUsage {
    /// Number of files by state.
    pub files: FileCounts,
    /// Size of chunks and vectors in bytes.
    pub bytes: u64,
}

/// Number of files by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Files that are queued or being indexed.
    pub in_progress: u64,
    /// Files that are indexed.
    pub completed: u64,
    /// Files that could not be indexed.
    pub failed: u64,
    /// Files that were cancelled.
    pub cancelled: u64,
}

impl FileCounts {
    /// Counts one more file.
    pub fn add(&mut self, state: &Indexing) {
        match state {
            Indexing::InProgress => self.in_progress += 1,
            Indexing::Completed => self.completed += 1,
            Indexing::Failed { .. } => self.failed += 1,
            Indexing::Cancelled => self.cancelled += 1,
        }
    }

    /// Returns the total number of files.
    pub fn total(&self) -> u64 {
        self.in_progress + self.completed + self.failed + self.cancelled
    }
}

/// Files that were attached together. The attachments refer to the batch by its ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRecord {
    /// ID of the batch.
    pub id: BatchId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Whether the batch was cancelled.
    pub cancelled: bool,
    /// Number of files by state.
    pub files: FileCounts,
}

/// A file in a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// ID of the file.
    pub file_id: FileId,
    /// Time at which the file was attached.
    pub created_at: Timestamp,
    /// Attributes for filters: strings, numbers and booleans.
    pub attributes: Map<String, Value>,
    /// How the file is split into chunks.
    pub chunking: Chunking,
    /// ID of the batch that attached the file last.
    pub batch_id: Option<BatchId>,
    /// State of indexing.
    pub state: Indexing,
    /// Size of chunks and vectors in bytes.
    pub usage_bytes: u64,
}

impl Attachment {
    /// Creates an attachment with default chunking.
    pub fn new(file_id: FileId, created_at: Timestamp) -> Self {
        Self {
            file_id,
            created_at,
            attributes: Map::new(),
            chunking: Chunking::Auto,
            batch_id: None,
            state: Indexing::InProgress,
            usage_bytes: 0,
        }
    }
}

/// How a file is split into chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chunking {
    /// The default chunking.
    #[default]
    Auto,
    /// Chunking set by the owner.
    Static {
        /// Maximum number of tokens per chunk.
        max_tokens: u32,
        /// Number of tokens that a chunk shares with the one before.
        overlap_tokens: u32,
    },
}

impl Chunking {
    /// Returns the maximum number of tokens per chunk and the number of shared tokens. `Auto` is a
    /// few paragraphs: short for a model to read, and within the input limit of small embeddings
    /// models.
    pub fn tokens(self) -> (u32, u32) {
        match self {
            Self::Auto => (256, 32),
            Self::Static { max_tokens, overlap_tokens } => (max_tokens, overlap_tokens),
        }
    }
}

/// State of a file in a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indexing {
    /// Queued or being indexed.
    InProgress,
    /// Indexed; the file can be found.
    Completed,
    /// Indexing failed.
    Failed {
        /// Kind of the failure.
        why: ExtractionFailure,
        /// Explanation for the owner of the file.
        reason: String,
    },
    /// Cancelled before indexing was complete.
    Cancelled,
}

/// Why a file could not be indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionFailure {
    /// The file type is not supported.
    Unsupported,
    /// The file is damaged, or exceeds a limit.
    Invalid,
    /// An internal error, not caused by the file.
    Broke,
}

/// A search query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The query in natural language.
    pub text: String,
    /// Maximum number of chunks to return.
    pub most: usize,
    /// Restricts the search to matching files; all files if not set.
    pub filter: Option<Filter>,
}

impl Query {
    /// Creates a query over all files.
    pub fn new(text: impl Into<String>, most: usize) -> Self {
        Self { text: text.into(), most, filter: None }
    }
}

/// Results of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResults {
    /// Chunks, best first.
    pub chunks: Vec<FoundChunk>,
    /// Reason why the search used words only although vectors were expected.
    pub words_only: Option<String>,
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundChunk {
    /// ID of the file.
    pub file_id: FileId,
    /// Name of the file.
    pub file_name: String,
    /// Relevance between 0 and 1; higher is better.
    pub score: f64,
    /// Text of the chunk.
    pub text: String,
    /// Attributes of the file in its collection.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// Error of a library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The ID exists already.
    #[error("there is already a {0}")]
    Exists(String),
    /// This tenant has no such object.
    #[error("there is no {0}")]
    NotFound(String),
    /// The operation is not possible for this object. The text is for its owner.
    #[error("{0}")]
    Refused(String),
    /// The library is unavailable. The operation may be retried.
    #[error("the library is not available: {0}")]
    Unavailable(String),
    /// It is encrypted, and this process does not have the key. Another one may.
    #[error("this is encrypted, and the key is missing: {0}")]
    KeyMissing(String),
}

impl LibraryError {
    /// Creates the error for an unknown file.
    pub fn no_file(id: &FileId) -> Self {
        Self::NotFound(format!("file `{id}`"))
    }

    /// Creates the error for an unknown collection.
    pub fn no_collection(id: &CollectionId) -> Self {
        Self::NotFound(format!("collection `{id}`"))
    }

    /// Creates the error for a file that is not attached to the collection.
    pub fn not_attached(id: &FileId) -> Self {
        Self::NotFound(format!("file `{id}` in this collection"))
    }

    /// Creates the error for an unknown batch.
    pub fn no_batch(id: &BatchId) -> Self {
        Self::NotFound(format!("file batch `{id}`"))
    }

    /// Creates the error for an expired collection.
    pub fn expired(id: &CollectionId) -> Self {
        Self::Refused(format!("the collection `{id}` has expired"))
    }

    /// Creates the error for a file larger than the limit.
    pub fn too_big(max_bytes: usize) -> Self {
        let limit = max_bytes / 1024 / 1024;
        Self::Refused(format!("the file exceeds the limit of {limit} MiB"))
    }
}
