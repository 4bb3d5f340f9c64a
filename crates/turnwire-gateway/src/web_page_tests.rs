use axum::{
    body::to_bytes,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use rust_embed::{EmbeddedFile, Metadata};

use super::{PAGE, respond};

fn file(data: &'static str) -> EmbeddedFile {
    let metadata = Metadata::__rust_embed_new([7; 32], None, None);
    EmbeddedFile { data: data.as_bytes().into(), metadata }
}

fn built(name: &str) -> Option<EmbeddedFile> {
    match name {
        "index.html" => Some(file("<!doctype html>")),
        "assets/index-1a2b.js" => Some(file("plain")),
        "assets/index-1a2b.js.gz" => Some(file("packed")),
        _ => None,
    }
}

fn asking(name: HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

fn value(response: &Response, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A9, A10: the page runs no script but its own, and nobody frames it.
#[tokio::test]
async fn the_page_has_a_strict_policy() {
    let response = respond("/", &HeaderMap::new(), built);
    assert_eq!(value(&response, header::CONTENT_SECURITY_POLICY), PAGE.policy);
    assert!(!PAGE.policy.contains("unsafe"));
    assert_eq!(value(&response, header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(value(&response, header::CACHE_CONTROL), "no-cache");
    assert_eq!(value(&response, header::CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(text(response).await, "<!doctype html>");
}

/// Files with a hash in their name are kept; whoever accepts it gets the compressed copy.
#[tokio::test]
async fn assets_are_cached_and_compressed() {
    let path = "/assets/index-1a2b.js";
    let response = respond(path, &asking(header::ACCEPT_ENCODING, "br, gzip"), built);
    assert_eq!(value(&response, header::CONTENT_ENCODING), "gzip");
    assert_eq!(value(&response, header::CACHE_CONTROL), "public, max-age=31536000, immutable");
    assert_eq!(value(&response, header::CONTENT_TYPE), "text/javascript; charset=utf-8");
    assert_eq!(text(response).await, "packed");
    for refuses in ["identity", "gzip;q=0"] {
        let response = respond(path, &asking(header::ACCEPT_ENCODING, refuses), built);
        assert_eq!(value(&response, header::CONTENT_ENCODING), "");
        assert_eq!(text(response).await, "plain");
    }
}

/// A page that did not change is not sent again.
#[tokio::test]
async fn a_known_page_is_not_modified() {
    let tag = "\"07070707070707070707070707070707\"";
    let response = respond("/", &asking(header::IF_NONE_MATCH, tag), built);
    assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(value(&response, header::ETAG), tag);
}

/// Without Node the server says how the page is built, and has no other files.
#[tokio::test]
async fn a_server_without_the_page_says_how_to_build_it() {
    let response = respond("/", &HeaderMap::new(), |_| None);
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(value(&response, header::CONTENT_SECURITY_POLICY), PAGE.policy);
    assert!(text(response).await.contains("npm run build --prefix web"));
    let missing = respond("/assets/index-1a2b.js", &HeaderMap::new(), |_| None);
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}
