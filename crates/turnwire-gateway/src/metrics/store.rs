//! Metrics of the store: what it has counted about itself, read at each scrape.
//!
//! A server without a store of its own, in memory, has them too, so that a dashboard needs no
//! cases.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use turnwire_contract::{DurationCounts, StoreStatistics};

/// The statistics of the last scrape.
#[derive(Debug)]
pub(crate) struct StoreMetrics(Mutex<StoreStatistics>);

impl Default for StoreMetrics {
    fn default() -> Self {
        Self(Mutex::new(StoreStatistics { is_available: true, ..StoreStatistics::default() }))
    }
}

impl StoreMetrics {
    pub(super) fn set(&self, statistics: StoreStatistics) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let StoreStatistics { pool, .. } = now;
        let mut write = Writer(&mut encoder);
        let help = "Whether the database answers (1) or not (0)";
        write.gauge("store_available", help, f64::from(u8::from(now.is_available)))?;
        let help = "Appends that wait to become durable";
        write.gauge("journal_appends_waiting", help, float(now.n_waiting))?;
        let help = "How long the writer has worked on its current batch";
        write.seconds("journal_writer_busy", help, now.stuck_for.as_secs_f64())?;
        write.counter("journal_events", "Events that became durable", now.n_events)?;
        write.histogram(
            "journal_commit",
            "Duration of the commits of the journal",
            &now.commits,
        )?;
        let help = "Delay with which events of other gateways arrived here";
        write.histogram("notification_lag", help, &now.lag)?;
        let help = "Connections to the database that are in use";
        write.gauge("store_connections_busy", help, f64::from(pool.busy))?;
        let help = "Open connections to the database that are not in use";
        write.gauge("store_connections_idle", help, f64::from(pool.idle))?;
        let help = "Maximum number of pooled connections to the database";
        write.gauge("store_connections_max", help, f64::from(pool.max))?;
        let help = "Runs deleted after their retention period";
        write.counter("retention_runs_deleted", help, now.n_forgotten)?;
        let help = "Time since old data was last deleted completely, or since the start";
        write.seconds("retention_age", help, now.cleaned_before.as_secs_f64())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is rounded anyway")]
fn float(n: u64) -> f64 {
    n as f64
}

struct Writer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Writer<'_, '_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let unit = Unit::Seconds;
        let encoder = self.0.encode_descriptor(name, help, Some(&unit), MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn histogram(&mut self, name: &str, help: &str, counts: &DurationCounts) -> fmt::Result {
        let unit = Unit::Seconds;
        let kind = MetricType::Histogram;
        let mut encoder = self.0.encode_descriptor(name, help, Some(&unit), kind)?;
        let mut buckets = counts.buckets.clone();
        let n_bounded: u64 = buckets.iter().map(|(_, n)| n).sum();
        // The counters go on while they are read.
        let count = counts.count.max(n_bounded);
        buckets.push((f64::INFINITY, count - n_bounded));
        let sum = counts.sum.as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}
