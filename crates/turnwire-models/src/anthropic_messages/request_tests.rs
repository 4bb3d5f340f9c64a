use serde_json::{Value, json};
use turnwire_contract::ToolChoice;

use super::RequestBody;
use crate::sample_prompt::{plain_prompt, sample_prompt};

#[test]
fn everything_has_its_place() {
    let prompt = sample_prompt("anthropic.signature:c2ln");
    let body = serde_json::to_value(RequestBody::new(&prompt, Some("their-model"))).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "their-model",
            "max_tokens": 100,
            "stream": true,
            "system": "Be kind.\n\nBe brief.",
            "messages": [
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image",
                      "source": { "type": "url", "url": "https://example.com/a.png" } },
                    { "type": "image",
                      "source": { "type": "base64", "media_type": "image/gif", "data": "R0lG" } },
                    { "type": "document", "title": "a.pdf", "source": {
                      "type": "base64", "media_type": "application/pdf", "data": "JVBE" } },
                ] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
                    { "type": "text", "text": "I will look." },
                    { "type": "tool_use", "id": "call_1", "name": "multiply",
                      "input": { "a": 5, "b": 4 } },
                    { "type": "tool_use", "id": "call_2", "name": "draw", "input": {} },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "call_1", "is_error": false,
                      "content": [{ "type": "text", "text": "20" }] },
                    { "type": "tool_result", "tool_use_id": "call_2", "is_error": true,
                      "content": [
                        { "type": "text", "text": "no ink" },
                        { "type": "image", "source":
                          { "type": "base64", "media_type": "image/png", "data": "iVBO" } },
                      ] },
                ] },
                { "role": "assistant", "content": [{ "type": "text", "text": "Twenty." }] },
                { "role": "user", "content": [{ "type": "text", "text": "Thanks." }] },
            ],
            "tools": [{
                "name": "multiply",
                "description": "Multiplies.",
                "input_schema": { "type": "object", "properties": { "a": {}, "b": {} } },
            }],
            "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
            "temperature": 0.5,
            "top_p": 0.9,
            "thinking": { "type": "adaptive" },
            "output_config": {
                "effort": "low",
                "format": { "type": "json_schema", "schema": { "type": "object" } },
            },
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
            "max_tokens": 8192,
            "stream": true,
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi." }] }],
        })
    );
}

#[test]
fn only_seals_of_this_provider_go_back() {
    let thoughts_with = |encrypted_content: &str| -> Value {
        let prompt = sample_prompt(encrypted_content);
        let mut body = serde_json::to_value(RequestBody::new(&prompt, None)).unwrap();
        body["messages"][1]["content"][0].take()
    };
    assert_eq!(
        thoughts_with("anthropic.redacted:ZGF0YQ"),
        json!({ "type": "redacted_thinking", "data": "ZGF0YQ" })
    );
    assert_eq!(thoughts_with("openai.encrypted:x")["type"], "text");
}

#[test]
fn a_budget_of_thoughts_comes_on_top() {
    let mut prompt = plain_prompt();
    prompt.generation.reasoning_effort = Some("2000".to_owned());
    let body = serde_json::to_value(RequestBody::new(&prompt, None)).unwrap();
    assert_eq!(body["thinking"], json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!(body["max_tokens"], 10192);
}

#[test]
fn a_choice_of_tool_is_written_out() {
    let mut prompt = sample_prompt("");
    prompt.parallel_tool_calls = true;
    let mut choice_of = |choice| -> Value {
        prompt.tool_choice = choice;
        serde_json::to_value(RequestBody::new(&prompt, None)).unwrap()["tool_choice"].take()
    };
    assert_eq!(choice_of(ToolChoice::None), json!({ "type": "none" }));
    assert_eq!(
        choice_of(ToolChoice::Required),
        json!({ "type": "any", "disable_parallel_tool_use": false })
    );
    assert_eq!(
        choice_of(ToolChoice::Named { name: "multiply".to_owned() }),
        json!({ "type": "tool", "name": "multiply", "disable_parallel_tool_use": false })
    );
}
