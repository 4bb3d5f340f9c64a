//! What a client chooses for an answer on `/chat` and `/chat/stream`: the model, the tools, and
//! files that go with the message. They are read by the code of `/v1/responses`.

use std::sync::Arc;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Content, Item, Prompt, ToolKind};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of, of_type, types};

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgo=";

fn says(text: &str) -> Scripted {
    Scripted::new([Turn::new().text(text)]).repeat_last()
}

/// A function of the settings, and a server with two tools, one of which needs an approval.
fn plan() -> (Plan, FakeTool) {
    let risky = FakeTool::new("delete", Behaviour::Returns("gone".to_owned()))
        .with(|spec| spec.needs_approval = true);
    let look = FakeTool::new("look", Behaviour::Returns("seen".to_owned()));
    let multiply = FakeTool::new("multiply", Behaviour::Multiplies);
    let plan = Plan::with_model(says("Hello.")).tool(multiply);
    (plan.server("files", [look, risky.clone()]), risky)
}

async fn stream(world: &World, body: &Value) -> Vec<Value> {
    data_of(&world.text(world.request(Method::POST, "/chat/stream").json(body)).await)
}

fn offered(prompt: &Prompt) -> Vec<&str> {
    let mut names: Vec<&str> = prompt.tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Another model answers on both endpoints, and the next message of the session is free to choose
/// again.
#[tokio::test]
async fn a_message_picks_its_model() {
    let other = says("I am the other.");
    let world = plan().0.model("other", Arc::new(other.clone())).start().await;
    let frames = stream(&world, &json!({ "message": "?", "model": "other" })).await;
    assert_eq!(of_type(&frames, "response")[0]["content"], "I am the other.");
    let session = frames.last().unwrap()["session_id"].clone();
    let next = json!({ "message": "?", "session_id": session, "model": "default" });
    assert_eq!(world.post("/chat", next).await.1["response"], "Hello.");
    assert_eq!(other.prompts().len(), 1);
    let unknown = json!({ "message": "?", "model": "nobody" });
    let (status, refused) = world.post("/chat/stream", unknown).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("model_not_found")),
        "{refused}"
    );
    world.close().await;
}

/// Without `tools` the model is offered those of the settings, otherwise exactly what is listed.
#[tokio::test]
async fn a_message_picks_its_tools() {
    let all = ["delete", "look", "multiply"];
    let one_of_server =
        json!({ "type": "mcp", "server_label": "files", "allowed_tools": ["look"] });
    let cases = [
        (Value::Null, &all[..]),
        (json!([]), &[][..]),
        (json!([{ "type": "mcp", "server_label": "files" }]), &all[..2]),
        (json!([one_of_server]), &all[1..2]),
        (json!([{ "type": "function", "name": "multiply" }]), &all[2..]),
        (json!([one_of_server, { "type": "function", "name": "multiply" }]), &all[1..]),
    ];
    for (tools, expected) in cases {
        let world = plan().0.start().await;
        stream(&world, &json!({ "message": "?", "tools": tools })).await;
        let prompts = world.model.prompts();
        assert_eq!(offered(&prompts[0]), expected, "{tools}");
        let is_ours = |tool: &ToolKind| !tool.is_run_by_client();
        assert!(prompts[0].tools.iter().all(|tool| is_ours(&tool.kind)));
        world.close().await;
    }
}

/// C15: a tool that was picked asks in the middle of the run, and the run goes on with the answer.
#[tokio::test]
async fn a_picked_tool_asks_and_the_run_goes_on() {
    let turns = [Turn::new().call("delete", json!({})), Turn::new().text("Gone.")];
    let (_, risky) = plan();
    let world = Plan::new(turns).server("files", [risky.clone()]).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "files" }]);
    let body = json!({ "message": "?", "tools": tools, "approvals": true, "model": "default" });
    let response = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let run = response.headers()["turnwire-run-id"].to_str().unwrap().to_owned();
    let mut chunks = response.bytes_stream();
    let mut text = String::new();
    let mut read = async |until: &str, text: &mut String| {
        while !text.contains(until) {
            text.push_str(std::str::from_utf8(&chunks.next().await.unwrap().unwrap()).unwrap());
        }
    };
    read("\"approval_request\"", &mut text).await;
    let call = of_type(&data_of(&text), "approval_request")[0]["call_id"].clone();
    let path = format!("/v1/runs/{run}/calls/{}/approve", call.as_str().unwrap());
    assert_eq!(world.post(&path, json!({ "approve": true })).await.1["done"], true);
    read("\"done\"", &mut text).await;
    let seen = types(&data_of(&text)).join(" ");
    assert_eq!(seen, "approval_request tool_call tool_result response done");
    assert_eq!(risky.n_calls(), 1);
    world.close().await;
}

