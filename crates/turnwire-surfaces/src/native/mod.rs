//! The current state of a run: the snapshot that `GET /v1/runs/{id}` returns.
//!
//! A client that joins late need not read a run from its first event. The snapshot is the fold of
//! all events so far, and `last_seq` is the seq of the last one: events after it can be applied to
//! the snapshot. The fold is the same for a run in progress and for one that has ended.
//!
//! It lists the workers that executed the run, and for each call the arguments, every attempt with
//! its time and the reason for the retry, and the outcome, with the states that all surfaces share
//! ([`CallState`]). Texts are those of the journal, so that deltas can be appended; only `text`,
//! which is for display, is cleaned. Results are a summary and a reference, because they may be
//! large.

use serde::Serialize;
use turnwire_contract::{
    Annotation, CallId, Completeness, ConversationId, Decision, Effect, Failure, InputId, ItemId,
    LeftOut, Reply, RunId, RunOutcome, Seq, Timestamp, ToolClaims, ToolKind, Usage,
};
use utoipa::ToSchema;

use crate::{BudgetQuestion, call_state::CallState, clean::clean};

mod fold;

pub use fold::SnapshotFold;

/// Current state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunSnapshot {
    /// ID of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Status of the run.
    pub status: RunWord,
    /// How the run ended, with the reason. Null while it is in progress.
    pub outcome: Option<RunOutcome>,
    /// If the run is stalled: the model, server or tool it needs and no worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Name of the model.
    pub model: String,
    /// ID of the conversation. Null if the run belongs to none.
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
    /// ID of the run it continues, if it belongs to no conversation.
    #[schema(value_type = Option<String>)]
    pub continues: Option<RunId>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time at which a worker started the run.
    pub started_at: Option<Timestamp>,
    /// Time at which the run ended.
    pub finished_at: Option<Timestamp>,
    /// Workers that executed the run, in order. There is more than one after a takeover.
    pub workers: Vec<WorkerSnapshot>,
    /// Number of the current turn; 0 before the first one.
    pub turn: u32,
    /// The pending retry of a model request. Null if there is none.
    pub retrying: Option<Retrying>,
    /// Number of unreadable parts in the model's output that were skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_parts: u32,
    /// The answer so far: the text of the last turn that has any.
    pub text: String,
    /// All messages and reasoning of the model, in order.
    pub said: Vec<TextSnapshot>,
    /// All tool calls, in order.
    pub calls: Vec<CallSnapshot>,
    /// All tool servers that were asked to list their tools.
    pub servers: Vec<ServerSnapshot>,
    /// Tokens used so far.
    pub usage: Usage,
    /// Seq of the last event in this snapshot. Pass it as `after` to get later events.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
}

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunWord {
    /// No worker has started it.
    Queued,
    /// A worker executes it.
    Running,
    /// It waits for a person: an approval, or the answer to a question of a tool.
    NeedsInput,
    /// Its worker has died, and no other worker has the model, server or tool it needs.
    Stalled,
    /// The model gave its answer, or the run ended with calls for the client.
    Completed,
    /// It stopped at a limit.
    Incomplete,
    /// The model or the engine could not continue.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// The time a worker executed a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkerSnapshot {
    /// Number of the worker in the order of execution, from 1.
    pub attempt: u32,
    /// Time at which the worker started or took over the run.
    pub since: Timestamp,
    /// Time at which it ended the run, or of its last event before a takeover. Missing while it
    /// executes the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it took the run over from another worker.
    pub taken_over: bool,
    /// Name of the worker, if it took the run over and has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time at which the worker before it was last heard of, if that one died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_last_heard: Option<Timestamp>,
}

/// A retry of a model request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Retrying {
    /// Number of the attempt; 2 for the first retry.
    pub attempt: u32,
    /// Why the attempt before failed.
    pub reason: Failure,
    /// Delay before the retry, in milliseconds.
    pub delay_ms: u64,
    /// Time at which the retry was decided.
    pub at: Timestamp,
}

/// A message or reasoning text of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextSnapshot {
    /// ID of the item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Whether it is a message or reasoning.
    pub kind: TextKind,
    /// Number of the turn, from 1.
    pub turn: u32,
    /// State of the text.
    pub state: TextState,
    /// The text so far.
    pub text: String,
    /// The refusal so far. Missing if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// Sources of the text. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
}

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// A message to the user.
    Message,
    /// Reasoning of the model.
    Reasoning,
}

/// State of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextState {
    /// More text may follow.
    Open,
    /// The model finished the text.
    Complete,
    /// The text was cut off.
    Cut,
    /// The worker died; a text that follows replaces this one.
    Superseded,
}

