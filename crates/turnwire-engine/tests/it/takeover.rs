//! R20, R21: a run whose worker died is taken over. The journal of a whole run is cut after
//! every event, and each stump is carried to its end by another engine.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use turnwire_contract::{
    Effect, Event, Item, Journal, Model, NewRun, RecordedEvent, RunId, RunOutcome, RunRecords,
    RunRequest, Scope, Seq, ServerUse, TenantId, Timestamp, Tool, ToolContext, ToolError,
    ToolOutcome, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::{
    Access, AccessRules, ClockAndIds, EngineParts, MemoryJournal, MemoryRunStore, Runs,
    ServerAccess, StartError, Toolbox,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{FakeServers, FakeTool, TestBench, invariants};

use crate::{kinds, returns};

/// An engine that knows the first events of a run and has never worked on it.
pub(crate) async fn engine_with<T: Tool + Clone + 'static>(
    journal: &[Arc<RecordedEvent>],
    model: Scripted,
    props: &[T],
) -> Runs {
    let mut tools = Toolbox::default();
    for prop in props {
        tools.add(Arc::new(prop.clone())).unwrap();
    }
    let any_model: Option<Arc<dyn Model>> = Some(Arc::new(model));
    engine_of(journal, EngineParts { any_model, tools, ..EngineParts::default() }).await
}

/// The same, of these parts.
pub(crate) async fn engine_of(journal: &[Arc<RecordedEvent>], parts: EngineParts) -> Runs {
    let (log, store) = (MemoryJournal::default(), MemoryRunStore::default());
    let Event::RunQueued { request } = &journal[0].event else { panic!() };
    let (run_id, created_at) = (journal[0].run_id.clone(), journal[0].at);
    let request: Arc<RunRequest> = Arc::clone(request);
    store.create(NewRun::new(run_id, created_at, request)).await.unwrap();
    log.append(&TenantId::default(), journal.to_vec()).await.unwrap();
    Runs::new(EngineParts {
        journal: Arc::new(log),
        store: Arc::new(store),
        // Ids that count would begin again at 1, and meet those of the first engine.
        clock_and_ids: Arc::new(ClockAndIds::system()),
        ..parts
    })
}

/// Takes over after every possible crash, and returns each whole journal with what was called.
async fn after_every_crash(effect: Effect) -> Vec<(Vec<Arc<RecordedEvent>>, usize, FakeTool)> {
    let prop = || returns("t", "x").with(|spec| spec.effect = effect);
    let first = Turn::new().text("Let me see. ").call("t", serde_json::json!({ "n": 1 }));
    let last = Turn::new().text("done");
    let played = TestBench::new([first.clone(), last.clone()]).tool(prop()).play().await;
    let mut ended = Vec::new();
    for n_kept in 2..played.journal.len() {
        let kept = &played.journal[..n_kept];
        // The second model goes on where the journal shows that the first one had come to.
        let first_turn_over = kinds(kept).contains(&"turn_finished".to_owned());
        let script =
            if first_turn_over { vec![last.clone()] } else { vec![first.clone(), last.clone()] };
        let prop = prop();
        let model = Scripted::new(script);
        let runs = engine_with(kept, model.clone(), std::slice::from_ref(&prop)).await;
        let run = runs.take_over(&TenantId::default(), &kept[0].run_id).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed, "after {n_kept} events");
        for prompt in model.prompts() {
            let wrong = invariants::history_violations(&prompt);
            assert!(wrong.is_empty(), "after {n_kept} events: {wrong:#?}");
        }
        ended.push((run.journal().await.unwrap(), n_kept, prop));
    }
    ended
}

/// C2, C4, C6, R20: whatever the moment, the run ends well, in one lawful journal.
#[tokio::test(start_paused = true)]
async fn a_run_survives_its_worker_at_every_event() {
    for (journal, n_kept, _) in after_every_crash(Effect::Pure).await {
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "cut after {n_kept}: {wrong:#?}");
        assert_eq!(journal[n_kept].event, Event::taken_over(2), "cut after {n_kept}");
    }
}

/// R21: a pure tool is called again with the same key, as a retry: it has one start.
#[tokio::test(start_paused = true)]
async fn a_pure_tool_at_work_is_called_again() {
    let mut n_retried = 0;
    for (journal, n_kept, prop) in after_every_crash(Effect::Pure).await {
        if kinds(&journal[..n_kept]).last().unwrap() == "tool_started" {
            n_retried += 1;
            assert_eq!(prop.n_calls(), 1);
            assert_eq!(prop.calls()[0].1.idempotency_key, "run_1:call_1");
            assert!(kinds(&journal).contains(&"tool_retried".to_owned()));
        }
    }
    assert_eq!(n_retried, 1);
}

