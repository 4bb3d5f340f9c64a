//! The metrics of the server. `docs/metrics.md` lists them; a test compares the two.
//!
//! Labels have the values of a fixed list or of the settings, never those of a request.

mod runs;
mod store;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use turnwire_contract::{
    IncompleteReason, MetricExportCounts, Observer, SpanCounts, Timestamp, WebhookCounts,
};
use turnwire_engine::Runs;
use turnwire_surfaces::wire_json;

use crate::limits::{COUNTED, COUNTED_QUOTAS};

use self::{runs::RunMetrics, store::StoreMetrics};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    ws_bytes: Family<DirectionLabel, Histogram>,
    runs: RunMetrics,
    store: Arc<StoreMetrics>,
    counts: Counts,
}

/// Everything that counts from zero.
#[derive(Debug, Default)]
struct Counts {
    ws_messages: Family<DirectionLabel, Counter>,
    runs_live: Gauge,
    runs_taken_over: Counter,
    streams_open: Family<Kind, Gauge>,
    drains: Counter,
    found_by_key: Counter,
    refused_while_closing: Counter,
    model_parts_skipped: Counter,
    limits_reached: Family<Limit, Counter>,
    runs_incomplete: Family<Reason, Counter>,
    rejected: Family<CodeLabel, Counter>,
    resumed: Counter,
    heartbeat_age: Gauge<f64, AtomicU64>,
    runs_near_budget: Counter,
    webhooks: WebhookMetrics,
    spans_exported: Counter,
    spans_dropped: Counter,
    exports: Family<OutcomeLabel, Counter>,
    reloads: ReloadMetrics,
}

/// How often the settings were read again, and when they were last read without a mistake.
#[derive(Debug, Default)]
struct ReloadMetrics {
    by_outcome: Family<OutcomeLabel, Counter>,
    is_last_successful: Gauge,
    loaded_at: Gauge<f64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// What became of what this process exports over OTLP.
#[derive(Debug)]
pub(crate) struct ExportCounts<'a> {
    pub(crate) spans: &'a SpanCounts,
    pub(crate) metrics: &'a MetricExportCounts,
}

/// What was sent to receivers of webhooks.
#[derive(Debug, Default)]
struct WebhookMetrics {
    delivered: Counter,
    failed_attempts: Counter,
    given_up: Counter,
    pending: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    /// The setting, such as `limits.max_body_bytes`.
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// Counts an open stream until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

const EXPORTED: &str = "exported";
const FAILED: &str = "failed";

const RECEIVED: &str = "received";
const SENT: &str = "sent";

/// Direction of a message on the chat socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client.
    Received,
    /// To the client.
    Sent,
}

impl Metrics {
    /// The metrics of a server with these models.
    pub(crate) fn new(models: &[String]) -> Self {
        let mut registry = Registry::with_prefix("turnwire");
        let ws_bytes = Family::new_with_constructor(sizes as fn() -> Histogram);
        let help = "Size of /ws/chat messages in bytes";
        registry.register("ws_message_bytes", help, ws_bytes.clone());
        for direction in [RECEIVED, SENT] {
            drop(ws_bytes.get_or_create(&DirectionLabel { direction }));
        }
        let counts = Counts::default();
        counts.register(&mut registry);
        counts.begin();
        let runs = RunMetrics::new(&mut registry, models);
        let store = Arc::<StoreMetrics>::default();
        registry.register_collector(Box::new(Arc::clone(&store)));
        Self { registry, ws_bytes, runs, store, counts }
    }
}

