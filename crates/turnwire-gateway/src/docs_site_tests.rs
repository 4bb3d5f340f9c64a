use std::io::Write;

use axum::{
    body::to_bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use flate2::{Compression, write::GzEncoder};
use rust_embed::{EmbeddedFile, Metadata};

use super::{SITE, respond};

fn file(data: Vec<u8>) -> EmbeddedFile {
    let metadata = Metadata::__rust_embed_new([7; 32], None, None);
    EmbeddedFile { data: data.into(), metadata }
}

fn packed(text: &str) -> Vec<u8> {
    let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
    packing.write_all(text.as_bytes()).unwrap();
    packing.finish().unwrap()
}

/// Texts are there in compressed form only.
fn built(name: &str) -> Option<EmbeddedFile> {
    match name {
        "index.html.gz" | "decisions/index.html.gz" => Some(file(packed("<!doctype html>"))),
        "events.md.gz" => Some(file(packed("# Events"))),
        "pictures/phone.webp" => Some(file(b"RIFF".to_vec())),
        _ => None,
    }
}

fn get(path: &str) -> Response {
    respond(path, &HeaderMap::new(), built)
}

fn value(response: &Response, name: header::HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn body(response: Response) -> Vec<u8> {
    to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()
}

/// A page, a folder, the Markdown of a page and a picture, to whoever accepts no compression.
#[tokio::test]
async fn pages_and_their_markdown_are_served_in_the_clear() {
    for (path, media_type, content) in [
        ("/docs/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/docs/decisions/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/docs/events.md", "text/markdown; charset=utf-8", "# Events"),
        ("/docs/pictures/phone.webp", "image/webp", "RIFF"),
    ] {
        let response = get(path);
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(value(&response, header::CONTENT_TYPE), media_type, "{path}");
        assert_eq!(value(&response, header::CONTENT_ENCODING), "", "{path}");
        assert_eq!(body(response).await, content.as_bytes(), "{path}");
    }
    assert_eq!(get("/docs/nothing.html").status(), StatusCode::NOT_FOUND);
    assert_eq!(get("/docs/../Cargo.toml").status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_accepts_compressed_pages_gets_them() {
    let asking = [(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))];
    let response = respond("/docs/", &HeaderMap::from_iter(asking), built);
    assert_eq!(value(&response, header::CONTENT_ENCODING), "gzip");
    assert_eq!(body(response).await, packed("<!doctype html>"));
}

/// A9: no script but those of the site runs.
#[test]
fn the_documentation_has_a_strict_policy() {
    let response = get("/docs/");
    assert_eq!(value(&response, header::CONTENT_SECURITY_POLICY), SITE.policy);
    assert!(SITE.policy.contains("script-src 'self';"));
    assert!(!SITE.policy.contains("unsafe"));
}

/// Without mdbook the server says how the documentation is built.
#[tokio::test]
async fn a_server_without_the_documentation_says_how_to_build_it() {
    let response = respond("/docs/", &HeaderMap::new(), |_| None);
    assert_eq!(response.status(), StatusCode::OK);
    let text = String::from_utf8(body(response).await).unwrap();
    assert!(text.contains("scripts/book embed"), "{text}");
    let missing = respond("/docs/events.html", &HeaderMap::new(), |_| None);
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}
