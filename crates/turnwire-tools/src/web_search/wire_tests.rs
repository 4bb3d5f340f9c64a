//! Requests to and responses of each search engine, as documented by its vendor.

use std::time::Duration;

use serde_json::{Value, json};
use turnwire_contract::ToolError;
use turnwire_testkit::{Reply, StubServer, stub_server::Asked};

use super::{
    brave::Brave,
    engine::{Hit, SearchEngine, SearchQuery},
    searxng::{NO_JSON, Searxng},
    tavily::Tavily,
};
use crate::Secret;

const SOON: Duration = Duration::from_secs(5);

fn question(text: &str) -> SearchQuery {
    SearchQuery {
        text: text.to_owned(),
        most: 8,
        domains: vec!["rust-lang.org".to_owned()],
        country: Some("DE".to_owned()),
    }
}

fn hit(url: &str, title: &str, snippet: &str) -> Hit {
    Hit::new(url, Some(title), Some(snippet)).unwrap()
}

fn searxng(server: &StubServer) -> Searxng {
    Searxng::new(&server.uri(), SOON).unwrap()
}

fn brave(server: &StubServer) -> Brave {
    Brave::new(&format!("{}/res/v1", server.uri()), Secret::new("BSA-key"), SOON).unwrap()
}

fn tavily(server: &StubServer) -> Tavily {
    Tavily::new(&server.uri(), Secret::new("tvly-key"), SOON).unwrap()
}

async fn answering(status: u16, body: Value) -> StubServer {
    StubServer::answering(Reply::new(status).json(&body)).await
}

fn parameter(asked: &Asked, name: &str) -> String {
    asked.parameter(name).unwrap_or_else(|| panic!("no {name} in {}", asked.uri))
}

#[tokio::test]
async fn searxng_is_asked_for_json() {
    let body = json!({
        "query": "rust streams",
        "number_of_results": 0,
        "results": [{
            "url": "https://doc.rust-lang.org/book/",
            "title": "The Book",
            "content": "Streams in Rust.",
            "engine": "duckduckgo",
            "parsed_url": ["https", "doc.rust-lang.org", "/book/", "", "", ""],
            "template": "default.html",
            "engines": ["duckduckgo", "brave"],
            "positions": [1, 2],
            "score": 3.0,
            "category": "general",
            "publishedDate": null,
        }],
        "answers": [], "corrections": [], "infoboxes": [], "suggestions": [],
        "unresponsive_engines": [["google", "timeout"]],
    });
    let server = answering(200, body).await;
    let found = searxng(&server).find(&question("rust streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/book/", "The Book", "Streams in Rust.")]);
    let asked = server.only_request();
    assert!(asked.is("GET", "/search"), "{asked:?}");
    assert_eq!(parameter(&asked, "q"), "rust streams");
    assert_eq!(parameter(&asked, "format"), "json");
}

#[tokio::test]
async fn brave_is_asked_with_its_token() {
    let body = json!({
        "type": "search",
        "query": { "original": "rust streams", "more_results_available": true },
        "mixed": { "type": "mixed", "main": [{ "type": "web", "index": 0, "all": false }] },
        "web": { "type": "search", "family_friendly": true, "results": [{
            "title": "Streams &amp; <strong>Rust</strong>",
            "url": "https://doc.rust-lang.org/",
            "is_source_local": false,
            "description": "It&#x27;s about <strong>streams</strong>.",
            "page_age": "2026-01-15T00:00:00",
            "profile": { "name": "Rust", "url": "https://doc.rust-lang.org/" },
            "language": "en",
            "type": "search_result",
            "subtype": "generic",
            "meta_url": { "scheme": "https", "netloc": "doc.rust-lang.org" },
            "extra_snippets": ["More."],
        }] },
    });
    let server = answering(200, body).await;
    let found = brave(&server).find(&question("rust  streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/", "Streams & Rust", "It's about streams.")]);
    let asked = server.only_request();
    assert!(asked.is("GET", "/res/v1/web/search"), "{asked:?}");
    assert_eq!(asked.header("x-subscription-token"), Some("BSA-key"));
    assert_eq!(asked.header("accept"), Some("application/json"));
    let expected =
        [("q", "rust streams"), ("count", "8"), ("country", "DE"), ("text_decorations", "false")];
    assert_eq!(expected.map(|(name, _)| parameter(&asked, name)), expected.map(|(_, value)| value));
}

