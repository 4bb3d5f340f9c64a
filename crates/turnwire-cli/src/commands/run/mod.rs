//! `turnwire run`: runs one prompt and prints the answer to standard output. The exit code is the
//! outcome.
//!
//! This thread follows the run and handles Ctrl-C. A second thread writes to the terminal, which
//! may block, for example on a pager. So the second Ctrl-C always works.

mod approvals;
mod keyboard;
mod question;

use std::{
    collections::VecDeque,
    fs,
    io::{self, ErrorKind},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};
use turnwire::{
    Agent, Error, EventStream, Failure, IncompleteReason, RecordedEvent, Run, RunOutcome, TenantId,
};
use turnwire_engine::AnswerError;
use turnwire_surfaces::{Answer, clean, words};
use turnwire_tools::McpServers;

use self::{approvals::Approver, keyboard::Keyboard, question::question};
use crate::{
    args::RunArguments,
    environment::Environment,
    exit::{Exit, Problem},
    settings::{ModelSettings, RunSettings},
    signals::{Signal, Signals},
    telemetry,
    terminal::{DisplayUpdate, Look, Screen, Streams, TICK, View},
    wiring,
};

/// Maximum number of queued updates for the terminal. If it is full, reading the events pauses;
/// they stay in the journal.
const MAX_QUEUED_UPDATES: usize = 64;
/// Maximum duration of the shutdown: enough to stop tool server processes, and too short to notice.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// Hint for the cause of an error.
const SEE_LOG: &str = "TURNWIRE_LOG=warn shows the cause";

pub(crate) fn run(arguments: &RunArguments, environment: &Environment) -> Exit {
    let look = Look::choose(arguments, environment, Streams::of_this_process());
    answer(arguments, environment, look).unwrap_or_else(|problem| {
        problem.show(look.paint);
        problem.exit
    })
}

fn answer(
    arguments: &RunArguments,
    environment: &Environment,
    look: Look,
) -> Result<Exit, Problem> {
    let has_log = telemetry::start(environment, look)?;
    let settings = RunSettings::read(arguments, environment, look.stderr_is_terminal)?;
    if let Some(path) = &arguments.output {
        check_writable(path)?;
    }
    let question = question(arguments.question.as_deref())?;
    let (agent, tool_servers) = wiring::agent(&settings)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Problem::failure(format!("cannot start the runtime: {error}")))?;
    let approver = approver(environment, look);
    let ending = runtime.block_on(Box::pin(ask(agent, tool_servers, question, look, approver)));
    // Background tasks must not delay the exit.
    runtime.shutdown_timeout(LAST_MOMENT);
    match ending? {
        Ending::Left(signal) => Ok(signal.into()),
        Ending::NobodyReads => Ok(Exit::Done),
        Ending::Over { answer, outcome, stopped_by } => {
            if let Some(path) = &arguments.output {
                keep(&answer, &outcome, path)?;
            }
            match outcome {
                RunOutcome::Completed => Ok(Exit::Done),
                RunOutcome::Cancelled => Ok(stopped_by.map_or(Exit::Failed, Exit::from)),
                RunOutcome::Incomplete { reason } => {
                    let problem = Problem::failure(words::run_ending(&outcome));
                    Err(problem.hint(after_limit(reason, &settings)))
                }
                RunOutcome::Failed { failure } => {
                    let problem = after_failure(&failure, &settings);
                    Err(if has_log { problem } else { problem.hint(SEE_LOG) })
                }
            }
        }
    }
}

/// Why the run is no longer followed.
enum Ending {
    /// The run ended.
    Over { answer: String, outcome: RunOutcome, stopped_by: Option<Signal> },
    /// A second signal ended the wait.
    Left(Signal),
    /// The reader of standard output closed it, as in `turnwire run … | head -1`.
    NobodyReads,
}

