//! What finding passages costs: `cargo bench -p turnwire-stores --bench library -- 100000`.
//!
//! Fills a library in SQLite and one in a PostgreSQL that it starts itself, with as many passages
//! as the number says, each with a vector of 384 numbers; the first 10,000 are timed. Then asks
//! for passages, in turns with the bare database, in the same minute.
#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should fall over, and tells what it found"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use turnwire_contract::{
    Attachment, Attachments, CollectionId, CollectionNotes, CollectionRecord, Collections,
    EmbeddingError, FileId, FileRecord, Files, IndexQueue, Indexed, NewChunk, Query, TenantId,
    TextAnalyzer, Timestamp, Vectors,
};
use turnwire_stores::{Store, StoreLibrary, StoreOptions};
use turnwire_testkit::services;

const TIMED: usize = 10_000;
const PER_FILE: usize = 100;
const WORDS: usize = 60;
const LENGTH: usize = 384;
const QUESTIONS: usize = 30;

fn main() {
    let mut arguments = std::env::args();
    let n = arguments.find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Runtime::new().expect("there is room for a runtime");
    runtime.block_on(async {
        println!("{:<62} {:>10} {:>10}", "", "p50", "p99");
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("library.db").display());
        measure("SQLite", &url, n).await;
        measure("PostgreSQL", &services::postgres_url(), n).await;
    });
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A word: the smaller its number, the more often it comes, as in any language.
    fn word(&mut self) -> String {
        let share = (self.next() % 1_000_000) as f64 / 1_000_000.0;
        format!("w{:.0}", (20_000.0_f64.ln() * share).exp())
    }

    fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self) -> Vec<f32> {
        let vector: Vec<f32> =
            (0..LENGTH).map(|_| (self.next() % 2_001) as f32 / 1_000.0 - 1.0).collect();
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        vector.into_iter().map(|number| number / length).collect()
    }
}

/// Takes no time for a vector, so that only the library's is measured.
struct Ready {
    by_meaning: AtomicBool,
}

#[async_trait]
impl TextAnalyzer for Ready {
    fn asked(&self, text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn model(&self) -> Option<&str> {
        self.by_meaning.load(Ordering::Relaxed).then_some("dice")
    }

    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        Ok(texts.iter().map(|text| Dice(text.len() as u64 * 977).vector()).collect())
    }
}

fn tenant() -> TenantId {
    TenantId::from("bench")
}

async fn measure(name: &str, url: &str, n: usize) {
    let options = StoreOptions { connections: 4, ..StoreOptions::at(url) };
    let store = Store::open(options).await.unwrap();
    let reader = Arc::new(Ready { by_meaning: AtomicBool::new(true) });
    let library = store.library(reader.clone());
    let (id, at) = (CollectionId::from("vs"), Timestamp::from_micros(1));
    let notes = CollectionNotes::default();
    let record = CollectionRecord { id: id.clone(), created_at: at, last_active_at: at, notes };
    library.open_collection(&tenant(), record).await.unwrap();

    let mut dice = Dice(7);
    let mut longest = Duration::ZERO;
    let mut spent = Duration::ZERO;
    for file in 0..n / PER_FILE {
        let took = add_file(&library, &id, file, &mut dice).await;
        if file < TIMED / PER_FILE {
            spent += took;
            longest = longest.max(took);
        }
    }
    let rate = TIMED as f64 / spent.as_secs_f64();
    println!(
        "{name}: {TIMED} passages indexed in {spent:.2?}, {rate:.0} a second; a file of {PER_FILE} took {longest:.1?} at most"
    );

    let questions: Vec<String> = (0..QUESTIONS).map(|_| dice.text(4)).collect();
    let (mut bare, mut words, mut bare_vectors, mut both) = (vec![], vec![], vec![], vec![]);
    for question in &questions {
        bare.push(timed(bare_words(url, question)).await);
        reader.by_meaning.store(false, Ordering::Relaxed);
        words.push(timed(ask(&library, &id, question)).await);
        bare_vectors.push(timed(all_vectors(url)).await);
        reader.by_meaning.store(true, Ordering::Relaxed);
        both.push(timed(ask(&library, &id, question)).await);
    }
    show(&format!("{name}, {n} passages: by words, the bare database"), bare);
    show(&format!("{name}, {n} passages: by words, the library"), words);
    show(&format!("{name}, {n} passages: all vectors read, the bare database"), bare_vectors);
    show(&format!("{name}, {n} passages: by words and vectors, the library"), both);
    store.close().await;
}

