use serde_json::{Value, json};
use turnwire_contract::{
    Approvals, Decision, FirstCall, Generation, Item, Limits, RunRequest, ServerUse, ToolChoice,
    ToolKind, ToolRef, ToolSpec, UnknownOutcomes,
};

use super::*;
use crate::{limits::RequestLimits, responses::request};

fn read(body: Value) -> CreateResponse {
    request::read(body, &RequestLimits::default()).unwrap()
}

#[test]
fn everything_arrives() {
    let body = json!({
        "input": "hi", "instructions": "Be brief.", "parallel_tool_calls": false,
        "max_tool_calls": 3, "max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9,
        "reasoning": {
            "effort": "low", "summary": "auto", "context": "all_turns", "mode": "pro",
        },
        "metadata": { "a": "b" },
        "text": {
            "format": {
                "type": "json_schema", "name": "x", "description": "d", "schema": { "a": 1 },
            },
            "verbosity": "high",
        },
        "truncation": "auto", "top_logprobs": 2, "include": ["message.output_text.logprobs"],
        "frequency_penalty": 0.1, "presence_penalty": 0.2, "stop": ["a", "b"], "seed": 7,
        "prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "s",
        "user": "u", "service_tier": "flex",
    });
    let request = read(body);
    let first_call = FirstCall {
        call_id: "mcpr_1".into(),
        tool: ToolRef { name: "add".into(), kind: ToolKind::Mcp, server: Some("notes".into()) },
        arguments: "{}".into(),
        decision: Some(Decision::Approved),
        budget: None,
    };
    let resolved = ResolvedRequest {
        tenant: "t".into(),
        model: "small".into(),
        conversation_id: Some("conv_1".into()),
        continues: Some("run_1".into()),
        input: vec![Item::user("hi")],
        first_calls: vec![first_call.clone()],
        n_before_calls: 1,
        tools: vec![Arc::new(ToolSpec::new("f", ""))],
        servers: vec![ServerUse::all_of("notes")],
        tool_choice: ToolChoice::Required,
        limits: Limits::default(),
    };
    let surface_data = super::surface_data(&request, "small");
    let expected = RunRequest {
        tenant: "t".into(),
        asked_by: None,
        trace: None,
        granted_scopes: std::collections::BTreeSet::new(),
        upstream_model: None,
        model: "small".into(),
        instructions: Some("Be brief.".into()),
        conversation_id: Some("conv_1".into()),
        replaces: None,
        continues: Some("run_1".into()),
        before: Vec::new(),
        input: vec![Item::user("hi")],
        tools: vec![Arc::new(ToolSpec::new("f", ""))],
        servers: vec![ServerUse::all_of("notes")],
        first_calls: vec![first_call],
        n_before_calls: 1,
        calls_only: false,
        approvals: Approvals::HandBack,
        inputs: false,
        unknown_outcomes: UnknownOutcomes::Tell,
        tool_choice: ToolChoice::Required,
        parallel_tool_calls: false,
        generation: Generation {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_output_tokens: Some(100),
            reasoning_effort: Some("low".into()),
            reasoning_summary: Some("auto".into()),
            reasoning_context: Some("all_turns".into()),
            reasoning_mode: Some("pro".into()),
            answer_schema: Some(json!({ "a": 1 })),
            schema_name: Some("x".into()),
            schema_description: Some("d".into()),
            schema_strict: Some(false),
            json_object: false,
            verbosity: Some("high".into()),
            truncation: Some("auto".into()),
            logprobs: true,
            top_logprobs: Some(2),
            frequency_penalty: Some(0.1),
            presence_penalty: Some(0.2),
            stop: vec!["a".into(), "b".into()],
            seed: Some(7),
            prompt_cache_key: Some("k".into()),
            prompt_cache_retention: Some("24h".into()),
            safety_identifier: Some("s".into()),
            user: Some("u".into()),
            service_tier: Some("flex".into()),
        },
        limits: Limits { max_tool_calls: 3, ..Limits::default() },
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        surface_data,
    };
    assert_eq!(into_run(request, resolved), expected);
}

#[test]
fn what_is_not_said_is_left_open() {
    let run = into_run(read(json!({ "input": "hi" })), ResolvedRequest::default());
    assert_eq!(run.generation, Generation::default());
    assert_eq!(run.limits, Limits::default());
    assert!(run.parallel_tool_calls);
}

/// A14: a request can lower a limit of the server, never raise it.
#[test]
fn a_request_cannot_widen_a_limit() {
    let limits = Limits { max_tool_calls: 5, ..Limits::default() };
    let request = read(json!({ "input": "hi", "max_tool_calls": 100 }));
    let run = into_run(request, ResolvedRequest { limits, ..ResolvedRequest::default() });
    assert_eq!(run.limits.max_tool_calls, 5);
}

#[test]
fn any_object_will_do() {
    let body = json!({ "input": "hi", "text": { "format": { "type": "json_object" } } });
    let run = into_run(read(body), ResolvedRequest::default());
    assert_eq!((run.generation.json_object, run.generation.answer_schema), (true, None));
}