/// R21, C5: a tool that acts once is not called again, and its outcome is said to be unknown.
#[tokio::test(start_paused = true)]
async fn a_tool_that_acts_once_is_not_called_again() {
    let mut n_unknown = 0;
    for (journal, n_kept, prop) in after_every_crash(Effect::Once).await {
        if kinds(&journal[..n_kept]).last().unwrap() == "tool_started" {
            n_unknown += 1;
            assert_eq!(prop.n_calls(), 0);
            let unknown = journal.iter().any(|recorded| {
                matches!(
                    &recorded.event,
                    Event::ToolFinished { outcome: ToolOutcome::OutcomeUnknown { .. }, .. }
                )
            });
            assert!(unknown);
        }
    }
    assert_eq!(n_unknown, 1);
}

/// A tool that acts once, and works on under a name; it notes how it was called.
#[derive(Clone)]
struct Dispatcher {
    spec: ToolSpec,
    begun: Arc<Mutex<Vec<Option<String>>>>,
}

impl Dispatcher {
    fn new() -> Self {
        Self { spec: ToolSpec::new("t", "Works on."), begun: Arc::default() }
    }
}

#[async_trait]
impl Tool for Dispatcher {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        _request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.begun.lock().unwrap().push(context.begun_task().map(str::to_owned));
        if context.begun_task().is_none() {
            context.task_started("task-7").await;
        }
        context.progress(1.0, 1.0).await;
        Ok(ToolOutput::text("found"))
    }
}

/// R21: work that goes on under a name is asked for by that name, though the tool acts once;
/// before the name was known its outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_task_is_asked_for_and_not_begun_again() {
    let turns = [Turn::new().call("t", serde_json::json!({})), Turn::new().text("done")];
    let played = TestBench::new(turns.clone()).tool(Dispatcher::new()).play().await;
    let kinds_of_all = kinds(&played.journal);
    let at = |kind: &str| kinds_of_all.iter().position(|known| known == kind).unwrap();
    assert_eq!(at("tool_task_started"), at("tool_started") + 1);
    for n_kept in at("tool_started") + 1..=at("tool_finished") {
        let kept = &played.journal[..n_kept];
        let tool = Dispatcher::new();
        let model = Scripted::new([turns[1].clone()]);
        let runs = engine_with(kept, model, std::slice::from_ref(&tool)).await;
        let run = runs.take_over(&TenantId::default(), &kept[0].run_id).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        let journal = run.journal().await.unwrap();
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "cut after {n_kept}: {wrong:#?}");
        let ends = journal.iter().filter_map(|recorded| match &recorded.event {
            Event::ToolFinished { outcome, .. } => Some(outcome.is_success()),
            _ => None,
        });
        let is_known = kinds(kept).contains(&"tool_task_started".to_owned());
        assert_eq!(ends.collect::<Vec<_>>(), [is_known], "cut after {n_kept}");
        let called = tool.begun.lock().unwrap().clone();
        let expected = if is_known { vec![Some("task-7".to_owned())] } else { Vec::new() };
        assert_eq!(called, expected, "cut after {n_kept}");
        // And by whoever comes after that one.
        let again = journal
            .iter()
            .position(|recorded| matches!(recorded.event, Event::ToolRetried { attempt: 2, .. }));
        let Some(again) = again else { continue };
        let tool = Dispatcher::new();
        let model = Scripted::new([turns[1].clone()]);
        let runs = engine_with(&journal[..=again], model, std::slice::from_ref(&tool)).await;
        let run = runs.take_over(&TenantId::default(), &kept[0].run_id).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        assert_eq!(tool.begun.lock().unwrap().clone(), [Some("task-7".to_owned())]);
    }
}

/// R20: what a cut turn said is withdrawn and does not enter the history.
#[tokio::test(start_paused = true)]
async fn a_cut_turn_is_withdrawn() {
    for (journal, n_kept, _) in after_every_crash(Effect::Pure).await {
        if kinds(&journal[..n_kept]).last().unwrap() != "text_added" {
            continue;
        }
        let kinds = kinds(&journal);
        assert_eq!(
            kinds[n_kept..n_kept + 4],
            ["run_taken_over", "message_finished", "turn_abandoned", "turn_started"]
        );
        let superseded = turnwire_contract::Completeness::Superseded;
        assert!(matches!(&journal[n_kept + 1].event,
            Event::MessageFinished { completeness, .. } if *completeness == superseded));
        let Event::TurnStarted { turn } = journal[n_kept + 3].event else { panic!() };
        let Event::TurnAbandoned { turn: abandoned } = journal[n_kept + 2].event else { panic!() };
        assert_eq!(turn, abandoned, "a turn that is asked for again keeps its number");
    }
}

