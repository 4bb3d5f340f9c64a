//! Converts a prompt to a request of the Messages API.
//!
//! Consecutive items of the same role share a message, results come first in it, and blank text is
//! left out: the API rejects anything else.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use turnwire_contract::{
    CallId, Content, Generation, Image, Item, Parameter, Prompt, Role, ToolChoice, ToolKind,
    ToolSpec,
};

use super::{
    REDACTED, SIGNATURE,
    families::{Effort, Family},
    signed::{Signed, keep_what_fits},
};
use crate::{
    custom_tools::wrapped,
    request_fields::{plain_object, set_fields, set_object, text_in},
    seal::{Origin, short},
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

#[derive(Debug, Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(flatten)]
    head: Head<'a>,
    messages: Vec<Message<'a>>,
    #[serde(flatten)]
    options: Map<String, Value>,
    /// Hash of what the answer is made over.
    #[serde(skip)]
    prefix: String,
}

/// What stands before the messages.
#[derive(Debug, Serialize)]
struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

impl<'a> RequestBody<'a> {
    /// Builds a request for `model`, or for the model in the prompt. Reasoning of `origin` is given
    /// back.
    pub(super) fn new(prompt: &'a Prompt, model: Option<&'a str>, origin: Option<&Origin>) -> Self {
        let generation = &prompt.generation;
        let model = model.unwrap_or(&prompt.model);
        let family = Family::of(model);
        let effort = family.effort(effort_of(generation));
        let head = Head {
            system: system_of(prompt, family),
            tools: prompt.tools.iter().map(|tool| Tool::of(tool)).collect(),
        };
        let mut messages = messages_of(&prompt.items, origin, family);
        let prefix = keep_what_fits(&head, &mut messages);
        // An answer may have been nothing but reasoning.
        messages.retain(|message| !message.content.is_empty());
        let max_tokens = generation.max_output_tokens;
        Self {
            model,
            max_tokens: max_tokens.unwrap_or_else(|| effort.usual_max_tokens(family)),
            stream: true,
            head,
            messages,
            options: options_of(prompt, effort, family),
            prefix,
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

fn options_of(prompt: &Prompt, effort: Effort<'_>, family: Family) -> Map<String, Value> {
    let generation = &prompt.generation;
    let may_force = family.forced_choice && !matches!(effort, Effort::Budget(_));
    let choice = || choice_of(&prompt.tool_choice, prompt.parallel_tool_calls, may_force);
    let schema = generation.answer_schema.as_ref();
    let user = generation.safety_identifier.as_ref();
    let sampling = family.takes(Parameter::Temperature);
    set_fields(json!({
        // The provider keeps the prompt up to its end for the next turn.
        "cache_control": family.is_known().then(|| json!({ "type": "ephemeral" })),
        "tool_choice": (!prompt.tools.is_empty()).then(choice),
        "temperature": generation.temperature.filter(|_| sampling),
        "top_p": generation.top_p.filter(|_| sampling),
        "thinking": effort.thinking(generation.reasoning_summary.is_some()),
        "output_config": set_object(json!({
            "effort": effort.word(),
            "format": schema.map(|schema| json!({ "type": "json_schema", "schema": closed(schema) })),
        })),
        "stop_sequences": (!generation.stop.is_empty()).then_some(&generation.stop),
        "metadata": user.map(|user| json!({ "user_id": user })),
    }))
}

/// Returns the schema of an answer as the API takes it: objects have no further properties, and
/// sizes are not enforced.
fn closed(schema: &Value) -> Value {
    const NOT_ENFORCED: [&str; 10] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
    ];
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut closed: Map<String, Value> = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            // Names in these are not keywords.
            ("properties" | "$defs" | "definitions", Value::Object(named)) => Value::Object(
                named.iter().map(|(name, it)| (name.clone(), self::closed(it))).collect(),
            ),
            ("anyOf" | "allOf" | "oneOf", Value::Array(parts)) => {
                Value::Array(parts.iter().map(self::closed).collect())
            }
            ("items", items) => self::closed(items),
            (name, _) if NOT_ENFORCED.contains(&name) => continue,
            (_, value) => value.clone(),
        };
        closed.insert(name.clone(), value);
    }
    if fields.get("type").is_some_and(|kind| kind == "object") {
        closed.insert("additionalProperties".to_owned(), json!(false));
    }
    Value::Object(closed)
}

