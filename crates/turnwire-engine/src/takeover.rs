//! Going on with a run that another worker left unfinished.

use std::{slice, sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::{info, warn};
use turnwire_contract::{
    Abandoned, Event, Failure, LogError, RunId, RunOutcome, RunRecord, RunStatus, Seq, TenantId,
};

use crate::{
    beginning::opening_events,
    failures,
    live_run::LiveRun,
    run_loop::put_away,
    run_state::RunState,
    runs::{RunHandle, Runs, StartError},
    sync::lock,
};

/// How often a worker tries to write to a journal into which the one before still writes.
const MOST_TRIES: u32 = 5;
/// How long it waits in between.
const NEXT_TRY: Duration = Duration::from_millis(50);

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
        let abandoned = Abandoned { tenant, run_id, n_deaths: 0 };
        self.to_its_end(async move { runs.go_on(&abandoned).await }).await
    }

    /// Takes up a run that was claimed for this worker, whatever has become of it.
    pub(crate) async fn take_up(&self, abandoned: Abandoned) {
        let run_id = &abandoned.run_id;
        let mut n_tries = 0;
        let error = loop {
            n_tries += 1;
            match self.go_on(&abandoned).await {
                Ok(_) => {
                    self.0.care.note_taken_over();
                    info!(%run_id, n_deaths = abandoned.n_deaths, "Run taken over.");
                    return;
                }
                Err(StartError::NotAbandoned(_)) => return,
                // The one before is alive after all and was quicker once more.
                Err(StartError::Log(LogError::Conflict { .. })) if n_tries < MOST_TRIES => {
                    sleep(NEXT_TRY).await;
                }
                Err(error) => break error,
            }
        };
        warn!(%run_id, %error, "The run could not be taken over.");
        if let StartError::UnknownModel(name) = &error {
            let failure = failures::model_gone(name);
            if self.give_up(&abandoned, failure).await.is_ok() {
                return;
            }
        }
        self.release(run_id).await;
    }

    async fn go_on(&self, abandoned: &Abandoned) -> Result<RunHandle, StartError> {
        self.refuse_if_closing()?;
        let parts = &self.0.parts;
        let (record, run) = self.reopen(abandoned).await?;
        let most_deaths = run.state().most_deaths();
        if abandoned.n_deaths > most_deaths {
            self.end_left(&run, failures::max_recoveries()).await?;
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
        Ok(self.work_on(run, model, events))
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
        let mut head = Seq::START;
        let journal = match parts.log.read_stored(tenant, run_id, Seq::START).await {
            Err(LogError::NotFound(_)) => Vec::new(),
            read => read?,
        };
        for recorded in journal {
            state.apply(&recorded.event);
            head = recorded.seq;
        }
        let outcome = state.outcome().cloned();
        let run = Arc::new(self.live_run(run_id.clone(), state, head));
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

    /// Ends a run that cannot be taken over.
    async fn give_up(&self, abandoned: &Abandoned, failure: Failure) -> Result<(), StartError> {
        let (_, run) = self.reopen(abandoned).await?;
        Ok(self.end_left(&run, failure).await?)
    }

    async fn end_left(&self, run: &LiveRun, failure: Failure) -> Result<(), LogError> {
        let owed = owed_events(run);
        run.record_all(owed).await?;
        let outcome = RunOutcome::Failed { failure };
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
