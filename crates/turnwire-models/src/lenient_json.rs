//! Lenient JSON parsing for provider output.
//!
//! Some providers send two things that `serde_json` rejects: a lone surrogate (an emoji that was
//! split between two tokens), and raw control characters in a string. Both are repaired. Only a
//! text that was rejected is repaired.

use serde::de::DeserializeOwned;

/// Parses `text`. If that fails, repairs it and parses it again.
pub(crate) fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let repaired = repaired(text);
        if repaired == text { Err(error) } else { serde_json::from_str(&repaired) }
    })
}

/// Replaces lone surrogate escapes by `\ufffd` and removes raw control characters.
fn repaired(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        push_without_controls(&mut repaired, before);
        let (replacement, length) = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(Surrogate::High), Some(Surrogate::Low)) => (None, 12),
            (Some(_), _) => (Some("\\ufffd"), 6),
            // Skips both characters, because the second one of `\\` must not start an escape.
            (None, _) => (None, escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at)),
        };
        let (original, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        push_without_controls(&mut repaired, replacement.unwrap_or(original));
        rest = after;
    }
    push_without_controls(&mut repaired, rest);
    repaired
}

fn push_without_controls(into: &mut String, text: &str) {
    into.extend(text.chars().filter(|c| !c.is_ascii_control() || c.is_ascii_whitespace()));
}

enum Surrogate {
    High,
    Low,
}

/// Returns which half of a surrogate pair the escape at the start of `text` is.
fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Surrogate::High),
        0xDC00..=0xDFFF => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
#[path = "lenient_json_tests.rs"]
mod tests;
