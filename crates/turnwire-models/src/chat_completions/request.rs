//! A prompt in the words of Chat Completions.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{Content, Image, Item, Prompt, Role, ToolChoice, ToolSpec};

/// The body of a request.
#[derive(Debug, Serialize)]
pub(super) struct RequestBody<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    stream_options: StreamOptions,
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
    // Deprecated at OpenAI in favour of `max_completion_tokens`, which hardly any compatible
    // server knows. For OpenAI itself there is the Responses adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

impl<'a> RequestBody<'a> {
    /// Asks `model`, or the model the prompt names.
    pub(super) fn new(prompt: &'a Prompt, model: Option<&'a str>) -> Self {
        let generation = &prompt.generation;
        let has_tools = !prompt.tools.is_empty();
        Self {
            model: model.unwrap_or(&prompt.model),
            messages: messages_of(prompt),
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            tools: prompt.tools.iter().map(|tool| Tool::of(tool)).collect(),
            tool_choice: has_tools.then(|| Choice::of(&prompt.tool_choice)),
            parallel_tool_calls: has_tools.then_some(prompt.parallel_tool_calls),
            temperature: generation.temperature,
            top_p: generation.top_p,
            max_tokens: generation.max_output_tokens,
            reasoning_effort: generation.reasoning_effort.as_deref(),
            response_format: generation.answer_schema.as_ref().map(ResponseFormat::of),
        }
    }
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

/// Gathers what belongs into one message: everything the assistant said and called in a row,
/// and the pictures of a row of results, which a message of role `tool` cannot carry.
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
            // There is no agreed way to hand thoughts back, and some servers refuse them.
            Item::Reasoning { .. } => {}
            Item::Call { call_id, name, arguments, .. } => {
                self.close_results();
                let function = FunctionCall { name, arguments };
                self.called.push(ToolCall { id: call_id.as_str(), kind: "function", function });
            }
            Item::CallResult { call_id, output, images, failed: _ } => {
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
        let pictures = images.map(|image| ContentPart::image(image.data_url()));
        let content = UserContent::Parts(std::iter::once(note).chain(pictures).collect());
        self.messages.push(Message::User { content });
    }
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
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
    // Servers that know no pictures often know no lists either.
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
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

impl<'a> ContentPart<'a> {
    fn of(content: &'a Content) -> Self {
        match content {
            Content::Text { text } | Content::Refusal { text } => Self::Text { text },
            Content::Image { url } => Self::image(url.clone()),
            Content::File { name, url } => {
                Self::File { file: File { filename: name, file_data: url } }
            }
        }
    }

    fn image(url: String) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url } }
    }
}

#[derive(Debug, Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: &'a str,
}

#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters, .. } = tool;
        Self { kind: "function", function: Function { name, description, parameters } }
    }
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Mode(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        function: FunctionName<'a>,
    },
}

impl<'a> Choice<'a> {
    fn of(choice: &'a ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => Self::Mode("auto"),
            ToolChoice::None => Self::Mode("none"),
            ToolChoice::Required => Self::Mode("required"),
            ToolChoice::Named { name } => {
                Self::Named { kind: "function", function: FunctionName { name } }
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct FunctionName<'a> {
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

impl<'a> ResponseFormat<'a> {
    fn of(schema: &'a Value) -> Self {
        Self {
            kind: "json_schema",
            json_schema: JsonSchema { name: "answer", strict: true, schema },
        }
    }
}

#[derive(Debug, Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Value,
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
