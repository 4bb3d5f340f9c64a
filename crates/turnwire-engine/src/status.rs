//! How an engine stands: what a server around it has to know to serve its clients and its
//! operator.

use std::sync::atomic::Ordering;

use turnwire_contract::{
    IncompleteReason, JournalError, JournalHead, RequestKey, RunId, RunOutcome, Seq, StoreError,
    TenantId,
};

use crate::{
    runs::{RunHandle, Runs, StartError},
    sync::lock,
};

impl Runs {
    /// Whether runs that this process leaves go on without it.
    pub fn is_durable(&self) -> bool {
        self.0.parts.workers.is_durable()
    }

    /// Whether the store can be read, and the journal written to. The store is asked for a run
    /// that nobody has.
    pub async fn is_ready(&self) -> bool {
        let nobodys = self.find(&TenantId::default(), &RunId::new("run_none")).await;
        let can_read = matches!(nobodys, Ok(_) | Err(StoreError::NotFound(_)));
        can_read && self.0.parts.journal.probe().await.is_ok()
    }

    /// How many runs this process works on.
    pub fn n_live(&self) -> usize {
        lock(&self.0.live).len()
    }

    /// How many runs this process has taken over from others.
    pub fn n_taken_over(&self) -> u64 {
        self.0.lease_keeper.n_taken_over()
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

    /// Whether the journal of a run has an event at `seq` by now.
    pub async fn has_reached(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        seq: Seq,
    ) -> Result<bool, JournalError> {
        Ok(seq <= self.head(tenant, run_id).await?.last)
    }

    /// How far the journal of a run has come.
    pub async fn head(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<JournalHead, JournalError> {
        self.0.parts.journal.head(tenant, run_id).await
    }

    /// The run that the same request has made before, here or elsewhere.
    pub async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
    ) -> Result<Option<RunHandle>, StartError> {
        let now = self.now();
        match self.0.parts.store.find_by_key(tenant, key, now).await? {
            Some(run_id) => Ok(Some(self.existing_handle(tenant.clone(), run_id).await?)),
            None => Ok(None),
        }
    }
}
