//! A library in memory: everything is gone when the process is.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex, OnceLock, RwLock},
};

use async_trait::async_trait;
use bm25::{Embedder, EmbedderBuilder, Embedding, Scorer};
use turnwire_contract::{
    Attachment, CollectionId, CollectionRecord, FileId, FileRecord, Library, LibraryError, Passage,
    Query, TenantId,
};

use super::text::{Words, passages, text_of};
use crate::sync::{lock, read, write};

/// The biggest file that is kept.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// How many words a passage has, more or less; only how much a long one is held against it
/// depends on this.
const USUAL_WORDS: f32 = 200.0;

/// Keeps files and collections in memory, and ranks passages with BM25.
///
/// Tables are locked for as long as it takes to look something up. What takes longer (reading a
/// big file, ranking its passages) holds the index of one collection and nothing else, and is
/// done on a thread where waiting holds up no run.
#[derive(Default)]
pub struct MemoryLibrary {
    shelves: Mutex<HashMap<TenantId, Arc<Shelf>>>,
}

/// What one tenant has.
#[derive(Default)]
struct Shelf {
    files: Mutex<HashMap<FileId, File>>,
    collections: Mutex<HashMap<CollectionId, Arc<Collection>>>,
}

struct File {
    record: FileRecord,
    content: Arc<[u8]>,
}

struct Collection {
    record: Mutex<CollectionRecord>,
    /// Changes only together with the index, and while the index is locked.
    attached: Mutex<HashMap<FileId, Attachment>>,
    /// Locked on threads that may wait, and nowhere else.
    index: RwLock<Index>,
}

/// The passages of a collection.
struct Index {
    scorer: Scorer<u64>,
    passages: HashMap<u64, Indexed>,
    next: u64,
}

struct Indexed {
    source: Arc<Source>,
    text: String,
}

/// Where a passage comes from.
struct Source {
    name: String,
    attachment: Attachment,
}

/// A passage, ready to be indexed.
type Prepared = (String, Embedding);

impl MemoryLibrary {
    /// An empty library.
    pub fn new() -> Self {
        Self::default()
    }

    fn shelf(&self, tenant: &TenantId) -> Arc<Shelf> {
        Arc::clone(lock(&self.shelves).entry(tenant.clone()).or_default())
    }
}

impl Shelf {
    fn with_file<T>(&self, id: &FileId, look: impl FnOnce(&File) -> T) -> Result<T, LibraryError> {
        lock(&self.files).get(id).map(look).ok_or_else(|| no_file(id))
    }

    fn collection(&self, id: &CollectionId) -> Result<Arc<Collection>, LibraryError> {
        lock(&self.collections).get(id).cloned().ok_or_else(|| no_collection(id))
    }

    /// Indexes a file; takes long if it is big.
    fn attach(&self, id: &CollectionId, attachment: Attachment) -> Result<(), LibraryError> {
        let collection = self.collection(id)?;
        let (name, content) = self.with_file(&attachment.file_id, |file| {
            (file.record.name.clone(), Arc::clone(&file.content))
        })?;
        let prepared = prepare(&name, &content)?;
        let mut index = write(&collection.index);
        // Both may have been removed meanwhile. A file that goes from now on is taken out of
        // this index by whoever removes it, afterwards.
        self.collection(id)?;
        self.with_file(&attachment.file_id, |_| ())?;
        index.remove(&attachment.file_id);
        index.insert(Source { name, attachment: attachment.clone() }, prepared);
        lock(&collection.attached).insert(attachment.file_id.clone(), attachment);
        Ok(())
    }

    fn remove_file(&self, id: &FileId) -> Result<(), LibraryError> {
        lock(&self.files).remove(id).ok_or_else(|| no_file(id))?;
        let collections: Vec<_> = lock(&self.collections).values().cloned().collect();
        for collection in collections {
            collection.detach(id);
        }
        Ok(())
    }
}

impl Collection {
    fn new(record: CollectionRecord) -> Self {
        let index = Index { scorer: Scorer::new(), passages: HashMap::new(), next: 0 };
        let (record, index) = (Mutex::new(record), RwLock::new(index));
        Self { record, attached: Mutex::default(), index }
    }

