//! Sampling and output parameters, and which of them a provider supports.
//!
//! Clients send about two dozen parameters, and no provider supports all of them. An unsupported
//! parameter is not dropped silently: [`Generation::asked`] lists the parameters that a request
//! sets, [`Capabilities`] lists those that a model accepts, and the surface reports the difference
//! to its client.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words;

/// Sampling and output parameters. An unset field leaves the choice to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// Sampling temperature. Higher values make the output more random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling: only the most likely tokens with this total probability are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Maximum number of output tokens per turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// Reasoning effort, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Form of the reasoning summary, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<String>,
    /// Which earlier reasoning the model receives, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_context: Option<String>,
    /// Reasoning mode, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_mode: Option<String>,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Name of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// Description of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_description: Option<String>,
    /// Whether the provider enforces the schema. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_strict: Option<bool>,
    /// Whether the answer must be a JSON object of any shape.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub json_object: bool,
    /// Verbosity of the answer, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// What to do when the input exceeds the context window, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<String>,
    /// Whether to return the log probability of each token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub logprobs: bool,
    /// Number of alternatives to return per token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// Penalty for tokens, in proportion to their frequency so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Penalty for tokens that have occurred at least once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Sequences that end the answer. They are not part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Seed for sampling. Determinism is best effort, by the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Key of requests that share a prompt prefix, for the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// How long the provider caches a prompt prefix, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_retention: Option<String>,
    /// Hashed ID of the client's end user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_identifier: Option<String>,
    /// ID of the client's end user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Service tier, passed to the provider as is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
}

impl Generation {
    /// Returns the parameters that are set to something other than the default.
    pub fn asked(&self) -> impl Iterator<Item = Parameter> {
        Parameter::ALL.iter().copied().filter(|parameter| self.asks(*parameter))
    }

    fn asks(&self, parameter: Parameter) -> bool {
        let other_than = |value: &Option<String>, usual: &[&str]| {
            value.as_deref().is_some_and(|value| !usual.contains(&value))
        };
        let is_penalty = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        match parameter {
            Parameter::Temperature => self.temperature.is_some(),
            Parameter::TopP => self.top_p.is_some(),
            Parameter::MaxOutputTokens => self.max_output_tokens.is_some(),
            Parameter::ReasoningEffort => self.reasoning_effort.is_some(),
            Parameter::ReasoningSummary => self.reasoning_summary.is_some(),
            Parameter::ReasoningContext => other_than(&self.reasoning_context, &["auto"]),
            Parameter::ReasoningMode => other_than(&self.reasoning_mode, &["standard"]),
            Parameter::AnswerSchema => self.answer_schema.is_some(),
            Parameter::SchemaDescription => self.schema_description.is_some(),
            Parameter::LooseSchema => self.schema_strict == Some(false),
            Parameter::JsonObject => self.json_object,
            Parameter::Verbosity => self.verbosity.is_some(),
            Parameter::Truncation => other_than(&self.truncation, &["disabled"]),
            Parameter::Logprobs => self.logprobs,
            Parameter::TopLogprobs => self.top_logprobs.is_some_and(|n| n > 0),
            Parameter::FrequencyPenalty => is_penalty(self.frequency_penalty),
            Parameter::PresencePenalty => is_penalty(self.presence_penalty),
            Parameter::Stop => !self.stop.is_empty(),
            Parameter::Seed => self.seed.is_some(),
            Parameter::PromptCacheKey => self.prompt_cache_key.is_some(),
            Parameter::PromptCacheRetention => self.prompt_cache_retention.is_some(),
            Parameter::SafetyIdentifier => self.safety_identifier.is_some(),
            Parameter::User => self.user.is_some(),
            Parameter::ServiceTier => other_than(&self.service_tier, &["auto", "default"]),
            // These are not part of `Generation`.
            Parameter::ImageDetail | Parameter::StrictFunctions | Parameter::Namespaces => false,
        }
    }
}

words! {
    /// A request parameter that some providers do not support. Its word is its path in a request,
    /// and its name in the settings.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    pub enum Parameter {
        /// [`Generation::temperature`].
        Temperature = "temperature",
        /// [`Generation::top_p`].
        TopP = "top_p",
        /// [`Generation::max_output_tokens`].
        MaxOutputTokens = "max_output_tokens",
        /// [`Generation::reasoning_effort`].
        ReasoningEffort = "reasoning.effort",
        /// [`Generation::reasoning_summary`].
        ReasoningSummary = "reasoning.summary",
        /// [`Generation::reasoning_context`].
        ReasoningContext = "reasoning.context",
        /// [`Generation::reasoning_mode`].
        ReasoningMode = "reasoning.mode",
        /// [`Generation::answer_schema`].
        AnswerSchema = "text.format.schema",
        /// [`Generation::schema_description`].
        SchemaDescription = "text.format.description",
        /// [`Generation::schema_strict`] set to false.
        LooseSchema = "text.format.strict",
        /// [`Generation::json_object`].
        JsonObject = "text.format",
        /// [`Generation::verbosity`].
        Verbosity = "text.verbosity",
        /// [`Generation::truncation`].
        Truncation = "truncation",
        /// [`Generation::logprobs`].
        Logprobs = "message.output_text.logprobs",
        /// [`Generation::top_logprobs`].
        TopLogprobs = "top_logprobs",
        /// [`Generation::frequency_penalty`].
        FrequencyPenalty = "frequency_penalty",
        /// [`Generation::presence_penalty`].
        PresencePenalty = "presence_penalty",
        /// [`Generation::stop`].
        Stop = "stop",
        /// [`Generation::seed`].
        Seed = "seed",
        /// [`Generation::prompt_cache_key`].
        PromptCacheKey = "prompt_cache_key",
        /// [`Generation::prompt_cache_retention`].
        PromptCacheRetention = "prompt_cache_retention",
        /// [`Generation::safety_identifier`].
        SafetyIdentifier = "safety_identifier",
        /// [`Generation::user`].
        User = "user",
        /// [`Generation::service_tier`].
        ServiceTier = "service_tier",
        /// Resolution at which the model sees an image.
        ImageDetail = "input[].content[].detail",
        /// Whether the provider enforces the schema of a function's arguments.
        StrictFunctions = "tools[].strict",
        /// Groups of tools with a description of their own.
        Namespaces = "tools[].description",
    }
}

/// What a model supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Supported parameters.
    pub parameters: Vec<Parameter>,
    /// Support for custom tools.
    pub custom_tools: CustomTools,
}

impl Default for Capabilities {
    /// Everything is supported.
    fn default() -> Self {
        Self { parameters: Parameter::ALL.to_vec(), custom_tools: CustomTools::Native }
    }
}

impl Capabilities {
    /// Whether `parameter` is supported.
    pub fn takes(&self, parameter: Parameter) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// How a model supports custom tools, whose input is plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomTools {
    /// Supported by the provider, including grammars.
    Native,
    /// Offered as functions with one string argument. A grammar is described and not enforced.
    AsFunctions,
    /// Requests with custom tools are refused.
    Refused,
}