async fn ask(
    agent: Agent,
    tool_servers: Arc<McpServers>,
    question: String,
    look: Look,
    mut approver: Approver,
) -> Result<Ending, Problem> {
    let listening = Signals::listen();
    let mut signals = listening
        .map_err(|error| Problem::failure(format!("cannot listen for Ctrl-C: {error}")))?;
    let run = agent.stream_chat(question).start().await.map_err(broken)?;
    let mut events = run.events().await.map_err(broken)?;
    let mut display = Display::open(look)?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut answer, mut stopped_by) = (Answer::default(), None);
    // Updates about questions, which must not be dropped.
    let mut updates = VecDeque::new();
    loop {
        // In this order, so that signals and timers are handled even if many events arrive.
        tokio::select! {
            biased;
            signal = signals.next() => {
                if stopped_by.is_some() {
                    return Ok(Ending::Left(signal));
                }
                stopped_by = Some(signal);
                run.cancel();
                display.tell(DisplayUpdate::Stopping);
            }
            _ = ticks.tick() => display.tell(DisplayUpdate::Tick),
            typed = approver.typed() => {
                if let Some(given) = approver.read(typed, &mut updates) {
                    give(&agent, &run, &mut approver, given, &mut updates).await?;
                }
            }
            shown = display.show_next(&mut events, &mut updates) => match shown {
                DisplayStep::Event(recorded) => {
                    let recorded = recorded?;
                    answer.note(recorded.as_ref());
                    if let Some(given) = approver.note(&recorded, &mut updates) {
                        give(&agent, &run, &mut approver, given, &mut updates).await?;
                    }
                }
                DisplayStep::Updated => {}
                DisplayStep::Ended => break,
                DisplayStep::NoDisplay => return display_lost(&run, display, signals).await,
            }
        }
    }
    tokio::select! {
        biased;
        // The run is over, so a signal ends the process.
        signal = signals.next() => return Ok(Ending::Left(signal)),
        closed = put_away(&agent, &tool_servers, display) => if let Err(error) = closed {
            return unwritten(&error);
        },
    }
    let Some(outcome) = answer.outcome().cloned() else {
        return Err(Problem::failure("the journal of the run ends before the run does"));
    };
    Ok(Ending::Over { answer: answer.text().to_owned(), outcome, stopped_by })
}

/// Asks for approvals if the questions are visible and there is a terminal.
fn approver(environment: &Environment, look: Look) -> Approver {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| environment.get(name));
    let can_ask = look.stderr_is_terminal && look.view != View::Json;
    let keyboard = can_ask.then(|| Keyboard::open(editor.map(str::to_owned))).flatten();
    Approver::new(keyboard, editor.is_some(), look.paint)
}

/// Submits an answer. If it does not fit the tool, the question is repeated.
async fn give(
    agent: &Agent,
    run: &Run,
    approver: &mut Approver,
    given: approvals::Answer,
    updates: &mut VecDeque<DisplayUpdate>,
) -> Result<(), Problem> {
    let approvals::Answer { call_id, answer } = given;
    match agent.runs().answer(&TenantId::default(), run.id(), &call_id, answer).await {
        Ok(_) => approver.settle(&call_id, true, updates),
        Err(AnswerError::DoesNotFit(why)) => {
            approver.ask_again(&format!("  that does not fit the tool: {}", clean(&why)), updates);
        }
        Err(AnswerError::Log(error)) => return Err(broken(error.into())),
    }
    Ok(())
}

/// Shuts down the display and the engine, then the tool servers.
async fn put_away(agent: &Agent, tool_servers: &McpServers, display: Display) -> io::Result<()> {
    let (closed, ()) = tokio::join!(display.close(), agent.shut_down());
    tool_servers.shut_down().await;
    closed
}

/// Cancels a run that can no longer be displayed.
async fn display_lost(
    run: &Run,
    display: Display,
    mut signals: Signals,
) -> Result<Ending, Problem> {
    run.cancel();
    tokio::select! {
        signal = signals.next() => return Ok(Ending::Left(signal)),
        // The outcome does not matter here, only that the run ends properly.
        _ = run.reply() => {}
    }
    match display.close().await {
        Ok(()) => Ok(Ending::NobodyReads),
        Err(error) => unwritten(&error),
    }
}

fn unwritten(error: &io::Error) -> Result<Ending, Problem> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(Ending::NobodyReads),
        _ => Err(Problem::failure(format!("the answer could not be written: {error}"))),
    }
}

/// The thread that writes to the terminal.
struct Display {
    updates: mpsc::Sender<DisplayUpdate>,
    result: oneshot::Receiver<io::Result<()>>,
}

/// Result of waiting for the next event.
enum DisplayStep {
    Event(Result<Arc<RecordedEvent>, Problem>),
    /// Another update was displayed first.
    Updated,
    Ended,
    NoDisplay,
}

impl Display {
    fn open(look: Look) -> Result<Self, Problem> {
        let (updates, mut incoming) = mpsc::channel::<DisplayUpdate>(MAX_QUEUED_UPDATES);
        let (done, result) = oneshot::channel();
        let work = move || {
            let mut screen = Screen::new(look);
            let mut shown = Ok(());
            while let (Ok(()), Some(update)) = (&shown, incoming.blocking_recv()) {
                shown = screen.show(&update);
            }
            // Restores the terminal even if the answer could not be written.
            let finished = screen.finish();
            let _ = done.send(shown.and(finished));
        };
        let thread = thread::Builder::new().name("terminal".to_owned()).spawn(work);
        match thread {
            Ok(_) => Ok(Self { updates, result }),
            Err(error) => {
                Err(Problem::failure(format!("cannot start the display thread: {error}")))
            }
        }
    }

