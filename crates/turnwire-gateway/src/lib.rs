//! The HTTP gateway.
//!
//! The gateway turns a request into a [`RunRequest`](turnwire_contract::RunRequest), passes it to
//! the engine, and sends the frames of a projection in `turnwire-surfaces` to the client. Logic
//! that every surface needs is not here; it is in the engine or in `turnwire-surfaces`.
//!
//! Reading order:
//!
//! * [`server`] listens and shuts down; [`app`] is the state that every handler gets;
//! * [`auth`] authenticates callers and checks `Host` and `Origin`;
//! * [`api_error`] is every error response, in OpenAI's format; [`limits`] bounds the size of a
//!   request, and [`json`] the shape of its body; `fields` reads the fields of an object and knows
//!   the path of each, and `field_tracker` which of them nobody has read;
//! * `health` answers probes, with `readiness` and `metrics`;
//! * `admission` limits the runs and connections that are open at once;
//! * `answers` passes on the answers of people; `admin_keys` manages API keys; `usage` shows quotas;
//!   `webhooks` lists what is sent to receivers; `audit` records who did what; `access_log` logs requests;
//! * `start_run` starts every run, and `idempotency` reads the `Idempotency-Key` by which a
//!   repeated request finds its run;
//! * `connection` tracks one open connection and drops responses that the client does not read;
//!   `connection_permit` is its share of the connection limit, which a WebSocket keeps;
//! * [`sse`] writes event streams; [`streaming`] projects a journal into frames and serves them as
//!   a stream that can be resumed;
//! * one module per surface: [`responses`], `chat_completions`, `conversations`, `chat`, `ws_chat`,
//!   `ai_sdk`, `ag_ui`, `runs` with `run_calls` and `durable_stream`, `files`, `vector_stores`,
//!   `models`, and [`openapi`], which describes them all;
//! * [`reload`] takes requests to read the settings again, which `admin_reload` answers;
//! * `web_page` serves the web view, which uses them.

/// Writes the `routes` of a module: each pair of brackets has the handlers of one path.
macro_rules! module_routes {
    ($([$($handlers:tt)+])+) => {
        pub(crate) fn routes() -> utoipa_axum::router::OpenApiRouter<crate::App> {
            utoipa_axum::router::OpenApiRouter::new()
                $(.routes(utoipa_axum::routes!($($handlers)+)))+
        }
    };
}

mod access_log;
mod admin;
mod admin_keys;
mod admin_reload;
mod admission;
mod ag_ui;
mod ai_sdk;
mod answers;
pub mod api_error;
pub mod app;
mod audit;
pub mod auth;
mod body;
mod chat;
mod chat_completions;
mod chat_message;
mod client_error;
mod client_tools;
mod connection;
mod connection_permit;
mod connection_table;
mod conversations;
mod docs_site;
mod durable_stream;
mod embedded;
mod failed_run;
mod field_tracker;
mod fields;
mod files;
mod fingerprint;
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod idempotency;
pub mod json;
pub mod limits;
mod mcp_servers;
mod metrics;
mod models;
pub mod openapi;
pub mod page;
mod path;
mod probes;
mod query;
mod quota_headers;
mod range;
mod readiness;
pub mod reload;
pub mod responses;
mod retry;
mod run_calls;
mod run_list;
mod runs;
pub mod server;
mod shares;
pub mod sse;
mod start_run;
pub mod streaming;
mod sync;
mod usage;
mod vector_stores;
mod web_page;
mod webhooks;
mod websocket;
mod ws_chat;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub use admission::AdmissionLimits;
pub use api_error::ApiError;
pub use app::{App, AppOptions, AuditLevel, Webhooks};
pub use audit::content_hash;
pub use auth::{Auth, AuthOptions, Caller, NewApiKey};
pub use json::JsonLimits;
pub use limits::{HttpLimits, RequestLimits};
pub use reload::{ReloadCall, ReloadCalls, ReloadRefused, ReloadReport};
pub use server::{Server, ServerError};

// What most handlers use.
pub(crate) use api_error::{OrNotFound, Result};
pub(crate) use body::{JsonBody, typed};
pub(crate) use json::Json;
pub(crate) use path::PathParams;
pub(crate) use query::QueryParams;

/// The routes of all surfaces.
fn all_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(responses::routes())
        .merge(chat_completions::routes())
        .merge(conversations::routes())
        .merge(files::routes())
        .merge(vector_stores::routes())
        .merge(models::routes())
        .merge(chat::routes())
        .merge(ws_chat::routes())
        .merge(ai_sdk::routes())
        .merge(ag_ui::routes())
        .merge(run_list::routes())
        .merge(runs::routes())
        .merge(shares::routes())
        .merge(mcp_servers::routes())
        .merge(durable_stream::routes())
        .merge(run_calls::routes())
        .merge(admin_keys::routes())
        .merge(usage::routes())
        .merge(webhooks::routes())
        .merge(audit::routes())
        .merge(admin_reload::routes())
        .merge(health::routes())
}

/// All routes, including `/openapi.json`, the web view and the documentation.
fn routes() -> Router<App> {
    let (routes, document) = openapi::described(all_routes());
    let pages = web_page::routes().merge(docs_site::routes());
    routes.merge(openapi::route(&document)).merge(pages)
}
