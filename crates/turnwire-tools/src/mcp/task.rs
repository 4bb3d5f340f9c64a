//! A call that the server executes as a task. The worker that owns the run polls the task.
//!
//! Both protocol versions have tasks, with different messages. Since 2026-07-28 the server decides
//! to create a task, and `tasks/get` returns the result. Before, the client requests a task, and
//! `tasks/result` returns the result.

use std::{sync::Arc, time::Duration};

use rmcp::{
    model::{
        CancelTaskParams, ClientRequest, CustomRequest, GetTaskParams, InputRequests, JsonObject,
        ServerResult, Task, TaskPayload, UpdateTaskParams,
    },
    service::ServiceError,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use turnwire_contract::{ToolContext, ToolError, ToolOutput};

use super::{
    connection::Connection,
    elicitation::input_responses,
    result::{convert, limited},
    router::{PendingCall, QuestionCount, truncated},
    tool::{CANCEL_TIMEOUT, McpTool, NoResponse, cancelled},
};

use crate::Result;

/// Poll interval if the server sets none, and the bounds for the server's value.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_millis(500);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of consecutive failures to reach the server; about one minute.
const MAX_FAILURES: u32 = 30;

/// Interval at which an unchanged task is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Time for which a result is kept after the call's time limit, so that another worker can get it.
const RESULT_RETENTION: Duration = Duration::from_mins(10);

/// Maximum length of the ID of a task, which is recorded.
const MAX_TASK_ID_BYTES: usize = 4 * 1024;

/// A task created by a call.
pub(super) struct CreatedTask {
    id: String,
    poll_interval: Duration,
}

enum TaskState {
    Working { message: Option<String>, poll_interval: Duration },
    InputRequired(InputRequests),
    Finished(Result<ToolOutput>),
}

/// A task in the old protocol.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyTask {
    task_id: String,
    status: String,
    status_message: Option<String>,
    poll_interval: Option<u64>,
}

/// Returns the task that the server created for the call, if any.
pub(super) fn created_task(result: &ServerResult) -> Option<CreatedTask> {
    match result {
        ServerResult::CreateTaskResult(created_task) => {
            let Task { task_id, poll_interval_ms, .. } = &created_task.task;
            new_task(task_id, *poll_interval_ms)
        }
        ServerResult::CustomResult(other) => {
            let task: LegacyTask = serde_json::from_value(other.0.get("task")?.clone()).ok()?;
            new_task(&task.task_id, task.poll_interval)
        }
        _ => None,
    }
}

fn new_task(id: &str, interval: Option<u64>) -> Option<CreatedTask> {
    let is_valid = id.len() <= MAX_TASK_ID_BYTES;
    is_valid.then(|| CreatedTask { id: id.to_owned(), poll_interval: poll_interval(interval) })
}

/// Time to live of a task, in milliseconds.
pub(super) fn time_to_live(context: &ToolContext) -> u64 {
    let time_to_live = context.time_allowed.saturating_add(RESULT_RETENTION);
    u64::try_from(time_to_live.as_millis()).unwrap_or(u64::MAX)
}

