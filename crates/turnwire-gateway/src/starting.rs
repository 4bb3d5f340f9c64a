//! Where the runs of clients begin: all of them, so that a server that closes begins none, one
//! that has enough to do begins no more, and a request that was sent before is not done again.

use std::sync::Arc;

use turnwire_contract::{RequestKey, RunRequest, TenantId};
use turnwire_engine::{RunHandle, Start, StartError};

use crate::{app::App, door::Caller, refusal::Refusal};

impl App {
    /// Begins a run of `caller`, if there is room for one more.
    pub(crate) async fn start(
        &self,
        caller: &Caller,
        run: RunRequest,
        start: Start,
    ) -> Result<RunHandle, Refusal> {
        self.refuse_if_closing()?;
        let n_live = || self.runs().n_live();
        let admitted = self.admission().admit_run_soon(caller.tenant(), caller.key(), n_live);
        let permit = admitted.await?;
        let start = Start { held: Some(Arc::new(permit)), ..start };
        let started = self.runs().start_as(run, start).await;
        match &started {
            Ok(handle) if handle.was_there() => self.metrics().found_by_key(),
            Err(StartError::ShuttingDown) => self.metrics().refused_while_closing(),
            Ok(_) | Err(_) => {}
        }
        Ok(started?)
    }

    /// Counts a refusal that is not told over HTTP, where every response is looked at.
    pub(crate) fn count(&self, refusal: &Refusal) {
        if let Some(limit) = refusal.limit() {
            self.metrics().limit_reached(limit);
        }
    }

    /// The run that the same request has made before. To be asked before anything is looked up
    /// that the run may have changed: its conversation, for one, is busy with it.
    pub(crate) async fn made_before(
        &self,
        tenant: &TenantId,
        key: Option<&RequestKey>,
    ) -> Result<Option<RunHandle>, StartError> {
        let Some(key) = key else { return Ok(None) };
        self.refuse_if_closing()?;
        let made = self.runs().made_before(tenant, key).await?;
        Ok(made.inspect(|_| self.metrics().found_by_key()))
    }

    fn refuse_if_closing(&self) -> Result<(), StartError> {
        if !self.closing().is_cancelled() {
            return Ok(());
        }
        self.metrics().refused_while_closing();
        Err(StartError::ShuttingDown)
    }
}
