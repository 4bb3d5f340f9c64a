//! The messages of a request, and what is new in them.
//!
//! A client sends all messages of its thread with every request, and the conversation has most of
//! them. The model's own messages tell where the new ones begin: they carry the IDs that this
//! server gave them. A client that sends only what is new works as well.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::{CallId, Content, Entry, Image, Item, Role, ToolKind, ToolSpec};

use crate::{
    client_error::{ClientError, shown},
    limits::RequestLimits,
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientMessage {
    /// A message of the user or the application.
    Said { role: Role, content: Vec<Content> },
    /// A message of the model.
    Answered { id: String, text: String, calls: Vec<ClientCall> },
    /// The result of a call.
    Result { call_id: CallId, output: String, images: Vec<Image>, failed: bool },
    /// Nothing for the model: an activity, or reasoning, which the conversation has in full.
    Shown,
}

/// A call in a message of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCall {
    id: CallId,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentMessage {
    id: Option<String>,
    role: Option<String>,
    content: Option<Value>,
    tool_calls: Option<Vec<SentCall>>,
    tool_call_id: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct SentCall {
    id: String,
    function: SentFunction,
}

#[derive(Deserialize)]
struct SentFunction {
    name: String,
    arguments: Option<String>,
}

pub(super) fn read_messages(
    sent: &[Value],
    limits: &RequestLimits,
) -> Result<Vec<ClientMessage>, ClientError> {
    sent.iter()
        .enumerate()
        .map(|(n, message)| read_message(message, &format!("messages[{n}]"), limits))
        .collect()
}

fn read_message(
    sent: &Value,
    path: &str,
    limits: &RequestLimits,
) -> Result<ClientMessage, ClientError> {
    let read: SentMessage = serde_path_to_error::deserialize(sent).map_err(|error| {
        let at = error.path().to_string();
        let param = if at == "." { path.to_owned() } else { format!("{path}.{at}") };
        let message = format!("`{param}` is not of the right type. See /openapi.json for it.");
        ClientError::new("invalid_type", param, message)
    })?;
    let role = read.role.as_deref().ok_or_else(|| ClientError::missing(format!("{path}.role")))?;
    let content = read.content.as_ref();
    match role {
        "user" => Ok(said(Role::User, needed_content(content, path)?)),
        "system" | "developer" => Ok(said(Role::System, needed_content(content, path)?)),
        "assistant" => {
            let text = match content {
                None | Some(Value::Null) => String::new(),
                Some(content) => text_and_images(read_content(content, path)?, path)?.0,
            };
            let calls = read.tool_calls.unwrap_or_default();
            let calls = calls.into_iter().map(|call| read_call(call, path, limits));
            let calls = calls.collect::<Result<_, _>>()?;
            Ok(ClientMessage::Answered { id: read.id.unwrap_or_default(), text, calls })
        }
        "tool" => {
            let param = || format!("{path}.toolCallId");
            let call_id = read.tool_call_id.ok_or_else(|| ClientError::missing(param()))?;
            let (output, images) = text_and_images(needed_content(content, path)?, path)?;
            let call_id = CallId::new(call_id);
            let error = read.error.filter(|error| !error.is_empty());
            let (failed, output) = match error {
                Some(error) if output.is_empty() => (true, error),
                error => (error.is_some(), output),
            };
            Ok(ClientMessage::Result { call_id, output, images, failed })
        }
        "activity" | "reasoning" => Ok(ClientMessage::Shown),
        other => {
            let param = format!("{path}.role");
            let message = format!("There is no role `{}`.", shown(other));
            Err(ClientError::invalid(param, message))
        }
    }
}

fn said(role: Role, content: Vec<Content>) -> ClientMessage {
    ClientMessage::Said { role, content }
}

fn read_call(
    call: SentCall,
    path: &str,
    limits: &RequestLimits,
) -> Result<ClientCall, ClientError> {
    let SentCall { id, function: SentFunction { name, arguments } } = call;
    let arguments = arguments.filter(|text| !text.trim().is_empty());
    let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
    let most = limits.argument_bytes;
    if arguments.len() > most {
        let message = format!("The arguments of a call may have at most {most} bytes.");
        return Err(ClientError::new("arguments_too_large", format!("{path}.toolCalls"), message));
    }
    Ok(ClientCall { id: CallId::new(id), name, arguments })
}

fn needed_content(content: Option<&Value>, path: &str) -> Result<Vec<Content>, ClientError> {
    match content {
        None | Some(Value::Null) => Err(ClientError::missing(format!("{path}.content"))),
        Some(content) => read_content(content, path),
    }
}

fn read_content(content: &Value, path: &str) -> Result<Vec<Content>, ClientError> {
    let path = format!("{path}.content");
    match content {
        Value::String(text) => Ok(vec![Content::text(text)]),
        Value::Array(parts) => {
            let parts = parts.iter().enumerate();
            parts.map(|(n, part)| read_part(part, &format!("{path}[{n}]"))).collect()
        }
        other => Err(ClientError::wrong_type(path, "a string or a list of parts", other)),
    }
}

fn read_part(part: &Value, path: &str) -> Result<Content, ClientError> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => {
            let text = text("text").ok_or_else(|| ClientError::missing(format!("{path}.text")))?;
            Ok(Content::text(text))
        }
        Some("image") => Ok(Content::image(source_url(part, path, "image/png")?)),
        Some("document") => {
            let url = source_url(part, path, "application/octet-stream")?;
            Ok(Content::File { name: file_name(part), url })
        }
        // The shape before 1.0.
        Some("binary") => {
            let media_type = text("mimeType").unwrap_or("application/octet-stream");
            let url = match (text("url"), text("data")) {
                (Some(url), _) => checked_url(url, path, "url")?,
                (None, Some(data)) => data_url(media_type, data, path, "data")?,
                (None, None) => return Err(ClientError::missing(format!("{path}.data"))),
            };
            let is_image = media_type.starts_with("image/");
            let name = text("filename").unwrap_or("file").to_owned();
            Ok(if is_image { Content::image(url) } else { Content::File { name, url } })
        }
        Some(other) => {
            let message = format!("Parts of the type `{}` are not supported.", shown(other));
            Err(ClientError::new("unsupported_content", format!("{path}.type"), message))
        }
        None => Err(ClientError::missing(format!("{path}.type"))),
    }
}