fn poll_interval(milliseconds: Option<u64>) -> Duration {
    let poll_interval = milliseconds.map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
    poll_interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

impl McpTool {
    /// Reports a new task, so that any worker can poll it, and polls it.
    pub(super) async fn follow_task(
        &self,
        created_task: CreatedTask,
        context: &ToolContext,
        questions: &Arc<QuestionCount>,
    ) -> Result<ToolOutput> {
        context.task_started(created_task.id.as_str()).await;
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            () = sleep(created_task.poll_interval) => {}
        }
        self.poll_task(&created_task.id, context, questions).await
    }

    /// Polls the task until it ends.
    pub(super) async fn poll_task(
        &self,
        id: &str,
        context: &ToolContext,
        questions: &Arc<QuestionCount>,
    ) -> Result<ToolOutput> {
        let mut reporter = TaskReporter::default();
        let mut failures = 0;
        loop {
            let polled = tokio::select! {
                biased;
                () = context.cancelled() => {
                    self.cancel_task(id).await;
                    return Err(cancelled());
                }
                polled = self.poll_once(id, context, questions) => polled,
            };
            failures = if polled.is_err() { failures + 1 } else { 0 };
            let (connection, pause) = match polled {
                Ok((_, TaskState::Finished(result))) => return result,
                Ok((connection, TaskState::Working { message, poll_interval })) => {
                    reporter.report(message, context).await;
                    (Some(connection), poll_interval)
                }
                Ok((connection, TaskState::InputRequired(requests))) => {
                    let label = &self.server.label;
                    let responses = input_responses(label, requests, context, questions).await?;
                    let update = UpdateTaskParams::new(id, responses);
                    if let Err(error) = connection.peer.update_task(update).await {
                        let error = self.server.redactor.error(&error);
                        debug!(%error, "MCP server did not accept the input");
                    }
                    (Some(connection), MIN_POLL_INTERVAL)
                }
                Err(PollError::Task(why)) => return Err(why),
                Err(PollError::Connection) if failures > MAX_FAILURES => {
                    return Err(self.server_lost());
                }
                Err(PollError::Connection) => {
                    (None, DEFAULT_POLL_INTERVAL.saturating_mul(failures.min(4)))
                }
            };
            tokio::select! {
                biased;
                () = context.cancelled() => {}
                () = task_changed(connection.as_deref()) => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Polls the task once.
    async fn poll_once(
        &self,
        id: &str,
        context: &ToolContext,
        questions: &Arc<QuestionCount>,
    ) -> Result<(Arc<Connection>, TaskState), PollError> {
        let connection = self.connection(context).await.map_err(|_| PollError::Connection)?;
        let _call_token = connection.calls.token();
        let polled = if connection.uses_new_protocol() {
            let polled = connection.peer.get_task(GetTaskParams::new(id)).await;
            polled.map(|got| Some(task_state(got.task.task, got.task.payload)))
        } else {
            let polled = connection.peer.send_request(legacy_request("tasks/get", id)).await;
            polled.map(legacy_state)
        };
        match polled {
            Ok(Some(state)) => Ok((connection, state)),
            Ok(None) => {
                let result = self.result_of(id, &connection, context, questions).await?;
                Ok((connection, TaskState::Finished(result)))
            }
            Err(ServiceError::McpError(error)) => {
                Err(PollError::Task(self.task_unknown(&error.message)))
            }
            Err(error) => {
                self.handle_failure(&error, &connection);
                Err(PollError::Connection)
            }
        }
    }

    /// Gets the result of a task in the old protocol. The server may still ask for input.
    async fn result_of(
        &self,
        id: &str,
        connection: &Arc<Connection>,
        context: &ToolContext,
        questions: &Arc<QuestionCount>,
    ) -> Result<Result<ToolOutput>, PollError> {
        let pending = PendingCall::new(context, questions);
        let sent = self.send(connection, legacy_request("tasks/result", id), &pending).await;
        let response = match sent {
            Ok(handle) => self.response(handle, &pending, context).await,
            Err(error) => Err(NoResponse::Failed(error)),
        };
        match response {
            Ok(ServerResult::CallToolResult(result)) => Ok(convert(result)),
            Ok(_) => Ok(Err(missing_result())),
            Err(NoResponse::Failed(ServiceError::McpError(error))) => {
                Ok(Err(ToolError::Failed(limited(error.message.trim()))))
            }
            Err(NoResponse::Failed(error)) => {
                self.handle_failure(&error, connection);
                Err(PollError::Connection)
            }
            Err(NoResponse::Cancelled) => Err(PollError::Connection),
        }
    }

    fn task_unknown(&self, message: &str) -> ToolError {
        let (label, message) = (&self.server.label, limited(message.trim()));
        ToolError::OutcomeUnknown(format!(
            "the server `{label}` no longer has the task of the call ({message})"
        ))
    }

    fn server_lost(&self) -> ToolError {
        let label = &self.server.label;
        ToolError::OutcomeUnknown(format!("the server `{label}` disconnected during the call"))
    }

    async fn cancel_task(&self, id: &str) {
        let cancelling = async {
            let Ok(connection) = self.server.connection().await else { return };
            let result = if connection.uses_new_protocol() {
                connection.peer.cancel_task(CancelTaskParams::new(id)).await
            } else {
                let request = legacy_request("tasks/cancel", id);
                connection.peer.send_request(request).await.map(drop)
            };
            if let Err(error) = result {
                let error = self.server.redactor.error(&error);
                debug!(%error, "MCP task not cancelled");
            }
        };
        let _ = timeout(CANCEL_TIMEOUT, cancelling).await;
    }
}

/// Why the state of a task is unknown.
enum PollError {
    /// The server was unreachable. Polling continues.
    Connection,
    /// The task is lost.
    Task(ToolError),
}

/// The last reported message of a task, and its time.
#[derive(Default)]
struct TaskReporter {
    message: Option<String>,
    at: Option<Instant>,
    n_reports: u32,
}

impl TaskReporter {
    /// Reports a new message, and an unchanged one periodically.
    async fn report(&mut self, message: Option<String>, context: &ToolContext) {
        let is_old = message == self.message;
        if is_old && self.at.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return;
        }
        (self.message, self.at) = (message, Some(Instant::now()));
        self.n_reports += 1;
        match &self.message {
            Some(message) => {
                context.progress_with(f64::from(self.n_reports), None, truncated(message)).await;
            }
            None => context.progress(f64::from(self.n_reports), None).await,
        }
    }
}

async fn task_changed(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.router.task_changed().await,
        None => std::future::pending().await,
    }
}

fn legacy_request(method: &str, id: &str) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(json!({ "taskId": id }))))
}

