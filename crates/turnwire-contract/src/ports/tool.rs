//! The tool interface: arguments in, a result out, and optional progress notes during the call.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::{CallId, Reply, RunId, TenantId, ToolOutput, ToolSpec, TraceContext, partial_debug};

/// A tool that the model can call.
///
/// Only [`spec`](Self::spec) and [`call`](Self::call) are required. A tool may ignore its
/// [`ToolContext`]: the engine records, times out, cancels and ends its calls anyway.
///
/// Guarantees of an implementation:
///
/// * `Ok` means that the call succeeded; anything else is an error;
/// * it stops soon after its context is cancelled. The engine stops waiting in any case.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Description of the tool.
    fn spec(&self) -> &ToolSpec;

    /// The same description, for those who keep it: a tool that has it in an `Arc` returns that.
    fn shared_spec(&self) -> Arc<ToolSpec> {
        Arc::new(self.spec().clone())
    }

    /// Executes the call. The arguments conform to the schema in [`spec`](Self::spec).
    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError>;

    /// Short description of the arguments for display. `None` selects the default.
    fn label(&self, _arguments: &Map<String, Value>) -> Option<String> {
        None
    }

    /// Short description of the result for display. `None` selects the default.
    fn short_result(&self, _output: &ToolOutput) -> Option<String> {
        None
    }
}

/// A call to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// Tenant of the run.
    pub tenant: TenantId,
    /// The arguments, validated against the schema.
    pub arguments: Map<String, Value>,
    /// Unique to this call, and the same for every attempt. A tool can use it to avoid executing a
    /// call twice.
    pub idempotency_key: String,
    /// The [settings](ToolSpec::settings) of the tool in this run.
    pub settings: Value,
}

/// Connection of a running call to the engine: progress, questions and cancellation.
#[derive(Clone)]
pub struct ToolContext {
    /// ID of the run.
    pub run_id: RunId,
    /// ID of the call.
    pub call_id: CallId,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    /// Maximum duration of the call.
    pub time_allowed: Duration,
    task: Option<String>,
    trace: Option<Box<TraceContext>>,
    link: Arc<dyn CallLink>,
}

impl ToolContext {
    /// Creates a context that reports over `link`.
    pub fn new(
        run_id: RunId,
        call_id: CallId,
        attempt: u32,
        time_allowed: Duration,
        link: Arc<dyn CallLink>,
    ) -> Self {
        Self { run_id, call_id, attempt, time_allowed, task: None, trace: None, link }
    }

    /// Sets the ID of the background task that an earlier attempt of this call started.
    pub fn going_on_with(self, task: Option<String>) -> Self {
        Self { task, ..self }
    }

    /// ID of the background task that an earlier attempt started. The tool polls this task instead
    /// of starting again.
    pub fn begun_task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Sets the trace context of the call.
    pub fn traced_by(self, trace: Option<TraceContext>) -> Self {
        Self { trace: trace.map(Box::new), ..self }
    }

    /// Trace context of the call, for requests that belong to it.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_deref()
    }

    /// Reports that the work continues as a background task. The ID must allow another worker to
    /// poll the task.
    pub async fn task_started(&self, task: impl Into<String>) {
        self.link.tell(ToolNote::TaskStarted(task.into())).await;
    }

    /// Reports progress: `progress` of `total`.
    pub async fn progress(&self, progress: f64, total: impl Into<Option<f64>>) {
        self.link.tell(ToolNote::Progress { progress, total: total.into(), message: None }).await;
    }

    /// Reports progress with a message.
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

    /// Reports a new phase.
    pub async fn phase(&self, phase: impl Into<String>) {
        self.link.tell(ToolNote::Phase(phase.into())).await;
    }

    /// Sends part of the output early.
    pub async fn output(&self, text: impl Into<String>) {
        self.link.tell(ToolNote::Output(text.into())).await;
    }

    /// Asks the user for input, and waits for the reply. The wait does not count towards the tool's
    /// time limits. Returns [`Reply::Declined`] at once if no user can be asked.
    pub async fn ask(&self, question: Question) -> Reply {
        self.link.ask(question).await
    }

    /// Whether the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.link.is_cancelled()
    }

    /// Waits until the call is cancelled.
    pub async fn cancelled(&self) {
        self.link.cancelled().await;
    }

    /// Whether this worker gave up the run, and another one continues the call. The tool is dropped
    /// without being cancelled, and must not tell anybody that the call ended.
    pub fn is_left(&self) -> bool {
        self.link.is_left()
    }
}

partial_debug!(ToolContext { call_id, attempt });

/// A note from a tool during a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolNote {
    /// Progress.
    Progress {
        /// Amount of work done.
        progress: f64,
        /// Total amount of work, if known.
        total: Option<f64>,
        /// What the tool is doing.
        message: Option<String>,
    },
    /// Start of a new phase.
    Phase(String),
    /// Part of the output.
    Output(String),
    /// The work continues as a background task with this ID.
    TaskStarted(String),
}

/// A tool's request for user input.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Text of the request.
    pub message: String,
    /// JSON Schema of the input: an object with simple values.
    pub schema: Value,
}

/// The engine's side of a [`ToolContext`].
pub trait CallLink: Send + Sync {
    /// Records a note. Waits while the journal is slower than the tool. Notes of a finished call
    /// are dropped.
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()>;

    /// Asks the user for input, and waits for the reply.
    fn ask(&self, _question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(std::future::ready(Reply::Declined))
    }

    /// Whether the call was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Waits until the call is cancelled.
    fn cancelled(&self) -> BoxFuture<'_, ()>;

    /// Whether this worker gave up the run, and another one continues the call.
    fn is_left(&self) -> bool {
        false
    }
}

/// Error of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The call failed permanently. The message is for the model.
    #[error("{0}")]
    Failed(String),
    /// The call failed temporarily: the tool says so, or it was never reached. A tool with effect
    /// class pure or idempotent is called again.
    #[error("{0}")]
    Transient(String),
    /// The call was sent, and its outcome is not known: the server died, the connection broke, or
    /// no answer came. A tool with effect class pure or idempotent is called again. The call of any
    /// other tool ends with [an unknown outcome](crate::ToolOutcome::OutcomeUnknown). The message
    /// says what happened.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The arguments conform to the schema but are invalid. The message is for the model.
    #[error("{0}")]
    InvalidArguments(String),
}

impl ToolError {
    /// Creates a permanent failure.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}
