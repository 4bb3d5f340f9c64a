//! C26, C27, C18: every class of error × every statement × once or permanently.
//!
//! Two nodes share a database. Five runs start on the first node, which dies; the second takes them
//! over. One of the runs is the victim: statements about it fail. For every fault, the other runs
//! complete normally, nothing is retried in a hot loop, and after the fault the victim can be
//! cancelled and deleted. Further tests use transient faults that affect all runs, and permanent
//! faults of one node.
//!
//! `TURNWIRE_FAULT=part of a statement` tests only the statements that contain it.

mod faulty_database;
mod poison;

use std::{collections::BTreeMap, panic::catch_unwind, path::Path, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};
use turnwire_contract::{
    ConversationId, Event, Item, Journal, Model, RecordedEvent, RunId, RunOutcome, RunRecords,
    RunRequest, Seq, StoreError, TenantId, Tool,
};
use turnwire_engine::{DeleteError, EngineParts, Runs, Toolbox};
use turnwire_models::Scripted;
use turnwire_testkit::{Behaviour, FakeTool, invariants};

use self::faulty_database::{Fault, Faults, FaultyDatabase, VICTIM};
use crate::{Store, StoreOptions, database::DatabaseError};

const LEASE: Duration = Duration::from_secs(2);
/// How long a run may take while another one fails: twice the time without faults, which is its
/// tool, a death, a lease, and the tool again.
const USUAL: Duration = Duration::from_millis(2 * 4_600);
/// How long the victim may take to end: ten takeovers with their backoff.
const LONG: Duration = Duration::from_mins(4);
/// A permanent fault.
const FOR_EVER: u32 = u32::MAX;

/// A node: an engine on a store.
struct Node {
    runs: Runs,
    store: Store,
    database: FaultyDatabase,
}

/// An engine with this tool, at work on a store over `database`.
async fn engine_on(database: &FaultyDatabase, tool: Arc<dyn Tool>) -> (Runs, Store) {
    let options = StoreOptions {
        lease: LEASE,
        compact_after: None,
        ..StoreOptions::at("sqlite://simulated")
    };
    let store = Store::over(Arc::new(database.clone()), None, options).await.unwrap();
    let mut tools = Toolbox::default();
    tools.add(tool).unwrap();
    let kept = Arc::new(store.clone());
    let runs = Runs::new(EngineParts {
        journal: kept.clone(),
        store: kept.clone(),
        blobs: kept.clone(),
        workers: kept,
        any_model: Some(Arc::new(Scripted::by_prompt()) as Arc<dyn Model>),
        tools,
        ..EngineParts::default()
    });
    runs.start_worker().await.unwrap();
    (runs, store)
}

impl Node {
    async fn start(database: FaultyDatabase) -> Self {
        let big = "a lot of it ".repeat(2_000);
        let work = FakeTool::new("work", Behaviour::Takes(Duration::from_secs(3), big));
        let (runs, store) = engine_on(&database, Arc::new(work)).await;
        Self { runs, store, database }
    }

    async fn ask(&self, request: RunRequest) -> Option<RunId> {
        Some(self.runs.start(request).await.ok()?.id().clone())
    }
}

/// A run with a tool whose result is too large for the journal, and a request that is stored as a
/// list.
fn request(tenant: &str, conversation: Option<&str>) -> RunRequest {
    let call = json!({ "name": "work", "arguments": {} });
    let script = json!({ "turns": [{ "calls": [call] }, { "text": ["do", "ne"] }] }).to_string();
    let before = Item::assistant("what was said before ".repeat(300));
    let mut request = RunRequest::new("any", vec![before, Item::user(script)]);
    request.tenant = TenantId::from(tenant);
    request.conversation_id = conversation.map(ConversationId::from);
    let mut work = FakeTool::new("work", Behaviour::Panics).spec().clone();
    work.timeout = None;
    request.tools = vec![Arc::new(work)];
    request.limits.output_in_journal = 10_000;
    request
}

struct World {
    a: Node,
    b: Node,
    faults: Arc<Faults>,
    _folder: TempDir,
}

/// The runs, and their readers on the second node.
struct Begun {
    victim: Option<RunId>,
    others: Vec<RunId>,
}

fn victim() -> TenantId {
    TenantId::from(VICTIM)
}

fn others() -> TenantId {
    TenantId::from("others")
}

