//! Shortens long results and arguments the same way on every surface.
//!
//! Lengths are counted in characters, never in bytes, and a cut is marked. All output is cleaned,
//! because it may end up in terminals.

use std::borrow::Cow;

use turnwire_contract::ToolOutcome;

use crate::{
    chars::first_chars,
    clean::clean,
    partial_json::{Entry, PartialJson},
};

/// Maximum length of a summary in characters, without the `...`.
pub const SUMMARY_CHARS: usize = 100;
/// Maximum length of a label in characters, including the `…`.
pub const LABEL_CHARS: usize = 60;
/// Maximum size of a result on the wire, in bytes. The rest is fetched by reference.
pub const WIRE_BYTES: usize = 32 * 1024;

/// Arguments that usually describe a call, most telling first.
const USUALLY_TELLING: [&str; 7] = ["query", "path", "file_path", "command", "url", "name", "id"];
/// Number of characters of one argument that are read for a label: more than are shown, because
/// white space is collapsed, but never all of a large one.
const LOOKED_AT_CHARS: usize = 4 * LABEL_CHARS;

/// Summary of a call on one line, never empty: the first 100 characters with white space collapsed
/// to single spaces, then `...` if there is more. A failure starts with `Error: `.
pub fn result_summary(outcome: &ToolOutcome) -> String {
    let (text, has_more) = result_text(outcome);
    let (line, cut) = squeeze(&text, SUMMARY_CHARS);
    if line.is_empty() {
        return pictures(outcome).unwrap_or_else(|| "(no output)".to_owned());
    }
    with_dots(&line, cut || has_more)
}

/// Summary of a call for the bracketed text of S0, which must not change: the first 100 characters
/// with their line breaks, then `...` if there is more.
pub fn bracketed_result(outcome: &ToolOutcome) -> String {
    let (text, has_more) = result_text(outcome);
    if text.is_empty() {
        return pictures(outcome).unwrap_or_default();
    }
    let (beginning, cut) = first_chars(&text, SUMMARY_CHARS);
    with_dots(beginning, cut || has_more)
}

/// The arguments of a call in short form, while they are generated and after.
///
/// The first of the tool's own `telling` arguments that is not empty, then the first of the usual
/// ones (`query`, `path`, `file_path`, `command`, `url`, `name`, `id`). If there is none, all
/// top-level scalars as `a=5 b=4`, because one of several numbers alone says little. If there are
/// none either, the last 30 characters of the raw text, and an empty label for a complete object.
/// The label is on one line, with at most 60 characters, the last one `…` if there is more.
pub fn label(telling: &[String], arguments: &PartialJson) -> String {
    let keys = telling.iter().map(String::as_str).chain(USUALLY_TELLING);
    let mut told = keys.filter_map(|key| scalar_text(&arguments.get(key)?));
    if let Some(value) = told.next() {
        return shortened(&value, LABEL_CHARS);
    }
    let pairs = arguments.scalars().filter_map(|(key, entry)| {
        let key = first_chars(key, LABEL_CHARS).0;
        scalar_text(&entry).map(|value| format!("{key}={value} "))
    });
    // Each pair has at least two characters, so this many are enough to fill a label.
    let pairs: String = pairs.take(LABEL_CHARS / 2).collect();
    if !pairs.is_empty() {
        return shortened(&pairs, LABEL_CHARS);
    }
    if arguments.is_complete() {
        return String::new();
    }
    shortened(&arguments.raw_tail().replace('\n', "\\n"), LABEL_CHARS)
}

/// A text cut to a maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireText<'a> {
    /// The beginning, in whole characters.
    pub text: &'a str,
    /// Whether there is more.
    pub truncated: bool,
}

/// As much of `text` as fits into `max_bytes`, which is [`WIRE_BYTES`] unless a client asks for
/// less.
pub fn wire_text(text: &str, max_bytes: usize) -> WireText<'_> {
    let (beginning, rest) = text.split_at(text.floor_char_boundary(max_bytes));
    WireText { text: beginning, truncated: !rest.is_empty() }
}

/// Untrusted text, cleaned and shortened for a frame.
pub(crate) fn sentence(text: &str) -> String {
    let text = clean(text);
    let beginning = wire_text(&text, WIRE_BYTES);
    format!("{}{}", beginning.text, if beginning.truncated { "…" } else { "" })
}

/// Path of the full result of a call that was too large for the wire (R17).
pub fn result_ref(run_id: &str, call_id: &str) -> String {
    format!("/v1/runs/{run_id}/calls/{call_id}/result")
}

/// `text`, cleaned, on one line, with at most `max` characters, the last one `…` if there is more.
pub fn shortened(text: &str, max: usize) -> String {
    let (mut line, cut) = squeeze(&clean(text), max);
    if cut {
        line.pop();
        line.push('…');
    }
    line
}

/// The output or the error of a tool, and whether the journal has only the beginning.
fn result_text(outcome: &ToolOutcome) -> (Cow<'_, str>, bool) {
    if let ToolOutcome::Succeeded { output } = outcome {
        return (clean(&output.text), output.rest.is_some());
    }
    let text = format!("Error: {}", outcome.problem().unwrap_or_default());
    (Cow::Owned(clean(&text).into_owned()), false)
}

/// The summary of a result that has images and no text.
fn pictures(outcome: &ToolOutcome) -> Option<String> {
    let ToolOutcome::Succeeded { output } = outcome else { return None };
    match output.images.len() {
        0 => None,
        1 => Some("(1 image)".to_owned()),
        n_images => Some(format!("({n_images} images)")),
    }
}

/// The text of an argument; `None` if it is empty, null or nested.
fn scalar_text(entry: &Entry<'_>) -> Option<String> {
    match entry {
        Entry::Text(text) => {
            // One character more than a label has, to detect that there is more.
            let line = squeeze(&clean(first_chars(text, LOOKED_AT_CHARS).0), LABEL_CHARS + 1).0;
            Some(line).filter(|line| !line.is_empty())
        }
        Entry::Number(number) => Some(number.to_string()),
        Entry::Bool(answer) => Some(answer.to_string()),
        Entry::Null | Entry::Nested => None,
    }
}

/// The first `max` characters with white space collapsed to single spaces, and whether there are
/// more.
fn squeeze(text: &str, max: usize) -> (String, bool) {
    let mut line = String::new();
    let mut room = max;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            if room == 0 {
                return (line, true);
            }
            line.push(' ');
            room -= 1;
        }
        let (beginning, more) = first_chars(word, room);
        line.push_str(beginning);
        if more {
            return (line, true);
        }
        room -= beginning.chars().count();
    }
    (line, false)
}

fn with_dots(text: &str, has_more: bool) -> String {
    let dots = if has_more { "..." } else { "" };
    format!("{text}{dots}")
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod tests;
