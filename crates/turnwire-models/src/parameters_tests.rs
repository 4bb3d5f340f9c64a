//! C30: every parameter is either sent or reported as omitted, for every kind of provider.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use turnwire_contract::{
    Capabilities, Content, Item, Model, Parameter, Prompt, Role, ToolKind, ToolSpec,
};

use crate::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    OpenAiResponses, OpenAiResponsesOptions, Scripted, Turn, WithoutParameters, anthropic_messages,
    chat_completions, openai_responses, sample_prompt::plain_prompt,
};

/// A prompt in which every parameter has an effect.
fn base() -> Prompt {
    let mut prompt = plain_prompt();
    let picture = Content::image("https://example.com/a.png");
    prompt.items = vec![Arc::new(Item::Message { role: Role::User, content: vec![picture] })];
    let mut tool = ToolSpec::new("locate", "Where the user is.");
    tool.kind = ToolKind::Client;
    prompt.tools = vec![Arc::new(tool)];
    prompt
}

/// Returns the prompt without and with `parameter`.
fn without_and_with(parameter: Parameter) -> (Prompt, Prompt) {
    let mut before = base();
    let generation = &mut before.generation;
    match parameter {
        Parameter::ReasoningSummary => generation.reasoning_effort = Some("low".to_owned()),
        Parameter::SchemaDescription | Parameter::LooseSchema => {
            generation.answer_schema = Some(json!({ "type": "object" }));
            generation.schema_strict = Some(true);
        }
        Parameter::TopLogprobs => generation.logprobs = true,
        _ => {}
    }
    let mut after = before.clone();
    set(parameter, &mut after);
    (before, after)
}

fn set(parameter: Parameter, prompt: &mut Prompt) {
    let generation = &mut prompt.generation;
    let word = || Some("x".to_owned());
    match parameter {
        Parameter::Temperature => generation.temperature = Some(0.25),
        Parameter::TopP => generation.top_p = Some(0.25),
        Parameter::MaxOutputTokens => generation.max_output_tokens = Some(77),
        Parameter::ReasoningEffort => generation.reasoning_effort = word(),
        Parameter::ReasoningSummary => generation.reasoning_summary = word(),
        Parameter::ReasoningContext => generation.reasoning_context = word(),
        Parameter::ReasoningMode => generation.reasoning_mode = word(),
        Parameter::AnswerSchema => generation.answer_schema = Some(json!({ "type": "object" })),
        Parameter::SchemaDescription => generation.schema_description = word(),
        Parameter::LooseSchema => generation.schema_strict = Some(false),
        Parameter::JsonObject => generation.json_object = true,
        Parameter::Verbosity => generation.verbosity = word(),
        Parameter::Truncation => generation.truncation = word(),
        Parameter::Logprobs => generation.logprobs = true,
        Parameter::TopLogprobs => generation.top_logprobs = Some(3),
        Parameter::FrequencyPenalty => generation.frequency_penalty = Some(0.5),
        Parameter::PresencePenalty => generation.presence_penalty = Some(0.5),
        Parameter::Stop => generation.stop = vec!["END".to_owned()],
        Parameter::Seed => generation.seed = Some(7),
        Parameter::PromptCacheKey => generation.prompt_cache_key = word(),
        Parameter::PromptCacheRetention => generation.prompt_cache_retention = word(),
        Parameter::SafetyIdentifier => generation.safety_identifier = word(),
        Parameter::User => generation.user = word(),
        Parameter::ServiceTier => generation.service_tier = word(),
        Parameter::ImageDetail => {
            let url = "https://example.com/a.png".to_owned();
            let content = vec![Content::Image { url, detail: Some("low".to_owned()) }];
            prompt.items = vec![Arc::new(Item::Message { role: Role::User, content })];
        }
        Parameter::StrictFunctions => Arc::make_mut(&mut prompt.tools[0]).strict = Some(true),
        Parameter::Namespaces => {
            let tool = Arc::make_mut(&mut prompt.tools[0]);
            tool.server = Some("maps".to_owned());
            tool.namespace_description = "Maps.".to_owned();
        }
    }
}

fn check(kind: &str, capabilities: &Capabilities, written: fn(&Prompt) -> Value) {
    for parameter in Parameter::ALL.iter().copied() {
        let (without, with) = without_and_with(parameter);
        let is_sent = written(&without) != written(&with);
        assert_eq!(is_sent, capabilities.takes(parameter), "{kind}: {}", parameter.as_str());
    }
}

/// C30.
#[test]
fn a_provider_is_sent_what_it_takes_and_nothing_else() {
    let responses = OpenAiResponses::new(OpenAiResponsesOptions::default()).unwrap();
    check("openai_responses", &responses.capabilities(), openai_responses::written);
    let chat = ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:1/v1")).unwrap();
    check("chat_completions", &chat.capabilities(), chat_completions::written);
    let messages = AnthropicMessages::new(AnthropicMessagesOptions::default()).unwrap();
    check("anthropic_messages", &messages.capabilities(), anthropic_messages::written);
}

/// C30: Every parameter that a request sets is in `asked`.
#[test]
fn what_is_set_is_asked_for() {
    let elsewhere = [Parameter::ImageDetail, Parameter::StrictFunctions, Parameter::Namespaces];
    for parameter in Parameter::ALL.iter().copied() {
        let (without, with) = without_and_with(parameter);
        let before: BTreeSet<_> = without.generation.asked().collect();
        let new: Vec<_> = with.generation.asked().filter(|it| !before.contains(it)).collect();
        let expected = if elsewhere.contains(&parameter) { vec![] } else { vec![parameter] };
        assert_eq!(new, expected, "{}", parameter.as_str());
    }
    let names: BTreeSet<&str> = Parameter::ALL.iter().map(|parameter| parameter.as_str()).collect();
    assert_eq!(names.len(), Parameter::ALL.len(), "each has a name of its own");
}

/// C30: Parameters that the operator excludes are not sent, and are reported as omitted.
#[tokio::test]
async fn a_limited_server_is_not_sent_what_it_refuses() {
    for parameter in Parameter::ALL.iter().copied() {
        let (without, with) = without_and_with(parameter);
        let model = Scripted::new([Turn::new().text("a")]);
        let limited = WithoutParameters::new(Arc::new(model.clone()), vec![parameter]);
        assert!(!limited.capabilities().takes(parameter));
        assert_eq!(limited.capabilities().parameters.len(), Parameter::ALL.len() - 1);
        let _stream = limited.stream(with).await.unwrap();
        let told = openai_responses::written(&model.prompts()[0]);
        let (told_of_chat, expected_of_chat) =
            (chat_completions::written(&model.prompts()[0]), chat_completions::written(&without));
        // A schema is strict by default.
        assert_eq!(told, openai_responses::written(&without), "{}", parameter.as_str());
        assert_eq!(told_of_chat, expected_of_chat, "{}", parameter.as_str());
    }
}
