//! What a run costs, and when that is too much.

use std::sync::Arc;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::Usage;
use turnwire_models::{Price, Priced, Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of};

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
