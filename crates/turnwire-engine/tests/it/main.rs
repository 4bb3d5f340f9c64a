//! The engine from outside, in simulated time: one file per subject.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fall over"
)]

mod approvals;
mod approvals_in_depth;
mod big_results;
mod budgets;
mod cancelling;
mod citations;
mod continuing;
mod inputs;
mod journal;
mod limits;
mod memory;
mod model_turns;
mod output;
mod pinning;
mod schemas;
mod servers;
mod settling;
mod takeover;
mod telling_the_model;
mod tool_calls;
mod tool_names;
mod toolbox;

use std::sync::Arc;

use serde_json::json;
use turnwire_contract::{Event, Item, RecordedEvent, ToolOutcome};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool, Played};

/// A turn that calls each of `tools` once, with ids `call_1`, `call_2`, ….
fn calls(tools: &[&str]) -> Turn {
    let call = |(turn, n): (Turn, usize), tool: &&str| {
        (turn.call_with_id(format!("call_{n}"), *tool, json!({ "n": n })), n + 1)
    };
    tools.iter().fold((Turn::new(), 1), call).0
}

fn returns(name: &str, text: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Returns(text.to_owned()))
}

/// How the call ended.
fn outcome_of<'a>(played: &'a Played, call: &str) -> &'a ToolOutcome {
    let end = played.events().find_map(|event| match event {
        Event::ToolFinished { call_id, outcome, .. } if call_id.as_str() == call => Some(outcome),
        _ => None,
    });
    end.unwrap_or_else(|| panic!("{call} has no end"))
}

/// The kinds of the events, in order: a run at a glance.
fn kinds(journal: &[Arc<RecordedEvent>]) -> Vec<String> {
    let kind = |recorded: &Arc<RecordedEvent>| {
        serde_json::to_value(&recorded.event).unwrap()["type"].as_str().unwrap().to_owned()
    };
    journal.iter().map(kind).collect()
}

/// What the model was told about its calls.
fn told(items: &[Arc<Item>]) -> Vec<(String, String, bool)> {
    let result = |item: &Arc<Item>| match &**item {
        Item::CallResult { call_id, output, failed, .. } => {
            Some((call_id.to_string(), output.clone(), *failed))
        }
        _ => None,
    };
    items.iter().filter_map(result).collect()
}
