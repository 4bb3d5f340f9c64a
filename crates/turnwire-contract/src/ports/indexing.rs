//! How files get into a library's index: somebody claims them one by one, reads them, and hands
//! in what they say.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Chunking, ExtractionFailure, LibraryError};
use crate::{CollectionId, FileId, TenantId};

/// The files of a library that wait to be read.
///
/// Promises an implementation makes:
///
/// * a file is claimed by one at a time; when its claim has not been renewed for a lease, or its
///   process is gone, somebody else gets it;
/// * only the last claim counts: who was late, or whose file was detached, cancelled or attached
///   anew, changes nothing;
/// * a file that was claimed [too often](MAX_CLAIMS) without an end has failed;
/// * the oldest comes first.
#[async_trait]
pub trait IndexQueue: Send + Sync {
    /// Takes the next file that nobody is reading. With a `model`, files that have been read but
    /// have no vectors of that model are due too, after those that have not been read.
    async fn claim(
        &self,
        model: Option<&str>,
        lease: Duration,
    ) -> Result<Option<IndexWork>, LibraryError>;

    /// Keeps a claim for another lease; false if it is lost.
    async fn renew(&self, work: &IndexWork, lease: Duration) -> Result<bool, LibraryError>;

    /// Ends a claim; false if it was lost.
    async fn finish(&self, work: &IndexWork, end: Indexed) -> Result<bool, LibraryError>;

    /// Waits until there may be something to do that was not there before. What other processes
    /// have left need not be noticed.
    async fn changed(&self);

    /// Forgets what has expired.
    async fn tidy(&self) -> Result<(), LibraryError>;
}

/// How often a file is begun before it is given up: somebody who crashes over it, takes everybody
/// with it otherwise.
pub const MAX_CLAIMS: u32 = 3;

/// A file that somebody has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexWork {
    /// Whose it is.
    pub tenant: TenantId,
    /// Where it is to be found.
    pub collection_id: CollectionId,
    /// The file.
    pub file_id: FileId,
    /// Its name.
    pub file_name: String,
    /// Which claim this is, in the library's own counting.
    pub claim: i64,
    /// What there is to do.
    pub task: IndexTask,
}

/// What there is to do with a file.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexTask {
    /// It has not been read yet.
    Read {
        /// What is in it.
        content: Arc<[u8]>,
        /// How it is to be cut.
        chunking: Chunking,
    },
    /// It has been read, and can be found by its words only.
    Embed {
        /// Its passages, in their order.
        chunks: Vec<String>,
    },
}

/// How a claim ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Indexed {
    /// It has been read.
    Chunks {
        /// What it says.
        chunks: Vec<NewChunk>,
        /// Their vectors, one for each; without them it is found by its words.
        vectors: Option<Vectors>,
    },
    /// It had been read, and these are its vectors.
    Vectors(Vectors),
    /// There are no vectors for now. The file stays as it is, and is due again after a while.
    NotNow(Duration),
    /// It cannot be read.
    Failed {
        /// In a word.
        why: ExtractionFailure,
        /// For its owner.
        reason: String,
    },
}

/// A passage that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// What it says.
    pub text: String,
    /// The words it is found by, as [`TextAnalyzer::words`] says them.
    pub words: Vec<String>,
}

/// The vectors of the passages of a file, in their order. All have the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// The model they come from: others cannot be compared with them.
    pub model: String,
    /// One for each passage, of length 1.
    pub vectors: Vec<Vec<f32>>,
}

/// How texts are understood: by what words, and with an embeddings model by what vectors they are
/// found. The same goes for passages and for questions.
#[async_trait]
pub trait TextAnalyzer: Send + Sync {
    /// The words that a text is found by: small letters and digits only, so that every database
    /// keeps them as they are.
    fn words(&self, text: &str) -> Vec<String>;

    /// The words of a question that tell something: what is in every text is of no use.
    fn asked(&self, question: &str) -> Vec<String> {
        self.words(question)
    }

    /// The model whose vectors [`vectors`](Self::vectors) gives, if there is one.
    fn model(&self) -> Option<&str>;

    /// One vector for each text, of length 1; an error if there is no model, or if it is away.
    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError>;
}

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmbeddingError(pub String);
