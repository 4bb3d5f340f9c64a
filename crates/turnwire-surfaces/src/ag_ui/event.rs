//! The events of the protocol, as far as this server sends them.
//!
//! Names and fields are the protocol's. What is ours is in `metadata.turnwire`, in the content of
//! activities, and in `CUSTOM` events whose name begins with `turnwire.`.

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{Timestamp, Usage};
use utoipa::ToSchema;

use crate::wire_json::wire_json;

/// The version of the protocol that the events follow.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The version of the protocol that a client speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// Before 1.0. Such clients refuse the outcome `cancelled` and any field of the outcome
    /// `success`; both are sent as `result` instead, which every version reads.
    Before1,
    /// 1.0.
    #[default]
    V1,
}

/// An event with its cursor in the stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AgUiFrame {
    /// Number of the frame, sent as the `id` of the server-sent event. A pure function of the
    /// journal, increasing, from 1.
    #[serde(skip)]
    pub number: u64,
    /// The event.
    #[serde(flatten)]
    pub event: AgUiEvent,
    /// Time of the event, in Unix milliseconds.
    pub timestamp: i64,
}

impl AgUiFrame {
    /// The frame `number`, of an event at `at`.
    pub(super) fn new(number: u64, event: AgUiEvent, at: Timestamp) -> Self {
        Self { number, event, timestamp: at.as_micros() / 1000 }
    }

    /// The frame as JSON on one line, for a `data:` line.
    pub fn data(&self) -> String {
        wire_json(self)
    }
}

