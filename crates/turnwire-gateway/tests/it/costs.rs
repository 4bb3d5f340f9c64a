//! What a run costs, and when that is too much.

use std::sync::Arc;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::Usage;
use turnwire_models::{Price, Priced, Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of, of_type};

/// A hundredth of a unit per input token, a tenth per output token.
const PRICE: Price = Price {
    input: 10_000_000_000_000,
    cached_input: 5_000_000_000_000,
    output: 100_000_000_000_000,
};

fn turn(turn: Turn) -> Turn {
    let usage = Usage { input_tokens: 10, cached_tokens: 4, output_tokens: 2, ..Usage::default() };
    turn.usage(usage)
}

/// What a turn costs: six and four tokens of input, two of output.
const COST: f64 = 0.06 + 0.02 + 0.2;

async fn world(max_cost_nanos: Option<u64>) -> World {
    let turns = [turn(Turn::new().call("t", json!({}))), turn(Turn::new().text("Done."))];
    let model = Priced::new(Arc::new(Scripted::new(turns)), PRICE);
    let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
    let plan = Plan::new([]).only_model(Arc::new(model)).server("m", [tool]);
    plan.options(|options| options.limits.max_cost_nanos = max_cost_nanos).start().await
}

fn asked() -> Value {
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    json!({ "input": "?", "tools": tools })
}

fn near(cost: &Value, expected: f64) -> bool {
    cost.as_f64().is_some_and(|cost| (cost - expected).abs() < 1e-9)
}

/// The cost of all turns is in the response, in the journal, and in Chat Completions.
#[tokio::test]
async fn a_run_says_what_it_cost() {
    let world = world(None).await;
    let response = world.respond(asked()).await;
    assert!(near(&response["usage"]["turnwire"]["cost"], 2.0 * COST), "{}", response["usage"]);
    let run = response["id"].as_str().unwrap().replace("resp_", "run_");
    let path = format!("/v1/runs/{run}/events");
    let events = data_of(&world.text(world.request(Method::GET, &path)).await);
    let end = &events.last().unwrap()["event"];
    assert_eq!(end["usage"]["cost_nanos"], 560_000_000, "{end}");
    world.close().await;

    let model = Priced::new(Arc::new(Scripted::new([turn(Turn::new().text("Hi."))])), PRICE);
    let world = Plan::new([]).only_model(Arc::new(model)).start().await;
    let asked = json!({ "model": "default", "messages": [{ "role": "user", "content": "?" }] });
    let (_, completion) = world.post("/v1/chat/completions", asked).await;
    assert!(near(&completion["usage"]["turnwire"]["cost"], COST), "{completion:#}");
    world.close().await;
}

/// A run that has used up its budget does not ask the model again, and says why.
#[tokio::test]
async fn a_budget_ends_the_run() {
    let world = world(Some(280_000_000)).await;
    let response = world.respond(asked()).await;
    assert_eq!(response["status"], "incomplete", "{response:#}");
    assert_eq!(response["incomplete_details"]["reason"], "max_cost");
    assert!(near(&response["usage"]["turnwire"]["cost"], COST), "{}", response["usage"]);
    world.close().await;

    let world = self::world(Some(280_000_001)).await;
    let (status, response) = world.post("/v1/responses", asked()).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("completed")));
    world.close().await;
}

/// Without a price nothing is said about costs.
#[tokio::test]
async fn a_model_without_a_price_costs_nothing_known() {
    let world = Plan::new([turn(Turn::new().text("Hi."))]).start().await;
    let response = world.respond(json!({ "input": "?" })).await;
    assert_eq!(response["usage"].get("turnwire"), None, "{}", response["usage"]);
    world.close().await;
}

