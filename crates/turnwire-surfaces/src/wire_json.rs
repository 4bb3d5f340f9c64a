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

/// Appends `value` to `out` like [`wire_json`].
pub fn write_wire_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let begin = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(begin);
        out.extend_from_slice(b"null");
    }
    let json = out.get(begin..).unwrap_or_default();
    if is_plain(json) {
        return;
    }
    if let Ok(Cow::Owned(escaped)) = str::from_utf8(json).map(escaped) {
        out.truncate(begin);
        out.extend_from_slice(escaped.as_bytes());
    }
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
    if is_plain(json.as_bytes()) || !json.contains(is_unwelcome) {
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

/// Whether nothing has to be escaped, because all is ASCII, as in almost all frames. Bytes are
/// compared many at a time.
fn is_plain(json: &[u8]) -> bool {
    json.is_ascii() && memchr(DEL, json).is_none()
}

fn is_unwelcome(character: char) -> bool {
    matches!(character, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
#[path = "wire_json_tests.rs"]
mod tests;
