//! The position of a frame in its stream, and its text format.
//!
//! A projection makes any number of frames from one event, so a cursor has two numbers: the seq of
//! the event, and the index of the frame among those of that event. Both follow from the journal
//! alone. A client that resumes after `12.1` gets the following frames from any server, whatever
//! happened in between.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use turnwire_contract::{RecordedEvent, Seq};

use crate::Projection;

/// The position of a frame: `12.0` is the first frame of event 12.
///
/// A single number, such as `12`, means all frames of event 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Seq of the event.
    pub seq: Seq,
    /// Index of the frame among those of the event, from 0.
    pub index: u32,
}

impl Cursor {
    /// Before the first frame.
    pub const START: Self = Self { seq: Seq::START, index: 0 };

    /// The frame `index` of event `seq`.
    pub fn new(seq: Seq, index: u32) -> Self {
        Self { seq, index }
    }

    /// After every frame of event `seq`.
    pub fn all_of(seq: Seq) -> Self {
        Self { seq, index: u32::MAX }
    }

    /// Whether this frame comes after `seen`.
    pub fn is_after(self, seen: Self) -> bool {
        self > seen
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::START
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            u32::MAX => write!(f, "{}", self.seq),
            index => write!(f, "{}.{index}", self.seq),
        }
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseCursorError;

impl fmt::Display for ParseCursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in a stream is written as 12.0, or as 12 for all of event 12")
    }
}

impl std::error::Error for ParseCursorError {}

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let (seq, index) = match text.split_once('.') {
            Some((seq, index)) => (seq, number(index)?),
            None => (text, u32::MAX),
        };
        Ok(Self { seq: Seq(number(seq)?), index })
    }
}

/// Parses digits only: no sign, no spaces.
fn number<N: FromStr>(text: &str) -> Result<N, ParseCursorError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or(ParseCursorError)
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a place in a stream, such as \"12.0\"")]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(seq) => Ok(Self::all_of(Seq(seq))),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// A frame with its cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameAt<F> {
    /// The cursor of the frame.
    pub cursor: Cursor,
    /// The frame.
    pub frame: F,
}

/// A projection that adds cursors to the frames of another.
#[derive(Debug, Default)]
pub struct WithCursors<P> {
    surface: P,
}

impl<P: Projection> WithCursors<P> {
    /// Adds cursors to the frames of `surface`.
    pub fn new(surface: P) -> Self {
        Self { surface }
    }
}

impl<P: Projection> Projection for WithCursors<P> {
    type Frame = FrameAt<P::Frame>;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<Self::Frame> {
        let frames = (0..).zip(self.surface.project(recorded));
        frames
            .map(|(index, frame)| FrameAt { cursor: Cursor::new(recorded.seq, index), frame })
            .collect()
    }
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
