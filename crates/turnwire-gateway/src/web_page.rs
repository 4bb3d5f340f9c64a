//! The web view at `/`.
//!
//! `web/` is built with Node into `web/dist`, which this crate embeds. Without Node the folder is
//! empty: everything else works, and `/` says how to build the page. The page needs no API key,
//! because it contains nothing; what it shows comes from the API, with the key of the person.

use std::borrow::Cow;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use rust_embed::{Embed, EmbeddedFile};

use crate::{app::App, fingerprint::hex, path::nothing_here};

/// The files of the page, empty if it was not built.
#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// What the page may do: load its own files and call its own server. It has no inline script or
/// style, shows no image of another origin, and never turns a text into markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/// Names of these files contain a hash of their content.
const HASHED: &str = "assets/";
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
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let Some(file) = find(name) else {
        let is_page = path == "/";
        return if is_page {
            with_security(html(NOT_BUILT))
        } else {
            nothing_here().into_response()
        };
    };
    let tag = tag_of(&file);
    if request.get(header::IF_NONE_MATCH) == Some(&tag) {
        return with_caching(StatusCode::NOT_MODIFIED.into_response(), name, tag);
    }
    let packed = accepts_gzip(request).then(|| find(&format!("{name}.gz"))).flatten();
    let is_packed = packed.is_some();
    let mut response = Response::new(Body::from(bytes_of(packed.unwrap_or(file).data)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    with_caching(with_security(response), name, tag)
}

fn html(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

fn with_security(mut response: Response) -> Response {
    const SECURITY: [(HeaderName, &str); 6] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A file with a hash in its name never changes; the others are asked for again each time.
fn with_caching(mut response: Response, name: &str, tag: HeaderValue) -> Response {
    let lasts =
        if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    response.headers_mut().insert(header::ETAG, tag);
    response
}

fn tag_of(file: &EmbeddedFile) -> HeaderValue {
    let hash = file.metadata.sha256_hash();
    let tag = format!("\"{}\"", hex(hash.get(..16).unwrap_or(&hash)));
    HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let offered = accepted.unwrap_or_default().split(',').map(str::trim);
    offered
        .into_iter()
        .any(|one| one == "gzip" || (one.starts_with("gzip;") && !one.ends_with("q=0")))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn bytes_of(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    }
}

#[cfg(test)]
#[path = "web_page_tests.rs"]
mod tests;
