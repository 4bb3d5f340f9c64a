//! Converts a prompt to a request of the Responses API.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, Content, Generation, Image, InputFormat, Item, Parameter, Prompt, Role, ToolChoice,
    ToolKind, ToolRef, ToolSpec,
};

use super::ENCRYPTED;
use crate::{
    request_fields::{
        SAMPLING, plain_object, refuses_sampling, schema_fields, set_fields, set_object,
        shared_fields,
    },
    seal::Origin,
};

/// Parameters that the API supports.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::Temperature,
    Parameter::TopP,
    Parameter::MaxOutputTokens,
    Parameter::ReasoningEffort,
    Parameter::ReasoningSummary,
    Parameter::ReasoningContext,
    Parameter::ReasoningMode,
    Parameter::AnswerSchema,
    Parameter::SchemaDescription,
    Parameter::LooseSchema,
    Parameter::JsonObject,
    Parameter::Verbosity,
    Parameter::Truncation,
    Parameter::Logprobs,
    Parameter::TopLogprobs,
    Parameter::PromptCacheKey,
    Parameter::PromptCacheRetention,
    Parameter::SafetyIdentifier,
    Parameter::User,
    Parameter::ServiceTier,
    Parameter::ImageDetail,
    Parameter::StrictFunctions,
    Parameter::Namespaces,
];

/// Model families of OpenAI without reasoning. Requests for encrypted reasoning are rejected for
/// them.
const THOUGHTLESS_FAMILIES: &[&str] = &["gpt-3", "gpt-4", "gpt-5-chat", "chatgpt-"];

#[derive(Debug, Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<InputItem<'a>>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl<'a> RequestBody<'a> {
    /// Builds a request for `model`, or for the model in the prompt. `summary` is the default for
    /// the reasoning summary; reasoning of `origin` is given back.
    pub(super) fn new(
        prompt: &'a Prompt,
        model: Option<&'a str>,
        summary: Option<&'a str>,
        origin: Option<&Origin>,
    ) -> Self {
        let model = model.unwrap_or(&prompt.model);
        let custom = custom_calls(&prompt.items);
        let input = prompt.items.iter().filter_map(|item| InputItem::of(item, &custom, origin));
        Self {
            model,
            instructions: prompt.instructions.as_deref(),
            input: input.collect(),
            stream: true,
            store: false,
            include: include(model, &prompt.generation),
            tools: tools_of(&prompt.tools),
            options: options_of(prompt, model, summary),
        }
    }
}

fn options_of(prompt: &Prompt, model: &str, summary: Option<&str>) -> Map<String, Value> {
    let generation = &prompt.generation;
    let has_tools = !prompt.tools.is_empty();
    let mut options = set_fields(json!({
        "tool_choice": has_tools.then(|| choice_of(&prompt.tool_choice, &prompt.tools)),
        "parallel_tool_calls": has_tools.then_some(prompt.parallel_tool_calls),
        "max_output_tokens": generation.max_output_tokens,
        "reasoning": set_object(json!({
            "effort": generation.reasoning_effort,
            "summary": generation.reasoning_summary.as_deref().or(summary),
            "context": generation.reasoning_context,
            "mode": generation.reasoning_mode,
        })),
        "text": set_object(json!({
            "format": format_of(generation),
            "verbosity": generation.verbosity,
        })),
        "truncation": generation.truncation,
        "top_logprobs": generation.top_logprobs,
    }));
    options.extend(shared_fields(generation));
    if refuses_sampling(model, generation.reasoning_effort.as_deref()) {
        options.retain(|name, _| !SAMPLING.contains(&name.as_str()));
    }
    options
}

