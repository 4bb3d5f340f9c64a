//! Outcomes of runs, calls and approvals. They are recorded values, not Rust errors.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{Actor, ToolOutput, ToolSpec};

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model answered, or called tools that the client executes.
    Completed,
    /// The run reached a limit. Its output so far is valid but not complete.
    Incomplete {
        /// The limit that was reached.
        reason: IncompleteReason,
    },
    /// The model or the engine failed.
    Failed {
        /// Why the run failed.
        failure: Failure,
    },
    /// The run was cancelled.
    Cancelled,
}

/// Limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncompleteReason {
    /// The model's answer reached the maximum number of output tokens.
    MaxOutputTokens,
    /// The model's answer, or all answers together, reached the maximum size in bytes.
    MaxOutputBytes,
    /// The run reached the maximum number of turns.
    MaxTurns,
    /// The run reached the maximum number of tool calls.
    MaxToolCalls,
    /// The run reached its budget.
    MaxCost,
    /// The key or the tenant of the run used up its budget of the month.
    InsufficientQuota,
    /// The run reached its time limit.
    TimeLimit,
    /// The model repeated the same call with the same arguments too often.
    RepeatedCall,
    /// The provider's content filter withheld the answer.
    ContentFilter,
}

/// A failure, without internal details. The cause is in the server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// Stable error code, listed in `docs/errors.md`.
    pub code: String,
    /// One sentence, for people and models.
    pub message: String,
    /// Time to wait before a retry, in milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// Creates a failure with a stable code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after_ms: None }
    }

    /// Sets the time to wait before a retry.
    pub fn retry_after(self, wait: Option<Duration>) -> Self {
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self { retry_after_ms: wait.map(millis), ..self }
    }

    /// The journal of the run cannot be decoded, so no worker can continue the run.
    pub fn journal_unreadable() -> Self {
        Self::new("journal_unreadable", "the journal of the run cannot be read")
    }
}

/// Error code of a call whose outcome is not known.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// Outcome of a call. Only `succeeded` is a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool succeeded.
    Succeeded {
        /// The result.
        output: ToolOutput,
    },
    /// The tool returned an error, or panicked.
    Failed {
        /// Why the tool failed.
        failure: Failure,
    },
    /// The tool did not return in time.
    TimedOut {
        /// Time after which the call was given up, in milliseconds.
        after_ms: u64,
    },
    /// The call was cancelled.
    Cancelled,
    /// The approval was denied.
    Denied {
        /// Reason given by the person; may be empty.
        reason: String,
    },
    /// The arguments are invalid. Either they violate the tool's schema, and the tool was not
    /// started, or the tool rejected them.
    InvalidArguments {
        /// What is invalid.
        message: String,
    },
    /// No tool has this name.
    NotFound {
        /// What the model can do about it.
        message: String,
    },
    /// The call was not executed because the run stopped first.
    Skipped {
        /// Why the run stopped.
        reason: String,
    },
    /// The worker, the tool's server or the connection to it failed during the call. Whether the
    /// call took effect is not known.
    OutcomeUnknown {
        /// What is known.
        message: String,
    },
}

impl RunOutcome {
    /// Returns the name of its kind, as it is in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete { .. } => "incomplete",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl ToolOutcome {
    /// Returns the name of its kind, as it is in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Denied { .. } => "denied",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::NotFound { .. } => "not_found",
            Self::Skipped { .. } => "skipped",
            Self::OutcomeUnknown { .. } => OUTCOME_UNKNOWN,
        }
    }

    /// Whether the tool succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded { .. })
    }

    /// Returns the failure, if this outcome has a failure code.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed { failure } => Some(failure.clone()),
            Self::OutcomeUnknown { message } => {
                Some(Failure::new(OUTCOME_UNKNOWN, message.as_str()))
            }
            Self::Succeeded { .. }
            | Self::TimedOut { .. }
            | Self::Cancelled
            | Self::Denied { .. }
            | Self::InvalidArguments { .. }
            | Self::NotFound { .. }
            | Self::Skipped { .. } => None,
        }
    }

    /// Returns the problem in one sentence, or `None` for a success.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Succeeded { .. } => None,
            Self::Failed { failure } => Some(failure.message.clone()),
            Self::TimedOut { after_ms } => Some(format!("timed out after {}", seconds(*after_ms))),
            Self::Cancelled => Some("cancelled".to_owned()),
            Self::Denied { reason } if reason.is_empty() => Some("denied by the user".to_owned()),
            Self::Denied { reason } => Some(format!("denied by the user: {reason}")),
            Self::InvalidArguments { message } => Some(format!("invalid arguments: {message}")),
            Self::NotFound { message } | Self::OutcomeUnknown { message } => Some(message.clone()),
            Self::Skipped { reason } => Some(format!("not carried out: {reason}")),
        }
    }
}

fn seconds(ms: u64) -> String {
    let tenths = ms / 100;
    if tenths.is_multiple_of(10) {
        format!("{} s", tenths / 10)
    } else {
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}

/// Outcome of a request for a server's tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DiscoveryOutcome {
    /// The server listed its tools.
    Listed {
        /// The tools that the run may use, as offered to the model.
        #[schema(value_type = Vec<Object>)]
        tools: Vec<Arc<ToolSpec>>,
    },
    /// The request failed.
    Failed {
        /// Why the request failed.
        failure: Failure,
    },
}

/// Decision on an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Decision {
    /// The call is approved.
    Approved,
    /// The call is denied.
    Denied {
        /// Reason; may be empty.
        reason: String,
    },
}

impl Decision {
    /// The denial of a call that nobody decided about.
    pub fn unanswered() -> Self {
        Self::Denied { reason: "no answer was given".to_owned() }
    }
}

/// Answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The decision.
    pub decision: Decision,
    /// Arguments that replace the model's, as raw JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether the decision holds for the rest of the conversation.
    #[serde(default)]
    pub remember: bool,
    /// Name of the surface that the answer came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<Actor>>,
}

impl ApprovalAnswer {
    /// Sets the surface that the answer came from.
    pub fn by(self, surface: impl Into<String>) -> Self {
        Self { by: Some(surface.into()), ..self }
    }

    /// Whether both answers are equal, regardless of their source.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let said =
            |answer: &Self| (answer.decision.clone(), answer.arguments.clone(), answer.remember);
        said(self) == said(other)
    }
}

impl From<Decision> for ApprovalAnswer {
    fn from(decision: Decision) -> Self {
        Self { decision, arguments: None, remember: false, by: None, actor: None }
    }
}

/// Reply to a tool's request for input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Reply {
    /// The user gave the input.
    Accepted {
        /// The input, in the requested shape.
        #[schema(value_type = Object)]
        content: Map<String, Value>,
    },
    /// The user declined, or no user can be asked.
    Declined,
    /// There is no reply: the user dismissed the request, or it expired.
    Cancelled,
}
