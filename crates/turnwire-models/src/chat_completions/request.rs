//! Converts a prompt to a request of Chat Completions.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use turnwire_contract::{
    CallId, Content, Generation, Image, InputFormat, Item, Parameter, Prompt, Role, ToolChoice,
    ToolKind, ToolSpec,
};

use super::{DETAILS, EXTRA_CONTENT, REASONING_CONTENT};
use crate::{
    request_fields::{
        SAMPLING, plain_object, refuses_sampling, schema_fields, set_fields, shared_fields, text_in,
    },
    seal::Origin,
    vendors::{CallIds, ChatRules, ForcedChoice, GivenBack, OPEN, SystemMessages},
};

/// Parameters that OpenAI supports in this API. The setting `unsupported_parameters` excludes those
/// that a server rejects.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::Temperature,
    Parameter::TopP,
    Parameter::MaxOutputTokens,
    Parameter::ReasoningEffort,
    Parameter::AnswerSchema,
    Parameter::SchemaDescription,
    Parameter::LooseSchema,
    Parameter::JsonObject,
    Parameter::Verbosity,
    Parameter::Logprobs,
    Parameter::TopLogprobs,
    Parameter::FrequencyPenalty,
    Parameter::PresencePenalty,
    Parameter::Stop,
    Parameter::Seed,
    Parameter::PromptCacheKey,
    Parameter::PromptCacheRetention,
    Parameter::SafetyIdentifier,
    Parameter::User,
    Parameter::ServiceTier,
    Parameter::ImageDetail,
    Parameter::StrictFunctions,
];

/// Placeholder of Gemini for the signature of a call that it did not make.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// What the assistant says where a server wants to hear it before the user speaks.
const HAS_RESULTS: &str = "I have the results.";

/// How a prompt is written for a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The model, if it is not the one in the prompt.
    pub(super) model: Option<&'a str>,
    pub(super) rules: &'a ChatRules,
    /// Whose reasoning may be given back.
    pub(super) origin: &'a Origin,
    /// Whether reasoning is given back at all.
    pub(super) with_reasoning: bool,
}

impl Default for Target<'_> {
    fn default() -> Self {
        const NOBODY: &Origin = &Origin::UNKNOWN;
        Self { model: None, rules: &OPEN, origin: NOBODY, with_reasoning: true }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl<'a> RequestBody<'a> {
    pub(super) fn new(prompt: &'a Prompt, target: Target<'a>) -> Self {
        let model = target.model.unwrap_or(&prompt.model);
        let only = match &prompt.tool_choice {
            ToolChoice::Named { name } if target.rules.forced_choice == ForcedChoice::Word => {
                Some(name)
            }
            _ => None,
        };
        let tools = prompt.tools.iter().filter(|tool| only.is_none_or(|name| tool.name == *name));
        Self {
            model,
            messages: messages_of(prompt, target),
            stream: true,
            tools: tools.map(|tool| Tool::of(tool, target.rules)).collect(),
            options: options_of(prompt, model, target.rules),
        }
    }
}

fn options_of(prompt: &Prompt, model: &str, rules: &ChatRules) -> Map<String, Value> {
    let generation = &prompt.generation;
    let has_tools = !prompt.tools.is_empty();
    let is_forced = matches!(prompt.tool_choice, ToolChoice::Required | ToolChoice::Named { .. });
    let is_thoughtless = has_tools && is_forced && rules.forced_choice == ForcedChoice::Thoughtless;
    let effort = effort_of(prompt, model, rules);
    let top_logprobs = generation.top_logprobs.filter(|n| *n > 0);
    let mut options = set_fields(json!({
        "stream_options": rules.asks_for_usage.then(|| json!({ "include_usage": true })),
        "tool_choice": has_tools.then(|| choice_of(&prompt.tool_choice, &prompt.tools, rules)),
        "parallel_tool_calls": has_tools.then_some(prompt.parallel_tool_calls),
        "reasoning_effort": effort,
        "thinking": is_thoughtless.then(|| json!({ "type": "disabled" })),
        "response_format": response_format(generation),
        "verbosity": generation.verbosity,
        // OpenAI rejects `top_logprobs` without `logprobs`.
        "logprobs": (generation.logprobs || top_logprobs.is_some()).then_some(true),
        "top_logprobs": top_logprobs,
        "frequency_penalty": generation.frequency_penalty,
        "presence_penalty": generation.presence_penalty,
        "stop": (!generation.stop.is_empty()).then_some(&generation.stop),
    }));
    options.extend(set_fields(json!({
        (rules.max_tokens): generation.max_output_tokens,
        (rules.seed): generation.seed,
    })));
    options.extend(shared_fields(generation));
    if refuses_sampling(model, effort) {
        options.retain(|name, _| !SAMPLING.contains(&name.as_str()));
    }
    options
}

/// Returns how much the model shall think. In this API, the models of OpenAI from GPT-5.2 on do not
/// call functions while they think, and think unless they are told not to.
fn effort_of<'a>(prompt: &'a Prompt, model: &str, rules: &ChatRules) -> Option<&'a str> {
    let asked = prompt.generation.reasoning_effort.as_deref();
    if rules.effort_with_functions || prompt.tools.is_empty() {
        return asked;
    }
    match model.strip_prefix("gpt-5.") {
        Some(minor) if !minor.starts_with('1') => Some("none"),
        _ => asked.filter(|_| !model.starts_with("gpt-6")),
    }
}

