//! What the library in memory holds for a tenant: files, collections and their index.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, OnceLock, RwLock},
    time::{Instant, SystemTime},
};

use bm25::{Embedder, EmbedderBuilder, Embedding, Scorer};
use turnwire_contract::{
    Attachment, BatchId, BatchRecord, CollectionId, CollectionRecord, FileCounts, FileId,
    FileRecord, IndexWork, Indexing, LibraryError, NewChunk, Timestamp, Vectors,
};

use crate::sync::{lock, write};

/// Assumed average number of words per chunk, for the length normalization of BM25.
const USUAL_WORDS: f32 = 200.0;

/// Data of one tenant.
#[derive(Default)]
pub(super) struct TenantLibrary {
    pub(super) files: Mutex<HashMap<FileId, File>>,
    pub(super) collections: Mutex<HashMap<CollectionId, Arc<Collection>>>,
}

pub(super) struct File {
    pub(super) record: FileRecord,
    pub(super) content: Arc<[u8]>,
}

pub(super) struct Collection {
    pub(super) record: Mutex<CollectionRecord>,
    pub(super) attached: Mutex<HashMap<FileId, AttachedFile>>,
    pub(super) batches: Mutex<HashMap<BatchId, BatchRecord>>,
    /// Locked only on blocking threads.
    pub(super) index: RwLock<Index>,
}

/// A file in a collection and its indexing state.
pub(super) struct AttachedFile {
    pub(super) attachment: Attachment,
    /// Number of the attachment, in order of attachment.
    pub(super) number: i64,
    pub(super) claim: Option<i64>,
    pub(super) n_claims: u32,
    pub(super) not_before: Instant,
    pub(super) model: Option<String>,
    pub(super) n_passages: usize,
}

impl AttachedFile {
    pub(super) fn is_due(&self, model: Option<&str>) -> bool {
        let due = match &self.attachment.state {
            Indexing::InProgress => true,
            Indexing::Completed => {
                model.is_some() && self.model.as_deref() != model && self.n_passages > 0
            }
            Indexing::Failed { .. } | Indexing::Cancelled => false,
        };
        due && self.not_before <= Instant::now()
    }

    /// Order in the queue: files that are not indexed first, then by attachment.
    pub(super) fn turn(&self) -> (bool, i64) {
        (self.attachment.state != Indexing::InProgress, self.number)
    }
}

/// Chunks of a collection.
pub(super) struct Index {
    pub(super) scorer: Scorer<u64>,
    pub(super) chunks: HashMap<u64, IndexedChunk>,
    pub(super) next: u64,
}

pub(super) struct IndexedChunk {
    /// Number of the attachment.
    pub(super) attachment: i64,
    pub(super) text: String,
    /// The vector and its model.
    pub(super) vector: Option<(Arc<str>, Vec<f32>)>,
}

impl TenantLibrary {
    pub(super) fn with_file<T>(
        &self,
        id: &FileId,
        look: impl FnOnce(&File) -> T,
    ) -> Result<T, LibraryError> {
        let files = lock(&self.files);
        let file = files.get(id).filter(|file| !is_over(file.record.expires_at));
        file.map(look).ok_or_else(|| LibraryError::no_file(id))
    }

    pub(super) fn collection(&self, id: &CollectionId) -> Result<Arc<Collection>, LibraryError> {
        lock(&self.collections).get(id).cloned().ok_or_else(|| LibraryError::no_collection(id))
    }

    pub(super) fn remove_file(&self, id: &FileId) -> Result<(), LibraryError> {
        lock(&self.files).remove(id).ok_or_else(|| LibraryError::no_file(id))?;
        let collections: Vec<_> = lock(&self.collections).values().cloned().collect();
        for collection in collections {
            collection.detach(id);
        }
        Ok(())
    }
}

impl Collection {
    pub(super) fn new(record: CollectionRecord) -> Self {
        let index = Index { scorer: Scorer::new(), chunks: HashMap::new(), next: 0 };
        Self {
            record: Mutex::new(record),
            attached: Mutex::default(),
            batches: Mutex::default(),
            index: RwLock::new(index),
        }
    }

