use serde_json::json;
use turnwire_contract::{CallId, ToolKind};
use turnwire_surfaces::ag_ui::{InterruptTarget, ProtocolVersion};

use super::*;

fn body(more: Value) -> Value {
    let mut body = json!({ "threadId": "t", "runId": "r", "messages": [] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn read(body: Value) -> Result<AgentRequest> {
    AgentRequest::read(body, &RequestLimits::default())
}

/// AG-UI 2.2: what the official clients send, and fields that nobody knows.
#[test]
fn a_request_is_read() {
    let request = read(body(json!({
        "protocolVersion": "1.0",
        "parentRunId": "p",
        "state": null,
        "novelty": { "x": 1 },
        "tools": [{ "name": "locate", "description": "Where?", "parameters": { "type": "object" }, "metadata": {} }],
        "context": [{ "description": "page", "value": "/home" }],
        "forwardedProps": { "theirs": 1, "turnwire": { "model": "small", "on_disconnect": "cancel" } },
        "messages": [
            { "id": "1", "role": "user", "content": "?", "name": null },
            { "id": "2", "role": "activity", "activityType": "x", "content": {} },
        ],
        "resume": [{ "interruptId": "approval:run_1:call_1", "status": "resolved", "payload": { "approved": true } }],
    })))
    .unwrap();
    let Origin { thread_id, run_id, parent_run_id, messages, .. } = &request.origin;
    assert_eq!(
        (thread_id.as_str(), run_id.as_str(), parent_run_id.as_deref()),
        ("t", "r", Some("p"))
    );
    assert_eq!(*messages, [json!({ "id": "1", "role": "user", "content": "?" })], "no null");
    assert_eq!(request.origin.version(), ProtocolVersion::V1);
    assert_eq!(request.tools[0].kind, ToolKind::Client);
    assert!(request.context_text().unwrap().ends_with("\npage: /home"));
    assert_eq!(request.options.model.as_deref(), Some("small"));
    assert_eq!(request.options.on_disconnect, Some(OnDisconnect::Cancel));
    let target = InterruptTarget::Approval(CallId::from("call_1"));
    assert_eq!(request.answers[0].id.target, target);
}

/// AG-UI 2.2: a client before 1.0 names no version.
#[test]
fn an_earlier_client_is_recognised() {
    assert_eq!(read(body(json!({}))).unwrap().origin.version(), ProtocolVersion::Before1);
    let (early, late) = (json!({ "protocolVersion": "0.9" }), json!({ "protocolVersion": "2.0" }));
    assert_eq!(read(body(early)).unwrap().origin.version(), ProtocolVersion::Before1);
    assert_eq!(read(body(late)).unwrap().origin.version(), ProtocolVersion::V1);
}

/// AG-UI 2.2: what is wrong is refused before the stream begins, by name.
#[test]
fn what_is_wrong_is_named() {
    for (more, param) in [
        (json!({ "threadId": null }), "threadId"),
        (json!({ "threadId": "" }), "threadId"),
        (json!({ "runId": "a\nb" }), "runId"),
        (json!({ "runId": "x".repeat(256) }), "runId"),
        (json!({ "runId": 7 }), "runId"),
        (json!({ "messages": null }), "messages"),
        (json!({ "messages": [{}] }), "messages[0].role"),
        (json!({ "tools": [{ "name": "no spaces" }] }), "tools[0].name"),
        (json!({ "tools": [{ "description": "x" }] }), "tools[0].name"),
        (json!({ "resume": [{ "status": "resolved" }] }), "resume[0].interruptId"),
        (json!({ "resume": [{ "interruptId": "approval:a:b" }] }), "resume[0].status"),
        (
            json!({ "resume": [{ "interruptId": "x", "status": "resolved" }] }),
            "resume[0].interruptId",
        ),
        (
            json!({ "resume": [{ "interruptId": "approval:a:b", "status": "resolved", "payload": 1 }] }),
            "resume[0].payload",
        ),
        (
            json!({ "forwardedProps": { "turnwire": { "on_disconnect": "explode" } } }),
            "forwardedProps.turnwire.on_disconnect",
        ),
    ] {
        let error = read(body(more.clone())).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{more} {}", error.message);
    }
}
