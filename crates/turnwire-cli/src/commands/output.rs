//! How commands print their results.

use std::io::{self, IsTerminal, Write};

use console::Term;
use serde_json::Value;
use turnwire_surfaces::{visible, wire_json_pretty};

use crate::terminal::Paint;

/// How results are printed, to standard output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) paint: Paint,
    pub(super) json: bool,
    /// Width of the terminal; none in a pipe, where lines have any length.
    pub(super) width: Option<usize>,
}

impl Output {
    pub(super) fn new(paint: Paint, json: bool) -> Self {
        Self { paint, json, width: width_of_stdout() }
    }

    /// Prints `answer` as JSON, or what it means.
    pub(super) fn print(self, answer: &Value, words: impl FnOnce() -> String) {
        let text = if self.json { wire_json_pretty(answer) } else { words() };
        print_line(&text);
    }
}

/// Prints a line to standard output. A closed one is not an error: the exit code says how it went.
pub(super) fn print_line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn width_of_stdout() -> Option<usize> {
    let terminal = Term::stdout();
    let size = io::stdout().is_terminal().then(|| terminal.size_checked()).flatten();
    size.map(|(_, columns)| usize::from(columns))
}

/// A text field of a JSON object; empty if it has none.
pub(super) fn word<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Text of a server on one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    visible::in_order(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A time as people read it, in UTC: `2026-11-16 16:05`.
pub(super) fn short_time(time: &str) -> String {
    one_line(time).get(..16).map(|time| time.replace('T', " ")).unwrap_or_default()
}
