//! `POST /chat` and `POST /chat/stream`.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::ModelError;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of, types};

fn multiply() -> FakeTool {
    FakeTool::new("multiply", Behaviour::Multiplies)
}

fn ask_to_multiply() -> Turn {
    Turn::new().text("Let me see. ").call("multiply", json!({ "a": 5, "b": 4 }))
}

async fn stream(world: &World, body: Value) -> Vec<Value> {
    data_of(&world.text(world.request(Method::POST, "/chat/stream").json(&body)).await)
}

/// S3-T2, S3-7, S3-8, S3-17: tool call, tool result, response, done, and nothing else; the
/// headers that keep proxies from gathering.
#[tokio::test]
async fn the_stream_of_one_tool() {
    let world = Plan::new([ask_to_multiply(), Turn::new().text("It is 20.")])
        .tool(multiply())
        .start()
        .await;
    let request = world.request(Method::POST, "/chat/stream").json(&json!({ "message": "5 * 4?" }));
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(
        (header("cache-control"), header("x-accel-buffering")),
        ("no-cache".into(), "no".into())
    );
    let run_id = header("turnwire-run-id");
    let text = response.text().await.unwrap();
    assert!(text.starts_with(&format!("id: {run_id}:")), "the header names the run: {text}");
    assert!(
        text.lines().all(|line| {
            line.is_empty() || line.starts_with("data: ") || line.starts_with("id: ")
        })
    );
    let frames = data_of(&text);
    assert_eq!(types(&frames), ["tool_call", "tool_result", "response", "done"]);
    assert_eq!(
        (&frames[0]["tool"], &frames[0]["args"]),
        (&json!("multiply"), &json!({ "a": 5, "b": 4 }))
    );
    assert_eq!((&frames[1]["tool"], &frames[1]["success"]), (&json!("multiply"), &json!(true)));
    assert_eq!(frames[2]["content"], "It is 20.");
    assert!(frames[3]["session_id"].as_str().unwrap().starts_with("conv_"));
    world.close().await;
}

/// S3-17: tokens come only to those who ask.
#[tokio::test]
async fn tokens_on_request() {
    let world = Plan::new([Turn::new().text_in(["Hel", "lo."])]).start().await;
    let frames = stream(&world, json!({ "message": "Hi", "tokens": true })).await;
    assert_eq!(types(&frames), ["token", "token", "response", "done"]);
    world.close().await;
}

/// S3-13: a turn that fails is an error and then done, with status 200.
#[tokio::test]
async fn a_failed_turn_ends_with_done() {
    let broken = ModelError::Rejected { message: "no".to_owned() };
    let world = Plan::new([Turn::fails(broken)]).start().await;
    let frames = stream(&world, json!({ "message": "Hi" })).await;
    assert_eq!(types(&frames), ["error", "done"]);
    assert!(!frames[0]["error"].as_str().unwrap().is_empty());
    world.close().await;
}

/// S3-9, S3-10: a session begun by one endpoint goes on in the other, and `/chat` answers as it
/// always did.
#[tokio::test]
async fn sessions_are_shared() {
    let turns = ["One.", "Two.", "Three."].map(|text| Turn::new().text(text));
    let world = Plan::new(turns).start().await;
    let (status, first) = world.post("/chat", json!({ "message": "1" })).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(first["response"], "One.");
    assert_eq!(first.as_object().unwrap().keys().collect::<Vec<_>>(), ["response", "session_id"]);
    let session = first["session_id"].clone();
    let frames = stream(&world, json!({ "message": "2", "session_id": session })).await;
    assert_eq!(frames.last().unwrap()["session_id"], session);
    let third = json!({ "message": "3", "session_id": session, "active_file": "notes.md" });
    assert_eq!(world.post("/chat", third).await.1["response"], "Three.");
    let prompts = world.model.prompts();
    assert_eq!(prompts[2].items.len(), 5);
    assert!(prompts[2].instructions.as_ref().unwrap().contains("notes.md"));
    // The same conversation on the other surfaces.
    let path = format!("/v1/conversations/{}/items", session.as_str().unwrap());
    assert_eq!(world.get(&path).await.1["data"].as_array().unwrap().len(), 6);
    world.close().await;
}

