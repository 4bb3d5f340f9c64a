//! One tool call, wrapped in its life cycle.
//!
//! The tool itself needs to know nothing of events. Around it, this module records the start
//! before the tool does anything, passes on what it reports, says that it is still silent,
//! stops waiting when it is told to or when the tool takes too long, survives a crash of the
//! tool, and records exactly one end.

use std::{
    any::Any,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
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
    Allowed, BlobId, CallId, CallLink, Decision, Effect, Event, InputId, JournalError, Question,
    Reply, Tool, ToolContext, ToolError, ToolNote, ToolOutcome, ToolOutput, ToolRequest, ToolSpec,
    seeded::{Fault, is_seeded},
    tool::BlobRef,
};

use crate::{
    concurrency::Permits,
    deadline::later,
    definition::definition_of,
    depth::is_too_deep,
    discovery::ServerTool,
    failures,
    live_run::LiveRun,
    pinning,
    run_loop::RunContext,
    run_state::Call,
    tool_result::{outcome_unknown, prefix},
    toolbox::{not_found, read_arguments_for},
};

/// How many notes of a tool may wait for the journal; a tool that has more to say waits too.
const MAX_WAITING_NOTES: usize = 64;

/// What a note costs beside its text.
const NOTE_WEIGHT: usize = 64;

/// What is shown when a tool tells more while it works than is kept.
const NO_MORE_NOTES: &str = "\n[what the tool says from here on is not shown while it works]\n";

/// How many bytes all pictures of a result may have together, in base64.
const MAX_PICTURE_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes of a failure's words are kept.
const MAX_FAILURE_BYTES: usize = 64 * 1024;

/// How long a tool that was told to stop may take to do so before it is dropped.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Carries out one call, to its end.
///
/// A tool that fails is not an error here: the model is told and may try something else. The
/// only error is losing the journal, and then the run cannot go on anyway.
#[instrument(skip_all, fields(%call_id, tool))]
pub(crate) async fn execute_call(
    run: &LiveRun,
    context: &RunContext,
    call_id: CallId,
) -> Result<(), JournalError> {
    // A tool may be at work for hours; what its beginning needed is not kept that long.
    let Some(ready) = Box::pin(begin(run, context, &call_id)).await? else { return Ok(()) };
    let StartedCall { tool, request, token, permits, attempt, too_late } = ready;
    let began = Instant::now();
    let work = CallExecution {
        room_for_notes: AtomicUsize::new(run.state().limits().output_in_journal),
        is_told_of_room: AtomicBool::new(false),
        run,
        context,
        tool: &tool,
        call_id: &call_id,
        request,
        token,
        began,
    };
    let outcome = work.run_attempts(attempt).await;
    if let Some(start) = too_late {
        Box::pin(run.record(*start)).await?;
    }
    run.end_call(&call_id);
    drop(permits);

    let outcome = Box::pin(store_large_output(run, context, tool.as_ref(), outcome?)).await;
    let duration_ms = millis(began.elapsed());
    let end = Event::ToolFinished { call_id: call_id.clone(), outcome, duration_ms };
    Box::pin(run.record_end_of_call(&call_id, end)).await?;
    Ok(())
}

/// A call whose start is durable, with all that its tool needs.
struct StartedCall {
    tool: Arc<dyn Tool>,
    request: ToolRequest,
    token: CancellationToken,
    permits: Permits,
    attempt: u32,
    /// Its start, where that is recorded too late on purpose.
    too_late: Option<Box<Event>>,
}

