//! The terminal: what `turnwire run` and `turnwire follow` show.
//!
//! The answer is [`TranscriptFrame::Text`] and goes to standard output; everything else is about
//! progress and goes to standard error. A terminal that redraws shows the running tools as a block
//! of rows by call ID; one that does not prints [`TranscriptFrame::plain_line`]. Drawing, colors
//! and widths are left to the terminal code.

use std::mem;

use turnwire_contract::{
    CallId, DiscoveryOutcome, Event, RecordedEvent, RunOutcome, Timestamp, ToolOutcome, Usage,
    any_event,
};

use crate::{
    Projection,
    calls::{Call, CallBook, CallEvent},
    clean::Cleaner,
    visible::{exact, in_order},
    words,
};

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranscriptFrame {
    /// A piece of the answer.
    Text(String),
    /// A tool has started.
    ToolBegan {
        /// ID of the tool call.
        call_id: CallId,
        /// `server.name`, or the name alone.
        title: String,
        /// The arguments in short form.
        label: String,
    },
    /// What a call is doing now. The first one (`preparing`) comes before the tool starts.
    ToolNoted {
        /// ID of the tool call.
        call_id: CallId,
        /// `server.name`, or the name alone.
        title: String,
        /// The arguments in short form.
        label: String,
        /// What it is doing.
        note: String,
    },
    /// A call has ended.
    ToolEnded {
        /// ID of the tool call.
        call_id: CallId,
        /// `server.name`, or the name alone.
        title: String,
        /// The arguments in short form.
        label: String,
        /// How it ended, as a symbol.
        mark: Mark,
        /// How it ended, in short form.
        detail: String,
        /// Execution time in milliseconds; `None` if the tool never started.
        duration_ms: Option<u64>,
    },
    /// A notice about the run.
    Notice(String),
    /// The run has ended.
    Ended {
        /// Outcome of the run.
        outcome: RunOutcome,
        /// The outcome, in short form.
        words: String,
        /// Totals of the run.
        totals: Totals,
    },
}

/// How a call ended: four outcomes with different symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The tool succeeded.
    Done,
    /// The call failed, for whatever reason.
    Failed,
    /// The call was cancelled, or never executed because the run ended.
    Stopped,
    /// It is not known whether the tool did its work.
    Unknown,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time from the first start to the end, in milliseconds.
    pub elapsed_ms: u64,
    /// Number of calls.
    pub n_tools: u32,
    /// Number of calls that failed, or may have.
    pub n_failed: u32,
    /// Number of input and output tokens.
    pub n_tokens: u64,
}

impl Mark {
    /// The symbol.
    pub fn symbol(self) -> char {
        match self {
            Self::Done => '✓',
            Self::Failed => '✗',
            Self::Stopped => '■',
            Self::Unknown => '⚠',
        }
    }

    fn of(outcome: &ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Succeeded { .. } => Self::Done,
            ToolOutcome::Failed { .. }
            | ToolOutcome::TimedOut { .. }
            | ToolOutcome::Denied { .. }
            | ToolOutcome::InvalidArguments { .. }
            | ToolOutcome::NotFound { .. } => Self::Failed,
            ToolOutcome::Cancelled | ToolOutcome::Skipped { .. } => Self::Stopped,
            ToolOutcome::OutcomeUnknown { .. } => Self::Unknown,
        }
    }
}

impl TranscriptFrame {
    /// The frame as one line without colors, for pipes and screen readers. `None` for the answer,
    /// which goes elsewhere, and for a call of which only the name is known.
    pub fn plain_line(&self) -> Option<String> {
        match self {
            Self::Text(_) => None,
            Self::ToolBegan { title, label, .. } => {
                Some(format!("• {}  running", subject(title, label)))
            }
            Self::ToolNoted { note, .. } if note == words::PREPARING => None,
            Self::ToolNoted { title, label, note, .. } => {
                let symbol = if note.starts_with(words::NEEDS_APPROVAL) { '⏸' } else { '•' };
                Some(format!("{symbol} {}  {note}", subject(title, label)))
            }
            Self::ToolEnded { title, label, mark, detail, duration_ms, .. } => {
                let line = format!("{} {}  {detail}", mark.symbol(), subject(title, label));
                let time = duration_ms.map(|ms| format!("  {}", words::seconds_with_tenths(ms)));
                Some(line + &time.unwrap_or_default())
            }
            Self::Notice(text) => Some(format!("◌ {text}")),
            Self::Ended { words, totals, .. } => Some(format!("{words} · {}", totals.words())),
        }
    }
}

