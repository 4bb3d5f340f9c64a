use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn limits() -> RequestLimits {
    RequestLimits::default()
}

fn read(body: Value) -> Result<CreateResponse, ClientError> {
    super::read(body, &limits())
}

/// Message, parameter and code of the error for `body`.
fn refused(body: Value) -> (String, Option<String>, &'static str) {
    let error = read(body).unwrap_err();
    assert_eq!(error.status, 400);
    (error.message, error.param, error.code)
}

/// The error for a body with an input and `fields`.
fn refused_with(fields: Value) -> (String, String, &'static str) {
    let (message, param, code) = refused(with(fields));
    (message, param.unwrap(), code)
}

fn with(fields: Value) -> Value {
    let mut body = json!({ "input": "hi" });
    let Value::Object(fields) = fields else { panic!("not an object") };
    body.as_object_mut().unwrap().extend(fields);
    body
}

fn says(text: &str) -> CreateResponse {
    CreateResponse { input: Some(InputBody::Text(text.into())), ..CreateResponse::default() }
}

#[test]
fn words_are_enough() {
    let request = read(json!({ "input": "hi" })).unwrap();
    assert_eq!(request, says("hi"));
    assert!(request.stores());
}

#[test]
fn every_field_is_read() {
    let body = json!({
        "model": "m",
        "input": [{ "role": "user", "content": "hi" }],
        "instructions": "Be brief.",
        "previous_response_id": "resp_1",
        "tools": [{ "type": "web_search" }],
        "tool_choice": "required",
        "parallel_tool_calls": false,
        "max_tool_calls": 3,
        "max_output_tokens": 1,
        "temperature": 2,
        "top_p": 0.5,
        "text": { "format": { "type": "text" }, "verbosity": "low" },
        "reasoning": { "effort": "high", "summary": "auto", "context": "all_turns", "mode": "pro" },
        "include": ["reasoning.encrypted_content", "reasoning.encrypted_content"],
        "metadata": { "a": "b" },
        "store": true,
        "background": true,
        "stream": true,
        "stream_options": { "include_obfuscation": false },
        "truncation": "auto",
        "service_tier": "flex",
        "top_logprobs": 20,
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "frequency_penalty": -2,
        "presence_penalty": 0.5,
        "stop": "END",
        "seed": -7,
        "on_disconnect": "cancel",
        "generate": true,
        "client_metadata": { "a": "b" },
    });
    let expected = CreateResponse {
        model: Some("m".into()),
        input: Some(InputBody::Items(vec![json!({ "role": "user", "content": "hi" })])),
        instructions: Some("Be brief.".into()),
        previous_response_id: Some("resp_1".into()),
        conversation: None,
        tools: ToolsAsWritten(vec![json!({ "type": "web_search" })]),
        tool_choice: Some(json!("required")),
        parallel_tool_calls: Some(false),
        max_tool_calls: Some(3),
        max_output_tokens: Some(1),
        temperature: Some(2.0),
        top_p: Some(0.5),
        text: TextOptions { format: AnswerFormat::Text, verbosity: Some("low".into()) },
        reasoning: ReasoningOptions {
            effort: Some("high".into()),
            summary: Some("auto".into()),
            context: Some("all_turns".into()),
            mode: Some("pro".into()),
        },
        include: vec!["reasoning.encrypted_content".into()],
        metadata: BTreeMap::from([("a".into(), "b".into())]),
        store: Some(true),
        background: Some(true),
        stream: Some(true),
        stream_options: Some(StreamOptions { include_obfuscation: Some(false) }),
        truncation: Some("auto".into()),
        service_tier: Some("flex".into()),
        top_logprobs: Some(20),
        frequency_penalty: Some(-2.0),
        presence_penalty: Some(0.5),
        stop: vec!["END".into()],
        seed: Some(-7),
        user: Some("u".into()),
        safety_identifier: Some("s".into()),
        prompt_cache_key: Some("k".into()),
        prompt_cache_retention: Some("24h".into()),
        on_disconnect: Some(OnDisconnect::Cancel),
        generate: Some(true),
        ignored: vec!["client_metadata".into()],
    };
    assert_eq!(read(body).unwrap(), expected);
}

