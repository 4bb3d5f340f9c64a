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
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, instrument, warn};
use turnwire_contract::{
    BlobId, CallId, CallLink, Effect, Event, LogError, Tool, ToolContext, ToolError, ToolNote,
    ToolOutcome, ToolOutput, ToolRequest, ToolSpec,
    seeded::{Fault, is_seeded},
    tool::KeptAside,
};

use crate::{
    deadline::later,
    discovery::ServerTool,
    failures,
    live_run::LiveRun,
    run_loop::Workplace,
    told_to_model::beginning,
    toolbox::{not_found, read_arguments_for},
};

/// How many notes of a tool may wait for the journal; a tool that has more to say waits too.
const MAX_WAITING_NOTES: usize = 64;

/// How many bytes all pictures of a result may have together, in base64.
const MOST_PICTURE_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes of a failure's words are kept.
const MOST_FAILURE_BYTES: usize = 64 * 1024;

/// How long a tool that was told to stop may take to do so before it is dropped.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Carries out one call, to its end.
///
/// A tool that fails is not an error here: the model is told and may try something else. The
/// only error is losing the journal, and then the run cannot go on anyway.
#[instrument(skip_all, fields(%call_id, tool))]
pub(crate) async fn carry_out(
    run: &LiveRun,
    workplace: &Workplace,
    call_id: CallId,
) -> Result<(), LogError> {
    let Some(call) = run.state().call(&call_id).cloned() else { return Ok(()) };
    tracing::Span::current().record("tool", &call.tool.name);
    let name = &call.tool.name;

    let refused =
        |outcome| Event::ToolFinished { call_id: call_id.clone(), outcome, duration_ms: 0 };
    if let Some(reason) = call.denied() {
        run.record(refused(ToolOutcome::Denied { reason: reason.to_owned() })).await?;
        return Ok(());
    }
    let spec = run.state().offered().find(|spec| spec.name == *name).cloned();
    let found = spec.and_then(|spec| Some((find_tool(run, workplace, &spec)?, spec)));
    let Some((tool, spec)) = found else {
        let message = not_found(name, run.state().offered());
        run.record(refused(ToolOutcome::NotFound { message })).await?;
        return Ok(());
    };
    let read = match spec.server {
        None => workplace.tools.read_arguments(name, &call.arguments),
        Some(_) => read_arguments_for(&spec, &call.arguments),
    };
    let arguments = match read {
        Ok(arguments) => arguments,
        Err(message) => {
            run.record(refused(ToolOutcome::InvalidArguments { message })).await?;
            return Ok(());
        }
    };

    let attempt = call.attempts + 1;
    let label = words_from(|| tool.label(&arguments)).unwrap_or_default();
    // A call taken over from another worker was started before; it has one start only.
    let start = match call.attempts {
        0 => Event::ToolStarted { call_id: call_id.clone(), attempt, label },
        _ => Event::ToolRetried {
            call_id: call_id.clone(),
            attempt,
            reason: failures::engine_stopped(),
        },
    };
    // From its start on, whoever sees the call can stop it.
    let token = run.begin_call(&call_id);
    let too_late = is_seeded(Fault::StartAfterCall).then(|| start.clone());
    if too_late.is_none() {
        let place = run.record(start).await?;
        run.let_watcher_see(place).await;
        // The start is durable, but that was a moment ago.
        run.surely_ours().await;
    }

    let began = Instant::now();
    let request = ToolRequest {
        tenant: run.state().request().tenant.clone(),
        arguments,
        idempotency_key: format!("{}:{call_id}", run.id()),
        settings: spec.settings.clone(),
    };
    let work = Work { run, workplace, tool: &tool, call_id: &call_id, request, token, began };
    let outcome = work.until_it_is_over(attempt).await;
    if let Some(start) = too_late {
        run.record(start).await?;
    }
    run.end_call(&call_id);

    let outcome = keep_aside(run, workplace, tool.as_ref(), outcome?).await;
    let duration_ms = millis(began.elapsed());
    run.record(Event::ToolFinished { call_id, outcome, duration_ms }).await?;
    Ok(())
}

