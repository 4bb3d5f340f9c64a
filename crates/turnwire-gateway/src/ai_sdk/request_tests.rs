use serde_json::json;

use super::*;

fn answered(approval: Value) -> Value {
    json!({ "messages": [
        { "role": "user", "parts": [{ "type": "text", "text": "?" }] },
        { "role": "assistant", "parts": [
            { "type": "dynamic-tool", "toolName": "delete", "toolCallId": "call_1",
                "state": "approval-responded", "input": { "path": "/" }, "approval": approval },
        ] },
    ] })
}

fn error(body: Value) -> String {
    ChatRequest::read(body).unwrap_err().message
}

/// The ID of the request names the run and the call, and the decision is all that is read.
#[test]
fn an_answer_is_read_by_the_id_of_its_request() {
    let read = |approval| match ChatRequest::read(answered(approval)).unwrap().action {
        ChatAction::Approve(answers) => answers,
        action @ (ChatAction::Answer { .. } | ChatAction::Continue) => panic!("{action:?}"),
    };
    let answer = |decision: Decision| GivenAnswer {
        run_id: RunId::from("run_1"),
        call_id: CallId::from("call:1"),
        answer: ApprovalAnswer::from(decision).by("/ai-sdk/chat"),
    };
    let yes = json!({ "id": "run_1:call:1", "approved": true, "arguments": "{}" });
    assert_eq!(read(yes), [answer(Decision::Approved)]);
    let no = json!({ "id": "run_1:call:1", "approved": false, "reason": "no" });
    assert_eq!(read(no), [answer(Decision::Denied { reason: "no".to_owned() })]);
}

/// An approval without its ID or its decision is refused.
#[test]
fn half_an_answer_is_refused() {
    for odd in [json!({}), json!({ "id": "run_1:call_1" }), json!({ "id": "x", "approved": true })]
    {
        assert!(error(answered(odd.clone())).contains("approval needs the `id`"), "{odd}");
    }
}

/// The last message is new; there must be one.
#[test]
fn there_is_something_new() {
    let said = |role: &str| json!({ "messages": [{ "role": role, "parts": [] }] });
    assert!(error(json!({})).contains("`messages` is missing"));
    assert!(error(json!({ "messages": [] })).contains("must not be empty"));
    assert!(error(said("assistant")).contains("must be the user's"));
    assert!(error(said("system")).contains("must be the user's"));
    assert!(error(json!({ "messages": [{}] })).contains("must be the user's"));
    let action = ChatRequest::read(said("user")).unwrap().action;
    assert_eq!(action, ChatAction::Answer { rewind: false });
}

/// A message that is replaced or answered again takes the conversation back to it.
#[test]
fn a_page_can_go_back() {
    let rewinds = |more: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "parts": [] }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ChatRequest::read(body).unwrap().action == ChatAction::Answer { rewind: true }
    };
    assert!(rewinds(json!({ "trigger": "regenerate-message" })));
    assert!(rewinds(json!({ "trigger": "submit-message", "messageId": "m" })));
    assert!(!rewinds(json!({ "trigger": "submit-message", "messageId": null, "own": 1 })));
}

/// An ID that cannot be one is refused.
#[test]
fn chat_ids_have_a_length() {
    let chat = |id: &str| json!({ "id": id, "messages": [{ "role": "user", "parts": [] }] });
    assert!(ChatRequest::read(chat("abc/ü 1")).is_ok());
    assert!(error(chat("")).contains("1 to 256 bytes"));
    assert!(error(chat(&"x".repeat(257))).contains("1 to 256 bytes"));
    assert!(error(chat("a\0b")).contains("1 to 256 bytes"));
}
