//! `/v1/runs`.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of, types};

fn plan() -> Plan {
    let turns = [Turn::new().text("Hm. ").call("t", json!({ "n": 1 })), Turn::new().text("Done.")];
    Plan::new(turns).tool(FakeTool::new("t", Behaviour::Returns("r".to_owned())))
}

/// The id of the newest run.
async fn newest(world: &World) -> String {
    world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned()
}

/// Every event as it is in the journal, as SSE and as lines, resumable at any place (C11).
#[tokio::test]
async fn every_event_from_any_place() {
    let world = plan().start().await;
    world.post("/chat", json!({ "message": "Go" })).await;
    let run = newest(&world).await;
    let path = format!("/v1/runs/{run}/events");
    let all = data_of(&world.text(world.request(Method::GET, &path)).await);
    let seqs: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!(all.last().unwrap()["event"]["type"], "run_finished");
    let lines = world.request(Method::GET, &path).header("Accept", "application/x-ndjson");
    let lines: Vec<Value> =
        world.text(lines).await.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all);
    for after in 0..=all.len() {
        let rest = world.request(Method::GET, &path).header("Last-Event-ID", after.to_string());
        assert_eq!(data_of(&world.text(rest).await), all[after..]);
        let rest = world.request(Method::GET, &format!("{path}?after={after}&follow=false"));
        assert_eq!(data_of(&world.text(rest).await), all[after..]);
    }
    world.close().await;
}

/// Snapshot, then tail: together they are everything.
#[tokio::test]
async fn a_late_viewer_gets_a_snapshot_and_the_rest() {
    let waits = FakeTool::new("t", Behaviour::Takes(Duration::from_secs(2), "r".to_owned()));
    let turns = [Turn::new().text("Hm. ").call("t", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).server("m", [waits]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let asked = json!({ "input": "?", "background": true, "tools": tools });
    let run = world.respond(asked).await["id"].as_str().unwrap().replace("resp_", "run_");
    let path = format!("/v1/runs/{run}");
    while world.get(&path).await.1["calls"][0]["state"] != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let text =
        world.text(world.request(Method::GET, &format!("{path}/events?snapshot=true"))).await;
    assert!(text.starts_with("event: snapshot\n"));
    let frames = data_of(&text);
    assert_eq!(frames[0]["calls"][0]["state"], "running");
    assert_eq!(frames[1]["seq"], frames[0]["last_seq"].as_u64().unwrap() + 1);
    assert_eq!(frames.last().unwrap()["event"]["type"], "run_finished");
    let (_, over) = world.get(&path).await;
    assert_eq!(
        (&over["status"], &over["calls"][0]["state"]),
        (&json!("completed"), &json!("done"))
    );
    assert_eq!(over["calls"][0]["attempts"].as_array().unwrap().len(), 1);
    world.close().await;
}

/// C14: one of two calls is cancelled, its sibling and the run go on; then it is tried again.
#[tokio::test]
async fn one_call_is_cancelled_and_tried_again() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let sibling =
        FakeTool::new("work", Behaviour::Takes(Duration::from_millis(300), "ok".to_owned()));
    let turns = [
        Turn::new().call_with_id("call_w", "wait", json!({})).call_with_id(
            "call_s",
            "work",
            json!({}),
        ),
        Turn::new().text("Half of it."),
        Turn::new().text("Never mind."),
    ];
    let world = Plan::new(turns).server("m", [waits.clone(), sibling]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let asked = json!({ "input": "?", "background": true, "tools": tools });
    let run = world.respond(asked).await["id"].as_str().unwrap().replace("resp_", "run_");
    let path = format!("/v1/runs/{run}");
    while world.get(&path).await.1["calls"][1]["state"] != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (status, error) = world.post(&format!("{path}/calls/call_w/retry"), json!({})).await;
    assert_eq!((status, &error["error"]["code"]), (StatusCode::CONFLICT, &json!("not_retryable")));
    let cancel = format!("{path}/calls/call_w/cancel");
    assert_eq!(world.post(&cancel, json!({})).await.1["done"], true);
    world.text(world.request(Method::GET, &format!("{path}/events"))).await;
    assert_eq!(world.post(&cancel, json!({})).await.1["done"], false);
    let (_, over) = world.get(&path).await;
    let ends: Vec<&str> =
        over["calls"].as_array().unwrap().iter().map(|c| c["state"].as_str().unwrap()).collect();
    assert_eq!((ends, &over["status"]), (vec!["stopped", "done"], &json!("completed")));
    let (status, _) = world.post(&format!("{path}/calls/call_s/retry"), json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "what worked is not tried again");
    let (status, again) = world.post(&format!("{path}/calls/call_w/retry"), json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let again = again["run_id"].as_str().unwrap();
    assert_ne!(again, run);
    while world.get(&format!("/v1/runs/{again}")).await.1["calls"][0]["state"] != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(waits.n_calls(), 2);
    assert_eq!(world.post(&format!("/v1/runs/{again}/cancel"), json!({})).await.1["done"], true);
    world.close().await;
}

/// C15: a call that waits for a person is answered over the native surface, once.
#[tokio::test]
async fn an_approval_is_answered_once() {
    let drop = FakeTool::new("drop", Behaviour::Returns("dropped".to_owned()))
        .with(|spec| spec.needs_approval = true);
    let turns = [Turn::new().call_with_id("call_d", "drop", json!({})), Turn::new().text("Gone.")];
    let world = Plan::new(turns).tool(drop.clone()).start().await;
    let body = json!({ "message": "Drop it.", "approvals": true });
    let request = world.request(Method::POST, "/chat/stream").json(&body);
    let mut response = request.send().await.unwrap();
    let first = String::from_utf8(response.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.contains("approval_request"), "{first}");
    let run = newest(&world).await;
    let path = format!("/v1/runs/{run}/calls/call_d/approve");
    assert_eq!(world.post(&path, json!({ "approve": true })).await.1["done"], true);
    let (status, again) = world.post(&path, json!({ "decision": "approve" })).await;
    assert_eq!((status, &again["done"]), (StatusCode::OK, &json!(true)), "the same once more");
    let (status, other) = world.post(&path, json!({ "approve": false })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(other["error"]["code"], "already_answered");
    let nobody = format!("/v1/runs/{run}/calls/call_x/approve");
    let (status, other) = world.post(&nobody, json!({ "approve": true })).await;
    assert_eq!((status, &other["error"]["code"]), (StatusCode::CONFLICT, &json!("not_waiting")));
    for nonsense in
        [json!({}), json!({ "approve": true, "decision": "deny" }), json!({ "approve": 1 })]
    {
        assert_eq!(world.post(&path, nonsense).await.0, StatusCode::BAD_REQUEST);
    }
    let rest = data_of(&response.text().await.unwrap());
    assert_eq!(types(&rest), ["tool_call", "tool_result", "response", "done"]);
    assert_eq!(drop.n_calls(), 1);
    world.close().await;
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = plan().start().await;
    for path in [
        "/v1/runs/run_none",
        "/v1/runs/run_none/events",
        "/v1/runs/run_none/calls/call_1/result",
        "/v1/responses/resp_none",
        "/v1/responses/run_none",
        "/v1/conversations/conv_none",
        "/nowhere",
    ] {
        let (status, error) = world.get(path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(error["error"]["code"], "not_found", "{path}: {error}");
    }
    world.close().await;
}
