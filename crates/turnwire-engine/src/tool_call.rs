//! The life cycle of one tool call.
//!
//! The tool knows nothing of events. This module records the start before the tool runs, records
//! its reports and its silence, enforces cancellation and timeouts, survives a panic of the tool,
//! and records exactly one end, unless a person has to say how the call ended, or the run stops or
//! is handed over before the tool has begun.

use std::{
    any::Any,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinHandle},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, instrument, warn};
use turnwire_contract::{
    CallId, CallLink, Decision, Effect, Event, InputId, Question, Reply, Tool, ToolContext,
    ToolError, ToolNote, ToolOutcome, ToolOutput, ToolRequest, ToolSpec,
};

use crate::{
    Result,
    call_statistics::CallEnd,
    call_timers::AttemptTimers,
    concurrency::Permits,
    definition::permission,
    discovery::ServerTool,
    failures,
    large_output::{store_large_output, text_or_none},
    live_run::LiveRun,
    pinning,
    polls::Noted,
    run_context::RunContext,
    run_state::Call,
    schemas::check_schema,
    tool_result::{outcome_unknown, prefix},
    toolbox::{not_found, read_arguments_for},
    trace_context,
};

/// Queue length for notes of a tool. A full queue blocks the tool.
const MAX_WAITING_NOTES: usize = 64;

/// Size of a note, without its text.
const NOTE_OVERHEAD_BYTES: usize = 64;

/// Shown when the notes exceed their limit.
const NO_MORE_NOTES: &str = "\n[further output of the tool is not shown while it runs]\n";

/// Maximum bytes of a failure message.
const MAX_FAILURE_BYTES: usize = 64 * 1024;

/// Grace period for a cancelled tool before it is dropped.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Executes one call to its end.
///
/// A failed tool is not an error here: the model sees the failure. The only error is a failed
/// journal, which stops the run.
#[instrument(skip_all, fields(%call_id, tool))]
pub(crate) async fn execute_call(
    run: &LiveRun,
    context: &RunContext,
    call_id: CallId,
) -> Result<()> {
    // A tool may run for hours. Boxing frees the memory of the start.
    let Some(ready) = Box::pin(begin(run, context, &call_id)).await? else { return Ok(()) };
    let StartedCall { tool, request, token, permits, attempt } = ready;
    let began = Instant::now();
    let work = CallExecution {
        remaining_note_bytes: AtomicUsize::new(run.state().limits().output_in_journal),
        is_limit_reported: AtomicBool::new(false),
        run,
        context,
        tool: &tool,
        call_id: &call_id,
        request,
        token,
        began,
    };
    let outcome = work.run_attempts(attempt).await;
    run.end_call(&call_id);
    drop(permits);

    let outcome = outcome?;
    note_call(run, context, tool.spec(), &outcome, began.elapsed());
    let outcome = match outcome {
        AttemptsOutcome::Over(outcome) => outcome,
        AttemptsOutcome::Unknown(what) if run.state().settles_unknown_outcomes() => {
            let asked = run.outcome_question(&call_id, &what);
            Box::pin(run.record_end_of_call(&call_id, asked)).await?;
            run.note_asked();
            return Ok(());
        }
        AttemptsOutcome::Unknown(what) => outcome_unknown(&what),
    };
    let outcome = Box::pin(store_large_output(run, context, tool.as_ref(), outcome)).await;
    let duration_ms = millis(began.elapsed());
    let end = Event::ToolFinished { call_id: call_id.clone(), outcome, duration_ms };
    Box::pin(run.record_end_of_call(&call_id, end)).await?;
    Ok(())
}

/// Counts a call of a configured server. One that a request supplied is nobody else's.
fn note_call(
    run: &LiveRun,
    context: &RunContext,
    spec: &ToolSpec,
    outcome: &AttemptsOutcome,
    elapsed: Duration,
) {
    let Some(server) = spec.server.as_deref() else { return };
    if run.state().request().server(server).url.is_some() {
        return;
    }
    let end = match outcome {
        AttemptsOutcome::Over(outcome) => CallEnd::of(outcome),
        AttemptsOutcome::Unknown(_) => CallEnd::Failed,
    };
    let tool = spec.reference();
    context.statistics.note((run.tenant(), server, tool.own_name()), end, elapsed, run.now());
}

