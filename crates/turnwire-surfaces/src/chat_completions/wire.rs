//! The objects of the Chat Completions API, in the official format.
//!
//! Two fields are not OpenAI's: `reasoning_content`, which providers and clients of open models
//! agree on, and `turnwire`, which clients ignore unless they know it.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{RecordedEvent, Usage};
use utoipa::ToSchema;

use crate::usage_note::UsageNote;
use crate::{
    responses::{item::TokenLogprob, response::ResponseError},
    wire_json::wire_json,
};

/// A chat completion: the answer to a request without `stream`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ChatCompletion {
    /// ID of the completion: `chatcmpl-` and the ID of the run without its prefix.
    pub id: String,
    /// Always `chat.completion`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Time of creation, in Unix seconds.
    pub created: i64,
    /// The requested model.
    pub model: String,
    /// The answer. Always exactly one.
    pub choices: Vec<CompletionChoice>,
    /// Tokens used by all turns of the run.
    pub usage: CompletionUsage,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<CompletionNote>,
}

/// The answer of a completion.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CompletionChoice {
    /// Always 0.
    pub index: u32,
    /// The message of the assistant.
    pub message: CompletionMessage,
    /// Log probabilities of the text, if the request asked for them.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why the answer ended.
    pub finish_reason: FinishReason,
}

/// The message of the assistant.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CompletionMessage {
    /// Always `assistant`.
    #[schema(value_type = String)]
    pub role: &'static str,
    /// The text of all turns. Null if the model only made calls or refused.
    pub content: Option<String>,
    /// The refusal of the model. Null if it did not refuse.
    pub refusal: Option<String>,
    /// The reasoning of the model. Missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Citations of web pages in the text. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub annotations: Vec<Value>,
    /// Calls that the client has to execute. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CompletionToolCall>,
}

/// A call that the client has to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompletionToolCall {
    /// A call of a function.
    Function {
        /// ID of the call. The message with the result has the same.
        id: String,
        /// Name and arguments.
        function: CalledFunction,
    },
    /// A call of a custom tool.
    Custom {
        /// ID of the call.
        id: String,
        /// Name and input.
        custom: CalledCustomTool,
    },
}

impl CompletionToolCall {
    /// Arguments, or the input of a custom tool.
    pub(super) fn arguments(&mut self) -> &mut String {
        match self {
            Self::Function { function, .. } => &mut function.arguments,
            Self::Custom { custom, .. } => &mut custom.input,
        }
    }
}

/// A called function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CalledFunction {
    /// Name of the function.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// A called custom tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CalledCustomTool {
    /// Name of the tool.
    pub name: String,
    /// The input, as plain text.
    pub input: String,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its answer.
    Stop,
    /// A limit of tokens, calls, turns or time was reached.
    Length,
    /// The client has to execute calls.
    ToolCalls,
    /// The provider's content filter withheld the answer.
    ContentFilter,
}

/// Log probabilities of a text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CompletionLogprobs {
    /// Log probabilities of the tokens of the content.
    pub content: Vec<TokenLogprob>,
    /// Always null.
    #[schema(value_type = Option<Vec<TokenLogprob>>)]
    pub refusal: (),
}

impl CompletionLogprobs {
    pub(super) fn of(content: Vec<TokenLogprob>) -> Option<Self> {
        (!content.is_empty()).then_some(Self { content, refusal: () })
    }
}

/// Tokens used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct CompletionUsage {
    /// Number of input tokens.
    pub prompt_tokens: u64,
    /// Number of output tokens.
    pub completion_tokens: u64,
    /// Sum of both.
    pub total_tokens: u64,
    /// Details of the input tokens.
    pub prompt_tokens_details: PromptTokensDetails,
    /// Details of the output tokens.
    pub completion_tokens_details: CompletionTokensDetails,
    /// What the official format has no field for. Absent if the cost is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub turnwire: Option<UsageNote>,
}

/// Details of the input tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Number of tokens read from the cache of the provider.
    pub cached_tokens: u64,
}

/// Details of the output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct CompletionTokensDetails {
    /// Number of reasoning tokens.
    pub reasoning_tokens: u64,
}

impl From<Usage> for CompletionUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nanos } =
            usage;
        Self {
            prompt_tokens: input_tokens,
            completion_tokens: output_tokens,
            total_tokens: input_tokens + output_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
            completion_tokens_details: CompletionTokensDetails { reasoning_tokens },
            turnwire: UsageNote::of(cost_nanos),
        }
    }
}

/// Fields that the official format does not have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct CompletionNote {
    /// Paths of the request fields that were ignored, by the gateway or by the model provider. In a
    /// stream, on the chunk with the finish reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub ignored: Option<Vec<String>>,
    /// What the client has to know about the answer, such as a part of it that could not be read. In
    /// a stream, on the chunk with the finish reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub warnings: Option<Vec<String>>,
    /// An event of the run. Only in streams with the profile `extended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RecordedEvent>, required = false)]
    pub event: Option<Box<RecordedEvent>>,
}

/// A chunk of a streamed completion.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ChatCompletionChunk {
    /// ID of the completion, the same in all chunks.
    pub id: String,
    /// Always `chat.completion.chunk`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Time of creation, in Unix seconds.
    pub created: i64,
    /// The requested model.
    pub model: String,
    /// What is new in the answer. Empty in the chunk with the usage, and in chunks that carry an
    /// event.
    pub choices: Vec<ChunkChoice>,
    /// Tokens used. Only with `stream_options.include_usage`, and null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CompletionUsage>, required = false)]
    pub usage: Option<Option<CompletionUsage>>,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<CompletionNote>,
}

/// What is new in the answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ChunkChoice {
    /// Always 0.
    pub index: u32,
    /// What is new in the message.
    pub delta: ChunkDelta,
    /// Log probabilities of the new text. Missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<CompletionLogprobs>,
    /// Why the answer ended. Null until it has.
    pub finish_reason: Option<FinishReason>,
}

/// What is new in a message. Fields without news are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ChunkDelta {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub role: Option<&'static str>,
    /// New text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New text of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// New text of the reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// New citations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>, required = false)]
    pub annotations: Vec<Value>,
    /// New calls, and new text of their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub tool_calls: Vec<ToolCallDelta>,
}

/// A new call, or new text of its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolCallDelta {
    /// Index of the call in the message.
    pub index: usize,
    /// ID of the call, in its first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function` or `custom`, in its first delta.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub kind: Option<&'static str>,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionDelta>,
    /// The custom tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomToolDelta>,
}

/// A called function, or new text of its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FunctionDelta {
    /// Name of the function, in its first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New text of the arguments.
    pub arguments: String,
}

/// A called custom tool, or new text of its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CustomToolDelta {
    /// Name of the tool, in its first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New text of the input.
    pub input: String,
}

/// The data of one frame of a streamed completion.
#[derive(Debug, Clone, PartialEq)]
pub enum CompletionFrame {
    /// A chunk.
    Chunk(Box<ChatCompletionChunk>),
    /// The run ended without an answer. Official clients raise an exception.
    Error(Box<CompletionError>),
    /// Nothing follows.
    Done,
}

/// The error of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CompletionError {
    /// Details of the error.
    pub error: ResponseError,
}

impl CompletionFrame {
    /// The text of a `data:` line.
    pub fn data(&self) -> String {
        match self {
            Self::Chunk(chunk) => wire_json(chunk),
            Self::Error(error) => wire_json(error),
            Self::Done => "[DONE]".to_owned(),
        }
    }
}
