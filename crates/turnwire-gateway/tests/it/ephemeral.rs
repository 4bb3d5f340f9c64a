//! Runs that nobody can ask for once their client is gone: a durable store never sees them
//! (decision 045).

use std::{fs, path::Path, sync::atomic::Ordering, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    draining::read_until,
    faults::{BreakingLog, SlowStore, Team},
    world::{Plan, World, data_of, events_of, types},
};

/// What the clients ask and the model says. Nothing of it may be in the database.
const ASKED: &str = "canary-asked-7319";
const SAID: &str = "canary-said-2048";

/// A server on a database of its own.
async fn on_a_database(plan: Plan) -> (World, Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("runs.db").display());
    let store = Store::open(StoreOptions::at(url)).await.unwrap();
    let world = plan.on(&store).audit(store.clone()).start().await;
    (world, store, folder)
}

fn chatty() -> Plan {
    Plan::with_model(Scripted::new([Turn::new().text(SAID)]).looping())
}

/// A server that shares a store in memory with others.
fn in_a_team(plan: Plan, store: &SlowStore, team: &Team) -> Plan {
    plan.store(store.clone()).log(BreakingLog::after(usize::MAX)).workers(team.clone())
}

/// Whether the files of the database have this text.
fn is_written(folder: &Path, text: &str) -> bool {
    let files = fs::read_dir(folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
}

fn run_id(event: &Value) -> String {
    event["response"]["id"].as_str().unwrap().replace("resp_", "run_")
}

/// R10, C25: a response that is not stored, and that is cancelled with its client, is not written
/// to the database, on any surface that has such responses. Its entry in the audit log is.
#[tokio::test]
async fn what_nobody_can_ask_for_is_not_written() {
    let (world, store, folder) = on_a_database(chatty()).await;
    let response = world.respond(json!({ "input": ASKED, "store": false })).await;
    let first = response["id"].as_str().unwrap().replace("resp_", "run_");
    let events = world.stream(json!({ "input": ASKED, "store": false })).await;
    assert_eq!(types(&events).last(), Some(&"response.completed"));
    let tools = json!([{ "type": "function", "name": "look", "parameters": {} }]);
    world.respond(json!({ "input": ASKED, "store": false, "tools": tools })).await;
    let messages = json!([{ "role": "user", "content": ASKED }]);
    let body = json!({ "messages": messages });
    let (status, completion) = world.post("/v1/chat/completions", body).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(completion["choices"][0]["message"]["content"], SAID);
    let mut socket = world.socket("/v1/responses").await;
    let mut previous = Value::Null;
    for _ in 0..2 {
        let mut body = json!({ "type": "response.create", "input": ASKED, "store": false });
        body["previous_response_id"] = previous;
        socket.send(body).await;
        let events = socket.until(|event| event["type"] == "response.completed").await;
        previous = events.last().unwrap()["response"]["id"].clone();
    }
    let prompts = world.model.prompts();
    assert_eq!(prompts.last().unwrap().items.len(), 3, "continued on its socket");
    drop(socket);
    let check = |when: &str| {
        assert!(!is_written(folder.path(), ASKED), "what was asked, {when}");
        assert!(!is_written(folder.path(), SAID), "what was said, {when}");
        assert!(is_written(folder.path(), &first), "the entry in the audit log, {when}");
    };
    check("while it is open");
    world.close().await;
    store.close().await;
    check("closed");
}

/// C5, C8, C9, C10: everything that may have to outlive the process is written, whether or not it
/// is stored after its end.
#[tokio::test]
async fn what_must_outlive_the_process_is_written() {
    let tool = || FakeTool::new("deploy", Behaviour::Returns("done".into()));
    let cases = [
        ("stored", json!({ "store": true }), None),
        ("a key", json!({ "on_disconnect": "cancel" }), Some("key-1")),
        ("goes on", json!({ "on_disconnect": "continue" }), None),
        ("a conversation", json!({ "conversation": "CONVERSATION" }), None),
        ("continues", json!({ "previous_response_id": "PREVIOUS" }), None),
        ("a tool", json!({ "tools": [{ "type": "mcp", "server_label": "m" }] }), None),
        ("a function", json!({ "tools": [{ "type": "function", "name": "deploy" }] }), None),
    ];
    let mut not_written = Vec::new();
    for (what, mut body, key) in cases {
        let plan = chatty().tool(tool()).server("m", [tool()]);
        let (world, store, folder) = on_a_database(plan).await;
        let before = world.respond(json!({ "input": "Hello." })).await;
        let conversation = world.post("/v1/conversations", json!({})).await.1;
        for (name, known) in [("previous_response_id", before), ("conversation", conversation)] {
            if body.get(name).is_some() {
                body[name] = known["id"].clone();
            }
        }
        body["input"] = json!(ASKED);
        if body.get("store").is_none() {
            body["store"] = json!(false);
        }
        let mut request = world.request(Method::POST, "/v1/responses");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let text = world.text(request.json(&body)).await;
        assert!(text.contains(SAID), "{what}: {text}");
        if !is_written(folder.path(), ASKED) {
            not_written.push(what);
        }
        world.close().await;
        store.close().await;
    }
    assert_eq!(not_written, [""; 0]);
}

/// R10: nobody else finds the run by its ID or in a list, and it ends with its client.
#[tokio::test]
async fn it_is_its_clients_alone() {
    let endless = Scripted::new([Turn::new().text(SAID).wait_forever()]).looping();
    let (world, store, _folder) = on_a_database(Plan::with_model(endless)).await;
    let body = json!({ "input": ASKED, "stream": true, "store": false });
    let request = world.request(Method::POST, "/v1/responses").json(&body);
    let mut response = request.send().await.unwrap();
    let text = read_until(&mut response, SAID).await;
    let run_id = run_id(&data_of(text.rsplit_once("\n\n").unwrap().0)[0]);
    assert_eq!(world.app.runs().n_live(), 1);
    for path in ["", "/events", "/calls"] {
        let (status, _) = world.get(&format!("/v1/runs/{run_id}{path}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["cancel", "share"] {
        let (status, _) = world.post(&format!("/v1/runs/{run_id}/{path}"), json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(world.get("/v1/runs").await.1["data"], json!([]));
    drop(response);
    let is_gone = async {
        while world.app.runs().n_live() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), is_gone).await.expect("it ends with its client");
    world.close().await;
    store.close().await;
}

/// C20: no other server could continue it, so a server that closes lets it end, on every surface.
#[tokio::test]
async fn a_server_that_closes_lets_it_end() {
    let slow = || Turn::new().text("Let me ").pause(Duration::from_millis(300)).text("see.");
    let messages = json!([{ "role": "user", "content": "?" }]);
    let start = async || {
        let plan = in_a_team(Plan::new([slow()]), &SlowStore::default(), &Team::default());
        plan.start().await
    };
    for (path, body, end) in [
        ("/v1/responses", json!({ "input": "?", "store": false }), "response.completed"),
        ("/v1/chat/completions", json!({ "messages": messages }), "[DONE]"),
    ] {
        let (world, mut body) = (start().await, body);
        body["stream"] = json!(true);
        let request = world.request(Method::POST, path).json(&body);
        let mut response = request.send().await.unwrap();
        let mut text = read_until(&mut response, "Let me").await;
        world.app.close();
        text.push_str(&response.text().await.unwrap());
        assert!(text.contains("see.") && text.contains(end), "{text}");
        world.close().await;
    }
    let world = start().await;
    let mut socket = world.socket("/v1/responses").await;
    socket.send(json!({ "type": "response.create", "input": "?", "store": false })).await;
    socket.until(|event| event["type"] == "response.output_text.delta").await;
    world.app.close();
    let (events, code) = socket.read_to_end().await;
    assert_eq!(types(&events).last(), Some(&"response.completed"), "{events:?}");
    assert_eq!(code, Some(1012));
    world.close().await;
}

/// C20: one that does not end in time is ended, and its client is told.
#[tokio::test]
async fn a_server_that_closes_ends_it_at_last() {
    let endless = Plan::new([Turn::new().text("Let me ").wait_forever()]);
    let world = in_a_team(endless, &SlowStore::default(), &Team::default()).start().await;
    let body = json!({ "input": "?", "stream": true, "store": false });
    let request = world.request(Method::POST, "/v1/responses").json(&body);
    let mut response = request.send().await.unwrap();
    let mut text = read_until(&mut response, "Let me").await;
    world.app.close();
    text.push_str(&response.text().await.unwrap());
    let events = events_of(&text);
    assert_eq!(types(&events).last(), Some(&"response.failed"), "{text}");
    world.close().await;
}

/// R10, C20: a client that leaves a server that closes has left.
#[tokio::test]
async fn who_leaves_a_closing_server_has_left() {
    let endless = Plan::new([Turn::new().text("Let me ").wait_forever()]);
    let world = in_a_team(endless, &SlowStore::default(), &Team::default()).start().await;
    let body = json!({ "input": "?", "stream": true, "store": false });
    let request = world.request(Method::POST, "/v1/responses").json(&body);
    let mut response = request.send().await.unwrap();
    read_until(&mut response, "Let me").await;
    world.app.close();
    drop(response);
    // Less than the time that a run may go on.
    timeout(Duration::from_secs(4), world.close()).await.expect("nothing is waited for");
}

/// C18: while the store is away, nothing new begins, not even what needs no store. What is being
/// executed goes on, also if all runs in the store were lost to others meanwhile. And nothing of it
/// goes to the store.
#[tokio::test]
async fn an_outage_of_the_store_does_not_end_it() {
    let slow = Turn::new().text("Let me ").pause(Duration::from_secs(6)).text("see.");
    let (store, mut team) = (SlowStore::default(), Team::default());
    team.lease = Duration::from_secs(1);
    let model = Scripted::new([slow, Turn::new().text(SAID)]).repeat_last();
    let world = in_a_team(Plan::with_model(model), &store, &team).start().await;
    let mut body = json!({ "input": "?", "stream": true, "store": false });
    let request = world.request(Method::POST, "/v1/responses").json(&body);
    let mut response = request.send().await.unwrap();
    let mut text = read_until(&mut response, "Let me").await;
    body["stream"] = json!(false);
    team.is_away.store(true, Ordering::SeqCst);
    let until_it_is_refused = async {
        loop {
            let (status, answer) = world.post("/v1/responses", body.clone()).await;
            if status != StatusCode::OK {
                return (status, answer);
            }
        }
    };
    let refused = timeout(Duration::from_secs(10), until_it_is_refused).await;
    let (status, answer) = refused.expect("the lease ends");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    assert_eq!(answer["error"]["code"], "store_unavailable");
    team.takes_all.store(true, Ordering::SeqCst);
    team.is_away.store(false, Ordering::SeqCst);
    text.push_str(&response.text().await.unwrap());
    assert_eq!(types(&events_of(&text)).last(), Some(&"response.completed"), "{text}");
    assert_eq!(world.post("/v1/responses", body).await.0, StatusCode::OK);
    assert_eq!(store.creating.n_come_by_now(), 0, "nothing goes to the store");
    world.close().await;
}
