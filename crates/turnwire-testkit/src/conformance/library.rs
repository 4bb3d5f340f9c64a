//! Contract of [`Library`] and of its [`IndexQueue`].
//!
//! The suite has its own extraction: a file is text, and each paragraph is a chunk.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::TryStreamExt;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    Attachment, BatchId, BatchRecord, Chunking, CollectionId, CollectionNotes, CollectionRecord,
    Comparison, EmbeddingError, ExtractionFailure, FileCounts, FileId, FileRecord, Filter,
    FoundChunk, IndexQueue, IndexTask, IndexWork, Indexed, Indexing, Library, LibraryError,
    MAX_CLAIMS, NewChunk, Query, SearchResults, TenantId, TextAnalyzer, Timestamp, Vectors,
};

pub trait Shelves: Library + IndexQueue {}

impl<T: Library + IndexQueue> Shelves for T {}

/// Lease of a claim in this suite: longer than any test.
const LEASE: Duration = Duration::from_mins(1);

/// Runs the whole suite on `library`, which may contain other files, but none in the queue. It
/// searches by words only: its analyzer is [`Plainly::by_words`].
pub async fn check(library: &dyn Shelves) {
    what_was_handed_in_is_there(library).await;
    a_file_comes_in_pieces(library).await;
    an_upload_that_is_given_up_leaves_nothing(library).await;
    the_newest_come_first(library).await;
    a_removed_file_is_gone(library).await;
    a_collection_is_kept(library).await;
    an_attached_file_is_found(library).await;
    an_attachment_can_be_changed(library).await;
    all_files_are_attached_or_none(library).await;
    the_best_passages_come_first(library).await;
    rare_words_count_more(library).await;
    a_question_can_be_narrowed(library).await;
    several_collections_are_searched_together(library).await;
    what_cannot_be_read_says_why(library).await;
    a_batch_is_its_files(library).await;
    a_cancelled_batch_is_not_read(library).await;
    a_claim_is_ones_own(library).await;
    only_the_last_claim_counts(library).await;
    a_file_that_is_never_finished_is_given_up(library).await;
    big_files_are_found_whole(library).await;
    what_has_expired_is_gone(library).await;
    what_is_not_there_is_not_found(library).await;
    tenants_do_not_see_each_other(library).await;
}

/// Runs the suite for vector search on `library`, whose analyzer is [`Plainly::by_meaning`].
pub async fn check_meaning(library: &dyn Shelves, reader: &Plainly) {
    // First, because it indexes every file again that has no vectors of its models.
    vectors_can_follow_later(library).await;
    what_is_said_in_other_words_is_found(library).await;
    without_vectors_words_are_left(library, reader).await;
    tenants_do_not_see_each_other(library).await;
}

/// A simple text analyzer: words between spaces, and vectors from a list.
#[derive(Debug)]
pub struct Plainly {
    model: Option<&'static str>,
    away: std::sync::atomic::AtomicBool,
}

/// Words on the same line have the same vector.
const MEANINGS: [&[&str]; 3] =
    [&["walrus", "tusked", "pinniped"], &["penguin", "bird"], &["lion", "mane", "giraffe"]];

impl Plainly {
    /// Creates an analyzer without vectors.
    pub fn by_words() -> Arc<Self> {
        Arc::new(Self { model: None, away: false.into() })
    }

    /// Creates an analyzer with vectors.
    pub fn by_meaning() -> Arc<Self> {
        Arc::new(Self { model: Some("plain-meanings"), away: false.into() })
    }

    /// Sets whether the vector model is unavailable.
    pub fn be_away(&self, away: bool) {
        self.away.store(away, std::sync::atomic::Ordering::SeqCst);
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let words = self.asked(text);
        let means = |same: &&[&str]| words.iter().any(|word| same.contains(&word.as_str()));
        let axis = MEANINGS.iter().map(|same| if means(same) { 1.0 } else { 0.01 });
        let vector: Vec<f32> = axis.collect();
        let length = vector.iter().map(|number: &f32| number * number).sum::<f32>().sqrt();
        vector.into_iter().map(|number| number / length).collect()
    }
}

#[async_trait]
impl TextAnalyzer for Plainly {
    fn asked(&self, text: &str) -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    }

    fn model(&self) -> Option<&str> {
        self.model
    }

    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        if self.model.is_none() || self.away.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(EmbeddingError("nobody knows what that means".to_owned()));
        }
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

/// Indexes all queued files; with vectors if `model` names one.
async fn read_all(library: &dyn Shelves, model: Option<&str>) {
    while let Some(work) = claim(library, model).await {
        let end = read(&work, model);
        assert_eq!(library.finish(&work, end).await, Ok(true), "it is ours");
    }
    library.tidy().await.expect("it is there");
}

async fn claim(library: &dyn Shelves, model: Option<&str>) -> Option<IndexWork> {
    library.claim(model, LEASE, &[]).await.expect("it is there")
}

