//! The states of a call, with names that all surfaces share.

use std::fmt;

use serde::{Deserialize, Serialize};
use turnwire_contract::{Decision, Event, ToolOutcome};
use utoipa::ToSchema;

use crate::words;

/// State of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum CallState {
    /// The model generates the arguments, or the call waits to be executed.
    #[serde(rename = "preparing")]
    Preparing,
    /// The call waits for an approval.
    #[serde(rename = "needs approval")]
    NeedsApproval,
    /// The tool asked the user a question and waits for the answer.
    #[serde(rename = "needs input")]
    NeedsInput,
    /// The tool, or the client, executes the call.
    #[serde(rename = "running")]
    Running,
    /// The tool succeeded.
    #[serde(rename = "done")]
    Done,
    /// The tool failed.
    #[serde(rename = "failed")]
    Failed,
    /// The call was denied.
    #[serde(rename = "denied")]
    Denied,
    /// The call was cancelled, or the run ended before it.
    #[serde(rename = "stopped")]
    Stopped,
    /// The tool did not respond in time.
    #[serde(rename = "timed out")]
    TimedOut,
    /// The worker or the tool's server died during the call; whether the tool did its work is not
    /// known.
    #[serde(rename = "unknown")]
    Unknown,
}

impl CallState {
    /// All states, in the order of a call's life.
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

    /// The name of the state, as it is sent.
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

    /// The state of a call with this outcome.
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

    /// The state of a call after `event`, which is about it; `None` if the state does not change.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
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
            _ => None,
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
