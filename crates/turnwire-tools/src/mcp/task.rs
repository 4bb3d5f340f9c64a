//! A call that the server works on by itself, as a task: it is asked again and again how far it
//! is, by whichever worker has the run.
//!
//! Both generations of the protocol have tasks, in different words. The newer one turns a call
//! into a task as it likes, and has the result in the answer to `tasks/get`; the older one wants
//! to be told, and has the result behind `tasks/result`.

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

/// How long to wait between two questions if the server does not say; and the limits if it does.
const USUAL_WAIT: Duration = Duration::from_millis(500);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How often in a row the server may not be reached before the task is given up: about a minute.
const MAX_FAILURES: u32 = 30;

/// A task that says nothing new is still heard of so often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// How much longer than the call a result is kept, so that another worker can come for it.
const KEPT_FOR: Duration = Duration::from_mins(10);

/// A task that was made of a call.
pub(super) struct Created {
    id: String,
    wait: Duration,
}

/// How far a task is.
enum State {
    Working { message: Option<String>, wait: Duration },
    Asks(InputRequests),
    Over(Result<ToolOutput, ToolError>),
}

/// A task in the words of the older generation.
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

/// The task that the server has made of the call, if it has.
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

/// How long the server should keep what came of a task, in milliseconds.
pub(super) fn time_to_live(context: &ToolContext) -> u64 {
    let kept_for = context.time_allowed.saturating_add(KEPT_FOR);
    u64::try_from(kept_for.as_millis()).unwrap_or(u64::MAX)
}

fn wait(milliseconds: Option<u64>) -> Duration {
    let wait = milliseconds.map_or(USUAL_WAIT, Duration::from_millis);
    wait.clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

impl McpTool {
    /// Follows a task that was just made: from here on any worker can.
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

    /// Asks how far the task is, until it is over.
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

    /// Asks once how far the task is.
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

    /// Gets the result of a task of the older generation, which may still have questions.
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

    /// Tells the server that nobody wants the task any more.
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

/// Why it is not known how far a task is.
enum Lost {
    /// The server was not reached; it may be asked again.
    Connection,
    /// Nobody can tell any more.
    Task(ToolError),
}

/// What was said about a task.
#[derive(Default)]
struct Heard {
    message: Option<String>,
    at: Option<Instant>,
    n_times: u32,
}

impl Heard {
    /// Passes on what is new, and now and then that there is nothing new.
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

/// How far a task of the older generation is; nothing if its result is to be asked for.
fn older_state(result: ServerResult) -> Option<State> {
    let working = |message, interval| Some(State::Working { message, wait: wait(interval) });
    match result {
        // Its words are those of the newer generation, as far as they go.
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
