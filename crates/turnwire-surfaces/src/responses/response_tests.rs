use std::{collections::BTreeMap, sync::Arc};

use serde_json::Map;
use turnwire_contract::{ConversationId, Generation};

use super::*;
use crate::{
    responses::{
        checks::{check_response, to_json},
        stories::server_spec,
        surface_data::RESPONSE_KEYS,
    },
    story::request,
};

fn response(request: &RunRequest) -> Value {
    let created = Timestamp::from_micros(1_999_999);
    let response = Response::new(&RunId::new("run_1"), created, request);
    check_response(&response);
    to_json(&response)
}

/// The object of a plain request: all keys, in the original order.
#[test]
fn a_plain_request_has_all_keys_in_order() {
    let expected = json!({
        "id": "resp_1",
        "object": "response",
        "access_programs": null,
        "created_at": 1,
        "status": "in_progress",
        "background": false,
        "completed_at": null,
        "error": null,
        "frequency_penalty": 0.0,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "model": "test",
        "output": [],
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
        "usage": null,
        "metadata": {},
    });
    assert_eq!(response(&request()).to_string(), expected.to_string());
}

/// Keys missing in the surface data are derived from the run, which may come from another surface.
#[test]
fn a_request_of_another_surface_reads_as_a_response() {
    let client = ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("weather", "Tells it.") };
    let web = ToolSpec { kind: ToolKind::WebSearch, ..ToolSpec::new("web_search", "") };
    let mut files = ToolSpec { kind: ToolKind::FileSearch, ..ToolSpec::new("file_search", "") };
    files.settings = json!({ "vector_store_ids": ["vs_1"] });
    let mut tools: Vec<_> = [client, web, files].into_iter().map(Arc::new).collect();
    tools.extend([server_spec("ask", false), server_spec("find", false)]);
    let ask_before = AskBefore::AllBut(vec!["look".to_owned()]);
    let allowed = Some(vec!["look".to_owned()]);
    let request = RunRequest {
        instructions: Some("Be brief.".to_owned()),
        conversation_id: Some(ConversationId::from("conv_1")),
        continues: Some(RunId::new("run_0")),
        tools,
        servers: vec![ServerUse {
            label: "wiki".to_owned(),
            url: None,
            allowed,
            ask_before,
            ..ServerUse::default()
        }],
        tool_choice: ToolChoice::Named { name: "weather".to_owned() },
        generation: Generation {
            temperature: Some(0.5),
            top_p: Some(0.25),
            max_output_tokens: Some(100),
            reasoning_effort: Some("low".to_owned()),
            answer_schema: Some(json!({ "type": "object" })),
            ..Generation::default()
        },
        metadata: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ..request()
    };
    let response = response(&request);
    assert_eq!(response["instructions"], "Be brief.");
    assert_eq!(response["conversation"], json!({ "id": "conv_1" }));
    assert_eq!(response["previous_response_id"], "resp_0");
    assert_eq!(response["temperature"], 0.5);
    assert_eq!(response["top_p"], 0.25);
    assert_eq!(response["max_output_tokens"], 100);
    assert_eq!(response["reasoning"]["effort"], "low");
    assert_eq!(response["text"]["format"]["schema"], json!({ "type": "object" }));
    assert_eq!(response["metadata"], json!({ "a": "b" }));
    assert_eq!(response["tool_choice"], json!({ "type": "function", "name": "weather" }));
    let parameters = json!({ "type": "object", "properties": {} });
    let tools = json!([
        {
            "type": "mcp",
            "server_label": "wiki",
            "allowed_tools": ["look"],
            "require_approval": { "never": { "tool_names": ["look"] } },
        },
        {
            "type": "function",
            "name": "weather",
            "description": "Tells it.",
            "parameters": parameters,
            "strict": false,
        },
        { "type": "web_search" },
        { "type": "file_search", "vector_store_ids": ["vs_1"] },
        { "type": "mcp", "server_label": "docs", "allowed_tools": null, "require_approval": "never" },
    ]);
    assert_eq!(response["tools"], tools);
}

