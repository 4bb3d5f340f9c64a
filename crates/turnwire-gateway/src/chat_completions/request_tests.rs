use serde_json::{Value, json};

use super::*;
use crate::{api_error::ApiError, responses::request};

fn translated(body: Value) -> Value {
    translate(body, &RequestLimits::default()).unwrap().body
}

/// The error that a client gets, whoever finds the mistake.
fn error(body: Value) -> (String, String) {
    let limits = RequestLimits::default();
    let error = match translate(body, &limits) {
        Err(error) => ApiError::from(error),
        Ok(Translated { body, names, .. }) => {
            let request = match request::read(body, &limits) {
                Err(error) => return described(names.in_error(error.into())),
                Ok(request) => request,
            };
            let tools: Vec<_> = crate::fields::placed(&request.tools.0, "tools").collect();
            let read = request::read_tools(&tools, &limits).map(|_| ());
            let input = request.input.as_ref().unwrap();
            let found = request::ResolvedReferences::default();
            let read = read.and_then(|()| request::read_input(input, &found).map(|_| ()));
            names.in_error(read.unwrap_err().into())
        }
    };
    described(error)
}

fn described(error: ApiError) -> (String, String) {
    (error.param.unwrap_or_default(), error.message)
}

fn hello() -> Value {
    json!([{ "role": "user", "content": "Hello" }])
}

fn with(name: &str, value: Value) -> Value {
    json!({ "messages": hello(), name: value })
}

/// A chat is not stored unless the client asks for it: it keeps its history itself.
#[test]
fn a_small_request_becomes_one_that_is_not_stored() {
    let body = json!({ "model": "small", "messages": hello(), "temperature": 0.5 });
    let expected = json!({
        "model": "small",
        "temperature": 0.5,
        "input": [{ "role": "user", "content": "Hello" }],
        "store": false,
    });
    assert_eq!(translated(body), expected);
    assert_eq!(translated(with("store", json!(true)))["store"], true);
}

#[test]
fn messages_of_every_role_become_items() {
    let image =
        json!({ "type": "image_url", "image_url": { "url": "https://a/b.png", "detail": "low" } });
    let bare_image = json!({ "type": "image_url", "image_url": "https://a/b.png" });
    let file = json!({ "type": "file", "file": { "file_id": "file_1" } });
    let function = json!({ "name": "add", "arguments": "{}" });
    let custom = json!({ "name": "shell", "input": "ls" });
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "developer", "content": [{ "type": "text", "text": "And kind." }] },
        { "role": "user", "content": [{ "type": "text", "text": "See" }, image, bare_image, file] },
        {
            "role": "assistant",
            "content": "Let me add.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                { "id": "call_1", "type": "function", "function": function },
                { "id": "call_2", "type": "custom", "custom": custom },
            ],
        },
        { "role": "tool", "tool_call_id": "call_1", "content": "3" },
        { "role": "tool", "tool_call_id": "call_2", "content": [{ "type": "text", "text": "a" }] },
        { "role": "assistant", "content": "", "refusal": "No." },
        { "role": "assistant", "content": null, "tool_calls": [] },
    ]);
    let thought = json!([{ "type": "reasoning_text", "text": "Hm." }]);
    let expected = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "developer", "content": [{ "type": "text", "text": "And kind." }] },
        { "role": "user", "content": [
            { "type": "text", "text": "See" },
            { "type": "input_image", "image_url": "https://a/b.png", "detail": "low" },
            { "type": "input_image", "image_url": "https://a/b.png" },
            { "type": "input_file", "file_id": "file_1" },
        ] },
        { "type": "reasoning", "content": thought },
        { "role": "assistant", "content": [{ "type": "text", "text": "Let me add." }] },
        { "type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}" },
        { "type": "custom_tool_call", "call_id": "call_2", "name": "shell", "input": "ls" },
        { "type": "function_call_output", "call_id": "call_1", "output": "3" },
        { "type": "custom_tool_call_output", "call_id": "call_2",
            "output": [{ "type": "text", "text": "a" }] },
        { "role": "assistant", "content": [{ "type": "refusal", "refusal": "No." }] },
    ]);
    let body = translated(json!({ "messages": messages }));
    assert_eq!(body["input"], expected);
    let request = request::read(body, &RequestLimits::default()).unwrap();
    let found = request::ResolvedReferences::default();
    let read = request::read_input(&request.input.unwrap(), &found);
    assert_eq!(read.unwrap_err().code, "file_not_found", "all else is readable");
}

#[test]
fn options_stand_where_the_other_dialect_has_them() {
    let schema = json!({ "name": "city", "schema": { "type": "object" }, "strict": true });
    let body = translated(json!({
        "messages": hello(),
        "max_tokens": 10,
        "max_completion_tokens": 20,
        "reasoning_effort": "low",
        "verbosity": "high",
        "response_format": { "type": "json_schema", "json_schema": schema },
        "logprobs": true,
        "top_logprobs": 2,
        "web_search_options": {
            "search_context_size": "low",
            "user_location": { "type": "approximate", "approximate": { "country": "DE" } },
        },
    }));
    assert_eq!(body["max_output_tokens"], 20);
    assert_eq!(body["reasoning"], json!({ "effort": "low" }));
    let format = json!({
        "type": "json_schema", "name": "city", "schema": { "type": "object" }, "strict": true,
    });
    assert_eq!(body["text"], json!({ "verbosity": "high", "format": format }));
    assert_eq!(body["include"], json!(["message.output_text.logprobs"]));
    assert_eq!(body["top_logprobs"], 2);
    let place = json!({ "type": "approximate", "country": "DE" });
    let search =
        json!({ "type": "web_search", "search_context_size": "low", "user_location": place });
    assert_eq!(body["tools"], json!([search]));
}

