//! Translates messages into items: one message can be a text, reasoning and several calls.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::field_names::FieldNames;
use crate::{
    client_error::{ClientError, shown},
    fields::{Fields, placed},
};

/// Fields of an assistant message that a completion has and that have no effect in a request.
const OF_COMPLETIONS: [&str; 4] = ["annotations", "audio", "id", "turnwire"];

/// The items of the messages so far.
#[derive(Debug, Default)]
pub(super) struct MessageTranslator {
    pub(super) items: Vec<Value>,
    /// IDs of the calls of custom tools: their outputs are items of another type.
    custom_calls: HashSet<String>,
}

impl MessageTranslator {
    pub(super) fn read(
        &mut self,
        message: &Fields<'_>,
        names: &mut FieldNames,
    ) -> Result<(), ClientError> {
        const ROLES: [&str; 5] = ["user", "assistant", "system", "developer", "tool"];
        let role = message.word("role", &ROLES)?;
        match role.ok_or_else(|| ClientError::missing(message.path_of("role")))? {
            "assistant" => self.read_assistant(message, names),
            "tool" => self.read_result(message, names),
            role => {
                let content = translate_content(message, names, self.items.len())?;
                self.add(message.path(), names, json!({ "role": role, "content": content }));
                Ok(())
            }
        }
    }

    /// Adds an item that was made of what stands at `path`.
    fn add(&mut self, path: &str, names: &mut FieldNames, item: Value) {
        names.add(&format!("input[{}]", self.items.len()), path);
        self.items.push(item);
    }

    fn read_assistant(
        &mut self,
        message: &Fields<'_>,
        names: &mut FieldNames,
    ) -> Result<(), ClientError> {
        message.pass_over(&OF_COMPLETIONS);
        if let Some(text) = message.text("reasoning_content")?.filter(|text| !text.is_empty()) {
            let content = json!([{ "type": "reasoning_text", "text": text }]);
            self.add(message.path(), names, json!({ "type": "reasoning", "content": content }));
        }
        let mut content = match translate_content(message, names, self.items.len())? {
            Value::String(text) if !text.is_empty() => {
                vec![json!({ "type": "text", "text": text })]
            }
            Value::Array(parts) => parts,
            _ => Vec::new(),
        };
        if let Some(text) = message.text("refusal")?.filter(|text| !text.is_empty()) {
            content.push(json!({ "type": "refusal", "refusal": text }));
        }
        if !content.is_empty() {
            let item = json!({ "role": "assistant", "content": content });
            self.add(message.path(), names, item);
        }
        if message.value("function_call").is_some() {
            let path = message.path_of("function_call");
            let hint = format!("`{path}` is not supported; send `tool_calls`.");
            return Err(ClientError::new("unsupported_parameter", path, hint));
        }
        for (path, call) in message.list("tool_calls")?.into_iter().flatten() {
            self.read_call(&message.inner(call, &path)?, names)?;
        }
        Ok(())
    }

    fn read_call(&mut self, call: &Fields<'_>, names: &mut FieldNames) -> Result<(), ClientError> {
        call.pass_over(&["index"]);
        let id = call.needed_name("id")?;
        let kind = call.word("type", &["function", "custom"])?.unwrap_or("function");
        let Some(called) = call.object(kind)? else {
            return Err(ClientError::missing(call.path_of(kind)));
        };
        let name = called.needed_name("name")?;
        let item = if kind == "custom" {
            self.custom_calls.insert(id.to_owned());
            let input = called.needed_text("input")?;
            json!({ "type": "custom_tool_call", "call_id": id, "name": name, "input": input })
        } else {
            let arguments = called.text("arguments")?.unwrap_or_default();
            json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
        };
        names.add(&format!("input[{}].call_id", self.items.len()), &call.path_of("id"));
        self.add(called.path(), names, item);
        Ok(())
    }

    fn read_result(
        &mut self,
        message: &Fields<'_>,
        names: &mut FieldNames,
    ) -> Result<(), ClientError> {
        let id = message.needed_name("tool_call_id")?;
        let output = translate_content(message, names, self.items.len())?;
        let is_custom = self.custom_calls.contains(id);
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let item = format!("input[{}]", self.items.len());
        names.add(&format!("{item}.call_id"), &message.path_of("tool_call_id"));
        names.add(&format!("{item}.output"), &message.path_of("content"));
        self.add(message.path(), names, json!({ "type": kind, "call_id": id, "output": output }));
        Ok(())
    }
}

/// The content of a message whose item gets the index `n`: a string, a list of parts, or null.
fn translate_content(
    message: &Fields<'_>,
    names: &mut FieldNames,
    n: usize,
) -> Result<Value, ClientError> {
    let Some(Value::Array(parts)) = message.value("content") else {
        return Ok(message.value("content").cloned().unwrap_or_default());
    };
    let mut translated = Vec::new();
    for (k, (path, part)) in placed(parts, &message.path_of("content")).enumerate() {
        let part = message.inner(part, &path)?;
        translated.push(translate_part(&part, names, &format!("input[{n}].content[{k}]"))?);
    }
    Ok(Value::Array(translated))
}

fn translate_part(
    part: &Fields<'_>,
    names: &mut FieldNames,
    to: &str,
) -> Result<Value, ClientError> {
    match part.needed_text("type")? {
        "text" | "refusal" => Ok(Value::Object(part.all().clone())),
        "image_url" => translate_image(part, names, to),
        "file" => {
            let Some(file) = part.object("file")? else {
                return Err(ClientError::missing(part.path_of("file")));
            };
            names.add(to, file.path());
            let mut flat = Map::from_iter([("type".to_owned(), json!("input_file"))]);
            flat.extend(file.all().clone());
            Ok(Value::Object(flat))
        }
        other => {
            let message = format!("Parts of the type `{}` are not supported.", shown(other));
            Err(ClientError::new("unsupported_content", part.path_of("type"), message))
        }
    }
}

/// An image. Some clients send its address without the object around it.
fn translate_image(
    part: &Fields<'_>,
    names: &mut FieldNames,
    to: &str,
) -> Result<Value, ClientError> {
    if let Some(Value::String(url)) = part.value("image_url") {
        return Ok(json!({ "type": "input_image", "image_url": url }));
    }
    let Some(image) = part.object("image_url")? else {
        return Err(ClientError::missing(part.path_of("image_url")));
    };
    names.add(to, image.path());
    names.add(&format!("{to}.image_url"), &image.path_of("url"));
    let (url, detail) = (image.needed_text("url")?, image.value("detail"));
    Ok(json!({ "type": "input_image", "image_url": url, "detail": detail }))
}
