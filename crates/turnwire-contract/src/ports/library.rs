//! Where files are kept that people have handed in, and the collections they are searched in.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Filter;
use crate::{BatchId, CollectionId, FileId, TenantId, Timestamp};

/// Keeps files, and finds passages in them.
///
/// Promises an implementation makes:
///
/// * when [`add_file`](Self::add_file) or [`FileUpload::finish`] returns `Ok`,
///   [`content`](Self::content) returns the very same bytes until the file is removed or expires;
/// * nobody sees a file whose upload is not finished, and what was written of one that is given up
///   is removed;
/// * [`attach`](Self::attach) attaches all of the files or none, and each of them is in the
///   [queue](super::IndexQueue) when it returns; a file can be found in a collection from the
///   moment it is [`Indexing::Completed`] until it is detached or removed, or the collection is
///   removed or expires; removing a collection leaves its files alone;
/// * passages come best first, with scores between 0 and 1, and only those that pass the filter;
/// * lists come newest first;
/// * what belongs to one tenant does not exist for another, and neither does an expired file.
#[async_trait]
pub trait Library: Send + Sync {
    /// Begins to take in a file, piece by piece; refused if there is one of that id.
    async fn upload(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Box<dyn FileUpload>, LibraryError>;

    /// Keeps a file whose content is at hand; refused if there is one of that id.
    async fn add_file(
        &self,
        tenant: &TenantId,
        file: FileRecord,
        content: Arc<[u8]>,
    ) -> Result<(), LibraryError> {
        let mut upload = self.upload(tenant, &file.id).await?;
        upload.write(&content).await?;
        upload.finish(file).await
    }

    /// One file, without its content.
    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord, LibraryError>;

    /// All files.
    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError>;

    /// What is in a file.
    async fn content(&self, tenant: &TenantId, file_id: &FileId)
    -> Result<Arc<[u8]>, LibraryError>;

    /// The same, piece by piece. A file that is removed meanwhile ends with an error.
    async fn content_stream(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<ContentStream, LibraryError>;

    /// Forgets a file, also in all collections it is attached to.
    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<(), LibraryError>;

    /// Opens a collection; refused if there is one of that id.
    async fn open_collection(
        &self,
        tenant: &TenantId,
        collection: CollectionRecord,
    ) -> Result<(), LibraryError>;

    /// One collection.
    async fn collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionRecord, LibraryError>;

    /// All collections.
    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>, LibraryError>;

    /// What is in a collection.
    async fn usage(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionUsage, LibraryError>;

    /// Replaces what a collection's owner says about it: its name, the notes and when it expires.
    /// It counts as active just now.
    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        notes: CollectionNotes,
    ) -> Result<(), LibraryError>;

    /// Forgets a collection. Its files stay.
    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<(), LibraryError>;

    /// Hands files to a collection, to be read and then found there, all of them in `batch` if
    /// one is given. Attaching a file again reads it again. An attachment's state and what it
    /// uses are the library's to say; what they are here does not matter.
    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch: Option<BatchRecord>,
        attachments: Vec<Attachment>,
    ) -> Result<(), LibraryError>;

    /// One file of a collection.
    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment, LibraryError>;

    /// All files of a collection.
    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>, LibraryError>;

    /// Replaces the attributes of a file in a collection, without reading it again.
    async fn set_attributes(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
        attributes: Map<String, Value>,
    ) -> Result<(), LibraryError>;

    /// What a file of a collection says, passage by passage; nothing before it has been read.
    async fn chunks(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Vec<String>, LibraryError>;

    /// Takes a file out of a collection. The file stays.
    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<(), LibraryError>;

    /// Files that were attached together.
    async fn batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<BatchRecord, LibraryError>;

    /// Cancels what has not been read yet of a batch.
    async fn cancel_batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<(), LibraryError>;

    /// The passages in `collections` that answer `query` best. A collection that has expired is
    /// [refused](LibraryError::Refused).
    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults, LibraryError>;
}

/// What is in a file, piece by piece.
pub type ContentStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>, LibraryError>> + Send>>;

/// A file on its way in. Dropped before it is finished, it was never there.
#[async_trait]
pub trait FileUpload: Send {
    /// Takes the next piece of its content.
    async fn write(&mut self, piece: &[u8]) -> Result<(), LibraryError>;

    /// Keeps the file, as `file` describes it. Its size is what was written, whatever `file` says.
    async fn finish(self: Box<Self>, file: FileRecord) -> Result<(), LibraryError>;
}

/// A file as it is kept, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its id.
    pub id: FileId,
    /// Its name, as its owner gave it. Nothing is ever looked up by it.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// What its owner handed it in for, in the owner's words.
    pub purpose: String,
    /// When it was handed in.
    pub created_at: Timestamp,
    /// When it goes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A collection as it is kept, without its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRecord {
    /// Its id.
    pub id: CollectionId,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was last searched, changed or given a file, to the minute.
    pub last_active_at: Timestamp,
    /// What its owner says about it.
    #[serde(flatten)]
    pub notes: CollectionNotes,
}

impl CollectionRecord {
    /// When it expires, if nothing happens to it until then.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let micros = |days: u32| Duration::from_hours(24 * u64::from(days)).as_micros();
        let micros = i64::try_from(micros(self.notes.expires_after_days?)).unwrap_or(i64::MAX);
        Some(Timestamp::from_micros(self.last_active_at.as_micros().saturating_add(micros)))
    }

    /// Whether that has come.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|moment| moment <= now)
    }
}

