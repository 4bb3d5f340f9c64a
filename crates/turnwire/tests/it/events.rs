//! The typed stream of events, and the reply that is made of them.

use std::sync::Arc;

use futures::{StreamExt, future::join_all};
use serde_json::json;
use turnwire::{Agent, Event, RecordedEvent, RunOutcome, Seq, Usage};
use turnwire_engine::MemoryJournal;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::invariants;

use crate::helpers::{Gate, in_time, journal, returns, scripted};

fn names(journal: &[Arc<RecordedEvent>]) -> Vec<String> {
    let name = |recorded: &Arc<RecordedEvent>| {
        let event = serde_json::to_value(&recorded.event).expect("every event can be written");
        event["type"].as_str().expect("every event has a type").to_owned()
    };
    journal.iter().map(name).collect()
}

#[tokio::test]
async fn a_run_is_told_from_its_first_event_to_its_last() {
    let agent = scripted([
        Turn::new().text("I look.").call("look", json!({ "query": "rust" })),
        Turn::new().text("I saw."),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let mut events = run.events().await.expect("it can be followed");
    let mut seen = Vec::new();
    while let Some(recorded) = in_time(events.next()).await {
        seen.push(recorded.expect("the journal can be read"));
    }
    assert_eq!(
        names(&seen),
        [
            "run_queued",
            "run_started",
            "turn_started",
            "message_started",
            "text_added",
            "message_finished",
            "call_announced",
            "arguments_added",
            "arguments_finished",
            "turn_finished",
            "tool_started",
            "tool_finished",
            "turn_started",
            "message_started",
            "text_added",
            "message_finished",
            "turn_finished",
            "run_finished",
        ]
    );
    let places: Vec<_> = seen.iter().map(|recorded| recorded.seq).collect();
    assert_eq!(places, (1..=18).map(Seq).collect::<Vec<_>>());
    assert!(seen.iter().all(|recorded| recorded.run_id == *run.id()));
    let wrong = invariants::violations(seen.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One comes at once, one in the middle, one after the end; all get everything.
#[tokio::test]
async fn a_late_subscriber_gets_everything() {
    let gate = Gate::shut();
    let agent = scripted([Turn::new().call("slow", json!({})), Turn::new().text("Done.")])
        .tool(gate.tool("slow"))
        .build()
        .expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let mut early = run.events().await.expect("it can be followed");
    let mut seen = Vec::new();
    loop {
        let recorded = in_time(early.next()).await.expect("more will come");
        let recorded = recorded.expect("the journal can be read");
        seen.push(Arc::clone(&recorded));
        if matches!(recorded.event, Event::ToolStarted { .. }) {
            break;
        }
    }
    let halfway = journal(&run);
    gate.open();
    let halfway = halfway.await;
    while let Some(recorded) = in_time(early.next()).await {
        seen.push(recorded.expect("the journal can be read"));
    }
    let late = journal(&run).await;
    assert_eq!(seen, late);
    assert_eq!(halfway, late);
    assert!(late.last().is_some_and(|last| last.event.ends_the_run()));
}

#[tokio::test]
async fn the_reply_has_the_answer_the_outcome_and_the_cost() {
    let usage =
        |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
    let agent = scripted([
        Turn::new().text("I look.").call("look", json!({})).usage(usage(10, 2)),
        Turn::new().text("I saw.").usage(usage(20, 3)),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    let reply = run.reply().await.expect("it answers");
    assert_eq!(&reply.run_id, run.id());
    assert_eq!((reply.text.as_str(), reply.refusal.as_str()), ("I saw.", ""));
    assert_eq!((reply.outcome.clone(), reply.usage), (RunOutcome::Completed, usage(30, 5)));
    // It can be asked for again.
    assert_eq!(run.reply().await.expect("it answers"), reply);
}

#[tokio::test]
async fn a_refusal_is_not_a_text() {
    let agent = scripted([Turn::new().refusal("I would rather not.")]).build();
    let reply = agent.expect("it can be made").stream_chat("Go.").await.expect("it answers");
    assert_eq!((reply.text.as_str(), reply.refusal.as_str()), ("", "I would rather not."));
    assert_eq!(reply.outcome, RunOutcome::Completed);
}

/// Whoever waits for a reply gets it, even if the journal of the run is forgotten meanwhile.
#[tokio::test]
async fn replies_outlive_the_journal_in_memory() {
    let agent = Agent::builder()
        .model(Scripted::new([Turn::new().text("Hello.")]).looping())
        .event_log(Arc::new(MemoryJournal::keeping(1)))
        .build()
        .expect("it can be made");
    let runs = join_all((0..50).map(|_| agent.stream_chat("Go.").start())).await;
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>().expect("all start");
    for reply in join_all(runs.iter().map(turnwire::Run::reply)).await {
        assert_eq!(reply.expect("it answers").text, "Hello.");
    }
}
