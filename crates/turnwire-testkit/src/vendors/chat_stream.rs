//! The streams of servers of Chat Completions, each with its own habits.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Asked, Given, Vendor,
    cache::Tokens,
    chat::call_seal,
    data,
    plan::{Answer, End, Piece},
    rules::{GivesBack, Shows},
    seals::Seal,
};

/// Returns the frames of the answer, and those that end it.
pub(super) fn frames(
    asked: &Asked<'_>,
    answer: &Answer,
    tokens: Tokens,
    given: &mut Given,
) -> (Vec<String>, Vec<String>) {
    let details = details_of(asked, answer);
    if asked.rules.gives_back == GivesBack::Details
        && let Some(id) = answer.pieces.iter().find_map(|piece| match piece {
            Piece::Call { id, .. } => Some(id),
            Piece::Think(_) | Piece::Say(_) => None,
        })
    {
        given.insert(id.clone(), Arc::from(details.clone()));
    }
    let mut frames = vec![chunk(asked, json!({ "role": "assistant", "content": "" }), None)];
    if asked.vendor == Vendor::Azure {
        frames.insert(0, data(&json!({ "choices": [], "prompt_filter_results": [] })));
    }
    let mut n_calls = 0;
    for piece in &answer.pieces {
        let deltas = match piece {
            Piece::Think(text) => thought(asked, text),
            Piece::Say(text) => said(asked, text),
            Piece::Call { id, name, arguments } => {
                n_calls += 1;
                called(asked, n_calls - 1, id, name, arguments)
            }
        };
        frames.extend(deltas.into_iter().map(|delta| chunk(asked, delta, None)));
    }
    frames.extend(
        details.iter().filter(|it| it.get("data").is_some()).map(|detail| {
            chunk(asked, json!({ "content": "", "reasoning_details": [detail] }), None)
        }),
    );
    // Gemini says `stop` although there are calls.
    let reason = if n_calls > 0 && asked.vendor != Vendor::Gemini { "tool_calls" } else { "stop" };
    let reason = if answer.end == End::Odd { asked.rules.odd_end } else { reason };
    (frames, end(asked, reason, tokens))
}

fn end(asked: &Asked<'_>, reason: &str, tokens: Tokens) -> Vec<String> {
    let usage = usage(asked.vendor, tokens);
    let done = "data: [DONE]\n\n".to_owned();
    if matches!(asked.vendor, Vendor::Mistral | Vendor::DeepSeek) {
        let last = chunk_with(asked, json!({ "content": "" }), Some(reason), Some(usage));
        return vec![last, done];
    }
    let head = head(asked);
    let mut fields = head.as_object().cloned().unwrap_or_default();
    fields.insert("choices".to_owned(), json!([]));
    fields.insert("usage".to_owned(), usage);
    vec![chunk(asked, json!({}), Some(reason)), data(&Value::Object(fields)), done]
}

fn usage(vendor: Vendor, tokens: Tokens) -> Value {
    let Tokens { input, cached, output, reasoning, written } = tokens;
    let total = input + output;
    match vendor {
        Vendor::DeepSeek => json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": total,
            "prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": input - cached,
            "completion_tokens_details": { "reasoning_tokens": reasoning },
        }),
        Vendor::OpenAiChat | Vendor::OpenRouter => json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": total,
            "prompt_tokens_details": { "cached_tokens": cached, "cache_write_tokens": written },
            "completion_tokens_details": { "reasoning_tokens": reasoning },
        }),
        // Thoughts are counted in the total only.
        Vendor::Gemini => json!({
            "prompt_tokens": input, "completion_tokens": output - reasoning, "total_tokens": total,
            "prompt_tokens_details": { "cached_tokens": cached },
        }),
        _ => json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": total,
            "prompt_tokens_details": { "cached_tokens": cached },
        }),
    }
}

fn head(asked: &Asked<'_>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
        "model": asked.model(),
    })
}

fn chunk(asked: &Asked<'_>, delta: Value, reason: Option<&str>) -> String {
    chunk_with(asked, delta, reason, None)
}

