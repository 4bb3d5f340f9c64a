//! Messages that the server sends on the chat WebSocket (S2): six that never change, and a few that
//! are optional.
//!
//! `token`, `complete`, `error`, `pong`, `tool_start` and `tool_complete` have the fields of
//! specification 002 and keep them for ever; fields may be added, and a client ignores those it
//! does not know. `started`, `tool_progress`, `tool_output`, `tool_result_chunk`,
//! `tool_result_end`, `approval_request`, `input_request` and `tools` are sent only to clients that
//! enabled them (see [`WsOptions`](crate::WsOptions)), because older clients do not know them.
//!
//! The types can also be deserialized, for clients in Rust. A tool message without a name, an input
//! or a result is refused in both directions. It always has a time: a message made from an event
//! has the time of the event, and [`WsMessage::read`] takes the time to use if the sender omitted
//! it, because this crate has no clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use turnwire_contract::{
    CallId, ConversationId, Effect, IncompleteReason, InputId, RunId, Timestamp, ToolClaims,
    ToolKind, ToolSpec, words,
};
use utoipa::ToSchema;

use crate::{BudgetQuestion, call_state::CallState, preview::shortened};

/// Maximum length of an error about a message, in characters.
const COMPLAINT_CHARS: usize = 200;

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WsMessage {
    /// A text delta.
    Token(Token),
    /// The turn has ended with an answer.
    Complete(Complete),
    /// An error. It ends the turn only if `outcome` is set.
    Error(WsError),
    /// Answer to `ping`.
    Pong,
    /// A tool starts.
    ToolStart(ToolStart),
    /// A tool succeeded. If it failed, an `error` with the code `TOOL_ERROR` is sent instead.
    ToolComplete(ToolComplete),
    /// The run of the turn has started. Enabled with `resume`.
    Started(Started),
    /// Progress of a tool. Enabled with `progress`.
    ToolProgress(ToolProgress),
    /// A piece of a large result, sent before its `tool_complete`. Enabled with `chunks`.
    ToolResultChunk(ToolResultChunk),
    /// All pieces of a large result were sent. Enabled with `chunks`.
    ToolResultEnd(ToolResultEnd),
    /// A call needs an approval. Enabled with `approvals`.
    ApprovalRequest(ApprovalRequest),
    /// A tool asks the user a question and waits for the answer. Enabled with `inputs`.
    InputRequest(InputRequest),
    /// Partial output of a running tool. Enabled with `output`.
    ToolOutput(ToolOutputPiece),
    /// The available tools. Enabled with `tools`.
    Tools(Tools),
}

/// A text delta.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToken)]
pub struct Token {
    /// The new text. Never empty.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub content: String,
}

/// The turn has ended with an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsComplete)]
pub struct Complete {
    /// ID of the last message of the conversation: the model's, or the user's if the model
    /// generated none. It can be looked up.
    pub message_id: String,
    /// ID of the conversation.
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// `completed`, or `incomplete` if the turn stopped at a limit.
    #[serde(default)]
    #[schema(required)]
    pub outcome: TurnOutcome,
    /// The limit, if `outcome` is `incomplete`. Missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<IncompleteReason>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsTurnOutcome)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The model gave its answer.
    #[default]
    Completed,
    /// The turn stopped at a limit. The answer is not complete.
    Incomplete,
    /// The model or the server could not continue.
    Failed,
    /// The turn was cancelled.
    Cancelled,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WsError {
    /// Human-readable message.
    pub message: String,
    /// Machine-readable code. Missing if the turn was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Whether the server closes the socket after this message.
    #[serde(default)]
    #[schema(required)]
    pub fatal: bool,
    /// How the turn ended. If set, the turn has ended and no `complete` follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnOutcome>,
    /// Failure code, as listed in `docs/errors.md`. Missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The failed call, for `TOOL_ERROR`.
    #[serde(flatten)]
    #[schema(value_type = MaybeFailedCall)]
    pub call: Option<FailedCall>,
}

/// The failed call of a `TOOL_ERROR`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCall {
    /// ID of the tool call.
    pub tool_call_id: CallId,
    /// Name of the tool.
    #[serde(deserialize_with = "not_empty")]
    pub tool_name: String,
    /// Kind of the tool.
    #[serde(default)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// State of the call: `failed`, `denied`, `stopped`, `timed out` or `unknown`.
    pub state: CallState,
    /// Execution time in milliseconds; 0 if the tool never started.
    pub duration_ms: u64,
    /// Time at which the call ended.
    pub timestamp: Timestamp,
}

