//! How things end. An ending is part of the story, never a Rust error.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{ToolOutput, ToolSpec};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model gave its answer, or handed calls to the client.
    Completed,
    /// The run stopped at a limit; what it has is good but not whole.
    Incomplete {
        /// Which limit.
        reason: IncompleteReason,
    },
    /// The model or the engine could not go on.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// Somebody stopped it.
    Cancelled,
}

/// Which limit a run ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncompleteReason {
    /// The model's answer was cut by its length.
    MaxOutputTokens,
    /// The model's answer, or all of them together, had as many bytes as allowed.
    MaxOutputBytes,
    /// The model was asked as often as allowed.
    MaxTurns,
    /// As many tools were called as allowed.
    MaxToolCalls,
    /// The run took as long as allowed.
    TimeLimit,
    /// The same call with the same arguments came again and again.
    RepeatedCall,
    /// The provider withheld the answer.
    ContentFilter,
}

/// What went wrong, in public words. The cause is in the operator's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// Stable, for programs; listed in `docs/errors.md`.
    pub code: String,
    /// One sentence, for people and models.
    pub message: String,
    /// How long to wait before it is worth another try, if somebody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure with its stable code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after_ms: None }
    }

    /// The same failure, which is worth another try after `wait`.
    pub fn retry_after(self, wait: Option<Duration>) -> Self {
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self { retry_after_ms: wait.map(millis), ..self }
    }

    /// What was recorded of the run cannot be read again, so nobody can go on with it.
    pub fn journal_unreadable() -> Self {
        Self::new("journal_unreadable", "what was recorded of the run cannot be read any more")
    }
}

/// The code of a call of which nobody knows whether it did its work.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// How a call ended. Only [`ToolOutcome::Succeeded`] is a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool says it worked.
    Succeeded {
        /// What it returned.
        output: ToolOutput,
    },
    /// The tool says it did not work, or it fell over.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// The tool did not answer in time.
    TimedOut {
        /// How long it was waited for.
        after_ms: u64,
    },
    /// The call was stopped.
    Cancelled,
    /// A person said no.
    Denied {
        /// Why, in that person's words; may be empty.
        reason: String,
    },
    /// The arguments do not fit the tool: by its schema, and then it was not started, or by its
    /// own word.
    InvalidArguments {
        /// What does not fit.
        message: String,
    },
    /// There is no such tool.
    NotFound {
        /// What to do about it.
        message: String,
    },
    /// The call was not carried out because the run stopped before it.
    Skipped {
        /// What stopped it.
        reason: String,
    },
    /// The worker, the tool's server or the connection to it died while the tool worked; whether
    /// it did its work is not known.
    OutcomeUnknown {
        /// What is known.
        message: String,
    },
}

impl ToolOutcome {
    /// Whether the tool says it worked.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded { .. })
    }

    /// What went wrong, where a failure code says it: with the tool, or with what is known of it.
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

    /// What went wrong, in one sentence; nothing for a success.
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

/// What came of asking a server for its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DiscoveryOutcome {
    /// It answered.
    Listed {
        /// Those of its tools that the run may use, as they are offered to the model.
        #[schema(value_type = Vec<Object>)]
        tools: Vec<Arc<ToolSpec>>,
    },
    /// It did not.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Decision {
    /// Go ahead.
    Approved,
    /// Do not.
    Denied {
        /// Why; may be empty.
        reason: String,
    },
}

/// A person's answer about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// What was decided.
    pub decision: Decision,
    /// The arguments to call the tool with instead of the model's, as raw JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether the answer holds for the rest of the conversation.
    #[serde(default)]
    pub remember: bool,
    /// Where it came from: the name of a surface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ApprovalAnswer {
    /// The same answer, which came from `surface`.
    pub fn by(self, surface: impl Into<String>) -> Self {
        Self { by: Some(surface.into()), ..self }
    }

    /// Whether `other` says the same, wherever it came from.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let said =
            |answer: &Self| (answer.decision.clone(), answer.arguments.clone(), answer.remember);
        said(self) == said(other)
    }
}

impl From<Decision> for ApprovalAnswer {
    fn from(decision: Decision) -> Self {
        Self { decision, arguments: None, remember: false, by: None }
    }
}

/// What a tool is told that has asked a person for input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Reply {
    /// Here it is.
    Accepted {
        /// What the person said, in the shape that was asked for.
        #[schema(value_type = Object)]
        content: Map<String, Value>,
    },
    /// The person does not want to say, or nobody can be asked.
    Declined,
    /// There is no answer: the person has put the question aside, or it is too late for one.
    Cancelled,
}
