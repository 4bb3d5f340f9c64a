//! C5, C6, C7, C9, R20, R21: a process may die just before or just after any interaction with
//! its store, its model or a tool. Each of these points of every shape of run is tried, on a
//! real SQLite file, and the next process brings the run to a lawful end.
//!
//! `TURNWIRE_CRASH_SHAPE` runs the points of one shape only.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fall over; the count is its result"
)]

mod fuse;
mod shapes;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use turnwire_contract::{
    Completeness, Effect, Entries, Entry, Event, IdempotencyKey, Item, Journal, Model,
    RecordedEvent, RunId, RunOutcome, RunRecords, RunRequest, RunStatus, Seq, TenantId, Tool,
    ToolOutcome,
};
use turnwire_engine::{EngineParts, Runs, StartOptions, Toolbox};
use turnwire_models::Scripted;
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::{Forwarding, invariants};

use crate::{
    fuse::{Fuse, Fused},
    shapes::{Shape, shapes},
};

/// Short, because every crash waits for it.
const LEASE: Duration = Duration::from_millis(150);
/// How long the run may take after the crash, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many crashes are tried side by side: they mostly wait.
const AT_ONCE: usize = 12;
/// How often a point is tried to be reached: on a slow disk two events that were appended one
/// after the other may go into one append, and there is one point less on the way.
const TRIES: usize = 4;

#[test]
fn every_crash_point_of_every_shape_recovers() {
    #[expect(clippy::disallowed_methods, reason = "for whoever looks into one shape")]
    let wanted = std::env::var("TURNWIRE_CRASH_SHAPE").ok();
    let mut points: Vec<(Shape, String)> = Vec::new();
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for shape in shapes() {
        if wanted.as_deref().is_some_and(|wanted| wanted != shape.name) {
            continue;
        }
        let reached = reference(&shape);
        assert!(reached.len() > 5, "{}: {reached:?}", shape.name);
        points.extend(reached.iter().map(|point| (shape.clone(), point.clone())));
        expected.insert(shape.name, reached.into_iter().collect());
    }
    let n_points = points.len();
    let (waiting, exercised) = (Mutex::new(points), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((shape, point)) = { waiting.lock().unwrap().pop() } {
                    crash_at(shape.name, &point);
                    let mut exercised = exercised.lock().unwrap();
                    let points: &mut BTreeSet<String> = exercised.entry(shape.name).or_default();
                    points.insert(point);
                }
            });
        }
    });
    assert_eq!(exercised.into_inner().unwrap(), expected, "every point is exercised");
    println!("{n_points} crash points of {} shapes recovered", expected.len());
}

/// The points that a run passes when nothing goes wrong.
fn reference(shape: &Shape) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let fuse = Fuse::new(None);
    let run_id = in_a_process(async {
        let process = Process::start(folder.path(), shape, &fuse).await;
        let run_id = process.ask(shape).await;
        process.follow(shape, &run_id).await;
        process.check(shape, &run_id).await;
        run_id
    });
    assert!(run_id.is_some());
    fuse.reached()
}

/// One process dies at `point`; the next one has to make the best of what it finds.
fn crash_at(name: &str, point: &str) {
    for _ in 0..TRIES {
        // A world of its own: tools remember who called them.
        let shape = shapes().into_iter().find(|known| known.name == name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        if dies_at(&shape, point, folder.path()) {
            recovers(&shape, folder.path())
                .unwrap_or_else(|| panic!("{name}: {point}: the run did not end"));
            return;
        }
    }
    panic!("{name}: {point} was not reached in {TRIES} tries");
}

/// Whether the process came to `point`, and died there.
fn dies_at(shape: &Shape, point: &str, folder: &Path) -> bool {
    let fuse = Fuse::new(Some(point.to_owned()));
    let died = in_a_process(async {
        let work = async {
            let process = Process::start(folder, shape, &fuse).await;
            let run_id = process.ask(shape).await;
            process.follow(shape, &run_id).await;
            // The very last points come after the end that everybody can see.
            tokio::time::sleep(PATIENCE / 3).await;
        };
        tokio::select! {
            biased;
            () = fuse.burnt() => true,
            () = work => false,
        }
    });
    died.unwrap_or_else(|| panic!("{}: no end on the way to {point}: {fuse:?}", shape.name))
}

/// A second process finds what the first has left, and the run comes to a lawful end.
fn recovers(shape: &Shape, folder: &Path) -> Option<()> {
    in_a_process(async {
        let process = Process::start(folder, shape, &Fuse::new(None)).await;
        // A client that got no answer asks again with the same key; one that did finds its run.
        let run_id = process.ask(shape).await;
        process.follow(shape, &run_id).await;
        process.check(shape, &run_id).await;
    })
}

/// Runs `work` in a runtime of its own, and ends everything in it as the end of a process would.
fn in_a_process<T>(work: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE * 2, work).await });
    runtime.shutdown_background();
    done.ok()
}

