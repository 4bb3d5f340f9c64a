//! Liveness and readiness.
//!
//! A server that shuts down, or whose store does not respond, is alive and must not be killed, but
//! cannot take new runs. Probes need no API key, so the state of the store is cached.

use std::time::Duration;

use axum::{extract::State, http::StatusCode};
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use turnwire_engine::Runs;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::App, json::Json};

/// Timeout of the check of the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the result of a check is cached.
const HOLDS_FOR: Duration = Duration::from_secs(1);

/// State of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `closing` (the server shuts down), or `store_unavailable` (the store does not
    /// respond).
    status: &'static str,
    /// Version of the server.
    version: &'static str,
    /// Name of this worker among those that share its store. Missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

impl Health {
    fn of(app: &App, status: &'static str) -> Json<Self> {
        let worker = app.options().worker.clone();
        Json(Self { status, version: env!("CARGO_PKG_VERSION"), worker })
    }
}

/// Time and result of the last check of the store. Requests during a check wait for its result.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    async fn of(&self, runs: &Runs) -> bool {
        let mut known = self.0.lock().await;
        if let Some((asked, is_ready)) = *known
            && asked.elapsed() < HOLDS_FOR
        {
            return is_ready;
        }
        let is_ready = timeout(PATIENCE, runs.is_ready()).await.unwrap_or(false);
        *known = Some((Instant::now(), is_ready));
        is_ready
    }
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Check that the server is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses((status = 200, description = "The server is alive", body = Health))
)]
async fn healthz(State(app): State<App>) -> Json<Health> {
    Health::of(&app, "ok")
}

/// Check that the server accepts new runs.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    responses(
        (status = 200, description = "The server accepts new runs", body = Health),
        (status = 503, description = "The server is shutting down, or its store does not respond",
            body = Health),
    )
)]
async fn readyz(State(app): State<App>) -> (StatusCode, Json<Health>) {
    if app.closing().is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Health::of(&app, "closing"));
    }
    if !app.readiness().of(app.runs()).await {
        return (StatusCode::SERVICE_UNAVAILABLE, Health::of(&app, "store_unavailable"));
    }
    (StatusCode::OK, Health::of(&app, "ok"))
}