/// Fields about the failed call. Present only if `code` is `TOOL_ERROR`.
#[derive(ToSchema)]
#[schema(as = WsFailedCall)]
#[expect(dead_code, reason = "only its schema is used")]
struct MaybeFailedCall {
    /// ID of the tool call.
    tool_call_id: Option<String>,
    /// Name of the tool.
    tool_name: Option<String>,
    /// Kind of the tool.
    kind: Option<ToolKind>,
    /// Label of the tool's server. Missing if the tool has none.
    server: Option<String>,
    /// State of the call: `failed`, `denied`, `stopped`, `timed out` or `unknown`.
    state: Option<CallState>,
    /// Execution time in milliseconds; 0 if the tool never started.
    duration_ms: Option<u64>,
    /// Time at which the call ended.
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

words! {
    /// Code of an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    #[schema(as = WsErrorCode)]
    pub enum ErrorCode {
        /// The message is invalid. The socket stays open.
        InvalidFormat = "INVALID_FORMAT",
        /// The conversation does not exist, or belongs to another tenant.
        AccessDenied = "ACCESS_DENIED",
        /// The model could not be reached or did not finish. If `outcome` is missing, the request
        /// is retried.
        LlmError = "LLM_ERROR",
        /// The server could not continue. If `outcome` is missing, the turn continues.
        InternalError = "INTERNAL_ERROR",
        /// A tool failed. The model gets the error, and the turn continues.
        ToolError = "TOOL_ERROR",
    }
}

/// A tool starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolStart)]
pub struct ToolStart {
    /// ID of the tool call. The same in all messages about it.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Name of the tool.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// The arguments, as JSON text. Always an object, even if the model generated something else.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_input: String,
    /// Time of the start.
    pub timestamp: Timestamp,
    /// Kind of the tool.
    #[serde(default)]
    #[schema(required)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A tool succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolComplete)]
pub struct ToolComplete {
    /// ID of the tool call. The same in all messages about it.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Name of the tool. The same as in its `tool_start`.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// The result, as text. If it is large, only its beginning.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_result: String,
    /// Time of the end.
    pub timestamp: Timestamp,
    /// Kind of the tool.
    #[serde(default)]
    #[schema(required)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Execution time in milliseconds.
    #[serde(default)]
    #[schema(required)]
    pub duration_ms: u64,
    /// Whether the result is empty; `tool_result` is then a placeholder text. Missing if false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub empty: bool,
    /// Whether `tool_result` is only the beginning of the result. Missing if false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// Size of the full result in bytes, if it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Path of the full result, if it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
}

/// The run of a turn has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsStarted)]
pub struct Started {
    /// ID of the run, for `resume` after a disconnect.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// ID of the conversation.
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
}

/// Progress of a tool, or a notice that the tool is silent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolProgress)]
pub struct ToolProgress {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Name of the tool.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// Work done so far, in the tool's own unit.
    pub progress: Option<f64>,
    /// Total amount of work, if the tool knows it.
    pub total: Option<f64>,
    /// What the tool is doing.
    pub message: Option<String>,
    /// Time of the report.
    pub timestamp: Timestamp,
    /// Kind of the tool.
    #[serde(default)]
    #[schema(required)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A piece of a large result. All pieces together are the part of the result that the journal
/// contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolResultChunk)]
pub struct ToolResultChunk {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Index of the piece, from 0.
    pub index: u32,
    /// The text of the piece, in whole characters. Never empty.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub content: String,
}

/// All pieces of a large result were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolResultEnd)]
pub struct ToolResultEnd {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Number of pieces.
    pub chunks: u32,
    /// Total size of the pieces, in bytes.
    pub bytes: u64,
    /// Size of the full result, in bytes. More than `bytes` if the journal has only its beginning,
    /// or if control characters were removed.
    pub result_bytes: u64,
    /// Path of the full result.
    pub result_ref: String,
}

/// A call needs an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsApprovalRequest)]
pub struct ApprovalRequest {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Name of the tool.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// The arguments, as JSON text.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_input: String,
    /// Time of the request.
    pub timestamp: Timestamp,
    /// Kind of the tool.
    #[serde(default)]
    #[schema(required)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time at which the request expires. The call is denied then. Missing if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The new definition of the tool, if it differs from the one that was approved before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// Effect class of the tool. Present with `server_claims`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the tool's server claims about the tool. Not verified. Missing if it claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_claims: Option<ToolClaims>,
    /// The budget that the approval is about, if that is why it is asked for. The answer decides
    /// whether the run goes on, and all calls of the turn wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetQuestion>,
}

/// A tool asks the user a question and waits for the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsInputRequest)]
pub struct InputRequest {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// ID of the question. A call may ask several.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// Name of the tool.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// Text of the question.
    pub message: String,
    /// JSON schema of the answer.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// Time of the question.
    pub timestamp: Timestamp,
    /// Kind of the tool.
    #[serde(default)]
    #[schema(required)]
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time at which the question expires. Missing if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Partial output of a running tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolOutput)]
pub struct ToolOutputPiece {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The new output only.
    pub content: String,
}

/// The available tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsTools)]
pub struct Tools {
    /// The tools.
    pub tools: Vec<ToolInfo>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolInfo)]
pub struct ToolInfo {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// JSON schema of the arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the tool's server. Missing if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl WsMessage {
    /// Reads a message of the server. A tool message without a time gets `received_at`. The error
    /// says what is wrong with it.
    pub fn read(text: &str, received_at: Timestamp) -> Result<Self, String> {
        let mut message = read_object(text)?;
        let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_dated =
            matches!(kind, "tool_start" | "tool_complete" | "tool_progress" | "approval_request");
        if is_dated && message.get("timestamp").is_none_or(Value::is_null) {
            message.insert("timestamp".to_owned(), Value::String(received_at.to_string()));
        }
        from_object(message)
    }

