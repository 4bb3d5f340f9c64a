//! What Anthropic refuses.

use std::collections::{BTreeMap, HashSet};

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::{
    Asked, Dialect, Given,
    cache::Segments,
    errors::Broken,
    list,
    rules::{Choice, GivesBack},
    schemas,
    seals::{Flaw, Seal, digest},
    text,
};

/// Returns the rules that the request breaks.
pub(super) fn broken(asked: &Asked<'_>, headers: &HeaderMap, given: &Given) -> Vec<Broken> {
    let mut broken = Vec::new();
    if headers.get("anthropic-version").is_none() {
        broken.push(Broken::new("version", "anthropic-version: header is required"));
    }
    parameters(asked, &mut broken);
    marks(asked.body, &mut broken);
    tools(asked, &mut broken);
    order(asked, &mut broken);
    calls(asked, &mut broken);
    thinking(asked, given, &mut broken);
    broken
}

/// Whether the model thinks in the answer to this request.
pub(super) fn thinks(asked: &Asked<'_>) -> bool {
    let kind = asked.body.pointer("/thinking/type").and_then(Value::as_str);
    match kind {
        Some("disabled") => false,
        Some(_) => true,
        None => asked.rules.dialect != Dialect::Messages || asked.rules.thinks_unasked,
    }
}

/// The blocks of a message, also if its content is a text.
fn blocks(message: &Value) -> Vec<Value> {
    match message.get("content").map(blocks_of) {
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    }
}

/// A text as a list of one block.
fn blocks_of(content: &Value) -> Value {
    match content {
        Value::String(text) => json!([{ "text": text, "type": "text" }]),
        content => content.clone(),
    }
}

/// Messages with consecutive ones of the same role as one.
fn merged(body: &Value) -> Vec<(String, Vec<Value>)> {
    let mut merged: Vec<(String, Vec<Value>)> = Vec::new();
    for message in list(body, "messages") {
        let role = text(message, "role");
        match merged.last_mut() {
            Some((last, content)) if last == role => content.extend(blocks(message)),
            _ => merged.push((role.to_owned(), blocks(message))),
        }
    }
    merged
}

/// The texts of users, and `None` for each answer.
pub(super) fn spoken(body: &Value) -> Vec<Option<String>> {
    let mut spoken = Vec::new();
    for (role, content) in merged(body) {
        match role.as_str() {
            "assistant" => spoken.push(None),
            "user" => {
                let texts = content.iter().filter(|block| text(block, "type") == "text");
                spoken.extend(texts.map(|block| Some(text(block, "text").to_owned())));
            }
            _ => {}
        }
    }
    spoken
}

/// A value in the form in which it is compared: without the marks of the cache and empty fields, in
/// whatever order its fields are, and with a text as a list of one block.
fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, it)| *name != "cache_control" && !it.is_null());
            let kept: BTreeMap<_, _> = kept
                .map(|(name, value)| match (name.as_str(), value) {
                    ("content", Value::String(_)) => (name, blocks_of(value)),
                    (_, value) => (name, unmarked(value)),
                })
                .collect();
            kept.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(values) => values.iter().map(unmarked).collect(),
        value => value.clone(),
    }
}

/// The prompt up to a mark, for the cache.
pub(super) fn segments(body: &Value) -> Segments {
    let mut segments = Segments::default();
    let mut add = |block: &Value| {
        segments.add(&unmarked(block).to_string());
        if block.get("cache_control").is_some() {
            segments.mark();
        }
    };
    list(body, "tools").iter().for_each(&mut add);
    let system = body.get("system").map(blocks_of);
    system.as_ref().and_then(Value::as_array).into_iter().flatten().for_each(&mut add);
    merged(body).iter().flat_map(|(_, content)| content).for_each(&mut add);
    if body.get("cache_control").is_some() {
        segments.mark();
    }
    segments
}

