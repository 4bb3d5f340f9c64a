//! Metrics of the real binary over OTLP: the same as `/metrics` has, at every interval and once
//! more at the end.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    metric::Data, number_data_point::Value as Number,
};
use serde_json::{Value, json};

use crate::{
    echoing_servers::{EchoingMcp, EchoingModel, settings_for},
    otlp_receiver::{OtlpReceiver, text_of},
    serve::Gateway,
    world::World,
};

const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// The names that metrics of the semantic conventions have at `/metrics`, and their labels.
const RENAMED: [(&str, &str); 4] = [
    ("gen_ai.client.operation.duration", "turnwire_turn_duration_seconds"),
    ("gen_ai.client.operation.time_to_first_chunk", "turnwire_time_to_first_token_seconds"),
    ("gen_ai.client.token.usage", "turnwire_turn_tokens"),
    ("mcp.client.operation.duration", "turnwire_tool_call_duration_seconds"),
];
const LABELS: [(&str, &str); 3] = [
    ("gen_ai.request.model", "model"),
    ("gen_ai.token.type", "type"),
    ("turnwire.tool.server", "server"),
];

struct Bench {
    _model: EchoingModel,
    _mcp: EchoingMcp,
    receiver: OtlpReceiver,
    world: World,
}

impl Bench {
    fn new() -> Self {
        let (model, mcp) = (EchoingModel::start(), EchoingMcp::start());
        let receiver = OtlpReceiver::start();
        let world = World::new()
            .with_file("turnwire.toml", &settings_for(&model, &mcp))
            .with("TURNWIRE_STORE_URL", "memory:")
            .with("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url())
            .with("OTEL_TRACES_EXPORTER", "none")
            .with("OTEL_SERVICE_NAME", "agents")
            .with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
        Self { _model: model, _mcp: mcp, receiver, world }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.world = self.world.with(name, value);
        self
    }
}

/// A run that calls a tool of an MCP server: two turns.
async fn run_with_a_tool(gateway: &Gateway) {
    let tool = json!({ "type": "mcp", "server_label": "docs", "require_approval": "never" });
    let body = json!({ "model": "default", "input": "call echo", "tools": [tool] });
    let response: Value =
        gateway.post("/v1/responses", &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(response["status"], "completed", "{response}");
}

/// Every series with its value, by the name and the labels that it has at `/metrics`.
type Series = BTreeMap<String, f64>;

fn key(name: &str, labels: &[(String, String)]) -> String {
    let mut labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    labels.sort();
    format!("{name} {}", labels.join(","))
}

fn scraped(text: &str) -> Series {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
        let pair = |label: &str| {
            let (name, value) = label.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"');
            let value = if name == "le" && value != "+Inf" { bound(value) } else { value.into() };
            (name.to_owned(), value)
        };
        (key(name, &labels.map(pair).collect::<Vec<_>>()), value.parse().unwrap())
    };
    samples.map(read).collect()
}

/// A bound in one spelling.
fn bound(text: &str) -> String {
    text.parse::<f64>().unwrap().to_string()
}

fn labels_of(
    name: &str,
    point: &[opentelemetry_proto::tonic::common::v1::KeyValue],
) -> Vec<(String, String)> {
    let is_renamed = RENAMED.iter().any(|(theirs, _)| *theirs == name);
    let mut labels = Vec::new();
    for attribute in point {
        let value = text_of(point, &attribute.key).unwrap();
        let ours = LABELS.iter().find(|(theirs, _)| *theirs == attribute.key);
        match ours {
            Some((_, ours)) => labels.push(((*ours).to_owned(), value)),
            None if !is_renamed => labels.push((attribute.key.clone(), value)),
            // Those that the conventions add.
            None => {}
        }
    }
    if name == "mcp.client.operation.duration" {
        labels.push(("kind".to_owned(), "mcp".to_owned()));
    }
    labels
}

fn add_number(series: &mut Series, name: &str, point: &NumberDataPoint) {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let value = match point.value.unwrap() {
        Number::AsInt(n) => n as f64,
        Number::AsDouble(n) => n,
    };
    series.insert(key(name, &labels_of(name, &point.attributes)), value);
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn add_histogram(series: &mut Series, name: &str, point: &HistogramDataPoint) {
    let ours = RENAMED.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    let labels = labels_of(name, &point.attributes);
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1, "{name}");
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count, "{name}");
    series.insert(key(&format!("{ours}_sum"), &labels), point.sum.unwrap());
    series.insert(key(&format!("{ours}_count"), &labels), point.count as f64);
    let bounds = point.explicit_bounds.iter().map(ToString::to_string);
    let mut below = 0;
    for (bound, n) in bounds.chain(["+Inf".to_owned()]).zip(&point.bucket_counts) {
        below += n;
        let labels = [labels.clone(), vec![("le".to_owned(), bound)]].concat();
        series.insert(key(&format!("{ours}_bucket"), &labels), below as f64);
    }
}

