use serde_json::from_value;
use turnwire_contract::{Content, Role, ToolKind};

use super::*;

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

fn messages(wire: Value) -> Vec<UiMessage> {
    from_value(wire).unwrap()
}

fn limits() -> RequestLimits {
    RequestLimits::default()
}

/// Texts, pictures and files of a user message reach the model; other parts do not.
#[test]
fn a_message_has_texts_pictures_and_files() {
    let pdf = "data:application/pdf;base64,AAAA";
    let sent = messages(json!([{ "role": "user", "parts": [
        { "type": "text", "text": "Look:" },
        { "type": "data-mood", "data": 1 },
        { "type": "file", "mediaType": "image/png", "url": PNG },
        { "type": "file", "mediaType": "application/pdf", "filename": "a.pdf", "url": pdf },
    ] }]));
    let content = vec![
        Content::text("Look:"),
        Content::image(PNG),
        Content::File { name: "a.pdf".to_owned(), url: pdf.to_owned() },
    ];
    assert_eq!(new_item(&sent, &limits()).unwrap(), Item::Message { role: Role::User, content });
}

/// A message without content, and an address that is none, are refused.
#[test]
fn a_message_must_have_content() {
    let part = |part: Value| messages(json!([{ "role": "user", "parts": [part] }]));
    let error = |sent: &[UiMessage]| new_item(sent, &limits()).unwrap_err();
    assert!(
        error(&part(json!({ "type": "text", "text": "" }))).message.contains("a text or a file")
    );
    let secret = json!({ "type": "file", "mediaType": "image/png", "url": "file:///etc/passwd" });
    assert!(error(&part(secret)).message.contains("http address"));
}

/// The messages of a chat that is not stored become its history: calls with their results, and no
/// call without one.
#[test]
fn earlier_messages_become_a_history() {
    let sent = messages(json!([
        { "role": "system", "parts": [{ "type": "text", "text": "Be brief." }] },
        { "role": "user", "parts": [{ "type": "text", "text": "5 times 4?" }] },
        { "role": "assistant", "parts": [
            { "type": "step-start" },
            { "type": "reasoning", "text": "Hm." },
            { "type": "dynamic-tool", "toolName": "multiply", "toolCallId": "call_1",
                "state": "output-available", "input": { "a": 5 }, "output": 20 },
            { "type": "tool-search", "toolCallId": "call_2",
                "state": "output-error", "input": {}, "errorText": "failed: away" },
            { "type": "dynamic-tool", "toolName": "wait", "toolCallId": "call_3",
                "state": "input-available", "input": {} },
            { "type": "text", "text": "20." },
        ] },
        { "role": "user", "parts": [{ "type": "text", "text": "Thanks." }] },
    ]));
    let call = |call_id: &str, name: &str, arguments: &str| Item::Call {
        call_id: call_id.into(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        kind: ToolKind::Client,
        server: None,
    };
    let result = |call_id: &str, output: &str| Item::CallResult {
        call_id: call_id.into(),
        output: output.to_owned(),
        images: Vec::new(),
        failed: false,
        custom: false,
    };
    let expected = [
        Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] },
        Item::user("5 times 4?"),
        call("call_1", "multiply", r#"{"a":5}"#),
        result("call_1", "20"),
        call("call_2", "search", "{}"),
        result("call_2", "failed: away"),
        Item::assistant("20."),
    ];
    assert_eq!(earlier_items(&sent, &limits()).unwrap(), expected);
}
