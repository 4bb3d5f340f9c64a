//! Path parameters.

use axum::{
    extract::{FromRequestParts, Path, RawPathParams},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use crate::{
    api_error::{ApiError, Result},
    app::App,
};

/// Path parameters. A parameter that is not UTF-8 or contains a NUL character cannot name anything,
/// so it gets the same 404 as an unknown path and never reaches the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let names = RawPathParams::from_request_parts(parts, app).await;
        let has_names = names.is_ok_and(|names| names.iter().all(|(_, name)| !name.contains('\0')));
        if !has_names {
            return Err(nothing_here());
        }
        let names = Path::<T>::from_request_parts(parts, app).await;
        names.map(|Path(names)| Self(names)).map_err(|_| nothing_here())
    }
}

/// The error for an unknown path.
pub(crate) fn nothing_here() -> ApiError {
    let message = "There is nothing at this path. See /openapi.json for all paths.";
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}
