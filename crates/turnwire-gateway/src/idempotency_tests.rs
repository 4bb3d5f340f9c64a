use axum::http::{HeaderMap, HeaderValue, Method};

use super::{given, idempotency_key};

fn headers(values: &[&[u8]]) -> HeaderMap {
    let values = values.iter().map(|value| HeaderValue::from_bytes(value).unwrap());
    values.map(|value| (super::HEADER.parse().unwrap(), value)).collect()
}

/// C9, A13: valid and invalid keys, at the limit and one past it.
#[test]
fn keys_are_visible_and_not_too_long() {
    assert_eq!(given(&headers(&[])), Ok(None));
    let longest = "k".repeat(255);
    for key in ["k", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", &longest] {
        assert_eq!(given(&headers(&[key.as_bytes()])), Ok(Some(key.to_owned())));
    }
    let too_long = "k".repeat(256);
    let wrong: [&[&[u8]]; 5] =
        [&[b""], &[b"a b"], &[&[0xe9]], &[too_long.as_bytes()], &[b"one", b"two"]];
    for values in wrong {
        let error = given(&headers(values)).unwrap_err();
        assert_eq!((error.status.as_u16(), error.code), (400, "invalid_idempotency_key"));
    }
}

/// C9: method, path and body all change the fingerprint.
#[test]
fn the_fingerprint_is_of_method_path_and_body() {
    let of = |method, path, body: &str| {
        idempotency_key("k".to_owned(), &method, path, body.as_bytes()).fingerprint
    };
    let first = of(Method::POST, "/chat", "{}");
    assert_eq!(first.len(), 64);
    assert_eq!(first, of(Method::POST, "/chat", "{}"));
    assert_ne!(first, of(Method::PUT, "/chat", "{}"));
    assert_ne!(first, of(Method::POST, "/chat/stream", "{}"));
    assert_ne!(first, of(Method::POST, "/chat", "{ }"));
}
