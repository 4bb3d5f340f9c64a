//! Calls whose outcome is unknown, where a person settles them.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};
use turnwire_contract::{
    CallId, Effect, Event, RecordedEvent, Reply, RunOutcome, RunRequest, TenantId, ToolOutcome,
    UnknownOutcomes,
};
use turnwire_engine::{AnswerError, AnswerOutcome, RunHandle, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Act, Behaviour, FakeTool, TestBench, invariants};

use crate::{calls, kinds, outcome_of, returns, takeover::engine_with};

fn answer(content: Value) -> Reply {
    let Value::Object(content) = content else { panic!("{content}") };
    Reply::Accepted { content }
}

fn once() -> FakeTool {
    returns("t", "x").with(|spec| spec.effect = Effect::Once)
}

/// The journal of a run whose worker died while its tool was at work.
async fn cut_at_work() -> Vec<Arc<RecordedEvent>> {
    let bench = TestBench::new([calls(&["t"]), Turn::new().text("done")]).tool(once());
    let played = bench.request(may_ask).play().await;
    let is_start =
        |recorded: &Arc<RecordedEvent>| matches!(recorded.event, Event::ToolStarted { .. });
    let n_kept = played.journal.iter().position(is_start).unwrap() + 1;
    played.journal[..n_kept].to_vec()
}

/// Another engine takes the run over, and stops at the question.
async fn taken_over(
    journal: &[Arc<RecordedEvent>],
    tool: &FakeTool,
) -> (Runs, RunHandle, Scripted) {
    let model = Scripted::new([Turn::new().text("done")]);
    let runs = engine_with(journal, model.clone(), std::slice::from_ref(tool)).await;
    let run = runs.take_over(&TenantId::default(), &journal[0].run_id).await.unwrap();
    let mut events = run.events().await.unwrap();
    loop {
        let recorded = events.next().await.unwrap().unwrap();
        if let Event::InputRequested { unknown_outcome, .. } = recorded.event {
            assert!(unknown_outcome);
            break;
        }
    }
    (runs, run, model)
}

fn end_of(journal: &[Arc<RecordedEvent>]) -> ToolOutcome {
    let mut ends = journal.iter().filter_map(|recorded| match &recorded.event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let Some(end) = ends.next() else { panic!("the call has no end") };
    assert!(ends.next().is_none(), "it has one end");
    end
}

/// A run whose tool breaks off, and may have done its work.
fn broken_line() -> TestBench {
    let broken =
        FakeTool::new("t", Behaviour::Vanishes(Duration::ZERO, "the line broke".to_owned()));
    TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(broken.with(|spec| spec.effect = Effect::Once))
}

fn may_ask(request: &mut RunRequest) {
    request.inputs = true;
    request.unknown_outcomes = UnknownOutcomes::Ask;
}

fn lawful(journal: &[Arc<RecordedEvent>]) {
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn settle(runs: &Runs, run: &RunHandle, reply: Reply) -> AnswerOutcome {
    let (tenant, call) = (TenantId::default(), CallId::from("call_1"));
    runs.reply(&tenant, run.id(), &call, None, reply, "test").await.unwrap()
}

/// R21, C5: a person marks the call as done, and the model learns who said so.
#[tokio::test(start_paused = true)]
async fn a_person_marks_the_call_as_done() {
    let tool = once();
    let (runs, run, model) = taken_over(&cut_at_work().await, &tool).await;
    let too_long = answer(json!({ "outcome": "done", "result": "x".repeat(64 * 1024 + 1) }));
    let (tenant, call) = (TenantId::default(), CallId::from("call_1"));
    let refused = runs.reply(&tenant, run.id(), &call, None, too_long, "test").await;
    assert!(matches!(refused, Err(AnswerError::DoesNotFit(_))), "{refused:?}");
    let done = answer(json!({ "outcome": "done", "result": "branch deleted" }));
    assert_eq!(settle(&runs, &run, done.clone()).await, AnswerOutcome::Accepted);
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    assert_eq!(settle(&runs, &run, done).await, AnswerOutcome::Accepted, "the same once more");
    let journal = run.journal().await.unwrap();
    lawful(&journal);
    let ToolOutcome::Succeeded { output } = end_of(&journal) else { panic!("{journal:#?}") };
    let told = "[a person confirmed that this call did its work]\nbranch deleted";
    assert_eq!(output.text, told);
    assert_eq!(tool.n_calls(), 0, "it is not called again");
    let prompt = serde_json::to_string(&model.prompts()[0].items).unwrap();
    assert!(prompt.contains("a person confirmed"), "{prompt}");
}

/// R21, C5: a person lets the call run again, as the next attempt with the same key.
#[tokio::test(start_paused = true)]
async fn a_person_lets_the_call_run_again() {
    let tool = once();
    let (runs, run, _) = taken_over(&cut_at_work().await, &tool).await;
    let again = answer(json!({ "outcome": "run_again" }));
    assert_eq!(settle(&runs, &run, again).await, AnswerOutcome::Accepted);
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let journal = run.journal().await.unwrap();
    lawful(&journal);
    assert!(matches!(end_of(&journal), ToolOutcome::Succeeded { .. }));
    assert_eq!(tool.n_calls(), 1);
    assert_eq!(tool.calls()[0].1.idempotency_key, "run_1:call_1");
    let retried = journal.iter().find_map(|recorded| match &recorded.event {
        Event::ToolRetried { attempt, reason, .. } => Some((*attempt, reason.code.clone())),
        _ => None,
    });
    assert_eq!(retried, Some((2, "outcome_unknown".into())));
}

/// C5: who gives up, declines or cancels leaves the outcome unknown, and the model is told so.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_has_an_unknown_outcome() {
    let given_up = answer(json!({ "outcome": "give_up" }));
    for reply in [given_up, Reply::Declined, Reply::Cancelled] {
        let tool = once();
        let (runs, run, _) = taken_over(&cut_at_work().await, &tool).await;
        assert_eq!(settle(&runs, &run, reply).await, AnswerOutcome::Accepted);
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        let journal = run.journal().await.unwrap();
        lawful(&journal);
        let ToolOutcome::OutcomeUnknown { message } = end_of(&journal) else { panic!() };
        assert!(message.starts_with("the server stopped while"), "{message}");
        assert_eq!(tool.n_calls(), 0);
    }
}

/// C5: cancelling the call, or the run, ends the wait.
#[tokio::test(start_paused = true)]
async fn a_call_in_doubt_can_be_cancelled() {
    let (tenant, call) = (TenantId::default(), CallId::from("call_1"));
    let (runs, run, _) = taken_over(&cut_at_work().await, &once()).await;
    assert!(runs.cancel_call(&tenant, run.id(), &call).await.unwrap());
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    assert!(matches!(end_of(&run.journal().await.unwrap()), ToolOutcome::OutcomeUnknown { .. }));

    let (runs, run, _) = taken_over(&cut_at_work().await, &once()).await;
    runs.cancel(&tenant, run.id()).await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Cancelled);
    let journal = run.journal().await.unwrap();
    lawful(&journal);
    assert!(matches!(end_of(&journal), ToolOutcome::OutcomeUnknown { .. }));
}