/// The URL of a part's source: its own, or one that contains the data.
fn source_url(part: &Value, path: &str, media_type: &str) -> Result<String, ClientError> {
    let source = part.get("source");
    let text = |name: &str| source.and_then(|source| source.get(name)).and_then(Value::as_str);
    let path = format!("{path}.source");
    let value = text("value").ok_or_else(|| ClientError::missing(format!("{path}.value")))?;
    match text("type") {
        Some("data") => data_url(text("mimeType").unwrap_or(media_type), value, &path, "value"),
        Some("url") => checked_url(value, &path, "value"),
        _ => {
            let message = "A part must carry its data, or name its URL.";
            Err(ClientError::new("unsupported_content", format!("{path}.type"), message))
        }
    }
}

fn data_url(media_type: &str, data: &str, path: &str, field: &str) -> Result<String, ClientError> {
    let is_media_type = media_type.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if is_media_type && BASE64_STANDARD.decode(data).is_ok() {
        return Ok(format!("data:{media_type};base64,{data}"));
    }
    let param = format!("{path}.{field}");
    Err(ClientError::invalid(&*param, format!("`{param}` must be base64, with a media type.")))
}

/// An address that the provider fetches; the gateway never does.
fn checked_url(url: &str, path: &str, field: &str) -> Result<String, ClientError> {
    let is_data = url.starts_with("data:") && url.contains(";base64,");
    if is_data || url.starts_with("https://") || url.starts_with("http://") {
        return Ok(url.to_owned());
    }
    let param = format!("{path}.{field}");
    Err(ClientError::invalid(&*param, format!("`{param}` must be an http address.")))
}

fn file_name(part: &Value) -> String {
    let metadata = part.get("metadata");
    let name = |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    name("filename").or_else(|| name("name")).unwrap_or("file").to_owned()
}

/// Texts joined by line breaks, and images. Other parts have no place in a result.
fn text_and_images(content: Vec<Content>, path: &str) -> Result<(String, Vec<Image>), ClientError> {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in content {
        match part {
            Content::Text { text } | Content::Refusal { text } => texts.push(text),
            Content::Image { url, .. } => images.push(image_of(&url, path)?),
            Content::File { .. } => {
                let message = "A result of a tool has texts and images only.";
                let param = format!("{path}.content");
                return Err(ClientError::new("unsupported_content", param, message));
            }
        }
    }
    Ok((texts.join("\n"), images))
}

