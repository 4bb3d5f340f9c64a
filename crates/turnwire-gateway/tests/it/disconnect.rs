//! A client that goes away loses a view, not the run: whatever the moment, the run finishes,
//! what its tools do happens once, and what is read on joins what was read before.

use std::time::Duration;

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

/// A run to be left in the middle: its turns, and its tools.
struct Scenario {
    turns: Vec<Turn>,
    tools: Vec<FakeTool>,
}

fn scenarios() -> Vec<Scenario> {
    let prop = |name: &str, behaviour| FakeTool::new(name, behaviour);
    let takes = |ms| Behaviour::Takes(Duration::from_millis(ms), "ok".to_owned());
    vec![
        Scenario {
            turns: vec![
                Turn::new().text_in(["Let me ", "see. "]).call("work", json!({ "n": 1 })),
                Turn::new().text_in(["All ", "done."]),
            ],
            tools: vec![prop("work", takes(5))],
        },
        Scenario {
            turns: vec![
                Turn::new().call("a", json!({})).call("b", json!({})).call("c", json!({})),
                Turn::new().text("Three."),
            ],
            tools: vec![prop("a", takes(8)), prop("b", takes(2)), prop("c", takes(5))],
        },
        Scenario {
            turns: vec![
                Turn::new().reasoning("Hm.").call("fails", json!({})),
                Turn::new().call("reports", json!({})),
                Turn::new().text("It is what it is.").length_cut(),
            ],
            tools: vec![
                prop("fails", Behaviour::Fails("no".to_owned())),
                prop("reports", Behaviour::Reports(2, Duration::from_millis(2), "r".to_owned())),
            ],
        },
    ]
}

impl Scenario {
    /// A server where this run can be had again and again, one at a time.
    async fn start(self) -> (World, Vec<FakeTool>) {
        let model = Scripted::new(self.turns).looping();
        let world = Plan::with_model(model).server("m", self.tools.clone()).start().await;
        (world, self.tools)
    }
}

/// The first `n` frames of a stream; then the client is gone. The frames, and whether it had
/// come to the end.
async fn first_frames(request: reqwest::RequestBuilder, n: usize) -> (String, bool) {
    let mut chunks = request.send().await.unwrap().bytes_stream();
    let mut text = String::new();
    let nth_end = |text: &str| text.match_indices("\n\n").nth(n - 1).map(|(at, _)| at + 2);
    loop {
        if let Some(end) = nth_end(&text) {
            text.truncate(end);
            return (text, false);
        }
        match chunks.next().await {
            Some(chunk) => text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap()),
            None => return (text, true),
        }
    }
}

/// The newest run, once it is over.
async fn over(world: &World) -> String {
    let run = world.get("/v1/runs").await.1["data"][0]["run_id"].as_str().unwrap().to_owned();
    let events = world.text(world.request(Method::GET, &format!("/v1/runs/{run}/events"))).await;
    assert!(events.contains("run_finished"));
    run
}

/// Leaves at every frame, comes back, and compares. `begin` starts a run and `resume` reads on
/// after what was seen, of which it also gets the text of the last frame, or from the beginning.
async fn leave_everywhere(
    begin: impl Fn(&World) -> reqwest::RequestBuilder,
    resume: impl Fn(&World, &str, &str, Option<&str>) -> reqwest::RequestBuilder,
) {
    for (number, scenario) in scenarios().into_iter().enumerate() {
        let (world, tools) = scenario.start().await;
        for n in 1.. {
            let calls_before: Vec<u32> = tools.iter().map(FakeTool::n_calls).collect();
            let (seen, reached_the_end) = first_frames(begin(&world), n).await;
            let run = over(&world).await;
            for (tool, before) in tools.iter().zip(calls_before) {
                assert_eq!(tool.n_calls(), before + 1, "once, in scenario {number} at frame {n}");
            }
            let last = seen.trim_end().rsplit("\n\n").next().unwrap();
            let rest = match last {
                "data: [DONE]" => String::new(),
                last => world.text(resume(&world, &run, &seen, Some(last))).await,
            };
            let whole = world.text(resume(&world, &run, "", None)).await;
            assert_eq!(seen + &rest, whole, "scenario {number}, left at frame {n}");
            if reached_the_end {
                break;
            }
        }
        world.close().await;
    }
}

fn sequence_number(frame: &str) -> u64 {
    let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str::<Value>(data).unwrap()["sequence_number"].as_u64().unwrap()
}

fn id(frame: &str) -> &str {
    frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

/// C10, C11: `/v1/responses`, resumed by `starting_after`.
#[tokio::test]
async fn responses_survive_their_clients() {
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "?", "tools": tools, "stream": true });
    leave_everywhere(
        |world| world.request(Method::POST, "/v1/responses").json(&body),
        |world, run, _, last| {
            let path = format!("/v1/responses/{}?stream=true", run.replace("run_", "resp_"));
            let after = last.map(|frame| format!("&starting_after={}", sequence_number(frame)));
            let after = after.unwrap_or_default();
            world.request(Method::GET, &(path + &after))
        },
    )
    .await;
}

