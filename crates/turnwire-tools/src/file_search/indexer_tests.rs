use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{
    Attachment, Attachments, Chunking, CollectionId, CollectionNotes, CollectionRecord,
    Collections, EmbeddingError, ExtractionFailure, FileId, FileRecord, Files, IndexQueue,
    IndexTask, IndexWork, Indexed, Indexing, LibraryError, Query, TenantId, TextAnalyzer,
    Timestamp,
};
use turnwire_stores::{Store, StoreLibrary};

use super::{AT_ONCE, AT_ONCE_PER_TENANT, Indexer, Turns, WorkerState};
use crate::documents::{self, DocumentReader};

/// An analyzer with the same vector for all texts. It can be made unavailable.
#[derive(Default)]
struct Meaning {
    away: AtomicBool,
    n_asked: AtomicUsize,
}

#[async_trait]
impl TextAnalyzer for Meaning {
    fn asked(&self, text: &str) -> Vec<String> {
        documents::asked(text)
    }

    fn model(&self) -> Option<&str> {
        Some("one")
    }

    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        self.n_asked.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err(EmbeddingError("it is away".to_owned()));
        }
        Ok(texts.iter().map(|_| vec![1.0]).collect())
    }
}

struct Desk {
    library: Arc<StoreLibrary>,
    indexer: Indexer,
    tenant: TenantId,
    id: CollectionId,
}

impl Desk {
    async fn new(reader: Arc<dyn TextAnalyzer>, documents: DocumentReader) -> Self {
        let library = Arc::new(Store::in_memory().await.unwrap().library(reader.clone()));
        let indexer = Indexer::new(library.clone(), reader, documents);
        let (tenant, id) = (TenantId::default(), CollectionId::from("vs"));
        let desk = Self { library, indexer, tenant, id };
        desk.open().await;
        desk
    }

    async fn open(&self) {
        let (id, at) = (self.id.clone(), Timestamp::from_micros(1));
        let notes = CollectionNotes::default();
        let record = CollectionRecord { id, created_at: at, last_active_at: at, notes };
        self.library.open_collection(&self.tenant, record).await.unwrap();
    }

    async fn words_only(documents: DocumentReader) -> Self {
        Self::new(Arc::new(crate::file_search::DefaultAnalyzer::default()), documents).await
    }

    async fn hand_in(&self, name: &str, content: &[u8], chunking: Chunking) {
        let at = Timestamp::from_micros(1);
        let (bytes, purpose) = (content.len() as u64, String::new());
        let (id, name) = (FileId::from(name), name.to_owned());
        let file =
            FileRecord { id: id.clone(), name, bytes, purpose, created_at: at, expires_at: None };
        self.library.add_file(&self.tenant, file, content.into()).await.unwrap();
        let attachment = Attachment { chunking, ..Attachment::new(id, at) };
        self.library.attach(&self.tenant, &self.id, None, vec![attachment]).await.unwrap();
    }

    async fn state(&self, name: &str) -> Indexing {
        let id = FileId::from(name);
        self.library.attachment(&self.tenant, &self.id, &id).await.unwrap().state
    }

    async fn chunks(&self, name: &str) -> Vec<String> {
        self.library.chunks(&self.tenant, &self.id, &FileId::from(name)).await.unwrap()
    }

    async fn find(&self, text: &str) -> Vec<String> {
        let query = Query::new(text, 5);
        let found = self.library.search(&self.tenant, std::slice::from_ref(&self.id), &query).await;
        found.unwrap().chunks.into_iter().map(|chunk| chunk.file_name).collect()
    }
}

