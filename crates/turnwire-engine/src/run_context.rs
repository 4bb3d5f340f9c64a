//! Dependencies of the steps of a run, and their results for the loop.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio_util::task::TaskTracker;
use turnwire_contract::{BlobStore, RunOutcome, RunStore, Sampler};

use crate::{
    call_statistics::CallStatistics, concurrency::ConcurrencyLimits, gathering::Gathering,
    policy::ApprovalPolicy, polls::Work, prompt_files::PromptFiles, run_servers::RunServers,
    settings::RunModel, toolbox::Toolbox,
};

/// Dependencies of a run.
pub(crate) struct RunContext {
    pub(crate) model: RunModel,
    /// Loads the files named in conversations.
    pub(crate) files: Arc<PromptFiles>,
    pub(crate) tools: Toolbox,
    pub(crate) servers: Arc<RunServers>,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) tasks: TaskTracker,
    /// What the task of the run does.
    pub(crate) work: Arc<Work>,
    /// Interval between two `ToolStayedSilent` events of a silent tool.
    pub(crate) tool_silent_interval: Duration,
    /// Decides which calls need an approval.
    pub(crate) policy: ApprovalPolicy,
    pub(crate) concurrency: ConcurrencyLimits,
    pub(crate) gathering: Arc<Gathering>,
    /// Number of unreadable answer parts, over all runs.
    pub(crate) skipped_parts: Arc<AtomicU64>,
    /// Calls of tool servers, over all runs.
    pub(crate) statistics: Arc<CallStatistics>,
    /// Which traces are recorded; `None` if none are.
    pub(crate) sampler: Option<Sampler>,
}

/// Whether the loop continues after a step.
pub(crate) enum StepOutcome {
    Continue,
    End(RunOutcome),
}

/// How this worker's execution of a run ended.
pub(crate) enum DriveOutcome {
    Ended(RunOutcome),
    /// The run continues on another worker.
    HandedOver,
}
