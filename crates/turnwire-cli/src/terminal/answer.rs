//! The answer, on standard output.
//!
//! If standard output contains only the answer, it is written unchanged, with a final newline added
//! if it has none. If the status goes to the same terminal, an open line is ended before a status
//! line; a newline at the start of the following text is then skipped.

use std::io::{self, Write};

#[derive(Debug)]
pub(crate) struct Answer<W> {
    out: W,
    shared: bool,
    /// Whether the last line is open.
    is_open: bool,
    /// Whether we ended the last line.
    was_closed: bool,
}

impl<W: Write> Answer<W> {
    pub(super) fn new(out: W, shared: bool) -> Self {
        Self { out, shared, is_open: false, was_closed: false }
    }

    /// Writes and flushes part of the answer.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        let had_its_end = std::mem::take(&mut self.was_closed);
        let text = text.strip_prefix('\n').filter(|_| had_its_end).unwrap_or(text);
        if let Some(last) = text.chars().next_back() {
            self.is_open = last != '\n';
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Ends an open line, so that a status line can follow.
    pub(super) fn end_open_line(&mut self) -> io::Result<()> {
        if self.shared && self.is_open {
            self.finish()?;
            self.was_closed = true;
        }
        Ok(())
    }

    /// Ends the last line, if it is open.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
