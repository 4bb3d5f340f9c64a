//! How well passages are found: by their words, by their meaning, and by both.
//!
//! Needs an embeddings server, so it is run by name only: `scripts/retrieval` starts one and says
//! where it is in `TURNWIRE_EMBEDDINGS_URL`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fall over, and tells what it measured"
)]

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex},
};

use async_trait::async_trait;
use turnwire_contract::{
    Attachment, Chunking, CollectionId, CollectionNotes, CollectionRecord, EmbeddingError, FileId,
    FileRecord, IndexQueue, Library, Query, TenantId, TextAnalyzer, Timestamp,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services::postgres_url;
use turnwire_tools::{DefaultAnalyzer, DocumentReader, Embeddings, EmbeddingsOptions, Indexer};

/// How many passages are looked at.
const FIRST: usize = 5;

/// The usual reader, with one eye shut.
struct OneEyed {
    reader: DefaultAnalyzer,
    words: bool,
    meaning: bool,
}

#[async_trait]
impl TextAnalyzer for OneEyed {
    fn asked(&self, question: &str) -> Vec<String> {
        if self.words { self.reader.asked(question) } else { Vec::new() }
    }

    fn model(&self) -> Option<&str> {
        self.reader.model().filter(|_| self.meaning)
    }

    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        // The same texts are asked for over and over, and the server is slow.
        static KNOWN: LazyLock<Mutex<HashMap<String, Vec<f32>>>> = LazyLock::new(Mutex::default);
        let missing: Vec<&str> = {
            let known = KNOWN.lock().unwrap();
            texts.iter().copied().filter(|text| !known.contains_key(*text)).collect()
        };
        let vectors = self.reader.vectors(&missing).await?;
        let mut known = KNOWN.lock().unwrap();
        known.extend(missing.into_iter().map(str::to_owned).zip(vectors));
        Ok(texts.iter().map(|text| known.get(*text).unwrap().clone()).collect())
    }
}

struct Question {
    file: String,
    /// A piece of the passage that answers it.
    piece: String,
    text: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/retrieval")
}

/// The questions that the way of joining both was chosen by.
const CHOSEN_BY: &str = "questions.tsv";

/// Questions that nothing was chosen by.
const HELD_OUT: &str = "held-out.tsv";

fn questions(name: &str) -> Vec<Question> {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let question = |line: &str| {
        let [file, piece, text] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}")
        };
        Question { file: file.to_owned(), piece: piece.to_owned(), text: text.to_owned() }
    };
    lines.map(question).collect()
}

fn tenant() -> TenantId {
    TenantId::from("retrieval")
}

/// Reads the whole corpus into a library.
async fn fill(library: &dyn Library, indexer: &Indexer) -> CollectionId {
    let (id, at) = (CollectionId::from("vs_corpus"), Timestamp::from_micros(1));
    let notes = CollectionNotes::default();
    let record = CollectionRecord { id: id.clone(), created_at: at, last_active_at: at, notes };
    library.open_collection(&tenant(), record).await.unwrap();
    let mut attachments = Vec::new();
    for entry in fs::read_dir(folder().join("corpus")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let content = fs::read(&path).unwrap();
        let (file_id, bytes) = (FileId::from(name.as_str()), content.len() as u64);
        let purpose = "assistants".to_owned();
        let file = FileRecord {
            id: file_id.clone(),
            name,
            bytes,
            purpose,
            created_at: at,
            expires_at: None,
        };
        library.add_file(&tenant(), file, content.into()).await.unwrap();
        // Sections of the corpus are short, and each is to be one passage.
        let chunking = Chunking::Static { max_tokens: 100, overlap_tokens: 0 };
        attachments.push(Attachment { chunking, ..Attachment::new(file_id, at) });
    }
    library.attach(&tenant(), &id, None, attachments).await.unwrap();
    indexer.work_off().await.unwrap();
    id
}

/// The share of questions whose answer is among the first passages.
async fn recall(library: &dyn Library, id: &CollectionId, questions: &[Question]) -> f64 {
    let mut n_found = 0_u32;
    for question in questions {
        let query = Query::new(question.text.as_str(), FIRST);
        let found = library.search(&tenant(), std::slice::from_ref(id), &query).await.unwrap();
        assert_eq!(found.words_only, None, "the embeddings server answers");
        let answers = |chunk: &turnwire_contract::FoundChunk| {
            chunk.file_name == question.file && flat(&chunk.text).contains(&question.piece)
        };
        n_found += u32::from(found.chunks.iter().any(answers));
    }
    f64::from(n_found) / f64::from(u32::try_from(questions.len()).unwrap())
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn reader(words: bool, meaning: bool) -> Arc<OneEyed> {
    let url = std::env::var_os("TURNWIRE_EMBEDDINGS_URL").expect("scripts/retrieval says where");
    let url = url.to_str().unwrap().to_owned();
    let embeddings = Embeddings::new(EmbeddingsOptions::new(url, "all-MiniLM-L6-v2")).unwrap();
    Arc::new(OneEyed { reader: DefaultAnalyzer::new(Some(embeddings)), words, meaning })
}

/// Recall among the first five by words, by meaning and by both, on one kind of library.
async fn measure<L: Library + IndexQueue + 'static>(
    kind: &str,
    make: impl AsyncFn(Arc<dyn TextAnalyzer>) -> Arc<L>,
) {
    let whole: Arc<dyn TextAnalyzer> = reader(true, true);
    let library = make(whole.clone()).await;
    let id =
        fill(&*library, &Indexer::new(library.clone(), whole, DocumentReader::in_process())).await;
    let by_words = make(reader(true, false)).await;
    let by_meaning = make(reader(false, true)).await;
    judge(kind, &id, [&*by_words, &*by_meaning, &*library]).await;
}

/// Asks all questions of three libraries with the same passages: one that goes by words, one that
/// goes by meaning, and one that goes by both.
async fn judge(kind: &str, id: &CollectionId, libraries: [&dyn Library; 3]) {
    for (name, at_least) in [(CHOSEN_BY, 100), (HELD_OUT, 50)] {
        let questions = questions(name);
        let n = questions.len();
        assert!(n >= at_least, "{name}: {n}");
        let mut found = Vec::new();
        for library in libraries {
            found.push(recall(library, id, &questions).await);
        }
        let [by_words, by_meaning, both] = found[..] else { panic!("three libraries") };
        println!(
            "{kind}: {n} questions of {name}, recall@{FIRST}: words {by_words:.3}, meaning \
             {by_meaning:.3}, both {both:.3}"
        );
        assert!(by_words > 0.5, "words alone find the half: {by_words}");
        assert!(by_meaning > 0.85, "meaning alone finds most: {by_meaning}");
        assert!(both >= by_words.max(by_meaning), "{both} {by_words} {by_meaning}");
    }
}

#[tokio::test]
async fn both_ways_together_are_at_least_as_good_as_either_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("library.db").display());
    measure("SQLite", async |reader| open(&url, reader).await).await;
}

#[tokio::test]
async fn both_ways_together_are_at_least_as_good_as_either_in_postgres() {
    let url = postgres_url();
    measure("PostgreSQL", async |reader| open(&url, reader).await).await;
}

async fn open(url: &str, reader: Arc<dyn TextAnalyzer>) -> Arc<turnwire_stores::StoreLibrary> {
    let options = StoreOptions { connections: 4, ..StoreOptions::at(url) };
    Arc::new(Store::open(options).await.unwrap().library(reader))
}
