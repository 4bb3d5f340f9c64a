//! What a client is told that asked for something in the wrong way: always in one shape, with the
//! field it is about, and in our words.

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use turnwire_models::Turn;

use crate::world::{Plan, World};

fn is_refusal(answer: &Value) -> bool {
    let error = &answer["error"];
    error["message"].is_string()
        && error["type"].is_string()
        && error["code"].is_string()
        && error.get("param").is_some()
}

/// The word of a library that a client cannot know.
fn speaks_serde(message: &str) -> bool {
    let words =
        ["deserialize", "invalid type", "expected", "missing field", "unknown variant", "digit"];
    words.iter().any(|word| message.contains(word))
}

async fn sent(world: &World, method: Method, path: &str) -> (StatusCode, Option<String>, Value) {
    let answer = world.request(method, path).send().await.unwrap();
    let allow = answer.headers().get(header::ALLOW).map(|allow| allow.to_str().unwrap().to_owned());
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, allow, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// S3-6: a method that a path does not have is refused in the shape of every other error, and
/// `Allow` names those that it has: on every path of the document.
#[tokio::test]
async fn a_method_that_is_not_there() {
    let world = Plan::new([]).start().await;
    let document = serde_json::to_value(turnwire_gateway::openapi::document()).unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path = path.replace(['{', '}'], "");
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            if operations.get(method.as_str().to_lowercase()).is_some() {
                continue;
            }
            let (status, allow, answer) = sent(&world, method.clone(), &path).await;
            // What a path without a name in it shares with one that has a name.
            if status == StatusCode::NOT_FOUND {
                continue;
            }
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert!(is_refusal(&answer), "{method} {path}: {answer}");
            assert_eq!(answer["error"]["code"], "method_not_allowed");
            let allow = allow.unwrap_or_default();
            for there in operations.as_object().unwrap().keys() {
                assert!(allow.contains(&there.to_uppercase()), "{method} {path}: {allow}");
            }
        }
    }
    world.close().await;
}

