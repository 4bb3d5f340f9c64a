use serde_json::json;
use utoipa::PartialSchema;

use super::*;

fn noon() -> Timestamp {
    serde_json::from_value(json!("2025-10-26T12:00:00.123456Z")).unwrap()
}

fn read(message: &Value) -> Result<WsMessage, String> {
    WsMessage::read(&message.to_string(), noon())
}

fn start() -> Value {
    json!({
        "type": "tool_start",
        "tool_call_id": "call_1",
        "tool_name": "multiply",
        "tool_input": r#"{"a":5,"b":4}"#,
        "timestamp": "2025-10-26T15:30:45.500000Z",
        "kind": "mcp",
        "server": "math",
    })
}

fn end() -> Value {
    json!({
        "type": "tool_complete",
        "tool_call_id": "call_1",
        "tool_name": "multiply",
        "tool_result": "20",
        "timestamp": "2025-10-26T15:30:46.000000Z",
        "kind": "function",
        "duration_ms": 42,
        "empty": true,
        "truncated": true,
        "result_bytes": 99,
        "result_ref": "/v1/runs/run_1/calls/call_1/result",
    })
}

fn without(mut message: Value, field: &str) -> Value {
    message.as_object_mut().unwrap().remove(field).unwrap();
    message
}

fn with(mut message: Value, field: &str, value: &str) -> Value {
    message[field] = json!(value);
    message
}

/// S2-U1, S2-U5.
#[test]
fn a_tool_message_with_all_fields_is_valid() {
    for message in [start(), end()] {
        let valid = read(&message).unwrap();
        assert_eq!(serde_json::to_value(valid).unwrap(), message);
    }
    let built = ToolStart::new("call_1", "multiply", "{}", noon()).unwrap();
    assert_eq!((built.tool_name.as_str(), built.tool_input.as_str()), ("multiply", "{}"));
    let built = ToolComplete::new("call_1", "multiply", "20", noon()).unwrap();
    assert_eq!((built.tool_name.as_str(), built.tool_result.as_str()), ("multiply", "20"));
}

/// S2-U2, S2-U6: This crate has no clock, so the reader passes the time (S2-13).
#[test]
fn a_tool_message_without_a_time_is_dated() {
    for message in [start(), end()] {
        let dated = read(&without(message.clone(), "timestamp")).unwrap();
        assert_eq!(
            serde_json::to_value(dated).unwrap(),
            with(message, "timestamp", "2025-10-26T12:00:00.123456Z")
        );
    }
}

/// S2-U3, S2-U7.
#[test]
fn a_tool_message_needs_a_name() {
    for message in [start(), end()] {
        let missing = read(&without(message.clone(), "tool_name")).unwrap_err();
        assert_eq!(missing, "missing field `tool_name`");
        assert!(read(&with(message, "tool_name", "")).is_err());
    }
    assert_eq!(ToolStart::new("c", "", "{}", noon()), Err(EmptyField("tool_name")));
    assert_eq!(ToolComplete::new("c", "", "20", noon()), Err(EmptyField("tool_name")));
}

/// S2-U4.
#[test]
fn a_start_needs_an_input() {
    assert_eq!(read(&without(start(), "tool_input")).unwrap_err(), "missing field `tool_input`");
    assert!(read(&with(start(), "tool_input", "")).is_err());
    let empty = ToolStart::new("c", "x", "", noon()).unwrap_err();
    assert_eq!(empty.to_string(), "tool_input must not be empty");
}

/// S2-U8.
#[test]
fn an_end_needs_a_result() {
    assert_eq!(read(&without(end(), "tool_result")).unwrap_err(), "missing field `tool_result`");
    assert!(read(&with(end(), "tool_result", "")).is_err());
    assert_eq!(ToolComplete::new("c", "x", "", noon()), Err(EmptyField("tool_result")));
}

/// S2-14.
#[test]
fn an_input_or_result_that_is_no_text_is_refused() {
    let mut message = start();
    message["tool_input"] = json!({ "a": 5 });
    assert!(read(&message).is_err());
    let mut message = end();
    message["tool_result"] = json!(20);
    assert!(read(&message).is_err());
}

/// R12.
#[test]
fn a_tool_message_needs_the_id_of_its_call() {
    for message in [start(), end()] {
        assert!(read(&without(message, "tool_call_id")).is_err());
    }
}

/// S2-U9, S2-U10, S2-U11.
#[test]
fn what_is_written_is_json_with_iso_times_and_every_field() {
    let built = ToolStart::new("call_1", "multiply", r#"{"a":5}"#, noon()).unwrap();
    let text = serde_json::to_string(&WsMessage::ToolStart(built)).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        written,
        json!({
            "type": "tool_start",
            "tool_call_id": "call_1",
            "tool_name": "multiply",
            "tool_input": r#"{"a":5}"#,
            "timestamp": "2025-10-26T12:00:00.123456Z",
            "kind": "function",
        })
    );
    let built = ToolComplete::new("call_1", "multiply", "20", noon()).unwrap();
    let text = serde_json::to_string(&WsMessage::ToolComplete(built)).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        written,
        json!({
            "type": "tool_complete",
            "tool_call_id": "call_1",
            "tool_name": "multiply",
            "tool_result": "20",
            "timestamp": "2025-10-26T12:00:00.123456Z",
            "kind": "function",
            "duration_ms": 0,
        })
    );
}

