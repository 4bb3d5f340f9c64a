//! The stream of Anthropic.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Asked, Given,
    cache::Tokens,
    event,
    messages::{landmark, prefixes, thinking_seal},
    plan::{Answer, End, Piece},
};

/// Returns the frames of the answer, and those that end it.
pub(super) fn frames(
    asked: &Asked<'_>,
    answer: &Answer,
    tokens: Tokens,
    given: &mut Given,
) -> (Vec<String>, Vec<String>) {
    let Tokens { input, cached, written, output, reasoning } = tokens;
    let mut usage = json!({
        "input_tokens": input - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": 1,
    });
    let message = json!({
        "id": "msg_01", "type": "message", "role": "assistant", "model": asked.model(),
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut frames = vec![
        event("message_start", &json!({ "type": "message_start", "message": message })),
        event("ping", &json!({ "type": "ping" })),
    ];
    let bound = prefixes(asked).pop().unwrap_or_default();
    let mut blocks: Vec<Value> = Vec::new();
    for piece in &answer.pieces {
        let index = blocks.len();
        let block = match piece {
            Piece::Think(text) => {
                let signature = thinking_seal(asked, bound, &blocks, text).token();
                json!({ "type": "thinking", "thinking": text, "signature": signature })
            }
            Piece::Say(text) => json!({ "type": "text", "text": text }),
            Piece::Call { id, name, arguments } => {
                json!({ "type": "tool_use", "id": id, "name": name, "input": arguments })
            }
        };
        let (start, deltas) = pieces_of(piece, &block);
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": start });
        frames.push(event("content_block_start", &start));
        for delta in deltas {
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            frames.push(event("content_block_delta", &delta));
        }
        let stop = json!({ "type": "content_block_stop", "index": index });
        frames.push(event("content_block_stop", &stop));
        blocks.push(block);
    }
    let landmarks: Arc<[Value]> = blocks.iter().filter_map(landmark).collect();
    for block in &blocks {
        if let Some(Value::String(signature)) = block.get("signature") {
            given.insert(signature.clone(), Arc::clone(&landmarks));
        }
    }
    let has_calls = answer.pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }));
    let reason = if has_calls { "tool_use" } else { "end_turn" };
    let reason = if answer.end == End::Odd { asked.rules.odd_end } else { reason };
    if let Some(fields) = usage.as_object_mut() {
        fields.insert("output_tokens".to_owned(), json!(output));
        let details = json!({ "thinking_tokens": reasoning });
        fields.insert("output_tokens_details".to_owned(), details);
    }
    let delta = json!({
        "type": "message_delta",
        "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": usage,
    });
    let end = vec![
        event("message_delta", &delta),
        event("message_stop", &json!({ "type": "message_stop" })),
    ];
    (frames, end)
}

/// How a block starts, and its deltas.
fn pieces_of(piece: &Piece, block: &Value) -> (Value, Vec<Value>) {
    match piece {
        Piece::Think(text) => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": text }),
                json!({ "type": "signature_delta", "signature": block.get("signature") }),
            ],
        ),
        Piece::Say(text) => {
            let (one, other) = text.split_at_checked(text.len() / 2).unwrap_or((text, ""));
            let delta = |text: &str| json!({ "type": "text_delta", "text": text });
            (json!({ "type": "text", "text": "" }), vec![delta(one), delta(other)])
        }
        Piece::Call { id, name, arguments } => {
            let whole = arguments.to_string();
            let (one, other) = whole.split_at_checked(whole.len() / 2).unwrap_or((&whole, ""));
            let delta = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
            let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            (start, vec![delta(""), delta(one), delta(other)])
        }
    }
}
