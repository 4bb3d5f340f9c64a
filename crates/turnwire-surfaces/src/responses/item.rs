//! Output items in the official format.
//!
//! Null and absent differ on this wire, and each field uses the one that all clients accept:
//! `phase`, `content` and `encrypted_content` are omitted if empty, and so are `description` and
//! `annotations` of an MCP tool; `output` and `error` of an MCP call are null, and `action` of a
//! web search is omitted until the search ends. `tests/clients/judges` checks every recorded run
//! against the clients' own schemas.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{CallId, Completeness, ItemId, LeftOut, LibraryAddress, Logprob};
use utoipa::ToSchema;

use crate::BudgetQuestion;

/// An item of the output.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// A message of the model.
    Message(MessageItem),
    /// A function call.
    FunctionCall(FunctionCallItem),
    /// The output of a function that the server executed.
    FunctionCallOutput(FunctionCallOutputItem),
    /// A call of a custom tool.
    CustomToolCall(CustomToolCallItem),
    /// Reasoning of the model.
    Reasoning(ReasoningItem),
    /// A list of the tools of an MCP server.
    McpListTools(McpListToolsItem),
    /// A call of an MCP tool.
    McpCall(McpCallItem),
    /// A request to approve a call. The answer is sent with the next request.
    McpApprovalRequest(McpApprovalRequestItem),
    /// A web search.
    WebSearchCall(WebSearchCallItem),
    /// A file search.
    FileSearchCall(FileSearchCallItem),
    /// A summary that replaces a conversation.
    Compaction(CompactionItem),
}

impl OutputItem {
    /// The ID of the item.
    pub fn id(&self) -> &ItemId {
        match self {
            Self::Message(item) => &item.id,
            Self::FunctionCall(item) => &item.id,
            Self::FunctionCallOutput(item) => &item.id,
            Self::CustomToolCall(item) => &item.id,
            Self::Reasoning(item) => &item.id,
            Self::McpListTools(item) => &item.id,
            Self::McpCall(item) => &item.id,
            Self::McpApprovalRequest(item) => &item.id,
            Self::WebSearchCall(item) => &item.id,
            Self::FileSearchCall(item) => &item.id,
            Self::Compaction(item) => &item.id,
        }
    }
}

/// Status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// The item is not complete yet.
    InProgress,
    /// The search is running.
    Searching,
    /// The item is complete.
    Completed,
    /// The item was cut off, or another item replaces it.
    Incomplete,
    /// The tool failed.
    Failed,
}

impl From<Completeness> for ItemStatus {
    fn from(completeness: Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self::Completed,
            Completeness::Cut | Completeness::Superseded => Self::Incomplete,
        }
    }
}

/// Role of an output message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssistantRole {
    /// The model.
    #[default]
    Assistant,
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct MessageItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the message.
    pub status: ItemStatus,
    /// Always `assistant`.
    pub role: AssistantRole,
    /// Parts of the message.
    pub content: Vec<OutputContent>,
}

/// A part of an output message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputContent {
    /// Text.
    OutputText(OutputText),
    /// A refusal.
    Refusal(Refusal),
}

/// Text of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct OutputText {
    /// The text.
    pub text: String,
    /// Sources of the text, such as `url_citation` and `file_citation`.
    #[schema(value_type = Vec<Object>)]
    pub annotations: Vec<Value>,
    /// Log probabilities of the tokens. Empty unless requested with `include` and supported by the
    /// provider.
    pub logprobs: Vec<TokenLogprob>,
}

/// Log probability of a token.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Logarithm of its probability.
    pub logprob: f64,
    /// The most likely tokens at this position.
    pub top_logprobs: Vec<TopLogprob>,
}

/// Log probability of an alternative token.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TopLogprob {
    /// The token.
    pub token: String,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Logarithm of its probability.
    pub logprob: f64,
}

impl From<&Logprob> for TokenLogprob {
    fn from(token: &Logprob) -> Self {
        let TopLogprob { bytes, logprob, .. } = token.into();
        let top_logprobs = token.top.iter().map(TopLogprob::from).collect();
        Self { token: token.token.clone(), bytes, logprob, top_logprobs }
    }
}

impl From<&Logprob> for TopLogprob {
    fn from(Logprob { token, logprob, bytes, .. }: &Logprob) -> Self {
        let bytes = bytes.clone().unwrap_or_else(|| token.clone().into_bytes());
        Self { token: token.clone(), bytes, logprob: *logprob }
    }
}

impl OutputText {
    /// A text without annotations.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A refusal of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Refusal {
    /// Text of the refusal.
    pub refusal: String,
}

/// A function call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FunctionCallItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the call. `completed` if the arguments are complete.
    pub status: ItemStatus,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// ID of the call. The output refers to it.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// Name of the function.
    pub name: String,
    /// Namespace of the function, if the client defined one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A call of a custom tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CustomToolCallItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the call. `completed` if the input is complete.
    pub status: ItemStatus,
    /// ID of the call. The output refers to it.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The input, as plain text.
    pub input: String,
    /// Name of the tool.
    pub name: String,
    /// Namespace of the tool, if the client defined one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The output of a function.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FunctionCallOutputItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Always `completed`.
    pub status: ItemStatus,
    /// ID of the call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The output of the function. An error starts with `Error: `.
    pub output: FunctionOutput,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// The output of a function.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum FunctionOutput {
    /// Text.
    Text(String),
    /// Text and images.
    Parts(Vec<InputContent>),
}

