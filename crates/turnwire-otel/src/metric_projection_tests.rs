use super::*;
use crate::open_metrics::read;

const TEXT: &str = r#"# HELP turnwire_runs_live Runs at work
# TYPE turnwire_runs_live gauge
turnwire_runs_live 3
# HELP turnwire_cost Cost
# TYPE turnwire_cost counter
turnwire_cost_total{model="m"} 0.25
# HELP turnwire_turn_duration_seconds Time
# TYPE turnwire_turn_duration_seconds histogram
# UNIT turnwire_turn_duration_seconds seconds
turnwire_turn_duration_seconds_sum{model="m"} 4.5
turnwire_turn_duration_seconds_count{model="m"} 6
turnwire_turn_duration_seconds_bucket{le="0.5",model="m"} 1
turnwire_turn_duration_seconds_bucket{le="1.0",model="m"} 4
turnwire_turn_duration_seconds_bucket{le="+Inf",model="m"} 6
# HELP turnwire_turn_tokens Tokens
# TYPE turnwire_turn_tokens histogram
turnwire_turn_tokens_sum{model="other",type="input"} 7.0
turnwire_turn_tokens_count{model="other",type="input"} 1
turnwire_turn_tokens_bucket{le="+Inf",model="other",type="input"} 1
# HELP turnwire_tool_call_duration_seconds Time
# TYPE turnwire_tool_call_duration_seconds histogram
# UNIT turnwire_tool_call_duration_seconds seconds
turnwire_tool_call_duration_seconds_sum{kind="mcp",server="docs"} 1.0
turnwire_tool_call_duration_seconds_count{kind="mcp",server="docs"} 1
turnwire_tool_call_duration_seconds_bucket{le="+Inf",kind="mcp",server="docs"} 1
turnwire_tool_call_duration_seconds_sum{kind="function",server=""} 2.0
turnwire_tool_call_duration_seconds_count{kind="function",server=""} 1
turnwire_tool_call_duration_seconds_bucket{le="+Inf",kind="function",server=""} 1
# EOF
"#;

fn projected() -> Vec<Metric> {
    let named = [("m".to_owned(), "anthropic".into())].into();
    let providers = Providers { named, others: "openai".into() };
    let resource =
        Resource { attributes: vec![attribute("service.name", "agents")], ..Resource::default() };
    let period = Period { start: Timestamp::from_micros(5), end: Timestamp::from_micros(9) };
    let request = request(read(TEXT).unwrap(), period, &providers, &resource);
    let [of_resource] = request.resource_metrics.try_into().unwrap();
    assert_eq!(of_resource.resource, Some(resource));
    let [of_scope] = of_resource.scope_metrics.try_into().unwrap();
    assert_eq!(of_scope.scope.unwrap().name, "turnwire");
    of_scope.metrics
}

fn named(name: &str) -> Metric {
    projected().into_iter().find(|metric| metric.name == name).unwrap()
}

fn histogram_of(metric: &Metric) -> &HistogramDataPoint {
    let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:#?}") };
    assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
    let [point] = histogram.data_points.as_slice() else { panic!("{metric:#?}") };
    point
}

fn texts(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    attributes
        .iter()
        .map(|attribute| match &attribute.value {
            Some(AnyValue { value: Some(any_value::Value::StringValue(text)) }) => {
                (attribute.key.as_str(), text.as_str())
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

/// A gauge is a gauge without a beginning, a counter a monotonic sum since the start of the
/// process.
#[test]
fn gauges_and_counters_keep_their_names_and_values() {
    let gauge = named("turnwire_runs_live");
    let Some(Data::Gauge(Gauge { data_points })) = &gauge.data else { panic!("{gauge:#?}") };
    assert_eq!(data_points[0].value, Some(Value::AsInt(3)));
    assert_eq!((data_points[0].start_time_unix_nano, data_points[0].time_unix_nano), (0, 9_000));
    assert_eq!(gauge.description, "Runs at work");
    let counter = named("turnwire_cost_total");
    let Some(Data::Sum(sum)) = &counter.data else { panic!("{counter:#?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, CUMULATIVE);
    let point = &sum.data_points[0];
    assert_eq!(point.value, Some(Value::AsDouble(0.25)));
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5_000, 9_000));
    assert_eq!(texts(&point.attributes), [("model", "m")]);
}

/// The buckets of OTLP are not cumulative, and one more than the bounds.
#[test]
fn a_histogram_has_explicit_bounds_and_single_buckets() {
    let metric = named("gen_ai.client.operation.duration");
    assert_eq!(metric.unit, "s");
    let point = histogram_of(&metric);
    assert_eq!(point.explicit_bounds, [0.5, 1.0]);
    assert_eq!(point.bucket_counts, [1, 3, 2]);
    assert_eq!((point.count, point.sum), (6, Some(4.5)));
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5_000, 9_000));
}

/// What the semantic conventions know has their names and attributes, and no other name beside it.
#[test]
fn metrics_of_the_conventions_have_their_names() {
    let names: Vec<String> = projected().into_iter().map(|metric| metric.name).collect();
    let expected = [
        "turnwire_runs_live",
        "turnwire_cost_total",
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "mcp.client.operation.duration",
        "turnwire_tool_call_duration_seconds",
    ];
    assert_eq!(names, expected);
    let duration = named("gen_ai.client.operation.duration");
    let expected = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "m"),
    ];
    assert_eq!(texts(&histogram_of(&duration).attributes), expected);
    let tokens = named("gen_ai.client.token.usage");
    assert_eq!(tokens.unit, "{token}");
    let expected = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "other"),
        ("gen_ai.token.type", "input"),
    ];
    assert_eq!(texts(&histogram_of(&tokens).attributes), expected);
    let calls = named("mcp.client.operation.duration");
    let expected = [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("turnwire.tool.server", "docs"),
    ];
    assert_eq!(texts(&histogram_of(&calls).attributes), expected);
    let others = named("turnwire_tool_call_duration_seconds");
    let expected = [("kind", "function"), ("server", "")];
    assert_eq!(texts(&histogram_of(&others).attributes), expected);
}
