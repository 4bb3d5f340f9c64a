//! What servers of Chat Completions refuse.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Asked, Given, Vendor,
    cache::Segments,
    errors::Broken,
    list,
    rules::{Choice, GivesBack},
    schemas,
    seals::{Flaw, Seal},
    text,
};

/// The signature that Gemini takes for a call of another vendor.
const DUMMY_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the rules that the request breaks.
pub(super) fn broken(asked: &Asked<'_>, given: &Given) -> Vec<Broken> {
    let mut broken = Vec::new();
    parameters(asked, &mut broken);
    tools(asked, &mut broken);
    order(asked, &mut broken);
    calls(asked, &mut broken);
    given_back(asked, given, &mut broken);
    broken
}

/// The texts of users, and `None` for each answer.
pub(super) fn spoken(body: &Value) -> Vec<Option<String>> {
    let spoken = |message: &Value| match text(message, "role") {
        "assistant" => Some(None),
        "user" => Some(Some(content_text(message))),
        _ => None,
    };
    list(body, "messages").iter().filter_map(spoken).collect()
}

/// The prompt, for the cache.
pub(super) fn segments(body: &Value) -> Segments {
    let mut segments = Segments::default();
    for part in list(body, "tools").iter().chain(list(body, "messages")) {
        segments.add(&part.to_string());
    }
    segments.mark();
    segments
}

pub(super) fn content_text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text(part, "text")).collect(),
        _ => String::new(),
    }
}

fn parameters(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { rules, body, .. } = asked;
    if rules.refuses_stream_options && body.get("stream_options").is_some() {
        let refused = Broken::new("stream_options", "stream_options");
        broken.push(Broken { status: 422, ..refused });
    }
    if body.get("top_logprobs").is_some() && body.get("logprobs").is_none() {
        broken.push(Broken::new("parameter", "'top_logprobs' needs 'logprobs'."));
    }
    let has_tools = !list(body, "tools").is_empty();
    let effort = text(body, "reasoning_effort");
    let none_if_omitted = asked.model() != "gpt-5.6" && effort.is_empty();
    if rules.tools_need_no_effort && has_tools && effort != "none" && !none_if_omitted {
        let message = "Function tools with reasoning_effort are not supported for this model in \
                       /v1/chat/completions. Please use /v1/responses instead.";
        broken.push(Broken::new("tools_with_effort", message));
    }
    let choice = match body.get("tool_choice") {
        Some(Value::String(word)) if word == "required" => rules.required,
        Some(Value::Object(_)) => rules.named,
        _ => Choice::Taken,
    };
    let thinks = body.pointer("/thinking/type").and_then(Value::as_str) != Some("disabled");
    if choice == Choice::Refused || choice == Choice::RefusedByThinking && thinks {
        broken.push(Broken::new("tool_choice", "This model does not support this tool_choice"));
    }
    let format = body.get("response_format").map(|format| text(format, "type"));
    if format == Some("json_schema") && !rules.json_schema
        || format == Some("json_object") && !rules.json_object
    {
        broken.push(Broken::new("response_format", "This response_format type is unavailable now"));
    }
    let schema = body.pointer("/response_format/json_schema");
    let is_strict = schema.and_then(|it| it.get("strict")) == Some(&Value::Bool(true));
    if let Some(schema) = schema.and_then(|it| it.get("schema")) {
        let loose = schemas::looseness(schema).filter(|_| rules.answer_strict && is_strict);
        let keyword = schemas::keyword_in(schema, rules.answer_keywords);
        let flaw = keyword.or(loose);
        broken.extend(flaw.map(|flaw| Broken::new("answer_schema", flaw)));
    }
}