    fn record(&self) -> CollectionRecord {
        lock(&self.record).clone()
    }

    fn detach(&self, file_id: &FileId) -> bool {
        let mut index = write(&self.index);
        let was_attached = lock(&self.attached).remove(file_id).is_some();
        if was_attached {
            index.remove(file_id);
        }
        was_attached
    }
}

impl Index {
    fn remove(&mut self, file_id: &FileId) {
        let is_gone = |indexed: &Indexed| indexed.source.attachment.file_id == *file_id;
        for (key, _) in self.passages.extract_if(|_, indexed| is_gone(indexed)) {
            self.scorer.remove(&key);
        }
    }

    fn insert(&mut self, source: Source, prepared: Vec<Prepared>) {
        let source = Arc::new(source);
        for (text, embedding) in prepared {
            let key = self.next;
            self.next += 1;
            self.scorer.upsert(&key, embedding);
            self.passages.insert(key, Indexed { source: Arc::clone(&source), text });
        }
    }

    /// The best passages of this collection; of equals the earlier one.
    fn best(&self, query: &Query) -> Vec<Passage> {
        let passes = |source: &Source| {
            let filter = query.filter.as_ref();
            filter.is_none_or(|filter| filter.passes(&source.attachment.attributes))
        };
        let mut found = self.scorer.matches(&embedder().embed(&query.text));
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        let passage = found.into_iter().filter_map(|found| {
            let Indexed { source, text } = self.passages.get(&found.id)?;
            passes(source).then(|| Passage {
                file_id: source.attachment.file_id.clone(),
                file_name: source.name.clone(),
                score: between_0_and_1(found.score),
                text: text.clone(),
                attributes: source.attachment.attributes.clone(),
            })
        });
        passage.take(query.most).collect()
    }
}

/// The best passages of all these collections.
fn best_of_all(collections: &[Arc<Collection>], query: &Query) -> Vec<Passage> {
    let best = |collection: &Arc<Collection>| read(&collection.index).best(query);
    let mut found: Vec<Passage> = collections.iter().flat_map(best).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.file_id.cmp(&b.file_id)));
    found.truncate(query.most);
    found
}

/// Does what may take long where nobody waits for it but whoever asked.
async fn aside<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LibraryError> {
    let broke_off = |error| LibraryError::Unavailable(format!("the work broke off: {error}"));
    tokio::task::spawn_blocking(act).await.map_err(broke_off)
}

#[async_trait]
impl Library for MemoryLibrary {
    async fn add_file(
        &self,
        tenant: &TenantId,
        file: FileRecord,
        content: Arc<[u8]>,
    ) -> Result<(), LibraryError> {
        if content.len() > MAX_FILE_BYTES {
            let (name, limit) = (&file.name, MAX_FILE_BYTES / 1024 / 1024);
            let message = format!("`{name}` is bigger than {limit} MiB, which is the limit");
            return Err(LibraryError::Refused(message));
        }
        match lock(&self.shelf(tenant).files).entry(file.id.clone()) {
            Entry::Occupied(_) => Err(LibraryError::Exists(format!("file `{}`", file.id))),
            Entry::Vacant(free) => {
                free.insert(File { record: file, content });
                Ok(())
            }
        }
    }

    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord, LibraryError> {
        self.shelf(tenant).with_file(file_id, |file| file.record.clone())
    }

    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError> {
        let theirs = self.shelf(tenant);
        let mut files: Vec<FileRecord> =
            lock(&theirs.files).values().map(|file| file.record.clone()).collect();
        files.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(files)
    }

