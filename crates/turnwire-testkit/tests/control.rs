//! Control over what runs, with a real MCP server behind it: one call of several is cancelled, a
//! thousand times, and a tool asks the person something in the middle of its work.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on should fall over; the figures are its result"
)]

#[expect(dead_code, reason = "shared with the other tests of our MCP client")]
mod mcp_world;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use turnwire_contract::{
    CallId, Event, Item, RecordedEvent, Reply, RunId, RunOutcome, RunRequest, Seq, ServerUse,
    TenantId, ToolOutcome,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::Scripted;
use turnwire_testkit::{invariants, mcp_server::LOG_VARIABLE};
use turnwire_tools::McpServerOptions;

use crate::mcp_world::{LABEL, Log, one, until, with_env};

const PROPS: &str = env!("CARGO_BIN_EXE_mcp-props");

/// How often one of three calls is cancelled.
const ROUNDS: usize = 1_000;
/// How many rounds go on side by side.
const AT_ONCE: usize = 20;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    runs: Runs,
    log: Log,
    _folder: TempDir,
}

impl World {
    fn new(arguments: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::in_folder(folder.path());
        let options = with_env(McpServerOptions::stdio(PROPS, arguments), LOG_VARIABLE, &log.0);
        let runs = Runs::new(EngineParts {
            any_model: Some(Arc::new(Scripted::by_prompt())),
            servers: Arc::new(one(options)),
            ..EngineParts::default()
        });
        Self { runs, log, _folder: folder }
    }
}

fn request(calls: Value) -> RunRequest {
    let script = json!({ "turns": [{ "calls": calls }, { "text": "done" }] });
    let mut request = RunRequest::new("any", vec![Item::user(script.to_string())]);
    request.servers = vec![ServerUse::all_of(LABEL)];
    request
}

fn outcomes(journal: &[Arc<RecordedEvent>]) -> HashMap<CallId, ToolOutcome> {
    let ended = journal.iter().filter_map(|recorded| match &recorded.event {
        Event::ToolFinished { call_id, outcome, .. } => Some((call_id.clone(), outcome.clone())),
        _ => None,
    });
    ended.collect()
}

/// One round: of three calls the first is cancelled as soon as it has started, or a little
/// later. Tells how long its end took.
async fn cancel_one_of_three(runs: &Runs, round: usize) -> Duration {
    let calls = json!([
        { "id": "call_stop", "name": "wait_for_cancel", "arguments": {} },
        { "id": "call_slow", "name": "slow", "arguments": { "seconds": 0.05, "steps": 2 } },
        { "id": "call_echo", "name": "echo", "arguments": { "text": "hi" } },
    ]);
    let run = runs.start(request(calls)).await.unwrap();
    let (tenant, stop) = (TenantId::default(), CallId::from("call_stop"));
    let mut events = run.events().await.unwrap();
    let (mut journal, mut cancelled_at, mut took) = (Vec::new(), None, None);
    while let Some(recorded) = events.next().await {
        let recorded = recorded.unwrap();
        match &recorded.event {
            Event::ToolStarted { call_id, .. } if *call_id == stop => {
                tokio::time::sleep(Duration::from_millis(round as u64 % 4 * 5)).await;
                cancelled_at = Some(Instant::now());
                assert!(runs.cancel_call(&tenant, run.id(), &stop).await.unwrap());
                let twice = runs.cancel_call(&tenant, run.id(), &stop).await;
                assert!(twice.is_ok());
            }
            Event::ToolFinished { call_id, .. } if *call_id == stop => {
                took = cancelled_at.map(|at| at.elapsed());
            }
            _ => {}
        }
        journal.push(recorded);
    }
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "round {round}: {wrong:#?}");
    let outcomes = outcomes(&journal);
    assert_eq!(outcomes[&stop], ToolOutcome::Cancelled, "round {round}");
    assert!(outcomes[&CallId::from("call_slow")].is_success(), "round {round}");
    assert!(outcomes[&CallId::from("call_echo")].is_success(), "round {round}");
    assert_eq!(run.outcome().await, RunOutcome::Completed, "round {round}");
    took.unwrap()
}

