use std::time::Duration;

use rmcp::model::{DetailedTask, ServerResult};
use serde_json::{Value, json};
use turnwire_contract::{ToolError, ToolOutput};

use super::{LONGEST_WAIT, SHORTEST_WAIT, State, USUAL_WAIT, created, older_state, state};

const TIMES: &str = "2026-01-01T00:00:00Z";

fn answer(result: Value) -> ServerResult {
    serde_json::from_value(result).unwrap()
}

fn newer(mut task: Value) -> State {
    task["taskId"] = json!("t");
    task["createdAt"] = json!(TIMES);
    task["lastUpdatedAt"] = json!(TIMES);
    let DetailedTask { task, payload, .. } = serde_json::from_value(task).unwrap();
    state(task, payload)
}

fn older(status: &str) -> Option<State> {
    older_state(answer(json!({
        "taskId": "t", "status": status, "createdAt": TIMES, "lastUpdatedAt": TIMES,
        "ttl": 60_000, "pollInterval": 1_000, "statusMessage": "digging",
    })))
}

/// R21: a task is distinguished from a result in both protocol versions.
#[test]
fn both_generations_make_tasks() {
    let newer = answer(json!({
        "resultType": "task", "taskId": "n", "status": "working",
        "createdAt": TIMES, "lastUpdatedAt": TIMES, "ttlMs": 1, "pollIntervalMs": 70,
    }));
    let older = answer(json!({ "task": {
        "taskId": "o", "status": "working", "createdAt": TIMES, "lastUpdatedAt": TIMES,
        "ttl": 1, "pollInterval": 80,
    } }));
    let made = |result| created(&result).map(|made| (made.id, made.wait.as_millis()));
    assert_eq!(made(newer), Some(("n".to_owned(), 70)));
    assert_eq!(made(older), Some(("o".to_owned(), 80)));
    assert_eq!(made(answer(json!({ "content": [] }))), None);
}

/// The poll interval of the server is limited in both directions.
#[test]
fn the_pause_has_limits() {
    let pause = |interval| match newer(json!({ "status": "working", "pollIntervalMs": interval })) {
        State::Working { wait, .. } => wait,
        State::Asks(_) | State::Over(_) => panic!("it works"),
    };
    assert_eq!(pause(json!(0)), SHORTEST_WAIT);
    assert_eq!(pause(json!(3_000)), Duration::from_secs(3));
    assert_eq!(pause(json!(86_400_000)), LONGEST_WAIT);
    assert_eq!(pause(Value::Null), USUAL_WAIT);
}

/// R21: only an explicit success is a success.
#[test]
fn a_task_ends_as_it_says() {
    let over = |task| match newer(task) {
        State::Over(result) => result,
        State::Working { .. } | State::Asks(_) => panic!("it is over"),
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
    assert_eq!(cancelled, Err(ToolError::failed("the server has stopped the task")));
}

#[test]
fn the_older_generation_is_asked_for_its_result() {
    let Some(State::Working { message, .. }) = older("working") else { panic!("it works") };
    assert_eq!(message.as_deref(), Some("digging"));
    assert!(matches!(older("cancelled"), Some(State::Over(Err(_)))));
    for status in ["completed", "failed", "input_required"] {
        assert!(older(status).is_none(), "{status}");
    }
}
