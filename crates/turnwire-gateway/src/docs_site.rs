//! The documentation at `/docs`, of the same version as the server.
//!
//! `scripts/book embed` builds it into `docs/book`, which this crate embeds. Without mdbook the
//! folder is empty: everything else works, and `/docs` says how to build it. It needs no API key.

use axum::{
    Router,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use rust_embed::{Embed, EmbeddedFile};

use crate::{App, embedded::Folder, path::nothing_here};

/// The files of the site, empty if it was not built. Those that compress well are compressed.
#[derive(Embed)]
#[folder = "../../docs/book"]
#[allow_missing = true]
struct Files;

const ROOT: &str = "/docs/";
/// The pages may run and show what is theirs. Unlike the web view they make markup from texts:
/// from their own table of contents and search index. A browser without scripts shows the table of
/// contents in a frame.
const SITE: Folder = Folder {
    policy: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
        frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    framing: "SAMEORIGIN",
    hashed: None,
};
const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Turnwire</title>\n\
    <h1>The documentation is not here</h1>\n\
    <p>This binary was built without it. To have it here, build the site and then the binary:</p>\n\
    <pre>cargo install --locked mdbook\nscripts/book embed\ncargo build</pre>\n\
    <p>The API is described in <a href=\"/openapi.json\">/openapi.json</a>.</p>\n</html>\n";

pub(crate) fn routes() -> Router<App> {
    // The links of the pages are relative.
    Router::new()
        .route("/docs", get(async || Redirect::permanent(ROOT)))
        .route(ROOT, get(page))
        .route("/docs/{*path}", get(page))
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
    let name = match path.strip_prefix(ROOT).unwrap_or_default() {
        folder if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.html"),
        file => file.to_owned(),
    };
    SITE.respond(&name, request, find).unwrap_or_else(|| {
        if path == ROOT { SITE.html(NOT_BUILT) } else { nothing_here().into_response() }
    })
}

#[cfg(test)]
#[path = "docs_site_tests.rs"]
mod tests;
