//! Real adapters in front of a server that answers as a test wants it: what a provider writes,
//! and what it garbles.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::StatusCode, response::Response, routing::post};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use turnwire_contract::Model;
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    OpenAiResponses, OpenAiResponsesOptions,
};

use crate::world::{Plan, World, of_type};

/// A secret of the provider's, or of a proxy in front of it. It is not our key, which is hidden
/// wherever it stands.
const CANARY: &str = "sk-UPSTREAMSECRET";

/// What a provider answers to everything.
#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    kind: &'static str,
    body: String,
}

impl Answer {
    fn json(status: u16, body: &Value) -> Self {
        Self { status, kind: "application/json", body: body.to_string() }
    }

    fn stream(frames: &[String]) -> Self {
        let body = frames.iter().flat_map(|frame| ["data: ", frame, "\n\n"]).collect();
        Self { status: 200, kind: "text/event-stream", body }
    }
}

/// A provider; its address.
async fn provider(answer: Answer, tasks: &TaskTracker) -> String {
    let answering = move || {
        let answer = answer.clone();
        async move {
            Response::builder()
                .status(StatusCode::from_u16(answer.status).unwrap())
                .header("content-type", answer.kind)
                .body(Body::from(answer.body))
                .unwrap()
        }
    };
    let router = Router::new()
        .route("/v1/chat/completions", post(answering.clone()))
        .route("/v1/responses", post(answering.clone()))
        .route("/v1/messages", post(answering));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// The three kinds of providers.
const KINDS: [&str; 3] = ["chat_completions", "openai_responses", "anthropic_messages"];

fn adapter(kind: &str, address: &str) -> Arc<dyn Model> {
    let key = Some("sk-our-own-key-of-the-operator".into());
    match kind {
        "chat_completions" => {
            let mut options = ChatCompletionsOptions::new(format!("{address}/v1"));
            options.api_key = key;
            Arc::new(ChatCompletions::new(options).unwrap())
        }
        "openai_responses" => {
            let base_url = format!("{address}/v1");
            let usual = OpenAiResponsesOptions::default();
            let options = OpenAiResponsesOptions { base_url, api_key: key, ..usual };
            Arc::new(OpenAiResponses::new(options).unwrap())
        }
        _ => {
            let (base_url, usual) = (address.to_owned(), AnthropicMessagesOptions::default());
            let options = AnthropicMessagesOptions { base_url, api_key: key, ..usual };
            Arc::new(AnthropicMessages::new(options).unwrap())
        }
    }
}

/// A gateway in front of a provider that answers everything like this.
async fn world(kind: &str, answer: Answer, tasks: &TaskTracker) -> World {
    let address = provider(answer, tasks).await;
    let plan = Plan::new([]).only_model(adapter(kind, &address));
    plan.options(|options| options.limits.model_attempts = 1).start().await
}

/// The ways in which a provider complains, each with the secret in it.
fn complaints() -> Vec<Answer> {
    let error = json!({ "error": {
        "message": format!("Incorrect API key provided: {CANARY}."),
        "type": format!("type {CANARY}"),
        "param": CANARY,
        "code": format!("code {CANARY}"),
    } });
    let flat = json!({ "object": "error", "message": CANARY, "code": CANARY });
    let anthropic = json!({ "type": "error", "error": { "type": CANARY, "message": CANARY } });
    let failed = json!({ "type": "response.failed", "response": {
        "status": "failed", "error": { "code": CANARY, "message": CANARY },
    } });
    let words = json!({ "choices": [{ "index": 0, "delta": { "content": "So far" } }] });
    let said = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "So" });
    let block = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "text_delta", "text": "So far" } });
    let mut answers: Vec<Answer> = [400, 401, 403, 404, 413, 422, 429, 500, 503]
        .into_iter()
        .flat_map(|status| [Answer::json(status, &error), Answer::json(status, &anthropic)])
        .collect();
    answers.extend([Answer::json(200, &error), Answer::json(200, &flat)]);
    for complaint in [&error, &flat, &anthropic, &failed] {
        answers.push(Answer::stream(&[complaint.to_string()]));
        for begun in [&words, &said, &block] {
            answers.push(Answer::stream(&[begun.to_string(), complaint.to_string()]));
        }
    }
    // Not even the part that cannot be read is quoted.
    answers.push(Answer::stream(&[words.to_string(), format!("{{\"error\": \"{CANARY}")]));
    answers.push(Answer { status: 502, kind: "text/html", body: format!("<p>{CANARY}</p>") });
    answers
}