#[test]
fn tools_and_choices_lose_their_inner_object() {
    let grammar = json!({ "type": "grammar", "grammar": { "syntax": "lark", "definition": "a" } });
    let body = translated(json!({
        "messages": hello(),
        "tools": [
            { "type": "function", "function": { "name": "add", "parameters": {} } },
            { "type": "custom", "custom": { "name": "shell", "format": grammar } },
            { "type": "mcp", "server_label": "clock", "require_approval": "never" },
        ],
        "tool_choice": { "type": "allowed_tools", "allowed_tools": {
            "mode": "required",
            "tools": [
                { "type": "function", "function": { "name": "add" } },
                { "type": "mcp", "server_label": "clock" },
            ],
        } },
    }));
    let format = json!({ "type": "grammar", "syntax": "lark", "definition": "a" });
    let expected = json!([
        { "type": "function", "name": "add", "parameters": {} },
        { "type": "custom", "name": "shell", "format": format },
        { "type": "mcp", "server_label": "clock", "require_approval": "never" },
    ]);
    assert_eq!(body["tools"], expected);
    let tools = json!([
        { "type": "function", "name": "add" },
        { "type": "mcp", "server_label": "clock" },
    ]);
    let choice = json!({ "type": "allowed_tools", "mode": "required", "tools": tools });
    assert_eq!(body["tool_choice"], choice);
    let named = with("tool_choice", json!({ "type": "function", "function": { "name": "add" } }));
    assert_eq!(translated(named)["tool_choice"], json!({ "type": "function", "name": "add" }));
    assert_eq!(translated(with("tool_choice", json!("none")))["tool_choice"], "none");
}

/// Errors name the field that the client wrote, also if the common reader finds the mistake.
#[test]
fn errors_have_the_paths_of_this_dialect() {
    let image = json!([{ "type": "text", "text": "a" },
        { "type": "image_url", "image_url": { "url": "ftp://a" } }]);
    let call = json!([{ "id": "", "function": { "name": "f" } }]);
    let tool = json!([{ "type": "function", "function": { "name": "not a name" } }]);
    let cases = [
        (json!({}), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": "Hello" }), "messages"),
        (json!({ "messages": [{ "content": "a" }] }), "messages[0].role"),
        (json!({ "messages": [{ "role": "user" }] }), "messages[0].content"),
        (json!({ "messages": [{ "role": "user", "content": 1 }] }), "messages[0].content"),
        (
            json!({ "messages": [{ "role": "user", "content": image }] }),
            "messages[0].content[1].image_url.url",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "tool_calls": call }] }),
            "messages[0].tool_calls[0].id",
        ),
        (json!({ "messages": [{ "role": "tool", "content": "a" }] }), "messages[0].tool_call_id"),
        (
            json!({ "messages": [{ "role": "tool", "tool_call_id": "a", "content": 1 }] }),
            "messages[0].content",
        ),
        (with("tools", tool), "tools[0].function.name"),
        (with("tools", json!([{ "type": "function" }])), "tools[0].function"),
        (with("reasoning_effort", json!("huge")), "reasoning_effort"),
        (with("verbosity", json!(1)), "verbosity"),
        (with("response_format", json!({ "type": "xml" })), "response_format.type"),
        (
            with("response_format", json!({ "type": "json_schema", "json_schema": {} })),
            "response_format.json_schema.name",
        ),
        (with("max_tokens", json!(0)), "max_tokens"),
        (with("temperature", json!(3)), "temperature"),
        (with("n", json!(2)), "n"),
        (with("modalities", json!(["text", "audio"])), "modalities"),
        (with("functions", json!([{ "name": "f" }])), "functions"),
        (with("logit_bias", json!({ "50256": -100 })), "logit_bias"),
        (with("tempreature", json!(1)), "tempreature"),
        (with("stream_options", json!({ "include_use": true })), "stream_options.include_use"),
    ];
    for (body, param) in cases {
        let (found, message) = error(body);
        assert_eq!(found, param, "{message}");
        assert!(!message.contains("input"), "{message}");
    }
}

/// Nothing is dropped in silence: what nobody reads is listed.
#[test]
fn fields_that_nobody_reads_are_reported() {
    let body = json!({
        "messages": [{ "role": "user", "content": "Hello", "name": "Ann" }],
        "top_k": 40,
        "repeat_penalty": 1.1,
        "num_ctx": 4096,
        "logit_bias": {},
    });
    let ignored = translate(body, &RequestLimits::default()).unwrap().ignored;
    assert_eq!(ignored, ["num_ctx", "repeat_penalty", "top_k", "messages[].name"]);
}
