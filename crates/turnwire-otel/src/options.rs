//! The standard variables of OpenTelemetry about traces. Nothing is exported without an endpoint.

use std::time::Duration;

use turnwire_contract::Sampler;

use crate::{
    receiver::{ReceiverOptions, Signal},
    variables::{VariableError, Variables},
};

const TRACES: Signal = Signal {
    path: "/v1/traces",
    exporter: "OTEL_TRACES_EXPORTER",
    others: &[],
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"],
    headers: ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
    timeout: ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
    compression: ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"],
    export_timeout: "OTEL_BSP_EXPORT_TIMEOUT",
};

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
/// A longer queue would only take memory.
const LARGEST_QUEUE: usize = 1 << 20;
const MAX_QUEUE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
const MAX_BATCH: &str = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE";
const CONTENTS: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Where spans go, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOptions {
    /// Where they go.
    pub receiver: ReceiverOptions,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// Maximum time that a span waits for others.
    pub delay: Duration,
    /// Maximum number of spans that wait. Further ones are dropped.
    pub max_queue: usize,
    /// Maximum number of spans in a request.
    pub max_batch: usize,
    /// Whether spans have the contents of messages, arguments and results.
    pub captures_contents: bool,
}

impl TraceOptions {
    /// Reads the variables. Returns `None` if they do not ask for traces.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, VariableError> {
        let variables = Variables(&get);
        let Some(receiver) = ReceiverOptions::read(&variables, &TRACES)? else { return Ok(None) };
        // A batch cannot be larger than the queue.
        let max_queue = variables.number(MAX_QUEUE, 2048)?.clamp(1, LARGEST_QUEUE);
        let max_batch = variables.number(MAX_BATCH, 512)?.clamp(1, max_queue);
        Ok(Some(Self {
            receiver,
            sampler: sampler(&variables)?,
            delay: variables.millis(&[DELAY], 5_000)?,
            max_queue,
            max_batch,
            captures_contents: captures_contents(&variables)?,
        }))
    }
}

fn sampler(variables: &Variables<'_, '_>) -> Result<Sampler, VariableError> {
    let Some(name) = variables.get(SAMPLER) else { return Ok(Sampler::default()) };
    let root = name.strip_prefix("parentbased_");
    let ratio = match root.unwrap_or(name) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => variables.number(SAMPLER_ARG, 1.0)?,
        _ => {
            let reason = format!(
                "`{name}`: there are `always_on`, `always_off`, `traceidratio`, and each of them \
                 with `parentbased_` before it"
            );
            return Err(VariableError::new(SAMPLER, reason));
        }
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err(VariableError::new(SAMPLER_ARG, "it must be a number from 0 to 1"));
    }
    Ok(Sampler { ratio, follows_parent: root.is_some() })
}

fn captures_contents(variables: &Variables<'_, '_>) -> Result<bool, VariableError> {
    let Some(text) = variables.get(CONTENTS) else { return Ok(false) };
    match text.to_ascii_lowercase().as_str() {
        "true" | "span_only" | "span_and_event" => Ok(true),
        "false" | "no_content" | "event_only" => Ok(false),
        _ => Err(VariableError::new(CONTENTS, format!("`{text}`: there are `true`, `false`"))),
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
