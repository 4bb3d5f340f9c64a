//! Files, collections and their index, on both databases and in memory.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{collections::HashSet, time::Duration};

use futures::future::join_all;
use tempfile::TempDir;
use turnwire_contract::{
    Attachment, Attachments, CollectionId, CollectionNotes, CollectionRecord, Collections, FileId,
    FileRecord, Files, IndexQueue, IndexTask, IndexWork, Indexed, Indexing, LibraryError, NewChunk,
    Query, TenantId, Timestamp,
};
use turnwire_stores::{MAX_FILE_BYTES, Store, StoreLibrary, StoreOptions};
use turnwire_testkit::{
    conformance::library::{self, Plainly},
    services::{postgres_url, tenant_role},
};

const LEASE: Duration = Duration::from_secs(30);

/// One new database, for as long as this lives.
struct Backend {
    url: String,
    tenant_role: Option<String>,
    _directory: Option<TempDir>,
}

impl Backend {
    fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("library.db").display());
        Self { url, tenant_role: None, _directory: Some(directory) }
    }

    fn postgres() -> Self {
        Self { url: postgres_url(), tenant_role: None, _directory: None }
    }

    /// Both databases, and PostgreSQL with row-level security.
    fn all() -> [Self; 3] {
        let postgres = Self::postgres();
        let role = tenant_role(&postgres.url);
        let with_role = Self { tenant_role: Some(role), ..postgres };
        [Self::sqlite(), Self::postgres(), with_role]
    }

    async fn store(&self) -> Store {
        let options = StoreOptions {
            connections: 4,
            tenant_role: self.tenant_role.clone(),
            ..StoreOptions::at(self.url.as_str())
        };
        Store::open(options).await.unwrap()
    }

    async fn library(&self) -> StoreLibrary {
        self.store().await.library(Plainly::by_words())
    }
}

fn tenant() -> TenantId {
    TenantId::from("t")
}

fn at() -> Timestamp {
    Timestamp::from_micros(1)
}

async fn add(library: &StoreLibrary, id: &str, content: &[u8]) -> Result<(), LibraryError> {
    let (name, purpose) = (format!("{id}.txt"), "assistants".to_owned());
    let bytes = content.len() as u64;
    let id = FileId::from(id);
    let file = FileRecord { id, name, bytes, purpose, created_at: at(), expires_at: None };
    library.add_file(&tenant(), file, content.into()).await
}

/// A collection with these files, which all wait to be read.
async fn fill(library: &StoreLibrary, id: &str, files: &[String]) -> CollectionId {
    let id = CollectionId::from(id);
    let notes = CollectionNotes::default();
    let record = CollectionRecord { id: id.clone(), created_at: at(), last_active_at: at(), notes };
    library.open_collection(&tenant(), record).await.unwrap();
    let mut attachments = Vec::new();
    for file in files {
        add(library, file, b"The walrus sleeps.").await.unwrap();
        attachments.push(Attachment::new(FileId::from(file.as_str()), at()));
    }
    library.attach(&tenant(), &id, None, attachments).await.unwrap();
    id
}

async fn claim(library: &StoreLibrary) -> Option<IndexWork> {
    library.claim(None, LEASE, &[]).await.unwrap()
}

fn read(work: &IndexWork) -> Indexed {
    let IndexTask::Read { content, .. } = &work.task else { panic!("it is read already") };
    let text = String::from_utf8(content.to_vec()).unwrap();
    let words = text.to_lowercase().replace('.', "");
    Indexed::Chunks { chunks: vec![NewChunk { text, words }], vectors: None }
}

/// A1 among others: what belongs to one tenant does not exist for another.
#[tokio::test]
async fn both_databases_keep_the_promises_of_a_library() {
    for backend in Backend::all() {
        library::check(&backend.library().await).await;
    }
}

#[tokio::test]
async fn the_library_in_memory_keeps_the_promises_of_a_library() {
    let reader = Plainly::by_words();
    library::check(&Store::in_memory().await.unwrap().library(reader)).await;
    let reader = Plainly::by_meaning();
    let library = Store::in_memory().await.unwrap().library(reader.clone());
    library::check_meaning(&library, &reader).await;
}

