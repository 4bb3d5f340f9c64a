//! Calls that a person has to allow, on surfaces where nobody may be asked.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::Item;
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of, of_type, types};

fn plan() -> (Plan, FakeTool) {
    let risky = FakeTool::new("risky", Behaviour::Returns("done".into()));
    let risky = risky.with(|spec| spec.needs_approval = true);
    let turns = [Turn::new().call("risky", json!({})), Turn::new().text("As you wish.")];
    (Plan::new(turns).tool(risky.clone()), risky)
}

fn was_told(world: &World) -> bool {
    let prompts = world.model.prompts();
    prompts.last().unwrap().items.iter().any(|item| match &**item {
        Item::CallResult { output, .. } => {
            output.contains("nobody can be asked on this connection")
        }
        _ => false,
    })
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("nobody is waited for")
}

/// C15: where nobody can be asked, the model is told so and the run goes on.
#[tokio::test]
async fn nobody_is_waited_for_who_cannot_be_asked() {
    let (plan, risky) = plan();
    let world = plan.start().await;
    let (status, answer) = soon(world.post("/chat", json!({ "message": "?" }))).await;
    assert_eq!((status, &answer["response"]), (StatusCode::OK, &json!("As you wish.")));
    assert!(was_told(&world));
    assert_eq!(risky.n_calls(), 0);
    world.close().await;
}

/// C15: the same on the stream.
#[tokio::test]
async fn a_stream_without_approvals() {
    let (plan, risky) = plan();
    let world = plan.start().await;
    let request = world.request(Method::POST, "/chat/stream").json(&json!({ "message": "?" }));
    let frames = data_of(&soon(world.text(request)).await);
    assert_eq!(types(&frames), ["tool_call", "tool_result", "response", "done"]);
    assert!(was_told(&world));
    assert_eq!(risky.n_calls(), 0);
    world.close().await;
}

/// C15: the same on the socket; and one that says it can be asked is asked.
#[tokio::test]
async fn sockets_with_and_without_approvals() {
    for approvals in [false, true] {
        let (plan, risky) = plan();
        let world = plan.start().await;
        let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
        let mut socket = world.socket("/ws/chat").await;
        socket.send(json!({ "type": "hello", "approvals": approvals })).await;
        socket.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
        if approvals {
            let asked = socket.until(|message| message["type"] == "approval_request").await;
            let call = asked.last().unwrap()["tool_call_id"].clone();
            let yes = json!({ "type": "approval", "tool_call_id": call, "approved": true });
            socket.send(yes).await;
        }
        soon(socket.until(|message| message["type"] == "complete")).await;
        assert_eq!(was_told(&world), !approvals);
        assert_eq!(risky.n_calls(), u32::from(approvals));
        world.close().await;
    }
}

/// C11, C15: a client that comes back is shown the question it can answer.
#[tokio::test]
async fn questions_are_asked_again_on_resume() {
    let (plan, risky) = plan();
    let world = plan.start().await;
    let body = json!({ "message": "?", "approvals": true });
    let stream = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let mut chunks = stream.bytes_stream();
    let mut text = String::new();
    while !text.contains("approval_request") || !text.ends_with("\n\n") {
        text.push_str(std::str::from_utf8(&soon(chunks.next()).await.unwrap().unwrap()).unwrap());
    }
    drop(chunks);
    let run = text.lines().find_map(|line| line.strip_prefix("id: ")?.split_once(':')).unwrap().0;
    let frames = data_of(&text);
    let call = of_type(&frames, "approval_request")[0]["call_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run}/calls/{call}/approve");
    assert_eq!(world.post(&path, json!({ "approve": true })).await.1["done"], true);
    for approvals in [true, false] {
        let by_get = format!("/chat/stream?after={run}:0.0&approvals={approvals}");
        let by_get = world.request(Method::GET, &by_get);
        let by_post = world
            .request(Method::POST, "/chat/stream")
            .header("Last-Event-ID", format!("{run}:0.0"))
            .json(&json!({ "approvals": approvals }));
        for request in [by_get, by_post] {
            let frames: Vec<Value> = data_of(&soon(world.text(request)).await);
            assert_eq!(of_type(&frames, "approval_request").len(), usize::from(approvals));
            assert_eq!(frames.last().unwrap()["type"], "done");
        }
    }
    assert_eq!(risky.n_calls(), 1);
    world.close().await;
}

