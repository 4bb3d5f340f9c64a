//! A server that closes while its runs go on without it: streams end so that they can be read
//! on elsewhere, and nothing of a run is lost (C20).

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::{Request, header},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;
use turnwire_gateway::{HttpLimits, server::router};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::{
    faults::{BreakingLog, SlowStore, Team},
    world::{Plan, World, data_of, events_of},
};

/// Two servers on one store: the first begins to talk and does not end, the second answers.
async fn two_servers() -> (World, World) {
    two_servers_after([]).await
}

/// The same, after the first has said `earlier` in runs of their own.
async fn two_servers_after<const N: usize>(earlier: [Turn; N]) -> (World, World) {
    let (store, log, team) =
        (SlowStore::default(), BreakingLog::after(usize::MAX), Team::default());
    let share = |plan: Plan| plan.store(store.clone()).log(log.clone()).workers(team.clone());
    let turns = earlier.into_iter().chain([Turn::new().text("Let me ").wait_forever()]);
    let here = share(Plan::new(turns)).start().await;
    let there = share(Plan::new([Turn::new().text("It is 20.")])).start().await;
    (here, there)
}

/// Reads from the stream until it has said `word`.
pub(crate) async fn read_until(response: &mut reqwest::Response, word: &str) -> String {
    let mut text = String::new();
    while !text.contains(word) {
        let chunk = response.chunk().await.unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

/// Reads a stream of the first server until it has said `word`, closes that server, and gives
/// back all that was read.
async fn cut(here: World, request: reqwest::RequestBuilder, word: &str) -> String {
    let mut response = request.send().await.unwrap();
    let text = read_until(&mut response, word).await;
    here.app.close();
    let rest = response.text().await.expect("it ends cleanly");
    here.close().await;
    text + &rest
}

fn last_place(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

/// C20, C2: a streamed response ends between two frames with the word to come back, and its
/// numbers go on elsewhere. That its run should go with its client changes nothing: the client
/// has not gone.
#[tokio::test]
async fn a_response_is_read_on_elsewhere() {
    let (here, there) = two_servers().await;
    let body = json!({ "input": "?", "stream": true, "on_disconnect": "cancel" });
    let request = here.request(Method::POST, "/v1/responses").json(&body);
    let text = cut(here, request, "Let me").await;
    let (text, end) = text.rsplit_once("\n\n").unwrap();
    assert_eq!(end, "retry: 100\n");
    let mut events = data_of(text);
    let id = events[0]["response"]["id"].as_str().unwrap().to_owned();
    let last = events.last().unwrap()["sequence_number"].clone();
    let path = format!("/v1/responses/{id}?stream=true&starting_after={last}");
    events.extend(events_of(&there.text(there.request(Method::GET, &path)).await));
    let numbers: Vec<u64> =
        events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0]["text"], "It is 20.", "{response:#}");
    assert_eq!(response["output"][1], serde_json::Value::Null, "R20: only what replaced it");
    let metrics = there.text(there.request(Method::GET, "/metrics")).await;
    assert!(metrics.contains("turnwire_runs_taken_over_total 1\n"), "{metrics}");
    there.close().await;
}

/// C20, C9: what is stored nowhere is read on with the key of its request.
#[tokio::test]
async fn a_request_with_a_key_is_sent_again_elsewhere() {
    let (here, there) = two_servers().await;
    let body = json!({ "input": "?", "stream": true, "store": false });
    let request = |world: &World| {
        let request = world.request(Method::POST, "/v1/responses");
        request.header("Idempotency-Key", "k").json(&body)
    };
    let first = request(&here);
    let seen = cut(here, first, "Let me").await;
    let whole = there.text(request(&there)).await;
    assert!(whole.starts_with(seen.strip_suffix("retry: 100\n").unwrap()), "{seen} {whole}");
    assert_eq!(events_of(&whole).last().unwrap()["response"]["status"], "completed");
    there.close().await;
}

/// C20: a chat completion ends with an error, because its client would take anything else for a
/// whole answer; sent again with its key, it is read from its beginning.
#[tokio::test]
async fn a_chat_completion_ends_with_an_error() {
    let (here, there) = two_servers().await;
    let messages = json!([{ "role": "user", "content": "?" }]);
    let body = json!({ "messages": messages, "stream": true });
    let request = |world: &World| {
        let request = world.request(Method::POST, "/v1/chat/completions");
        request.header("Idempotency-Key", "k").json(&body)
    };
    let first = request(&here);
    let seen = cut(here, first, "Let me").await;
    let error = data_of(&seen).pop().unwrap();
    assert_eq!(error["error"]["code"], "shutting_down", "{seen}");
    let whole = there.text(request(&there)).await;
    assert!(whole.contains("It is 20.") && whole.ends_with("data: [DONE]\n\n"), "{whole}");
    there.close().await;
}

/// C20: `/chat/stream`, read on by the `id` of its last frame.
#[tokio::test]
async fn a_chat_is_read_on_elsewhere() {
    let (here, there) = two_servers().await;
    let body = json!({ "message": "?", "tokens": true });
    let request = here.request(Method::POST, "/chat/stream").json(&body);
    let seen = cut(here, request, "Let me").await;
    let seen = seen.strip_suffix("retry: 100\n").expect("it says to come back");
    let read_on = async |after: &str| {
        let request = there.request(Method::POST, "/chat/stream").header("Last-Event-ID", after);
        there.text(request.json(&json!({ "tokens": true }))).await
    };
    let place = last_place(seen);
    let rest = read_on(place).await;
    let start = format!("{}:0.0", place.rsplit_once(':').unwrap().0);
    assert_eq!(seen.to_owned() + &rest, read_on(&start).await);
    assert_eq!(data_of(&rest).last().unwrap()["type"], "done");
    there.close().await;
}

/// C20, AG-UI 2.1: an AG-UI client takes the end of a stream for the end of the run, so the
/// connection breaks instead; the rest, with the answer of the next worker, is read elsewhere.
#[tokio::test]
async fn an_ag_ui_stream_breaks_and_is_read_on_elsewhere() {
    let (here, there) = two_servers().await;
    let messages = json!([{ "id": "u1", "role": "user", "content": "?" }]);
    let body = json!({
        "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": messages,
    });
    let request = here.request(Method::POST, "/ag-ui").json(&body);
    let mut response = request.send().await.unwrap();
    let mut seen = read_until(&mut response, "Let me").await;
    here.app.close();
    let error = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => seen.push_str(std::str::from_utf8(&chunk).unwrap()),
            Ok(None) => panic!("it ended cleanly after {seen}"),
            Err(error) => break error,
        }
    };
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    here.close().await;
    let path = format!("/ag-ui/runs/r?after={}", last_place(&seen));
    let rest = there.text(there.request(Method::GET, &path)).await;
    let whole = there.text(there.request(Method::GET, "/ag-ui/runs/r")).await;
    assert_eq!(seen + &rest, whole, "the client's own name finds the run");
    let events = data_of(&rest);
    let of_type = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    assert_eq!(of_type("CUSTOM")["name"], "turnwire.taken_over");
    assert_eq!(of_type("TEXT_MESSAGE_END")["metadata"]["turnwire"]["state"], "superseded");
    assert_eq!(of_type("MESSAGES_SNAPSHOT")["messages"], messages, "without the withdrawn text");
    assert_eq!(of_type("TEXT_MESSAGE_CONTENT")["delta"], "It is 20.");
    assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "success" }));
    there.close().await;
}

