use serde_json::json;
use turnwire_contract::Seq;

use super::*;

#[track_caller]
fn check(text: &str, expected: WsRequest) {
    assert_eq!(WsRequest::read(text), Ok(expected));
}

#[track_caller]
fn check_refused(text: &str, reason: &str) {
    assert_eq!(WsRequest::read(text), Err(reason.to_owned()));
}

/// S2-1, S2-6.
#[test]
fn a_message_says_something_in_a_conversation() {
    let expected = WsRequest::Message {
        conversation_id: ConversationId::new("conv_1"),
        content: "multiply 5 and 4".to_owned(),
    };
    check(
        r#"{"type":"message","conversation_id":"conv_1","content":"multiply 5 and 4"}"#,
        expected.clone(),
    );
    check(
        r#"{"content":"multiply 5 and 4","type":"message","conversation_id":"conv_1"}"#,
        expected,
    );
}

/// C30: an unknown field is refused.
#[test]
fn an_unknown_field_is_refused() {
    let refused = |text: &str| WsRequest::read(text).unwrap_err();
    let message = r#"{"type":"message","conversation_id":"c","content":"x","modle":"m"}"#;
    assert_eq!(refused(message), "unknown field `modle`, expected `conversation_id` or `content`");
    let approval = r#"{"type":"approval","tool_call_id":"c","approved":true,"rember":true}"#;
    assert!(refused(approval).starts_with("unknown field `rember`"));
}

/// S2-1.
#[test]
fn ping_needs_nothing_else() {
    check(r#"{"type":"ping"}"#, WsRequest::Ping);
    check(r#"{"type":"ping","nonce":7}"#, WsRequest::Ping);
}

/// S2-6.
#[test]
fn what_is_wrong_with_a_message_is_said() {
    check_refused("hello", "a message is a JSON object: expected value at line 1 column 1");
    check_refused("", "a message is a JSON object: EOF while parsing a value at line 1 column 0");
    check_refused(r#""message""#, "a message is a JSON object");
    check_refused("[]", "a message is a JSON object");
    check_refused("{}", "missing field `type`");
    check_refused(r#"{"type":"message","content":"x"}"#, "missing field `conversation_id`");
    check_refused(r#"{"type":"message","conversation_id":"c"}"#, "missing field `content`");
    check_refused(
        r#"{"type":"message","conversation_id":"c","content":""}"#,
        "content must not be empty",
    );
    check_refused(
        r#"{"type":"message","conversation_id":"","content":"x"}"#,
        "conversation_id must not be empty",
    );
    let wrong = WsRequest::read(r#"{"type":"message","conversation_id":"c","content":7}"#);
    assert_eq!(wrong, Err("invalid type: integer `7`, expected a string".to_owned()));
    let unknown = WsRequest::read(r#"{"type":"token"}"#).unwrap_err();
    assert!(unknown.starts_with("unknown variant `token`, expected one of `message`, `ping`"));
}

/// S2-6, S2-21: an error repeats client input, so it is short and cleaned.
#[test]
fn a_complaint_cannot_be_abused() {
    let hostile = json!({ "type": format!("\u{1b}]0;x\u{7}{}", "é".repeat(100_000)) });
    let complaint = WsRequest::read(&hostile.to_string()).unwrap_err();
    assert!(complaint.chars().count() <= 200 && !complaint.contains(char::is_control));
}

/// S2-F3, S2-F4, S2-Q5.
#[test]
fn calls_and_turns_can_be_steered() {
    let tool_call_id = CallId::from("call_1");
    check(
        r#"{"type":"tool_cancel","tool_call_id":"call_1"}"#,
        WsRequest::ToolCancel { tool_call_id: tool_call_id.clone() },
    );
    check(
        r#"{"type":"tool_retry","tool_call_id":"call_1"}"#,
        WsRequest::ToolRetry { tool_call_id: tool_call_id.clone(), arguments: None },
    );
    let Value::Object(corrected) = json!({ "city": "Rome" }) else { unreachable!() };
    check(
        r#"{"type":"tool_retry","tool_call_id":"call_1","arguments":{"city":"Rome"}}"#,
        WsRequest::ToolRetry { tool_call_id: tool_call_id.clone(), arguments: Some(corrected) },
    );
    check_refused(
        r#"{"type":"tool_retry","tool_call_id":"call_1","arguments":"Rome"}"#,
        "invalid type: string \"Rome\", expected a map",
    );
    check(
        r#"{"type":"approval","tool_call_id":"call_1","approved":true}"#,
        WsRequest::Approval {
            tool_call_id,
            approved: true,
            reason: String::new(),
            arguments: None,
            remember: false,
        },
    );
    check(r#"{"type":"cancel"}"#, WsRequest::Cancel);
    check(r#"{"type":"tools"}"#, WsRequest::Tools);
}

#[test]
fn a_client_says_where_it_goes_on() {
    let after = Cursor::new(Seq(12), 3);
    check(
        r#"{"type":"resume","run_id":"run_1","after":"12.3"}"#,
        WsRequest::Resume { run_id: Some(RunId::new("run_1")), after },
    );
    check(r#"{"type":"resume"}"#, WsRequest::Resume { run_id: None, after: Cursor::START });
    assert!(WsRequest::read(r#"{"type":"resume","after":"x"}"#).unwrap_err().contains("12.0"));
}

/// S2-Q2.
#[test]
fn a_client_says_what_it_understands() {
    check(r#"{"type":"hello"}"#, WsRequest::Hello(WsOptions::default()));
    check(
        r#"{"type":"hello","chunks":true,"progress":true,"tools":true,"approvals":true,"inputs":true,"output":true,"resume":true,"later":1}"#,
        WsRequest::Hello(WsOptions {
            chunks: true,
            progress: true,
            tools: true,
            approvals: true,
            inputs: true,
            output: true,
            resume: true,
        }),
    );
}