/// A call whose start is durable, with everything its tool needs.
struct StartedCall {
    tool: Arc<dyn Tool>,
    request: ToolRequest,
    token: CancellationToken,
    permits: Permits,
    attempt: u32,
}

/// Prepares and starts a call. Returns `None` if it has ended already, or is left to the loop.
async fn begin(
    run: &LiveRun,
    context: &RunContext,
    call_id: &CallId,
) -> Result<Option<StartedCall>> {
    let Some(call) = run.state().call(call_id).cloned() else { return Ok(None) };
    tracing::Span::current().record("tool", &call.tool.name);
    let prepared = tokio::select! {
        biased;
        prepared = prepare(run, context, &call) => prepared,
        // The loop checks for the stop next and ends the call, which has not started.
        () = run.stopped() => return Ok(None),
        () = run.handover_requested() => return Ok(None),
    };
    let PreparedCall { tool, spec, arguments } = match prepared {
        Ok(prepared) => prepared,
        Err(outcome) => {
            let (call_id, outcome) = (call_id.clone(), *outcome);
            run.record(Event::ToolFinished { call_id, outcome, duration_ms: 0 }).await?;
            return Ok(None);
        }
    };
    if let Some(answer) = call.answer() {
        let is_approved = answer.decision == Decision::Approved;
        keep_permission(run, context, &spec, is_approved, answer.remember).await;
    }
    // From here on the call can be cancelled.
    let token = run.begin_call(call_id);
    let permits = tokio::select! {
        biased;
        // The loop checks for the stop next and ends the call, which has not started.
        () = run.stopped() => None,
        () = run.handover_requested() => None,
        // The call still gets a start and an end.
        () = token.cancelled() => Some(Vec::new()),
        permits = context.concurrency.permits(&spec) => Some(permits),
    };
    let Some(permits) = permits else {
        run.end_call(call_id);
        return Ok(None);
    };

    let attempt = call.attempts + 1;
    let label = text_or_none(|| tool.label(&arguments)).unwrap_or_default();
    // After a takeover the start is already recorded.
    let start = match call.attempts {
        0 => Event::ToolStarted { call_id: call_id.clone(), attempt, label },
        _ => Event::ToolRetried {
            call_id: call_id.clone(),
            attempt,
            reason: if call.may_repeat {
                failures::run_again()
            } else {
                failures::engine_stopped()
            },
        },
    };
    let seq = run.record(start).await?;
    run.let_first_reader_see(seq).await;
    // The lease may have expired during the append.
    run.wait_for_lease().await;
    let request = ToolRequest {
        tenant: run.state().request().tenant.clone(),
        arguments,
        idempotency_key: format!("{}:{call_id}", run.id()),
        settings: spec.settings.clone(),
    };
    Ok(Some(StartedCall { tool, request, token, permits, attempt }))
}

/// The tool of a call, its spec and its arguments.
struct PreparedCall {
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    arguments: Map<String, Value>,
}

/// Resolves tool and arguments of a call, or returns the outcome without them.
async fn prepare(
    run: &LiveRun,
    context: &RunContext,
    call: &Call,
) -> Result<PreparedCall, Box<ToolOutcome>> {
    if let Some(reason) = call.denied() {
        return Err(Box::new(ToolOutcome::Denied { reason: reason.to_owned() }));
    }
    if call.was_cut() {
        let max_bytes = run.state().limits().max_arguments;
        let message = format!("they exceed the limit of {max_bytes} bytes");
        return Err(Box::new(ToolOutcome::InvalidArguments { message }));
    }
    let name = &call.tool.name;
    let spec = run.state().shared_spec_of(&call.tool).cloned();
    let found = spec.and_then(|spec| Some((find_tool(run, context, &spec)?, spec)));
    let Some((tool, spec)) = found else {
        let message = not_found(name, run.state().offered());
        return Err(Box::new(ToolOutcome::NotFound { message }));
    };
    let read = match spec.server {
        None => context.tools.read_arguments(name, &call.arguments).await,
        Some(_) => read_arguments_for(&spec, &call.arguments).await,
    };
    let arguments = read.map_err(|message| ToolOutcome::InvalidArguments { message })?;
    Ok(PreparedCall { tool, spec, arguments })
}