/// Brings a call to where its tool begins. There is nothing to return if it has ended before, or
/// is left to the loop.
async fn begin(
    run: &LiveRun,
    context: &RunContext,
    call_id: &CallId,
) -> Result<Option<StartedCall>, JournalError> {
    let Some(call) = run.state().call(call_id).cloned() else { return Ok(None) };
    tracing::Span::current().record("tool", &call.tool.name);
    let PreparedCall { tool, spec, arguments } = match prepare(run, context, &call) {
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
    // From here on, whoever sees the call can stop it.
    let token = run.begin_call(call_id);
    let permits = tokio::select! {
        biased;
        // The loop looks at the stop next, and ends the call that never began.
        () = run.stopped() => None,
        () = run.left() => None,
        // It has its start and its end all the same.
        () = token.cancelled() => Some(Vec::new()),
        permits = context.concurrency.permits(&spec) => Some(permits),
    };
    let Some(permits) = permits else {
        run.end_call(call_id);
        return Ok(None);
    };

    let attempt = call.attempts + 1;
    let label = text_or_none(|| tool.label(&arguments)).unwrap_or_default();
    // A call taken over from another worker was started before; it has one start only.
    let start = match call.attempts {
        0 => Event::ToolStarted { call_id: call_id.clone(), attempt, label },
        _ => Event::ToolRetried {
            call_id: call_id.clone(),
            attempt,
            reason: failures::engine_stopped(),
        },
    };
    let too_late = is_seeded(Fault::StartAfterCall).then(|| Box::new(start.clone()));
    if too_late.is_none() {
        let seq = run.record(start).await?;
        run.let_watcher_see(seq).await;
        // The start is durable, but that was a moment ago.
        run.wait_for_lease().await;
    }
    let request = ToolRequest {
        tenant: run.state().request().tenant.clone(),
        arguments,
        idempotency_key: format!("{}:{call_id}", run.id()),
        settings: spec.settings.clone(),
    };
    Ok(Some(StartedCall { tool, request, token, permits, attempt, too_late }))
}

/// The tool of a call, its description, and its arguments.
struct PreparedCall {
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    arguments: Map<String, Value>,
}

/// Finds what a call needs, or says how it ends without.
fn prepare(
    run: &LiveRun,
    context: &RunContext,
    call: &Call,
) -> Result<PreparedCall, Box<ToolOutcome>> {
    if let Some(reason) = call.denied() {
        return Err(Box::new(ToolOutcome::Denied { reason: reason.to_owned() }));
    }
    if call.was_cut() {
        let max_bytes = run.state().limits().max_arguments;
        let message = format!("they have more than {max_bytes} bytes, which is the limit");
        return Err(Box::new(ToolOutcome::InvalidArguments { message }));
    }
    let name = &call.tool.name;
    let spec = run.state().offered().find(|spec| spec.name == *name).cloned();
    let found = spec.and_then(|spec| Some((find_tool(run, context, &spec)?, spec)));
    let Some((tool, spec)) = found else {
        let message = not_found(name, run.state().offered());
        return Err(Box::new(ToolOutcome::NotFound { message }));
    };
    let read = match spec.server {
        None => context.tools.read_arguments(name, &call.arguments),
        Some(_) => read_arguments_for(&spec, &call.arguments),
    };
    let arguments = read.map_err(|message| ToolOutcome::InvalidArguments { message })?;
    Ok(PreparedCall { tool, spec, arguments })
}

/// Keeps what a person has allowed for longer than this call, before the tool begins: a worker
/// that dies now leaves the call to one that does the same.
async fn keep_permission(
    run: &LiveRun,
    context: &RunContext,
    spec: &ToolSpec,
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
    let allowed = Allowed { tool: spec.name.clone(), definition: definition_of(spec) };
    let allow = || context.store.allow(run.tenant(), &conversation_id, allowed.clone());
    if let Some(Err(error)) = run.retry_until_available(allow).await {
        warn!(%error, "approval not stored, it will be asked for again");
    }
}

/// The tool that `spec` describes: one of this process, or one of a server.
fn find_tool(run: &LiveRun, context: &RunContext, spec: &ToolSpec) -> Option<Arc<dyn Tool>> {
    if spec.server.is_none() {
        return context.tools.get(&spec.name).cloned();
    }
    let servers = Arc::clone(&context.servers);
    Some(Arc::new(ServerTool::new(servers, run.state().request(), spec)))
}

/// A tool at work on a call.
struct CallExecution<'a> {
    /// How many more bytes the journal takes of what the tool tells while it works.
    room_for_notes: AtomicUsize,
    /// Whether it was said that it takes no more.
    is_told_of_room: AtomicBool,
    run: &'a LiveRun,
    context: &'a RunContext,
    tool: &'a Arc<dyn Tool>,
    call_id: &'a CallId,
    request: ToolRequest,
    token: CancellationToken,
    began: Instant,
}