/// Brave accepts at most 50 words and 400 characters, and answers 422 to more.
#[tokio::test]
async fn brave_is_not_asked_too_long_questions() {
    let server = answering(200, json!({ "type": "search", "query": { "original": "x" } })).await;
    let found = brave(&server).find(&question(&"word ".repeat(90))).await.unwrap();
    assert_eq!(found, [], "an answer without pages");
    assert_eq!(parameter(&server.only_request(), "q").split(' ').count(), 50);
}

#[tokio::test]
async fn tavily_is_asked_with_its_key() {
    let body = json!({
        "query": "rust streams",
        "follow_up_questions": null,
        "answer": null,
        "images": [],
        "results": [{
            "url": "https://doc.rust-lang.org/",
            "title": "Rust",
            "content": "All about it.",
            "score": 0.92,
            "raw_content": null,
        }],
        "response_time": 1.09,
        "request_id": "123e4567-e89b-12d3-a456-426614174111",
    });
    let server = answering(200, body).await;
    let found = tavily(&server).find(&question("rust streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/", "Rust", "All about it.")]);
    let asked = server.only_request();
    assert!(asked.is("POST", "/search"), "{asked:?}");
    assert_eq!(asked.header("authorization"), Some("Bearer tvly-key"));
    let expected = json!({
        "query": "rust streams",
        "max_results": 8,
        "include_domains": ["rust-lang.org"],
    });
    assert_eq!(asked.json(), expected);
}

/// The tool call is retried only after a temporary error.
#[tokio::test]
async fn each_engine_tells_passing_trouble_from_the_other() {
    let key = "its operator has to check the variable that `api_key_env` names";
    let invalid = json!({ "type": "ErrorResponse", "error": {
        "id": "1", "status": 422, "code": "SUBSCRIPTION_TOKEN_INVALID",
        "detail": "The provided subscription token is invalid." } });
    let unauthorized =
        json!({ "detail": { "error": "Unauthorized: missing or invalid API key." } });
    let busy = |status: u16| format!("the search engine answered with status {status}");
    for status in [429, 500, 503] {
        let server = answering(status, json!({})).await;
        let engines: [Box<dyn SearchEngine>; 3] =
            [Box::new(searxng(&server)), Box::new(brave(&server)), Box::new(tavily(&server))];
        for engine in engines {
            let failed = engine.find(&question("x")).await;
            assert_eq!(failed, Err(ToolError::Transient(busy(status))));
        }
    }
    let server = answering(422, invalid).await;
    let failed = brave(&server).find(&question("x")).await.unwrap_err().to_string();
    assert!(failed.contains("(422)") && failed.ends_with(key), "{failed}");
    let server = answering(401, unauthorized).await;
    let failed = tavily(&server).find(&question("x")).await.unwrap_err().to_string();
    assert!(failed.contains("(401)") && failed.ends_with(key), "{failed}");
    let server = answering(432, json!({ "detail": { "error": "plan limit" } })).await;
    let Err(ToolError::Failed(failed)) = tavily(&server).find(&question("x")).await else {
        panic!("it worked");
    };
    assert!(failed.contains("used up (432)"), "{failed}");
    let server = answering(403, json!({})).await;
    let failed = searxng(&server).find(&question("x")).await;
    assert_eq!(failed, Err(ToolError::failed(NO_JSON)));
}

/// A12: keys are in no error message and in no log.
#[test]
fn keys_are_not_shown() {
    let engine = Brave::new("http://s", Secret::new("BSA-key"), SOON).unwrap();
    assert!(!format!("{engine:?}").contains("BSA-key"));
}
