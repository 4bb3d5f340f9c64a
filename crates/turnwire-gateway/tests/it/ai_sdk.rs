//! Chats of pages that use the AI SDK.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Request, header},
};
use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;
use turnwire_contract::{Content, ConversationId, Entry, Item, RunId, RunRequest, TenantId};
use turnwire_gateway::{HttpLimits, server::router};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, of_type, types};

const PATH: &str = "/ai-sdk/chat";

/// A message of the user.
fn user(text: &str) -> Value {
    json!({ "id": text, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// A request as `useChat` sends it.
fn body(chat: &str, messages: &[Value]) -> Value {
    json!({ "id": chat, "messages": messages, "trigger": "submit-message" })
}

/// The chunks of a stream that has its end.
fn chunks_of(text: &str) -> Vec<Value> {
    let text = text.strip_suffix("data: [DONE]\n\n").unwrap_or_else(|| panic!("no end: {text}"));
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

async fn send(world: &World, body: &Value) -> Vec<Value> {
    chunks_of(&world.text(world.request(Method::POST, PATH).json(body)).await)
}

fn text_of(chunks: &[Value]) -> String {
    of_type(chunks, "text-delta").iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect()
}

/// The items that the model got last.
fn last_prompt(world: &World) -> Vec<Item> {
    let prompts = world.model.prompts();
    prompts.last().unwrap().items.iter().map(|item| Item::clone(item)).collect()
}

/// The assistant message of a page that has answered all approval requests.
fn answered(chunks: &[Value], approved: bool) -> Value {
    let part = |asked: &&Value| {
        json!({ "type": "dynamic-tool", "toolName": "risky", "state": "approval-responded",
            "toolCallId": asked["toolCallId"], "input": { "path": "somewhere else" },
            "approval": { "id": asked["approvalId"], "approved": approved, "reason": "mine" } })
    };
    let parts: Vec<Value> = of_type(chunks, "tool-approval-request").iter().map(part).collect();
    json!({ "id": chunks[0]["messageId"], "role": "assistant", "parts": parts,
        "metadata": chunks[0]["messageMetadata"] })
}

fn risky() -> FakeTool {
    let risky = FakeTool::new("risky", Behaviour::Returns("done".into()));
    risky.with(|spec| spec.needs_approval = true)
}

/// A text is a text part, and the headers tell the client what it reads and how to resume.
#[tokio::test]
async fn a_text_is_streamed() {
    let world = Plan::new([Turn::new().text_in(["Hel", "lo."])]).start().await;
    let request = world.request(Method::POST, PATH).json(&body("c", &[user("Hi.")]));
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-vercel-ai-ui-message-stream"), "v1");
    assert_eq!(header("content-type"), "text/event-stream");
    let run_id = header("x-workflow-run-id");
    let chunks = chunks_of(&response.text().await.unwrap());
    assert_eq!(chunks[0]["messageId"], json!(run_id));
    assert_eq!(text_of(&chunks), "Hello.");
    assert_eq!(chunks.last().unwrap()["finishReason"], "stop");
    world.close().await;
}

/// The conversation has what was said before; a page sends it all again, and it is not added again.
#[tokio::test]
async fn a_chat_is_a_conversation() {
    let world = Plan::new([Turn::new().text("One."), Turn::new().text("Two.")]).start().await;
    send(&world, &body("c", &[user("a")])).await;
    let answer =
        json!({ "role": "assistant", "parts": [{ "type": "text", "text": "The page's words." }] });
    let chunks = send(&world, &body("c", &[user("a"), answer, user("b")])).await;
    assert_eq!(text_of(&chunks), "Two.");
    let expected = [Item::user("a"), Item::assistant("One."), Item::user("b")];
    assert_eq!(last_prompt(&world), expected);
    let conversation = chunks[0]["messageMetadata"]["conversation_id"].as_str().unwrap();
    let (_, items) = world.get(&format!("/v1/conversations/{conversation}/items")).await;
    assert_eq!(items["data"].as_array().unwrap().len(), 4);
    world.close().await;
}

/// A chat that is not stored yet brings its history, pictures too; without the ID of a chat the
/// metadata of the last answer says which it is. The body may come as plain text.
#[tokio::test]
async fn a_chat_can_bring_its_history() {
    let turns = [Turn::new().text("One."), Turn::new().text("Two.")];
    let world = Plan::new(turns).start().await;
    let png = "data:image/png;base64,iVBORw0KGgo=";
    let look = json!({ "role": "user", "parts": [
        { "type": "text", "text": "Look." }, { "type": "file", "mediaType": "image/png", "url": png },
    ] });
    let old = json!({ "role": "assistant", "parts": [{ "type": "text", "text": "Before." }] });
    let workflow = |messages: Value| {
        let body = json!({ "messages": messages }).to_string();
        world.request(Method::POST, PATH).header("content-type", "text/plain").body(body)
    };
    let first = workflow(json!([user("a"), old, look]));
    let chunks = chunks_of(&world.text(first).await);
    let prompt = last_prompt(&world);
    assert_eq!(prompt[..2], [Item::user("a"), Item::assistant("Before.")]);
    let content = vec![Content::text("Look."), Content::image(png)];
    let role = turnwire_contract::Role::User;
    assert_eq!(prompt[2], Item::Message { role, content });
    let answer =
        json!({ "role": "assistant", "parts": [], "metadata": chunks[0]["messageMetadata"] });
    let next = workflow(json!([answer, user("b")]));
    chunks_of(&world.text(next).await);
    assert_eq!(last_prompt(&world).len(), 5, "the conversation goes on");
    world.close().await;
}

/// A tool is shown with its arguments and its output; one that fails says how.
#[tokio::test]
async fn tools_are_shown() {
    let turns = [
        Turn::new().call("multiply", json!({ "a": 5, "b": 4 })).call("broken", json!({})),
        Turn::new().text("20."),
    ];
    let broken = FakeTool::new("broken", Behaviour::Fails("disk is full".into()));
    let multiply = FakeTool::new("multiply", Behaviour::Multiplies);
    let world = Plan::new(turns).tool(multiply).tool(broken).start().await;
    let chunks = send(&world, &body("c", &[user("?")])).await;
    let input = of_type(&chunks, "tool-input-available")[0];
    assert_eq!(input["input"], json!({ "a": 5, "b": 4 }));
    assert_eq!((&input["dynamic"], &input["providerExecuted"]), (&json!(true), &json!(true)));
    assert_eq!(of_type(&chunks, "tool-output-available")[0]["output"], json!("20"));
    assert_eq!(of_type(&chunks, "tool-output-error")[0]["errorText"], "failed: disk is full");
    world.close().await;
}

/// The stream finishes when only a person is awaited; the answer comes with the next request, and
/// the rest of the same message is its stream. What the page says of the arguments is not used.
#[tokio::test]
async fn an_approval_is_answered_with_the_next_request() {
    for approved in [true, false] {
        let risky = risky();
        let turns =
            [Turn::new().call("risky", json!({ "path": "a" })), Turn::new().text("So be it.")];
        let world = Plan::new(turns).tool(risky.clone()).start().await;
        let first = send(&world, &body("c", &[user("?")])).await;
        let last = first.last().unwrap();
        assert_eq!(
            (&last["type"], &last["finishReason"]),
            (&json!("finish"), &json!("tool-calls"))
        );
        assert_eq!(risky.n_calls(), 0);
        let answer = body("c", &[user("?"), answered(&first, approved)]);
        let request = world.request(Method::POST, PATH).json(&answer);
        let response = request.send().await.unwrap();
        let name = response.headers()["x-workflow-run-id"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        let rest = chunks_of(&text);
        assert_eq!(rest[0], first[0], "the same message");
        assert_eq!(text_of(&rest), "So be it.");
        let ends = if approved { "tool-output-available" } else { "tool-output-denied" };
        assert_eq!(of_type(&rest, ends).len(), 1, "{:?}", types(&rest));
        assert!(of_type(&rest, "tool-input-start").is_empty(), "only what is new");
        assert_eq!(risky.n_calls(), u32::from(approved));
        // The name of the stream leads to the same chunks.
        let again = format!("{PATH}/{name}/stream?startIndex=0");
        assert_eq!(world.text(world.request(Method::GET, &again)).await, text);
        // The answer that is sent again changes nothing.
        assert_eq!(send(&world, &answer).await, rest);
        world.close().await;
    }
}

/// A function of the page: its call goes out, and the next request with its output continues the
/// same message, so that the page shows one answer.
#[tokio::test]
async fn a_function_of_the_page_is_answered_with_the_next_request() {
    let turns = [Turn::new().call("locate", json!({ "of": "me" })), Turn::new().text("In Bern.")];
    let world = Plan::new(turns).start().await;
    let schema = json!({ "type": "object", "properties": { "of": { "type": "string" } } });
    let with_tools = |messages: &[Value]| {
        let mut body = body("c", messages);
        body["tools"] = json!({ "locate": { "description": "Where?", "inputSchema": schema } });
        body
    };
    let first = send(&world, &with_tools(&[user("?")])).await;
    let called = of_type(&first, "tool-input-available");
    assert_eq!((called.len(), &called[0]["input"]), (1, &json!({ "of": "me" })));
    assert!(called[0].get("providerExecuted").is_none(), "the page is called: {}", called[0]);
    assert_eq!(first.last().unwrap()["finishReason"], "tool-calls");
    let part = json!({ "type": "dynamic-tool", "toolName": "locate", "state": "output-available",
        "toolCallId": called[0]["toolCallId"], "input": {}, "output": { "city": "Bern" } });
    let id = &first[0]["messageId"];
    let message = json!({ "id": id, "role": "assistant", "parts": [part] });
    let answer = with_tools(&[user("?"), message]);
    let rest = send(&world, &answer).await;
    assert_eq!(rest[0]["messageId"], *id, "the same message");
    assert_ne!(rest[0]["messageMetadata"]["run_id"], *id, "another run");
    assert_eq!(text_of(&rest), "In Bern.");
    let prompt = last_prompt(&world);
    let results: Vec<&Item> =
        prompt.iter().filter(|item| matches!(item, Item::CallResult { .. })).collect();
    assert!(
        matches!(results[..], [Item::CallResult { output, failed: false, .. }]
            if output == r#"{"city":"Bern"}"#),
        "{prompt:?}"
    );
    // The same output again is nothing new.
    let (status, refused) = world.post(PATH, answer).await;
    assert_eq!((status, &refused["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("messages")));
    let known = json!({ "id": "d", "messages": [user("?")], "tools": { "locate": 7 } });
    let (status, refused) = world.post(PATH, known).await;
    let param = &refused["error"]["param"];
    assert_eq!((status, param), (StatusCode::BAD_REQUEST, &json!("tools.locate")));
    world.close().await;
}

/// Two answers that come together are one stream, however quick the first tool is.
#[tokio::test]
async fn answers_that_come_together_are_one_stream() {
    let turns = [
        Turn::new().call("risky", json!({ "n": 1 })).call("risky", json!({ "n": 2 })),
        Turn::new().text("Both."),
    ];
    let world = Plan::new(turns).tool(risky()).start().await;
    let first = send(&world, &body("c", &[user("?")])).await;
    assert_eq!(of_type(&first, "tool-approval-request").len(), 2);
    let rest = send(&world, &body("c", &[user("?"), answered(&first, true)])).await;
    assert_eq!(of_type(&rest, "tool-output-available").len(), 2);
    assert_eq!(of_type(&rest, "finish").len(), 1);
    assert_eq!(text_of(&rest), "Both.");
    world.close().await;
}

/// A page that was reloaded finds the question again, and after the answer the whole message.
#[tokio::test]
async fn a_question_survives_a_reload() {
    let turns = [Turn::new().call("risky", json!({})), Turn::new().text("x").wait_forever()];
    let world = Plan::new(turns).tool(risky()).start().await;
    let first = send(&world, &body("c", &[user("?")])).await;
    let path = format!("{PATH}/c/stream");
    let again = chunks_of(&world.text(world.request(Method::GET, &path)).await);
    assert_eq!(again, first);
    let answer = body("c", &[user("?"), answered(&first, true)]);
    let request = world.request(Method::POST, PATH).json(&answer);
    let mut rest = request.send().await.unwrap().bytes_stream();
    let mut seen = String::new();
    while !seen.contains("text-delta") {
        seen.push_str(std::str::from_utf8(&rest.next().await.unwrap().unwrap()).unwrap());
    }
    let whole = world.request(Method::GET, &path).send().await.unwrap();
    let (status, stopped) = world.post(&format!("{PATH}/c/stop"), json!({})).await;
    assert_eq!((status, &stopped["done"]), (StatusCode::OK, &json!(true)));
    let whole = chunks_of(&whole.text().await.unwrap());
    let starts = [of_type(&whole, "start").len(), of_type(&whole, "finish").len()];
    assert_eq!(starts, [1, 1], "one message: {:?}", types(&whole));
    assert_eq!(of_type(&whole, "tool-output-available").len(), 1);
    assert_eq!(of_type(&whole, "abort").len(), 1);
    world.close().await;
}

/// Without a run in progress there is nothing to resume or to stop; stopping ends the run.
#[tokio::test]
async fn nothing_in_progress_is_204() {
    let slow = FakeTool::new("slow", Behaviour::WaitsToBeStopped);
    let turns = [Turn::new().call("slow", json!({})), Turn::new().text("x")];
    let world = Plan::new(turns).tool(slow).start().await;
    let stream = || world.request(Method::GET, &format!("{PATH}/c/stream"));
    let stop = || world.request(Method::POST, &format!("{PATH}/c/stop"));
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status();
    assert_eq!(status(stream()).await, StatusCode::NO_CONTENT);
    assert_eq!(status(stop()).await, StatusCode::NO_CONTENT);
    let running = world.request(Method::POST, PATH).json(&body("c", &[user("?")]));
    let running = running.send().await.unwrap();
    let busy = world.post(PATH, body("c", &[user("?"), user("!")])).await;
    assert_eq!(
        (busy.0, &busy.1["error"]["code"]),
        (StatusCode::CONFLICT, &json!("conversation_locked"))
    );
    assert_eq!(status(stop()).await, StatusCode::OK);
    let chunks = chunks_of(&running.text().await.unwrap());
    assert_eq!(types(&chunks)[chunks.len() - 2..], ["abort", "finish"]);
    assert_eq!(status(stream()).await, StatusCode::NO_CONTENT);
    assert_eq!(status(stop()).await, StatusCode::NO_CONTENT);
    world.close().await;
}

/// The answer that is generated again replaces the old one, and so does an edited message.
#[tokio::test]
async fn an_answer_is_generated_again() {
    let model = Scripted::new((1..).take(9).map(|n| Turn::new().text(format!("{n}."))));
    let world = Plan::with_model(model).start().await;
    let first = send(&world, &body("c", &[user("a")])).await;
    let mut again = body("c", &[user("a")]);
    again["trigger"] = json!("regenerate-message");
    again["messageId"] = first[0]["messageId"].clone();
    assert_eq!(text_of(&send(&world, &again).await), "2.");
    assert_eq!(last_prompt(&world), [Item::user("a")]);
    send(&world, &body("c", &[user("a"), user("b")])).await;
    let expected = [Item::user("a"), Item::assistant("2."), Item::user("b")];
    assert_eq!(last_prompt(&world), expected);
    let mut edited = body("c", &[user("changed")]);
    edited["messageId"] = json!("a");
    assert_eq!(text_of(&send(&world, &edited).await), "4.");
    assert_eq!(last_prompt(&world), [Item::user("changed")]);
    world.close().await;
}

/// An answer that is generated again is superseded, not lost: its run stays with all that it had
/// seen, and a request that starts no run supersedes nothing.
#[tokio::test]
async fn what_is_answered_again_stays_with_its_runs() {
    let model = Scripted::new((1..).take(9).map(|n| Turn::new().text(format!("{n}."))));
    let world = Plan::with_model(model).start().await;
    let (runs, tenant) = (world.app.runs(), TenantId::default());
    let metadata = |chunks: &[Value], name: &str| {
        chunks[0]["messageMetadata"][name].as_str().expect("it is named").to_owned()
    };
    let items = |entries: Vec<Entry>| -> Vec<Item> {
        entries.iter().map(|entry| Item::clone(&entry.item)).collect()
    };
    let [a, one] = [Item::user("a"), Item::assistant("1.")];
    let [b, two] = [Item::user("b"), Item::assistant("2.")];
    send(&world, &body("c", &[user("a")])).await;
    let second = send(&world, &body("c", &[user("a"), user("b")])).await;
    let mut again = body("c", &[user("a")]);
    again["trigger"] = json!("regenerate-message");
    let third = send(&world, &again).await;
    let run_id = RunId::new(metadata(&second, "run_id"));
    let seen = items(runs.store().context(&tenant, &run_id).await.unwrap());
    assert_eq!(seen, [a.clone(), one, b, two], "what the second run had seen and said");
    let (status, snapshot) = world.get(&format!("/v1/runs/{run_id}")).await;
    assert_eq!((status, &snapshot["status"]), (StatusCode::OK, &json!("completed")));

    let conversation = ConversationId::new(metadata(&third, "conversation_id"));
    let router = router(&world.app, &HttpLimits::default());
    world.app.close();
    let request = Request::post(PATH).header(header::HOST, "localhost");
    let request = request.body(Body::from(again.to_string())).unwrap();
    let refused = router.oneshot(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let left = items(runs.history(&tenant, &conversation).await.unwrap());
    assert_eq!(left, [a, Item::assistant("3.")]);
    world.close().await;
}

/// A stream is resumed at any chunk, also from its end; what has not come yet is refused.
#[tokio::test]
async fn a_stream_is_resumed_by_the_number_of_chunks() {
    let world = Plan::new([Turn::new().text_in(["a", "b", "c"])]).start().await;
    let request =
        world.request(Method::POST, &format!("{PATH}?sdk=7")).json(&body("c", &[user("?")]));
    let response = request.send().await.unwrap();
    let name = response.headers()["x-workflow-run-id"].to_str().unwrap().to_owned();
    let whole = response.text().await.unwrap();
    let n_chunks = chunks_of(&whole).len();
    for n in 0..=n_chunks {
        let path = format!("{PATH}/{name}/stream?startIndex={n}");
        let rest = world.text(world.request(Method::GET, &path)).await;
        let (place, _) = whole.match_indices("data: ").nth(n).unwrap();
        assert_eq!(rest, whole[place..], "after {n}");
    }
    let path = |start: &str| format!("{PATH}/{name}/stream?startIndex={start}");
    let response = world.request(Method::GET, &path("-2")).send().await.unwrap();
    assert_eq!(response.headers()["x-workflow-stream-tail-index"], (n_chunks - 1).to_string());
    assert_eq!(chunks_of(&response.text().await.unwrap()).len(), 2);
    let (status, error) = world.get(&path(&(n_chunks + 1).to_string())).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_cursor"))
    );
    world.close().await;
}

/// Nobody reaches the chats and runs of another tenant, whatever their names.
#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let turns = [Turn::new().text("x").wait_forever(), Turn::new().text("mine")];
    let world = Plan::new(turns).tool(risky()).start().await;
    let other = TenantId::from("other");
    let mut request = RunRequest::new("default", vec![Item::user("secret")]);
    request.tenant = other.clone();
    request.conversation_id = Some("conv_other".into());
    let theirs = world.app.runs().start(request).await.unwrap();
    let run_id = theirs.id().to_string();
    while world.model.prompts().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for id in [run_id.as_str(), "conv_other"] {
        let path = format!("{PATH}/{id}/stream?startIndex=0");
        let status = world.request(Method::GET, &path).send().await.unwrap().status();
        assert_eq!(status, StatusCode::NO_CONTENT, "{id}");
        let stop = world.request(Method::POST, &format!("{PATH}/{id}/stop"));
        assert_eq!(stop.send().await.unwrap().status(), StatusCode::NO_CONTENT, "{id}");
    }
    let forged = json!([{ "toolCallId": "call_1", "approvalId": format!("{run_id}:call_1"),
        "type": "tool-approval-request", "messageId": run_id }]);
    let forged = answered(forged.as_array().unwrap(), true);
    let (status, _) = world.post(PATH, json!({ "messages": [forged] })).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let chunks = send(&world, &body("conv_other", &[user("?")])).await;
    assert_ne!(chunks[0]["messageMetadata"]["conversation_id"], "conv_other");
    assert_eq!(last_prompt(&world), [Item::user("?")]);
    theirs.cancel();
    world.close().await;
}

/// An approval belongs to its chat: another chat cannot answer it.
#[tokio::test]
async fn an_approval_is_answered_in_its_chat() {
    let world = Plan::new([Turn::new().call("risky", json!({}))]).tool(risky()).start().await;
    let first = send(&world, &body("c", &[user("?")])).await;
    let (status, _) = world.post(PATH, body("d", &[answered(&first, true)])).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let stop = world.request(Method::POST, &format!("{PATH}/c/stop"));
    assert_eq!(stop.send().await.unwrap().status(), StatusCode::OK);
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.close().await;
}

/// A version that there is not, and a body that is none, are refused in the usual shape.
#[tokio::test]
async fn refusals_name_the_field() {
    let world = Plan::new([]).start().await;
    let refused = async |path: &str, body: Value| {
        let (status, answer) = world.post(path, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        answer["error"]["param"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(refused("/ai-sdk/chat?sdk=4", body("c", &[user("?")])).await, "sdk");
    assert_eq!(refused(PATH, json!({})).await, "messages");
    assert_eq!(refused(PATH, body("", &[user("?")])).await, "id");
    assert_eq!(refused(PATH, body("c", &[json!({ "role": "robot" })])).await, "messages[0].role");
    assert_eq!(refused(PATH, body("c", &[user("")])).await, "messages[0].parts");
    world.close().await;
}

fn frame(kind: &str, request_id: &str, chat: &str, messages: &[Value]) -> Value {
    json!({ "type": kind, "requestId": request_id, "id": chat, "trigger": "submit-message",
        "messages": messages, "headers": {}, "body": { "own": 1 } })
}

/// The chunks of a request on a socket, which are numbered without a gap, up to its end.
async fn request_on(socket: &mut crate::world::Socket, request_id: &str) -> Vec<Value> {
    let frames = socket.until(|frame| frame["type"] == "end").await;
    assert!(frames.iter().all(|frame| frame["requestId"] == request_id), "{frames:?}");
    assert_eq!(frames[0]["type"], "start");
    let chunks = of_type(&frames, "chunk");
    let numbers = chunks.iter().map(|frame| frame["sequence"].as_u64().unwrap());
    assert!(numbers.eq(0..chunks.len() as u64), "{frames:?}");
    chunks.iter().map(|frame| frame["chunk"].clone()).collect()
}

/// The WebSocket of version 7: several requests on one socket, and the same chunks as over HTTP.
#[tokio::test]
async fn a_socket_carries_the_same_chunks() {
    let world = Plan::new([Turn::new().text("One."), Turn::new().text("Two.")]).start().await;
    let mut socket = world.socket(PATH).await;
    socket.send(frame("resume", "r0", "c", &[])).await;
    let none = socket.next().await.unwrap();
    assert_eq!(none, json!({ "type": "no-active", "requestId": "r0" }));
    socket.send(frame("send", "r1", "c", &[user("a")])).await;
    let chunks = request_on(&mut socket, "r1").await;
    assert_eq!(text_of(&chunks), "One.");
    let run = chunks[0]["messageId"].as_str().unwrap();
    let again = format!("{PATH}/{run}.7.0-0/stream?startIndex=0");
    assert_eq!(chunks_of(&world.text(world.request(Method::GET, &again)).await), chunks);
    socket.send(frame("send", "r2", "c", &[user("a"), user("b")])).await;
    assert_eq!(text_of(&request_on(&mut socket, "r2").await), "Two.");
    socket.send(frame("send", "r3", "c", &[])).await;
    let refused = socket.next().await.unwrap();
    assert_eq!((&refused["type"], &refused["requestId"]), (&json!("error"), &json!("r3")));
    drop(socket);
    world.close().await;
}

/// `abort` cancels the run; a socket that is gone leaves it, and another one resumes it.
#[tokio::test]
async fn a_socket_that_is_gone_leaves_the_run() {
    let world = Plan::new([Turn::new().text("x").wait_forever()]).start().await;
    let mut socket = world.socket(PATH).await;
    socket.send(frame("send", "r1", "c", &[user("a")])).await;
    socket.until(|frame| frame["chunk"]["type"] == "text-delta").await;
    drop(socket);
    let mut socket = world.socket(PATH).await;
    socket.send(frame("resume", "r2", "c", &[])).await;
    let seen = socket.until(|frame| frame["chunk"]["type"] == "text-delta").await;
    assert_eq!(seen[1]["chunk"]["type"], "start", "from the start of the message");
    let busy = world.post(PATH, body("c", &[user("?")])).await;
    assert_eq!(busy.0, StatusCode::CONFLICT);
    socket.send(json!({ "type": "abort", "requestId": "r2" })).await;
    let path = format!("{PATH}/c/stream");
    for _ in 0..500 {
        let status = world.request(Method::GET, &path).send().await.unwrap().status();
        if status == StatusCode::NO_CONTENT {
            drop(socket);
            return world.close().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run goes on");
}

/// A13: a socket has a limit of open requests, for `resume` as for `send`, and two requests of one
/// ID are not open at once.
#[tokio::test]
async fn a_socket_has_a_limit_of_open_requests() {
    let forever = || Turn::new().text("x").wait_forever();
    let plan = Plan::new([forever(), forever()]).limits(|limits| limits.socket_queue = 2);
    let world = plan.start().await;
    let mut socket = world.socket(PATH).await;
    socket.send(frame("send", "r1", "c", &[user("a")])).await;
    socket.until(|frame| frame["chunk"]["type"] == "text-delta").await;
    socket.send(frame("resume", "r1", "c", &[])).await;
    let refused = socket.next().await.unwrap();
    assert_eq!((&refused["type"], &refused["requestId"]), (&json!("error"), &json!("r1")));
    socket.send(frame("resume", "r2", "c", &[])).await;
    socket
        .until(|frame| frame["requestId"] == "r2" && frame["chunk"]["type"] == "text-delta")
        .await;
    for kind in ["resume", "send"] {
        socket.send(frame(kind, "r3", "d", &[user("b")])).await;
        let refused = socket.next().await.unwrap();
        assert_eq!((&refused["type"], &refused["requestId"]), (&json!("error"), &json!("r3")));
    }
    socket.send(json!({ "type": "abort", "requestId": "r2" })).await;
    socket.until(|frame| frame["type"] == "end" && frame["requestId"] == "r1").await;
    socket.send(frame("send", "r4", "d", &[user("b")])).await;
    socket
        .until(|frame| frame["requestId"] == "r4" && frame["chunk"]["type"] == "text-delta")
        .await;
    drop(socket);
    world.close().await;
}

/// A mistake of the client is not told as a restart of the server, which clients reconnect after.
#[tokio::test]
async fn a_socket_is_closed_for_what_was_wrong() {
    let world = Plan::new([]).start().await;
    let mut socket = world.socket(PATH).await;
    socket.send_text("{}").await;
    assert_eq!(socket.read_to_end().await, (vec![], Some(1007)));
    let mut socket = world.socket(PATH).await;
    socket.send_binary(b"{}").await;
    assert_eq!(socket.read_to_end().await, (vec![], Some(1003)));
    world.close().await;
}
