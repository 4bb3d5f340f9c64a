//! Counts commits and deletions of old data, for metrics.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;
use turnwire_contract::{DurationCounter, StoreStatistics};

use crate::{
    database::DatabaseError,
    sync::lock,
    writer::{BatchWriter, Job},
};

/// What the tasks of a store count.
#[derive(Debug)]
pub(crate) struct Counters {
    commits: DurationCounter,
    n_events: AtomicU64,
    n_forgotten: AtomicU64,
    cleaned_at: Mutex<Instant>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commits: DurationCounter::default(),
            n_events: AtomicU64::new(0),
            n_forgotten: AtomicU64::new(0),
            cleaned_at: Mutex::new(Instant::now()),
        }
    }
}

impl Counters {
    /// Counts a complete deletion of old data.
    pub(crate) fn note_cleaned(&self, n_forgotten: u64) {
        self.n_forgotten.fetch_add(n_forgotten, Ordering::Relaxed);
        *lock(&self.cleaned_at) = Instant::now();
    }

    /// Returns what was counted; the rest is unset.
    pub(crate) fn statistics(&self) -> StoreStatistics {
        StoreStatistics {
            n_events: self.n_events.load(Ordering::Relaxed),
            commits: self.commits.counts(),
            n_forgotten: self.n_forgotten.load(Ordering::Relaxed),
            cleaned_before: lock(&self.cleaned_at).elapsed(),
            ..StoreStatistics::default()
        }
    }
}

/// A writer whose commits are counted.
pub(crate) struct TimedBatchWriter {
    inner: Box<dyn BatchWriter>,
    counters: Arc<Counters>,
}

impl TimedBatchWriter {
    pub(crate) fn new(inner: Box<dyn BatchWriter>, counters: Arc<Counters>) -> Self {
        Self { inner, counters }
    }
}

#[async_trait]
impl BatchWriter for TimedBatchWriter {
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>, DatabaseError> {
        let began = Instant::now();
        let kept = self.inner.write(jobs, time).await?;
        self.counters.commits.note(began.elapsed());
        let stored = jobs.iter().zip(&kept).filter(|(_, is_kept)| **is_kept);
        let n_events: usize = stored.map(|(job, _)| job.n_events()).sum();
        self.counters.n_events.fetch_add(n_events as u64, Ordering::Relaxed);
        Ok(kept)
    }

    async fn probe(&mut self) -> Result<(), DatabaseError> {
        self.inner.probe().await
    }
}