/// AG-UI 2.4: what the conversation has is not kept again with every run of its thread, and the
/// snapshot after a withdrawn turn has it all the same.
#[tokio::test]
async fn an_ag_ui_snapshot_has_messages_that_are_kept_once() {
    let answer = "A long answer. ".repeat(20);
    let (here, there) = two_servers_after([Turn::new().text(answer.as_str())]).await;
    let input = |run: &str, messages: &[Value]| json!({ "threadId": "t", "runId": run, "protocolVersion": "1.0", "messages": messages });
    let question = json!({ "id": "u1", "role": "user", "content": "A long question. ".repeat(20) });
    let first =
        here.request(Method::POST, "/ag-ui").json(&input("r1", std::slice::from_ref(&question)));
    let first = data_of(&here.text(first).await);
    let start = first.iter().find(|event| event["type"] == "TEXT_MESSAGE_START").unwrap();
    let said = json!({ "id": start["messageId"], "role": "assistant", "content": answer });
    let next = json!({ "id": "u2", "role": "user", "content": "And now?" });
    let messages = [question, said, next];
    let request = here.request(Method::POST, "/ag-ui").json(&input("r2", &messages));
    let mut response = request.send().await.unwrap();
    let seen = read_until(&mut response, "Let me").await;
    here.app.close();
    while let Ok(Some(_)) = response.chunk().await {}
    here.close().await;
    let whole = there.text(there.request(Method::GET, "/ag-ui/runs/r2")).await;
    assert!(whole.starts_with(&seen));
    let events = data_of(&whole);
    let run_id = events[0]["metadata"]["turnwire"]["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run_id}/events?follow=false&format=ndjson");
    let journal = there.text(there.request(Method::GET, &path)).await;
    assert!(!journal.contains("A long"), "{journal}");
    let snapshot = events.iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").unwrap();
    assert_eq!(snapshot["messages"], json!(messages));
    there.close().await;
}

