//! The frames of the stream: one variant per event type that can be sent.
//!
//! One table makes the enum, the two lists of names and the look-ups, so they cannot drift
//! apart. Two rules hold for all of them: every frame has a `sequence_number`, and none but
//! `error` has a top-level `error` key, because the official clients raise on it.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{CallId, InputId, ItemId, Reply, Timestamp};
use utoipa::ToSchema;

use super::{
    item::{FailureNote, OutputContent, OutputItem, SummaryPart, TokenLogprob},
    response::{OwnCode, Response},
};

// The names are `tt`, because attributes lose a literal that comes through `literal`.
macro_rules! event_types {
    (
        strict { $($(#[$doc:meta])* $variant:ident($payload:ty) = $name:tt,)* }
        extended { $($(#[$own_doc:meta])* $own_variant:ident($own_payload:ty) = $own_name:tt,)* }
    ) => {
        /// One frame of the stream, with the official name as its `type`.
        #[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
        #[serde(tag = "type")]
        pub enum ResponseEvent {
            $($(#[$doc])* #[serde(rename = $name)] $variant($payload),)*
            $($(#[$own_doc])* #[serde(rename = $own_name)] $own_variant($own_payload),)*
        }

        impl ResponseEvent {
            /// What the strict profile can send: official names only.
            pub const TYPES_STRICT: &[&str] = &[$($name,)*];
            /// What the extended profile can send beside those.
            pub const TYPES_EXTENDED: &[&str] = &[$($own_name,)*];

            /// The `type` on the wire, and the `event:` line of the stream.
            pub fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    $(Self::$own_variant(_) => $own_name,)*
                }
            }

            /// Its place in the stream: 0, 1, 2, … without gaps.
            pub fn sequence_number(&self) -> u64 {
                match self {
                    $(Self::$variant(frame) => frame.sequence_number,)*
                    $(Self::$own_variant(frame) => frame.sequence_number,)*
                }
            }
        }
    };
}

event_types! {
    strict {
        /// The response exists.
        Created(ResponseFrame) = "response.created",
        /// The response waits to be worked on.
        Queued(ResponseFrame) = "response.queued",
        /// The response is being worked on.
        InProgress(ResponseFrame) = "response.in_progress",
        /// The response is whole. Nothing follows.
        Completed(ResponseFrame) = "response.completed",
        /// The response failed. Nothing follows.
        Failed(ResponseFrame) = "response.failed",
        /// The response stopped at a limit, or was cancelled. Nothing follows.
        Incomplete(ResponseFrame) = "response.incomplete",
        /// What went wrong; `response.failed` follows.
        Error(Box<ErrorFrame>) = "error",
        /// A new item; nothing about it comes before this.
        ItemAdded(ItemFrame) = "response.output_item.added",
        /// The item as it will stay.
        ItemDone(ItemFrame) = "response.output_item.done",
        /// A new part of a message.
        PartAdded(PartFrame) = "response.content_part.added",
        /// The part of the message as it will stay.
        PartDone(PartFrame) = "response.content_part.done",
        /// More text.
        TextDelta(TextDelta) = "response.output_text.delta",
        /// All of the text.
        TextDone(TextDone) = "response.output_text.done",
        /// A source of the text.
        AnnotationAdded(AnnotationFrame) = "response.output_text.annotation.added",
        /// More of a refusal.
        RefusalDelta(RefusalDelta) = "response.refusal.delta",
        /// All of the refusal.
        RefusalDone(RefusalDone) = "response.refusal.done",
        /// A new part of what was thought.
        SummaryPartAdded(SummaryPartFrame) = "response.reasoning_summary_part.added",
        /// The part of what was thought as it will stay.
        SummaryPartDone(SummaryPartFrame) = "response.reasoning_summary_part.done",
        /// More of what was thought.
        SummaryDelta(SummaryDelta) = "response.reasoning_summary_text.delta",
        /// All of what was thought.
        SummaryDone(SummaryDone) = "response.reasoning_summary_text.done",
        /// More of a function's arguments.
        FunctionArgumentsDelta(ArgumentsDelta) = "response.function_call_arguments.delta",
        /// All of a function's arguments.
        FunctionArgumentsDone(ArgumentsDone) = "response.function_call_arguments.done",
        /// More of a custom tool's input.
        CustomInputDelta(ArgumentsDelta) = "response.custom_tool_call_input.delta",
        /// All of a custom tool's input.
        CustomInputDone(InputDone) = "response.custom_tool_call_input.done",
        /// A server is being asked for its tools.
        McpListToolsInProgress(Box<ToolFrame>) = "response.mcp_list_tools.in_progress",
        /// The server told its tools.
        McpListToolsCompleted(Box<ToolFrame>) = "response.mcp_list_tools.completed",
        /// The server did not tell its tools.
        McpListToolsFailed(Box<ToolFrame>) = "response.mcp_list_tools.failed",
        /// A tool of a server was called, is at work, or has news.
        McpCallInProgress(Box<ToolFrame>) = "response.mcp_call.in_progress",
        /// More of the arguments of a server's tool.
        McpArgumentsDelta(ArgumentsDelta) = "response.mcp_call_arguments.delta",
        /// All of the arguments of a server's tool.
        McpArgumentsDone(ArgumentsDone) = "response.mcp_call_arguments.done",
        /// The server's tool worked.
        McpCallCompleted(Box<ToolFrame>) = "response.mcp_call.completed",
        /// The server's tool did not work, or was never started.
        McpCallFailed(Box<ToolFrame>) = "response.mcp_call.failed",
        /// A web search was called.
        WebSearchInProgress(Box<ToolFrame>) = "response.web_search_call.in_progress",
        /// The web search is at work, or has news.
        WebSearchSearching(Box<ToolFrame>) = "response.web_search_call.searching",
        /// The web search worked. Does not come for one that did not.
        WebSearchCompleted(Box<ToolFrame>) = "response.web_search_call.completed",
        /// A file search was called.
        FileSearchInProgress(Box<ToolFrame>) = "response.file_search_call.in_progress",
        /// The file search is at work, or has news.
        FileSearchSearching(Box<ToolFrame>) = "response.file_search_call.searching",
        /// The file search worked. Does not come for one that did not.
        FileSearchCompleted(Box<ToolFrame>) = "response.file_search_call.completed",
    }
    extended {
        /// A web search did not work.
        WebSearchFailed(Box<ToolFrame>) = "response.web_search_call.failed",
        /// A file search did not work.
        FileSearchFailed(Box<ToolFrame>) = "response.file_search_call.failed",
        /// Another worker continues the run.
        RunTakenOver(TakenOver) = "turnwire:run_taken_over",
        /// The model is being asked.
        TurnStarted(TurnNews) = "turnwire:turn_started",
        /// The model is asked again.
        TurnRetried(Box<TurnRetry>) = "turnwire:turn_retried",
        /// A part of the model's answer could not be read and was left out.
        PartSkipped(Box<SkippedPart>) = "turnwire:part_skipped",
        /// What the turn had said is superseded; its items are `incomplete`.
        TurnAbandoned(TurnNews) = "turnwire:turn_abandoned",
        /// A person must allow the call.
        ApprovalRequested(Box<AskNews>) = "turnwire:approval_requested",
        /// A person has answered.
        ApprovalResolved(Box<ApprovalNews>) = "turnwire:approval_resolved",
        /// A tool begins to work on the call.
        ToolStarted(Box<StartNews>) = "turnwire:tool_started",
        /// The tool entered a phase.
        ToolPhase(Box<PhaseNews>) = "turnwire:tool_phase",
        /// The tool told how far it is.
        ToolProgress(Box<ProgressNews>) = "turnwire:tool_progress",
        /// The tool let out some of its output.
        ToolOutputAdded(Box<OutputNews>) = "turnwire:tool_output_added",
        /// The tool asks a person something, and waits.
        InputRequested(Box<QuestionNews>) = "turnwire:input_requested",
        /// The question of the tool is settled.
        InputResolved(Box<ReplyNews>) = "turnwire:input_resolved",
        /// The tool has said nothing for a while.
        ToolSilent(Box<SilenceNews>) = "turnwire:tool_silent",
        /// The tool is called again.
        ToolRetried(Box<RetryNews>) = "turnwire:tool_retried",
        /// The call is over.
        ToolFinished(Box<FinishNews>) = "turnwire:tool_finished",
    }
}

/// The response object as of now.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ResponseFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The response.
    pub response: Box<Response>,
}

/// What went wrong, in the shape of both generations of clients: older ones read the top
/// level, newer ones and Open Responses read `error`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ErrorFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The official code that fits best.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The parameter at fault; always null here.
    pub param: Option<String>,
    /// The same once more.
    pub error: ErrorPayload,
    /// The code of ours.
    pub turnwire: OwnCode,
}

/// The nested half of an [`ErrorFrame`].
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ErrorPayload {
    /// The kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The official code that fits best.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The parameter at fault; always null here.
    pub param: Option<String>,
}

/// An item, new or finished.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The item's place in the output.
    pub output_index: usize,
    /// The item.
    pub item: Box<OutputItem>,
}

/// A part of a message, new or finished.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PartFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// The part.
    pub part: OutputContent,
}

/// More text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextDelta {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// Only the new text.
    pub delta: String,
    /// How likely each of its tokens was, if that was asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// All of the text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextDone {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// The text.
    pub text: String,
    /// How likely each of its tokens was, if that was asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// A source of the text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnnotationFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// The annotation's place in the part.
    pub annotation_index: usize,
    /// The source.
    #[schema(value_type = Object)]
    pub annotation: Value,
}

/// More of a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RefusalDelta {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// Only the new text.
    pub delta: String,
}

/// All of a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RefusalDone {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The message's place in the output.
    pub output_index: usize,
    /// The part's place in the message.
    pub content_index: usize,
    /// The refusal.
    pub refusal: String,
}

/// A part of what was thought, new or finished.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryPartFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The part's place in the summary.
    pub summary_index: usize,
    /// The part.
    pub part: SummaryPart,
}

