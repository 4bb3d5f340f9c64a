//! What a starter of a run holds: its events and its outcome, here or on another worker.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{TryStreamExt, future::Shared};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use turnwire_contract::{
    CallId, Entry, Event, EventStream, JournalError, RecordedEvent, RunId, RunOutcome, RunRequest,
    Seq, StoreError, TenantId, partial_debug, ports::Result,
};

use crate::{
    failures,
    live_run::LiveRun,
    runs::{Runs, StartError},
    sync::lock,
};

/// How long a run may exist before its journal does.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);
/// Polling interval for the journal.
const JOURNAL_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Handle of a started run. Dropping it does not stop the run.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) runs: Runs,
    pub(crate) tenant: TenantId,
    pub(crate) run_id: RunId,
    pub(crate) already_existed: bool,
    /// What was asked for, if this start created the run.
    pub(crate) request: Option<Arc<RunRequest>>,
    /// The outcome of this worker's execution, if it executes the run.
    pub(crate) outcome: Option<Shared<oneshot::Receiver<Option<RunOutcome>>>>,
    /// The run, if it is kept in memory although the store is durable.
    pub(crate) ephemeral: Option<Arc<LiveRun>>,
    /// Opened before the run starts, for the first caller of [`Self::events`]: a journal with a
    /// limit may already have deleted a short run by then.
    pub(crate) opened_events: Arc<Mutex<Option<EventStream>>>,
}

partial_debug!(RunHandle { run_id });

impl RunHandle {
    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.run_id
    }

    /// Returns what was asked for, as it is recorded. `None` if the run existed before.
    pub fn request(&self) -> Option<&Arc<RunRequest>> {
        self.request.as_ref()
    }

    /// Returns whether the same request had already started the run.
    pub fn already_existed(&self) -> bool {
        self.already_existed
    }

    /// Returns whether the run is kept in memory although the store is durable. Only this handle
    /// finds it, its events can be read once, and it is gone when the last handle is.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }

    /// Returns the whole context of the run, which must have ended. See [`Runs::context`].
    pub async fn context(&self) -> Result<Vec<Entry>> {
        match &self.ephemeral {
            Some(run) => Ok(run.state().context()),
            None => self.runs.context(&self.tenant, &self.run_id).await,
        }
    }

    /// Cancels the run if this process executes it. [`Runs::cancel`] works on any worker.
    pub fn cancel(&self) {
        self.runs.cancel_here(&self.tenant, &self.run_id);
    }

    /// Cancels one call. The run continues. Returns whether the call was running here.
    pub fn cancel_call(&self, call_id: &CallId) -> bool {
        let run = self.runs.live(&self.tenant, &self.run_id);
        run.is_some_and(|run| run.stop_call(call_id))
    }

    /// Streams all events from the first to the end of the run.
    pub async fn events(&self) -> Result<EventStream, JournalError> {
        let first = lock(&self.opened_events).take();
        if let Some(events) = first {
            return Ok(events);
        }
        self.runs.0.parts.journal.read(&self.tenant, self.id(), Seq::START).await
    }

    /// Waits until the run has ended and everything is stored, so that the conversation can
    /// continue.
    pub async fn outcome(&self) -> RunOutcome {
        let Some(here) = self.outcome.clone() else { return self.outcome_elsewhere().await };
        match here.await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => self.outcome_elsewhere().await,
            Err(_) => RunOutcome::Failed { failure: failures::engine_stopped() },
        }
    }

    /// Waits for the outcome of a run on another worker.
    async fn outcome_elsewhere(&self) -> RunOutcome {
        let lost = RunOutcome::Failed { failure: failures::journal_lost() };
        let events = self.runs.0.parts.journal.read(&self.tenant, &self.run_id, Seq::START).await;
        let Ok(mut events) = events else { return lost };
        while let Ok(Some(recorded)) = events.try_next().await {
            if let Event::RunFinished { outcome, .. } = &recorded.event {
                return outcome.clone();
            }
        }
        lost
    }

    /// Waits for the end and streams all events.
    pub async fn events_when_over(&self) -> Result<EventStream, JournalError> {
        if failures::is_journal_lost(&self.outcome().await) {
            return Err(JournalError::Unavailable(failures::journal_lost().message));
        }
        self.events().await
    }

    /// Waits for the end and returns the whole journal.
    pub async fn journal(&self) -> Result<Vec<Arc<RecordedEvent>>, JournalError> {
        self.events_when_over().await?.try_collect().await
    }
}

impl Runs {
    /// Returns the handle of a stored run, on any worker.
    pub async fn attach(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunHandle, StartError> {
        self.existing_handle(tenant.clone(), run_id.clone()).await
    }

    /// Returns the handle of an existing run, on any worker.
    pub(crate) async fn existing_handle(
        &self,
        tenant: TenantId,
        run_id: RunId,
    ) -> Result<RunHandle, StartError> {
        let handle = self.remote_handle(tenant, run_id).await?;
        Ok(RunHandle { already_existed: true, ..handle })
    }

    /// Returns the handle of a run that another worker executes or will claim.
    pub(crate) async fn remote_handle(
        &self,
        tenant: TenantId,
        run_id: RunId,
    ) -> Result<RunHandle, StartError> {
        let events = self.opened(&tenant, &run_id).await?;
        let opened_events = Arc::new(Mutex::new(Some(events)));
        let (runs, already_existed) = (self.clone(), false);
        let (request, outcome, ephemeral) = (None, None, None);
        Ok(RunHandle {
            runs,
            tenant,
            run_id,
            already_existed,
            request,
            outcome,
            ephemeral,
            opened_events,
        })
    }

    /// Opens the journal of an existing run. The journal may appear shortly after the run.
    async fn opened(&self, tenant: &TenantId, run_id: &RunId) -> Result<EventStream, JournalError> {
        let until = Instant::now() + JOURNAL_PATIENCE;
        loop {
            match self.0.parts.journal.read(tenant, run_id, Seq::START).await {
                Err(JournalError::NotFound(_)) if Instant::now() < until => {
                    // A deleted run will never have a journal.
                    if let Err(StoreError::NotFound(_)) = self.find(tenant, run_id).await {
                        return Err(JournalError::NotFound(run_id.clone()));
                    }
                    sleep(JOURNAL_LOOK_EVERY).await;
                }
                read => return read,
            }
        }
    }
}
