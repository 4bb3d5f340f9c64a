//! Responses and conversations that are stored.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::SlowStore,
    world::{Plan, World, events_of},
};

fn patient() -> Plan {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    Plan::new([Turn::new().text("One moment. ").call("wait", json!({})), Turn::new().text("Done.")])
        .server("m", [waits])
}

fn body() -> Value {
    json!({ "input": "?", "tools": [{ "type": "mcp", "server_label": "m", "require_approval": "never" }] })
}

async fn wait_for(world: &World, id: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let (_, response) = world.get(&format!("/v1/responses/{id}")).await;
        if is_it(&response) {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} never got there");
}

/// A background response is there at once, can be watched, and ends when it is cancelled; to
/// cancel it again changes nothing (R8, C14).
#[tokio::test]
async fn in_the_background_and_cancelled() {
    let world = patient().start().await;
    let mut asked = body();
    asked["background"] = json!(true);
    let response = world.respond(asked).await;
    assert_eq!((&response["status"], &response["background"]), (&json!("queued"), &json!(true)));
    let id = response["id"].as_str().unwrap();
    let is_calling = |response: &Value| {
        response["output"].as_array().unwrap().iter().any(|item| item["type"] == "mcp_call")
    };
    let running = wait_for(&world, id, is_calling).await;
    assert_eq!(running["status"], "in_progress");
    let (status, cancelled) = world.post(&format!("/v1/responses/{id}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["incomplete_details"]["reason"], "cancelled");
    let (status, again) = world.post(&format!("/v1/responses/{id}/cancel"), json!({})).await;
    assert_eq!((status, &again), (StatusCode::OK, &cancelled));
    let stream = world.request(Method::GET, &format!("/v1/responses/{id}?stream=true"));
    let events = events_of(&world.text(stream).await);
    assert_eq!(events[1]["type"], "response.queued");
    assert_eq!(events.last().unwrap()["type"], "response.incomplete");
    world.close().await;
}

/// R8: what is over cannot be cancelled, in OpenAI's words.
#[tokio::test]
async fn what_is_over_cannot_be_cancelled() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let response = world.respond(json!({ "input": "?" })).await;
    let path = format!("/v1/responses/{}/cancel", response["id"].as_str().unwrap());
    let (status, error) = world.post(&path, json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["message"], "Cannot cancel a completed response.");
    world.close().await;
}

/// C11: whatever the place, what is read on joins what was read before.
#[tokio::test]
async fn a_stream_is_resumed_at_any_place() {
    let turns = [Turn::new().text("a").call("t", json!({})), Turn::new().text_in(["b", "c"])];
    let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
    let world = Plan::new(turns).server("m", [tool]).start().await;
    let all = world.stream(body()).await;
    let id = all[0]["response"]["id"].as_str().unwrap();
    for n in 0..all.len() {
        let path = format!("/v1/responses/{id}?stream=true&starting_after={n}");
        let rest = events_of(&world.text(world.request(Method::GET, &path)).await);
        assert_eq!(rest, all[n + 1..], "after {n}");
    }
    world.close().await;
}

#[tokio::test]
async fn a_response_is_deleted_with_everything() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let response = world.respond(json!({ "input": "secret" })).await;
    let id = response["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}");
    assert_eq!(world.get(&path).await, (StatusCode::OK, response.clone()));
    let (_, items) = world.get(&format!("{path}/input_items")).await;
    assert_eq!(items["data"][0]["content"][0]["text"], "secret");
    let (status, deleted) = world.delete(&path).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(deleted, json!({ "id": id, "object": "response", "deleted": true }));
    let run = id.replace("resp_", "run_");
    for path in [
        path.clone(),
        format!("{path}?stream=true"),
        format!("{path}/input_items"),
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/events"),
    ] {
        assert_eq!(world.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(world.get("/v1/runs").await.1["data"], json!([]));
    let next = json!({ "input": "?", "previous_response_id": id });
    assert_eq!(world.post("/v1/responses", next).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(world.delete(&path).await.0, StatusCode::NOT_FOUND);
    world.close().await;
}

/// What is not to be stored cannot be read afterwards, and leaves nothing behind.
#[tokio::test]
async fn store_false_leaves_nothing() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let response = world.respond(json!({ "input": "?", "store": false })).await;
    assert_eq!(response["store"], false);
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.0, StatusCode::NOT_FOUND);
    for _ in 0..400 {
        let (_, runs) = world.get("/v1/runs").await;
        if runs["data"] == json!([]) {
            return world.close().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the run is still there");
}

#[tokio::test]
async fn a_conversation_by_hand_and_by_response() {
    let world = Plan::new([Turn::new().text("Tea."), Turn::new().text("Green.")]).start().await;
    let item = json!({ "type": "message", "role": "user", "content": "I like tea." });
    let body = json!({ "metadata": { "topic": "tea" }, "items": [item] });
    let (status, conversation) = world.post("/v1/conversations", body).await;
    assert_eq!(status, StatusCode::OK);
    let id = conversation["id"].as_str().unwrap();
    let first = world.respond(json!({ "conversation": id, "input": "What do I like?" })).await;
    assert_eq!(first["conversation"]["id"], id);
    world.respond(json!({ "conversation": { "id": id }, "input": "Which?" })).await;
    assert_eq!(world.model.prompts()[1].items.len(), 4);
    let path = format!("/v1/conversations/{id}");
    let (_, items) = world.get(&format!("{path}/items?order=asc&limit=2")).await;
    assert_eq!((&items["has_more"], items["data"].as_array().unwrap().len()), (&json!(true), 2));
    let after = items["last_id"].as_str().unwrap();
    let (_, rest) = world.get(&format!("{path}/items?order=asc&after={after}")).await;
    assert_eq!(rest["data"].as_array().unwrap().len(), 3);
    let one = rest["data"][0]["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("{path}/items/{one}")).await.1, rest["data"][0]);
    assert_eq!(world.delete(&format!("{path}/items/{one}")).await.0, StatusCode::OK);
    assert_eq!(world.get(&format!("{path}/items/{one}")).await.0, StatusCode::NOT_FOUND);
    let (_, changed) = world.post(&path, json!({ "metadata": { "topic": "green tea" } })).await;
    assert_eq!(changed["metadata"]["topic"], "green tea");
    let (_, deleted) = world.delete(&path).await;
    assert_eq!(deleted["object"], "conversation.deleted");
    assert_eq!(world.get(&path).await.0, StatusCode::NOT_FOUND);
    world.close().await;
}

/// C8: a conversation that is busy takes no second response.
#[tokio::test]
async fn a_busy_conversation_is_locked() {
    let world = patient().start().await;
    let (_, conversation) = world.post("/v1/conversations", json!({})).await;
    let mut asked = body();
    asked["conversation"] = conversation["id"].clone();
    asked["background"] = json!(true);
    let first = world.respond(asked.clone()).await;
    let (status, error) = world.post("/v1/responses", asked).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(error["error"]["code"], "conversation_locked");
    world.post(&format!("/v1/responses/{}/cancel", first["id"].as_str().unwrap()), json!({})).await;
    world.close().await;
}

#[tokio::test]
async fn compacting_and_counting() {
    let world =
        Plan::new([Turn::new().text("They like tea."), Turn::new().text("Tea!")]).start().await;
    let input = json!([{ "role": "user", "content": "I like tea. ".repeat(40) }]);
    let count = json!({ "model": "default", "input": input.clone() });
    let (_, counted) = world.post("/v1/responses/input_tokens", count).await;
    assert_eq!(counted, json!({ "object": "response.input_tokens", "input_tokens": 120 }));
    let body = json!({ "model": "default", "input": input });
    let (status, compacted) = world.post("/v1/responses/compact", body).await;
    assert_eq!(status, StatusCode::OK, "{compacted:#}");
    assert_eq!(compacted["object"], "response.compaction");
    assert_eq!(compacted["output"][0]["type"], "compaction");
    let mut input = compacted["output"].as_array().unwrap().clone();
    input.push(json!({ "role": "user", "content": "What do I like?" }));
    world.respond(json!({ "input": input })).await;
    let seen = serde_json::to_string(&world.model.prompts()[1].items).unwrap();
    assert!(seen.contains("They like tea."), "{seen}");
    let (status, error) = world.post("/v1/responses/compact", json!({ "input": "x" })).await;
    assert_eq!((status, &error["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("model")));
    world.close().await;
}

#[tokio::test]
async fn models_are_listed() {
    let world = Plan::new([]).start().await;
    let (_, models) = world.get("/v1/models").await;
    assert_eq!(models["data"][0]["id"], "default");
    assert_eq!(world.get("/v1/models/default").await.1["object"], "model");
    assert_eq!(world.get("/v1/models/none").await.0, StatusCode::NOT_FOUND);
    world.close().await;
}

/// What is not stored cannot be continued by its id, not even in the moment before it is
/// forgotten.
#[tokio::test]
async fn an_unstored_response_is_not_continued() {
    let store = SlowStore::default();
    let turns = ["One.", "Two."].map(|text| Turn::new().text(text));
    let world = Plan::new(turns).store(store.clone()).start().await;
    store.forgetting.set_open(false);
    let response = world.respond(json!({ "input": "?", "store": false })).await;
    store.forgetting.n_have_come(1).await;
    let next = json!({ "input": "?", "previous_response_id": response["id"] });
    let (status, error) = world.post("/v1/responses", next).await;
    assert_eq!(
        (status, &error["error"]["code"], &error["error"]["param"]),
        (
            StatusCode::BAD_REQUEST,
            &json!("previous_response_not_found"),
            &json!("previous_response_id")
        )
    );
    store.forgetting.set_open(true);
    world.close().await;
}
