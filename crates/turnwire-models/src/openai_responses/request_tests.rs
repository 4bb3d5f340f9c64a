use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{CallId, InputFormat, Item, Prompt, ToolChoice, ToolKind, ToolSpec};

use super::RequestBody;
use crate::{
    sample_prompt::{plain_prompt, sample_prompt},
    seal::Origin,
};

#[test]
fn everything_has_its_place() {
    let mut prompt = sample_prompt("openai.encrypted:gAAA");
    prompt.tool_choice = ToolChoice::Named { name: "multiply".to_owned() };
    let body = RequestBody::new(&prompt, Some("their-model"), Some("auto"), Some(&Origin::UNKNOWN));
    assert_eq!(
        serde_json::to_value(body).unwrap(),
        json!({
            "model": "their-model",
            "instructions": "Be kind.",
            "input": [
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "What is this?" },
                    { "type": "input_image", "image_url": "https://example.com/a.png" },
                    { "type": "input_image", "image_url": "data:image/gif;base64,R0lG" },
                    { "type": "input_file", "filename": "a.pdf",
                      "file_data": "data:application/pdf;base64,JVBE" },
                ] },
                { "type": "reasoning", "encrypted_content": "gAAA",
                  "summary": [{ "type": "summary_text", "text": "Hm." }] },
                { "type": "message", "role": "assistant",
                  "content": [{ "type": "output_text", "text": "I will look." }] },
                { "type": "function_call", "call_id": "call_1", "name": "multiply",
                  "arguments": "{\"a\":5,\"b\":4}" },
                { "type": "function_call", "call_id": "call_2", "name": "draw",
                  "arguments": "{}" },
                { "type": "function_call_output", "call_id": "call_1", "output": "20" },
                { "type": "function_call_output", "call_id": "call_2", "output": [
                    { "type": "input_text", "text": "no ink" },
                    { "type": "input_image", "image_url": "data:image/png;base64,iVBO" },
                ] },
                { "type": "message", "role": "assistant",
                  "content": [{ "type": "output_text", "text": "Twenty." }] },
                { "type": "message", "role": "system",
                  "content": [{ "type": "input_text", "text": "Be brief." }] },
                { "type": "message", "role": "user",
                  "content": [{ "type": "input_text", "text": "Thanks." }] },
            ],
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "tools": [{
                "type": "function",
                "name": "multiply",
                "description": "Multiplies.",
                "parameters": { "type": "object", "properties": { "a": {}, "b": {} } },
                "strict": false,
            }],
            "tool_choice": { "type": "function", "name": "multiply" },
            "parallel_tool_calls": false,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_output_tokens": 100,
            "reasoning": { "effort": "low", "summary": "auto" },
            "text": { "format": {
                "type": "json_schema", "name": "answer", "strict": true,
                "schema": { "type": "object" },
            } },
        })
    );
}

#[test]
fn models_that_never_think_are_not_asked_for_thoughts() {
    let prompt = plain_prompt();
    let body = serde_json::to_value(RequestBody::new(&prompt, Some("gpt-4o"), None, None)).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "gpt-4o",
            "input": [{ "type": "message", "role": "user",
                        "content": [{ "type": "input_text", "text": "Hi." }] }],
            "stream": true,
            "store": false,
        })
    );
}

#[test]
fn seals_of_other_providers_stay_out() {
    let prompt = sample_prompt("anthropic.signature:x");
    let body = serde_json::to_value(RequestBody::new(&prompt, None, None, Some(&Origin::UNKNOWN)))
        .unwrap();
    assert_eq!(body["input"][1]["role"], "assistant");
}

/// A prompt with a custom tool, a tool in a namespace, and calls of both.
fn with_custom_tools() -> Prompt {
    let grammar = InputFormat::Grammar { syntax: "lark".into(), definition: "start: /.+/".into() };
    let patch = ToolSpec {
        kind: ToolKind::Custom,
        format: Some(grammar),
        ..ToolSpec::new("apply_patch", "Edits files.")
    };
    let now = ToolSpec {
        kind: ToolKind::Client,
        server: Some("clock".to_owned()),
        namespace_description: "Time.".to_owned(),
        ..ToolSpec::new("clock__now", "The time.")
    };
    let say = ToolSpec { kind: ToolKind::Custom, name: "say".to_owned(), ..now.clone() };
    let call = |id: &str, tool: &ToolSpec, arguments: &str| Item::Call {
        call_id: CallId::new(id),
        name: tool.name.clone(),
        arguments: arguments.to_owned(),
        kind: tool.kind,
        server: tool.server.clone(),
    };
    let result = |id: &str| Item::CallResult {
        call_id: CallId::new(id),
        output: "ok".to_owned(),
        images: Vec::new(),
        failed: false,
        custom: false,
    };
    let items = [call("call_1", &patch, "*** \"x\""), call("call_2", &now, "{}")];
    let items = items.into_iter().chain([result("call_1"), result("call_2")]);
    Prompt {
        items: items.map(Arc::new).collect(),
        tools: [patch, now, say].map(Arc::new).to_vec(),
        ..plain_prompt()
    }
}

#[test]
fn custom_tools_and_namespaces_go_as_they_are() {
    let mut prompt = with_custom_tools();
    let written = |prompt: &Prompt| -> Value {
        serde_json::to_value(RequestBody::new(prompt, None, None, Some(&Origin::UNKNOWN))).unwrap()
    };
    let body = written(&prompt);
    assert_eq!(
        body["tools"],
        json!([
            { "type": "custom", "name": "apply_patch", "description": "Edits files.",
              "format": { "type": "grammar", "syntax": "lark", "definition": "start: /.+/" } },
            { "type": "namespace", "name": "clock", "description": "Time.", "tools": [
                { "type": "function", "name": "now", "description": "The time.",
                  "parameters": { "type": "object", "properties": {} } },
                { "type": "custom", "name": "say", "description": "The time." },
            ] },
        ])
    );
    assert_eq!(
        body["input"],
        json!([
            { "type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch",
              "input": "*** \"x\"" },
            { "type": "function_call", "call_id": "call_2", "name": "now", "namespace": "clock",
              "arguments": "{}" },
            { "type": "custom_tool_call_output", "call_id": "call_1", "output": "ok" },
            { "type": "function_call_output", "call_id": "call_2", "output": "ok" },
        ])
    );
    for (named, expected) in [
        ("apply_patch", json!({ "type": "custom", "name": "apply_patch" })),
        ("clock__now", json!({ "type": "function", "name": "now" })),
    ] {
        prompt.tool_choice = ToolChoice::Named { name: named.to_owned() };
        assert_eq!(written(&prompt)["tool_choice"], expected);
    }
}