/// Attaches a file and hands in what it says; tells how long that took.
async fn add_file(
    library: &StoreLibrary,
    id: &CollectionId,
    n: usize,
    dice: &mut Dice,
) -> Duration {
    let at = Timestamp::from_micros(1);
    let file_id = FileId::from(format!("file-{n}").as_str());
    let file = FileRecord {
        id: file_id.clone(),
        name: format!("{n}.txt"),
        bytes: 1,
        purpose: "assistants".to_owned(),
        created_at: at,
        expires_at: None,
    };
    library.add_file(&tenant(), file, b"x".as_slice().into()).await.unwrap();
    let texts: Vec<String> = (0..PER_FILE).map(|_| dice.text(WORDS)).collect();
    let chunks = texts.into_iter().map(|text| NewChunk { words: text.clone(), text });
    let chunks: Vec<NewChunk> = chunks.collect();
    let vectors = (0..PER_FILE).map(|_| dice.vector()).collect();
    let vectors = Some(Vectors { model: "dice".to_owned(), vectors });
    let began = Instant::now();
    library.attach(&tenant(), id, None, vec![Attachment::new(file_id, at)]).await.unwrap();
    let work = library.claim(None, Duration::from_mins(1), &[]).await.unwrap().unwrap();
    assert!(library.finish(&work, Indexed::Chunks { chunks, vectors }).await.unwrap());
    began.elapsed()
}

async fn timed(work: impl Future<Output = usize>) -> Duration {
    let began = Instant::now();
    assert!(work.await > 0, "it finds something");
    began.elapsed()
}

async fn ask(library: &StoreLibrary, id: &CollectionId, question: &str) -> usize {
    let query = Query::new(question, 10);
    let found = library.search(&tenant(), std::slice::from_ref(id), &query).await.unwrap();
    assert_eq!(found.words_only, None);
    found.chunks.len()
}

/// The plainest question that the database's own index can be asked.
async fn bare_words(url: &str, question: &str) -> usize {
    let joined = |quote: &str, or: &str| {
        let words: Vec<String> =
            question.split(' ').map(|word| format!("{quote}{word}{quote}")).collect();
        words.join(or)
    };
    if url.starts_with("sqlite") {
        let sql = "select rowid from passage_words where passage_words match $1
                   order by rank limit 10";
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        let query = sqlx::query(sql).bind(joined("\"", " OR "));
        return query.fetch_all(&mut connection).await.unwrap().len();
    }
    let sql = "select number, ts_rank(words, $1::tsquery) from passages where words @@ $1::tsquery
               order by 2 desc limit 10";
    let mut connection = PgConnection::connect(url).await.unwrap();
    let query = sqlx::query(sql).bind(joined("'", " | "));
    query.fetch_all(&mut connection).await.unwrap().len()
}

/// All vectors, without doing anything with them.
async fn all_vectors(url: &str) -> usize {
    let sql = AssertSqlSafe("select body from passage_vectors".to_owned());
    if url.starts_with("sqlite") {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        return rows.iter().map(|row| row.get::<&[u8], _>(0).len()).sum();
    }
    let mut connection = PgConnection::connect(url).await.unwrap();
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| row.get::<&[u8], _>(0).len()).sum()
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{what:<62} {:>10.1?} {:>10.1?}", at(50), at(99));
}