/// More of what was thought.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryDelta {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The part's place in the summary.
    pub summary_index: usize,
    /// Only the new text.
    pub delta: String,
}

/// All of what was thought.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryDone {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The part's place in the summary.
    pub summary_index: usize,
    /// The text.
    pub text: String,
}

/// More of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ArgumentsDelta {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// Only the new part, as raw JSON text; of a custom tool, its input as it is.
    pub delta: String,
}

/// All of the input of a custom tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputDone {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The input, as plain text.
    pub input: String,
}

/// All of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ArgumentsDone {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The tool's name.
    pub name: String,
    /// The arguments, as raw JSON text.
    pub arguments: String,
}

/// The life of a call, or of a question for tools, with the facts that no client should have to
/// remember (R2).
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolFrame {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output.
    pub output_index: usize,
    /// The tool's name; none on a question for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The call; none on a question for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<CallId>,
    /// The server the tool lives on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// What is new.
    pub turnwire: Note,
}

/// What is new about a call: only `at` is always there.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Note {
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Which try it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long the tool has worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How much is done, in the tool's own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How much there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What the tool is doing, or is about to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What went wrong: at last, or with the try before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
}

impl Note {
    /// Nothing but the time.
    pub fn at(at: Timestamp) -> Self {
        Self {
            at,
            attempt: None,
            duration_ms: None,
            progress: None,
            total: None,
            message: None,
            failure: None,
        }
    }
}

