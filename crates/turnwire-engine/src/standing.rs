//! How an engine stands: what a server around it has to know to serve its clients and its
//! operator.

use std::sync::atomic::Ordering;

use turnwire_contract::{
    IncompleteReason, JournalHead, LogError, RequestKey, RunId, RunOutcome, Seq, StoreError,
    TenantId,
};

use crate::{
    runs::{RunHandle, Runs, StartError},
    sync::lock,
};

impl Runs {
    /// Whether runs that this process leaves go on without it.
    pub fn outlive_us(&self) -> bool {
        self.0.parts.workers.outlive_us()
    }

    /// Whether the store can be read, and the journal written to. The store is asked for a run
    /// that nobody has.
    pub async fn is_ready(&self) -> bool {
        let nobodys = self.find(&TenantId::default(), &RunId::new("run_none")).await;
        let can_read = matches!(nobodys, Ok(_) | Err(StoreError::NotFound(_)));
        can_read && self.0.parts.log.probe().await.is_ok()
    }

    /// How many runs this process works on.
    pub fn n_live(&self) -> usize {
        lock(&self.0.live).len()
    }

    /// How many runs this process has taken over from others.
    pub fn n_taken_over(&self) -> u64 {
        self.0.care.n_taken_over()
    }

    /// How many unreadable parts of models' answers were left out.
    pub fn n_skipped_parts(&self) -> u64 {
        self.0.skipped_parts.load(Ordering::Relaxed)
    }

    /// How many runs have ended at a limit here, by the limit.
    pub fn n_incomplete(&self) -> Vec<(IncompleteReason, u64)> {
        lock(&self.0.incomplete).iter().map(|(reason, n_runs)| (*reason, *n_runs)).collect()
    }

    pub(crate) fn note_limit(&self, outcome: &RunOutcome) {
        if let RunOutcome::Incomplete { reason } = outcome {
            *lock(&self.0.incomplete).entry(*reason).or_default() += 1;
        }
    }

    /// Whether the journal of a run has an event at `place` by now.
    pub async fn has_come_to(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        place: Seq,
    ) -> Result<bool, LogError> {
        Ok(place <= self.head(tenant, run_id).await?.last)
    }

    /// How far the journal of a run has come.
    pub async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, LogError> {
        self.0.parts.log.head(tenant, run_id).await
    }

    /// The run that the same request has made before, here or elsewhere.
    pub async fn made_before(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
    ) -> Result<Option<RunHandle>, StartError> {
        let now = self.now();
        match self.0.parts.store.made_by(tenant, key, now).await? {
            Some(run_id) => Ok(Some(self.handle_of(tenant.clone(), run_id).await?)),
            None => Ok(None),
        }
    }
}
