use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};
use turnwire_contract::{Effect, ToolSpec};

use super::{specs, tightened};
use crate::mcp::McpServerOptions;

fn listed(tools: Value) -> Vec<ToolSpec> {
    let tools: Vec<Tool> = serde_json::from_value(tools).unwrap();
    specs("sea", &McpServerOptions::http("http://sea.example"), tools).collect()
}

fn hints(hints: Value) -> ToolAnnotations {
    serde_json::from_value(hints).unwrap()
}

/// R21: hints of a server make an effect class stricter, never looser.
#[test]
fn hints_only_tighten() {
    use Effect::{Idempotent, Once, Pure};
    let cases = [
        (Once, json!({ "readOnlyHint": true, "idempotentHint": true }), Once),
        (Idempotent, json!({ "readOnlyHint": true }), Idempotent),
        (Pure, json!({}), Pure),
        (Pure, json!({ "destructiveHint": true }), Pure),
        (Pure, json!({ "readOnlyHint": true, "idempotentHint": false }), Pure),
        (Pure, json!({ "readOnlyHint": false }), Once),
        (Pure, json!({ "readOnlyHint": false, "idempotentHint": true }), Idempotent),
        (Pure, json!({ "readOnlyHint": false, "idempotentHint": false }), Once),
        (Idempotent, json!({ "readOnlyHint": false }), Idempotent),
        (Idempotent, json!({ "readOnlyHint": false, "idempotentHint": false }), Once),
        (Idempotent, json!({ "readOnlyHint": false, "idempotentHint": true }), Idempotent),
    ];
    for (configured, hinted, expected) in cases {
        let found = tightened(configured, Some(&hints(hinted.clone())));
        assert_eq!(found, expected, "{configured:?} with {hinted}");
    }
    assert_eq!(tightened(Pure, None), Pure);
}

#[test]
fn a_tool_without_a_usable_name_is_left_out() {
    let schema = json!({ "type": "object" });
    let tool = |name: &str| json!({ "name": name, "description": name, "inputSchema": schema });
    let long = "x".repeat(129);
    let names = ["walrus", "", "two\nlines", &long, "walrus", "a/b.c-d_e"].map(tool);
    let specs = listed(json!(names));
    let found: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(found, ["walrus", "a/b.c-d_e"]);
}

#[test]
fn a_tool_without_a_description_is_described_by_its_title() {
    let schema = json!({ "type": "object" });
    let specs = listed(json!([
        { "name": "a", "title": "The first", "inputSchema": schema },
        { "name": "b", "inputSchema": schema },
    ]));
    let found: Vec<&str> = specs.iter().map(|spec| spec.description.as_str()).collect();
    assert_eq!(found, ["The first", ""]);
}
