//! A library in memory.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tracing::warn;
use turnwire_contract::{
    Attachment, Attachments, BatchId, BatchRecord, CollectionId, CollectionNotes, CollectionRecord,
    CollectionUsage, Collections, ContentStream, ExtractionFailure, FileId, FileRecord, FileUpload,
    Files, FoundChunk, IndexQueue, IndexTask, IndexWork, Indexed, Indexing, LibraryError,
    MAX_CLAIMS, Query, RANKED, SearchResults, TenantId, TextAnalyzer, fused,
};

use super::{
    DefaultAnalyzer,
    tenant_library::{AttachedFile, Collection, File, TenantLibrary, is_over, now},
    uploads::{Upload, already_there, in_pieces},
};
use crate::sync::{lock, read, write};

/// Stores files and collections in memory, and ranks chunks with BM25 and their vectors.
///
/// The tables are locked only for lookups. Slow operations (storing or ranking many chunks) lock
/// only the index of one collection and run on a blocking thread.
pub struct MemoryLibrary {
    tenant_libraries: Mutex<HashMap<TenantId, Arc<TenantLibrary>>>,
    reader: Arc<dyn TextAnalyzer>,
    changed: Notify,
    /// Next number of an attachment or claim.
    numbers: Mutex<i64>,
}

impl Default for MemoryLibrary {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLibrary {
    /// Creates an empty library that finds texts by words.
    pub fn new() -> Self {
        Self::with_reader(Arc::new(DefaultAnalyzer::default()))
    }

    /// Creates an empty library with this analyzer.
    pub fn with_reader(reader: Arc<dyn TextAnalyzer>) -> Self {
        Self {
            tenant_libraries: Mutex::default(),
            reader,
            changed: Notify::new(),
            numbers: Mutex::default(),
        }
    }

    fn tenant_library(&self, tenant: &TenantId) -> Arc<TenantLibrary> {
        Arc::clone(lock(&self.tenant_libraries).entry(tenant.clone()).or_default())
    }

    fn number(&self) -> i64 {
        let mut numbers = lock(&self.numbers);
        *numbers += 1;
        *numbers
    }

    fn collection(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
    ) -> Result<Arc<Collection>, LibraryError> {
        self.tenant_library(tenant).collection(id)
    }

    fn everything(&self) -> Vec<(TenantId, Arc<TenantLibrary>, Arc<Collection>)> {
        let tenant_libraries: Vec<(TenantId, Arc<TenantLibrary>)> = lock(&self.tenant_libraries)
            .iter()
            .map(|(tenant, tenant_library)| (tenant.clone(), Arc::clone(tenant_library)))
            .collect();
        let mut all = Vec::new();
        for (tenant, tenant_library) in tenant_libraries {
            let collections: Vec<_> = lock(&tenant_library.collections).values().cloned().collect();
            all.extend(
                collections
                    .into_iter()
                    .map(|one| (tenant.clone(), Arc::clone(&tenant_library), one)),
            );
        }
        all
    }