/// A gateway's inside: an engine on a file.
struct Process {
    runs: Runs,
    store: Store,
}

fn tenant() -> TenantId {
    TenantId::from("tenant")
}

impl Process {
    async fn start(folder: &Path, shape: &Shape, fuse: &Arc<Fuse>) -> Self {
        let url = format!("sqlite://{}", folder.join("runs.db").display());
        let options = StoreOptions { lease: LEASE, ..StoreOptions::at(url) };
        let store = Store::open(options).await.unwrap();
        if shape.continues {
            predecessor(&store).await;
        }
        let kept = Forwarding { store: Arc::new(store.clone()), watcher: Arc::clone(fuse) };
        let mut tools = Toolbox::default();
        for prop in &shape.tools {
            let tool = Fused { inner: prop.clone(), fuse: Arc::clone(fuse) };
            tools.add(Arc::new(tool)).unwrap();
        }
        let model = Fused { inner: Scripted::by_prompt(), fuse: Arc::clone(fuse) };
        let runs = Runs::new(EngineParts {
            journal: Arc::new(kept.clone()),
            store: Arc::new(kept.clone()),
            blobs: Arc::new(kept),
            workers: Arc::new(store.clone()),
            any_model: Some(Arc::new(model) as Arc<dyn Model>),
            tools,
            servers: Arc::new(shape.servers.clone()),
            ..EngineParts::default()
        });
        runs.start_worker().await.unwrap();
        Self { runs, store }
    }

    /// Asks for the run, as a client would that may have asked before.
    async fn ask(&self, shape: &Shape) -> RunId {
        let mut request = shape.request.clone();
        request.tenant = tenant();
        request.continues = shape.continues.then(|| RunId::from("run_before"));
        let key = IdempotencyKey {
            endpoint: "/test".to_owned(),
            key: "the only one".to_owned(),
            fingerprint: shape.name.to_owned(),
        };
        loop {
            let start =
                StartOptions { idempotency_key: Some(key.clone()), ..StartOptions::default() };
            match self.runs.start_with(request.clone(), start).await {
                Ok(handle) => return handle.id().clone(),
                // The run of the first process is there, and has no journal yet.
                Err(error) => println!("{}: asks again: {error}", shape.name),
            }
        }
    }

    /// Reads to the end, and answers for the person who is asked.
    async fn follow(&self, shape: &Shape, run_id: &RunId) {
        let mut events = self.runs.follow(&tenant(), run_id, Seq::START).await.unwrap();
        while let Some(recorded) = events.next().await {
            if let Event::ApprovalRequested { call_id, .. } = &recorded.unwrap().event {
                let decision = shape.decision.clone();
                self.runs.resolve(&tenant(), run_id, call_id, decision).await.unwrap();
            }
        }
    }

    async fn check(&self, shape: &Shape, run_id: &RunId) {
        let what = shape.name;
        let journal = self.store.read_stored(&tenant(), run_id, Seq::START).await.unwrap();
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "{what}: {wrong:#?}");
        let listed = self.store.list(&tenant(), 10).await.unwrap();
        let ours: Vec<_> =
            listed.iter().filter(|run| run.run_id.as_str() != "run_before").collect();
        assert_eq!(ours.len(), 1, "C9: {what}: {ours:?}");
        let Some(Event::RunFinished { outcome, .. }) = journal.last().map(|last| &last.event)
        else {
            panic!("{what}: no end")
        };
        assert_eq!(*outcome, RunOutcome::Completed, "{what}");
        let status = RunStatus::Finished { outcome: outcome.clone() };
        assert_eq!(ours[0].status, status, "C3: {what}");
        check_effects(shape, &journal);
        let context = self.store.context(&tenant(), run_id).await.unwrap();
        check_history(shape, &context);
        if let Some(id) = &shape.request.conversation_id {
            let history = self.store.history(&tenant(), id).await.unwrap();
            assert_eq!(history, context, "C7: {what}");
        }
        check_nothing_superseded(&journal, &context);
    }
}

