//! The Responses API over HTTP and WebSocket.
//!
//! `request` reads a request, `prepare` looks up what it refers to, and a run is started. The
//! output is always the projection of its journal: as a stream (`create`), as one object with the
//! final state of the stream, or as messages on a `socket` (through its `outbox`). `stored` has the
//! operations on existing responses, `compact` summarizes a conversation.

mod compact;
mod create;
mod outbox;
mod output;
mod prepare;
pub(crate) mod references;
pub mod request;
mod socket;
mod stored;

pub(crate) use create::{CreateOptions, create_once};
pub(crate) use output::{ProfileParams, profile};
pub(crate) use prepare::{choose_tools, model_for};

module_routes! {
    [create::create, socket::connect]
    [stored::retrieve, stored::delete]
    [stored::cancel]
    [stored::input_items]
    [compact::compact]
    [compact::input_tokens]
}