impl Counts {
    fn register(&self, registry: &mut Registry) {
        registry.register("ws_messages", "Messages on /ws/chat", self.ws_messages.clone());
        registry.register("runs_live", "Runs that this server executes", self.runs_live.clone());
        let help = "Runs of other servers that this one has taken over";
        registry.register("runs_taken_over", help, self.runs_taken_over.clone());
        let help = "Open streams: event streams over HTTP, and WebSockets";
        registry.register("streams_open", help, self.streams_open.clone());
        registry.register("drains", "Graceful shutdowns started", self.drains.clone());
        let help = "Requests whose Idempotency-Key named an existing run";
        registry.register("requests_found_by_key", help, self.found_by_key.clone());
        let help = "Runs refused during shutdown";
        registry.register("runs_refused_while_closing", help, self.refused_while_closing.clone());
        let help = "Unreadable parts of model output that were skipped";
        registry.register("model_parts_skipped", help, self.model_parts_skipped.clone());
        let help = "Requests and connections refused or closed by a limit, by its setting";
        registry.register("limits_reached", help, self.limits_reached.clone());
        let help = "Runs that ended at a limit, by the reason in `incomplete_details`";
        registry.register("runs_incomplete", help, self.runs_incomplete.clone());
        let help = "Requests that got an error, by its code";
        registry.register("requests_rejected", help, self.rejected.clone());
        let help = "Streams over HTTP that went on after a frame that the client had";
        registry.register("streams_resumed", help, self.resumed.clone());
        let help = "Time since the last heartbeat that the store accepted; 0 in memory";
        let heartbeat_age = Gauge::<f64, AtomicU64>::clone(&self.heartbeat_age);
        registry.register_with_unit("heartbeat_age", help, Unit::Seconds, heartbeat_age);
        let help = "Runs started with a budget of the month that is nearly spent";
        registry.register("runs_near_budget", help, self.runs_near_budget.clone());
        self.webhooks.register(registry);
        let help = "Spans of traces that their receiver accepted";
        registry.register("spans_exported", help, self.spans_exported.clone());
        let help =
            "Spans of traces that were lost: the queue was full, or the receiver refused them";
        registry.register("spans_dropped", help, self.spans_dropped.clone());
        let help = "Exports of these metrics over OTLP, by outcome";
        registry.register("metric_exports", help, self.exports.clone());
        self.reloads.register(registry);
    }

    /// Makes series that are there from the start, so that their names can be found and a rate has a
    /// value.
    fn begin(&self) {
        for direction in [RECEIVED, SENT] {
            drop(self.ws_messages.get_or_create(&DirectionLabel { direction }));
        }
        for kind in ["sse", "ndjson", "socket"] {
            drop(self.streams_open.get_or_create(&Kind { kind }));
        }
        for limit in COUNTED.into_iter().chain(COUNTED_QUOTAS) {
            drop(self.limits_reached.get_or_create(&Limit { limit }));
        }
        for reason in [IncompleteReason::MaxTurns, IncompleteReason::TimeLimit] {
            drop(self.runs_incomplete.get_or_create(&Reason::of(reason)));
        }
        drop(self.rejected.get_or_create(&CodeLabel { code: "store_unavailable" }));
        for outcome in [EXPORTED, FAILED] {
            drop(self.exports.get_or_create(&OutcomeLabel { outcome }));
        }
        for outcome in ["reloaded", "refused"] {
            drop(self.reloads.by_outcome.get_or_create(&OutcomeLabel { outcome }));
        }
        self.reloads.is_last_successful.set(1);
    }
}

impl Reason {
    fn of(reason: IncompleteReason) -> Self {
        Self { reason: wire_json(&reason).trim_matches('"').to_owned() }
    }
}

impl WebhookMetrics {
    fn register(&self, registry: &mut Registry) {
        let help = "Webhooks that their receivers accepted";
        registry.register("webhooks_delivered", help, self.delivered.clone());
        let help = "Attempts to deliver a webhook that failed";
        registry.register("webhook_attempts_failed", help, self.failed_attempts.clone());
        let help = "Webhooks that were given up";
        registry.register("webhooks_given_up", help, self.given_up.clone());
        let help =
            "Webhooks of the whole store that wait to be delivered, counted every ten seconds";
        registry.register("webhooks_pending", help, self.pending.clone());
    }
}

impl ReloadMetrics {
    fn register(&self, registry: &mut Registry) {
        let help = "Attempts to read the settings again, by outcome";
        registry.register("settings_reloads", help, self.by_outcome.clone());
        let help = "Whether the last attempt to read the settings again succeeded (1) or not (0)";
        let is_last_successful = self.is_last_successful.clone();
        registry.register("settings_last_reload_successful", help, is_last_successful);
        let help = "Time at which the settings in force were read, since 1970";
        let loaded_at = Gauge::<f64, AtomicU64>::clone(&self.loaded_at);
        registry.register_with_unit("settings_loaded_timestamp", help, Unit::Seconds, loaded_at);
    }
}

/// Buckets from 64 bytes to 1 MiB.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(64.0, 4.0, 8))
}

