//! Calls that a person has to allow, on surfaces where nobody may be asked.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::Item;
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, Prop};

use crate::world::{Plan, World, data_of, of_type, types};

fn plan() -> (Plan, Prop) {
    let risky = Prop::new("risky", Behaviour::Returns("done".into()));
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
async fn c15_nobody_is_waited_for_who_cannot_be_asked() {
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
async fn c15_a_stream_without_approvals() {
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
async fn c15_sockets_with_and_without_approvals() {
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
async fn c11_questions_are_asked_again_on_resume() {
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