/// C20: a UI message stream breaks, because a page would take a clean end for a whole answer; it is
/// resumed by the number of its chunks.
#[tokio::test]
async fn a_ui_message_stream_breaks_and_is_read_on_elsewhere() {
    let (here, there) = two_servers().await;
    let parts = json!([{ "type": "text", "text": "?" }]);
    let body = json!({ "id": "c", "messages": [{ "role": "user", "parts": parts }] });
    let mut response = here.request(Method::POST, "/ai-sdk/chat").json(&body).send().await.unwrap();
    let name = response.headers()["x-workflow-run-id"].to_str().unwrap().to_owned();
    let seen = read_until(&mut response, "Let me").await;
    here.app.close();
    loop {
        match response.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended cleanly after {seen}"),
            Err(_) => break,
        }
    }
    here.close().await;
    let n_chunks = seen.matches("\n\n").count();
    let path = |start| format!("/ai-sdk/chat/{name}/stream?startIndex={start}");
    let rest = there.text(there.request(Method::GET, &path(n_chunks))).await;
    let whole = there.text(there.request(Method::GET, &path(0))).await;
    assert_eq!(seen + &rest, whole);
    assert!(rest.contains("It is 20.") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    there.close().await;
}

/// C20: the native events, as an event stream and as lines.
#[tokio::test]
async fn native_events_are_read_on_elsewhere() {
    for format in ["sse", "ndjson"] {
        let (here, there) = two_servers().await;
        let response = here.respond(json!({ "input": "?", "background": true })).await;
        let run = response["id"].as_str().unwrap().replace("resp_", "run_");
        let path = format!("/v1/runs/{run}/events?format={format}");
        let seen = cut_of(&path, here, "Let me").await;
        let seen = match format {
            "sse" => seen.strip_suffix("retry: 100\n").expect("it says to come back").to_owned(),
            _ => seen,
        };
        let n_seen = match format {
            "sse" => data_of(&seen).len(),
            _ => seen.lines().count(),
        };
        let rest = there.request(Method::GET, &format!("{path}&after={n_seen}"));
        let rest = there.text(rest).await;
        let whole = there.text(there.request(Method::GET, &path)).await;
        assert_eq!(seen + &rest, whole, "{format}");
        assert!(whole.contains("run_taken_over") && whole.contains("run_finished"), "{whole}");
        let (_, snapshot) = there.get(&format!("/v1/runs/{run}")).await;
        let workers = snapshot["workers"].as_array().unwrap();
        let brief = |worker: &Value| (worker["attempt"].clone(), worker["taken_over"].clone());
        let brief: Vec<_> = workers.iter().map(brief).collect();
        assert_eq!(brief, [(json!(1), json!(false)), (json!(2), json!(true))]);
        assert!(workers.iter().all(|worker| worker["until"].is_string()), "{workers:?}");
        there.close().await;
    }
}

async fn cut_of(path: &str, here: World, word: &str) -> String {
    let request = here.request(Method::GET, path);
    cut(here, request, word).await
}

/// C20: a chat socket closes with 1012 and the place where it was, and is resumed elsewhere.
#[tokio::test]
async fn a_chat_socket_is_resumed_elsewhere() {
    let (here, there) = two_servers().await;
    let id = here.post("/v1/conversations", json!({})).await.1["id"].clone();
    let mut socket = here.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "resume": true })).await;
    socket.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
    let seen = socket.until(|message| message["type"] == "token").await;
    here.app.close();
    let (more, end) = socket.read_to_close().await;
    assert_eq!(more, Vec::<Value>::new());
    let (code, place) = end.unwrap();
    let (run, cursor) = place.rsplit_once(':').expect("it says where it was");
    assert_eq!((code, &json!(cursor)), (1012, &seen.last().unwrap()["cursor"]));
    here.close().await;
    let mut socket = there.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "resume": true })).await;
    socket.send(json!({ "type": "resume", "run_id": run, "after": cursor })).await;
    let rest = socket.until(|message| message["type"] == "complete").await;
    assert!(rest.iter().any(|message| message["content"] == "It is 20."), "{rest:#?}");
    there.close().await;
}

