//! The vocabulary: everything that can happen during a run.
//!
//! A run *is* the ordered list of its events. Whatever anyone sees of it (an SSE frame, a
//! WebSocket message, a line in a terminal, the final answer) is derived from that list and
//! from nothing else. So there are four rules:
//!
//! * **Events are facts.** They are named in the past tense and are never changed or removed
//!   once recorded. New fields come with a default; none is renamed or re-typed. A kind that
//!   is not known here was recorded by a newer version, and is passed on unread.
//! * **Events are ours.** No name or shape in this file is borrowed from a provider or a wire
//!   format; those belong to `turnwire-models` and `turnwire-surfaces`.
//! * **Every start has one end**, and the end says how it ended. Two starts, though: a call is
//!   *announced* when the model names it and *started* when a tool begins to work on it.
//! * **Deltas are append-only, and the finishing event carries the whole value**, so that a
//!   reader who needs no deltas can skip them all.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    Annotation, ApprovalAnswer, CallId, Completeness, Decision, DiscoveryOutcome, Failure, InputId,
    ItemId, Logprob, Reply, RunId, RunOutcome, RunRequest, Seq, Timestamp, ToolOutcome, ToolRef,
    Usage, ports::Finish,
};

/// The type of an event whose record cannot be read.
const UNREADABLE: &str = "unreadable";

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedEvent {
    /// The run it belongs to.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Its place: 1, 2, 3, … without gaps.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run exists and waits to be worked on.
    RunQueued {
        /// What was asked for; all a projection ever needs to know of the request.
        #[schema(value_type = Object)]
        request: Arc<RunRequest>,
    },
    /// A worker has taken up the run.
    RunStarted,
    /// Another worker continues a run whose worker went away.
    RunTakenOver {
        /// 2 for the second worker, and so on.
        attempt: u32,
    },

    /// The model is being asked.
    TurnStarted {
        /// 1 for the first answer of this run.
        turn: u32,
    },
    /// The model could not be reached or broke off before its first word; it is asked again.
    TurnRetried {
        /// The turn that is tried again.
        turn: u32,
        /// 2 for the second try.
        attempt: u32,
        /// What went wrong.
        reason: Failure,
        /// How long the engine waits first.
        delay_ms: u64,
    },
    /// The worker died in the middle of this turn; what it had said so far is superseded.
    TurnAbandoned {
        /// The turn that will be asked for again.
        turn: u32,
    },
    /// A part of the answer could not be read and was left out; the rest goes on.
    PartSkipped {
        /// The turn whose answer has a gap.
        turn: u32,
        /// How many bytes the part had.
        bytes: u64,
        /// What went wrong.
        reason: Failure,
    },
    /// The model has said all it will say this time.
    TurnFinished {
        /// Which turn.
        turn: u32,
        /// Why it stopped.
        finish: Finish,
        /// What it cost.
        usage: Usage,
    },

    /// The model begins to speak.
    MessageStarted {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
    },
    /// The provider told how likely the tokens are of the text that comes next.
    LogprobsAdded {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The tokens.
        logprobs: Vec<Logprob>,
    },
    /// The model added `text` to its answer.
    TextAdded {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Only the new part.
        text: String,
    },
    /// The model added `text` to its refusal.
    RefusalAdded {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Only the new part.
        text: String,
    },
    /// A source was attached to the text so far.
    AnnotationAdded {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The source.
        annotation: Annotation,
    },
    /// The message is closed.
    MessageFinished {
        /// The message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// All of its text.
        text: String,
        /// All of its refusal; empty when the model did not refuse.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        refusal: String,
        /// Whether the model finished it, or it was cut.
        completeness: Completeness,
    },
    /// The model thought aloud. The first one of an item opens it.
    ReasoningAdded {
        /// The reasoning item.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Only the new part.
        text: String,
    },
    /// The reasoning item is closed.
    ReasoningFinished {
        /// The reasoning item.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// All of its text.
        text: String,
        /// The provider's opaque proof of the reasoning, to be handed back to it unread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<String>,
        /// Whether the model finished it, or it was cut.
        completeness: Completeness,
    },

    /// A tool server is being asked for its tools.
    DiscoveryStarted {
        /// The output item that stands for the question.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The server's label.
        server: String,
    },
    /// A tool server has answered, or not.
    ToolsDiscovered {
        /// The output item that stands for the question.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The server's label.
        server: String,
        /// What it answered.
        outcome: DiscoveryOutcome,
    },

    /// The model names a call; its arguments follow.
    CallAnnounced {
        /// The call, unique within the run.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The output item that stands for it.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Which tool, and of what kind.
        tool: ToolRef,
    },
    /// The model wrote more of the arguments.
    ArgumentsAdded {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Only the new part, as raw JSON text; of a custom tool, its input as it is.
        text: String,
    },
    /// The arguments are closed.
    ArgumentsFinished {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// All of them, as raw JSON text; of a custom tool, its input as it is.
        arguments: String,
        /// Cut arguments are shown and never executed.
        completeness: Completeness,
    },

    /// A person must allow the call first.
    ApprovalRequested {
        /// The call that waits.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Until when the answer may come: then the call is denied. For ever if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
        /// What the tool says of itself now, if that is why a person is asked: its definition
        /// is not the one that was trusted before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<String>,
    },
    /// A person has answered, now or earlier for the whole conversation, or nobody has in time.
    ApprovalResolved {
        /// The call that waited.
        #[schema(value_type = String)]
        call_id: CallId,
        /// What was decided.
        decision: Decision,
        /// The arguments to call the tool with instead of the model's, as raw JSON text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// Whether the answer holds for the rest of the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remember: bool,
        /// Where the answer came from: a surface, such as `/ws/chat`, or `expiry`, `nobody`,
        /// `conversation`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },

    /// A tool is about to work on the call; recorded before it does anything.
    ToolStarted {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// 1 for the first try.
        attempt: u32,
        /// The arguments in a few words, for people; empty if there is nothing to say.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        label: String,
    },
    /// The tool works on without us, under a name: whoever takes the run over asks for it by that
    /// name instead of calling the tool again.
    ToolTaskStarted {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The name, as the tool gave it.
        task: String,
    },
    /// The tool entered a phase of its work.
    ToolPhase {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The phase, in the tool's words.
        phase: String,
    },
    /// The tool told how far it is.
    ToolProgressed {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// How much is done, in the tool's own unit.
        progress: f64,
        /// How much there is, if the tool knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What it is doing, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The tool let out some of its output early.
    ToolOutputAdded {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Only the new part.
        text: String,
    },
    /// The tool asks a person for input, and waits.
    InputRequested {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The question: a call may have several.
        #[schema(value_type = String)]
        input_id: InputId,
        /// What is asked, in the tool's words.
        message: String,
        /// The JSON Schema of what it wants to know.
        #[schema(value_type = Object)]
        schema: Value,
        /// Until when the answer may come. For as long as the call lasts if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
    },
    /// The question of a tool is settled. Exactly one per question.
    InputResolved {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The question.
        #[schema(value_type = String)]
        input_id: InputId,
        /// What the tool was told.
        reply: Reply,
        /// Where the answer came from: a surface, or `expiry`, `nobody`, `call_over`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The tool has said nothing for a while, and is still being waited for.
    ToolStayedSilent {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// How long the tool has been at work altogether.
        elapsed_ms: u64,
    },
    /// The tool failed in a way that allows another try, and is called again.
    ToolRetried {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// 2 for the second try.
        attempt: u32,
        /// Why the try before it did not count.
        reason: Failure,
    },
    /// The call is over, one way or the other. Exactly one per call.
    ToolFinished {
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// How it ended.
        outcome: ToolOutcome,
        /// How long the tool worked; 0 if it never started.
        duration_ms: u64,
    },

    /// The run is over. Always last, always once.
    RunFinished {
        /// How it ended.
        outcome: RunOutcome,
        /// What all turns cost together.
        usage: Usage,
    },

    /// Something that a newer version recorded: kept, passed on as it is, and not understood.
    /// During an upgrade, old and new workers share their runs.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Event {
    /// The call this event is about, if it is about one.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::CallAnnounced { call_id, .. }
            | Self::ArgumentsAdded { call_id, .. }
            | Self::ArgumentsFinished { call_id, .. }
            | Self::ApprovalRequested { call_id, .. }
            | Self::ApprovalResolved { call_id, .. }
            | Self::ToolStarted { call_id, .. }
            | Self::ToolTaskStarted { call_id, .. }
            | Self::ToolPhase { call_id, .. }
            | Self::ToolProgressed { call_id, .. }
            | Self::ToolOutputAdded { call_id, .. }
            | Self::InputRequested { call_id, .. }
            | Self::InputResolved { call_id, .. }
            | Self::ToolStayedSilent { call_id, .. }
            | Self::ToolRetried { call_id, .. }
            | Self::ToolFinished { call_id, .. } => Some(call_id),
            Self::RunQueued { .. }
            | Self::RunStarted
            | Self::Unknown(_)
            | Self::RunTakenOver { .. }
            | Self::TurnStarted { .. }
            | Self::TurnRetried { .. }
            | Self::TurnAbandoned { .. }
            | Self::PartSkipped { .. }
            | Self::TurnFinished { .. }
            | Self::MessageStarted { .. }
            | Self::LogprobsAdded { .. }
            | Self::TextAdded { .. }
            | Self::RefusalAdded { .. }
            | Self::AnnotationAdded { .. }
            | Self::MessageFinished { .. }
            | Self::ReasoningAdded { .. }
            | Self::ReasoningFinished { .. }
            | Self::DiscoveryStarted { .. }
            | Self::ToolsDiscovered { .. }
            | Self::RunFinished { .. } => None,
        }
    }

    /// A person must allow the call, for as long as that takes.
    pub fn approval_requested(call_id: CallId) -> Self {
        Self::ApprovalRequested { call_id, expires_at: None, changed: None }
    }

    /// A person has answered so.
    pub fn approval_resolved(call_id: CallId, answer: impl Into<ApprovalAnswer>) -> Self {
        let ApprovalAnswer { decision, arguments, remember, by } = answer.into();
        Self::ApprovalResolved { call_id, decision, arguments, remember, by }
    }

    /// What a person has answered about a call, if that is what happened.
    pub fn answer(&self) -> Option<ApprovalAnswer> {
        let Self::ApprovalResolved { decision, arguments, remember, by, .. } = self else {
            return None;
        };
        let (decision, arguments, by) = (decision.clone(), arguments.clone(), by.clone());
        Some(ApprovalAnswer { decision, arguments, remember: *remember, by })
    }

    /// Stands for an event whose record cannot be read.
    pub fn unreadable() -> Self {
        Self::Unknown(Map::from_iter([("type".to_owned(), UNREADABLE.into())]))
    }

    /// Whether this stands for an event whose record cannot be read.
    pub fn is_unreadable(&self) -> bool {
        let is_it =
            |fields: &Map<String, Value>| fields.get("type").is_some_and(|t| t == UNREADABLE);
        matches!(self, Self::Unknown(fields) if is_it(fields))
    }

    /// Whether nothing can follow.
    pub fn ends_the_run(&self) -> bool {
        matches!(self, Self::RunFinished { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C24: an event of a newer version is kept as it is, and tells nothing.
    #[test]
    fn an_event_of_a_newer_version_passes_through() {
        let text = r#"{"type":"tool_priced","call_id":"call_1","cost":{"cents":3}}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert!(matches!(event, Event::Unknown(_)), "{event:?}");
        assert_eq!(event.call_id(), None);
        assert!(!event.ends_the_run());
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        // A new field on an event that is known does not make it unknown.
        let text = r#"{"type":"turn_started","turn":2,"mood":"good"}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(event, Event::TurnStarted { turn: 2 });
    }
}