/// C15: two surfaces see the same question with everything that belongs to it; an answer with
/// other arguments, for the whole conversation, comes over one of them, the other is too late.
#[tokio::test]
async fn edited_and_remembered_over_two_surfaces() {
    let risky = FakeTool::new("risky", Behaviour::Multiplies);
    let risky = risky.with(|spec| {
        spec.needs_approval = true;
        spec.approval_expiry = Some(Duration::from_mins(10));
    });
    let call = || Turn::new().text("May I?").call("risky", json!({ "a": 2, "b": 3 }));
    let turns = [call(), Turn::new().text("one"), call(), Turn::new().text("two")];
    let world = Plan::new(turns).tool(risky.clone()).start().await;
    let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
    let mut socket = world.socket("/ws/chat").await;
    let hello = json!({ "type": "hello", "approvals": true, "resume": true });
    socket.send(hello).await;
    let message = json!({ "type": "message", "conversation_id": id, "content": "?" });
    socket.send(message.clone()).await;
    let seen = socket.until(|message| message["type"] == "approval_request").await;
    assert_eq!(seen[seen.len() - 2]["content"], "May I?", "after the text that explains it");
    let asked = seen.last().unwrap().clone();
    assert!(asked["expires_at"].is_string(), "{asked}");
    let run = seen.iter().find(|message| message["type"] == "started").unwrap()["run_id"].clone();
    let call = asked["tool_call_id"].as_str().unwrap();
    let path = format!("/v1/runs/{}/calls/{call}", run.as_str().unwrap());
    // What does not fit is refused, and the question stays open.
    let nonsense = json!({ "decision": "approve", "arguments": { "a": "x" } });
    let (status, refused) = world.post(&format!("{path}/approve"), nonsense).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("arguments"))
    );
    let edited = json!({
        "type": "approval", "tool_call_id": call, "approved": true,
        "arguments": { "a": 6, "b": 7 }, "remember": true,
    });
    socket.send(edited).await;
    let seen = soon(socket.until(|message| message["type"] == "complete")).await;
    let started = of_type(&seen, "tool_start")[0].clone();
    assert_eq!(started["tool_input"], "{\"a\":6,\"b\":7}");
    assert_eq!(of_type(&seen, "tool_complete")[0]["tool_result"], "42");
    let late = json!({ "decision": "deny", "reason": "no" });
    let (status, late) = world.post(&format!("{path}/approve"), late).await;
    assert_eq!(
        (status, &late["error"]["code"]),
        (StatusCode::CONFLICT, &json!("already_answered"))
    );
    let snapshot = world.get(&format!("/v1/runs/{}", run.as_str().unwrap())).await.1;
    let approval = &snapshot["calls"][0]["approval"];
    assert_eq!(approval["by"], "/ws/chat");
    assert_eq!(approval["edited_from"], "{\"a\":2,\"b\":3}");
    assert_eq!(snapshot["calls"][0]["arguments"], "{\"a\":6,\"b\":7}");
    // The next turn of the conversation is not asked about.
    socket.send(message).await;
    let seen = soon(socket.until(|message| message["type"] == "complete")).await;
    assert_eq!(of_type(&seen, "tool_complete")[0]["tool_result"], "6");
    assert_eq!(risky.n_calls(), 2);
    world.close().await;
}