    async fn content(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Arc<[u8]>, LibraryError> {
        self.shelf(tenant).with_file(file_id, |file| Arc::clone(&file.content))
    }

    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<(), LibraryError> {
        let (theirs, file_id) = (self.shelf(tenant), file_id.clone());
        aside(move || theirs.remove_file(&file_id)).await?
    }

    async fn open_collection(
        &self,
        tenant: &TenantId,
        collection: CollectionRecord,
    ) -> Result<(), LibraryError> {
        match lock(&self.shelf(tenant).collections).entry(collection.id.clone()) {
            Entry::Occupied(_) => {
                Err(LibraryError::Exists(format!("collection `{}`", collection.id)))
            }
            Entry::Vacant(free) => {
                free.insert(Arc::new(Collection::new(collection)));
                Ok(())
            }
        }
    }

    async fn collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionRecord, LibraryError> {
        Ok(self.shelf(tenant).collection(collection_id)?.record())
    }

    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>, LibraryError> {
        let theirs = self.shelf(tenant);
        let mut collections: Vec<CollectionRecord> =
            lock(&theirs.collections).values().map(|collection| collection.record()).collect();
        collections.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(collections)
    }

    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        name: String,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), LibraryError> {
        let collection = self.shelf(tenant).collection(collection_id)?;
        let mut record = lock(&collection.record);
        record.name = name;
        record.metadata = metadata;
        Ok(())
    }

    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<(), LibraryError> {
        let removed = lock(&self.shelf(tenant).collections).remove(collection_id);
        let removed = removed.ok_or_else(|| no_collection(collection_id))?;
        // Many passages take a while to go.
        aside(move || drop(removed)).await
    }

    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        attachment: Attachment,
    ) -> Result<(), LibraryError> {
        let (theirs, collection_id) = (self.shelf(tenant), collection_id.clone());
        aside(move || theirs.attach(&collection_id, attachment)).await?
    }

    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment, LibraryError> {
        let collection = self.shelf(tenant).collection(collection_id)?;
        let attachment = lock(&collection.attached).get(file_id).cloned();
        attachment.ok_or_else(|| not_attached(file_id))
    }

    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>, LibraryError> {
        let collection = self.shelf(tenant).collection(collection_id)?;
        let mut attached: Vec<Attachment> = lock(&collection.attached).values().cloned().collect();
        attached.sort_by(|a, b| (b.created_at, &b.file_id).cmp(&(a.created_at, &a.file_id)));
        Ok(attached)
    }

    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<(), LibraryError> {
        let collection = self.shelf(tenant).collection(collection_id)?;
        let detached = file_id.clone();
        let was_attached = aside(move || collection.detach(&detached)).await?;
        if was_attached { Ok(()) } else { Err(not_attached(file_id)) }
    }

    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<Vec<Passage>, LibraryError> {
        let theirs = self.shelf(tenant);
        let mut seen = HashSet::new();
        let each = collections.iter().filter(|id| seen.insert(*id));
        let searched: Vec<_> = each.map(|id| theirs.collection(id)).collect::<Result<_, _>>()?;
        let query = query.clone();
        aside(move || best_of_all(&searched, &query)).await
    }
}

impl std::fmt::Debug for MemoryLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLibrary").finish_non_exhaustive()
    }
}

fn no_file(id: &FileId) -> LibraryError {
    LibraryError::NotFound(format!("file `{id}`"))
}

fn no_collection(id: &CollectionId) -> LibraryError {
    LibraryError::NotFound(format!("collection `{id}`"))
}

fn not_attached(file_id: &FileId) -> LibraryError {
    LibraryError::NotFound(format!("file `{file_id}` in this collection"))
}

fn prepare(name: &str, content: &[u8]) -> Result<Vec<Prepared>, LibraryError> {
    let text = text_of(name, content).ok_or_else(|| {
        LibraryError::Refused(format!(
            "`{name}` cannot be searched: only text in UTF-8, Markdown and HTML can be read so far"
        ))
    })?;
    let prepared = |text: String| (text.clone(), embedder().embed(&text));
    Ok(passages(&text).into_iter().map(prepared).collect())
}

fn embedder() -> &'static Embedder<u32, Words> {
    static EMBEDDER: OnceLock<Embedder<u32, Words>> = OnceLock::new();
    EMBEDDER.get_or_init(|| EmbedderBuilder::with_avgdl(USUAL_WORDS).build())
}

/// Ranks stay as they are; only the scale becomes one that people know.
fn between_0_and_1(score: f32) -> f64 {
    let score = f64::from(score.max(0.0));
    score / (score + 1.0)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