impl CallExecution<'_> {
    /// Tries until the tool has worked, has failed for good, or has had its chances.
    async fn run_attempts(&self, first_attempt: u32) -> Result<ToolOutcome, JournalError> {
        let max_attempts = self.run.state().limits().call_attempts;
        let effect = self.tool.spec().effect;
        let mut attempt = first_attempt;
        // What is known of a try that may have acted. A later one that never arrived does not
        // change that.
        let mut unknown = None;
        loop {
            let message = match self.attempt(attempt).await? {
                AttemptOutcome::Over(outcome) => return Ok(outcome),
                AttemptOutcome::Transient(message) => message,
                AttemptOutcome::OutcomeUnknown(message) => {
                    unknown = Some(message.clone());
                    message
                }
            };
            attempt += 1;
            if effect == Effect::Once || attempt > max_attempts {
                return Ok(match unknown {
                    // What changes nothing has done no harm either way.
                    Some(what) if effect != Effect::Pure => outcome_unknown(&what),
                    Some(_) | None => {
                        ToolOutcome::Failed { failure: failures::tool_failed(message) }
                    }
                });
            }
            Box::pin(self.wait_to_retry(attempt, message)).await?;
        }
    }

    /// Records that the tool is called again, and waits for that, unless the call is stopped.
    async fn wait_to_retry(&self, attempt: u32, message: String) -> Result<(), JournalError> {
        let (call_id, reason) = (self.call_id.clone(), failures::tool_failed(message));
        self.run.record(Event::ToolRetried { call_id, attempt, reason }).await?;
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = sleep(crate::retry::wait_before(attempt, None)) => {}
        }
        Ok(())
    }

    /// Lets the tool work once, and records what it reports until it is done or given up. What
    /// is not needed while it waits is on the heap: a run that waits should weigh little.
    async fn attempt(&self, attempt: u32) -> Result<AttemptOutcome, JournalError> {
        if self.token.is_cancelled() {
            return Ok(AttemptOutcome::Over(ToolOutcome::Cancelled));
        }
        let (silence, total) = self.timeouts();
        let mut until = later(self.began, total);
        let (sender, mut notes) = mpsc::channel(MAX_WAITING_NOTES);
        let mut task = self.start(attempt, total, sender);
        let mut heard_at = Instant::now();
        // While a person thinks, the tool is not silent, and its time stands still.
        let (mut n_asked, mut asked_at) = (0_u32, heard_at);
        let heartbeat = match self.context.heartbeat {
            Duration::ZERO => Duration::MAX,
            heartbeat => heartbeat,
        };
        let mut heartbeat_at = later(heard_at, heartbeat);
        loop {
            // In this order: a stopped call must not slip in a result, and what a tool said
            // comes before what it did next.
            tokio::select! {
                biased;
                () = self.token.cancelled() => {
                    let _ = Box::pin(timeout(STOP_GRACE, &mut task.0)).await;
                    return Ok(AttemptOutcome::Over(ToolOutcome::Cancelled));
                }
                Some(message) = notes.recv() => {
                    let mut next = Some(message);
                    while let Some(message) = next.take() {
                        match message {
                            ToolMessage::Note(note) => {
                                next = Box::pin(self.record_notes(*note, &mut notes)).await?;
                            }
                            ToolMessage::Question(question, replier) => {
                                if n_asked == 0 {
                                    asked_at = Instant::now();
                                }
                                n_asked += 1;
                                Box::pin(self.ask(*question, replier)).await?;
                            }
                            ToolMessage::Answered => {
                                n_asked = n_asked.saturating_sub(1);
                                if n_asked == 0 {
                                    until = later(until, asked_at.elapsed());
                                }
                            }
                        }
                    }
                    heard_at = Instant::now();
                    heartbeat_at = later(heard_at, heartbeat);
                }
                result = &mut task.0 => {
                    // Last words, spoken in the same breath as the result.
                    while let Ok(message) = notes.try_recv() {
                        if let ToolMessage::Note(note) = message {
                            Box::pin(self.record_notes(*note, &mut notes)).await?;
                        }
                    }
                    return Ok(self.attempt_outcome(result));
                }
                // One timer for both: a run that waits should weigh little.
                () = sleep_until(heartbeat_at.min(until).min(later(heard_at, silence))),
                    if n_asked == 0 =>
                {
                    let elapsed_ms = millis(self.began.elapsed());
                    if Instant::now() >= until.min(later(heard_at, silence)) {
                        self.token.cancel();
                        let _ = Box::pin(timeout(STOP_GRACE, &mut task.0)).await;
                        return Ok(AttemptOutcome::Over(ToolOutcome::TimedOut { after_ms: elapsed_ms }));
                    }
                    heartbeat_at = later(heartbeat_at, heartbeat);
                    let call_id = self.call_id.clone();
                    let silent = Event::ToolStayedSilent { call_id, elapsed_ms };
                    Box::pin(self.run.record(silent)).await?;
                }
            }
        }
    }

    /// How long the tool may say nothing, and how long it may take altogether.
    fn timeouts(&self) -> (Duration, Duration) {
        let (state, spec) = (self.run.state(), self.tool.spec());
        let limits = state.limits();
        let silence = spec.timeout.unwrap_or(limits.call_silence);
        (silence, spec.deadline.unwrap_or(limits.call_total))
    }

    /// Starts the tool in a task of its own, so that a tool that blocks or crashes harms
    /// neither the run nor the tools beside it.
    fn start(
        &self,
        attempt: u32,
        time_allowed: Duration,
        sender: mpsc::Sender<ToolMessage>,
    ) -> AbortOnDrop {
        let link = Arc::new(Link { sender, token: self.token.clone() });
        let (run_id, call_id) = (self.run.id().clone(), self.call_id.clone());
        let begun = self.run.state().call(self.call_id).and_then(|call| call.task.clone());
        let context = ToolContext::new(run_id, call_id, attempt, time_allowed, link);
        let context = context.going_on_with(begun);
        let (tool, request) = (Arc::clone(self.tool), self.request.clone());
        let task = self.context.tasks.spawn(async move { tool.call(request, context).await });
        AbortOnDrop(task)
    }

    /// Records `first` and whatever else the tool has said meanwhile, up to the first thing that
    /// is not a note, which it returns.
    async fn record_notes(
        &self,
        first: ToolNote,
        notes: &mut mpsc::Receiver<ToolMessage>,
    ) -> Result<Option<ToolMessage>, JournalError> {
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

    /// The event of a note, if the journal has room for it. One that has not is a sign of life all
    /// the same. What the tool returns in the end is not a note.
    fn note_event(&self, note: ToolNote) -> Option<Event> {
        let n_bytes = match &note {
            ToolNote::Output(text) | ToolNote::Phase(text) => text.len(),
            ToolNote::Progress { message, .. } => message.as_ref().map_or(0, String::len),
            // Without its name, nobody could go on with it.
            ToolNote::TaskStarted(_) => return Some(noted(self.call_id, note)),
        };
        let take = |room: usize| room.checked_sub(NOTE_WEIGHT + n_bytes);
        let taken = self.room_for_notes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            return Some(noted(self.call_id, note));
        }
        let is_first = !self.is_told_of_room.swap(true, Ordering::Relaxed);
        is_first.then(|| noted(self.call_id, ToolNote::Output(NO_MORE_NOTES.to_owned())))
    }

    /// Passes on a question of the tool, or answers it at once if nobody can be asked.
    async fn ask(
        &self,
        question: Question,
        replier: oneshot::Sender<Reply>,
    ) -> Result<(), JournalError> {
        let (may_ask, timeouts) = {
            let state = self.run.state();
            (state.request().inputs, state.limits().approval_expiry)
        };
        // Nobody can fill in what nobody can read.
        let is_too_deep = is_too_deep(&question.schema);
        let may_ask = may_ask && !is_too_deep;
        let schema = if is_too_deep { Value::Null } else { question.schema };
        let timeouts = self.tool.spec().approval_expiry.or(timeouts).filter(|_| may_ask);
        let (call_id, input_id) = (self.call_id.clone(), InputId::new(self.run.new_id("inp")));
        let asked = Event::InputRequested {
            call_id: call_id.clone(),
            input_id: input_id.clone(),
            message: prefix(&question.message, MAX_FAILURE_BYTES).to_owned(),
            schema,
            expires_at: timeouts.map(|wait| self.run.now().later(wait)),
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

/// How one try ended.
enum AttemptOutcome {
    Over(ToolOutcome),
    /// It did nothing, and may work the next time.
    Transient(String),
    /// It may have done its work, or not.
    OutcomeUnknown(String),
}

/// A task that does not outlive the one who waits for it.
struct AbortOnDrop(JoinHandle<Result<ToolOutput, ToolError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The engine's end of a tool's context.
struct Link {
    sender: mpsc::Sender<ToolMessage>,
    token: CancellationToken,
}

/// What comes from a tool at work. Small, because room for many is kept for every call.
enum ToolMessage {
    /// It tells something.
    Note(Box<ToolNote>),
    /// It asks a person something, and waits.
    Question(Box<Question>, oneshot::Sender<Reply>),
    /// The question was answered.
    Answered,
}

impl CallLink for Link {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Nobody listens once the call is over; late words are dropped.
            let _ = self.sender.send(ToolMessage::Note(Box::new(note))).await;
        })
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let (replier, reply) = oneshot::channel();
            if self.sender.send(ToolMessage::Question(Box::new(question), replier)).await.is_err() {
                return Reply::Cancelled;
            }
            let reply = tokio::select! {
                biased;
                () = self.token.cancelled() => Reply::Cancelled,
                reply = reply => reply.unwrap_or(Reply::Cancelled),
            };
            let _ = self.sender.send(ToolMessage::Answered).await;
            reply
        })
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.token.cancelled())
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

