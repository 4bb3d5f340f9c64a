use std::time::Duration;

use serde_json::json;
use turnwire_contract::ModelError;

use super::{Complaint, error_of_status};

fn rejected(message: &str) -> ModelError {
    ModelError::Rejected { message: message.to_owned() }
}

#[test]
fn a_status_says_whether_to_ask_again() {
    for status in [400, 401, 403, 404, 405, 413, 422, 307] {
        let error = error_of_status(status, None, "");
        assert!(matches!(error, ModelError::Rejected { .. }), "{status}: {error}");
    }
    for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
        let error = error_of_status(status, Some(Duration::from_secs(3)), "");
        let ModelError::Unavailable { retry_after, .. } = error else {
            panic!("{status}: {error}");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(3)));
    }
}

#[test]
fn the_provider_is_quoted() {
    let shapes = [
        json!({ "error": { "message": "No such model.", "type": "x", "code": null } }),
        json!({ "error": "No such model." }),
        json!({ "object": "error", "message": "No such model.", "code": 404 }),
        json!({ "type": "error", "error": { "type": "not_found_error", "message": "No such model." } }),
        json!({ "detail": "No such model." }),
    ];
    for shape in shapes {
        assert_eq!(
            error_of_status(404, None, &shape.to_string()),
            rejected("the provider knows no such address or model (HTTP 404): No such model."),
            "{shape}"
        );
    }
}

#[test]
fn pages_and_nonsense_are_not_quoted() {
    for body in ["<html>Bad Gateway</html>", "", "{", "[1]", "null"] {
        assert_eq!(
            error_of_status(400, None, body),
            rejected("the provider did not accept the request (HTTP 400)")
        );
    }
}

#[test]
fn a_long_quotation_is_cut_to_one_short_line() {
    let error = Complaint::of(json!({ "message": format!("a\n\u{1b}b {}", "ü".repeat(5000)) }));
    let sentence = error.sentence("no");
    assert!(sentence.starts_with("no: a b üü"), "{sentence}");
    assert_eq!(sentence.chars().count(), "no: ".len() + 300 + 1);
}

#[test]
fn an_error_in_mid_stream_passes_or_not() {
    for kind in ["overloaded_error", "rate_limit_exceeded", "server_error", "InternalServerError"] {
        let error = Complaint::of(json!({ "type": kind, "message": "x" })).in_mid_stream();
        assert!(matches!(error, ModelError::Unavailable { .. }), "{kind}: {error}");
    }
    for code in [json!(429), json!("503"), json!(500)] {
        let error = Complaint::of(json!({ "code": code, "message": "x" })).in_mid_stream();
        assert!(matches!(error, ModelError::Unavailable { .. }), "{code}: {error}");
    }
    for odd in [json!({ "type": "invalid_request_error" }), json!(7), json!(null), json!([])] {
        let error = Complaint::of(odd.clone()).in_mid_stream();
        assert!(matches!(error, ModelError::Broken { .. }), "{odd}: {error}");
    }
}
