//! The chunks of the UI message stream.
//!
//! Optional fields are left out, never `null`: the clients refuse that. Fields that a client does
//! not know are ignored, so that one type serves all dialects where only fields differ.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{
    CallId, ConversationId, Effect, ItemId, RunId, RunOutcome, Timestamp, ToolClaims, ToolKind,
    Usage,
};
use utoipa::ToSchema;

use super::citation::{Citation, Source};
use crate::{BudgetQuestion, call_state::CallState, wire_json::wire_json};

/// A chunk of the UI message stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum UiChunk {
    /// The message starts, or continues after an approval.
    #[serde(rename_all = "camelCase")]
    Start {
        /// ID of the message: the ID of the run.
        message_id: String,
        /// Where the message comes from.
        message_metadata: StartMetadata,
    },
    /// A turn of the model starts.
    StartStep,
    /// The turn and its tools have ended.
    FinishStep,
    /// The worker died during the turn; everything since `start-step` is withdrawn. Version 7.
    ResetStep,
    /// A text starts.
    TextStart(TextPart),
    /// A piece of a text.
    TextDelta {
        /// ID of the text.
        id: String,
        /// The new text. Never empty.
        delta: String,
    },
    /// A text has ended.
    TextEnd {
        /// ID of the text.
        id: String,
        /// What the text cites. Version 7; the others ignore it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        citations: Vec<Citation>,
    },
    /// Reasoning starts.
    ReasoningStart(TextPart),
    /// A piece of reasoning.
    ReasoningDelta {
        /// ID of the reasoning.
        id: String,
        /// The new text. Never empty.
        delta: String,
    },
    /// Reasoning has ended.
    ReasoningEnd(TextPart),
    /// A web page that the text cites.
    #[serde(rename_all = "camelCase")]
    SourceUrl {
        /// ID of the source, unique in the run.
        source_id: String,
        /// URL of the page.
        url: String,
        /// Title of the page.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A file that the text cites.
    #[serde(rename_all = "camelCase")]
    SourceDocument {
        /// ID of the source, unique in the run.
        source_id: String,
        /// Media type of the file.
        media_type: String,
        /// Title of the file.
        title: String,
        /// Name of the file.
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
    },
    /// The model calls a tool. The arguments follow.
    ToolInputStart(ToolInput),
    /// A piece of the arguments.
    #[serde(rename_all = "camelCase")]
    ToolInputDelta {
        /// ID of the call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// The new text: raw JSON, or plain text for a custom tool.
        input_text_delta: String,
    },
    /// The arguments are complete, or a person has replaced them.
    ToolInputAvailable(ToolInput),
    /// The arguments are cut or not valid. The call is not executed.
    ToolInputError(ToolInput),
    /// The call needs an approval. Version 6 and later.
    #[serde(rename_all = "camelCase")]
    ToolApprovalRequest {
        /// ID of the request, for the answer.
        approval_id: String,
        /// ID of the call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
    },
    /// The approval was decided. Version 7.
    #[serde(rename_all = "camelCase")]
    ToolApprovalResponse {
        /// ID of the request.
        approval_id: String,
        /// The decision.
        approved: bool,
        /// Reason of the decision.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The tool succeeded. With `preliminary`, its output so far.
    ToolOutputAvailable(ToolEnd),
    /// The call ended without success.
    ToolOutputError(ToolEnd),
    /// The call was denied. Version 6 and later.
    #[serde(rename_all = "camelCase")]
    ToolOutputDenied {
        /// ID of the call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
    },
    /// Progress of a tool. Replaces the earlier one of the same call.
    DataToolProgress(Data<ProgressData>),
    /// State of an approval. Replaces the earlier one of the same approval.
    DataApproval(Data<ApprovalData>),
    /// Whether the tool did its work is not known.
    DataToolOutcome(Data<OutcomeData>),
    /// The worker died; a later item replaces this one. Versions 5 and 6.
    DataSuperseded(Data<SupersededData>),
    /// Something to know that changes nothing in the message. Always transient.
    DataNotice(Data<NoticeData>),
    /// The run failed.
    #[serde(rename_all = "camelCase")]
    Error {
        /// What went wrong.
        error_text: String,
        /// Stable error code.
        code: String,
    },
    /// The run was cancelled.
    Abort {
        /// Why the run ended.
        reason: String,
    },
    /// End of the stream.
    #[serde(rename_all = "camelCase")]
    Finish {
        /// Why the stream ends.
        finish_reason: FinishReason,
        /// How the run ended. Missing if the run continues.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_metadata: Option<FinishMetadata>,
    },
}

/// Where a message comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StartMetadata {
    /// ID of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// ID of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
    /// Name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FinishMetadata {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Tokens used by all turns.
    pub usage: Usage,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = UiFinishReason)]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The answer reached its maximum length.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// Calls wait for a person or for the client.
    ToolCalls,
    /// The run failed.
    Error,
    /// The run was cancelled or reached another limit.
    Other,
}

