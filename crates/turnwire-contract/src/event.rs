//! The events of a run.
//!
//! A run is the ordered list of its events. Everything a client sees (an SSE frame, a WebSocket
//! message, a line in a terminal, the final answer) is derived from that list alone. Four rules
//! hold:
//!
//! * **Events are facts.** Their names are in the past tense. A recorded event is never changed or
//!   removed. New fields have a default; no field is renamed or changes its type. An unknown event
//!   type was recorded by a newer version and is passed on unchanged.
//! * **Events are independent of any wire format.** No name or shape in this file is taken from a
//!   provider or a client API; those belong to `turnwire-models` and `turnwire-surfaces`.
//! * **Every start has exactly one end**, and the end carries the outcome. A call has two starts:
//!   it is *announced* when the model names it and *started* when a tool begins to execute it.
//! * **Deltas are append-only, and the finishing event carries the whole value.** A reader that
//!   needs no deltas can skip them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    Actor, Annotation, ApprovalAnswer, BudgetUse, CallId, Completeness, Decision, DiscoveryOutcome,
    Effect, Failure, InputId, ItemId, LeftOut, Logprob, Reply, RunId, RunOutcome, RunRequest, Seq,
    Timestamp, ToolClaims, ToolOutcome, ToolRef, Usage, ports::Finish,
};

/// Type of the placeholder for an event whose record cannot be decoded.
const UNREADABLE: &str = "unreadable";

