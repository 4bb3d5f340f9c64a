//! The leases of this process: until when they last, and which runs it executes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::RunId;

use crate::sync::lock;

/// How long a new run that needs the store to be there waits for it.
const LEASE_PATIENCE: Duration = Duration::from_secs(2);

/// Number of guards per run: one for each start, takeover or execution.
type LocalRuns = Arc<Mutex<HashMap<RunId, usize>>>;

/// Lease state of the engine.
#[derive(Debug, Default)]
pub(crate) struct LeaseState {
    /// Background tasks that run until the engine stops.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// End of the lease on all runs. Not set while the store is not shared.
    pub(crate) lease_end: OnceLock<watch::Sender<Instant>>,
    /// Start of the last successful heartbeat.
    heard_at: Mutex<Option<Instant>>,
    /// Number of runs taken over here.
    n_taken_over: AtomicU64,
    local_runs: LocalRuns,
    /// Whether the store may record leases of runs that are not executed here.
    pub(crate) may_have_orphans: AtomicBool,
}

/// Marks a run as executed by this process until dropped.
#[derive(Debug)]
#[must_use = "the run is tracked only until this is dropped"]
pub(crate) struct LocalRunGuard {
    local_runs: LocalRuns,
    run_id: RunId,
}

impl Drop for LocalRunGuard {
    fn drop(&mut self) {
        let mut local_runs = lock(&self.local_runs);
        if let Some(n) = local_runs.get_mut(&self.run_id) {
            *n -= 1;
            if *n == 0 {
                local_runs.remove(&self.run_id);
            }
        }
    }
}

impl LeaseState {
    /// Subscribes to the end of the lease.
    pub(crate) fn lease_end(&self) -> Option<watch::Receiver<Instant>> {
        self.lease_end.get().map(watch::Sender::subscribe)
    }

    /// Waits until the lease is valid, but not for long. Returns whether it is, or none is needed.
    pub(crate) async fn becomes_valid(&self) -> bool {
        let Some(mut lease_end) = self.lease_end() else { return true };
        let is_valid = lease_end.wait_for(|until| *until > Instant::now());
        timeout(LEASE_PATIENCE, is_valid).await.is_ok()
    }

    pub(crate) fn note_heard(&self, began: Instant) {
        *lock(&self.heard_at) = Some(began);
    }

    pub(crate) fn heard_at(&self) -> Option<Instant> {
        *lock(&self.heard_at)
    }

    pub(crate) fn note_taken_over(&self) {
        self.n_taken_over.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn n_taken_over(&self) -> u64 {
        self.n_taken_over.load(Ordering::Relaxed)
    }

    /// Records that a store call failed, so leases of runs that are not executed here may exist.
    pub(crate) fn note_possible_orphans(&self) {
        self.may_have_orphans.store(true, Ordering::Relaxed);
    }

    /// Marks the run as executed here.
    pub(crate) fn track(&self, run_id: &RunId) -> LocalRunGuard {
        *lock(&self.local_runs).entry(run_id.clone()).or_default() += 1;
        LocalRunGuard { local_runs: Arc::clone(&self.local_runs), run_id: run_id.clone() }
    }

    /// Returns the number of guards of the run.
    pub(crate) fn n_tracked(&self, run_id: &RunId) -> usize {
        lock(&self.local_runs).get(run_id).copied().unwrap_or(0)
    }
}