fn tools(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { rules, .. } = asked;
    for function in list(asked.body, "tools").iter().filter_map(|tool| tool.get("function")) {
        let name = text(function, "name");
        if !(rules.tool_names)(name) {
            broken.push(Broken::new("tool_name", format!("Invalid function name: {name}")));
        }
        let schema = function.get("parameters").unwrap_or(&Value::Null);
        let at_top = schemas::flaw_at_top(schema, &[]).filter(|_| !rules.unions_at_top);
        let flaw = at_top.or_else(|| schemas::keyword_in(schema, rules.tool_keywords));
        broken.extend(flaw.map(|flaw| {
            let message = format!("Invalid schema for function '{name}': {flaw}.");
            Broken::new("tool_schema", message).code("invalid_function_parameters")
        }));
        let is_strict = function.get("strict") == Some(&Value::Bool(true));
        if is_strict && !rules.strict_tools {
            broken.push(Broken::new("strict_tool", "strict is only supported at /beta"));
        }
        let loose = schemas::looseness(schema).filter(|_| is_strict && rules.answer_strict);
        broken.extend(loose.map(|flaw| Broken::new("tool_schema", flaw)));
    }
}

/// Which message may follow which.
fn order(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { rules, vendor, body, .. } = asked;
    let messages = list(body, "messages");
    let systems = messages.iter().enumerate().filter(|(_, it)| text(it, "role") == "system");
    if rules.one_system && systems.into_iter().any(|(at, _)| at > 0) {
        broken.push(Broken::new("late_system", "System message must be at the beginning."));
    }
    for (one, next) in messages.iter().zip(messages.iter().skip(1)) {
        let (before, after) = (text(one, "role"), text(next, "role"));
        if before == "tool" && matches!(after, "user" | "system") && !rules.user_after_tool {
            let message = format!("Unexpected role '{after}' after role 'tool'");
            broken.push(Broken::new("user_after_tool", message).code("3230"));
        }
    }
    if *vendor == Vendor::Mistral
        && messages.last().is_some_and(|it| text(it, "role") == "assistant")
    {
        broken.push(Broken::new("last_role", "Expected last role User or Tool").code("3230"));
    }
    let parts = messages.iter().flat_map(|message| list(message, "content"));
    if !rules.files && parts.into_iter().any(|part| text(part, "type") == "file") {
        broken.push(Broken::new("file", "unsupported content[].type: file"));
    }
    for message in messages.iter().filter(|message| text(message, "role") == "assistant") {
        let fields = message.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let known =
            |name: &&str| rules.message_fields.is_empty() || rules.message_fields.contains(name);
        if let Some(name) = fields.into_iter().find(|name| !known(name)) {
            broken.push(Broken { status: 422, ..Broken::new("message_field", name) });
        }
    }
}

/// Every call has one result, right behind it.
fn calls(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { rules, body, .. } = asked;
    let mut open: Vec<&str> = Vec::new();
    let mut names: HashSet<&str> = HashSet::new();
    for message in list(body, "messages") {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            match open.iter().position(|it| *it == id) {
                Some(at) => drop(open.remove(at)),
                None => broken.push(Broken::new(
                    "result_without_call",
                    "messages with role 'tool' must be a response to a preceding message with \
                     'tool_calls'.",
                )),
            }
            if rules.named_results && text(message, "name").is_empty() {
                broken.push(Broken::new("result_without_name", "Name cannot be empty."));
            }
            continue;
        }
        unanswered(&mut open, broken);
        for call in list(message, "tool_calls") {
            let id = text(call, "id");
            open.push(id);
            if !(rules.ids)(id) {
                let message = format!("Tool call id was {id} but has another format here");
                broken.push(Broken::new("call_id", message).code("3280"));
            }
            let function = call.get("function").unwrap_or(&Value::Null);
            names.insert(text(function, "name"));
            let arguments: Result<serde_json::Map<String, Value>, _> =
                serde_json::from_str(text(function, "arguments"));
            if arguments.is_err() {
                broken.push(Broken::new("arguments", "Arguments of a call must be a JSON object."));
            }
        }
    }
    unanswered(&mut open, broken);
    if let Some(name) = names.iter().find(|name| !(rules.tool_names)(name)) {
        broken.push(Broken::new("tool_name", format!("Invalid function name: {name}")));
    }
}

