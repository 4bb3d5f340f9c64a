//! What is counted, and `GET /metrics`, where it is told in the words of Prometheus.

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tracing::error;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::App, door::Caller, refusal::Refusal};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    ws_messages: Family<Way, Counter>,
    ws_bytes: Family<Way, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    direction: &'static str,
}

/// Which way a message of the chat socket goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client.
    Received,
    /// To the client.
    Sent,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("turnwire");
        let ws_messages = Family::default();
        let ws_bytes = Family::new_with_constructor(sizes as fn() -> Histogram);
        registry.register("ws_messages", "Messages on /ws/chat", ws_messages.clone());
        registry.register("ws_message_bytes", "Their sizes", ws_bytes.clone());
        Self { registry, ws_messages, ws_bytes }
    }
}

/// From 64 bytes to 1 MiB.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(64.0, 4.0, 8))
}

impl Metrics {
    /// Counts a message of the chat socket.
    pub(crate) fn ws_message(&self, direction: Direction, bytes: usize) {
        let direction = match direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
        };
        let way = Way { direction };
        self.ws_messages.get_or_create(&way).inc();
        #[expect(clippy::cast_precision_loss, reason = "a size this big is big either way")]
        self.ws_bytes.get_or_create(&way).observe(bytes as f64);
    }
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(metrics))
}

#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    responses((status = 200, description = "What was counted", content_type = "text/plain"))
)]
async fn metrics(State(app): State<App>, _caller: Caller) -> Result<Response, Refusal> {
    let mut text = String::new();
    encode(&mut text, &app.metrics().registry).map_err(|cause| {
        error!(%cause, "The metrics could not be written.");
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        Refusal::new(status, "internal_error", "The metrics could not be written.")
    })?;
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS))];
    Ok((content_type, text).into_response())
}