/// C15: what a tool asks is shown to a client that says it understands, and answered from
/// there or over the native surface; others do not see it, and the tool is told so.
#[tokio::test]
async fn a_tool_asks_over_every_surface() {
    use turnwire_contract::Question;
    let schema = json!({
        "type": "object", "properties": { "seat": { "type": "string" } }, "required": ["seat"],
    });
    let question = Question { message: "Window or aisle?".to_owned(), schema };
    let plan = || {
        let turns = [Turn::new().call("book", json!({})), Turn::new().text("ok")];
        Plan::new(turns).tool(FakeTool::new("book", Behaviour::Asks(question.clone())))
    };
    // The socket.
    let world = plan().start().await;
    let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "inputs": true })).await;
    socket.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
    let seen = soon(socket.until(|message| message["type"] == "input_request")).await;
    let asked = seen.last().unwrap().clone();
    assert_eq!(asked["message"], "Window or aisle?");
    let answer = |content: Value| {
        json!({
            "type": "input", "tool_call_id": asked["tool_call_id"],
            "input_id": asked["input_id"], "action": "accept", "content": content,
        })
    };
    socket.send(answer(json!({}))).await;
    let refused = soon(socket.until(|message| message["type"] == "error")).await;
    assert_eq!(refused.last().unwrap()["code"], "INVALID_FORMAT");
    socket.send(answer(json!({ "seat": "window" }))).await;
    let seen = soon(socket.until(|message| message["type"] == "complete")).await;
    let result = &of_type(&seen, "tool_complete")[0]["tool_result"];
    assert_eq!(result, "told: {\"seat\":\"window\"}");
    world.close().await;
    // The stream, answered over the native surface.
    let world = plan().start().await;
    let body = json!({ "message": "?", "inputs": true });
    let stream = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let mut chunks = stream.bytes_stream();
    let mut text = String::new();
    while !text.contains("input_request") || !text.ends_with("\n\n") {
        text.push_str(std::str::from_utf8(&soon(chunks.next()).await.unwrap().unwrap()).unwrap());
    }
    let run = text.lines().find_map(|line| line.strip_prefix("id: ")?.split_once(':')).unwrap().0;
    let frames = data_of(&text);
    let call = of_type(&frames, "input_request")[0]["call_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run}/calls/{call}/input");
    let (status, _) = world.post(&path, json!({ "action": "accept", "content": {} })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let declined = json!({ "action": "decline" });
    assert_eq!(world.post(&path, declined.clone()).await.1["done"], true);
    assert_eq!(world.post(&path, declined).await.0, StatusCode::OK, "the same once more");
    let (status, other) = world.post(&path, json!({ "action": "cancel" })).await;
    assert_eq!(
        (status, &other["error"]["code"]),
        (StatusCode::CONFLICT, &json!("already_answered"))
    );
    while let Some(chunk) = soon(chunks.next()).await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
    }
    assert_eq!(of_type(&data_of(&text), "tool_result")[0]["summary"], "declined");
    world.close().await;
    // Where nobody said so.
    let world = plan().start().await;
    let request = world.request(Method::POST, "/chat/stream").json(&json!({ "message": "?" }));
    let frames = data_of(&soon(world.text(request)).await);
    assert_eq!(types(&frames), ["tool_call", "tool_result", "response", "done"]);
    assert_eq!(of_type(&frames, "tool_result")[0]["summary"], "declined");
    world.close().await;
}

/// R17: a big result is read in pieces.
#[tokio::test]
async fn a_result_is_read_by_ranges() {
    let big = "0123456789".repeat(10_000);
    let tool = FakeTool::new("big", Behaviour::Returns(big.clone()));
    let turns = [Turn::new().call_with_id("call_b", "big", json!({})), Turn::new().text("ok")];
    let world = Plan::new(turns)
        .tool(tool)
        .options(|options| options.limits.output_in_journal = 1_000)
        .start()
        .await;
    world.post("/chat", json!({ "message": "?" })).await;
    let run = world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}/calls/call_b/result");
    let read = async |range: &str| {
        let request = world.request(Method::GET, &path).header("Range", range);
        let answer = request.send().await.unwrap();
        let header =
            answer.headers().get("content-range").map(|it| it.to_str().unwrap().to_owned());
        (answer.status(), header, answer.text().await.unwrap())
    };
    let range = |text: &str| Some(text.to_owned());
    let part = read("bytes=5-14").await;
    let expected =
        (StatusCode::PARTIAL_CONTENT, range("bytes 5-14/100000"), "5678901234".to_owned());
    assert_eq!(part, expected);
    let (status, header, end) = read("bytes=-4").await;
    assert_eq!((status, header), (StatusCode::PARTIAL_CONTENT, range("bytes 99996-99999/100000")));
    assert_eq!(end, "6789");
    let (status, header, _) = read("bytes=100000-").await;
    assert_eq!((status, header), (StatusCode::RANGE_NOT_SATISFIABLE, range("bytes */100000")));
    let mut all = String::new();
    while all.len() < big.len() {
        let first = all.len();
        all.push_str(&read(&format!("bytes={first}-{}", first + 32_767)).await.2);
    }
    assert_eq!(all, big, "in pieces it is the whole");
    let (status, header, whole) = read("lines=1-2").await;
    assert_eq!((status, header, whole), (StatusCode::OK, None, big));
    world.close().await;
}
