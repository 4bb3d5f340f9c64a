//! Formats an answer while it streams.
//!
//! Markdown can be formatted by the block: a table is known only at its end. Blocks that are
//! complete are printed once; the one in progress is shown below them as it is written, and
//! replaced when it is complete.

use console::measure_text_width;

use super::{Paint, markdown::formatted};

/// Maximum number of rows of the block in progress that are shown.
const MAX_PREVIEW: usize = 6;

#[derive(Debug)]
pub(super) struct Formatter {
    paint: Paint,
    /// The beginning of the block in progress.
    pending: String,
    has_written: bool,
}

impl Formatter {
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint, pending: String::new(), has_written: false }
    }

    /// Adds text. Returns the blocks that are complete now, formatted.
    pub(super) fn push(&mut self, text: &str, width: usize) -> Option<String> {
        self.pending.push_str(text);
        let mut written = String::new();
        // Block by block, so that it makes no difference in which pieces a text arrives.
        while let Some(end) = end_of_block(&self.pending) {
            let rest = self.pending.split_off(end);
            let block = std::mem::replace(&mut self.pending, rest);
            written.extend(self.format(&block, width));
        }
        (!written.is_empty()).then_some(written)
    }

    /// Returns the rest, formatted.
    pub(super) fn finish(&mut self, width: usize) -> Option<String> {
        let rest = std::mem::take(&mut self.pending);
        let rest = self.format(&rest, width);
        self.has_written = false;
        rest
    }

    /// The last rows of the block in progress, as it is written.
    pub(super) fn preview(&self, width: usize) -> Vec<String> {
        let width = width.saturating_sub(1).max(1);
        let rows = self.pending.trim_end().lines().flat_map(|line| rows_of(line, width));
        let rows: Vec<String> = rows.collect();
        let n_hidden = rows.len().saturating_sub(MAX_PREVIEW);
        // The line between this block and the one before is there from the beginning.
        let gap = (self.has_written && !rows.is_empty()).then(String::new);
        gap.into_iter().chain(rows.into_iter().skip(n_hidden)).collect()
    }

    fn format(&mut self, source: &str, width: usize) -> Option<String> {
        let text = formatted(source, width, self.paint);
        if text.is_empty() {
            return None;
        }
        let gap = if std::mem::replace(&mut self.has_written, true) { "\n" } else { "" };
        Some(format!("{gap}{text}"))
    }
}

/// The end of the first block, if it is complete: the start of a line after an empty line, at the
/// left edge and outside of a code block.
fn end_of_block(text: &str) -> Option<usize> {
    let mut fence: Option<&str> = None;
    let (mut start, mut after_empty) = (0, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let is_at_edge = !line.starts_with([' ', '\t', '\n', '\r']);
        if fence.is_none() && after_empty && is_at_edge {
            return Some(start);
        }
        fence = match (fence, fence_of(trimmed)) {
            (None, opened) => opened,
            // The closing fence is as long as the opening one, or longer, and alone.
            (Some(open), Some(closed)) if closed.starts_with(open) && closed == trimmed => None,
            (open, _) => open,
        };
        after_empty = trimmed.is_empty();
        start += line.len();
    }
    None
}

/// The fence that a line begins with: three or more backticks or tildes.
fn fence_of(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|character| *character == mark).count();
    if length >= 3 { line.get(..length) } else { None }
}

/// A line cut into rows of a terminal.
fn rows_of(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut taken = 0;
    for character in line.chars() {
        let character = if character == '\t' { ' ' } else { character };
        let columns = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if taken + columns > width {
            rows.push(String::new());
            taken = 0;
        }
        if let Some(row) = rows.last_mut() {
            row.push(character);
        }
        taken += columns;
    }
    rows
}

#[cfg(test)]
#[path = "formatter_tests.rs"]
mod tests;
