//! OpenAI's WebSocket mode at `/v1/responses`.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::{BreakingLog, SlowStore},
    world::{Plan, Socket, of_type, types},
};

fn is_over(message: &Value) -> bool {
    let kind = message["type"].as_str().unwrap();
    matches!(kind, "error" | "response.completed" | "response.failed" | "response.incomplete")
}

async fn create(socket: &mut Socket, mut body: Value) -> Vec<Value> {
    body["type"] = json!("response.create");
    socket.send(body).await;
    socket.until(is_over).await
}

fn talkative() -> Plan {
    Plan::with_model(Scripted::new([Turn::new().text("Hi.")]).looping())
}

/// Two turns on one socket; the events are those of the stream, without its frames.
#[tokio::test]
async fn turns_follow_each_other() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    for _ in 0..2 {
        let events = create(&mut socket, json!({ "input": "Hello" })).await;
        assert_eq!(types(&events)[..2], ["response.created", "response.in_progress"]);
        assert_eq!(events.last().unwrap()["response"]["status"], "completed");
        assert!(events.iter().all(|event| event.get("stream_id").is_none()));
    }
    world.close().await;
}

/// What is not stored can be continued on the socket that made it, and only there.
#[tokio::test]
async fn an_unstored_response_is_continued_on_its_socket() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    let events = create(&mut socket, json!({ "input": "One", "store": false })).await;
    let id = events.last().unwrap()["response"]["id"].clone();
    let next = json!({ "input": "Two", "store": false, "previous_response_id": id });
    let events = create(&mut socket, next.clone()).await;
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    assert_eq!(world.model.prompts()[1].items.len(), 3);
    let mut other = world.socket("/v1/responses").await;
    let events = create(&mut other, next).await;
    let error = events.last().unwrap();
    assert_eq!(
        (&error["status"], &error["error"]["code"]),
        (&json!(400), &json!("previous_response_not_found"))
    );
    let events = create(&mut other, json!({ "input": "Afresh" })).await;
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    world.close().await;
}

/// A continuation that fails takes what it continued with it, in its own lane only.
#[tokio::test]
async fn a_failed_continuation_forgets_its_parent() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    let events = create(&mut socket, json!({ "input": "One", "store": false })).await;
    let id = events.last().unwrap()["response"]["id"].clone();
    let output = json!([{ "type": "function_call_output", "call_id": "call_x", "output": "1" }]);
    let bad = json!({ "input": output, "store": false, "previous_response_id": id });
    let mut fork = bad.clone();
    fork["stream_id"] = json!("fork");
    assert_eq!(create(&mut socket, fork).await.last().unwrap()["stream_id"], "fork");
    let good = json!({ "input": "Two", "store": false, "previous_response_id": id });
    let events = create(&mut socket, good.clone()).await;
    assert_eq!(events.last().unwrap()["type"], "response.completed", "a fork forgets nothing");
    let events = create(&mut socket, bad).await;
    assert_eq!(events.last().unwrap()["error"]["code"], "no_tool_call_found");
    let events = create(&mut socket, good).await;
    assert_eq!(events.last().unwrap()["error"]["code"], "previous_response_not_found");
    world.close().await;
}

/// Lanes that the client names run side by side and say which one they are.
#[tokio::test]
async fn lanes_do_not_wait_for_each_other() {
    let slow = FakeTool::new("slow", Behaviour::Takes(Duration::from_millis(400), "ok".into()));
    let turns = [
        Turn::new().call("slow", json!({})),
        Turn::new().text("Quick."),
        Turn::new().text("Slow."),
    ];
    let world = Plan::new(turns).server("m", [slow]).start().await;
    let mut socket = world.socket("/v1/responses").await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    socket
        .send(json!({ "type": "response.create", "stream_id": "a", "input": "1", "tools": tools }))
        .await;
    socket.until(|event| event["type"] == "response.mcp_call.in_progress").await;
    socket.send(json!({ "type": "response.create", "stream_id": "b", "input": "2" })).await;
    let first = socket.until(is_over).await.pop().unwrap();
    assert_eq!(first["stream_id"], "b");
    let second = socket.until(is_over).await.pop().unwrap();
    assert_eq!(second["stream_id"], "a");
    world.close().await;
}

