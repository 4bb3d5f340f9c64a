use std::time::Duration;

use serde_json::{Value, json};
use turnwire_contract::ModelError;

use super::{Fault, ParsedError, fault_of_status};

/// A secret that no error may contain.
const CANARY: &str = "sk-UPSTREAMSECRET";

/// Returns the class of an error as a word.
fn word(error: &ModelError) -> &'static str {
    match error {
        ModelError::Unavailable { .. } => "unavailable",
        ModelError::RateLimited { .. } => "rate limited",
        ModelError::Overloaded { .. } => "overloaded",
        ModelError::Misconfigured { .. } => "misconfigured",
        ModelError::UnknownModel { .. } => "unknown model",
        ModelError::ContextTooLong { .. } => "too long",
        ModelError::ContentFiltered { .. } => "filtered",
        ModelError::Rejected { .. } => "rejected",
        ModelError::Broken { .. } => "broken",
    }
}

fn retry_after(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. } => *retry_after,
        _ => None,
    }
}

#[test]
fn a_status_alone_says_who_can_repair_it() {
    let meanings: [(&str, &[u16]); 5] = [
        ("rejected", &[400, 422, 418]),
        ("misconfigured", &[301, 307, 401, 402, 403, 404, 405, 407]),
        ("too long", &[413]),
        ("rate limited", &[429]),
        ("unavailable", &[408, 409, 425, 500, 502, 503, 504, 529]),
    ];
    for (expected, statuses) in meanings {
        for status in statuses {
            let Fault { error, provider_text, .. } = fault_of_status(*status, None, "");
            assert_eq!(word(&error), expected, "{status}: {error}");
            assert_eq!(provider_text, None);
        }
    }
    let wait = Some(Duration::from_secs(3));
    for status in [429, 503] {
        assert_eq!(retry_after(&fault_of_status(status, wait, "").error), wait, "{status}");
    }
}

