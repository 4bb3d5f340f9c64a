//! Who did what is recorded, whatever surface they used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{
    AuditEnd, AuditEntry, AuditLog, AuditQuery, AuditRecord, AuditReport, StoreError,
};
use turnwire_engine::MemoryAuditLog;
use turnwire_gateway::AuditLevel;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::Team,
    world::{Plan, World},
};

const KEY: &str = "a-key-of-the-settings";

async fn call(
    world: &World,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let mut request = world.request(method, path).bearer_auth(KEY);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Actions and objects, oldest first.
async fn recorded(world: &World) -> Vec<(String, String)> {
    let query = AuditQuery { limit: 1_000, ..AuditQuery::default() };
    let mut entries = world.app.runs().audit().list(query).await.unwrap();
    entries.reverse();
    let line = |entry: AuditEntry| (entry.record.action.to_string(), entry.record.object);
    entries.into_iter().map(line).collect()
}

fn with_key(plan: Plan) -> Plan {
    plan.options(|options| options.auth.api_keys = vec![KEY.to_owned()])
}

/// Runs, cancellations, share links, deletions, changes and keys, each with who did it and the hash
/// of what they said; the list is for admins.
#[tokio::test]
async fn what_is_done_is_recorded() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let world =
        with_key(Plan::new([Turn::new().call("wait", json!({}))]).tool(waits)).start().await;
    let body = json!({ "input": "A secret.", "background": true,
        "tools": [{ "type": "function", "name": "wait" }] });
    let (status, made) = call(&world, Method::POST, "/v1/responses", Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let id = made["id"].as_str().unwrap();
    let (_, runs) = call(&world, Method::GET, "/v1/runs", None).await;
    let run = runs["data"][0]["run_id"].as_str().unwrap().to_owned();
    let share = format!("/v1/runs/{run}/share");
    let (_, shared) = call(&world, Method::POST, &share, Some(json!({}))).await;
    let share_id = shared["share_id"].as_str().unwrap();
    call(&world, Method::DELETE, &format!("/v1/runs/{run}/shares/{share_id}"), None).await;
    call(&world, Method::POST, &format!("/v1/runs/{run}/cancel"), None).await;
    // Until it has ended.
    call(&world, Method::GET, &format!("/v1/runs/{run}/events"), None).await;
    call(&world, Method::DELETE, &format!("/v1/responses/{id}"), None).await;
    call(&world, Method::POST, "/v1/conversations", Some(json!({}))).await;
    let (_, key) = call(&world, Method::POST, "/v1/admin/keys", Some(json!({ "name": "n" }))).await;
    let key_id = key["key_id"].as_str().unwrap().to_owned();
    call(&world, Method::DELETE, &format!("/v1/admin/keys/{key_id}"), None).await;

    let expected = [
        ("run.started", run.as_str()),
        ("run.shared", &run),
        ("share.revoked", &run),
        ("run.cancelled", &run),
        ("run.deleted", &run),
        ("changed", "/v1/conversations"),
        ("key.created", &key_id),
        ("key.revoked", &key_id),
    ];
    let seen = recorded(&world).await;
    let seen: Vec<(&str, &str)> =
        seen.iter().map(|(action, object)| (action.as_str(), object.as_str())).collect();
    assert_eq!(seen, expected);
    let path = format!("/v1/admin/audit?object={run}&action=run.started");
    let (status, list) = call(&world, Method::GET, &path, None).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    let entry = &list["data"][0];
    assert!(entry["actor"]["key_id"].as_str().unwrap().starts_with("settings_"), "{entry}");
    assert_eq!(entry["content"].as_str().unwrap().len(), 64, "{entry}");
    assert!(!list.to_string().contains("secret"), "contents are hashes: {list}");
    let (_, page) = call(&world, Method::GET, "/v1/admin/audit?limit=2", None).await;
    let cursor = page["cursor"].as_str().unwrap();
    let path = format!("/v1/admin/audit?limit=100&before={cursor}");
    let (_, rest) = call(&world, Method::GET, &path, None).await;
    assert_eq!(rest["data"].as_array().unwrap().len(), expected.len() - 2);
    for wrong in ["limit=0", "limit=1001", "action=none", "before=none"] {
        let path = format!("/v1/admin/audit?{wrong}");
        assert_eq!(
            call(&world, Method::GET, &path, None).await.0,
            StatusCode::BAD_REQUEST,
            "{wrong}"
        );
    }
    world.close().await;
}

/// An approval that comes with a request is recorded like one that is sent to the run.
#[tokio::test]
async fn approvals_are_recorded_however_they_come() {
    let send = || Turn::new().call("send", json!({}));
    let plan = Plan::new([send(), Turn::new().text("Sent."), send(), Turn::new().text("Sent.")]);
    let send = FakeTool::new("send", Behaviour::Returns("sent".to_owned()));
    let world = with_key(plan.server("m", [send])).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "always" }]);
    let asked = json!({ "input": "?", "tools": tools });
    let (_, waits) = call(&world, Method::POST, "/v1/responses", Some(asked.clone())).await;
    let request = waits["output"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|item| (item["type"] == "mcp_approval_request").then(|| item["id"].clone()));
    let answer = json!({
        "type": "mcp_approval_response",
        "approval_request_id": request.unwrap(),
        "approve": true,
    });
    let next = json!({ "previous_response_id": waits["id"], "input": [answer], "tools": tools });
    let (status, done) = call(&world, Method::POST, "/v1/responses", Some(next)).await;
    assert_eq!(status, StatusCode::OK, "{done:#}");
    let run = done["id"].as_str().unwrap().replace("resp_", "run_");
    let seen = recorded(&world).await;
    assert_eq!(seen[1], ("call.approved".to_owned(), run.clone()), "{seen:?}");
    assert_eq!(seen[2], ("run.started".to_owned(), run), "{seen:?}");
    world.close().await;
}