/// Pictures and files reach the model after the text, as with `/v1/responses`; a message may
/// consist of them alone.
#[tokio::test]
async fn a_message_carries_files() {
    let world = plan().0.start().await;
    let attachments = json!([
        { "type": "input_image", "image_url": PIXEL },
        { "type": "input_file", "filename": "notes.txt", "file_data": "aGVsbG8=" },
    ]);
    let body = json!({ "message": "What is this?", "attachments": attachments });
    stream(&world, &body).await;
    world.post("/chat", json!({ "attachments": attachments })).await;
    let shown = |prompt: &Prompt| match &*prompt.items[0] {
        Item::Message { content, .. } => content.clone(),
        other => panic!("{other:?}"),
    };
    let text = Content::text("What is this?");
    let image = Content::Image { url: PIXEL.to_owned(), detail: None };
    let url = "data:text/plain;base64,aGVsbG8=".to_owned();
    let file = Content::File { name: "notes.txt".to_owned(), url };
    let prompts = world.model.prompts();
    assert_eq!(shown(&prompts[0]), [text, image.clone(), file.clone()]);
    assert_eq!(shown(&prompts[1]), [image, file]);
    world.close().await;
}

/// What cannot be is refused on both endpoints with the path of the field, before there is a run.
#[tokio::test]
async fn choices_are_refused_by_the_field() {
    let world = plan().0.start().await;
    let tools = |tool: Value| json!({ "message": "?", "tools": [tool] });
    let attached = |part: Value| json!({ "message": "?", "attachments": [part] });
    let cases = [
        (json!({ "message": "?", "model": "" }), "model", "invalid_value"),
        (json!({ "message": "?", "model": 5 }), "model", "invalid_type"),
        (json!({ "message": "?", "tools": {} }), "tools", "invalid_type"),
        (json!({ "message": "?", "attachments": "x" }), "attachments", "invalid_type"),
        (json!({ "attachments": [] }), "message", "missing_required_parameter"),
        (tools(json!("look")), "tools[0]", "invalid_type"),
        (tools(json!({ "type": "shell" })), "tools[0].type", "unsupported_tool"),
        (
            tools(json!({ "type": "mcp", "server_label": "others" })),
            "tools[0].server_label",
            "mcp_server_not_found",
        ),
        // Calls cannot go to the client, so its own functions are of no use here.
        (
            tools(json!({ "type": "function", "name": "mine", "parameters": {} })),
            "tools[0].name",
            "unsupported_tool",
        ),
        (tools(json!({ "type": "function", "name": "nope" })), "tools[0].name", "unsupported_tool"),
        (tools(json!({ "type": "web_search" })), "tools[0].type", "unsupported_tool"),
        (
            tools(json!({ "type": "mcp", "server_label": "files", "color": 1 })),
            "tools[0].color",
            "unsupported_parameter",
        ),
        (attached(json!({ "type": "input_text" })), "attachments[0].type", "unsupported_content"),
        (
            attached(json!({ "type": "input_image", "image_url": "file:///etc/passwd" })),
            "attachments[0].image_url",
            "invalid_value",
        ),
        (
            attached(json!({ "type": "input_image", "image_url": PIXEL, "colour": 1 })),
            "attachments[0].colour",
            "unknown_parameter",
        ),
    ];
    for (body, param, code) in cases {
        for path in ["/chat", "/chat/stream"] {
            let (status, refused) = world.post(path, body.clone()).await;
            let error = &refused["error"];
            assert_eq!(
                (status, &error["param"], &error["code"]),
                (StatusCode::BAD_REQUEST, &json!(param), &json!(code)),
                "{body}: {refused}"
            );
        }
    }
    let missing = attached(json!({ "type": "input_file", "file_id": "file_none" }));
    let (status, refused) = world.post("/chat/stream", missing).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (StatusCode::NOT_FOUND, &json!("attachments[0].file_id"))
    );
    assert_eq!(world.get("/v1/runs").await.1["data"], json!([]));
    world.close().await;
}