    pub(super) fn record(&self) -> CollectionRecord {
        lock(&self.record).clone()
    }

    /// Marks the collection as used now. Fails if it has expired.
    pub(super) fn use_it(&self) -> Result<(), LibraryError> {
        let mut record = lock(&self.record);
        if record.is_expired(now()) {
            return Err(LibraryError::expired(&record.id));
        }
        record.last_active_at = now();
        Ok(())
    }

    pub(super) fn with_attached<T>(
        &self,
        id: &FileId,
        look: impl FnOnce(&mut AttachedFile) -> T,
    ) -> Result<T, LibraryError> {
        lock(&self.attached).get_mut(id).map(look).ok_or_else(|| LibraryError::not_attached(id))
    }

    /// Calls `act` with the attachment of a claim, if the claim is still valid.
    pub(super) fn with_claimed<T>(
        &self,
        work: &IndexWork,
        act: impl FnOnce(&mut AttachedFile) -> T,
    ) -> Option<T> {
        let mut attached = lock(&self.attached);
        let claimed = attached.get_mut(&work.file_id)?;
        (claimed.claim == Some(work.claim)).then(|| act(claimed))
    }

    /// Removes a file from the collection. Waits for the index lock.
    pub(super) fn detach(&self, file_id: &FileId) -> bool {
        let gone = lock(&self.attached).remove(file_id);
        if let Some(gone) = &gone {
            write(&self.index).remove(gone.number);
        }
        gone.is_some()
    }

    pub(super) fn counts(&self, of: impl Fn(&Attachment) -> bool) -> FileCounts {
        let mut counts = FileCounts::default();
        for attached in lock(&self.attached).values() {
            if of(&attached.attachment) {
                counts.add(&attached.attachment.state);
            }
        }
        counts
    }

    /// Stores the chunks of a file. Waits for the index lock. Returns false if the claim is lost.
    pub(super) fn fill(
        &self,
        work: &IndexWork,
        chunks: Vec<NewChunk>,
        vectors: Option<Vectors>,
    ) -> bool {
        let usage = chunks.iter().map(|chunk| chunk.text.len()).sum::<usize>()
            + vectors.as_ref().map_or(0, bytes_of);
        let (n_passages, model) =
            (chunks.len(), vectors.as_ref().map(|vectors| vectors.model.clone()));
        let ready: Vec<(NewChunk, Embedding)> = chunks
            .into_iter()
            .map(|chunk| {
                let embedding = embedder().embed(&chunk.words.join(" "));
                (chunk, embedding)
            })
            .collect();
        let mut index = write(&self.index);
        let done = self.with_claimed(work, |attached| {
            attached.attachment.state = Indexing::Completed;
            attached.attachment.usage_bytes = usage as u64;
            (attached.claim, attached.n_claims) = (None, 0);
            (attached.n_passages, attached.model) = (n_passages, model);
            attached.not_before = Instant::now();
            attached.number
        });
        let Some(number) = done else { return false };
        index.insert(number, ready, vectors);
        true
    }

    /// Adds vectors to the chunks of a file. Waits for the index lock.
    pub(super) fn add_vectors(&self, work: &IndexWork, vectors: Vectors) -> bool {
        let mut index = write(&self.index);
        let done = self.with_claimed(work, |attached| {
            (attached.claim, attached.n_claims) = (None, 0);
            attached.not_before = Instant::now();
            if attached.n_passages != vectors.vectors.len() {
                return None;
            }
            attached.attachment.usage_bytes += bytes_of(&vectors) as u64;
            attached.model = Some(vectors.model.clone());
            Some(attached.number)
        });
        let Some(Some(number)) = done else { return false };
        index.set_vectors(number, vectors);
        true
    }
}