/// Returns the instructions, and the messages of the system that may not stand between the others.
fn system_of(prompt: &Prompt, family: Family) -> Option<String> {
    let is_system = |item: &&Item| matches!(item, Item::Message { role: Role::System, .. });
    let items = prompt.items.iter().map(AsRef::as_ref);
    let messages: Vec<&Item> = if family.late_system_messages {
        items.take_while(is_system).collect()
    } else {
        items.filter(is_system).collect()
    };
    let contents = messages.into_iter().filter_map(|item| match item {
        Item::Message { content, .. } => Some(content),
        Item::Reasoning { .. } | Item::Call { .. } | Item::CallResult { .. } => None,
    });
    let texts = contents.flatten().filter_map(|content| match content {
        Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
        Content::Image { .. } | Content::File { .. } => None,
    });
    let texts: Vec<&str> = prompt.instructions.as_deref().into_iter().chain(texts).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn messages_of<'a>(
    items: &'a [impl AsRef<Item>],
    origin: Option<&Origin>,
    family: Family,
) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'_>> = Vec::new();
    for item in items {
        let (role, blocks) = blocks_of(item.as_ref(), origin);
        let is_hoisted = role == SYSTEM && (messages.is_empty() || !family.late_system_messages);
        match messages.last_mut() {
            _ if is_hoisted => {}
            Some(last) if last.role == role => last.content.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => messages.push(Message { role, content: blocks }),
        }
    }
    for message in &mut messages {
        // Results come first and calls last; all else keeps its order, and so does what is signed.
        if message.made_over().is_none() {
            message.content.sort_by_key(|block| match block {
                Block::ToolResult { .. } => 0,
                Block::ToolUse { .. } => 2,
                _ => 1,
            });
        }
    }
    messages
}

fn blocks_of<'a>(item: &'a Item, origin: Option<&Origin>) -> (&'static str, Vec<Block<'a>>) {
    match item {
        Item::Message { role: Role::System, content } => (SYSTEM, content_of(content)),
        Item::Message { role: Role::User, content } => (USER, content_of(content)),
        Item::Message { role: Role::Assistant, content } => (ASSISTANT, content_of(content)),
        Item::Reasoning { text, encrypted_content } => (
            ASSISTANT,
            thoughts_of(text, encrypted_content.as_deref(), origin).into_iter().collect(),
        ),
        Item::Call { call_id, name, arguments, kind, .. } => {
            let input = match kind {
                ToolKind::Custom => wrapped(arguments),
                _ => serde_json::from_str(arguments).unwrap_or_default(),
            };
            (ASSISTANT, vec![Block::ToolUse { id: id_of(call_id), name, input }])
        }
        Item::CallResult { call_id, output, images, failed, .. } => {
            let text = match output.as_str() {
                output if !output.trim().is_empty() => Some(output),
                _ => failed.then_some("failed"),
            };
            let mut content: Vec<Block<'_>> =
                text.map(|text| Block::Text { text }).into_iter().collect();
            let mut beside: Vec<Block<'_>> = images.iter().map(Block::of_image).collect();
            // A failed result is text only.
            if !failed {
                content.append(&mut beside);
            }
            let block =
                Block::ToolResult { tool_use_id: id_of(call_id), content, is_error: *failed };
            beside.insert(0, block);
            (USER, beside)
        }
    }
}

/// Returns the ID of a call. The API takes letters, digits, `_` and `-`.
fn id_of(call_id: &CallId) -> Cow<'_, str> {
    let id = call_id.as_str();
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !id.is_empty() && id.bytes().all(is_kept) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("call_{}", short(Sha256::new_with_prefix(id))))
    }
}

