//! Approvals beyond yes and no: other arguments, an end to the waiting, an answer for the whole
//! conversation, and what the operator wants asked.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::json;
use turnwire_contract::{
    ApprovalAnswer, CallId, ConversationId, Decision, Effect, Event, Journal, NewRun, RunOutcome,
    RunRecords, RunRequest, TenantId, ToolOutcome,
};
use turnwire_engine::{
    AnswerError, AnswerOutcome, ApprovalPolicy, ClockAndIds, EngineParts, MemoryJournal,
    MemoryRunStore, Runs, Toolbox,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Act, Behaviour, FakeTool, Played, TestBench, invariants};

use crate::{calls, outcome_of, returns, told};

fn guarded(name: &str) -> FakeTool {
    returns(name, "done").with(|spec| spec.needs_approval = true)
}

fn yes() -> ApprovalAnswer {
    Decision::Approved.into()
}

fn asked(event: &Event) -> Option<CallId> {
    match event {
        Event::ApprovalRequested { call_id, .. } => Some(call_id.clone()),
        _ => None,
    }
}

fn n_asked(played: &Played) -> usize {
    played.events().filter(|event| asked(event).is_some()).count()
}

fn lawful(played: &Played) {
    let wrong = invariants::violations(played.journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// C15: a person may put other arguments in the place of the model's; the tool gets those, and
/// the model is told.
#[tokio::test(start_paused = true)]
async fn a_person_edits_the_arguments() {
    let multiply = FakeTool::new("multiply", Behaviour::Multiplies);
    let multiply = multiply.with(|spec| spec.needs_approval = true);
    let model = Scripted::new([
        Turn::new().call_with_id("call_1", "multiply", json!({ "a": 5, "b": 4 })),
        Turn::new().text("ok"),
    ]);
    let played = TestBench::with_model(Arc::new(model.clone()))
        .tool(multiply.clone())
        .play_with(|recorded| {
            let arguments = Some(json!({ "a": 6, "b": 7 }).to_string());
            Some(Act::Answer(asked(&recorded.event)?, ApprovalAnswer { arguments, ..yes() }))
        })
        .await;
    lawful(&played);
    assert_eq!(serde_json::Value::from(multiply.calls()[0].1.arguments.clone())["a"], 6);
    let prompt = model.prompts().pop().unwrap();
    assert_eq!(
        told(&prompt.items)[0].1,
        "[a person changed the arguments of this call to {\"a\":6,\"b\":7}]\n42"
    );
}

/// C15: arguments that do not fit the tool are not taken, and the question stays open.
#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_are_refused() {
    let multiply = FakeTool::new("multiply", Behaviour::Multiplies);
    let multiply = multiply.with(|spec| spec.needs_approval = true);
    let turn = Turn::new().call_with_id("call_1", "multiply", json!({ "a": 5, "b": 4 }));
    let (runs, request) =
        TestBench::new([turn, Turn::new().text("ok")]).tool(multiply.clone()).set_up();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while asked(&events.next().await.unwrap().unwrap().event).is_none() {}
    let (tenant, call) = (TenantId::default(), CallId::from("call_1"));
    for nonsense in ["{\"a\": \"six\", \"b\": 7}", "{\"a\": 6}", "[]", "{"] {
        let answer = ApprovalAnswer { arguments: Some(nonsense.to_owned()), ..yes() };
        let refused = runs.answer(&tenant, run.id(), &call, answer).await;
        assert!(matches!(refused, Err(AnswerError::DoesNotFit(_))), "{nonsense}: {refused:?}");
    }
    assert_eq!(
        runs.answer(&tenant, run.id(), &call, yes()).await.unwrap(),
        AnswerOutcome::Accepted
    );
    assert_eq!(
        runs.answer(&tenant, run.id(), &call, yes()).await.unwrap(),
        AnswerOutcome::Accepted
    );
    let no = Decision::Denied { reason: String::new() }.into();
    assert_eq!(runs.answer(&tenant, run.id(), &call, no).await.unwrap(), AnswerOutcome::TooLate);
    let nobody = runs.answer(&tenant, run.id(), &"call_9".into(), yes()).await.unwrap();
    assert_eq!(nobody, AnswerOutcome::NotAsked);
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    assert_eq!(multiply.n_calls(), 1);
}

/// C15: whoever takes too long has said no; a tool's own patience counts more than the run's,
/// and other tools at work do not hold that up.
#[tokio::test(start_paused = true)]
async fn an_unanswered_question_expires() {
    let hasty = guarded("hasty").with(|spec| spec.approval_expiry = Some(Duration::from_secs(5)));
    let slow = FakeTool::new("slow", Behaviour::Takes(Duration::from_secs(20), "x".to_owned()));
    let played = TestBench::new([calls(&["usual", "hasty", "slow"]), Turn::new().text("ok")])
        .tool(guarded("usual"))
        .tool(hasty)
        .tool(slow)
        .limits(|limits| limits.approval_expiry = Some(Duration::from_secs(9)))
        .play()
        .await;
    lawful(&played);
    let reason = "nobody answered in time".to_owned();
    for call in ["call_1", "call_2"] {
        assert_eq!(*outcome_of(&played, call), ToolOutcome::Denied { reason: reason.clone() });
    }
    let first = played.journal[0].at;
    let resolved: Vec<(u64, Option<&str>)> = played
        .journal
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ApprovalResolved { by, .. } => {
                Some((recorded.at.since(first).as_secs(), by.as_deref()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(resolved, [(5, Some("expiry")), (9, Some("expiry"))]);
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// C15: an answer that comes after the time does not count, even if nobody has noticed yet; and
/// the time goes on when the run changes hands.
#[tokio::test(start_paused = true)]
async fn the_time_goes_on_after_a_takeover() {
    let tool = guarded("t").with(|spec| spec.approval_expiry = Some(Duration::from_mins(1)));
    let script = [calls(&["t"]), Turn::new().text("ok")];
    let (runs, request) = TestBench::new(script.clone()).tool(tool.clone()).set_up();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    let mut journal = Vec::new();
    loop {
        let recorded = events.next().await.unwrap().unwrap();
        journal.push(recorded.clone());
        if asked(&recorded.event).is_some() {
            break;
        }
    }
    // The first worker is gone; the second comes 40 seconds later.
    run.cancel();
    tokio::time::sleep(Duration::from_secs(40)).await;
    let (log, store) = (MemoryJournal::default(), MemoryRunStore::default());
    let Event::RunQueued { request } = &journal[0].event else { panic!() };
    let (run_id, created_at) = (journal[0].run_id.clone(), journal[0].at);
    let request: Arc<RunRequest> = Arc::clone(request);
    store.create(NewRun::new(run_id.clone(), created_at, request)).await.unwrap();
    log.append(&TenantId::default(), journal.clone()).await.unwrap();
    let mut tools = Toolbox::default();
    tools.add(Arc::new(tool.clone())).unwrap();
    let clock_and_ids = ClockAndIds::simulated();
    let skew = journal[0].at.since(clock_and_ids.now()) + Duration::from_secs(40);
    let second = Runs::new(EngineParts {
        journal: Arc::new(log),
        store: Arc::new(store),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text("ok")]))),
        tools,
        clock_and_ids: Arc::new(clock_and_ids),
        ..EngineParts::default()
    });
    // Simulated time begins anew with its engine: let it be as late as it is.
    tokio::time::sleep(skew).await;
    let taken = second.take_over(&TenantId::default(), &run_id).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(taken.outcome().await, RunOutcome::Completed);
    let waited = began.elapsed().as_secs();
    assert!(
        (18..=21).contains(&waited),
        "60 s after the question, not after the takeover: {waited}"
    );
    let late = second.answer(&TenantId::default(), &run_id, &"call_1".into(), yes()).await.unwrap();
    assert_eq!((late, tool.n_calls()), (AnswerOutcome::TooLate, 0));
}

/// C15: allowed for the conversation means: for this tool as it is, in this conversation, later
/// runs included.
#[tokio::test(start_paused = true)]
async fn an_answer_for_the_whole_conversation() {
    let call = || Turn::new().call("t", json!({}));
    let once_more = || [call(), call(), Turn::new().text("ok")];
    let script: Vec<Turn> = (0..4).flat_map(|_| once_more()).collect();
    let tool = guarded("t");
    let (runs, request) = TestBench::new(script).tool(tool.clone()).set_up();
    let tenant = TenantId::default();
    let play =
        async |conversation: &str, change: &dyn Fn(&mut RunRequest), answer: ApprovalAnswer| {
            let mut request = request.clone();
            request.conversation_id = Some(ConversationId::from(conversation));
            change(&mut request);
            let run = runs.start(request).await.unwrap();
            let mut events = run.events().await.unwrap();
            let mut journal = Vec::new();
            while let Some(recorded) = events.next().await {
                let recorded = recorded.unwrap();
                if let Some(call_id) = asked(&recorded.event) {
                    runs.answer(&tenant, run.id(), &call_id, answer.clone()).await.unwrap();
                }
                journal.push(recorded);
            }
            let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
            assert!(wrong.is_empty(), "{wrong:#?}");
            let answers: Vec<ApprovalAnswer> =
                journal.iter().filter_map(|recorded| recorded.event.answer()).collect();
            assert_eq!(answers.len(), 2, "each call is resolved once");
            // Those of the conversation were given in the same breath; nobody was asked.
            answers.iter().filter(|answer| answer.by.as_deref() != Some("conversation")).count()
        };
    let unchanged = |_: &mut RunRequest| {};
    let for_all = ApprovalAnswer { remember: true, ..yes() }.by("test");
    assert_eq!(play("conv_1", &unchanged, for_all.clone()).await, 1, "asked once, not twice");
    assert_eq!(play("conv_1", &unchanged, for_all.clone()).await, 0, "not asked again");
    assert_eq!(play("conv_2", &unchanged, yes()).await, 2, "another conversation");
    let changed = |request: &mut RunRequest| {
        for spec in &mut request.tools {
            Arc::make_mut(spec).description = "Does something else now.".to_owned();
        }
    };
    assert_eq!(play("conv_1", &changed, yes()).await, 2, "another definition");
    assert_eq!(tool.n_calls(), 8);
}

/// A7: the operator has people asked by what tools do to the world; exceptions count, and what
/// the client carries out is the client's affair.
#[tokio::test(start_paused = true)]
async fn the_policy_goes_by_effect() {
    let with = |name: &str, effect| returns(name, "x").with(|spec| spec.effect = effect);
    let policy = ApprovalPolicy { ask_before: vec![Effect::Once], ..ApprovalPolicy::default() };
    let played = TestBench::new([calls(&["pure", "once", "excepted"]), Turn::new().text("ok")])
        .tool(with("pure", Effect::Pure))
        .tool(with("once", Effect::Once))
        .tool(with("excepted", Effect::Once).with(|spec| spec.exempt = true))
        .policy(policy)
        .play_with(|recorded| Some(Act::Answer(asked(&recorded.event)?, yes())))
        .await;
    assert_eq!(n_asked(&played), 1);
    let about = played.events().find_map(asked).unwrap();
    assert_eq!(about.as_str(), "call_2");
    lawful(&played);
}

/// C14: a call that waits for a person can be cancelled; the model is told, the run goes on.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_cancelled() {
    let tool = guarded("t");
    let (runs, request) = TestBench::new([calls(&["t", "free"]), Turn::new().text("ok")])
        .tool(tool.clone())
        .tool(returns("free", "x"))
        .set_up();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while asked(&events.next().await.unwrap().unwrap().event).is_none() {}
    let tenant = TenantId::default();
    assert!(runs.cancel_call(&tenant, run.id(), &"call_1".into()).await.unwrap());
    assert!(!runs.cancel_call(&tenant, run.id(), &"call_1".into()).await.unwrap());
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let journal = run.journal().await.unwrap();
    let ended = journal.iter().find_map(|recorded| match &recorded.event {
        Event::ToolFinished { call_id, outcome, .. } if call_id.as_str() == "call_1" => {
            Some(outcome.clone())
        }
        _ => None,
    });
    let reason = "the call was cancelled".to_owned();
    assert_eq!(ended, Some(ToolOutcome::Denied { reason }));
    assert_eq!(tool.n_calls(), 0);
}

