//! How many events per second each projection takes, on one core.
//!
//! Two journals: one of a model that mostly talks, one of a model that mostly uses tools. And
//! the hard case of S4: an argument of ten megabytes that comes byte by byte.

use std::{hint::black_box, sync::Arc};

use turnwire_contract::{
    CallId, Completeness, Event, Finish, Item, ItemId, RecordedEvent, RunId, RunOutcome,
    RunRequest, Seq, Timestamp, ToolKind, ToolOutcome, ToolOutput, ToolRef, Usage,
};
use turnwire_surfaces::{
    Answer, Callbacks, ChatEvents, Messages, PartialJson, Projection, ToolCallbacks, Transcript,
    preview,
};
use turnwire_testkit::stopwatch::measure;

const N_SAMPLES: usize = 100;
const TEN_MEGABYTES: usize = 10_000_000;

fn main() {
    for journal in ["text", "tools"] {
        let events = journal_of(journal);
        let tools = ToolCallbacks { start: true, end: true };
        watch(&format!("callbacks {journal}"), &events, || Callbacks::new(tools));
        watch(&format!("chat_events {journal}"), &events, ChatEvents::new);
        watch(&format!("messages {journal}"), &events, Messages::new);
        watch(&format!("transcript {journal}"), &events, Transcript::new);
        measure(&format!("answer {journal}"), N_SAMPLES, events.len(), || Answer::of(&events));
    }
    for n_bytes in [TEN_MEGABYTES / 10, TEN_MEGABYTES] {
        argument(&format!("argument_byte_by_byte {n_bytes}"), n_bytes, |_| {});
        argument(&format!("argument_byte_by_byte_with_label {n_bytes}"), n_bytes, |partial| {
            black_box(preview::label(&[], partial));
        });
    }
}

fn watch<P: Projection>(name: &str, events: &[RecordedEvent], projection: impl Fn() -> P) {
    measure(name, N_SAMPLES, events.len(), || {
        let mut projection = projection();
        for recorded in events {
            black_box(projection.project(recorded));
        }
    });
}

fn argument(name: &str, n_bytes: usize, look: impl Fn(&PartialJson)) {
    measure(name, 3, n_bytes, || {
        let mut partial = PartialJson::new();
        partial.push("{\"content\":\"");
        for _ in 0..n_bytes {
            partial.push("x");
            look(&partial);
        }
        partial
    });
}

fn journal_of(name: &str) -> Vec<RecordedEvent> {
    let mut events = vec![
        Event::RunQueued { request: Arc::new(RunRequest::new("m", vec![Item::user("Hello?")])) },
        Event::RunStarted,
    ];
    match name {
        "text" => talk(&mut events, 1, 50_000),
        _ => (1..=500).for_each(|turn| {
            talk(&mut events, turn, 5);
            use_tool(&mut events, turn);
        }),
    }
    events.push(Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() });
    let numbered = (1..).zip(events);
    numbered
        .map(|(seq, event)| {
            let at = Timestamp::from_micros(i64::try_from(seq).unwrap_or_default());
            RecordedEvent { run_id: RunId::new("run_1"), seq: Seq(seq), at, event }
        })
        .collect()
}

fn talk(events: &mut Vec<Event>, turn: u32, n_deltas: usize) {
    let item_id = ItemId::new(format!("msg_{turn}"));
    events.push(Event::TurnStarted { turn });
    events.push(Event::MessageStarted { item_id: item_id.clone() });
    let delta = |_| Event::TextAdded { item_id: item_id.clone(), text: " wörd".to_owned() };
    events.extend((0..n_deltas).map(delta));
    let (text, refusal) = (" wörd".repeat(n_deltas), String::new());
    let completeness = Completeness::Complete;
    events.push(Event::MessageFinished { item_id, text, refusal, completeness });
    events.push(Event::TurnFinished { turn, finish: Finish::CalledTools, usage: Usage::default() });
}

fn use_tool(events: &mut Vec<Event>, turn: u32) {
    let call_id = CallId::new(format!("call_{turn}"));
    let item_id = ItemId::new(format!("fc_{turn}"));
    let tool = ToolRef { name: "search".to_owned(), kind: ToolKind::Function, server: None };
    events.push(Event::CallAnnounced { call_id: call_id.clone(), item_id, tool });
    let arguments = r#"{"query": "how many events per second", "limit": 10}"#;
    let pieces = arguments.split_inclusive(' ');
    events.extend(
        pieces
            .map(|text| Event::ArgumentsAdded { call_id: call_id.clone(), text: text.to_owned() }),
    );
    let (whole, completeness) = (arguments.to_owned(), Completeness::Complete);
    events.push(Event::ArgumentsFinished {
        call_id: call_id.clone(),
        arguments: whole,
        completeness,
    });
    events.push(Event::ToolStarted { call_id: call_id.clone(), attempt: 1, label: String::new() });
    events.extend([1.0, 2.0, 3.0].map(|progress| Event::ToolProgressed {
        call_id: call_id.clone(),
        progress,
        total: Some(3.0),
        message: Some("pages".to_owned()),
    }));
    let outcome = ToolOutcome::Succeeded { output: ToolOutput::text("a result ".repeat(100)) };
    events.push(Event::ToolFinished { call_id, outcome, duration_ms: 12 });
}
