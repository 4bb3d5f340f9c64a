//! The model interface: a prompt in, a stream of parts out.
//!
//! [`ModelPart`]s are transient. They are neither events (recorded) nor frames (formatted for a
//! client). An adapter only translates a provider's stream into parts. Retries, timeouts and limits
//! are in the engine, once for all providers.

use std::{pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Annotation, Capabilities, Generation, Item, Logprob, ToolChoice, ToolSpec, TraceContext, Usage,
};

/// The answer as a stream of parts. Dropping it closes the connection to the provider.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelPart, ModelError>> + Send + 'static>>;

/// A model.
///
/// Guarantees of an implementation:
///
/// * parts are yielded as the provider sends them, without buffering;
/// * text consists of whole characters: a character split over two network reads arrives in one
///   part;
/// * each call begins with one [`ModelPart::CallStarted`], its arguments follow under the same key,
///   and calls may be interleaved;
/// * a complete stream ends with [`ModelPart::Finished`]; a stream that ends without it was cut
///   off, and the last thing it yields is an error;
/// * no input from the provider causes a panic.
#[async_trait]
pub trait Model: Send + Sync {
    /// Returns the provider's model that answers requests for `name`.
    fn upstream_model(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Sends the prompt, and returns when the provider starts to answer.
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError>;

    /// What the model supports. Unsupported parameters are not sent to the provider, and the
    /// surface reports them to its client.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Model name in the request. The adapter may be configured to send another name.
    pub model: String,
    /// Instructions from the application.
    pub instructions: Option<String>,
    /// The conversation so far. Shared, because the items of a long conversation are sent many
    /// times.
    pub items: Vec<Arc<Item>>,
    /// Tools that the model may call.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether the model must, may or must not call tools.
    pub tool_choice: ToolChoice,
    /// Whether one answer may contain several calls.
    pub parallel_tool_calls: bool,
    /// Sampling and output parameters.
    pub generation: Generation,
    /// Trace context of the turn, sent to the provider.
    pub trace: Option<Box<TraceContext>>,
}

/// A part of the model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelPart {
    /// Text of the answer.
    Text(String),
    /// Log probabilities of the tokens of the next [`Self::Text`].
    Logprobs(Vec<Logprob>),
    /// Text of a refusal.
    Refusal(String),
    /// Text of the reasoning.
    Reasoning(String),
    /// Opaque signature or encrypted content of the reasoning so far. It ends the reasoning item.
    EncryptedContent(String),
    /// A citation for the text so far.
    Annotation(Annotation),
    /// Start of a call. Sent when the name of the tool is known.
    CallStarted {
        /// Identifies the call within the answer.
        key: u32,
        /// Call ID from the provider, if it sent one.
        id: Option<String>,
        /// Name of the tool.
        name: String,
    },
    /// Arguments of a call.
    CallArguments {
        /// Key of the call.
        key: u32,
        /// Raw JSON; plain text for a custom tool.
        text: String,
    },
    /// Data that could not be parsed and was skipped. The item it belongs to has a gap.
    Unreadable {
        /// Size of the skipped data in bytes.
        bytes: u64,
    },
    /// Tokens used by the turn. A later value replaces an earlier one.
    Usage(Usage),
    /// End of the answer.
    Finished(Finish),
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer is complete.
    Answered,
    /// The model called tools and waits for their results.
    CalledTools,
    /// The answer reached the maximum length.
    Length,
    /// The provider's content filter withheld the rest.
    ContentFilter,
    /// The stream broke, or the run was stopped.
    Interrupted,
}

/// Error of a model. The variants say who can do what about it.
///
/// A message describes the error for the operator's log. It never contains text from the provider,
/// because providers quote keys, prompts and URLs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Retryable: the provider is overloaded, restarting or unreachable.
    #[error("the model is not available: {message}")]
    Unavailable {
        /// Description of the error.
        message: String,
        /// Delay requested by the provider.
        retry_after: Option<Duration>,
    },
    /// Retryable: the provider's rate limit was exceeded.
    #[error("the model's rate limit is reached: {message}")]
    RateLimited {
        /// Description of the error.
        message: String,
        /// Delay requested by the provider.
        retry_after: Option<Duration>,
    },
    /// Not retried: every upstream of the model is at its concurrency limit, and the request has
    /// already waited for a permit.
    #[error("the model is overloaded: {message}")]
    Overloaded {
        /// Description of the error.
        message: String,
        /// Time after which a new request is useful.
        retry_after: Option<Duration>,
    },
    /// Only the operator can fix it: a rejected key, an empty account, a wrong URL, or a configured
    /// model that the provider does not have.
    #[error("the model is not configured correctly: {message}")]
    Misconfigured {
        /// Description of the error.
        message: String,
    },
    /// The provider has no model of the requested name.
    #[error("the provider has no such model: {message}")]
    UnknownModel {
        /// Description of the error.
        message: String,
    },
    /// The prompt, or the prompt and the maximum answer, exceed the context window.
    #[error("the prompt is too long for the model: {message}")]
    ContextTooLong {
        /// Description of the error.
        message: String,
    },
    /// The provider's content filter refused the prompt.
    #[error("the provider filtered the prompt: {message}")]
    ContentFiltered {
        /// Description of the error.
        message: String,
    },
    /// The provider rejected the request. A retry does not help.
    #[error("the model refused the request: {message}")]
    Rejected {
        /// Description of the error.
        message: String,
    },
    /// The stream broke, or could not be parsed.
    #[error("the model's answer ended unexpectedly: {message}")]
    Broken {
        /// Description of the error.
        message: String,
    },
}