/// Everything that anybody can see of what a provider has done to a run, over every surface.
async fn everything_shown(world: &World) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    let mut see = async |what: &str, request: reqwest::RequestBuilder| {
        let response = request.send().await.unwrap();
        let headers = format!("{:?}", response.headers());
        shown.push((what.to_owned(), headers + &response.text().await.unwrap()));
    };
    let post = |path: &str, body: Value| world.request(Method::POST, path).json(&body);
    see("responses", post("/v1/responses", json!({ "input": "?" }))).await;
    for profile in ["strict", "extended"] {
        let path = format!("/v1/responses?profile={profile}");
        see("stream", post(&path, json!({ "input": "?", "stream": true }))).await;
    }
    see("compact", post("/v1/responses/compact", json!({ "model": "default", "input": "?" })))
        .await;
    see("chat", post("/chat", json!({ "message": "?" }))).await;
    see("chat stream", post("/chat/stream", json!({ "message": "?", "tokens": true }))).await;
    see("metrics", world.request(Method::GET, "/metrics")).await;
    let (_, runs) = world.get("/v1/runs").await;
    for run in runs["data"].as_array().unwrap() {
        let id = run["run_id"].as_str().unwrap();
        let path = format!("/v1/runs/{id}");
        see("snapshot", world.request(Method::GET, &path)).await;
        see("journal", world.request(Method::GET, &format!("{path}/events"))).await;
        let response = id.replace("run_", "/v1/responses/resp_");
        see("stored", world.request(Method::GET, &response)).await;
    }
    let (_, conversation) = world.post("/v1/conversations", json!({})).await;
    let mut socket = world.socket("/ws/chat").await;
    let ask = json!({ "type": "message", "conversation_id": conversation["id"], "content": "?" });
    socket.send(ask).await;
    let messages = socket.until(|message| message.get("outcome").is_some()).await;
    shown.push(("ws chat".to_owned(), json!(messages).to_string()));
    shown
}

/// A12: what a provider writes, with a secret in every field, is on no surface, in no journal and
/// in no metric: three kinds of providers, every way to complain.
#[tokio::test]
async fn what_a_provider_writes_reaches_nobody() {
    let tasks = TaskTracker::new();
    let mut n_shown = 0;
    for kind in KINDS {
        for answer in complaints() {
            let world = world(kind, answer.clone(), &tasks).await;
            for (what, text) in everything_shown(&world).await {
                assert!(!text.contains(CANARY), "{what} of {kind} after {answer:?}: {text}");
                n_shown += 1;
            }
            world.close().await;
        }
    }
    assert!(n_shown >= 3 * 30 * 10, "only {n_shown} texts were looked at");
}

fn words(text: &str) -> String {
    json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }).to_string()
}

fn finish(reason: &str) -> String {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }).to_string()
}

/// An answer with a chunk in its middle that cannot be read.
fn garbled() -> Answer {
    let broken = r#"{"choices":[{"index":0,"delta":{"content":"lo"#.to_owned();
    let done = "[DONE]".to_owned();
    Answer::stream(&[words("It goes "), broken, words("on."), finish("stop"), done])
}

/// S2-22: a chunk of the model's stream that cannot be read is told with a generic error, the
/// stream goes on to its end, and the part is counted. Nothing of it is shown.
#[tokio::test]
async fn an_unreadable_chunk_is_told_and_the_stream_goes_on() {
    let tasks = TaskTracker::new();
    let world = world("chat_completions", garbled(), &tasks).await;
    let (_, conversation) = world.post("/v1/conversations", json!({})).await;
    let mut socket = world.socket("/ws/chat").await;
    let ask = json!({ "type": "message", "conversation_id": conversation["id"], "content": "?" });
    socket.send(ask).await;
    let messages = socket.until(|message| message["type"] == "complete").await;
    let told: Vec<&Value> = messages.iter().map(|message| &message["type"]).collect();
    assert_eq!(told, ["token", "error", "token", "complete"], "{messages:#?}");
    let error = &messages[1];
    assert_eq!(
        (&error["code"], &error["failure"]),
        (&json!("LLM_ERROR"), &json!("model_unreadable"))
    );
    assert_eq!(error.get("outcome"), None, "the turn is not over");
    assert!(!error["message"].as_str().unwrap().contains("choices"), "{error}");

    let extended = world.request(Method::POST, "/v1/responses?profile=extended");
    let body = json!({ "input": "?", "stream": true });
    let events = crate::world::events_of(&world.text(extended.json(&body)).await);
    let skipped = of_type(&events, "turnwire:part_skipped");
    assert_eq!(skipped.len(), 1, "{events:#?}");
    assert_eq!((&skipped[0]["turn"], &skipped[0]["bytes"]), (&json!(1), &json!(45)));
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "It goes on.");

    // Whoever wants official events only gets the same answer, without the gap being a mistake.
    let plain = world.respond(json!({ "input": "?" })).await;
    assert_eq!(plain["status"], "completed");
    assert_eq!(plain["metadata"], json!({ "turnwire_warnings": GAP }));
    let run = plain["id"].as_str().unwrap().replace("resp_", "/v1/runs/run_");
    let (_, snapshot) = world.get(&run).await;
    assert_eq!(snapshot["skipped_parts"], 1, "{snapshot:#}");
    let journal = world.text(world.request(Method::GET, &format!("{run}/events"))).await;
    assert_eq!(journal.matches("\"part_skipped\"").count(), 1, "{journal}");
    let metrics = world.text(world.request(Method::GET, "/metrics")).await;
    assert!(metrics.contains("turnwire_model_parts_skipped_total 3"), "{metrics}");
    world.close().await;
}

