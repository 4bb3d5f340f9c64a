//! OpenTelemetry traces of runs, and metrics of the process.
//!
//! A span is a projection of the journal, as everything else is: its start and its end are the
//! times of events, and its ID is a hash of the IDs in them ([`turnwire_contract::trace`]).
//! [`TraceObserver`] sees the events of the runs of this process, `projection` makes spans of them,
//! and [`SpanExport`] sends these to a receiver that speaks OTLP. [`TraceOptions`] are the standard
//! `OTEL_*` variables.
//!
//! Metrics are a projection of the text that `/metrics` has (`open_metrics`, `metric_projection`),
//! so that each is written once. [`MetricExport`] sends them, as [`MetricOptions`] say.
//!
//! `docs/traces.md` lists the spans and their attributes, `docs/metrics.md` the metrics.

mod attributes;
mod contents;
mod export;
#[cfg(test)]
mod journal_for_tests;
mod metric_export;
mod metric_options;
mod metric_projection;
mod observer;
mod open_metrics;
mod options;
mod projection;
mod providers;
mod queue;
mod receiver;
#[cfg(test)]
mod receiver_for_tests;
mod spans;
mod variables;

pub use export::{SpanExport, check};
pub use metric_export::{MeasuredProcess, MetricExport, check_metrics};
pub use metric_options::MetricOptions;
pub use observer::TraceObserver;
pub use options::TraceOptions;
pub use providers::{Providers, SharedProviders};
pub use receiver::{ExportError, ReceiverOptions};
pub use variables::VariableError;
