//! Events without their texts, for share links that withhold them.
//!
//! Everything that a viewer sees is a projection of the events, so it is enough to redact those:
//! what is derived from them, such as summaries, sizes and titles, is derived from what is left.
//!
//! The rule names what stays: which tools were called, when, in which order, and how that ended.
//! Arguments, results, and every text and number that people, models, tools, servers or workers
//! contributed are replaced. A field that is added to an event later has to be decided here,
//! because every event is taken apart and put together again.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use turnwire_contract::{
    Annotation, Decision, DiscoveryOutcome, Event, Failure, RecordedEvent, Reply, RunOutcome,
    RunRequest, ToolOutcome, ToolOutput, ToolSpec, Usage, any_event,
};

use crate::native::RunSnapshot;

/// Replaces a text.
pub const REDACTED: &str = "[redacted]";

/// Replaces arguments, which are JSON.
const REDACTED_JSON: &str = r#"{"redacted":true}"#;

/// Returns the event without its texts. Its seq and its time stay.
pub fn redacted(recorded: &RecordedEvent) -> RecordedEvent {
    let RecordedEvent { run_id, seq, at, event } = recorded;
    RecordedEvent { run_id: run_id.clone(), seq: *seq, at: *at, event: event_of(event) }
}

/// The event without who asked for the run, with which scopes, in which trace, and who decided, for
/// readers outside of the tenant.
pub fn without_actors(recorded: Arc<RecordedEvent>) -> Arc<RecordedEvent> {
    let mut recorded = recorded;
    if let Event::RunQueued { request } = &recorded.event
        && (request.asked_by.is_some()
            || !request.granted_scopes.is_empty()
            || request.trace.is_some())
        && let Event::RunQueued { request } = &mut Arc::make_mut(&mut recorded).event
    {
        let request = Arc::make_mut(request);
        (request.asked_by, request.trace) = (None, None);
        request.granted_scopes.clear();
    } else if let Event::ApprovalResolved { actor: Some(_), .. } = &recorded.event
        && let Event::ApprovalResolved { actor, .. } = &mut Arc::make_mut(&mut recorded).event
    {
        *actor = None;
    }
    recorded
}

impl RunSnapshot {
    /// The snapshot of redacted events, without what is not made from events.
    pub fn redacted(mut self) -> Self {
        self.stalled = self.stalled.map(|_| REDACTED.to_owned());
        for call in &mut self.calls {
            // The size is that of the placeholder, and the result cannot be requested.
            call.result_bytes = None;
            call.result_ref = None;
        }
        self
    }
}

fn event_of(event: &Event) -> Event {
    match event {
        Event::RunQueued { request } => Event::RunQueued { request: Arc::new(request_of(request)) },
        Event::RunTakenOver { attempt, worker: _, last_heard } => {
            Event::RunTakenOver { attempt: *attempt, worker: None, last_heard: *last_heard }
        }
        Event::TurnRetried { turn, attempt, reason, delay_ms } => Event::TurnRetried {
            turn: *turn,
            attempt: *attempt,
            reason: failure_of(reason),
            delay_ms: *delay_ms,
        },
        Event::PartSkipped { turn, bytes: _, reason } => {
            Event::PartSkipped { turn: *turn, bytes: 0, reason: failure_of(reason) }
        }
        Event::TurnFinished { turn, finish, usage: _ } => {
            Event::TurnFinished { turn: *turn, finish: *finish, usage: Usage::default() }
        }
        Event::RunFinished { outcome, usage: _ } => {
            Event::RunFinished { outcome: run_outcome(outcome), usage: Usage::default() }
        }
        // A newer version knows what is in it.
        Event::Unknown(fields) => {
            let kind = fields.get("type").filter(|kind| kind.is_string()).cloned();
            Event::Unknown(kind.into_iter().map(|kind| ("type".to_owned(), kind)).collect())
        }
        any_event!(
            DiscoveryStarted RunStarted TurnStarted TurnAbandoned MessageStarted
        ) => event.clone(),
        // The names and our reasons, as the names of the other tools.
        Event::ToolsDiscovered { item_id, server, outcome, left_out } => Event::ToolsDiscovered {
            item_id: item_id.clone(),
            server: server.clone(),
            outcome: discovery(outcome),
            left_out: left_out.clone(),
        },
        any_event!(
            LogprobsAdded TextAdded RefusalAdded AnnotationAdded MessageFinished ReasoningAdded
            ReasoningFinished
        ) => speech_of(event),
        any_event!(
            CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved
            InputRequested InputResolved
        ) => call_of(event),
        any_event!(
            ToolStarted ToolTaskStarted ToolPhase ToolProgressed ToolOutputAdded ToolStayedSilent
            ToolRetried ToolFinished
        ) => tool_of(event),
    }
}

