//! Where the runs of clients begin: all of them, so that a server that closes begins none, and
//! a request that was sent before is not done again.

use turnwire_contract::{RequestKey, RunRequest, TenantId};
use turnwire_engine::{RunHandle, Start, StartError};

use crate::app::App;

impl App {
    /// Begins a run.
    pub(crate) async fn start(
        &self,
        run: RunRequest,
        start: Start,
    ) -> Result<RunHandle, StartError> {
        self.refuse_if_closing()?;
        let started = self.runs().start_as(run, start).await;
        match &started {
            Ok(handle) if handle.was_there() => self.metrics().found_by_key(),
            Err(StartError::ShuttingDown) => self.metrics().refused_while_closing(),
            Ok(_) | Err(_) => {}
        }
        started
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
