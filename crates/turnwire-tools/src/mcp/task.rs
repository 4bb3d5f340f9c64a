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
    asking::answers,
    connection::Connection,
    result::{limited, read},
    tool::{McpTool, Stop, TELLING, cancelled},
    wire::{Mailbox, shortened},
};

/// Poll interval if the server sets none, and the bounds for the server's value.
const USUAL_WAIT: Duration = Duration::from_millis(500);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Maximum number of consecutive failures to reach the server; about one minute.
const MAX_FAILURES: u32 = 30;

/// Interval at which an unchanged task is reported.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Time for which a result is kept after the call's time limit, so that another worker can get it.
const KEPT_FOR: Duration = Duration::from_mins(10);

/// A task created by a call.
pub(super) struct Created {
    id: String,
    wait: Duration,
}

enum State {
    Working { message: Option<String>, wait: Duration },
    Asks(InputRequests),
    Over(Result<ToolOutput, ToolError>),
}

/// A task in the old protocol.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OlderTask {
    task_id: String,
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    #[serde(default)]
    poll_interval: Option<u64>,
}

/// Returns the task that the server created for the call, if any.
pub(super) fn created(result: &ServerResult) -> Option<Created> {
    match result {
        ServerResult::CreateTaskResult(created) => {
            let Task { task_id, poll_interval_ms, .. } = &created.task;
            Some(Created { id: task_id.clone(), wait: wait(*poll_interval_ms) })
        }
        ServerResult::CustomResult(other) => {
            let task: OlderTask = serde_json::from_value(other.0.get("task")?.clone()).ok()?;
            Some(Created { id: task.task_id, wait: wait(task.poll_interval) })
        }
        _ => None,
    }
}

/// Time to live of a task, in milliseconds.
pub(super) fn time_to_live(context: &ToolContext) -> u64 {
    let kept_for = context.time_allowed.saturating_add(KEPT_FOR);
    u64::try_from(kept_for.as_millis()).unwrap_or(u64::MAX)
}

