//! The states of a call, with names that all surfaces share.

use serde::{Deserialize, Serialize};
use turnwire_contract::{Decision, Event, ToolOutcome, words};
use utoipa::ToSchema;

words! {
    /// State of a tool call.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    pub enum CallState {
        /// The model generates the arguments, or the call waits to be executed.
        Preparing = "preparing",
        /// The call waits for an approval.
        NeedsApproval = "needs approval",
        /// The tool asked the user a question and waits for the answer.
        NeedsInput = "needs input",
        /// The tool, or the client, executes the call.
        Running = "running",
        /// The tool succeeded.
        Done = "done",
        /// The tool failed.
        Failed = "failed",
        /// The call was denied.
        Denied = "denied",
        /// The call was cancelled, or the run ended before it.
        Stopped = "stopped",
        /// The tool did not respond in time.
        TimedOut = "timed out",
        /// The worker or the tool's server died during the call; whether the tool did its work is
        /// not known.
        Unknown = "unknown",
    }
}

impl CallState {
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

#[cfg(test)]
#[path = "call_state_tests.rs"]
mod tests;
