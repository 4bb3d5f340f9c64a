//! Frames of the stream: one variant per event type.
//!
//! One table generates the enum, the two lists of names and the lookups, so they cannot diverge.
//! Two rules hold for all frames: every frame has a `sequence_number`, and only `error` has a
//! top-level `error` key, because the official clients raise an exception on it.

use serde::{Serialize, Serializer};
use serde_json::Value;
use turnwire_contract::{CallId, ItemId, Timestamp};
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

pub use super::own_event::{
    ApprovalEvent, ApprovalRequestEvent, InputReplyEvent, InputRequestEvent, SkippedPart,
    TakenOver, ToolFacts, ToolFinishEvent, ToolOutputEvent, ToolPhaseEvent, ToolProgressEvent,
    ToolRetryEvent, ToolSilenceEvent, ToolStartEvent, TurnEvent, TurnRetry,
};

// The names are `tt`, because `serde(rename)` does not accept a captured `literal`.
macro_rules! event_types {
    (
        strict { $($(#[$doc:meta])* $variant:ident($payload:ty) = $name:tt,)* }
        extended { $($(#[$own_doc:meta])* $own_variant:ident($own_payload:ty) = $own_name:tt,)* }
    ) => {
        /// An event of the stream. Its `type` is the official name.
        #[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
        #[serde(tag = "type")]
        pub enum ResponseEvent {
            $($(#[$doc])* #[serde(rename = $name)] $variant($payload),)*
            $($(#[$own_doc])* #[serde(rename = $own_name)] $own_variant($own_payload),)*
        }

        impl ResponseEvent {
            /// Event types of the strict profile: official names only.
            pub const TYPES_STRICT: &[&str] = &[$($name,)*];
            /// Additional event types of the extended profile.
            pub const TYPES_EXTENDED: &[&str] = &[$($own_name,)*];

            /// Returns the `type` on the wire, which is also the `event:` line of the stream.
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

/// A frame of the stream: an event and its sequence number.
#[derive(Debug, Clone, PartialEq)]
pub struct SequencedEvent {
    /// Number of the event in its stream: 0, 1, 2, … without gaps.
    pub sequence_number: u64,
    /// The event.
    pub event: ResponseEvent,
}

impl SequencedEvent {
    /// Returns the `type` on the wire.
    pub fn event_type(&self) -> &'static str {
        self.event.event_type()
    }
}

/// A frame in its serialized form. The fields are in the order of the official API.
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
        /// The response was created.
        Created(ResponseFrame) = "response.created",
        /// The response is queued.
        Queued(ResponseFrame) = "response.queued",
        /// The response is in progress.
        InProgress(ResponseFrame) = "response.in_progress",
        /// The response is complete. Last event of the stream.
        Completed(ResponseFrame) = "response.completed",
        /// The response failed. Last event of the stream.
        Failed(ResponseFrame) = "response.failed",
        /// The response reached a limit or was cancelled. Last event of the stream.
        Incomplete(ResponseFrame) = "response.incomplete",
        /// An error occurred. `response.failed` follows.
        Error(Box<ErrorFrame>) = "error",
        /// A new output item. First event about the item.
        ItemAdded(ItemFrame) = "response.output_item.added",
        /// An output item is done; contains its final state.
        ItemDone(ItemFrame) = "response.output_item.done",
        /// A new part of a message.
        PartAdded(PartFrame) = "response.content_part.added",
        /// A part of a message is done; contains its final state.
        PartDone(PartFrame) = "response.content_part.done",
        /// Text was appended.
        TextDelta(TextDelta) = "response.output_text.delta",
        /// The text is done; contains the full text.
        TextDone(TextDone) = "response.output_text.done",
        /// An annotation was added to the text.
        AnnotationAdded(AnnotationFrame) = "response.output_text.annotation.added",
        /// Text was appended to a refusal.
        RefusalDelta(RefusalDelta) = "response.refusal.delta",
        /// The refusal is done; contains the full text.
        RefusalDone(RefusalDone) = "response.refusal.done",
        /// A new part of a reasoning summary.
        SummaryPartAdded(SummaryPartFrame) = "response.reasoning_summary_part.added",
        /// A part of a reasoning summary is done; contains its final state.
        SummaryPartDone(SummaryPartFrame) = "response.reasoning_summary_part.done",
        /// Text was appended to a reasoning summary.
        SummaryDelta(SummaryDelta) = "response.reasoning_summary_text.delta",
        /// The text of a reasoning summary part is done; contains the full text.
        SummaryDone(SummaryDone) = "response.reasoning_summary_text.done",
        /// Text was appended to the arguments of a function call.
        FunctionArgumentsDelta(ArgumentsDelta) = "response.function_call_arguments.delta",
        /// The arguments of a function call are done; contains all of them.
        FunctionArgumentsDone(ArgumentsDone) = "response.function_call_arguments.done",
        /// Text was appended to the input of a custom tool call.
        CustomInputDelta(ArgumentsDelta) = "response.custom_tool_call_input.delta",
        /// The input of a custom tool call is done; contains all of it.
        CustomInputDone(InputDone) = "response.custom_tool_call_input.done",
        /// An MCP server is being asked for its tools.
        McpListToolsInProgress(Box<ToolFrame>) = "response.mcp_list_tools.in_progress",
        /// The MCP server listed its tools.
        McpListToolsCompleted(Box<ToolFrame>) = "response.mcp_list_tools.completed",
        /// The MCP server could not list its tools.
        McpListToolsFailed(Box<ToolFrame>) = "response.mcp_list_tools.failed",
        /// An MCP call was added, is in progress, or reports progress.
        McpCallInProgress(Box<ToolFrame>) = "response.mcp_call.in_progress",
        /// Text was appended to the arguments of an MCP call.
        McpArgumentsDelta(ArgumentsDelta) = "response.mcp_call_arguments.delta",
        /// The arguments of an MCP call are done; contains all of them.
        McpArgumentsDone(ArgumentsDone) = "response.mcp_call_arguments.done",
        /// The MCP call succeeded.
        McpCallCompleted(Box<ToolFrame>) = "response.mcp_call.completed",
        /// The MCP call failed, or was never started.
        McpCallFailed(Box<ToolFrame>) = "response.mcp_call.failed",
        /// A web search call was added.
        WebSearchInProgress(Box<ToolFrame>) = "response.web_search_call.in_progress",
        /// The web search is in progress, or reports progress.
        WebSearchSearching(Box<ToolFrame>) = "response.web_search_call.searching",
        /// The web search succeeded. Not sent for a failed search.
        WebSearchCompleted(Box<ToolFrame>) = "response.web_search_call.completed",
        /// A file search call was added.
        FileSearchInProgress(Box<ToolFrame>) = "response.file_search_call.in_progress",
        /// The file search is in progress, or reports progress.
        FileSearchSearching(Box<ToolFrame>) = "response.file_search_call.searching",
        /// The file search succeeded. Not sent for a failed search.
        FileSearchCompleted(Box<ToolFrame>) = "response.file_search_call.completed",
    }
    extended {
        /// A web search failed.
        WebSearchFailed(Box<ToolFrame>) = "response.web_search_call.failed",
        /// A file search failed.
        FileSearchFailed(Box<ToolFrame>) = "response.file_search_call.failed",
        /// Another worker took over the run.
        RunTakenOver(TakenOver) = "turnwire:run_taken_over",
        /// A request to the model starts.
        TurnStarted(TurnEvent) = "turnwire:turn_started",
        /// A turn is tried again.
        TurnRetried(Box<TurnRetry>) = "turnwire:turn_retried",
        /// A part of the model's answer could not be parsed and was skipped.
        PartSkipped(Box<SkippedPart>) = "turnwire:part_skipped",
        /// The output of the turn is superseded. Its items are `incomplete`.
        TurnAbandoned(TurnEvent) = "turnwire:turn_abandoned",
        /// A call needs approval.
        ApprovalRequested(Box<ApprovalRequestEvent>) = "turnwire:approval_requested",
        /// An approval request was decided.
        ApprovalResolved(Box<ApprovalEvent>) = "turnwire:approval_resolved",
        /// Execution of a call starts.
        ToolStarted(Box<ToolStartEvent>) = "turnwire:tool_started",
        /// The tool entered a new phase.
        ToolPhase(Box<ToolPhaseEvent>) = "turnwire:tool_phase",
        /// The tool reported progress.
        ToolProgress(Box<ToolProgressEvent>) = "turnwire:tool_progress",
        /// The tool sent part of its output early.
        ToolOutputAdded(Box<ToolOutputEvent>) = "turnwire:tool_output_added",
        /// The tool asks the user for input and waits.
        InputRequested(Box<InputRequestEvent>) = "turnwire:input_requested",
        /// A request for input was resolved.
        InputResolved(Box<InputReplyEvent>) = "turnwire:input_resolved",
        /// The tool has reported nothing for a while and is still running.
        ToolSilent(Box<ToolSilenceEvent>) = "turnwire:tool_silent",
        /// The tool is called again.
        ToolRetried(Box<ToolRetryEvent>) = "turnwire:tool_retried",
        /// The call ended.
        ToolFinished(Box<ToolFinishEvent>) = "turnwire:tool_finished",
    }
}

/// The current state of the response.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ResponseFrame {
    /// The response object.
    pub response: Box<Response>,
}

/// An error, in the formats of old and new clients: old clients read the top level, new ones and
/// Open Responses read `error`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ErrorFrame {
    /// The closest official error code.
    pub code: String,
    /// One sentence that describes the error.
    pub message: String,
    /// Parameter that caused the error; always null here.
    pub param: Option<String>,
    /// The same error as a nested object.
    pub error: ErrorPayload,
    /// The Turnwire error code.
    pub turnwire: OwnCode,
}

/// The nested object of an [`ErrorFrame`].
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ErrorPayload {
    /// Type of the error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The closest official error code.
    pub code: String,
    /// One sentence that describes the error.
    pub message: String,
    /// Parameter that caused the error; always null here.
    pub param: Option<String>,
}

/// An output item, new or done.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemFrame {
    /// Index of the item in the output.
    pub output_index: usize,
    /// The item.
    pub item: Box<OutputItem>,
}

/// A part of a message, new or done.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PartFrame {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// The part.
    pub part: OutputContent,
}

/// Text appended to a message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextDelta {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// The new text only.
    pub delta: String,
    /// Log probabilities of the new tokens, if requested.
    pub logprobs: Vec<TokenLogprob>,
}

/// The full text of a message part.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextDone {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// The full text.
    pub text: String,
    /// Log probabilities of all tokens, if requested.
    pub logprobs: Vec<TokenLogprob>,
}

/// An annotation of the text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnnotationFrame {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// Index of the annotation in the part.
    pub annotation_index: usize,
    /// The annotation.
    #[schema(value_type = Object)]
    pub annotation: Value,
}

/// Text appended to a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RefusalDelta {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// The new text only.
    pub delta: String,
}

/// The full text of a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RefusalDone {
    /// ID of the message.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the message in the output.
    pub output_index: usize,
    /// Index of the part in the message.
    pub content_index: usize,
    /// The full refusal.
    pub refusal: String,
}

/// A part of a reasoning summary, new or done.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryPartFrame {
    /// ID of the reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// Index of the part in the summary.
    pub summary_index: usize,
    /// The part.
    pub part: SummaryPart,
}

