//! The names in the path of a request.

use axum::{
    extract::{FromRequestParts, Path, RawPathParams},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use crate::{app::App, refusal::Refusal};

/// The names in a path. A name that nothing can have, because it is not UTF-8 or has a NUL
/// character in it, names nothing: the answer is that of any other path where nothing is, whatever
/// the store behind it makes of such a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for PathParams<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let names = RawPathParams::from_request_parts(parts, app).await;
        let has_names = names.is_ok_and(|names| names.iter().all(|(_, name)| !name.contains('\0')));
        if !has_names {
            return Err(nothing_here());
        }
        let names = Path::<T>::from_request_parts(parts, app).await;
        names.map(|Path(names)| Self(names)).map_err(|_| nothing_here())
    }
}

/// The answer at a path where nothing is.
pub(crate) fn nothing_here() -> Refusal {
    let message = "There is nothing at this path. See /openapi.json for what there is.";
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
}
