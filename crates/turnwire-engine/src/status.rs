//! Status of the engine, for a server's health checks and metrics.

use std::{sync::atomic::Ordering, time::Duration};

use turnwire_contract::{
    IdempotencyKey, IncompleteReason, JournalHead, RunId, RunOutcome, Seq, StoreError,
    StoreStatistics, TenantId,
};

use crate::{
    Result,
    run_handle::RunHandle,
    runs::{Runs, StartError},
    sync::lock,
};

impl Runs {
    /// Returns whether runs survive the end of this process.
    pub fn is_durable(&self) -> bool {
        self.0.parts.workers.is_durable()
    }

    /// Returns whether the store is readable and the journal writable. Reads a run that does not
    /// exist.
    pub async fn is_ready(&self) -> bool {
        let nobodys = self.find(&TenantId::default(), &RunId::new("run_none")).await;
        let can_read = matches!(nobodys, Ok(_) | Err(StoreError::NotFound(_)));
        can_read && self.0.parts.journal.probe().await.is_ok()
    }

    /// Returns the number of runs that this process executes.
    pub fn n_live(&self) -> usize {
        lock(&self.0.live).len()
    }

    /// Returns the number of runs taken over from other workers.
    pub fn n_taken_over(&self) -> u64 {
        self.0.leases.n_taken_over()
    }

    /// Returns the time since the last successful heartbeat. `None` if the store is not shared.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        self.0.leases.heard_at().map(|began| began.elapsed())
    }

    /// Returns how many threads a run has blocked lately, as a watchdog noted it.
    pub fn n_blocked_threads(&self) -> usize {
        self.0.n_blocked_threads.load(Ordering::Relaxed)
    }

    /// Notes how many threads a run has blocked lately.
    pub fn note_blocked_threads(&self, n_threads: usize) {
        self.0.n_blocked_threads.store(n_threads, Ordering::Relaxed);
    }

    /// Returns what the store has counted about itself, if it counts.
    pub fn store_statistics(&self) -> Option<StoreStatistics> {
        self.0.parts.journal.statistics()
    }

    /// Returns the number of unreadable answer parts.
    pub fn n_skipped_parts(&self) -> u64 {
        self.0.skipped_parts.load(Ordering::Relaxed)
    }

    /// Returns the number of runs ended by a limit here, by limit.
    pub fn n_incomplete(&self) -> Vec<(IncompleteReason, u64)> {
        lock(&self.0.incomplete).iter().map(|(reason, n_runs)| (*reason, *n_runs)).collect()
    }

    pub(crate) fn note_limit(&self, outcome: &RunOutcome) {
        if let RunOutcome::Incomplete { reason } = outcome {
            *lock(&self.0.incomplete).entry(*reason).or_default() += 1;
        }
    }

    /// Returns whether the journal of a run has an event at `seq`.
    pub async fn has_reached(&self, tenant: &TenantId, run_id: &RunId, seq: Seq) -> Result<bool> {
        Ok(seq <= self.head(tenant, run_id).await?.last)
    }

    /// Returns the head of a run's journal.
    pub async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead> {
        self.0.parts.journal.head(tenant, run_id).await
    }

    /// Returns the run that the same request started before, on any worker.
    pub async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
    ) -> Result<Option<RunHandle>, StartError> {
        let now = self.now();
        match self.0.parts.store.find_by_key(tenant, key, now).await? {
            Some(run_id) => Ok(Some(self.existing_handle(tenant.clone(), run_id).await?)),
            None => Ok(None),
        }
    }
}
