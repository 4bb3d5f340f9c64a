//! Runs over HTTP.
//!
//! The gateway moves frames: a request becomes a [`RunRequest`](turnwire_contract::RunRequest),
//! the engine runs it, and the frames of a projection in `turnwire-surfaces` go out as they
//! come. Nothing is decided here that another surface would have to know.
//!
//! Reading order:
//!
//! * [`server`] listens and closes; [`app`] is what every handler works with;
//! * [`door`] answers "who is this" and turns away who should not be here;
//! * [`refusal`] is every answer that is not a success, in OpenAI's shape, [`limits`] how much a
//!   request may bring, and [`json`] what its body may be like;
//! * `admission` counts what is admitted, and says when that is enough;
//! * `starting` is where every run begins, and `idempotency` reads the key by which a request
//!   that is sent again finds its run;
//! * `connection` is what is known of an open connection, and ends those that nobody reads;
//!   `seat` is its place among all of them, which its socket takes along;
//! * [`sse`] writes event streams; [`streaming`] turns a journal into frames and frames into a
//!   stream that can be resumed;
//! * one module per surface: [`responses`], `conversations`, `chat`, `ws_chat`, `runs`
//!   with `run_calls`, `files`, `models`, and [`openapi`], which describes them all.

mod admission;
pub mod app;
mod body;
mod chat;
mod connection;
mod connection_table;
mod conversations;
pub mod door;
mod failed_run;
mod files;
mod health;
mod idempotency;
pub mod json;
pub mod limits;
mod metrics;
mod models;
pub mod openapi;
pub mod page;
mod path;
mod probes;
mod query;
mod range;
pub mod refusal;
pub mod responses;
mod retry;
mod run_calls;
mod runs;
mod seat;
pub mod server;
mod sockets;
pub mod sse;
mod starting;
pub mod streaming;
mod sync;
mod vector_stores;
mod ws_chat;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub use admission::AdmissionLimits;
pub use app::{App, AppOptions};
pub use door::{Caller, Door, DoorOptions};
pub use json::JsonLimits;
pub use limits::RequestLimits;
pub use refusal::Refusal;
pub use server::{HttpLimits, Server, ServerError};

/// Every route of every surface.
fn all_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(responses::routes())
        .merge(conversations::routes())
        .merge(files::routes())
        .merge(vector_stores::routes())
        .merge(models::routes())
        .merge(chat::routes())
        .merge(ws_chat::routes())
        .merge(runs::routes())
        .merge(run_calls::routes())
        .merge(health::routes())
        .merge(metrics::routes())
}

/// Every route, with the document that describes them.
fn routes() -> Router<App> {
    let (routes, document) = openapi::described(all_routes());
    routes.merge(openapi::route(document))
}
