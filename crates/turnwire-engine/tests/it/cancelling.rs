//! Stopping a run or one call, and going away.

use std::time::Duration;

use futures::StreamExt;
use turnwire_contract::{Event, RunOutcome, Seq, TenantId, ToolOutcome};
use turnwire_engine::StartError;
use turnwire_models::Turn;
use turnwire_testkit::{Act, Behaviour, FakeTool, TestBench};

use crate::{calls, kinds, outcome_of, returns};

/// I12, C4: cancelling during parallel tools closes each of them, and those not yet begun.
#[tokio::test(start_paused = true)]
async fn cancelling_closes_every_call() {
    let alone = returns("alone", "x").with(|spec| spec.parallel = false);
    let played = TestBench::new([calls(&["polite", "deaf", "alone"])])
        .tool(FakeTool::new("polite", Behaviour::WaitsToBeStopped))
        .tool(FakeTool::new("deaf", Behaviour::Hangs))
        .tool(alone.clone())
        .play_with(|recorded| match &recorded.event {
            Event::ToolStayedSilent { .. } => Some(Act::CancelRun),
            _ => None,
        })
        .await;
    assert_eq!(played.outcome, RunOutcome::Cancelled);
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::Cancelled);
    assert_eq!(*outcome_of(&played, "call_2"), ToolOutcome::Cancelled);
    let reason = "the run was cancelled".to_owned();
    assert_eq!(*outcome_of(&played, "call_3"), ToolOutcome::Skipped { reason });
    assert_eq!(alone.n_calls(), 0);
    let last: Vec<&Event> = played.events().collect();
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert!(took < Duration::from_millis(5_600), "C14: the deaf one held it up: {took:?}");
    assert!(matches!(last.last(), Some(Event::RunFinished { .. })));
}

/// S2-F3, design §1.6: one of several parallel calls; the model is told and goes on.
#[tokio::test(start_paused = true)]
async fn one_call_is_cancelled_and_the_run_goes_on() {
    let played = TestBench::new([calls(&["polite", "fine"]), Turn::new().text("ok")])
        .tool(FakeTool::new("polite", Behaviour::WaitsToBeStopped))
        .tool(returns("fine", "x"))
        .play_with(|recorded| match &recorded.event {
            Event::ToolStayedSilent { call_id, .. } => Some(Act::CancelCall(call_id.clone())),
            _ => None,
        })
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::Cancelled);
    assert!(outcome_of(&played, "call_2").is_success());
}

/// C14: cancelling says whether there was something to cancel, and twice is as good as once.
#[tokio::test(start_paused = true)]
async fn cancelling_is_idempotent_and_honest() {
    let (runs, request) = TestBench::new([Turn::new().text("a").wait_forever()]).set_up();
    let run = runs.start(request).await.unwrap();
    assert!(!runs.cancel_call(&TenantId::default(), run.id(), &"call_1".into()).await.unwrap());
    assert!(!run.cancel_call(&"call_1".into()));
    assert!(runs.cancel(&TenantId::default(), run.id()).await.unwrap());
    run.cancel();
    assert_eq!(run.outcome().await, RunOutcome::Cancelled);
    assert!(
        !runs.cancel(&TenantId::default(), run.id()).await.unwrap(),
        "a run that is over cannot be cancelled"
    );
    assert!(!runs.cancel(&TenantId::default(), &"run_none".into()).await.unwrap());
    assert_eq!(kinds(&run.journal().await.unwrap()).last().unwrap(), "run_finished");
}

/// R10, C10: dropping whoever watches changes nothing.
#[tokio::test(start_paused = true)]
async fn a_run_does_not_depend_on_its_watchers() {
    let (runs, request) =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(returns("t", "x")).set_up();
    let run = runs.start(request).await.unwrap();
    let id = run.id().clone();
    let mut events = run.events().await.unwrap();
    events.next().await.unwrap().unwrap();
    drop(events);
    drop(run);
    let journal: Vec<_> =
        runs.follow(&TenantId::default(), &id, Seq::START).await.unwrap().collect().await;
    assert!(matches!(
        &journal.last().unwrap().as_ref().unwrap().event,
        Event::RunFinished { outcome: RunOutcome::Completed, .. }
    ));
}

/// Going away ends every run properly.
#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_run() {
    let (runs, request) = TestBench::new([Turn::new().text("a").wait_forever()]).set_up();
    let again = request.clone();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while !matches!(events.next().await.unwrap().unwrap().event, Event::TextAdded { .. }) {}
    runs.shut_down().await;
    let late = runs.start(again).await;
    assert!(matches!(late, Err(StartError::ShuttingDown)), "{late:?}");
    let RunOutcome::Failed { failure } = run.outcome().await else { panic!() };
    assert_eq!(failure.code, "engine_stopped");
    let journal = run.journal().await.unwrap();
    assert_eq!(
        kinds(&journal)[3..],
        ["message_started", "text_added", "message_finished", "turn_finished", "run_finished"]
    );
}

/// A call can be stopped as soon as its start is seen, and then its tool does nothing.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_stopped_at_its_start_is_not_carried_out() {
    let prop = returns("t", "x");
    let (runs, request) =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(prop.clone()).set_up();
    let (seen, first_reader) = tokio::sync::watch::channel(Seq::START);
    let run = runs.start_with_first_reader(request, Some(first_reader)).await.unwrap();
    let mut events = run.events().await.unwrap();
    while let Some(recorded) = events.next().await {
        let recorded = recorded.unwrap();
        if let Event::ToolStarted { call_id, .. } = &recorded.event {
            assert!(run.cancel_call(call_id), "it cannot be stopped yet");
        }
        if let Event::ToolFinished { call_id, outcome, .. } = &recorded.event {
            assert_eq!(*outcome, ToolOutcome::Cancelled);
            assert!(!run.cancel_call(call_id), "a call that is over cannot be stopped");
        }
        seen.send_replace(recorded.seq);
    }
    assert_eq!(prop.n_calls(), 0);
    assert_eq!(run.outcome().await, RunOutcome::Completed);
}
