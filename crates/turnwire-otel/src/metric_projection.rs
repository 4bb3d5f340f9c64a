//! Metrics in the form of OTLP: a projection of the text of `/metrics`.
//!
//! Names and labels stay as they are, so that what `docs/metrics.md` says holds for both. Metrics
//! that the semantic conventions v1.41.1 know have the names of these instead ([`CONVENTIONS`]).

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point::Value,
    },
    resource::v1::Resource,
};
use turnwire_contract::Timestamp;

use crate::{
    attributes as names,
    open_metrics::{Buckets, Family, Labels, Number, Points},
    providers::Providers,
};

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// A histogram with a name in the semantic conventions.
struct Convention {
    /// Our name.
    ours: &'static str,
    /// Only series with this value of this label.
    only: Option<(&'static str, &'static str)>,
    name: &'static str,
    unit: &'static str,
    /// Attributes of all series.
    always: &'static [(&'static str, &'static str)],
    /// Attributes in place of labels.
    renamed: &'static [(&'static str, &'static str)],
}

const OF_CHAT: &[(&str, &str)] = &[(names::OPERATION_NAME, names::CHAT_OPERATION)];
const MODEL: (&str, &str) = ("model", names::REQUEST_MODEL);

const CONVENTIONS: [Convention; 4] = [
    Convention {
        ours: "turnwire_turn_duration_seconds",
        only: None,
        name: "gen_ai.client.operation.duration",
        unit: "s",
        always: OF_CHAT,
        renamed: &[MODEL],
    },
    Convention {
        ours: "turnwire_time_to_first_token_seconds",
        only: None,
        name: "gen_ai.client.operation.time_to_first_chunk",
        unit: "s",
        always: OF_CHAT,
        renamed: &[MODEL],
    },
    Convention {
        ours: "turnwire_turn_tokens",
        only: None,
        name: "gen_ai.client.token.usage",
        unit: "{token}",
        always: OF_CHAT,
        renamed: &[MODEL, ("type", names::TOKEN_TYPE)],
    },
    Convention {
        ours: "turnwire_tool_call_duration_seconds",
        only: Some(("kind", "mcp")),
        name: "mcp.client.operation.duration",
        unit: "s",
        always: &[
            (names::MCP_METHOD, "tools/call"),
            (names::OPERATION_NAME, names::TOOL_OPERATION),
        ],
        renamed: &[("server", names::TOOL_SERVER)],
    },
];

/// When the counters began, and when they were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// Makes a request of metrics.
pub(crate) fn request(
    families: Vec<Family>,
    period: Period,
    providers: &Providers,
    resource: &Resource,
) -> ExportMetricsServiceRequest {
    let metrics = families.into_iter().flat_map(|family| metrics(family, period, providers));
    let scope = InstrumentationScope {
        name: "turnwire".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics = ScopeMetrics {
        scope: Some(scope),
        metrics: metrics.collect(),
        schema_url: names::SCHEMA.to_owned(),
    };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        schema_url: String::new(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// A family is one metric, or two if only a part of it has a name in the conventions.
fn metrics(family: Family, period: Period, providers: &Providers) -> Vec<Metric> {
    let convention = CONVENTIONS.iter().find(|convention| convention.ours == family.name);
    let (name, unit) = (family.name, unit(&family.unit));
    let metric = |name: String, unit: &str, data| Metric {
        name,
        description: family.help.clone(),
        unit: unit.to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    };
    match (family.points, convention) {
        (Points::Untyped, _) => Vec::new(),
        (Points::Gauge(points), _) => {
            // A gauge has no beginning.
            let data_points = points.into_iter().map(|point| number(point, None, period.end));
            vec![metric(name, unit, Data::Gauge(Gauge { data_points: data_points.collect() }))]
        }
        (Points::Counter(points), _) => {
            let start = Some(period.start);
            let data_points = points.into_iter().map(|point| number(point, start, period.end));
            let sum = Sum {
                data_points: data_points.collect(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            };
            vec![metric(name + "_total", unit, Data::Sum(sum))]
        }
        (Points::Histogram(points), None) => {
            vec![metric(name, unit, histogram(points, period, attributes))]
        }
        (Points::Histogram(points), Some(convention)) => {
            let (theirs, ours): (Vec<_>, Vec<_>) =
                points.into_iter().partition(|(labels, _)| convention.is_about(labels));
            let renamed = |labels| convention.attributes(labels, providers);
            let theirs = histogram(theirs, period, renamed);
            let mut metrics = vec![metric(convention.name.to_owned(), convention.unit, theirs)];
            if !ours.is_empty() {
                metrics.push(metric(name, unit, histogram(ours, period, attributes)));
            }
            metrics
        }
    }
}

impl Convention {
    fn is_about(&self, labels: &Labels) -> bool {
        self.only.is_none_or(|(name, value)| {
            labels.iter().any(|(known, given)| known == name && given == value)
        })
    }

    fn attributes(&self, labels: Labels, providers: &Providers) -> Vec<KeyValue> {
        let mut attributes: Vec<KeyValue> =
            self.always.iter().map(|(name, value)| attribute(name, value)).collect();
        for (label, value) in labels {
            if label == MODEL.0 {
                let provider = providers.of(&value);
                if !provider.is_empty() {
                    attributes.push(attribute(names::PROVIDER_NAME, provider));
                }
            }
            let renamed = self.renamed.iter().find(|(ours, _)| *ours == label);
            attributes.extend(renamed.map(|(_, theirs)| attribute(theirs, &value)));
        }
        attributes
    }
}

fn histogram(
    points: Vec<(Labels, Buckets)>,
    period: Period,
    attributes: impl Fn(Labels) -> Vec<KeyValue>,
) -> Data {
    let point = |(labels, buckets): (Labels, Buckets)| {
        let bounds = buckets.cumulative.iter().map(|(bound, _)| *bound);
        let mut below = 0;
        // Each bucket is counted by itself in OTLP.
        let counts = buckets.cumulative.iter().map(|(_, n)| {
            let n_here = n.saturating_sub(below);
            below = *n;
            n_here
        });
        HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: nanos(period.start),
            time_unix_nano: nanos(period.end),
            sum: Some(buckets.sum),
            bucket_counts: counts.collect(),
            explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
            count: below,
            ..HistogramDataPoint::default()
        }
    };
    Data::Histogram(Histogram {
        data_points: points.into_iter().map(point).collect(),
        aggregation_temporality: CUMULATIVE,
    })
}

fn number(
    (labels, number): (Labels, Number),
    start: Option<Timestamp>,
    end: Timestamp,
) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start.map_or(0, nanos),
        time_unix_nano: nanos(end),
        value: Some(match number {
            Number::Integer(n) => Value::AsInt(n),
            Number::Float(n) => Value::AsDouble(n),
        }),
        ..NumberDataPoint::default()
    }
}

/// Units of `OpenMetrics` are words, those of OTLP are from UCUM.
fn unit(word: &str) -> &str {
    match word {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

/// An attribute with a text.
pub(crate) fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(any_value::Value::StringValue(value.to_owned()));
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value }), ..KeyValue::default() }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(0).saturating_mul(1_000)
}

#[cfg(test)]
#[path = "metric_projection_tests.rs"]
mod tests;