fn parameters(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let Asked { rules, body, .. } = asked;
    let max_tokens = body.get("max_tokens").and_then(Value::as_u64);
    if max_tokens.is_none() {
        broken.push(Broken::new("max_tokens", "max_tokens: Field required"));
    }
    let thinking = body.get("thinking").unwrap_or(&Value::Null);
    let kind = text(thinking, "type");
    let is_bound = rules.gives_back == GivesBack::Bound;
    if is_bound && matches!(kind, "enabled" | "disabled") {
        let message = format!("thinking.type: '{kind}' is not supported by this model");
        broken.push(Broken::new("thinking", message));
    }
    if kind == "enabled" {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or(0);
        if budget < 1024 || max_tokens.is_some_and(|most| budget >= most) {
            broken.push(Broken::new(
                "thinking_budget",
                "budget_tokens must be ≥ 1024 and < max_tokens",
            ));
        }
    }
    let choice = match body.get("tool_choice").map(|choice| text(choice, "type")) {
        Some("any") => rules.required,
        Some("tool") => rules.named,
        _ => Choice::Taken,
    };
    let is_forced =
        matches!(body.get("tool_choice").map(|it| text(it, "type")), Some("any" | "tool"));
    if choice == Choice::Refused || kind == "enabled" && is_forced {
        let message = "Thinking may not be enabled when tool_choice forces tool use.";
        broken.push(Broken::new("tool_choice", message));
    }
    if let Some(format) = body.pointer("/output_config/format") {
        let schema = format.get("schema").unwrap_or(&Value::Null);
        let keyword = schemas::keyword_in(schema, rules.answer_keywords);
        let flaw =
            keyword.map(|keyword| format!("For this type, property '{keyword}' is not supported"));
        let is_open =
            |_| "For 'object' type, 'additionalProperties' must be explicitly set to false";
        let open = schemas::openness(schema).map(is_open).map(str::to_owned);
        broken.extend(flaw.or(open).map(|flaw| {
            Broken::new("answer_schema", format!("output_config.format.schema: {flaw}"))
        }));
    }
}

fn marks(body: &Value, broken: &mut Vec<Broken>) {
    let mut n_marks = usize::from(body.get("cache_control").is_some());
    let system = body.get("system").and_then(Value::as_array).into_iter().flatten().cloned();
    let content = merged(body).into_iter().flat_map(|(_, content)| content);
    for block in list(body, "tools").iter().cloned().chain(system).chain(content) {
        if block.get("cache_control").is_none() {
            continue;
        }
        n_marks += 1;
        if matches!(text(&block, "type"), "thinking" | "redacted_thinking") {
            broken
                .push(Broken::new("cache_mark", "cache_control: not permitted on thinking blocks"));
        }
    }
    if n_marks > 4 {
        let message = "A maximum of 4 blocks with cache_control may be provided.";
        broken.push(Broken::new("cache_mark", message));
    }
}

fn tools(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    for tool in list(asked.body, "tools") {
        let name = text(tool, "name");
        if !(asked.rules.tool_names)(name) {
            broken.push(Broken::new("tool_name", format!("tools.name: '{name}' does not match")));
        }
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        let flaw = schemas::flaw_at_top(schema, &[]);
        broken.extend(flaw.map(|flaw| {
            Broken::new("tool_schema", format!("tools.custom.input_schema: input_{flaw}"))
        }));
    }
}

fn order(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let messages = merged(asked.body);
    if messages.first().is_none_or(|(role, _)| role != "user") {
        broken
            .push(Broken::new("first_role", "messages: first message must use the \"user\" role"));
    }
    if messages.last().is_some_and(|(role, _)| role == "assistant") {
        let message = "This model does not support assistant message prefill.";
        broken.push(Broken::new("last_role", message));
    }
    let is_newer = asked.rules.gives_back == GivesBack::Bound;
    for (role, content) in &messages {
        if !(matches!(role.as_str(), "user" | "assistant") || role == "system" && is_newer) {
            broken.push(Broken::new("role", format!("messages: Unexpected role \"{role}\".")));
        }
        let is_blank =
            |block: &&Value| text(block, "type") == "text" && text(block, "text").trim().is_empty();
        let is_text_file = |block: &&Value| {
            let kind = block.pointer("/source/media_type").and_then(Value::as_str);
            let is_carried = block.pointer("/source/type").is_some_and(|it| it == "base64");
            text(block, "type") == "document" && is_carried && kind != Some("application/pdf")
        };
        if content.iter().any(|block| is_text_file(&block)) {
            let message = "document.source.base64.media_type: Input should be 'application/pdf'";
            broken.push(Broken::new("file", message));
        }
        if content.iter().any(|block| is_blank(&block)) || content.is_empty() {
            let message = "messages: text content blocks must contain non-whitespace text";
            broken.push(Broken::new("blank_text", message));
        }
    }
}