/// Puts a result that is too big for the journal beside it, and adds the tool's own short
/// form of it.
async fn store_large_output(
    run: &LiveRun,
    context: &RunContext,
    tool: &dyn Tool,
    outcome: ToolOutcome,
) -> ToolOutcome {
    let ToolOutcome::Succeeded { mut output } = outcome else { return outcome };
    drop_oversized(&mut output, run.state().limits().output_in_journal);
    if output.short.is_none() {
        output.short = text_or_none(|| tool.short_result(&output));
    }
    let (limit, tenant) = {
        let state = run.state();
        (state.limits().output_in_journal, state.request().tenant.clone())
    };
    if output.text.len() > limit {
        let blob = BlobId::new(run.new_id("blob"));
        let head = prefix(&output.text, limit).to_owned();
        let whole = std::mem::replace(&mut output.text, head);
        let bytes = whole.len() as u64;
        let put = || context.blobs.put(&tenant, run.id(), &blob, whole.clone());
        match run.retry_until_stored(put).await {
            Some(Ok(())) => output.rest = Some(BlobRef { blob, bytes }),
            kept => {
                warn!(?kept, bytes, "large result not stored");
                return ToolOutcome::Failed { failure: failures::output_lost() };
            }
        }
    }
    ToolOutcome::Succeeded { output }
}

