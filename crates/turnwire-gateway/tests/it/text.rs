//! What is on the wire beside the frames: odd characters, and signs of life.

use std::time::Duration;

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};
use turnwire_gateway::AppOptions;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

/// What some reader takes for the end of a line, and JSON does not escape. Some surfaces leave out
/// the last one, which terminals obey.
const ODD: &str = "a\u{2028}b\u{2029}c\u{85}";

fn check(surface: &str, text: &str) {
    let torn = text.contains(['\u{2028}', '\u{2029}', '\u{85}']);
    assert!(!torn, "{surface} has a line end inside its JSON: {text}");
    assert!(text.contains(r"a\u2028b\u2029c"), "{surface} has lost the text: {text}");
}

async fn body(world: &World, method: Method, path: &str, body: Option<Value>) -> String {
    let request = world.request(method, path);
    world
        .text(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await
}

/// Everything that a socket says to `first`, up to the message that `is_last`.
async fn said(world: &World, path: &str, first: Value, is_last: &str) -> String {
    let url = format!("ws://{}{path}", world.address);
    let (mut socket, _) = connect_async(url).await.unwrap();
    futures::SinkExt::send(&mut socket, Message::text(first.to_string())).await.unwrap();
    let mut all = String::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            all.push_str(&text);
            if text.contains(is_last) {
                return all;
            }
        }
    }
    panic!("the socket was closed after {all}")
}

/// S3-8: U+2028, U+2029 and U+0085 are escapes on every surface, because widely used clients split
/// text there.
#[tokio::test]
async fn line_ends_are_escaped_on_every_surface() {
    let world =
        Plan::with_model(Scripted::new((0..8).map(|_| Turn::new().text(ODD)))).start().await;
    let ask = |stream: bool| Some(json!({ "input": ODD, "stream": stream }));
    let response = body(&world, Method::POST, "/v1/responses", ask(false)).await;
    check("POST /v1/responses", &response);
    let streamed = body(&world, Method::POST, "/v1/responses", ask(true)).await;
    check("POST /v1/responses, streamed", &streamed);
    let id = serde_json::from_str::<Value>(&response).unwrap()["id"].as_str().unwrap().to_owned();
    let run = id.replace("resp_", "run_");
    let chat = body(&world, Method::POST, "/chat", Some(json!({ "message": ODD }))).await;
    let session = serde_json::from_str::<Value>(&chat).unwrap()["session_id"].clone();
    check("POST /chat", &chat);
    let tokens = json!({ "message": ODD, "tokens": true });
    check("POST /chat/stream", &body(&world, Method::POST, "/chat/stream", Some(tokens)).await);
    for path in [
        format!("/v1/responses/{id}"),
        format!("/v1/responses/{id}?stream=true"),
        format!("/v1/responses/{id}/input_items"),
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/events"),
        format!("/v1/runs/{run}/events?format=ndjson"),
        format!("/v1/runs/{run}/events?snapshot=true"),
        format!("/v1/conversations/{}/items", session.as_str().unwrap()),
    ] {
        check(&path, &body(&world, Method::GET, &path, None).await);
    }
    let create = json!({ "type": "response.create", "input": ODD });
    check(
        "the socket of /v1/responses",
        &said(&world, "/v1/responses", create, "response.completed").await,
    );
    let message = json!({ "type": "message", "conversation_id": session, "content": "?" });
    check("/ws/chat", &said(&world, "/ws/chat", message, r#""complete""#).await);
    let refused = json!({ "input": "?", "model": ODD });
    let refused = world.request(Method::POST, "/v1/responses").json(&refused).send().await.unwrap();
    assert!(refused.status().is_client_error());
    check("a refusal", &refused.text().await.unwrap());
    world.close().await;
}

/// S3-18: on every route that streams, a silent run gives a sign of life, and again.
#[tokio::test]
async fn no_stream_is_silent() {
    assert!(AppOptions::default().keep_alive_interval <= Duration::from_secs(15));
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let turns = (0..4).map(|_| Turn::new().call("wait", json!({})));
    let plan = Plan::with_model(Scripted::new(turns)).server("m", [waits]);
    let plan = plan.options(|options| options.keep_alive_interval = Duration::from_millis(30));
    let world = plan.start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let ask = json!({ "input": "?", "tools": tools, "stream": true });
    let mut first = world.request(Method::POST, "/v1/responses").json(&ask).send().await.unwrap();
    let begun = until_quiet(&mut first, ": ping\n").await;
    let id = begun.split("\"id\":\"resp_").nth(1).unwrap().split('"').next().unwrap();
    let events = format!("/v1/runs/run_{id}/events");
    let chat = world.request(Method::POST, "/chat/stream").json(&json!({ "message": "?" }));
    for (request, sign) in [
        (world.request(Method::GET, &format!("/v1/responses/resp_{id}?stream=true")), ": ping\n"),
        (world.request(Method::GET, &events), ": ping\n"),
        (world.request(Method::GET, &format!("{events}?format=ndjson")), "\n"),
        (chat, ": ping\n"),
    ] {
        until_quiet(&mut request.send().await.unwrap(), sign).await;
    }
    world.close().await;
}

/// What a stream says until it has given two signs of life in a row.
async fn until_quiet(stream: &mut reqwest::Response, sign: &str) -> String {
    let mut said = String::new();
    while !said.ends_with(&format!("\n{sign}{sign}")) {
        let next = tokio::time::timeout(Duration::from_secs(20), stream.chunk());
        let piece = next.await.expect("a sign of life").unwrap().expect("the stream goes on");
        said.push_str(std::str::from_utf8(&piece).unwrap());
    }
    said
}