/// Official clients send null for omitted fields, and fields that have no effect here.
#[test]
fn null_is_absent_and_what_means_nothing_here_is_reported() {
    let known = [
        "model",
        "instructions",
        "previous_response_id",
        "conversation",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "text",
        "reasoning",
        "include",
        "metadata",
        "store",
        "background",
        "stream",
        "stream_options",
        "truncation",
        "service_tier",
        "top_logprobs",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "on_disconnect",
        "generate",
        "prompt",
        "moderation",
        "frequency_penalty",
        "presence_penalty",
        "stop",
        "seed",
        "no_such_field",
    ];
    let mut body: Map<String, Value> =
        known.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    body.insert("input".into(), json!("hi"));
    body.insert("client_metadata".into(), json!({ "x": 1 }));
    for name in ["access_programs", "context_management", "image"] {
        body.insert(name.into(), json!([{ "type": "x" }]));
    }
    body.insert("prompt_cache_options".into(), json!({}));
    let ignored = ["access_programs", "client_metadata", "context_management", "image"];
    let ignored = ignored.map(str::to_owned).to_vec();
    let expected = CreateResponse { ignored, ..says("hi") };
    assert_eq!(read(Value::Object(body)).unwrap(), expected, "an empty object says nothing");
}

/// C30: an unknown field is refused in all objects that are written by hand.
#[test]
fn an_unknown_field_is_refused() {
    for (more, param) in [
        (json!({ "stpo": "x" }), "stpo"),
        (json!({ "text": { "verbsity": "low" } }), "text.verbsity"),
        (json!({ "text": { "format": { "type": "text", "x": 1 } } }), "text.format.x"),
        (json!({ "reasoning": { "efort": "low" } }), "reasoning.efort"),
        (json!({ "stream_options": { "include_usage": true } }), "stream_options.include_usage"),
        (json!({ "conversation": { "id": "c", "x": 1 } }), "conversation.x"),
    ] {
        let refused = read(with(more)).unwrap_err();
        assert_eq!((refused.code, refused.param.as_deref()), ("unknown_parameter", Some(param)));
    }
}

fn tools_of(request: &CreateResponse) -> Result<RequestedTools, ClientError> {
    read_tools(&crate::fields::placed(&request.tools.0, "tools").collect::<Vec<_>>(), &limits())
}

/// The request of the Codex command line.
#[test]
fn what_codex_sends_is_read() {
    let body = json!({
        "model": "gpt-5-codex",
        "instructions": "You are a coding agent.",
        "input": [
            { "type": "message", "role": "developer", "content": [
                { "type": "input_text", "text": "<permissions>" } ] },
            { "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": "hi" } ] },
        ],
        "tools": [
            { "type": "function", "name": "shell", "description": "Runs.", "strict": false,
              "parameters": { "type": "object", "properties": {} } },
            { "type": "namespace", "name": "mcp__notes", "description": "Notes.", "tools": [
                { "type": "function", "name": "add", "parameters": { "type": "object" } } ] },
            { "type": "web_search", "external_web_access": false },
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "reasoning": { "effort": "medium", "summary": "auto", "context": "all_turns" },
        "store": false,
        "stream": true,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199",
        "text": { "verbosity": "medium" },
        "client_metadata": { "x-codex-installation-id": "1" },
    });
    let request = read(body).unwrap();
    assert!(request.includes("reasoning.encrypted_content"));
    assert!(request.cancels_on_disconnect());
    let requested_tools = tools_of(&request).unwrap();
    assert_eq!(requested_tools.tools.len(), 3);
    assert_eq!(requested_tools.ignored, Vec::<String>::new());
    assert_eq!(request.ignored, ["client_metadata"]);
    let input =
        read_input(request.input.as_ref().unwrap(), &ResolvedReferences::default()).unwrap();
    assert_eq!(input.items.len(), 2);
}