/// A run at its soft limit hands the question back with its reason, for MCP tools and functions
/// alike. After a yes the next response goes on; after a no it ends at once, with the reason of the
/// budget.
#[tokio::test]
async fn a_budget_asks_before_it_ends_the_run() {
    for (approve, n_calls, ending) in [
        (true, 1, (json!("completed"), Value::Null)),
        (false, 0, (json!("incomplete"), json!("max_cost"))),
    ] {
        for is_function in [false, true] {
            let turns = [turn(Turn::new().call("t", json!({}))), turn(Turn::new().text("Done."))];
            let model = Priced::new(Arc::new(Scripted::new(turns)), PRICE);
            let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
            let plan = Plan::new([]).only_model(Arc::new(model));
            let plan = if is_function {
                plan.tool(tool.clone())
            } else {
                plan.server("m", [tool.clone()])
            };
            let plan = plan.options(|options| {
                options.limits.ask_cost_nanos = Some(250_000_000);
                options.limits.max_cost_nanos = Some(1_000_000_000);
            });
            let world = plan.start().await;
            let mut body = asked();
            if is_function {
                body["tools"] = json!([{ "type": "function", "name": "t" }]);
            }
            let first = world.respond(body.clone()).await;
            assert_eq!((&first["status"], tool.n_calls()), (&json!("completed"), 0), "{first:#}");
            let items = first["output"].as_array().unwrap();
            let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
            assert_eq!(kinds.last().unwrap(), &"mcp_approval_request");
            assert!(
                !kinds.contains(&&json!("mcp_call")) && !kinds.contains(&&json!("function_call"))
            );
            let question = items.last().unwrap();
            let words = "The run has used 0.28 of its budget of 1.00. Continue?";
            assert_eq!(question["turnwire"]["budget"]["message"], words);
            body["input"] = json!([{ "type": "mcp_approval_response",
                "approval_request_id": question["id"], "approve": approve }]);
            body["previous_response_id"] = first["id"].clone();
            let second = world.respond(body).await;
            let ended = (second["status"].clone(), second["incomplete_details"]["reason"].clone());
            assert_eq!((ended, tool.n_calls()), (ending.clone(), n_calls), "{second:#}");
            world.close().await;
        }
    }
}

/// Over the chat stream the run waits, says why, and ends by an answer on the native surface.
#[tokio::test]
async fn a_chat_says_why_it_waits() {
    let turns = [turn(Turn::new().call("t", json!({}))), turn(Turn::new().text("Done."))];
    let model = Priced::new(Arc::new(Scripted::new(turns)), PRICE);
    let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
    let plan = Plan::new([]).only_model(Arc::new(model)).tool(tool.clone());
    let plan = plan.options(|options| options.limits.ask_cost_nanos = Some(250_000_000));
    let world = plan.start().await;
    let body = json!({ "message": "?", "approvals": true });
    let stream = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let mut chunks = stream.bytes_stream();
    let mut text = String::new();
    let mut answered = false;
    while let Some(chunk) = chunks.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        if !answered && text.contains("approval_request") && text.ends_with("\n\n") {
            answered = true;
            let run = text.lines().find_map(|line| line.strip_prefix("id: ")?.split_once(':'));
            let frames = data_of(&text);
            let question = of_type(&frames, "approval_request")[0];
            let words = "The run has used 0.28 and asks from 0.25 on. Continue?";
            assert_eq!(question["budget"]["message"], words);
            assert_eq!(question["budget"]["scope"], "run");
            let call = question["call_id"].as_str().unwrap();
            let path = format!("/v1/runs/{}/calls/{call}/approve", run.unwrap().0);
            assert_eq!(world.post(&path, json!({ "approve": false })).await.1["done"], true);
        }
    }
    assert!(answered, "{text}");
    assert_eq!(tool.n_calls(), 0);
    let run = text.lines().find_map(|line| line.strip_prefix("id: ")?.split_once(':')).unwrap().0;
    let (_, response) = world.get(&format!("/v1/responses/{}", run.replace("run_", "resp_"))).await;
    assert_eq!(response["incomplete_details"]["reason"], "max_cost", "{response:#}");
    world.close().await;
}