/// A text or reasoning, by its ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UiTextPart)]
pub struct TextPart {
    /// ID of the item.
    pub id: String,
}

/// A call and its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiToolInput)]
pub struct ToolInput {
    /// ID of the call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Name of the tool.
    pub tool_name: String,
    /// Always true: the page need not know the tool.
    pub dynamic: bool,
    /// True if the server executes the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub provider_executed: bool,
    /// Encoding of the arguments while they are generated, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_encoding: Option<&'static str>,
    /// The tool and its arguments in short form.
    pub title: String,
    /// Kind and server of the tool.
    pub tool_metadata: ToolMetadata,
    /// The arguments: an object, or plain text for a custom tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// Why the call is not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_text: Option<String>,
}

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiToolEnd)]
pub struct ToolEnd {
    /// ID of the call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Always true.
    pub dynamic: bool,
    /// True if the server executed the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub provider_executed: bool,
    /// The output: structured data, text, or an object if the text is only its beginning or has
    /// images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// What went wrong. Begins with the state of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_text: Option<String>,
    /// Whether the output is not the last one. It is replaced by the next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preliminary: bool,
    /// Kind and server of the tool, and how the call ended.
    pub tool_metadata: ToolMetadata,
}

/// Facts about a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = UiToolMetadata)]
pub struct ToolMetadata {
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the tool's server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_label: Option<String>,
    /// How the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<CallState>,
    /// Error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Execution time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Data of our own.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Data<T> {
    /// Data with the same ID and type replaces this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The data.
    pub data: T,
    /// Whether the data is not part of the message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
}

impl<T> Data<T> {
    /// A part of the message.
    pub(super) fn part(id: String, data: T) -> Self {
        Self { id: Some(id), data, transient: false }
    }

    /// Data that is not part of the message.
    pub(super) fn passing(data: T) -> Self {
        Self { id: None, data, transient: true }
    }
}

/// Progress of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = UiProgressData)]
pub struct ProgressData {
    /// ID of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Name of the tool.
    pub tool: String,
    /// What the tool is doing.
    pub message: String,
    /// Amount of work done, in the tool's own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Total amount of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
}

/// State of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UiApprovalData)]
pub struct ApprovalData {
    /// ID of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// ID of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Name of the tool.
    pub tool: String,
    /// State of the approval.
    pub state: ApprovalState,
    /// Time at which the call is denied automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The tool's new description, if its definition has changed.
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
    /// Reason of the denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// State of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// A person is asked.
    Requested,
    /// The call is approved.
    Approved,
    /// The call is denied.
    Denied,
}

/// A call whose outcome is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UiOutcomeData)]
pub struct OutcomeData {
    /// ID of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Name of the tool.
    pub tool: String,
    /// Always `unknown`.
    pub state: CallState,
    /// What is known.
    pub message: String,
}

/// An item that a later one replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UiSupersededData)]
pub struct SupersededData {
    /// ID of the item: of a text, of reasoning, or of a call.
    #[schema(value_type = String)]
    pub item_id: ItemId,
}

/// Something to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UiNoticeData)]
pub struct NoticeData {
    /// Stable error code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

impl UiChunk {
    /// The chunk that tells of a source.
    pub(super) fn of_source(source: &Source) -> Self {
        match source.clone() {
            Source::Url { id, url, title, .. } => Self::SourceUrl { source_id: id, url, title },
            Source::Document { id, media_type, title, filename, .. } => {
                Self::SourceDocument { source_id: id, media_type, title, filename }
            }
        }
    }

    /// The chunk as JSON on one line, for a `data:` line.
    pub fn data(&self) -> String {
        wire_json(self)
    }

    /// Whether no chunk follows in this stream.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finish { .. })
    }
}