/// Getting ready asks nobody, and can be continued.
#[tokio::test]
async fn a_warm_up_is_continued() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    let events = create(&mut socket, json!({ "input": "Context.", "generate": false })).await;
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["output"]),
        (&json!("response.completed"), &json!([]))
    );
    assert!(world.model.prompts().is_empty());
    let next = json!({ "input": "Go.", "previous_response_id": last["response"]["id"] });
    create(&mut socket, next).await;
    assert_eq!(world.model.prompts()[0].items.len(), 2);
    world.close().await;
}

#[tokio::test]
async fn nonsense_is_answered_and_the_socket_stays() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    for (message, code) in [
        ("nonsense".to_owned(), "invalid_json"),
        ("[]".to_owned(), "invalid_type"),
        (json!({ "type": "response.dance" }).to_string(), "invalid_value"),
        (json!({ "type": "response.steer" }).to_string(), "steering_not_supported"),
        (json!({ "type": "response.create", "stream_id": "a b" }).to_string(), "invalid_stream_id"),
        (
            json!({ "type": "response.create", "model": "none", "input": "x" }).to_string(),
            "model_not_found",
        ),
    ] {
        socket.send_text(&message).await;
        let error = socket.next().await.unwrap();
        assert_eq!(
            (&error["type"], &error["error"]["code"]),
            (&json!("error"), &json!(code)),
            "{message}"
        );
    }
    assert_eq!(
        create(&mut socket, json!({ "input": "Hi" })).await.last().unwrap()["type"],
        "response.completed"
    );
    assert_eq!(world.get("/v1/responses").await.0, StatusCode::UPGRADE_REQUIRED);
    world.close().await;
}

/// C10: a stored response goes on when its socket is gone; R10: an unstored one does not.
#[tokio::test]
async fn what_happens_when_the_socket_is_gone() {
    for stores in [true, false] {
        let waits =
            FakeTool::new("wait", Behaviour::Takes(Duration::from_millis(200), "ok".into()));
        let turns = [Turn::new().call("wait", json!({})), Turn::new().text("Done.")];
        let world = Plan::new(turns).server("m", [waits]).start().await;
        let mut socket = world.socket("/v1/responses").await;
        let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
        let body =
            json!({ "type": "response.create", "input": "1", "tools": tools, "store": stores });
        socket.send(body).await;
        let events = socket.until(|event| event["type"] == "response.mcp_call.in_progress").await;
        let id =
            of_type(&events, "response.created")[0]["response"]["id"].as_str().unwrap().to_owned();
        drop(socket);
        let path = format!("/v1/runs/{}/events?format=ndjson", id.replace("resp_", "run_"));
        let journal = world.request(Method::GET, &path).send().await.unwrap();
        let journal = journal.text().await.unwrap();
        if stores {
            assert!(journal.contains("\"status\":\"completed\""), "{journal}");
        } else {
            assert!(!journal.contains("\"status\":\"completed\""), "{journal}");
        }
        world.close().await;
    }
}

/// A connection that was open for too long is told so before it ends.
#[tokio::test]
async fn a_connection_that_was_open_for_too_long() {
    let plan = talkative().limits(|limits| limits.socket_time = Duration::from_millis(200));
    let world = plan.start().await;
    let (messages, code) = world.socket("/v1/responses").await.read_to_end().await;
    assert_eq!(messages[0]["error"]["code"], "websocket_connection_limit_reached");
    assert_eq!(code, Some(1000));
    world.close().await;
}

/// R10: what waits in a lane is not begun for a client that is gone.
#[tokio::test]
async fn waiting_turns_go_with_the_client() {
    let slow = FakeTool::new("slow", Behaviour::Takes(Duration::from_millis(300), "ok".into()));
    let turns = [Turn::new().call("slow", json!({})), Turn::new().text("Done.")];
    let model = Scripted::new(turns).looping();
    let world = Plan::with_model(model).server("m", [slow]).start().await;
    let mut socket = world.socket("/v1/responses").await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    for _ in 0..2 {
        socket.send(json!({ "type": "response.create", "input": "?", "tools": tools })).await;
    }
    socket.until(|event| event["type"] == "response.mcp_call.in_progress").await;
    drop(socket);
    let run = world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned();
    world.text(world.request(Method::GET, &format!("/v1/runs/{run}/events"))).await;
    // Another takes as long as the second would have taken to begin, and longer.
    world.respond(json!({ "input": "?", "tools": tools })).await;
    assert_eq!(world.get("/v1/runs").await.1["data"].as_array().unwrap().len(), 2);
    world.close().await;
}