/// An event and its position in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedEvent {
    /// ID of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Sequence number of the event within the run: 1, 2, 3, … without gaps.
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// Time at which the event was recorded.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run was created and waits for a worker.
    RunQueued {
        /// The request that created the run. Projections need no other information about it.
        #[schema(value_type = Object)]
        request: Arc<RunRequest>,
    },
    /// A worker started the run.
    RunStarted,
    /// Another worker took the run over, because its previous worker failed or released it.
    RunTakenOver {
        /// Number of workers so far, including this one; 2 at the first takeover.
        attempt: u32,
        /// Name of the worker that took over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// Time at which the previous worker was last heard of. Not set if it released the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_heard: Option<Timestamp>,
    },

    /// A request to the model starts.
    TurnStarted {
        /// Number of the turn within the run, starting at 1.
        turn: u32,
    },
    /// The model was unreachable, or its stream broke before the first output. The turn is tried
    /// again.
    TurnRetried {
        /// Number of the turn.
        turn: u32,
        /// Number of the next attempt; 2 after the first failure.
        attempt: u32,
        /// Why the previous attempt failed.
        reason: Failure,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
    },
    /// The worker failed during this turn. The output of the turn so far is superseded.
    TurnAbandoned {
        /// Number of the turn. It is requested again.
        turn: u32,
    },
    /// A part of the model's answer could not be parsed and was skipped. The turn continues.
    PartSkipped {
        /// Number of the turn.
        turn: u32,
        /// Size of the skipped part in bytes.
        bytes: u64,
        /// Why the part was skipped.
        reason: Failure,
    },
    /// The model finished the turn.
    TurnFinished {
        /// Number of the turn.
        turn: u32,
        /// Why the model stopped.
        finish: Finish,
        /// Tokens used by the turn.
        usage: Usage,
    },

    /// The model started a message.
    MessageStarted {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
    },
    /// The provider sent log probabilities of the tokens of the next `text_added`.
    LogprobsAdded {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Log probabilities, one entry per token.
        logprobs: Vec<Logprob>,
    },
    /// The model appended text to the message.
    TextAdded {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The new text only.
        text: String,
    },
    /// The model appended text to its refusal.
    RefusalAdded {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The new text only.
        text: String,
    },
    /// A citation was attached to the text so far.
    AnnotationAdded {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The citation.
        annotation: Annotation,
    },
    /// The message is finished.
    MessageFinished {
        /// ID of the message.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The full text.
        text: String,
        /// The full refusal; empty if the model did not refuse.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        refusal: String,
        /// Whether the model completed the message.
        completeness: Completeness,
    },
    /// The model appended text to its reasoning. The first such event of an item also starts the
    /// item.
    ReasoningAdded {
        /// ID of the reasoning item.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The new text only.
        text: String,
    },
    /// The reasoning item is finished.
    ReasoningFinished {
        /// ID of the reasoning item.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// The full text.
        text: String,
        /// Opaque signature or encrypted content from the provider. It is sent back to the provider
        /// unchanged.
        #[serde(rename = "seal", default, skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
        /// Whether the model completed the reasoning.
        completeness: Completeness,
    },

    /// A tool server is being asked for its list of tools.
    DiscoveryStarted {
        /// ID of the output item for this listing.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Label of the server.
        server: String,
    },
    /// The listing of a server's tools ended, successfully or not.
    ToolsDiscovered {
        /// ID of the output item for this listing.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Label of the server.
        server: String,
        /// The tools, or why the listing failed.
        outcome: DiscoveryOutcome,
        /// Tools that the server listed and that are not offered to the model, with the reasons.
        #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
        left_out: LeftOut,
    },

    /// The model started a tool call. Its arguments follow.
    CallAnnounced {
        /// ID of the call, unique within the run.
        #[schema(value_type = String)]
        call_id: CallId,
        /// ID of the output item for the call.
        #[schema(value_type = String)]
        item_id: ItemId,
        /// Name and kind of the tool.
        tool: ToolRef,
    },
    /// The model appended text to the arguments of a call.
    ArgumentsAdded {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The new text only: raw JSON, or plain text for a custom tool.
        text: String,
    },
    /// The arguments of a call are finished.
    ArgumentsFinished {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The full arguments: raw JSON, or plain text for a custom tool.
        arguments: String,
        /// Whether the model completed the arguments. A call with incomplete arguments is never
        /// executed.
        completeness: Completeness,
    },

    /// The call needs approval before it is executed.
    ApprovalRequested {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Time at which the call is denied automatically. Not set if the approval does not expire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// The tool's current description, if approval is required because the tool's definition
        /// differs from the trusted one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<String>,
        /// Effect class of the tool, set together with `server_claims`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<Effect>,
        /// What the tool's server claims about the tool, if it claims anything. Not verified.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_claims: Option<ToolClaims>,
        /// The budget that is used to its soft limit, if that is why a person is asked. The answer
        /// decides whether the run goes on, and all calls of the turn wait for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<BudgetUse>)]
        budget: Option<Box<BudgetUse>>,
    },
    /// The approval was decided: by a person, by an earlier decision for the conversation, or by
    /// expiry.
    ApprovalResolved {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The decision.
        decision: Decision,
        /// Arguments that replace the model's, as raw JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// Whether the decision holds for the rest of the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remember: bool,
        /// Source of the decision: the name of a surface, such as `/ws/chat`, or `expiry`, `nobody`
        /// or `conversation`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Who decided. Not set if the server needs no key, or if nobody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Actor>)]
        actor: Option<Arc<Actor>>,
    },

    /// Execution of the call starts. Recorded before the tool does anything.
    ToolStarted {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Number of the attempt, starting at 1.
        attempt: u32,
        /// Short description of the arguments for display; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        label: String,
    },
    /// The tool continues as a background task with an ID. After a takeover the task is polled by
    /// this ID, and the tool is not called again.
    ToolTaskStarted {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// ID of the task, assigned by the tool.
        task: String,
    },
    /// The tool entered a new phase.
    ToolPhase {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Name of the phase, as reported by the tool.
        phase: String,
    },
    /// The tool reported progress.
    ToolProgressed {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Amount of work done, in the tool's own unit.
        progress: f64,
        /// Total amount of work, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What the tool is doing, if it reports this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The tool sent part of its output early.
    ToolOutputAdded {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The new text only.
        text: String,
    },
    /// The tool asks the user for input and waits.
    InputRequested {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// ID of the request. A call may have several.
        #[schema(value_type = String)]
        input_id: InputId,
        /// Text of the request, as sent by the tool.
        message: String,
        /// JSON Schema of the requested input.
        #[schema(value_type = Object)]
        schema: Value,
        /// Time at which the request expires. Not set if it lasts as long as the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// Whether the request comes from the engine and not from the tool: the outcome of the call
        /// is unknown, and a person settles it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown_outcome: bool,
    },
    /// A request for input was resolved. Recorded exactly once per request.
    InputResolved {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// ID of the request.
        #[schema(value_type = String)]
        input_id: InputId,
        /// The reply that the tool received.
        reply: Reply,
        /// Source of the reply: the name of a surface, or `expiry`, `nobody` or `call_over`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The tool has reported nothing for a while and is still running.
    ToolStayedSilent {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Time since the tool was started, in milliseconds.
        elapsed_ms: u64,
    },
    /// The tool failed with a retryable error and is called again.
    ToolRetried {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Number of the next attempt; 2 after the first failure.
        attempt: u32,
        /// Why the previous attempt failed.
        reason: Failure,
    },
    /// The call ended. Recorded exactly once per call.
    ToolFinished {
        /// ID of the call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Outcome of the call.
        outcome: ToolOutcome,
        /// Execution time in milliseconds; 0 if the tool was never started.
        duration_ms: u64,
    },

    /// The run ended. Always the last event, recorded exactly once.
    RunFinished {
        /// Outcome of the run.
        outcome: RunOutcome,
        /// Tokens used by all turns.
        usage: Usage,
    },

    /// An event type recorded by a newer version. It is stored and passed on unchanged. During an
    /// upgrade, old and new workers share runs.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

/// The pattern that matches any of the named events: `any_event!(RunStarted Unknown)`. With a
/// field, which all of them have, it binds the field: `any_event!(TextAdded RefusalAdded; text)`.
///
/// It keeps a match short that names every event, so that the compiler reports the place when a
/// new event is added.
#[doc(hidden)]
#[macro_export]
macro_rules! any_event {
    ($first:ident $($other:ident)*) => {
        $crate::Event::$first { .. } $(| $crate::Event::$other { .. })*
    };
    ($first:ident $($other:ident)*; $field:ident) => {
        $crate::Event::$first { $field, .. } $(| $crate::Event::$other { $field, .. })*
    };
}

impl Event {
    /// Returns the ID of the call that this event concerns, if any.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            any_event!(
                CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved
                ToolStarted ToolTaskStarted ToolPhase ToolProgressed ToolOutputAdded InputRequested
                InputResolved ToolStayedSilent ToolRetried ToolFinished; call_id
            ) => Some(call_id),
            any_event!(
                RunQueued RunStarted RunTakenOver RunFinished Unknown TurnStarted TurnRetried
                TurnAbandoned PartSkipped TurnFinished MessageStarted LogprobsAdded TextAdded
                RefusalAdded AnnotationAdded MessageFinished ReasoningAdded ReasoningFinished
                DiscoveryStarted ToolsDiscovered
            ) => None,
        }
    }

    /// Creates an approval request without expiry.
    pub fn approval_requested(call_id: CallId) -> Self {
        Self::ApprovalRequested {
            call_id,
            expires_at: None,
            changed: None,
            effect: None,
            server_claims: None,
            budget: None,
        }
    }

    /// Creates a takeover by an unnamed worker.
    pub fn taken_over(attempt: u32) -> Self {
        Self::RunTakenOver { attempt, worker: None, last_heard: None }
    }

    /// Creates the event for a decided approval.
    pub fn approval_resolved(call_id: CallId, answer: impl Into<ApprovalAnswer>) -> Self {
        let ApprovalAnswer { decision, arguments, remember, by, actor } = answer.into();
        Self::ApprovalResolved { call_id, decision, arguments, remember, by, actor }
    }

    /// Returns the approval answer if this is [`Event::ApprovalResolved`].
    pub fn answer(&self) -> Option<ApprovalAnswer> {
        let Self::ApprovalResolved { decision, arguments, remember, by, actor, .. } = self else {
            return None;
        };
        let (decision, arguments, by) = (decision.clone(), arguments.clone(), by.clone());
        Some(ApprovalAnswer { decision, arguments, remember: *remember, by, actor: actor.clone() })
    }

    /// Creates the placeholder for an event whose record cannot be decoded.
    pub fn unreadable() -> Self {
        Self::Unknown(Map::from_iter([("type".to_owned(), UNREADABLE.into())]))
    }

    /// Whether this is the placeholder for an event whose record cannot be decoded.
    pub fn is_unreadable(&self) -> bool {
        let is_it =
            |fields: &Map<String, Value>| fields.get("type").is_some_and(|t| t == UNREADABLE);
        matches!(self, Self::Unknown(fields) if is_it(fields))
    }

    /// Whether this is the last event of a run.
    pub fn ends_the_run(&self) -> bool {
        matches!(self, Self::RunFinished { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C24: an event of a newer version is stored unchanged and has no effect.
    #[test]
    fn an_event_of_a_newer_version_passes_through() {
        let text = r#"{"type":"tool_priced","call_id":"call_1","cost":{"cents":3}}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert!(matches!(event, Event::Unknown(_)), "{event:?}");
        assert_eq!(event.call_id(), None);
        assert!(!event.ends_the_run());
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        // A new field on a known event does not make the event unknown.
        let text = r#"{"type":"turn_started","turn":2,"mood":"good"}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(event, Event::TurnStarted { turn: 2 });
    }

    /// C24: a list of tools that an earlier version recorded says of none that it is left out, and
    /// is written as it was.
    #[test]
    fn a_list_of_an_earlier_version_leaves_nothing_out() {
        let text = r#"{"type":"tools_discovered","item_id":"mcpl_1","server":"docs","outcome":{"status":"listed","tools":[]}}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        let Event::ToolsDiscovered { left_out, .. } = &event else { panic!("{event:?}") };
        assert!(left_out.is_empty());
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
}
