use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::json;
use turnwire_contract::{
    Annotation, CallId, Completeness, Decision, DiscoveryOutcome, Event, Failure, Finish, Image,
    IncompleteReason, Item, ItemId, Logprob, Recorded, Reply, RunId, RunOutcome, RunRequest, Seq,
    Timestamp, ToolKind, ToolOutcome, ToolOutput, ToolRef, ToolSpec, Usage, tool::KeptAside,
};
use utoipa::PartialSchema;

use super::*;

const ONE_SECOND: Duration = Duration::from_secs(1);

fn failure() -> Failure {
    Failure::new("tool_failed", "no")
}

fn outcomes() -> Vec<ToolOutcome> {
    let text = || "why".to_owned();
    let output = ToolOutput {
        text: "20".to_owned(),
        structured: Some(json!({ "product": 20 })),
        images: vec![Image { media_type: "image/png".to_owned(), base64: "AA==".to_owned() }],
        short: Some("20".to_owned()),
        rest: Some(KeptAside { blob: "blob_1".into(), bytes: 99 }),
    };
    vec![
        ToolOutcome::Succeeded { output },
        ToolOutcome::Succeeded { output: ToolOutput::text("") },
        ToolOutcome::Failed { failure: failure() },
        ToolOutcome::TimedOut { after_ms: 5 },
        ToolOutcome::Cancelled,
        ToolOutcome::Denied { reason: text() },
        ToolOutcome::InvalidArguments { message: text() },
        ToolOutcome::NotFound { message: text() },
        ToolOutcome::Skipped { reason: text() },
        ToolOutcome::OutcomeUnknown { message: text() },
    ]
}

fn run_outcomes() -> Vec<RunOutcome> {
    use IncompleteReason as Reason;
    let reasons = [
        Reason::MaxOutputTokens,
        Reason::MaxOutputBytes,
        Reason::MaxTurns,
        Reason::MaxToolCalls,
        Reason::TimeLimit,
        Reason::RepeatedCall,
        Reason::ContentFilter,
    ];
    let mut outcomes = reasons.map(|reason| RunOutcome::Incomplete { reason }).to_vec();
    outcomes.push(RunOutcome::Completed);
    outcomes.push(RunOutcome::Failed { failure: failure() });
    outcomes.push(RunOutcome::Cancelled);
    outcomes
}

fn tools() -> Vec<ToolRef> {
    let kinds = [
        ToolKind::Function,
        ToolKind::Client,
        ToolKind::Mcp,
        ToolKind::WebSearch,
        ToolKind::FileSearch,
    ];
    let server = |kind| (kind == ToolKind::Mcp).then(|| "docs".to_owned());
    kinds.map(|kind| ToolRef { name: "x".to_owned(), kind, server: server(kind) }).to_vec()
}

/// What people are asked, and what they answer.
fn asking() -> Vec<Event> {
    let call_id = || CallId::from("call_1");
    let text = || "text".to_owned();
    vec![
        Event::approval_requested(call_id()),
        Event::ApprovalRequested {
            call_id: call_id(),
            expires_at: Some(Timestamp::from_micros(1)),
            changed: Some(text()),
        },
        Event::approval_resolved(call_id(), Decision::Approved),
        Event::approval_resolved(call_id(), Decision::Denied { reason: text() }),
        Event::ApprovalResolved {
            call_id: call_id(),
            decision: Decision::Approved,
            arguments: Some(text()),
            remember: true,
            by: Some(text()),
        },
        Event::InputRequested {
            call_id: call_id(),
            input_id: "inp_1".into(),
            message: text(),
            schema: json!({ "type": "object" }),
            expires_at: Some(Timestamp::from_micros(1)),
        },
        Event::InputResolved {
            call_id: call_id(),
            input_id: "inp_1".into(),
            reply: Reply::Accepted { content: serde_json::Map::new() },
            by: Some(text()),
        },
        Event::InputResolved {
            call_id: call_id(),
            input_id: "inp_1".into(),
            reply: Reply::Declined,
            by: None,
        },
        Event::InputResolved {
            call_id: call_id(),
            input_id: "inp_1".into(),
            reply: Reply::Cancelled,
            by: None,
        },
    ]
}

