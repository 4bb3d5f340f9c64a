//! The web view at `/`.
//!
//! `web/` is built with Node into `web/dist`, which this crate embeds. Without Node the folder is
//! empty: everything else works, and `/` says how to build the page. The page needs no API key,
//! because it contains nothing; what it shows comes from the API, with the key of the person.

use axum::{
    Router,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
    routing::get,
};
use rust_embed::{Embed, EmbeddedFile};

use crate::{App, embedded::Folder, path::nothing_here};

/// The files of the page, empty if it was not built.
#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// The page may load its own files and call its own server. It has no inline script or style,
/// shows no image of another origin, and never turns a text into markup.
const PAGE: Folder = Folder {
    policy: "default-src 'none'; script-src 'self'; style-src 'self'; \
        img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    framing: "DENY",
    hashed: Some("assets/"),
};
const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Turnwire</title>\n\
    <h1>Turnwire is running</h1>\n\
    <p>This binary was built without the web view. To have it here, build the page and then the \
    binary:</p>\n\
    <pre>npm ci --prefix web\nnpm run build --prefix web\ncargo build</pre>\n\
    <p>The API is complete: see <a href=\"/openapi.json\">/openapi.json</a>.</p>\n</html>\n";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(page))
        .route("/favicon.svg", get(page))
        .route("/assets/{name}", get(page))
}

async fn page(uri: Uri, headers: HeaderMap) -> Response {
    respond(uri.path(), &headers, Files::get)
}

/// The response for a path, with the files that `find` has.
fn respond(
    path: &str,
    request: &HeaderMap,
    find: impl Fn(&str) -> Option<EmbeddedFile>,
) -> Response {
    let is_page = path == "/";
    let name = if is_page { "index.html" } else { path.trim_start_matches('/') };
    PAGE.respond(name, request, find).unwrap_or_else(|| {
        if is_page { PAGE.html(NOT_BUILT) } else { nothing_here().into_response() }
    })
}

#[cfg(test)]
#[path = "web_page_tests.rs"]
mod tests;
