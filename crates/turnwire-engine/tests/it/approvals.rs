//! Calls that wait for a person.

use std::time::Duration;

use turnwire_contract::{CallId, Decision, Event, TenantId, ToolOutcome};
use turnwire_models::Turn;
use turnwire_testkit::{Act, Behaviour, FakeTool, TestBench, invariants};

use crate::{calls, kinds, outcome_of, returns};

fn guarded(name: &str) -> turnwire_testkit::FakeTool {
    returns(name, "done").with(|spec| spec.needs_approval = true)
}

fn denied() -> Decision {
    Decision::Denied { reason: "too risky".into() }
}

/// A call that was allowed is carried out, one that was not is not; others do not wait.
#[tokio::test(start_paused = true)]
async fn a_person_decides() {
    let (yes, no) = (guarded("yes"), guarded("no"));
    let played = TestBench::new([calls(&["yes", "no", "free"]), Turn::new().text("ok")])
        .tool(yes.clone())
        .tool(no.clone())
        .tool(returns("free", "x"))
        .play_with(|recorded| match &recorded.event {
            // The free one is done before anyone has answered.
            Event::ToolFinished { call_id, .. } if call_id.as_str() == "call_3" => {
                Some(Act::Resolve("call_2".into(), denied()))
            }
            Event::ToolFinished { call_id, .. } if call_id.as_str() == "call_2" => {
                Some(Act::Resolve("call_1".into(), Decision::Approved))
            }
            _ => None,
        })
        .await;
    assert_eq!((yes.n_calls(), no.n_calls()), (1, 0));
    assert!(outcome_of(&played, "call_1").is_success());
    let reason = "too risky".to_owned();
    assert_eq!(*outcome_of(&played, "call_2"), ToolOutcome::Denied { reason });
    let asked = kinds(&played.journal).iter().filter(|kind| *kind == "approval_requested").count();
    assert_eq!(asked, 2);
}

/// C15: who approves a call does not wait for a tool that is slow, unless order is required.
#[tokio::test(start_paused = true)]
async fn an_approved_call_begins_beside_a_slow_tool() {
    for (is_parallel, most_at_once, waited) in [(true, 8, 1), (false, 8, 60), (true, 1, 60)] {
        let slow = Behaviour::Reports(60, Duration::from_secs(1), "slow".to_owned());
        let played = TestBench::new([calls(&["slow", "t"]), Turn::new().text("ok")])
            .tool(FakeTool::new("slow", slow))
            .tool(guarded("t"))
            .request(move |request| request.parallel_tool_calls = is_parallel)
            .limits(move |limits| limits.max_parallel_calls = most_at_once)
            .play_with(|recorded| match &recorded.event {
                Event::ToolProgressed { progress, .. } if *progress < 1.5 => {
                    Some(Act::Resolve("call_2".into(), Decision::Approved))
                }
                _ => None,
            })
            .await;
        let at = |wanted: &str| {
            let is_it = |event: &Event| matches!(event, Event::ToolStarted { call_id, .. } if call_id.as_str() == wanted);
            played.journal.iter().find(|recorded| is_it(&recorded.event)).unwrap().at
        };
        let begun = at("call_2").since(at("call_1"));
        assert_eq!(begun, Duration::from_secs(waited), "{is_parallel}, {most_at_once} at once");
        let wrong = invariants::violations(played.journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// C15: the first answer counts, and there is nothing to answer where nobody asked.
#[tokio::test(start_paused = true)]
async fn an_answer_counts_once() {
    use futures::StreamExt;
    let tool = guarded("t");
    let later = Turn::new().pause(std::time::Duration::from_secs(1));
    let turn = later.call_with_id("call_1", "t", serde_json::json!({}));
    let (runs, request) =
        TestBench::new([turn, Turn::new().text("ok")]).tool(tool.clone()).set_up();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    let call = CallId::from("call_1");
    assert!(
        !runs.resolve(&TenantId::default(), run.id(), &call, Decision::Approved).await.unwrap(),
        "nobody asked yet"
    );
    while !matches!(events.next().await.unwrap().unwrap().event, Event::ApprovalRequested { .. }) {}
    let unknown = runs
        .resolve(&TenantId::default(), run.id(), &"call_9".into(), Decision::Approved)
        .await
        .unwrap();
    assert!(!unknown);
    let tenant = TenantId::default();
    let (first, second) = tokio::join!(
        runs.resolve(&tenant, run.id(), &call, denied()),
        runs.resolve(&tenant, run.id(), &call, Decision::Approved)
    );
    assert_eq!((first.unwrap(), second.unwrap()), (true, false));
    run.outcome().await;
    assert!(
        !runs.resolve(&TenantId::default(), run.id(), &call, Decision::Approved).await.unwrap(),
        "it is over"
    );
    assert_eq!(tool.n_calls(), 0);
}

/// When order was asked for, a call that waits holds up those behind it.
#[tokio::test(start_paused = true)]
async fn order_is_kept_while_a_person_thinks() {
    let free = returns("free", "x");
    let played = TestBench::new([calls(&["t", "free"]), Turn::new().text("ok")])
        .tool(guarded("t"))
        .tool(free.clone())
        .request(|request| request.parallel_tool_calls = false)
        .play_with(|recorded| match &recorded.event {
            Event::ApprovalRequested { call_id, .. } => {
                Some(Act::Resolve(call_id.clone(), Decision::Approved))
            }
            _ => None,
        })
        .await;
    let started: Vec<&str> = played
        .events()
        .filter_map(|event| match event {
            Event::ToolStarted { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["call_1", "call_2"]);
}

/// Lesson 17: a cancelled run leaves no question open.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_asks_no_more() {
    let played = TestBench::new([calls(&["t"])])
        .tool(guarded("t"))
        .play_with(|recorded| {
            matches!(recorded.event, Event::ApprovalRequested { .. }).then_some(Act::CancelRun)
        })
        .await;
    let reason = "the run was cancelled".to_owned();
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::Skipped { reason });
}
