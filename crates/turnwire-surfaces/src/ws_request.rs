//! What the socket of S2 is sent: `message` and `ping`, and what came later.
//!
//! Whatever a client writes, it gets an answer that says what is wrong and the socket stays
//! open; so reading never fails with anything but a sentence. Fields and types nobody knows are
//! refused: a client that is not told would take silence for consent. Only in a `hello` they are
//! not, because it asks for nothing: a client may understand more than a server has to say.

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
    /// Says something in a conversation, and so begins a turn.
    Message {
        /// The conversation.
        #[serde(deserialize_with = "conversation")]
        #[schema(value_type = String, min_length = 1)]
        conversation_id: ConversationId,
        /// What is said.
        #[serde(deserialize_with = "content")]
        #[schema(min_length = 1)]
        content: String,
    },
    /// Asks whether somebody is there; `pong` is the answer, also while a turn goes on.
    Ping,
    /// Says what the client understands beside the six messages of old. May come again; the
    /// last one counts.
    Hello(WsOptions),
    /// Asks for the tools.
    Tools,
    /// Stops the turn.
    Cancel,
    /// Stops one call; the model is told, and the turn goes on.
    ToolCancel {
        /// The call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
    },
    /// Has a call that did not work carried out again, in a turn of its own.
    ToolRetry {
        /// The call.
        #[schema(value_type = String)]
        tool_call_id: CallId,
    },
    /// Answers an `approval_request`.
    Approval {
        /// The call that waits.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// Whether it may be carried out.
        approved: bool,
        /// Why not; the model is told.
        #[serde(default)]
        reason: String,
        /// The arguments to call the tool with instead of the model's.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        arguments: Option<Map<String, Value>>,
        /// Whether later calls of this tool in this conversation are allowed too.
        #[serde(default)]
        remember: bool,
    },
    /// Answers an `input_request`.
    Input {
        /// The call whose tool asks.
        #[schema(value_type = String)]
        tool_call_id: CallId,
        /// The question; the call's latest if it is missing.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        input_id: Option<InputId>,
        /// What the person does about it.
        action: InputAction,
        /// With `accept`: what the person says, in the shape that was asked for.
        #[serde(default)]
        #[schema(value_type = Object)]
        content: Map<String, Value>,
    },
    /// Goes on with a turn after a lost connection.
    Resume {
        /// Which run; the latest one of this socket if it is missing.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        run_id: Option<RunId>,
        /// The `cursor` of the last message that was seen; everything if it is missing.
        #[serde(default)]
        #[schema(value_type = String, example = "12.0")]
        after: Cursor,
    },
}

/// What a person does about a tool's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputAction {
    /// Answers it.
    Accept,
    /// Does not want to answer.
    Decline,
    /// Puts it aside.
    Cancel,
}

impl InputAction {
    /// What the tool is told.
    pub fn reply(self, content: Map<String, Value>) -> Reply {
        match self {
            Self::Accept => Reply::Accepted { content },
            Self::Decline => Reply::Declined,
            Self::Cancel => Reply::Cancelled,
        }
    }
}

/// What a client understands beside the six messages of old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct WsOptions {
    /// Big results in pieces: `tool_result_chunk`, `tool_result_end`.
    pub chunks: bool,
    /// What tools say while they work: `tool_progress`.
    pub progress: bool,
    /// The tools, at once: `tools`.
    pub tools: bool,
    /// Calls that a person has to allow: `approval_request`.
    pub approvals: bool,
    /// What tools ask the person: `input_request`.
    pub inputs: bool,
    /// What tools let out while they work: `tool_output`.
    pub output: bool,
    /// What is needed to go on after a lost connection: `started`, and a `cursor` on every
    /// message of a turn.
    pub resume: bool,
}

impl WsRequest {
    /// Reads what a client wrote. An error says what is wrong with it, for `INVALID_FORMAT`.
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