/// The tool that `spec` describes: one of this process, or one of a server.
fn find_tool(run: &LiveRun, workplace: &Workplace, spec: &ToolSpec) -> Option<Arc<dyn Tool>> {
    if spec.server.is_none() {
        return workplace.tools.get(&spec.name).cloned();
    }
    let (servers, tenant) = (Arc::clone(&workplace.servers), run.state().request().tenant.clone());
    Some(Arc::new(ServerTool::new(servers, tenant, spec)))
}

/// A tool at work on a call.
struct Work<'a> {
    run: &'a LiveRun,
    workplace: &'a Workplace,
    tool: &'a Arc<dyn Tool>,
    call_id: &'a CallId,
    request: ToolRequest,
    token: CancellationToken,
    began: Instant,
}

impl Work<'_> {
    /// Tries until the tool has worked, has failed for good, or has had its chances.
    async fn until_it_is_over(&self, first_attempt: u32) -> Result<ToolOutcome, LogError> {
        let most_attempts = self.run.state().limits().call_attempts;
        let may_repeat = self.tool.spec().effect != Effect::Once;
        let mut attempt = first_attempt;
        loop {
            let message = match self.attempt(attempt).await? {
                Attempt::Over(outcome) => return Ok(outcome),
                Attempt::MayWorkNextTime(message) => message,
            };
            attempt += 1;
            let failure = failures::tool_failed(message);
            if !may_repeat || attempt > most_attempts {
                return Ok(ToolOutcome::Failed { failure });
            }
            let call_id = self.call_id.clone();
            self.run.record(Event::ToolRetried { call_id, attempt, reason: failure }).await?;
            tokio::select! {
                biased;
                () = self.token.cancelled() => return Ok(ToolOutcome::Cancelled),
                () = sleep(crate::retry::wait_before(attempt, None)) => {}
            }
        }
    }

    /// Lets the tool work once, and records what it reports until it is done or given up.
    async fn attempt(&self, attempt: u32) -> Result<Attempt, LogError> {
        if self.token.is_cancelled() {
            return Ok(Attempt::Over(ToolOutcome::Cancelled));
        }
        let limits = self.run.state().limits().clone();
        let silence = self.tool.spec().timeout.unwrap_or(limits.call_silence);
        let until = later(self.began, limits.call_total);
        let (sender, mut notes) = mpsc::channel(MAX_WAITING_NOTES);
        let mut task = self.start(attempt, limits.call_total, sender);
        let mut heard_at = Instant::now();
        let heartbeat = match self.workplace.heartbeat {
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
                    let _ = timeout(STOP_GRACE, &mut task.0).await;
                    return Ok(Attempt::Over(ToolOutcome::Cancelled));
                }
                Some(note) = notes.recv() => {
                    self.write_down(note, &mut notes).await?;
                    heard_at = Instant::now();
                    heartbeat_at = later(heard_at, heartbeat);
                }
                result = &mut task.0 => {
                    // Last words, spoken in the same breath as the result.
                    if let Ok(note) = notes.try_recv() {
                        self.write_down(note, &mut notes).await?;
                    }
                    return Ok(self.judge(result));
                }
                () = sleep_until(until.min(later(heard_at, silence))) => {
                    let after_ms = millis(self.began.elapsed());
                    self.token.cancel();
                    let _ = timeout(STOP_GRACE, &mut task.0).await;
                    return Ok(Attempt::Over(ToolOutcome::TimedOut { after_ms }));
                }
                () = sleep_until(heartbeat_at) => {
                    heartbeat_at = later(heartbeat_at, heartbeat);
                    let (call_id, elapsed_ms) = (self.call_id.clone(), millis(self.began.elapsed()));
                    self.run.record(Event::ToolStayedSilent { call_id, elapsed_ms }).await?;
                }
            }
        }
    }

    /// Starts the tool in a task of its own, so that a tool that blocks or crashes harms
    /// neither the run nor the tools beside it.
    fn start(
        &self,
        attempt: u32,
        time_allowed: Duration,
        sender: mpsc::Sender<ToolNote>,
    ) -> DroppedWhenGivenUp {
        let link = Arc::new(Link { sender, token: self.token.clone() });
        let (run_id, call_id) = (self.run.id().clone(), self.call_id.clone());
        let context = ToolContext::new(run_id, call_id, attempt, time_allowed, link);
        let (tool, request) = (Arc::clone(self.tool), self.request.clone());
        let task = self.workplace.tasks.spawn(async move { tool.call(request, context).await });
        DroppedWhenGivenUp(task)
    }

    /// Records `first` and whatever else the tool has said meanwhile.
    async fn write_down(
        &self,
        first: ToolNote,
        notes: &mut mpsc::Receiver<ToolNote>,
    ) -> Result<(), LogError> {
        let mut events = vec![noted(self.call_id, first)];
        while events.len() < MAX_WAITING_NOTES
            && let Ok(note) = notes.try_recv()
        {
            events.push(noted(self.call_id, note));
        }
        self.run.record_all(events).await?;
        Ok(())
    }

    fn judge(&self, result: Result<Result<ToolOutput, ToolError>, JoinError>) -> Attempt {
        Attempt::Over(match result {
            Ok(Ok(output)) => ToolOutcome::Succeeded { output },
            Ok(Err(ToolError::Transient(message))) => return Attempt::MayWorkNextTime(message),
            Ok(Err(ToolError::InvalidArguments(message))) => {
                ToolOutcome::InvalidArguments { message }
            }
            Ok(Err(ToolError::Failed(message))) => {
                let message = beginning(&message, MOST_FAILURE_BYTES).to_owned();
                ToolOutcome::Failed { failure: failures::tool_failed(message) }
            }
            Err(crash) => {
                let name = &self.tool.spec().name;
                error!(tool = %name, cause = %words_of(crash), "The tool crashed.");
                ToolOutcome::Failed { failure: failures::tool_panicked(name) }
            }
        })
    }
}

