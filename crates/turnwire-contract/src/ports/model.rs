//! The model: a prompt goes in, parts of an answer come out.
//!
//! [`ModelPart`]s are in flight only. They are neither events (kept for ever) nor frames
//! (worded for a client); an adapter translates a provider's stream into them and decides
//! nothing: retries, timeouts and limits are the engine's, once, for all providers.

use std::{pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Annotation, Capabilities, Generation, Item, Logprob, ToolChoice, ToolSpec, Usage};

/// The answer, part by part. Dropping it hangs up on the provider.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelPart, ModelError>> + Send + 'static>>;

/// Something that answers prompts.
///
/// Promises an implementation makes:
///
/// * parts come as the provider sends them, not gathered up;
/// * text is whole characters: one split over two network reads arrives in one part;
/// * each call begins with one [`ModelPart::CallStarted`], its arguments follow under the same
///   key, and calls may be interleaved;
/// * a stream that ended well ends with [`ModelPart::Finished`]; one that ends without it was
///   cut, and the last thing it yields is an error;
/// * no input from the provider makes it panic.
#[async_trait]
pub trait Model: Send + Sync {
    /// Which model of the provider answers when a request asks for `name`.
    fn upstream_model(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Asks, and returns as soon as the provider begins to answer.
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError>;

    /// What it can be told. What it cannot be told is left out of the question, and whoever took
    /// the request tells its client so.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// What the model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The model's name as the request gave it; an adapter may be set to send another.
    pub model: String,
    /// What the application tells the model.
    pub instructions: Option<String>,
    /// The conversation so far. Shared, because a long one is asked about many times.
    pub items: Vec<Arc<Item>>,
    /// The tools on offer.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether to use them.
    pub tool_choice: ToolChoice,
    /// Whether several calls may come in one answer.
    pub parallel_tool_calls: bool,
    /// How to write.
    pub generation: Generation,
}

/// A part of the model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelPart {
    /// More of the answer.
    Text(String),
    /// How likely the tokens of the next [`Self::Text`] are.
    Logprobs(Vec<Logprob>),
    /// More of the refusal.
    Refusal(String),
    /// More of the thoughts.
    Reasoning(String),
    /// The provider's opaque proof of the thoughts so far, which closes them.
    ReasoningSeal(String),
    /// A source for the text so far.
    Annotation(Annotation),
    /// A call; sent once its name is known.
    CallStarted {
        /// Tells calls of one answer apart.
        key: u32,
        /// The provider's id, if it gave one.
        id: Option<String>,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call's key.
        key: u32,
        /// Raw JSON text; of a custom tool, its input as it is.
        text: String,
    },
    /// Something came that could not be read, and was left out. Whatever it was a part of has a
    /// gap.
    Unreadable {
        /// How many bytes it had.
        bytes: u64,
    },
    /// What the turn cost. A later one replaces an earlier one.
    Usage(Usage),
    /// The model is done.
    Finished(Finish),
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had nothing more to say.
    Answered,
    /// It waits for its calls.
    CalledTools,
    /// It ran out of room.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The stream broke off, or the run was stopped; it did not finish by itself.
    Interrupted,
}

/// Why the model did not answer. Variants are named by who can do what about it.
///
/// A message says what happened in our own words, for the operator's log. It never repeats what a
/// provider wrote: providers quote keys, prompts and addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Ask again later: the provider is overloaded, restarting or out of reach.
    #[error("the model is not available: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// How long the provider asked us to wait.
        retry_after: Option<Duration>,
    },
    /// Ask again later: the provider was asked too often, or for too much at once.
    #[error("the model is asked too often: {message}")]
    RateLimited {
        /// What happened.
        message: String,
        /// How long the provider asked us to wait.
        retry_after: Option<Duration>,
    },
    /// Only the operator can repair it: a key that is not taken, an account that is empty, a wrong
    /// address, a model in the settings that the provider does not have.
    #[error("the model is not set up correctly: {message}")]
    Misconfigured {
        /// What happened.
        message: String,
    },
    /// The provider has no model of the name in the prompt.
    #[error("the provider has no such model: {message}")]
    UnknownModel {
        /// What happened.
        message: String,
    },
    /// The prompt, or the prompt and the longest answer, are more than the model can read.
    #[error("the prompt is too long for the model: {message}")]
    ContextTooLong {
        /// What happened.
        message: String,
    },
    /// The provider does not answer what it takes for harmful.
    #[error("the provider filtered the prompt: {message}")]
    ContentFiltered {
        /// What happened.
        message: String,
    },
    /// Asking again would bring the same answer: the provider does not accept the request.
    #[error("the model refused the request: {message}")]
    Rejected {
        /// What happened.
        message: String,
    },
    /// The stream broke or made no sense.
    #[error("the model's answer broke off: {message}")]
    Broken {
        /// What happened.
        message: String,
    },
}
