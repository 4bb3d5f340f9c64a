use serde_json::json;
use turnwire_contract::{RunId, Seq, Timestamp};

use super::*;

/// Every kind of event. Whatever somebody contributed is `CANARY` or 7177.
fn journal() -> Vec<Value> {
    let failure = json!({ "code": "tool_failed", "message": "CANARY" });
    let outcomes = [
        json!({ "status": "succeeded", "output": {
            "text": "CANARY", "structured": { "CANARY": 7177 }, "short": "CANARY",
            "images": [{ "media_type": "CANARY", "base64": "CANARY" }],
            "rest": { "blob": "CANARY", "bytes": 7177 } } }),
        json!({ "status": "failed", "failure": failure }),
        json!({ "status": "timed_out", "after_ms": 5 }),
        json!({ "status": "cancelled" }),
        json!({ "status": "denied", "reason": "CANARY" }),
        json!({ "status": "invalid_arguments", "message": "CANARY" }),
        json!({ "status": "not_found", "message": "CANARY" }),
        json!({ "status": "skipped", "reason": "CANARY" }),
        json!({ "status": "outcome_unknown", "message": "CANARY" }),
    ];
    let usage = json!({ "input_tokens": 7177, "cached_tokens": 7177, "output_tokens": 7177,
        "reasoning_tokens": 7177 });
    let tool = json!({ "name": "t", "kind": "mcp", "server": "m" });
    let message = json!({ "type": "message", "role": "user",
        "content": [{ "type": "text", "text": "CANARY" }] });
    let spec = json!({ "name": "t", "description": "CANARY", "parameters": { "CANARY": 1 },
        "kind": "mcp", "server": "m", "effect": "once", "parallel": true, "changed": "CANARY",
        "title": "CANARY" });
    let mut events = vec![
        json!({ "type": "run_queued", "request": {
            "tenant": "CANARY", "model": "m", "instructions": "CANARY", "input": [message],
            "conversation_id": "CANARY", "metadata": { "CANARY": "CANARY" },
            "echo": { "CANARY": 7177 }, "parallel_tool_calls": true, "tools": [spec],
            "before": [{ "id": "CANARY", "item": message }],
            "servers": [{ "label": "m", "url": "https://CANARY/", "ask_before": "nothing" }],
            "first_calls": [{ "call_id": "c", "tool": tool, "arguments": "CANARY" }] } }),
        json!({ "type": "run_started" }),
        json!({ "type": "run_taken_over", "attempt": 2, "worker": "CANARY",
            "last_heard": "2026-01-01T00:00:00.000000Z" }),
        json!({ "type": "turn_started", "turn": 1 }),
        json!({ "type": "turn_retried", "turn": 1, "attempt": 2, "reason": failure, "delay_ms": 1 }),
        json!({ "type": "turn_abandoned", "turn": 1 }),
        json!({ "type": "part_skipped", "turn": 1, "bytes": 7177, "reason": failure }),
        json!({ "type": "turn_finished", "turn": 1, "finish": "answered", "usage": usage }),
        json!({ "type": "message_started", "item_id": "i" }),
        json!({ "type": "logprobs_added", "item_id": "i", "logprobs": [
            { "token": "CANARY", "logprob": -0.7177 }] }),
        json!({ "type": "text_added", "item_id": "i", "text": "CANARY" }),
        json!({ "type": "refusal_added", "item_id": "i", "text": "CANARY" }),
        json!({ "type": "annotation_added", "item_id": "i", "annotation": {
            "kind": "CANARY", "source": { "CANARY": 7177 } } }),
        json!({ "type": "message_finished", "item_id": "i", "text": "CANARY", "refusal": "CANARY",
            "completeness": "complete" }),
        json!({ "type": "reasoning_added", "item_id": "i", "text": "CANARY" }),
        json!({ "type": "reasoning_finished", "item_id": "i", "text": "CANARY", "seal": "CANARY",
            "completeness": "complete" }),
        json!({ "type": "discovery_started", "item_id": "i", "server": "m" }),
        json!({ "type": "tools_discovered", "item_id": "i", "server": "m", "outcome": {
            "status": "listed", "tools": [spec] }, "left_out": { "tools": [
            { "name": "t", "reason": "another tool has its name" }] } }),
        json!({ "type": "tools_discovered", "item_id": "i", "server": "m", "outcome": {
            "status": "failed", "failure": failure } }),
        json!({ "type": "call_announced", "call_id": "c", "item_id": "i", "tool": tool }),
        json!({ "type": "arguments_added", "call_id": "c", "text": "CANARY" }),
        json!({ "type": "arguments_finished", "call_id": "c", "arguments": "CANARY",
            "completeness": "complete" }),
        json!({ "type": "approval_requested", "call_id": "c", "changed": "CANARY",
            "budget": { "scope": "tenant", "used_nanos": 7177, "ask_nanos": 7177 } }),
        json!({ "type": "approval_resolved", "call_id": "c", "arguments": "CANARY",
            "decision": { "status": "denied", "reason": "CANARY" } }),
        json!({ "type": "tool_started", "call_id": "c", "attempt": 1, "label": "CANARY" }),
        json!({ "type": "tool_task_started", "call_id": "c", "task": "CANARY" }),
        json!({ "type": "tool_phase", "call_id": "c", "phase": "CANARY" }),
        json!({ "type": "tool_progressed", "call_id": "c", "progress": 7177.0, "total": 7177.0,
            "message": "CANARY" }),
        json!({ "type": "tool_output_added", "call_id": "c", "text": "CANARY" }),
        json!({ "type": "input_requested", "call_id": "c", "input_id": "n", "message": "CANARY",
            "schema": { "CANARY": 1 } }),
        json!({ "type": "input_resolved", "call_id": "c", "input_id": "n", "reply": {
            "status": "accepted", "content": { "CANARY": "CANARY" } } }),
        json!({ "type": "tool_stayed_silent", "call_id": "c", "elapsed_ms": 5 }),
        json!({ "type": "tool_retried", "call_id": "c", "attempt": 2, "reason": failure }),
        json!({ "type": "of_a_newer_version", "CANARY": "CANARY" }),
    ];
    for outcome in outcomes {
        events.push(json!({ "type": "tool_finished", "call_id": "c", "outcome": outcome,
            "duration_ms": 3 }));
    }
    events.push(json!({ "type": "run_finished", "usage": usage,
        "outcome": { "status": "failed", "failure": failure } }));
    events
}