/// C2, C5: the question outlives its worker too, after every event, and is asked once.
#[tokio::test(start_paused = true)]
async fn the_question_survives_every_worker() {
    let (runs, run, _) = taken_over(&cut_at_work().await, &once()).await;
    assert_eq!(
        settle(&runs, &run, answer(json!({ "outcome": "run_again" }))).await,
        AnswerOutcome::Accepted
    );
    run.outcome().await;
    let whole = run.journal().await.unwrap();
    let n_cut = cut_at_work().await.len();
    for n_kept in n_cut..whole.len() {
        let kept = &whole[..n_kept];
        let names = kinds(kept);
        let is_over = names.contains(&"tool_finished".to_owned());
        // A second attempt that was interrupted is in doubt again.
        let is_settled =
            names.contains(&"input_resolved".to_owned()) && names.last().unwrap() != "tool_retried";
        let tool = once();
        let model = Scripted::new([Turn::new().text("done")]);
        let runs = engine_with(kept, model, std::slice::from_ref(&tool)).await;
        let run = runs.take_over(&TenantId::default(), &kept[0].run_id).await.unwrap();
        let n_asked = |journal: &[Arc<RecordedEvent>]| {
            kinds(journal).iter().filter(|kind| *kind == "input_requested").count()
        };
        if !is_settled {
            let mut events = run.events().await.unwrap();
            let n_wanted = 1 + usize::from(names.contains(&"tool_retried".to_owned()));
            let mut n_seen = 0;
            while n_seen < n_wanted {
                let recorded = events.next().await.unwrap().unwrap();
                n_seen += usize::from(matches!(recorded.event, Event::InputRequested { .. }));
            }
            assert_eq!(
                settle(&runs, &run, answer(json!({ "outcome": "done" }))).await,
                AnswerOutcome::Accepted,
                "after {n_kept}: {names:?}"
            );
        }
        assert_eq!(run.outcome().await, RunOutcome::Completed, "after {n_kept} events");
        let journal = run.journal().await.unwrap();
        lawful(&journal);
        assert!(n_asked(&journal) <= 2, "after {n_kept}: {:?}", kinds(&journal));
        let runs_again = is_settled && !is_over;
        assert_eq!(tool.n_calls(), u32::from(runs_again), "after {n_kept}: {names:?}");
    }
}

/// C5, C15: nobody answers: the question expires, and the model is told.
#[tokio::test(start_paused = true)]
async fn a_question_about_an_outcome_expires() {
    let played = broken_line()
        .request(may_ask)
        .limits(|limits| limits.approval_expiry = Some(Duration::from_secs(7)))
        .play()
        .await;
    lawful(&played.journal);
    let ToolOutcome::OutcomeUnknown { message } = outcome_of(&played, "call_1") else { panic!() };
    assert!(message.starts_with("the line broke; "), "{message}");
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::from_secs(7));
}

/// C5: a connection that breaks is settled by a person without a takeover, too.
#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_settled_by_a_person() {
    let played = broken_line()
        .request(may_ask)
        .play_with(|recorded| match &recorded.event {
            Event::InputRequested { call_id, unknown_outcome: true, message, .. } => {
                assert_eq!(message, "the line broke");
                Some(Act::Reply(call_id.clone(), answer(json!({ "outcome": "done" }))))
            }
            _ => None,
        })
        .await;
    lawful(&played.journal);
    assert!(matches!(outcome_of(&played, "call_1"), ToolOutcome::Succeeded { .. }));
}

/// C5: where nobody can be asked, the model is told, whatever the setting says.
#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_the_model_is_told() {
    let played = broken_line()
        .request(|request| request.unknown_outcomes = UnknownOutcomes::Ask)
        .play()
        .await;
    assert!(matches!(outcome_of(&played, "call_1"), ToolOutcome::OutcomeUnknown { .. }));
    assert!(!kinds(&played.journal).contains(&"input_requested".to_owned()));
}
