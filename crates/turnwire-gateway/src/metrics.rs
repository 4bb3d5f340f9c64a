//! The metrics of the server. `docs/metrics.md` lists them; a test compares the two.
//!
//! Labels have the values of a fixed list or of the settings, never those of a request.

use std::{
    fmt,
    hash::Hash,
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

/// Declares a struct of metrics, whose `new` also registers them. A field has the name of its
/// metric, after `in` the unit, and in its comment the help text.
macro_rules! metric_table {
    (@first $first:expr $(, $other:expr)*) => { $first };
    (@register $registry:ident $name:ident $help:literal) => {
        $registry.register(stringify!($name), $help.trim_start(), $name.clone())
    };
    (@register $registry:ident $name:ident $help:literal $unit:ident) => {{
        let (name, help) = (stringify!($name), $help.trim_start());
        $registry.register_with_unit(name, help, Unit::$unit, $name.clone())
    }};
    ($(#[doc = $about:literal])+ struct $Table:ident {
        $(#[doc = $help:literal] $name:ident $(in $unit:ident)?: $type:ty $(= $new:expr)?,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        struct $Table { $($name: $type,)+ }

        impl $Table {
            fn new(registry: &mut Registry) -> Self {
                $(
                    let $name: $type = metric_table!(@first $($new,)? <$type>::default());
                    metric_table!(@register registry $name $help $($unit)?);
                )+
                Self { $($name),+ }
            }
        }
    };
}

mod runs;
mod store;

use self::{runs::RunMetrics, store::StoreMetrics};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    runs: RunMetrics,
    store: Arc<StoreMetrics>,
    counts: Counts,
}

metric_table! {
    /// What is counted apart from the events of runs and the store.
    struct Counts {
        /// Size of /ws/chat messages in bytes
        ws_message_bytes: Family<DirectionLabel, Histogram> = histograms(sizes),
        /// Messages on /ws/chat
        ws_messages: Family<DirectionLabel, Counter>,
        /// Runs that this server executes
        runs_live: Gauge,
        /// Runs of other servers that this one has taken over
        runs_taken_over: Counter,
        /// Open streams: event streams over HTTP, and WebSockets
        streams_open: Family<Kind, Gauge>,
        /// Graceful shutdowns started
        drains: Counter,
        /// Requests whose Idempotency-Key named an existing run
        requests_found_by_key: Counter,
        /// Runs refused during shutdown
        runs_refused_while_closing: Counter,
        /// Unreadable parts of model output that were skipped
        model_parts_skipped: Counter,
        /// Requests and connections refused or closed by a limit, by its setting
        limits_reached: Family<Limit, Counter>,
        /// Runs that ended at a limit, by the reason in `incomplete_details`
        runs_incomplete: Family<Reason, Counter>,
        /// Requests that got an error, by its code
        requests_rejected: Family<CodeLabel, Counter>,
        /// Streams over HTTP that went on after a frame that the client had
        streams_resumed: Counter,
        /// Time since the last heartbeat that the store accepted; 0 in memory
        heartbeat_age in Seconds: Gauge<f64, AtomicU64>,
        /// Threads that one run has blocked for longer than a second, in the last minute
        blocked_threads: Gauge,
        /// Runs started with a budget of the month that is nearly spent
        runs_near_budget: Counter,
        /// Webhooks that their receivers accepted
        webhooks_delivered: Counter,
        /// Attempts to deliver a webhook that failed
        webhook_attempts_failed: Counter,
        /// Webhooks that were given up
        webhooks_given_up: Counter,
        /// Webhooks of the whole store that wait to be delivered, counted every ten seconds
        webhooks_pending: Gauge,
        /// Spans of traces that their receiver accepted
        spans_exported: Counter,
        /// Spans of traces that were lost: the queue was full, or the receiver refused them
        spans_dropped: Counter,
        /// Exports of these metrics over OTLP, by outcome
        metric_exports: Family<OutcomeLabel, Counter>,
        /// Attempts to read the settings again, by outcome
        settings_reloads: Family<OutcomeLabel, Counter>,
        /// Whether the last attempt to read the settings again succeeded (1) or not (0)
        settings_last_reload_successful: Gauge,
        /// Time at which the settings in force were read, since 1970
        settings_loaded_timestamp in Seconds: Gauge<f64, AtomicU64>,
    }
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
        let counts = Counts::new(&mut registry);
        counts.begin();
        let runs = RunMetrics::new(&mut registry, models);
        let store = Arc::<StoreMetrics>::default();
        registry.register_collector(Box::new(Arc::clone(&store)));
        Self { registry, runs, store, counts }
    }
}

impl Counts {
    /// Makes series that are there from the start, so that their names can be found and a rate has a
    /// value.
    fn begin(&self) {
        for direction in [RECEIVED, SENT] {
            drop(self.ws_message_bytes.get_or_create(&DirectionLabel { direction }));
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
        drop(self.requests_rejected.get_or_create(&CodeLabel { code: "store_unavailable" }));
        for outcome in [EXPORTED, FAILED] {
            drop(self.metric_exports.get_or_create(&OutcomeLabel { outcome }));
        }
        for outcome in ["reloaded", "refused"] {
            drop(self.settings_reloads.get_or_create(&OutcomeLabel { outcome }));
        }
        self.settings_last_reload_successful.set(1);
    }
}

impl Reason {
    fn of(reason: IncompleteReason) -> Self {
        Self { reason: wire_json(&reason).trim_matches('"').to_owned() }
    }
}

/// Buckets from 64 bytes to 1 MiB.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(64.0, 4.0, 8))
}

/// A family of histograms with these buckets.
fn histograms<L: Clone + Eq + Hash>(buckets: fn() -> Histogram) -> Family<L, Histogram> {
    Family::new_with_constructor(buckets)
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
        self.counts.settings_loaded_timestamp.set(at.as_micros() as f64 / 1e6);
    }

    /// Counts an attempt to read the settings again.
    pub(crate) fn reload_ended(&self, is_reloaded: bool) {
        let outcome = if is_reloaded { "reloaded" } else { "refused" };
        self.counts.settings_last_reload_successful.set(i64::from(is_reloaded));
        self.counts.settings_reloads.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a request that got an error.
    pub(crate) fn rejected(&self, code: &'static str) {
        self.counts.requests_rejected.get_or_create(&CodeLabel { code }).inc();
    }

    /// Counts a stream that goes on after a frame that the client had.
    pub(crate) fn resumed(&self) {
        self.counts.streams_resumed.inc();
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
        self.counts.requests_found_by_key.inc();
    }

    /// Counts a run that was refused during a shutdown.
    pub(crate) fn refused_while_closing(&self) {
        self.counts.runs_refused_while_closing.inc();
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
            let metrics = &self.counts;
            metrics.webhooks_delivered.inner().store(counts.n_delivered(), Ordering::Relaxed);
            metrics
                .webhook_attempts_failed
                .inner()
                .store(counts.n_failed_attempts(), Ordering::Relaxed);
            metrics.webhooks_given_up.inner().store(counts.n_given_up(), Ordering::Relaxed);
            metrics.webhooks_pending.set(i64::try_from(counts.n_pending()).unwrap_or(i64::MAX));
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
            let counter = self.counts.metric_exports.get_or_create(&OutcomeLabel { outcome });
            counter.inner().store(n, Ordering::Relaxed);
        }
    }

    /// Copies the counters of the engine.
    fn look_at(&self, runs: &Runs) {
        self.counts.runs_live.set(i64::try_from(runs.n_live()).unwrap_or(i64::MAX));
        self.counts.runs_taken_over.inner().store(runs.n_taken_over(), Ordering::Relaxed);
        let heartbeat_age = runs.heartbeat_age().unwrap_or_default();
        self.counts.heartbeat_age.set(heartbeat_age.as_secs_f64());
        let n_blocked = i64::try_from(runs.n_blocked_threads()).unwrap_or(i64::MAX);
        self.counts.blocked_threads.set(n_blocked);
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
        self.counts.ws_message_bytes.get_or_create(&way).observe(bytes as f64);
    }
}