/// A part of a message or of a tool output.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputContent {
    /// Text.
    InputText {
        /// The text.
        text: String,
    },
    /// An image.
    InputImage {
        /// URL of the image, or a `data:` URL that contains it.
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<String>,
        /// ID of the image, if it is an uploaded file.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
        /// Level of detail: `auto`, `low`, `high` or `original`.
        detail: String,
    },
    /// A file.
    InputFile {
        /// Name of the file.
        filename: String,
        /// URL of the file.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<String>,
        /// Content of the file, as a `data:` URL.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        /// ID of the file, if it was uploaded.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
    },
    /// Text of the model.
    OutputText(OutputText),
    /// A refusal of the model.
    Refusal(Refusal),
}

impl InputContent {
    /// An image at this URL, or one in the library.
    pub(super) fn image(url: String, detail: Option<String>) -> Self {
        let file_id = LibraryAddress::of(&url).map(|kept| kept.file_id.to_string());
        let image_url = file_id.is_none().then_some(url);
        let detail = detail.unwrap_or_else(|| "auto".to_owned());
        Self::InputImage { image_url, file_id, detail }
    }
}

/// Reasoning of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReasoningItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the item.
    pub status: ItemStatus,
    /// Summary of the reasoning.
    pub summary: Vec<SummaryPart>,
    /// Encrypted reasoning of the provider. Only if requested with `include`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted_content: Option<String>,
}

/// A part of a reasoning summary.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SummaryPart {
    /// Text.
    SummaryText {
        /// The text.
        text: String,
    },
}

/// A list of the tools of an MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpListToolsItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Label of the server.
    pub server_label: String,
    /// The tools. Empty until the server has responded.
    pub tools: Vec<McpListedTool>,
    /// Why the list could not be fetched. Missing otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpListedTool {
    /// Name of the tool on its server.
    pub name: String,
    /// Description of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of the arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
}

/// A call of an MCP tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpCallItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the call.
    pub status: ItemStatus,
    /// ID of the approval request of this call. Null if there was none.
    #[schema(value_type = Option<String>)]
    pub approval_request_id: Option<ItemId>,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// Why the call failed. Null otherwise.
    pub error: Option<McpError>,
    /// Name of the tool on its server.
    pub name: String,
    /// The output of the tool. Null until the call succeeds.
    pub output: Option<String>,
    /// Label of the server.
    pub server_label: String,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// Error of an MCP call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpError {
    /// The tool reported an error.
    McpToolExecutionError {
        /// The content of the error.
        content: Vec<ErrorText>,
    },
    /// The tool could not be called, or did not respond.
    McpProtocolError {
        /// JSON-RPC error code.
        code: i32,
        /// Human-readable message.
        message: String,
    },
}

/// Content of a tool error.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ErrorText {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

/// A request to approve a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpApprovalRequestItem {
    /// ID of the item. The answer refers to it as `approval_request_id`.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// Name of the tool.
    pub name: String,
    /// Label of the server; `turnwire` for a tool that has none.
    pub server_label: String,
    /// Fields that the official format does not have. Omitted if there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<ApprovalNote>,
}

/// Why an approval is asked for, if it is not for the call alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApprovalNote {
    /// The budget that it is about. All calls of the turn are asked about with it, and if one is
    /// denied, the next response ends as `incomplete`.
    pub budget: BudgetQuestion,
}

/// A web search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WebSearchCallItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the search.
    pub status: ItemStatus,
    /// What was searched. Missing until the search ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<WebSearchAction>,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// Action of a web search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebSearchAction {
    /// A search.
    Search {
        /// The query.
        query: String,
        /// The query, as an array.
        queries: Vec<String>,
        /// Pages that were found. Only if requested with `include`.
        #[serde(skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<WebSource>>,
    },
    /// Opening a page.
    OpenPage {
        /// URL of the page.
        url: String,
    },
    /// Searching for text in a page.
    FindInPage {
        /// URL of the page.
        url: String,
        /// The text.
        pattern: String,
    },
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebSource {
    /// A page with a URL.
    Url {
        /// URL of the page.
        url: String,
    },
}

/// A file search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileSearchCallItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Status of the search.
    pub status: ItemStatus,
    /// The queries. Empty until the search ends.
    pub queries: Vec<String>,
    /// The results. Null unless requested with `include`.
    pub results: Option<Vec<FileSearchResult>>,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// A result of a file search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileSearchResult {
    /// ID of the file.
    pub file_id: String,
    /// Name of the file.
    pub filename: String,
    /// Relevance, 0 to 1. Higher is better.
    pub score: f64,
    /// Text of the chunk.
    pub text: String,
    /// Attributes of the file.
    #[schema(value_type = Object)]
    pub attributes: Value,
}

/// A summary that replaces a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CompactionItem {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// The summary. Send it back unchanged. Despite the name of the field it is not encrypted: it
    /// is `turnwire:not-encrypted:summary:v1:` followed by the text in base64.
    pub encrypted_content: String,
}

/// Fields of an item that the official format does not have. Omitted if all are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ItemNote {
    /// Whether the result is cut off. The item has only its beginning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Size of the full result, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Path of the full result: `/v1/runs/{run_id}/calls/{call_id}/result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
    /// Number of images in the result, which the item cannot contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
    /// Why the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
    /// Tools that the server listed and that the model is not offered, with the reasons.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
}

impl ItemNote {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A failure with Turnwire's own code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailureNote {
    /// Stable, machine-readable code.
    pub code: String,
    /// Human-readable message.
    pub message: String,
}