/// Stores a permission that outlasts this call, before the tool starts. If the worker dies, the
/// next one does the same.
async fn keep_permission(
    run: &LiveRun,
    context: &RunContext,
    spec: &Arc<ToolSpec>,
    is_approved: bool,
    remember: bool,
) {
    if !is_approved {
        return;
    }
    if spec.changed.is_some() {
        if let Some(pins) = &context.policy.pins {
            let servers = Arc::clone(&context.servers);
            let now = ServerTool::new(servers, run.state().request(), spec).known();
            pinning::trust(pins.as_ref(), run, spec, now.as_ref().map(|tool| tool.spec())).await;
        }
        return;
    }
    let conversation_id = run.state().request().conversation_id.clone();
    let Some(conversation_id) = conversation_id.filter(|_| remember) else { return };
    let allowed = permission(run.state().request(), spec);
    let allow = || context.store.allow(run.tenant(), &conversation_id, allowed.clone());
    if let Some(Err(error)) = run.retry_until_available(allow).await {
        warn!(%error, "approval not stored, it will be asked for again");
    }
}

/// Returns the tool for `spec`, of this process or of a server.
fn find_tool(run: &LiveRun, context: &RunContext, spec: &Arc<ToolSpec>) -> Option<Arc<dyn Tool>> {
    if spec.server.is_none() {
        return context
            .tools
            .get(&spec.name)
            .filter(|_| context.servers.may_use_tool(&spec.name))
            .cloned();
    }
    let servers = Arc::clone(&context.servers);
    Some(Arc::new(ServerTool::new(servers, run.state().request(), spec)))
}

/// A tool running on a call.
struct CallExecution<'a> {
    /// Remaining bytes for notes of the tool.
    remaining_note_bytes: AtomicUsize,
    /// Whether the limit was already reported.
    is_limit_reported: AtomicBool,
    run: &'a LiveRun,
    context: &'a RunContext,
    tool: &'a Arc<dyn Tool>,
    call_id: &'a CallId,
    request: ToolRequest,
    token: CancellationToken,
    began: Instant,
}

