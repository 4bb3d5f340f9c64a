//! JSON bodies: reading them within the limits, and writing them with escaped line separators.

use std::{error::Error, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tower_http::timeout::TimeoutError;

use crate::{
    api_error::{ApiError, Result},
    app::App,
    client_error::ClientError,
    json,
};

/// A JSON request body. Never reads more than the limit, and reports errors as [`ApiError`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<App> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let bytes = read(request.into_body(), app).await?;
        Ok(Self(parse(&bytes, app)?))
    }
}

/// Deserializes a body into a `T`. All fields of `T` are optional; its owner checks which are
/// required and reports missing ones by name.
pub(crate) fn typed<T: DeserializeOwned>(body: Value) -> Result<T> {
    if !body.is_object() {
        return Err(ApiError::bad_request("invalid_type", "The body must be a JSON object."));
    }
    serde_path_to_error::deserialize(body).map_err(|error| {
        let path = error.path().to_string();
        if let Some(refused) = unknown_field(&path, &error.inner().to_string()) {
            return refused.into();
        }
        // The cause is not included because it repeats what the client sent, whatever its length.
        let message = format!("`{path}` is not of the right type. See /openapi.json for it.");
        ApiError::bad_request("invalid_type", message).about(path)
    })
}

/// The error for an unknown field. It is recognised by the deserializer's message, which also lists
/// the known fields.
fn unknown_field(path: &str, message: &str) -> Option<ClientError> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let parent = path.strip_suffix(name).map_or(path, |parent| parent.trim_end_matches('.'));
    let known = rest.split('`').skip(1).step_by(2);
    Some(ClientError::unknown(parent, name, known))
}

/// Parses the bytes of a body.
pub(crate) fn parse(bytes: &[u8], app: &App) -> Result<Value> {
    let options = app.options();
    let read = json::read(bytes, &options.requests.json);
    read.map_err(|error| ApiError::bad_request(error.code, error.message))
}

/// Reads the bytes of a body within the size and time limits.
pub(crate) async fn read(body: Body, app: &App) -> Result<Vec<u8>> {
    let (limit, time) = (app.options().body_limit, app.options().requests.body_time);
    in_time(time, "limits.body_timeout_sec", read_up_to(body, limit)).await
}

/// Awaits `reading` for at most `time`. `limit` is the setting of that time.
pub(crate) async fn in_time<T>(
    time: Duration,
    limit: &'static str,
    reading: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(time, reading).await.unwrap_or_else(|_| {
        let message = "The request body was not received in time.";
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message).limited_by(limit))
    })
}

async fn read_up_to(body: Body, limit: usize) -> Result<Vec<u8>> {
    let mut pieces = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| broken(&error))?;
        if bytes.len() + piece.len() > limit {
            let message = format!("The body is bigger than {limit} bytes.");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The error for a body that could not be read to its end.
fn broken(error: &axum::Error) -> ApiError {
    tracing::debug!(%error, "request body not read");
    let first: &(dyn Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |&error| error.source());
    if causes.any(<dyn Error>::is::<TimeoutError>) {
        let message = "No part of the request body was received for too long. Send it again.";
        let error = ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message);
        return error.limited_by("limits.body_idle_timeout_sec");
    }
    ApiError::bad_request(
        "body_broken",
        "The connection closed before the request body was complete. Send it again.",
    )
}
