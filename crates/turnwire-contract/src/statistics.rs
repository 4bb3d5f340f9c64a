//! What a store, and the export of metrics, count about themselves, for metrics.
//!
//! Histograms are plain counters here, so that a store needs no metrics library, and counting costs
//! a few atomic additions.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Number of buckets with an upper bound.
const BUCKETS: usize = 14;
/// Upper bound of the first bucket. Each further one is twice as large, up to four seconds.
const FIRST_BOUND: Duration = Duration::from_micros(500);

/// What a store has counted since it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreStatistics {
    /// Whether the database answers, as far as is known.
    pub is_available: bool,
    /// Number of appends that wait to become durable.
    pub n_waiting: u64,
    /// How long the writer has worked on its current batch.
    pub stuck_for: Duration,
    /// Number of events that became durable.
    pub n_events: u64,
    /// Durations of the commits.
    pub commits: DurationCounts,
    /// Delay with which events of other workers arrived here.
    pub lag: DurationCounts,
    /// The connections of the pool.
    pub pool: PoolUse,
    /// Number of runs deleted because they were too old.
    pub n_forgotten: u64,
    /// Time since old data was last deleted completely, or since the store was opened.
    pub cleaned_before: Duration,
}

/// Use of a connection pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Connections in use.
    pub busy: u32,
    /// Open connections that are not in use.
    pub idle: u32,
    /// Maximum number of connections.
    pub max: u32,
}

/// A histogram of durations that can be counted concurrently.
#[derive(Debug, Default)]
pub struct DurationCounter {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    micros: AtomicU64,
}

/// The state of a [`DurationCounter`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DurationCounts {
    /// Upper bounds in seconds, and the number of durations in each bucket.
    pub buckets: Vec<(f64, u64)>,
    /// Number of durations, including those above the last bound.
    pub count: u64,
    /// Sum of all durations.
    pub sum: Duration,
}

impl DurationCounter {
    /// Counts a duration.
    pub fn note(&self, duration: Duration) {
        let bounds = bounds();
        if let Some((bucket, _)) =
            self.buckets.iter().zip(bounds).find(|(_, bound)| duration <= *bound)
        {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns what was counted so far.
    pub fn counts(&self) -> DurationCounts {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        DurationCounts {
            buckets: bounds()
                .zip(&self.buckets)
                .map(|(at, n)| (at.as_secs_f64(), load(n)))
                .collect(),
            count: load(&self.count),
            sum: Duration::from_micros(load(&self.micros)),
        }
    }
}

/// How often the metrics of a process were exported.
#[derive(Debug, Default)]
pub struct MetricExportCounts {
    exported: AtomicU64,
    failed: AtomicU64,
}

impl MetricExportCounts {
    /// Counts an export that the receiver accepted.
    pub fn exported(&self) {
        self.exported.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an export that the receiver did not accept.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of exports that the receiver accepted.
    pub fn n_exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Number of exports that the receiver did not accept.
    pub fn n_failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

fn bounds() -> impl Iterator<Item = Duration> {
    (0..BUCKETS).map(|n| FIRST_BOUND * (1 << n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A duration is in the first bucket that is large enough, and in the count in any case.
    #[test]
    fn a_duration_is_counted_once() {
        let counter = DurationCounter::default();
        for millis in [0, 1, 3, 10_000] {
            counter.note(Duration::from_millis(millis));
        }
        let counts = counter.counts();
        assert_eq!((counts.count, counts.sum), (4, Duration::from_millis(10_004)));
        let full: Vec<_> = counts.buckets.into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(full, [(0.0005, 1), (0.001, 1), (0.004, 1)]);
    }
}
