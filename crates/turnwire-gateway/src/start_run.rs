//! Starts the runs of all clients. A server that shuts down starts none, the concurrency limits
//! apply to all, and a repeated request with an `Idempotency-Key` finds its run.

use std::sync::Arc;

use turnwire_contract::{RequestKey, RunRequest, TenantId};
use turnwire_engine::{RunHandle, Start, StartError};

use crate::{api_error::ApiError, app::App, auth::Caller};

impl App {
    /// Starts a run of `caller` within the concurrency limits.
    pub(crate) async fn start(
        &self,
        caller: &Caller,
        run: RunRequest,
        start: Start,
    ) -> Result<RunHandle, ApiError> {
        self.ensure_open()?;
        let n_live = || self.runs().n_live();
        let admitted = self.admission().admit_run_soon(caller.tenant(), caller.key(), n_live);
        let permit = admitted.await?;
        let start = Start { held: Some(Arc::new(permit)), ..start };
        let started = self.runs().start_with(run, start).await;
        match &started {
            Ok(handle) if handle.already_existed() => self.metrics().found_by_key(),
            Err(StartError::ShuttingDown) => self.metrics().refused_while_closing(),
            Ok(_) | Err(_) => {}
        }
        Ok(started?)
    }

    /// Counts a limit that was reached, for errors that are not sent as an HTTP response. Those are
    /// counted by a layer.
    pub(crate) fn count(&self, error: &ApiError) {
        if let Some(limit) = error.limit() {
            self.metrics().limit_reached(limit);
        }
    }

    /// The run that an earlier request with the same key created. Call this before looking up
    /// anything that the run may have changed, such as its conversation, which it keeps locked.
    pub(crate) async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: Option<&RequestKey>,
    ) -> Result<Option<RunHandle>, StartError> {
        let Some(key) = key else { return Ok(None) };
        self.ensure_open()?;
        let made = self.runs().find_by_key(tenant, key).await?;
        Ok(made.inspect(|_| self.metrics().found_by_key()))
    }

    fn ensure_open(&self) -> Result<(), StartError> {
        if !self.closing().is_cancelled() {
            return Ok(());
        }
        self.metrics().refused_while_closing();
        Err(StartError::ShuttingDown)
    }
}
