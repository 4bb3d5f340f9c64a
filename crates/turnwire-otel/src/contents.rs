//! Contents of messages as attributes, in the JSON of the semantic conventions. They are bounded: a
//! span is not the place where a conversation is stored.

use serde_json::{Value, json};
use turnwire_contract::{Content, Item, Role, ToolOutput};

/// Maximum bytes of one text in an attribute.
const MAX_TEXT: usize = 8 * 1024;
/// Maximum number of messages in an attribute; the last ones are kept.
const MAX_MESSAGES: usize = 16;
/// Maximum number of texts in a message.
const MAX_PARTS: usize = 4;

/// Instructions of the application.
pub(crate) fn instructions(text: &str) -> String {
    json!([{ "type": "text", "content": bounded(text) }]).to_string()
}

/// The messages of a request. Calls, results and reasoning are left out.
pub(crate) fn input(items: &[Item]) -> String {
    let messages = items.iter().filter_map(|item| match item {
        Item::Message { role, content } => Some(message(*role, content)),
        Item::Reasoning { .. } | Item::Call { .. } | Item::CallResult { .. } => None,
    });
    let messages: Vec<Value> = messages.collect();
    let n_left_out = messages.len().saturating_sub(MAX_MESSAGES);
    messages.into_iter().skip(n_left_out).collect::<Value>().to_string()
}

fn message(role: Role, content: &[Content]) -> Value {
    let role = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let parts = content.iter().filter_map(|part| match part {
        Content::Text { text } | Content::Refusal { text } => Some(text_part(text)),
        Content::Image { .. } | Content::File { .. } => None,
    });
    json!({ "role": role, "parts": parts.take(MAX_PARTS).collect::<Value>() })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "content": bounded(text) })
}

/// The answer of a turn, from the texts of its messages.
pub(crate) fn output(texts: &[String], finish_reason: &str) -> String {
    let parts: Value = texts.iter().take(MAX_PARTS).map(|text| text_part(text)).collect();
    json!([{ "role": "assistant", "parts": parts, "finish_reason": finish_reason }]).to_string()
}

/// The result of a call.
pub(crate) fn result(output: &ToolOutput) -> String {
    bounded(&output.text)
}

/// The beginning of a text.
pub(crate) fn bounded(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text).to_owned()
}