/// S3-14, C10: a client that hangs up finds the turn in its session; the tool worked once.
#[tokio::test]
async fn a_turn_survives_its_client() {
    let slow = FakeTool::new("work", Behaviour::Takes(Duration::from_millis(200), "worked".into()));
    let turns = [
        Turn::new().call("work", json!({})),
        Turn::new().text("Worked."),
        Turn::new().text("As I said."),
    ];
    let world = Plan::new(turns).tool(slow.clone()).start().await;
    let session = world.session().await;
    let body = json!({ "message": "Work.", "session_id": session });
    let mut response =
        world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("tool_call"));
    drop(response);
    let next = json!({ "message": "And?", "session_id": session });
    let answer = loop {
        let (status, answer) = world.post("/chat", next.clone()).await;
        // Busy until the turn is over.
        if status != StatusCode::CONFLICT {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(answer["response"], "As I said.");
    assert_eq!(slow.n_calls(), 1);
    assert_eq!(world.model.prompts()[2].items.len(), 5, "the whole turn is in the history");
    world.close().await;
}

/// S3-11: a reader that does not read slows nobody down.
#[tokio::test]
async fn a_slow_reader_does_not_slow_the_turn() {
    let long = "word ".repeat(40_000);
    let model =
        Scripted::new([Turn::new().text_in(long.split_inclusive(' ')), Turn::new().text("Next.")]);
    let world = Plan::with_model(model).start().await;
    let session = world.session().await;
    let body = json!({ "message": "Talk.", "session_id": session, "tokens": true });
    let idle = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let next = json!({ "message": "Next?", "session_id": session });
    let mut status = StatusCode::CONFLICT;
    while status == StatusCode::CONFLICT {
        tokio::time::sleep(Duration::from_millis(20)).await;
        status = world.post("/chat", next.clone()).await.0;
    }
    assert_eq!(status, StatusCode::OK);
    // And whoever reads at last still gets everything.
    let frames = data_of(&idle.text().await.unwrap());
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "token").count(), 40_000);
    world.close().await;
}

/// S3-12: old results are shortened for the model, in batches of three turns, so that the prompt
/// seldom changes; and no call is parted from its result.
#[tokio::test]
async fn old_results_are_shortened() {
    let big = FakeTool::new("read", Behaviour::Returns("x".repeat(5_000)));
    let turns =
        (0..9).flat_map(|_| [Turn::new().call("read", json!({})), Turn::new().text("Read.")]);
    let world = Plan::new(turns).tool(big).start().await;
    let session = world.session().await;
    for _ in 0..9 {
        let body = json!({ "message": "Read it.", "session_id": session });
        assert_eq!(world.post("/chat", body).await.0, StatusCode::OK);
    }
    let prompts = world.model.prompts();
    // Nothing is shortened while a turn of the chat is in progress: its second prompt begins with
    // the whole first one, and has the new result in full.
    for of_one_run in prompts.chunks(2) {
        let [first, second] = of_one_run else { panic!("two prompts for each message") };
        let (same, new) = second.items.split_at(first.items.len());
        assert_eq!(same, first.items);
        assert!(
            matches!(&*new[1], turnwire_contract::Item::CallResult { output, .. } if output.len() == 5_000),
            "{new:?}"
        );
    }
    let n_shortened = |prompt: &turnwire_contract::Prompt| {
        let wrong = turnwire_testkit::invariants::history_violations(prompt);
        assert!(wrong.is_empty(), "{wrong:?}");
        let is_short = |item: &&std::sync::Arc<turnwire_contract::Item>| matches!(&***item, turnwire_contract::Item::CallResult { output, .. } if output.len() < 500);
        let first_whole = prompt.items.iter().rposition(|item| is_short(&item));
        let n = prompt.items.iter().filter(is_short).count();
        let before = first_whole.map_or(0, |place| place / 4 + 1);
        assert_eq!(n, before, "the oldest are shortened");
        n
    };
    let of_turns: Vec<usize> = prompts.iter().step_by(2).map(n_shortened).collect();
    assert_eq!(of_turns, [0, 0, 0, 0, 0, 3, 3, 3, 6]);
    world.close().await;
}