/// An event of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AgUiEvent {
    /// A run of the protocol starts. Always the first event.
    #[serde(rename_all = "camelCase")]
    RunStarted {
        /// ID of the thread.
        thread_id: String,
        /// ID of the run, as the client chose it.
        run_id: String,
        /// Version of the protocol.
        protocol_version: &'static str,
        /// ID of the run that this one resumes.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
        /// `turnwire.run_id` resumes and cancels the run; `turnwire.conversation_id` is its
        /// conversation.
        #[schema(value_type = Object)]
        metadata: Value,
    },
    /// The run ended without an error, or pauses with interrupts.
    #[serde(rename_all = "camelCase")]
    RunFinished {
        /// ID of the thread.
        thread_id: String,
        /// ID of the run.
        run_id: String,
        /// What the outcome does not say: a limit that was reached.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        result: Option<Value>,
        /// How the run ended. Missing for a cancelled run if the client speaks a version before
        /// 1.0.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// Tokens used by this run of the protocol.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// The run failed.
    RunError {
        /// Human-readable message.
        message: String,
        /// Stable error code.
        code: String,
        /// Tokens used by this run of the protocol.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// A turn of the model starts.
    #[serde(rename_all = "camelCase")]
    StepStarted {
        /// `turn-N`.
        step_name: String,
    },
    /// A turn of the model ended.
    #[serde(rename_all = "camelCase")]
    StepFinished {
        /// `turn-N`.
        step_name: String,
    },
    /// A message of the model starts.
    #[serde(rename_all = "camelCase")]
    TextMessageStart {
        /// ID of the message.
        message_id: String,
        /// Always `assistant`.
        role: &'static str,
    },
    /// Text of a message.
    #[serde(rename_all = "camelCase")]
    TextMessageContent {
        /// ID of the message.
        message_id: String,
        /// The new text. Never empty.
        delta: String,
    },
    /// A message ended.
    #[serde(rename_all = "camelCase")]
    TextMessageEnd {
        /// ID of the message.
        message_id: String,
        /// `turnwire.state` is `cut` or `superseded` if the message is not complete;
        /// `turnwire.annotations` are its citations.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        metadata: Option<Value>,
    },
    /// The model starts to reason.
    #[serde(rename_all = "camelCase")]
    ReasoningStart {
        /// ID of the reasoning, also of its message.
        message_id: String,
    },
    /// The text of the reasoning starts.
    #[serde(rename_all = "camelCase")]
    ReasoningMessageStart {
        /// ID of the reasoning.
        message_id: String,
        /// Always `reasoning`.
        role: &'static str,
    },
    /// Text of the reasoning.
    #[serde(rename_all = "camelCase")]
    ReasoningMessageContent {
        /// ID of the reasoning.
        message_id: String,
        /// The new text. Never empty.
        delta: String,
    },
    /// The text of the reasoning ended.
    #[serde(rename_all = "camelCase")]
    ReasoningMessageEnd {
        /// ID of the reasoning.
        message_id: String,
    },
    /// The reasoning ended.
    #[serde(rename_all = "camelCase")]
    ReasoningEnd {
        /// ID of the reasoning.
        message_id: String,
    },
    /// The model calls a tool. Its arguments follow.
    #[serde(rename_all = "camelCase")]
    ToolCallStart {
        /// ID of the call.
        tool_call_id: String,
        /// Name of the tool.
        tool_call_name: String,
        /// ID of the message that the call belongs to.
        parent_message_id: String,
        /// `turnwire` has the kind and the server of the tool.
        #[schema(value_type = Object)]
        metadata: Value,
    },
    /// Arguments of a call, as they are generated.
    #[serde(rename_all = "camelCase")]
    ToolCallArgs {
        /// ID of the call.
        tool_call_id: String,
        /// The new text: raw JSON.
        delta: String,
    },
    /// The arguments of a call are finished.
    #[serde(rename_all = "camelCase")]
    ToolCallEnd {
        /// ID of the call.
        tool_call_id: String,
        /// `turnwire.state` is `cut` or `superseded` if the arguments are not complete.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        metadata: Option<Value>,
    },
    /// A call ended, with or without success.
    #[serde(rename_all = "camelCase")]
    ToolCallResult {
        /// ID of the message with the result.
        message_id: String,
        /// ID of the call.
        tool_call_id: String,
        /// The result. A failure begins with `Error: `.
        content: String,
        /// Always `tool`.
        role: &'static str,
        /// `turnwire.state` tells how the call ended: `done`, `failed`, `denied`, `stopped`, `timed
        /// out` or `unknown`.
        #[schema(value_type = Object)]
        metadata: Value,
    },
    /// What a tool is doing, for the first time.
    #[serde(rename_all = "camelCase")]
    ActivitySnapshot {
        /// `progress_` and the ID of the call.
        message_id: String,
        /// Always `turnwire.tool`.
        activity_type: &'static str,
        /// The call, its state and its progress.
        #[schema(value_type = Object)]
        content: Map<String, Value>,
    },
    /// What has changed in an activity.
    #[serde(rename_all = "camelCase")]
    ActivityDelta {
        /// `progress_` and the ID of the call.
        message_id: String,
        /// Always `turnwire.tool`.
        activity_type: &'static str,
        /// The changes, as JSON Patch.
        patch: Vec<PatchOperation>,
    },
    /// All messages of the thread, after some of them were withdrawn.
    MessagesSnapshot {
        /// The messages.
        #[schema(value_type = Vec<Object>)]
        messages: Vec<Value>,
    },
    /// An event that the protocol has no name for.
    Custom {
        /// `turnwire.taken_over`, `turnwire.turn_retried` or `turnwire.part_skipped`.
        name: &'static str,
        /// Details.
        #[schema(value_type = Object)]
        value: Value,
    },
}

impl AgUiEvent {
    /// Whether no event follows in the same run of the protocol.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}

/// How a run of the protocol ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = AgUiOutcome)]
pub enum Outcome {
    /// The model has answered, or calls tools of the client.
    #[serde(rename_all = "camelCase")]
    Success {
        /// Calls that the client executes. Their results come with the next request.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    /// People are awaited. The next request answers with `resume`.
    Interrupt {
        /// What is asked. Never empty.
        interrupts: Vec<Interrupt>,
    },
    /// The run was cancelled.
    Cancelled,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgUiInterrupt)]
pub struct Interrupt {
    /// ID of the question, for `resume`.
    pub id: String,
    /// `tool_call` for an approval, `input_required` for a question of a tool.
    pub reason: &'static str,
    /// The question.
    pub message: String,
    /// ID of the call.
    pub tool_call_id: String,
    /// JSON Schema of the answer's `payload`.
    #[schema(value_type = Object)]
    pub response_schema: Value,
    /// Time at which the question expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `turnwire` has the facts of the call.
    #[schema(value_type = Object)]
    pub metadata: Value,
}

/// An operation of JSON Patch on a member of an object.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
#[schema(as = AgUiPatchOperation)]
pub enum PatchOperation {
    /// Sets a member, whether it exists or not.
    Add {
        /// JSON Pointer of the member.
        path: String,
        /// The new value.
        #[schema(value_type = Object)]
        value: Value,
    },
    /// Removes a member.
    Remove {
        /// JSON Pointer of the member.
        path: String,
    },
}

/// Tokens used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgUiTokenUsage)]
pub struct TokenUsage {
    /// Name of the model.
    pub model: String,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Input and output tokens.
    pub total_tokens: u64,
    /// Output tokens used for reasoning.
    pub reasoning_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cached_input_tokens: u64,
}

impl TokenUsage {
    /// The tokens of `model`, as the list that the protocol has; empty if there are none.
    pub(super) fn list(model: &str, usage: Usage) -> Vec<Self> {
        if usage == Usage::default() {
            return Vec::new();
        }
        vec![Self {
            model: model.to_owned(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens + usage.output_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            cached_input_tokens: usage.cached_tokens,
        }]
    }
}

/// `metadata` with our facts.
pub(super) fn metadata(facts: &impl Serialize) -> Value {
    json!({ "turnwire": facts })
}

/// The frames of one event of the journal.
#[derive(Debug)]
pub(super) struct Out {
    at: Timestamp,
    /// Number of the last frame.
    pub(super) last_number: u64,
    pub(super) frames: Vec<AgUiFrame>,
}

impl Out {
    pub(super) fn new(at: Timestamp, last_number: u64) -> Self {
        Self { at, last_number, frames: Vec::new() }
    }

    pub(super) fn send(&mut self, event: AgUiEvent) {
        self.last_number += 1;
        self.frames.push(AgUiFrame::new(self.last_number, event, self.at));
    }
}
