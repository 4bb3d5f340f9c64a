//! `Idempotency-Key`: a request that is sent again is not done again.
//!
//! A client that does not know whether its request arrived sends it once more with the same
//! key, and gets the run that the first one made: its stream from the beginning, its answer, or
//! the response as it is now. A key holds for a day, for one tenant at one endpoint. What it
//! stands for is told by a fingerprint: SHA-256 over the method, the path and the bytes of the
//! body as they came. The address behind the question mark is not part of it, because that says
//! how a run is told and not what it is.

use std::fmt::Write;

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, request::Parts},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use turnwire_contract::RequestKey;
use utoipa::IntoParams;

use crate::{app::App, body, refusal::Refusal};

const HEADER: &str = "idempotency-key";
/// The longest key.
const MAX_KEY: usize = 255;

/// How the key is described.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
pub(crate) struct IdempotencyKey {
    /// A mark of the client's own, by which the request can be sent again without being done
    /// again: whoever sends the same body with the same key within a day gets the same run.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

/// A JSON body, and the key that came with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyedBody {
    pub(crate) body: Value,
    pub(crate) key: Option<RequestKey>,
}

impl FromRequest<App> for KeyedBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (parts, sent) = request.into_parts();
        let given = given(&parts.headers)?;
        let bytes = body::read(sent, app).await?;
        let key = given.map(|key| request_key(key, &parts.method, parts.uri.path(), &bytes));
        Ok(Self { body: body::parse(&bytes, app)?, key })
    }
}

/// The key of a request that has no body, or none that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed(pub(crate) Option<RequestKey>);

impl FromRequestParts<App> for Keyed {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let key = given(&parts.headers)?;
        Ok(Self(key.map(|key| request_key(key, &parts.method, parts.uri.path(), &[]))))
    }
}

/// The key in the headers, if there is one.
fn given(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut given = headers.get_all(HEADER).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let is_plain =
        |key: &[u8]| (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    let key = key.to_str().ok().filter(|key| is_plain(key.as_bytes()));
    match key {
        Some(key) if given.next().is_none() => Ok(Some(key.to_owned())),
        _ => {
            let message = "`Idempotency-Key` must be one value of 1 to 255 visible ASCII \
                           characters.";
            let refusal = Refusal::bad_request("invalid_idempotency_key", message);
            Err(refusal.about("Idempotency-Key"))
        }
    }
}

fn request_key(key: String, method: &Method, path: &str, body: &[u8]) -> RequestKey {
    let mut hash = Sha256::new();
    hash.update(format!("{method} {path}\n"));
    hash.update(body);
    let fingerprint = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    RequestKey { endpoint: path.to_owned(), key, fingerprint }
}

#[cfg(test)]
#[path = "idempotency_tests.rs"]
mod tests;
