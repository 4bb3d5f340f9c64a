//! What is answered when a body, a journal, a handler or a client breaks off.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turnwire_contract::{
    Event, Item, Journal, NewRun, RecordedEvent, RunId, RunOutcome, RunRecords, RunRequest, Seq,
    TenantId, Timestamp,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_gateway::streaming::follow_while_it_runs;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::{BreakingLog, Gates, SlowStore},
    world::{Plan, World},
};

async fn raw(world: &World, headers: &str, body: &str) -> (String, Value) {
    let request = format!(
        "POST /chat HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n\r\n{body}",
        world.address
    );
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let error: Value = serde_json::from_str(body).unwrap_or_default();
    (status, error["error"]["code"].clone())
}

/// A13: a body that pauses and one that breaks off are not too big.
#[tokio::test]
async fn broken_bodies() {
    let plan = Plan::new([]).limits(|limits| limits.body_pause = Duration::from_millis(100));
    let world = plan.start().await;
    let paused = raw(&world, "content-length: 100", "{\"message\":").await;
    assert_eq!(paused, ("408".to_owned(), json!("body_timeout")));
    let broken = raw(&world, "transfer-encoding: chunked", "zzz\r\n").await;
    assert_eq!(broken, ("400".to_owned(), json!("body_broken")));
    world.close().await;
}

/// A handler that falls over answers like any other.
#[tokio::test]
async fn a_handler_that_falls_over_answers() {
    let store = SlowStore::watched_by(Gates { falls_over: true, ..Gates::default() });
    let world = Plan::new([]).store(store).start().await;
    let (status, error) = world.get("/v1/runs").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        (&error["error"]["code"], &error["error"]["type"]),
        (&json!("internal_error"), &json!("server_error"))
    );
    assert!(!error.to_string().contains("as the test wants it"));
    world.close().await;
}

/// C11: a place that the run has not reached is refused, whether the run goes on or not.
#[tokio::test]
async fn a_place_beyond_the_end() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let turns = [Turn::new().text("Hi."), Turn::new().call("wait", json!({}))];
    let world = Plan::new(turns).server("m", [waits]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let over = world.respond(json!({ "input": "?" })).await;
    let active = world.respond(json!({ "input": "?", "tools": tools, "background": true })).await;
    for response in [over, active] {
        let run = response["id"].as_str().unwrap().replace("resp_", "run_");
        for follow in [true, false] {
            let path = format!("/v1/runs/{run}/events?after=99999&follow={follow}");
            refused_as_a_place(&world, &path).await;
        }
        let response = response["id"].as_str().unwrap();
        for path in [
            format!("/v1/responses/{response}?stream=true&starting_after=99999"),
            format!("/chat/stream?after={run}:99999.0"),
        ] {
            refused_as_a_place(&world, &path).await;
        }
        let mut socket = world.socket("/ws/chat").await;
        socket.send(json!({ "type": "resume", "run_id": run, "after": "99999.0" })).await;
        let refused = socket.next().await.unwrap();
        assert_eq!(
            (&refused["type"], &refused["code"]),
            (&json!("error"), &json!("INVALID_FORMAT"))
        );
    }
    world.close().await;
}

/// C11: the last place of all is one, and what is no place at all is refused.
#[tokio::test]
async fn the_last_place_and_none() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let events = world.stream(json!({ "input": "?" })).await;
    let response = events[0]["response"]["id"].as_str().unwrap();
    let run = response.replace("resp_", "run_");
    let last = events.len() - 1;
    let path = format!("/v1/responses/{response}?stream=true&starting_after=");
    let end = world.text(world.request(Method::GET, &format!("{path}{last}"))).await;
    assert_eq!(end, "data: [DONE]\n\n");
    for place in [(last + 1).to_string(), "-1".into(), "+1".into(), "x".into(), "1.0".into()] {
        refused_as_a_place(&world, &format!("{path}{place}")).await;
    }
    for place in ["", "x", "-1", "1.x"] {
        refused_as_a_place(&world, &format!("/v1/runs/{run}/events?after={place}")).await;
        refused_as_a_place(&world, &format!("/chat/stream?after={run}:{place}")).await;
    }
    for path in ["/chat/stream?after=run_none:1.0", "/v1/responses/resp_none?stream=true"] {
        let (status, error) = world.get(path).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!("not_found")),
            "{path}"
        );
    }
    world.close().await;
}