impl CallExecution<'_> {
    /// Attempts the call until it succeeds, fails permanently, or runs out of attempts.
    async fn run_attempts(&self, first_attempt: u32) -> Result<AttemptsOutcome> {
        let max_attempts = self.run.state().limits().call_attempts;
        let effect = self.tool.spec().effect;
        let mut attempt = first_attempt;
        // Set if an attempt may have had an effect. A later attempt that failed to reach the tool
        // does not clear it.
        let mut unknown = None;
        loop {
            let message = match self.attempt(attempt).await? {
                AttemptOutcome::Over(outcome) => return Ok(AttemptsOutcome::Over(outcome)),
                AttemptOutcome::Transient(message) => message,
                AttemptOutcome::OutcomeUnknown(message) => {
                    unknown = Some(message.clone());
                    message
                }
            };
            attempt += 1;
            if effect == Effect::Once || attempt > max_attempts {
                return Ok(match unknown {
                    // A pure tool has no effect in either case.
                    Some(what) if effect != Effect::Pure => AttemptsOutcome::Unknown(what),
                    Some(_) | None => AttemptsOutcome::Over(ToolOutcome::Failed {
                        failure: failures::tool_failed(message),
                    }),
                });
            }
            Box::pin(self.wait_to_retry(attempt, message)).await?;
        }
    }

    /// Records the retry and waits for its delay, unless the call is cancelled.
    async fn wait_to_retry(&self, attempt: u32, message: String) -> Result<()> {
        let (call_id, reason) = (self.call_id.clone(), failures::tool_failed(message));
        self.run.record(Event::ToolRetried { call_id, attempt, reason }).await?;
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = sleep(crate::retry::wait_before(attempt, None)) => {}
        }
        Ok(())
    }

    /// Runs the tool once and records its reports until it ends or is dropped. State that is not
    /// needed while waiting is boxed, because thousands of calls may wait at once.
    async fn attempt(&self, attempt: u32) -> Result<AttemptOutcome> {
        if self.token.is_cancelled() {
            return Ok(AttemptOutcome::Over(ToolOutcome::Cancelled));
        }
        let (silence, total) = self.timeouts();
        let mut timers =
            AttemptTimers::start(self.began, self.context.tool_silent_interval, silence, total);
        let (sender, mut messages) = mpsc::channel(MAX_WAITING_NOTES);
        let mut task = self.start(attempt, total, sender);
        loop {
            // Biased: a cancelled call must not return a result, and reports come before the
            // result.
            tokio::select! {
                biased;
                () = self.token.cancelled() => {
                    if !self.run.is_left() {
                        let _ = Box::pin(timeout(STOP_GRACE, &mut task.0)).await;
                    }
                    return Ok(AttemptOutcome::Over(ToolOutcome::Cancelled));
                }
                Some(message) = messages.recv() => {
                    Box::pin(self.handle(message, &mut messages, &mut timers)).await?;
                    timers.note_message();
                }
                result = &mut task.0 => {
                    // Notes that were sent together with the result.
                    while let Ok(message) = messages.try_recv() {
                        if let ToolMessage::Note(note) = message {
                            Box::pin(self.record_notes(*note, &mut messages)).await?;
                        }
                    }
                    return Ok(self.attempt_outcome(result));
                }
                // One timer for all timeouts, because thousands of calls may wait at once.
                () = sleep_until(timers.next_wake()), if !timers.are_paused() => {
                    let elapsed_ms = millis(self.began.elapsed());
                    if timers.are_expired() {
                        // Without the lease, another worker may be waiting for the call by now.
                        self.run.wait_for_lease().await;
                        self.token.cancel();
                        let _ = Box::pin(timeout(STOP_GRACE, &mut task.0)).await;
                        let timed_out = ToolOutcome::TimedOut { after_ms: elapsed_ms };
                        return Ok(AttemptOutcome::Over(timed_out));
                    }
                    timers.note_silent();
                    let call_id = self.call_id.clone();
                    let silent = Event::ToolStayedSilent { call_id, elapsed_ms };
                    Box::pin(self.run.record(silent)).await?;
                }
            }
        }
    }

    /// Handles a message of the tool, and notes that are read together with it.
    async fn handle(
        &self,
        message: ToolMessage,
        messages: &mut mpsc::Receiver<ToolMessage>,
        timers: &mut AttemptTimers,
    ) -> Result<()> {
        let mut next = Some(message);
        while let Some(message) = next.take() {
            match message {
                ToolMessage::Note(note) => next = self.record_notes(*note, messages).await?,
                ToolMessage::Question(asked) => {
                    let (question, replier) = *asked;
                    timers.note_question();
                    self.ask(question, replier).await?;
                }
                ToolMessage::Answered => timers.note_answer(),
            }
        }
        Ok(())
    }

    /// Returns the silence timeout and the total timeout.
    fn timeouts(&self) -> (Duration, Duration) {
        let (state, spec) = (self.run.state(), self.tool.spec());
        let limits = state.limits();
        let silence = spec.timeout.unwrap_or(limits.call_silence);
        (silence, spec.deadline.unwrap_or(limits.call_total))
    }

    /// Starts the tool in its own task, so that a blocking or panicking tool does not affect the
    /// run or other tools.
    fn start(
        &self,
        attempt: u32,
        time_allowed: Duration,
        sender: mpsc::Sender<ToolMessage>,
    ) -> AbortOnDrop {
        let (token, left) = (self.token.clone(), self.run.left());
        let link = Arc::new(CallChannel { sender, token, left });
        let (run_id, call_id) = (self.run.id().clone(), self.call_id.clone());
        let begun = self.run.state().call(self.call_id).and_then(|call| call.task.clone());
        let context = ToolContext::new(run_id, call_id, attempt, time_allowed, link);
        let trace = trace_context::of_call(
            self.run,
            self.context,
            self.call_id,
            attempt,
            self.tool.spec().kind,
        );
        let context = context.going_on_with(begun).traced_by(trace);
        let (tool, request) = (Arc::clone(self.tool), self.request.clone());
        // The step of the run says that tools are called. A name of its own would cost each call.
        let work = Arc::clone(&self.context.work);
        let call = async move { tool.call(request, context).await };
        AbortOnDrop(self.context.tasks.spawn(Noted::new(work, call)))
    }

    /// Records `first` and all queued notes in one batch. Returns the first message that is not a
    /// note.
    async fn record_notes(
        &self,
        first: ToolNote,
        notes: &mut mpsc::Receiver<ToolMessage>,
    ) -> Result<Option<ToolMessage>> {
        let mut events: Vec<Event> = self.note_event(first).into_iter().collect();
        let (mut other, mut n_notes) = (None, 1);
        while n_notes < MAX_WAITING_NOTES
            && let Ok(message) = notes.try_recv()
        {
            n_notes += 1;
            match message {
                ToolMessage::Note(note) => events.extend(self.note_event(*note)),
                ToolMessage::Question(..) | ToolMessage::Answered => {
                    other = Some(message);
                    break;
                }
            }
        }
        if !events.is_empty() {
            self.run.record_all(events).await?;
        }
        Ok(other)
    }

    /// Returns the event of a note, if it fits the limit. A discarded note still resets the silence
    /// timer. The result of the tool is not a note.
    fn note_event(&self, note: ToolNote) -> Option<Event> {
        let n_bytes = match &note {
            ToolNote::Output(text) | ToolNote::Phase(text) => text.len(),
            ToolNote::Progress { message, .. } => message.as_ref().map_or(0, String::len),
            // A takeover needs the task id.
            ToolNote::TaskStarted(_) => return Some(noted(self.call_id, note)),
        };
        let take = |remaining: usize| remaining.checked_sub(NOTE_OVERHEAD_BYTES + n_bytes);
        let taken =
            self.remaining_note_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            return Some(noted(self.call_id, note));
        }
        let is_first = !self.is_limit_reported.swap(true, Ordering::Relaxed);
        is_first.then(|| noted(self.call_id, ToolNote::Output(NO_MORE_NOTES.to_owned())))
    }

    /// Records a question of the tool, or answers it at once if no person can be asked.
    async fn ask(&self, question: Question, replier: oneshot::Sender<Reply>) -> Result<()> {
        let (may_ask, expiry) = {
            let state = self.run.state();
            (state.request().inputs, state.limits().approval_expiry)
        };
        // Such a form can neither be shown nor be checked, and is not kept.
        let checked = check_schema(&question.schema);
        if let Err(reason) = &checked {
            warn!(tool = %self.tool.spec().name, %reason, "question of a tool declined");
        }
        let may_ask = may_ask && checked.is_ok();
        let schema = if checked.is_ok() { question.schema } else { Value::Null };
        let expiry = self.tool.spec().approval_expiry.or(expiry).filter(|_| may_ask);
        let (call_id, input_id) = (self.call_id.clone(), InputId::new(self.run.new_id("inp")));
        let asked = Event::InputRequested {
            call_id: call_id.clone(),
            input_id: input_id.clone(),
            message: prefix(&question.message, MAX_FAILURE_BYTES).to_owned(),
            schema,
            expires_at: expiry.map(|wait| self.run.now().later(wait)),
            unknown_outcome: false,
        };
        if may_ask {
            return self.run.ask(input_id, asked, replier).await;
        }
        let (reply, by) = (Reply::Declined, Some("nobody".to_owned()));
        let declined = Event::InputResolved { call_id, input_id, reply: reply.clone(), by };
        self.run.record_all(vec![asked, declined]).await?;
        let _ = replier.send(reply);
        Ok(())
    }

    fn attempt_outcome(
        &self,
        result: Result<Result<ToolOutput, ToolError>, JoinError>,
    ) -> AttemptOutcome {
        AttemptOutcome::Over(match result {
            Ok(Ok(output)) => ToolOutcome::Succeeded { output },
            Ok(Err(ToolError::Transient(message))) => return AttemptOutcome::Transient(message),
            Ok(Err(ToolError::OutcomeUnknown(message))) => {
                return AttemptOutcome::OutcomeUnknown(message);
            }
            Ok(Err(ToolError::InvalidArguments(message))) => {
                ToolOutcome::InvalidArguments { message }
            }
            Ok(Err(ToolError::Failed(message))) => {
                let message = prefix(&message, MAX_FAILURE_BYTES).to_owned();
                ToolOutcome::Failed { failure: failures::tool_failed(message) }
            }
            Err(crash) => {
                let name = &self.tool.spec().name;
                error!(tool = %name, cause = %panic_message(crash), "tool panicked");
                ToolOutcome::Failed { failure: failures::tool_panicked(name) }
            }
        })
    }
}

