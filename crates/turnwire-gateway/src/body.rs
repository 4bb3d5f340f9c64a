//! A body of JSON, read within the limits.

use std::error::Error;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use futures::StreamExt;
use serde_json::Value;
use tower_http::timeout::TimeoutError;

use crate::{app::App, json, refusal::Refusal};

/// A JSON body. Says what is wrong with it in our own words, and never reads more than the
/// limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<App> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = read(request.into_body(), app.options().body_limit).await?;
        Ok(Self(parse(&bytes)?))
    }
}

/// What the bytes of a body say.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    json::read(bytes).map_err(|error| Refusal::bad_request(error.code, error.message))
}

/// The bytes of a body.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut pieces = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| broken(&error))?;
        if bytes.len() + piece.len() > limit {
            let message = format!("The body is bigger than {limit} bytes.");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Why the rest of a body did not come.
fn broken(error: &axum::Error) -> Refusal {
    tracing::debug!(%error, "A body was not read.");
    let first: &(dyn Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |&error| error.source());
    if causes.any(<dyn Error>::is::<TimeoutError>) {
        let message = "The body paused for too long; send it again.";
        return Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message);
    }
    Refusal::bad_request("body_broken", "The body broke off; send it again.")
}