/// C7: a worker that died between the end of the journal and the storing of the conversation
/// leaves only that to be done.
#[tokio::test(start_paused = true)]
async fn what_was_not_put_away_is_put_away() {
    let played = TestBench::new([Turn::new().text("done")]).play().await;
    let runs = engine_with::<FakeTool>(&played.journal, Scripted::new([]), &[]).await;
    let (tenant, run_id) = (TenantId::default(), &played.journal[0].run_id);
    let taken = runs.take_over(&tenant, run_id).await;
    assert!(matches!(taken, Err(StartError::NotAbandoned(_))), "{taken:?}");
    let status = runs.find(&tenant, run_id).await.unwrap().status;
    let outcome = RunOutcome::Completed;
    assert_eq!(status, turnwire_contract::RunStatus::Finished { outcome });
}

/// A run that is over or in good hands is not taken over.
#[tokio::test(start_paused = true)]
async fn only_an_abandoned_run_is_taken_over() {
    let (runs, request) = TestBench::new([Turn::new().wait_forever()]).set_up();
    let run = runs.start(request).await.unwrap();
    let taken = runs.take_over(&TenantId::default(), run.id()).await;
    assert!(matches!(taken, Err(StartError::NotAbandoned(_))));
    run.cancel();
    run.outcome().await;
    let taken = runs.take_over(&TenantId::default(), run.id()).await;
    assert!(matches!(taken, Err(StartError::NotAbandoned(_))));
    let unknown = runs.take_over(&TenantId::from("other"), run.id()).await;
    assert!(matches!(unknown, Err(StartError::Store(_))));
}

/// A worker that takes a run over offers and calls what its caller may use, and nothing else: the
/// scopes come with the journal.
#[tokio::test(start_paused = true)]
async fn a_run_keeps_the_scopes_of_its_caller() {
    let needs = |name: &str| {
        let scopes: BTreeSet<Scope> = [name.parse().unwrap()].into();
        Access { tenants: None, scopes: Some(scopes) }
    };
    let delete = ("delete".to_owned(), needs("use:admin"));
    let server = ServerAccess { server: needs("use:crm"), tools: [delete].into() };
    let access =
        AccessRules { servers: [("crm".to_owned(), server)].into(), ..AccessRules::default() };
    let access = Arc::new(access);
    // A caller without the scope of the server: the run goes on without it.
    for (held, expected) in [
        (&[][..], &[][..]),
        (&["use:crm"], &["find"]),
        (&["use:crm", "use:admin"], &["find", "delete"]),
    ] {
        let servers =
            FakeServers::default().with("crm", [returns("find", "x"), returns("delete", "x")]);
        let model = Scripted::new([
            Turn::new().call("delete", serde_json::json!({})),
            Turn::new().text("done"),
        ]);
        let mut request = RunRequest::new("m", vec![Item::user("?")]);
        request.servers = vec![ServerUse::all_of("crm")];
        request.granted_scopes = held.iter().map(|name| name.parse().unwrap()).collect();
        let queued = Event::RunQueued { request: Arc::new(request) };
        let journal: Vec<_> = [queued, Event::RunStarted]
            .into_iter()
            .zip(1..)
            .map(|(event, seq)| {
                let (run_id, at) = (RunId::new("run_1"), Timestamp::from_micros(0));
                Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })
            })
            .collect();
        let runs = engine_of(
            &journal,
            EngineParts {
                any_model: Some(Arc::new(model.clone())),
                servers: Arc::new(servers),
                access: Arc::clone(&access),
                ..EngineParts::default()
            },
        )
        .await;
        let run = runs.take_over(&TenantId::default(), &journal[0].run_id).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        let prompts = model.prompts();
        let offered: Vec<_> = prompts[0].tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, expected);
        let journal = run.journal().await.unwrap();
        let was_called = kinds(&journal).contains(&"tool_started".to_owned());
        assert_eq!(was_called, expected.contains(&"delete"), "{journal:#?}");
    }
}
