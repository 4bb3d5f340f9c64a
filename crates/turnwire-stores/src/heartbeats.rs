//! The heartbeats of this worker, what they told of the others, and the runs of which it does not
//! know whether they are stored.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use turnwire_contract::RunId;

use crate::{
    database::{DatabaseError, Row},
    deletion::RunKey,
    sync::lock,
};

/// How long a run of unknown state may still appear: longer than any statement can be in flight.
const UNCERTAIN_FOR: Duration = Duration::from_mins(1);

/// How long the writer may be stuck while heartbeats succeed. A worker that cannot append must not
/// keep its runs.
const MAX_STUCK: Duration = Duration::from_secs(10);

/// What this version can read, which a worker says with each heartbeat: input lists since 1,
/// compacted journals since 2, catalogues of tools since 3.
pub(crate) const FORMAT: i64 = 3;

/// What all workers can read. They are listed for an hour after their lease, so that one that could
/// not renew it is not overlooked.
pub(crate) const FORMAT_OF_ALL: &str = "select min(reads_lists) from workers";

/// This worker's own heartbeats.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatState {
    series: Mutex<HeartbeatSeries>,
    uncertain: Mutex<Vec<(RunId, Instant)>>,
    /// What all workers can read.
    format: AtomicI64,
}

/// Consecutive heartbeats, with less than a lease between them.
#[derive(Debug, Default)]
struct HeartbeatSeries {
    heard: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    /// Whether heartbeats are withheld because the writer is stuck.
    is_withheld: bool,
}

impl HeartbeatState {
    /// Records a successful heartbeat sent at `now`. Returns how many there were.
    pub(crate) fn record(&self, now: Instant, lease: Duration) -> u64 {
        let mut series = lock(&self.series);
        let unbroken = series.last.is_some_and(|last| now.duration_since(last) <= lease);
        if !unbroken {
            series.first = Some(now);
        }
        series.last = Some(now);
        series.heard += 1;
        series.heard
    }

    /// Records what all workers can read: the result of [`FORMAT_OF_ALL`], which is null if there
    /// is none but this one.
    pub(crate) fn set_format(&self, found: &[Row]) -> Result<(), DatabaseError> {
        let lowest = found.first().map(|row| row.optional_integer(0)).transpose()?.flatten();
        self.format.store(lowest.unwrap_or(FORMAT), Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether all workers can read input lists.
    pub(crate) fn may_write_lists(&self) -> bool {
        self.format.load(Ordering::Relaxed) >= 1
    }

    /// Returns whether all workers can read compacted journals.
    pub(crate) fn may_compact(&self) -> bool {
        self.format.load(Ordering::Relaxed) >= 2
    }

    /// Returns whether all workers can read catalogues of tools.
    pub(crate) fn may_write_catalogues(&self) -> bool {
        self.format.load(Ordering::Relaxed) >= 3
    }

    /// Returns whether heartbeats have succeeded for a whole lease. After an outage all leases have
    /// expired; only then has every other worker had time for a heartbeat.
    pub(crate) fn are_steady(&self, now: Instant, lease: Duration) -> bool {
        let series = lock(&self.series);
        let within =
            |heartbeat: Option<Instant>| heartbeat.map(|heartbeat| now.duration_since(heartbeat));
        within(series.last).is_some_and(|since| since <= lease)
            && within(series.first).is_some_and(|since| since >= lease)
    }

    /// Returns whether a lease has passed since the last successful heartbeat. Never for a process
    /// that is no worker.
    pub(crate) fn are_overdue(&self, now: Instant, lease: Duration) -> bool {
        let last = lock(&self.series).last;
        last.is_some_and(|last| now.duration_since(last) > lease)
    }

    /// Returns whether to send a heartbeat although the writer has been stuck for `stuck_for`.
    /// After an outage the writer gets the full time again.
    pub(crate) fn may_send(&self, now: Instant, stuck_for: Duration) -> bool {
        let mut series = lock(&self.series);
        let heard_for = series.first.map_or(Duration::ZERO, |first| now.duration_since(first));
        let is_stuck = stuck_for > MAX_STUCK;
        series.is_withheld = is_stuck && (series.is_withheld || heard_for > MAX_STUCK);
        !series.is_withheld
    }

    /// As if heartbeats had succeeded since then.
    #[cfg(test)]
    pub(crate) fn assume_heard_since(&self, first: Option<Instant>) {
        lock(&self.series).first = first;
    }

    /// Records that it is unknown whether this run was stored. Its client was told that it was not.
    pub(crate) fn mark_uncertain(&self, run_id: &RunId) {
        lock(&self.uncertain).push((run_id.clone(), Instant::now()));
    }

    pub(crate) fn uncertain(&self) -> Vec<RunId> {
        lock(&self.uncertain).iter().map(|(run_id, _)| run_id.clone()).collect()
    }

    /// Removes the runs that were found, and those too old to appear.
    pub(crate) fn clear_uncertain(&self, found: &[RunKey]) {
        let is_found = |run_id: &RunId| found.iter().any(|run| run.run_id == run_id.as_str());
        let may_come = |since: &Instant| since.elapsed() < UNCERTAIN_FOR;
        lock(&self.uncertain).retain(|(run_id, since)| may_come(since) && !is_found(run_id));
    }
}

#[cfg(test)]
#[path = "heartbeats_tests.rs"]
mod tests;
