//! Leases of runs, and commands to the worker that owns a run.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ApprovalAnswer, CallId, InputId, Reply, RunId, StoreError, TenantId, Timestamp};

use super::Result;

/// Which worker executes which run. See [`Workers`] for the guarantees.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Whether another process can continue a run that this worker releases.
    fn is_durable(&self) -> bool {
        true
    }

    /// Returns the name of this worker among those that share the store.
    fn worker_name(&self) -> Option<String> {
        None
    }

    /// Renews the lease of this worker, and returns its length.
    async fn heartbeat(&self) -> Result<Lease>;

    /// Claims up to `most` runs without a live worker, and beside them at most one that is
    /// [suspected](AbandonedRun::probation), if this worker has none.
    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>>;

    /// Ends the [probation](AbandonedRun::probation) of a run: this worker may claim the next
    /// suspect, and its death is no longer to be blamed on this run.
    async fn end_probation(&self, _run_id: &RunId) -> Result<()> {
        Ok(())
    }

    /// Releases a run of this worker. Another worker can claim it at once.
    async fn release(&self, run_id: &RunId) -> Result<()>;

    /// Releases a run that this worker could not take over or continue. Counts as a failed
    /// takeover. The run cannot be claimed for a while, longer after each failure, unless it is
    /// cancelled.
    async fn defer(&self, run_id: &RunId) -> Result<()> {
        self.release(run_id).await
    }

    /// Releases a claimed run to workers that have what it needs. `reason` says what this worker
    /// lacks. This worker does not claim the run again, unless the run is cancelled.
    async fn decline(&self, run_id: &RunId, _reason: &str) -> Result<()> {
        self.release(run_id).await
    }

    /// Returns the unfinished runs that belong to this worker according to the store, except those
    /// whose creation was not confirmed to the caller.
    async fn owned_runs(&self) -> Result<Vec<RunId>>;

    /// Returns those of `run_ids` that no longer belong to this worker.
    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>>;
}

/// Commands for the worker that has a run. See [`Workers`] for the guarantees.
#[async_trait]
pub trait Commands: Send + Sync {
    /// Enqueues a command for the worker that owns the run. Fails with
    /// [`NotFound`](StoreError::NotFound) if the run is finished or belongs to another tenant.
    async fn enqueue(&self, tenant: &TenantId, run_id: &RunId, command: RunCommand) -> Result<()>;

    /// Returns the pending commands for the runs of this worker, oldest first. They stay until they
    /// are acknowledged.
    async fn pending_commands(&self) -> Result<Vec<PendingCommand>>;

    /// Returns the pending commands for one run, oldest first, whichever worker owns it.
    async fn pending_commands_for(&self, run_id: &RunId) -> Result<Vec<PendingCommand>>;

    /// Removes commands that have been executed.
    async fn acknowledge(&self, pending_commands: &[i64]) -> Result<()>;

    /// Waits until there may be a command or a run to claim. May wait forever; the caller also
    /// polls.
    async fn woken(&self);
}

/// The workers that share a store, from the view of one of them. A worker is a process with an
/// engine.
///
/// Guarantees of an implementation:
///
/// * a run belongs to the worker that created or claimed it, until that worker releases it or sends
///   no heartbeat for the length of a lease;
/// * of several workers that claim concurrently, each run goes to one of them;
/// * time is measured by the store's clock, because the workers' clocks may be wrong;
/// * a death of a worker is blamed on the suspect that it had. Without one, the runs that it had
///   are suspected from the second such death in ten minutes on: a worker takes over one suspect at
///   a time;
/// * a command that was enqueued for a run is delivered at least once to the worker that owns the
///   run, also after a takeover, until it is acknowledged or the run ends. Enqueueing needs no
///   lease.
///
/// Leases do not prevent two workers from writing to one run. The sequence number in the journal
/// does: see [`Journal`](crate::Journal).
pub trait Workers: Leases + Commands {}

impl<T: Leases + Commands> Workers for T {}

/// Time for which a worker owns its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Length of the lease, counted from before the call of [`Leases::heartbeat`].
    pub length: Duration,
}

/// A claimed run that its previous worker left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedRun {
    /// Tenant of the run.
    pub tenant: TenantId,
    /// ID of the run.
    pub run_id: RunId,
    /// Number of workers that died during the run, including the last one. Releases do not count.
    pub n_deaths: u32,
    /// Number of workers whose death is to be blamed on the run: it was the suspect of the worker
    /// that died.
    pub n_blamed: u32,
    /// For how long the run is the suspect of the worker that claimed it: workers died that had it,
    /// and nothing explains why. If this worker dies meanwhile, that run is to blame and no other.
    pub probation: Option<Duration>,
    /// Number of failed takeovers since a worker last executed the run.
    pub n_failed_takeovers: u32,
    /// Last heartbeat of the worker that died, if it is known. Not set if the run was released.
    pub last_heard: Option<Timestamp>,
}

/// A command to the worker that owns a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum RunCommand {
    /// Cancel the run.
    Cancel,
    /// Cancel one call. The run continues.
    CancelCall {
        /// ID of the call.
        call_id: CallId,
    },
    /// Answer an approval request.
    Answer {
        /// ID of the call.
        call_id: CallId,
        /// The answer.
        #[serde(flatten)]
        answer: ApprovalAnswer,
    },
    /// Reply to a tool's request for input.
    Input {
        /// ID of the call.
        call_id: CallId,
        /// ID of the request.
        input_id: InputId,
        /// The reply.
        reply: Reply,
        /// Name of the surface that the reply came from.
        by: Option<String>,
    },
}

/// A stored command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCommand {
    /// ID of the command.
    pub id: i64,
    /// ID of the run.
    pub run_id: RunId,
    /// The command.
    pub command: RunCommand,
}

/// The only worker of its store. It has no commands to deliver and no runs to take over.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleWorker;

#[async_trait]
impl Leases for SingleWorker {
    fn is_durable(&self) -> bool {
        false
    }

    async fn heartbeat(&self) -> Result<Lease> {
        Ok(Lease { length: Duration::MAX })
    }

    async fn claim(&self, _most: usize) -> Result<Vec<AbandonedRun>> {
        Ok(Vec::new())
    }

    async fn release(&self, _run_id: &RunId) -> Result<()> {
        Ok(())
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>> {
        Ok(Vec::new())
    }

    async fn lost_runs(&self, _run_ids: &[RunId]) -> Result<Vec<RunId>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Commands for SingleWorker {
    async fn enqueue(&self, _tenant: &TenantId, run_id: &RunId, _wish: RunCommand) -> Result<()> {
        Err(StoreError::NotFound(format!("worker for run `{run_id}`")))
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>> {
        Ok(Vec::new())
    }

    async fn pending_commands_for(&self, _run_id: &RunId) -> Result<Vec<PendingCommand>> {
        Ok(Vec::new())
    }

    async fn acknowledge(&self, _pending_commands: &[i64]) -> Result<()> {
        Ok(())
    }

    async fn woken(&self) {
        std::future::pending::<()>().await;
    }
}
