//! How far a client has come: the place of a frame in its stream, and how it is written.
//!
//! A projection makes any number of frames from one event, so a place is two numbers: the
//! event's place in the journal, and the frame's place among those of that event. Both follow
//! from the journal alone. A client that says "I have seen 12.1" is sent what comes after, by
//! whichever server it reaches, whatever happened in between.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use turnwire_contract::{Recorded, Seq};

use crate::Projection;

/// The place of a frame: `12.0` is the first frame of event 12.
///
/// A number alone, as in `12`, is read as "all of event 12".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The event's place in the journal.
    pub seq: Seq,
    /// The frame's place among the frames of that event, from 0.
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

    /// Whether a client that has seen `seen` has yet to see this.
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

/// A text that is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotACursor;

impl fmt::Display for NotACursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in a stream is written as 12.0, or as 12 for all of event 12")
    }
}

impl std::error::Error for NotACursor {}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (seq, index) = match text.split_once('.') {
            Some((seq, index)) => (seq, number(index)?),
            None => (text, u32::MAX),
        };
        Ok(Self { seq: Seq(number(seq)?), index })
    }
}

/// Digits alone: no sign, no spaces.
fn number<N: FromStr>(text: &str) -> Result<N, NotACursor> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or(NotACursor)
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

/// A frame with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<F> {
    /// Its place.
    pub cursor: Cursor,
    /// What is sent.
    pub frame: F,
}

/// Any surface, with the place of each frame.
#[derive(Debug, Default)]
pub struct WithPlaces<P> {
    surface: P,
}

impl<P: Projection> WithPlaces<P> {
    /// The frames of `surface` with their places.
    pub fn new(surface: P) -> Self {
        Self { surface }
    }
}

impl<P: Projection> Projection for WithPlaces<P> {
    type Frame = Placed<P::Frame>;

    fn project(&mut self, recorded: &Recorded) -> Vec<Self::Frame> {
        let frames = (0..).zip(self.surface.project(recorded));
        frames
            .map(|(index, frame)| Placed { cursor: Cursor::new(recorded.seq, index), frame })
            .collect()
    }
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
