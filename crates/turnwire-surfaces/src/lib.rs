//! Every way to look at a run: one projection per surface.
//!
//! A surface is what a kind of client sees of a run, and all of them see the same run, because
//! each is computed from its events and from nothing else. Reading order:
//!
//! * [`calls`] keeps the facts of each call, so that every tool frame can repeat them, and
//!   knows the one rule about starts and ends;
//! * [`callbacks`] is the surface of `on_token`, `on_tool_start` and `on_tool_end`,
//!   [`chat_events`] that of `on_event`, [`messages`] that of the message list (made of
//!   [`message`]s), [`transcript`] that of the terminal, and [`answer`] is what is left when
//!   nobody watches;
//! * [`preview`] shortens results and arguments the same way everywhere, [`words`] has the
//!   sentences about tools at work, [`partial_json`] reads arguments while they are being
//!   written, and [`mod@clean`] takes out of a text what a terminal would obey.
//!
//! Nothing in this crate does I/O, reads a clock or knows a runtime.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod answer;
pub mod callbacks;
pub mod calls;
pub mod chat_events;
pub mod clean;
mod earlier;
pub mod message;
pub mod messages;
pub mod partial_json;
pub mod preview;
pub mod transcript;
mod unescape;
pub mod words;

#[cfg(test)]
mod story;

use turnwire_contract::Recorded;

pub use answer::Answer;
pub use callbacks::{CallbackFrame, Callbacks, Told};
pub use calls::{Call, CallBook, CallNews};
pub use chat_events::{ChatEvents, ChatFrame};
pub use clean::{Cleaner, clean};
pub use message::{Message, MessageState, Stage, ToolBlock};
pub use messages::{MessageFrame, Messages, ToolBlockUpdate};
pub use partial_json::{Entry, PartialJson};
pub use transcript::{Mark, Totals, Transcript, TranscriptFrame};

/// Turns the events of one run into the frames of one surface.
///
/// The promise an implementation makes: the frames are a pure function of the events so far.
/// A projection always starts at the first event, so frame 17 is frame 17 for ever, and "I have
/// seen 16" is all a returning client needs to say.
pub trait Projection {
    /// What this surface sends.
    type Frame;

    /// The frames that follow from the next event: often one, sometimes none or several.
    fn project(&mut self, recorded: &Recorded) -> Vec<Self::Frame>;
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