/// The original messages, without later additions (S2-20).
#[test]
fn messages_of_old_still_read() {
    let old = [
        json!({ "type": "token", "content": "Hi" }),
        json!({ "type": "complete", "message_id": "m", "conversation_id": "c" }),
        json!({ "type": "error", "message": "no" }),
        json!({ "type": "error", "message": "no", "code": "LLM_ERROR" }),
        json!({ "type": "pong" }),
    ];
    for message in old {
        let written = serde_json::to_value(read(&message).unwrap()).unwrap();
        for (field, value) in message.as_object().unwrap() {
            assert_eq!(written.get(field), Some(value));
        }
    }
}

/// S2-1.
#[test]
fn the_types_are_lower_case_words() {
    let schema = serde_json::to_value(WsMessage::schema()).unwrap().to_string();
    let names = [
        "token",
        "complete",
        "error",
        "pong",
        "tool_start",
        "tool_complete",
        "started",
        "tool_progress",
        "tool_result_chunk",
        "tool_result_end",
        "approval_request",
        "tools",
    ];
    for name in names {
        assert!(schema.contains(&format!("[\"{name}\"]")), "{name} is not documented: {schema}");
    }
}

/// S2-4.
#[test]
fn an_error_has_a_message_and_one_of_five_codes() {
    let codes: Vec<&str> = ErrorCode::ALL.map(ErrorCode::as_str).into();
    assert_eq!(codes.join(" "), "INVALID_FORMAT ACCESS_DENIED LLM_ERROR INTERNAL_ERROR TOOL_ERROR");
    for code in ErrorCode::ALL {
        let refused = serde_json::to_value(WsMessage::refused(code, "no")).unwrap();
        let expected =
            json!({ "type": "error", "message": "no", "code": code.to_string(), "fatal": false });
        assert_eq!(refused, expected);
    }
    let closing = serde_json::to_value(WsMessage::closing(ErrorCode::AccessDenied, "bye")).unwrap();
    assert_eq!(closing["fatal"], json!(true));
}

/// S2-F5, S2-Q2.
#[test]
fn tools_come_with_their_descriptions_and_schemas() {
    let mut multiply = ToolSpec::new("multiply", "Multiplies two numbers.");
    multiply.parameters = json!({ "type": "object", "required": ["a", "b"] });
    let mut search = ToolSpec::new("search", "Searches.");
    (search.kind, search.server) = (ToolKind::Mcp, Some("docs".to_owned()));
    let message = serde_json::to_value(WsMessage::tools([&multiply, &search])).unwrap();
    assert_eq!(
        message,
        json!({ "type": "tools", "tools": [
            {
                "name": "multiply",
                "description": "Multiplies two numbers.",
                "parameters": { "type": "object", "required": ["a", "b"] },
                "kind": "function",
            },
            {
                "name": "search",
                "description": "Searches.",
                "parameters": { "type": "object", "properties": {} },
                "kind": "mcp",
                "server": "docs",
            },
        ] })
    );
}

#[test]
fn what_is_no_message_is_refused_with_a_sentence() {
    assert_eq!(read(&json!([])).unwrap_err(), "a message is a JSON object");
    assert!(WsMessage::read("{", noon()).unwrap_err().starts_with("a message is a JSON object: "));
    assert!(read(&json!({ "type": "nonsense" })).unwrap_err().contains("nonsense"));
}

/// The fields of a call are all present or all missing.
#[test]
fn the_schema_of_an_error_fits_errors_with_and_without_a_call() {
    let schema = serde_json::to_value(WsError::schema()).unwrap();
    let [call, error] = schema["allOf"].as_array().unwrap().as_slice() else { panic!("{schema}") };
    assert_eq!(call["$ref"], json!("#/components/schemas/WsFailedCall"));
    assert_eq!(error["required"], json!(["message", "fatal"]));
    let call = serde_json::to_value(MaybeFailedCall::schema()).unwrap();
    assert_eq!(call.get("required"), None);
    let failed = json!({
        "tool_call_id": "call_1",
        "tool_name": "x",
        "kind": "mcp",
        "server": "docs",
        "state": "timed out",
        "duration_ms": 1,
        "timestamp": "2025-10-26T15:30:46.000000Z",
    });
    let read: FailedCall = serde_json::from_value(failed.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), failed);
    let fields =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(fields(&call["properties"]), fields(&failed));
}