/// A request that is abandoned in the middle of a statement closes its connection. What is in
/// memory stays, and belongs to one store only.
#[tokio::test]
async fn what_is_in_memory_outlasts_its_connections() {
    let store = Store::in_memory().await.unwrap();
    let library = store.library(Plainly::by_words());
    let id = fill(&library, "vs", &["file-0".to_owned()]).await;
    for n in 0..20 {
        let (name, started) = (format!("file-late-{n}"), Duration::from_micros(50 * n));
        let files = vec![Attachment::new(FileId::from("file-0"), at())];
        let (tenant, batch) = (tenant(), None);
        let attach = library.attach(&tenant, &id, batch, files);
        let _ = tokio::time::timeout(started, attach).await;
        add(&library, &name, b"Late.").await.unwrap();
    }
    assert_eq!(library.files(&tenant()).await.unwrap().len(), 21);
    let other = Store::in_memory().await.unwrap().library(Plainly::by_words());
    assert_eq!(other.files(&tenant()).await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn both_databases_find_by_meaning() {
    for backend in Backend::all() {
        let reader = Plainly::by_meaning();
        let library = backend.store().await.library(reader.clone());
        library::check_meaning(&library, &reader).await;
    }
}

/// What was handed over is read after a restart, and what was read is found.
#[tokio::test]
async fn the_queue_and_the_index_survive_a_restart() {
    for backend in Backend::all() {
        let files: Vec<String> = ["file-1", "file-2"].map(str::to_owned).into();
        let store = backend.store().await;
        let library = store.library(Plainly::by_words());
        let id = fill(&library, "vs", &files).await;
        let done = claim(&library).await.unwrap();
        assert!(library.finish(&done, read(&done)).await.unwrap());
        // The process goes in the middle of the second one.
        let begun = library.claim(None, Duration::ZERO, &[]).await.unwrap().unwrap();
        store.close().await;
        drop((store, library));

        let library = backend.library().await;
        let query = Query::new("walrus", 5);
        let found = library.search(&tenant(), std::slice::from_ref(&id), &query).await.unwrap();
        assert_eq!(found.chunks.len(), 1);
        let again = claim(&library).await.unwrap();
        assert_eq!(again.file_id, begun.file_id);
        assert!(library.finish(&again, read(&again)).await.unwrap());
        let found = library.search(&tenant(), &[id], &query).await.unwrap();
        assert_eq!(found.chunks.len(), 2);
    }
}

/// Several processes share the work: every file is claimed once, by one of them.
#[tokio::test(flavor = "multi_thread")]
async fn several_processes_never_claim_the_same_file() {
    for backend in Backend::all() {
        let mut libraries = Vec::new();
        for _ in 0..4 {
            libraries.push(backend.library().await);
        }
        let files: Vec<String> = (0..40).map(|n| format!("file-{n}")).collect();
        let id = fill(&libraries[0], "vs", &files).await;
        let work_off = async |library: &StoreLibrary| {
            let mut claimed = Vec::new();
            while let Some(work) = claim(library).await {
                assert!(library.finish(&work, read(&work)).await.unwrap());
                claimed.push(work.file_id);
            }
            claimed
        };
        let claimed = join_all(libraries.iter().map(work_off)).await.concat();
        let different: HashSet<&FileId> = claimed.iter().collect();
        assert_eq!((claimed.len(), different.len()), (40, 40));
        let attached = libraries[0].attachments(&tenant(), &id).await.unwrap();
        assert!(attached.iter().all(|file| file.state == Indexing::Completed));
    }
}

/// A13: a file as big as the limit is kept, slice by slice, and one with a byte more is not.
#[tokio::test]
async fn a_file_may_be_so_big_and_no_bigger() {
    for backend in Backend::all() {
        let library = backend.library().await;
        let mut content = vec![b'x'; MAX_FILE_BYTES];
        content[MAX_FILE_BYTES - 1] = b'y';
        add(&library, "file-1", &content).await.unwrap();
        let kept = library.content(&tenant(), &FileId::from("file-1")).await.unwrap();
        assert!(*kept == *content, "it has changed");
        content.push(b'x');
        let refused = add(&library, "file-2", &content).await;
        let expected = "the file exceeds the limit of 64 MiB";
        assert_eq!(refused, Err(LibraryError::Refused(expected.to_owned())));
    }
}

/// What is detached or removed leaves nothing behind.
#[tokio::test]
async fn nothing_is_left_of_what_is_gone() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let library = store.library(Plainly::by_words());
        let files: Vec<String> = (0..3).map(|n| format!("file-{n}")).collect();
        let id = fill(&library, "vs", &files).await;
        while let Some(work) = claim(&library).await {
            assert!(library.finish(&work, read(&work)).await.unwrap());
        }
        library.detach(&tenant(), &id, &FileId::from("file-0")).await.unwrap();
        library.remove_file(&tenant(), &FileId::from("file-1")).await.unwrap();
        library.remove_collection(&tenant(), &id).await.unwrap();
        for file in ["file-0", "file-2"] {
            library.remove_file(&tenant(), &FileId::from(file)).await.unwrap();
        }
        library.tidy().await.unwrap();
        for table in [
            "files",
            "file_slices",
            "collections",
            "attachments",
            "passages",
            "passage_vectors",
            "attachments_gone",
            "file_batches",
        ] {
            assert_eq!(rows(&backend.url, table).await, 0, "{table}");
        }
        store.close().await;
    }
}

async fn rows(url: &str, table: &str) -> i64 {
    use sqlx::Connection;

    let sql = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    if url.starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    } else {
        let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    }
}