/// C10, C11, S3-14: `/chat/stream`, resumed by `Last-Event-ID`.
#[tokio::test]
async fn chats_survive_their_clients() {
    let body = json!({ "message": "?", "tokens": true });
    leave_everywhere(
        |world| world.request(Method::POST, "/chat/stream").json(&body),
        |world, run, _, last| {
            let after = last.map_or_else(|| format!("{run}:0.0"), |frame| id(frame).to_owned());
            world
                .request(Method::POST, "/chat/stream")
                .header("Last-Event-ID", after)
                .json(&json!({ "tokens": true }))
        },
    )
    .await;
}

/// C10, C11: `/ai-sdk/chat`, resumed by the number of chunks, in every dialect.
#[tokio::test]
async fn ui_message_streams_survive_their_clients() {
    let body =
        json!({ "messages": [{ "role": "user", "parts": [{ "type": "text", "text": "?" }] }] });
    for sdk in [5, 6, 7] {
        leave_everywhere(
            |world| world.request(Method::POST, &format!("/ai-sdk/chat?sdk={sdk}")).json(&body),
            |world, run, seen, _| {
                let n_chunks = seen.matches("\n\n").count();
                let path = format!("/ai-sdk/chat/{run}/stream?startIndex={n_chunks}&sdk={sdk}");
                world.request(Method::GET, &path)
            },
        )
        .await;
    }
}

/// C10, C11: `/ag-ui`, resumed by `Last-Event-ID`.
#[tokio::test]
async fn ag_ui_survives_its_clients() {
    let n_threads = std::sync::atomic::AtomicU32::new(0);
    leave_everywhere(
        |world| {
            let n = n_threads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let messages = json!([{ "id": "u", "role": "user", "content": "?" }]);
            let (thread, run) = (format!("thread-{n}"), format!("run-{n}"));
            let body = json!({ "threadId": thread, "runId": run, "messages": messages });
            world.request(Method::POST, "/ag-ui").json(&body)
        },
        |world, run, _, last| {
            let request = world.request(Method::GET, &format!("/ag-ui/runs/{run}"));
            match last {
                Some(frame) => request.header("Last-Event-ID", id(frame)),
                None => request,
            }
        },
    )
    .await;
}

/// C10, C11: the native events, of a run that was begun on another surface.
#[tokio::test]
async fn native_readers_come_and_go() {
    for (number, scenario) in scenarios().into_iter().enumerate() {
        let (world, _) = scenario.start().await;
        let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
        let body = json!({ "input": "?", "tools": tools, "background": true });
        for n in 1.. {
            let run =
                world.respond(body.clone()).await["id"].as_str().unwrap().replace("resp_", "run_");
            let path = format!("/v1/runs/{run}/events");
            let (seen, reached_the_end) = first_frames(world.request(Method::GET, &path), n).await;
            over(&world).await;
            let last = seen.trim_end().rsplit("\n\n").next().unwrap();
            let rest = world.request(Method::GET, &path).header("Last-Event-ID", id(last));
            let whole = world.text(world.request(Method::GET, &path)).await;
            assert_eq!(seen.clone() + &world.text(rest).await, whole, "scenario {number} at {n}");
            if reached_the_end {
                break;
            }
        }
        world.close().await;
    }
}

/// C10, C11: the chat socket, resumed on another by its cursor.
#[tokio::test]
async fn chat_sockets_come_and_go() {
    let is_over = |message: &Value| {
        message["type"] == "complete"
            || (message["type"] == "error" && message["outcome"].is_string())
    };
    for (number, scenario) in scenarios().into_iter().enumerate() {
        let (world, tools) = scenario.start().await;
        let hello = json!({ "type": "hello", "resume": true, "progress": true });
        for n in 2.. {
            let before: Vec<u32> = tools.iter().map(FakeTool::n_calls).collect();
            let id = world.post("/v1/conversations", json!({})).await.1["id"].clone();
            let mut socket = world.socket("/ws/chat").await;
            socket.send(hello.clone()).await;
            socket.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
            let mut seen = Vec::new();
            while seen.len() < n && !seen.last().is_some_and(is_over) {
                seen.push(socket.next().await.unwrap());
            }
            drop(socket);
            let run = over(&world).await;
            for (tool, before) in tools.iter().zip(before) {
                assert_eq!(tool.n_calls(), before + 1, "once, in scenario {number} at {n}");
            }
            let read_on = async |after: Value| {
                let mut socket = world.socket("/ws/chat").await;
                socket.send(hello.clone()).await;
                socket.send(json!({ "type": "resume", "run_id": run, "after": after })).await;
                socket.until(is_over).await
            };
            let whole = read_on(json!("0.0")).await;
            if seen.len() == whole.len() {
                assert_eq!(seen, whole);
                break;
            }
            let rest = read_on(seen.last().unwrap()["cursor"].clone()).await;
            seen.extend(rest);
            assert_eq!(seen, whole, "scenario {number}, left at message {n}");
        }
        world.close().await;
    }
}