/// S3-6: paths that are not there, or not even text, are refused in the same shape.
#[tokio::test]
async fn paths_that_make_no_sense() {
    let world = Plan::new([]).start().await;
    for path in [
        "/nowhere",
        "/v1/responses/",
        "/v1//models",
        "/v1/runs/%ff",
        "/v1/runs/run_1/calls/%c3%28/result",
        "/v1/runs/%00",
        "/v1/conversations/conv_%00/items",
        "/v1/files/..%2f..%2fetc%2fpasswd",
    ] {
        let (status, _, answer) = sent(&world, Method::GET, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {answer}");
        assert!(is_refusal(&answer), "{path}: {answer}");
        assert_eq!(answer["error"]["code"], "not_found", "{path}");
    }
    for path in ["/ws/chat", "/v1/responses"] {
        let answer = world.request(Method::GET, path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED, "{path}");
        assert_eq!(answer.headers()[header::UPGRADE], "websocket", "{path}");
        assert!(is_refusal(&answer.json().await.unwrap()), "{path}");
    }
    world.close().await;
}

/// What stands in an address and does not fit is refused by its name, with what it must be.
#[tokio::test]
async fn addresses_are_refused_in_our_words() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let run = world.respond(json!({ "input": "?" })).await["id"].as_str().unwrap().to_owned();
    let events = format!("/v1/runs/{}/events", run.replace("resp_", "run_"));
    let cases = [
        ("/v1/runs?limit=many".to_owned(), "limit", "must be a whole number"),
        ("/v1/runs?limit=-1".to_owned(), "limit", "must be a whole number"),
        (format!("/v1/runs?limit={}", "9".repeat(30)), "limit", "must be a whole number"),
        ("/v1/runs?limit=0".to_owned(), "limit", "must be between 1 and 100"),
        ("/v1/runs?order=up".to_owned(), "order", "must be `asc` or `desc`"),
        ("/v1/runs?order=asc&order=desc".to_owned(), "order", "is given more than once"),
        ("/v1/files?limit=1.5".to_owned(), "limit", "must be a whole number"),
        (format!("{events}?follow=maybe"), "follow", "must be `true` or `false`"),
        (format!("{events}?format=xml"), "format", "must be `sse` or `ndjson`"),
        (format!("{events}?after=x"), "after", "must be the `seq` of an event, such as 7"),
        (format!("/v1/responses/{run}?stream=1"), "stream", "must be `true` or `false`"),
        ("/chat/stream?tokens=yes".to_owned(), "tokens", "must be `true` or `false`"),
        (
            "/chat/stream?after=x".to_owned(),
            "after",
            "must be the id of a frame, such as `run_…:12.0`",
        ),
    ];
    for (path, param, must) in cases {
        let (status, answer) = world.get(&path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {answer}");
        assert_eq!(answer["error"]["param"], param, "{path}");
        assert_eq!(answer["error"]["message"], format!("`{param}` {must}."), "{path}");
    }
    // What nobody knows is left alone, as often as it comes.
    let (status, _) = world.get("/v1/runs?include%5B%5D=a&include%5B%5D=b").await;
    assert_eq!(status, StatusCode::OK);
    world.close().await;
}

/// Bodies of `/chat` and of the answers to calls are refused by the name of the field.
#[tokio::test]
async fn bodies_are_refused_by_the_field() {
    let world = Plan::new([]).start().await;
    let (approve, input) = ("/v1/runs/r/calls/c/approve", "/v1/runs/r/calls/c/input");
    let cases = [
        ("/chat", json!({}), json!("message"), "missing_required_parameter"),
        ("/chat", json!({ "message": null }), json!("message"), "missing_required_parameter"),
        ("/chat", json!({ "message": "" }), json!("message"), "invalid_value"),
        ("/chat", json!({ "message": 5 }), json!("message"), "invalid_type"),
        ("/chat", json!({ "message": "?", "session_id": 5 }), json!("session_id"), "invalid_type"),
        (
            "/chat",
            json!({ "message": "?", "session_id": "a b" }),
            json!("session_id"),
            "invalid_value",
        ),
        (
            "/chat",
            json!({ "message": "?", "active_file": [] }),
            json!("active_file"),
            "invalid_type",
        ),
        ("/chat", json!(["message"]), Value::Null, "invalid_type"),
        (
            "/chat/stream",
            json!({ "message": "?", "tokens": "yes" }),
            json!("tokens"),
            "invalid_type",
        ),
        (approve, json!({ "decision": "perhaps" }), json!("decision"), "invalid_type"),
        (approve, json!({ "approve": "yes" }), json!("approve"), "invalid_type"),
        (approve, json!({}), json!("decision"), "missing_required_parameter"),
        (input, json!({}), json!("action"), "missing_required_parameter"),
        (input, json!({ "action": "accept", "content": [] }), json!("content"), "invalid_type"),
    ];
    for (path, body, param, code) in cases {
        let paths = if path == "/chat" { vec!["/chat", "/chat/stream"] } else { vec![path] };
        for path in paths {
            let (status, answer) = world.post(path, body.clone()).await;
            let at = format!("{path} {body}: {answer}");
            assert_eq!(status, StatusCode::BAD_REQUEST, "{at}");
            let error = &answer["error"];
            assert_eq!((&error["param"], &error["code"]), (&param, &json!(code)), "{at}");
            assert!(!speaks_serde(error["message"].as_str().unwrap()), "{at}");
        }
    }
    world.close().await;
}

/// S2-7, S3-9: a session that is not there is refused on `/chat` and `/chat/stream` as it is on
/// `/ws/chat`; one that is there goes on.
#[tokio::test]
async fn unknown_sessions_are_refused_everywhere() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    for path in ["/chat", "/chat/stream"] {
        let (status, answer) =
            world.post(path, json!({ "message": "?", "session_id": "mine" })).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {answer}");
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["param"]),
            (&json!("not_found"), &json!("session_id")),
            "{path}"
        );
    }
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "message", "conversation_id": "mine", "content": "?" })).await;
    assert_eq!(socket.next().await.unwrap()["code"], "ACCESS_DENIED");
    let (_, runs) = world.get("/v1/runs").await;
    assert_eq!(runs["data"], json!([]), "nothing was done");
    let (_, opened) = world.post("/v1/conversations", json!({})).await;
    let body = json!({ "message": "?", "session_id": opened["id"] });
    assert_eq!(world.post("/chat", body).await.1["session_id"], opened["id"]);
    world.close().await;
}
