//! The tool: arguments go in, a result comes out, and notes on the way if it has any.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::{CallId, Reply, RunId, TenantId, ToolOutput, ToolSpec};

/// Something the model can use.
///
/// Only [`spec`](Self::spec) and [`call`](Self::call) are needed. A tool that ignores its
/// [`ToolContext`] is still started, watched, timed out, cancelled and ended correctly: the
/// engine does that around it.
///
/// Promises an implementation makes:
///
/// * `Ok` means that it worked; anything else is an error;
/// * when the context says it is cancelled, it stops soon. The engine stops waiting anyway.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What is known about it.
    fn spec(&self) -> &ToolSpec;

    /// Does the work. The arguments fit the schema of [`spec`](Self::spec).
    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError>;

    /// The arguments in a few words, for people. `None`: the usual rule.
    fn label(&self, _arguments: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The result in a few words, for people. `None`: the usual rule.
    fn short_result(&self, _output: &ToolOutput) -> Option<String> {
        None
    }
}

/// What a tool is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// For whom.
    pub tenant: TenantId,
    /// The arguments, checked against the schema.
    pub arguments: Map<String, Value>,
    /// The same for every try of this call, and for no other call: a tool that must not act
    /// twice can remember it.
    pub idempotency_key: String,
    /// The [settings](ToolSpec::settings) of the tool in this run.
    pub settings: Value,
}

/// What a tool may tell and ask while it works.
#[derive(Clone)]
pub struct ToolContext {
    /// The run it works for.
    pub run_id: RunId,
    /// The call it works on.
    pub call_id: CallId,
    /// 1 for the first try.
    pub attempt: u32,
    /// How long it has altogether.
    pub time_allowed: Duration,
    task: Option<String>,
    link: Arc<dyn CallLink>,
}

impl ToolContext {
    /// A context that reports over `link`.
    pub fn new(
        run_id: RunId,
        call_id: CallId,
        attempt: u32,
        time_allowed: Duration,
        link: Arc<dyn CallLink>,
    ) -> Self {
        Self { run_id, call_id, attempt, time_allowed, task: None, link }
    }

    /// The same for a call whose work was begun before, under the name `task`.
    pub fn going_on_with(self, task: Option<String>) -> Self {
        Self { task, ..self }
    }

    /// The name of the work that was begun before: the tool asks for what came of it, and does
    /// not begin again.
    pub fn begun_task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Tells that the work goes on without us, under a name by which it can be asked for later,
    /// also by another worker.
    pub async fn task_started(&self, task: impl Into<String>) {
        self.link.tell(ToolNote::TaskStarted(task.into())).await;
    }

    /// Tells how far the work is: `progress` of `total`.
    pub async fn progress(&self, progress: f64, total: impl Into<Option<f64>>) {
        self.link.tell(ToolNote::Progress { progress, total: total.into(), message: None }).await;
    }

    /// Tells how far the work is, with a word about it.
    pub async fn progress_with(
        &self,
        progress: f64,
        total: impl Into<Option<f64>>,
        message: impl Into<String>,
    ) {
        let note =
            ToolNote::Progress { progress, total: total.into(), message: Some(message.into()) };
        self.link.tell(note).await;
    }

    /// Tells that a new phase of the work begins.
    pub async fn phase(&self, phase: impl Into<String>) {
        self.link.tell(ToolNote::Phase(phase.into())).await;
    }

    /// Lets out some of the output early.
    pub async fn output(&self, text: impl Into<String>) {
        self.link.tell(ToolNote::Output(text.into())).await;
    }

    /// Asks the person for input, and waits for the answer. The time that takes does not count
    /// against the tool. Where nobody can be asked the answer is [`Reply::Declined`], at once.
    pub async fn ask(&self, question: Question) -> Reply {
        self.link.ask(question).await
    }

    /// Whether the call was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.link.is_cancelled()
    }

    /// Waits until the call is stopped.
    pub async fn cancelled(&self) {
        self.link.cancelled().await;
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Something a tool says while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolNote {
    /// How far it is.
    Progress {
        /// How much is done.
        progress: f64,
        /// How much there is.
        total: Option<f64>,
        /// What it is doing.
        message: Option<String>,
    },
    /// A new phase of the work.
    Phase(String),
    /// Some of the output.
    Output(String),
    /// The work goes on without us, under this name.
    TaskStarted(String),
}

/// Something a tool wants to know from a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked.
    pub message: String,
    /// The JSON Schema of the answer: an object with simple values.
    pub schema: Value,
}

/// The engine's end of a [`ToolContext`].
pub trait CallLink: Send + Sync {
    /// Takes a note; waits while the journal is slower than the tool. Notes of a call that is
    /// over are dropped.
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()>;

    /// Asks a person, and waits for the answer.
    fn ask(&self, _question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(std::future::ready(Reply::Declined))
    }

    /// Whether the call was stopped.
    fn is_cancelled(&self) -> bool;

    /// Waits until the call is stopped.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// Why a tool did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// It did not work, and would not work again. The message is for the model.
    #[error("{0}")]
    Failed(String),
    /// It did not work this time, by its own word or because it was never reached; a tool that
    /// may be called twice is called again.
    #[error("{0}")]
    Transient(String),
    /// It was given the call, and nobody knows whether it did its work: its server died, the
    /// connection broke, no answer came. A tool that may be called twice is called again; the
    /// call of any other one ends with [an unknown outcome](crate::ToolOutcome::OutcomeUnknown).
    /// The message says what happened.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The arguments fit the schema but make no sense. The message is for the model.
    #[error("{0}")]
    InvalidArguments(String),
}

impl ToolError {
    /// A plain failure.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}
