//! What the socket of S2 sends: six messages that never change, and a few that a client has to
//! ask for.
//!
//! `token`, `complete`, `error`, `pong`, `tool_start` and `tool_complete` have the fields of
//! specification 002 and keep them for ever; fields may be added, and a client ignores those it
//! does not know. `started`, `tool_progress`, `tool_result_chunk`, `tool_result_end`,
//! `approval_request` and `tools` are sent only to those who asked (see
//! [`WsOptions`](crate::WsOptions)), because a client of the first kind has never heard of them.
//!
//! The types can be read as well as written, for clients in Rust. A tool message without a
//! name, an input or a result is refused in both directions. Its time is always there: a
//! message made from an event has that event's time, and [`WsMessage::read`] takes the time to
//! put in where a sender left it out, because this crate has no clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use turnwire_contract::{
    CallId, ConversationId, IncompleteReason, InputId, RunId, Timestamp, ToolKind, ToolSpec,
};
use utoipa::ToSchema;

use crate::{
    call_state::CallState,
    native_event::{IncompleteReasonShape, ToolKindShape},
    preview::shortened,
};

/// How long a complaint about a message may get.
const COMPLAINT_CHARS: usize = 200;

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WsMessage {
    /// The model said something.
    Token(Token),
    /// The turn is over and has its answer.
    Complete(Complete),
    /// Something went wrong. Only if `outcome` is set is the turn over.
    Error(WsError),
    /// The answer to `ping`.
    Pong,
    /// A tool is about to work.
    ToolStart(ToolStart),
    /// A tool has worked. A failed one has an `error` with the code `TOOL_ERROR` instead.
    ToolComplete(ToolComplete),
    /// The turn has a run. Asked for with `resume`.
    Started(Started),
    /// A tool tells how far it is. Asked for with `progress`.
    ToolProgress(ToolProgress),
    /// A piece of a big result; comes before its `tool_complete`. Asked for with `chunks`.
    ToolResultChunk(ToolResultChunk),
    /// All pieces of a big result are out. Asked for with `chunks`.
    ToolResultEnd(ToolResultEnd),
    /// A person has to allow a call. Asked for with `approvals`.
    ApprovalRequest(ApprovalRequest),
    /// A tool asks the person something, and waits. Asked for with `inputs`.
    InputRequest(InputRequest),
    /// A tool let out some of its output early. Asked for with `output`.
    ToolOutput(ToolOutputPiece),
    /// The tools there are. Asked for with `tools`.
    Tools(Tools),
}

/// A piece of what the model says, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToken)]
pub struct Token {
    /// The words.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub content: String,
}

/// The turn is over and has its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsComplete)]
pub struct Complete {
    /// The last message of the conversation: the model's, or, if it said nothing at all, the
    /// one it was asked with. It can be looked up.
    pub message_id: String,
    /// The conversation.
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// `completed`, or `incomplete` if a limit stopped the turn.
    #[serde(default)]
    #[schema(required)]
    pub outcome: TurnOutcome,
    /// Which limit, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<IncompleteReasonShape>)]
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
    /// It stopped at a limit; what it said is good but not whole.
    Incomplete,
    /// The model or the server could not go on.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// Something went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WsError {
    /// What, in one sentence for people.
    pub message: String,
    /// What, for programs. Missing when nobody made a mistake: somebody stopped the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Whether the socket closes now.
    #[serde(default)]
    #[schema(required)]
    pub fatal: bool,
    /// How the turn ended, if this ends it; then no `complete` follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnOutcome>,
    /// The failure code behind it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The call that did not work, for `TOOL_ERROR`.
    #[serde(flatten)]
    #[schema(value_type = MaybeFailedCall)]
    pub call: Option<FailedCall>,
}

/// The call behind a `TOOL_ERROR`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCall {
    /// The call.
    pub tool_call_id: CallId,
    /// The tool's name.
    #[serde(deserialize_with = "not_empty")]
    pub tool_name: String,
    /// What kind of tool it is.
    #[serde(default)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Failed, denied, stopped, timed out or unknown.
    pub state: CallState,
    /// How long the tool worked; 0 if it never started.
    pub duration_ms: u64,
    /// When it ended.
    pub timestamp: Timestamp,
}

/// [`FailedCall`] as the document has it: all of its fields, or none.
#[derive(ToSchema)]
#[schema(as = WsFailedCall)]
#[expect(dead_code, reason = "only its schema is used")]
struct MaybeFailedCall {
    /// The call.
    tool_call_id: Option<String>,
    /// The tool's name.
    tool_name: Option<String>,
    /// What kind of tool it is.
    kind: Option<ToolKindShape>,
    /// The server it lives on, if it lives on one.
    server: Option<String>,
    /// Failed, denied, stopped, timed out or unknown.
    state: Option<CallState>,
    /// How long the tool worked; 0 if it never started.
    duration_ms: Option<u64>,
    /// When it ended.
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = WsErrorCode)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The message is not one this server knows. Repair it; the socket stays open.
    InvalidFormat,
    /// The conversation does not exist, or belongs to somebody else.
    AccessDenied,
    /// The model could not be reached or did not finish. If `outcome` is missing it is being
    /// asked again.
    LlmError,
    /// The server could not go on. If `outcome` is missing the turn goes on all the same.
    InternalError,
    /// A tool did not work. The model is told, and the turn goes on.
    ToolError,
}