/// A finished run, made by hand once.
async fn predecessor(store: &Store) {
    let run_id = RunId::from("run_before");
    if store.find(&tenant(), &run_id).await.is_ok() {
        return;
    }
    let mut request = RunRequest::new("any", vec![Item::user("before")]);
    request.tenant = tenant();
    let created_at = turnwire_contract::Timestamp::from_micros(1);
    let request = Arc::new(request);
    let new = turnwire_contract::NewRun::new(run_id.clone(), created_at, request);
    store.create(new).await.unwrap();
    let entry = Entry::new("msg_before", Item::assistant("hello"));
    store.finish(&run_id, RunOutcome::Completed, vec![entry]).await.unwrap();
}

/// C5: what acts once acts at most once, what may be repeated has acted if it says so, and an
/// unknown outcome is told.
fn check_effects(shape: &Shape, journal: &[Arc<RecordedEvent>]) {
    for prop in shape.tools.iter().filter(|prop| prop.spec().effect == Effect::Once) {
        assert!(prop.n_calls() <= 1, "C5: {}: called {} times", shape.name, prop.n_calls());
    }
    for prop in &shape.tools {
        let keys: HashSet<_> =
            prop.calls().into_iter().map(|(_, request)| request.idempotency_key).collect();
        assert!(keys.len() <= 1, "C5: {}: one call, several keys: {keys:?}", shape.name);
    }
    let started = |name: &str, call_id| {
        journal.iter().any(|recorded| {
            matches!(&recorded.event, Event::CallAnnounced { call_id: known, tool, .. }
                if known == call_id && tool.name == name)
        })
    };
    for recorded in journal {
        let Event::ToolFinished { call_id, outcome, .. } = &recorded.event else { continue };
        for prop in shape.tools.iter().filter(|prop| started(&prop.spec().name, call_id)) {
            match outcome {
                ToolOutcome::Succeeded { .. } => assert!(prop.n_calls() > 0, "{}", shape.name),
                ToolOutcome::OutcomeUnknown { .. } => {
                    assert_eq!(prop.spec().effect, Effect::Once, "{}", shape.name);
                }
                _ => {}
            }
        }
    }
}

/// C7: a turn is in the history with everything that belongs to it, once.
fn check_history(shape: &Shape, context: &[Entry]) {
    let names: HashSet<_> = context.iter().map(|entry| &entry.id).collect();
    assert_eq!(names.len(), context.len(), "C7: {}: an entry twice: {context:#?}", shape.name);
    let questions = context.iter().filter(|entry| {
        matches!(&*entry.item, Item::Message { role, .. }
        if *role == turnwire_contract::Role::User)
    });
    assert_eq!(questions.count(), 1, "C7: {}: {context:#?}", shape.name);
    let answer = context.iter().rev().find_map(|entry| match &*entry.item {
        Item::Message { content, .. } => match content.first() {
            Some(turnwire_contract::Content::Text { text }) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    });
    if !shape.answer.is_empty() {
        assert_eq!(answer.as_deref(), Some(shape.answer), "C7: {}: {context:#?}", shape.name);
        let open = |item: &Item| match item {
            Item::Call { call_id, .. } => !context.iter().any(|entry| {
                matches!(&*entry.item, Item::CallResult { call_id: answered, .. }
                    if answered == call_id)
            }),
            _ => false,
        };
        let open = context.iter().filter(|entry| open(&entry.item)).count();
        assert_eq!(open, 0, "C7: {}: a call without its result: {context:#?}", shape.name);
    }
}

/// C6, R20: what was withdrawn is not in the history.
fn check_nothing_superseded(journal: &[Arc<RecordedEvent>], context: &[Entry]) {
    for recorded in journal {
        if let Event::MessageFinished { item_id, completeness: Completeness::Superseded, .. } =
            &recorded.event
        {
            assert!(context.iter().all(|entry| entry.id != *item_id), "C6: {item_id}");
        }
    }
}
