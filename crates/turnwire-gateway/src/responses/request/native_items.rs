//! Calls of hosted tools in the history: each is a call and its result.

use serde_json::{Value, json};
use turnwire_contract::{CallId, Item, ToolKind};

use super::{FILE_SEARCH, WEB_SEARCH, arguments::read_arguments};
use crate::{client_error::ClientError, fields::Fields};

/// The result of a call without output.
const NO_OUTPUT: &str = "(no output)";

/// A call of an MCP tool.
pub(super) fn mcp_call(item: &Fields<'_>, call_id: &CallId) -> Result<[Item; 2], ClientError> {
    // Read beforehand, to find the approval request of the call.
    item.pass_over(&["approval_request_id"]);
    let call = Item::Call {
        call_id: call_id.clone(),
        name: item.needed_name("name")?.to_owned(),
        arguments: read_arguments(item)?,
        kind: ToolKind::Mcp,
        server: Some(item.needed_name("server_label")?.to_owned()),
    };
    let problem = item.value("error").map(|error| format!("Error: {}", problem_of(error)));
    let failed = problem.is_some() || has_failed(item)?;
    let output = problem.or(item.owned_text("output")?);
    Ok([call, result(call_id, output, failed)])
}

pub(super) fn web_search(item: &Fields<'_>, call_id: &CallId) -> Result<[Item; 2], ClientError> {
    let action = item.object("action")?;
    let mut arguments = json!({});
    let mut lines = Vec::new();
    if let (Some(action), Some(arguments)) = (action, arguments.as_object_mut()) {
        action.pass_over(&["type"]);
        for name in ["query", "queries", "url", "pattern"] {
            arguments.extend(action.value(name).map(|value| (name.to_owned(), value.clone())));
        }
        for (_, source) in action.list("sources")?.into_iter().flatten() {
            lines.extend(source.get("url").and_then(Value::as_str).map(str::to_owned));
        }
    }
    for (_, found) in item.list("results")?.into_iter().flatten() {
        lines.push(fact(found, &["title", "url", "snippet", "text"]));
    }
    search(item, call_id, (WEB_SEARCH, ToolKind::WebSearch), &arguments, &lines)
}

pub(super) fn file_search(item: &Fields<'_>, call_id: &CallId) -> Result<[Item; 2], ClientError> {
    let queries = item.texts("queries")?.unwrap_or_default();
    let arguments = match queries.as_slice() {
        [query] => json!({ "query": query }),
        _ => json!({ "queries": queries }),
    };
    let results = item.list("results")?.unwrap_or_default();
    let lines: Vec<String> =
        results.iter().map(|(_, found)| fact(found, &["filename", "text"])).collect();
    search(item, call_id, (FILE_SEARCH, ToolKind::FileSearch), &arguments, &lines)
}

fn search(
    item: &Fields<'_>,
    call_id: &CallId,
    (name, kind): (&str, ToolKind),
    arguments: &Value,
    lines: &[String],
) -> Result<[Item; 2], ClientError> {
    let call = Item::Call {
        call_id: call_id.clone(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
        kind,
        server: None,
    };
    Ok([call, result(call_id, Some(lines.join("\n")), has_failed(item)?)])
}

fn result(call_id: &CallId, output: Option<String>, failed: bool) -> Item {
    let output = output.filter(|output| !output.is_empty());
    let output = output.unwrap_or_else(|| NO_OUTPUT.to_owned());
    Item::CallResult { call_id: call_id.clone(), output, images: Vec::new(), failed, custom: false }
}

fn has_failed(item: &Fields<'_>) -> Result<bool, ClientError> {
    Ok(matches!(item.text("status")?, Some("failed" | "incomplete")))
}

/// The strings in the fields `names`, in that order, on one line.
fn fact(found: &Value, names: &[&str]) -> String {
    let texts: Vec<&str> = names
        .iter()
        .filter_map(|name| found.get(name)?.as_str())
        .filter(|t| !t.is_empty())
        .collect();
    texts.join(": ")
}

/// The text of an error: a string, or an object with a message or with the content of the result.
fn problem_of(error: &Value) -> String {
    let part = |part: &Value| part.get("text")?.as_str().map(str::to_owned);
    let content = || {
        let parts = error.get("content")?.as_array()?;
        Some(parts.iter().filter_map(part).collect::<Vec<_>>().join("\n"))
    };
    let text = error.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_owned);
    text.or_else(content).filter(|t| !t.is_empty()).unwrap_or_else(|| error.to_string())
}
