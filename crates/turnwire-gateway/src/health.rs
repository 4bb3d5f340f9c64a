//! Whether this server is alive, and whether it takes work.
//!
//! The two are not the same: a server that is closing is alive and must not be killed, but new
//! work belongs elsewhere. Neither asks who wants to know.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::app::App;

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

fn health(status: &'static str) -> Json<Health> {
    Json(Health { status, version: env!("CARGO_PKG_VERSION") })
}

#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses((status = 200, description = "It is alive", body = Health))
)]
async fn healthz() -> Json<Health> {
    health("ok")
}

#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    responses(
        (status = 200, description = "It takes work", body = Health),
        (status = 503, description = "It is closing", body = Health),
    )
)]
async fn readyz(State(app): State<App>) -> (StatusCode, Json<Health>) {
    if app.closing().is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, health("closing"));
    }
    (StatusCode::OK, health("ok"))
}
