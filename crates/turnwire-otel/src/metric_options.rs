//! The standard variables of OpenTelemetry about metrics. Nothing is exported without an endpoint.

use std::time::Duration;

use crate::{
    receiver::{ReceiverOptions, Signal},
    variables::{VariableError, Variables},
};

const METRICS: Signal = Signal {
    path: "/v1/metrics",
    exporter: "OTEL_METRICS_EXPORTER",
    // `/metrics` is always there.
    others: &["prometheus"],
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: ["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"],
    headers: ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
    timeout: ["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
    compression: ["OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"],
    export_timeout: "OTEL_METRIC_EXPORT_TIMEOUT",
};

const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
/// Exports more often than that would be work for nothing.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// A larger value is meant as "never", and a clock cannot be set so far ahead.
const LONGEST_INTERVAL: Duration = Duration::from_hours(24 * 365);

/// Where metrics go, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricOptions {
    /// Where they go.
    pub receiver: ReceiverOptions,
    /// Time between two exports.
    pub interval: Duration,
}

impl MetricOptions {
    /// Reads the variables. Returns `None` if they do not ask for metrics.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, VariableError> {
        let variables = Variables(&get);
        let Some(receiver) = ReceiverOptions::read(&variables, &METRICS)? else { return Ok(None) };
        let temporality = variables.get(TEMPORALITY).unwrap_or("cumulative").to_lowercase();
        // A preference, which a host may have for all of its programs. Totals are always
        // cumulative.
        if !["cumulative", "delta", "lowmemory"].contains(&temporality.as_str()) {
            let wrong = format!("`{temporality}`: there are `cumulative`, `delta`, `lowmemory`");
            return Err(VariableError::new(TEMPORALITY, wrong));
        }
        let interval = variables.millis(&[INTERVAL], 60_000)?;
        let interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        Ok(Some(Self { receiver, interval }))
    }
}

#[cfg(test)]
#[path = "metric_options_tests.rs"]
mod tests;
