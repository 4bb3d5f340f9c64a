//! Ids that nothing can have, on every route and every store: PostgreSQL has no text with a NUL
//! character in it, and must not make a difference.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_testkit::services;

use crate::serve::{DEMO, Gateway, quick};

/// A body that is as it should be, so that only the id is wrong.
fn body_of(path: &str) -> Value {
    match path.rsplit('/').next().unwrap_or_default() {
        "approve" => json!({ "approve": true }),
        "input" => json!({ "action": "decline" }),
        "search" => json!({ "query": "?" }),
        "files" | "file_batches" => json!({ "file_id": "file_1", "file_ids": ["file_1"] }),
        _ => json!({ "attributes": {}, "metadata": {}, "items": [] }),
    }
}

/// Every operation of the document whose path has an id in it, with each of its ids in turn as it
/// cannot be.
fn operations(document: &Value) -> Vec<(Method, String, String)> {
    let mut all = Vec::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        let parts: Vec<&str> = template.split('/').collect();
        let ids = parts.iter().enumerate().filter(|(_, part)| part.starts_with('{'));
        for (odd, _) in ids {
            let id = |(place, part): (usize, &&str)| match (part.starts_with('{'), place == odd) {
                (false, _) => (*part).to_owned(),
                (true, true) => "a%00b".to_owned(),
                (true, false) => "x".to_owned(),
            };
            let path = parts.iter().enumerate().map(id).collect::<Vec<_>>().join("/");
            for method in operations.as_object().unwrap().keys() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                all.push((method, template.clone(), path.clone()));
            }
        }
    }
    all
}

async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    (status, response.json().await.unwrap_or_default())
}

async fn check(store: &str, url: &str) {
    let gateway = Gateway::start(&quick().with("TURNWIRE_STORE_URL", url), &DEMO);
    let (_, document) = answer(gateway.get("/openapi.json")).await;
    let operations = operations(&document);
    assert!(operations.len() > 30, "{operations:?}");
    for (method, template, path) in operations {
        let request = gateway.client.request(method.clone(), gateway.url(&path));
        let body = body_of(&template);
        let request = if method == Method::POST { request.json(&body) } else { request };
        let (status, answer) = answer(request).await;
        let at = format!("{method} {path} on {store}: {answer}");
        assert_eq!(status, StatusCode::NOT_FOUND, "{at}");
        let code = answer["error"]["code"].as_str().unwrap_or_default();
        assert!(code.ends_with("not_found") || method == Method::HEAD, "{at}");
    }
    // What is named in a body reaches the store as it is.
    let search = json!([{ "type": "file_search", "vector_store_ids": ["vs_\0"] }]);
    let file = json!([{ "type": "input_file", "file_id": "file_\0" }]);
    let file = json!([{ "role": "user", "content": file }]);
    let reference = json!([{ "type": "item_reference", "id": "msg_\0" }]);
    for (path, body) in [
        ("/v1/responses", json!({ "input": "?", "conversation": "conv_\0" })),
        ("/v1/responses", json!({ "input": "?", "previous_response_id": "resp_\0" })),
        ("/v1/responses", json!({ "input": "?", "tools": search })),
        ("/v1/responses", json!({ "input": file })),
        ("/v1/responses", json!({ "input": reference })),
        ("/v1/vector_stores", json!({ "file_ids": ["file_\0"] })),
        ("/chat", json!({ "message": "?", "session_id": "\0" })),
    ] {
        let (status, answer) = answer(gateway.post(path, &body)).await;
        let at = format!("{path} {body} on {store}: {answer}");
        assert!(status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS, "{at}");
    }
    let last_event = gateway.get("/chat/stream?after=run_%00:1.0");
    assert_eq!(answer(last_event).await.0, StatusCode::NOT_FOUND, "{store}");
}

/// A1: an id with a NUL character is 404 like any other that is not there.
#[tokio::test]
async fn an_id_that_nothing_can_have_is_not_there() {
    check("SQLite", "sqlite://odd.db").await;
    check("memory", "memory:").await;
    check("PostgreSQL", &services::postgres_url()).await;
}