/// C20: a socket of the Responses API closes with 1012 and says which responses go on where.
#[tokio::test]
async fn a_responses_socket_says_where_to_read_on() {
    let (here, there) = two_servers().await;
    let mut socket = here.socket("/v1/responses").await;
    socket.send(json!({ "type": "response.create", "input": "?" })).await;
    let is_delta = |message: &Value| message["type"] == "response.output_text.delta";
    let seen = socket.until(is_delta).await;
    here.app.close();
    let (more, end) = socket.read_to_close().await;
    assert_eq!(more, Vec::<Value>::new());
    let last = &seen.last().unwrap()["sequence_number"];
    let id = seen[0]["response"]["id"].as_str().unwrap();
    assert_eq!(end, Some((1012, format!("{id}:{last}"))));
    here.close().await;
    let path = format!("/v1/responses/{id}?stream=true&starting_after={last}");
    let rest = events_of(&there.text(there.request(Method::GET, &path)).await);
    assert_eq!(rest.last().unwrap()["type"], "response.completed");
    there.close().await;
}

/// C20: whoever waits for a whole answer gets it from wherever it is made.
#[tokio::test]
async fn plain_answers_are_waited_for() {
    for (path, body) in
        [("/v1/responses", json!({ "input": "?" })), ("/chat", json!({ "message": "?" }))]
    {
        let (here, there) = two_servers().await;
        let (answer, ()) = tokio::join!(here.post(path, body), async {
            while here.model.prompts().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            here.app.close();
        });
        assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        assert!(answer.1.to_string().contains("It is 20."), "{}", answer.1);
        here.close().await;
        there.close().await;
    }
}

/// C20: a server that closes says so, and begins nothing.
#[tokio::test]
async fn a_closing_server_begins_no_runs() {
    let (here, there) = two_servers().await;
    let router = router(&here.app, &HttpLimits::default());
    here.app.close();
    let call = async |method: &str, path: &str, body: Value| {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let request = request.header("Idempotency-Key", "k").body(Body::from(body.to_string()));
        let (parts, body) = router.clone().oneshot(request.unwrap()).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let retry_after = parts.headers.contains_key(header::RETRY_AFTER);
        (parts.status, retry_after, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, _, ready) = call("GET", "/readyz", Value::Null).await;
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && ready.contains("closing"), "{ready}");
    assert_eq!(call("GET", "/healthz", Value::Null).await.0, StatusCode::OK);
    for path in ["/v1/responses", "/chat", "/chat/stream", "/v1/responses/compact"] {
        let body = match path {
            "/chat" | "/chat/stream" => json!({ "message": "?" }),
            _ => json!({ "model": "default", "input": "?" }),
        };
        let (status, retry_after, error) = call("POST", path, body).await;
        assert_eq!((status, retry_after), (StatusCode::SERVICE_UNAVAILABLE, true), "{path}");
        assert!(error.contains("shutting_down"), "{error}");
    }
    let (_, _, metrics) = call("GET", "/metrics", Value::Null).await;
    assert!(metrics.contains("turnwire_drains_total 1\n"), "{metrics}");
    assert!(metrics.contains("turnwire_runs_refused_while_closing_total 4\n"), "{metrics}");
    here.close().await;
    there.close().await;
}

/// C20: a tool that is at work is given time; streams are not what it is waited for with.
#[tokio::test]
async fn streams_end_before_their_tools() {
    let (store, log, team) =
        (SlowStore::default(), BreakingLog::after(usize::MAX), Team::default());
    let slow = Behaviour::Takes(Duration::from_millis(1_500), "ok".to_owned());
    let work = FakeTool::new("work", slow);
    let turns = [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let plan = Plan::new(turns).server("m", [work.clone()]);
    let here = plan.store(store).log(log.clone()).workers(team).start().await;
    let body = json!({ "message": "?" });
    let request = here.request(Method::POST, "/chat/stream").json(&body);
    let mut response = request.send().await.unwrap();
    let text = read_until(&mut response, "tool_call").await;
    here.app.close();
    let rest = tokio::time::timeout(Duration::from_secs(1), response.text()).await;
    assert_eq!(rest.expect("it ends at once").unwrap(), "retry: 100\n");
    let run = last_place(&text).rsplit_once(':').unwrap().0.to_owned();
    let runs = here.app.runs().clone();
    here.close().await;
    let tenant = turnwire_contract::TenantId::default();
    let journal = runs.recorded(&tenant, &turnwire_contract::RunId::new(run)).await.unwrap();
    let last = &journal.last().unwrap().event;
    assert!(matches!(last, turnwire_contract::Event::ToolFinished { .. }), "{last:?}");
    assert_eq!(work.n_calls(), 1);
}