/// R11: `Last-Event-ID` reads on at any frame.
#[tokio::test]
async fn a_chat_stream_is_resumed_at_any_frame() {
    let world = Plan::new([ask_to_multiply(), Turn::new().text_in(["It ", "is 20."])])
        .tool(multiply())
        .start()
        .await;
    let body = json!({ "message": "5 * 4?", "tokens": true });
    let text = world.text(world.request(Method::POST, "/chat/stream").json(&body)).await;
    let frames: Vec<&str> = text.split_inclusive("\n\n").collect();
    for n in 0..frames.len() {
        let id = frames[n].lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        let again = world
            .request(Method::POST, "/chat/stream")
            .header("Last-Event-ID", id)
            .json(&json!({ "tokens": true }));
        assert_eq!(world.text(again).await, frames[n + 1..].concat(), "after {id}");
        let by_get = world.request(Method::GET, &format!("/chat/stream?tokens=true&after={id}"));
        assert_eq!(world.text(by_get).await, frames[n + 1..].concat());
    }
    world.close().await;
}

/// A message replaces an item and everything after it, in the same moment as its run starts; what
/// cannot be replaced is refused, and nothing changes.
#[tokio::test]
async fn a_message_replaces_an_earlier_one() {
    let world = Plan::new((1..=4).map(|n| Turn::new().text(format!("{n}.")))).start().await;
    let (_, first) = world.post("/chat", json!({ "message": "a" })).await;
    let session = first["session_id"].as_str().unwrap().to_owned();
    world.post("/chat", json!({ "message": "b", "session_id": session })).await;
    let items = async || {
        let (_, page) = world.get(&format!("/v1/conversations/{session}/items?order=asc")).await;
        page["data"].as_array().unwrap().clone()
    };
    let texts = |items: &[Value]| -> Vec<Value> {
        items.iter().map(|item| item["content"][0]["text"].clone()).collect()
    };
    let before = items().await;
    assert_eq!(texts(&before), ["a", "1.", "b", "2."]);
    let message = json!({ "message": "c", "session_id": session, "replaces": before[2]["id"] });
    let (status, replaced) = world.post("/chat", message.clone()).await;
    assert_eq!((status, &replaced["response"]), (StatusCode::OK, &json!("3.")));
    assert_eq!(texts(&items().await), ["a", "1.", "c", "3."]);
    let (status, error) = world.post("/chat", message).await;
    assert_eq!((status, &error["error"]["param"]), (StatusCode::NOT_FOUND, &json!("replaces")));
    let nowhere = json!({ "message": "d", "replaces": before[0]["id"] });
    let (status, error) = world.post("/chat", nowhere).await;
    assert_eq!((status, &error["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("session_id")));
    assert_eq!(texts(&items().await), ["a", "1.", "c", "3."]);
    world.close().await;
}

/// A call that is repeated follows the run that replaced something; nothing is replaced again.
#[tokio::test]
async fn a_repeated_call_replaces_nothing() {
    let turns = [
        Turn::new().text("1."),
        ask_to_multiply(),
        Turn::new().text("20."),
        Turn::new().text("Again 20."),
    ];
    let fails = FakeTool::new("multiply", Behaviour::Fails("no luck".to_owned()));
    let world = Plan::new(turns).tool(fails).start().await;
    let (_, first) = world.post("/chat", json!({ "message": "a" })).await;
    let session = first["session_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/conversations/{session}/items?order=asc");
    let (_, items) = world.get(&path).await;
    let replaces = &items["data"][0]["id"];
    world
        .post("/chat", json!({ "message": "b", "session_id": session, "replaces": replaces }))
        .await;
    let (_, runs) = world.get(&format!("/v1/runs?conversation_id={session}")).await;
    let run = runs["data"][0]["run_id"].as_str().unwrap();
    let (_, snapshot) = world.get(&format!("/v1/runs/{run}")).await;
    let call = snapshot["calls"][0]["call_id"].as_str().unwrap();
    let (_, before) = world.get(&path).await;
    let retry = format!("/v1/runs/{run}/calls/{call}/retry");
    let (status, retried) = world.post(&retry, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{retried:#}");
    let events = format!("/v1/runs/{}/events", retried["run_id"].as_str().unwrap());
    world.text(world.request(Method::GET, &events)).await;
    let (_, after) = world.get(&path).await;
    let [before, after] = [before, after].map(|page| page["data"].as_array().unwrap().clone());
    assert!(after.len() > before.len() && after.starts_with(&before), "{after:#?}");
    world.close().await;
}