/// Reading is recorded where the operator wants it, also by share links.
#[tokio::test]
async fn reading_is_recorded_on_request() {
    let plan = with_key(Plan::new([Turn::new().text("Hello.")]));
    let world = plan.options(|options| options.audit = AuditLevel::Reads).start().await;
    let (_, made) =
        call(&world, Method::POST, "/v1/responses", Some(json!({ "input": "?" }))).await;
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    call(&world, Method::GET, &path, None).await;
    call(&world, Method::GET, "/v1/responses/resp_of_somebody_else", None).await;
    let seen = recorded(&world).await;
    assert_eq!(seen[1], ("read".to_owned(), path));
    assert_eq!(seen[2].1, "/v1/responses/resp_of_somebody_else", "attempts count");
    let run = made["id"].as_str().unwrap().replace("resp_", "run_");
    let share = format!("/v1/runs/{run}/share");
    let (_, shared) = call(&world, Method::POST, &share, Some(json!({}))).await;
    let token = shared["token"].as_str().unwrap();
    let path = format!("/v1/shared/{token}");
    assert_eq!(world.get(&path).await.0, StatusCode::OK);
    let seen = recorded(&world).await;
    assert_eq!(*seen.last().unwrap(), ("read".to_owned(), run));
    assert!(!format!("{seen:?}").contains(token), "the link is a secret: {seen:?}");
    world.close().await;
}

/// A log that cannot be written at first.
#[derive(Clone, Default)]
struct Late {
    log: Arc<MemoryAuditLog>,
    is_back: Arc<AtomicBool>,
}

#[async_trait]
impl AuditLog for Late {
    async fn append(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if self.is_back.load(Ordering::Relaxed) {
            return self.log.append(records).await;
        }
        Err(StoreError::Unavailable("the disk is full".to_owned()))
    }

    async fn list(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        self.log.list(query).await
    }

    async fn verify(&self, kept: &[AuditEnd]) -> Result<AuditReport, StoreError> {
        self.log.verify(kept).await
    }
}

/// What cannot be recorded is not done; but a run goes on, and is recorded as soon as that works.
#[tokio::test]
async fn a_log_that_is_away() {
    let log = Late::default();
    let model = Scripted::new([Turn::new().text("Hello.")]).repeat_last();
    let world = with_key(Plan::with_model(model)).audit(log.clone()).start().await;
    let asked = || Some(json!({ "input": "?" }));
    let (status, answer) = call(&world, Method::POST, "/v1/responses", asked()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, _) = call(&world, Method::POST, "/v1/conversations", Some(json!({}))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let path = format!("/v1/responses/{}", answer["id"].as_str().unwrap());
    let (status, _) = call(&world, Method::DELETE, &path, None).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(call(&world, Method::GET, &path, None).await.0, StatusCode::OK, "it is still there");
    assert_eq!(recorded(&world).await, []);
    log.is_back.store(true, Ordering::Relaxed);
    let run = answer["id"].as_str().unwrap().replace("resp_", "run_");
    let is_recorded = async {
        while recorded(&world).await != [("run.started".to_owned(), run.clone())] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_recorded).await.expect("it is recorded");
    world.close().await;

    // Without a log nothing depends on it.
    let plan = with_key(Plan::new([Turn::new().text("Hello.")])).audit(Late::default());
    let world = plan.options(|options| options.audit = AuditLevel::None).start().await;
    let (status, answer) = call(&world, Method::POST, "/v1/responses", asked()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, _) = call(&world, Method::POST, "/v1/conversations", Some(json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    world.close().await;
}

/// A17: a run that is stored nowhere is not answered without its entry in the log.
#[tokio::test]
async fn what_only_the_log_knows_needs_the_log() {
    let log = Late::default();
    let model = Scripted::new([Turn::new().text("Hello.").wait_forever()]).looping();
    let plan = with_key(Plan::with_model(model)).audit(log.clone()).workers(Team::default());
    let world = plan.start().await;
    let asked = Some(json!({ "input": "?", "store": false }));
    let (status, answer) = call(&world, Method::POST, "/v1/responses", asked).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    assert_eq!(answer["error"]["code"], "store_unavailable");
    let is_over = async {
        while world.app.runs().n_live() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), is_over).await.expect("the run is cancelled");
    // It is recorded all the same: its model was asked.
    log.is_back.store(true, Ordering::Relaxed);
    let is_recorded = async {
        while recorded(&world).await.len() != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_recorded).await.expect("it is recorded");
    world.close().await;
}
