//! What an engine does besides its own runs when it shares a store with others: it says that it
//! is there, takes up runs that nobody works on, and attends to what people ask of its runs
//! through other workers.
//!
//! A worker that its store has not heard of for too long cannot know whether its runs are still
//! its own. It starts nothing new until it has been heard again and has asked which runs it
//! lost. That is courtesy, not safety: what keeps two workers apart is the place in the journal.
//!
//! The store says whose a run is, the journal says who writes to it, and the two can disagree: a
//! worker that was stopped in the middle of a takeover may write to a run that has long been
//! given to another. So whoever drops a run releases it, whatever the reason; and when the store
//! could not be told, or its answer to a claim was lost, what it calls ours is compared with what
//! is in hand here. A run that nobody works on must not carry the name of a living worker.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use turnwire_contract::{PendingCommand, RunCommand, RunId, StoreError};

use crate::{
    live_run::{LiveRun, Stop},
    runs::{Engine, Runs, StartError},
    sync::lock,
};

/// How often this worker looks for something to do when nobody wakes it.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many runs are taken up in one go.
const MAX_CLAIMED_AT_ONCE: usize = 32;
/// How long a run that is let go may take to notice.
const RELINQUISH_TIMEOUT: Duration = Duration::from_secs(2);

/// What belongs to the care for runs, as the engine keeps it.
#[derive(Debug, Default)]
pub(crate) struct LeaseKeeper {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Until when the runs are surely ours; empty until there is somebody to share with.
    lease_end: OnceLock<watch::Sender<Instant>>,
    /// How many runs of others were taken up here.
    n_taken_over: AtomicU64,
    /// The runs that somebody here begins, takes up or works on, and how many do.
    held_runs: Mutex<HashMap<RunId, usize>>,
    /// Whether the store may call runs ours that nobody here knows of.
    may_have_orphans: AtomicBool,
}

/// A run is in hand here while this lives.
#[derive(Debug)]
#[must_use = "it says nothing once it is dropped"]
pub(crate) struct RunHold {
    engine: Arc<Engine>,
    run_id: RunId,
}

impl Drop for RunHold {
    fn drop(&mut self) {
        let mut held_runs = lock(&self.engine.lease_keeper.held_runs);
        if let Some(n) = held_runs.get_mut(&self.run_id) {
            *n -= 1;
            if *n == 0 {
                held_runs.remove(&self.run_id);
            }
        }
    }
}

impl LeaseKeeper {
    /// What tells a run whether it is surely ours.
    pub(crate) fn lease_end(&self) -> Option<watch::Receiver<Instant>> {
        self.lease_end.get().map(watch::Sender::subscribe)
    }

    /// Counts a run that was taken up here.
    pub(crate) fn note_taken_over(&self) {
        self.n_taken_over.fetch_add(1, Ordering::Relaxed);
    }

    /// How many runs of others were taken up here.
    pub(crate) fn n_taken_over(&self) -> u64 {
        self.n_taken_over.load(Ordering::Relaxed)
    }

    /// The store was not heard: it may call runs ours that nobody here knows of.
    pub(crate) fn note_possible_orphans(&self) {
        self.may_have_orphans.store(true, Ordering::Relaxed);
    }

    /// The tasks that go on until the engine is gone.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}

impl Runs {
    /// Begins to share the work with whoever else uses the same store: says that this worker is
    /// there, and from now on takes up runs that nobody works on. To be called before the first
    /// run; an engine that shares with nobody does nothing.
    pub async fn start_worker(&self) -> Result<(), StoreError> {
        let workers = &self.0.parts.workers;
        if !workers.is_durable() {
            return Ok(());
        }
        let began = Instant::now();
        let lease = workers.heartbeat().await?;
        let (lease_end, _) = watch::channel(lease_end_of(began, lease.length));
        if self.0.lease_keeper.lease_end.set(lease_end).is_err() {
            return Ok(());
        }
        let (beating, caring) = (self.clone(), self.clone());
        let lease_keeper = &self.0.lease_keeper;
        lease_keeper.tasks.spawn(async move { beating.heartbeat_loop(lease.length / 4).await });
        lease_keeper.tasks.spawn(async move { caring.work_loop().await });
        Ok(())
    }

    async fn heartbeat_loop(&self, every: Duration) {
        let mut is_heard = true;
        loop {
            tokio::select! {
                () = self.0.lease_keeper.stop.cancelled() => return,
                () = sleep(every) => {}
            }
            match self.heartbeat().await {
                Ok(()) => is_heard = true,
                Err(error) if is_heard => {
                    is_heard = false;
                    warn!(%error, "heartbeat failed, runs paused");
                }
                Err(_) => {}
            }
        }
    }

