//! C26, C27: a run that is broken for good, or that this worker cannot carry out, on real
//! databases and with engines at either end.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use tokio::time::timeout;
use turnwire_contract::{
    Commands, Completeness, Event, Failure, Item, Journal, JournalError, Leases, Model,
    RecordedEvent, RunCommand, RunId, RunOutcome, RunRecords, RunRequest, Seq, StoreError,
    TenantId, Timestamp, ToolOutcome,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::support::{Backend, run, tenant};

/// How long a worker's runs stay its own.
const LEASE: Duration = Duration::from_secs(1);

/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// An engine on `store` with models by these names.
fn engine(store: &Store, models: &[(&str, Scripted)], tools: Toolbox) -> Runs {
    let kept = Arc::new(store.clone());
    let models: BTreeMap<String, Arc<dyn Model>> = models
        .iter()
        .map(|(name, model)| ((*name).to_owned(), Arc::new(model.clone()) as Arc<dyn Model>))
        .collect();
    Runs::new(EngineParts {
        models,
        tools,
        journal: kept.clone(),
        store: kept.clone(),
        blobs: kept.clone(),
        workers: kept,
        ..EngineParts::default()
    })
}

fn quick() -> Scripted {
    Scripted::new([Turn::new().text("Done.")])
}

/// A model that never comes to an end, for two runs.
fn slow() -> Scripted {
    Scripted::new([(); 2].map(|()| Turn::new().text("Let me ").wait_forever()))
}

/// Reads on until `is_it`, and returns that event.
async fn until(
    store: &Store,
    run_id: &RunId,
    is_it: impl Fn(&Event) -> bool,
) -> Arc<RecordedEvent> {
    let mut events = store.read(&TenantId::default(), run_id, Seq::START).await.unwrap();
    let read = async {
        loop {
            let recorded = events.next().await.expect("it goes on").unwrap();
            if is_it(&recorded.event) {
                return recorded;
            }
        }
    };
    timeout(SOON, read).await.expect("it comes")
}

async fn outcome_of(store: &Store, run_id: &RunId) -> RunOutcome {
    let end = until(store, run_id, Event::ends_the_run).await;
    let Event::RunFinished { outcome, .. } = &end.event else { unreachable!() };
    outcome.clone()
}

/// A row that the versions before could write: deeper than any reader of JSON goes along.
fn too_deep() -> String {
    format!(
        "[[1,{{\"type\":\"turn_started\",\"turn\":1,\"deep\":{}{}}}]]",
        "[".repeat(130),
        "]".repeat(130)
    )
}

/// C27: an event that cannot be read harms its own run alone. The reader of another node reads
/// past it, as does the reader beside it; a worker that takes the run over ends it with a stable
/// code, once; and it can be deleted.
#[tokio::test]
async fn a_row_that_cannot_be_read_ends_its_run_and_no_other() {
    for backend in Backend::both() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        // It beats once and never again.
        first.heartbeat().await.unwrap();
        let left = engine(&first, &[("m", slow())], Toolbox::default());
        let mut begun = Vec::new();
        for _ in 0..2 {
            let request = RunRequest::new("m", vec![Item::user("?")]);
            begun.push(left.start(request).await.unwrap().id().clone());
        }
        let [broken, healthy] = <[RunId; 2]>::try_from(begun).unwrap();
        for run_id in [&broken, &healthy] {
            until(&first, run_id, |event| matches!(event, Event::TextAdded { .. })).await;
        }
        let deep = too_deep();
        let sql = format!(
            "update run_events set body = '{deep}' where run_id = '{broken}' and first_seq =
                 (select min(first_seq) from run_events
                  where run_id = '{broken}' and first_seq > 2) returning run_id"
        );
        assert_eq!(backend.ask(&sql).await.len(), 1);

        let next = engine(&second, &[("m", quick())], Toolbox::default());
        next.start_worker().await.unwrap();
        assert_eq!(outcome_of(&second, &healthy).await, RunOutcome::Completed, "{}", backend.url);
        let ended = RunOutcome::Failed { failure: Failure::journal_unreadable() };
        assert_eq!(outcome_of(&second, &broken).await, ended, "{}", backend.url);
        assert_eq!(outcome_of(&first, &broken).await, ended, "{}", backend.url);
        let journal = second.read_stored(&TenantId::default(), &broken, Seq::START).await.unwrap();
        let seqs: Vec<u64> = journal.iter().map(|recorded| recorded.seq.0).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        assert_eq!(journal.iter().filter(|recorded| recorded.event.is_unreadable()).count(), 1);
        let n_takeovers = journal
            .iter()
            .filter(|recorded| matches!(recorded.event, Event::RunTakenOver { .. }))
            .count();
        assert_eq!(n_takeovers, 1, "{}", backend.url);
        next.delete(&TenantId::default(), &broken).await.unwrap();
        let gone = next.find(&TenantId::default(), &broken).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    }
}

