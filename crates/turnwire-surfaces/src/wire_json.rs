//! JSON on one line, for every definition of a line.
//!
//! JSON allows a few raw characters in strings that some readers treat as the end of a line
//! (`U+0085`, `U+2028`, `U+2029`; widely used clients split text there) or that a terminal may
//! interpret (`DEL` and the C1 controls). They are written as escapes instead. The value is the
//! same, and no line of a stream can be split.

use std::{borrow::Cow, fmt::Write};

use memchr::memchr;
use serde::Serialize;

/// The only ASCII character that is not welcome.
const DEL: u8 = 0x7f;

/// `value` as JSON on one line. A value that cannot be serialized becomes `null`; none of our
/// frames is one.
pub fn wire_json(value: &impl Serialize) -> String {
    in_escapes(serde_json::to_string(value))
}

/// `value` as indented JSON, with the same escapes.
pub fn wire_json_pretty(value: &impl Serialize) -> String {
    in_escapes(serde_json::to_string_pretty(value))
}

fn in_escapes(text: serde_json::Result<String>) -> String {
    let text = text.unwrap_or_else(|_| "null".to_owned());
    match escaped(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

/// JSON text with these characters as escapes. They are valid only inside strings, where an escape
/// means the same.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    // Almost all frames are plain ASCII, and their bytes are compared many at a time.
    let is_plain = json.is_ascii() && memchr(DEL, json.as_bytes()).is_none();
    if is_plain || !json.contains(is_unwelcome) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_unwelcome(character) {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

fn is_unwelcome(character: char) -> bool {
    matches!(character, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
#[path = "wire_json_tests.rs"]
mod tests;
