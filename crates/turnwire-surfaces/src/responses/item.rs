//! What an answer is made of, in the official shapes.
//!
//! Null and absent are different things on this wire, and each field has the one that all
//! clients accept: `phase`, `content` and `encrypted_content` are left out when there is
//! nothing to say, and so are `description` and `annotations` of a server's tool; `output` and
//! `error` of a server's call are null, and `action` of a web search is not there until the
//! search is over. `tests/clients/judges` asks the clients' own schemas about every recorded run.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{CallId, Completeness, ItemId, LibraryAddress, Logprob};
use utoipa::ToSchema;

/// One item of the output.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// The model said something.
    Message(MessageItem),
    /// The model called a function.
    FunctionCall(FunctionCallItem),
    /// What came of a function that the server ran.
    FunctionCallOutput(FunctionCallOutputItem),
    /// The model called a custom tool.
    CustomToolCall(CustomToolCallItem),
    /// The model thought something.
    Reasoning(ReasoningItem),
    /// A server was asked for its tools.
    McpListTools(McpListToolsItem),
    /// The model called a tool of a server.
    McpCall(McpCallItem),
    /// A person must allow a call; the answer comes with the next request.
    McpApprovalRequest(McpApprovalRequestItem),
    /// The model searched the web.
    WebSearchCall(WebSearchCallItem),
    /// The model searched files.
    FileSearchCall(FileSearchCallItem),
    /// A conversation made short.
    Compaction(CompactionItem),
}

impl OutputItem {
    /// The item's name.
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

/// How far an item has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// More will come.
    InProgress,
    /// A search is at work.
    Searching,
    /// It is whole.
    Completed,
    /// It was cut, or another item replaces it.
    Incomplete,
    /// The tool did not work.
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

/// Who speaks in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssistantRole {
    /// The model.
    #[default]
    Assistant,
}

/// The model said something.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct MessageItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// How far it has come.
    pub status: ItemStatus,
    /// Who speaks.
    pub role: AssistantRole,
    /// What is said.
    pub content: Vec<OutputContent>,
}

/// A part of a message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputContent {
    /// Words.
    OutputText(OutputText),
    /// A refusal.
    Refusal(Refusal),
}

/// Words of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct OutputText {
    /// The words.
    pub text: String,
    /// Where they come from.
    #[schema(value_type = Vec<Object>)]
    pub annotations: Vec<Value>,
    /// How likely each token was; empty unless the request asked for it and the provider tells.
    pub logprobs: Vec<TokenLogprob>,
}

/// How likely a token was.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The logarithm of its probability.
    pub logprob: f64,
    /// What else might have stood there.
    pub top_logprobs: Vec<TopLogprob>,
}

/// How likely a token would have been.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TopLogprob {
    /// The token.
    pub token: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The logarithm of its probability.
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
    /// Words without sources.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A refusal of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Refusal {
    /// The words.
    pub refusal: String,
}

/// The model called a function.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FunctionCallItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Whether the arguments are whole.
    pub status: ItemStatus,
    /// The arguments, as raw JSON text.
    pub arguments: String,
    /// The call, to which the result refers.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The function.
    pub name: String,
    /// The namespace that the client has put it into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The model called a custom tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CustomToolCallItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Whether the input is whole.
    pub status: ItemStatus,
    /// The call, to which the result refers.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The input, as plain text.
    pub input: String,
    /// The tool.
    pub name: String,
    /// The namespace that the client has put it into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What came of a function that the server ran.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FunctionCallOutputItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Always completed.
    pub status: ItemStatus,
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// What the function returned; what went wrong begins with `Error: `.
    pub output: FunctionOutput,
    /// What else is known of it.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// What a function returned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum FunctionOutput {
    /// Text.
    Text(String),
    /// Text and pictures.
    Parts(Vec<InputContent>),
}

/// A part of what a person or a tool said.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputContent {
    /// Words.
    InputText {
        /// The words.
        text: String,
    },
    /// A picture.
    InputImage {
        /// Where it is; a `data:` address carries it along.
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<String>,
        /// Which file it is, if it was uploaded.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
        /// How closely it is looked at: `auto`, `low`, `high` or `original`.
        detail: String,
    },
    /// A file.
    InputFile {
        /// What it is called.
        filename: String,
        /// Where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<String>,
        /// The file itself, as a `data:` address.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        /// Which file it is, if it was uploaded.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
    },
    /// Words of the model.
    OutputText(OutputText),
    /// A refusal of the model.
    Refusal(Refusal),
}

