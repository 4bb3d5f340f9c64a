//! `Idempotency-Key`: a request that is sent again is not done again (C9).

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::SlowStore,
    world::{Plan, World, data_of, events_of},
};

fn keyed(world: &World, path: &str, key: &str, body: &Value) -> reqwest::RequestBuilder {
    world.request(Method::POST, path).header("Idempotency-Key", key).json(body)
}

async fn post(world: &World, path: &str, key: &str, body: Value) -> (StatusCode, Value) {
    let response = keyed(world, path, key, &body).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn n_runs(world: &World) -> usize {
    world.get("/v1/runs").await.1["data"].as_array().unwrap().len()
}

/// A server whose every run answers with a text of its own.
fn counting() -> Plan {
    let texts = (1..=9).map(|n| Turn::new().text(format!("Answer {n}.")));
    Plan::with_model(Scripted::new(texts))
}

/// C9: the same request twice at once makes one run, whose answer both get; and so does every
/// one that comes later, on every surface and in every manner.
#[tokio::test]
async fn the_same_request_makes_one_run() {
    let store = SlowStore::default();
    let world = counting().store(store.clone()).start().await;
    let session = world.session().await;
    let bodies = [
        ("/v1/responses", json!({ "input": "?" })),
        ("/v1/responses", json!({ "input": "?", "store": false })),
        ("/chat", json!({ "message": "?" })),
        ("/chat", json!({ "message": "?", "session_id": session })),
    ];
    for (n, (path, body)) in bodies.into_iter().enumerate() {
        let key = format!("key-{n}");
        store.creating.set_open(false);
        let n_come = store.creating.n_come_by_now();
        let (one, other, ()) = tokio::join!(
            post(&world, path, &key, body.clone()),
            post(&world, path, &key, body.clone()),
            async {
                store.creating.n_have_come(n_come + 2).await;
                store.creating.set_open(true);
            }
        );
        assert_eq!(one.0, StatusCode::OK, "{path} {body}: {}", one.1);
        assert_eq!(one, other, "{path} {body}");
        assert_eq!(post(&world, path, &key, body.clone()).await, one, "{path} {body}");
        assert_eq!(n_runs(&world).await, n + 1, "{path} {body}");
    }
    let metrics = world.text(world.request(Method::GET, "/metrics")).await;
    assert!(metrics.contains("turnwire_requests_found_by_key_total 8\n"), "{metrics}");
    world.close().await;
}

/// C9, C11: whoever attaches to a stream gets all of it, in the same bytes, while it goes on
/// and when it is over.
#[tokio::test]
async fn a_stream_is_attached_to_from_its_beginning() {
    let slow = Behaviour::Takes(Duration::from_millis(300), "ok".to_owned());
    let turns = [Turn::new().text("Hm. ").call("work", json!({})), Turn::new().text("Done.")];
    let work = FakeTool::new("work", slow);
    let model = Scripted::new(turns).looping();
    let world = Plan::with_model(model).server("m", [work.clone()]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let session = world.session().await;
    let bodies = [
        ("/v1/responses", json!({ "input": "?", "tools": tools, "stream": true })),
        ("/v1/responses", json!({ "input": "?", "tools": tools, "stream": true, "store": false })),
        ("/chat/stream", json!({ "message": "?", "tokens": true, "session_id": session })),
    ];
    for (n, (path, body)) in (1..).zip(bodies) {
        let key = format!("key-{n}");
        let mut first = keyed(&world, path, &key, &body).send().await.unwrap();
        let mut seen = first.chunk().await.unwrap().unwrap().to_vec();
        let attached = world.text(keyed(&world, path, &key, &body)).await;
        while let Some(chunk) = first.chunk().await.unwrap() {
            seen.extend(chunk);
        }
        assert_eq!(String::from_utf8(seen).unwrap(), attached, "{path}");
        assert_eq!(world.text(keyed(&world, path, &key, &body)).await, attached, "{path}");
        assert!(attached.contains("Done."), "{attached}");
        assert_eq!(work.n_calls(), n, "{path}");
    }
    world.close().await;
}

/// C9: what is made in the background is answered as it is by then.
#[tokio::test]
async fn a_background_response_is_shown_as_it_is() {
    let world = counting().start().await;
    let body = json!({ "input": "?", "background": true });
    let (_, first) = post(&world, "/v1/responses", "b", body.clone()).await;
    assert_eq!(first["status"], "queued");
    let path = format!("/v1/responses/{}?stream=true", first["id"].as_str().unwrap());
    let events = events_of(&world.text(world.request(Method::GET, &path)).await);
    let (status, again) = post(&world, "/v1/responses", "b", body).await;
    assert_eq!((status, &again), (StatusCode::OK, &events.last().unwrap()["response"]));
    world.close().await;
}

/// C9: the same key for something else is a mistake; at another endpoint it is another key.
#[tokio::test]
async fn a_key_stands_for_one_request() {
    let world = counting().start().await;
    for (path, body, other) in [
        ("/v1/responses", json!({ "input": "1" }), json!({ "input": "2" })),
        ("/v1/responses", json!({ "input": "1" }), json!({ "input": "1", "stream": true })),
        ("/chat", json!({ "message": "1" }), json!({ "message": "2" })),
        ("/chat/stream", json!({ "message": "1" }), json!({ "message": "2" })),
    ] {
        let first = keyed(&world, path, "k", &body).send().await.unwrap();
        assert_eq!(first.status(), StatusCode::OK, "{path}");
        first.text().await.unwrap();
        let (status, error) = post(&world, path, "k", other).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused")),
            "{path}"
        );
    }
    assert_eq!(n_runs(&world).await, 3, "one at each endpoint");
    world.close().await;
}

/// C9: what cannot be a key is refused, before anything is done.
#[tokio::test]
async fn bad_keys_are_refused() {
    let world = counting().start().await;
    let too_long = "k".repeat(256);
    for path in ["/v1/responses", "/chat", "/chat/stream"] {
        for key in ["", "two words", &too_long] {
            let body = json!({ "input": "?", "message": "?" });
            let (status, error) = post(&world, path, key, body).await;
            assert_eq!(
                (status, &error["error"]["code"], &error["error"]["param"]),
                (
                    StatusCode::BAD_REQUEST,
                    &json!("invalid_idempotency_key"),
                    &json!("Idempotency-Key")
                ),
                "{path} {key}"
            );
        }
    }
    assert_eq!(n_runs(&world).await, 0);
    world.close().await;
}

/// C9, C8: the run that the first request made does not stand in the way of the second.
#[tokio::test]
async fn a_conversation_is_not_busy_with_the_very_same_request() {
    let slow = Behaviour::Takes(Duration::from_millis(300), "ok".to_owned());
    let turns = [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).server("m", [FakeTool::new("work", slow)]).start().await;
    let session = world.session().await;
    let body = json!({ "message": "?", "session_id": session });
    let mut first = keyed(&world, "/chat/stream", "k", &body).send().await.unwrap();
    first.chunk().await.unwrap();
    let busy = json!({ "message": "And?", "session_id": session });
    assert_eq!(post(&world, "/chat/stream", "other", busy).await.0, StatusCode::CONFLICT);
    let again = data_of(&world.text(keyed(&world, "/chat/stream", "k", &body)).await);
    assert_eq!(again.last().unwrap()["type"], "done");
    world.close().await;
}

/// C9: the result of a call that was handed in is in the conversation; to hand it in again with
/// the same key finds the answer, not a mistake.
#[tokio::test]
async fn what_the_first_request_changed_is_not_held_against_the_second() {
    let turns =
        [Turn::new().call_with_id("call_1", "ask", json!({})), Turn::new().text("Thank you.")];
    let world = Plan::new(turns).start().await;
    let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
    let ask = json!({ "type": "function", "name": "ask", "parameters": { "type": "object" } });
    let tools = json!([ask]);
    world.respond(json!({ "input": "?", "conversation": id, "tools": tools })).await;
    let output = json!({ "type": "function_call_output", "call_id": "call_1", "output": "42" });
    let body = json!({ "input": [output], "conversation": id, "tools": tools });
    let first = post(&world, "/v1/responses", "k", body.clone()).await;
    assert_eq!(first.0, StatusCode::OK, "{}", first.1);
    assert_eq!(post(&world, "/v1/responses", "k", body.clone()).await, first);
    let (status, error) = world.post("/v1/responses", body).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (400.try_into().unwrap(), &json!("duplicate_tool_output"))
    );
    world.close().await;
}