fn wait(milliseconds: Option<u64>) -> Duration {
    let wait = milliseconds.map_or(USUAL_WAIT, Duration::from_millis);
    wait.clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

impl McpTool {
    /// Reports a new task, so that any worker can poll it, and polls it.
    pub(super) async fn follow(
        &self,
        created: Created,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        context.task_started(created.id.as_str()).await;
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            () = sleep(created.wait) => {}
        }
        self.watch(&created.id, context).await
    }

    /// Polls the task until it ends.
    pub(super) async fn watch(
        &self,
        id: &str,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut heard = Heard::default();
        let mut failures = 0;
        loop {
            let asked = tokio::select! {
                biased;
                () = context.cancelled() => {
                    self.stop_task(id).await;
                    return Err(cancelled());
                }
                asked = self.ask_for(id, context) => asked,
            };
            failures = if asked.is_err() { failures + 1 } else { 0 };
            let (connection, pause) = match asked {
                Ok((_, State::Over(result))) => return result,
                Ok((connection, State::Working { message, wait })) => {
                    heard.tell(message, context).await;
                    (Some(connection), wait)
                }
                Ok((connection, State::Asks(requests))) => {
                    let answers = answers(&self.server.label, requests, context).await?;
                    let update = UpdateTaskParams::new(id, answers);
                    if let Err(error) = connection.peer.update_task(update).await {
                        debug!(%error, "MCP server did not accept the input");
                    }
                    (Some(connection), SHORTEST_WAIT)
                }
                Err(Lost::Task(why)) => return Err(why),
                Err(Lost::Connection) if failures > MAX_FAILURES => return Err(self.gone()),
                Err(Lost::Connection) => (None, USUAL_WAIT.saturating_mul(failures.min(4))),
            };
            tokio::select! {
                biased;
                () = context.cancelled() => {}
                () = told_of_news(connection.as_deref()) => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Polls the task once.
    async fn ask_for(
        &self,
        id: &str,
        context: &ToolContext,
    ) -> Result<(Arc<Connection>, State), Lost> {
        let connection = self.connection(context).await.map_err(|_| Lost::Connection)?;
        let _under_way = connection.calls.token();
        let asked = if connection.is_newer() {
            let asked = connection.peer.get_task(GetTaskParams::new(id)).await;
            asked.map(|got| Some(state(got.task.task, got.task.payload)))
        } else {
            let asked = connection.peer.send_request(older_request("tasks/get", id)).await;
            asked.map(older_state)
        };
        match asked {
            Ok(Some(state)) => Ok((connection, state)),
            Ok(None) => {
                let result = self.result_of(id, &connection, context).await?;
                Ok((connection, State::Over(result)))
            }
            Err(ServiceError::McpError(error)) => Err(Lost::Task(self.forgotten(&error.message))),
            Err(error) => {
                self.settle(&error, &connection);
                Err(Lost::Connection)
            }
        }
    }

    /// Gets the result of a task in the old protocol. The server may still ask for input.
    async fn result_of(
        &self,
        id: &str,
        connection: &Arc<Connection>,
        context: &ToolContext,
    ) -> Result<Result<ToolOutput, ToolError>, Lost> {
        let mailbox = Mailbox::new(context.run_id.clone());
        let sent = self.send(connection, older_request("tasks/result", id), &mailbox).await;
        let answer = match sent {
            Ok(handle) => self.answer(handle, &mailbox, context).await,
            Err(error) => Err(Stop::Failed(error)),
        };
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(read(result)),
            Ok(_) => Ok(Err(no_result())),
            Err(Stop::Failed(ServiceError::McpError(error))) => {
                Ok(Err(ToolError::Failed(limited(error.message.trim()))))
            }
            Err(Stop::Failed(error)) => {
                self.settle(&error, connection);
                Err(Lost::Connection)
            }
            Err(Stop::Cancelled) => Err(Lost::Connection),
        }
    }

    fn forgotten(&self, message: &str) -> ToolError {
        let (label, message) = (&self.server.label, limited(message.trim()));
        ToolError::OutcomeUnknown(format!(
            "the server `{label}` no longer knows the task it made of the call ({message})"
        ))
    }

    fn gone(&self) -> ToolError {
        let label = &self.server.label;
        ToolError::OutcomeUnknown(format!(
            "the server `{label}` went away in the middle of the call"
        ))
    }

    async fn stop_task(&self, id: &str) {
        let stopping = async {
            let Ok(connection) = self.server.connection().await else { return };
            let stopped = if connection.is_newer() {
                connection.peer.cancel_task(CancelTaskParams::new(id)).await
            } else {
                let request = older_request("tasks/cancel", id);
                connection.peer.send_request(request).await.map(drop)
            };
            if let Err(error) = stopped {
                debug!(%error, "MCP task not cancelled");
            }
        };
        let _ = timeout(TELLING, stopping).await;
    }
}

/// Why the state of a task is unknown.
enum Lost {
    /// The server was unreachable. Polling continues.
    Connection,
    /// The task is lost.
    Task(ToolError),
}

/// The last reported message of a task, and its time.
#[derive(Default)]
struct Heard {
    message: Option<String>,
    at: Option<Instant>,
    n_times: u32,
}

impl Heard {
    /// Reports a new message, and an unchanged one periodically.
    async fn tell(&mut self, message: Option<String>, context: &ToolContext) {
        let is_old = message == self.message;
        if is_old && self.at.is_some_and(|at| at.elapsed() < SIGN_OF_LIFE) {
            return;
        }
        (self.message, self.at) = (message, Some(Instant::now()));
        self.n_times += 1;
        match &self.message {
            Some(message) => {
                context.progress_with(f64::from(self.n_times), None, shortened(message)).await;
            }
            None => context.progress(f64::from(self.n_times), None).await,
        }
    }
}

async fn told_of_news(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.wire.task_news().await,
        None => std::future::pending().await,
    }
}

fn older_request(method: &str, id: &str) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(json!({ "taskId": id }))))
}

fn state(task: Task, payload: TaskPayload) -> State {
    let failed = |words: &str| State::Over(Err(ToolError::Failed(limited(words))));
    match payload {
        TaskPayload::Working => {
            State::Working { message: task.status_message, wait: wait(task.poll_interval_ms) }
        }
        TaskPayload::InputRequired { input_requests } => State::Asks(input_requests),
        TaskPayload::Completed { result } => State::Over(result_in(result)),
        TaskPayload::Failed { error } => {
            let words = error.get("message").and_then(Value::as_str).map(str::trim);
            failed(words.unwrap_or("the task failed, and says nothing else"))
        }
        TaskPayload::Cancelled => State::Over(Err(stopped())),
        _ => failed("the task is in a state that is not known here"),
    }
}

fn result_in(result: JsonObject) -> Result<ToolOutput, ToolError> {
    serde_json::from_value(Value::Object(result)).map_or_else(|_| Err(no_result()), read)
}

/// Returns the state of a task in the old protocol; `None` if its result has to be requested.
fn older_state(result: ServerResult) -> Option<State> {
    let working = |message, interval| Some(State::Working { message, wait: wait(interval) });
    match result {
        // These messages are the same as in the new protocol.
        ServerResult::GetTaskResult(got) => match got.task.payload {
            TaskPayload::Working => working(got.task.task.status_message, None),
            TaskPayload::Cancelled => Some(State::Over(Err(stopped()))),
            _ => None,
        },
        ServerResult::CustomResult(other) => {
            let task: OlderTask = serde_json::from_value(other.0).ok()?;
            match task.status.as_str() {
                "working" => working(task.status_message, task.poll_interval),
                "cancelled" => Some(State::Over(Err(stopped()))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn no_result() -> ToolError {
    ToolError::failed("the task ended with something else than a result")
}

fn stopped() -> ToolError {
    ToolError::failed("the server has stopped the task")
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
