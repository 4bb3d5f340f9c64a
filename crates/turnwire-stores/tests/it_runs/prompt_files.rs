//! The files that a conversation names, read when the model is asked.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, future::join_all};
use tokio::{sync::Semaphore, time::timeout};
use turnwire_contract::{
    Content, Event, FileId, FileRecord, Files, Item, Journal, Leases, LibraryAddress, Model,
    ModelError, ModelStream, Prompt, Role, RunOutcome, RunRequest, Seq, TenantId, Timestamp,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreLibrary};
use turnwire_tools::DefaultAnalyzer;

use crate::support::Backend;

const LEASE: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(20);

fn engine(store: &Store, model: impl Model + 'static, max_prompt_files: usize) -> Runs {
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        library: Some(Arc::new(library(store))),
        max_prompt_files,
        ..EngineParts::default()
    })
}

fn library(store: &Store) -> StoreLibrary {
    store.library(Arc::new(DefaultAnalyzer::new(None)))
}

async fn add_file(store: &Store, id: &str, content: &[u8]) {
    let file = FileRecord {
        id: FileId::from(id),
        name: "a.txt".to_owned(),
        bytes: content.len() as u64,
        purpose: "user_data".to_owned(),
        created_at: Timestamp::from_micros(1),
        expires_at: None,
    };
    library(store).add_file(&TenantId::default(), file, content.into()).await.unwrap();
}

fn about(files: &[&str]) -> RunRequest {
    let files = files.iter().map(|id| {
        let (file_id, media_type) = (FileId::from(*id), "text/plain".to_owned());
        let url = LibraryAddress { file_id, media_type }.to_string();
        Content::File { name: "a.txt".to_owned(), url }
    });
    let content = files.chain([Content::text("What does it say?")]).collect();
    RunRequest::new("m", vec![Item::Message { role: Role::User, content }])
}

/// The addresses of all files in a question.
fn shown(prompt: &Prompt) -> Vec<String> {
    let content = prompt.items.iter().filter_map(|item| match &**item {
        Item::Message { content, .. } => Some(content),
        _ => None,
    });
    let urls = content.flatten().filter_map(|content| match content {
        Content::File { url, .. } => Some(url.clone()),
        _ => None,
    });
    urls.collect()
}