fn unanswered(open: &mut Vec<&str>, broken: &mut Vec<Broken>) {
    if !open.is_empty() {
        let message = format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding \
             to each 'tool_call_id': {}",
            open.join(", ")
        );
        broken.push(Broken::new("call_without_result", message));
        open.clear();
    }
}

/// Reasoning that the vendor wants back.
fn given_back(asked: &Asked<'_>, given: &Given, broken: &mut Vec<Broken>) {
    let messages = list(asked.body, "messages");
    let turn = messages.iter().rposition(|it| text(it, "role") == "user").unwrap_or(0);
    let called = messages.iter().enumerate().filter(|(_, it)| !list(it, "tool_calls").is_empty());
    for (at, message) in called {
        let flaw = match asked.rules.gives_back {
            GivesBack::ReasoningContent => missing_reasoning(message),
            GivesBack::CallSignature if at > turn => bad_signature(asked, message),
            GivesBack::Details if at > turn => bad_details(message, given),
            GivesBack::Nothing
            | GivesBack::CallSignature
            | GivesBack::Details
            | GivesBack::Sealed
            | GivesBack::Signed
            | GivesBack::Bound => None,
        };
        broken.extend(flaw);
    }
}

fn missing_reasoning(message: &Value) -> Option<Broken> {
    let is_there = message.get("reasoning_content").is_some_and(Value::is_string);
    (!is_there).then(|| {
        let message =
            "The `reasoning_content` in the thinking mode must be passed back to the API.";
        Broken::new("reasoning_content", message).code("invalid_request_error")
    })
}

/// The seal of a call of Gemini.
pub(super) fn call_seal(asked: &Asked<'_>, name: &str, arguments: &Value) -> Seal {
    Seal::new(asked.owner(), name, arguments.to_string())
}

fn bad_signature(asked: &Asked<'_>, message: &Value) -> Option<Broken> {
    let call = list(message, "tool_calls").first()?;
    let function = call.get("function")?;
    let name = text(function, "name");
    let signature = call.pointer("/extra_content/google/thought_signature");
    let Some(signature) = signature.and_then(Value::as_str) else {
        let message = format!(
            "Function call is missing a thought_signature in functionCall parts. Function: {name}"
        );
        return Some(Broken::new("thought_signature", message));
    };
    if signature == DUMMY_SIGNATURE {
        return None;
    }
    let arguments = serde_json::from_str(text(function, "arguments")).unwrap_or_default();
    let flaw = call_seal(asked, name, &arguments).check(signature).err()?;
    Some(Broken::new(
        match flaw {
            Flaw::Foreign => "foreign_signature",
            Flaw::Altered | Flaw::Moved => "moved_signature",
        },
        "Corrupted thought signature.",
    ))
}

fn bad_details(message: &Value, given: &Given) -> Option<Broken> {
    let call = list(message, "tool_calls").first()?;
    // A call of another vendor has none, and the router sends a dummy then.
    let details = given.get(text(call, "id"))?;
    if joined(list(message, "reasoning_details")) == joined(details) {
        return None;
    }
    let message = "Gemini models require the reasoning details of a call to be passed back as they \
                   were: Corrupted thought signature.";
    Some(Broken::new("reasoning_details", message))
}

/// Details with consecutive texts as one, because a stream sends a text in pieces.
fn joined(details: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for detail in details {
        let is_text = |it: &Value| text(it, "type") == "reasoning.text";
        match joined.last_mut() {
            Some(last) if is_text(last) && is_text(detail) => {
                let whole = format!("{}{}", text(last, "text"), text(detail, "text"));
                if let Some(place) = last.get_mut("text") {
                    *place = Value::String(whole);
                }
            }
            _ => joined.push(detail.clone()),
        }
    }
    joined
}
