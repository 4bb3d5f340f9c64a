//! Updates the tails of runs that are read here and written by other workers.
//!
//! Notifications name the runs that have grown; these are read from the database in one batch.
//! Notifications can be lost, so all runs are also polled: rarely while notifications arrive, often
//! while they do not. Notifications only reduce latency.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use turnwire_contract::RunId;

use crate::{
    database::{DatabaseError, Result},
    live_tails::{AddOutcome, LiveTails},
    outage::{Availability, Backoff},
    pages::{KnownHead, PAGE, Page, Source},
    sealing::Sealing,
    sync::lock,
};

/// Polling interval without notifications.
const POLL_UNNOTIFIED: Duration = Duration::from_millis(200);

/// Polling interval with notifications.
const POLL_NOTIFIED: Duration = Duration::from_secs(1);

/// Polling interval of silent runs that this process writes. Others write to them only if they have
/// taken them over unnoticed.
const POLL_OWN: Duration = Duration::from_secs(2);

/// Maximum number of runs per query.
const AT_ONCE: usize = 512;

/// The runs to read.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    told: Mutex<HashSet<RunId>>,
    wake: Notify,
    is_notified: AtomicBool,
}

impl Follower {
    /// Signals that this run may have grown.
    pub(crate) fn look_at(&self, run_id: RunId) {
        lock(&self.told).insert(run_id);
        self.wake.notify_one();
    }

    /// Sets whether notifications arrive.
    pub(crate) fn set_notified(&self, is_notified: bool) {
        self.is_notified.store(is_notified, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn is_notified(&self) -> bool {
        self.is_notified.load(Ordering::Relaxed)
    }

    fn pace(&self) -> Duration {
        if self.is_notified() { POLL_NOTIFIED } else { POLL_UNNOTIFIED }
    }

    /// Runs until stopped. If no other task consumes subscription changes, set `notes_changes`.
    pub(crate) async fn run(
        self: Arc<Self>,
        tails: Arc<LiveTails>,
        source: Source,
        sealing: Arc<Sealing>,
        outage: Arc<Availability>,
        notes_changes: bool,
        stop: CancellationToken,
    ) {
        let last_own_look = Instant::now();
        let poll_loop = PollLoop {
            follower: self,
            tails,
            source,
            sealing,
            outage,
            notes_changes,
            last_own_look,
        };
        stop.run_until_cancelled_owned(Box::pin(poll_loop.go_on())).await;
    }
}

struct PollLoop {
    follower: Arc<Follower>,
    tails: Arc<LiveTails>,
    source: Source,
    sealing: Arc<Sealing>,
    outage: Arc<Availability>,
    notes_changes: bool,
    /// When the runs were polled that this process writes.
    last_own_look: Instant,
}

impl PollLoop {
    async fn go_on(mut self) {
        let (mut last_look, mut was_away) = (Instant::now(), false);
        let mut backoff = Backoff::default();
        loop {
            tokio::select! {
                // The order does not matter: pending runs stay pending until they are read.
                () = self.follower.wake.notified() => {}
                () = self.tails.changed(), if self.notes_changes => {
                    // They may have grown since their reader read.
                    let changes = self.tails.take_changes().into_iter();
                    let come = changes.filter_map(|(run_id, is_new)| is_new.then_some(run_id));
                    lock(&self.follower.told).extend(come);
                }
                () = sleep_until(last_look + self.follower.pace()) => {}
            }
            let done = if was_away || last_look.elapsed() >= self.follower.pace() {
                last_look = Instant::now();
                self.look_at_all().await
            } else {
                let told = std::mem::take(&mut *lock(&self.follower.told));
                let runs = self.tails.followed_of(told);
                self.catch_up(runs).await
            };
            was_away = done.is_err();
            match done {
                Ok(()) => {
                    self.outage.mark_up();
                    backoff = Backoff::default();
                }
                Err(error) => {
                    self.outage.mark_down(&error.to_string());
                    sleep(backoff.next_pause()).await;
                    // The pending set is lost, so all runs are read.
                    self.follower.wake.notify_one();
                }
            }
        }
    }

    async fn look_at_all(&mut self) -> Result<()> {
        lock(&self.follower.told).clear();
        self.tails.sweep();
        self.catch_up(self.due()).await?;
        let runs = self.due();
        if self.last_own_look.elapsed() >= POLL_OWN {
            self.last_own_look = Instant::now();
        }
        for some in runs.chunks(AT_ONCE) {
            for run_id in self.source.gone(some).await? {
                let tenant = self.tails.find(&run_id).map(|tail| tail.tenant().clone());
                if let Some(tenant) = tenant {
                    self.tails.delete(&tenant, &run_id);
                }
            }
        }
        Ok(())
    }

    /// Returns the runs to poll now.
    fn due(&self) -> Vec<KnownHead> {
        if self.last_own_look.elapsed() >= POLL_OWN {
            self.tails.followed()
        } else {
            self.tails.followed_elsewhere()
        }
    }

    /// Reads `runs` until none has new events.
    async fn catch_up(&mut self, mut runs: Vec<KnownHead>) -> Result<()> {
        while !runs.is_empty() {
            let mut more = Vec::new();
            for some in runs.chunks(AT_ONCE) {
                for (run_id, page) in self.grown(some).await? {
                    let is_full = page.n_rows >= PAGE;
                    if self.tails.found(&run_id, &page) == AddOutcome::Accepted && is_full {
                        more.push(run_id);
                    }
                }
            }
            runs = self.tails.followed_of(more);
        }
        Ok(())
    }

    /// Returns the new events of `runs`. A run whose rows cannot be read is skipped and retried in
    /// the next round, so that others are not blocked.
    async fn grown(&mut self, runs: &[KnownHead]) -> Result<Vec<(RunId, Page)>> {
        let error = match self.source.grown(&self.sealing, runs).await {
            Err(error) if !matches!(error, DatabaseError::Unavailable(_)) => error,
            done => return done,
        };
        if let [(run_id, _)] = runs {
            if matches!(error, DatabaseError::KeyMissing(_)) {
                // Its readers are told by the database.
                self.tails.mark_unread(run_id);
                return Ok(Vec::new());
            }
            warn!(%run_id, %error, "run not followed, its journal cannot be read");
            return Ok(Vec::new());
        }
        let (one, other) = runs.split_at(runs.len() / 2);
        let mut grown = Box::pin(self.grown(one)).await?;
        grown.extend(Box::pin(self.grown(other)).await?);
        Ok(grown)
    }
}