fn messages_of<'a>(prompt: &'a Prompt, target: Target<'a>) -> Vec<Message<'a>> {
    let names = target.rules.names_results.then(|| names_of(&prompt.items));
    let mut writer = Writer::new(target, names.unwrap_or_default());
    if let Some(instructions) = &prompt.instructions {
        writer.write_system(instructions.clone());
    }
    for item in &prompt.items {
        writer.write(item);
    }
    writer.close();
    writer.messages
}

/// Returns the names of the tools that were called.
fn names_of(items: &[Arc<Item>]) -> HashMap<&CallId, &str> {
    let mut names = HashMap::new();
    for item in items {
        if let Item::Call { call_id, name, .. } = item.as_ref() {
            names.insert(call_id, name.as_str());
        }
    }
    names
}

/// Groups items into messages: consecutive text and calls of the assistant, and the images of
/// consecutive results, which a message of role `tool` cannot contain.
struct Writer<'a> {
    target: Target<'a>,
    /// Names of the called tools, if results carry them.
    names: HashMap<&'a CallId, &'a str>,
    messages: Vec<Message<'a>>,
    said: Vec<&'a str>,
    called: Vec<ToolCall<'a>>,
    thoughts: Thoughts<'a>,
    images: Vec<&'a Image>,
}

/// What a provider gave with an answer and wants back with it.
#[derive(Default)]
struct Thoughts<'a> {
    content: Vec<&'a str>,
    details: Vec<Value>,
    /// By the place of the call among those of the answer.
    of_calls: Map<String, Value>,
}

impl<'a> Writer<'a> {
    fn new(target: Target<'a>, names: HashMap<&'a CallId, &'a str>) -> Self {
        Self {
            target,
            names,
            messages: Vec::new(),
            said: Vec::new(),
            called: Vec::new(),
            thoughts: Thoughts::default(),
            images: Vec::new(),
        }
    }

    fn write(&mut self, item: &'a Item) {
        match item {
            Item::Message { role: Role::Assistant, content } => {
                self.close_results();
                self.said.extend(content.iter().filter_map(text_of));
            }
            Item::Message { role: Role::User, content } => {
                self.close();
                self.write_user(UserContent::of(content, self.target.rules));
            }
            Item::Message { role: Role::System, content } => {
                self.close();
                self.write_system(joined(content));
            }
            Item::Reasoning { text, encrypted_content } => {
                if let Some(seal) = encrypted_content
                    && self.target.with_reasoning
                {
                    self.write_thought(text, seal);
                }
            }
            Item::Call { call_id, name, arguments, kind, .. } => {
                self.close_results();
                let id = self.id_of(call_id);
                let call = match kind {
                    ToolKind::Custom => {
                        Called::Custom { custom: CustomCall { name, input: arguments } }
                    }
                    _ => Called::Function {
                        function: FunctionCall { name: self.target.rules.name(name), arguments },
                    },
                };
                self.called.push(ToolCall { id, call, extra_content: None });
            }
            Item::CallResult { call_id, output, images, failed: _, .. } => {
                self.close_answer();
                let name = self.names.get(call_id).map(|name| self.target.rules.name(name));
                let tool_call_id = self.id_of(call_id);
                self.messages.push(Message::Tool { tool_call_id, name, content: output });
                self.images.extend(images);
            }
        }
    }

