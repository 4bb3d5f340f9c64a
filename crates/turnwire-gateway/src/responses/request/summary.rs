//! A conversation made short, in the hands of the client.
//!
//! What `/v1/responses/compact` hands out must look opaque and come back whole. It is no
//! secret, the client has read the conversation itself, so it is wrapped and not encrypted.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// What is wrapped. The version is the key of a field of its own, so that nothing foreign
/// happens to look like it.
#[derive(Deserialize)]
struct Wrapped {
    turnwire_summary: u32,
    text: String,
}

const VERSION: u32 = 1;

/// Wraps the summary `text` for the field `encrypted_content` of a `compaction` item.
pub fn seal_summary(text: &str) -> String {
    let wrapped = serde_json::json!({ "turnwire_summary": VERSION, "text": text });
    BASE64_STANDARD.encode(wrapped.to_string())
}

/// The summary in `encrypted_content`; nothing if it was not made by [`seal_summary`].
pub fn open_summary(encrypted_content: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(encrypted_content).ok()?;
    let wrapped: Wrapped = serde_json::from_slice(&bytes).ok()?;
    (wrapped.turnwire_summary == VERSION).then_some(wrapped.text)
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