fn include(model: &str, generation: &Generation) -> Vec<&'static str> {
    let thinks = !THOUGHTLESS_FAMILIES.iter().any(|family| model.starts_with(family));
    let thoughts = thinks.then_some("reasoning.encrypted_content");
    let has_logprobs =
        generation.logprobs && !refuses_sampling(model, generation.reasoning_effort.as_deref());
    let logprobs = has_logprobs.then_some("message.output_text.logprobs");
    thoughts.into_iter().chain(logprobs).collect()
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        role: &'static str,
        content: Vec<InputContent<'a>>,
    },
    Reasoning {
        summary: Vec<Summary<'a>>,
        encrypted_content: &'a str,
    },
    FunctionCall {
        call_id: &'a str,
        #[serde(flatten)]
        tool: ToolName<'a>,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: CallOutput<'a>,
    },
    CustomToolCall {
        call_id: &'a str,
        #[serde(flatten)]
        tool: ToolName<'a>,
        input: &'a str,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: CallOutput<'a>,
    },
}

impl<'a> InputItem<'a> {
    fn of(item: &'a Item, custom: &HashSet<&CallId>, origin: Option<&Origin>) -> Option<Self> {
        Some(match item {
            Item::Message { role, content } => Self::Message {
                role: match role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                },
                content: content.iter().map(|content| InputContent::of(*role, content)).collect(),
            },
            Item::Reasoning { text, encrypted_content } => {
                // OpenAI rejects reasoning without encrypted content, or with that of another
                // provider.
                let encrypted_content = origin?.open(ENCRYPTED, encrypted_content.as_deref()?)?;
                let summary = Some(Summary { kind: "summary_text", text });
                let summary = summary.filter(|_| !text.is_empty()).into_iter().collect();
                Self::Reasoning { summary, encrypted_content }
            }
            Item::Call { call_id, name, arguments, kind, server } => {
                let tool = ToolName::of(name, *kind, server.as_deref());
                let call_id = call_id.as_str();
                match kind {
                    ToolKind::Custom => Self::CustomToolCall { call_id, tool, input: arguments },
                    _ => Self::FunctionCall { call_id, tool, arguments },
                }
            }
            Item::CallResult { call_id, output, images, failed: _, .. } => {
                let output = CallOutput::of(output, images);
                if custom.contains(call_id) {
                    Self::CustomToolCallOutput { call_id: call_id.as_str(), output }
                } else {
                    Self::FunctionCallOutput { call_id: call_id.as_str(), output }
                }
            }
        })
    }
}

/// Returns the calls of custom tools. Their results have another type.
fn custom_calls(items: &[Arc<Item>]) -> HashSet<&CallId> {
    let mut calls = HashSet::new();
    for item in items {
        if let Item::Call { call_id, kind: ToolKind::Custom, .. } = item.as_ref() {
            calls.insert(call_id);
        }
    }
    calls
}

/// Name of a tool for the client. Only client tools have namespaces; tools of servers are functions
/// with the name under which they were offered.
#[derive(Debug, Serialize)]
struct ToolName<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

