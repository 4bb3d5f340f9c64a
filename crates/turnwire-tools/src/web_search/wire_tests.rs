//! Requests to and responses of each search engine, as documented by its vendor.

use std::time::Duration;

use serde_json::{Value, json};
use turnwire_contract::ToolError;
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{body_json, header, method, path, query_param},
};

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

fn searxng(server: &MockServer) -> Searxng {
    Searxng::new(&server.uri(), SOON).unwrap()
}

fn brave(server: &MockServer) -> Brave {
    Brave::new(&format!("{}/res/v1", server.uri()), Secret::new("BSA-key"), SOON).unwrap()
}

fn tavily(server: &MockServer) -> Tavily {
    Tavily::new(&server.uri(), Secret::new("tvly-key"), SOON).unwrap()
}

async fn answering(status: u16, body: Value) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status).set_body_json(body);
    Mock::given(wiremock::matchers::any()).respond_with(answer).mount(&server).await;
    server
}

#[tokio::test]
async fn searxng_is_asked_for_json() {
    let server = MockServer::start().await;
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
    Mock::given(method("GET"))
        .and(path("/search"))
        .and(query_param("q", "rust streams"))
        .and(query_param("format", "json"))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1)
        .mount(&server)
        .await;
    let found = searxng(&server).find(&question("rust streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/book/", "The Book", "Streams in Rust.")]);
}

#[tokio::test]
async fn brave_is_asked_with_its_token() {
    let server = MockServer::start().await;
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
    Mock::given(method("GET"))
        .and(path("/res/v1/web/search"))
        .and(header("x-subscription-token", "BSA-key"))
        .and(header("accept", "application/json"))
        .and(query_param("q", "rust streams"))
        .and(query_param("count", "8"))
        .and(query_param("country", "DE"))
        .and(query_param("text_decorations", "false"))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1)
        .mount(&server)
        .await;
    let found = brave(&server).find(&question("rust  streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/", "Streams & Rust", "It's about streams.")]);
}

/// Brave accepts at most 50 words and 400 characters, and answers 422 to more.
#[tokio::test]
async fn brave_is_not_asked_too_long_questions() {
    let server = answering(200, json!({ "type": "search", "query": { "original": "x" } })).await;
    let found = brave(&server).find(&question(&"word ".repeat(90))).await.unwrap();
    assert_eq!(found, [], "an answer without pages");
    let asked = server.received_requests().await.unwrap();
    let asked = asked[0].url.query_pairs().find(|(name, _)| name == "q").unwrap().1.into_owned();
    assert_eq!(asked.split(' ').count(), 50);
}

#[tokio::test]
async fn tavily_is_asked_with_its_key() {
    let server = MockServer::start().await;
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
    let asked = json!({
        "query": "rust streams",
        "max_results": 8,
        "include_domains": ["rust-lang.org"],
    });
    Mock::given(method("POST"))
        .and(path("/search"))
        .and(header("authorization", "Bearer tvly-key"))
        .and(body_json(asked))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1)
        .mount(&server)
        .await;
    let found = tavily(&server).find(&question("rust streams")).await.unwrap();
    assert_eq!(found, [hit("https://doc.rust-lang.org/", "Rust", "All about it.")]);
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
