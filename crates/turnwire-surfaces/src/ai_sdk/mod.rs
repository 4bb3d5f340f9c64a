//! The surface of `/ai-sdk/chat`: a run as chunks of the AI SDK's UI message stream.
//!
//! The clients of the AI SDK check every chunk: an unknown `type` or a `null` in an optional field
//! ends the chat with an error. So a chunk has only types of the client's [`Dialect`], nothing is
//! ever `null`, and everything of our own is a `data-…` chunk or an additional field.
//!
//! A run is one assistant message, whose ID is the ID of the run. A turn with its tools is one
//! step.
//!
//! **Segments.** A client answers an approval with a new request, and sends it only when its stream
//! has finished. So the stream finishes when only people are awaited, and the run continues. What
//! comes after the answer is the next segment: it starts with the same message ID and has only what
//! is new. A client reads a [`Span`] of segments as one stream, and the index of a chunk in it is a
//! pure function of the journal. Version 5 has no approvals: its stream stays open, and the answer
//! is given on another route.
//!
//! Reading order: [`chunk`] has the wire types; `projection` has steps and segments, `speech` texts
//! and reasoning, [`citation`] sources, `tools` calls; `waiting` knows who is awaited.

pub mod chunk;
pub mod citation;
mod projection;
mod speech;
mod tools;
mod waiting;

use std::{fmt, str::FromStr};

use turnwire_contract::{CallId, RunId};

pub use chunk::UiChunk;
pub use projection::{AiSdk, AiSdkFrame};

/// Version of the AI SDK that a client uses. It decides which chunks the client accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `ai` 5: no approvals.
    V5,
    /// `ai` 6. Version 7 accepts this dialect too.
    #[default]
    V6,
    /// `ai` 7: answers to approvals, and withdrawn steps.
    V7,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 3] = [Self::V5, Self::V6, Self::V7];

    /// The major version.
    pub fn number(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V6 => 6,
            Self::V7 => 7,
        }
    }

    /// Whether a client can show approval requests and answer them.
    pub fn has_approvals(self) -> bool {
        self != Self::V5
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

/// A text that names no dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseDialectError;

impl FromStr for Dialect {
    type Err = ParseDialectError;

    fn from_str(text: &str) -> Result<Self, ParseDialectError> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.to_string() == text);
        found.ok_or(ParseDialectError)
    }
}

/// Key under which a request keeps the ID of the message that its run continues.
pub const MESSAGE_KEY: &str = "ai_sdk_message";

/// The segments of a run that a client reads as one stream, from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// The first segment.
    pub first: u32,
    /// The last segment. The stream finishes with it, or earlier with the run.
    pub last: u32,
}

impl Span {
    /// One segment.
    pub fn only(segment: u32) -> Self {
        Self { first: segment, last: segment }
    }

    /// All segments up to `last`.
    pub fn up_to(last: u32) -> Self {
        Self { first: 0, last }
    }

    fn includes(self, segment: u32) -> bool {
        (self.first..=self.last).contains(&segment)
    }
}

/// Name of a stream, from which a client resumes it by the number of chunks it has received:
/// `run_…` for the first segment in the default dialect, else `run_….7.1-2` with the dialect and
/// the segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// The run.
    pub run_id: RunId,
    /// The dialect of the stream.
    pub dialect: Dialect,
    /// The segments of the stream.
    pub span: Span,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, dialect, span: Span { first, last } } = self;
        if *dialect == Dialect::default() && (*first, *last) == (0, 0) {
            return write!(f, "{run_id}");
        }
        write!(f, "{run_id}.{dialect}.{first}-{last}")
    }
}

impl StreamName {
    /// Parses a name. `dialect` is that of a name without one. Every text is a name, because it may
    /// be the ID of a run.
    pub fn read(text: &str, dialect: Dialect) -> Self {
        let whole = || Self { run_id: RunId::new(text), dialect, span: Span::default() };
        let mut parts = text.rsplitn(3, '.');
        let (span, version, run) = (parts.next(), parts.next(), parts.next());
        let read = run.zip(version).zip(span).and_then(|((run, version), span)| {
            let (first, last) = span.split_once('-')?;
            let span = Span { first: first.parse().ok()?, last: last.parse().ok()? };
            let is_forward = span.first <= span.last;
            let dialect = version.parse().ok()?;
            is_forward.then(|| Self { run_id: RunId::new(run), dialect, span })
        });
        read.unwrap_or_else(whole)
    }
}

/// ID of an approval request. It names the run, so that the answer finds it however late it comes.
pub fn approval_id(run_id: &RunId, call_id: &CallId) -> String {
    format!("{run_id}:{call_id}")
}

/// The run and the call of an approval ID.
pub fn read_approval_id(id: &str) -> Option<(RunId, CallId)> {
    let (run_id, call_id) = id.split_once(':')?;
    Some((RunId::new(run_id), CallId::new(call_id)))
}

#[cfg(test)]
#[path = "ai_sdk_tests.rs"]
mod tests;