#[tokio::test]
async fn files_are_read_as_what_they_are() {
    let desk = Desk::words_only(DocumentReader::in_process()).await;
    desk.hand_in("a.txt", b"Walruses sleep.", Chunking::Auto).await;
    desk.hand_in("b.html", b"<p>Penguins &amp; <b>fish</b></p>", Chunking::Auto).await;
    desk.hand_in("d.md", b"# Giraffes\n\nare tall.", Chunking::Auto).await;
    assert_eq!(desk.state("a.txt").await, Indexing::InProgress);
    assert_eq!(desk.indexer.work_off().await, Ok(3));
    assert_eq!(desk.find("sleeping walrus").await, ["a.txt"]);
    assert_eq!(desk.chunks("b.html").await, ["Penguins & fish"]);
    assert_eq!(desk.chunks("d.md").await, ["# Giraffes\n\nare tall."]);
}

/// A15: a file that cannot be indexed has a reason for its owner, and other files are not affected.
#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let desk = Desk::words_only(DocumentReader::in_process()).await;
    desk.hand_in("picture.png", b"\x89PNG\r\n\x1a\n\0", Chunking::Auto).await;
    desk.hand_in("paper.pdf", b"%PDF-1.7", Chunking::Auto).await;
    desk.hand_in("a.txt", b"Walrus.", Chunking::Auto).await;
    assert_eq!(desk.indexer.work_off().await, Ok(3));
    for name in ["picture.png", "paper.pdf"] {
        let reason = format!(
            "`{name}` cannot be searched: only text in UTF-8, Markdown, HTML and PDF can be read"
        );
        assert_eq!(
            desk.state(name).await,
            Indexing::Failed { why: ExtractionFailure::Unsupported, reason }
        );
    }
    assert_eq!(desk.find("walrus").await, ["a.txt"]);
}

#[tokio::test]
async fn a_file_is_cut_as_its_owner_says() {
    let desk = Desk::words_only(DocumentReader::in_process()).await;
    let text = "walrus ".repeat(200);
    let cut = Chunking::Static { max_tokens: 100, overlap_tokens: 0 };
    desk.hand_in("auto.txt", text.as_bytes(), Chunking::Auto).await;
    desk.hand_in("cut.txt", text.as_bytes(), cut).await;
    desk.indexer.work_off().await.unwrap();
    assert_eq!((desk.chunks("auto.txt").await.len(), desk.chunks("cut.txt").await.len()), (2, 4));
}

/// While the embeddings model is unavailable, files are found by words. The model is not called for
/// every file, and the missing vectors are added later.
#[tokio::test]
async fn vectors_follow_when_the_model_is_back() {
    let meaning = Arc::new(Meaning::default());
    meaning.away.store(true, Ordering::SeqCst);
    let desk = Desk::new(meaning.clone(), DocumentReader::in_process()).await;
    for name in ["a.txt", "b.txt", "c.txt"] {
        desk.hand_in(name, b"Walrus.", Chunking::Auto).await;
    }
    assert_eq!(desk.indexer.work_off().await, Ok(3));
    assert_eq!(meaning.n_asked.load(Ordering::SeqCst), 1);
    assert_eq!(desk.find("walrus").await.len(), 3);
    meaning.away.store(false, Ordering::SeqCst);
    assert_eq!(desk.find("something else").await.len(), 0, "no vectors yet");
    assert_eq!(desk.indexer.work_off().await, Ok(3));
    assert_eq!(desk.find("something else").await.len(), 3);
    assert_eq!(desk.indexer.work_off().await, Ok(0));
}

