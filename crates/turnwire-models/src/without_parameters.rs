//! Removes parameters that a server rejects.
//!
//! Many servers implement Chat Completions, and some reject parameters that they do not support.
//! The operator lists them; they are not sent, and clients are informed.

use std::sync::Arc;

use async_trait::async_trait;
use turnwire_contract::{
    Capabilities, Content, Item, Model, ModelError, ModelStream, Parameter, Prompt, partial_debug,
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

partial_debug!(WithoutParameters { without });

/// Removes `parameter` from the prompt.
pub(crate) fn leave_out(parameter: Parameter, prompt: &mut Prompt) {
    let generation = &mut prompt.generation;
    match parameter {
        Parameter::Temperature => generation.temperature = None,
        Parameter::TopP => generation.top_p = None,
        Parameter::MaxOutputTokens => generation.max_output_tokens = None,
        Parameter::ReasoningEffort => generation.reasoning_effort = None,
        Parameter::ReasoningSummary => generation.reasoning_summary = None,
        Parameter::ReasoningContext => generation.reasoning_context = None,
        Parameter::ReasoningMode => generation.reasoning_mode = None,
        Parameter::AnswerSchema => generation.answer_schema = None,
        Parameter::SchemaDescription => generation.schema_description = None,
        Parameter::LooseSchema => generation.schema_strict = None,
        Parameter::JsonObject => generation.json_object = false,
        Parameter::Verbosity => generation.verbosity = None,
        Parameter::Truncation => generation.truncation = None,
        Parameter::Logprobs => generation.logprobs = false,
        Parameter::TopLogprobs => generation.top_logprobs = None,
        Parameter::FrequencyPenalty => generation.frequency_penalty = None,
        Parameter::PresencePenalty => generation.presence_penalty = None,
        Parameter::Stop => generation.stop.clear(),
        Parameter::Seed => generation.seed = None,
        Parameter::PromptCacheKey => generation.prompt_cache_key = None,
        Parameter::PromptCacheRetention => generation.prompt_cache_retention = None,
        Parameter::SafetyIdentifier => generation.safety_identifier = None,
        Parameter::User => generation.user = None,
        Parameter::ServiceTier => generation.service_tier = None,
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