impl Index {
    pub(super) fn remove(&mut self, attachment: i64) {
        let is_gone = |indexed: &IndexedChunk| indexed.attachment == attachment;
        for (key, _) in self.chunks.extract_if(|_, indexed| is_gone(indexed)) {
            self.scorer.remove(&key);
        }
    }

    pub(super) fn insert(
        &mut self,
        attachment: i64,
        chunks: Vec<(NewChunk, Embedding)>,
        vectors: Option<Vectors>,
    ) {
        for (NewChunk { text, .. }, embedding) in chunks {
            let key = self.next;
            self.next += 1;
            self.scorer.upsert(&key, embedding);
            self.chunks.insert(key, IndexedChunk { attachment, text, vector: None });
        }
        if let Some(vectors) = vectors {
            self.set_vectors(attachment, vectors);
        }
    }

    pub(super) fn set_vectors(&mut self, attachment: i64, vectors: Vectors) {
        let model: Arc<str> = vectors.model.into();
        for (key, vector) in self.of(attachment).into_iter().zip(vectors.vectors) {
            if let Some(indexed) = self.chunks.get_mut(&key) {
                indexed.vector = Some((Arc::clone(&model), vector));
            }
        }
    }

    /// Returns the keys of the chunks of a file, in order.
    pub(super) fn of(&self, attachment: i64) -> Vec<u64> {
        let its = |(key, indexed): (&u64, &IndexedChunk)| {
            (indexed.attachment == attachment).then_some(*key)
        };
        let mut keys: Vec<u64> = self.chunks.iter().filter_map(its).collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn texts_of(&self, attachment: i64) -> Vec<String> {
        let text = |key: u64| Some(self.chunks.get(&key)?.text.clone());
        self.of(attachment).into_iter().filter_map(text).collect()
    }

    /// Returns the chunks of these files that contain the words, best first; ties in order of the
    /// key.
    pub(super) fn by_words(&self, words: &[String], files: &HashSet<i64>) -> Vec<(u64, f64)> {
        let mut found = self.scorer.matches(&embedder().embed(&words.join(" ")));
        found.retain(|hit| {
            self.chunks.get(&hit.id).is_some_and(|indexed| files.contains(&indexed.attachment))
        });
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        found.into_iter().map(|hit| (hit.id, between_0_and_1(hit.score))).collect()
    }

    /// Returns the chunks of these files that are closest to the query vector, closest first.
    pub(super) fn by_meaning(
        &self,
        (model, question): (&str, &[f32]),
        files: &HashSet<i64>,
    ) -> Vec<(u64, f32)> {
        let likeness = |(key, indexed): (&u64, &IndexedChunk)| {
            let (of_model, vector) = indexed.vector.as_ref()?;
            let comparable = **of_model == *model && vector.len() == question.len();
            let product = || vector.iter().zip(question).map(|(one, other)| one * other).sum();
            (comparable && files.contains(&indexed.attachment)).then(|| (*key, product()))
        };
        let mut found: Vec<(u64, f32)> = self.chunks.iter().filter_map(likeness).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        found
    }
}

pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

pub(super) fn is_over(moment: Option<Timestamp>) -> bool {
    moment.is_some_and(|moment| moment <= now())
}

fn bytes_of(vectors: &Vectors) -> usize {
    vectors.vectors.iter().map(|vector| size_of_val(vector.as_slice())).sum()
}

/// The words are already tokenized.
#[derive(Debug, Clone, Copy, Default)]
struct WhitespaceTokenizer;

impl bm25::Tokenizer for WhitespaceTokenizer {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }
}

fn embedder() -> &'static Embedder<u32, WhitespaceTokenizer> {
    static EMBEDDER: OnceLock<Embedder<u32, WhitespaceTokenizer>> = OnceLock::new();
    EMBEDDER.get_or_init(|| EmbedderBuilder::with_avgdl(USUAL_WORDS).build())
}

/// Maps a score to the range from 0 to 1. Keeps the order.
fn between_0_and_1(score: f32) -> f64 {
    let score = f64::from(score.max(0.0));
    score / (score + 1.0)
}
