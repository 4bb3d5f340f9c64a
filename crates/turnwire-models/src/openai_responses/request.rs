//! A prompt in the words of the Responses API.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{Content, Image, Item, Prompt, Role, ToolChoice, ToolSpec};

use super::ENCRYPTED_SEAL;

/// Families of models that never think, and whose requests are refused when they ask for
/// encrypted thoughts.
const THOUGHTLESS_FAMILIES: &[&str] = &["gpt-3", "gpt-4", "chatgpt-"];

/// The body of a request.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextOptions<'a>>,
}

impl<'a> RequestBody<'a> {
    /// Asks `model`, or the model the prompt names.
    pub(super) fn new(
        prompt: &'a Prompt,
        model: Option<&'a str>,
        summary: Option<&'a str>,
    ) -> Self {
        let generation = &prompt.generation;
        let has_tools = !prompt.tools.is_empty();
        let model = model.unwrap_or(&prompt.model);
        let effort = generation.reasoning_effort.as_deref();
        let thinks = !THOUGHTLESS_FAMILIES.iter().any(|family| model.starts_with(family));
        Self {
            model,
            instructions: prompt.instructions.as_deref(),
            input: prompt.items.iter().filter_map(|item| InputItem::of(item)).collect(),
            stream: true,
            store: false,
            include: if thinks { vec!["reasoning.encrypted_content"] } else { Vec::new() },
            tools: prompt.tools.iter().map(|tool| Tool::of(tool)).collect(),
            tool_choice: has_tools.then(|| Choice::of(&prompt.tool_choice)),
            parallel_tool_calls: has_tools.then_some(prompt.parallel_tool_calls),
            temperature: generation.temperature,
            top_p: generation.top_p,
            max_output_tokens: generation.max_output_tokens,
            reasoning: (effort.is_some() || summary.is_some())
                .then_some(Reasoning { effort, summary }),
            text: generation.answer_schema.as_ref().map(TextOptions::of),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message { role: &'static str, content: Vec<InputContent<'a>> },
    Reasoning { summary: Vec<Summary<'a>>, encrypted_content: &'a str },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: CallOutput<'a> },
}

impl<'a> InputItem<'a> {
    fn of(item: &'a Item) -> Option<Self> {
        Some(match item {
            Item::Message { role, content } => Self::Message {
                role: match role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                },
                content: content.iter().map(|content| InputContent::of(*role, content)).collect(),
            },
            Item::Reasoning { text, seal } => {
                // Thoughts without their proof, or with that of another provider, are refused.
                let encrypted_content = seal.as_deref()?.strip_prefix(ENCRYPTED_SEAL)?;
                let summary = Some(Summary { kind: "summary_text", text });
                let summary = summary.filter(|_| !text.is_empty()).into_iter().collect();
                Self::Reasoning { summary, encrypted_content }
            }
            Item::Call { call_id, name, arguments, .. } => {
                Self::FunctionCall { call_id: call_id.as_str(), name, arguments }
            }
            Item::CallResult { call_id, output, images, failed: _ } => Self::FunctionCallOutput {
                call_id: call_id.as_str(),
                output: CallOutput::of(output, images),
            },
        })
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
            (_, Content::Image { url }) => Self::InputImage { image_url: url.clone() },
            (_, Content::File { name, url }) => {
                Self::InputFile { filename: name, place: FilePlace::of(url) }
            }
        }
    }
}

/// A file that comes along, or one that the provider fetches.
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
        let images =
            images.iter().map(|image| InputContent::InputImage { image_url: image.data_url() });
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
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    // The default is `true`, which refuses most schemas that were not written for it.
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, .. } = tool;
        Self { kind: "function", name, description, parameters, strict: false }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Mode(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

impl<'a> Choice<'a> {
    fn of(choice: &'a ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => Self::Mode("auto"),
            ToolChoice::None => Self::Mode("none"),
            ToolChoice::Required => Self::Mode("required"),
            ToolChoice::Named { name } => Self::Named { kind: "function", name },
        }
    }
}

#[derive(Debug, Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct TextOptions<'a> {
    format: Format<'a>,
}

impl<'a> TextOptions<'a> {
    fn of(schema: &'a Value) -> Self {
        Self { format: Format { kind: "json_schema", name: "answer", strict: true, schema } }
    }
}

#[derive(Debug, Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    strict: bool,
    schema: &'a Value,
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