fn chunk_with(
    asked: &Asked<'_>,
    delta: Value,
    reason: Option<&str>,
    usage: Option<Value>,
) -> String {
    let mut fields = head(asked).as_object().cloned().unwrap_or_default();
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    fields.insert("choices".to_owned(), json!([choice]));
    if let Some(usage) = usage {
        fields.insert("usage".to_owned(), usage);
    }
    data(&Value::Object(fields))
}

fn thought(asked: &Asked<'_>, text: &str) -> Vec<Value> {
    match asked.rules.shows {
        Shows::Nothing => Vec::new(),
        Shows::Reasoning => vec![json!({ "reasoning": text })],
        Shows::ReasoningContent => vec![json!({ "content": null, "reasoning_content": text })],
        Shows::Chunks => {
            let thinking = json!([{ "type": "text", "text": text }]);
            vec![json!({ "content": [{ "type": "thinking", "thinking": thinking }] })]
        }
        Shows::Details => {
            let detail = text_detail(text);
            vec![json!({ "content": "", "reasoning": text, "reasoning_details": [detail] })]
        }
    }
}

fn said(asked: &Asked<'_>, text: &str) -> Vec<Value> {
    let middle = text.len() / 2;
    let (one, other) = text.split_at_checked(middle).unwrap_or((text, ""));
    if asked.rules.shows == Shows::Chunks {
        let of = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        return vec![of(one), json!({ "content": other })];
    }
    vec![json!({ "content": one }), json!({ "content": other })]
}

fn called(asked: &Asked<'_>, index: usize, id: &str, name: &str, arguments: &Value) -> Vec<Value> {
    let whole = arguments.to_string();
    let call = |fields: Value| json!({ "tool_calls": [fields] });
    let function = json!({ "name": name, "arguments": whole });
    match asked.vendor {
        // Whole calls, without an index. The signature comes in a delta of its own.
        Vendor::Gemini => {
            let mut deltas =
                vec![call(json!({ "id": id, "type": "function", "function": function }))];
            if index == 0 {
                let signature = call_seal(asked, name, arguments).token();
                let google = json!({ "google": { "thought_signature": signature } });
                deltas.push(call(json!({ "id": id, "type": "function", "extra_content": google })));
            }
            deltas
        }
        Vendor::Ollama | Vendor::Groq => vec![call(
            json!({ "index": index, "id": id, "type": "function", "function": function }),
        )],
        Vendor::Mistral => vec![call(json!({ "index": index, "id": id, "function": function }))],
        _ => {
            let start = json!({ "name": name, "arguments": "" });
            let middle = whole.len() / 2;
            let (one, other) = whole.split_at_checked(middle).unwrap_or((&whole, ""));
            let more =
                |text: &str| call(json!({ "index": index, "function": { "arguments": text } }));
            let start = json!({ "index": index, "id": id, "type": "function", "function": start });
            vec![call(start), more(one), more(other)]
        }
    }
}

fn text_detail(text: &str) -> Value {
    json!({ "type": "reasoning.text", "text": text, "format": "google-gemini-v1", "index": 0 })
}

/// The details of an answer of `OpenRouter`, as they have to come back.
fn details_of(asked: &Asked<'_>, answer: &Answer) -> Vec<Value> {
    if asked.rules.shows != Shows::Details {
        return Vec::new();
    }
    let mut details = Vec::new();
    let mut is_signed = false;
    for piece in &answer.pieces {
        match piece {
            Piece::Think(text) => details.push(text_detail(text)),
            Piece::Call { id, name, arguments } if !is_signed => {
                is_signed = true;
                let seal = Seal::new(asked.owner(), name, arguments.to_string());
                details.push(json!({
                    "type": "reasoning.encrypted", "data": seal.token(), "id": id,
                    "format": "google-gemini-v1", "index": 0,
                }));
            }
            Piece::Say(_) | Piece::Call { .. } => {}
        }
    }
    // Texts come first: the encrypted part is sent after the calls.
    details.sort_by_key(|detail| detail.get("data").is_some());
    details
}
