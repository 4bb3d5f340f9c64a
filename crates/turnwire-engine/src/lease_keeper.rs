//! Work of an engine that shares a store with other workers: it sends heartbeats, claims abandoned
//! runs, and applies pending commands to its own runs.
//!
//! A worker whose heartbeats fail for too long may have lost its runs. It starts nothing until a
//! heartbeat succeeds and it has checked which runs it lost. This avoids wasted work; safety comes
//! from fencing by seq in the journal.
//!
//! The store records who holds the lease of a run, and the journal records who appends. The two can
//! disagree: a worker that stalls during a takeover may append to a run that has been claimed by
//! another. So a worker releases every run it drops. If the release fails, or the response to a
//! claim is lost, the leases in the store are compared with the runs executed here. A live worker
//! must not hold the lease of a run that it does not execute.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};
use turnwire_contract::{PendingCommand, RunCommand, RunId, StoreError};

use crate::{
    lease_state::LocalRunGuard,
    live_run::{LiveRun, Stop},
    polls::{Noted, Work},
    runs::{Runs, StartError},
    sync::lock,
};

/// Polling interval when no notification arrives.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of runs per claim.
const MAX_CLAIMED_AT_ONCE: usize = 32;
/// Pause after a failed attempt to say that a run is no longer suspected.
const CLEAR_AGAIN: Duration = Duration::from_secs(1);
/// How long a relinquished run may take to stop.
const RELINQUISH_TIMEOUT: Duration = Duration::from_secs(2);

impl Runs {
    /// Starts heartbeats, claims of abandoned runs and the exchange of quotas. Must be called once,
    /// before the first run. Does nothing if the store is not shared.
    pub async fn start_worker(&self) -> Result<(), StoreError> {
        self.start_exchange();
        let workers = &self.0.parts.workers;
        if !workers.is_durable() {
            return Ok(());
        }
        let began = Instant::now();
        let lease = workers.heartbeat().await?;
        self.0.leases.note_heard(began);
        let (lease_end, _) = watch::channel(lease_end_of(began, lease.length));
        if self.0.leases.lease_end.set(lease_end).is_err() {
            return Ok(());
        }
        let (beating, caring) = (self.clone(), self.clone());
        let leases = &self.0.leases;
        leases.tasks.spawn(async move { beating.heartbeat_loop(lease.length / 4).await });
        leases.tasks.spawn(async move { caring.work_loop().await });
        Ok(())
    }