fn image_of(url: &str, path: &str) -> Result<Image, ClientError> {
    let carried = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let image = carried.map(|(media_type, base64)| Image {
        media_type: media_type.to_owned(),
        base64: base64.to_owned(),
    });
    image.ok_or_else(|| {
        let message = "A picture in the result of a tool must carry its data.";
        ClientError::invalid(format!("{path}.content"), message)
    })
}

/// The items that `messages` add to `history`, and whether there is anything to answer.
pub(super) fn new_items(
    history: &[Entry],
    messages: &[ClientMessage],
    tools: &[ToolSpec],
) -> Result<Vec<Item>, ClientError> {
    let is_the_models = |message: &ClientMessage| {
        matches!(message, ClientMessage::Answered { .. }) && is_known(history, message)
    };
    let anchor = messages.iter().rposition(is_the_models);
    let rest = messages.get(anchor.map_or(0, |place| place + 1)..).unwrap_or_default();
    let new = rest.iter().filter(|message| !is_known(history, message));
    let mut items: Vec<Item> = new.flat_map(|message| items_of(message, tools)).collect();
    let unanswered = unanswered(history);
    // A run that failed before the model said anything leaves its input in the conversation.
    let follows = anchor.is_some() || unanswered.len() == history.len();
    if follows && items.starts_with(&unanswered) {
        items.drain(..unanswered.len());
        if items.is_empty() && !unanswered.is_empty() {
            return Ok(items);
        }
    }
    if items.is_empty() {
        let message = "`messages` has nothing that the thread does not have yet.";
        return Err(ClientError::invalid("messages", message));
    }
    check_results(history, &items)?;
    Ok(items)
}

/// Whether the conversation has a message of the model, or the result of a call.
fn is_known(history: &[Entry], message: &ClientMessage) -> bool {
    let has = |is_it: &dyn Fn(&Entry) -> bool| history.iter().any(is_it);
    let has_call = |id: &CallId| {
        has(&|entry| matches!(&*entry.item, Item::Call { call_id, .. } if call_id == id))
    };
    match message {
        ClientMessage::Answered { id, calls, .. } => {
            has(&|entry| entry.id.as_str() == id) || calls.iter().any(|call| has_call(&call.id))
        }
        ClientMessage::Result { call_id: id, .. } => {
            has(&|entry| matches!(&*entry.item, Item::CallResult { call_id, .. } if call_id == id))
        }
        ClientMessage::Said { .. } | ClientMessage::Shown => false,
    }
}

fn items_of(message: &ClientMessage, tools: &[ToolSpec]) -> Vec<Item> {
    match message {
        ClientMessage::Said { role, content } => {
            vec![Item::Message { role: *role, content: content.clone() }]
        }
        ClientMessage::Answered { text, calls, .. } => {
            let said = (!text.is_empty()).then(|| Item::assistant(text.as_str()));
            let calls = calls.iter().map(|call| {
                let is_clients = tools.iter().any(|tool| tool.name == call.name);
                Item::Call {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    kind: if is_clients { ToolKind::Client } else { ToolKind::Function },
                    server: None,
                }
            });
            said.into_iter().chain(calls).collect()
        }
        ClientMessage::Result { call_id, output, images, failed } => vec![Item::CallResult {
            call_id: call_id.clone(),
            output: output.clone(),
            images: images.clone(),
            failed: *failed,
            custom: false,
        }],
        ClientMessage::Shown => Vec::new(),
    }
}

/// The messages at the end of the history that the model has not answered.
fn unanswered(history: &[Entry]) -> Vec<Item> {
    let is_said = |entry: &&Entry| {
        matches!(&*entry.item, Item::Message { role: Role::User | Role::System, .. })
    };
    let mut said: Vec<Item> =
        history.iter().rev().take_while(is_said).map(|entry| Item::clone(&entry.item)).collect();
    said.reverse();
    said
}

/// Checks that every result belongs to a call.
fn check_results(history: &[Entry], items: &[Item]) -> Result<(), ClientError> {
    let all = || history.iter().map(|entry| &*entry.item).chain(items);
    for item in items {
        let Item::CallResult { call_id: id, .. } = item else { continue };
        let is_its = |item: &Item| matches!(item, Item::Call { call_id, .. } if call_id == id);
        if !all().any(is_its) {
            let message = format!("There is no call `{}` for this result.", shown(id.as_str()));
            return Err(ClientError::new("no_tool_call_found", "messages", message));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
