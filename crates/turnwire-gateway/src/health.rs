//! Whether this server is alive, and whether it takes work.
//!
//! The two are not the same: a server that is closing, or whose store is away, is alive and must
//! not be killed, but new work belongs elsewhere. Neither asks who wants to know, so the store
//! is not asked each time.

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

use crate::{app::App, body::Json};

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// For how long its answer holds.
const HOLDS_FOR: Duration = Duration::from_secs(1);

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `closing`, or `store_unavailable`.
    status: &'static str,
    /// Of which version it is.
    version: &'static str,
    /// By what name it is known among those that share its store.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

impl Health {
    fn of(app: &App, status: &'static str) -> Json<Self> {
        let worker = app.options().worker.clone();
        Json(Self { status, version: env!("CARGO_PKG_VERSION"), worker })
    }
}

/// Whether the store answered, and when it was asked. Whoever wants to know while it is being
/// asked waits for that answer.
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

#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses((status = 200, description = "It is alive", body = Health))
)]
async fn healthz(State(app): State<App>) -> Json<Health> {
    Health::of(&app, "ok")
}

#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    responses(
        (status = 200, description = "It takes work", body = Health),
        (status = 503, description = "It is closing, or its store does not answer", body = Health),
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