/// C27: a run whose request cannot be read is still listed, cancelled and deleted, and so are the
/// runs beside it.
#[tokio::test]
async fn a_request_that_cannot_be_read_hides_no_other_run() {
    for backend in Backend::both() {
        let store = backend.store().await;
        for id in ["run_1", "run_2"] {
            store.create(run(id, |_| {})).await.unwrap();
        }
        backend.ask("update runs set request = '[' where id = 'run_1' returning id").await;
        let listed = store.list(&tenant(), 10).await.unwrap();
        assert_eq!(listed.len(), 2, "{listed:?}");
        store.find(&tenant(), &RunId::from("run_1")).await.unwrap();
        let outcome = RunOutcome::Cancelled;
        store.finish(&RunId::from("run_1"), outcome, Vec::new()).await.unwrap();
        RunRecords::delete(&store, &tenant(), &RunId::from("run_1")).await.unwrap();
        assert_eq!(store.list(&tenant(), 10).await.unwrap().len(), 1);
    }
}

/// C27: of the commands for a run, the one that a newer version has left keeps nobody from the
/// others.
#[tokio::test]
async fn a_command_of_a_newer_version_hides_no_other() {
    for backend in Backend::both() {
        let store = backend.store().await;
        store.heartbeat().await.unwrap();
        store.create(run("run_1", |_| {})).await.unwrap();
        let run_id = RunId::from("run_1");
        backend
            .ask(
                "insert into commands (run_id, tenant, command)
                 values ('run_1', 't', '{\"wish\":\"steer\",\"to\":\"the left\"}') returning run_id",
            )
            .await;
        store.enqueue(&tenant(), &run_id, RunCommand::Cancel).await.unwrap();
        let known = |left: Vec<turnwire_contract::PendingCommand>| -> Vec<RunCommand> {
            left.into_iter().map(|left| left.command).collect()
        };
        assert_eq!(
            known(store.pending_commands().await.unwrap()),
            [RunCommand::Cancel],
            "{}",
            backend.url
        );
        assert_eq!(known(store.pending_commands_for(&run_id).await.unwrap()), [RunCommand::Cancel]);
    }
}

/// A worker without the run's model, or where its name means another one, leaves the run to
/// others, and the run says what it lacks. A worker that has it goes on.
#[tokio::test]
async fn a_run_waits_for_a_worker_that_can_carry_it_out() {
    for backend in Backend::both() {
        let [first, second, third]: [Store; 3] =
            backend.stores_with(3, LEASE).await.try_into().unwrap();
        let (run_id, tools) = left_in_the_middle(&first).await;

        let without_model = engine(&second, &[("other", quick())], tools.clone());
        without_model.start_worker().await.unwrap();
        let stalled = stalled(&second, &run_id).await;
        assert_eq!(stalled, "model `m`", "{}", backend.url);
        let journal = second.read_stored(&TenantId::default(), &run_id, Seq::START).await.unwrap();
        let is_taken = |event: &Event| matches!(event, Event::RunTakenOver { .. });
        assert!(!journal.iter().any(|recorded| is_taken(&recorded.event)), "{}", backend.url);

        let whole = engine(&third, &[("m", quick())], tools);
        whole.start_worker().await.unwrap();
        assert_eq!(outcome_of(&third, &run_id).await, RunOutcome::Completed, "{}", backend.url);
        assert_eq!(find(&third, &run_id).await.stalled, None);
    }
}

/// A run that nobody can carry out can be cancelled, and it is said which tool it lacks.
#[tokio::test]
async fn a_run_that_nobody_can_carry_out_can_be_cancelled() {
    for backend in Backend::both() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        let (run_id, _) = left_in_the_middle(&first).await;
        let next = engine(&second, &[("m", quick())], Toolbox::default());
        next.start_worker().await.unwrap();
        assert_eq!(stalled(&second, &run_id).await, "tool `look`", "{}", backend.url);
        next.cancel(&TenantId::default(), &run_id).await.unwrap();
        assert_eq!(outcome_of(&second, &run_id).await, RunOutcome::Cancelled, "{}", backend.url);
    }
}

