//! Messages of a page as items of a conversation.
//!
//! Pictures and files are read by the reader of the Responses API, so that the same addresses and
//! limits apply.

use serde_json::{Map, Value, json};
use turnwire_contract::{CallId, Item};

use super::request::{UiMessage, UiRole};
use crate::{
    client_error::ClientError,
    limits::RequestLimits,
    responses::request::{ResolvedReferences, read_items},
};

/// The last message as an item.
pub(super) fn new_item(
    messages: &[UiMessage],
    limits: &RequestLimits,
) -> Result<Item, ClientError> {
    let place = messages.len().saturating_sub(1);
    let path = format!("messages[{place}].parts");
    let content = messages.last().map(content).unwrap_or_default();
    if content.is_empty() {
        let message = format!("`{path}` must have a text or a file.");
        return Err(ClientError::invalid(path, message));
    }
    let wire = [json!({ "type": "message", "role": "user", "content": content })];
    let mut items = read(&wire, limits)?;
    items.pop().ok_or_else(|| ClientError::missing(path))
}

/// The outputs in the last message that answer one of the `open` calls.
pub(super) fn results(
    messages: &[UiMessage],
    open: &[CallId],
    limits: &RequestLimits,
) -> Result<Vec<Item>, ClientError> {
    let last = messages.last().map(wire_items).unwrap_or_default();
    let is_result = |item: &Value| {
        let call_id = item.get("call_id").and_then(Value::as_str);
        item.get("type").is_some_and(|kind| kind == "function_call_output")
            && open.iter().any(|open| Some(open.as_str()) == call_id)
    };
    let results: Vec<Value> = last.into_iter().filter(is_result).collect();
    // Their calls are in the conversation, so only the shape is checked here.
    let calls = results.iter().map(|result| {
        let call_id = result.get("call_id").cloned().unwrap_or_default();
        json!({ "type": "function_call", "call_id": call_id, "name": "_", "arguments": "{}" })
    });
    let wire: Vec<Value> = calls.chain(results.iter().cloned()).collect();
    let is_result = |item: &Item| matches!(item, Item::CallResult { .. });
    Ok(read(&wire, limits)?.into_iter().filter(is_result).collect())
}

/// The last message as items, for a conversation that is not stored yet.
pub(super) fn last_items(
    messages: &[UiMessage],
    limits: &RequestLimits,
) -> Result<Vec<Item>, ClientError> {
    read(&messages.last().map(wire_items).unwrap_or_default(), limits)
}

/// All messages but the last as items, for a conversation that is not stored yet.
pub(super) fn earlier_items(
    messages: &[UiMessage],
    limits: &RequestLimits,
) -> Result<Vec<Item>, ClientError> {
    let earlier = messages.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let wire: Vec<Value> = earlier.iter().flat_map(wire_items).collect();
    read(&wire, limits)
}

fn read(wire: &[Value], limits: &RequestLimits) -> Result<Vec<Item>, ClientError> {
    let references = ResolvedReferences { limits: limits.clone(), ..ResolvedReferences::default() };
    Ok(read_items(wire, "messages", &references)?.items)
}

/// A message as input items of the Responses API. Reasoning is left out, because a page does not
/// have what a provider needs to take it back.
fn wire_items(message: &UiMessage) -> Vec<Value> {
    let role = match message.role {
        Some(UiRole::Assistant) => return message.parts().iter().flat_map(answer_items).collect(),
        Some(UiRole::User) => "user",
        Some(UiRole::System) => "system",
        None => return Vec::new(),
    };
    let content = content(message);
    if content.is_empty() {
        return Vec::new();
    }
    vec![json!({ "type": "message", "role": role, "content": content })]
}

/// The content of a user or system message.
fn content(message: &UiMessage) -> Vec<Value> {
    message.parts().iter().filter_map(content_part).collect()
}

fn content_part(part: &Map<String, Value>) -> Option<Value> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    match text("type")? {
        "text" => {
            let text = text("text").filter(|text| !text.is_empty())?;
            Some(json!({ "type": "input_text", "text": text }))
        }
        "file" => {
            let url = text("url")?;
            if text("mediaType").is_some_and(|media_type| media_type.starts_with("image/")) {
                return Some(json!({ "type": "input_image", "image_url": url }));
            }
            let place = if url.starts_with("data:") { "file_data" } else { "file_url" };
            let mut file = json!({ "type": "input_file", place: url });
            if let (Some(fields), Some(name)) = (file.as_object_mut(), text("filename")) {
                fields.insert("filename".to_owned(), json!(name));
            }
            Some(file)
        }
        _ => None,
    }
}

/// A part of an assistant message: a text, or a call with its result. A call without a result is
/// left out, because every call in a history has one.
fn answer_items(part: &Map<String, Value>) -> Vec<Value> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    if kind == "text" {
        let Some(text) = text("text").filter(|text| !text.is_empty()) else { return Vec::new() };
        let content = json!([{ "type": "output_text", "text": text }]);
        return vec![json!({ "type": "message", "role": "assistant", "content": content })];
    }
    let name = kind.strip_prefix("tool-").or_else(|| text("toolName"));
    let (Some(name), Some(call_id)) = (name, text("toolCallId")) else { return Vec::new() };
    let output = match text("state") {
        Some("output-available") => as_text(part.get("output")),
        Some("output-error") => text("errorText").unwrap_or("failed").to_owned(),
        Some("output-denied") => "denied by the user".to_owned(),
        Some(_) | None => return Vec::new(),
    };
    let arguments = match part.get("input") {
        Some(Value::Object(input)) => Value::Object(input.clone()).to_string(),
        Some(_) | None => "{}".to_owned(),
    };
    vec![
        json!({ "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments }),
        json!({ "type": "function_call_output", "call_id": call_id, "output": output }),
    ]
}

fn as_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