/// What the model says. Deltas become empty, so that their number says nothing about the length.
#[expect(clippy::wildcard_enum_match_arm, reason = "`event_of` has matched every event")]
fn speech_of(event: &Event) -> Event {
    let (text, nothing) = (REDACTED.to_owned(), String::new());
    match event {
        Event::LogprobsAdded { item_id, .. } => {
            Event::LogprobsAdded { item_id: item_id.clone(), logprobs: Vec::new() }
        }
        Event::TextAdded { item_id, .. } => {
            Event::TextAdded { item_id: item_id.clone(), text: nothing }
        }
        Event::RefusalAdded { item_id, .. } => {
            Event::RefusalAdded { item_id: item_id.clone(), text: nothing }
        }
        Event::AnnotationAdded { item_id, annotation: _ } => {
            let annotation = Annotation { kind: REDACTED.to_owned(), source: json!({}) };
            Event::AnnotationAdded { item_id: item_id.clone(), annotation }
        }
        Event::MessageFinished { item_id, completeness, .. } => Event::MessageFinished {
            item_id: item_id.clone(),
            text,
            refusal: nothing,
            completeness: *completeness,
        },
        Event::ReasoningAdded { item_id, .. } => {
            Event::ReasoningAdded { item_id: item_id.clone(), text: nothing }
        }
        Event::ReasoningFinished { item_id, completeness, .. } => Event::ReasoningFinished {
            item_id: item_id.clone(),
            text,
            encrypted_content: None,
            completeness: *completeness,
        },
        _ => Event::Unknown(Map::new()),
    }
}

/// A call, and what people are asked about it.
#[expect(clippy::wildcard_enum_match_arm, reason = "`event_of` has matched every event")]
fn call_of(event: &Event) -> Event {
    match event {
        Event::CallAnnounced { .. } => event.clone(),
        Event::ArgumentsAdded { call_id, .. } => {
            Event::ArgumentsAdded { call_id: call_id.clone(), text: String::new() }
        }
        Event::ArgumentsFinished { call_id, completeness, .. } => Event::ArgumentsFinished {
            call_id: call_id.clone(),
            arguments: REDACTED_JSON.to_owned(),
            completeness: *completeness,
        },
        // Amounts are left out, as those of usage are.
        Event::ApprovalRequested {
            call_id,
            expires_at,
            changed,
            effect,
            server_claims,
            budget: _,
        } => Event::ApprovalRequested {
            call_id: call_id.clone(),
            expires_at: *expires_at,
            changed: changed.as_ref().map(|_| REDACTED.to_owned()),
            effect: *effect,
            server_claims: *server_claims,
            budget: None,
        },
        Event::ApprovalResolved { call_id, decision, arguments, remember, by, actor: _ } => {
            Event::ApprovalResolved {
                call_id: call_id.clone(),
                decision: match decision {
                    Decision::Approved => Decision::Approved,
                    Decision::Denied { .. } => Decision::Denied { reason: String::new() },
                },
                arguments: arguments.as_ref().map(|_| REDACTED_JSON.to_owned()),
                remember: *remember,
                by: by.clone(),
                actor: None,
            }
        }
        Event::InputRequested { call_id, input_id, expires_at, unknown_outcome, .. } => {
            Event::InputRequested {
                call_id: call_id.clone(),
                input_id: input_id.clone(),
                message: REDACTED.to_owned(),
                schema: json!({}),
                expires_at: *expires_at,
                unknown_outcome: *unknown_outcome,
            }
        }
        Event::InputResolved { call_id, input_id, reply, by } => Event::InputResolved {
            call_id: call_id.clone(),
            input_id: input_id.clone(),
            reply: match reply {
                Reply::Accepted { .. } => Reply::Accepted { content: Map::new() },
                Reply::Declined => Reply::Declined,
                Reply::Cancelled => Reply::Cancelled,
            },
            by: by.clone(),
        },
        _ => Event::Unknown(Map::new()),
    }
}