impl Metrics {
    /// What sees the events of runs.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.runs.clone())
    }

    /// Adds what is counted for each model. A reload may bring new ones.
    pub(crate) fn add_models(&self, models: &[String]) {
        self.runs.add_models(models);
    }

    /// Notes when the settings in force were read.
    pub(crate) fn settings_loaded(&self, at: Timestamp) {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of centuries fit")]
        self.counts.reloads.loaded_at.set(at.as_micros() as f64 / 1e6);
    }

    /// Counts an attempt to read the settings again.
    pub(crate) fn reload_ended(&self, is_reloaded: bool) {
        let outcome = if is_reloaded { "reloaded" } else { "refused" };
        self.counts.reloads.is_last_successful.set(i64::from(is_reloaded));
        self.counts.reloads.by_outcome.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a request that got an error.
    pub(crate) fn rejected(&self, code: &'static str) {
        self.counts.rejected.get_or_create(&CodeLabel { code }).inc();
    }

    /// Counts a stream that goes on after a frame that the client had.
    pub(crate) fn resumed(&self) {
        self.counts.resumed.inc();
    }

    /// Counts a stream of this kind until the returned value is dropped.
    pub(crate) fn stream(&self, kind: &'static str) -> OpenStream {
        let open = self.counts.streams_open.get_or_create_owned(&Kind { kind });
        open.inc();
        OpenStream(open)
    }

    pub(crate) fn drained(&self) {
        self.counts.drains.inc();
    }

    /// Counts a request that found the run of an earlier one.
    pub(crate) fn found_by_key(&self) {
        self.counts.found_by_key.inc();
    }

    /// Counts a run that was refused during a shutdown.
    pub(crate) fn refused_while_closing(&self) {
        self.counts.refused_while_closing.inc();
    }

    /// Counts a run that was started with a budget that is nearly spent.
    pub(crate) fn run_near_budget(&self) {
        self.counts.runs_near_budget.inc();
    }

    /// Counts a client that was refused or cut off by the limit with this setting.
    pub(crate) fn limit_reached(&self, limit: &'static str) {
        self.counts.limits_reached.get_or_create(&Limit { limit }).inc();
    }

    /// Returns all metrics, in the Prometheus format.
    pub(crate) fn encoded(
        &self,
        runs: &Runs,
        webhooks: Option<&WebhookCounts>,
        exports: &ExportCounts<'_>,
    ) -> Result<String, fmt::Error> {
        self.look_at(runs);
        if let Some(counts) = webhooks {
            let metrics = &self.counts.webhooks;
            metrics.delivered.inner().store(counts.n_delivered(), Ordering::Relaxed);
            metrics.failed_attempts.inner().store(counts.n_failed_attempts(), Ordering::Relaxed);
            metrics.given_up.inner().store(counts.n_given_up(), Ordering::Relaxed);
            metrics.pending.set(i64::try_from(counts.n_pending()).unwrap_or(i64::MAX));
        }
        self.look_at_exports(exports);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn look_at_exports(&self, exports: &ExportCounts<'_>) {
        let ExportCounts { spans, metrics } = exports;
        self.counts.spans_exported.inner().store(spans.n_exported(), Ordering::Relaxed);
        self.counts.spans_dropped.inner().store(spans.n_dropped(), Ordering::Relaxed);
        for (outcome, n) in [(EXPORTED, metrics.n_exported()), (FAILED, metrics.n_failed())] {
            let counter = self.counts.exports.get_or_create(&OutcomeLabel { outcome });
            counter.inner().store(n, Ordering::Relaxed);
        }
    }

    /// Copies the counters of the engine.
    fn look_at(&self, runs: &Runs) {
        self.counts.runs_live.set(i64::try_from(runs.n_live()).unwrap_or(i64::MAX));
        self.counts.runs_taken_over.inner().store(runs.n_taken_over(), Ordering::Relaxed);
        let heartbeat_age = runs.heartbeat_age().unwrap_or_default();
        self.counts.heartbeat_age.set(heartbeat_age.as_secs_f64());
        if let Some(statistics) = runs.store_statistics() {
            self.store.set(statistics);
        }
        self.counts.model_parts_skipped.inner().store(runs.n_skipped_parts(), Ordering::Relaxed);
        for (reason, n_runs) in runs.n_incomplete() {
            let counter = self.counts.runs_incomplete.get_or_create(&Reason::of(reason));
            counter.inner().store(n_runs, Ordering::Relaxed);
        }
    }

    /// Counts a message on the chat socket.
    pub(crate) fn ws_message(&self, direction: Direction, bytes: usize) {
        let direction = match direction {
            Direction::Received => RECEIVED,
            Direction::Sent => SENT,
        };
        let way = DirectionLabel { direction };
        self.counts.ws_messages.get_or_create(&way).inc();
        #[expect(clippy::cast_precision_loss, reason = "a size this big is big either way")]
        self.ws_bytes.get_or_create(&way).observe(bytes as f64);
    }
}
