//! `POST /v1/chat/completions`.

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Item, ModelError};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

const PATH: &str = "/v1/chat/completions";

fn multiply() -> FakeTool {
    FakeTool::new("multiply", Behaviour::Multiplies)
}

fn two_turns() -> [Turn; 2] {
    let call = Turn::new().text("Let me see.").call("multiply", json!({ "a": 5, "b": 4 }));
    [call, Turn::new().text_in(["It is ", "20."])]
}

/// A request that names the tool `multiply` of the server, by its name alone.
fn ask() -> Value {
    json!({
        "model": "default",
        "messages": [{ "role": "user", "content": "5 * 4?" }],
        "tools": [{ "type": "function", "function": { "name": "multiply" } }],
    })
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    body
}

/// The chunks of a stream that ends with `[DONE]`.
async fn chunks(world: &World, request: reqwest::RequestBuilder) -> Vec<Value> {
    let text = world.text(request).await;
    let frames: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let [chunks @ .., "[DONE]"] = frames.as_slice() else { panic!("no end: {text}") };
    chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
}

fn post(world: &World, body: &Value) -> reqwest::RequestBuilder {
    world.request(Method::POST, PATH).json(body)
}

fn content(chunks: &[Value]) -> String {
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    deltas.collect()
}

/// The server executes its tools inside the request; the client sees text, with and without a
/// stream.
#[tokio::test]
async fn tools_of_the_server_run_inside_the_request() {
    let turns = two_turns().into_iter().chain(two_turns());
    let world = Plan::new(turns).tool(multiply()).start().await;
    let chunks = chunks(&world, post(&world, &streamed(ask()))).await;
    assert_eq!(content(&chunks), "Let me see.\n\nIt is 20.");
    assert!(chunks.iter().all(|chunk| chunk["choices"][0]["delta"]["tool_calls"].is_null()));
    let [.., finish, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].is_u64());
    let (status, whole) = world.post(PATH, ask()).await;
    assert_eq!(status, StatusCode::OK);
    let id = whole["id"].as_str().unwrap();
    assert!(id.starts_with("chatcmpl-") && chunks[0]["id"] != whole["id"]);
    assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!("default")));
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "Let me see.\n\nIt is 20.");
    assert_eq!(choice["finish_reason"], "stop");
    world.close().await;
}

/// By its settings a model brings the tools of the server to clients that know nothing of them.
#[tokio::test]
async fn a_model_brings_its_tools() {
    for brings in [false, true] {
        let plan = Plan::new(two_turns()).tool(multiply());
        let plan = plan.server("clock", [FakeTool::new("now", Behaviour::Returns("12".into()))]);
        let plan = plan.options(|options| {
            options.models_with_tools.extend(brings.then(|| "default".to_owned()));
        });
        let world = plan.start().await;
        let own = json!([{ "type": "function", "function": { "name": "mine", "parameters": {} } }]);
        let body = json!({ "messages": [{ "role": "user", "content": "?" }], "tools": own });
        world.post(PATH, body).await;
        let prompt = &world.model.prompts()[0];
        let offered: Vec<&str> = prompt.tools.iter().map(|tool| tool.name.as_str()).collect();
        let expected: &[&str] = if brings { &["mine", "multiply", "now"] } else { &["mine"] };
        assert_eq!(offered, expected);
        world.close().await;
    }
}

