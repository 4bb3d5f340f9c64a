//! Long results and arguments, shortened the same way on every surface.
//!
//! Lengths are counted in characters, never in bytes, and what was cut says so. Whatever comes
//! out of here has been cleaned, because it ends up in terminals.

use std::borrow::Cow;

use turnwire_contract::ToolOutcome;

use crate::{
    clean::clean,
    partial_json::{Entry, PartialJson},
};

/// How many characters of a result a summary has, the `...` not counted.
pub const SUMMARY_CHARS: usize = 100;
/// How many characters a label has at most, the `…` included.
pub const LABEL_CHARS: usize = 60;
/// How many bytes of a result go over a wire; the rest is fetched by reference.
pub const WIRE_BYTES: usize = 32 * 1024;

/// Arguments that usually say what a call is about, most telling first.
const USUALLY_TELLING: [&str; 7] = ["query", "path", "file_path", "command", "url", "name", "id"];
/// How much of one argument is looked at for a label: more than is shown, because runs of
/// spaces become one, but never all of a big one.
const LOOKED_AT_CHARS: usize = 4 * LABEL_CHARS;

/// What came of a call, on one line and never empty: the first 100 characters with all white
/// space made single spaces, then `...` if there is more. A failure begins with `Error: `.
pub fn result_summary(outcome: &ToolOutcome) -> String {
    let (text, has_more) = result_text(outcome);
    let (line, cut) = squeeze(&text, SUMMARY_CHARS);
    if line.is_empty() {
        return pictures(outcome).unwrap_or_else(|| "(no output)".to_owned());
    }
    with_dots(&line, cut || has_more)
}

/// What came of a call for the bracketed text of S0, which has to be what it always was: the
/// first 100 characters with their line breaks, then `...` if there is more.
pub fn bracketed_result(outcome: &ToolOutcome) -> String {
    let (text, has_more) = result_text(outcome);
    if text.is_empty() {
        return pictures(outcome).unwrap_or_default();
    }
    let (beginning, cut) = first_chars(&text, SUMMARY_CHARS);
    with_dots(beginning, cut || has_more)
}

/// The arguments of a call in a few words, while they are written and after.
///
/// The first of the tool's own `telling` arguments that says anything, then the first of the
/// usual ones (`query`, `path`, `file_path`, `command`, `url`, `name`, `id`). If none does, all
/// top-level scalars as `a=5 b=4`, because one of several numbers alone says little. If there
/// are none either, the last 30 characters as they were written, and nothing for a complete
/// object. On one line, at most 60 characters, the last one `…` if there is more.
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

/// A text cut for a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireText<'a> {
    /// The beginning, whole characters only.
    pub text: &'a str,
    /// Whether there is more.
    pub truncated: bool,
}

/// As much of `text` as fits into `max_bytes`, which is [`WIRE_BYTES`] unless a client asks
/// for less.
pub fn wire_text(text: &str, max_bytes: usize) -> WireText<'_> {
    let (beginning, rest) = text.split_at(text.floor_char_boundary(max_bytes));
    WireText { text: beginning, truncated: !rest.is_empty() }
}

/// Where the whole result of a call is read that was too big for a wire (R17).
pub fn result_ref(run_id: &str, call_id: &str) -> String {
    format!("/v1/runs/{run_id}/calls/{call_id}/result")
}

/// The first `max` characters, and whether there are more. Costs what it returns.
pub fn first_chars(text: &str, max: usize) -> (&str, bool) {
    let end = text.char_indices().nth(max).map_or(text.len(), |(at, _)| at);
    let (beginning, rest) = text.split_at(end);
    (beginning, !rest.is_empty())
}

/// `text`, cleaned, on one line, with at most `max` characters, the last one `…` if there is
/// more.
pub fn shortened(text: &str, max: usize) -> String {
    let (mut line, cut) = squeeze(&clean(text), max);
    if cut {
        line.pop();
        line.push('…');
    }
    line
}

/// What the tool said, or what went wrong; and whether the journal has only the beginning.
fn result_text(outcome: &ToolOutcome) -> (Cow<'_, str>, bool) {
    match outcome {
        ToolOutcome::Succeeded { output } => (clean(&output.text), output.rest.is_some()),
        ToolOutcome::Failed { .. }
        | ToolOutcome::TimedOut { .. }
        | ToolOutcome::Cancelled
        | ToolOutcome::Denied { .. }
        | ToolOutcome::InvalidArguments { .. }
        | ToolOutcome::NotFound { .. }
        | ToolOutcome::Skipped { .. }
        | ToolOutcome::OutcomeUnknown { .. } => {
            let text = format!("Error: {}", outcome.problem().unwrap_or_default());
            (Cow::Owned(clean(&text).into_owned()), false)
        }
    }
}

/// What to say of a result that has pictures and no words.
fn pictures(outcome: &ToolOutcome) -> Option<String> {
    let ToolOutcome::Succeeded { output } = outcome else { return None };
    match output.images.len() {
        0 => None,
        1 => Some("(1 image)".to_owned()),
        n_images => Some(format!("({n_images} images)")),
    }
}

/// What an argument says; nothing if it is empty, null or nested.
fn scalar_text(entry: &Entry<'_>) -> Option<String> {
    match entry {
        Entry::Text(text) => {
            // One character more than a label has, so that it can see that there is more.
            let line = squeeze(&clean(first_chars(text, LOOKED_AT_CHARS).0), LABEL_CHARS + 1).0;
            Some(line).filter(|line| !line.is_empty())
        }
        Entry::Number(number) => Some(number.to_string()),
        Entry::Bool(answer) => Some(answer.to_string()),
        Entry::Null | Entry::Nested => None,
    }
}

/// The first `max` characters once all white space is single spaces, and whether there are
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