/// How one try ended.
enum Attempt {
    Over(ToolOutcome),
    MayWorkNextTime(String),
}

/// A task that does not outlive the one who waits for it.
struct DroppedWhenGivenUp(JoinHandle<Result<ToolOutput, ToolError>>);

impl Drop for DroppedWhenGivenUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The engine's end of a tool's context.
struct Link {
    sender: mpsc::Sender<ToolNote>,
    token: CancellationToken,
}

impl CallLink for Link {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Nobody listens once the call is over; late words are dropped.
            let _ = self.sender.send(note).await;
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
    }
}

/// Puts a result that is too big for the journal beside it, and adds the tool's own short
/// form of it.
async fn keep_aside(
    run: &LiveRun,
    workplace: &Workplace,
    tool: &dyn Tool,
    outcome: ToolOutcome,
) -> ToolOutcome {
    let ToolOutcome::Succeeded { mut output } = outcome else { return outcome };
    leave_out_what_is_too_big(&mut output, run.state().limits().output_in_journal);
    if output.short.is_none() {
        output.short = words_from(|| tool.short_result(&output));
    }
    let (limit, tenant) = {
        let state = run.state();
        (state.limits().output_in_journal, state.request().tenant.clone())
    };
    if output.text.len() > limit {
        let blob = BlobId::new(run.new_id("blob"));
        let head = beginning(&output.text, limit).to_owned();
        let whole = std::mem::replace(&mut output.text, head);
        let bytes = whole.len() as u64;
        if let Err(error) = workplace.blobs.put(&tenant, run.id(), &blob, whole).await {
            warn!(%error, "A big result could not be kept.");
            return ToolOutcome::Failed { failure: failures::output_lost() };
        }
        output.rest = Some(KeptAside { blob, bytes });
    }
    ToolOutcome::Succeeded { output }
}

/// Data and pictures have no place beside the journal; what is too big is left out, and said.
fn leave_out_what_is_too_big(output: &mut ToolOutput, limit: usize) {
    let data = output.structured.as_ref().map_or(0, |data| data.to_string().len());
    if data > limit {
        output.structured = None;
        output.text.push_str("\n[the data of this result was too big and is left out]");
    }
    let mut room = MOST_PICTURE_BYTES;
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
fn words_from(say: impl FnOnce() -> Option<String>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(say)).unwrap_or_else(|_| {
        warn!("The tool crashed while it described itself.");
        None
    })
}

/// The words a crashed task left behind, for the operator.
fn words_of(crash: JoinError) -> String {
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