/// Nothing that somebody contributed is in a redacted journal, and the events keep their kinds and
/// places.
#[test]
fn nothing_that_somebody_contributed_is_left() {
    let mut fold = crate::SnapshotFold::default();
    for (n, event) in journal().into_iter().enumerate() {
        let kind = event["type"].clone();
        let event: Event = serde_json::from_value(event).unwrap();
        let (run_id, seq) = (RunId::from("run_1"), Seq(n as u64 + 1));
        let recorded = RecordedEvent { run_id, seq, at: Timestamp::from_micros(1), event };
        assert!(kind == "of_a_newer_version" || !matches!(recorded.event, Event::Unknown(_)));
        let shown = redacted(&recorded);
        let json = serde_json::to_value(&shown).unwrap();
        assert_eq!((&json["event"]["type"], &json["seq"]), (&kind, &json!(seq.0)));
        assert!(!json.to_string().contains("CANARY"), "{json:#}");
        assert!(!json.to_string().contains("7177"), "{json:#}");
        fold.note(&shown);
    }
    let snapshot = fold.snapshot().unwrap().redacted();
    let json = serde_json::to_string(&snapshot).unwrap();
    assert!(!json.contains("CANARY") && !json.contains("7177"), "{json}");
    assert_eq!(snapshot.calls[0].tool, "t");
}
