//! Runs that go on where another ended: after it, after a person, after a failed call.

use std::sync::Arc;

use turnwire_contract::{
    Approvals, CallId, Decision, Event, FirstCall, Item, RecordedEvent, RunOutcome, RunRequest,
    StoreError, TenantId, ToolKind, ToolOutcome, ToolRef,
};
use turnwire_engine::{EngineParts, Runs, StartError, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{calls, kinds, returns};

fn engine(model: &Scripted, tools: impl IntoIterator<Item = FakeTool>) -> (Runs, RunRequest) {
    let mut toolbox = Toolbox::default();
    tools.into_iter().for_each(|tool| toolbox.add(Arc::new(tool)).unwrap());
    let mut request = RunRequest::new("scripted", vec![Item::user("Go.")]);
    request.tools = toolbox.specs();
    let any_model = Some(Arc::new(model.clone()) as _);
    (Runs::new(EngineParts { tools: toolbox, any_model, ..EngineParts::default() }), request)
}

fn tool(name: &str) -> ToolRef {
    ToolRef { name: name.to_owned(), kind: ToolKind::Function, server: None }
}

fn shown(model: &Scripted, n: usize) -> Vec<Item> {
    model.prompts()[n].items.iter().map(|item| Item::clone(item)).collect()
}

/// What came before is previous input, previous output, then the new input.
#[tokio::test(start_paused = true)]
async fn a_run_knows_the_one_it_continues() {
    let model = Scripted::new([
        calls(&["add"]),
        Turn::new().text("One."),
        Turn::new().text("Two."),
        Turn::new().text("Three."),
    ]);
    let (runs, request) = engine(&model, [returns("add", "1")]);
    let first = runs.start(request.clone()).await.unwrap();
    first.outcome().await;
    let next = |before, text: &str| RunRequest {
        continues: Some(before),
        input: vec![Item::user(text)],
        ..request.clone()
    };
    let second = runs.start(next(first.id().clone(), "And?")).await.unwrap();
    second.outcome().await;
    let third = runs.start(next(second.id().clone(), "More.")).await.unwrap();
    third.outcome().await;
    assert_eq!(shown(&model, 2).len(), 5);
    let last = shown(&model, 3);
    assert_eq!(last[0], Item::user("Go."));
    assert_eq!(
        last[3..],
        [Item::assistant("One."), Item::user("And?"), Item::assistant("Two."), Item::user("More.")]
    );
    let unknown = runs.start(next("run_none".into(), "x")).await;
    assert!(matches!(unknown, Err(StartError::Store(StoreError::NotFound(_)))), "{unknown:?}");
    let mut theirs = next(first.id().clone(), "x");
    theirs.tenant = TenantId::from("other");
    let theirs = runs.start(theirs).await;
    assert!(matches!(theirs, Err(StartError::Store(StoreError::NotFound(_)))), "A1: {theirs:?}");
}

/// A call that comes first is carried out before the model is asked, and the model sees it.
#[tokio::test(start_paused = true)]
async fn a_first_call_comes_before_the_model() {
    let model = Scripted::new([Turn::new().text("It worked this time.")]);
    let (runs, mut request) = engine(&model, [returns("add", "1")]);
    request.first_calls = vec![FirstCall {
        call_id: CallId::new("call_again"),
        tool: tool("add"),
        arguments: "{}".to_owned(),
        decision: None,
        budget: None,
    }];
    let run = runs.start(request).await.unwrap();
    let journal = run.journal().await.unwrap();
    assert_eq!(
        kinds(&journal)[..8],
        [
            "run_queued",
            "run_started",
            "turn_started",
            "call_announced",
            "arguments_finished",
            "turn_finished",
            "tool_started",
            "tool_finished"
        ]
    );
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let seen = shown(&model, 0);
    assert!(matches!(&seen[0], Item::Call { name, .. } if name == "add"));
    assert!(matches!(&seen[1], Item::CallResult { output, .. } if output == "1"));
    assert_eq!(seen[2], Item::user("Go."));
}

/// I7: a first call stays in its place in a history that the client sends itself.
#[tokio::test(start_paused = true)]
async fn a_first_call_stays_in_its_place() {
    let model = Scripted::new([Turn::new().text("It worked.")]);
    let (runs, mut request) = engine(&model, [returns("add", "1")]);
    request.input = vec![Item::user("Add."), Item::user("And hurry.")];
    request.n_before_calls = 1;
    request.first_calls = vec![FirstCall {
        call_id: CallId::new("call_1"),
        tool: tool("add"),
        arguments: "{}".to_owned(),
        decision: Some(Decision::Approved),
        budget: None,
    }];
    let run = runs.start(request).await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let seen = shown(&model, 0);
    assert_eq!(seen[0], Item::user("Add."));
    assert!(matches!(&seen[1], Item::Call { name, .. } if name == "add"));
    assert!(matches!(&seen[2], Item::CallResult { output, .. } if output == "1"));
    assert_eq!(seen[3], Item::user("And hurry."));
}

/// C15: a run that hands its approvals back ends with the question; the next run brings the
/// answer, carries the call out, and the model sees one call with one result.
#[tokio::test(start_paused = true)]
async fn an_approval_is_answered_by_the_next_run() {
    for (decision, worked) in
        [(Decision::Approved, true), (Decision::Denied { reason: "too risky".to_owned() }, false)]
    {
        let model = Scripted::new([calls(&["drop", "look"]), Turn::new().text("So be it.")]);
        let drop = FakeTool::new("drop", Behaviour::Returns("dropped".to_owned()))
            .with(|spec| spec.needs_approval = true);
        let (runs, mut request) = engine(&model, [drop.clone(), returns("look", "seen")]);
        request.approvals = Approvals::HandBack;
        let first = runs.start(request.clone()).await.unwrap();
        assert_eq!(first.outcome().await, RunOutcome::Completed);
        let journal = first.journal().await.unwrap();
        let asked = |r: &&Arc<RecordedEvent>| matches!(r.event, Event::ApprovalRequested { .. });
        assert_eq!(journal.iter().filter(asked).count(), 1);
        assert_eq!(drop.n_calls(), 0);

        request.continues = Some(first.id().clone());
        request.input = Vec::new();
        request.first_calls = vec![FirstCall {
            call_id: CallId::new("call_1"),
            tool: tool("drop"),
            arguments: r#"{"n":1}"#.to_owned(),
            decision: Some(decision),
            budget: None,
        }];
        let second = runs.start(request).await.unwrap();
        let journal = second.journal().await.unwrap();
        let outcome = journal.iter().find_map(|recorded| match &recorded.event {
            Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
            _ => None,
        });
        assert_eq!(outcome.as_ref().is_some_and(ToolOutcome::is_success), worked);
        assert_eq!(drop.n_calls(), u32::from(worked));
        let seen = shown(&model, 1);
        let n_calls = seen.iter().filter(|item| matches!(item, Item::Call { .. })).count();
        let n_results = seen.iter().filter(|item| matches!(item, Item::CallResult { .. })).count();
        assert_eq!((n_calls, n_results), (2, 2), "{seen:#?}");
    }
}

/// Whoever insists on a tool insists on it once.
#[tokio::test(start_paused = true)]
async fn a_required_tool_is_required_once() {
    use turnwire_contract::ToolChoice;
    let model = Scripted::new([calls(&["add"]), Turn::new().text("Done.")]);
    let (runs, mut request) = engine(&model, [returns("add", "1")]);
    request.tool_choice = ToolChoice::Required;
    runs.start(request).await.unwrap().outcome().await;
    let choices: Vec<ToolChoice> = model.prompts().into_iter().map(|p| p.tool_choice).collect();
    assert_eq!(choices, [ToolChoice::Required, ToolChoice::Auto]);
}

/// A forgotten run is gone with its events, and only for its owner to forget.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_forgotten() {
    let (runs, request) = engine(&Scripted::new([Turn::new().text("Hi.")]), []);
    let run = runs.start(request).await.unwrap();
    run.outcome().await;
    let (mine, theirs) = (TenantId::default(), TenantId::from("other"));
    assert!(runs.delete(&theirs, run.id()).await.is_err(), "A1");
    assert!(!runs.recorded(&mine, run.id()).await.unwrap().is_empty());
    assert!(runs.recorded(&theirs, run.id()).await.is_err(), "A1");
    runs.delete(&mine, run.id()).await.unwrap();
    assert!(runs.recorded(&mine, run.id()).await.is_err());
    assert!(runs.find(&mine, run.id()).await.is_err());
}