    /// An error that is not about a run, such as an invalid message or an unknown conversation.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(WsError::new(code, message))
    }

    /// The last message before the socket closes.
    pub fn closing(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(WsError { fatal: true, ..WsError::new(code, message) })
    }

    /// The answer to a request for the tools.
    pub fn tools<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        Self::Tools(Tools { tools: specs.into_iter().map(ToolInfo::of).collect() })
    }
}

impl WsError {
    /// An error that does not end the turn.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: Some(code),
            fatal: false,
            outcome: None,
            failure: None,
            call: None,
        }
    }
}

impl ToolInfo {
    /// The description of a tool for clients.
    pub fn of(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            kind: spec.kind,
            server: spec.server.clone(),
        }
    }
}

impl ToolStart {
    /// The start of a function at `at`. Refused without a name or an input.
    pub fn new(
        tool_call_id: impl Into<CallId>,
        tool_name: impl Into<String>,
        tool_input: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, EmptyField> {
        Ok(Self {
            tool_call_id: tool_call_id.into(),
            tool_name: filled("tool_name", tool_name)?,
            tool_input: filled("tool_input", tool_input)?,
            timestamp: at,
            kind: ToolKind::default(),
            server: None,
        })
    }
}

impl ToolComplete {
    /// The end of a function at `at`. Refused without a name or a result.
    pub fn new(
        tool_call_id: impl Into<CallId>,
        tool_name: impl Into<String>,
        tool_result: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, EmptyField> {
        Ok(Self {
            tool_call_id: tool_call_id.into(),
            tool_name: filled("tool_name", tool_name)?,
            tool_result: filled("tool_result", tool_result)?,
            timestamp: at,
            kind: ToolKind::default(),
            server: None,
            duration_ms: 0,
            empty: false,
            truncated: false,
            result_bytes: None,
            result_ref: None,
        })
    }
}

/// A required field is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmptyField(
    /// The field.
    pub &'static str,
);

impl fmt::Display for EmptyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must not be empty", self.0)
    }
}

impl std::error::Error for EmptyField {}

fn filled(field: &'static str, text: impl Into<String>) -> Result<String, EmptyField> {
    let text = text.into();
    if text.is_empty() { Err(EmptyField(field)) } else { Ok(text) }
}

/// Deserializes a string that must not be empty.
pub(crate) fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Err(de::Error::custom("a required text is empty"));
    }
    Ok(text)
}

/// Parses `text` as a JSON object.
pub(crate) fn read_object(text: &str) -> Result<serde_json::Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("a message is a JSON object".to_owned()),
        Err(error) => Err(complaint(&format!("a message is a JSON object: {error}"))),
    }
}

/// Deserializes a message from `object`.
pub(crate) fn from_object<T: de::DeserializeOwned>(
    object: serde_json::Map<String, Value>,
) -> Result<T, String> {
    serde_json::from_value(Value::Object(object)).map_err(|error| complaint(&error.to_string()))
}

/// An error on one line and of limited length, because it may repeat client input.
fn complaint(text: &str) -> String {
    shortened(text, COMPLAINT_CHARS)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
#[path = "ws_message_tests.rs"]
mod tests;