impl InputContent {
    /// A picture at this address, or one in the library.
    pub(super) fn image(url: String, detail: Option<String>) -> Self {
        let file_id = LibraryAddress::of(&url).map(|kept| kept.file_id.to_string());
        let image_url = file_id.is_none().then_some(url);
        let detail = detail.unwrap_or_else(|| "auto".to_owned());
        Self::InputImage { image_url, file_id, detail }
    }
}

/// The model thought something.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReasoningItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// How far it has come.
    pub status: ItemStatus,
    /// What was thought.
    pub summary: Vec<SummaryPart>,
    /// The provider's opaque proof; only if the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted_content: Option<String>,
}

/// A part of what was thought.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SummaryPart {
    /// Words.
    SummaryText {
        /// The words.
        text: String,
    },
}

/// A server was asked for its tools.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpListToolsItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// The server.
    pub server_label: String,
    /// Its tools; empty until it has answered.
    pub tools: Vec<McpListedTool>,
    /// Why it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpListedTool {
    /// The name its server knows it by.
    pub name: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
}

/// The model called a tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpCallItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// How far it has come.
    pub status: ItemStatus,
    /// The item that asked a person about it, if one was asked.
    #[schema(value_type = Option<String>)]
    pub approval_request_id: Option<ItemId>,
    /// The arguments, as raw JSON text.
    pub arguments: String,
    /// What went wrong.
    pub error: Option<McpError>,
    /// The name its server knows it by.
    pub name: String,
    /// What the tool returned.
    pub output: Option<String>,
    /// The server.
    pub server_label: String,
    /// What else is known of it.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// What went wrong with a call of a server's tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpError {
    /// The tool says it did not work.
    McpToolExecutionError {
        /// In its words.
        content: Vec<ErrorText>,
    },
    /// The tool could not be called, or did not answer.
    McpProtocolError {
        /// A number as JSON-RPC has them.
        code: i32,
        /// One sentence.
        message: String,
    },
}

/// What a tool said about its failure.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ErrorText {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
}

/// A person must allow a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct McpApprovalRequestItem {
    /// Its name, to which the answer refers.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// All arguments, as raw JSON text.
    pub arguments: String,
    /// The tool.
    pub name: String,
    /// Its server; `turnwire` for a tool that lives on none.
    pub server_label: String,
}

/// The model searched the web.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WebSearchCallItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// How far it has come.
    pub status: ItemStatus,
    /// What was searched; not there until the search is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<WebSearchAction>,
    /// What else is known of it.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// What a web search did.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebSearchAction {
    /// It searched.
    Search {
        /// For this.
        query: String,
        /// The same as a list.
        queries: Vec<String>,
        /// What it found; only if the request asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<WebSource>>,
    },
    /// It opened a page.
    OpenPage {
        /// This one.
        url: String,
    },
    /// It looked for a text in a page.
    FindInPage {
        /// This page.
        url: String,
        /// This text.
        pattern: String,
    },
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebSource {
    /// By address.
    Url {
        /// The address.
        url: String,
    },
}

/// The model searched files.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileSearchCallItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// How far it has come.
    pub status: ItemStatus,
    /// What was searched for; empty until the search is over.
    pub queries: Vec<String>,
    /// What was found; null unless the request asked for it.
    pub results: Option<Vec<FileSearchResult>>,
    /// What else is known of it.
    #[serde(skip_serializing_if = "ItemNote::is_empty")]
    pub turnwire: ItemNote,
}

/// A piece of a file that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileSearchResult {
    /// The file.
    pub file_id: String,
    /// What it is called.
    pub filename: String,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// The piece.
    pub text: String,
    /// What was noted about the file.
    #[schema(value_type = Object)]
    pub attributes: Value,
}

/// A conversation made short.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CompactionItem {
    /// Its name.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// The summary, to be handed back as it is. Despite the name of the field it is not encrypted:
    /// `turnwire:not-encrypted:summary:v1:` and then the text in base64.
    pub encrypted_content: String,
}

/// What official items have no field for. Left out when there is nothing to say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ItemNote {
    /// Whether only the beginning of the result is here (R17).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How many bytes the whole result has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Where the whole result is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
    /// How many pictures the tool returned that the item cannot show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
}

impl ItemNote {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What went wrong, in our words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailureNote {
    /// Stable, for programs.
    pub code: String,
    /// One sentence, for people.
    pub message: String,
}
