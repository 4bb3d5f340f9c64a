//! What a client can show while tools are at work, made of official events alone.

use std::time::Duration;

use serde_json::{Value, json};
use turnwire_contract::ToolKind;
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::Plan;

/// A display that knows the events of OpenAI's documentation and none of ours.
#[derive(Default)]
struct Display {
    /// What is said about each tool at work, by the ID of its item.
    at_work: Vec<(String, String)>,
    /// Everything that was shown, one after the other.
    shown: Vec<String>,
}

impl Display {
    fn see(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        let item = event["item_id"].as_str().or(event["item"]["id"].as_str());
        let Some(item) = item.map(str::to_owned) else { return };
        match kind.trim_start_matches("response.") {
            "web_search_call.searching" => self.begin(item, "Searching the web…".to_owned()),
            "file_search_call.searching" => self.begin(item, "Searching files…".to_owned()),
            "mcp_call.in_progress" => {
                let name = event["name"].as_str().expect("the name of the tool");
                self.begin(item, format!("Running MCP tool {name}…"));
            }
            "mcp_call.completed"
            | "mcp_call.failed"
            | "web_search_call.completed"
            | "file_search_call.completed"
            | "output_item.done" => {
                self.at_work.retain(|(known, _)| *known != item);
                self.show();
            }
            _ => {}
        }
    }

    /// News of a tool come with the same event again.
    fn begin(&mut self, item: String, text: String) {
        if !self.at_work.iter().any(|(known, _)| *known == item) {
            self.at_work.push((item, text));
            self.show();
        }
    }

    fn show(&mut self) {
        let texts: Vec<&str> = self.at_work.iter().map(|(_, text)| text.as_str()).collect();
        let text = texts.join(" ");
        if self.shown.last() != Some(&text) {
            self.shown.push(text);
        }
    }
}

fn takes(name: &str, ms: u64) -> FakeTool {
    FakeTool::new(name, Behaviour::Takes(Duration::from_millis(ms), "done".to_owned()))
}

/// S1-SC-001: a spinner says what is at work, and nothing once it has ended: searches of both kinds,
/// tools of a server by their names, two of them at once, and tools that fail.
#[tokio::test]
async fn a_spinner_says_what_is_at_work() {
    let web = takes("web_search", 20).with(|spec| spec.kind = ToolKind::WebSearch);
    let fails = Behaviour::FailsAfter(Duration::from_millis(20), "no luck".to_owned());
    let turns = [
        Turn::new().text("I look. ").call("web_search", json!({ "query": "rust" })),
        Turn::new().call("file_search", json!({ "queries": ["rust"] })),
        Turn::new().call("first", json!({})).call("second", json!({})),
        Turn::new().call("broken", json!({})),
        Turn::new().text("Here it is."),
    ];
    let server = [takes("first", 300), takes("second", 900), FakeTool::new("broken", fails)];
    let world = Plan::new(turns).tool(web).server("m", server).start().await;
    let store = world.post("/v1/vector_stores", json!({})).await.1["id"].clone();
    let tools = json!([
        { "type": "web_search" },
        { "type": "file_search", "vector_store_ids": [store] },
        { "type": "mcp", "server_label": "m", "require_approval": "never" },
    ]);
    let mut display = Display::default();
    for event in world.stream(json!({ "input": "?", "tools": tools })).await {
        display.see(&event);
    }
    let both = "Running MCP tool first… Running MCP tool second…";
    let expected = [
        "",
        "Searching the web…",
        "",
        "Searching files…",
        "",
        "Running MCP tool first…",
        both,
        "Running MCP tool second…",
        "",
        "Running MCP tool broken…",
        "",
    ];
    assert_eq!(display.shown, expected);
    world.close().await;
}