const GAP: &str = "model_unreadable: a part of the model's answer could not be read and is missing";

/// A gap is told to those who take official events alone, too: in the metadata of the final
/// response, beside what the client put there, and wherever that response is read again.
#[tokio::test]
async fn a_gap_is_told_with_the_final_response() {
    let tasks = TaskTracker::new();
    let world = world("chat_completions", garbled(), &tasks).await;
    let body = json!({ "input": "?", "metadata": { "mine": "stays" } });
    let both = json!({ "mine": "stays", "turnwire_warnings": GAP });
    let events = world.stream(body).await;
    let (first, last) = (&events[0]["response"], &events.last().unwrap()["response"]);
    assert_eq!(first["metadata"], json!({ "mine": "stays" }), "nothing is missing yet");
    assert_eq!(last["metadata"], both);
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.1["metadata"], both);
    for n in 0..events.len() - 1 {
        let rest = world.request(Method::GET, &format!("{path}?stream=true&starting_after={n}"));
        assert_eq!(crate::world::events_of(&world.text(rest).await), events[n + 1..]);
    }

    let ask = json!({ "messages": [{ "role": "user", "content": "?" }] });
    let (_, completion) = world.post("/v1/chat/completions", ask.clone()).await;
    assert_eq!(completion["turnwire"], json!({ "warnings": [GAP] }), "{completion:#}");
    world.close().await;
}

/// S2-22: by setting the first unreadable part ends the turn.
#[tokio::test]
async fn by_setting_an_unreadable_chunk_ends_the_turn() {
    let tasks = TaskTracker::new();
    let address = provider(garbled(), &tasks).await;
    let plan = Plan::new([]).only_model(adapter("chat_completions", &address));
    let world = plan.options(|options| options.limits.max_skipped_parts = 0).start().await;
    let events = world.stream(json!({ "input": "?" })).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    assert_eq!(last["response"]["error"]["turnwire"]["code"], "model_broke_off");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "It goes ");
    world.close().await;
}

/// S2-22: A call that may lack a part of its arguments is not carried out, also where what is left
/// of
/// them makes sense: the model is told, and calls again.
#[tokio::test]
async fn a_call_with_a_gap_is_not_carried_out() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let call = |arguments: &str, id: &str| {
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{
            "index": 0, "id": id, "type": "function",
            "function": { "name": "pay", "arguments": arguments },
        }] } }] })
        .to_string()
    };
    let more = |arguments: &str| {
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{
            "index": 0, "function": { "arguments": arguments },
        }] } }] })
        .to_string()
    };
    let done = || "[DONE]".to_owned();
    // The middle of `{"euros": 1000.7}` is lost, and what is left pays a thousand.
    let gap = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":"#.to_owned();
    let answers = [
        Answer::stream(&[
            call("{\"euros\": 1000", "call_1"),
            gap,
            more("}"),
            finish("tool_calls"),
            done(),
        ]),
        Answer::stream(&[call("{\"euros\": 7}", "call_2"), finish("tool_calls"), done()]),
        Answer::stream(&[words("Paid."), finish("stop"), done()]),
    ];
    let n_asked = Arc::new(AtomicUsize::new(0));
    let answering = {
        let n_asked = Arc::clone(&n_asked);
        move |body: String| {
            let answer = answers[n_asked.fetch_add(1, Ordering::SeqCst)].clone();
            async move {
                assert!(!body.is_empty());
                ([("content-type", answer.kind)], answer.body)
            }
        }
    };
    let router = Router::new().route("/v1/chat/completions", post(answering));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let tasks = TaskTracker::new();
    tasks.spawn(async move { axum::serve(listener, router).await });
    let pay =
        turnwire_testkit::FakeTool::new("pay", turnwire_testkit::Behaviour::Returns("paid".into()));
    let plan = Plan::new([]).only_model(adapter("chat_completions", &address)).tool(pay.clone());
    let world = plan.start().await;
    let (status, answer) = world.post("/chat", json!({ "message": "Pay." })).await;
    assert_eq!((status.as_u16(), &answer["response"]), (200, &json!("Paid.")));
    assert_eq!(n_asked.load(Ordering::SeqCst), 3);
    let paid: Vec<Value> = pay.calls().iter().map(|(_, it)| json!(it.arguments)).collect();
    assert_eq!(paid, [json!({ "euros": 7 })]);
    world.close().await;
}

/// Nobody waits for a provider that hangs: the test's own patience.
#[tokio::test]
async fn a_provider_that_is_not_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let plan = Plan::new([]).only_model(adapter("openai_responses", &address));
    let world = plan.options(|options| options.limits.model_attempts = 1).start().await;
    let asking = world.post("/v1/responses", json!({ "input": "?" }));
    let (status, body) = tokio::time::timeout(Duration::from_secs(20), asking).await.unwrap();
    assert_eq!(status.as_u16(), 503, "{body:#}");
    world.close().await;
}
