//! Watches a run in the terminal, to its end or until the person leaves.
//!
//! The loop here follows the run, handles signals and keys, and passes answers to questions on. A
//! second thread writes to the terminal, which may block, and a third reads from it. So the second
//! Ctrl-C always works.

mod asker;
mod display;
mod form;
mod input;
#[cfg_attr(not(unix), path = "no_keyboard.rs")]
mod keyboard;
mod open_run;

use std::{
    collections::VecDeque,
    future::Future,
    io::{self, ErrorKind},
    sync::Arc,
};

use futures::future::{BoxFuture, Fuse, FutureExt};
use tokio::time::{MissedTickBehavior, interval};
use turnwire::{Error, RunId, RunOutcome};
use turnwire_surfaces::{Answer, clean};

use self::display::{Display, DisplayStep};
pub(crate) use self::{
    asker::{Answering, Asker, WithoutTerminal},
    input::{Input, Key},
    keyboard::{Keyboard, KeyboardOptions, TerminalMode, TypedAhead},
    open_run::{BY, OpenRun, RunControl, RunUpdate, Taken, local},
};
use crate::{
    environment::Environment,
    exit::{Problem, Result},
    signals::{Signal, Signals},
    terminal::{DisplayUpdate, Look, TICK, View},
};

/// Hint for the cause of an error.
pub(crate) const SEE_LOG: &str = "TURNWIRE_LOG=warn shows the cause";
const CANNOT_DETACH: &str = "this run belongs to this process; ctrl-c stops it";
const KEYS: &str = "keys: esc or ctrl-c stops the run, o shows the last call in full";
const KEYS_OF_SERVER: &str =
    "keys: esc or ctrl-c stops the run, ctrl-b detaches, o shows the last call in full";

/// Why a run is no longer watched.
pub(crate) enum WatchEnd {
    /// The run ended.
    Over { answer: String, outcome: RunOutcome, stopped_by: Option<Signal> },
    /// A second signal ended the wait.
    Left(Signal),
    /// The person detached. The run goes on.
    Detached,
    /// The run waits for a person, and there is nobody to ask. The run goes on.
    NeedsPerson,
    /// The reader of standard output closed it, as in `turnwire run … | head -1`.
    NobodyReads,
}

/// Asks questions if they are visible and there is a terminal. Text that is typed between questions
/// is kept if there is a place for it.
pub(crate) fn asker(
    environment: &Environment,
    look: Look,
    answering: Answering,
    typed_ahead: Option<TypedAhead>,
) -> Asker {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| environment.get(name));
    let can_ask = look.stderr_is_terminal && look.view != View::Json;
    // A pager on standard output reads the same keys.
    let reads_keys = can_ask && look.shared;
    let options = KeyboardOptions { editor: editor.map(str::to_owned), reads_keys, typed_ahead };
    let keyboard = can_ask.then(|| Keyboard::open(options)).flatten();
    Asker::new(keyboard, editor.is_some(), look.paint, answering)
}

/// Watches `run`. `clean_up` is awaited together with the display after the end of the run.
pub(crate) async fn watch(
    run: OpenRun,
    look: Look,
    asker: Asker,
    signals: &mut Signals,
    clean_up: impl Future<Output = ()>,
) -> Result<WatchEnd> {
    let mut watch = Watch {
        id: run.id,
        control: run.control,
        asker,
        display: Display::open(look)?,
        updates: VecDeque::new(),
        answer: Answer::default(),
        stopped_by: None,
        cancelling: Fuse::terminated(),
    };
    let mut events = run.updates;
    if let Some(watch_end) = watch.follow(&mut events, signals).await? {
        return watch.leave(watch_end, signals).await;
    }
    let Watch { display, answer, stopped_by, asker, .. } = watch;
    // Gives the terminal back.
    drop(asker);
    let close = async {
        let (closed, ()) = tokio::join!(display.close(), clean_up);
        closed
    };
    tokio::select! {
        biased;
        // The run is over, so a signal ends the process.
        signal = signals.next() => return Ok(WatchEnd::Left(signal)),
        closed = close => if let Err(error) = closed {
            return unwritten(&error);
        },
    }
    let Some(outcome) = answer.outcome().cloned() else {
        return Err(Problem::failure("the journal of the run ends before the run does"));
    };
    Ok(WatchEnd::Over { answer: answer.text().to_owned(), outcome, stopped_by })
}

struct Watch {
    id: RunId,
    control: Arc<dyn RunControl>,
    asker: Asker,
    display: Display,
    /// Updates about questions, which must not be dropped.
    updates: VecDeque<DisplayUpdate>,
    answer: Answer,
    stopped_by: Option<Signal>,
    /// The command to cancel the run, on its way.
    cancelling: Fuse<BoxFuture<'static, ()>>,
}

