//! Decodes a Chat Completions request into a [`Prompt`].
//!
//! The inverse of the adapter in `turnwire-models`, for any client of the same API. Unknown parts
//! are ignored.

use std::sync::Arc;

use serde_json::Value;
use turnwire_contract::{
    CallId, Content, Generation, Image, Item, Prompt, Role, ToolChoice, ToolKind, ToolSpec,
};

/// Returns the prompt of the request.
pub(super) fn prompt_of(body: &Value) -> Prompt {
    let mut items = Vec::new();
    for message in list(body, "messages") {
        add_message(message, &mut items);
    }
    Prompt {
        model: text(body, "model").to_owned(),
        instructions: None,
        items: items.into_iter().map(Arc::new).collect(),
        tools: list(body, "tools").filter_map(tool_of).map(Arc::new).collect(),
        tool_choice: choice_of(body.get("tool_choice")),
        parallel_tool_calls: body.get("parallel_tool_calls") != Some(&Value::Bool(false)),
        generation: Generation {
            temperature: body.get("temperature").and_then(Value::as_f64),
            top_p: body.get("top_p").and_then(Value::as_f64),
            max_output_tokens: ["max_completion_tokens", "max_tokens"]
                .into_iter()
                .find_map(|name| body.get(name)?.as_u64())
                .and_then(|limit| u32::try_from(limit).ok()),
            reasoning_effort: body
                .get("reasoning_effort")
                .and_then(Value::as_str)
                .map(str::to_owned),
            answer_schema: body.pointer("/response_format/json_schema/schema").cloned(),
            ..Generation::default()
        },
        trace: None,
    }
}

fn add_message(message: &Value, items: &mut Vec<Item>) {
    match text(message, "role") {
        "system" | "developer" => items.push(said(Role::System, content_of(message))),
        "assistant" => {
            let mut content = content_of(message);
            let refusal = message.get("refusal").and_then(Value::as_str);
            content.extend(refusal.map(|text| Content::Refusal { text: text.to_owned() }));
            if !content.is_empty() {
                items.push(said(Role::Assistant, content));
            }
            items.extend(list(message, "tool_calls").map(call_of));
        }
        "tool" => items.push(Item::CallResult {
            call_id: CallId::new(text(message, "tool_call_id")),
            output: words(&content_of(message)),
            images: Vec::new(),
            failed: false,
            custom: false,
        }),
        _ => {
            let content = content_of(message);
            match items.last_mut() {
                // A message of role `tool` cannot have images, so they follow in a user message,
                // which is not a new question.
                Some(Item::CallResult { images, .. }) if content.iter().any(is_picture) => {
                    images.extend(content.iter().filter_map(picture_of));
                }
                _ => items.push(said(Role::User, content)),
            }
        }
    }
}

fn said(role: Role, content: Vec<Content>) -> Item {
    Item::Message { role, content }
}

fn call_of(call: &Value) -> Item {
    if let Some(custom) = call.get("custom") {
        return Item::Call {
            call_id: CallId::new(text(call, "id")),
            name: text(custom, "name").to_owned(),
            arguments: text(custom, "input").to_owned(),
            kind: ToolKind::Custom,
            server: None,
        };
    }
    let function = call.get("function").unwrap_or(&Value::Null);
    Item::call(text(call, "id"), text(function, "name"), text(function, "arguments"))
}

fn tool_of(tool: &Value) -> Option<ToolSpec> {
    if let Some(custom) = tool.get("custom") {
        let mut spec = ToolSpec::new(text(custom, "name"), text(custom, "description"));
        spec.kind = ToolKind::Custom;
        return Some(spec);
    }
    let function = tool.get("function")?;
    let mut spec = ToolSpec::new(text(function, "name"), text(function, "description"));
    if let Some(parameters) = function.get("parameters") {
        spec.parameters = parameters.clone();
    }
    Some(spec)
}

fn choice_of(choice: Option<&Value>) -> ToolChoice {
    match choice {
        Some(Value::String(mode)) if mode == "none" => ToolChoice::None,
        Some(Value::String(mode)) if mode == "required" => ToolChoice::Required,
        Some(choice) => match named_in(choice) {
            Some(name) => ToolChoice::Named { name: name.to_owned() },
            None => ToolChoice::Auto,
        },
        None => ToolChoice::Auto,
    }
}

fn named_in(choice: &Value) -> Option<&str> {
    ["/function/name", "/custom/name"].iter().find_map(|path| choice.pointer(path)?.as_str())
}

fn content_of(message: &Value) -> Vec<Content> {
    match message.get("content") {
        Some(Value::String(text)) => vec![Content::text(text)],
        Some(Value::Array(parts)) => parts.iter().filter_map(part_of).collect(),
        _ => Vec::new(),
    }
}

fn part_of(part: &Value) -> Option<Content> {
    match text(part, "type") {
        "text" => Some(Content::text(text(part, "text"))),
        "refusal" => Some(Content::Refusal { text: text(part, "refusal").to_owned() }),
        "image_url" => {
            let url = part.pointer("/image_url/url")?.as_str()?.to_owned();
            let detail = part.pointer("/image_url/detail").and_then(Value::as_str);
            Some(Content::Image { url, detail: detail.map(str::to_owned) })
        }
        "file" => {
            let file = part.get("file")?;
            let name = text(file, "filename").to_owned();
            Some(Content::File { name, url: text(file, "file_data").to_owned() })
        }
        _ => None,
    }
}

fn is_picture(content: &Content) -> bool {
    matches!(content, Content::Image { .. })
}

fn picture_of(content: &Content) -> Option<Image> {
    let Content::Image { url, .. } = content else { return None };
    let (media_type, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Image { media_type: media_type.to_owned(), base64: base64.to_owned() })
}

fn words(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|content| match content {
        Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
        Content::Image { .. } | Content::File { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}