impl Totals {
    /// `13.4s · 3 tools, 1 failed · 2.1k tokens`
    pub fn words(&self) -> String {
        let tools = match self.n_tools {
            0 => String::new(),
            1 => " · 1 tool".to_owned(),
            n_tools => format!(" · {n_tools} tools"),
        };
        let failed = match self.n_failed {
            0 => String::new(),
            n_failed => format!(", {n_failed} failed"),
        };
        let (time, tokens) =
            (words::seconds_with_tenths(self.elapsed_ms), words::tokens(self.n_tokens));
        format!("{time}{tools}{failed} · {tokens}")
    }
}

/// The projection of the terminal.
#[derive(Debug, Default)]
pub struct Transcript {
    book: CallBook,
    cleaner: Cleaner,
    started_at: Option<Timestamp>,
    totals: Totals,
    /// Whether the answer so far ends in the middle of a line.
    in_line: bool,
    /// Whether the next text belongs to another turn and needs a line of its own.
    needs_break: bool,
    /// Whether the event before was damaged.
    is_damaged: bool,
}

impl Transcript {
    /// Creates a projection.
    pub fn new() -> Self {
        Self::default()
    }

    fn text(&mut self, text: &str) -> Vec<TranscriptFrame> {
        let text = self.cleaner.clean(text);
        if text.is_empty() {
            return Vec::new();
        }
        let mut frames = Vec::with_capacity(1);
        if mem::take(&mut self.needs_break) {
            frames.push(TranscriptFrame::Text("\n".to_owned()));
        }
        self.in_line = !text.ends_with('\n');
        frames.push(TranscriptFrame::Text(text.into_owned()));
        frames
    }

    fn tool_noted(&self, call_id: &CallId, recorded: &RecordedEvent) -> Vec<TranscriptFrame> {
        let call = self.book.get(call_id).filter(|call| !call.is_over);
        let noted = call.and_then(|call| {
            let note = words::tool_note(call, &recorded.event, recorded.at)?;
            let (call_id, title, label) = facts(call);
            let note = in_order(&note).into_owned();
            Some(TranscriptFrame::ToolNoted { call_id, title, label, note })
        });
        noted.into_iter().collect()
    }

    fn tool_ended(
        &mut self,
        call_id: &CallId,
        outcome: &ToolOutcome,
        duration_ms: u64,
        event: CallEvent,
    ) -> Vec<TranscriptFrame> {
        let Some(call) = self.book.get(call_id) else { return Vec::new() };
        let mut frames = Vec::with_capacity(2);
        match event {
            CallEvent::Neither | CallEvent::Began => return frames,
            CallEvent::BeganAndEnded => frames.push(tool_began(call)),
            CallEvent::Ended => {}
        }
        let mark = Mark::of(outcome);
        let (call_id, title, label) = facts(call);
        let duration_ms = call.started.map(|_| duration_ms);
        let detail = in_order(&words::call_outcome(outcome)).into_owned();
        self.totals.n_tools += 1;
        self.totals.n_failed += u32::from(matches!(mark, Mark::Failed | Mark::Unknown));
        frames.push(TranscriptFrame::ToolEnded {
            call_id,
            title,
            label,
            mark,
            detail,
            duration_ms,
        });
        frames
    }