    /// Says that this worker is there. If that was too late, it asks first which runs it lost.
    async fn heartbeat(&self) -> Result<(), StoreError> {
        let began = Instant::now();
        let lease = self.0.parts.workers.heartbeat().await?;
        let Some(lease_end) = self.0.lease_keeper.lease_end.get() else { return Ok(()) };
        if *lease_end.borrow() < began {
            self.relinquish_lost_runs().await?;
        }
        lease_end.send_replace(lease_end_of(began, lease.length));
        Ok(())
    }

    async fn relinquish_lost_runs(&self) -> Result<(), StoreError> {
        let ours: Vec<RunId> = lock(&self.0.live).keys().cloned().collect();
        for run_id in self.0.parts.workers.lost_runs(&ours).await? {
            let lost = lock(&self.0.live).get(&run_id).cloned();
            if let Some(lost) = lost.filter(|run| run.state().outcome().is_none()) {
                info!(%run_id, "run lost to another worker during an outage");
                lost.relinquish();
            }
        }
        Ok(())
    }

    async fn work_loop(&self) {
        let workers = &self.0.parts.workers;
        loop {
            tokio::select! {
                () = self.0.lease_keeper.stop.cancelled() => return,
                () = workers.woken() => {}
                () = sleep(LOOK_EVERY) => {}
            }
            // What fails now is looked at again in a moment; the beat says when the store is
            // away.
            let _ = self.release_orphans().await;
            let _ = self.apply_commands().await;
            let _ = self.claim_abandoned().await;
        }
    }

    async fn apply_commands(&self) -> Result<(), StoreError> {
        let workers = &self.0.parts.workers;
        let mut done = Vec::new();
        for PendingCommand { id, run_id, command } in workers.pending_commands().await? {
            // A run that was claimed a moment ago is not at work yet; its wishes wait for it.
            let live = lock(&self.0.live).get(&run_id).cloned();
            let Some(run) = live else { continue };
            match apply_command(&run, command).await {
                Ok(true) => done.push(id),
                Ok(false) => {}
                Err(error) => warn!(%error, %run_id, "command not recorded"),
            }
        }
        if done.is_empty() { Ok(()) } else { workers.acknowledge(&done).await }
    }

    /// Attends to what was asked of a run while nobody worked on it, before anybody does: it may
    /// be over sooner than wishes are looked at again.
    pub(crate) async fn apply_commands_for(&self, run: &LiveRun) -> Result<(), StartError> {
        for PendingCommand { command, .. } in
            self.0.parts.workers.pending_commands_for(run.id()).await?
        {
            apply_command(run, command).await?;
        }
        Ok(())
    }

    /// Takes the run in hand, before the store can call it ours. Nobody asks an engine that
    /// shares its store with nobody.
    pub(crate) fn hold_run(&self, run_id: &RunId) -> Option<RunHold> {
        self.0.parts.workers.is_durable().then(|| {
            *lock(&self.0.lease_keeper.held_runs).entry(run_id.clone()).or_default() += 1;
            RunHold { engine: Arc::clone(&self.0), run_id: run_id.clone() }
        })
    }

    /// Whether somebody else here has taken up the run that the caller has in hand.
    pub(crate) fn is_held_twice(&self, run_id: &RunId) -> bool {
        lock(&self.0.lease_keeper.held_runs).get(run_id).is_some_and(|n| *n > 1)
    }

    /// If the store may call runs ours that nobody here knows of, looks for them, and releases
    /// them.
    async fn release_orphans(&self) -> Result<(), StoreError> {
        let (lease_keeper, workers) = (&self.0.lease_keeper, &self.0.parts.workers);
        if !lease_keeper.may_have_orphans.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let ours =
            workers.owned_runs().await.inspect_err(|_| lease_keeper.note_possible_orphans())?;
        // Only now: whatever is begun after the store has answered is not among them.
        let forgotten: Vec<RunId> = {
            let held_runs = lock(&lease_keeper.held_runs);
            ours.into_iter().filter(|run_id| !held_runs.contains_key(run_id)).collect()
        };
        for run_id in forgotten {
            info!(%run_id, "orphaned run released");
            self.release(&run_id).await;
        }
        Ok(())
    }

