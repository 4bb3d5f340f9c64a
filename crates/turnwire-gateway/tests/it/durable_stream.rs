//! `GET /v1/runs/{run_id}/stream`, the Durable Streams protocol.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use turnwire_models::Turn;

use crate::world::{Plan, World, data_of};

async fn finished_run() -> (World, String, Vec<Value>) {
    let world = Plan::new([Turn::new().text_in(["It is ", "20."])]).start().await;
    let response = world.respond(json!({ "input": "?" })).await;
    let id = response["id"].as_str().unwrap().replace("resp_", "run_");
    let request = world.request(Method::GET, &format!("/v1/runs/{id}/events?format=ndjson"));
    let text = world.text(request).await;
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (world, id, events)
}

fn path(id: &str, query: &str) -> String {
    format!("/v1/runs/{id}/stream{query}")
}

async fn get(world: &World, path: &str) -> Response {
    world.request(Method::GET, path).send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// C2: read in any two parts, the events are the same, and the end is known as such.
#[tokio::test]
async fn first_part_and_rest_are_the_whole() {
    let (world, id, events) = finished_run().await;
    let whole = get(&world, &path(&id, "")).await;
    assert_eq!(header(&whole, "content-type"), Some("application/json"));
    assert_eq!(header(&whole, "stream-up-to-date"), Some("true"));
    assert_eq!(header(&whole, "stream-closed"), Some("true"));
    let last = header(&whole, "stream-next-offset").unwrap().to_owned();
    assert_eq!(whole.json::<Vec<Value>>().await.unwrap(), events);
    for (n, event) in events.iter().enumerate() {
        let offset = format!("{:020}", event["seq"].as_u64().unwrap());
        let rest = get(&world, &path(&id, &format!("?offset={offset}"))).await;
        assert_eq!(header(&rest, "stream-next-offset"), Some(last.as_str()));
        assert_eq!(rest.json::<Vec<Value>>().await.unwrap(), events[n + 1..]);
        let live = get(&world, &path(&id, &format!("?offset={offset}&live=sse"))).await;
        let text = live.text().await.unwrap();
        let frames = data_of(&text);
        let (control, data) = frames.split_last().unwrap();
        assert_eq!((&control["streamClosed"], &control["upToDate"]), (&json!(true), &json!(true)));
        let data: Vec<&Value> = data.iter().filter_map(Value::as_array).flatten().collect();
        assert_eq!(data, events[n + 1..].iter().collect::<Vec<_>>());
    }
    world.close().await;
}

/// A finished stream is known as such before it is read, and asking for more ends at once.
#[tokio::test]
async fn a_closed_stream_says_so() {
    let (world, id, _) = finished_run().await;
    let head = world.request(Method::HEAD, &path(&id, "")).send().await.unwrap();
    assert_eq!((head.status(), header(&head, "stream-closed")), (StatusCode::OK, Some("true")));
    let end = header(&head, "stream-next-offset").unwrap().to_owned();
    let poll = get(&world, &path(&id, &format!("?offset={end}&live=long-poll"))).await;
    assert_eq!(poll.status(), StatusCode::NO_CONTENT);
    assert_eq!(header(&poll, "stream-closed"), Some("true"));
    let now = get(&world, &path(&id, "?offset=now")).await;
    assert_eq!(header(&now, "stream-next-offset"), Some(end.as_str()));
    assert_eq!(now.text().await.unwrap(), "[]");
    world.close().await;
}

/// A long poll waits for what comes next, and the offsets of all its answers add up.
#[tokio::test]
async fn long_polls_follow_a_run() {
    let world = Plan::new([Turn::new().text("Let me ").wait_forever()]).start().await;
    let body = json!({ "input": "?", "background": true });
    let response = world.respond(body).await;
    let id = response["id"].as_str().unwrap().replace("resp_", "run_");
    let (mut offset, mut cursor, mut kinds) = ("-1".to_owned(), String::new(), Vec::new());
    loop {
        let query = format!("?offset={offset}&live=long-poll&cursor={cursor}");
        let poll = get(&world, &path(&id, &query)).await;
        header(&poll, "stream-next-offset").unwrap().clone_into(&mut offset);
        let is_closed = header(&poll, "stream-closed").is_some();
        if let Some(next) = header(&poll, "stream-cursor") {
            assert_ne!(next, cursor, "a cache must not answer with what the client has");
            next.clone_into(&mut cursor);
        }
        let events: Vec<Value> = poll.json().await.unwrap_or_default();
        kinds
            .extend(events.iter().map(|event| event["event"]["type"].as_str().unwrap().to_owned()));
        if kinds.last().is_some_and(|kind| kind == "text_added") {
            world.post(&format!("/v1/runs/{id}/cancel"), json!({})).await;
        }
        if is_closed {
            break;
        }
    }
    assert_eq!(kinds.first().map(String::as_str), Some("run_queued"));
    assert_eq!(kinds.iter().filter(|kind| *kind == "run_finished").count(), 1);
    assert_eq!(kinds.last().map(String::as_str), Some("run_finished"));
    world.close().await;
}

/// A cache that has the answer gets no second copy.
#[tokio::test]
async fn an_unchanged_page_is_not_sent_again() {
    let (world, id, _) = finished_run().await;
    let first = get(&world, &path(&id, "")).await;
    let tag = header(&first, "etag").unwrap().to_owned();
    let request = world.request(Method::GET, &path(&id, "")).header("if-none-match", tag);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    world.close().await;
}

/// A1: offsets of other streams, reading live from nowhere, and runs that are not there.
#[tokio::test]
async fn mistakes_are_refused() {
    let (world, id, _) = finished_run().await;
    for query in ["?offset=99999999999999999999", "?offset=x", "?live=sse", "?live=long-poll"] {
        let (status, error) = world.get(&path(&id, query)).await;
        let code = error["error"]["code"].as_str();
        assert_eq!((status, code), (StatusCode::BAD_REQUEST, Some("invalid_offset")), "{query}");
    }
    let (status, _) = world.get(&path("run_none", "")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    world.close().await;
}