/// I7: what came of a call that was asked about stands right behind the call, whatever the
/// client says beside its answer.
#[tokio::test(start_paused = true)]
async fn i7_an_answer_comes_before_the_next_question() {
    let model = Scripted::new([calls(&["drop"]), Turn::new().text("So be it.")]);
    let drop = FakeTool::new("drop", Behaviour::Returns("dropped".to_owned()))
        .with(|spec| spec.needs_approval = true);
    let (runs, mut request) = engine(&model, [drop]);
    request.approvals = Approvals::HandBack;
    let first = runs.start(request.clone()).await.unwrap();
    first.outcome().await;
    request.continues = Some(first.id().clone());
    request.input = vec![Item::user("And now?")];
    request.first_calls = vec![FirstCall {
        call_id: CallId::new("call_1"),
        tool: tool("drop"),
        arguments: r#"{"n":1}"#.to_owned(),
        decision: Some(Decision::Approved),
        budget: None,
    }];
    let second = runs.start(request).await.unwrap();
    second.outcome().await;
    let seen = shown(&model, 1);
    assert!(matches!(&seen[1], Item::Call { .. }), "{seen:#?}");
    assert!(matches!(&seen[2], Item::CallResult { output, .. } if output == "dropped"));
    assert_eq!(seen[3], Item::user("And now?"));
    let context = runs.context(&TenantId::default(), second.id()).await.unwrap();
    assert_eq!(context.len(), 5, "and so it is kept");
}

