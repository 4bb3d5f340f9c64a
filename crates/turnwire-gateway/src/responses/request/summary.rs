//! A conversation made short, in the hands of the client.
//!
//! What `/v1/responses/compact` hands out comes back whole in the field that the official clients
//! have for it, `encrypted_content`. It is not encrypted: the client has read the conversation, and
//! could write a summary of its own into any request. So there is nothing to hide from whoever
//! holds it and no key to keep, and the value says of itself what it is, for those who would trust
//! the name of the field. See docs/decisions/018-a-summary-is-not-encrypted.md.

use base64::{Engine, prelude::BASE64_STANDARD};

/// What every summary begins with. None of it can be part of base64, so nothing foreign happens to
/// look like it.
const MARK: &str = "turnwire:not-encrypted:summary:v1:";

/// Wraps the summary `text` for the field `encrypted_content` of a `compaction` item.
pub fn wrap_summary(text: &str) -> String {
    format!("{MARK}{}", BASE64_STANDARD.encode(text))
}

/// The summary in `encrypted_content`; nothing if it was not made by [`wrap_summary`].
pub fn unwrap_summary(encrypted_content: &str) -> Option<String> {
    let text = encrypted_content.strip_prefix(MARK)?;
    String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
