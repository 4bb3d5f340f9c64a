//! The projections of a run: one per surface.
//!
//! A surface is what a kind of client sees of a run. All surfaces show the same run, because each
//! is computed from its events and from nothing else. Reading order:
//!
//! * [`calls`] tracks the facts of each call, so that every tool frame can repeat them, and
//!   enforces the rule about starts and ends;
//! * [`callbacks`] is the surface of `on_token`, `on_tool_start` and `on_tool_end`, [`chat_events`]
//!   that of `on_event`, [`messages`] that of the message list (made of [`message`]s),
//!   [`transcript`] that of the terminal, and [`answer`] is the final answer alone;
//! * [`responses`] is the surface of `/v1/responses`, in the official format, and [`check`]
//!   validates such a stream, whoever sent it; [`chat_completions`] is the surface of
//!   `/v1/chat/completions`;
//! * [`ws_chat`] is the surface of the chat WebSocket (it sends [`ws_message`]s and receives
//!   [`ws_request`]s), [`chat_stream`] that of `/chat/stream`, and [`native`] is the current state
//!   of a run; the events of the journal themselves are sent unchanged;
//! * [`ai_sdk`] is the surface of `/ai-sdk/chat`, for the UI message stream of the AI SDK;
//! * [`ag_ui`] is the surface of AG-UI, with its approvals as interrupts;
//! * [`cursor`] is the position of a frame in its stream, for clients that resume, and
//!   [`call_state`] has the ten states of a call;
//! * [`budget_question`] says why a person is asked about a budget;
//! * [`preview`] shortens results and arguments the same way everywhere, [`words`] has the
//!   sentences about running tools, [`partial_json`] parses arguments while they are generated,
//!   [`mod@clean`] removes terminal control sequences from a text, [`visible`] shows invisible
//!   characters as what they are, and [`mod@wire_json`] keeps JSON on one line.
//!
//! Nothing in this crate does I/O, reads a clock or knows a runtime.

#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

pub mod ag_ui;
pub mod ai_sdk;
pub mod answer;
pub mod budget_question;
pub mod call_state;
pub mod callbacks;
pub mod calls;
mod chars;
pub mod chat_completions;
pub mod chat_events;
pub mod chat_stream;
pub mod check;
pub mod clean;
pub mod cursor;
mod earlier;
mod gaps;
pub mod message;
pub mod messages;
pub mod native;
pub mod partial_json;
pub mod preview;
pub mod redaction;
pub mod responses;
pub mod transcript;
mod unescape;
pub mod usage_note;
pub mod visible;
pub mod wire_json;
pub mod words;
pub mod ws_chat;
pub mod ws_message;
pub mod ws_request;

#[cfg(test)]
mod story;

use turnwire_contract::RecordedEvent;

pub use ag_ui::{AgUi, AgUiFrame};
pub use ai_sdk::{AiSdk, AiSdkFrame, UiChunk};
pub use answer::Answer;
pub use budget_question::BudgetQuestion;
pub use call_state::CallState;
pub use callbacks::{CallbackFrame, Callbacks, ToolCallbacks};
pub use calls::{Call, CallBook, CallEvent};
pub use chat_completions::{ChatCompletion, ChatCompletions, CompletionFrame, CompletionOptions};
pub use chat_events::{ChatEvents, ChatFrame};
pub use chat_stream::{ChatAnswer, ChatStream, ChatStreamFrame, ChatStreamOptions};
pub use check::{CheckOptions, Checker};
pub use clean::{Cleaner, clean};
pub use cursor::{Cursor, FrameAt, WithCursors};
pub use message::{Message, MessageState, Stage, ToolBlock};
pub use messages::{MessageFrame, Messages, ToolBlockUpdate};
pub use native::{RunSnapshot, SnapshotFold};
pub use partial_json::{Entry, PartialJson};
pub use redaction::{redacted, without_actors};
pub use responses::{Profile, Response, ResponseEvent, Responses, SequencedEvent};
pub use transcript::{Mark, Totals, Transcript, TranscriptFrame};
pub use wire_json::{wire_json, wire_json_pretty, write_wire_json};
pub use ws_chat::WsChat;
pub use ws_message::{ErrorCode, WsError, WsMessage};
pub use ws_request::{InputAction, WsOptions, WsRequest};

/// Turns the events of one run into the frames of one surface.
///
/// An implementation must be a pure function of the events so far. A projection always starts at
/// the first event, so the numbers of frames never change, and the number of the last frame seen is
/// all that a client needs to resume.
pub trait Projection {
    /// A frame of this surface.
    type Frame;

    /// The frames of the next event: often one, sometimes none or several.
    fn project(&mut self, recorded: &RecordedEvent) -> Vec<Self::Frame>;
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
