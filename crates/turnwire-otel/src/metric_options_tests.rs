use super::*;
use crate::receiver::{ENDPOINT, SERVICE_NAME};

fn read(variables: &[(&str, &'static str)]) -> Result<Option<MetricOptions>, VariableError> {
    let get = |name: &str| variables.iter().find(|(known, _)| *known == name);
    MetricOptions::read(|name| get(name).map(|(_, value)| *value))
}

fn with(more: &[(&str, &'static str)]) -> MetricOptions {
    read(&[&[(ENDPOINT, "http://127.0.0.1:4318/")], more].concat()).unwrap().unwrap()
}

/// Nothing is exported unless the operator says where to, and does not say no.
#[test]
fn metrics_are_exported_only_if_wanted() {
    assert_eq!(read(&[]), Ok(None));
    let endpoint = (ENDPOINT, "http://127.0.0.1:4318");
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "prometheus"),
    ] {
        assert_eq!(read(&[endpoint, (name, value)]), Ok(None), "{name}");
    }
    let listed = [endpoint, ("OTEL_METRICS_EXPORTER", "prometheus, otlp")];
    assert!(read(&listed).unwrap().is_some());
    // This is about traces.
    assert!(read(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().is_some());
}

#[test]
fn the_defaults_are_those_of_the_specification() {
    let options = with(&[]);
    assert_eq!(options.receiver.endpoint.as_str(), "http://127.0.0.1:4318/v1/metrics");
    assert_eq!(options.receiver.timeout, Duration::from_secs(10));
    assert_eq!(options.interval, Duration::from_mins(1));
    assert_eq!(options.receiver.resource["service.name"], "turnwire");
    assert!(!options.receiver.compresses && options.receiver.headers.is_empty());
}

#[test]
fn the_variables_of_metrics_come_first() {
    let options = with(&[
        (METRICS.endpoint, "https://collector.example/m"),
        (METRICS.headers[0], "api-key=one%20two"),
        (METRICS.headers[1], "z=z"),
        (METRICS.timeout[1], "7000"),
        (METRICS.export_timeout, "6000"),
        (METRICS.compression[0], "gzip"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        (SERVICE_NAME, "agents"),
        (INTERVAL, "5"),
        (TEMPORALITY, "Cumulative"),
    ]);
    let receiver = &options.receiver;
    assert_eq!(receiver.endpoint.as_str(), "https://collector.example/m");
    assert_eq!(receiver.headers["api-key"], "one two");
    assert_eq!(receiver.headers.len(), 1);
    assert_eq!(receiver.timeout, Duration::from_secs(6));
    assert!(receiver.compresses);
    assert_eq!(receiver.resource["service.name"], "agents");
    assert_eq!(receiver.resource["deployment.environment.name"], "test");
    assert_eq!(options.interval, SHORTEST_INTERVAL);
    let rare = with(&[(INTERVAL, "18446744073709551615"), (TEMPORALITY, "delta")]);
    assert_eq!(rare.interval, LONGEST_INTERVAL);
}

/// A value that cannot be used is named, and never repeated where it may be a secret.
#[test]
fn wrong_values_are_errors_without_secrets() {
    for (name, value) in [
        (METRICS.exporter, "console"),
        (METRICS.protocol[1], "grpc"),
        (METRICS.compression[0], "zstd"),
        (METRICS.headers[0], "hunter2"),
        (METRICS.headers[1], "key=hunter2%0A"),
        (METRICS.timeout[0], "soon"),
        (METRICS.endpoint, "ftp://user:hunter2@x"),
        (TEMPORALITY, "sometimes"),
        (METRICS.exporter, "otlp,console"),
        (INTERVAL, "often"),
    ] {
        let error = read(&[(ENDPOINT, "http://127.0.0.1:4318"), (name, value)]).unwrap_err();
        assert_eq!(error.name, name);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let options = with(&[
        (METRICS.headers[0], "key=hunter2"),
        (METRICS.endpoint, "http://user:hunter2@x/t?key=hunter2"),
    ]);
    assert!(!format!("{options:?}").contains("hunter2"));
}