    async fn heartbeat_loop(&self, every: Duration) {
        let mut is_heard = true;
        loop {
            tokio::select! {
                () = self.0.leases.stop.cancelled() => return,
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

    /// Sends a heartbeat. If the lease has expired, checks first which runs were lost.
    async fn heartbeat(&self) -> Result<(), StoreError> {
        let began = Instant::now();
        let lease = self.0.parts.workers.heartbeat().await?;
        self.0.leases.note_heard(began);
        let Some(lease_end) = self.0.leases.lease_end.get() else { return Ok(()) };
        if *lease_end.borrow() < began {
            self.relinquish_lost_runs().await?;
        }
        lease_end.send_replace(lease_end_of(began, lease.length));
        Ok(())
    }

    async fn relinquish_lost_runs(&self) -> Result<(), StoreError> {
        let is_leased = |run: &&Arc<LiveRun>| !run.is_ephemeral();
        let ours: Vec<RunId> =
            lock(&self.0.live).values().filter(is_leased).map(|run| run.id().clone()).collect();
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
                () = self.0.leases.stop.cancelled() => return,
                () = workers.woken() => {}
                () = sleep(LOOK_EVERY) => {}
            }
            // Errors are retried on the next tick; the heartbeat reports an unavailable store.
            let _ = self.release_orphans().await;
            let _ = self.apply_commands().await;
            let _ = self.claim_abandoned().await;
        }
    }

    async fn apply_commands(&self) -> Result<(), StoreError> {
        let workers = &self.0.parts.workers;
        let mut done = Vec::new();
        for PendingCommand { id, run_id, command } in workers.pending_commands().await? {
            // A run that was just claimed is not live yet. Its commands stay pending.
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

    /// Applies pending commands before the run is executed: it could end before the next poll.
    pub(crate) async fn apply_commands_for(&self, run: &LiveRun) -> Result<(), StartError> {
        for PendingCommand { command, .. } in
            self.0.parts.workers.pending_commands_for(run.id()).await?
        {
            apply_command(run, command).await?;
        }
        Ok(())
    }

    /// Marks the run as executed here, before the store records the lease. Returns `None` if the
    /// store is not shared.
    pub(crate) fn track_local_run(&self, run_id: &RunId) -> Option<LocalRunGuard> {
        self.0.parts.workers.is_durable().then(|| self.0.leases.track(run_id))
    }

    /// Returns whether another task of this process also executes the run.
    pub(crate) fn is_tracked_twice(&self, run_id: &RunId) -> bool {
        self.0.leases.n_tracked(run_id) > 1
    }

    /// Releases leases of runs that are not executed here, if such leases may exist.
    async fn release_orphans(&self) -> Result<(), StoreError> {
        let (leases, workers) = (&self.0.leases, &self.0.parts.workers);
        if !leases.may_have_orphans.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let ours = workers.owned_runs().await.inspect_err(|_| leases.note_possible_orphans())?;
        // Taken after the store's response, so that runs started since are not included.
        let forgotten: Vec<RunId> =
            ours.into_iter().filter(|run_id| leases.n_tracked(run_id) == 0).collect();
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
            let (leases, workers) = (&self.0.leases, &self.0.parts.workers);
            let claimed = workers.claim(MAX_CLAIMED_AT_ONCE).await;
            // Without a response, the claim may have succeeded.
            let claimed = claimed.inspect_err(|_| leases.note_possible_orphans())?;
            let n_claimed = claimed.len();
            for abandoned in claimed {
                let (runs, guard) = (self.clone(), self.track_local_run(&abandoned.run_id));
                let work = Work::new(&abandoned.run_id, "takeover");
                let takeover = async move {
                    let suspect = abandoned
                        .probation
                        .map(|probation| (abandoned.run_id.clone(), Instant::now() + probation));
                    runs.take_over_claimed(abandoned).await;
                    drop(guard);
                    if let Some((run_id, until)) = suspect {
                        let tasks = runs.0.leases.tasks.clone();
                        tasks.spawn(async move { runs.end_probation(&run_id, until).await });
                    }
                };
                self.0.tasks.spawn(Noted::new(work, Box::pin(takeover)));
            }
            if n_claimed < MAX_CLAIMED_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Lets this worker claim the next suspect, once this one has lived so long or is over here.
    async fn end_probation(&self, run_id: &RunId, until: Instant) {
        let run = lock(&self.0.live).get(run_id).cloned();
        if let Some(run) = run {
            tokio::select! {
                () = self.0.leases.stop.cancelled() => {}
                () = run.persisted() => {}
                () = sleep_until(until) => {}
            }
        }
        while let Err(error) = self.0.parts.workers.end_probation(run_id).await {
            warn!(%error, %run_id, "suspect not cleared, retried later");
            tokio::select! {
                () = self.0.leases.stop.cancelled() => return,
                () = sleep(CLEAR_AGAIN) => {}
            }
        }
    }

    /// Releases the lease of a run, so that another worker can claim it at once. The lease of
    /// another worker is not affected. If the store is unavailable, the release is retried later.
    pub(crate) async fn release(&self, run_id: &RunId) {
        if let Err(error) = self.0.parts.workers.release(run_id).await {
            warn!(%error, %run_id, "release failed, retried later");
            self.0.leases.note_possible_orphans();
        }
    }

    /// Hands all runs over to other workers and starts no more. Model turns are aborted and
    /// repeated by the next worker. Tools and ephemeral runs may continue for `grace`. If no other
    /// worker can continue the runs, they are [ended](Self::shut_down) instead.
    pub async fn hand_over(&self, grace: Duration) {
        if !self.0.parts.workers.is_durable() {
            return self.shut_down().await;
        }
        self.0.leave.cancel();
        self.0.tasks.close();
        if timeout(grace, self.0.tasks.wait()).await.is_err() {
            let left: Vec<_> = lock(&self.0.live).values().cloned().collect();
            // First those that wait for no store.
            let (ephemeral, left): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|run| run.is_ephemeral());
            for run in ephemeral {
                run.stop(Stop::Shutdown);
            }
            for run in left {
                run.relinquish();
                self.release(run.id()).await;
            }
            let _ = timeout(RELINQUISH_TIMEOUT, self.0.tasks.wait()).await;
        }
        self.stop_worker().await;
    }

    /// Stops heartbeats and claims.
    pub(crate) async fn stop_worker(&self) {
        let leases = &self.0.leases;
        leases.stop.cancel();
        leases.tasks.close();
        let _ = timeout(RELINQUISH_TIMEOUT, leases.tasks.wait()).await;
    }
}

/// Returns the end of the lease for a heartbeat sent at `began`. It is slightly shorter than the
/// time after which others claim the runs.
fn lease_end_of(began: Instant, lease: Duration) -> Instant {
    crate::deadline::later(began, lease.saturating_sub(lease / 4))
}

/// Applies a pending command and returns whether its effect is recorded. An unrecorded command
/// stays pending for the next worker, until the end of the run deletes it. Commands are idempotent.
/// A command that comes too late counts as applied.
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
    use turnwire_contract::{Decision, Item, RunRequest, Seq};

    use super::*;
    use crate::{ClockAndIds, MemoryJournal, RunState};

    /// C14: a cancel stays pending until the run has ended, because its worker may die first.
    #[tokio::test]
    async fn a_cancel_stays_until_the_end() {
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
        // No call waits for this answer, so it counts as applied.
        let (call_id, answer) = ("call_1".into(), Decision::Approved.into());
        assert!(apply_command(&run, RunCommand::Answer { call_id, answer }).await.unwrap());
    }
}