/// Data and pictures have no place beside the journal; what is too big is left out, and said.
fn drop_oversized(output: &mut ToolOutput, limit: usize) {
    if output.structured.as_ref().is_some_and(is_too_deep) {
        output.structured = None;
        output.text.push_str("\n[the data of this result was nested too deeply and is left out]");
    }
    let data = output.structured.as_ref().map_or(0, |data| data.to_string().len());
    if data > limit {
        output.structured = None;
        output.text.push_str("\n[the data of this result was too big and is left out]");
    }
    let mut room = MAX_PICTURE_BYTES;
    let n_pictures = output.images.len();
    output.images.retain(|image| {
        let fits = image.base64.len() <= room;
        room -= if fits { image.base64.len() } else { 0 };
        fits
    });
    let left_out = n_pictures - output.images.len();
    if left_out > 0 {
        let _ = write!(output.text, "\n[{left_out} pictures were too big and are left out]");
    }
}

/// What a tool says for people. Words are not worth a run: if it crashes, there are none.
fn text_or_none(say: impl FnOnce() -> Option<String>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(say)).unwrap_or_else(|_| {
        warn!("tool panicked while describing a call");
        None
    })
}

/// The words a crashed task left behind, for the operator.
fn panic_message(crash: JoinError) -> String {
    let Ok(panic) = crash.try_into_panic() else { return "the task was dropped".to_owned() };
    let words = |panic: &(dyn Any + Send)| {
        panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
    };
    words(panic.as_ref()).unwrap_or_else(|| "it left no words".to_owned())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