/// C29, C17: the run keeps the name of a file; whoever asks the model reads it, also the worker
/// that takes the run over.
#[tokio::test]
async fn a_file_is_read_by_whoever_asks_the_model() {
    for backend in Backend::all() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        let content = "x".repeat(3_000_000);
        add_file(&first, "file_1", content.as_bytes()).await;
        // It beats once and never again: gone, without a word.
        first.heartbeat().await.unwrap();
        let slow = Scripted::new([Turn::new().text("It says ").wait_forever()]);
        let left = engine(&first, slow.clone(), usize::MAX / 2);
        let run = left.start(about(&["file_1"])).await.unwrap();
        let mut events = run.events().await.unwrap();
        while !matches!(events.next().await.unwrap().unwrap().event, Event::TextAdded { .. }) {}
        let expected = [format!("data:text/plain;base64,{}", base64_of(&content))];
        assert_eq!(shown(&slow.prompts()[0]), expected, "{}", backend.url);

        let quick = Scripted::new([Turn::new().text("x, often.")]);
        let next = engine(&second, quick.clone(), usize::MAX / 2);
        next.start_worker().await.unwrap();
        let mut n_bytes = 0;
        let mut events = second.read(&TenantId::default(), run.id(), Seq::START).await.unwrap();
        let ended = async {
            while let Some(recorded) = events.next().await {
                let recorded = recorded.unwrap();
                n_bytes += serde_json::to_vec(&*recorded).unwrap().len();
                if let Event::RunFinished { outcome, .. } = &recorded.event {
                    assert_eq!(*outcome, RunOutcome::Completed, "{}", backend.url);
                }
            }
        };
        timeout(SOON, ended).await.expect("somebody works on it");
        assert_eq!(shown(&quick.prompts()[0]), expected, "{}", backend.url);
        assert!(n_bytes < 10_000, "the journal has {n_bytes} bytes");
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// C29: a file of the run itself that is gone ends the run, with its code; one of an earlier turn
/// does not: the model is told in its place.
#[tokio::test]
async fn a_file_that_is_gone_is_told() {
    let backend = Backend::sqlite();
    let store = backend.store().await;
    add_file(&store, "file_1", b"one").await;
    let model = Scripted::new([Turn::new().text("One.")]).repeat_last();
    let runs = engine(&store, model.clone(), 1_000);
    let first = runs.start(about(&["file_1"])).await.unwrap();
    assert_eq!(first.outcome().await, RunOutcome::Completed);
    library(&store).remove_file(&TenantId::default(), &FileId::from("file_1")).await.unwrap();

    let mut next = RunRequest::new("m", vec![Item::user("And now?")]);
    next.continues = Some(first.id().clone());
    let next = runs.start(next).await.unwrap();
    assert_eq!(next.outcome().await, RunOutcome::Completed);
    let told = format!("{:?}", model.prompts()[1].items);
    assert!(told.contains("`file_1` was here; it has been deleted"), "{told}");
    assert!(shown(&model.prompts()[1]).is_empty());

    let gone = runs.start(about(&["file_1"])).await.unwrap();
    let RunOutcome::Failed { failure } = gone.outcome().await else { panic!("it is gone") };
    assert_eq!(failure.code, "file_gone");
    assert!(failure.message.contains("file_1"), "{failure:?}");
    assert_eq!(model.prompts().len(), 2, "the model is not asked");
}

/// C29: the files of one question have a limit, each mention counted.
#[tokio::test]
async fn the_files_of_a_question_have_a_limit() {
    let backend = Backend::sqlite();
    let store = backend.store().await;
    add_file(&store, "file_1", &[b'x'; 750]).await;
    let runs = engine(&store, Scripted::new([Turn::new().text("x.")]).repeat_last(), 2_000);
    let outcome = async |files: &[&str]| {
        let run = runs.start(about(files)).await.unwrap();
        run.outcome().await
    };
    assert_eq!(outcome(&["file_1", "file_1"]).await, RunOutcome::Completed);
    let RunOutcome::Failed { failure } = outcome(&["file_1", "file_1", "file_1"]).await else {
        panic!("it is too much")
    };
    assert_eq!(failure.code, "files_too_large");
}

/// A model that counts how many questions it is being asked at the same time.
#[derive(Clone)]
struct Counting(Arc<Counted>);

struct Counted {
    n_now: AtomicUsize,
    n_most: AtomicUsize,
    open: Semaphore,
}

#[async_trait]
impl Model for Counting {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let n_now = self.0.n_now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.n_most.fetch_max(n_now, Ordering::SeqCst);
        let _one = self.0.open.acquire().await.unwrap();
        self.0.n_now.fetch_sub(1, Ordering::SeqCst);
        Scripted::new([Turn::new().text("x.")]).stream(prompt).await
    }
}

/// C29: all questions together carry so many bytes of files at once; the others wait, and all are
/// answered.
#[tokio::test]
async fn questions_with_files_wait_for_room() {
    let backend = Backend::sqlite();
    let store = backend.store().await;
    add_file(&store, "file_1", &vec![b'x'; 75_000]).await;
    let model = Counting(Arc::new(Counted {
        n_now: AtomicUsize::new(0),
        n_most: AtomicUsize::new(0),
        open: Semaphore::new(0),
    }));
    let runs = engine(&store, model.clone(), 200_000);
    let runs: Vec<_> = join_all((0..8).map(|_| runs.start(about(&["file_1"])))).await;
    let runs: Vec<_> = runs.into_iter().map(Result::unwrap).collect();
    let two_are_asked = async {
        while model.0.n_now.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, two_are_asked).await.expect("there is room for two");
    model.0.open.add_permits(100);
    for run in runs {
        assert_eq!(timeout(SOON, run.outcome()).await.expect("it ends"), RunOutcome::Completed);
    }
    assert_eq!(model.0.n_most.load(Ordering::SeqCst), 2);
}
