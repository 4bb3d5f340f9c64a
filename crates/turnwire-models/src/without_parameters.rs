//! Removes parameters that a server rejects.
//!
//! Many servers implement Chat Completions, and some reject parameters that they do not support.
//! The operator lists them; they are not sent, and clients are informed.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use turnwire_contract::{
    Capabilities, Content, Generation, Item, Model, ModelError, ModelStream, Parameter, Prompt,
};

/// A wrapper that removes certain parameters.
#[derive(Clone)]
pub struct WithoutParameters {
    model: Arc<dyn Model>,
    without: Vec<Parameter>,
}

impl WithoutParameters {
    /// Removes the parameters `without` from the requests to `model`.
    pub fn new(model: Arc<dyn Model>, without: Vec<Parameter>) -> Self {
        Self { model, without }
    }
}

#[async_trait]
impl Model for WithoutParameters {
    async fn stream(&self, mut prompt: Prompt) -> Result<ModelStream, ModelError> {
        for parameter in &self.without {
            leave_out(*parameter, &mut prompt);
        }
        self.model.stream(prompt).await
    }

    fn upstream_model(&self, name: &str) -> String {
        self.model.upstream_model(name)
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.model.capabilities();
        capabilities.parameters.retain(|parameter| !self.without.contains(parameter));
        capabilities
    }
}

impl fmt::Debug for WithoutParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("without", &self.without).finish_non_exhaustive()
    }
}

fn leave_out(parameter: Parameter, prompt: &mut Prompt) {
    let Generation {
        temperature,
        top_p,
        max_output_tokens,
        reasoning_effort,
        reasoning_summary,
        reasoning_context,
        reasoning_mode,
        answer_schema,
        schema_name: _,
        schema_description,
        schema_strict,
        json_object,
        verbosity,
        truncation,
        logprobs,
        top_logprobs,
        frequency_penalty,
        presence_penalty,
        stop,
        seed,
        prompt_cache_key,
        prompt_cache_retention,
        safety_identifier,
        user,
        service_tier,
    } = &mut prompt.generation;
    match parameter {
        Parameter::Temperature => *temperature = None,
        Parameter::TopP => *top_p = None,
        Parameter::MaxOutputTokens => *max_output_tokens = None,
        Parameter::ReasoningEffort => *reasoning_effort = None,
        Parameter::ReasoningSummary => *reasoning_summary = None,
        Parameter::ReasoningContext => *reasoning_context = None,
        Parameter::ReasoningMode => *reasoning_mode = None,
        Parameter::AnswerSchema => *answer_schema = None,
        Parameter::SchemaDescription => *schema_description = None,
        Parameter::LooseSchema => *schema_strict = None,
        Parameter::JsonObject => *json_object = false,
        Parameter::Verbosity => *verbosity = None,
        Parameter::Truncation => *truncation = None,
        Parameter::Logprobs => *logprobs = false,
        Parameter::TopLogprobs => *top_logprobs = None,
        Parameter::FrequencyPenalty => *frequency_penalty = None,
        Parameter::PresencePenalty => *presence_penalty = None,
        Parameter::Stop => stop.clear(),
        Parameter::Seed => *seed = None,
        Parameter::PromptCacheKey => *prompt_cache_key = None,
        Parameter::PromptCacheRetention => *prompt_cache_retention = None,
        Parameter::SafetyIdentifier => *safety_identifier = None,
        Parameter::User => *user = None,
        Parameter::ServiceTier => *service_tier = None,
        Parameter::ImageDetail => prompt.items.iter_mut().for_each(without_detail),
        Parameter::StrictFunctions => {
            for tool in prompt.tools.iter_mut().filter(|tool| tool.strict.is_some()) {
                Arc::make_mut(tool).strict = None;
            }
        }
        Parameter::Namespaces => {
            for tool in prompt.tools.iter_mut().filter(|tool| tool.kind.is_run_by_client()) {
                Arc::make_mut(tool).server = None;
            }
        }
    }
}

fn without_detail(item: &mut Arc<Item>) {
    let has_detail = |content: &Content| matches!(content, Content::Image { detail: Some(_), .. });
    if !matches!(&**item, Item::Message { content, .. } if content.iter().any(has_detail)) {
        return;
    }
    if let Item::Message { content, .. } = Arc::make_mut(item) {
        for part in content {
            if let Content::Image { detail, .. } = part {
                *detail = None;
            }
        }
    }
}
