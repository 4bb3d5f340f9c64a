//! Translates tools and the choice among them: this dialect nests what the other one does not.

use serde_json::{Map, Value, json};

use super::field_names::FieldNames;
use crate::{client_error::ClientError, fields::Fields};

/// A tool in the words of the Responses API. Tools that the server executes (`mcp`, `web_search`,
/// `file_search`) are the same in both.
pub(super) fn translate_tool(
    tool: &Fields<'_>,
    names: &mut FieldNames,
) -> Result<Value, ClientError> {
    let kind = tool.needed_text("type")?;
    if !["function", "custom"].contains(&kind) {
        return Ok(Value::Object(tool.all().clone()));
    }
    let Some(nested) = tool.object(kind)? else {
        return Err(ClientError::missing(tool.path_of(kind)));
    };
    names.add(tool.path(), nested.path());
    names.add(&tool.path_of("type"), &tool.path_of("type"));
    let mut flat = Map::from_iter([("type".to_owned(), json!(kind))]);
    flat.extend(nested.all().clone());
    if let Some(format) = flat.get_mut("format") {
        flatten_grammar(format);
    }
    Ok(Value::Object(flat))
}

/// `{"type": "grammar", "grammar": {…}}` without the inner object.
fn flatten_grammar(format: &mut Value) {
    let Value::Object(format) = format else { return };
    if let Some(Value::Object(grammar)) = format.shift_remove("grammar") {
        format.extend(grammar);
    }
}

/// A choice in the words of the Responses API.
pub(super) fn translate_choice(choice: &Fields<'_>) -> Result<Value, ClientError> {
    if choice.needed_text("type")? != "allowed_tools" {
        return named_tool(choice);
    }
    let Some(allowed) = choice.object("allowed_tools")? else {
        return Err(ClientError::missing(choice.path_of("allowed_tools")));
    };
    let mut tools = Vec::new();
    for (path, tool) in allowed.list("tools")?.into_iter().flatten() {
        tools.push(named_tool(&allowed.inner(tool, &path)?)?);
    }
    let mode = allowed.value("mode").cloned();
    Ok(json!({ "type": "allowed_tools", "mode": mode, "tools": tools }))
}

/// `{"type": "function", "function": {"name": …}}` without the inner object.
fn named_tool(tool: &Fields<'_>) -> Result<Value, ClientError> {
    let kind = tool.needed_text("type")?;
    if !["function", "custom"].contains(&kind) {
        return Ok(Value::Object(tool.all().clone()));
    }
    let Some(nested) = tool.object(kind)? else {
        return Err(ClientError::missing(tool.path_of(kind)));
    };
    Ok(json!({ "type": kind, "name": nested.needed_text("name")? }))
}
