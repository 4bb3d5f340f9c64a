//! Takeover: continues a run of another worker.

use std::{slice, sync::Arc, time::Duration};

use futures::{TryStreamExt, stream};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use turnwire_contract::{
    AbandonedRun, Event, Failure, JournalError, RunCommand, RunId, RunOutcome, RunRecord,
    RunStatus, Seq, StoreError, TenantId,
};

use crate::{
    failures,
    live_run::{LiveRun, StoreFailure},
    quotas::QuotaSubjects,
    run_handle::RunHandle,
    run_loop::persist_end,
    run_state::RunState,
    runs::{Runs, StartError},
    start_run::opening_events,
    sync::lock,
    work_time::RecordedWork,
};

type Result<T, E = StartError> = std::result::Result<T, E>;

/// Attempts to append while the previous worker still appends.
const MAX_TRIES: u32 = 5;
/// Delay between these attempts.
const NEXT_TRY: Duration = Duration::from_millis(50);
/// How long a takeover may take until its first events are recorded. One that is given up counts as
/// failed.
const TAKEOVER_TIME: Duration = Duration::from_secs(30);
/// Failed takeovers after which a run is ended.
const MAX_FAILED_TAKEOVERS: u32 = 10;

impl Runs {
    /// Takes over an abandoned run: reads its journal, closes what the previous worker left open,
    /// and continues.
    pub async fn take_over(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunHandle> {
        let runs = self.clone();
        let (tenant, run_id) = (tenant.clone(), run_id.clone());
        let abandoned = AbandonedRun {
            tenant,
            run_id,
            n_deaths: 0,
            n_blamed: 0,
            probation: None,
            n_failed_takeovers: 0,
            last_heard: None,
        };
        self.run_detached(async move { runs.resume(&abandoned).await }).await
    }

    /// Takes over a claimed run. A failed takeover is retried later with backoff, and the run is
    /// ended after too many failures.
    pub(crate) async fn take_over_claimed(&self, abandoned: AbandonedRun) {
        let run_id = &abandoned.run_id;
        if abandoned.n_failed_takeovers >= MAX_FAILED_TAKEOVERS {
            let outcome = RunOutcome::Failed { failure: failures::takeover_failed() };
            return self.force_end(&abandoned, outcome).await;
        }
        let taken = timeout(TAKEOVER_TIME, self.take_over_with_retries(&abandoned)).await;
        let Ok(taken) = taken else {
            warn!(%run_id, "takeover given up, nothing was recorded in time");
            return self.defer(run_id).await;
        };
        let error = match taken {
            Ok(_) => {
                self.0.leases.note_taken_over();
                info!(%run_id, n_deaths = abandoned.n_deaths, "run taken over");
                return;
            }
            Err(StartError::NotAbandoned(_)) => return,
            Err(StartError::ShuttingDown) => return self.release(run_id).await,
            Err(StartError::Lacks(what)) => return self.decline(run_id, &what).await,
            Err(
                StartError::Store(StoreError::KeyMissing(why))
                | StartError::Journal(JournalError::KeyMissing(why)),
            ) => return self.leave_encrypted(&abandoned, &why).await,
            Err(error) => error,
        };
        warn!(%run_id, %error, n_failed = abandoned.n_failed_takeovers, "takeover failed");
        // A store that comes back lets another takeover end the run properly: what was open is
        // closed, and the conversation gets its entries.
        if !is_passing(&error) && self.is_cancelled(run_id).await.unwrap_or(false) {
            return self.force_end(&abandoned, RunOutcome::Cancelled).await;
        }
        self.defer(run_id).await;
    }

    /// Retries while the previous worker is still alive and appends.
    async fn take_over_with_retries(&self, abandoned: &AbandonedRun) -> Result<RunHandle> {
        for _ in 1..MAX_TRIES {
            match self.resume(abandoned).await {
                Err(StartError::Journal(JournalError::Conflict { .. })) => sleep(NEXT_TRY).await,
                taken => return taken,
            }
        }
        self.resume(abandoned).await
    }

    /// Ends a run that cannot be taken over.
    async fn force_end(&self, abandoned: &AbandonedRun, outcome: RunOutcome) {
        let AbandonedRun { tenant, run_id, .. } = abandoned;
        warn!(%run_id, ?outcome, "run ended without reading its journal");
        let store = &self.0.parts.store;
        if let Err(error) = store.force_end(tenant, run_id, outcome, self.now()).await {
            warn!(%run_id, %error, "failed to end run");
            self.defer(run_id).await;
        }
    }

    /// Releases a run that this worker cannot continue, with a delay before the next claim.
    pub(crate) async fn defer(&self, run_id: &RunId) {
        if let Err(error) = self.0.parts.workers.defer(run_id).await {
            warn!(%run_id, %error, "run not deferred, store unavailable");
            self.0.leases.note_possible_orphans();
        }
    }

    async fn is_cancelled(&self, run_id: &RunId) -> Result<bool, StoreError> {
        let pending_commands = self.0.parts.workers.pending_commands_for(run_id).await?;
        Ok(pending_commands.iter().any(|left| left.command == RunCommand::Cancel))
    }

    /// Leaves a run to a worker that has the key of its tenant. Nothing of it can be read here, so
    /// a run that is to be cancelled is ended without.
    async fn leave_encrypted(&self, abandoned: &AbandonedRun, why: &str) {
        let run_id = &abandoned.run_id;
        if self.is_cancelled(run_id).await.unwrap_or(false) {
            return self.force_end(abandoned, RunOutcome::Cancelled).await;
        }
        warn!(%run_id, why, "run declined, it is encrypted and the key is missing");
        self.decline(run_id, "the key that it is encrypted with").await;
    }

    async fn decline(&self, run_id: &RunId, what: &str) {
        info!(%run_id, lacks = what, "run declined, a capability is missing");
        if let Err(error) = self.0.parts.workers.decline(run_id, what).await {
            warn!(%run_id, %error, "run not declined, store unavailable");
            self.0.leases.note_possible_orphans();
        }
    }

    async fn resume(&self, abandoned: &AbandonedRun) -> Result<RunHandle> {
        self.ensure_open()?;
        let parts = &self.0.parts;
        let (record, run) = self.reopen(abandoned).await?;
        if let Some(outcome) = self.ends_at_once(&record, &run, abandoned).await? {
            self.end_left(&run, abandoned, outcome).await?;
            return Err(StartError::NotAbandoned(abandoned.run_id.clone()));
        }
        let model = self.model(&record.request.model)?;
        let owed = self.owed_events(&run, abandoned);
        // A worker that stalled since the claim would only conflict with the next one.
        if !parts.workers.lost_runs(slice::from_ref(run.id())).await?.is_empty() {
            return Err(StartError::NotAbandoned(abandoned.run_id.clone()));
        }
        run.record_all(owed).await?;
        self.apply_commands_for(&run).await?;
        let events = parts.journal.read(run.tenant(), run.id(), Seq::START).await?;
        let users = QuotaSubjects::new(run.tenant(), record.request.asked_by.as_deref());
        let slot = self.0.quotas.hold_taken_over(&users);
        Ok(self.work_on(run, model, events, Some(Arc::new(slot))))
    }

    /// Returns the outcome if the run must end now. Fails if this worker lacks something that the
    /// run needs, unless the run is cancelled.
    async fn ends_at_once(
        &self,
        record: &RunRecord,
        run: &LiveRun,
        abandoned: &AbandonedRun,
    ) -> Result<Option<RunOutcome>> {
        let failed = |failure| Ok(Some(RunOutcome::Failed { failure }));
        if run.state().is_unreadable() {
            return failed(Failure::journal_unreadable());
        }
        if abandoned.n_blamed > run.state().max_deaths() {
            return failed(failures::max_recoveries());
        }
        let lacks = match self.lacks(&record.request) {
            None => self.lacks_secret_key(&record.request, run.id()).await?,
            lacks => lacks,
        };
        let Some(what) = lacks else { return Ok(None) };
        if self.is_cancelled(run.id()).await? {
            return Ok(Some(RunOutcome::Cancelled));
        }
        Err(StartError::Lacks(what))
    }

    /// Rebuilds the run from its journal, ready to execute.
    async fn reopen(&self, abandoned: &AbandonedRun) -> Result<(RunRecord, Arc<LiveRun>)> {
        let (tenant, run_id) = (&abandoned.tenant, &abandoned.run_id);
        let parts = &self.0.parts;
        let record = parts.store.find(tenant, run_id).await?;
        if record.status != RunStatus::Active {
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        self.relinquish_own(run_id).await?;
        let history = self.history_of(&record.request).await?;
        let mut state = RunState::new(run_id, Arc::clone(&record.request), history);
        let (mut head, mut work) = (Seq::START, RecordedWork::default());
        let mut observers = self.observers_of(run_id, &record.request, abandoned.n_deaths > 0);
        let mut journal = match parts.journal.stored(tenant, run_id, Seq::START).await {
            Err(JournalError::NotFound(_)) => Box::pin(stream::empty()),
            read => read?,
        };
        while let Some(recorded) = journal.try_next().await? {
            state.apply(&recorded.event);
            work.note(&recorded, &state);
            observers.recall(&recorded);
            head = recorded.seq;
        }
        let outcome = state.outcome().cloned();
        let run = self.live_run(run_id.clone(), state, head).having_worked(work.worked());
        let run = Arc::new(run.observed_by(observers));
        if let Some(outcome) = outcome {
            // The journal has ended; only the conversation is missing.
            persist_end(&run, parts.store.as_ref(), outcome).await;
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        Ok((record, run))
    }

    /// Drops an earlier execution of the run in this process that has not noticed its lost lease.
    async fn relinquish_own(&self, run_id: &RunId) -> Result<()> {
        let Some(ours) = lock(&self.0.live).get(run_id).cloned() else { return Ok(()) };
        if !self.0.parts.workers.is_durable() {
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        ours.relinquish();
        ours.persisted().await;
        Ok(())
    }

    async fn end_left(
        &self,
        run: &LiveRun,
        abandoned: &AbandonedRun,
        outcome: RunOutcome,
    ) -> Result<(), JournalError> {
        let owed = self.owed_events(run, abandoned);
        run.record_all(owed).await?;
        run.record_end(outcome.clone()).await?;
        persist_end(run, self.0.parts.store.as_ref(), outcome).await;
        Ok(())
    }

    /// Returns the events to record first. A run stored without its journal, by a store without a
    /// common transaction, gets its first events.
    fn owed_events(&self, run: &LiveRun, abandoned: &AbandonedRun) -> Vec<Event> {
        let state = run.state();
        if run.last_assigned() == Seq::START {
            return opening_events(state.request(), |prefix| run.new_id(prefix));
        }
        let mut events = state.takeover_events();
        if let Some(Event::RunTakenOver { worker, last_heard, .. }) = events.first_mut() {
            *worker = self.0.parts.workers.worker_name();
            *last_heard = abandoned.last_heard;
        }
        events
    }
}

/// Whether a later attempt may succeed: the store was unavailable, or another worker wrote.
fn is_passing(error: &StartError) -> bool {
    match error {
        StartError::Store(error) => error.is_unavailable(),
        StartError::Journal(error) => {
            matches!(error, JournalError::Unavailable { .. } | JournalError::Conflict { .. })
        }
        StartError::UnknownModel(_)
        | StartError::ShuttingDown
        | StartError::NotAbandoned(_)
        | StartError::Lacks(_)
        | StartError::Secrets(..) => false,
    }
}