async fn refused_as_a_place(world: &World, path: &str) {
    let (status, error) = world.get(path).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_cursor")),
        "{path}"
    );
}

/// A run that has recorded one event.
async fn begun(store: &SlowStore, log: &BreakingLog) -> RunId {
    let (run_id, at) = (RunId::new("run_lost"), Timestamp::from_micros(0));
    let request = Arc::new(RunRequest::new("default", vec![Item::user("?")]));
    let run = NewRun::new(run_id.clone(), at, request.clone());
    store.create(run).await.unwrap();
    let event = Event::RunQueued { request };
    let first = RecordedEvent { run_id: run_id.clone(), seq: Seq(1), at, event };
    log.append(&TenantId::default(), vec![Arc::new(first)]).await.unwrap();
    run_id
}

/// C3: a run that is over without having recorded its end is not waited for.
#[tokio::test]
async fn a_run_without_an_end_is_not_waited_for() {
    let (store, log) = (SlowStore::default(), BreakingLog::after(usize::MAX));
    let run_id = begun(&store, &log).await;
    store.finish(&run_id, RunOutcome::Cancelled, Vec::new()).await.unwrap();
    let world = Plan::new([]).store(store).log(log).start().await;
    let events = world.text(world.request(Method::GET, "/v1/runs/run_lost/events?format=ndjson"));
    let events = tokio::time::timeout(Duration::from_secs(5), events).await.expect("it ends");
    assert_eq!(events.lines().count(), 1, "{events}");
    world.close().await;
}

/// C3: nor is one that ends like that while it is read.
#[tokio::test(start_paused = true)]
async fn a_reader_notices_that_its_run_is_over() {
    let (store, log) = (SlowStore::default(), BreakingLog::after(usize::MAX));
    let run_id = begun(&store, &log).await;
    let runs = Runs::new(EngineParts {
        store: Arc::new(store.clone()),
        journal: Arc::new(log),
        ..EngineParts::default()
    });
    let tenant = TenantId::default();
    let events = follow_while_it_runs(&runs, &tenant, &run_id, Seq::START).await;
    let mut events = events.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, Seq(1));
    let silent = tokio::time::timeout(Duration::from_mins(5), events.next()).await;
    assert!(silent.is_err(), "a run that goes on is waited for");
    store.finish(&run_id, RunOutcome::Cancelled, Vec::new()).await.unwrap();
    let end = tokio::time::timeout(Duration::from_mins(5), events.next()).await;
    assert!(end.expect("nobody waits for ever").is_none());
}

/// C1: A response whose journal cannot be read is not answered as if it were empty.
#[tokio::test]
async fn a_response_without_a_journal_is_an_error() {
    let world = Plan::new([Turn::new().text("Hi.")]).log(BreakingLog::after(0)).start().await;
    let body = json!({ "input": "?", "background": true });
    let (status, error) = world.post("/v1/responses", body).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("store_unavailable"))
    );
    world.close().await;
}

/// R10: a client that hangs up before its run has begun leaves nothing behind.
#[tokio::test]
async fn hanging_up_before_the_run_begins() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let turns = [Turn::new().call("wait", json!({})), Turn::new().text("Done.")];
    let store = SlowStore::default();
    let world = Plan::new(turns).server("m", [waits]).store(store.clone()).start().await;
    store.creating.set_open(false);
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "?", "store": false, "tools": tools });
    {
        let request = world.post("/v1/responses", body);
        tokio::select! {
            _ = request => panic!("there is an answer"),
            () = store.creating.n_have_come(1) => {}
        }
    }
    // The client is gone; the server notices when it looks.
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.creating.set_open(true);
    store.forgetting.n_are_done(1).await;
    assert_eq!(world.get("/v1/runs").await.1["data"], json!([]));
    world.close().await;
}

