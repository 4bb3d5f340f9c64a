//! Parser for server-sent events.
//!
//! Existing crates do not combine three requirements of provider streams: invalid UTF-8 becomes
//! U+FFFD instead of ending the stream, the last frame counts even without a final blank line, and
//! the length of lines and frames is limited.
//!
//! The reader does no I/O, so that tests can split a stream at any byte.

use std::mem;

use memchr::memchr2;
use thiserror::Error;

/// Maximum length of a line.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Maximum size of the data of one frame.
pub(crate) const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An event of the stream. `id` and `retry` are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Value of the `event` field, if any.
    pub(crate) event: Option<String>,
    /// The data lines, joined.
    pub(crate) data: String,
}

/// Parses frames from bytes that may be split anywhere.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    past_first_line: bool,
    /// Whether the last byte was CR, so that a following LF is ignored.
    after_cr: bool,
}

impl SseReader {
    /// Processes bytes, and appends complete frames to `frames`. Frames before an error are valid.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        frames: &mut Vec<Frame>,
    ) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\r', b'\n', bytes) {
            let (head, tail) = bytes.split_at(end);
            self.end_line(head, frames)?;
            bytes = match tail {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => tail,
            };
            self.after_cr = tail == b"\r";
        }
        self.extend_line(bytes)
    }

    /// Returns the last frame, if it has no final blank line.
    pub(crate) fn finish(&mut self) -> Result<Option<Frame>, TooLong> {
        let mut frames = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&[], &mut frames)?;
        }
        self.end_frame(&mut frames);
        Ok(frames.pop())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > MAX_LINE_BYTES {
            return Err(TooLong::Line);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the line with `rest`, which is the whole of most lines.
    fn end_line(&mut self, rest: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        if self.line.is_empty() && rest.len() <= MAX_LINE_BYTES {
            return self.take_line(rest, frames);
        }
        self.extend_line(rest)?;
        let line = mem::take(&mut self.line);
        self.take_line(&line, frames)
    }

    fn take_line(&mut self, mut line: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_frame(frames);
            return Ok(());
        }
        match str::from_utf8(line) {
            Ok(line) => self.take_field(line),
            Err(_) => self.take_field(&String::from_utf8_lossy(line)),
        }
    }

    fn take_field(&mut self, line: &str) -> Result<(), TooLong> {
        // A comment line starts with a colon, so its field name is empty.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if self.frame.data.len() + value.len() + 1 > MAX_FRAME_BYTES {
                    return Err(TooLong::Frame);
                }
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn end_frame(&mut self, frames: &mut Vec<Frame>) {
        let frame = mem::take(&mut self.frame);
        if mem::take(&mut self.has_data) {
            frames.push(frame);
        }
    }
}

/// A line or frame exceeds the maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum TooLong {
    #[error("a line of the stream is longer than 1 MiB")]
    Line,
    #[error("an event of the stream is longer than 4 MiB")]
    Frame,
}

#[cfg(test)]
#[path = "sse_reader_tests.rs"]
mod tests;