/// How all attempts together ended.
enum AttemptsOutcome {
    Over(ToolOutcome),
    /// It is unknown whether the tool had an effect, because of this.
    Unknown(String),
}

/// How one attempt ended.
enum AttemptOutcome {
    Over(ToolOutcome),
    /// Failed without an effect; a retry may succeed.
    Transient(String),
    /// It is unknown whether the tool had an effect.
    OutcomeUnknown(String),
}

/// A task that is aborted on drop.
struct AbortOnDrop(JoinHandle<Result<ToolOutput, ToolError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The engine's end of a tool's context.
struct CallChannel {
    sender: mpsc::Sender<ToolMessage>,
    /// Also cancelled when the run is left; `left` is set before.
    token: CancellationToken,
    left: Arc<AtomicBool>,
}

impl CallChannel {
    /// Returns `reply`, unless the call was left: then it is still open, and this never completes.
    async fn unless_left<T>(&self, reply: T) -> T {
        if self.is_left() {
            return pending().await;
        }
        reply
    }
}

/// A message of a running tool. Small, because each call has a queue of them.
enum ToolMessage {
    Note(Box<ToolNote>),
    /// A question to a person. The tool waits for the answer. In one box, because the queue of a
    /// waiting call is allocated in blocks of 32 messages.
    Question(Box<(Question, oneshot::Sender<Reply>)>),
    Answered,
}

impl CallLink for CallChannel {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // After the end of the call the receiver is gone, and notes are dropped.
            let _ = self.sender.send(ToolMessage::Note(Box::new(note))).await;
        })
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let (replier, reply) = oneshot::channel();
            let asked = ToolMessage::Question(Box::new((question, replier)));
            if self.sender.send(asked).await.is_err() {
                return self.unless_left(Reply::Cancelled).await;
            }
            let reply = tokio::select! {
                biased;
                () = self.cancelled() => Reply::Cancelled,
                reply = reply => match reply {
                    Ok(reply) => reply,
                    Err(_) => self.unless_left(Reply::Cancelled).await,
                },
            };
            let _ = self.sender.send(ToolMessage::Answered).await;
            reply
        })
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled() && !self.is_left()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.token.cancelled().await;
            self.unless_left(()).await;
        })
    }

    fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

fn noted(call_id: &CallId, note: ToolNote) -> Event {
    let call_id = call_id.clone();
    match note {
        ToolNote::Progress { progress, total, message } => {
            Event::ToolProgressed { call_id, progress, total, message }
        }
        ToolNote::Phase(phase) => Event::ToolPhase { call_id, phase },
        ToolNote::Output(text) => Event::ToolOutputAdded { call_id, text },
        ToolNote::TaskStarted(task) => Event::ToolTaskStarted { call_id, task },
    }
}

/// Returns the panic message of a task, for the log.
fn panic_message(crash: JoinError) -> String {
    let Ok(panic) = crash.try_into_panic() else { return "the task was dropped".to_owned() };
    let words = |panic: &(dyn Any + Send)| {
        panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
    };
    words(panic.as_ref()).unwrap_or_else(|| "no panic message".to_owned())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