/// The schema requires nothing that a request may omit, and has every field.
#[test]
fn the_schema_describes_the_body() {
    use utoipa::{PartialSchema, ToSchema};
    let schema = serde_json::to_value(CreateResponse::schema()).unwrap();
    assert_eq!(schema.get("required"), None);
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(properties.len(), 33);
    assert!(properties.contains_key("on_disconnect"));
    assert_eq!(CreateResponse::name(), "CreateResponse");
    let format = serde_json::to_value(AnswerFormat::schema()).unwrap().to_string();
    assert!(format.contains(r#"["name","schema","type"]"#), "{format}");
}

#[test]
fn the_body_is_an_object() {
    for body in [json!([]), json!("hi"), Value::Null] {
        let message = "The body must be a JSON object.".to_owned();
        assert_eq!(refused(body), (message, None, "invalid_type"));
    }
}

#[test]
fn there_must_be_something_to_say() {
    for body in [json!({}), json!({ "input": [] }), json!({ "input": null })] {
        let (message, param, code) = refused(body);
        assert_eq!(message, "`input` is missing.");
        assert_eq!((param.as_deref(), code), (Some("input"), "missing_required_parameter"));
    }
    assert!(read(json!({ "previous_response_id": "resp_1" })).is_ok());
    assert!(read(json!({ "conversation": "conv_1" })).is_ok());
    assert!(read(json!({ "generate": false })).is_ok(), "a socket that gets ready");
    assert!(read(json!({ "input": "" })).is_ok());
}

#[test]
fn a_conversation_is_an_id_or_an_object_with_one() {
    for conversation in [json!("conv_1"), json!({ "id": "conv_1" })] {
        let request = read(with(json!({ "conversation": conversation }))).unwrap();
        assert_eq!(request.conversation.as_deref(), Some("conv_1"));
    }
    let (_, param, code) = refused_with(json!({ "conversation": {} }));
    assert_eq!((param.as_str(), code), ("conversation.id", "missing_required_parameter"));
    let (message, param, code) = refused_with(json!({ "conversation": 1 }));
    assert_eq!(message, "`conversation` must be a string or an object, not a number.");
    assert_eq!((param.as_str(), code), ("conversation", "invalid_type"));
}

/// The error names each field of the wrong type and the expected type.
#[test]
fn wrong_types_are_named() {
    let cases = [
        (json!({ "model": 1 }), "model", "a string"),
        (json!({ "input": 1 }), "input", "a string or a list"),
        (json!({ "instructions": 1 }), "instructions", "a string"),
        (json!({ "previous_response_id": 1 }), "previous_response_id", "a string"),
        (json!({ "tools": 1 }), "tools", "a list"),
        (json!({ "parallel_tool_calls": 1 }), "parallel_tool_calls", "a boolean"),
        (json!({ "text": 1 }), "text", "an object"),
        (json!({ "text": { "format": 1 } }), "text.format", "an object"),
        (json!({ "reasoning": 1 }), "reasoning", "an object"),
        (json!({ "include": 1 }), "include", "a list"),
        (json!({ "include": [1] }), "include[0]", "a string"),
        (json!({ "metadata": 1 }), "metadata", "an object"),
        (json!({ "metadata": { "a": 1 } }), "metadata.a", "a string"),
        (json!({ "store": 1 }), "store", "a boolean"),
        (json!({ "background": 1 }), "background", "a boolean"),
        (json!({ "stream": 1 }), "stream", "a boolean"),
        (json!({ "stream_options": 1 }), "stream_options", "an object"),
        (json!({ "truncation": 1 }), "truncation", "a string"),
        (json!({ "service_tier": 1 }), "service_tier", "a string"),
        (json!({ "user": 1 }), "user", "a string"),
        (json!({ "safety_identifier": 1 }), "safety_identifier", "a string"),
        (json!({ "prompt_cache_key": 1 }), "prompt_cache_key", "a string"),
        (json!({ "prompt_cache_retention": 1 }), "prompt_cache_retention", "a string"),
        (json!({ "on_disconnect": 1 }), "on_disconnect", "a string"),
        (json!({ "generate": 1 }), "generate", "a boolean"),
    ];
    for (fields, param, expected) in cases {
        let message = format!("`{param}` must be {expected}, not a number.");
        assert_eq!(refused_with(fields), (message, param.to_owned(), "invalid_type"));
    }
    for (name, expected) in [
        ("temperature", "a number"),
        ("top_p", "a number"),
        ("max_output_tokens", "a whole number"),
        ("max_tool_calls", "a whole number"),
        ("top_logprobs", "a whole number"),
    ] {
        let message = format!("`{name}` must be {expected}, not a string.");
        let told = refused_with(json!({ name: "1" }));
        assert_eq!(told, (message, name.to_owned(), "invalid_type"));
    }
}

#[test]
fn numbers_have_bounds() {
    let cases = [
        (json!({ "temperature": 2.1 }), "temperature", "between 0 and 2, not 2.1."),
        (json!({ "temperature": -1 }), "temperature", "between 0 and 2, not -1."),
        (json!({ "top_p": 1.5 }), "top_p", "between 0 and 1, not 1.5."),
        (
            json!({ "max_output_tokens": 0 }),
            "max_output_tokens",
            "a whole number between 1 and 4294967295, not 0.",
        ),
        (
            json!({ "max_tool_calls": 1.5 }),
            "max_tool_calls",
            "a whole number between 1 and 4294967295, not 1.5.",
        ),
        (json!({ "top_logprobs": 21 }), "top_logprobs", "a whole number between 0 and 20, not 21."),
        (json!({ "top_logprobs": -1 }), "top_logprobs", "a whole number between 0 and 20, not -1."),
    ];
    for (fields, param, expected) in cases {
        let message = format!("`{param}` must be {expected}");
        assert_eq!(refused_with(fields), (message, param.to_owned(), "invalid_value"));
    }
}

#[test]
fn words_are_known_ones() {
    let cases = [
        (json!({ "truncation": "x" }), "truncation", "`auto`, `disabled`"),
        (json!({ "on_disconnect": "x" }), "on_disconnect", "`continue`, `cancel`"),
        (json!({ "text": { "verbosity": "x" } }), "text.verbosity", "`low`, `medium`, `high`"),
        (
            json!({ "text": { "format": { "type": "x" } } }),
            "text.format.type",
            "`text`, `json_object`, `json_schema`",
        ),
        (
            json!({ "reasoning": { "effort": "x" } }),
            "reasoning.effort",
            "`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`",
        ),
        (
            json!({ "reasoning": { "summary": "x" } }),
            "reasoning.summary",
            "`auto`, `concise`, `detailed`",
        ),
    ];
    for (fields, param, words) in cases {
        let message = format!("`{param}` is `x`; it must be one of {words}.");
        assert_eq!(refused_with(fields), (message, param.to_owned(), "invalid_value"));
    }
}

#[test]
fn include_knows_eight_words() {
    let request = read(with(json!({ "include": INCLUDABLE }))).unwrap();
    assert_eq!(request.include, INCLUDABLE);
    let (message, param, code) = refused_with(json!({ "include": [INCLUDABLE[0], "secrets"] }));
    assert!(message.starts_with("`include[1]` is `secrets`; it must be one of `file_search_call"));
    assert_eq!((param.as_str(), code), ("include[1]", "invalid_value"));
}

/// Long input or control characters are not repeated in a message.
#[test]
fn messages_stay_short_and_tame() {
    let (message, ..) = refused_with(json!({ "truncation": "\u{1b}[2J".repeat(1000) }));
    assert!(message.chars().count() < 200, "{message}");
    assert!(!message.contains('\u{1b}'));
}

#[test]
fn an_older_name_for_summaries() {
    let request = read(with(json!({ "reasoning": { "generate_summary": "concise" } }))).unwrap();
    assert_eq!(request.reasoning.summary.as_deref(), Some("concise"));
}

/// The limits of metadata, and one more of each.
#[test]
fn metadata_has_limits() {
    let pairs = |n: usize| (0..n).map(|n| (n.to_string(), json!("v"))).collect::<Map<_, _>>();
    assert_eq!(read(with(json!({ "metadata": pairs(16) }))).unwrap().metadata.len(), 16);
    let ok = json!({ "metadata": { "ä".repeat(64): "ä".repeat(512) } });
    assert!(read(with(ok)).is_ok());
    let cases = [
        (json!(pairs(17)), "`metadata` may have at most 16 pairs."),
        (json!({ "k".repeat(65): "v" }), "A key of `metadata` may have at most 64 characters."),
        (json!({ "k": "v".repeat(513) }), "A value of `metadata` may have at most 512 characters."),
    ];
    for (metadata, message) in cases {
        let told = refused_with(json!({ "metadata": metadata }));
        assert_eq!(told, (message.to_owned(), "metadata".to_owned(), "metadata_too_large"));
        let body = json!({ "metadata": metadata });
        assert_eq!(read_metadata(body.as_object().unwrap()).unwrap_err().message, message);
    }
}

#[test]
fn an_answer_may_have_to_fit_a_schema() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let format = json!({ "type": "json_schema", "name": "answer", "schema": schema });
    let request = read(with(json!({ "text": { "format": format } }))).unwrap();
    let expected = AnswerFormat::JsonSchema {
        name: "answer".into(),
        description: None,
        schema: schema.clone(),
        strict: false,
    };
    assert_eq!(request.text.format, expected);
    let object = json!({ "text": { "format": { "type": "json_object" } } });
    assert_eq!(read(with(object)).unwrap().text.format, AnswerFormat::JsonObject);

    let refused = |format: Value| {
        let (_, param, code) = refused_with(json!({ "text": { "format": format } }));
        (param, code)
    };
    let missing = "missing_required_parameter";
    assert_eq!(refused(json!({})), ("text.format.type".into(), missing));
    let no_name = json!({ "type": "json_schema", "schema": schema });
    assert_eq!(refused(no_name), ("text.format.name".into(), missing));
    let no_schema = json!({ "type": "json_schema", "name": "a" });
    assert_eq!(refused(no_schema), ("text.format.schema".into(), missing));
    let bad_name = json!({ "type": "json_schema", "name": "a b", "schema": schema });
    assert_eq!(refused(bad_name), ("text.format.name".into(), "invalid_value"));
    let long = json!({ "description": "x".repeat(limits().schema_bytes) });
    let too_long = json!({ "type": "json_schema", "name": "a", "schema": long });
    assert_eq!(refused(too_long), ("text.format.schema".into(), "schema_too_large"));
}

#[test]
fn two_fields_may_not_go_together() {
    let both = json!({ "previous_response_id": "resp_1", "conversation": "conv_1" });
    let (message, param, code) = refused_with(both);
    assert_eq!(
        message,
        "`previous_response_id` and `conversation` cannot be used together; send one of them."
    );
    let exclusive = "mutually_exclusive_parameters";
    assert_eq!((param.as_str(), code), ("previous_response_id", exclusive));

    let (message, param, code) = refused_with(json!({ "background": true, "store": false }));
    assert_eq!(message, "A background response must be stored; leave out `store: false`.");
    assert_eq!((param.as_str(), code), ("background", "invalid_value"));

    // `stream_options` without `stream` are accepted.
    assert!(read(with(json!({ "stream_options": {} }))).is_ok());
}

#[test]
fn prompts_kept_elsewhere_are_refused() {
    let (_, param, code) = refused_with(json!({ "prompt": { "id": "pmpt_1" } }));
    assert_eq!((param.as_str(), code), ("prompt", "unsupported_parameter"));
}

/// R10: a run continues after a disconnect, unless the client asks otherwise or the response is not
/// stored.
#[test]
fn what_a_hang_up_means() {
    let cancels = |fields: Value| read(with(fields)).unwrap().cancels_on_disconnect();
    assert!(!cancels(json!({})));
    assert!(!cancels(json!({ "store": true })));
    assert!(cancels(json!({ "store": false })));
    assert!(cancels(json!({ "on_disconnect": "cancel" })));
    assert!(!cancels(json!({ "store": false, "on_disconnect": "continue" })));
}

/// A12: the `Debug` output of a request contains no token.
#[test]
fn secrets_are_not_printed() {
    let secret = "sk-canary";
    let tool = json!({
        "type": "mcp", "server_label": "notes", "server_url": format!("https://h/?t={secret}"),
        "authorization": secret, "headers": { "X-Key": secret },
    });
    let request = read(with(json!({ "tools": [tool] }))).unwrap();
    assert!(!format!("{request:?}").contains(secret));
    let requested_tools = tools_of(&request).unwrap();
    assert!(!format!("{requested_tools:?}").contains(secret));
}

#[test]
fn an_unreadable_body_is_a_client_error() {
    let error =
        ClientError::from(crate::json::read(b"{", &crate::JsonLimits::default()).unwrap_err());
    assert_eq!((error.param, error.code, error.status), (None, "invalid_json", 400));
}

/// Values that resemble a request more often than random ones.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "message",
        "user",
        "assistant",
        "function",
        "mcp",
        "function_call",
        "function_call_output",
        "reasoning",
        "item_reference",
        "compaction",
        "mcp_call",
        "web_search_call",
        "file_search_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "input_text",
        "input_image",
        "input_file",
        "refusal",
        "namespace",
        "web_search",
        "file_search",
        "allowed_tools",
        "auto",
        "always",
        "never",
        "json_schema",
        "data:image/png;base64,AA==",
        "data:,",
        "https://h/a?b",
        "http://",
        "é",
        "",
    ]);
    let key = prop::sample::select(vec![
        "type",
        "role",
        "content",
        "text",
        "name",
        "arguments",
        "call_id",
        "id",
        "output",
        "summary",
        "encrypted_content",
        "server_label",
        "server_url",
        "action",
        "queries",
        "results",
        "error",
        "approve",
        "approval_request_id",
        "image_url",
        "file_id",
        "file_data",
        "filename",
        "file_url",
        "tools",
        "tool_choice",
        "input",
        "model",
        "parameters",
        "format",
        "schema",
        "mode",
        "allowed_tools",
        "require_approval",
        "tool_names",
        "headers",
        "metadata",
        "conversation",
        "reasoning",
        "include",
        "status",
        "sources",
    ]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        4 => word.prop_map(Value::from),
        1 => ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let key = key.clone().prop_map(str::to_owned);
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            3 => prop::collection::hash_map(key, inner, 0..8)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// All steps for a body, as far as they succeed.
fn all_the_way(body: Value) -> Result<turnwire_contract::RunRequest, ClientError> {
    let request = read(body)?;
    let requested_tools = tools_of(&request)?;
    let (tool_choice, _) =
        read_choice(request.tool_choice.as_ref(), requested_tools.tools, &["own"])?;
    let mut input = Input::default();
    if let Some(body) = &request.input {
        references(body);
        input = read_input(body, &ResolvedReferences::default())?;
    }
    let no_history: [turnwire_contract::Item; 0] = [];
    check_calls(&no_history, &input.items)?;
    let first_calls = take_first_calls(&no_history, &mut input, |_| None)?;
    let input = input.items;
    Ok(into_run(
        request,
        ResolvedRequest { input, first_calls, tool_choice, ..ResolvedRequest::default() },
    ))
}

proptest! {
    /// A13: no body causes a panic, and every error has a code and a message.
    #[test]
    fn no_body_makes_it_panic(
        body in any_json(),
        input in prop::collection::vec(any_json(), 0..4),
        tools in prop::collection::vec(any_json(), 0..4),
        tool_choice in any_json(),
    ) {
        for body in [body, json!({ "input": input, "tools": tools, "tool_choice": tool_choice })] {
            if let Err(error) = all_the_way(body) {
                prop_assert!(error.message.ends_with(['.', '?']), "{}", error.message);
                prop_assert!(!error.code.is_empty());
                prop_assert!(error.status == 400 || error.status == 404);
            }
        }
    }
}
