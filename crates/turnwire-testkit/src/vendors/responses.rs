//! What the Responses API refuses.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Asked, Vendor, cache::Segments, chat::content_text, errors::Broken, list, schemas, seals::Seal,
    text,
};

/// Returns the rules that the request breaks.
pub(super) fn broken(asked: &Asked<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    parameters(asked, &mut broken);
    tools(asked, &mut broken);
    calls(asked, &mut broken);
    reasoning(asked, &mut broken);
    broken
}

/// The texts of users, and `None` for each answer: what the model said before somebody else did.
pub(super) fn spoken(body: &Value) -> Vec<Option<String>> {
    let mut spoken = Vec::new();
    let mut is_answer = false;
    for item in list(body, "input") {
        let is_model = matches!(text(item, "type"), "reasoning" | "function_call")
            || text(item, "role") == "assistant";
        if is_model && !is_answer {
            spoken.push(None);
        }
        if text(item, "role") == "user" {
            spoken.push(Some(content_text(item)));
        }
        is_answer = is_model;
    }
    spoken
}

/// The prompt, for the cache.
pub(super) fn segments(body: &Value) -> Segments {
    let mut segments = Segments::default();
    if let Some(instructions) = body.get("instructions") {
        segments.add(&instructions.to_string());
    }
    for part in list(body, "tools").iter().chain(list(body, "input")) {
        segments.add(&part.to_string());
    }
    segments.mark();
    segments
}

/// The seal of encrypted reasoning. Nothing but its maker is compared.
pub(super) fn reasoning_seal(asked: &Asked<'_>) -> Seal {
    Seal::new(asked.owner(), 0, 0)
}

fn parameters(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { vendor, rules, body, .. } = asked;
    let format = body.pointer("/text/format").unwrap_or(&Value::Null);
    if text(format, "type") == "json_schema" {
        let schema = format.get("schema").unwrap_or(&Value::Null);
        let is_strict = format.get("strict") != Some(&Value::Bool(false));
        let loose = schemas::looseness(schema).filter(|_| rules.answer_strict && is_strict);
        let keyword = schemas::keyword_in(schema, rules.answer_keywords).filter(|_| is_strict);
        broken.extend(keyword.or(loose).map(|flaw| {
            let message = format!("Invalid schema for response_format: {flaw}.");
            Broken::new("answer_schema", message).code("invalid_json_schema")
        }));
    }
    if *vendor == Vendor::Xai && body.pointer("/reasoning/summary").is_some() {
        broken.push(Broken::new("parameter", "reasoning.summary is not supported."));
    }
    let retention = body.get("prompt_cache_retention").and_then(Value::as_str);
    if retention.is_some_and(|retention| retention != "24h") {
        broken.push(Broken::new("parameter", "prompt_cache_retention may only be '24h'."));
    }
}

fn tools(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    for tool in list(asked.body, "tools").iter().filter(|it| text(it, "type") == "function") {
        let name = text(tool, "name");
        if !(asked.rules.tool_names)(name) {
            let message = "Expected a string that matches '^[a-zA-Z0-9_-]+$'.";
            broken.push(Broken::new("tool_name", message).code("invalid_value"));
        }
        let schema = tool.get("parameters").unwrap_or(&Value::Null);
        let is_strict = tool.get("strict") != Some(&Value::Bool(false));
        let loose = schemas::looseness(schema).filter(|_| is_strict);
        broken.extend(schemas::flaw_at_top(schema, &["enum", "not"]).or(loose).map(|flaw| {
            let message = format!("Invalid schema for function '{name}': {flaw}.");
            Broken::new("tool_schema", message).code("invalid_function_parameters")
        }));
    }
}

/// Every call has exactly one output.
fn calls(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let mut outputs: BTreeMap<&str, usize> = BTreeMap::new();
    for item in list(asked.body, "input") {
        let id = text(item, "call_id");
        match text(item, "type") {
            "function_call" => {
                outputs.entry(id).or_default();
                if !(asked.rules.ids)(id) {
                    let message = "Expected a string with maximum length 64.";
                    broken.push(Broken::new("call_id", message).code("string_above_max_length"));
                }
                if !(asked.rules.tool_names)(text(item, "name")) {
                    let message = "Expected a string that matches '^[a-zA-Z0-9_-]+$'.";
                    broken.push(Broken::new("tool_name", message).code("invalid_value"));
                }
            }
            "function_call_output" => {
                if let Some(n_outputs) = outputs.get_mut(id) {
                    *n_outputs += 1;
                } else {
                    let message =
                        format!("No tool call found for function call output with call_id {id}.");
                    broken.push(Broken::new("result_without_call", message));
                }
            }
            _ => {}
        }
    }
    for (id, n_outputs) in outputs {
        if n_outputs != 1 {
            let message = format!("No tool output found for function call {id}.");
            broken.push(Broken::new("call_without_result", message));
        }
    }
}

fn reasoning(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    for item in list(asked.body, "input").iter().filter(|it| text(it, "type") == "reasoning") {
        if reasoning_seal(asked).check(text(item, "encrypted_content")).is_err() {
            let message = "The encrypted content could not be verified.";
            broken
                .push(Broken::new("foreign_reasoning", message).code("invalid_encrypted_content"));
        }
    }
}