fn metrics_of(export: &ResourceMetrics) -> impl Iterator<Item = &Metric> {
    export.scope_metrics.iter().flat_map(|scope| &scope.metrics)
}

fn exported(export: &ResourceMetrics) -> Series {
    let mut series = Series::new();
    for metric in metrics_of(export) {
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => {
                for point in &gauge.data_points {
                    add_number(&mut series, &metric.name, point);
                }
            }
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
                for point in &sum.data_points {
                    add_number(&mut series, &metric.name, point);
                }
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
                for point in &histogram.data_points {
                    add_histogram(&mut series, &metric.name, point);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    series
}

/// Number of runs that an export says have finished.
fn n_finished(export: &ResourceMetrics) -> f64 {
    exported(export)["turnwire_runs_finished_total outcome=completed"]
}

/// The start of the counters: one for all.
fn start_of(export: &ResourceMetrics) -> u64 {
    let mut starts: Vec<u64> = metrics_of(export)
        .flat_map(|metric| match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => sum.data_points.iter().map(|p| p.start_time_unix_nano).collect(),
            Data::Histogram(histogram) => {
                histogram.data_points.iter().map(|p| p.start_time_unix_nano).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    starts.dedup();
    let [start] = starts.as_slice() else { panic!("{starts:?}") };
    *start
}

/// The metrics of a run with a tool arrive: every series of `/metrics`, no other, with the same
/// value.
#[tokio::test]
async fn the_exported_metrics_are_those_of_the_page() {
    let bench = Bench::new().with(INTERVAL, "200");
    let gateway = Gateway::start(&bench.world, &SERVE);
    run_with_a_tool(&gateway).await;
    // The second one is certain to begin after the end of the run.
    let exports = bench.receiver.metrics_once("export of the run", |exports| {
        exports.iter().filter(|export| n_finished(export) > 0.0).count() >= 2
    });
    let page = gateway.get("/metrics").send().await.unwrap().text().await.unwrap();
    let (scraped, exported) = (scraped(&page), exported(exports.last().unwrap()));
    let keys = |series: &Series| series.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&exported), keys(&scraped));
    // The rest changes between export and scrape.
    let moves = ["_age_seconds ", "metric_exports_total ", "journal_", "store_connections"];
    for (series, value) in &exported {
        if !moves.iter().any(|name| series.contains(name)) {
            assert!((value - scraped[series]).abs() < f64::EPSILON, "{series}: {value}");
        }
    }
    assert!((exported["turnwire_turn_duration_seconds_count model=default"] - 2.0).abs() < 0.1);
    let calls = "turnwire_tool_calls_total kind=mcp,outcome=succeeded,server=docs";
    assert!((exported[calls] - 1.0).abs() < 0.1, "{:?}", exported[calls]);
    let last = exports.last().unwrap();
    let tokens = metrics_of(last).find(|metric| metric.name == "gen_ai.client.token.usage");
    let Some(Data::Histogram(tokens)) = &tokens.unwrap().data else { panic!("no histogram") };
    let of_model = |point: &&HistogramDataPoint| {
        text_of(&point.attributes, "gen_ai.request.model").as_deref() == Some("default")
    };
    for point in tokens.data_points.iter().filter(of_model) {
        let provider = text_of(&point.attributes, "gen_ai.provider.name");
        assert_eq!(provider.as_deref(), Some("openai"));
    }
}

/// Counters go up over exports, from one start; each export says who sends it.
#[tokio::test]
async fn exports_are_cumulative_and_name_the_process() {
    let bench = Bench::new().with(INTERVAL, "200");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    run_with_a_tool(&gateway).await;
    let has = |n: f64| {
        move |exports: &[ResourceMetrics]| exports.last().is_some_and(|e| n_finished(e) >= n)
    };
    bench.receiver.metrics_once("first run", has(1.0));
    run_with_a_tool(&gateway).await;
    bench.receiver.metrics_once("second run", has(2.0));
    gateway.signal("TERM");
    let done = gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let exports = bench.receiver.metrics();
    for pair in exports.windows(2) {
        assert_eq!(start_of(&pair[0]), start_of(&pair[1]));
        assert_eq!(pair[0].resource, pair[1].resource);
        let (before, after) = (exported(&pair[0]), exported(&pair[1]));
        for (series, value) in before.iter().filter(|(series, _)| series.contains("_total ")) {
            assert!(after[series] >= *value, "{series}: {value}, then {}", after[series]);
        }
    }
    let attributes = exports[0].resource.clone().unwrap().attributes;
    let of = |name| text_of(&attributes, name);
    assert_eq!(of("service.name").as_deref(), Some("agents"));
    assert_eq!(of("deployment.environment.name").as_deref(), Some("test"));
    assert_eq!(of("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(of("service.instance.id").is_some_and(|id| id.starts_with("worker_")));
}

/// The end of the server exports what no interval has.
#[tokio::test]
async fn the_last_metrics_are_exported_at_the_end() {
    let bench = Bench::new().with(INTERVAL, "3600000");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    run_with_a_tool(&gateway).await;
    assert_eq!(bench.receiver.metrics().len(), 0);
    gateway.signal("TERM");
    let done = gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let exports = bench.receiver.metrics();
    assert_eq!(exports.len(), 1);
    assert!((n_finished(&exports[0]) - 1.0).abs() < 0.1);
}

/// Nothing is sent if the operator wants no metrics, and traces do not depend on that.
#[tokio::test]
async fn nothing_is_sent_with_none() {
    let bench = Bench::new().with(INTERVAL, "100").with("OTEL_METRICS_EXPORTER", "none");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    run_with_a_tool(&gateway).await;
    gateway.signal("TERM");
    gateway.finish();
    assert_eq!(bench.receiver.heads(), "");
}

/// A receiver that is away costs the server nothing: runs go on, the log says it once, the metrics
/// count it, and `turnwire doctor` says it.
#[tokio::test]
async fn a_receiver_that_is_away_is_counted_and_said_once() {
    let bench = Bench::new()
        .with(INTERVAL, "100")
        .with("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2")
        // Nothing listens there.
        .with("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1/v1/metrics?k=hunter2");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    loop {
        run_with_a_tool(&gateway).await;
        let page = gateway.get("/metrics").send().await.unwrap().text().await.unwrap();
        if scraped(&page)["turnwire_metric_exports_total outcome=failed"] >= 3.0 {
            break;
        }
    }
    gateway.signal("TERM");
    let done = gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stderr.matches("metrics not accepted").count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("http://127.0.0.1:1/v1/metrics"), "{}", done.stderr);
    let doctor = bench.world.run(&["doctor"]);
    assert!(doctor.stdout.contains("http://127.0.0.1:1/v1/metrics: "), "{}", doctor.stdout);
    for text in [done.stderr, doctor.stdout] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