impl<'a> ToolName<'a> {
    fn of(name: &'a str, kind: ToolKind, server: Option<&'a str>) -> Self {
        match server.filter(|_| kind.is_run_by_client()) {
            Some(namespace) => Self { name: own_name(name, namespace), namespace: Some(namespace) },
            None => Self { name, namespace: None },
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputContent<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
    },
    Refusal {
        refusal: &'a str,
    },
    InputImage {
        image_url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
    },
    InputFile {
        filename: &'a str,
        #[serde(flatten)]
        place: FilePlace<'a>,
    },
}

impl<'a> InputContent<'a> {
    fn of(role: Role, content: &'a Content) -> Self {
        match (role, content) {
            (Role::Assistant, Content::Text { text }) => Self::OutputText { text },
            (Role::Assistant, Content::Refusal { text }) => Self::Refusal { refusal: text },
            (_, Content::Text { text } | Content::Refusal { text }) => Self::InputText { text },
            (_, Content::Image { url, detail }) => {
                Self::InputImage { image_url: url.clone(), detail: detail.as_deref() }
            }
            (_, Content::File { name, url }) => {
                Self::InputFile { filename: name, place: FilePlace::of(url) }
            }
        }
    }
}

/// An embedded file, or one that the provider fetches.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum FilePlace<'a> {
    FileData(&'a str),
    FileUrl(&'a str),
}

impl<'a> FilePlace<'a> {
    fn of(url: &'a str) -> Self {
        if url.starts_with("data:") { Self::FileData(url) } else { Self::FileUrl(url) }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum CallOutput<'a> {
    Text(&'a str),
    Parts(Vec<InputContent<'a>>),
}

impl<'a> CallOutput<'a> {
    fn of(text: &'a str, images: &'a [Image]) -> Self {
        if images.is_empty() {
            return Self::Text(text);
        }
        let images = images
            .iter()
            .map(|image| InputContent::InputImage { image_url: image.data_url(), detail: None });
        Self::Parts(std::iter::once(InputContent::InputText { text }).chain(images).collect())
    }
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function {
        name: &'a str,
        description: &'a str,
        parameters: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
    Custom {
        name: &'a str,
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<&'a InputFormat>,
    },
    Namespace {
        name: &'a str,
        description: &'a str,
        tools: Vec<Tool<'a>>,
    },
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { description, strict, format, kind, .. } = tool;
        let parameters = plain_object(&tool.parameters);
        let name = namespace_of(tool).map_or(&*tool.name, |space| own_name(&tool.name, space));
        match kind {
            ToolKind::Custom => Self::Custom { name, description, format: format.as_ref() },
            // Passed on as set by the client, even if unset.
            ToolKind::Client => Self::Function { name, description, parameters, strict: *strict },
            // OpenAI defaults to strict, which rejects most schemas that were not written for it.
            ToolKind::Function | ToolKind::Mcp | ToolKind::WebSearch | ToolKind::FileSearch => {
                Self::Function { name, description, parameters, strict: Some(false) }
            }
        }
    }
}

fn namespace_of(tool: &ToolSpec) -> Option<&str> {
    tool.server.as_deref().filter(|_| tool.kind.is_run_by_client())
}

/// Returns the name without the prefix of its namespace.
fn own_name<'a>(name: &'a str, namespace: &str) -> &'a str {
    ToolRef::own_name_of(name, namespace)
}

/// Returns the tools, grouped by namespace.
fn tools_of(specs: &[Arc<ToolSpec>]) -> Vec<Tool<'_>> {
    let mut tools: Vec<Tool<'_>> = Vec::new();
    for spec in specs {
        let Some(space) = namespace_of(spec) else {
            tools.push(Tool::of(spec));
            continue;
        };
        let same = tools.iter_mut().find_map(|tool| match tool {
            Tool::Namespace { name, tools, .. } if *name == space => Some(tools),
            _ => None,
        });
        match same {
            Some(tools) => tools.push(Tool::of(spec)),
            None => tools.push(Tool::Namespace {
                name: space,
                description: &spec.namespace_description,
                tools: vec![Tool::of(spec)],
            }),
        }
    }
    tools
}

fn choice_of(choice: &ToolChoice, tools: &[Arc<ToolSpec>]) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named { name } => {
            let spec = tools.iter().find(|tool| tool.name == *name);
            let is_custom = spec.is_some_and(|tool| tool.kind == ToolKind::Custom);
            let kind = if is_custom { "custom" } else { "function" };
            let space = spec.and_then(|tool| namespace_of(tool));
            json!({ "type": kind, "name": space.map_or(&**name, |space| own_name(name, space)) })
        }
    }
}

fn format_of(generation: &Generation) -> Option<Value> {
    let Some(schema) = schema_fields(generation) else {
        return generation.json_object.then(|| json!({ "type": "json_object" }));
    };
    let kind = ("type".to_owned(), json!("json_schema"));
    Some(std::iter::once(kind).chain(schema).collect())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