    /// Returns the next file to index.
    fn next(
        &self,
        model: Option<&str>,
    ) -> Option<(TenantId, Arc<TenantLibrary>, Arc<Collection>, FileId)> {
        let mut next: Option<((bool, i64), _)> = None;
        for (tenant, tenant_library, collection) in self.everything() {
            for (file_id, attached) in lock(&collection.attached).iter() {
                let turn = attached.turn();
                let is_sooner = next.as_ref().is_none_or(|(other, _)| turn < *other);
                if attached.is_due(model) && is_sooner {
                    let here = Arc::clone(&collection);
                    let place =
                        (tenant.clone(), Arc::clone(&tenant_library), here, file_id.clone());
                    next = Some((turn, place));
                }
            }
        }
        next.map(|(_, place)| place)
    }
}

struct AnalyzedQuery {
    words: Vec<String>,
    meaning: Option<(String, Vec<f32>)>,
    query: Query,
}

/// Returns the best chunks of all these collections.
fn best_of_all(
    tenant_library: &TenantLibrary,
    collections: &[Arc<Collection>],
    asked: &AnalyzedQuery,
) -> Vec<FoundChunk> {
    let (mut by_words, mut by_meaning) = (Vec::new(), Vec::new());
    let mut chunks: HashMap<(usize, u64), FoundChunk> = HashMap::new();
    for (n, collection) in collections.iter().enumerate() {
        let files = files_of(tenant_library, collection, &asked.query);
        let numbers: HashSet<i64> = files.keys().copied().collect();
        let index = read(&collection.index);
        let mut show = |key: u64| {
            let indexed = index.chunks.get(&key)?;
            let chunk = FoundChunk {
                text: indexed.text.clone(),
                ..files.get(&indexed.attachment)?.clone()
            };
            chunks.insert((n, key), chunk);
            Some((n, key))
        };
        let most = RANKED.max(asked.query.most);
        for (key, score) in index.by_words(&asked.words, &numbers).into_iter().take(most) {
            by_words.extend(show(key).map(|place| (place, score)));
        }
        if let Some((model, question)) = &asked.meaning {
            let near = index.by_meaning((model, question), &numbers);
            for (key, likeness) in near.into_iter().take(most) {
                by_meaning.extend(show(key).map(|place| (place, likeness)));
            }
        }
    }
    by_words.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    by_meaning.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let ranked = if asked.meaning.is_some() {
        let places = |(place, _): &((usize, u64), f64)| *place;
        let by_words: Vec<_> = by_words.iter().map(places).collect();
        let by_meaning: Vec<_> = by_meaning.iter().map(|(place, _)| *place).collect();
        fused(&by_words, &by_meaning)
    } else {
        by_words
    };
    let best = ranked
        .into_iter()
        .filter_map(|(place, score)| Some(FoundChunk { score, ..chunks.remove(&place)? }));
    best.take(asked.query.most).collect()
}

/// Returns the files of a collection that match the query's filter, as results without text.
fn files_of(
    tenant_library: &TenantLibrary,
    collection: &Collection,
    query: &Query,
) -> HashMap<i64, FoundChunk> {
    let attached = lock(&collection.attached);
    let passes = |attributes: &Map<String, Value>| {
        query.filter.as_ref().is_none_or(|filter| filter.passes(attributes))
    };
    let as_passage = |one: &AttachedFile| {
        let Attachment { file_id, attributes, state, .. } = &one.attachment;
        if *state != Indexing::Completed || !passes(attributes) {
            return None;
        }
        let file_name = tenant_library.with_file(file_id, |file| file.record.name.clone()).ok()?;
        let (file_id, attributes) = (file_id.clone(), attributes.clone());
        let chunk = FoundChunk { file_id, file_name, score: 0.0, text: String::new(), attributes };
        Some((one.number, chunk))
    };
    attached.values().filter_map(as_passage).collect()
}

/// Executes a slow operation on a blocking thread.
async fn aside<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LibraryError> {
    let broke_off = |error| LibraryError::Unavailable(format!("the task failed: {error}"));
    tokio::task::spawn_blocking(act).await.map_err(broke_off)
}

#[async_trait]
impl Files for MemoryLibrary {
    async fn upload(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Box<dyn FileUpload>, LibraryError> {
        let theirs = self.tenant_library(tenant);
        if lock(&theirs.files).contains_key(file_id) {
            return Err(already_there(file_id));
        }
        Ok(Box::new(Upload::to(theirs)))
    }

    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord, LibraryError> {
        self.tenant_library(tenant).with_file(file_id, |file| file.record.clone())
    }

    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError> {
        let theirs = self.tenant_library(tenant);
        let mut files: Vec<FileRecord> =
            lock(&theirs.files).values().map(|file| file.record.clone()).collect();
        files.retain(|file| !is_over(file.expires_at));
        files.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(files)
    }

    async fn content(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<Arc<[u8]>, LibraryError> {
        self.tenant_library(tenant).with_file(file_id, |file| Arc::clone(&file.content))
    }

    async fn content_stream(
        &self,
        tenant: &TenantId,
        file_id: &FileId,
    ) -> Result<ContentStream, LibraryError> {
        Ok(in_pieces(self.content(tenant, file_id).await?))
    }

    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<(), LibraryError> {
        let (theirs, file_id) = (self.tenant_library(tenant), file_id.clone());
        aside(move || theirs.remove_file(&file_id)).await?
    }
}

#[async_trait]
impl Collections for MemoryLibrary {
    async fn open_collection(
        &self,
        tenant: &TenantId,
        collection: CollectionRecord,
    ) -> Result<(), LibraryError> {
        match lock(&self.tenant_library(tenant).collections).entry(collection.id.clone()) {
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
        Ok(self.collection(tenant, collection_id)?.record())
    }

    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>, LibraryError> {
        let theirs = self.tenant_library(tenant);
        let mut collections: Vec<CollectionRecord> =
            lock(&theirs.collections).values().map(|collection| collection.record()).collect();
        collections.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(collections)
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionUsage, LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let files = collection.counts(|_| true);
        let attached = lock(&collection.attached);
        let bytes = attached.values().map(|attached| attached.attachment.usage_bytes).sum();
        Ok(CollectionUsage { files, bytes })
    }

    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        notes: CollectionNotes,
    ) -> Result<(), LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let mut record = lock(&collection.record);
        record.notes = notes;
        record.last_active_at = now();
        Ok(())
    }

    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<(), LibraryError> {
        let removed = lock(&self.tenant_library(tenant).collections).remove(collection_id);
        let removed = removed.ok_or_else(|| LibraryError::no_collection(collection_id))?;
        // Dropping many chunks is slow.
        aside(move || drop(removed)).await
    }

    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults, LibraryError> {
        let theirs = self.tenant_library(tenant);
        let mut seen = HashSet::new();
        let each = collections.iter().filter(|id| seen.insert(*id));
        let searched: Vec<_> = each.map(|id| theirs.collection(id)).collect::<Result<_, _>>()?;
        for collection in &searched {
            collection.use_it()?;
        }
        let (mut meaning, mut words_only) = (None, None);
        if let Some(model) = self.reader.model() {
            match self.reader.vectors(&[&query.text]).await {
                Ok(vectors) => {
                    meaning = vectors.into_iter().next().map(|vector| (model.to_owned(), vector));
                }
                Err(cause) => {
                    warn!(%cause, "embeddings unavailable, full-text search only");
                    words_only = Some(cause.to_string());
                }
            }
        }
        let asked =
            AnalyzedQuery { words: self.reader.asked(&query.text), meaning, query: query.clone() };
        let chunks = aside(move || best_of_all(&theirs, &searched, &asked)).await?;
        Ok(SearchResults { chunks, words_only })
    }
}

#[async_trait]
impl Attachments for MemoryLibrary {
    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch: Option<BatchRecord>,
        attachments: Vec<Attachment>,
    ) -> Result<(), LibraryError> {
        let theirs = self.tenant_library(tenant);
        let collection = theirs.collection(collection_id)?;
        for attachment in &attachments {
            theirs.with_file(&attachment.file_id, |_| ())?;
        }
        collection.use_it()?;
        let batch_id = batch.as_ref().map(|batch| batch.id.clone());
        if let Some(batch) = batch {
            let batch = BatchRecord { cancelled: false, ..batch };
            lock(&collection.batches).insert(batch.id.clone(), batch);
        }
        let mut gone = Vec::new();
        for mut attachment in attachments {
            attachment.batch_id.clone_from(&batch_id);
            (attachment.state, attachment.usage_bytes) = (Indexing::InProgress, 0);
            let file_id = attachment.file_id.clone();
            let attached = AttachedFile {
                attachment,
                number: self.number(),
                claim: None,
                n_claims: 0,
                not_before: Instant::now(),
                model: None,
                n_passages: 0,
            };
            gone.extend(lock(&collection.attached).insert(file_id, attached));
        }
        if !gone.is_empty() {
            let forget = move || {
                let mut index = write(&collection.index);
                for attached in &gone {
                    index.remove(attached.number);
                }
            };
            aside(forget).await?;
        }
        self.changed.notify_one();
        Ok(())
    }

    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment, LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        collection.with_attached(file_id, |attached| attached.attachment.clone())
    }

    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>, LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let mut all: Vec<(i64, Attachment)> = lock(&collection.attached)
            .values()
            .map(|attached| (attached.number, attached.attachment.clone()))
            .collect();
        all.sort_by_key(|(number, attachment)| std::cmp::Reverse((attachment.created_at, *number)));
        Ok(all.into_iter().map(|(_, attachment)| attachment).collect())
    }

    async fn set_attributes(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
        attributes: Map<String, Value>,
    ) -> Result<(), LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        collection.with_attached(file_id, |attached| attached.attachment.attributes = attributes)
    }

    async fn chunks(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Vec<String>, LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let number = collection.with_attached(file_id, |attached| attached.number)?;
        aside(move || read(&collection.index).texts_of(number)).await
    }

    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<(), LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let detached = file_id.clone();
        let was_attached = aside(move || collection.detach(&detached)).await?;
        if was_attached { Ok(()) } else { Err(LibraryError::not_attached(file_id)) }
    }

    async fn batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<BatchRecord, LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let batch = lock(&collection.batches).get(batch_id).cloned();
        let batch = batch.ok_or_else(|| LibraryError::no_batch(batch_id))?;
        let files = collection.counts(|attachment| attachment.batch_id.as_ref() == Some(batch_id));
        Ok(BatchRecord { files, ..batch })
    }

    async fn cancel_batch(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<(), LibraryError> {
        let collection = self.collection(tenant, collection_id)?;
        let mut batches = lock(&collection.batches);
        let batch = batches.get_mut(batch_id).ok_or_else(|| LibraryError::no_batch(batch_id))?;
        for attached in lock(&collection.attached).values_mut() {
            let its = attached.attachment.batch_id.as_ref() == Some(batch_id);
            if its && attached.attachment.state == Indexing::InProgress {
                attached.attachment.state = Indexing::Cancelled;
                attached.claim = None;
                batch.cancelled = true;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl IndexQueue for MemoryLibrary {
    async fn claim(
        &self,
        model: Option<&str>,
        lease: Duration,
    ) -> Result<Option<IndexWork>, LibraryError> {
        while let Some((tenant, tenant_library, collection, file_id)) = self.next(model) {
            let claim = self.number();
            let claimed = collection.with_attached(&file_id, |attached| {
                // Another worker may have claimed it meanwhile.
                if !attached.is_due(model) {
                    return None;
                }
                let is_read = attached.attachment.state == Indexing::Completed;
                if !is_read && attached.n_claims >= MAX_CLAIMS {
                    let reason = "text extraction failed on every attempt".to_owned();
                    attached.attachment.state =
                        Indexing::Failed { why: ExtractionFailure::Broke, reason };
                    return None;
                }
                attached.claim = Some(claim);
                attached.n_claims += 1;
                attached.not_before = Instant::now() + lease;
                Some((attached.number, attached.attachment.chunking, is_read))
            });
            let Ok(Some((number, chunking, is_read))) = claimed else { continue };
            let file = tenant_library
                .with_file(&file_id, |file| (file.record.name.clone(), Arc::clone(&file.content)));
            let Ok((file_name, content)) = file else { continue };
            let collection_id = collection.record().id;
            let task = if is_read {
                let chunks = aside(move || read(&collection.index).texts_of(number)).await?;
                IndexTask::Embed { chunks }
            } else {
                IndexTask::Read { content, chunking }
            };
            let work = IndexWork { tenant, collection_id, file_id, file_name, claim, task };
            return Ok(Some(work));
        }
        Ok(None)
    }

    async fn renew(&self, work: &IndexWork, lease: Duration) -> Result<bool, LibraryError> {
        let Ok(collection) = self.collection(&work.tenant, &work.collection_id) else {
            return Ok(false);
        };
        let later = Instant::now() + lease;
        Ok(collection.with_claimed(work, |attached| attached.not_before = later).is_some())
    }

    async fn finish(&self, work: &IndexWork, end: Indexed) -> Result<bool, LibraryError> {
        let Ok(collection) = self.collection(&work.tenant, &work.collection_id) else {
            return Ok(false);
        };
        let ended = |attached: &mut AttachedFile| (attached.claim, attached.n_claims) = (None, 0);
        match end {
            Indexed::Chunks { chunks, vectors } => {
                let work = work.clone();
                aside(move || collection.fill(&work, chunks, vectors)).await
            }
            Indexed::Vectors(vectors) => {
                let work = work.clone();
                aside(move || collection.add_vectors(&work, vectors)).await
            }
            Indexed::NotNow(wait) => {
                let done = collection.with_claimed(work, |attached| {
                    ended(attached);
                    attached.not_before = Instant::now() + wait;
                });
                Ok(done.is_some())
            }
            Indexed::Failed { why, reason } => {
                let done = collection.with_claimed(work, |attached| {
                    ended(attached);
                    attached.attachment.state = Indexing::Failed { why, reason };
                });
                Ok(done.is_some())
            }
        }
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn tidy(&self) -> Result<(), LibraryError> {
        let tenant_libraries: Vec<_> = lock(&self.tenant_libraries).values().cloned().collect();
        for theirs in tenant_libraries {
            let is_old = |file: &&File| is_over(file.record.expires_at);
            let old: Vec<FileId> = lock(&theirs.files)
                .values()
                .filter(is_old)
                .map(|file| file.record.id.clone())
                .collect();
            for id in old {
                let theirs = Arc::clone(&theirs);
                // Another caller may have removed it meanwhile.
                let _ = aside(move || theirs.remove_file(&id)).await?;
            }
        }
        for (_, _, collection) in self.everything() {
            if collection.record().is_expired(now()) {
                let files: Vec<FileId> = lock(&collection.attached).keys().cloned().collect();
                let forget = move || {
                    for id in &files {
                        collection.detach(id);
                    }
                };
                aside(forget).await?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for MemoryLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLibrary").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