/// A call of a client function goes out, and its result comes back with the next request.
#[tokio::test]
async fn functions_of_the_client_go_out_and_come_back() {
    let call = Turn::new().call("weather", json!({ "city": "Oslo" }));
    let world = Plan::new([call.clone(), call, Turn::new().text("Rain.")]).start().await;
    let parameters = json!({ "type": "object" });
    let weather = json!({ "name": "weather", "parameters": parameters });
    let mut body = json!({
        "messages": [{ "role": "user", "content": "Oslo?" }],
        "tools": [{ "type": "function", "function": weather }],
    });
    let streamed = chunks(&world, post(&world, &streamed(body.clone()))).await;
    let finish =
        streamed.iter().rev().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(finish, Some("tool_calls"));
    let (_, whole) = world.post(PATH, body.clone()).await;
    let message = whole["choices"][0]["message"].clone();
    let made = &message["tool_calls"][0];
    assert_eq!(made["function"]["arguments"], r#"{"city":"Oslo"}"#);
    let result = json!({ "role": "tool", "tool_call_id": made["id"], "content": "12 °C" });
    body["messages"].as_array_mut().unwrap().extend([message, result]);
    let (status, answer) = world.post(PATH, body).await;
    assert_eq!(
        (status, &answer["choices"][0]["message"]["content"]),
        (StatusCode::OK, &json!("Rain."))
    );
    let prompt = world.model.prompts().last().unwrap().clone();
    let results: Vec<&str> = prompt
        .items
        .iter()
        .filter_map(|item| match &**item {
            Item::CallResult { output, .. } => Some(output.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["12 °C"]);
    world.close().await;
}

/// C15: nobody can be asked in this dialect, so calls that need an approval are denied, unless the
/// client watches the events and brings the answer another way.
#[tokio::test]
async fn approvals_are_denied_or_answered_elsewhere() {
    for extended in [false, true] {
        let risky = FakeTool::new("risky", Behaviour::Returns("done".into()));
        let risky = risky.with(|spec| spec.needs_approval = true);
        let turns = [Turn::new().call("risky", json!({})), Turn::new().text("As you wish.")];
        let world = Plan::new(turns).tool(risky.clone()).start().await;
        let mut body = streamed(ask());
        body["tools"][0]["function"]["name"] = json!("risky");
        let request = post(&world, &body);
        let request =
            if extended { request.header("turnwire-profile", "extended") } else { request };
        let mut stream = request.send().await.unwrap().bytes_stream();
        let (mut text, mut has_answered) = (String::new(), false);
        while let Some(bytes) = stream.next().await {
            text.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
            if text.contains("approval_requested") && !has_answered {
                has_answered = true;
                let id = text.split("\"chatcmpl-").nth(1).unwrap().split('"').next().unwrap();
                let call = text.split("\"call_id\":\"").nth(1).unwrap().split('"').next().unwrap();
                let path = format!("/v1/runs/run_{id}/calls/{call}/approve");
                let (status, _) = world.post(&path, json!({ "approve": true })).await;
                assert_eq!(status, StatusCode::OK);
            }
        }
        assert_eq!(has_answered, extended, "{text}");
        assert_eq!(risky.n_calls(), u32::from(extended));
        assert!(text.contains("As you wish.") && text.ends_with("data: [DONE]\n\n"), "{text}");
        world.close().await;
    }
}

/// C16: a failed run is an error status, and an error frame in a stream. Clients retry by
/// themselves unless a tool has acted.
#[tokio::test]
async fn a_failed_run_is_an_error() {
    let overloaded = || Turn::fails(ModelError::Rejected { message: "no".to_owned() });
    let [call, _] = two_turns();
    let turns = [overloaded(), overloaded(), call, overloaded()];
    let world = Plan::new(turns).tool(multiply()).start().await;
    let (status, error) = world.post(PATH, ask()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["turnwire"]["code"], "model_rejected");
    let chunks = chunks(&world, post(&world, &streamed(ask()))).await;
    assert_eq!(chunks.last().unwrap()["error"]["turnwire"]["code"], "model_rejected");
    let acted = post(&world, &ask()).send().await.unwrap();
    assert!(!acted.status().is_success());
    assert_eq!(acted.headers()["x-should-retry"], "false");
    world.close().await;
}

/// C3: a stream with a key is read again from its beginning, to the byte.
#[tokio::test]
async fn a_request_with_a_key_gets_the_same_stream_again() {
    let world = Plan::new(two_turns()).tool(multiply()).start().await;
    let read = async || {
        let request = post(&world, &streamed(ask())).header("Idempotency-Key", "one");
        world.text(request).await
    };
    let first = read().await;
    assert!(first.ends_with("data: [DONE]\n\n"), "{first}");
    assert_eq!(read().await, first);
    world.close().await;
}

/// A client that leaves takes its run with it, unless it says otherwise: it cannot come back.
#[tokio::test]
async fn a_run_ends_with_its_client() {
    let turns = [Turn::new().text("Let me ").wait_forever()];
    let world = Plan::new(turns).start().await;
    let mut stream = post(&world, &streamed(ask())).send().await.unwrap().bytes_stream();
    while !stream.next().await.unwrap().unwrap().windows(6).any(|window| window == b"Let me") {}
    drop(stream);
    loop {
        let (_, runs) = world.get("/v1/runs").await;
        if runs["data"].as_array().unwrap().is_empty() {
            break;
        }
        tokio::task::yield_now().await;
    }
    world.close().await;
}

/// Errors name the fields of this dialect, wherever the mistake is found.
#[tokio::test]
async fn errors_name_the_fields_of_the_client() {
    let world = Plan::new([]).start().await;
    let file = json!([{ "type": "file", "file": { "file_id": "file_1" } }]);
    let cases = [
        (json!({ "messages": [] }), StatusCode::BAD_REQUEST, "messages"),
        (
            json!({ "messages": [{ "role": "user", "content": file }] }),
            StatusCode::NOT_FOUND,
            "messages[0].content[0].file.file_id",
        ),
        (
            json!({ "messages": [{ "role": "tool", "tool_call_id": "x", "content": "1" }] }),
            StatusCode::BAD_REQUEST,
            "messages",
        ),
        (
            json!({ "model": "none", "messages": [{ "role": "user", "content": "?" }] }),
            StatusCode::NOT_FOUND,
            "model",
        ),
    ];
    for (body, status, param) in cases {
        let (found, error) = world.post(PATH, body).await;
        assert_eq!((found, error["error"]["param"].as_str()), (status, Some(param)), "{error}");
    }
    world.close().await;
}

/// What is ignored is listed, under the names of this dialect.
#[tokio::test]
async fn ignored_fields_are_listed() {
    let world = Plan::new([Turn::new().text("Hello.")]).start().await;
    let messages = json!([{ "role": "user", "content": "?", "name": "Ann" }]);
    let (_, whole) = world.post(PATH, json!({ "messages": messages, "top_k": 3 })).await;
    assert_eq!(whole["turnwire"]["ignored"], json!(["messages[].name", "top_k"]));
    world.close().await;
}
