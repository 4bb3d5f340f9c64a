//! Messages that a client sends on the chat WebSocket (S2): `message` and `ping`, and later
//! additions.
//!
//! Whatever a client sends, it gets an answer that says what is wrong, and the socket stays open;
//! so reading only fails with a sentence. Unknown fields and types are refused, because a client
//! would otherwise assume that they work. Only in `hello` they are accepted: it only lists what the
//! client understands, which may be more than the server offers.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use turnwire_contract::{CallId, ConversationId, InputId, Reply, RunId};
use utoipa::ToSchema;

use crate::{
    cursor::Cursor,
    ws_message::{from_object, read_object},
};

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum WsRequest {
    /// Sends a user message to a conversation and starts a turn.
    Message {
        /// ID of the conversation. It must exist.
        #[serde(deserialize_with = "conversation")]
        #[schema(value_type = String, min_length = 1)]
        conversation_id: ConversationId,
        /// Text of the message.
        #[serde(deserialize_with = "content")]
        #[schema(min_length = 1)]
        content: String,
    },
    /// Checks the connection. Answered with `pong`, also during a turn.
    Ping,
    /// Enables optional messages. May be sent again; the latest one applies.
    Hello(WsOptions),
    /// Requests the list of tools.
    Tools,
    /// Cancels the current turn.
    Cancel,
    /// Cancels one call. The model gets the outcome, and the turn continues.
    ToolCancel {
        /// ID of the tool call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
    },
    /// Retries a call that ended without success, in a new turn.
    ToolRetry {
        /// ID of the tool call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// Arguments to use instead of the model's. If they do not match the schema of the tool,
        /// the call fails, and the model is told.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        arguments: Option<Map<String, Value>>,
    },
    /// Answers an `approval_request`.
    Approval {
        /// ID of the tool call that waits for the approval.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// Whether the call is approved.
        approved: bool,
        /// Why the call is denied. Passed to the model.
        #[serde(default)]
        reason: String,
        /// Arguments to use instead of the model's. They must match the schema of the tool. Ignored
        /// if the call is denied.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        arguments: Option<Map<String, Value>>,
        /// Also approve later calls of this tool in this conversation. Ignored if the call is
        /// denied. Default: false.
        #[serde(default)]
        remember: bool,
    },
    /// Answers an `input_request`.
    Input {
        /// ID of the tool call whose tool asks.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// ID of the question. Default: the latest question of the call.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        input_id: Option<InputId>,
        /// How the user responds.
        action: InputAction,
        /// With `accept`: the user's input. It must match the schema of the question.
        #[serde(default)]
        #[schema(value_type = Object)]
        content: Map<String, Value>,
    },
    /// Resumes a turn after a disconnect.
    Resume {
        /// ID of the run. Default: the latest run of this socket.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        run_id: Option<RunId>,
        /// `cursor` of the last message received. If omitted, all messages of the turn are sent.
        #[serde(default)]
        #[schema(value_type = String, example = "12.0")]
        after: Cursor,
    },
}

/// How a user responds to a question of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputAction {
    /// The user answers.
    Accept,
    /// The user refuses to answer.
    Decline,
    /// The user dismisses the question.
    Cancel,
}

impl InputAction {
    /// The reply for the tool.
    pub fn reply(self, content: Map<String, Value>) -> Reply {
        match self {
            Self::Accept => Reply::Accepted { content },
            Self::Decline => Reply::Declined,
            Self::Cancel => Reply::Cancelled,
        }
    }
}

/// Optional messages of the server. All are disabled by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct WsOptions {
    /// Send large results in pieces: `tool_result_chunk` and `tool_result_end`.
    pub chunks: bool,
    /// Send the progress of tools: `tool_progress`.
    pub progress: bool,
    /// Send the list of tools at once: `tools`.
    pub tools: bool,
    /// Send approval requests: `approval_request`. Otherwise calls that need one are denied.
    pub approvals: bool,
    /// Send questions of tools: `input_request`. Otherwise tools are told that no user can answer.
    pub inputs: bool,
    /// Send partial output of running tools: `tool_output`.
    pub output: bool,
    /// Send what is needed to resume after a disconnect: `started`, and a `cursor` in every message
    /// of a turn.
    pub resume: bool,
}

impl WsRequest {
    /// Reads a message of a client. The error says what is wrong with it, for `INVALID_FORMAT`.
    pub fn read(text: &str) -> Result<Self, String> {
        from_object(read_object(text)?)
    }
}

fn conversation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ConversationId, D::Error> {
    let id = ConversationId::deserialize(deserializer)?;
    if id.as_str().is_empty() {
        return Err(de::Error::custom("conversation_id must not be empty"));
    }
    Ok(id)
}

fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let content = String::deserialize(deserializer)?;
    if content.is_empty() {
        return Err(de::Error::custom("content must not be empty"));
    }
    Ok(content)
}

#[cfg(test)]
#[path = "ws_request_tests.rs"]
mod tests;
