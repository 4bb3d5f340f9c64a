//! Errors of the SDK.

use turnwire_contract::{Failure, JournalError, RunId, StoreError};
use turnwire_engine::{StartError, ToolboxError};

/// Why an agent could not be built, or a run gave no reply.
///
/// A run that was cancelled or reached a limit is not an error. Its [`Reply`](crate::Reply) has the
/// outcome and the output so far.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent has no model.
    #[error("the agent has no model; give it one with `.model(…)`")]
    NoModel,
    /// A tool is invalid or its name is already in use.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The run could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run failed. Its journal contains its events so far.
    #[error("run `{run_id}` failed: {}", failure.message)]
    Failed {
        /// ID of the run.
        run_id: RunId,
        /// Why the run failed.
        failure: Failure,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The conversation could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread for the callbacks could not be created. The run was cancelled.
    #[error("cannot start the thread for callbacks: {0}")]
    NoThread(#[source] std::io::Error),
}
