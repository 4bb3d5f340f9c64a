//! Bytes → SSE frames.
//!
//! Written here rather than taken from a crate, because a provider's stream needs three things
//! that the ready-made parsers do not give together: bytes that are not UTF-8 become U+FFFD
//! instead of ending the stream, the last frame counts even if the server forgot the blank
//! line after it, and neither a line nor a frame may grow without end.
//!
//! The reader is fed, it does not fetch, so every way to cut a stream can be tried in a test.

use thiserror::Error;

/// The longest line that is accepted.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The most data that one frame may carry, over all its lines.
pub(crate) const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of the stream. Ids and retry times are of no use here and are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What the server calls it, if it says so.
    pub(crate) event: Option<String>,
    /// Its lines, joined.
    pub(crate) data: String,
}

/// Reads frames out of bytes that may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    past_first_line: bool,
    /// The last byte was a CR, so that an LF now belongs to it.
    after_cr: bool,
}

impl SseReader {
    /// Takes the next bytes and adds the frames they complete to `frames`. Frames completed
    /// before an error are good.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        frames: &mut Vec<Frame>,
    ) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (head, tail) = bytes.split_at(end);
            self.extend_line(head)?;
            self.end_line(frames)?;
            bytes = match tail {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => tail,
            };
            self.after_cr = tail == b"\r";
        }
        self.extend_line(bytes)
    }

    /// The frame that the server did not close before it hung up.
    pub(crate) fn finish(&mut self) -> Result<Option<Frame>, TooLong> {
        let mut frames = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut frames)?;
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

    fn end_line(&mut self, frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_frame(frames);
            return Ok(());
        }
        self.take_field(&String::from_utf8_lossy(line))
    }

    fn take_field(&mut self, line: &str) -> Result<(), TooLong> {
        // A line that begins with a colon is a comment; here its field has an empty name.
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
        let frame = std::mem::take(&mut self.frame);
        if std::mem::take(&mut self.has_data) {
            frames.push(frame);
        }
    }
}

/// The server sends more in one piece than anyone should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum TooLong {
    /// A line without end.
    #[error("a line of the stream is longer than 1 MiB")]
    Line,
    /// A frame without end.
    #[error("an event of the stream is longer than 4 MiB")]
    Frame,
}

#[cfg(test)]
#[path = "sse_reader_tests.rs"]
mod tests;
