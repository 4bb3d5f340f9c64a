//! `GET /v1/runs` with filters and counts, and its live feed.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Item, RunRequest, TenantId};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of};

fn plan() -> Plan {
    let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
    let risky = FakeTool::new("risky", Behaviour::Returns("r".to_owned()));
    let turns = [
        Turn::new().text("Hm. ").call("t", json!({})),
        Turn::new().text("Done."),
        Turn::new().call("risky", json!({})),
        Turn::new().text("Done."),
    ];
    Plan::new(turns).tool(tool).tool(risky.with(|spec| spec.needs_approval = true))
}

async fn ask_for_approval(world: &World) -> reqwest::Response {
    let body = json!({ "message": "Delete it", "approvals": true });
    let stream = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    while world.get("/v1/runs?status=needs_input").await.1["data"][0].is_null() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream
}

/// A line says what a list shows, filters choose, counts are those of all statuses, and `needs
/// input` is a status of the line and of the snapshot.
#[tokio::test]
async fn lines_filters_and_counts() {
    let world = plan().start().await;
    world.post("/chat", json!({ "message": "Look\nthere" })).await;
    let _stream = ask_for_approval(&world).await;
    let (_, all) = world.get("/v1/runs").await;
    let (asks, done) = (&all["data"][0], &all["data"][1]);
    assert_eq!((&done["title"], &done["status"]), (&json!("Look there"), &json!("completed")));
    assert_eq!((&done["tools"], &done["n_calls"]), (&json!(["t"]), &json!(1)));
    assert_eq!(done["n_failed_calls"], 0);
    assert!(done["ended_at"].is_string() && asks["ended_at"].is_null(), "{all:#}");
    assert_eq!((&asks["status"], &asks["tools"]), (&json!("needs_input"), &json!(["risky"])));
    let counts = json!({
        "active": 0, "needs_input": 1, "stalled": 0, "completed": 1, "incomplete": 0, "failed": 0,
        "cancelled": 0,
    });
    assert_eq!(all["counts"], counts);
    let run = asks["run_id"].as_str().unwrap();
    let (_, snapshot) = world.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "needs_input");
    for (query, titles) in [
        ("status=completed,failed", vec!["Look there"]),
        ("tool=risky", vec!["Delete it"]),
        ("q=LOOK", vec!["Look there"]),
        ("model=default", vec!["Delete it", "Look there"]),
        ("model=other", vec![]),
        ("conversation_id=conv_none", vec![]),
        ("created_after=2999-01-01T00:00:00Z", vec![]),
        ("created_before=2999-01-01T00:00:00Z&order=asc&limit=1", vec!["Look there"]),
    ] {
        let (status, found) = world.get(&format!("/v1/runs?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}: {found:#}");
        let lines = found["data"].as_array().unwrap().iter();
        let found: Vec<&str> = lines.map(|line| line["title"].as_str().unwrap()).collect();
        assert_eq!(found, titles, "{query}");
    }
    for (query, param) in [
        ("status=running", "status"),
        ("created_after=yesterday", "created_after"),
        ("after=run_none", "after"),
        ("limit=0", "limit"),
    ] {
        let (status, refused) = world.get(&format!("/v1/runs?{query}")).await;
        let said = (status, refused["error"]["param"].as_str().unwrap_or_default().to_owned());
        assert_eq!(said, (StatusCode::BAD_REQUEST, param.to_owned()), "{query}");
    }
    world.close().await;
}

/// The feed has every run that is created, changes its status or calls a tool, and a keep-alive; a
/// line in it is the line of the list.
#[tokio::test]
async fn the_feed_has_what_changes() {
    let world = plan().options(|options| options.keep_alive_interval = Duration::from_millis(50));
    let world = world.start().await;
    world.post("/chat", json!({ "message": "Before" })).await;
    let feed = world.request(Method::GET, "/v1/runs/changes").send().await.unwrap();
    assert_eq!(feed.headers()["content-type"], "text/event-stream");
    let mut feed = feed.bytes_stream();
    let _stream = ask_for_approval(&world).await;
    let mut text = String::new();
    let mut until = async |wanted: &str| {
        while !text.contains(wanted) || !text.ends_with("\n\n") {
            let next = tokio::time::timeout(Duration::from_secs(10), feed.next());
            let bytes = next.await.expect(wanted).unwrap().unwrap();
            text.push_str(std::str::from_utf8(&bytes).unwrap());
            text = text.replace(": ping\n", "");
        }
        text.clone()
    };
    let seen = until("needs_input").await;
    assert!(seen.starts_with("event: run\ndata: {"), "{seen}");
    let line: Value = data_of(&seen).pop().unwrap();
    assert_eq!((&line["title"], &line["tools"]), (&json!("Delete it"), &json!(["risky"])));
    let run = line["run_id"].as_str().unwrap();
    world.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    let seen = until("cancelled").await;
    assert!(!seen.contains("Before"), "it did not change: {seen}");
    let listed = world.get("/v1/runs").await.1["data"][0].clone();
    assert_eq!(data_of(&seen).pop().unwrap(), listed);
    world.close().await;
}

/// A1: nobody sees runs of another tenant, in the list or in the feed.
#[tokio::test]
async fn runs_of_another_tenant_are_not_seen() {
    let world = plan().start().await;
    let feed = world.request(Method::GET, "/v1/runs/changes").send().await.unwrap();
    let mut feed = feed.bytes_stream();
    let mut theirs = RunRequest::new("default", vec![Item::user("Secret")]);
    theirs.tenant = TenantId::from("other");
    world.app.runs().start(theirs).await.unwrap().outcome().await;
    world.post("/chat", json!({ "message": "Ours" })).await;
    let mut text = String::new();
    while !text.contains("completed") {
        let next = tokio::time::timeout(Duration::from_secs(10), feed.next());
        let bytes = next.await.expect("it comes").unwrap().unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    let listed = world.get("/v1/runs?q=secret").await.1;
    assert_eq!((&listed["data"], &listed["counts"]["failed"]), (&json!([]), &json!(0)));
    assert!(text.contains("Ours") && !text.contains("Secret"), "{text}");
    world.close().await;
}
