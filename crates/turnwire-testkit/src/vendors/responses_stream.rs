//! The stream of the Responses API.

use serde_json::{Value, json};

use super::{
    Asked,
    cache::Tokens,
    event,
    plan::{Answer, Piece},
    responses::reasoning_seal,
};

/// Events with their numbers.
#[derive(Default)]
struct Frames {
    frames: Vec<String>,
}

impl Frames {
    fn push(&mut self, kind: &str, fields: Value) {
        let mut whole = json!({ "type": kind, "sequence_number": self.frames.len() });
        if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), fields) {
            whole.extend(fields);
        }
        self.frames.push(event(kind, &whole));
    }
}

/// Returns the frames of the answer, and those that end it.
pub(super) fn frames(
    asked: &Asked<'_>,
    answer: &Answer,
    tokens: Tokens,
) -> (Vec<String>, Vec<String>) {
    let mut frames = Frames::default();
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({ "response": {
            "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "status": status,
            "model": asked.model(), "output": output, "usage": usage, "error": null,
            "incomplete_details": null, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
            "tools": [],
        } })
    };
    frames.push("response.created", response("in_progress", &[], Value::Null));
    frames.push("response.in_progress", response("in_progress", &[], Value::Null));
    let mut output = Vec::new();
    for piece in &answer.pieces {
        let index = output.len();
        output.push(match piece {
            Piece::Think(text) => thought(&mut frames, asked, index, text),
            Piece::Say(text) => said(&mut frames, index, text),
            Piece::Call { id, name, arguments } => {
                called(&mut frames, index, id, name, &arguments.to_string())
            }
        });
    }
    let n_before = frames.frames.len();
    frames.push("response.completed", response("completed", &output, usage(tokens)));
    let end = frames.frames.split_off(n_before);
    (frames.frames, end)
}

fn usage(tokens: Tokens) -> Value {
    let Tokens { input, cached, written, output, reasoning } = tokens;
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": cached, "cache_write_tokens": written },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": reasoning },
        "total_tokens": input + output,
    })
}

fn thought(frames: &mut Frames, asked: &Asked<'_>, index: usize, text: &str) -> Value {
    let id = format!("rs_{index}");
    let sealed = reasoning_seal(asked).token();
    // The content in `added` may be partial; only that of `done` is whole.
    let partial = sealed.get(..20).unwrap_or_default();
    let empty =
        json!({ "id": id, "type": "reasoning", "summary": [], "encrypted_content": partial });
    frames.push("response.output_item.added", json!({ "output_index": index, "item": empty }));
    let place = json!({ "item_id": id, "output_index": index, "summary_index": 0 });
    let with = |fields: Value| -> Value {
        let mut whole = place.clone();
        if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), fields) {
            whole.extend(fields);
        }
        whole
    };
    let part = |text: &str| json!({ "type": "summary_text", "text": text });
    frames.push("response.reasoning_summary_part.added", with(json!({ "part": part("") })));
    frames.push("response.reasoning_summary_text.delta", with(json!({ "delta": text })));
    frames.push("response.reasoning_summary_text.done", with(json!({ "text": text })));
    frames.push("response.reasoning_summary_part.done", with(json!({ "part": part(text) })));
    let item = json!({
        "id": id, "type": "reasoning", "summary": [part(text)], "encrypted_content": sealed,
    });
    frames.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    item
}

fn said(frames: &mut Frames, index: usize, text: &str) -> Value {
    let id = format!("msg_{index}");
    let message = |status: &str, content: Value| {
        json!({
            "id": id, "type": "message", "role": "assistant", "status": status, "content": content,
        })
    };
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
    let added = json!({ "output_index": index, "item": message("in_progress", json!([])) });
    frames.push("response.output_item.added", added);
    let with_part = |text: &str| json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part(text) });
    frames.push("response.content_part.added", with_part(""));
    let (one, other) = text.split_at_checked(text.len() / 2).unwrap_or((text, ""));
    for delta in [one, other] {
        let fields = json!({
            "item_id": id, "output_index": index, "content_index": 0, "delta": delta,
            "logprobs": [],
        });
        frames.push("response.output_text.delta", fields);
    }
    let done = json!({
        "item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": [],
    });
    frames.push("response.output_text.done", done);
    frames.push("response.content_part.done", with_part(text));
    let item = message("completed", json!([part(text)]));
    frames.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    item
}

fn called(frames: &mut Frames, index: usize, id: &str, name: &str, arguments: &str) -> Value {
    let item_id = format!("fc_{index}");
    let item = |status: &str, arguments: &str| {
        json!({
            "id": item_id, "type": "function_call", "status": status, "call_id": id,
            "name": name, "arguments": arguments,
        })
    };
    let added = json!({ "output_index": index, "item": item("in_progress", "") });
    frames.push("response.output_item.added", added);
    let (one, other) = arguments.split_at_checked(arguments.len() / 2).unwrap_or((arguments, ""));
    for delta in [one, other] {
        let fields = json!({ "item_id": item_id, "output_index": index, "delta": delta });
        frames.push("response.function_call_arguments.delta", fields);
    }
    let done = json!({
        "item_id": item_id, "output_index": index, "name": name, "arguments": arguments,
    });
    frames.push("response.function_call_arguments.done", done);
    let item = item("completed", arguments);
    frames.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    item
}
