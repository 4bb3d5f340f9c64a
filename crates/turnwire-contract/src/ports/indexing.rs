//! The indexing queue of a library: an indexer claims files one by one, extracts their text, and
//! stores the chunks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Chunking, ExtractionFailure, LibraryError};
use crate::{CollectionId, FileId, TenantId};

/// The files of a library that wait to be indexed.
///
/// Guarantees of an implementation:
///
/// * a file has at most one claim at a time; when the claim is not renewed within its lease, or its
///   process is gone, another indexer can claim the file;
/// * only the latest claim can change the file; a claim that expired, or whose file was detached,
///   cancelled or attached again, has no effect;
/// * a file that was claimed [too often](MAX_CLAIMS) without a result has failed;
/// * files are claimed oldest first.
#[async_trait]
pub trait IndexQueue: Send + Sync {
    /// Claims the next unclaimed file of any tenant but those `passed_over`. With a `model`, files
    /// that are indexed but have no vectors of that model are also due, after those that are not
    /// indexed.
    async fn claim(
        &self,
        model: Option<&str>,
        lease: Duration,
        passed_over: &[TenantId],
    ) -> Result<Option<IndexWork>, LibraryError>;

    /// Extends a claim by another lease. Returns false if the claim is lost.
    async fn renew(&self, work: &IndexWork, lease: Duration) -> Result<bool, LibraryError>;

    /// Ends a claim. Returns false if the claim was lost.
    async fn finish(&self, work: &IndexWork, end: Indexed) -> Result<bool, LibraryError>;

    /// Waits until there may be new work. Work from other processes may go unnoticed.
    async fn changed(&self);

    /// Deletes expired data.
    async fn tidy(&self) -> Result<(), LibraryError>;
}

/// Maximum number of claims per file. Without a limit, a file that crashes its indexer would crash
/// every process in turn.
pub const MAX_CLAIMS: u32 = 3;

/// A claimed file.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexWork {
    /// Tenant that owns the file.
    pub tenant: TenantId,
    /// ID of the collection.
    pub collection_id: CollectionId,
    /// ID of the file.
    pub file_id: FileId,
    /// Name of the file.
    pub file_name: String,
    /// Number of the claim, assigned by the library.
    pub claim: i64,
    /// What to do with the file.
    pub task: IndexTask,
}

/// Work to do on a file.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexTask {
    /// Extract text and, if a model is configured, compute vectors.
    Read {
        /// Content of the file.
        content: Arc<[u8]>,
        /// How to split the text.
        chunking: Chunking,
    },
    /// Compute vectors. The file is already indexed by words.
    Embed {
        /// Chunks of the file, in order.
        chunks: Vec<String>,
    },
}

/// Result of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Indexed {
    /// The file was read.
    Chunks {
        /// Chunks of the file.
        chunks: Vec<NewChunk>,
        /// One vector per chunk. Without vectors the file is found by words only.
        vectors: Option<Vectors>,
    },
    /// Vectors of a file that was already read.
    Vectors(Vectors),
    /// The embeddings model is unavailable. The file stays as it is and is due again after this
    /// time.
    NotNow(Duration),
    /// The file cannot be indexed.
    Failed {
        /// Kind of the failure.
        why: ExtractionFailure,
        /// Explanation for the owner of the file.
        reason: String,
    },
}

/// A chunk to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// Text of the chunk.
    pub text: String,
    /// Index terms in their order, separated by spaces: lower-case letters and digits only, so that
    /// every database stores them unchanged.
    pub words: String,
}

/// Vectors of the chunks of a file, in order. All have the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// The embeddings model. Vectors of different models are not comparable.
    pub model: String,
    /// One vector of length 1 per chunk.
    pub vectors: Vec<Vec<f32>>,
}

/// Turns queries into index terms and, with an embeddings model, texts into vectors. The terms of
/// chunks come from whoever reads the files, in the same way.
#[async_trait]
pub trait TextAnalyzer: Send + Sync {
    /// Returns the index terms of a query, without stop words: lower-case letters and digits only.
    fn asked(&self, question: &str) -> Vec<String>;

    /// Name of the embeddings model, if one is configured.
    fn model(&self) -> Option<&str>;

    /// Returns one vector of length 1 per text. Fails if no model is configured or the model is
    /// unavailable.
    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError>;
}

/// Why no vectors could be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmbeddingError(pub String);
