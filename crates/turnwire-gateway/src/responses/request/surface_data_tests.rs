use proptest::prelude::*;
use serde_json::{Value, json};

use super::surface_data;
use crate::limits::RequestLimits;
use crate::responses::request::{CreateResponse, ToolsAsWritten, read};

fn of(body: Value) -> Value {
    Value::Object(surface_data(&read(body, &RequestLimits::default()).unwrap(), "small"))
}

fn of_tool(tool: Value) -> Value {
    of(json!({ "input": "hi", "tools": [tool] }))["tools"][0].clone()
}

#[test]
fn all_keys_are_there_with_their_defaults() {
    let expected = json!({
        "background": false,
        "frequency_penalty": 0.0,
        "include": [],
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "model": "small",
        "parallel_tool_calls": true,
        "presence_penalty": 0.0,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null,
        "service_tier": "default",
        "store": true,
        "temperature": 1.0,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": null,
    });
    assert_eq!(of(json!({ "input": "hi" })), expected);
}

#[test]
fn what_was_said_is_repeated() {
    let schema = json!({ "type": "object" });
    let body = json!({
        "input": "hi", "background": true, "instructions": "i", "max_output_tokens": 5,
        "max_tool_calls": 6, "metadata": { "a": "b" }, "model": "other",
        "parallel_tool_calls": false, "conversation": { "id": "conv_1" }, "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "reasoning": { "effort": "low", "summary": "auto" },
        "safety_identifier": "s", "service_tier": "flex", "temperature": 0.2,
        "text": { "verbosity": "low", "format": {
            "type": "json_schema", "name": "n", "schema": schema, "strict": true } },
        "tool_choice": "none", "top_logprobs": 2, "top_p": 0.3, "truncation": "auto", "user": "u",
        "include": ["reasoning.encrypted_content"],
    });
    let expected = json!({
        "background": true,
        "frequency_penalty": 0.0,
        "include": ["reasoning.encrypted_content"],
        "instructions": "i",
        "max_output_tokens": 5,
        "max_tool_calls": 6,
        "metadata": { "a": "b" },
        "model": "small",
        "parallel_tool_calls": false,
        "presence_penalty": 0.0,
        "previous_response_id": null,
        "prompt_cache_key": "k",
        "reasoning": { "effort": "low", "summary": "auto" },
        "safety_identifier": "s",
        "service_tier": "flex",
        "store": true,
        "temperature": 0.2,
        "text": {
            "format": {
                "type": "json_schema", "name": "n", "description": null, "schema": schema,
                "strict": true,
            },
            "verbosity": "low",
        },
        "tool_choice": "none",
        "tools": [],
        "top_logprobs": 2,
        "top_p": 0.3,
        "truncation": "auto",
        "user": "u",
        "conversation": { "id": "conv_1" },
        "prompt_cache_retention": "24h",
    });
    assert_eq!(of(body), expected);
    let continued = of(json!({ "previous_response_id": "resp_1", "store": false }));
    assert_eq!(continued["previous_response_id"], "resp_1");
    assert_eq!(continued["store"], false);
}

#[test]
fn functions_are_made_complete() {
    assert_eq!(
        of_tool(json!({ "type": "function", "name": "f" })),
        json!({
            "type": "function", "name": "f", "description": null, "parameters": null,
            "strict": true,
        })
    );
    let whole = json!({
        "type": "function", "name": "f", "description": "d", "parameters": { "type": "object" },
        "strict": false, "defer_loading": true,
    });
    assert_eq!(of_tool(whole.clone()), whole);
    let strict = json!({ "type": "function", "name": "f", "strict": null });
    assert_eq!(of_tool(strict)["strict"], true);
}

#[test]
fn hosted_tools_are_repeated() {
    let web = json!({ "type": "web_search", "search_context_size": "low", "filters": { "a": 1 } });
    assert_eq!(of_tool(web.clone()), web);
    let file = json!({ "type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3 });
    assert_eq!(of_tool(file.clone()), file);
    let space = json!({
        "type": "namespace", "name": "n", "description": "d",
        "tools": [{ "type": "function", "name": "f" }],
    });
    assert_eq!(of_tool(space)["tools"][0]["strict"], true);
}

/// A6, A12: tokens and headers for a server, and secrets in its URL, are never repeated.
#[test]
fn secrets_never_come_back() {
    let tool = json!({
        "type": "mcp", "server_label": "notes",
        "server_url": "https://user:canary@host:8443/mcp/a?key=canary#canary",
        "server_description": "Notes.", "authorization": "canary",
        "headers": { "Authorization": "Bearer canary" }, "allowed_tools": ["add"],
        "require_approval": "never", "api_key": "canary",
    });
    let request = CreateResponse { tools: ToolsAsWritten(vec![tool]), ..CreateResponse::default() };
    let expected = json!([{
        "type": "mcp", "server_label": "notes", "server_url": "https://host:8443/mcp/a",
        "server_description": "Notes.", "allowed_tools": ["add"], "require_approval": "never",
    }]);
    assert_eq!(surface_data(&request, "m")["tools"], expected);
}

#[test]
fn choices_are_repeated() {
    let choice = json!({
        "type": "allowed_tools", "mode": "auto",
        "tools": [{ "type": "mcp", "server_label": "notes" }, { "type": "function", "name": "f" }],
    });
    let body = json!({ "input": "hi", "tool_choice": choice });
    assert_eq!(of(body)["tool_choice"], choice);
    let chatty = json!({ "type": "mcp", "server_label": "notes", "authorization": "canary" });
    let body = json!({ "input": "hi", "tool_choice": chatty });
    assert_eq!(of(body)["tool_choice"], json!({ "type": "mcp", "server_label": "notes" }));
}

proptest! {
    /// A12: wherever a client puts the token of a tool, it is not in the surface data.
    #[test]
    fn no_token_in_surface_data(
        kind in prop::sample::select(vec![
            "mcp", "function", "web_search", "file_search", "namespace", "unknown",
        ]),
        key in prop::sample::select(vec![
            "authorization", "headers", "Authorization", "token", "env", "api_key",
        ]),
        nested: bool,
        in_list: bool,
    ) {
        let secret = if nested { json!({ "X-Key": "canary" }) } else { json!("canary") };
        let mut tool = json!({ "type": kind, "name": "x", "server_label": "x", key: secret });
        if in_list {
            tool = json!({ "type": "namespace", "name": "n", "tools": [tool] });
        }
        let request = CreateResponse {
            tools: ToolsAsWritten(vec![tool.clone()]),
            tool_choice: Some(json!({ "type": "allowed_tools", "tools": [tool.clone()], key: secret })),
            ..CreateResponse::default()
        };
        let surface_data = serde_json::to_string(&surface_data(&request, "m")).unwrap();
        prop_assert!(!surface_data.contains("canary"), "{surface_data}");
    }
}
