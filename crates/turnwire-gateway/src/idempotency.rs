//! `Idempotency-Key`: retrying a request without starting a second run.
//!
//! A client that does not know whether its request arrived sends it again with the same key, and
//! gets the run that the first one created: its stream from the start, its answer, or the response
//! in its current state. A key is valid for a day, for one tenant and endpoint. A fingerprint
//! identifies the request: SHA-256 of the method, the path and the raw bytes of the body. The query
//! string is not part of it, because it only affects how a run is presented.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, request::Parts},
};
use serde_json::{Value, json};
use turnwire_contract::IdempotencyKey;
use utoipa::IntoParams;

use crate::{ApiError, App, Result, body, fingerprint::fingerprint};

const HEADER: &str = "idempotency-key";
/// Maximum length of a key.
const MAX_KEY: usize = 255;

/// The header, for the OpenAPI document.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
pub(crate) struct IdempotencyKeyHeader {
    /// Unique key chosen by the client, 1 to 255 visible ASCII characters. A retry with the same
    /// key and the same body within 24 hours returns the run of the first request and does not
    /// start another.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

/// A JSON body, and the idempotency key of its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyedBody {
    pub(crate) body: Value,
    pub(crate) key: Option<IdempotencyKey>,
}

impl FromRequest<App> for KeyedBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (bytes, key) = read(request, app).await?;
        Ok(Self { body: body::parse(&bytes, app)?, key })
    }
}

/// The same for a body that may be empty, which is read as an empty object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionalBody(pub(crate) KeyedBody);

impl FromRequest<App> for OptionalBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (bytes, key) = read(request, app).await?;
        let body = if bytes.is_empty() { json!({}) } else { body::parse(&bytes, app)? };
        Ok(Self(KeyedBody { body, key }))
    }
}

async fn read(request: Request, app: &App) -> Result<(Vec<u8>, Option<IdempotencyKey>)> {
    let (parts, sent) = request.into_parts();
    let given = given(&parts.headers)?;
    let bytes = body::read(sent, app).await?;
    let key = given.map(|key| idempotency_key(key, &parts.method, parts.uri.path(), &bytes));
    Ok((bytes, key))
}

/// The idempotency key of a request whose body is empty or not relevant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionalIdempotencyKey(pub(crate) Option<IdempotencyKey>);

impl FromRequestParts<App> for OptionalIdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        let key = given(&parts.headers)?;
        Ok(Self(key.map(|key| idempotency_key(key, &parts.method, parts.uri.path(), &[]))))
    }
}

/// The key in the headers, if there is one.
fn given(headers: &HeaderMap) -> Result<Option<String>> {
    let mut given = headers.get_all(HEADER).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let is_plain =
        |key: &[u8]| (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    let key = key.to_str().ok().filter(|key| is_plain(key.as_bytes()));
    if let Some(key) = key
        && given.next().is_none()
    {
        return Ok(Some(key.to_owned()));
    }
    let message = "`Idempotency-Key` must be one value of 1 to 255 visible ASCII characters.";
    Err(ApiError::bad_request("invalid_idempotency_key", message).about("Idempotency-Key"))
}

fn idempotency_key(key: String, method: &Method, path: &str, body: &[u8]) -> IdempotencyKey {
    let first_line = format!("{method} {path}\n");
    let fingerprint = fingerprint([first_line.as_bytes(), body]);
    IdempotencyKey { endpoint: path.to_owned(), key, fingerprint }
}

#[cfg(test)]
#[path = "idempotency_tests.rs"]
mod tests;