/// Text appended to a reasoning summary.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryDelta {
    /// ID of the reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// Index of the part in the summary.
    pub summary_index: usize,
    /// The new text only.
    pub delta: String,
}

/// The full text of a reasoning summary part.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SummaryDone {
    /// ID of the reasoning item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// Index of the part in the summary.
    pub summary_index: usize,
    /// The full text.
    pub text: String,
}

/// Text appended to the arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ArgumentsDelta {
    /// ID of the call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// The new text only: raw JSON, or plain text for a custom tool.
    pub delta: String,
}

/// The full input of a custom tool call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputDone {
    /// ID of the call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// The input as plain text.
    pub input: String,
}

/// The full arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ArgumentsDone {
    /// ID of the call's item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// Name of the tool.
    pub name: String,
    /// The arguments as raw JSON.
    pub arguments: String,
}

/// State of a call or of a tool listing. Contains name, ID and server, so that clients need not
/// remember them.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolFrame {
    /// ID of the item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Index of the item in the output.
    pub output_index: usize,
    /// Name of the tool; absent for a tool listing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// ID of the call; absent for a tool listing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<CallId>,
    /// Label of the tool's server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// What changed.
    pub turnwire: Note,
}

/// What changed about a call. Only `at` is always present.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Note {
    /// Time of the change.
    pub at: Timestamp,
    /// Number of the attempt, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Execution time so far, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Amount of work done, in the tool's own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Total amount of work, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What the tool is doing or about to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the call or its previous attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
}

impl Note {
    /// Creates a note with only the time.
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

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
