//! The fields of a response that repeat its request: the surface data of the Responses API.
//!
//! Clients read their own settings from every response, so all keys are present, with the default
//! if the request has none. Secrets are never repeated: of each tool only keys are repeated that
//! are known to contain none.

use serde_json::{Map, Value, json};
use turnwire_surfaces::responses::surface_data::IGNORED;

use super::{CreateResponse, tools::is_web_search};

/// Fields that are always there. The map lives as long as its run.
const N_KEYS: usize = 24;

/// The fields of a response that come from its request. `model` is the model that is used.
pub fn surface_data(request: &CreateResponse, model: &str) -> Map<String, Value> {
    let tool_choice = request.tool_choice.as_ref().map_or_else(|| json!("auto"), choice);
    let mut surface_data = Map::with_capacity(N_KEYS);
    let mut put = |key: &str, value: Value| _ = surface_data.insert(key.to_owned(), value);
    put("background", json!(request.background.unwrap_or(false)));
    put("frequency_penalty", json!(request.frequency_penalty.unwrap_or(0.0)));
    put("include", json!(request.include));
    put("instructions", json!(request.instructions));
    put("max_output_tokens", json!(request.max_output_tokens));
    put("max_tool_calls", json!(request.max_tool_calls));
    put("metadata", json!(request.metadata));
    put("model", json!(model));
    put("parallel_tool_calls", json!(request.parallel_tool_calls.unwrap_or(true)));
    put("presence_penalty", json!(request.presence_penalty.unwrap_or(0.0)));
    put("previous_response_id", json!(request.previous_response_id));
    put("prompt_cache_key", json!(request.prompt_cache_key));
    put("reasoning", json!(request.reasoning));
    put("safety_identifier", json!(request.safety_identifier));
    put("service_tier", json!(tier(request.service_tier.as_deref())));
    put("store", json!(request.stores()));
    put("temperature", json!(request.temperature.unwrap_or(1.0)));
    put("text", json!(request.text));
    put("tool_choice", tool_choice);
    put("tools", request.tools.0.iter().map(tool).collect());
    put("top_logprobs", json!(request.top_logprobs.unwrap_or(0)));
    put("top_p", json!(request.top_p.unwrap_or(1.0)));
    put("truncation", json!(request.truncation.as_deref().unwrap_or("disabled")));
    put("user", json!(request.user));
    if !request.ignored.is_empty() {
        put(IGNORED, json!(request.ignored));
    }
    // These may be missing, but not null.
    if let Some(id) = &request.conversation {
        put("conversation", json!({ "id": id }));
    }
    if let Some(retention) = &request.prompt_cache_retention {
        put("prompt_cache_retention", json!(retention));
    }
    surface_data
}

/// The tier of a response. `auto` is a request value only.
fn tier(asked: Option<&str>) -> &str {
    asked.filter(|tier| *tier != "auto").unwrap_or("default")
}

const OF_FUNCTIONS: [&str; 9] = [
    "type",
    "name",
    "description",
    "parameters",
    "strict",
    "output_schema",
    "async",
    "defer_loading",
    "allowed_callers",
];
const OF_SERVERS: [&str; 8] = [
    "type",
    "server_label",
    "server_url",
    "server_description",
    "allowed_tools",
    "require_approval",
    "defer_loading",
    "allowed_callers",
];
const OF_WEB_SEARCH: [&str; 6] = [
    "type",
    "filters",
    "search_context_size",
    "user_location",
    "external_web_access",
    "search_content_types",
];
const OF_FILE_SEARCH: [&str; 5] =
    ["type", "vector_store_ids", "filters", "max_num_results", "ranking_options"];
const OF_CUSTOM: [&str; 7] =
    ["type", "name", "description", "format", "async", "defer_loading", "allowed_callers"];
const OF_TOOL_SEARCH: [&str; 4] = ["type", "execution", "description", "parameters"];
const OF_NAMESPACES: [&str; 4] = ["type", "name", "description", "tools"];
const OF_CHOICES: [&str; 5] = ["type", "name", "server_label", "mode", "tools"];

/// A tool as the client sent it, with defaults for omitted keys and without keys that may contain
/// secrets.
fn tool(written: &Value) -> Value {
    let kind = written.get("type").and_then(Value::as_str).unwrap_or_default();
    let mut tool = match kind {
        "function" => only(written, &OF_FUNCTIONS),
        "custom" => only(written, &OF_CUSTOM),
        "tool_search" => only(written, &OF_TOOL_SEARCH),
        "mcp" => only(written, &OF_SERVERS),
        "file_search" => only(written, &OF_FILE_SEARCH),
        "namespace" => only(written, &OF_NAMESPACES),
        _ if is_web_search(kind) => only(written, &OF_WEB_SEARCH),
        _ => only(written, &["type"]),
    };
    match kind {
        "function" => complete_function(&mut tool),
        "mcp" => shorten_address(&mut tool),
        "namespace" => {
            if let Some(Value::Array(tools)) = tool.get_mut("tools") {
                *tools = tools.iter().map(self::tool).collect();
            }
        }
        _ => {}
    }
    Value::Object(tool)
}

fn only(written: &Value, keys: &[&str]) -> Map<String, Value> {
    let object = written.as_object().into_iter().flatten();
    let known = object.filter(|(key, _)| keys.contains(&key.as_str()));
    known.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn complete_function(function: &mut Map<String, Value>) {
    for key in ["description", "parameters"] {
        function.entry(key).or_insert(Value::Null);
    }
    let strict = function.entry("strict").or_insert(Value::Null);
    if strict.is_null() {
        *strict = Value::Bool(true);
    }
}

/// Removes query, fragment and user info from a URL, because they may contain a token or a
/// password.
fn shorten_address(server: &mut Map<String, Value>) {
    let Some(Value::String(url)) = server.get_mut("server_url") else { return };
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    *url = format!("{scheme}{separator}{host}{path}");
}

fn choice(written: &Value) -> Value {
    if !written.is_object() {
        return written.clone();
    }
    let mut choice = only(written, &OF_CHOICES);
    if let Some(Value::Array(tools)) = choice.get_mut("tools") {
        *tools = tools.iter().map(|tool| Value::Object(only(tool, &OF_CHOICES[..3]))).collect();
    }
    Value::Object(choice)
}

#[cfg(test)]
#[path = "surface_data_tests.rs"]
mod tests;