/// The surface data of a request is returned unchanged.
#[test]
fn surface_data_comes_back() {
    let surface_data = json!({
        "background": true,
        "frequency_penalty": 0.5,
        "instructions": "Be brief.",
        "max_output_tokens": 100,
        "max_tool_calls": 3,
        "metadata": { "a": "b" },
        "model": "fast",
        "parallel_tool_calls": false,
        "presence_penalty": 0.25,
        "previous_response_id": "resp_0",
        "prompt_cache_key": "key",
        "reasoning": { "effort": "low", "summary": "auto" },
        "safety_identifier": "person",
        "service_tier": "flex",
        "store": false,
        "temperature": 0.75,
        "text": { "format": { "type": "json_object" }, "verbosity": "low" },
        "tool_choice": "none",
        "tools": [],
        "top_logprobs": 2,
        "top_p": 0.5,
        "truncation": "auto",
        "user": "someone",
    });
    let keys: Vec<&String> = surface_data.as_object().unwrap().keys().collect();
    assert_eq!(keys, RESPONSE_KEYS, "a listed key is not tried here");
    let response = response(&RunRequest { surface_data: as_map(&surface_data), ..request() });
    for key in RESPONSE_KEYS {
        assert_eq!(response[*key], surface_data[*key], "{key}");
    }
    assert_eq!(response["status"], "queued");
}

fn as_map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Invalid values in surface data do not break the format.
#[test]
fn an_echo_of_the_wrong_kind_is_ignored() {
    let surface_data =
        as_map(&json!({ "store": "yes", "temperature": [], "tools": 1, "include": 1 }));
    let response = response(&RunRequest { surface_data, ..request() });
    assert_eq!(response["store"], true);
    assert_eq!(response["temperature"], 1.0);
    assert_eq!(response["tools"], json!([]));
}

#[test]
fn the_other_ways_to_choose_a_tool_and_to_ask() {
    let choice = |tool_choice| response(&RunRequest { tool_choice, ..request() });
    assert_eq!(choice(ToolChoice::None)["tool_choice"], "none");
    assert_eq!(choice(ToolChoice::Required)["tool_choice"], "required");
    let asks = |ask_before| {
        let server = ServerUse {
            label: "wiki".to_owned(),
            url: None,
            allowed: None,
            ask_before,
            ..ServerUse::default()
        };
        let response = response(&RunRequest { servers: vec![server], ..request() });
        response["tools"][0]["require_approval"].clone()
    };
    assert_eq!(asks(AskBefore::Everything), "always");
    let only = json!({ "always": { "tool_names": ["a"] } });
    assert_eq!(asks(AskBefore::Only(vec!["a".to_owned()])), only);
}

#[test]
fn codes_and_reasons_in_official_words() {
    let code = |ours| ResponseError::from(&Failure::new(ours, "why")).code;
    let kind = |ours| ResponseError::from(&Failure::new(ours, "why")).kind;
    let official = [
        ("model_rejected", "invalid_prompt", "invalid_request_error"),
        ("content_filtered", "invalid_prompt", "invalid_request_error"),
        ("context_length_exceeded", "context_length_exceeded", "invalid_request_error"),
        ("model_rate_limited", "rate_limit_exceeded", "rate_limit_error"),
        ("model_misconfigured", "server_error", "server_error"),
        ("engine_failed", "server_error", "server_error"),
    ];
    for (ours, theirs, family) in official {
        assert_eq!((code(ours).as_str(), kind(ours)), (theirs, family));
    }
    let reasons = [
        (IncompleteReason::MaxOutputTokens, "max_output_tokens"),
        (IncompleteReason::MaxOutputBytes, "max_output_bytes"),
        (IncompleteReason::MaxTurns, "max_turns"),
        (IncompleteReason::MaxToolCalls, "max_tool_calls"),
        (IncompleteReason::TimeLimit, "time_limit"),
        (IncompleteReason::InsufficientQuota, "insufficient_quota"),
        (IncompleteReason::RepeatedCall, "repeated_call"),
        (IncompleteReason::ContentFilter, "content_filter"),
    ];
    for (ours, word) in reasons {
        assert_eq!(reason(ours), word);
    }
}