impl ErrorCode {
    /// Every code there is.
    pub const ALL: [Self; 5] = [
        Self::InvalidFormat,
        Self::AccessDenied,
        Self::LlmError,
        Self::InternalError,
        Self::ToolError,
    ];

    /// The code as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidFormat => "INVALID_FORMAT",
            Self::AccessDenied => "ACCESS_DENIED",
            Self::LlmError => "LLM_ERROR",
            Self::InternalError => "INTERNAL_ERROR",
            Self::ToolError => "TOOL_ERROR",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A tool is about to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolStart)]
pub struct ToolStart {
    /// The call; the same on every message about it.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The tool's name.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// The arguments as JSON text: always an object, whatever the model wrote.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_input: String,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// What kind of tool it is.
    #[serde(default)]
    #[schema(required, value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A tool has worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolComplete)]
pub struct ToolComplete {
    /// The call; the same on every message about it.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The tool's name; the same as in its `tool_start`.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// What it returned, as text; its beginning if it is big.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_result: String,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// What kind of tool it is.
    #[serde(default)]
    #[schema(required, value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How long the tool worked.
    #[serde(default)]
    #[schema(required)]
    pub duration_ms: u64,
    /// Whether the tool returned nothing; `tool_result` then says so in words.
    #[serde(default, skip_serializing_if = "is_false")]
    pub empty: bool,
    /// Whether `tool_result` is only the beginning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// How many bytes the whole result has, if it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Where the whole result is, if it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
}

/// The turn has a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsStarted)]
pub struct Started {
    /// The run, for `resume` after a lost connection.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// The conversation.
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
}

/// A tool tells how far it is, or it is told about a tool that says nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolProgress)]
pub struct ToolProgress {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The tool's name.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// How much is done, in the tool's own unit.
    #[serde(default)]
    pub progress: Option<f64>,
    /// How much there is, if the tool knows.
    #[serde(default)]
    pub total: Option<f64>,
    /// What it is doing.
    #[serde(default)]
    pub message: Option<String>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// What kind of tool it is.
    #[serde(default)]
    #[schema(required, value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A piece of a big result. All pieces together are what the journal holds of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolResultChunk)]
pub struct ToolResultChunk {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// 0, 1, 2, …
    pub index: u32,
    /// Whole characters, never empty.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub content: String,
}

/// All pieces of a big result are out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolResultEnd)]
pub struct ToolResultEnd {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// How many pieces there were.
    pub chunks: u32,
    /// How many bytes they have together.
    pub bytes: u64,
    /// How many bytes the whole result has; more than `bytes` if the journal has only its
    /// beginning, or if control characters were taken out.
    pub result_bytes: u64,
    /// Where the whole result is.
    pub result_ref: String,
}

/// A person has to allow a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsApprovalRequest)]
pub struct ApprovalRequest {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The tool's name.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// The arguments as JSON text.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_input: String,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// What kind of tool it is.
    #[serde(default)]
    #[schema(required, value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Until when the answer may come; then the call is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// What the tool says of itself now, if its definition is not the one that was trusted
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A tool asks the person something, and waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsInputRequest)]
pub struct InputRequest {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// The question; a call may have several.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// The tool's name.
    #[serde(deserialize_with = "not_empty")]
    #[schema(min_length = 1)]
    pub tool_name: String,
    /// What is asked.
    pub message: String,
    /// The JSON Schema of the answer.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// What kind of tool it is.
    #[serde(default)]
    #[schema(required, value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Until when the answer may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A piece of what a tool lets out while it works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolOutput)]
pub struct ToolOutputPiece {
    /// The call.
    #[schema(value_type = String)]
    pub tool_call_id: CallId,
    /// Only the new part.
    pub content: String,
}

/// The tools there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsTools)]
pub struct Tools {
    /// Each of them.
    pub tools: Vec<ToolInfo>,
}

/// A tool as clients are told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WsToolInfo)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// What kind of tool it is.
    #[schema(value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl WsMessage {
    /// Reads a message of the server. A tool message that says no time gets `received_at`.
    /// An error says what is wrong with it.
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

    /// An error that is not about a run: a message that cannot be read, a conversation that is
    /// not there.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(WsError::new(code, message))
    }

    /// The last words before the socket closes.
    pub fn closing(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(WsError { fatal: true, ..WsError::new(code, message) })
    }

    /// The answer to who asks for the tools.
    pub fn tools<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        Self::Tools(Tools { tools: specs.into_iter().map(ToolInfo::of).collect() })
    }
}

impl WsError {
    /// An error after which everything goes on.
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
    /// What clients are told of a tool.
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
    /// A start at `at`, of a function. Refused without a name or an input.
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
    /// An end at `at`, of a function. Refused without a name or a result.
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

/// A field that must say something says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmptyField(
    /// Which one.
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

/// For fields that must say something.
pub(crate) fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Err(de::Error::custom("a required text is empty"));
    }
    Ok(text)
}

/// The object that `text` is.
pub(crate) fn read_object(text: &str) -> Result<serde_json::Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("a message is a JSON object".to_owned()),
        Err(error) => Err(complaint(&format!("a message is a JSON object: {error}"))),
    }
}

/// The message that `object` is.
pub(crate) fn from_object<T: de::DeserializeOwned>(
    object: serde_json::Map<String, Value>,
) -> Result<T, String> {
    serde_json::from_value(Value::Object(object)).map_err(|error| complaint(&error.to_string()))
}

/// What is wrong, on one line and not too long: it may repeat what a stranger wrote.
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