/// At least one event of each kind, with every shape that its fields can have.
fn events() -> Vec<Event> {
    let item_id = || ItemId::from("item_1");
    let call_id = || CallId::from("call_1");
    let text = || "text".to_owned();
    let usage = Usage { input_tokens: 1, cached_tokens: 2, output_tokens: 3, reasoning_tokens: 4 };
    let spec = Arc::new(ToolSpec::new("x", "does x"));
    let request = RunRequest::new("test", vec![Item::user("hi")]);
    let mut events = vec![
        Event::RunQueued { request: Arc::new(request) },
        Event::RunStarted,
        Event::RunTakenOver { attempt: 2 },
        Event::TurnStarted { turn: 1 },
        Event::TurnRetried { turn: 1, attempt: 2, reason: failure(), delay_ms: 500 },
        Event::PartSkipped { turn: 1, bytes: 40, reason: failure().retry_after(Some(ONE_SECOND)) },
        Event::TurnAbandoned { turn: 1 },
        Event::MessageStarted { item_id: item_id() },
        Event::LogprobsAdded {
            item_id: item_id(),
            logprobs: vec![Logprob {
                token: text(),
                logprob: -0.25,
                bytes: Some(vec![120]),
                top: vec![Logprob { token: text(), logprob: -1.5, bytes: None, top: Vec::new() }],
            }],
        },
        Event::TextAdded { item_id: item_id(), text: text() },
        Event::RefusalAdded { item_id: item_id(), text: text() },
        Event::AnnotationAdded {
            item_id: item_id(),
            annotation: Annotation { kind: text(), source: json!({ "url": "u" }) },
        },
        Event::MessageFinished {
            item_id: item_id(),
            text: text(),
            refusal: text(),
            completeness: Completeness::Complete,
        },
        Event::MessageFinished {
            item_id: item_id(),
            text: text(),
            refusal: String::new(),
            completeness: Completeness::Cut,
        },
        Event::ReasoningAdded { item_id: item_id(), text: text() },
        Event::ReasoningFinished {
            item_id: item_id(),
            text: text(),
            seal: Some(text()),
            completeness: Completeness::Superseded,
        },
        Event::DiscoveryStarted { item_id: item_id(), server: text() },
        Event::ToolsDiscovered {
            item_id: item_id(),
            server: text(),
            outcome: DiscoveryOutcome::Listed { tools: vec![spec] },
        },
        Event::ToolsDiscovered {
            item_id: item_id(),
            server: text(),
            outcome: DiscoveryOutcome::Failed { failure: failure() },
        },
        Event::ArgumentsAdded { call_id: call_id(), text: text() },
        Event::ArgumentsFinished {
            call_id: call_id(),
            arguments: text(),
            completeness: Completeness::Complete,
        },
        Event::ToolStarted { call_id: call_id(), attempt: 1, label: text() },
        Event::ToolTaskStarted { call_id: call_id(), task: text() },
        Event::ToolPhase { call_id: call_id(), phase: text() },
        Event::ToolProgressed {
            call_id: call_id(),
            progress: 1.5,
            total: Some(3.0),
            message: Some(text()),
        },
        Event::ToolOutputAdded { call_id: call_id(), text: text() },
        Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 15_000 },
        Event::ToolRetried { call_id: call_id(), attempt: 2, reason: failure() },
    ];
    events.extend(asking());
    let reasons = [
        Finish::Answered,
        Finish::CalledTools,
        Finish::Length,
        Finish::ContentFilter,
        Finish::Interrupted,
    ];
    events.extend(reasons.map(|finish| Event::TurnFinished { turn: 1, finish, usage }));
    let announced = |tool| Event::CallAnnounced { call_id: call_id(), item_id: item_id(), tool };
    events.extend(tools().into_iter().map(announced));
    let finished = |outcome| Event::ToolFinished { call_id: call_id(), outcome, duration_ms: 1 };
    events.extend(outcomes().into_iter().map(finished));
    let ended = |outcome| Event::RunFinished { outcome, usage };
    events.extend(run_outcomes().into_iter().map(ended));
    events
}