    /// Takes what this server sealed. The API has no standard field for reasoning, and some servers
    /// reject what they did not send.
    fn write_thought(&mut self, text: &'a str, seal: &str) {
        let origin = self.target.origin;
        let parsed = |kind| serde_json::from_str(origin.open(kind, seal)?).ok();
        if origin.open(REASONING_CONTENT, seal).is_some() {
            self.close_results();
            self.thoughts.content.push(text);
        } else if let Some(Value::Array(details)) = parsed(DETAILS) {
            self.close_results();
            self.thoughts.details.extend(details);
        } else if let Some(Value::Object(of_calls)) = parsed(EXTRA_CONTENT) {
            self.thoughts.of_calls.extend(of_calls);
        }
    }

    fn write_user(&mut self, content: UserContent<'a>) {
        self.close_round();
        self.messages.push(Message::User { content });
    }

    fn write_system(&mut self, content: String) {
        match self.messages.as_mut_slice() {
            [Message::System { content: first }] => {
                first.push_str("\n\n");
                first.push_str(&content);
            }
            [_, ..] if self.target.rules.system_messages == SystemMessages::First => {
                self.write_user(UserContent::Text(content));
            }
            _ => {
                self.close_round();
                self.messages.push(Message::System { content });
            }
        }
    }

    /// Lets the assistant speak between the results of tools and whoever speaks next.
    fn close_round(&mut self) {
        let has_results = matches!(self.messages.last(), Some(Message::Tool { .. }));
        if has_results && !self.target.rules.user_after_results {
            self.messages.push(Message::said(HAS_RESULTS.to_owned()));
        }
    }

    fn id_of(&self, call_id: &'a CallId) -> Cow<'a, str> {
        let id = call_id.as_str();
        let is_kept = match self.target.rules.call_ids {
            CallIds::Any => true,
            CallIds::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        };
        if is_kept { Cow::Borrowed(id) } else { Cow::Owned(nine(id)) }
    }

    fn close(&mut self) {
        self.close_answer();
        self.close_results();
    }

    fn close_answer(&mut self) {
        let thoughts = std::mem::take(&mut self.thoughts);
        if self.said.is_empty() && self.called.is_empty() {
            return;
        }
        let said = std::mem::take(&mut self.said);
        let content = (!said.is_empty()).then(|| said.join("\n"));
        let mut tool_calls = std::mem::take(&mut self.called);
        for (n, call) in tool_calls.iter_mut().enumerate() {
            call.extra_content = thoughts.of_calls.get(&n.to_string()).cloned();
        }
        let given_back = self.target.rules.given_back;
        if let Some(first) = tool_calls.first_mut()
            && given_back == GivenBack::Signature
            && first.extra_content.is_none()
        {
            let signature = json!({ "google": { "thought_signature": NO_SIGNATURE } });
            first.extra_content = Some(signature);
        }
        let is_wanted = given_back == GivenBack::Always
            || !thoughts.content.is_empty() && !tool_calls.is_empty();
        self.messages.push(Message::Assistant {
            content,
            reasoning_content: is_wanted.then(|| thoughts.content.concat()),
            reasoning_details: thoughts.details,
            tool_calls,
        });
    }

    fn close_results(&mut self) {
        if self.images.is_empty() {
            return;
        }
        let note = ContentPart::Text { text: "Pictures returned by the tool:".into() };
        let images = std::mem::take(&mut self.images).into_iter();
        let pictures = images.map(|image| ContentPart::image(image.data_url(), None));
        self.write_user(UserContent::Parts(std::iter::once(note).chain(pictures).collect()));
    }
}

/// Returns nine letters and digits that stand for `id`.
fn nine(id: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = Sha256::digest(id);
    let letters = hash.iter().filter_map(|byte| LETTERS.get(usize::from(byte % 32)));
    letters.take(9).map(|letter| char::from(*letter)).collect()
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: String,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<Cow<'a, str>>,
        content: &'a str,
    },
}

