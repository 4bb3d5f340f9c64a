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

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::app::App;

pub(crate) use create::{CreateOptions, create_once};
pub(crate) use output::{ProfileParams, profile};
pub(crate) use prepare::{choose_tools, model_for};

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