fn read(work: &IndexWork, model: Option<&str>) -> Indexed {
    let reader = Plainly::by_meaning();
    let vectors = |texts: &[String]| {
        let vectors = texts.iter().map(|text| reader.vector(text)).collect();
        model.map(|model| Vectors { model: model.to_owned(), vectors })
    };
    match &work.task {
        IndexTask::Read { content, .. } => {
            let text = String::from_utf8_lossy(content).into_owned();
            let texts: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
            let vectors = vectors(&texts);
            let chunks = texts
                .into_iter()
                .map(|text| NewChunk { words: reader.asked(&text).join(" "), text });
            Indexed::Chunks { chunks: chunks.collect(), vectors }
        }
        IndexTask::Embed { chunks } => {
            Indexed::Vectors(vectors(chunks).expect("only a model has vectors left out"))
        }
    }
}

fn tenant(name: &str) -> TenantId {
    TenantId::from(format!("library_{name}").as_str())
}

fn file(id: &str, at: i64) -> FileRecord {
    FileRecord {
        id: FileId::from(id),
        name: format!("{id}.txt"),
        bytes: 0,
        purpose: "assistants".to_owned(),
        created_at: Timestamp::from_micros(at),
        expires_at: None,
    }
}

fn collection(id: &str, at: i64) -> CollectionRecord {
    let created_at = Timestamp::from_micros(at);
    let notes = CollectionNotes { name: format!("The {id}"), ..CollectionNotes::default() };
    CollectionRecord { id: CollectionId::from(id), created_at, last_active_at: created_at, notes }
}

fn attachment(file: &str, attributes: Value) -> Attachment {
    let Value::Object(attributes) = attributes else { unreachable!("attributes are an object") };
    let waiting = Attachment::new(FileId::from(file), Timestamp::from_micros(3));
    Attachment { attributes, ..waiting }
}

fn batch(id: &str) -> BatchRecord {
    let (created_at, files) = (Timestamp::from_micros(4), FileCounts::default());
    BatchRecord { id: BatchId::from(id), created_at, cancelled: false, files }
}

async fn attach(library: &dyn Shelves, tenant: &TenantId, id: &CollectionId, one: Attachment) {
    library.attach(tenant, id, None, vec![one]).await.expect("both are there");
}

async fn add(library: &dyn Shelves, tenant: &TenantId, id: &str, text: &str) {
    let content: Arc<[u8]> = text.as_bytes().into();
    library.add_file(tenant, file(id, 1), content).await.expect("there is room");
}

async fn open(library: &dyn Shelves, tenant: &TenantId, id: &str, files: &[&str]) {
    library.open_collection(tenant, collection(id, 1)).await.expect("it is new");
    for file in files {
        attach(library, tenant, &CollectionId::from(id), attachment(file, json!({}))).await;
    }
    read_all(library, None).await;
}

async fn search(library: &dyn Shelves, tenant: &TenantId, id: &str, text: &str) -> Vec<FoundChunk> {
    let collections = [CollectionId::from(id)];
    let found = library.search(tenant, &collections, &Query::new(text, 10)).await;
    found.expect("it is there").chunks
}

fn found(chunks: &[FoundChunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.file_id.as_str()).collect()
}

fn is_not_found<T: std::fmt::Debug>(result: Result<T, LibraryError>) {
    assert!(matches!(result, Err(LibraryError::NotFound(_))), "A1: {result:?}");
}

async fn what_was_handed_in_is_there(library: &dyn Shelves) {
    let tenant = tenant("kept");
    let content: Arc<[u8]> = [0_u8, 255, 10, 13].repeat(50_000).into();
    library.add_file(&tenant, file("file-kept", 1), Arc::clone(&content)).await.expect("it is new");
    let id = FileId::from("file-kept");
    assert!(library.content(&tenant, &id).await.expect("it is there") == content, "it has changed");
    let kept = FileRecord { bytes: content.len() as u64, ..file("file-kept", 1) };
    assert_eq!(library.file(&tenant, &id).await, Ok(kept));
    let again = library.add_file(&tenant, file("file-kept", 2), content).await;
    assert!(matches!(again, Err(LibraryError::Exists(_))), "{again:?}");
}

/// C29: a file is uploaded and downloaded in pieces of any size, and is visible when it is
/// complete.
async fn a_file_comes_in_pieces(library: &dyn Shelves) {
    let content: Vec<u8> = (0..2_500_000_u32).map(|n| (n % 251) as u8).collect();
    let (id, tenant) = (FileId::from("file_pieces"), tenant("pieces"));
    let mut upload = library.upload(&tenant, &id).await.expect("it is new");
    let mut sizes = [1, 700_000, 0, 1_048_576, 13].into_iter().cycle();
    let mut rest = content.as_slice();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        upload.write(piece).await.expect("there is room");
        rest = more;
    }
    assert!(library.file(&tenant, &id).await.is_err(), "it is not all there yet");
    upload.finish(file("file_pieces", 1)).await.expect("all of it is there");
    let kept = library.file(&tenant, &id).await.expect("it is there");
    assert_eq!(kept.bytes, content.len() as u64, "its size is what was written");
    assert_eq!(&*library.content(&tenant, &id).await.expect("it is there"), content.as_slice());
    let pieces = library.content_stream(&tenant, &id).await.expect("it is there");
    let pieces: Vec<Vec<u8>> = pieces.try_collect().await.expect("it stays there");
    assert!(pieces.len() > 1 && pieces.concat() == content, "{} pieces", pieces.len());
    let again = library.upload(&tenant, &id).await.err();
    assert!(matches!(again, Some(LibraryError::Exists(_))), "{again:?}");
    library.remove_file(&tenant, &id).await.expect("it is there");
}