/// A warm-up that continues what is not stored has everything once.
#[tokio::test]
async fn a_warm_up_continues_an_unstored_response() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    let id = |events: Vec<Value>| events.last().unwrap()["response"]["id"].clone();
    let first = id(create(&mut socket, json!({ "input": "One", "store": false })).await);
    let warm_up = json!({ "input": "Two", "generate": false, "store": false,
        "previous_response_id": first });
    let second = id(create(&mut socket, warm_up).await);
    let third = json!({ "input": "Three", "store": false, "previous_response_id": second });
    create(&mut socket, third).await;
    assert_eq!(world.model.prompts()[1].items.len(), 4, "One, Hi., Two, Three");
    world.close().await;
}

/// What is about to be forgotten is not continued as if it were stored.
#[tokio::test]
async fn an_unstored_response_is_continued_while_it_is_forgotten() {
    let store = SlowStore::default();
    let world = talkative().store(store.clone()).start().await;
    store.forgetting.set_open(false);
    let mut socket = world.socket("/v1/responses").await;
    let events = create(&mut socket, json!({ "input": "One", "store": false })).await;
    store.forgetting.n_have_come(1).await;
    let first = events.last().unwrap()["response"]["id"].clone();
    let next = json!({ "input": "Two", "previous_response_id": first, "stream_id": "b" });
    let events = create(&mut socket, next).await;
    let second = events.last().unwrap()["response"]["id"].clone();
    store.forgetting.set_open(true);
    store.forgetting.n_are_done(1).await;
    world.respond(json!({ "input": "Three", "previous_response_id": second })).await;
    assert_eq!(world.model.prompts()[2].items.len(), 5, "all of it is still known");
    let run = second.as_str().unwrap().replace("resp_", "run_");
    let path = format!("/v1/runs/{run}/events?format=ndjson");
    let journal = world.text(world.request(Method::GET, &path)).await;
    let queued: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    assert!(!queued.to_string().contains(&first.as_str().unwrap().replace("resp_", "run_")));
    world.close().await;
}

/// The lane without a name is there for everybody, however many others are named.
#[tokio::test]
async fn named_lanes_leave_the_nameless_one() {
    let world = talkative().start().await;
    let mut socket = world.socket("/v1/responses").await;
    for n in 0..=32 {
        let lane = format!("lane-{n}");
        let last = create(&mut socket, json!({ "input": "?", "stream_id": lane })).await.pop();
        let last = last.unwrap();
        if n < 32 {
            assert_eq!(last["type"], "response.completed", "{n}");
        } else {
            assert_eq!(last["error"]["code"], "websocket_stream_limit_reached");
        }
    }
    let last = create(&mut socket, json!({ "input": "?" })).await.pop().unwrap();
    assert_eq!(last["type"], "response.completed");
    world.close().await;
}

/// C3: a response whose journal cannot be read on ends with an error, not with silence.
#[tokio::test]
async fn a_lost_journal_is_told() {
    let world = talkative().log(BreakingLog::after(3)).start().await;
    let mut socket = world.socket("/v1/responses").await;
    let last = create(&mut socket, json!({ "input": "?" })).await.pop().unwrap();
    assert_eq!(
        (&last["type"], &last["status"], &last["error"]["code"]),
        (&json!("error"), &json!(503), &json!("store_unavailable"))
    );
    world.close().await;
}

/// R1: a socket has the profile that its address asks for.
#[tokio::test]
async fn the_profile_of_a_socket() {
    let works = Behaviour::Reports(3, Duration::from_millis(5), "ok".into());
    let turns = [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let model = Scripted::new(turns).looping();
    let world = Plan::with_model(model).server("m", [FakeTool::new("work", works)]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    for (path, is_extended) in [("/v1/responses", false), ("/v1/responses?profile=extended", true)]
    {
        let mut socket = world.socket(path).await;
        let events = create(&mut socket, json!({ "input": "?", "tools": tools })).await;
        let extended = turnwire_surfaces::ResponseEvent::TYPES_EXTENDED;
        let has_more = types(&events).iter().any(|kind| extended.contains(kind));
        assert_eq!(has_more, is_extended, "{path}: {:?}", types(&events));
    }
    world.close().await;
}
