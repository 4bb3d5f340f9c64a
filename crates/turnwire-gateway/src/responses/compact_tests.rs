use serde_json::json;
use turnwire_contract::{CallId, FirstCall, Item, RunRequest, ToolKind, ToolRef};

use super::ask_for_summary;

/// A summary executes no calls, whatever the request contains.
#[test]
fn a_summary_has_no_calls() {
    let mut run = RunRequest::new("default", vec![Item::user("?")]);
    let tool = ToolRef { name: "pay".to_owned(), kind: ToolKind::Mcp, server: None };
    let (call_id, arguments) = (CallId::new("call_1"), json!({}).to_string());
    run.first_calls = vec![FirstCall { call_id, tool, arguments, decision: None, budget: None }];
    ask_for_summary(&mut run);
    assert_eq!(run.first_calls, []);
    assert_eq!(run.input.len(), 2);
}
