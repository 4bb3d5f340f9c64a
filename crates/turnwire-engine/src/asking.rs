//! What people may ask of a run, whichever worker has it.
//!
//! If this process works on the run, it is done here and now. Otherwise a wish is left for the
//! one that does, or for the one that will: see [`Workers`](turnwire_contract::Workers).

use futures::TryStreamExt;
use tracing::warn;
use turnwire_contract::{
    CallId, Decision, Event, LogError, Recorded, RunId, Seq, StoreError, TenantId, Wish,
    seeded::{Fault, is_seeded},
};

use crate::{live_run::Stop, runs::Runs};

impl Runs {
    /// Cancels a run, here or elsewhere. Says whether there was something to cancel; when it
    /// returns, the end may still be a moment away.
    pub async fn cancel(&self, tenant: &TenantId, run_id: &RunId) -> Result<bool, StoreError> {
        let here = self.live(tenant, run_id);
        if let Some(run) = &here {
            run.stop(Stop::Cancelled);
        }
        // A run that is here may have been taken over a moment ago, or may be in the next one;
        // then only the wish counts. Whoever is told that it was taken can rely on it.
        let left = self.leave(tenant, run_id, Wish::Cancel).await?;
        Ok(left || here.is_some())
    }

    /// Cancels a run, for those who cannot wait for it.
    pub fn cancel_soon(&self, tenant: &TenantId, run_id: &RunId) {
        if self.cancel_here(tenant, run_id) && !self.0.parts.workers.outlive_us() {
            return;
        }
        let (runs, tenant, run_id) = (self.clone(), tenant.clone(), run_id.clone());
        self.0.care.tasks().spawn(async move {
            if let Err(error) = runs.cancel(&tenant, &run_id).await {
                warn!(%error, %run_id, "The run could not be cancelled.");
            }
        });
    }

    /// Cancels one call; the run goes on. Says whether there was something to cancel.
    pub async fn cancel_call(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<bool, StoreError> {
        if let Some(run) = self.live(tenant, run_id) {
            return Ok(run.stop_call(call_id));
        }
        let is_at_work = match self.recorded(tenant, run_id).await {
            Ok(journal) => is_at_work(&journal, call_id),
            Err(LogError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
            Err(_) => false,
        };
        if !is_at_work {
            return Ok(false);
        }
        self.leave(tenant, run_id, Wish::CancelCall { call_id: call_id.clone() }).await
    }

    /// Answers for a person whether a call may be carried out. Says whether it was waiting
    /// for that; a second answer changes nothing.
    pub async fn resolve(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        decision: Decision,
    ) -> Result<bool, LogError> {
        let runs = self.clone();
        let (tenant, run_id, call_id) = (tenant.clone(), run_id.clone(), call_id.clone());
        let work = async move {
            runs.resolve_here_or_elsewhere(&tenant, &run_id, &call_id, decision).await
        };
        self.to_its_end(work).await
    }

    async fn resolve_here_or_elsewhere(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        decision: Decision,
    ) -> Result<bool, LogError> {
        if let Some(run) = self.live(tenant, run_id) {
            let done = run.resolve(call_id, decision.clone()).await?;
            if done || !self.0.parts.workers.outlive_us() {
                return Ok(done);
            }
        }
        let Ok(journal) = self.recorded(tenant, run_id).await else { return Ok(false) };
        if !waits_for_approval(&journal, call_id) {
            return Ok(false);
        }
        let head = journal.last().map_or(Seq::START, |last| last.seq);
        let wish = Wish::Answer { call_id: call_id.clone(), decision: decision.clone() };
        match self.leave(tenant, run_id, wish).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(LogError::Unavailable(error.to_string())),
        }
        let mut events = self.follow(tenant, run_id, head).await?;
        while let Some(recorded) = events.try_next().await? {
            if recorded.event.call_id() != Some(call_id) {
                continue;
            }
            if let Event::ApprovalResolved { decision: theirs, .. } = &recorded.event {
                return Ok(*theirs == decision);
            }
            if matches!(recorded.event, Event::ToolFinished { .. }) {
                break;
            }
        }
        Ok(false)
    }

    /// Leaves a wish for whoever works on the run. Says whether anybody will.
    async fn leave(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        wish: Wish,
    ) -> Result<bool, StoreError> {
        let parts = &self.0.parts;
        if !parts.workers.outlive_us() || is_seeded(Fault::CancelThroughFence) {
            return Ok(false);
        }
        match parts.workers.leave(tenant, run_id, wish).await {
            Ok(()) => Ok(true),
            // It is over, or never was.
            Err(StoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the journal ends with this call at work.
fn is_at_work(journal: &[impl AsRef<Recorded>], call_id: &CallId) -> bool {
    let about = journal.iter().rev().map(|recorded| &recorded.as_ref().event);
    let mut about = about.filter(|event| event.call_id() == Some(call_id));
    about.clone().any(|event| matches!(event, Event::ToolStarted { .. }))
        && !about.any(|event| matches!(event, Event::ToolFinished { .. }))
}

/// Whether the journal ends with this call waiting for a person.
fn waits_for_approval(journal: &[impl AsRef<Recorded>], call_id: &CallId) -> bool {
    let about = journal.iter().rev().map(|recorded| &recorded.as_ref().event);
    let mut about = about.filter(|event| event.call_id() == Some(call_id));
    matches!(about.next(), Some(Event::ApprovalRequested { .. }))
}
