//! Stopping a run, one call, or only the view of it; and asking a person first.

use std::{future::IntoFuture, time::Duration};

use futures::FutureExt;
use serde_json::json;
use turnwire::{CallId, Decision, Error, Event, RecordedEvent, RunId, RunOutcome, ToolOutcome};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::helpers::{Gate, Notes, in_time, journal, returns, scripted, wait_for};

fn started(event: &Event) -> Option<CallId> {
    match event {
        Event::ToolStarted { call_id, .. } => Some(call_id.clone()),
        _ => None,
    }
}

fn said(event: &Event) -> Option<()> {
    matches!(event, Event::TextAdded { .. }).then_some(())
}

fn outcomes(journal: &[std::sync::Arc<RecordedEvent>]) -> Vec<(&str, &ToolOutcome)> {
    let ends = journal.iter().filter_map(|recorded| match &recorded.event {
        Event::ToolFinished { call_id, outcome, .. } => Some((call_id.as_str(), outcome)),
        _ => None,
    });
    ends.collect()
}

#[tokio::test]
async fn a_cancel_during_the_text_keeps_what_was_said() {
    let agent = scripted([Turn::new().text("Well, ").wait_forever()]).build();
    let run = agent.expect("it can be made").stream_chat("Go.").start().await.expect("it starts");
    wait_for(&run, said).await;
    run.cancel();
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Cancelled, "Well, "));
    // Once more changes nothing.
    run.cancel();
    assert_eq!(run.reply().await.expect("it still has").outcome, RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_cancel_during_a_tool_reaches_the_tool() {
    let noticed = Notes::<String>::new();
    let book = noticed.clone();
    let listens = turnwire_tools::FunctionTool::with_context(
        "slow",
        "Waits to be stopped.",
        move |_: turnwire_tools::NoArguments, context: turnwire::ToolContext| {
            let book = book.clone();
            async move {
                context.phase("listening").await;
                context.cancelled().await;
                book.write(format!("stopped {}", context.is_cancelled()));
            }
        },
    );
    let ends = Notes::<String>::new();
    let end_book = ends.clone();
    let agent = scripted([Turn::new().call("slow", json!({}))]).tool(listens).build();
    let chat = agent.expect("it can be made").stream_chat("Go.");
    let chat = chat.on_tool_end(move |name, result| end_book.write(format!("{name}: {result}")));
    let run = chat.start().await.expect("it starts");
    wait_for(&run, |event| matches!(event, Event::ToolPhase { .. }).then_some(())).await;
    run.cancel();
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!(reply.outcome, RunOutcome::Cancelled);
    assert_eq!(noticed.take(), ["stopped true"]);
    assert_eq!(ends.take(), ["slow: Error: cancelled"]);
}

/// A tool that does not listen is given up after a moment.
#[tokio::test]
async fn a_cancel_does_not_wait_for_a_tool_that_does_not_listen() {
    let agent = scripted([Turn::new().call("deaf", json!({}))])
        .tool(FakeTool::new("deaf", Behaviour::Hangs))
        .build();
    let run = agent.expect("it can be made").stream_chat("Go.").start().await.expect("it starts");
    wait_for(&run, started).await;
    run.cancel();
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!(reply.outcome, RunOutcome::Cancelled);
    assert_eq!(outcomes(&journal(&run).await).len(), 1);
}

#[tokio::test]
async fn one_of_two_calls_is_stopped_and_the_run_goes_on() {
    let gate = Gate::shut();
    let turns = [
        Turn::new().call_with_id("call_1", "slow", json!({})).call_with_id(
            "call_2",
            "waiting",
            json!({}),
        ),
        Turn::new().text("One of them."),
    ];
    let agent = scripted(turns)
        .tool(FakeTool::new("slow", Behaviour::WaitsToBeStopped))
        .tool(gate.tool("waiting"))
        .build()
        .expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let mut n_started = 0;
    wait_for(&run, |event| {
        n_started += usize::from(started(event).is_some());
        (n_started == 2).then_some(())
    })
    .await;
    // The start is recorded a moment before the call can be stopped.
    let call_id = CallId::new("call_1");
    in_time(async {
        while !run.cancel_call(&call_id) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    wait_for(&run, |event| matches!(event, Event::ToolFinished { .. }).then_some(())).await;
    gate.open();
    let reply = in_time(run.reply()).await.expect("it answers");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Completed, "One of them."));
    let journal = journal(&run).await;
    let outcomes = outcomes(&journal);
    assert_eq!(outcomes[0], ("call_1", &ToolOutcome::Cancelled));
    assert_eq!((outcomes[1].0, outcomes[1].1.is_success()), ("call_2", true));
    // It is over, and there never was another.
    assert!(!run.cancel_call(&call_id));
    assert!(!run.cancel_call(&CallId::new("call_9")));
}

#[tokio::test]
async fn an_agent_finds_its_runs_by_id() {
    let agent = scripted([Turn::new().text("Well, ").wait_forever()]).build();
    let agent = agent.expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let id = run.id().clone();
    assert!(agent.cancel(&id));
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!(reply.outcome, RunOutcome::Cancelled);
    assert!(!agent.cancel(&id), "it is over");
    assert!(!agent.cancel(&RunId::new("run_unknown")));
}

#[tokio::test]
async fn dropping_the_handle_loses_a_view_and_not_the_run() {
    let gate = Gate::shut();
    let agent = scripted([Turn::new().call("slow", json!({})), Turn::new().text("Done.")])
        .tool(gate.tool("slow"))
        .build()
        .expect("it can be made");
    let conversation = agent.conversation();
    let (sender, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let chat = conversation.stream_chat("Go.").on_tool_end(|_, _| ()).on_tool_start(|_| ());
    let chat = chat.on_token(move |token| sender.send(token.to_owned()));
    let run = chat.start().await.expect("it starts");
    wait_for(&run, started).await;
    drop(run);
    gate.open();
    // The callbacks go on as well.
    assert_eq!(in_time(tokens.recv()).await.as_deref(), Some("Done."));
}

#[tokio::test]
async fn dropping_the_question_after_its_start_does_not_stop_the_run() {
    let gate = Gate::shut();
    let agent = scripted([Turn::new().call("slow", json!({})), Turn::new().text("Done.")])
        .tool(gate.tool("slow"))
        .build()
        .expect("it can be made");
    let conversation = agent.conversation();
    let (sender, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let chat = conversation.stream_chat("Go.");
    let chat = chat.on_tool_start(move |name| sender.send(name.to_owned()));
    let mut asking = chat.into_future();
    let name = in_time(async {
        tokio::select! {
            _ = &mut asking => panic!("the gate is shut"),
            name = starts.recv() => name,
        }
    })
    .await;
    assert_eq!(name.as_deref(), Some("slow"));
    drop(asking);
    gate.open();
    // The callbacks go with the end of the run.
    in_time(async { while starts.recv().await.is_some() {} }).await;
    let history = conversation.history().await.expect("it has one");
    assert_eq!(history.last(), Some(&turnwire::Item::assistant("Done.")));
}

#[tokio::test]
async fn nothing_is_asked_until_somebody_waits() {
    let model = turnwire_models::Scripted::new([Turn::new().text("Hello.")]);
    let agent = turnwire::Agent::builder().model(model.clone()).build().expect("it can be made");
    drop(agent.stream_chat("Go."));
    drop(agent.stream_chat("Go.").into_future());
    assert_eq!(model.prompts(), []);
    let reply = agent.stream_chat("Go.").await.expect("it answers");
    assert_eq!((reply.text.as_str(), model.prompts().len()), ("Hello.", 1));
}

fn careful() -> (FakeTool, [Turn; 2]) {
    let tool = returns("delete", "gone").with(|spec| spec.needs_approval = true);
    let turns = [
        Turn::new().call_with_id("call_1", "delete", json!({ "path": "/tmp" })),
        Turn::new().text("Done."),
    ];
    (tool, turns)
}

fn asks(event: &Event) -> Option<CallId> {
    match event {
        Event::ApprovalRequested { call_id, .. } => Some(call_id.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn a_person_may_approve() {
    let (tool, turns) = careful();
    let agent = scripted(turns).tool(tool.clone()).build().expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let call_id = wait_for(&run, asks).await;
    assert_eq!(tool.n_calls(), 0);
    let resolve = |decision| run.resolve(&call_id, decision);
    assert!(resolve(Decision::Approved).await.expect("it is recorded"));
    let reply = in_time(run.reply()).await.expect("it answers");
    assert_eq!((reply.text.as_str(), tool.n_calls()), ("Done.", 1));
    let late = Decision::Denied { reason: String::new() };
    assert!(!resolve(late).await.expect("it is not waiting any more"));
}

#[tokio::test]
async fn a_person_may_deny_and_say_why() {
    let (tool, turns) = careful();
    let agent = scripted(turns).tool(tool.clone()).build().expect("it can be made");
    let ends = Notes::<String>::new();
    let book = ends.clone();
    let chat = agent.stream_chat("Go.").on_tool_end(move |_, result| book.write(result));
    let run = chat.start().await.expect("it starts");
    let call_id = wait_for(&run, asks).await;
    assert!(!run.resolve(&CallId::new("call_9"), Decision::Approved).await.expect("no such call"));
    let no = Decision::Denied { reason: "not today".to_owned() };
    assert!(run.resolve(&call_id, no).await.expect("it is recorded"));
    let reply = in_time(run.reply()).await.expect("it answers");
    assert_eq!((reply.text.as_str(), tool.n_calls()), ("Done.", 0));
    assert_eq!(ends.take(), ["Error: denied by the user: not today"]);
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_can_be_cancelled() {
    let (tool, turns) = careful();
    let agent = scripted(turns).tool(tool.clone()).build().expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let call_id = wait_for(&run, asks).await;
    run.cancel();
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!((reply.outcome, tool.n_calls()), (RunOutcome::Cancelled, 0));
    let late = run.resolve(&call_id, Decision::Approved).await;
    assert!(!late.expect("it is not waiting any more"));
}

/// The process goes away: every run is ended properly, and says so.
#[tokio::test]
async fn shutting_down_ends_every_run() {
    let agent = scripted([Turn::new().text("Well, ").wait_forever()]).build();
    let agent = agent.expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    wait_for(&run, said).await;
    in_time(agent.shut_down()).await;
    match run.reply().now_or_never() {
        Some(Err(Error::Failed { failure, .. })) => assert_eq!(failure.code, "engine_stopped"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_may_have_limits_of_its_own() {
    let agent = scripted([Turn::new().text("Well, ").wait_forever()]).build();
    let limits =
        turnwire::Limits { wall_clock: Duration::from_millis(50), ..turnwire::Limits::default() };
    let chat = agent.expect("it can be made").stream_chat("Go.").limits(limits);
    let reply = in_time(chat.into_future()).await.expect("it answers");
    let reason = turnwire::IncompleteReason::TimeLimit;
    assert_eq!(reply.outcome, RunOutcome::Incomplete { reason });
    assert_eq!(reply.text, "Well, ");
}