    /// Sends an update that may be dropped if the queue is full.
    fn tell(&self, update: DisplayUpdate) {
        let _ = self.updates.try_send(update);
    }

    /// Waits for room in the queue, then displays an update or the next event; updates come first.
    /// Cancel safe.
    async fn show_next(
        &mut self,
        events: &mut EventStream,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> DisplayStep {
        let Ok(slot) = self.updates.reserve().await else { return DisplayStep::NoDisplay };
        if let Some(update) = updates.pop_front() {
            slot.send(update);
            return DisplayStep::Updated;
        }
        tokio::select! {
            next = events.next() => match next {
                Some(Ok(recorded)) => {
                    slot.send(DisplayUpdate::Event(Arc::clone(&recorded)));
                    DisplayStep::Event(Ok(recorded))
                }
                Some(Err(error)) => DisplayStep::Event(Err(broken(error.into()))),
                None => DisplayStep::Ended,
            },
            () = self.updates.closed() => DisplayStep::NoDisplay,
        }
    }

    /// Waits until everything is displayed. Returns whether all of it could be written.
    async fn close(self) -> io::Result<()> {
        drop(self.updates);
        self.result.await.unwrap_or_else(|_| Err(io::Error::other("the terminal crashed")))
    }
}

/// Detects an invalid output path before the run.
fn check_writable(path: &Path) -> Result<(), Problem> {
    let place = path.parent().filter(|place| !place.as_os_str().is_empty());
    let why = match place {
        _ if path.is_dir() => "it is a directory",
        Some(place) if !place.is_dir() => "its directory does not exist",
        _ => return Ok(()),
    };
    Err(Problem::usage(format!("--output {}: {why}", path.display()))
        .hint("name a file in a directory that exists"))
}

/// Writes the answer to a file, if the run has one.
fn keep(answer: &str, outcome: &RunOutcome, path: &Path) -> Result<(), Problem> {
    match outcome {
        RunOutcome::Completed | RunOutcome::Incomplete { .. } => {}
        RunOutcome::Failed { .. } | RunOutcome::Cancelled => return Ok(()),
    }
    let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
    fs::write(path, format!("{answer}{end}")).map_err(|error| {
        Problem::failure(format!("cannot write the answer to {}: {error}", path.display()))
            .hint("it was printed to standard output, too")
    })
}

fn after_limit(reason: IncompleteReason, settings: &RunSettings) -> String {
    let limits = &settings.limits;
    match reason {
        IncompleteReason::MaxTurns => {
            format!("the limit is {}; raise it with --max-turns N", limits.max_turns)
        }
        IncompleteReason::TimeLimit => {
            let seconds = limits.wall_clock.as_secs();
            format!("the limit is {seconds}s; raise it with --timeout SECONDS")
        }
        IncompleteReason::MaxOutputTokens => "ask for a shorter answer".to_owned(),
        IncompleteReason::MaxOutputBytes => {
            "ask for a shorter answer, or raise max_turn_output_bytes and max_run_output_bytes in \
             [limits]"
                .to_owned()
        }
        IncompleteReason::MaxToolCalls => {
            format!("the limit is {} calls; ask for less at once", limits.max_tool_calls)
        }
        IncompleteReason::RepeatedCall => {
            "the model went round in circles; ask in other words, or try another model".to_owned()
        }
        IncompleteReason::ContentFilter => "ask in other words, or try another model".to_owned(),
    }
}

fn after_failure(failure: &Failure, settings: &RunSettings) -> Problem {
    let problem = Problem::failure(failure.message.as_str());
    let server = match &settings.model {
        ModelSettings::Scripted(_) => "the demo",
        ModelSettings::Provider(provider) => &provider.base_url,
    };
    match failure.code.as_str() {
        "model_unavailable" => problem.hint(format!("check that {server} can be reached")),
        "model_rate_limited" => problem.hint(match failure.retry_after_ms {
            Some(wait) => format!("ask again in {} s", wait.div_ceil(1_000)),
            None => "ask again in a while".to_owned(),
        }),
        "model_misconfigured" | "model_not_found" | "model_rejected" => problem.hint(format!(
            "`{}` was asked for at {server}; --model NAME asks for another, the key is in the \
             settings, and TURNWIRE_LOG=debug shows what the provider says",
            settings.upstream_name()
        )),
        "context_length_exceeded" => problem.hint("ask for less at once, or take another model"),
        "content_filtered" => problem.hint("ask in other words, or try another model"),
        "model_broke_off" | "model_silent" => problem.hint("ask again"),
        _ => problem,
    }
}

fn broken(error: Error) -> Problem {
    Problem::failure(error.to_string()).hint(SEE_LOG)
}