/// What its owner says about a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionNotes {
    /// Its name, for people; may be empty.
    pub name: String,
    /// The client's own notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// After how many days without a use it is of no use any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_days: Option<u32>,
}

/// How much is in a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectionUsage {
    /// Its files.
    pub files: FileCounts,
    /// What their passages and vectors take.
    pub bytes: u64,
}

/// How many files are how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Waiting to be read, or being read.
    pub in_progress: u64,
    /// Can be found.
    pub completed: u64,
    /// Cannot be read.
    pub failed: u64,
    /// Were not wanted any more.
    pub cancelled: u64,
}

impl FileCounts {
    /// Counts one file more.
    pub fn add(&mut self, state: &Indexing) {
        match state {
            Indexing::InProgress => self.in_progress += 1,
            Indexing::Completed => self.completed += 1,
            Indexing::Failed { .. } => self.failed += 1,
            Indexing::Cancelled => self.cancelled += 1,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.in_progress + self.completed + self.failed + self.cancelled
    }
}

/// Files that were attached together. Its files are those attachments that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRecord {
    /// Its id.
    pub id: BatchId,
    /// When it was handed over.
    pub created_at: Timestamp,
    /// Whether somebody has cancelled it.
    pub cancelled: bool,
    /// How far its files are.
    pub files: FileCounts,
}

/// A file in a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// The file.
    pub file_id: FileId,
    /// When it was attached.
    pub created_at: Timestamp,
    /// What a question can be narrowed by: texts, numbers and truths.
    pub attributes: Map<String, Value>,
    /// How it is cut into passages.
    pub chunking: Chunking,
    /// The batch it was last attached in.
    pub batch_id: Option<BatchId>,
    /// How far it is.
    pub state: Indexing,
    /// What its passages and vectors take.
    pub usage_bytes: u64,
}

impl Attachment {
    /// A file that is to be attached, cut in the usual way.
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

/// How a file is cut into passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chunking {
    /// As whoever cuts thinks best.
    #[default]
    Auto,
    /// As its owner says.
    Static {
        /// The longest passage.
        max_tokens: u32,
        /// How much of the end of one is repeated at the beginning of the next.
        overlap_tokens: u32,
    },
}

impl Chunking {
    /// How many tokens a passage has at most, and how many it shares with the one before. `Auto`
    /// means a few paragraphs, which a model reads at a glance and a small embeddings model takes
    /// in whole.
    pub fn tokens(self) -> (u32, u32) {
        match self {
            Self::Auto => (256, 32),
            Self::Static { max_tokens, overlap_tokens } => (max_tokens, overlap_tokens),
        }
    }
}

/// How far a file is on its way into a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indexing {
    /// It waits to be read, or is being read.
    InProgress,
    /// It can be found.
    Completed,
    /// It cannot.
    Failed {
        /// In a word.
        why: ExtractionFailure,
        /// For its owner.
        reason: String,
    },
    /// It was not wanted any more before it could be found.
    Cancelled,
}

/// Why a file cannot be found by what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionFailure {
    /// It is of a kind that nobody here can read.
    Unsupported,
    /// It is broken, or more than can be coped with.
    Invalid,
    /// It is not the file's fault.
    Broke,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The question, in plain words.
    pub text: String,
    /// How many passages are wanted at most.
    pub most: usize,
    /// Which files are looked at; all of them if not set.
    pub filter: Option<Filter>,
}

impl Query {
    /// Looks for `text` in all files.
    pub fn new(text: impl Into<String>, most: usize) -> Self {
        Self { text: text.into(), most, filter: None }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResults {
    /// Best first.
    pub chunks: Vec<FoundChunk>,
    /// Set if passages should have been found by their meaning too, and were not: why.
    pub words_only: Option<String>,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundChunk {
    /// The file it stands in.
    pub file_id: FileId,
    /// That file's name.
    pub file_name: String,
    /// How well it answers the question: between 0 and 1, more is better.
    pub score: f64,
    /// What it says.
    pub text: String,
    /// The attributes of that file in its collection.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// Why the library did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// There is one already.
    #[error("there is already a {0}")]
    Exists(String),
    /// There is no such thing for this tenant.
    #[error("there is no {0}")]
    NotFound(String),
    /// It cannot be done with this file; the reason is for its owner.
    #[error("{0}")]
    Refused(String),
    /// The library is away; try again.
    #[error("the library is not available: {0}")]
    Unavailable(String),
}

impl LibraryError {
    /// There is no such file.
    pub fn no_file(id: &FileId) -> Self {
        Self::NotFound(format!("file `{id}`"))
    }

    /// There is no such collection.
    pub fn no_collection(id: &CollectionId) -> Self {
        Self::NotFound(format!("collection `{id}`"))
    }

    /// The file is not in the collection.
    pub fn not_attached(id: &FileId) -> Self {
        Self::NotFound(format!("file `{id}` in this collection"))
    }

    /// There is no such batch.
    pub fn no_batch(id: &BatchId) -> Self {
        Self::NotFound(format!("file batch `{id}`"))
    }

    /// The collection is of no use any more.
    pub fn expired(id: &CollectionId) -> Self {
        Self::Refused(format!("the collection `{id}` has expired"))
    }

    /// A file is bigger than is kept.
    pub fn too_big(max_bytes: usize) -> Self {
        let limit = max_bytes / 1024 / 1024;
        Self::Refused(format!("the file is bigger than {limit} MiB, which is the limit"))
    }
}