/// What a tool does.
#[expect(clippy::wildcard_enum_match_arm, reason = "`event_of` has matched every event")]
fn tool_of(event: &Event) -> Event {
    match event {
        Event::ToolStarted { call_id, attempt, label: _ } => {
            Event::ToolStarted { call_id: call_id.clone(), attempt: *attempt, label: String::new() }
        }
        Event::ToolTaskStarted { call_id, task: _ } => {
            Event::ToolTaskStarted { call_id: call_id.clone(), task: REDACTED.to_owned() }
        }
        Event::ToolPhase { call_id, phase: _ } => {
            Event::ToolPhase { call_id: call_id.clone(), phase: REDACTED.to_owned() }
        }
        Event::ToolProgressed { call_id, .. } => Event::ToolProgressed {
            call_id: call_id.clone(),
            progress: 0.0,
            total: None,
            message: None,
        },
        Event::ToolOutputAdded { call_id, text: _ } => {
            Event::ToolOutputAdded { call_id: call_id.clone(), text: String::new() }
        }
        Event::ToolStayedSilent { .. } => event.clone(),
        Event::ToolRetried { call_id, attempt, reason } => Event::ToolRetried {
            call_id: call_id.clone(),
            attempt: *attempt,
            reason: failure_of(reason),
        },
        Event::ToolFinished { call_id, outcome, duration_ms } => Event::ToolFinished {
            call_id: call_id.clone(),
            outcome: tool_outcome(outcome),
            duration_ms: *duration_ms,
        },
        _ => Event::Unknown(Map::new()),
    }
}

/// Only the model, and how calls and questions are handled. The input, the tenant, metadata and
/// addresses of servers go.
fn request_of(request: &RunRequest) -> RunRequest {
    RunRequest {
        approvals: request.approvals,
        inputs: request.inputs,
        unknown_outcomes: request.unknown_outcomes,
        calls_only: request.calls_only,
        parallel_tool_calls: request.parallel_tool_calls,
        ..RunRequest::new(request.model.as_str(), Vec::new())
    }
}

/// The code is one of ours.
fn failure_of(failure: &Failure) -> Failure {
    Failure { message: REDACTED.to_owned(), ..failure.clone() }
}

fn run_outcome(outcome: &RunOutcome) -> RunOutcome {
    match outcome {
        RunOutcome::Failed { failure } => RunOutcome::Failed { failure: failure_of(failure) },
        RunOutcome::Completed | RunOutcome::Incomplete { .. } | RunOutcome::Cancelled => {
            outcome.clone()
        }
    }
}

fn tool_outcome(outcome: &ToolOutcome) -> ToolOutcome {
    let text = || REDACTED.to_owned();
    match outcome {
        ToolOutcome::Succeeded { .. } => {
            ToolOutcome::Succeeded { output: ToolOutput::text(text()) }
        }
        ToolOutcome::Failed { failure } => ToolOutcome::Failed { failure: failure_of(failure) },
        ToolOutcome::TimedOut { after_ms } => ToolOutcome::TimedOut { after_ms: *after_ms },
        ToolOutcome::Cancelled => ToolOutcome::Cancelled,
        ToolOutcome::Denied { .. } => ToolOutcome::Denied { reason: String::new() },
        ToolOutcome::InvalidArguments { .. } => ToolOutcome::InvalidArguments { message: text() },
        ToolOutcome::NotFound { .. } => ToolOutcome::NotFound { message: text() },
        ToolOutcome::Skipped { .. } => ToolOutcome::Skipped { reason: text() },
        ToolOutcome::OutcomeUnknown { .. } => ToolOutcome::OutcomeUnknown { message: text() },
    }
}

/// Names of tools stay, without their descriptions and schemas.
fn discovery(outcome: &DiscoveryOutcome) -> DiscoveryOutcome {
    match outcome {
        DiscoveryOutcome::Listed { tools } => {
            let spec = |spec: &Arc<ToolSpec>| {
                Arc::new(ToolSpec {
                    parameters: Value::Object(Map::new()),
                    kind: spec.kind,
                    server: spec.server.clone(),
                    effect: spec.effect,
                    ..ToolSpec::new(spec.name.as_str(), "")
                })
            };
            DiscoveryOutcome::Listed { tools: tools.iter().map(spec).collect() }
        }
        DiscoveryOutcome::Failed { failure } => {
            DiscoveryOutcome::Failed { failure: failure_of(failure) }
        }
    }
}

#[cfg(test)]
#[path = "redaction_tests.rs"]
mod tests;