fn task_state(task: Task, payload: TaskPayload) -> TaskState {
    let failed = |message: &str| TaskState::Finished(Err(ToolError::Failed(limited(message))));
    match payload {
        TaskPayload::Working => TaskState::Working {
            message: task.status_message,
            poll_interval: poll_interval(task.poll_interval_ms),
        },
        TaskPayload::InputRequired { input_requests } => TaskState::InputRequired(input_requests),
        TaskPayload::Completed { result } => TaskState::Finished(convert_result(result)),
        TaskPayload::Failed { error } => {
            let message = error.get("message").and_then(Value::as_str).map(str::trim);
            failed(message.unwrap_or("the task failed without a message"))
        }
        TaskPayload::Cancelled => TaskState::Finished(Err(cancelled_by_server())),
        _ => failed("the task is in an unknown state"),
    }
}

fn convert_result(result: JsonObject) -> Result<ToolOutput> {
    serde_json::from_value(Value::Object(result)).map_or_else(|_| Err(missing_result()), convert)
}

/// Returns the state of a task in the old protocol; `None` if its result has to be requested.
fn legacy_state(result: ServerResult) -> Option<TaskState> {
    let working = |message, interval| {
        Some(TaskState::Working { message, poll_interval: poll_interval(interval) })
    };
    match result {
        // These messages are the same as in the new protocol.
        ServerResult::GetTaskResult(got) => match got.task.payload {
            TaskPayload::Working => working(got.task.task.status_message, None),
            TaskPayload::Cancelled => Some(TaskState::Finished(Err(cancelled_by_server()))),
            _ => None,
        },
        ServerResult::CustomResult(other) => {
            let task: LegacyTask = serde_json::from_value(other.0).ok()?;
            match task.status.as_str() {
                "working" => working(task.status_message, task.poll_interval),
                "cancelled" => Some(TaskState::Finished(Err(cancelled_by_server()))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn missing_result() -> ToolError {
    ToolError::failed("the task ended without a valid result")
}

fn cancelled_by_server() -> ToolError {
    ToolError::failed("the server cancelled the task")
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
