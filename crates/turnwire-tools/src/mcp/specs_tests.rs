use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};
use turnwire_contract::{Effect, ToolSpec, WhyLeftOut};

use super::{Unusable, specs, tightened};
use crate::mcp::McpServerOptions;

fn all(tools: Value) -> Vec<Result<ToolSpec, Unusable>> {
    let tools: Vec<Tool> = serde_json::from_value(tools).unwrap();
    specs("sea", &McpServerOptions::http("http://sea.example"), tools).collect()
}

fn listed(tools: Value) -> Vec<ToolSpec> {
    all(tools).into_iter().filter_map(Result::ok).collect()
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

/// A19: a tool without a usable name is left out, and why is said.
#[test]
fn a_tool_without_a_usable_name_is_left_out() {
    let schema = json!({ "type": "object" });
    let tool = |name: &str| json!({ "name": name, "description": name, "inputSchema": schema });
    let long = "x".repeat(129);
    let names = ["walrus", "", "two\nlines", &long, "walrus", "a/b.c-d_e"].map(tool);
    let (used, left_out): (Vec<_>, Vec<_>) = all(json!(names)).into_iter().partition(Result::is_ok);
    let used: Vec<String> = used.into_iter().map(|spec| spec.unwrap().name).collect();
    assert_eq!(used, ["walrus", "a/b.c-d_e"]);
    let left_out: Vec<Unusable> = left_out.into_iter().map(|spec| spec.unwrap_err()).collect();
    let unusable = |name: &str| (name.to_owned(), WhyLeftOut::Name);
    let twice = ("walrus".to_owned(), WhyLeftOut::NameTaken);
    assert_eq!(left_out, [unusable(""), unusable("two\nlines"), unusable(&long), twice]);
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