/// Another worker continues the run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TakenOver {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// 2 for the second worker.
    pub attempt: u32,
}

/// Something about a turn of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// 1 for the first answer; 0 for calls that came with the request.
    pub turn: u32,
}

/// The model is asked again.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnRetry {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which turn.
    pub turn: u32,
    /// 2 for the second try.
    pub attempt: u32,
    /// What went wrong.
    pub failure: FailureNote,
    /// How long is waited first.
    pub delay_ms: u64,
}

/// A part of the model's answer was left out.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SkippedPart {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// The turn whose answer has a gap.
    pub turn: u32,
    /// How many bytes the part had.
    pub bytes: u64,
    /// What went wrong.
    pub failure: FailureNote,
}

/// Which call, on every event of ours about one.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolFacts {
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The item that stands for it.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The item's place in the output; not there before the item is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_index: Option<usize>,
    /// The tool's name.
    pub name: String,
    /// The server it lives on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A person has answered.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ApprovalNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Whether the call may go ahead.
    pub approve: bool,
    /// Why not; empty if nothing was said.
    pub reason: String,
    /// The arguments that the tool is called with instead of the model's, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether the answer holds for the rest of the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Where the answer came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A person must allow a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AskNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Until when the answer may come; then the call is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// What the tool says of itself now, if its definition is not the one that was trusted
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A tool asks a person something.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct QuestionNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// What is asked.
    pub message: String,
    /// The JSON Schema of the answer.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Until when the answer may come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// The question of a tool is settled.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReplyNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// What the tool was told.
    #[schema(value_type = crate::native_event::ReplyShape)]
    pub reply: Reply,
    /// Where the answer came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A tool begins to work on a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StartNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// 1 for the first try.
    pub attempt: u32,
    /// The arguments in a few words; may be empty.
    pub label: String,
}

/// The tool entered a phase.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PhaseNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The phase, in the tool's words.
    pub phase: String,
}

/// How far the tool is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProgressNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// How much is done, in the tool's own unit.
    pub progress: f64,
    /// How much there is, if the tool knows.
    pub total: Option<f64>,
    /// What it is doing, if it says so.
    pub message: Option<String>,
}

/// Some of the tool's output, early.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OutputNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Only the new part.
    pub delta: String,
}

/// The tool has said nothing for a while.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SilenceNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// How long it has been at work altogether.
    pub elapsed_ms: u64,
}

/// The tool is called again.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RetryNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// 2 for the second try.
    pub attempt: u32,
    /// Why the try before did not count.
    pub failure: FailureNote,
}

/// The call is over.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FinishNews {
    /// Its place in the stream.
    pub sequence_number: u64,
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Whether the tool says it worked.
    pub success: bool,
    /// What went wrong; null if nothing did.
    pub failure: Option<FailureNote>,
    /// How long the tool worked.
    pub duration_ms: u64,
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
