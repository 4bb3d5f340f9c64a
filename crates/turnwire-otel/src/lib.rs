//! OpenTelemetry traces of runs.
//!
//! A span is a projection of the journal, as everything else is: its start and its end are the times
//! of events, and its ID is a hash of the IDs in them ([`turnwire_contract::trace`]). [`TraceObserver`]
//! sees the events of the runs of this process, `projection` makes spans of them, and [`SpanExport`]
//! sends these to a receiver that speaks OTLP. [`TraceOptions`] are the standard `OTEL_*` variables.
//!
//! `docs/traces.md` lists the spans and their attributes.

mod attributes;
mod contents;
mod export;
#[cfg(test)]
mod journal_for_tests;
mod observer;
mod options;
mod projection;
mod queue;
mod spans;

pub use export::{ExportError, SpanExport, check};
pub use observer::{Providers, TraceObserver};
pub use options::{TraceOptions, VariableError};
