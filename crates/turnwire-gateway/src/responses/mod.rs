//! The Responses surface over HTTP and over a WebSocket.
//!
//! `request` reads what a client sends, `prepare` looks up what it names, and a run begins.
//! What comes back is always the projection of its journal: as a stream (`create`), as the one
//! object that the stream adds up to, or piece by piece over a `socket` (through its `outbox`).
//! `stored` has what can be done with a response later, `compact` makes a conversation shorter.

mod compact;
mod create;
mod outbox;
mod prepare;
pub mod request;
mod socket;
mod stored;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::app::App;

pub(crate) use prepare::look_up;

/// The routes of this surface.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create::create, socket::connect))
        .routes(routes!(stored::retrieve, stored::delete))
        .routes(routes!(stored::cancel))
        .routes(routes!(stored::input_items))
        .routes(routes!(compact::compact))
        .routes(routes!(compact::input_tokens))
}
