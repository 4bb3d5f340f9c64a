//! The plain answer: what is left of a run when nobody watched it.
//!
//! A model that uses tools speaks several times. The answer is what it said last: **the text
//! of the last turn that said anything**, all messages of that turn together. What it said on
//! the way to its tools ("let me look that up") is not part of it, and neither is a turn that
//! was superseded because its worker died. [`chat_events`](crate::chat_events) has its final
//! text from here.
//!
//! Only finishing events are read, which carry whole values: deltas cost nothing.

use turnwire_contract::{Completeness, Event, Failure, Recorded, RunOutcome, Usage};

use crate::clean::clean;

/// The answer of one run, as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the turns before the open one left.
    settled: Said,
    /// What the open turn has said; nothing, if the turn is abandoned.
    open: Said,
    outcome: Option<RunOutcome>,
    usage: Usage,
    /// Whether a tool has begun to work.
    has_acted: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    text: String,
    refusal: String,
}

impl Answer {
    /// The answer that `events` add up to.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut answer = Self::default();
        for recorded in events {
            answer.note(recorded);
        }
        answer
    }

    /// Takes note of one event. Every event has to come by here, in order.
    pub fn note(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::TurnStarted { .. } => self.settle(),
            Event::TurnAbandoned { .. } => self.open = Said::default(),
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
            Event::RunQueued { .. }
            | Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::TurnFinished { .. }
            | Event::MessageStarted { .. }
            | Event::TextAdded { .. }
            | Event::RefusalAdded { .. }
            | Event::AnnotationAdded { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. }
            | Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::CallAnnounced { .. }
            | Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::InputRequested { .. }
            | Event::InputResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::ToolRetried { .. }
            | Event::ToolFinished { .. } => {}
        }
    }

    /// What the model said.
    pub fn text(&self) -> &str {
        &self.last_said().text
    }

    /// What the model said instead of an answer; empty if it did not refuse.
    pub fn refusal(&self) -> &str {
        &self.last_said().refusal
    }

    /// What a person is shown: the text, or the refusal if there is no text.
    pub fn content(&self) -> &str {
        if self.text().is_empty() { self.refusal() } else { self.text() }
    }

    /// How the run ended; nothing while it goes on.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// Why the run failed, if it did so before any tool began to work: whoever asks again repeats
    /// nothing.
    pub fn failure_before_acting(&self) -> Option<&Failure> {
        match &self.outcome {
            Some(RunOutcome::Failed { failure }) if !self.has_acted => Some(failure),
            Some(
                RunOutcome::Failed { .. }
                | RunOutcome::Completed
                | RunOutcome::Incomplete { .. }
                | RunOutcome::Cancelled,
            )
            | None => None,
        }
    }

    /// What the run cost; nothing while it goes on.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    fn last_said(&self) -> &Said {
        if self.open.is_empty() { &self.settled } else { &self.open }
    }

    fn settle(&mut self) {
        if !self.open.is_empty() {
            self.settled = std::mem::take(&mut self.open);
        }
    }
}

impl Said {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty()
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
