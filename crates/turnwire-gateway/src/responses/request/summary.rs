//! The summary of a conversation, as the client stores it.
//!
//! The output of `/v1/responses/compact` comes back in the field that official clients have for it,
//! `encrypted_content`. It is not encrypted: the client has read the conversation, and could put a
//! summary of its own into any request. So nothing has to be hidden from the client and no key is
//! needed. The value itself says that it is not encrypted, for readers who rely on the name of the
//! field. See docs/decisions/018-a-summary-is-not-encrypted.md.

use base64::{Engine, prelude::BASE64_STANDARD};

/// Prefix of every summary. It contains characters that base64 does not have, so other values
/// cannot start with it.
const MARK: &str = "turnwire:not-encrypted:summary:v1:";

/// Encodes the summary `text` for the field `encrypted_content` of a `compaction` item.
pub fn wrap_summary(text: &str) -> String {
    format!("{MARK}{}", BASE64_STANDARD.encode(text))
}

/// Decodes the summary in `encrypted_content`. `None` if it was not made by [`wrap_summary`].
pub fn unwrap_summary(encrypted_content: &str) -> Option<String> {
    let text = encrypted_content.strip_prefix(MARK)?;
    String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