/// R10: a summary is forgotten, also when the caller no longer waits for it.
#[tokio::test]
async fn hanging_up_on_a_summary() {
    let store = SlowStore::default();
    let model = Scripted::new([Turn::new().pause(Duration::from_mins(1)).text("Short.")]);
    let world = Plan::with_model(model).store(store.clone()).start().await;
    {
        let body = json!({ "model": "default", "input": "Long." });
        let request = world.post("/v1/responses/compact", body);
        tokio::select! {
            _ = request => panic!("there is an answer"),
            () = store.creating.n_have_come(1) => {}
        }
    }
    store.forgetting.n_are_done(1).await;
    assert_eq!(world.get("/v1/runs").await.1["data"], json!([]));
    world.close().await;
}

/// A summary of a conversation is made of what is in it, and adds nothing to it.
#[tokio::test]
async fn a_conversation_is_summed_up() {
    let turns = ["Hi, Ada.", "Ada said hello."].map(|text| Turn::new().text(text));
    let world = Plan::new(turns).start().await;
    let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
    world.respond(json!({ "input": "I am Ada.", "conversation": id })).await;
    let body = json!({ "model": "default", "conversation": id });
    let (status, compacted) = world.post("/v1/responses/compact", body).await;
    assert_eq!(status, StatusCode::OK, "{compacted:#}");
    let prompt = world.model.prompts().pop().unwrap();
    assert_eq!(prompt.items.len(), 3, "both messages, and the task");
    assert_eq!(*prompt.items[0], Item::user("I am Ada."));
    let path = format!("/v1/conversations/{}/items", id.as_str().unwrap());
    assert_eq!(world.get(&path).await.1["data"].as_array().unwrap().len(), 2);
    world.close().await;
}

/// C1, C10: a stream whose journal cannot be read on says so and tells its client to come back;
/// its run is not stopped, even if it should go with its client.
#[tokio::test]
async fn a_lost_journal_sends_readers_back() {
    for (path, body) in [
        ("/v1/responses", json!({ "input": "?", "stream": true, "on_disconnect": "cancel" })),
        ("/chat/stream", json!({ "message": "?", "tokens": true })),
    ] {
        let log = BreakingLog::after(6);
        let turns = [Turn::new().text_in(["It ", "is ", "20."])];
        let world = Plan::new(turns).log(log.clone()).start().await;
        let text = world.text(world.request(Method::POST, path).json(&body)).await;
        let (frames, end) = text.rsplit_once("\n\n").unwrap();
        assert!(frames.contains("It "), "{path}: {text}");
        assert!(end.starts_with(": ") && end.ends_with("\nretry: 1000\n"), "{path}: {end}");
        let run = RunId::new(world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap());
        let mut events = log.inner.read(&TenantId::default(), &run, Seq::START).await.unwrap();
        let mut last = None;
        while let Some(recorded) = events.next().await {
            last = Some(recorded.unwrap().event.clone());
        }
        let outcome = RunOutcome::Completed;
        assert!(matches!(last, Some(Event::RunFinished { outcome: it, .. }) if it == outcome));
        world.close().await;
    }
}

/// C11: the native events of a run that goes on, too.
#[tokio::test]
async fn a_lost_journal_sends_native_readers_back() {
    let turn = Turn::new().text_in(["It ", "is ", "20."]).wait_forever();
    let world = Plan::new([turn]).log(BreakingLog::after(5)).start().await;
    let response = world.respond(json!({ "input": "?", "background": true })).await;
    let run = response["id"].as_str().unwrap().replace("resp_", "run_");
    let path = format!("/v1/runs/{run}/events");
    let text = world.text(world.request(Method::GET, &path)).await;
    assert!(text.ends_with("\nretry: 1000\n"), "{text}");
    assert_eq!(crate::world::data_of(&text).len(), 5);
    world.close().await;
}

/// C10, C11: a chat socket whose journal cannot be read on closes with the place where it was.
#[tokio::test]
async fn a_lost_journal_closes_a_chat_socket() {
    let turns = [Turn::new().text_in(["It ", "is ", "20."])];
    let world = Plan::new(turns).log(BreakingLog::after(6)).start().await;
    let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "resume": true })).await;
    socket.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
    let (messages, end) = socket.read_to_close().await;
    let run = world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned();
    let last = messages.last().unwrap()["cursor"].as_str().unwrap();
    assert_eq!(end, Some((1011, format!("{run}:{last}"))));
    world.close().await;
}
