//! The final answer of a run.
//!
//! A model that uses tools generates text in several turns. The answer is **the text of the last
//! turn that has any**, all messages of that turn together. Text before tool calls ("let me look
//! that up") is not part of it, and neither is a turn that was superseded because its worker died.
//! [`chat_events`](crate::chat_events) takes its final text from here.
//!
//! Only finishing events are read, which carry whole values; deltas are ignored.

use turnwire_contract::{
    Completeness, Event, Failure, RecordedEvent, RunOutcome, Usage, any_event,
};

use crate::clean::clean;

/// The answer of one run so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text of the turns before the current one.
    settled: TurnText,
    /// The text of the current turn; empty if the turn was abandoned.
    open: TurnText,
    outcome: Option<RunOutcome>,
    usage: Usage,
    /// Whether a tool has started.
    has_acted: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TurnText {
    text: String,
    refusal: String,
}

impl Answer {
    /// The answer of `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a RecordedEvent>) -> Self {
        let mut answer = Self::default();
        for recorded in events {
            answer.note(recorded);
        }
        answer
    }

    /// Applies one event. All events have to be applied, in order.
    pub fn note(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::TurnStarted { .. } => self.settle(),
            Event::TurnAbandoned { .. } => self.open = TurnText::default(),
            Event::MessageFinished { text, refusal, completeness, .. } => match completeness {
                Completeness::Complete | Completeness::Cut => {
                    self.open.text.push_str(&clean(text));
                    self.open.refusal.push_str(&clean(refusal));
                }
                Completeness::Superseded => {}
            },
            Event::ToolStarted { .. } => self.has_acted = true,
            Event::RunFinished { outcome, usage } => {
                self.outcome = Some(outcome.clone());
                self.usage = *usage;
            }
            any_event!(
                RunQueued RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver
                TurnRetried PartSkipped TurnFinished MessageStarted TextAdded RefusalAdded
                AnnotationAdded ReasoningAdded ReasoningFinished DiscoveryStarted ToolsDiscovered
                CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved
                ToolPhase ToolProgressed ToolOutputAdded InputRequested InputResolved
                ToolStayedSilent ToolRetried ToolFinished
            ) => {}
        }
    }

    /// The text of the answer.
    pub fn text(&self) -> &str {
        &self.last_said().text
    }

    /// The model's refusal; empty if it did not refuse.
    pub fn refusal(&self) -> &str {
        &self.last_said().refusal
    }

    /// The text to display: the answer, or the refusal if there is no answer.
    pub fn content(&self) -> &str {
        if self.text().is_empty() { self.refusal() } else { self.text() }
    }

    /// How the run ended; `None` while it is in progress.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// Why the run failed, if it did so before any tool started. A retry then repeats no side
    /// effect.
    pub fn failure_before_acting(&self) -> Option<&Failure> {
        let Some(RunOutcome::Failed { failure }) = &self.outcome else { return None };
        (!self.has_acted).then_some(failure)
    }

    /// The tokens used; zero while the run is in progress.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    fn last_said(&self) -> &TurnText {
        if self.open.is_empty() { &self.settled } else { &self.open }
    }

    fn settle(&mut self) {
        if !self.open.is_empty() {
            self.settled = std::mem::take(&mut self.open);
        }
    }
}

impl TurnText {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty()
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
