//! Converts a prompt to a request of the Messages API.
//!
//! The API requires alternating roles, so consecutive items of the same role share a message, and
//! it rejects empty text.

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    Content, Generation, Image, Item, Parameter, Prompt, Role, ToolChoice, ToolKind, ToolSpec,
};

use super::{REDACTED_PREFIX, SIGNATURE_PREFIX};
use crate::{
    custom_tools::wrapped,
    request_fields::{set_fields, set_object},
};

/// Parameters that the API supports.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::Temperature,
    Parameter::TopP,
    Parameter::MaxOutputTokens,
    Parameter::ReasoningEffort,
    Parameter::ReasoningSummary,
    Parameter::AnswerSchema,
    Parameter::Stop,
    Parameter::SafetyIdentifier,
    Parameter::StrictFunctions,
];

/// Default of `max_tokens`, which the API requires. Every model since Claude 3.5 accepts this
/// value.
const DEFAULT_MAX_TOKENS: u32 = 8192;

#[derive(Debug, Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl<'a> RequestBody<'a> {
    /// Builds a request for `model`, or for the model in the prompt.
    pub(super) fn new(prompt: &'a Prompt, model: Option<&'a str>) -> Self {
        let generation = &prompt.generation;
        let effort = Effort::of(generation);
        Self {
            model: model.unwrap_or(&prompt.model),
            max_tokens: generation.max_output_tokens.unwrap_or_else(|| effort.usual_max_tokens()),
            stream: true,
            system: system_of(prompt),
            messages: messages_of(&prompt.items),
            tools: prompt.tools.iter().map(|tool| Tool::of(tool)).collect(),
            options: options_of(prompt, effort),
        }
    }
}

fn options_of(prompt: &Prompt, effort: Effort<'_>) -> Map<String, Value> {
    let generation = &prompt.generation;
    let choice = || choice_of(&prompt.tool_choice, prompt.parallel_tool_calls);
    let schema = generation.answer_schema.as_ref();
    let user = generation.safety_identifier.as_ref();
    set_fields(json!({
        "tool_choice": (!prompt.tools.is_empty()).then(choice),
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "thinking": effort.thinking(generation.reasoning_summary.is_some()),
        "output_config": set_object(json!({
            "effort": effort.word(),
            "format": schema.map(|schema| json!({ "type": "json_schema", "schema": schema })),
        })),
        "stop_sequences": (!generation.stop.is_empty()).then_some(&generation.stop),
        "metadata": user.map(|user| json!({ "user_id": user })),
    }))
}

fn system_of(prompt: &Prompt) -> Option<String> {
    let messages = prompt.items.iter().filter_map(|item| match item.as_ref() {
        Item::Message { role: Role::System, content } => Some(content),
        _ => None,
    });
    let texts = messages.flatten().filter_map(|content| match content {
        Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
        Content::Image { .. } | Content::File { .. } => None,
    });
    let texts: Vec<&str> = prompt.instructions.as_deref().into_iter().chain(texts).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn messages_of(items: &[impl AsRef<Item>]) -> Vec<Message<'_>> {
    let mut messages: Vec<Message<'_>> = Vec::new();
    for item in items {
        let (role, blocks) = blocks_of(item.as_ref());
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => messages.push(Message { role, content: blocks }),
        }
    }
    messages
}

fn blocks_of(item: &Item) -> (&'static str, Vec<Block<'_>>) {
    match item {
        // Sent in `system`; see `system_of`.
        Item::Message { role: Role::System, .. } => (USER, Vec::new()),
        Item::Message { role: Role::User, content } => (USER, content_of(content)),
        Item::Message { role: Role::Assistant, content } => (ASSISTANT, content_of(content)),
        Item::Reasoning { text, encrypted_content } => {
            (ASSISTANT, thoughts_of(text, encrypted_content.as_deref()).into_iter().collect())
        }
        Item::Call { call_id, name, arguments, kind, .. } => {
            let input = match kind {
                ToolKind::Custom => wrapped(arguments),
                _ => serde_json::from_str(arguments).unwrap_or_default(),
            };
            (ASSISTANT, vec![Block::ToolUse { id: call_id.as_str(), name, input }])
        }
        Item::CallResult { call_id, output, images, failed, .. } => {
            let text = (!output.is_empty()).then_some(Block::Text { text: output });
            let images = images.iter().map(Block::of_image);
            let block = Block::ToolResult {
                tool_use_id: call_id.as_str(),
                content: text.into_iter().chain(images).collect(),
                is_error: *failed,
            };
            (USER, vec![block])
        }
    }
}

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