/// I7: a call that nobody came back to gets an end when the conversation goes on.
#[tokio::test(start_paused = true)]
async fn i7_an_open_call_is_closed_when_the_conversation_goes_on() {
    let model = Scripted::new([calls(&["locate"]), Turn::new().text("Never mind.")]);
    let (runs, mut request) = engine(&model, []);
    request.conversation_id = Some("conv_1".into());
    let locate = turnwire_contract::ToolSpec {
        kind: ToolKind::Client,
        ..turnwire_contract::ToolSpec::new("locate", "Where the person is.")
    };
    request.tools = vec![Arc::new(locate)];
    runs.start(request.clone()).await.unwrap().outcome().await;
    request.input = vec![Item::user("Forget it.")];
    runs.start(request).await.unwrap().outcome().await;
    let seen = shown(&model, 1);
    assert!(matches!(&seen[1], Item::Call { .. }), "{seen:#?}");
    assert!(matches!(&seen[2], Item::CallResult { failed: true, .. }), "{seen:#?}");
    assert_eq!(seen[3], Item::user("Forget it."));
    let wrong = turnwire_testkit::invariants::history_violations(&model.prompts()[1]);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A call that is tried again needs the same permission as the first time.
#[tokio::test(start_paused = true)]
async fn a_first_call_is_asked_about_if_it_was_not() {
    let drop = FakeTool::new("drop", Behaviour::Returns("dropped".to_owned()))
        .with(|spec| spec.needs_approval = true);
    let (runs, mut request) = engine(&Scripted::new([Turn::new().text("Done.")]), [drop.clone()]);
    request.first_calls = vec![FirstCall {
        call_id: CallId::new("call_1"),
        tool: tool("drop"),
        arguments: "{}".to_owned(),
        decision: None,
        budget: None,
    }];
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while let Some(recorded) = futures::StreamExt::next(&mut events).await {
        if matches!(recorded.unwrap().event, Event::ApprovalRequested { .. }) {
            assert_eq!(drop.n_calls(), 0);
            let tenant = TenantId::default();
            let call = CallId::new("call_1");
            assert!(runs.resolve(&tenant, run.id(), &call, Decision::Approved).await.unwrap());
        }
    }
    assert_eq!(drop.n_calls(), 1);
}

/// Some providers call every call `call_0`; an id that the conversation has is not used again.
#[tokio::test(start_paused = true)]
async fn a_call_id_of_the_history_is_taken() {
    let model = Scripted::new([
        calls(&["add"]),
        Turn::new().text("One."),
        calls(&["add"]),
        Turn::new().text("Two."),
    ]);
    let (runs, mut request) = engine(&model, [returns("add", "1")]);
    request.conversation_id = Some("conv_1".into());
    runs.start(request.clone()).await.unwrap().outcome().await;
    runs.start(request).await.unwrap().outcome().await;
    let ids: std::collections::BTreeSet<String> = shown(&model, 3)
        .iter()
        .filter_map(|item| match item {
            Item::Call { call_id, .. } => Some(call_id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
}
