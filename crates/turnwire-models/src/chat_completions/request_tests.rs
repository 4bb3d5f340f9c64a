use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{CallId, InputFormat, Item, Prompt, ToolChoice, ToolKind, ToolSpec};

use super::RequestBody;
use crate::sample_prompt::{plain_prompt, sample_prompt};

#[test]
fn everything_has_its_place() {
    let prompt = sample_prompt("anthropic.signature:x");
    let body = serde_json::to_value(RequestBody::new(&prompt, Some("their-model"))).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "their-model",
            "messages": [
                { "role": "system", "content": "Be kind." },
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image_url", "image_url": { "url": "https://example.com/a.png" } },
                    { "type": "image_url", "image_url": { "url": "data:image/gif;base64,R0lG" } },
                    { "type": "file", "file": {
                      "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE" } },
                ] },
                { "role": "assistant", "content": "I will look.", "tool_calls": [
                    { "id": "call_1", "type": "function",
                      "function": { "name": "multiply", "arguments": "{\"a\":5,\"b\":4}" } },
                    { "id": "call_2", "type": "function",
                      "function": { "name": "draw", "arguments": "{}" } },
                ] },
                { "role": "tool", "tool_call_id": "call_1", "content": "20" },
                { "role": "tool", "tool_call_id": "call_2", "content": "no ink" },
                { "role": "user", "content": [
                    { "type": "text", "text": "Pictures returned by the tool:" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBO" } },
                ] },
                { "role": "assistant", "content": "Twenty." },
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Thanks." },
            ],
            "stream": true,
            "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function": {
                "name": "multiply",
                "description": "Multiplies.",
                "parameters": { "type": "object", "properties": { "a": {}, "b": {} } },
            } }],
            "tool_choice": "auto",
            "parallel_tool_calls": false,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 100,
            "reasoning_effort": "low",
            "response_format": { "type": "json_schema", "json_schema": {
                "name": "answer", "strict": true, "schema": { "type": "object" },
            } },
        })
    );
}

#[test]
fn what_is_not_set_is_not_sent() {
    let prompt = plain_prompt();
    let body = serde_json::to_value(RequestBody::new(&prompt, None)).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "prompt-model",
            "messages": [{ "role": "user", "content": "Hi." }],
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[test]
fn a_choice_of_tool_is_written_out() {
    let mut prompt = sample_prompt("");
    let mut choice_of = |choice| -> Value {
        prompt.tool_choice = choice;
        serde_json::to_value(RequestBody::new(&prompt, None)).unwrap()["tool_choice"].take()
    };
    assert_eq!(choice_of(ToolChoice::None), json!("none"));
    assert_eq!(choice_of(ToolChoice::Required), json!("required"));
    assert_eq!(
        choice_of(ToolChoice::Named { name: "multiply".to_owned() }),
        json!({ "type": "function", "function": { "name": "multiply" } })
    );
}

#[test]
fn custom_tools_go_as_they_are() {
    let custom = |name: &str, format| ToolSpec {
        kind: ToolKind::Custom,
        format,
        ..ToolSpec::new(name, "Edits.")
    };
    let grammar = InputFormat::Grammar { syntax: "regex".into(), definition: "a+".into() };
    let call = Item::Call {
        call_id: CallId::new("call_1"),
        name: "patch".to_owned(),
        arguments: "a \"b\"".to_owned(),
        kind: ToolKind::Custom,
        server: None,
    };
    let tools = [
        custom("patch", Some(grammar)),
        custom("say", Some(InputFormat::Text)),
        custom("note", None),
    ];
    let prompt = Prompt {
        items: vec![Arc::new(call)],
        tools: tools.map(Arc::new).to_vec(),
        tool_choice: ToolChoice::Named { name: "patch".to_owned() },
        ..plain_prompt()
    };
    let body = serde_json::to_value(RequestBody::new(&prompt, None)).unwrap();
    let format = json!({ "type": "grammar", "grammar": { "syntax": "regex", "definition": "a+" } });
    assert_eq!(
        body["tools"],
        json!([
            { "type": "custom",
              "custom": { "name": "patch", "description": "Edits.", "format": format } },
            { "type": "custom",
              "custom": { "name": "say", "description": "Edits.", "format": { "type": "text" } } },
            { "type": "custom", "custom": { "name": "note", "description": "Edits." } },
        ])
    );
    assert_eq!(body["tool_choice"], json!({ "type": "custom", "custom": { "name": "patch" } }));
    assert_eq!(
        body["messages"][0]["tool_calls"],
        json!([{ "type": "custom", "id": "call_1",
                 "custom": { "name": "patch", "input": "a \"b\"" } }])
    );
}