/// Files are indexed in the background, also those added later, until the indexer is stopped.
#[tokio::test]
async fn files_are_read_in_the_background() {
    let desk = Desk::words_only(DocumentReader::in_process()).await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    tasks.spawn(desk.indexer.clone().run(stop.clone()));
    for name in ["a.txt", "b.txt"] {
        desk.hand_in(name, b"Walrus.", Chunking::Auto).await;
        let read = async {
            while desk.state(name).await != Indexing::Completed {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), read).await.unwrap();
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    desk.hand_in("late.txt", b"Walrus.", Chunking::Auto).await;
    assert!(
        desk.library.claim(None, Duration::ZERO, &[]).await.unwrap().is_some(),
        "nobody has it"
    );
}

/// A queue with one file, whose claim is lost as soon as it is to be renewed.
#[derive(Default)]
struct Withdrawn {
    n_claims: AtomicUsize,
}

#[async_trait]
impl IndexQueue for Withdrawn {
    async fn claim(
        &self,
        _model: Option<&str>,
        _lease: Duration,
        _passed_over: &[TenantId],
    ) -> Result<Option<IndexWork>, LibraryError> {
        let is_first = self.n_claims.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(is_first.then(|| IndexWork {
            tenant: TenantId::default(),
            collection_id: CollectionId::from("vs"),
            file_id: FileId::from("slow.txt"),
            file_name: "slow.txt".to_owned(),
            claim: 1,
            task: IndexTask::Read {
                content: b"walrus".as_slice().into(),
                chunking: Chunking::Auto,
            },
        }))
    }

    async fn renew(&self, _work: &IndexWork, _lease: Duration) -> Result<bool, LibraryError> {
        Ok(false)
    }

    async fn finish(&self, _work: &IndexWork, end: Indexed) -> Result<bool, LibraryError> {
        panic!("nobody wants it any more: {end:?}")
    }

    async fn changed(&self) {}

    async fn tidy(&self) -> Result<(), LibraryError> {
        Ok(())
    }
}

/// Indexing stops when the file is cancelled or detached.
#[tokio::test(start_paused = true)]
async fn a_file_that_nobody_wants_any_more_is_let_go() {
    let slow = DocumentReader::program("/bin/sleep", "1000").within(Duration::from_hours(24));
    let reader = Arc::new(crate::file_search::DefaultAnalyzer::default());
    let indexer = Indexer::new(Arc::new(Withdrawn::default()), reader, slow);
    assert_eq!(indexer.work_off().await, Ok(1));
}

/// A20: a tenant with many files has no more turns than one with few.
#[tokio::test]
async fn tenants_take_turns() {
    let reader = Arc::new(crate::file_search::DefaultAnalyzer::default());
    let library = Arc::new(Store::in_memory().await.unwrap().library(reader.clone()));
    let desk = |name: &str| Desk {
        library: library.clone(),
        indexer: Indexer::new(library.clone(), reader.clone(), DocumentReader::in_process()),
        tenant: TenantId::from(name),
        id: CollectionId::from(name),
    };
    let (greedy, modest) = (desk("greedy"), desk("modest"));
    for (desk, n_files) in [(&greedy, 5), (&modest, 2)] {
        desk.open().await;
        for n in 0..n_files {
            desk.hand_in(&format!("{n}.txt"), b"Walrus.", Chunking::Auto).await;
        }
    }
    let (turns, worker) = (tokio::sync::Mutex::<Turns>::default(), WorkerState::default());
    let mut order = Vec::new();
    while let Some(work) = greedy.indexer.claim(&worker, &turns).await.unwrap() {
        turns.lock().await.ended(&work.tenant);
        order.push(work.tenant.to_string());
    }
    assert_eq!(
        order,
        ["greedy", "modest", "greedy", "modest", "greedy", "greedy", "greedy"],
        "in turn, for as long as both have files"
    );
}

/// A20: one tenant never has all places, so another one finds one at once.
#[tokio::test]
async fn a_tenant_never_has_all_places() {
    let desk = Desk::words_only(DocumentReader::in_process()).await;
    for n in 0..5 {
        desk.hand_in(&format!("{n}.txt"), b"Walrus.", Chunking::Auto).await;
    }
    let (turns, worker) = (tokio::sync::Mutex::<Turns>::default(), WorkerState::default());
    let mut n_claimed = 0;
    while desk.indexer.claim(&worker, &turns).await.unwrap().is_some() {
        n_claimed += 1;
    }
    assert_eq!((n_claimed, AT_ONCE), (AT_ONCE_PER_TENANT, 3));
}