/// R5: a tool's own deadline counts more than the run's, and progress does not move it.
#[tokio::test(start_paused = true)]
async fn a_tool_has_its_own_deadline() {
    let chatty = FakeTool::new("t", Behaviour::Reports(100, Duration::from_secs(1), "x".into()));
    let chatty = chatty.with(|spec| {
        spec.timeout = Some(Duration::from_secs(3));
        spec.deadline = Some(Duration::from_secs(10));
    });
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(chatty).play().await;
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::TimedOut { after_ms: 10_000 });
    let progressed =
        played.events().filter(|event| matches!(event, Event::ToolProgressed { .. })).count();
    assert!(progressed >= 9, "the silence was broken {progressed} times");
}

/// Bounded concurrency: at most so many calls of a tool, and of a server, are at work at once;
/// the others are not started before there is a place for them.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_place() {
    use turnwire_testkit::FakeServers;
    let takes = |name: &str, most: Option<u32>, of_server: Option<u32>| {
        FakeTool::new(name, Behaviour::Takes(Duration::from_secs(1), "x".to_owned())).with(|spec| {
            spec.most_at_once = most;
            spec.server_most_at_once = of_server;
        })
    };
    let servers = FakeServers::default()
        .with("s", [takes("one", Some(1), Some(2)), takes("two", None, Some(2))]);
    let names = ["one", "one", "one", "two", "two", "two"];
    let played =
        TestBench::new([calls(&names), Turn::new().text("ok")]).servers(servers).play().await;
    lawful(&played);
    let (mut at_work, mut most) = (std::collections::HashMap::<&str, (i32, i32)>::new(), 0);
    let tool_of = |call: &CallId| names[call.as_str()[5..].parse::<usize>().unwrap() - 1];
    for event in played.events() {
        let (call_id, change) = match event {
            Event::ToolStarted { call_id, .. } => (call_id, 1),
            Event::ToolFinished { call_id, .. } => (call_id, -1),
            _ => continue,
        };
        let (now, peak) = at_work.entry(tool_of(call_id)).or_default();
        *now += change;
        *peak = (*peak).max(*now);
        most = most.max(at_work.values().map(|(now, _)| now).sum::<i32>());
    }
    assert_eq!((at_work["one"].1, most), (1, 2));
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert!(
        (3.0..4.5).contains(&took.as_secs_f64()),
        "six seconds of work, two at a time: {took:?}"
    );
}
