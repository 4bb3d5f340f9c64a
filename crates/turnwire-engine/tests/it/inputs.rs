//! Tools that ask the person something in the middle of a call.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, Event, Question, RecordedEvent, Reply, RunOutcome, TenantId, ToolOutcome,
};
use turnwire_engine::{AnswerError, AnswerOutcome};
use turnwire_models::Turn;
use turnwire_testkit::{Act, Behaviour, FakeTool, Played, TestBench, invariants};

use crate::{calls, kinds, outcome_of};

fn asks() -> FakeTool {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
    });
    FakeTool::new("t", Behaviour::Asks(Question { message: "Who are you?".to_owned(), schema }))
}

fn stage() -> TestBench {
    TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(asks())
}

fn content() -> Map<String, Value> {
    let Value::Object(content) = json!({ "name": "Ada" }) else { panic!() };
    content
}

fn asked(recorded: &RecordedEvent) -> Option<CallId> {
    match &recorded.event {
        Event::InputRequested { call_id, .. } => Some(call_id.clone()),
        _ => None,
    }
}

fn lawful(journal: &[Arc<RecordedEvent>]) {
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn succeeded_with(played: &Played, text: &str) {
    let ToolOutcome::Succeeded { output } = outcome_of(played, "call_1") else {
        panic!("{:?}", outcome_of(played, "call_1"))
    };
    assert_eq!(output.text, text);
    lawful(&played.journal);
}

/// C15: the tool is told what the person said.
#[tokio::test(start_paused = true)]
async fn a_tool_is_told_what_the_person_said() {
    for (reply, text) in [
        (Reply::Accepted { content: content() }, "told: {\"name\":\"Ada\"}"),
        (Reply::Declined, "declined"),
    ] {
        let played = stage()
            .request(|request| request.inputs = true)
            .play_with(|recorded| Some(Act::Reply(asked(recorded)?, reply.clone())))
            .await;
        succeeded_with(&played, text);
    }
}

/// C15: where nobody can be asked, the tool is told so at once.
#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_the_answer_is_no() {
    let played = stage().play().await;
    succeeded_with(&played, "declined");
    let by = played.events().find_map(|event| match event {
        Event::InputResolved { by, .. } => by.clone(),
        _ => None,
    });
    assert_eq!(by.as_deref(), Some("nobody"));
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::ZERO);
}

/// C15: the time a person takes does not count against the tool, neither its silence nor its
/// deadline; and while a person thinks, nobody says that the tool is silent.
#[tokio::test(start_paused = true)]
async fn a_person_may_take_their_time() {
    let (runs, mut request) = stage()
        .limits(|limits| {
            limits.call_silence = Duration::from_secs(2);
            limits.call_total = Duration::from_secs(3);
        })
        .set_up();
    request.inputs = true;
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while asked(&events.next().await.unwrap().unwrap()).is_none() {}
    tokio::time::sleep(Duration::from_mins(10)).await;
    let (tenant, call) = (TenantId::default(), CallId::from("call_1"));
    let reply = |reply| runs.reply(&tenant, run.id(), &call, None, reply, "test");
    let nonsense = reply(Reply::Accepted { content: Map::new() }).await;
    assert!(matches!(nonsense, Err(AnswerError::DoesNotFit(_))), "{nonsense:?}");
    let ours = || Reply::Accepted { content: content() };
    assert_eq!(reply(ours()).await.unwrap(), AnswerOutcome::Accepted);
    assert_eq!(reply(ours()).await.unwrap(), AnswerOutcome::Accepted, "the same once more");
    assert_eq!(reply(Reply::Declined).await.unwrap(), AnswerOutcome::TooLate);
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let journal = run.journal().await.unwrap();
    lawful(&journal);
    assert!(!kinds(&journal).contains(&"tool_stayed_silent".to_owned()), "{:?}", kinds(&journal));
    let other = runs.reply(&tenant, run.id(), &"call_9".into(), None, ours(), "test").await;
    assert_eq!(other.unwrap(), AnswerOutcome::NotAsked);
}

/// C15: a question that nobody answers comes to an end.
#[tokio::test(start_paused = true)]
async fn a_question_expires() {
    let played = stage()
        .request(|request| request.inputs = true)
        .limits(|limits| limits.approval_expiry = Some(Duration::from_secs(7)))
        .play()
        .await;
    let ToolOutcome::Failed { failure } = outcome_of(&played, "call_1") else { panic!() };
    assert_eq!(failure.message, "nobody answered");
    lawful(&played.journal);
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took.as_secs(), 7);
}

/// C14, I12: a cancelled call leaves no question open, and neither does a cancelled run.
#[tokio::test(start_paused = true)]
async fn a_cancel_closes_the_question() {
    for run_too in [false, true] {
        let played = stage()
            .request(|request| request.inputs = true)
            .play_with(|recorded| {
                let call_id = asked(recorded)?;
                Some(if run_too { Act::CancelRun } else { Act::CancelCall(call_id) })
            })
            .await;
        lawful(&played.journal);
        assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::Cancelled);
        let resolved = kinds(&played.journal).iter().filter(|k| *k == "input_resolved").count();
        assert_eq!(resolved, 1);
    }
}