/// C9, C10: a client with a key comes back for an answer that is stored nowhere.
#[tokio::test]
async fn a_client_with_a_key_comes_back() {
    let slow = Behaviour::Takes(Duration::from_millis(200), "ok".to_owned());
    let turns = [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let work = FakeTool::new("work", slow);
    let world = Plan::new(turns).server("m", [work.clone()]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "?", "tools": tools, "stream": true, "store": false });
    let mut first = keyed(&world, "/v1/responses", "k", &body).send().await.unwrap();
    first.chunk().await.unwrap();
    drop(first);
    let events = events_of(&world.text(keyed(&world, "/v1/responses", "k", &body)).await);
    assert_eq!(events.last().unwrap()["response"]["status"], "completed");
    assert_eq!(work.n_calls(), 1);
    world.close().await;
}

/// C9: a call is tried again once, however often that is asked for with one key.
#[tokio::test]
async fn a_call_is_tried_again_once() {
    let fails = FakeTool::new("fail", Behaviour::Fails("no".to_owned()));
    let turns = [
        Turn::new().call_with_id("call_f", "fail", json!({})),
        Turn::new().text("It failed."),
        Turn::new().text("Again."),
        Turn::new().text("Again!"),
    ];
    let world = Plan::new(turns).tool(fails.clone()).start().await;
    world.post("/chat", json!({ "message": "?" })).await;
    let run = world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}/calls/call_f/retry");
    let first = post(&world, &path, "k", json!({})).await;
    assert_eq!(first.0, StatusCode::OK, "{}", first.1);
    assert_eq!(post(&world, &path, "k", json!({})).await, first);
    let again = first.1["run_id"].as_str().unwrap();
    world.text(world.request(Method::GET, &format!("/v1/runs/{again}/events"))).await;
    assert_eq!((n_runs(&world).await, fails.n_calls()), (2, 2));
    world.close().await;
}
