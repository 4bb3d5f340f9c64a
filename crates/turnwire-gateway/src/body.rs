//! Bodies of JSON: read within the limits, and written so that nobody takes them for several
//! lines.

use std::{error::Error, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;
use tower_http::timeout::TimeoutError;
use turnwire_surfaces::wire_json;

use crate::{app::App, json, refusal::Refusal, responses::request::ClientError};

/// A JSON body. Says what is wrong with it in our own words, and never reads more than the
/// limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<App> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = read(request.into_body(), app).await?;
        Ok(Self(parse(&bytes, app)?))
    }
}

/// A JSON answer. Unlike axum's own, it escapes the line ends that JSON leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], wire_json(&self.0)).into_response()
    }
}

/// A body as a `T`. What must be there is left to `T`'s owner, who can name it: every field of
/// `T` is optional.
pub(crate) fn typed<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    if !body.is_object() {
        return Err(Refusal::bad_request("invalid_type", "The body must be a JSON object."));
    }
    serde_path_to_error::deserialize(body).map_err(|error| {
        let path = error.path().to_string();
        if let Some(refused) = unknown_field(&path, &error.inner().to_string()) {
            return refused.into();
        }
        // The cause repeats what the client sent, however long it is.
        let message = format!("`{path}` is not of the right type. See /openapi.json for it.");
        Refusal::bad_request("invalid_type", message).about(path)
    })
}

/// What is wrong if the deserializer met a field that nobody knows: it says so in these words,
/// with the fields that are known.
fn unknown_field(path: &str, message: &str) -> Option<ClientError> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let parent = path.strip_suffix(name).map_or(path, |parent| parent.trim_end_matches('.'));
    let known = rest.split('`').skip(1).step_by(2);
    Some(ClientError::unknown(parent, name, known))
}

/// What the bytes of a body say.
pub(crate) fn parse(bytes: &[u8], app: &App) -> Result<Value, Refusal> {
    let limits = &app.options().requests.json;
    json::read(bytes, limits).map_err(|error| Refusal::bad_request(error.code, error.message))
}

/// The bytes of a body, if they come in time.
pub(crate) async fn read(body: Body, app: &App) -> Result<Vec<u8>, Refusal> {
    let (limit, time) = (app.options().body_limit, app.options().requests.body_time);
    in_time(time, "limits.body_timeout_sec", read_up_to(body, limit)).await
}

/// What comes of `reading`, unless it takes longer than `time`, which `limit` sets.
pub(crate) async fn in_time<T>(
    time: Duration,
    limit: &'static str,
    reading: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    timeout(time, reading).await.unwrap_or_else(|_| {
        let message = "The body took too long; send it faster, or less of it.";
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message).limited_by(limit))
    })
}

async fn read_up_to(body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
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
        let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message);
        return refusal.limited_by("limits.body_idle_timeout_sec");
    }
    Refusal::bad_request("body_broken", "The body broke off; send it again.")
}
