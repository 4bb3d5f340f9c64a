//! The frames of the stream: one variant per event type that can be sent.
//!
//! One table makes the enum, the two lists of names and the look-ups, so they cannot drift
//! apart. Two rules hold for all of them: every frame has a `sequence_number`, and none but
//! `error` has a top-level `error` key, because the official clients raise on it.

use serde::{Serialize, Serializer};
use serde_json::Value;
use turnwire_contract::{CallId, InputId, ItemId, Reply, Timestamp};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Ref, RefOr,
        schema::{AllOfBuilder, ObjectBuilder, Schema, Type},
    },
};

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
        /// One event of the stream, with the official name as its `type`.
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

        }

        impl Serialize for SequencedEvent {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self { sequence_number, event } = self;
                match event {
                    $(ResponseEvent::$variant(payload) => {
                        WireEvent { kind: $name, sequence_number, payload }.serialize(serializer)
                    })*
                    $(ResponseEvent::$own_variant(payload) => {
                        WireEvent { kind: $own_name, sequence_number, payload }
                            .serialize(serializer)
                    })*
                }
            }
        }
    };
}

/// One frame of the stream: an event with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct SequencedEvent {
    /// 0, 1, 2, … without gaps.
    pub sequence_number: u64,
    /// The event.
    pub event: ResponseEvent,
}

impl SequencedEvent {
    /// The `type` on the wire.
    pub fn event_type(&self) -> &'static str {
        self.event.event_type()
    }
}

/// A frame as it is written: its fields in the order of the official API.
#[derive(Serialize)]
struct WireEvent<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: &'a u64,
    #[serde(flatten)]
    payload: &'a T,
}

impl PartialSchema for SequencedEvent {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some("Number of the event in its stream: 0, 1, 2, … without gaps."))
            .minimum(Some(0));
        let numbered =
            ObjectBuilder::new().property("sequence_number", number).required("sequence_number");
        let event = Ref::from_schema_name(ResponseEvent::name());
        AllOfBuilder::new().item(numbered).item(event).into()
    }
}

impl ToSchema for SequencedEvent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((ResponseEvent::name().into_owned(), ResponseEvent::schema()));
        ResponseEvent::schemas(schemas);
    }
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
        TurnStarted(TurnEvent) = "turnwire:turn_started",
        /// The model is asked again.
        TurnRetried(Box<TurnRetry>) = "turnwire:turn_retried",
        /// A part of the model's answer could not be read and was left out.
        PartSkipped(Box<SkippedPart>) = "turnwire:part_skipped",
        /// What the turn had said is superseded; its items are `incomplete`.
        TurnAbandoned(TurnEvent) = "turnwire:turn_abandoned",
        /// A person must allow the call.
        ApprovalRequested(Box<ApprovalRequestEvent>) = "turnwire:approval_requested",
        /// A person has answered.
        ApprovalResolved(Box<ApprovalEvent>) = "turnwire:approval_resolved",
        /// A tool begins to work on the call.
        ToolStarted(Box<ToolStartEvent>) = "turnwire:tool_started",
        /// The tool entered a phase.
        ToolPhase(Box<ToolPhaseEvent>) = "turnwire:tool_phase",
        /// The tool told how far it is.
        ToolProgress(Box<ToolProgressEvent>) = "turnwire:tool_progress",
        /// The tool let out some of its output.
        ToolOutputAdded(Box<ToolOutputEvent>) = "turnwire:tool_output_added",
        /// The tool asks a person something, and waits.
        InputRequested(Box<InputRequestEvent>) = "turnwire:input_requested",
        /// The question of the tool is settled.
        InputResolved(Box<InputReplyEvent>) = "turnwire:input_resolved",
        /// The tool has said nothing for a while.
        ToolSilent(Box<ToolSilenceEvent>) = "turnwire:tool_silent",
        /// The tool is called again.
        ToolRetried(Box<ToolRetryEvent>) = "turnwire:tool_retried",
        /// The call is over.
        ToolFinished(Box<ToolFinishEvent>) = "turnwire:tool_finished",
    }
}

/// The response object as of now.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ResponseFrame {
    /// The response.
    pub response: Box<Response>,
}

/// What went wrong, in the shape of both generations of clients: older ones read the top
/// level, newer ones and Open Responses read `error`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ErrorFrame {
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
    /// The item's place in the output.
    pub output_index: usize,
    /// The item.
    pub item: Box<OutputItem>,
}

/// A part of a message, new or finished.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PartFrame {
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
    /// 2 for the second worker.
    pub attempt: u32,
}

/// Something about a turn of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnEvent {
    /// 1 for the first answer; 0 for calls that came with the request.
    pub turn: u32,
}

/// The model is asked again.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnRetry {
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
pub struct ApprovalEvent {
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
pub struct ApprovalRequestEvent {
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
pub struct InputRequestEvent {
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
pub struct InputReplyEvent {
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// What the tool was told.
    pub reply: Reply,
    /// Where the answer came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A tool begins to work on a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolStartEvent {
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
pub struct ToolPhaseEvent {
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// The phase, in the tool's words.
    pub phase: String,
}

/// How far the tool is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolProgressEvent {
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
pub struct ToolOutputEvent {
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// Only the new part.
    pub delta: String,
}

/// The tool has said nothing for a while.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolSilenceEvent {
    /// Which call.
    #[serde(flatten)]
    pub facts: ToolFacts,
    /// How long it has been at work altogether.
    pub elapsed_ms: u64,
}

/// The tool is called again.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolRetryEvent {
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
pub struct ToolFinishEvent {
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