    fn ended(&self, outcome: &RunOutcome, usage: Usage, at: Timestamp) -> TranscriptFrame {
        let elapsed = self.started_at.map(|started_at| at.since(started_at).as_millis());
        let totals = Totals {
            elapsed_ms: elapsed.and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default(),
            n_tokens: usage.input_tokens + usage.output_tokens,
            ..self.totals
        };
        let words = in_order(&words::run_outcome(outcome)).into_owned();
        TranscriptFrame::Ended { outcome: outcome.clone(), words, totals }
    }
}

impl Projection for Transcript {
    type Frame = TranscriptFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<TranscriptFrame> {
        let event = self.book.note(recorded);
        let was_damaged = mem::replace(&mut self.is_damaged, recorded.event.is_unreadable());
        match &recorded.event {
            // A damaged row has many events.
            Event::Unknown(_) if self.is_damaged && !was_damaged => {
                notice("a part of the journal of this run is damaged and cannot be read")
            }
            Event::RunStarted => {
                self.started_at = Some(recorded.at);
                Vec::new()
            }
            Event::TurnStarted { .. } => {
                self.needs_break = self.in_line;
                Vec::new()
            }
            Event::MessageStarted { .. } => {
                self.cleaner.reset();
                Vec::new()
            }
            Event::TextAdded { text, .. } | Event::RefusalAdded { text, .. } => self.text(text),
            Event::RunTakenOver { attempt, .. } => {
                notice(&format!("another worker goes on with the run (attempt {attempt})"))
            }
            Event::TurnRetried { attempt, reason, delay_ms, .. } => notice(&format!(
                "{}, asking again in {} (attempt {attempt})",
                reason.message,
                words::seconds(*delay_ms)
            )),
            Event::PartSkipped { reason, .. } => notice(&reason.message),
            Event::TurnAbandoned { .. } => {
                notice("the answer was cut off, what it said so far is superseded")
            }
            Event::ToolsDiscovered { server, outcome, left_out, .. } => match outcome {
                DiscoveryOutcome::Listed { .. } if left_out.is_empty() => Vec::new(),
                DiscoveryOutcome::Listed { .. } => {
                    notice(&format!("tools of {server} not offered: {left_out}"))
                }
                DiscoveryOutcome::Failed { failure } => {
                    notice(&format!("no tools from {server}: {}", failure.message))
                }
            },
            Event::ToolStarted { call_id, .. } => match self.book.get(call_id) {
                Some(call) if event == CallEvent::Began => vec![tool_began(call)],
                Some(_) | None => self.tool_noted(call_id, recorded),
            },
            any_event!(
                CallAnnounced ApprovalRequested ApprovalResolved ToolPhase ToolProgressed
                ToolOutputAdded InputRequested InputResolved ToolStayedSilent ToolRetried; call_id
            ) => self.tool_noted(call_id, recorded),
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                self.tool_ended(call_id, outcome, *duration_ms, event)
            }
            Event::RunFinished { outcome, usage } => {
                vec![self.ended(outcome, *usage, recorded.at)]
            }
            any_event!(
                RunQueued Unknown LogprobsAdded ToolTaskStarted TurnFinished AnnotationAdded
                MessageFinished ReasoningAdded ReasoningFinished DiscoveryStarted ArgumentsAdded
                ArgumentsFinished
            ) => Vec::new(),
        }
    }
}

fn tool_began(call: &Call) -> TranscriptFrame {
    let (call_id, title, label) = facts(call);
    TranscriptFrame::ToolBegan { call_id, title, label }
}

/// The fields that every tool frame repeats.
fn facts(call: &Call) -> (CallId, String, String) {
    let (title, label) = (call.title(), call.label());
    (call.call_id.clone(), exact(&title).into_owned(), exact(&label).into_owned())
}

fn subject(title: &str, label: &str) -> String {
    if label.is_empty() { title.to_owned() } else { format!("{title} {label}") }
}

fn notice(text: &str) -> Vec<TranscriptFrame> {
    vec![TranscriptFrame::Notice(exact(text).into_owned())]
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
