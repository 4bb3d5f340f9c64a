//! How the model should write, and which of that a provider can be told.
//!
//! Clients speak of about two dozen parameters, and no provider knows all of them. A parameter
//! that the chosen provider cannot be told is not dropped in silence: [`Generation::asked`] says
//! which ones a request sets, [`Capabilities`] says which ones a model takes, and whoever took the
//! request reports the difference to its client.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the model should write. What is not set is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// More is wilder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Only the likeliest words that make up this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The longest answer of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// How long to think, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// How to tell of what was thought, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<String>,
    /// Which earlier thoughts the model is shown, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_context: Option<String>,
    /// How thinking is carried out, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_mode: Option<String>,
    /// The JSON Schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// What the schema is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// What the schema is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_description: Option<String>,
    /// Whether the provider must hold the model to the schema; it must if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_strict: Option<bool>,
    /// Whether the answer must be a JSON object of any shape.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub json_object: bool,
    /// How many words to make, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// What to do with more than the model can read, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<String>,
    /// Whether to tell how likely each token was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub logprobs: bool,
    /// How many alternatives to tell for each token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// More makes frequent words rarer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// More makes words rarer that have been said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The answer ends before any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The same seed gives the same answer, as far as the provider can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Which requests share a beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// How long a shared beginning is kept, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_retention: Option<String>,
    /// The client's name for its user, as a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_identifier: Option<String>,
    /// The client's name for its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How fast and at which price, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
}

impl Generation {
    /// The parameters that are set to something else than what holds anyway.
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
            // They stand elsewhere in a request.
            Parameter::ImageDetail | Parameter::StrictFunctions | Parameter::Namespaces => false,
        }
    }
}

/// Something that a request can ask of a model and that not every provider can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
    /// [`Generation::temperature`].
    Temperature,
    /// [`Generation::top_p`].
    TopP,
    /// [`Generation::max_output_tokens`].
    MaxOutputTokens,
    /// [`Generation::reasoning_effort`].
    ReasoningEffort,
    /// [`Generation::reasoning_summary`].
    ReasoningSummary,
    /// [`Generation::reasoning_context`].
    ReasoningContext,
    /// [`Generation::reasoning_mode`].
    ReasoningMode,
    /// [`Generation::answer_schema`].
    AnswerSchema,
    /// [`Generation::schema_description`].
    SchemaDescription,
    /// [`Generation::schema_strict`], where it is not.
    LooseSchema,
    /// [`Generation::json_object`].
    JsonObject,
    /// [`Generation::verbosity`].
    Verbosity,
    /// [`Generation::truncation`].
    Truncation,
    /// [`Generation::logprobs`].
    Logprobs,
    /// [`Generation::top_logprobs`].
    TopLogprobs,
    /// [`Generation::frequency_penalty`].
    FrequencyPenalty,
    /// [`Generation::presence_penalty`].
    PresencePenalty,
    /// [`Generation::stop`].
    Stop,
    /// [`Generation::seed`].
    Seed,
    /// [`Generation::prompt_cache_key`].
    PromptCacheKey,
    /// [`Generation::prompt_cache_retention`].
    PromptCacheRetention,
    /// [`Generation::safety_identifier`].
    SafetyIdentifier,
    /// [`Generation::user`].
    User,
    /// [`Generation::service_tier`].
    ServiceTier,
    /// How closely a picture is looked at.
    ImageDetail,
    /// Whether the provider holds the model to the schema of a function.
    StrictFunctions,
    /// Tools in groups that have a description of their own.
    Namespaces,
}

impl Parameter {
    /// Every one of them.
    pub const ALL: &'static [Self] = &[
        Self::Temperature,
        Self::TopP,
        Self::MaxOutputTokens,
        Self::ReasoningEffort,
        Self::ReasoningSummary,
        Self::ReasoningContext,
        Self::ReasoningMode,
        Self::AnswerSchema,
        Self::SchemaDescription,
        Self::LooseSchema,
        Self::JsonObject,
        Self::Verbosity,
        Self::Truncation,
        Self::Logprobs,
        Self::TopLogprobs,
        Self::FrequencyPenalty,
        Self::PresencePenalty,
        Self::Stop,
        Self::Seed,
        Self::PromptCacheKey,
        Self::PromptCacheRetention,
        Self::SafetyIdentifier,
        Self::User,
        Self::ServiceTier,
        Self::ImageDetail,
        Self::StrictFunctions,
        Self::Namespaces,
    ];

    /// Where it stands in a request, which is also its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::ReasoningEffort => "reasoning.effort",
            Self::ReasoningSummary => "reasoning.summary",
            Self::ReasoningContext => "reasoning.context",
            Self::ReasoningMode => "reasoning.mode",
            Self::AnswerSchema => "text.format.schema",
            Self::SchemaDescription => "text.format.description",
            Self::LooseSchema => "text.format.strict",
            Self::JsonObject => "text.format",
            Self::Verbosity => "text.verbosity",
            Self::Truncation => "truncation",
            Self::Logprobs => "message.output_text.logprobs",
            Self::TopLogprobs => "top_logprobs",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::PresencePenalty => "presence_penalty",
            Self::Stop => "stop",
            Self::Seed => "seed",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::PromptCacheRetention => "prompt_cache_retention",
            Self::SafetyIdentifier => "safety_identifier",
            Self::User => "user",
            Self::ServiceTier => "service_tier",
            Self::ImageDetail => "input[].content[].detail",
            Self::StrictFunctions => "tools[].strict",
            Self::Namespaces => "tools[].description",
        }
    }
}

/// What a model can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The parameters it takes.
    pub parameters: Vec<Parameter>,
    /// What it does with custom tools.
    pub custom_tools: CustomTools,
}

impl Default for Capabilities {
    /// Everything.
    fn default() -> Self {
        Self { parameters: Parameter::ALL.to_vec(), custom_tools: CustomTools::Native }
    }
}

impl Capabilities {
    /// Whether it takes `parameter`.
    pub fn takes(&self, parameter: Parameter) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// What a model does with tools whose input is plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomTools {
    /// It knows them, grammars included.
    Native,
    /// They are offered as functions with one text. A grammar is told and not enforced.
    AsFunctions,
    /// They are refused.
    Refused,
}