fn content_of(content: &[Content]) -> Vec<Block<'_>> {
    let blocks = content.iter().map(|content| match content {
        Content::Text { text } | Content::Refusal { text } => Block::Text { text },
        Content::Image { url, .. } => Block::Image { source: Source::of_url(url) },
        Content::File { name, url } => Block::Document { title: name, source: Source::of_url(url) },
    });
    blocks.filter(|block| !matches!(block, Block::Text { text: "" })).collect()
}

/// Returns reasoning with encrypted content of Anthropic. The API rejects any other reasoning.
fn thoughts_of<'a>(text: &'a str, encrypted_content: Option<&'a str>) -> Option<Block<'a>> {
    let encrypted_content = encrypted_content?;
    match (
        encrypted_content.strip_prefix(SIGNATURE_PREFIX),
        encrypted_content.strip_prefix(REDACTED_PREFIX),
    ) {
        (Some(signature), _) => Some(Block::Thinking { thinking: text, signature }),
        (_, Some(data)) => Some(Block::RedactedThinking { data }),
        _ => None,
    }
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        title: &'a str,
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Map<String, Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        is_error: bool,
    },
}

impl<'a> Block<'a> {
    fn of_image(image: &'a Image) -> Self {
        let source = Source::Base64 { media_type: &image.media_type, data: &image.base64 };
        Self::Image { source }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

impl<'a> Source<'a> {
    fn of_url(url: &'a str) -> Self {
        let carried = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match carried {
            Some((media_type, data)) => Self::Base64 { media_type, data },
            None => Self::Url { url },
        }
    }
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    // Sent only if true, which is the only value with an effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, strict, .. } = tool;
        Self { name, description, input_schema: parameters, strict: *strict == Some(true) }
    }
}

fn choice_of(choice: &ToolChoice, parallel: bool) -> Map<String, Value> {
    let (kind, name) = match choice {
        ToolChoice::Auto => ("auto", None),
        ToolChoice::Required => ("any", None),
        ToolChoice::Named { name } => ("tool", Some(name)),
        ToolChoice::None => return set_fields(json!({ "type": "none" })),
    };
    set_fields(json!({ "type": kind, "name": name, "disable_parallel_tool_use": !parallel }))
}

/// Reasoning effort. Newer Claude models take a word, older ones a number of tokens.
#[derive(Debug, Clone, Copy)]
enum Effort<'a> {
    NotSaid,
    Off,
    Budget(u32),
    Word(&'a str),
}

impl<'a> Effort<'a> {
    fn of(generation: &'a Generation) -> Self {
        match generation.reasoning_effort.as_deref() {
            None => Self::NotSaid,
            Some("none") => Self::Off,
            Some(effort) => effort.parse().map_or(Self::Word(effort), Self::Budget),
        }
    }

    /// Some Claude models return no reasoning text unless `display` is set.
    fn thinking(self, shown: bool) -> Option<Map<String, Value>> {
        let display = shown.then_some("summarized");
        let thinking = match self {
            Self::NotSaid => return None,
            Self::Off => json!({ "type": "disabled" }),
            Self::Budget(tokens) => {
                json!({ "type": "enabled", "budget_tokens": tokens, "display": display })
            }
            Self::Word(_) => json!({ "type": "adaptive", "display": display }),
        };
        Some(set_fields(thinking))
    }

    fn word(self) -> Option<&'a str> {
        match self {
            Self::Word(word) => Some(word),
            Self::NotSaid | Self::Off | Self::Budget(_) => None,
        }
    }

    /// Reasoning counts as output, so its budget is added.
    fn usual_max_tokens(self) -> u32 {
        match self {
            Self::Budget(tokens) => DEFAULT_MAX_TOKENS.saturating_add(tokens),
            Self::NotSaid | Self::Off | Self::Word(_) => DEFAULT_MAX_TOKENS,
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
