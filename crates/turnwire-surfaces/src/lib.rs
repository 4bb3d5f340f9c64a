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
//! * [`responses`] is the surface of `/v1/responses`, in the words of official clients, and
//!   [`check`] reads such a stream back, whoever sent it, and says what is wrong with it;
//! * [`ws_chat`] is the surface of the chat socket (it sends [`ws_message`]s and is sent
//!   [`ws_request`]s), [`chat_stream`] that of `/chat/stream`, and [`native`] is the run as it
//!   stands, beside its events as they are ([`native_event`]);
//! * [`cursor`] is the place of a frame in its stream, for clients that come back, and
//!   [`call_state`] has the nine words for where a call stands;
//! * [`preview`] shortens results and arguments the same way everywhere, [`words`] has the
//!   sentences about tools at work, [`partial_json`] reads arguments while they are being
//!   written, [`mod@clean`] takes out of a text what a terminal would obey, and
//!   [`mod@wire_json`] keeps JSON on one line.
//!
//! Nothing in this crate does I/O, reads a clock or knows a runtime.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod answer;
pub mod call_state;
pub mod callbacks;
pub mod calls;
pub mod chat_events;
pub mod chat_stream;
pub mod check;
pub mod clean;
pub mod cursor;
mod earlier;
pub mod message;
pub mod messages;
pub mod native;
pub mod native_event;
pub mod partial_json;
pub mod preview;
pub mod responses;
pub mod transcript;
mod unescape;
pub mod wire_json;
pub mod words;
pub mod ws_chat;
pub mod ws_message;
pub mod ws_request;

#[cfg(test)]
mod story;

use turnwire_contract::Recorded;

pub use answer::Answer;
pub use call_state::CallState;
pub use callbacks::{CallbackFrame, Callbacks, Told};
pub use calls::{Call, CallBook, CallNews};
pub use chat_events::{ChatEvents, ChatFrame};
pub use chat_stream::{ChatAnswer, ChatStream, ChatStreamFrame, ChatStreamOptions};
pub use check::{CheckOptions, Checker};
pub use clean::{Cleaner, clean};
pub use cursor::{Cursor, Placed, WithPlaces};
pub use message::{Message, MessageState, Stage, ToolBlock};
pub use messages::{MessageFrame, Messages, ToolBlockUpdate};
pub use native::{RunSnapshot, SnapshotFold};
pub use native_event::{NativeEvent, NativeRecord};
pub use partial_json::{Entry, PartialJson};
pub use responses::{Profile, Response, ResponseEvent, Responses};
pub use transcript::{Mark, Totals, Transcript, TranscriptFrame};
pub use wire_json::{wire_json, wire_json_pretty};
pub use ws_chat::WsChat;
pub use ws_message::{ErrorCode, WsError, WsMessage};
pub use ws_request::{InputAction, WsOptions, WsRequest};

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
