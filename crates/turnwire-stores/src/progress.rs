//! What a list says about the events of a run, computed while they are appended.
//!
//! The table holds the progress of the runs that this process writes. A run that it does not hold,
//! for example one that was taken over, is read from the journal once. If that fails, the summary
//! of the run stays as it is until the next change: a list may be late, an append may not.

use std::{collections::HashMap, sync::Mutex};

use turnwire_contract::{RunId, RunProgress};

use crate::sync::lock;

/// The progress of the runs that are written here.
#[derive(Debug, Default)]
pub(crate) struct ProgressTable(Mutex<HashMap<RunId, RunProgress>>);

impl ProgressTable {
    pub(crate) fn set(&self, run_id: &RunId, progress: RunProgress) {
        lock(&self.0).insert(run_id.clone(), progress);
    }

    pub(crate) fn forget(&self, run_id: &RunId) {
        lock(&self.0).remove(run_id);
    }

    pub(crate) fn find(&self, run_id: &RunId) -> Option<RunProgress> {
        lock(&self.0).get(run_id).cloned()
    }
}

/// The progress of a run, as columns of `runs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryColumns {
    /// Names of tools, as a JSON array.
    pub(crate) tools: String,
    pub(crate) n_calls: i64,
    pub(crate) n_failed_calls: i64,
    pub(crate) is_waiting: bool,
}

impl SummaryColumns {
    pub(crate) fn of(progress: &RunProgress) -> Self {
        Self {
            tools: serde_json::json!(progress.tools).to_string(),
            n_calls: progress.n_calls.into(),
            n_failed_calls: progress.n_failed_calls.into(),
            is_waiting: progress.needs_input(),
        }
    }
}
