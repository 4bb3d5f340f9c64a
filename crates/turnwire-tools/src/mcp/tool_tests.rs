use rmcp::model::{CreateTaskResult, InputRequiredResult, ServerResult, Tool, ToolAnnotations};
use serde_json::{Value, json};
use turnwire_contract::{Effect, ToolSpec};

use super::{specs, tightened, unsupported};
use crate::mcp::McpServerOptions;

fn told(tools: Value) -> Vec<ToolSpec> {
    let tools: Vec<Tool> = serde_json::from_value(tools).unwrap();
    specs("sea", &McpServerOptions::http("http://sea.example"), tools).collect()
}

fn hints(hints: Value) -> ToolAnnotations {
    serde_json::from_value(hints).unwrap()
}

/// R21: hints of a server make an effect stricter, never looser.
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
    for (stated, hinted, expected) in cases {
        let found = tightened(stated, Some(&hints(hinted.clone())));
        assert_eq!(found, expected, "{stated:?} with {hinted}");
    }
    assert_eq!(tightened(Pure, None), Pure);
}

#[test]
fn a_tool_without_a_usable_name_is_left_out() {
    let schema = json!({ "type": "object" });
    let tool = |name: &str| json!({ "name": name, "description": name, "inputSchema": schema });
    let long = "x".repeat(129);
    let names = ["walrus", "", "two\nlines", &long, "walrus", "a/b.c-d_e"].map(tool);
    let specs = told(json!(names));
    let found: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(found, ["walrus", "a/b.c-d_e"]);
}

#[test]
fn a_tool_without_a_description_is_described_by_its_title() {
    let schema = json!({ "type": "object" });
    let specs = told(json!([
        { "name": "a", "title": "The first", "inputSchema": schema },
        { "name": "b", "inputSchema": schema },
    ]));
    let found: Vec<&str> = specs.iter().map(|spec| spec.description.as_str()).collect();
    assert_eq!(found, ["The first", ""]);
}

#[test]
fn what_is_not_supported_yet_says_so() {
    let task: CreateTaskResult = serde_json::from_value(json!({
        "resultType": "task", "taskId": "t", "status": "working",
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 1,
    }))
    .unwrap();
    let input: InputRequiredResult =
        serde_json::from_value(json!({ "resultType": "input_required", "inputRequests": {} }))
            .unwrap();
    let words = |result: ServerResult| unsupported("sea", &result);
    assert_eq!(
        words(ServerResult::CreateTaskResult(task)),
        "the server `sea` turned the call into a task, which is not supported yet"
    );
    assert_eq!(
        words(ServerResult::InputRequiredResult(input)),
        "the server `sea` asks for more input in the middle of the call, which is not supported yet"
    );
    assert_eq!(
        words(ServerResult::empty(())),
        "the server `sea` answered with something else than a result"
    );
}
