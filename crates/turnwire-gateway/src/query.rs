//! What stands behind the question mark of an address, within the types that a handler asks for.

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use crate::{app::App, refusal::Refusal};

/// What a client asks for in the address. Unlike axum's own [`Query`], it refuses in the shape
/// that every other refusal has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let asked = Query::<T>::from_request_parts(parts, app).await;
        asked.map(|Query(wish)| Self(wish)).map_err(|error| {
            Refusal::bad_request("invalid_value", format!("{}.", error.body_text()))
        })
    }
}
