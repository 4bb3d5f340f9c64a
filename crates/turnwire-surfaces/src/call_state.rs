//! Where a call stands, in the ten words that web, terminal and interfaces share.

use std::fmt;

use serde::{Deserialize, Serialize};
use turnwire_contract::{Decision, Event, ToolOutcome};
use utoipa::ToSchema;

use crate::words;

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum CallState {
    /// The model is writing it, or it waits for its turn.
    #[serde(rename = "preparing")]
    Preparing,
    /// A person has to allow it first.
    #[serde(rename = "needs approval")]
    NeedsApproval,
    /// Its tool has asked a person something, and waits.
    #[serde(rename = "needs input")]
    NeedsInput,
    /// A tool, or the client, is at work on it.
    #[serde(rename = "running")]
    Running,
    /// The tool says it worked.
    #[serde(rename = "done")]
    Done,
    /// It did not work.
    #[serde(rename = "failed")]
    Failed,
    /// A person said no.
    #[serde(rename = "denied")]
    Denied,
    /// Somebody stopped it, or the run stopped before it.
    #[serde(rename = "stopped")]
    Stopped,
    /// The tool did not answer in time.
    #[serde(rename = "timed out")]
    TimedOut,
    /// The worker or the tool's server died while the tool worked; whether it did its work is
    /// not known.
    #[serde(rename = "unknown")]
    Unknown,
}

impl CallState {
    /// All of them, in the order of a call's life.
    pub const ALL: [Self; 10] = [
        Self::Preparing,
        Self::NeedsApproval,
        Self::NeedsInput,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::Stopped,
        Self::TimedOut,
        Self::Unknown,
    ];

    /// The word for it, as it is written on every wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Preparing => words::PREPARING,
            Self::NeedsApproval => words::NEEDS_APPROVAL,
            Self::NeedsInput => words::NEEDS_INPUT,
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Stopped => "stopped",
            Self::TimedOut => "timed out",
            Self::Unknown => "unknown",
        }
    }

    /// Where a call stands that ended so.
    pub fn at_end(outcome: &ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Succeeded { .. } => Self::Done,
            ToolOutcome::Failed { .. }
            | ToolOutcome::InvalidArguments { .. }
            | ToolOutcome::NotFound { .. } => Self::Failed,
            ToolOutcome::TimedOut { .. } => Self::TimedOut,
            ToolOutcome::Cancelled | ToolOutcome::Skipped { .. } => Self::Stopped,
            ToolOutcome::Denied { .. } => Self::Denied,
            ToolOutcome::OutcomeUnknown { .. } => Self::Unknown,
        }
    }

    /// Where a call stands after `event`, which is about it; nothing if it stands where it
    /// stood.
    pub fn after(event: &Event) -> Option<Self> {
        match event {
            Event::CallAnnounced { .. }
            | Event::ApprovalResolved { decision: Decision::Approved, .. } => Some(Self::Preparing),
            Event::ApprovalRequested { .. } => Some(Self::NeedsApproval),
            Event::ApprovalResolved { decision: Decision::Denied { .. }, .. } => Some(Self::Denied),
            Event::InputRequested { .. } => Some(Self::NeedsInput),
            Event::ToolStarted { .. } | Event::ToolRetried { .. } | Event::InputResolved { .. } => {
                Some(Self::Running)
            }
            Event::ToolFinished { outcome, .. } => Some(Self::at_end(outcome)),
            Event::RunQueued { .. }
            | Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnStarted { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::TurnAbandoned { .. }
            | Event::TurnFinished { .. }
            | Event::MessageStarted { .. }
            | Event::TextAdded { .. }
            | Event::RefusalAdded { .. }
            | Event::AnnotationAdded { .. }
            | Event::MessageFinished { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. }
            | Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::ToolStayedSilent { .. }
            | Event::RunFinished { .. } => None,
        }
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
#[path = "call_state_tests.rs"]
mod tests;