impl Watch {
    /// Follows the run to its end. Returns the end of watching if the run is left before.
    async fn follow(
        &mut self,
        events: &mut futures::stream::BoxStream<'static, Result<RunUpdate>>,
        signals: &mut Signals,
    ) -> Result<Option<WatchEnd>> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // In this order, so that signals and timers are handled even if many events arrive.
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if self.stopped_by.is_some() {
                        return Ok(Some(WatchEnd::Left(signal)));
                    }
                    self.stop(signal);
                }
                input = self.asker.input() => match input {
                    Input::Key(Key::Escape) if self.stopped_by.is_some() => {}
                    Input::Key(Key::Escape) => self.stop(Signal::Interrupt),
                    Input::Key(Key::CtrlB) if self.control.outlives_us() => {
                        return Ok(Some(WatchEnd::Detached));
                    }
                    Input::Key(Key::CtrlB) => self.updates.push_back(notice(CANNOT_DETACH)),
                    Input::Key(Key::Open) => self.updates.push_back(DisplayUpdate::LastCall),
                    Input::Key(Key::Help) => {
                        let keys = if self.control.outlives_us() { KEYS_OF_SERVER } else { KEYS };
                        self.updates.push_back(notice(keys));
                    }
                    Input::Line(typed) => {
                        let given = self.asker.read(typed, &mut self.updates);
                        self.give(given).await?;
                    }
                },
                _ = ticks.tick() => self.display.tell(DisplayUpdate::Tick),
                () = &mut self.cancelling => {}
                shown = self.display.show_next(events, &mut self.updates) => match shown {
                    DisplayStep::Event(recorded) => {
                        let recorded = recorded?;
                        self.answer.note(recorded.as_ref());
                        let given = self.asker.note(&recorded, &mut self.updates);
                        self.give(given).await?;
                        if self.asker.must_leave() {
                            return Ok(Some(WatchEnd::NeedsPerson));
                        }
                    }
                    DisplayStep::Updated => {}
                    DisplayStep::Ended => return Ok(None),
                    DisplayStep::NoDisplay => return Ok(Some(WatchEnd::NobodyReads)),
                }
            }
        }
    }

    fn stop(&mut self, signal: Signal) {
        self.stopped_by = Some(signal);
        let control = Arc::clone(&self.control);
        self.cancelling = async move { control.cancel().await }.boxed().fuse();
        self.display.tell(DisplayUpdate::Stopping);
    }

    /// Submits an answer. If it is not accepted, the question is repeated.
    async fn give(&mut self, given: Option<asker::Given>) -> Result<()> {
        let Some(given) = given else { return Ok(()) };
        let taken = match &given {
            asker::Given::Approval { call_id, answer } => {
                self.control.approve(call_id, answer.clone()).await?
            }
            asker::Given::Input { call_id, input_id, reply } => {
                self.control.reply(call_id, input_id, reply.clone()).await?
            }
        };
        match taken {
            Taken::Settled => self.asker.settle(&given.question(), true, &mut self.updates),
            Taken::Refused(why) => {
                self.asker.ask_again(&format!("  {}", clean(&why)), &mut self.updates);
            }
        }
        Ok(())
    }

    /// Leaves a run that is not over, with everything displayed that was read of it.
    async fn leave(self, watch_end: WatchEnd, signals: &mut Signals) -> Result<WatchEnd> {
        let Self { id, control, asker, display, .. } = self;
        drop(asker);
        match watch_end {
            WatchEnd::NobodyReads => {
                tokio::select! {
                    signal = signals.next() => return Ok(WatchEnd::Left(signal)),
                    () = control.abandon() => {}
                }
                match display.close().await {
                    Ok(()) => Ok(WatchEnd::NobodyReads),
                    Err(error) => unwritten(&error),
                }
            }
            WatchEnd::Detached | WatchEnd::NeedsPerson => {
                tracing::debug!(run_id = %id, "left the run");
                match display.close().await {
                    Ok(()) => Ok(watch_end),
                    Err(error) => unwritten(&error),
                }
            }
            // The terminal may hang, so it is not waited for.
            WatchEnd::Left(_) | WatchEnd::Over { .. } => Ok(watch_end),
        }
    }
}

fn notice(text: &str) -> DisplayUpdate {
    DisplayUpdate::Notice(text.to_owned())
}

fn unwritten(error: &io::Error) -> Result<WatchEnd> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(WatchEnd::NobodyReads),
        _ => Err(Problem::failure(format!("the answer could not be written: {error}"))),
    }
}

pub(crate) fn broken(error: Error) -> Problem {
    Problem::failure(error.to_string()).hint(SEE_LOG)
}