/// Recorded error responses by provider, with status, body and expected class.
fn recorded() -> Vec<(&'static str, u16, Value, &'static str)> {
    let openai = |kind: &str, code: &str, message: &str| json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
    let anthropic = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "r" });
    let llama = |code: u16, kind: &str, message: &str| json!({ "error": { "code": code, "message": message, "type": kind } });
    let vllm = |code: u16, kind: &str, message: &str| json!({ "object": "error", "message": message, "type": kind, "param": null, "code": code });
    let invalid = "invalid_request_error";
    vec![
        ("OpenAI", 429, openai("requests", "rate_limit_exceeded", "slow down"), "rate limited"),
        ("OpenAI", 429, openai("insufficient_quota", "insufficient_quota", "pay"), "misconfigured"),
        ("OpenAI", 401, openai(invalid, "invalid_api_key", "bad key"), "misconfigured"),
        ("OpenAI", 404, openai(invalid, "model_not_found", "no such model"), "unknown model"),
        ("OpenAI", 400, openai(invalid, "context_length_exceeded", "long"), "too long"),
        ("OpenAI", 400, openai(invalid, "invalid_prompt", "against the rules"), "filtered"),
        ("OpenAI", 400, openai(invalid, "unsupported_value", "no temperature"), "rejected"),
        ("OpenAI", 500, openai("server_error", "server_error", "oops"), "unavailable"),
        (
            "Azure",
            400,
            json!({ "error": {
                "message": "filtered", "type": null, "param": "prompt", "code": "content_filter",
                "status": 400, "innererror": { "code": "ResponsibleAIPolicyViolation" },
            } }),
            "filtered",
        ),
        (
            "vLLM",
            400,
            vllm(400, "BadRequestError", "This model's maximum context length is 4096 tokens."),
            "too long",
        ),
        (
            "vLLM 0.16",
            400,
            json!({ "error": {
                "message": "However, the model's context length is only 1024 tokens.",
                "type": "BadRequestError", "param": "input_tokens", "code": 400,
            } }),
            "too long",
        ),
        ("vLLM", 404, vllm(404, "NotFoundError", "The model `x` does not exist."), "unknown model"),
        ("vLLM", 400, vllm(400, "BadRequestError", "max_tokens must be 1 or more"), "rejected"),
        ("vLLM", 500, vllm(500, "InternalServerError", "CUDA"), "unavailable"),
        (
            "llama.cpp",
            400,
            llama(400, "exceed_context_size_error", "the request does not fit"),
            "too long",
        ),
        ("llama.cpp", 500, llama(500, "server_error", "Context size exceeded."), "too long"),
        ("llama.cpp", 503, llama(503, "unavailable_error", "Loading model"), "unavailable"),
        ("llama.cpp", 401, llama(401, "authentication_error", "Invalid API Key"), "misconfigured"),
        ("Ollama", 404, openai("api_error", "", "model 'x' not found"), "unknown model"),
        ("Ollama", 400, openai("api_error", "", "prompt too long; max context length"), "too long"),
        ("Ollama", 500, openai("api_error", "", "llama runner has terminated"), "unavailable"),
        ("Anthropic", 429, anthropic("rate_limit_error", "later"), "rate limited"),
        ("Anthropic", 529, anthropic("overloaded_error", "Overloaded"), "unavailable"),
        ("Anthropic", 401, anthropic("authentication_error", "bad key"), "misconfigured"),
        ("Anthropic", 403, anthropic("permission_error", "not yours"), "misconfigured"),
        ("Anthropic", 400, anthropic(invalid, "prompt is too long: 9 > 8"), "too long"),
        ("Anthropic", 400, anthropic(invalid, "exceed context limit: 9 + 1 > 9"), "too long"),
        ("Anthropic", 400, anthropic(invalid, "blocked by content filtering policy"), "filtered"),
        ("Anthropic", 400, anthropic(invalid, "Your credit balance is too low"), "misconfigured"),
        ("Anthropic", 404, anthropic("not_found_error", "model: x"), "unknown model"),
        ("Anthropic", 413, anthropic("request_too_large", "too many bytes"), "too long"),
        (
            "Google",
            400,
            json!([{ "error": { "code": 400, "message": "API key not valid.",
                "status": "INVALID_ARGUMENT" } }]),
            "misconfigured",
        ),
        (
            "Google",
            429,
            json!([{ "error": { "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED" } }]),
            "rate limited",
        ),
        ("Mistral", 401, json!({ "detail": "Unauthorized" }), "misconfigured"),
        ("DeepSeek", 402, openai("unknown_error", "", "Insufficient Balance"), "misconfigured"),
        (
            "LiteLLM",
            400,
            openai("", "400", "litellm.ContextWindowExceededError: too much"),
            "too long",
        ),
        (
            "TGI",
            422,
            json!({ "error": "`inputs` tokens + `max_new_tokens` must be <= 4096",
                "error_type": "validation" }),
            "too long",
        ),
        ("a proxy", 404, json!({ "detail": "Not Found" }), "misconfigured"),
    ]
}

/// The class of an error does not depend on the provider. A12: the error contains no text of the
/// provider.
#[test]
fn what_a_provider_means_goes_on_and_what_it_says_does_not() {
    for (make, status, body, expected) in recorded() {
        let Fault { error, provider_text, .. } = fault_of_status(status, None, &body.to_string());
        assert_eq!(word(&error), expected, "{make}: {body}");
        assert!(provider_text.is_some(), "{make}: what it said is there for the log: {body}");

        let leaky = body.to_string().replace("\"message\":\"", &format!("\"message\":\"{CANARY} "));
        let Fault { error, .. } = fault_of_status(status, None, &leaky);
        assert_eq!(word(&error), expected, "{make}: {leaky}");
        assert!(!format!("{error:?} {error}").contains(CANARY), "{make}: {error:?}");
    }
}

