//! Why something was not done, and how to go on.

use turnwire_contract::{Failure, JournalError, RunId, StoreError};
use turnwire_engine::{StartError, ToolboxError};

/// Why an agent could not be made, or gave no reply.
///
/// A run that was cancelled or stopped at a limit is not an error: its
/// [`Reply`](crate::Reply) says so, and has what was said until then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent was given no model.
    #[error("the agent has no model; give it one with `.model(…)`")]
    NoModel,
    /// The agent was given a tool that does not fit.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The run was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run failed. What it did until then is in its journal.
    #[error("run `{run_id}` failed: {}", failure.message)]
    Failed {
        /// The run.
        run_id: RunId,
        /// Why.
        failure: Failure,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The conversation could not be read or put in place.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no thread left for the callbacks; the run was cancelled.
    #[error("there is no thread for the callbacks: {0}")]
    NoThread(#[source] std::io::Error),
}
