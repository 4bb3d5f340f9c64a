//! What the events of the extended profile carry: those that the official API does not have.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{CallId, Effect, InputId, ItemId, Reply, Timestamp, ToolClaims};
use utoipa::ToSchema;

use super::item::FailureNote;
use crate::BudgetQuestion;

/// A takeover by another worker.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TakenOver {
    /// Number of workers so far, including this one; 2 at the first takeover.
    pub attempt: u32,
}

/// An event of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnEvent {
    /// Number of the turn, starting at 1; 0 for calls that came with the request.
    pub turn: u32,
}

/// A retry of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnRetry {
    /// Number of the turn.
    pub turn: u32,
    /// Number of the next attempt; 2 after the first failure.
    pub attempt: u32,
    /// Why the previous attempt failed.
    pub failure: FailureNote,
    /// Delay before the next attempt, in milliseconds.
    pub delay_ms: u64,
}

/// A skipped part of the model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SkippedPart {
    /// Number of the turn.
    pub turn: u32,
    /// Size of the skipped part in bytes.
    pub bytes: u64,
    /// Why the part was skipped.
    pub failure: FailureNote,
}

/// Identification of a call, on every `turnwire:` event about a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolFacts {
    /// ID of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// ID of the call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output; absent before the item is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_index: Option<usize>,
    /// Name of the tool.
    pub name: String,
    /// Label of the tool's server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// Time of the event.
    pub at: Timestamp,
}

/// A decision on an approval request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ApprovalEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Whether the call is approved.
    pub approve: bool,
    /// Reason for a denial; may be empty.
    pub reason: String,
    /// Arguments that replace the model's, as raw JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether the decision holds for the rest of the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Source of the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An approval request for a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ApprovalRequestEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Time at which the call is denied automatically; absent if the request does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The tool's current description, if its definition differs from the trusted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// Effect class of the tool; present with `server_claims`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the tool's server claims about the tool, not verified; absent if it claims nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_claims: Option<ToolClaims>,
    /// The budget that the approval is about, if that is why it is asked for. The answer decides
    /// whether the run goes on, and all calls of the turn wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetQuestion>,
}

/// A tool's request for user input.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputRequestEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// ID of the request.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// Text of the request.
    pub message: String,
    /// JSON Schema of the requested input.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Time at which the request expires; absent if it lasts as long as the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The reply to a tool's request for user input.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputReplyEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// ID of the request.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// The reply that the tool received.
    pub reply: Reply,
    /// Source of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The start of a call's execution.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolStartEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Short description of the arguments for display; may be empty.
    pub label: String,
}

/// A new phase of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolPhaseEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Name of the phase, as reported by the tool.
    pub phase: String,
}

/// Progress of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolProgressEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Amount of work done, in the tool's own unit.
    pub progress: f64,
    /// Total amount of work, if known.
    pub total: Option<f64>,
    /// What the tool is doing, if it reports this.
    pub message: Option<String>,
}

/// Early output of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolOutputEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The new text only.
    pub delta: String,
}

/// A tool has reported nothing for a while and is still running.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolSilenceEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Time since the tool was started, in milliseconds.
    pub elapsed_ms: u64,
}

/// A retry of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolRetryEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Number of the next attempt; 2 after the first failure.
    pub attempt: u32,
    /// Why the previous attempt failed.
    pub failure: FailureNote,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolFinishEvent {
    /// Identification of the call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Whether the call succeeded.
    pub success: bool,
    /// Why the call failed; null if it succeeded.
    pub failure: Option<FailureNote>,
    /// Execution time in milliseconds.
    pub duration_ms: u64,
}