    async fn claim_abandoned(&self) -> Result<(), StoreError> {
        loop {
            if self.ensure_open().is_err() {
                return Ok(());
            }
            let (lease_keeper, workers) = (&self.0.lease_keeper, &self.0.parts.workers);
            let claimed = workers.claim(MAX_CLAIMED_AT_ONCE).await;
            // Without an answer they may be ours all the same.
            let claimed = claimed.inspect_err(|_| lease_keeper.note_possible_orphans())?;
            let n_claimed = claimed.len();
            for abandoned in claimed {
                let (runs, hold) = (self.clone(), self.hold_run(&abandoned.run_id));
                self.0.tasks.spawn(async move {
                    runs.take_over_claimed(abandoned).await;
                    drop(hold);
                });
            }
            if n_claimed < MAX_CLAIMED_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Gives up a run, so that another worker takes it up at once. One that another worker has
    /// stays that worker's. If the store is away, it is told later.
    pub(crate) async fn release(&self, run_id: &RunId) {
        if let Err(error) = self.0.parts.workers.release(run_id).await {
            warn!(%error, %run_id, "release failed, retried later");
            self.0.lease_keeper.note_possible_orphans();
        }
    }

    /// Leaves every run to other workers, and starts no more. Answers of the model are cut
    /// short, and asked for again elsewhere; tools may work on for `grace`. Where nobody can go
    /// on with the runs, they are [ended](Self::shut_down) instead.
    pub async fn hand_over(&self, grace: Duration) {
        if !self.0.parts.workers.is_durable() {
            return self.shut_down().await;
        }
        self.0.leave.cancel();
        self.0.tasks.close();
        if timeout(grace, self.0.tasks.wait()).await.is_err() {
            let left: Vec<_> = lock(&self.0.live).values().cloned().collect();
            for run in left {
                run.relinquish();
                self.release(run.id()).await;
            }
            let _ = timeout(RELINQUISH_TIMEOUT, self.0.tasks.wait()).await;
        }
        self.stop_worker().await;
    }

    /// Ends the care for runs: this worker is not heard of any more.
    pub(crate) async fn stop_worker(&self) {
        let lease_keeper = &self.0.lease_keeper;
        lease_keeper.stop.cancel();
        lease_keeper.tasks.close();
        let _ = timeout(RELINQUISH_TIMEOUT, lease_keeper.tasks.wait()).await;
    }
}

/// Until when a worker that was heard of at `began` may be sure of its runs: a little less than
/// others wait before they take them.
fn lease_end_of(began: Instant, lease: Duration) -> Instant {
    crate::deadline::later(began, lease.saturating_sub(lease / 4))
}

/// Does what somebody asked of a run through another worker, and says whether that is recorded.
/// What is not stays, for the next worker, until the end of the run takes it along: doing it
/// twice does no harm. What is too late is done with too.
async fn apply_command(
    run: &LiveRun,
    command: RunCommand,
) -> Result<bool, turnwire_contract::JournalError> {
    match command {
        RunCommand::Cancel => {
            run.stop(Stop::Cancelled);
            Ok(false)
        }
        RunCommand::CancelCall { call_id } => {
            run.cancel_call(&call_id).await?;
            Ok(false)
        }
        RunCommand::Answer { call_id, answer } => {
            run.resolve(&call_id, answer).await?;
            Ok(true)
        }
        RunCommand::Input { input_id, reply, by, .. } => {
            run.reply(&input_id, reply, by).await?;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use turnwire_contract::{Decision, Item, RunRequest, Seq};

    use super::*;
    use crate::{ClockAndIds, MemoryJournal, RunState};

    /// C14: a cancel is not done with before the run has ended: its worker may die first.
    #[tokio::test]
    async fn c14_a_cancel_stays_until_the_end() {
        let (id, request) = (RunId::from("run_1"), RunRequest::new("m", vec![Item::user("hi")]));
        let state = RunState::new(&id, Arc::new(request), Vec::new());
        let (journal, clock_and_ids) =
            (Arc::new(MemoryJournal::default()), Arc::new(ClockAndIds::simulated()));
        let run = LiveRun::new(id, journal, clock_and_ids, state, Seq::START);
        assert!(!apply_command(&run, RunCommand::Cancel).await.unwrap());
        assert_eq!(run.stopped_by(), Some(Stop::Cancelled));
        assert!(
            !apply_command(&run, RunCommand::CancelCall { call_id: "call_1".into() })
                .await
                .unwrap()
        );
        // Nobody waits for this answer; there is nothing left to do about it.
        let (call_id, answer) = ("call_1".into(), Decision::Approved.into());
        assert!(apply_command(&run, RunCommand::Answer { call_id, answer }).await.unwrap());
    }
}