/// C14, design 1.6: one of three parallel tools is cancelled; it ends within a second, the two
/// beside it and the run go on, the server has seen every cancellation, and in a thousand rounds
/// no call is stuck or ends twice.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_is_cancelled_a_thousand_times() {
    let world = World::new(None);
    let began = Instant::now();
    let rounds = stream::iter(0..ROUNDS).map(|round| {
        let runs = world.runs.clone();
        async move {
            let round = timeout(PATIENCE, cancel_one_of_three(&runs, round));
            round.await.expect("a round is stuck")
        }
    });
    let mut took: Vec<Duration> = rounds.buffer_unordered(AT_ONCE).collect().await;
    took.sort_unstable();
    let (median, worst) = (took[ROUNDS / 2], took[ROUNDS - 1]);
    println!("{ROUNDS} cancels in {:?}: p50 {median:?}, worst {worst:?}", began.elapsed());
    assert!(worst < Duration::from_secs(1), "the slowest end took {worst:?}");
    // A call that was cancelled before it was sent never reached the server; of the last ones it
    // may write a moment later.
    let began = until(|| {
        let lines = world.log.lines();
        let of_waiting = |what: &str| {
            lines.iter().filter(|l| l["what"] == what && l["tool"] == "wait_for_cancel").count()
        };
        let began = of_waiting("began");
        (began == of_waiting("cancelled")).then_some(began)
    });
    let began = began.await;
    println!("{began} of them had reached the server, which saw every cancel");
    assert!(began > ROUNDS / 2, "most calls had begun: {began}");
}

async fn answered(world: &World, run_id: &RunId, reply: Option<Reply>) -> Vec<Arc<RecordedEvent>> {
    let tenant = TenantId::default();
    let mut events = world.runs.follow(&tenant, run_id, Seq::START).await.unwrap();
    let mut journal = Vec::new();
    while let Some(recorded) = events.next().await {
        let recorded = recorded.unwrap();
        if let (Event::InputRequested { call_id, message, schema, .. }, Some(reply)) =
            (&recorded.event, &reply)
        {
            assert_eq!(message, "Who are you?");
            assert_eq!(schema["properties"]["name"]["type"], "string");
            let taken = world.runs.reply(&tenant, run_id, call_id, None, reply.clone(), "test");
            taken.await.unwrap();
        }
        journal.push(recorded);
    }
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
    journal
}

/// C15: a server of either generation asks the person in the middle of a call, and is told what
/// the person said; where nobody can be asked it is told that, at once.
#[tokio::test]
async fn a_server_asks_the_person() {
    let Value::Object(content) = json!({ "name": "Ada" }) else { panic!() };
    let accepted = Reply::Accepted { content };
    let cases = [
        (true, Some(accepted), "hello, Ada"),
        (true, Some(Reply::Declined), "they said: decline"),
        (true, Some(Reply::Cancelled), "they said: cancel"),
        (false, None, "they said: decline"),
    ];
    for generation in [None, Some("--older")] {
        let world = World::new(generation);
        for (inputs, reply, expected) in cases.clone() {
            let asks = json!([{
                "id": "call_1", "name": "elicit", "arguments": {},
            }]);
            let request = RunRequest { inputs, ..request(asks) };
            let run = world.runs.start(request).await.unwrap();
            let journal = timeout(PATIENCE, answered(&world, run.id(), reply.clone())).await;
            let outcomes = outcomes(&journal.expect("the call is stuck"));
            let ToolOutcome::Succeeded { output } = &outcomes[&CallId::from("call_1")] else {
                panic!("{generation:?} {reply:?}: {outcomes:?}")
            };
            assert_eq!(output.text, expected, "{generation:?} {reply:?}");
        }
    }
}

/// A1: a question that does not say which call it is about is not asked while calls of several
/// runs share the connection: somebody might answer for somebody else.
#[tokio::test]
async fn nobody_answers_for_somebody_else() {
    let world = World::new(Some("--older"));
    let waiting = json!([{ "id": "call_w", "name": "wait_for_cancel", "arguments": {} }]);
    let other = world.runs.start(request(waiting)).await.unwrap();
    let mut events = other.events().await.unwrap();
    while !matches!(events.next().await.unwrap().unwrap().event, Event::ToolStarted { .. }) {}
    world.log.until("began").await;
    let asks = json!([{
        "id": "call_1", "name": "elicit", "arguments": {},
    }]);
    let run = world.runs.start(RunRequest { inputs: true, ..request(asks) }).await.unwrap();
    let journal = timeout(PATIENCE, answered(&world, run.id(), None)).await.unwrap();
    let outcomes = outcomes(&journal);
    let ToolOutcome::Succeeded { output } = &outcomes[&CallId::from("call_1")] else { panic!() };
    assert_eq!(output.text, "they said: decline");
    other.cancel();
    assert_eq!(other.outcome().await, RunOutcome::Cancelled);
}
