use std::time::Duration;

use rmcp::model::{DetailedTask, ServerResult};
use serde_json::{Value, json};
use turnwire_contract::{ToolError, ToolOutput};

use super::{
    DEFAULT_POLL_INTERVAL, MAX_POLL_INTERVAL, MIN_POLL_INTERVAL, TaskState, created_task,
    legacy_state, task_state,
};

const TIMES: &str = "2026-01-01T00:00:00Z";

fn response(result: Value) -> ServerResult {
    serde_json::from_value(result).unwrap()
}

fn newer(mut task: Value) -> TaskState {
    task["taskId"] = json!("t");
    task["createdAt"] = json!(TIMES);
    task["lastUpdatedAt"] = json!(TIMES);
    let DetailedTask { task, payload, .. } = serde_json::from_value(task).unwrap();
    task_state(task, payload)
}

fn older(status: &str) -> Option<TaskState> {
    legacy_state(response(json!({
        "taskId": "t", "status": status, "createdAt": TIMES, "lastUpdatedAt": TIMES,
        "ttl": 60_000, "pollInterval": 1_000, "statusMessage": "digging",
    })))
}

/// R21: a task is distinguished from a result in both protocol versions.
#[test]
fn both_generations_make_tasks() {
    let newer = response(json!({
        "resultType": "task", "taskId": "n", "status": "working",
        "createdAt": TIMES, "lastUpdatedAt": TIMES, "ttlMs": 1, "pollIntervalMs": 70,
    }));
    let older = response(json!({ "task": {
        "taskId": "o", "status": "working", "createdAt": TIMES, "lastUpdatedAt": TIMES,
        "ttl": 1, "pollInterval": 80,
    } }));
    let made = |result| created_task(&result).map(|made| (made.id, made.poll_interval.as_millis()));
    assert_eq!(made(newer), Some(("n".to_owned(), 70)));
    assert_eq!(made(older), Some(("o".to_owned(), 80)));
    assert_eq!(made(response(json!({ "content": [] }))), None);
}

/// The poll interval of the server is limited in both directions.
#[test]
fn the_pause_has_limits() {
    let pause = |interval| match newer(json!({ "status": "working", "pollIntervalMs": interval })) {
        TaskState::Working { poll_interval, .. } => poll_interval,
        TaskState::InputRequired(_) | TaskState::Finished(_) => panic!("it works"),
    };
    assert_eq!(pause(json!(0)), MIN_POLL_INTERVAL);
    assert_eq!(pause(json!(3_000)), Duration::from_secs(3));
    assert_eq!(pause(json!(86_400_000)), MAX_POLL_INTERVAL);
    assert_eq!(pause(Value::Null), DEFAULT_POLL_INTERVAL);
}

/// R21: only an explicit success is a success.
#[test]
fn a_task_ends_as_it_says() {
    let over = |task| match newer(task) {
        TaskState::Finished(result) => result,
        TaskState::Working { .. } | TaskState::InputRequired(_) => panic!("it is over"),
    };
    let content = json!([{ "type": "text", "text": "found" }]);
    let done = over(json!({ "status": "completed", "result": { "content": content } }));
    assert_eq!(done, Ok(ToolOutput::text("found")));
    let wrong = json!({ "content": content, "isError": true });
    let wrong = over(json!({ "status": "completed", "result": wrong }));
    assert_eq!(wrong, Err(ToolError::failed("found")));
    let failed = over(json!({ "status": "failed", "error": { "code": -1, "message": " no " } }));
    assert_eq!(failed, Err(ToolError::failed("no")));
    let cancelled = over(json!({ "status": "cancelled" }));
    assert_eq!(cancelled, Err(ToolError::failed("the server cancelled the task")));
}

#[test]
fn the_older_generation_is_asked_for_its_result() {
    let Some(TaskState::Working { message, .. }) = older("working") else { panic!("it works") };
    assert_eq!(message.as_deref(), Some("digging"));
    assert!(matches!(older("cancelled"), Some(TaskState::Finished(Err(_)))));
    for status in ["completed", "failed", "input_required"] {
        assert!(older(status).is_none(), "{status}");
    }
}
