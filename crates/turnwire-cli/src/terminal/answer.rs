//! The answer, on standard output.
//!
//! Where the answer alone goes, it goes byte by byte as it comes, with a line feed at the very
//! end if it has none. Where the status goes to the same place, an open line is closed before
//! the status speaks; the line feed that the answer brings for that itself is then left out.

use std::io::{self, Write};

#[derive(Debug)]
pub(crate) struct Answer<W> {
    out: W,
    shared: bool,
    /// Whether the last line has no end yet.
    is_open: bool,
    /// Whether the last line was given its end by us.
    was_closed: bool,
}

impl<W: Write> Answer<W> {
    pub(super) fn new(out: W, shared: bool) -> Self {
        Self { out, shared, is_open: false, was_closed: false }
    }

    /// Writes more of the answer, at once.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        let had_its_end = std::mem::take(&mut self.was_closed);
        let text = text.strip_prefix('\n').filter(|_| had_its_end).unwrap_or(text);
        if let Some(last) = text.chars().next_back() {
            self.is_open = last != '\n';
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Makes sure that the status begins on a line of its own.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
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
