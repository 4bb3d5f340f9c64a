//! `/v1/mcp_servers`, and runs that try one tool.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Effect, Scope, TenantId, ToolClaims};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeServers, FakeTool};

use crate::{
    tenants::new_key,
    world::{Plan, World},
};

fn plan() -> (Plan, FakeTool) {
    plan_with(None)
}

fn plan_with(more: Option<FakeTool>) -> (Plan, FakeTool) {
    let risky = FakeTool::new("delete it", Behaviour::Returns("gone".to_owned())).with(|spec| {
        spec.needs_approval = true;
        spec.effect = Effect::Once;
        spec.title = Some("Delete".to_owned());
        let claims = ToolClaims { destructive: Some(true), ..ToolClaims::default() };
        spec.claims = Some(claims);
    });
    let plain =
        FakeTool::new("look", Behaviour::Multiplies).with(|spec| spec.effect = Effect::Pure);
    let servers = FakeServers::default()
        .with("files", [plain, risky.clone()].into_iter().chain(more))
        .dead("broken", "it is not there");
    (Plan::new([]).servers(servers), risky)
}

async fn snapshot(world: &World, run: &Value, is_there: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/runs/{}", run.as_str().unwrap());
    let wait = async {
        loop {
            let (_, snapshot) = world.get(&path).await;
            if is_there(&snapshot) {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("it comes to that")
}

/// Servers are listed with their tools, what the operator says of them, and what the server claims.
#[tokio::test]
async fn servers_are_listed_with_their_tools() {
    let (plan, _) = plan();
    let world = plan.start().await;
    world.app.runs().servers().tools(&TenantId::default(), "files".into()).await.unwrap();
    let (status, listed) = world.get("/v1/mcp_servers").await;
    assert_eq!((status, &listed["object"]), (StatusCode::OK, &json!("list")));
    let names: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broken", "files"]);
    let files = &listed["data"][1];
    assert_eq!((&files["state"], &files["last_error"]), (&json!("connected"), &Value::Null));
    let tool = &files["tools"][1];
    assert_eq!((&tool["name"], &tool["title"]), (&json!("delete it"), &json!("Delete")));
    assert_eq!((&tool["effect"], &tool["requires_approval"]), (&json!("once"), &json!(true)));
    let claims =
        json!({ "read_only": null, "destructive": true, "idempotent": null, "open_world": null });
    assert_eq!((&tool["claims"], &tool["changed"]), (&claims, &json!(false)));
    assert!(tool["input_schema"].is_object() && tool["description"].is_string());
    assert_eq!(files["tools"][0]["effect"], "pure");
    world.close().await;
}

/// Addresses of servers are for those who administer.
#[tokio::test]
async fn addresses_are_for_those_who_administer() {
    let (plan, _) = plan();
    let world = plan.start().await;
    let operator = new_key(&world, "acme", [Scope::RunsRead, Scope::Operator]).await.text;
    let admin = new_key(&world, "acme", [Scope::RunsRead, Scope::Admin]).await.text;
    let reader = new_key(&world, "acme", [Scope::RunsRead]).await.text;
    let listed = async |key: &str| {
        let request = world.request(Method::GET, "/v1/mcp_servers").bearer_auth(key);
        let listed: Value = request.send().await.unwrap().json().await.unwrap();
        listed["data"].clone()
    };
    for key in [&operator, &admin] {
        let servers = listed(key).await;
        assert!(servers.as_array().unwrap().iter().all(|it| it["address"].is_string()));
    }
    let servers = listed(&reader).await;
    assert!(servers.as_array().unwrap().iter().all(|it| it["address"].is_null()), "{servers:#}");
    world.close().await;
}

/// C15: a tool is tried in a run of one call, with the approvals that it has; the server's claims
/// stand beside the effect class. The model is not asked.
#[tokio::test]
async fn a_tool_is_tried_with_its_approvals() {
    let (plan, risky) = plan();
    let world = plan.start().await;
    let path = "/v1/mcp_servers/files/tools/delete%20it/try";
    let (status, started) = world.post(path, json!({ "arguments": {} })).await;
    assert_eq!(status, StatusCode::CREATED, "{started:#}");
    let asks = snapshot(&world, &started["run_id"], |run| run["status"] == "needs_input").await;
    let approval = &asks["calls"][0]["approval"];
    assert_eq!(
        (&approval["effect"], &approval["server_claims"]),
        (&json!("once"), &json!({ "destructive": true }))
    );
    assert_eq!(risky.n_calls(), 0);
    let (run, call) =
        (started["run_id"].as_str().unwrap(), asks["calls"][0]["call_id"].as_str().unwrap());
    let path = format!("/v1/runs/{run}/calls/{call}/approve");
    world.post(&path, json!({ "approve": true })).await;
    let over = snapshot(&world, &started["run_id"], |run| !run["outcome"].is_null()).await;
    assert_eq!(
        (&over["status"], &over["calls"][0]["state"]),
        (&json!("completed"), &json!("done"))
    );
    assert_eq!((risky.n_calls(), world.model.prompts().len()), (1, 0));
    let (_, listed) = world.get("/v1/runs").await;
    assert_eq!(listed["data"][0]["title"], "Try delete it of files");
    world.close().await;
}

/// A call that fails, and a server that does not answer, end the run with what is wrong; what does
/// not exist is not found.
#[tokio::test]
async fn what_cannot_be_tried_says_so() {
    let (plan, _) = plan();
    let world = plan.start().await;
    for (server, tool) in [("none", "look"), ("files", "none")] {
        let (status, _) =
            world.post(&format!("/v1/mcp_servers/{server}/tools/{tool}/try"), json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    for (server, state) in [("files", "failed"), ("broken", "failed")] {
        let path = format!("/v1/mcp_servers/{server}/tools/look/try");
        let (_, started) = world.post(&path, json!({ "arguments": { "a": "x" } })).await;
        let over = snapshot(&world, &started["run_id"], |run| !run["outcome"].is_null()).await;
        assert_eq!(
            (&over["status"], &over["calls"][0]["state"]),
            (&json!("completed"), &json!(state))
        );
    }
    let (status, refused) =
        world.post("/v1/mcp_servers/files/tools/look/try", json!({ "arguments": 1 })).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("arguments"))
    );
    world.close().await;
}

/// The list has the calls of each server: how many, how many failed, how long they took. A call
/// that was denied never reached its server.
#[tokio::test]
async fn the_calls_of_a_server_are_counted() {
    let fails = FakeTool::new("fail", Behaviour::Fails("no luck".to_owned()));
    let (plan, _) = plan_with(Some(fails));
    let world = plan.start().await;
    let tried = async |tool: &str, arguments: Value| {
        let path = format!("/v1/mcp_servers/files/tools/{tool}/try");
        let (_, started) = world.post(&path, json!({ "arguments": arguments })).await;
        started["run_id"].clone()
    };
    let over = async |run: &Value| {
        snapshot(&world, run, |run| !run["outcome"].is_null()).await;
    };
    for _ in 0..3 {
        over(&tried("look", json!({ "a": 2, "b": 3 })).await).await;
    }
    over(&tried("fail", json!({})).await).await;
    let denied = tried("delete%20it", json!({})).await;
    let asks = snapshot(&world, &denied, |run| run["status"] == "needs_input").await;
    let call = asks["calls"][0]["call_id"].as_str().unwrap();
    let path = format!("/v1/runs/{}/calls/{call}/approve", denied.as_str().unwrap());
    world.post(&path, json!({ "approve": false })).await;
    over(&denied).await;
    let (_, listed) = world.get("/v1/mcp_servers").await;
    let [broken, files] = [0, 1].map(|n| &listed["data"][n]);
    let calls = &files["calls"];
    assert_eq!((&calls["total"], &calls["failed"]), (&json!(4), &json!(1)), "{calls:#}");
    assert!(calls["p50_ms"].is_u64() && calls["p95_ms"].is_u64() && calls["since"].is_string());
    let half_hours = calls["half_hours"].as_array().unwrap();
    let total: u64 = half_hours.iter().map(|one| one["total"].as_u64().unwrap()).sum();
    assert_eq!((total, half_hours[0]["start"].is_string()), (4, true));
    assert!(files["tools"][0]["p50_ms"].is_u64() && files["tools"][1]["p50_ms"].is_null());
    assert_eq!((&broken["calls"]["total"], &broken["calls"]["p50_ms"]), (&json!(0), &Value::Null));
    world.close().await;
}

/// A19: while arguments are checked against a schema that takes long, others are answered. The
/// server of this test has one thread.
#[tokio::test]
async fn a_schema_keeps_nobody_waiting() {
    let constants: Vec<Value> = (0..1_000).map(|n| json!({ "const": n })).collect();
    let long = FakeTool::new("long", Behaviour::Returns("x".to_owned())).with(|spec| {
        spec.parameters = json!({ "properties": { "x": { "contains": { "anyOf": constants } } } });
    });
    let turn = Turn::new().call("long", json!({ "x": vec![-1; 60_000] }));
    let turns = [turn, Turn::new().text("Done.")];
    let world = Plan::new(turns).server("evil", [long]).start().await;
    let tools = json!([{
        "type": "mcp", "server_label": "evil", "require_approval": "never"
    }]);
    let run = world.respond(json!({ "input": "Go.", "tools": tools }));
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let others = async {
        loop {
            let asked = Instant::now();
            assert_eq!(world.get("/healthz").await.0, StatusCode::OK);
            longest = longest.max(asked.elapsed());
        }
    };
    let response = tokio::select! {
        response = run => response,
        () = others => unreachable!(),
    };
    let whole = began.elapsed();
    assert_eq!(response["status"], "completed");
    let call = response["output"].as_array().unwrap().iter().find(|it| it["type"] == "mcp_call");
    assert_eq!(call.unwrap()["status"], "failed", "{response:#}");
    assert!(longest * 2 < whole, "others wait {longest:?} of {whole:?}");
    world.close().await;
}
