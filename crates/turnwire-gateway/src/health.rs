//! Liveness, readiness and metrics.
//!
//! A server that shuts down, or whose store does not respond, is alive and must not be killed, but
//! cannot take new runs.

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tracing::error;
use utoipa::ToSchema;

use crate::{ApiError, App, Json, Result, auth::MetricsReader};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// State of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `closing` (the server shuts down), `store_unavailable` (the store does not respond), or
    /// `stuck` (nothing has been executed for five seconds; only at `health_listen`).
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

/// The answer to every probe while nothing is executed.
pub(crate) fn stuck(app: &App) -> (StatusCode, Json<impl Serialize + use<>>) {
    (StatusCode::SERVICE_UNAVAILABLE, Health::of(app, "stuck"))
}

module_routes! { [healthz] [readyz] [metrics] }

/// Check that the server is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    responses((status = 200, description = "The server is alive", body = Health))
)]
async fn healthz(State(app): State<App>) -> Json<Health> {
    Health::of(&app, "ok")
}

/// Check that the server accepts new runs.
#[utoipa::path(
    get,
    path = "/readyz",
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

/// Get the metrics of the server in the Prometheus format.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "The metrics, in the Prometheus format",
        content_type = "application/openmetrics-text"))
)]
async fn metrics(State(app): State<App>, _reader: MetricsReader) -> Result<Response> {
    let text = app.metrics_text().map_err(|cause| {
        error!(%cause, "metrics encoding failed");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, "internal_error", "metrics encoding failed")
    })?;
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS))];
    Ok((content_type, text).into_response())
}