const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";

fn content_of(content: &[Content]) -> Vec<Block<'_>> {
    let blocks = content.iter().map(|content| match content {
        Content::Text { text } | Content::Refusal { text } => Block::Text { text },
        Content::Image { url, .. } => Block::Image { source: Source::of_url(url) },
        Content::File { name, url } => Block::Document { title: name, source: Source::of_url(url) },
    });
    blocks
        .filter(|block| !matches!(block, Block::Text { text } if text.trim().is_empty()))
        .collect()
}

/// Returns reasoning that `origin` sealed. The API rejects any other reasoning.
fn thoughts_of<'a>(
    text: &'a str,
    seal: Option<&'a str>,
    origin: Option<&Origin>,
) -> Option<Block<'a>> {
    let (seal, origin) = (seal?, origin?);
    let signed = || {
        let (made_over, signature) = origin.open_over(SIGNATURE, seal)?;
        let made_over = made_over.unwrap_or_default();
        Some(Block::Thinking { thinking: text, signature, made_over })
    };
    let redacted = || {
        let (made_over, data) = origin.open_over(REDACTED, seal)?;
        Some(Block::RedactedThinking { data, made_over: made_over.unwrap_or_default() })
    };
    signed().or_else(redacted)
}

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

impl Signed for Message<'_> {
    fn made_over(&self) -> Option<&str> {
        self.content.iter().find_map(Block::made_over)
    }

    fn without_reasoning(&self) -> impl Serialize {
        let content: Vec<&Block<'_>> =
            self.content.iter().filter(|block| block.made_over().is_none()).collect();
        json!({ "role": self.role, "content": content })
    }

    fn leave_out_reasoning(&mut self) {
        self.content.retain(|block| block.made_over().is_none());
    }
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
        #[serde(skip)]
        made_over: &'a str,
    },
    RedactedThinking {
        data: &'a str,
        #[serde(skip)]
        made_over: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Map<String, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
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

    /// Returns what it was made over, if it is reasoning.
    fn made_over(&self) -> Option<&'a str> {
        match self {
            Self::Thinking { made_over, .. } | Self::RedactedThinking { made_over, .. } => {
                Some(made_over)
            }
            Self::Text { .. }
            | Self::Image { .. }
            | Self::Document { .. }
            | Self::ToolUse { .. }
            | Self::ToolResult { .. } => None,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: String },
    Url { url: &'a str },
}

impl<'a> Source<'a> {
    fn of_url(url: &'a str) -> Self {
        if let Some(data) = text_in(url) {
            return Self::Text { media_type: "text/plain", data };
        }
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
    input_schema: Cow<'a, Value>,
    // Sent only if true, which is the only value with an effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, strict, .. } = tool;
        let input_schema = plain_object(parameters);
        Self { name, description, input_schema, strict: *strict == Some(true) }
    }
}

/// A model that cannot be made to call a tool is left to choose.
fn choice_of(choice: &ToolChoice, parallel: bool, may_force: bool) -> Map<String, Value> {
    let (kind, name) = match choice {
        ToolChoice::None => return set_fields(json!({ "type": "none" })),
        ToolChoice::Required if may_force => ("any", None),
        ToolChoice::Named { name } if may_force => ("tool", Some(name)),
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named { .. } => ("auto", None),
    };
    set_fields(json!({ "type": kind, "name": name, "disable_parallel_tool_use": !parallel }))
}

fn effort_of(generation: &Generation) -> Effort<'_> {
    match generation.reasoning_effort.as_deref() {
        None => Effort::NotSaid,
        Some("none") => Effort::Off,
        Some(effort) => effort.parse().map_or(Effort::Word(effort), Effort::Budget),
    }
}

impl<'a> Effort<'a> {
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
    fn usual_max_tokens(self, family: Family) -> u32 {
        match self {
            Self::Budget(tokens) => family.max_tokens.saturating_add(tokens),
            Self::NotSaid | Self::Off | Self::Word(_) => family.max_tokens,
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
