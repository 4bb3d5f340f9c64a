//! The messages that a client sends along, without the texts that the conversation has.
//!
//! A client sends all messages of its thread with every request, and the snapshot after a withdrawn
//! turn returns them as they were. Kept whole with every run, they would grow with the square of
//! the length of the thread. So a text that an entry of the conversation has as well is kept as a
//! reference to it, and read from there in the rare case of a snapshot.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use turnwire_contract::{Content, Entry, Item, ItemId};

/// Shorter texts are kept as they are: a reference is not shorter.
const MIN_BYTES: usize = 96;

/// Keys of a reference: the entry, and the number of the text in it.
const ENTRY: &str = "$entry";
const TEXT: &str = "$text";

/// The messages, with references to the texts that `history` has.
pub(super) fn with_references(mut messages: Vec<Value>, history: &[Entry]) -> Vec<Value> {
    let mut known = HashMap::new();
    for entry in history {
        for (n, text) in texts_of(&entry.item).into_iter().enumerate() {
            if text.len() >= MIN_BYTES {
                known.entry(text).or_insert((&entry.id, n));
            }
        }
    }
    for message in &mut messages {
        refer(message, &known);
    }
    messages
}

fn refer(value: &mut Value, known: &HashMap<&str, (&ItemId, usize)>) {
    match value {
        Value::String(text) => {
            if let Some((id, n)) = known.get(text.as_str()) {
                *value = json!({ ENTRY: id, TEXT: n });
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| refer(value, known)),
        Value::Object(fields) => fields.values_mut().for_each(|value| refer(value, known)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The entries that the messages refer to.
pub(super) fn referenced(messages: &[Value]) -> Vec<ItemId> {
    let mut ids = Vec::new();
    for message in messages {
        collect(message, &mut ids);
    }
    ids
}

fn collect(value: &Value, ids: &mut Vec<ItemId>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, ids)),
        Value::Object(fields) => match reference(fields) {
            Some((id, _)) => ids.push(ItemId::from(id)),
            None => fields.values().for_each(|value| collect(value, ids)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the references by the texts of `entries`. A text that is gone, because its conversation
/// was deleted, is empty: clients refuse anything that is not a text.
pub(super) fn resolve(messages: &mut [Value], entries: &[Entry]) {
    let known: HashMap<&str, Vec<&str>> =
        entries.iter().map(|entry| (entry.id.as_str(), texts_of(&entry.item))).collect();
    for message in messages {
        resolve_one(message, &known);
    }
}

fn resolve_one(value: &mut Value, known: &HashMap<&str, Vec<&str>>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| resolve_one(value, known)),
        Value::Object(fields) => match reference(fields) {
            Some((id, n)) => {
                let text = known.get(id).and_then(|texts| texts.get(n)).copied();
                *value = Value::from(text.unwrap_or_default());
            }
            None => fields.values_mut().for_each(|value| resolve_one(value, known)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The entry and the number of a text, if the object is a reference.
fn reference(fields: &Map<String, Value>) -> Option<(&str, usize)> {
    let id = fields.get(ENTRY).and_then(Value::as_str).filter(|_| fields.len() == 2)?;
    let n = fields.get(TEXT).and_then(Value::as_u64)?;
    Some((id, usize::try_from(n).ok()?))
}

/// The texts of an item that a message of a client may have, always in the same order.
fn texts_of(item: &Item) -> Vec<&str> {
    match item {
        Item::Message { content, .. } => content.iter().flat_map(texts_of_part).collect(),
        Item::Reasoning { text, .. } => vec![text],
        Item::Call { arguments, .. } => vec![arguments],
        Item::CallResult { output, images, .. } => {
            let images = images.iter().map(|image| image.base64.as_str());
            [output.as_str()].into_iter().chain(images).collect()
        }
    }
}

/// The text of a part, or its address with the data in it.
fn texts_of_part(part: &Content) -> Vec<&str> {
    match part {
        Content::Text { text } | Content::Refusal { text } => vec![text],
        Content::Image { url, .. } | Content::File { url, .. } => {
            let data = url.split_once(";base64,").map_or("", |(_, data)| data);
            vec![url, data]
        }
    }
}

#[cfg(test)]
#[path = "message_references_tests.rs"]
mod tests;
