//! Going on with a run that another worker left unfinished.

use std::{slice, sync::Arc, time::Duration};

use futures::{TryStreamExt, stream};
use tokio::time::sleep;
use tracing::{info, warn};
use turnwire_contract::{
    Abandoned, Event, Failure, LogError, RunId, RunOutcome, RunRecord, RunStatus, Seq, StoreError,
    TenantId, Wish,
};

use crate::{
    beginning::opening_events,
    failures,
    live_run::LiveRun,
    run_loop::put_away,
    run_state::RunState,
    runs::{RunHandle, Runs, StartError},
    sync::lock,
    work_time::RecordedWork,
};

/// How often a worker tries to write to a journal into which the one before still writes.
const MAX_TRIES: u32 = 5;
/// How long it waits in between.
const NEXT_TRY: Duration = Duration::from_millis(50);
/// How often a run may fail to be taken over before it is ended.
const MAX_FAILED_TAKEOVERS: u32 = 10;

impl Runs {
    /// Takes over a run that another worker left unfinished: reads its journal, closes what
    /// that worker left open, and goes on.
    pub async fn take_over(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<RunHandle, StartError> {
        let runs = self.clone();
        let (tenant, run_id) = (tenant.clone(), run_id.clone());
        let abandoned = Abandoned { tenant, run_id, n_deaths: 0, n_failed_takeovers: 0 };
        self.to_its_end(async move { runs.go_on(&abandoned).await }).await
    }

    /// Takes up a run that was claimed for this worker, or leaves it in a state that somebody can
    /// do something about: one that cannot be taken up is tried again later, and ended when that
    /// has failed too often.
    pub(crate) async fn take_up(&self, abandoned: Abandoned) {
        let run_id = &abandoned.run_id;
        if abandoned.n_failed_takeovers >= MAX_FAILED_TAKEOVERS {
            let outcome = RunOutcome::Failed { failure: failures::takeover_failed() };
            return self.end_unread(&abandoned, outcome).await;
        }
        let error = match self.take_up_unless_writing(&abandoned).await {
            Ok(_) => {
                self.0.care.note_taken_over();
                info!(%run_id, n_deaths = abandoned.n_deaths, "Run taken over.");
                return;
            }
            Err(StartError::NotAbandoned(_)) => return,
            Err(StartError::ShuttingDown) => return self.release(run_id).await,
            Err(StartError::Lacks(what)) => return self.decline(run_id, &what).await,
            Err(error) => error,
        };
        warn!(%run_id, %error, n_failed = abandoned.n_failed_takeovers, "takeover failed");
        if self.is_cancelled(run_id).await.unwrap_or(false) {
            return self.end_unread(&abandoned, RunOutcome::Cancelled).await;
        }
        self.defer(run_id).await;
    }

    /// The worker before may be alive after all and write to the run: it is given a moment.
    async fn take_up_unless_writing(&self, abandoned: &Abandoned) -> Result<RunHandle, StartError> {
        for _ in 1..MAX_TRIES {
            match self.go_on(abandoned).await {
                Err(StartError::Log(LogError::Conflict { .. })) => sleep(NEXT_TRY).await,
                taken => return taken,
            }
        }
        self.go_on(abandoned).await
    }

    /// Ends a run that nobody can take up.
    async fn end_unread(&self, abandoned: &Abandoned, outcome: RunOutcome) {
        let Abandoned { tenant, run_id, .. } = abandoned;
        warn!(%run_id, ?outcome, "run ended without being read");
        let workers = &self.0.parts.workers;
        if let Err(error) = workers.end_unread(tenant, run_id, outcome, self.now()).await {
            warn!(%run_id, %error, "run not ended");
            self.defer(run_id).await;
        }
    }

    /// Gives up a run that this worker cannot go on with, for a while.
    pub(crate) async fn defer(&self, run_id: &RunId) {
        if let Err(error) = self.0.parts.workers.defer(run_id).await {
            warn!(%run_id, %error, "run not deferred, the store is away");
            self.0.care.note_unsure();
        }
    }

    async fn is_cancelled(&self, run_id: &RunId) -> Result<bool, StoreError> {
        let wishes = self.0.parts.workers.wishes_for(run_id).await?;
        Ok(wishes.iter().any(|left| left.wish == Wish::Cancel))
    }

    async fn decline(&self, run_id: &RunId, what: &str) {
        info!(%run_id, lacks = what, "run left to a worker that can carry it out");
        if let Err(error) = self.0.parts.workers.decline(run_id, what).await {
            warn!(%run_id, %error, "run not declined, the store is away");
            self.0.care.note_unsure();
        }
    }

    async fn go_on(&self, abandoned: &Abandoned) -> Result<RunHandle, StartError> {
        self.refuse_if_closing()?;
        let parts = &self.0.parts;
        let (record, run) = self.reopen(abandoned).await?;
        if let Some(outcome) = self.ends_at_once(&record, &run, abandoned).await? {
            self.end_left(&run, outcome).await?;
            return Err(StartError::NotAbandoned(abandoned.run_id.clone()));
        }
        let model = self.model(&record.request.model)?;
        let owed = owed_events(&run);
        // Whoever was held up since the claim would only be in the way of the next worker.
        if !parts.workers.lost(slice::from_ref(run.id())).await?.is_empty() {
            return Err(StartError::NotAbandoned(abandoned.run_id.clone()));
        }
        run.record_all(owed).await?;
        self.heed(&run).await?;
        let events = parts.log.read(run.tenant(), run.id(), Seq::START).await?;
        Ok(self.work_on(run, model, events, None))
    }

    /// How a run ends that is not gone on with. It is left to others if this worker could not go
    /// on with it; whoever has cancelled it does not care who ends it.
    async fn ends_at_once(
        &self,
        record: &RunRecord,
        run: &LiveRun,
        abandoned: &Abandoned,
    ) -> Result<Option<RunOutcome>, StartError> {
        let failed = |failure| Ok(Some(RunOutcome::Failed { failure }));
        if run.state().is_unreadable() {
            return failed(Failure::journal_unreadable());
        }
        if abandoned.n_deaths > run.state().most_deaths() {
            return failed(failures::max_recoveries());
        }
        let Some(what) = self.lacks(&record.request) else { return Ok(None) };
        if self.is_cancelled(run.id()).await? {
            return Ok(Some(RunOutcome::Cancelled));
        }
        Err(StartError::Lacks(what))
    }

    /// The run as its journal has it, ready to be worked on.
    async fn reopen(&self, abandoned: &Abandoned) -> Result<(RunRecord, Arc<LiveRun>), StartError> {
        let (tenant, run_id) = (&abandoned.tenant, &abandoned.run_id);
        let parts = &self.0.parts;
        let record = parts.store.find(tenant, run_id).await?;
        if record.status != RunStatus::Active {
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        self.part_with_our_own(run_id).await?;
        let history = self.history_of(&record.request).await?;
        let mut state = RunState::new(run_id, Arc::clone(&record.request), history);
        let (mut head, mut work) = (Seq::START, RecordedWork::default());
        let mut journal = match parts.log.stored(tenant, run_id, Seq::START).await {
            Err(LogError::NotFound(_)) => Box::pin(stream::empty()),
            read => read?,
        };
        while let Some(recorded) = journal.try_next().await? {
            state.apply(&recorded.event);
            work.note(&recorded, &state);
            head = recorded.seq;
        }
        let outcome = state.outcome().cloned();
        let run = self.live_run(run_id.clone(), state, head).having_worked(work.worked());
        let run = Arc::new(run);
        if let Some(outcome) = outcome {
            // Only the last thing was left to do.
            put_away(&run, parts.store.as_ref(), outcome).await;
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        Ok((record, run))
    }

    /// If this process worked on the run before, lost it, and does not know yet: it does now.
    async fn part_with_our_own(&self, run_id: &RunId) -> Result<(), StartError> {
        let Some(ours) = lock(&self.0.live).get(run_id).cloned() else { return Ok(()) };
        if !self.0.parts.workers.outlive_us() {
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        ours.let_go();
        ours.put_away().await;
        Ok(())
    }

    async fn end_left(&self, run: &LiveRun, outcome: RunOutcome) -> Result<(), LogError> {
        let owed = owed_events(run);
        run.record_all(owed).await?;
        run.record_end(outcome.clone()).await?;
        put_away(run, self.0.parts.store.as_ref(), outcome).await;
        Ok(())
    }
}

/// What has to be recorded before anything else. A run that was kept without its journal, by a
/// store that could not do both at once, is begun.
fn owed_events(run: &LiveRun) -> Vec<Event> {
    let state = run.state();
    if run.head() == Seq::START {
        return opening_events(state.request(), |prefix| run.new_id(prefix));
    }
    state.takeover_events()
}