/// A12: a secret in any field, in any format, is not in the error.
#[test]
fn no_field_of_a_complaint_is_quoted() {
    let shapes = [
        json!({ "error": CANARY }),
        json!({ "error": { "message": CANARY, "type": CANARY, "code": CANARY, "param": CANARY } }),
        json!({ "object": "error", "message": CANARY, "code": CANARY }),
        json!({ "detail": { "anything": CANARY } }),
        json!({ "type": "error", "error": { "type": CANARY } }),
        json!([{ "error": { "status": CANARY } }]),
    ];
    for shape in shapes {
        for status in [400, 401, 404, 429, 500] {
            let Fault { error, .. } = fault_of_status(status, None, &shape.to_string());
            assert!(!format!("{error:?} {error}").contains(CANARY), "{shape}: {error:?}");
        }
        let parsed = ParsedError::in_text(&shape.to_string()).unwrap();
        for Fault { error, .. } in [parsed.in_mid_stream(), parsed.instead_of_answer()] {
            assert!(!format!("{error:?} {error}").contains(CANARY), "{shape}: {error:?}");
        }
    }
}

#[test]
fn pages_and_nonsense_are_no_complaints() {
    for body in ["<html>Bad Gateway</html>", "", "{", "[1]", "null", "[]"] {
        let message = "the provider rejected the request (HTTP 400)".to_owned();
        let fault = Fault::from(ModelError::Rejected { message });
        assert_eq!(fault_of_status(400, None, body), fault, "{body}");
    }
}

#[test]
fn a_long_quotation_is_cut_to_one_short_line() {
    let error = ParsedError::of(json!({ "message": format!("a\n\u{1b}b {}", "ü".repeat(5000)) }));
    let words = error.in_mid_stream().provider_text.unwrap();
    assert!(words.starts_with("a b üü"), "{words}");
    assert_eq!(words.chars().count(), 300 + 1);
}

/// Some providers give the delay only in the text.
#[test]
fn a_waiting_time_is_found_in_the_text() {
    let cases = [
        ("Please try again in 1.5s.", Some(Duration::from_millis(1_500))),
        ("try again in 20 s", Some(Duration::from_secs(20))),
        ("try again in 28ms. Visit", Some(Duration::from_millis(28))),
        ("try again in 6m0s", Some(Duration::from_mins(6))),
        ("try again in a moment", None),
        ("try again in ", None),
        ("try again in 7 fortnights", None),
        ("later", None),
    ];
    for (text, expected) in cases {
        let parsed = json!({ "code": "rate_limit_exceeded", "message": text });
        let error = ParsedError::of(parsed).in_mid_stream().error;
        assert_eq!((word(&error), retry_after(&error)), ("rate limited", expected), "{text}");
    }
}

#[test]
fn an_error_in_mid_stream_has_a_meaning_or_breaks_the_answer() {
    let cases = [
        (json!({ "type": "overloaded_error", "message": "x" }), "unavailable"),
        (json!({ "type": "server_error", "message": "x" }), "unavailable"),
        (json!({ "type": "InternalServerError", "message": "x" }), "unavailable"),
        (json!({ "code": "rate_limit_exceeded", "message": "x" }), "rate limited"),
        (json!({ "code": 429, "message": "x" }), "rate limited"),
        (json!({ "code": "503", "message": "x" }), "unavailable"),
        (json!({ "code": 500 }), "unavailable"),
        (json!({ "code": "context_length_exceeded", "message": "x" }), "too long"),
        (json!({ "code": "invalid_prompt", "message": "x" }), "filtered"),
        (json!({ "type": "invalid_request_error" }), "rejected"),
        (json!(7), "broken"),
        (json!(null), "broken"),
        (json!([]), "broken"),
    ];
    for (parsed, expected) in cases {
        let error = ParsedError::of(parsed.clone()).in_mid_stream().error;
        assert_eq!(word(&error), expected, "{parsed}: {error}");
    }
}