/// C25, C29: an aborted upload leaves nothing, and its id is free.
async fn an_upload_that_is_given_up_leaves_nothing(library: &dyn Shelves) {
    let (id, tenant) = (FileId::from("file_given_up"), tenant("given_up"));
    let mut upload = library.upload(&tenant, &id).await.expect("it is new");
    upload.write(&vec![b'x'; 1_500_000]).await.expect("there is room");
    drop(upload);
    let mut n_tries = 0;
    let upload = loop {
        match library.upload(&tenant, &id).await {
            Ok(upload) => break upload,
            Err(LibraryError::Exists(_)) if n_tries < 500 => {
                n_tries += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("its name is not free: {error}"),
        }
    };
    upload.finish(file("file_given_up", 1)).await.expect("it is new");
    assert_eq!(library.content(&tenant, &id).await.expect("it is there").len(), 0);
    library.remove_file(&tenant, &id).await.expect("it is there");
}

async fn the_newest_come_first(library: &dyn Shelves) {
    let tenant = tenant("lists");
    for (id, at) in [("file-b", 2), ("file-c", 3), ("file-a", 1)] {
        library.add_file(&tenant, file(id, at), b"x".as_slice().into()).await.expect("it is new");
    }
    let files = library.files(&tenant).await.expect("they are there");
    let ids: Vec<&str> = files.iter().map(|file| file.id.as_str()).collect();
    assert_eq!(ids, ["file-c", "file-b", "file-a"]);
    for (id, at) in [("vs_b", 2), ("vs_c", 3), ("vs_a", 1)] {
        library.open_collection(&tenant, collection(id, at)).await.expect("it is new");
    }
    let collections = library.collections(&tenant).await.expect("they are there");
    let ids: Vec<&str> = collections.iter().map(|collection| collection.id.as_str()).collect();
    assert_eq!(ids, ["vs_c", "vs_b", "vs_a"]);
}

async fn a_removed_file_is_gone(library: &dyn Shelves) {
    let tenant = tenant("removed");
    add(library, &tenant, "file-gone", "walrus").await;
    open(library, &tenant, "vs_gone", &["file-gone"]).await;
    let (id, collection) = (FileId::from("file-gone"), CollectionId::from("vs_gone"));
    library.remove_file(&tenant, &id).await.expect("it is there");
    is_not_found(library.file(&tenant, &id).await);
    is_not_found(library.content(&tenant, &id).await);
    is_not_found(library.attachment(&tenant, &collection, &id).await);
    assert_eq!(search(library, &tenant, "vs_gone", "walrus").await, []);
}

async fn a_collection_is_kept(library: &dyn Shelves) {
    let tenant = tenant("collections");
    let id = CollectionId::from("vs_kept");
    add(library, &tenant, "file-stays", "walrus").await;
    open(library, &tenant, "vs_kept", &["file-stays"]).await;
    let again = library.open_collection(&tenant, collection("vs_kept", 2)).await;
    assert!(matches!(again, Err(LibraryError::Exists(_))), "{again:?}");
    let notes = BTreeMap::from([("team".to_owned(), "sea".to_owned())]);
    let notes = CollectionNotes {
        name: "Animals\0".to_owned(),
        metadata: notes,
        expires_after_days: Some(7),
    };
    library.annotate_collection(&tenant, &id, notes.clone()).await.expect("it is there");
    let kept = library.collection(&tenant, &id).await.expect("it is there");
    assert_eq!((kept.created_at, &kept.notes), (Timestamp::from_micros(1), &notes));
    assert!(kept.last_active_at > kept.created_at, "it was used: {kept:?}");
    library.remove_collection(&tenant, &id).await.expect("it is there");
    is_not_found(library.collection(&tenant, &id).await);
    is_not_found(library.search(&tenant, &[id], &Query::new("walrus", 1)).await);
    library.file(&tenant, &FileId::from("file-stays")).await.expect("files outlive collections");
}

async fn an_attached_file_is_found(library: &dyn Shelves) {
    let tenant = tenant("attached");
    let id = CollectionId::from("vs_found");
    add(library, &tenant, "file-found", "The walrus sleeps on the ice.").await;
    open(library, &tenant, "vs_found", &[]).await;
    assert_eq!(search(library, &tenant, "vs_found", "walrus").await, []);
    let attached = attachment("file-found", json!({ "year": 2024 }));
    attach(library, &tenant, &id, attached.clone()).await;
    let file_id = attached.file_id.clone();
    assert_eq!(library.attachment(&tenant, &id, &file_id).await, Ok(attached.clone()));
    assert_eq!(library.attachments(&tenant, &id).await, Ok(vec![attached.clone()]));
    let usage = library.usage(&tenant, &id).await.expect("it is there");
    assert_eq!(usage.files, FileCounts { in_progress: 1, ..FileCounts::default() });
    assert_eq!(search(library, &tenant, "vs_found", "walrus").await, [], "it is not read yet");
    assert_eq!(library.chunks(&tenant, &id, &file_id).await, Ok(Vec::new()));
    read_all(library, None).await;
    let read = library.attachment(&tenant, &id, &file_id).await.expect("it is there");
    assert_eq!(read.state, Indexing::Completed);
    let usage = library.usage(&tenant, &id).await.expect("it is there");
    assert_eq!(usage.files, FileCounts { completed: 1, ..FileCounts::default() });
    assert_eq!((usage.bytes, read.usage_bytes), (29, 29));
    let text = vec!["The walrus sleeps on the ice.".to_owned()];
    assert_eq!(library.chunks(&tenant, &id, &file_id).await, Ok(text));

    let chunks = search(library, &tenant, "vs_found", "Where does the WALRUS sleep?").await;
    let [chunk] = chunks.as_slice() else { panic!("one passage fits: {chunks:?}") };
    assert_eq!(chunk.file_id, file_id);
    assert_eq!(chunk.file_name, "file-found.txt");
    assert_eq!(chunk.text, "The walrus sleeps on the ice.");
    assert_eq!(chunk.attributes, attached.attributes);
    assert!(chunk.score > 0.0 && chunk.score <= 1.0, "{}", chunk.score);

    library.detach(&tenant, &id, &file_id).await.expect("it is attached");
    assert_eq!(search(library, &tenant, "vs_found", "walrus").await, []);
    is_not_found(library.detach(&tenant, &id, &file_id).await);
    library.file(&tenant, &file_id).await.expect("a detached file is still there");
}

async fn an_attachment_can_be_changed(library: &dyn Shelves) {
    let tenant = tenant("changed");
    let id = CollectionId::from("vs_changed");
    add(library, &tenant, "file-changed", "walrus").await;
    open(library, &tenant, "vs_changed", &["file-changed"]).await;
    let file_id = FileId::from("file-changed");
    let changed = attachment("file-changed", json!({ "draft": true }));
    let attributes = changed.attributes.clone();
    let set = library.set_attributes(&tenant, &id, &file_id, attributes.clone()).await;
    set.expect("it is attached");
    let chunks = search(library, &tenant, "vs_changed", "walrus").await;
    assert_eq!(chunks.first().map(|chunk| &chunk.attributes), Some(&attributes));
    let unknown = FileId::from("file-unknown");
    is_not_found(library.set_attributes(&tenant, &id, &unknown, attributes).await);

    // Attached again, the file is indexed again and found once.
    attach(library, &tenant, &id, attachment("file-changed", json!({ "draft": false }))).await;
    assert!(claim(library, None).await.is_some_and(|work| work.file_id == file_id));
    attach(library, &tenant, &id, changed.clone()).await;
    assert_eq!(library.attachments(&tenant, &id).await, Ok(vec![changed.clone()]));
    read_all(library, None).await;
    let chunks = search(library, &tenant, "vs_changed", "walrus").await;
    assert_eq!(chunks.len(), 1, "it is found once: {chunks:?}");
    assert_eq!(chunks.first().map(|chunk| &chunk.attributes), Some(&changed.attributes));
}

async fn all_files_are_attached_or_none(library: &dyn Shelves) {
    let tenant = tenant("together");
    let id = CollectionId::from("vs_together");
    add(library, &tenant, "file-there", "walrus").await;
    open(library, &tenant, "vs_together", &[]).await;
    let both = vec![attachment("file-there", json!({})), attachment("file-missing", json!({}))];
    is_not_found(library.attach(&tenant, &id, Some(batch("vsfb_none")), both).await);
    assert_eq!(library.attachments(&tenant, &id).await, Ok(Vec::new()));
    is_not_found(library.batch(&tenant, &id, &BatchId::from("vsfb_none")).await);
}

async fn the_best_passages_come_first(library: &dyn Shelves) {
    let tenant = tenant("ranked");
    add(library, &tenant, "file-both", "walrus and penguin").await;
    add(library, &tenant, "file-one", "walrus and lion").await;
    add(library, &tenant, "file-none", "giraffe and lion").await;
    open(library, &tenant, "vs_ranked", &["file-one", "file-none", "file-both"]).await;
    let chunks = search(library, &tenant, "vs_ranked", "penguin walrus").await;
    assert_eq!(found(&chunks), ["file-both", "file-one"]);
    assert!(chunks.is_sorted_by(|one, next| one.score >= next.score), "{chunks:?}");
    let collections = [CollectionId::from("vs_ranked")];
    let one = library.search(&tenant, &collections, &Query::new("penguin walrus", 1)).await;
    assert_eq!(found(&one.expect("it is there").chunks), ["file-both"]);
    let nothing = library.search(&tenant, &collections, &Query::new("?!", 5)).await;
    assert_eq!(nothing, Ok(SearchResults::default()));
    // Query syntax of the database has no effect.
    for odd in ["not", "NEAR(walrus)", "walrus:*", "\"", "'; drop table passages", "a\0b"] {
        library.search(&tenant, &collections, &Query::new(odd, 5)).await.expect("it is a question");
    }
}

/// A rare word scores higher than a frequent one.
async fn rare_words_count_more(library: &dyn Shelves) {
    let tenant = tenant("rare");
    let mut files = Vec::new();
    for n in 0..8 {
        let id = format!("file-common-{n}");
        add(library, &tenant, &id, "sea sea sea sea and a fish").await;
        files.push(id);
    }
    add(library, &tenant, "file-rare", "narwhal and a fish of some kind").await;
    files.push("file-rare".to_owned());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    open(library, &tenant, "vs_rare", &files).await;
    let chunks = search(library, &tenant, "vs_rare", "sea narwhal").await;
    assert_eq!(found(&chunks).first(), Some(&"file-rare"), "{chunks:?}");
}

async fn a_question_can_be_narrowed(library: &dyn Shelves) {
    let tenant = tenant("narrowed");
    let id = CollectionId::from("vs_narrowed");
    open(library, &tenant, "vs_narrowed", &[]).await;
    for (file, year) in [("file-old", 1999), ("file-new", 2024)] {
        add(library, &tenant, file, "walrus").await;
        attach(library, &tenant, &id, attachment(file, json!({ "year": year }))).await;
    }
    read_all(library, None).await;
    let filter = Filter::Compare {
        key: "year".to_owned(),
        comparison: Comparison::Greater,
        value: json!(2000),
    };
    let query = Query { filter: Some(filter), ..Query::new("walrus", 1) };
    let answer = library.search(&tenant, std::slice::from_ref(&id), &query).await;
    assert_eq!(found(&answer.expect("it is there").chunks), ["file-new"]);
    let filter = Filter::Any(Vec::new());
    let query = Query { filter: Some(filter), ..Query::new("walrus", 1) };
    assert_eq!(library.search(&tenant, &[id], &query).await, Ok(SearchResults::default()));
}

async fn several_collections_are_searched_together(library: &dyn Shelves) {
    let tenant = tenant("several");
    add(library, &tenant, "file-north", "walrus of the north").await;
    add(library, &tenant, "file-south", "penguin, no walrus").await;
    open(library, &tenant, "vs_north", &["file-north"]).await;
    open(library, &tenant, "vs_south", &["file-south"]).await;
    let both = [CollectionId::from("vs_north"), CollectionId::from("vs_south")];
    let chunks = library.search(&tenant, &both, &Query::new("walrus", 10)).await;
    let mut chunks = chunks.expect("both are there").chunks;
    chunks.sort_by(|one, other| one.file_id.cmp(&other.file_id));
    assert_eq!(found(&chunks), ["file-north", "file-south"]);
    let unknown = [CollectionId::from("vs_north"), CollectionId::from("vs_unknown")];
    is_not_found(library.search(&tenant, &unknown, &Query::new("walrus", 1)).await);
}

async fn what_cannot_be_read_says_why(library: &dyn Shelves) {
    let tenant = tenant("refused");
    let id = CollectionId::from("vs_refused");
    add(library, &tenant, "file-picture", "walrus").await;
    open(library, &tenant, "vs_refused", &[]).await;
    attach(library, &tenant, &id, attachment("file-picture", json!({}))).await;
    let work = claim(library, None).await.expect("it waits");
    let failed =
        Indexing::Failed { why: ExtractionFailure::Unsupported, reason: "a picture".to_owned() };
    let end =
        Indexed::Failed { why: ExtractionFailure::Unsupported, reason: "a picture".to_owned() };
    assert_eq!(library.finish(&work, end).await, Ok(true));
    let attached = library.attachment(&tenant, &id, &work.file_id).await;
    assert_eq!(attached.expect("it is still there").state, failed);
    let usage = library.usage(&tenant, &id).await.expect("it is there");
    assert_eq!(usage.files, FileCounts { failed: 1, ..FileCounts::default() });
    assert_eq!(claim(library, None).await, None, "it is not tried again");
}

async fn a_batch_is_its_files(library: &dyn Shelves) {
    let tenant = tenant("batches");
    let (id, batch_id) = (CollectionId::from("vs_batch"), BatchId::from("vsfb_1"));
    for file in ["file-b1", "file-b2"] {
        add(library, &tenant, file, "walrus").await;
    }
    open(library, &tenant, "vs_batch", &[]).await;
    let cut = Chunking::Static { max_tokens: 200, overlap_tokens: 20 };
    let files = vec![
        attachment("file-b1", json!({})),
        Attachment { chunking: cut, ..attachment("file-b2", json!({ "n": 2 })) },
    ];
    library.attach(&tenant, &id, Some(batch("vsfb_1")), files).await.expect("all are there");
    let waiting = FileCounts { in_progress: 2, ..FileCounts::default() };
    let expected = BatchRecord { files: waiting, ..batch("vsfb_1") };
    assert_eq!(library.batch(&tenant, &id, &batch_id).await, Ok(expected.clone()));
    let attached = library.attachment(&tenant, &id, &FileId::from("file-b2")).await;
    let attached = attached.expect("it is there");
    assert_eq!((attached.batch_id, attached.chunking), (Some(batch_id.clone()), cut));
    read_all(library, None).await;
    let done = FileCounts { completed: 2, ..FileCounts::default() };
    let expected = BatchRecord { files: done, ..expected };
    assert_eq!(library.batch(&tenant, &id, &batch_id).await, Ok(expected.clone()));
    library.cancel_batch(&tenant, &id, &batch_id).await.expect("too late is no mistake");
    assert_eq!(library.batch(&tenant, &id, &batch_id).await, Ok(expected));
    open(library, &tenant, "vs_other", &[]).await;
    is_not_found(library.batch(&tenant, &CollectionId::from("vs_other"), &batch_id).await);
    is_not_found(library.cancel_batch(&tenant, &CollectionId::from("vs_other"), &batch_id).await);
    library.remove_collection(&tenant, &id).await.expect("it is there");
    is_not_found(library.batch(&tenant, &id, &batch_id).await);
}

async fn a_cancelled_batch_is_not_read(library: &dyn Shelves) {
    let tenant = tenant("cancelled");
    let (id, batch_id) = (CollectionId::from("vs_cancelled"), BatchId::from("vsfb_cancelled"));
    for file in ["file-c1", "file-c2"] {
        add(library, &tenant, file, "walrus").await;
    }
    open(library, &tenant, "vs_cancelled", &[]).await;
    let files = vec![attachment("file-c1", json!({})), attachment("file-c2", json!({}))];
    library.attach(&tenant, &id, Some(batch("vsfb_cancelled")), files).await.expect("all there");
    let begun = claim(library, None).await.expect("one waits");
    library.cancel_batch(&tenant, &id, &batch_id).await.expect("it is there");
    assert_eq!(library.renew(&begun, LEASE).await, Ok(false), "it is not ours any more");
    assert_eq!(library.finish(&begun, read(&begun, None)).await, Ok(false));
    assert_eq!(claim(library, None).await, None);
    let batch = library.batch(&tenant, &id, &batch_id).await.expect("it is there");
    assert!(batch.cancelled, "{batch:?}");
    assert_eq!(batch.files, FileCounts { cancelled: 2, ..FileCounts::default() });
    assert_eq!(search(library, &tenant, "vs_cancelled", "walrus").await, []);
}

async fn a_claim_is_ones_own(library: &dyn Shelves) {
    let tenant = tenant("claims");
    let id = CollectionId::from("vs_claims");
    for file in ["file-first", "file-second"] {
        add(library, &tenant, file, "walrus").await;
    }
    open(library, &tenant, "vs_claims", &[]).await;
    for file in ["file-first", "file-second"] {
        attach(library, &tenant, &id, attachment(file, json!({}))).await;
    }
    let passed_over = std::slice::from_ref(&tenant);
    let none = library.claim(None, LEASE, passed_over).await.expect("it is there");
    assert_eq!(none, None, "the tenant is passed over");
    let (first, second) = (claim(library, None).await, claim(library, None).await);
    let (first, second) = (first.expect("one waits"), second.expect("another waits"));
    assert_eq!((first.file_id.as_str(), second.file_id.as_str()), ("file-first", "file-second"));
    assert_eq!((first.file_name.as_str(), &first.tenant), ("file-first.txt", &tenant));
    let walrus: Arc<[u8]> = b"walrus".as_slice().into();
    assert_eq!(first.task, IndexTask::Read { content: walrus, chunking: Chunking::Auto });
    assert_eq!(claim(library, None).await, None, "both are claimed");
    assert_eq!(library.renew(&second, LEASE).await, Ok(true));
    for work in [first, second] {
        assert_eq!(library.finish(&work, read(&work, None)).await, Ok(true));
    }
}

async fn only_the_last_claim_counts(library: &dyn Shelves) {
    let tenant = tenant("late");
    let id = CollectionId::from("vs_late");
    add(library, &tenant, "file-late", "walrus").await;
    open(library, &tenant, "vs_late", &[]).await;
    attach(library, &tenant, &id, attachment("file-late", json!({}))).await;
    let late =
        library.claim(None, Duration::ZERO, &[]).await.expect("it is there").expect("it waits");
    let last = claim(library, None).await.expect("the first claim is over");
    assert_eq!(library.renew(&late, LEASE).await, Ok(false));
    assert_eq!(library.finish(&late, read(&late, None)).await, Ok(false));
    let attached = library.attachment(&tenant, &id, &late.file_id).await.expect("it is there");
    assert_eq!(attached.state, Indexing::InProgress);
    assert_eq!(library.finish(&last, read(&last, None)).await, Ok(true));
    assert_eq!(found(&search(library, &tenant, "vs_late", "walrus").await), ["file-late"]);

    attach(library, &tenant, &id, attachment("file-late", json!({}))).await;
    let gone = claim(library, None).await.expect("it waits");
    library.detach(&tenant, &id, &gone.file_id).await.expect("it is attached");
    assert_eq!(library.finish(&gone, read(&gone, None)).await, Ok(false));
    assert_eq!(search(library, &tenant, "vs_late", "walrus").await, []);
}

async fn a_file_that_is_never_finished_is_given_up(library: &dyn Shelves) {
    let tenant = tenant("given_up");
    let id = CollectionId::from("vs_given_up");
    add(library, &tenant, "file-poison", "walrus").await;
    open(library, &tenant, "vs_given_up", &[]).await;
    attach(library, &tenant, &id, attachment("file-poison", json!({}))).await;
    for _ in 0..MAX_CLAIMS {
        let work = library.claim(None, Duration::ZERO, &[]).await.expect("it is there");
        assert!(work.is_some_and(|work| work.file_id.as_str() == "file-poison"));
    }
    assert_eq!(claim(library, None).await, None);
    let attached = library.attachment(&tenant, &id, &FileId::from("file-poison")).await;
    let state = attached.expect("it is there").state;
    assert!(matches!(state, Indexing::Failed { why: ExtractionFailure::Broke, .. }), "{state:?}");
}

async fn big_files_are_found_whole(library: &dyn Shelves) {
    let tenant = tenant("big");
    let id = CollectionId::from("vs_big");
    let text: Vec<String> = (0..1_000).map(|n| format!("walrus number{n}")).collect();
    add(library, &tenant, "file-big", &text.join("\n\n")).await;
    open(library, &tenant, "vs_big", &["file-big"]).await;
    let file_id = FileId::from("file-big");
    assert_eq!(library.chunks(&tenant, &id, &file_id).await, Ok(text));
    for n in [0, 127, 128, 999] {
        let chunks = search(library, &tenant, "vs_big", &format!("number{n}")).await;
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(texts, [format!("walrus number{n}")]);
    }
    library.remove_collection(&tenant, &id).await.expect("it is there");
    library.tidy().await.expect("it is there");
}

async fn what_has_expired_is_gone(library: &dyn Shelves) {
    let tenant = tenant("expired");
    let (old, new) = (CollectionId::from("vs_old"), CollectionId::from("vs_new"));
    let past = Timestamp::from_micros(1_000_000);
    let record = FileRecord { expires_at: Some(past), ..file("file-over", 1) };
    library.add_file(&tenant, record, b"walrus".as_slice().into()).await.expect("it is new");
    let id = FileId::from("file-over");
    is_not_found(library.file(&tenant, &id).await);
    is_not_found(library.content(&tenant, &id).await);
    assert_eq!(library.files(&tenant).await, Ok(Vec::new()));
    library.tidy().await.expect("it is there");
    add(library, &tenant, "file-over", "walrus").await;

    let mut record = collection("vs_old", 1);
    record.notes.expires_after_days = Some(1);
    library.open_collection(&tenant, record).await.expect("it is new");
    let refused = library.search(&tenant, std::slice::from_ref(&old), &Query::new("x", 1)).await;
    assert!(matches!(refused, Err(LibraryError::Refused(_))), "{refused:?}");
    let refused = library.attach(&tenant, &old, None, vec![attachment("file-over", json!({}))]);
    assert!(matches!(refused.await, Err(LibraryError::Refused(_))));
    library.collection(&tenant, &old).await.expect("it says that it has expired");

    // A collection in use does not expire.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("it is after 1970").as_micros()).expect("soon enough");
    let mut record = collection("vs_new", now - 20 * 3_600 * 1_000_000);
    record.notes.expires_after_days = Some(1);
    library.open_collection(&tenant, record.clone()).await.expect("it is new");
    library.search(&tenant, std::slice::from_ref(&new), &Query::new("x", 1)).await.expect("it is");
    let used = library.collection(&tenant, &new).await.expect("it is there");
    assert!(used.last_active_at > record.last_active_at, "{used:?}");
}

async fn what_is_said_in_other_words_is_found(library: &dyn Shelves) {
    let tenant = tenant("meaning");
    let id = CollectionId::from("vs_meaning");
    library.open_collection(&tenant, collection("vs_meaning", 1)).await.expect("it is new");
    for (file, text) in [("file-w", "The walrus sleeps."), ("file-p", "A penguin walks.")] {
        add(library, &tenant, file, text).await;
        attach(library, &tenant, &id, attachment(file, json!({ "of": text.len() }))).await;
    }
    read_all(library, Some("plain-meanings")).await;
    let chunks = search(library, &tenant, "vs_meaning", "tusked").await;
    assert_eq!(found(&chunks).first(), Some(&"file-w"), "{chunks:?}");
    let in_range = |chunk: &FoundChunk| chunk.score > 0.0 && chunk.score <= 1.0;
    assert!(chunks.iter().all(in_range), "{chunks:?}");
    // Search by words and by vectors combined.
    let chunks = search(library, &tenant, "vs_meaning", "pinniped walks sleeps walrus").await;
    assert_eq!(found(&chunks), ["file-w", "file-p"]);
    let (key, comparison) = ("of".to_owned(), Comparison::Equal);
    let filter = Filter::Compare { key, comparison, value: json!("A penguin walks.".len()) };
    let query = Query { filter: Some(filter), ..Query::new("tusked", 5) };
    let narrowed = library.search(&tenant, std::slice::from_ref(&id), &query).await;
    assert_eq!(found(&narrowed.expect("it is there").chunks), ["file-p"]);
    library.detach(&tenant, &id, &FileId::from("file-w")).await.expect("it is attached");
    assert_eq!(found(&search(library, &tenant, "vs_meaning", "tusked").await), ["file-p"]);
}

/// A file indexed without vectors, or with another model, is due again.
async fn vectors_can_follow_later(library: &dyn Shelves) {
    let tenant = tenant("later");
    let id = CollectionId::from("vs_later");
    add(library, &tenant, "file-later", "The walrus sleeps.\n\nThe lion walks.").await;
    library.open_collection(&tenant, collection("vs_later", 1)).await.expect("it is new");
    attach(library, &tenant, &id, attachment("file-later", json!({}))).await;
    read_all(library, None).await;
    assert_eq!(search(library, &tenant, "vs_later", "tusked").await, [], "no vectors yet");
    for model in ["another-model", "plain-meanings"] {
        let work = claim(library, Some(model)).await.expect("it has no vectors of this model");
        let chunks = vec!["The walrus sleeps.".to_owned(), "The lion walks.".to_owned()];
        assert_eq!(work.task, IndexTask::Embed { chunks });
        assert_eq!(library.finish(&work, read(&work, Some(model))).await, Ok(true));
        assert_eq!(claim(library, Some(model)).await, None);
    }
    let chunks = search(library, &tenant, "vs_later", "tusked").await;
    let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(texts.first(), Some(&"The walrus sleeps."), "{texts:?}");
    // If the model is unavailable, the file is due again after a delay.
    let work = claim(library, Some("a-third-model")).await.expect("it has other vectors");
    let later = Indexed::NotNow(Duration::from_hours(1));
    assert_eq!(library.finish(&work, later).await, Ok(true));
    assert_eq!(claim(library, Some("a-third-model")).await, None);
    library.remove_collection(&tenant, &id).await.expect("it is there");
}

async fn without_vectors_words_are_left(library: &dyn Shelves, reader: &Plainly) {
    let tenant = tenant("away");
    let id = CollectionId::from("vs_away");
    add(library, &tenant, "file-away", "walrus").await;
    library.open_collection(&tenant, collection("vs_away", 1)).await.expect("it is new");
    attach(library, &tenant, &id, attachment("file-away", json!({}))).await;
    read_all(library, Some("plain-meanings")).await;
    let ask = async || {
        let collections = [CollectionId::from("vs_away")];
        library.search(&tenant, &collections, &Query::new("walrus", 5)).await.expect("it is there")
    };
    assert_eq!(ask().await.words_only, None);
    reader.be_away(true);
    let answer = ask().await;
    reader.be_away(false);
    assert_eq!(found(&answer.chunks), ["file-away"]);
    assert_eq!(answer.words_only.as_deref(), Some("nobody knows what that means"));
}

async fn what_is_not_there_is_not_found(library: &dyn Shelves) {
    let tenant = tenant("missing");
    let (file_id, id) = (FileId::from("file-missing"), CollectionId::from("vs_missing"));
    is_not_found(library.file(&tenant, &file_id).await);
    is_not_found(library.content(&tenant, &file_id).await);
    is_not_found(library.remove_file(&tenant, &file_id).await);
    is_not_found(library.collection(&tenant, &id).await);
    is_not_found(library.remove_collection(&tenant, &id).await);
    is_not_found(library.attachments(&tenant, &id).await);
    is_not_found(library.usage(&tenant, &id).await);
    is_not_found(library.chunks(&tenant, &id, &file_id).await);
    is_not_found(library.batch(&tenant, &id, &BatchId::from("vsfb_missing")).await);
    let missing = || vec![attachment("file-missing", json!({}))];
    is_not_found(library.attach(&tenant, &id, None, missing()).await);
    let notes = CollectionNotes::default();
    is_not_found(library.annotate_collection(&tenant, &id, notes).await);
    // An id that a database may reject.
    is_not_found(library.file(&tenant, &FileId::from("file\0")).await);
    is_not_found(library.collection(&tenant, &CollectionId::from("vs\0")).await);
    open(library, &tenant, "vs_empty", &[]).await;
    let id = CollectionId::from("vs_empty");
    is_not_found(library.attach(&tenant, &id, None, missing()).await);
    is_not_found(library.attachment(&tenant, &id, &file_id).await);
    is_not_found(library.chunks(&tenant, &id, &file_id).await);
    assert_eq!(library.files(&tenant).await, Ok(Vec::new()));
}

async fn tenants_do_not_see_each_other(library: &dyn Shelves) {
    let (one, other) = (tenant("one"), tenant("other"));
    let (file_id, id) = (FileId::from("file-mine"), CollectionId::from("vs_mine"));
    add(library, &one, "file-mine", "walrus").await;
    open(library, &one, "vs_mine", &["file-mine"]).await;

    is_not_found(library.file(&other, &file_id).await);
    is_not_found(library.content(&other, &file_id).await);
    is_not_found(library.remove_file(&other, &file_id).await);
    is_not_found(library.collection(&other, &id).await);
    is_not_found(library.remove_collection(&other, &id).await);
    is_not_found(library.attachments(&other, &id).await);
    is_not_found(library.attachment(&other, &id, &file_id).await);
    is_not_found(library.detach(&other, &id, &file_id).await);
    is_not_found(library.search(&other, std::slice::from_ref(&id), &Query::new("walrus", 1)).await);
    assert_eq!(library.files(&other).await, Ok(Vec::new()));
    assert_eq!(library.collections(&other).await, Ok(Vec::new()));
    // A file of another tenant cannot be attached to an own collection.
    open(library, &other, "vs_theirs", &[]).await;
    let theirs = CollectionId::from("vs_theirs");
    let mine = vec![attachment("file-mine", json!({}))];
    is_not_found(library.attach(&other, &theirs, None, mine).await);
    is_not_found(library.usage(&other, &id).await);
    is_not_found(library.chunks(&other, &id, &file_id).await);
    is_not_found(library.set_attributes(&other, &id, &file_id, Map::new()).await);
    is_not_found(library.annotate_collection(&other, &id, CollectionNotes::default()).await);

    add(library, &other, "file-mine", "penguin").await;
    open(library, &other, "vs_mine", &["file-mine"]).await;
    assert_eq!(search(library, &one, "vs_mine", "penguin").await, []);
    assert_eq!(found(&search(library, &one, "vs_mine", "walrus").await), ["file-mine"]);
    library.remove_file(&other, &file_id).await.expect("it is theirs");
    library.file(&one, &file_id).await.expect("another tenant's id is another file");
    let attributes: Map<String, Value> = Map::new();
    let still = library.attachment(&one, &id, &file_id).await.expect("it is still attached");
    assert_eq!(still.attributes, attributes);
}