/// State of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallSnapshot {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// ID of the output item of the call.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Name of the tool.
    pub tool: String,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the tool's server. Null if the tool has none.
    pub server: Option<String>,
    /// Number of the turn in which the model made the call; 0 for calls that came with the request.
    pub turn: u32,
    /// State of the call.
    pub state: CallState,
    /// The arguments so far, as JSON text.
    pub arguments: String,
    /// Whether the arguments are complete.
    pub arguments_complete: bool,
    /// Time at which the model named the call.
    pub announced_at: Timestamp,
    /// The approval of the call. Null if none was requested.
    pub approval: Option<ApprovalSnapshot>,
    /// Questions that the tool asked the user. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputSnapshot>,
    /// All attempts to execute the call.
    pub attempts: Vec<AttemptSnapshot>,
    /// Time at which the first attempt started.
    pub started_at: Option<Timestamp>,
    /// Time at which the call ended.
    pub finished_at: Option<Timestamp>,
    /// Execution time in milliseconds. Null until the call ends.
    pub duration_ms: Option<u64>,
    /// Latest progress of the tool. Null if it reported none.
    pub progress: Option<ProgressSnapshot>,
    /// Partial output of the tool: the last 32 KiB. Missing if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_so_far: String,
    /// Summary of the result on one line. Null until the call ends.
    pub summary: Option<String>,
    /// Why the call failed. Null otherwise.
    pub failure: Option<Failure>,
    /// Size of the full result in bytes, if the call succeeded.
    pub result_bytes: Option<u64>,
    /// Path of the full result, if the call succeeded: `/v1/runs/{run_id}/calls/{call_id}/result`.
    pub result_ref: Option<String>,
}

/// Approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApprovalSnapshot {
    /// Time of the approval request. Null if an earlier run requested it.
    pub requested_at: Option<Timestamp>,
    /// Time of the decision.
    pub resolved_at: Option<Timestamp>,
    /// The decision. Null while it is pending.
    pub decision: Option<Decision>,
    /// Time at which the approval request expires. Missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The new definition of the tool, if it differs from the one that was approved before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// Effect class of the tool. Present with `server_claims`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the tool's server claims about the tool. Not verified. Missing if it claims nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_claims: Option<ToolClaims>,
    /// The budget that the approval is about, if that is why it is asked for. The answer decides
    /// whether the run goes on, and all calls of the turn wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetQuestion>,
    /// The model's arguments, if the user replaced them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_from: Option<String>,
    /// Whether the decision applies to the rest of the conversation. Missing if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Where the decision was made, such as `/v1/runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A question that a tool asked the user.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputSnapshot {
    /// ID of the question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// Text of the question.
    pub message: String,
    /// JSON schema of the answer.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// Time of the question.
    pub requested_at: Timestamp,
    /// Time at which the question expires. Missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whether the outcome of the call is unknown and the answer settles it. The question then
    /// comes from Turnwire, not from the tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_outcome: bool,
    /// The answer. Null while the tool waits for it.
    pub reply: Option<Reply>,
}

/// One attempt to execute a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttemptSnapshot {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time at which the attempt started.
    pub at: Timestamp,
    /// Why the attempt before failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Failure>,
}

/// Latest progress of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ProgressSnapshot {
    /// Current phase, as named by the tool.
    pub phase: Option<String>,
    /// Work done so far, in the tool's own unit.
    pub progress: Option<f64>,
    /// Total amount of work, in the same unit.
    pub total: Option<f64>,
    /// What the tool is doing.
    pub message: Option<String>,
    /// Time of the tool's last report. Null if it has not reported since it started.
    pub heard_at: Option<Timestamp>,
    /// Execution time in milliseconds when the tool was last found silent.
    pub silent_at_ms: Option<u64>,
}

/// A tool server that was asked to list its tools.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServerSnapshot {
    /// Label of the server.
    pub server: String,
    /// ID of the output item of the listing.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Names of its tools. Null while it is being asked, or if it failed.
    pub tools: Option<Vec<String>>,
    /// Why the listing failed. Null otherwise.
    pub failure: Option<Failure>,
    /// Tools that it listed and that the model is not offered, with the reasons.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl RunWord {
    /// The status of a run with this outcome.
    pub fn at_end(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed => Self::Completed,
            RunOutcome::Incomplete { .. } => Self::Incomplete,
            RunOutcome::Failed { .. } => Self::Failed,
            RunOutcome::Cancelled => Self::Cancelled,
        }
    }
}

impl TextSnapshot {
    /// Whether it can be part of the answer.
    fn is_answer(&self) -> bool {
        self.kind == TextKind::Message && self.state != TextState::Superseded
    }

    fn is_empty(&self) -> bool {
        clean(&self.text).is_empty() && clean(&self.refusal).is_empty()
    }
}

impl TextState {
    fn of(completeness: Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self::Complete,
            Completeness::Cut => Self::Cut,
            Completeness::Superseded => Self::Superseded,
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
