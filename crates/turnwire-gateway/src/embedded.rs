//! Files that are embedded in the binary, as HTTP responses.
//!
//! A file may be there as it is, compressed beside it, or only compressed. Clients get what they
//! accept: whoever does not accept gzip gets an unpacked copy.

use std::{borrow::Cow, io::Read};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flate2::read::GzDecoder;
use rust_embed::EmbeddedFile;

/// How a folder of files is served.
pub(crate) struct Folder {
    /// What the pages may do, as a content security policy.
    pub(crate) policy: &'static str,
    /// Who may show the pages in a frame, as the older header says it.
    pub(crate) framing: &'static str,
    /// Beginning of the names that contain a hash of the content, which never changes then.
    pub(crate) hashed: Option<&'static str>,
}

impl Folder {
    /// The response with the file `name`, if `find` has it.
    pub(crate) fn respond(
        &self,
        name: &str,
        request: &HeaderMap,
        find: impl Fn(&str) -> Option<EmbeddedFile>,
    ) -> Option<Response> {
        let (plain, packed) = (find(name), find(&format!("{name}.gz")));
        let tag = tag_of(plain.as_ref().or(packed.as_ref())?);
        if request.get(header::IF_NONE_MATCH) == Some(&tag) {
            return Some(self.with_caching(StatusCode::NOT_MODIFIED.into_response(), name, tag));
        }
        let (body, is_packed) = match (plain, packed) {
            (_, Some(packed)) if accepts_gzip(request) => (bytes_of(packed.data), true),
            (Some(plain), _) => (bytes_of(plain.data), false),
            (None, packed) => (unpacked(&packed?.data)?, false),
        };
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if is_packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Some(self.with_caching(self.with_security(response), name, tag))
    }

    /// A page that is made here.
    pub(crate) fn html(&self, text: &'static str) -> Response {
        let content_type = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        self.with_security((content_type, text).into_response())
    }

    fn with_security(&self, mut response: Response) -> Response {
        let security = [
            (header::CONTENT_SECURITY_POLICY, self.policy),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, self.framing),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        for (name, value) in security {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    /// A file with a hash in its name never changes; the others are asked for again each time.
    fn with_caching(&self, mut response: Response, name: &str, tag: HeaderValue) -> Response {
        let is_hashed = self.hashed.is_some_and(|hashed| name.starts_with(hashed));
        let lasts = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
        response.headers_mut().insert(header::ETAG, tag);
        response
    }
}

fn tag_of(file: &EmbeddedFile) -> HeaderValue {
    let hash = file.metadata.sha256_hash();
    let tag = format!("\"{}\"", hex::encode(hash.get(..16).unwrap_or(&hash)));
    HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let offered = accepted.unwrap_or_default().split(',').map(str::trim);
    offered
        .into_iter()
        .any(|one| one == "gzip" || (one.starts_with("gzip;") && !one.ends_with("q=0")))
}

fn unpacked(data: &[u8]) -> Option<Bytes> {
    let mut text = Vec::new();
    GzDecoder::new(data).read_to_end(&mut text).ok()?;
    Some(text.into())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("md") => "text/markdown; charset=utf-8",
        Some("txt" | "tsv" | "toml") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webp") => "image/webp",
        _ => "application/octet-stream",
    }
}

fn bytes_of(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    }
}