/// The name of each kind. A new kind of event does not compile without a name here, and the
/// tests below then want an example of it in [`events`].
fn name_of(event: &Event) -> &'static str {
    match event {
        Event::RunQueued { .. } => "run_queued",
        Event::RunStarted => "run_started",
        Event::RunTakenOver { .. } => "run_taken_over",
        Event::TurnStarted { .. } => "turn_started",
        Event::TurnRetried { .. } => "turn_retried",
        Event::PartSkipped { .. } => "part_skipped",
        Event::TurnAbandoned { .. } => "turn_abandoned",
        Event::TurnFinished { .. } => "turn_finished",
        Event::MessageStarted { .. } => "message_started",
        Event::LogprobsAdded { .. } => "logprobs_added",
        Event::TextAdded { .. } => "text_added",
        Event::RefusalAdded { .. } => "refusal_added",
        Event::AnnotationAdded { .. } => "annotation_added",
        Event::MessageFinished { .. } => "message_finished",
        Event::ReasoningAdded { .. } => "reasoning_added",
        Event::ReasoningFinished { .. } => "reasoning_finished",
        Event::DiscoveryStarted { .. } => "discovery_started",
        Event::ToolsDiscovered { .. } => "tools_discovered",
        Event::CallAnnounced { .. } => "call_announced",
        Event::ArgumentsAdded { .. } => "arguments_added",
        Event::ArgumentsFinished { .. } => "arguments_finished",
        Event::ApprovalRequested { .. } => "approval_requested",
        Event::ApprovalResolved { .. } => "approval_resolved",
        Event::ToolStarted { .. } => "tool_started",
        Event::ToolTaskStarted { .. } => "tool_task_started",
        Event::ToolPhase { .. } => "tool_phase",
        Event::ToolProgressed { .. } => "tool_progressed",
        Event::ToolOutputAdded { .. } => "tool_output_added",
        Event::InputRequested { .. } => "input_requested",
        Event::InputResolved { .. } => "input_resolved",
        Event::ToolStayedSilent { .. } => "tool_stayed_silent",
        Event::ToolRetried { .. } => "tool_retried",
        Event::ToolFinished { .. } => "tool_finished",
        Event::RunFinished { .. } => "run_finished",
        Event::Unknown(_) => unreachable!("nobody records what nobody knows"),
    }
}

/// The variants of a schema, by the value of their `type`.
fn schema_of_events() -> Vec<(String, Value)> {
    let schema = serde_json::to_value(NativeEvent::schema()).unwrap();
    let variants = schema["oneOf"].as_array().unwrap();
    let named = |variant: &Value| {
        let name = variant["properties"]["type"]["enum"][0].as_str().unwrap();
        (name.to_owned(), variant.clone())
    };
    variants.iter().map(named).collect()
}

#[test]
fn every_event_reads_and_writes_as_the_journal_has_it() {
    for event in events() {
        let at = Timestamp::from_micros(1_500_000);
        let recorded = Recorded { run_id: RunId::new("run_1"), seq: Seq(7), at, event };
        let written = serde_json::to_value(&recorded).unwrap();
        let read: NativeRecord = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }
}

#[test]
fn the_schema_has_every_event_with_all_of_its_fields() {
    let schema = schema_of_events();
    let mut seen = BTreeSet::new();
    for event in events() {
        let name = name_of(&event);
        seen.insert(name.to_owned());
        let (_, variant) = schema.iter().find(|(known, _)| known == name).unwrap();
        let written = serde_json::to_value(&event).unwrap();
        for field in written.as_object().unwrap().keys() {
            assert!(!variant["properties"][field].is_null(), "{name}.{field} is not documented");
        }
        for required in variant["required"].as_array().unwrap() {
            let required = required.as_str().unwrap();
            assert!(written.get(required).is_some(), "{name}.{required} is not always there");
        }
    }
    let documented: BTreeSet<String> = schema.into_iter().map(|(name, _)| name).collect();
    assert_eq!(seen, documented);
    assert_eq!(documented.len(), 34);
}
