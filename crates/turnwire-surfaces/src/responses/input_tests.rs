use serde_json::{Value, json};
use turnwire_contract::ToolKind;

use super::*;
use crate::responses::checks::to_json;

fn items(entries: Vec<(&str, Item)>) -> Vec<Value> {
    let entries: Vec<Entry> = entries.into_iter().map(|(id, item)| Entry::new(id, item)).collect();
    let items = wire_items(&entries);
    for item in &items {
        assert_eq!(to_json(item)["id"], item.id().as_str());
    }
    items.iter().map(to_json).collect()
}

fn call(kind: ToolKind, name: &str, arguments: &str) -> Item {
    let server = (kind == ToolKind::Mcp).then(|| "docs".to_owned());
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    Item::Call { call_id: CallId::from("a"), name, arguments, kind, server }
}

fn result(output: &str, failed: bool) -> Item {
    let (call_id, output) = (CallId::from("a"), output.to_owned());
    Item::CallResult { call_id, output, images: Vec::new(), failed, custom: false }
}

#[test]
fn messages_of_all_who_speak_with_all_they_say() {
    let file = |url: &str| Content::File { name: "a.pdf".to_owned(), url: url.to_owned() };
    let asked = vec![
        Content::text("Look."),
        Content::image("https://a.example/a.png"),
        file("https://a.example/a.pdf"),
        file("data:application/pdf;base64,AA"),
        Content::Image { url: "turnwire-file:file_1;image/png".to_owned(), detail: None },
        file("turnwire-file:file_2;application/pdf"),
    ];
    let said = vec![Content::text("No."), Content::Refusal { text: "I cannot.".to_owned() }];
    let system = Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] };
    let shown = items(vec![
        ("msg_1", system),
        ("msg_2", Item::Message { role: Role::User, content: asked }),
        ("msg_3", Item::Message { role: Role::Assistant, content: said }),
    ]);
    let message = |id: &str, role: &str, content: Value| json!({ "type": "message", "id": id, "status": "completed", "role": role, "content": content });
    let expected = [
        message("msg_1", "system", json!([{ "type": "input_text", "text": "Be brief." }])),
        message(
            "msg_2",
            "user",
            json!([
                { "type": "input_text", "text": "Look." },
                { "type": "input_image", "image_url": "https://a.example/a.png", "detail": "auto" },
                { "type": "input_file", "filename": "a.pdf", "file_url": "https://a.example/a.pdf" },
                { "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA" },
                { "type": "input_image", "file_id": "file_1", "detail": "auto" },
                { "type": "input_file", "filename": "a.pdf", "file_id": "file_2" },
            ]),
        ),
        message(
            "msg_3",
            "assistant",
            json!([
                { "type": "output_text", "text": "No.", "annotations": [], "logprobs": [] },
                { "type": "refusal", "refusal": "I cannot." },
            ]),
        ),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn thoughts_with_and_without_words() {
    let thought = |text: &str, encrypted_content: Option<&str>| Item::Reasoning {
        text: text.to_owned(),
        encrypted_content: encrypted_content.map(str::to_owned),
    };
    let shown = items(vec![("rs_1", thought("Hm.", None)), ("rs_2", thought("", Some("seal")))]);
    let expected = [
        json!({ "type": "reasoning", "id": "rs_1", "status": "completed",
            "summary": [{ "type": "summary_text", "text": "Hm." }] }),
        json!({ "type": "reasoning", "id": "rs_2", "status": "completed",
            "summary": [], "encrypted_content": "seal" }),
    ];
    assert_eq!(shown, expected);
}

/// R3: a function and its result are two items.
#[test]
fn a_function_and_its_result_are_two_items() {
    let shown = items(vec![
        ("fc_1", call(ToolKind::Client, "weather", "{}")),
        ("fco_1", result("rain", false)),
    ]);
    let expected = [
        json!({ "type": "function_call", "id": "fc_1", "status": "completed", "arguments": "{}",
            "call_id": "a", "name": "weather" }),
        json!({ "type": "function_call_output", "id": "fco_1", "status": "completed",
            "call_id": "a", "output": "rain" }),
    ];
    assert_eq!(shown, expected);
}

/// R3: native calls contain their result, also if IDs are used again later.
#[test]
fn native_calls_are_one_item_each() {
    let shown = items(vec![
        ("mcp_1", call(ToolKind::Mcp, "docs__ask", r#"{"q":1}"#)),
        ("fco_1", result("yes", false)),
        ("ws_1", call(ToolKind::WebSearch, "web_search", r#"{"query":"x"}"#)),
        ("fco_2", result("found", false)),
        ("fs_1", call(ToolKind::FileSearch, "file_search", r#"{"query":"y"}"#)),
        ("fco_3", result("Error: no", true)),
        ("mcp_2", call(ToolKind::Mcp, "ask", "{}")),
        ("fco_4", result("Error: gone", true)),
    ]);
    let expected = [
        json!({ "type": "mcp_call", "id": "mcp_1", "status": "completed",
            "approval_request_id": null, "arguments": r#"{"q":1}"#, "error": null, "name": "ask",
            "output": "yes", "server_label": "docs" }),
        json!({ "type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": { "type": "search", "query": "x", "queries": ["x"] } }),
        json!({ "type": "file_search_call", "id": "fs_1", "status": "failed", "queries": ["y"],
            "results": null }),
        json!({ "type": "mcp_call", "id": "mcp_2", "status": "failed",
            "approval_request_id": null, "arguments": "{}",
            "error": { "type": "mcp_tool_execution_error",
                "content": [{ "type": "text", "text": "Error: gone" }] },
            "name": "ask", "output": null, "server_label": "docs" }),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_call_that_waits_for_a_person_is_the_question() {
    let shown = items(vec![("mcp_1", call(ToolKind::Mcp, "ask", "{}"))]);
    let expected = json!({ "type": "mcp_approval_request", "id": "mcpr_1", "arguments": "{}",
        "name": "ask", "server_label": "docs" });
    assert_eq!(shown, [expected]);
}

#[test]
fn a_result_without_its_call_is_an_output_of_its_own() {
    let shown = items(vec![
        ("ws_1", call(ToolKind::WebSearch, "web_search", "{}")),
        ("fco_1", result("found", false)),
        ("fco_2", result("again", true)),
    ]);
    assert_eq!(shown[0]["status"], "completed");
    assert_eq!(shown[1]["type"], "function_call_output");
    assert_eq!(shown[1]["output"], "again");
}