impl Message<'_> {
    fn said(text: String) -> Self {
        Self::Assistant {
            content: Some(text),
            reasoning_content: None,
            reasoning_details: Vec::new(),
            tool_calls: Vec::new(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    // Servers without image support often accept only a string.
    Text(String),
    Parts(Vec<ContentPart<'a>>),
}

impl<'a> UserContent<'a> {
    fn of(content: &'a [Content], rules: &ChatRules) -> Self {
        if content
            .iter()
            .any(|content| matches!(content, Content::Image { .. } | Content::File { .. }))
        {
            Self::Parts(content.iter().map(|part| ContentPart::of(part, rules)).collect())
        } else {
            Self::Text(joined(content))
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

impl<'a> ContentPart<'a> {
    fn of(content: &'a Content, rules: &ChatRules) -> Self {
        match content {
            Content::Text { text } | Content::Refusal { text } => {
                Self::Text { text: Cow::Borrowed(text) }
            }
            Content::Image { url, detail } => Self::image(url.clone(), detail.as_deref()),
            Content::File { name, url } => {
                if let Some(text) = text_in(url).filter(|_| !rules.files) {
                    return Self::Text { text: Cow::Owned(format!("{name}:\n\n{text}")) };
                }
                Self::File { file: File { filename: name, file_data: url } }
            }
        }
    }

    fn image(url: String, detail: Option<&'a str>) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url, detail } }
    }
}

#[derive(Debug, Serialize)]
struct ImageUrl<'a> {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: &'a str,
}

#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    #[serde(flatten)]
    call: Called<'a>,
    /// What the provider sent with the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Called<'a> {
    Function { function: FunctionCall<'a> },
    Custom { custom: CustomCall<'a> },
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
struct CustomCall<'a> {
    name: &'a str,
    input: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function { function: Function<'a> },
    Custom { custom: Custom<'a> },
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec, rules: &ChatRules) -> Self {
        let ToolSpec { name, description, strict, format, kind, .. } = tool;
        if *kind == ToolKind::Custom {
            let format = format.as_ref().map(custom_format);
            return Self::Custom { custom: Custom { name, description, format } };
        }
        let parameters = plain_object(&tool.parameters);
        let name = rules.name(name);
        let function = Function { name, description, parameters, strict: *strict };
        Self::Function { function }
    }
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Custom<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
}

/// The grammar is nested one level deeper than in the Responses API.
fn custom_format(format: &InputFormat) -> Value {
    match format {
        InputFormat::Text => json!({ "type": "text" }),
        InputFormat::Grammar { syntax, definition } => {
            let grammar = json!({ "syntax": syntax, "definition": definition });
            json!({ "type": "grammar", "grammar": grammar })
        }
    }
}

fn choice_of(choice: &ToolChoice, tools: &[Arc<ToolSpec>], rules: &ChatRules) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named { .. } if rules.forced_choice == ForcedChoice::Word => json!("required"),
        ToolChoice::Named { name } => {
            let is_it = |tool: &&Arc<ToolSpec>| tool.name == *name;
            match tools.iter().find(is_it).map(|tool| tool.kind) {
                Some(ToolKind::Custom) => json!({ "type": "custom", "custom": { "name": name } }),
                _ => json!({ "type": "function", "function": { "name": rules.name(name) } }),
            }
        }
    }
}

fn response_format(generation: &Generation) -> Option<Value> {
    match schema_fields(generation) {
        Some(schema) => Some(json!({ "type": "json_schema", "json_schema": schema })),
        None => generation.json_object.then(|| json!({ "type": "json_object" })),
    }
}

fn joined(content: &[Content]) -> String {
    content.iter().filter_map(text_of).collect::<Vec<_>>().join("\n")
}

fn text_of(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } | Content::Refusal { text } => Some(text),
        Content::Image { .. } | Content::File { .. } => None,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