/// A run of model `m` with the tool `look`, in the middle of its answer, and its tools.
async fn left_in_the_middle(store: &Store) -> (RunId, Toolbox) {
    store.heartbeat().await.unwrap();
    let mut tools = Toolbox::default();
    tools.add(Arc::new(FakeTool::new("look", Behaviour::Returns("seen".to_owned())))).unwrap();
    let left = engine(store, &[("m", slow())], tools.clone());
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.tools = tools.specs();
    let run_id = left.start(request).await.unwrap().id().clone();
    until(store, &run_id, |event| matches!(event, Event::TextAdded { .. })).await;
    (run_id, tools)
}

async fn find(store: &Store, run_id: &RunId) -> turnwire_contract::RunRecord {
    RunRecords::find(store, &TenantId::default(), run_id).await.unwrap()
}

/// What the run lacks, once somebody has found out.
async fn stalled(store: &Store, run_id: &RunId) -> String {
    let found = async {
        loop {
            if let Some(reason) = find(store, run_id).await.stalled {
                return reason;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, found).await.expect("somebody declines it")
}

fn recorded(run_id: &RunId, seq: u64, event: Event) -> Arc<RecordedEvent> {
    let at = Timestamp::from_micros(1);
    Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event })
}

/// C27: an append that the database does not finish in time (57014) holds up no other run, is
/// rejected in the end, and its run can go on with something smaller.
#[tokio::test]
async fn an_append_that_takes_too_long_holds_up_nobody() {
    let backend = Backend::postgres();
    let url = format!("{}?options=-c%20statement_timeout%3D150ms", backend.url);
    let store = Backend::at(url).store().await;
    let (heavy, light) = (RunId::from("run_heavy"), RunId::from("run_light"));
    for run_id in [&heavy, &light] {
        let begun = vec![recorded(run_id, 1, Event::RunStarted)];
        store.append(&tenant(), begun).await.unwrap();
    }
    let text = "a word too many ".repeat(6 * 1024 * 1024);
    let (item_id, refusal) = ("msg_1".into(), String::new());
    let finished =
        Event::MessageFinished { item_id, text, refusal, completeness: Completeness::Complete };
    let ours = tenant();
    let heavy_append = store.append(&ours, vec![recorded(&heavy, 2, finished)]);
    let light_appends = async {
        for seq in 2..200 {
            let event = Event::TurnStarted { turn: 1 };
            store.append(&tenant(), vec![recorded(&light, seq, event)]).await.unwrap();
        }
        store.probe().await.unwrap();
    };
    let (rejected, ()) = tokio::join!(heavy_append, async {
        timeout(SOON, light_appends).await.expect("nobody waits for the heavy one");
    });
    assert!(matches!(rejected, Err(JournalError::Rejected { .. })), "{rejected:?}");
    let end = Event::RunFinished {
        outcome: RunOutcome::Cancelled,
        usage: turnwire_contract::Usage::default(),
    };
    store.append(&tenant(), vec![recorded(&heavy, 2, end)]).await.unwrap();
}

/// C26: what cannot be read again is rejected before it is written, and the run ends with a
/// stable code; what its tool did is told as far as it can be.
#[tokio::test]
async fn what_a_tool_nests_too_deeply_is_left_out_and_said() {
    for backend in Backend::both() {
        let store = backend.store().await;
        let mut tools = Toolbox::default();
        let deep = (0..125).fold(serde_json::json!(1), |inside, _| serde_json::json!([inside]));
        let tool = FakeTool::new("dig", Behaviour::ReturnsData(deep));
        tools.add(Arc::new(tool)).unwrap();
        let call = Turn::new().call("dig", serde_json::json!({}));
        let model = Scripted::new([call, Turn::new().text("Done.")]);
        let runs = engine(&store, &[("m", model)], tools.clone());
        runs.start_worker().await.unwrap();
        let mut request = RunRequest::new("m", vec![Item::user("?")]);
        request.tools = tools.specs();
        let run_id = runs.start(request).await.unwrap().id().clone();
        assert_eq!(outcome_of(&store, &run_id).await, RunOutcome::Completed, "{}", backend.url);
        let finished = until(&store, &run_id, |event| matches!(event, Event::ToolFinished { .. }));
        let finished = finished.await;
        let Event::ToolFinished { outcome: ToolOutcome::Succeeded { output }, .. } =
            &finished.event
        else {
            unreachable!("{finished:?}")
        };
        assert_eq!(output.structured, None);
        assert!(output.text.contains("nested too deeply"), "{}", output.text);
    }
}

/// C28: readiness is told by a write, also while others write.
#[tokio::test]
async fn a_store_that_can_be_written_to_says_so() {
    for backend in Backend::both() {
        let store = backend.store().await;
        let many = join_all((0..50).map(|_| store.probe())).await;
        assert!(many.iter().all(Result::is_ok), "{}", backend.url);
        store.close().await;
        assert!(store.probe().await.is_err(), "{}", backend.url);
    }
}
