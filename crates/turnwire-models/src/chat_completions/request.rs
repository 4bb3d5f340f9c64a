//! Converts a prompt to a request of Chat Completions.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    Content, Generation, Image, InputFormat, Item, Parameter, Prompt, Role, ToolChoice, ToolKind,
    ToolSpec,
};

use crate::request_fields::{schema_fields, set_fields, shared_fields};

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
    /// Builds a request for `model`, or for the model in the prompt.
    pub(super) fn new(prompt: &'a Prompt, model: Option<&'a str>) -> Self {
        Self {
            model: model.unwrap_or(&prompt.model),
            messages: messages_of(prompt),
            stream: true,
            tools: prompt.tools.iter().map(|tool| Tool::of(tool)).collect(),
            options: options_of(prompt),
        }
    }
}

fn options_of(prompt: &Prompt) -> Map<String, Value> {
    let generation = &prompt.generation;
    let has_tools = !prompt.tools.is_empty();
    let top_logprobs = generation.top_logprobs.filter(|n| *n > 0);
    let mut options = set_fields(json!({
        "stream_options": { "include_usage": true },
        "tool_choice": has_tools.then(|| choice_of(&prompt.tool_choice, &prompt.tools)),
        "parallel_tool_calls": has_tools.then_some(prompt.parallel_tool_calls),
        // Deprecated by OpenAI in favour of `max_completion_tokens`, which few compatible servers
        // support. OpenAI itself is used through the Responses adapter.
        "max_tokens": generation.max_output_tokens,
        "reasoning_effort": generation.reasoning_effort,
        "response_format": response_format(generation),
        "verbosity": generation.verbosity,
        // OpenAI rejects `top_logprobs` without `logprobs`.
        "logprobs": (generation.logprobs || top_logprobs.is_some()).then_some(true),
        "top_logprobs": top_logprobs,
        "frequency_penalty": generation.frequency_penalty,
        "presence_penalty": generation.presence_penalty,
        "stop": (!generation.stop.is_empty()).then_some(&generation.stop),
        "seed": generation.seed,
    }));
    options.extend(shared_fields(generation));
    options
}

fn messages_of(prompt: &Prompt) -> Vec<Message<'_>> {
    let mut writer = Writer::default();
    if let Some(instructions) = &prompt.instructions {
        writer.messages.push(Message::System { content: instructions.clone() });
    }
    for item in &prompt.items {
        writer.write(item);
    }
    writer.close();
    writer.messages
}

/// Groups items into messages: consecutive text and calls of the assistant, and the images of
/// consecutive results, which a message of role `tool` cannot contain.
#[derive(Default)]
struct Writer<'a> {
    messages: Vec<Message<'a>>,
    said: Vec<&'a str>,
    called: Vec<ToolCall<'a>>,
    images: Vec<&'a Image>,
}

impl<'a> Writer<'a> {
    fn write(&mut self, item: &'a Item) {
        match item {
            Item::Message { role: Role::Assistant, content } => {
                self.close_results();
                self.said.extend(content.iter().filter_map(text_of));
            }
            Item::Message { role: Role::User, content } => {
                self.close();
                self.messages.push(Message::User { content: UserContent::of(content) });
            }
            Item::Message { role: Role::System, content } => {
                self.close();
                self.messages.push(Message::System { content: joined(content) });
            }
            // The API has no standard field for reasoning, and some servers reject it.
            Item::Reasoning { .. } => {}
            Item::Call { call_id, name, arguments, kind, .. } => {
                self.close_results();
                let id = call_id.as_str();
                self.called.push(match kind {
                    ToolKind::Custom => {
                        ToolCall::Custom { id, custom: CustomCall { name, input: arguments } }
                    }
                    _ => ToolCall::Function { id, function: FunctionCall { name, arguments } },
                });
            }
            Item::CallResult { call_id, output, images, failed: _, .. } => {
                self.close_answer();
                self.messages
                    .push(Message::Tool { tool_call_id: call_id.as_str(), content: output });
                self.images.extend(images);
            }
        }
    }

    fn close(&mut self) {
        self.close_answer();
        self.close_results();
    }

    fn close_answer(&mut self) {
        if self.said.is_empty() && self.called.is_empty() {
            return;
        }
        let said = std::mem::take(&mut self.said);
        let content = (!said.is_empty()).then(|| said.join("\n"));
        let tool_calls = std::mem::take(&mut self.called);
        self.messages.push(Message::Assistant { content, tool_calls });
    }

    fn close_results(&mut self) {
        if self.images.is_empty() {
            return;
        }
        let note = ContentPart::Text { text: "Pictures returned by the tool:" };
        let images = std::mem::take(&mut self.images).into_iter();
        let pictures = images.map(|image| ContentPart::image(image.data_url(), None));
        let content = UserContent::Parts(std::iter::once(note).chain(pictures).collect());
        self.messages.push(Message::User { content });
    }
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
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    // Servers without image support often accept only a string.
    Text(String),
    Parts(Vec<ContentPart<'a>>),
}

impl<'a> UserContent<'a> {
    fn of(content: &'a [Content]) -> Self {
        if content
            .iter()
            .any(|content| matches!(content, Content::Image { .. } | Content::File { .. }))
        {
            Self::Parts(content.iter().map(ContentPart::of).collect())
        } else {
            Self::Text(joined(content))
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

impl<'a> ContentPart<'a> {
    fn of(content: &'a Content) -> Self {
        match content {
            Content::Text { text } | Content::Refusal { text } => Self::Text { text },
            Content::Image { url, detail } => Self::image(url.clone(), detail.as_deref()),
            Content::File { name, url } => {
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
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolCall<'a> {
    Function { id: &'a str, function: FunctionCall<'a> },
    Custom { id: &'a str, custom: CustomCall<'a> },
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
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
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, strict, format, kind, .. } = tool;
        if *kind == ToolKind::Custom {
            let format = format.as_ref().map(custom_format);
            return Self::Custom { custom: Custom { name, description, format } };
        }
        let function = Function { name, description, parameters, strict: *strict };
        Self::Function { function }
    }
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
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

fn choice_of(choice: &ToolChoice, tools: &[Arc<ToolSpec>]) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named { name } => {
            let is_it = |tool: &&Arc<ToolSpec>| tool.name == *name;
            match tools.iter().find(is_it).map(|tool| tool.kind) {
                Some(ToolKind::Custom) => json!({ "type": "custom", "custom": { "name": name } }),
                _ => json!({ "type": "function", "function": { "name": name } }),
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
