//! Who works on which run, and what people ask of whoever that is.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalAnswer, CallId, InputId, Reply, RunId, RunOutcome, StoreError, TenantId, Timestamp,
};

/// The workers that share a store, as one of them sees it. A worker is a process with an engine.
///
/// Promises an implementation makes:
///
/// * a run belongs to the worker that created or claimed it, until that worker releases it or
///   has not been heard of for the length of a lease;
/// * of several workers that claim at once, each run goes to one of them;
/// * time is told by the store's clock: those of the workers may be wrong;
/// * a wish that was left for a run reaches whoever works on it, now or after a takeover, at
///   least once, until it is done with or the run is over. Leaving it needs no lease: that is
///   for the one who works.
///
/// What keeps two workers from writing to one run is not here but the place in its journal:
/// see [`Journal`](crate::EventLog).
#[async_trait]
pub trait Workers: Send + Sync {
    /// Whether a run that this worker leaves is taken up by another one, or by the next one on
    /// this machine.
    fn is_durable(&self) -> bool {
        true
    }

    /// Says that this worker is there, and learns how long that holds.
    async fn heartbeat(&self) -> Result<Lease, StoreError>;

    /// Takes up to `most` runs that nobody works on.
    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>, StoreError>;

    /// Gives up a run of this worker, so that another one takes it up at once.
    async fn release(&self, run_id: &RunId) -> Result<(), StoreError>;

    /// Gives up a run that this worker could not take up or not go on with. That counts as a failed
    /// takeover, and nobody claims the run for a while, longer after each, unless somebody cancels
    /// it.
    async fn defer(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.release(run_id).await
    }

    /// Leaves a claimed run to workers that have what it needs: `reason` says what this one lacks.
    /// This worker does not claim it again, unless somebody cancels it.
    async fn decline(&self, run_id: &RunId, _reason: &str) -> Result<(), StoreError> {
        self.release(run_id).await
    }

    /// Ends a run whose journal cannot be read: writes its end behind whatever is there, and
    /// marks it as finished.
    async fn force_end(
        &self,
        _tenant: &TenantId,
        run_id: &RunId,
        _outcome: RunOutcome,
        _at: Timestamp,
    ) -> Result<(), StoreError> {
        Err(StoreError::NotFound(format!("journal of run `{run_id}`")))
    }

    /// The unfinished runs that belong to this worker, as the store has it. One of which nobody
    /// was told that it was kept is not among them.
    async fn owned_runs(&self) -> Result<Vec<RunId>, StoreError>;

    /// Which of `run_ids` do not belong to this worker any more.
    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>, StoreError>;

    /// Leaves a wish for whoever works on the run. A run that is over, or is not this tenant's,
    /// is [not found](StoreError::NotFound).
    async fn enqueue(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<(), StoreError>;

    /// The wishes for the runs of this worker, oldest first. They stay until they are done with.
    async fn pending_commands(&self) -> Result<Vec<PendingCommand>, StoreError>;

    /// The wishes for one run, whoever works on it, oldest first.
    async fn pending_commands_for(&self, run_id: &RunId)
    -> Result<Vec<PendingCommand>, StoreError>;

    /// These wishes have been attended to.
    async fn acknowledge(&self, pending_commands: &[i64]) -> Result<(), StoreError>;

    /// Waits until there may be a wish or a run to claim. May wait for ever: whoever waits looks
    /// from time to time anyway.
    async fn woken(&self);
}

/// For how long a worker may rely on its runs being its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Counted from before [`Workers::heartbeat`] was called.
    pub length: Duration,
}

/// A run that its worker has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedRun {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which run.
    pub run_id: RunId,
    /// How many workers have died over it, this time included; those that released it do not
    /// count.
    pub n_deaths: u32,
    /// How often it could not be taken up since somebody last worked on it.
    pub n_failed_takeovers: u32,
}

/// Something asked of the worker that has the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum RunCommand {
    /// Cancel the run.
    Cancel,
    /// Cancel one call; the run goes on.
    CancelCall {
        /// The call.
        call_id: CallId,
    },
    /// A person has answered about a call.
    Answer {
        /// The call that waits.
        call_id: CallId,
        /// The answer.
        #[serde(flatten)]
        answer: ApprovalAnswer,
    },
    /// A person has answered a question that a tool asked.
    Input {
        /// The call.
        call_id: CallId,
        /// The question.
        input_id: InputId,
        /// The answer.
        reply: Reply,
        /// Where it came from.
        by: Option<String>,
    },
}

/// A wish as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCommand {
    /// Which one.
    pub id: i64,
    /// The run it is for.
    pub run_id: RunId,
    /// What is asked for.
    pub command: RunCommand,
}

/// A worker that shares its store with nobody: nothing can be left for others, and nobody else
/// can die.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleWorker;

#[async_trait]
impl Workers for SingleWorker {
    fn is_durable(&self) -> bool {
        false
    }

    async fn heartbeat(&self) -> Result<Lease, StoreError> {
        Ok(Lease { length: Duration::MAX })
    }

    async fn claim(&self, _most: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn release(&self, _run_id: &RunId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(Vec::new())
    }

    async fn lost_runs(&self, _run_ids: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        Ok(Vec::new())
    }

    async fn enqueue(
        &self,
        _tenant: &TenantId,
        run_id: &RunId,
        _wish: RunCommand,
    ) -> Result<(), StoreError> {
        Err(StoreError::NotFound(format!("worker for run `{run_id}`")))
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>, StoreError> {
        Ok(Vec::new())
    }

    async fn pending_commands_for(
        &self,
        _run_id: &RunId,
    ) -> Result<Vec<PendingCommand>, StoreError> {
        Ok(Vec::new())
    }

    async fn acknowledge(&self, _wishes: &[i64]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn woken(&self) {
        std::future::pending::<()>().await;
    }
}
