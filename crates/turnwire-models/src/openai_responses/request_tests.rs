use serde_json::json;
use turnwire_contract::ToolChoice;

use super::RequestBody;
use crate::sample_prompt::{plain_prompt, sample_prompt};

#[test]
fn everything_has_its_place() {
    let mut prompt = sample_prompt("openai.encrypted:gAAA");
    prompt.tool_choice = ToolChoice::Named { name: "multiply".to_owned() };
    let body = RequestBody::new(&prompt, Some("their-model"), Some("auto"));
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
    let body = serde_json::to_value(RequestBody::new(&prompt, Some("gpt-4o"), None)).unwrap();
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
    let body = serde_json::to_value(RequestBody::new(&prompt, None, None)).unwrap();
    assert_eq!(body["input"][1]["role"], "assistant");
}
