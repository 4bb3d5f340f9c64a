//! The progress of a call as an activity: a snapshot first, then what changes.

use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{Event, RecordedEvent, ToolKind, any_event};

use super::event::{AgUiEvent, Out, PatchOperation};
use crate::{call_state::CallState, calls::Call, clean::clean, words};

/// Type of our activities.
pub(super) const ACTIVITY_TYPE: &str = "turnwire.tool";

/// What a tool is doing.
#[derive(Debug)]
pub(super) struct Activity {
    content: Content,
    /// The content that the client has; `None` before the snapshot.
    sent: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize)]
struct Content {
    call_id: String,
    tool: String,
    kind: ToolKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    state: CallState,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// How long the tool has been silent; missing after its next report.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

impl Activity {
    /// The activity of a call that reports for the first time.
    pub(super) fn new(call: &Call, tool: &str) -> Self {
        let content = Content {
            call_id: call.call_id.to_string(),
            tool: tool.to_owned(),
            kind: call.tool.kind,
            server: call.tool.server.clone(),
            label: call.label().into_owned(),
            state: CallState::Running,
            note: None,
            phase: None,
            progress: None,
            total: None,
            message: None,
            silent_ms: None,
            attempt: None,
        };
        Self { content, sent: None }
    }

    /// Whether an event about a call starts its activity.
    pub(super) fn starts_with(event: &Event) -> bool {
        matches!(
            event,
            any_event!(ToolPhase ToolProgressed ToolOutputAdded ToolStayedSilent ToolRetried)
        )
    }

    /// Applies an event about the call.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the projection has matched every event")]
    pub(super) fn note(&mut self, call: &Call, recorded: &RecordedEvent) {
        let content = &mut self.content;
        if let Some(state) = CallState::after(&recorded.event) {
            content.state = state;
        }
        let note = words::tool_note(call, &recorded.event, recorded.at);
        content.note = note.or(content.note.take());
        content.silent_ms = None;
        match &recorded.event {
            Event::ToolPhase { phase, .. } => content.phase = Some(clean(phase).into_owned()),
            Event::ToolProgressed { progress, total, message, .. } => {
                content.progress = finite(Some(*progress));
                content.total = finite(*total);
                content.message = message.as_deref().map(|message| clean(message).into_owned());
            }
            Event::ToolStayedSilent { elapsed_ms, .. } => {
                content.silent_ms = Some(call.silent_ms(*elapsed_ms, recorded.at));
            }
            Event::ToolStarted { attempt, .. } | Event::ToolRetried { attempt, .. } => {
                content.attempt = Some(*attempt);
            }
            Event::ToolFinished { outcome, .. } => {
                content.note = Some(words::call_outcome(outcome));
            }
            _ => {}
        }
    }

    /// Sends what the client does not have yet.
    pub(super) fn send(&mut self, out: &mut Out) {
        let Ok(Value::Object(content)) = serde_json::to_value(&self.content) else { return };
        let message_id = format!("progress_{}", self.content.call_id);
        let activity_type = ACTIVITY_TYPE;
        let Some(before) = self.sent.replace(content.clone()) else {
            out.send(AgUiEvent::ActivitySnapshot { message_id, activity_type, content });
            return;
        };
        let patch = changes(&before, content);
        if !patch.is_empty() {
            out.send(AgUiEvent::ActivityDelta { message_id, activity_type, patch });
        }
    }
}

/// JSON has no other numbers.
fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}

/// The operations that turn `before` into `after`. The names of the members need no escapes.
fn changes(before: &Map<String, Value>, after: Map<String, Value>) -> Vec<PatchOperation> {
    let is_gone = |name: &&String| !after.contains_key(*name);
    let gone = before.keys().filter(is_gone).map(|name| format!("/{name}"));
    let mut patch: Vec<PatchOperation> = gone.map(|path| PatchOperation::Remove { path }).collect();
    for (name, value) in after {
        if before.get(&name) != Some(&value) {
            patch.push(PatchOperation::Add { path: format!("/{name}"), value });
        }
    }
    patch
}
