//! A stored run, and whether it is finished.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{RunId, RunOutcome, RunRequest, Timestamp};

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// ID of the run.
    pub run_id: RunId,
    /// Time of the request.
    pub created_at: Timestamp,
    /// The request.
    pub request: Arc<RunRequest>,
    /// Status of the run.
    pub status: RunStatus,
    /// What the workers that declined the run lack, if no worker executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
}

/// Status of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunStatus {
    /// Not finished.
    Active,
    /// Finished.
    Finished {
        /// Outcome of the run.
        outcome: RunOutcome,
    },
}