/// All results of a message are at the start of the next one.
fn calls(asked: &Asked<'_>, broken: &mut Vec<Broken>) {
    let mut open: HashSet<String> = HashSet::new();
    let mut known: HashSet<String> = HashSet::new();
    for (_, content) in merged(asked.body) {
        let mut is_text_before = false;
        let mut called = HashSet::new();
        for block in content {
            match text(&block, "type") {
                "tool_result" => {
                    let id = text(&block, "tool_use_id");
                    if !open.remove(id) {
                        let message =
                            format!("unexpected `tool_use_id` found in `tool_result` blocks: {id}");
                        broken.push(Broken::new("result_without_call", message));
                    } else if is_text_before {
                        let message = "`tool_result` blocks must come before any text";
                        broken.push(Broken::new("result_after_text", message));
                    }
                }
                "tool_use" => {
                    let id = text(&block, "id").to_owned();
                    if !(asked.rules.ids)(&id) {
                        let message = "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'";
                        broken.push(Broken::new("call_id", message));
                    }
                    if !known.insert(id.clone()) {
                        broken.push(Broken::new("call_id", "`tool_use` ids must be unique"));
                    }
                    called.insert(id);
                }
                "text" => is_text_before = true,
                _ => {}
            }
        }
        unanswered(&open, broken);
        open = called;
    }
    unanswered(&open, broken);
}

fn unanswered(open: &HashSet<String>, broken: &mut Vec<Broken>) {
    if let Some(id) = open.iter().next() {
        let message = format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {id}"
        );
        broken.push(Broken::new("call_without_result", message));
    }
}

/// Digests of all that thinking is bound to, but for the earlier blocks of its own message: one for
/// each message, and one for the answer.
pub(super) fn prefixes(asked: &Asked<'_>) -> Vec<u64> {
    let field = |name: &str| {
        let value = asked.body.get(name)?;
        Some(unmarked(&blocks_of(value)).to_string())
    };
    let mut prefixes = vec![digest((field("system"), field("tools")))];
    for (role, content) in merged(asked.body) {
        let before = prefixes.last().copied();
        prefixes.push(digest((before, role, unmarked(&Value::Array(content)).to_string())));
    }
    prefixes
}

/// The seal of thinking after `before`, the earlier blocks of the answer.
pub(super) fn thinking_seal(asked: &Asked<'_>, prefix: u64, before: &[Value], text: &str) -> Seal {
    let bound = if asked.rules.gives_back == GivesBack::Bound {
        digest((prefix, unmarked(&Value::Array(before.to_vec())).to_string()))
    } else {
        0
    };
    Seal::new(asked.owner(), bound, text)
}

fn thinking(asked: &Asked<'_>, given: &Given, broken: &mut Vec<Broken>) {
    let messages = merged(asked.body);
    let latest = messages.iter().rposition(|(role, _)| role == "assistant");
    for (at, ((role, content), prefix)) in messages.iter().zip(prefixes(asked)).enumerate() {
        if role != "assistant" {
            continue;
        }
        for (place, block) in content.iter().enumerate() {
            let before = content.get(..place).unwrap_or_default();
            if text(block, "type") == "thinking" {
                let seal = thinking_seal(asked, prefix, before, text(block, "thinking"));
                let flaw = seal.check(text(block, "signature")).err();
                broken.extend(flaw.map(|flaw| of_flaw(flaw, at, place)));
            }
        }
        let must_stay = Some(at) == latest || asked.rules.gives_back == GivesBack::Bound;
        if must_stay && !is_in_place(content, given) {
            let message = "`thinking` or `redacted_thinking` blocks in the latest assistant message \
                           cannot be modified. These blocks must remain as they were in the \
                           original response.";
            broken.push(Broken::new("moved_thinking", message));
        }
    }
}

fn of_flaw(flaw: Flaw, message: usize, block: usize) -> Broken {
    match flaw {
        Flaw::Foreign | Flaw::Altered => {
            let text = format!(
                "messages.{message}.content.{block}: Invalid `signature` in `thinking` block"
            );
            Broken::new("signature", text)
        }
        Flaw::Moved => {
            let text = format!(
                "messages.{message}.content.{block}: `thinking` block is bound to a different \
                 conversation"
            );
            Broken::new("bound_thinking", text)
        }
    }
}

/// What is compared of a block: signatures and calls.
pub(super) fn landmark(block: &Value) -> Option<Value> {
    match text(block, "type") {
        "thinking" => block.get("signature").cloned(),
        "tool_use" => block.get("id").cloned(),
        _ => None,
    }
}

/// Whether thinking is where it was among the calls, and all of it. Without any of it, it is too.
fn is_in_place(content: &[Value], given: &Given) -> bool {
    let mut signatures = content.iter().filter(|block| text(block, "type") == "thinking");
    let original = signatures.find_map(|block| given.get(text(block, "signature")));
    let Some(original) = original else { return true };
    content.iter().filter_map(landmark).eq(original.iter().cloned())
}