impl World {
    async fn new() -> Self {
        // On a RAM disk if there is one: these tests do not depend on the disk.
        let shared_memory = Path::new("/dev/shm");
        let folder = if shared_memory.is_dir() {
            tempfile::tempdir_in(shared_memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let database = FaultyDatabase::open(&folder.path().join("runs.db"));
        let faults = Arc::clone(&database.faults);
        let a = Node::start(database.of_node("a")).await;
        let b = Node::start(database.of_node("b")).await;
        Self { a, b, faults, _folder: folder }
    }

    /// Starts all runs on the first node.
    async fn begin(&self) -> Begun {
        let requests = [None, Some("conv_1"), None, Some("conv_2")];
        let requests = requests.map(|conversation| self.a.ask(request("others", conversation)));
        let (victim, others) =
            futures::join!(self.a.ask(request(VICTIM, Some("conv_0"))), join_all(requests));
        Begun { victim, others: others.into_iter().flatten().collect() }
    }

    /// Reads the run to its end on the second node.
    async fn end_of(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        within: Duration,
    ) -> Option<Vec<Arc<RecordedEvent>>> {
        let read = async {
            loop {
                // A stream may end with an error after a failed read; the reader reconnects.
                let events = self.b.runs.follow(tenant, run_id, Seq::START).await;
                let Ok(mut events) = events else {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    continue;
                };
                let mut journal = Vec::new();
                while let Some(Ok(recorded)) = events.next().await {
                    journal.push(recorded);
                }
                if journal.last().is_some_and(|last| last.event.ends_the_run()) {
                    return journal;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(within, read).await.ok()
    }

    /// Asserts that all other runs complete with valid journals.
    async fn others_complete(&self, others_begun: &[RunId], within: Duration, what: &str) {
        let tenant = others();
        let ends = others_begun.iter().map(|run_id| self.end_of(&tenant, run_id, within));
        for (n, journal) in join_all(ends).await.into_iter().enumerate() {
            let journal = journal.unwrap_or_else(|| panic!("{what}: run {n} did not end in time"));
            let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
            assert!(wrong.is_empty(), "{what}: run {n}: {wrong:#?}");
            let last = journal.last().map(|last| &last.event);
            let Some(Event::RunFinished { outcome, .. }) = last else { panic!("{what}: {last:?}") };
            assert_eq!(*outcome, RunOutcome::Completed, "{what}: run {n}");
        }
    }

    /// Asserts that, without faults, the victim can be cancelled and deleted.
    async fn victim_can_be_removed(&self, run_id: &RunId, what: &str) {
        let (runs, tenant) = (&self.b.runs, victim());
        let removed = async {
            loop {
                match runs.delete(&tenant, run_id).await {
                    Ok(()) | Err(DeleteError::Store(StoreError::NotFound(_))) => return,
                    Err(_) => {
                        let _ = runs.cancel(&tenant, run_id).await;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        };
        let removed = timeout(Duration::from_mins(5), removed).await;
        assert!(removed.is_ok(), "{what}: the victim cannot be cancelled and deleted");
        let found = self.b.store.find(&tenant, run_id).await;
        assert!(matches!(found, Err(StoreError::NotFound(_))), "{what}: {found:?}");
        let read = self.b.store.read_stored(&tenant, run_id, Seq::START).await;
        assert!(read.is_err(), "{what}: {read:?}");
    }

    /// Asserts that nothing is retried in a hot loop: at most once a second after the first few
    /// attempts.
    fn tries_are_bounded(&self, began: Instant, what: &str) {
        let hits = self.faults.hits();
        let seconds = began.elapsed().as_secs();
        let most = 120 + usize::try_from(seconds).unwrap();
        assert!(hits.len() <= most, "{what}: {} tries in {seconds} s", hits.len());
    }
}

/// A fault that affects only the victim.
async fn for_one_run(fault: Fault, what: &str) {
    let (world, since) = (World::new().await, Instant::now());
    world.faults.set(Some(fault));
    let begun = world.begin().await;
    assert_eq!(begun.others.len(), 4, "{what}: the others begin");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.a.database.die();
    world.others_complete(&begun.others, USUAL, what).await;
    let Some(run_id) = begun.victim else { return };
    world.end_of(&victim(), &run_id, LONG).await;
    let _ = world.b.runs.delete(&victim(), &run_id).await;
    world.tries_are_bounded(since, what);
    world.faults.set(None);
    world.victim_can_be_removed(&run_id, what).await;
}

/// A transient fault that affects all runs.
async fn for_everybody(fault: Fault, what: &str) {
    let world = World::new().await;
    // A failed start is reported to its client. Only started runs are checked here.
    let begun = world.begin().await;
    world.faults.set(Some(fault));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.a.database.die();
    let backoff = USUAL + Duration::from_mins(2);
    world.others_complete(&begun.others, backoff, what).await;
    let run_id = begun.victim.unwrap();
    assert!(world.end_of(&victim(), &run_id, backoff).await.is_some(), "{what}: no end");
}

/// A permanent fault of one statement on one node.
async fn for_one_node(fault: Fault, what: &str) {
    let world = World::new().await;
    let begun = world.begin().await;
    world.faults.set(Some(fault));
    let backoff = USUAL + Duration::from_mins(5);
    world.others_complete(&begun.others, backoff, what).await;
}

/// Which faults to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    OneRun,
    Everybody,
    OneNode,
}

/// Every statement that five runs and a takeover need, and whether it names a run.
async fn statements() -> BTreeMap<String, bool> {
    let world = World::new().await;
    let begun = world.begin().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.a.database.die();
    world.others_complete(&begun.others, USUAL, "nothing").await;
    let run_id = begun.victim.unwrap();
    world.end_of(&victim(), &run_id, USUAL).await.unwrap();
    let second = world.b.ask(request(VICTIM, Some("conv_0"))).await.unwrap();
    world.b.runs.cancel(&victim(), &second).await.unwrap();
    world.victim_can_be_removed(&run_id, "nothing").await;
    world.faults.statements()
}

fn in_simulated_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// The metric of the store says that it is away, without any run or probe that would fail.
#[test]
fn a_worker_without_work_notices_that_its_database_is_away() {
    in_simulated_time(async {
        let world = World::new().await;
        let is_available = || world.b.store.statistics().unwrap().is_available;
        tokio::time::sleep(LEASE * 2).await;
        assert!(is_available());
        let statements = world.faults.statements();
        let statement = statements.into_keys().find(|name| name.contains("into workers")).unwrap();
        let error = DatabaseError::Unavailable("as the test wants it".to_owned());
        let (times, only_for_victim, node) = (FOR_EVER, false, Some("b"));
        world.faults.set(Some(Fault {
            statement,
            error,
            is_done: false,
            times,
            only_for_victim,
            node,
        }));
        tokio::time::sleep(LEASE * 2).await;
        assert!(!is_available(), "its heartbeats fail");
        world.faults.set(None);
        tokio::time::sleep(LEASE).await;
        assert!(is_available(), "they succeed again");
    });
}

/// Tries one class of error with every statement.
fn harms_nobody_else(class: &str, error: &DatabaseError, is_done: bool) {
    #[expect(clippy::disallowed_methods, reason = "for whoever looks into one statement")]
    let wanted = std::env::var("TURNWIRE_FAULT").unwrap_or_default();
    let statements = in_simulated_time(statements());
    assert!(statements.len() > 25, "{statements:#?}");
    let mut cases = Vec::new();
    for (statement, is_named) in statements.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let mut add = |extent, times| {
            let what = format!("{extent:?}, {class}, {times} times: {statement}");
            let only_for_victim = extent == Extent::OneRun;
            let node = (extent == Extent::OneNode).then_some("a");
            let (statement, error) = (statement.clone(), error.clone());
            let fault = Fault { statement, error, is_done, times, only_for_victim, node };
            cases.push((extent, fault, what));
        };
        if is_named {
            add(Extent::OneRun, 1);
            add(Extent::OneRun, FOR_EVER);
        }
        if error.is_transient() {
            add(Extent::Everybody, 7);
        }
        // A node whose responses are always lost has no network. And a blob that cannot be
        // stored is retried, not dropped.
        if error.is_transient() && !is_done && !statement.contains("into blobs") {
            add(Extent::OneNode, FOR_EVER);
        }
    }
    let n_cases = cases.len();
    assert!(!wanted.is_empty() || n_cases > 60, "{n_cases} is not every fault");
    let mut failed = Vec::new();
    for (extent, fault, what) in cases {
        let tried = catch_unwind(|| {
            in_simulated_time(async {
                match extent {
                    Extent::OneRun => for_one_run(fault, &what).await,
                    Extent::Everybody => for_everybody(fault, &what).await,
                    Extent::OneNode => for_one_node(fault, &what).await,
                }
            });
        });
        if tried.is_err() {
            failed.push(what);
        }
    }
    assert!(failed.is_empty(), "{} of {n_cases}: {failed:#?}", failed.len());
}

/// A test for each class of error, and whether the statement is executed all the same.
mod every_error_of_every_statement_harms_nobody_else {
    use super::{DatabaseError, harms_nobody_else};

    fn text() -> String {
        "as the test wants it".to_owned()
    }

    #[test]
    fn away() {
        harms_nobody_else("away", &DatabaseError::Unavailable(text()), false);
    }

    #[test]
    fn away_but_done() {
        harms_nobody_else("away, but done", &DatabaseError::Unavailable(text()), true);
    }

    #[test]
    fn too_slow() {
        harms_nobody_else("too slow", &DatabaseError::TooSlow(text()), false);
    }

    #[test]
    fn too_slow_but_done() {
        harms_nobody_else("too slow, but done", &DatabaseError::TooSlow(text()), true);
    }

    #[test]
    fn taken() {
        harms_nobody_else("taken", &DatabaseError::UniqueViolation(text()), false);
    }

    #[test]
    fn refused() {
        harms_nobody_else("refused", &DatabaseError::InvalidValue(text()), false);
    }

    #[test]
    fn broken() {
        harms_nobody_else("broken", &DatabaseError::Failed(text()), false);
    }
}
