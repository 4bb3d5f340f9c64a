//! A tool that blocks its thread, and a process that ends because of it.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
};

use futures::StreamExt;
use serde_json::json;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use turnwire_contract::{
    Event, Item, Journal, Model, RunId, RunOutcome, RunRequest, Seq, TenantId, Tool, ToolContext,
    ToolError, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::{EngineParts, Toolbox};
use turnwire_models::{Scripted, Turn};

use super::*;

/// Blocks the thread that polls it until it is told to go on.
struct Blocking {
    spec: ToolSpec,
    begun: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Blocking {
    /// The tool, what tells that it is called, and what lets it go on.
    fn new() -> (Self, Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
        let spec = ToolSpec::new("block", "Blocks its thread.");
        (Self { spec, begun, go_on: Mutex::new(may_go_on) }, has_begun, go_on)
    }
}

#[async_trait::async_trait]
impl Tool for Blocking {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.begun.send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv();
        Ok(ToolOutput::text("at last"))
    }
}

/// C36: a thread that a run blocks is told with what it does and counted, and in the end named as
/// the reason to end the process. Looks are counted, so that no time has to pass here.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_thread_is_noticed() {
    let (tool, has_begun, go_on) = Blocking::new();
    let spec = tool.spec.clone();
    let mut tools = Toolbox::default();
    tools.add(Arc::new(tool)).unwrap();
    let turns = [Turn::new().call("block", json!({})), Turn::new().text("done")];
    let model: Arc<dyn Model> = Arc::new(Scripted::new(turns));
    let runs = Runs::new(EngineParts { any_model: Some(model), tools, ..EngineParts::default() });
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.tools = vec![Arc::new(spec)];
    let run = runs.start(request).await.unwrap();
    tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();

    let mut looks =
        Looks { runs: runs.clone(), watch: PollWatch::default(), shown: VecDeque::new() };
    for _ in 0..TOLD_AFTER {
        assert_eq!(looks.look(), None);
        assert_eq!(runs.n_blocked_threads(), 0);
    }
    for _ in TOLD_AFTER..ENDS_AFTER {
        assert_eq!(looks.look(), None);
        assert_eq!(runs.n_blocked_threads(), 1, "it is told once");
    }
    let (run_id, step) = (run.id().clone(), "calls of tools".to_owned());
    assert_eq!(looks.look(), Some(LongPoll { run_id, step, n_looks: ENDS_AFTER }));
    go_on.send(()).unwrap();
    run.outcome().await;
    assert_eq!(looks.look(), None);
    assert_eq!(runs.n_blocked_threads(), 1, "it is shown for a minute");
}

/// Names the store to the process that [`a_blocked_process_ends_and_the_rest_goes_on`] starts.
const STORE_OF_BLOCKED: &str = "TURNWIRE_TEST_STORE_OF_BLOCKED";

/// So that the other worker need not wait for long.
const LEASE: Duration = Duration::from_millis(500);

/// Ten seconds, and what a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(1);

fn options(url: &str) -> StoreOptions {
    StoreOptions { lease: LEASE, ..StoreOptions::at(url) }
}

/// A worker of a store.
fn worker(store: &Store, model: Scripted, tool: Blocking) -> Runs {
    let mut tools = Toolbox::default();
    tools.add(Arc::new(tool)).unwrap();
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        tools,
        ..EngineParts::default()
    })
}

fn asking(script: &serde_json::Value) -> RunRequest {
    let mut request = RunRequest::new("m", vec![Item::user(script.to_string())]);
    request.tools = vec![Arc::new(ToolSpec::new("block", "Blocks its thread."))];
    request
}

/// The process whose thread is blocked: a worker with two runs and a watchdog, as in `serve`. It
/// prints their IDs, and has no end of its own.
fn be_blocked(url: &str) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let options = options(url);
        let store = Store::open(options.clone()).await.unwrap();
        let (tool, has_begun, _go_on) = Blocking::new();
        let runs = worker(&store, Scripted::by_prompt(), tool);
        runs.start_worker().await.unwrap();
        let shared = SharedStore { options, worker: store.worker().to_owned() };
        let _watchdog = Watchdog::start(runs.clone(), Some(shared)).unwrap();
        let beside = json!({ "turns": [{ "text": "Let me ", "finish": "never" }] });
        let beside = runs.start(asking(&beside)).await.unwrap();
        let blocking = json!({ "turns": [{ "calls": [{ "name": "block" }] }] });
        let blocking = runs.start(asking(&blocking)).await.unwrap();
        tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
        let ids = json!({ "beside": beside.id(), "blocking": blocking.id() });
        fs::write(url.trim_start_matches("sqlite://").replace("runs.db", "ids"), ids.to_string())
            .unwrap();
        std::future::pending::<()>().await;
    });
}

/// How the run ends, as its journal has it.
async fn end_of(store: &Store, run_id: &RunId) -> RunOutcome {
    let mut events = store.read(&TenantId::default(), run_id, Seq::START).await.unwrap();
    loop {
        let recorded = events.next().await.expect("it goes on").unwrap();
        if let Event::RunFinished { outcome, .. } = &recorded.event {
            return outcome.clone();
        }
    }
}

/// C36: a process with a thread that is blocked for ten seconds ends by itself, although its other
/// threads go on, after it has named the run that is to blame. Another worker of the store goes on
/// with the other runs without blaming them.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_process_ends_and_the_rest_goes_on() {
    use std::os::unix::process::ExitStatusExt;

    if let Some((_, url)) = std::env::vars().find(|(name, _)| name == STORE_OF_BLOCKED) {
        return tokio::task::spawn_blocking(move || be_blocked(&url)).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("runs.db").display());
    let name = concat!(module_path!(), "::a_blocked_process_ends_and_the_rest_goes_on");
    let (_, name) = name.split_once("::").unwrap();
    let mut blocked = process::Command::new(std::env::current_exe().unwrap());
    blocked.args(["--exact", name]).env(STORE_OF_BLOCKED, &url).stdout(process::Stdio::null());
    let mut blocked = blocked.spawn().unwrap();
    let began = Instant::now();
    let ended = loop {
        if let Some(ended) = blocked.try_wait().unwrap() {
            break ended;
        }
        if began.elapsed() > PATIENCE {
            blocked.kill().unwrap();
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    };
    assert_eq!(ended.signal(), Some(6), "the process does not end by itself: {ended}");
    let ids: BTreeMap<String, RunId> =
        serde_json::from_slice(&fs::read(folder.path().join("ids")).unwrap()).unwrap();

    let store = Store::open(options(&url)).await.unwrap();
    let (tool, ..) = Blocking::new();
    let runs = worker(&store, Scripted::new([Turn::new().text("Done.")]).looping(), tool);
    runs.start_worker().await.unwrap();
    for (name, n_blamed) in [("beside", 0), ("blocking", 1)] {
        let end = tokio::time::timeout(PATIENCE, end_of(&store, &ids[name]));
        assert_eq!(end.await.expect(name), RunOutcome::Completed, "{name}");
        let path = folder.path().join("runs.db");
        let mut database = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        let sql = "select n_blamed from runs where id = $1";
        let found = sqlx::query_scalar::<_, i64>(sql).bind(ids[name].as_str());
        assert_eq!(found.fetch_one(&mut database).await.unwrap(), n_blamed, "{name}");
    }
}
