use std::collections::BTreeMap;

use super::*;
use crate::receiver::{ENDPOINT, SERVICE_NAME};

const EXPORTER: &str = TRACES.exporter;
const TRACES_ENDPOINT: &str = TRACES.endpoint;
const PROTOCOL: [&str; 2] = TRACES.protocol;
const HEADERS: [&str; 2] = TRACES.headers;
const TIMEOUT: [&str; 2] = TRACES.timeout;
const COMPRESSION: [&str; 2] = TRACES.compression;
const DISABLED: &str = "OTEL_SDK_DISABLED";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

fn read(variables: &[(&str, &'static str)]) -> Result<Option<TraceOptions>, VariableError> {
    let variables: BTreeMap<String, &str> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    TraceOptions::read(|name| variables.get(name).copied())
}

fn with(more: &[(&str, &'static str)]) -> TraceOptions {
    let endpoint = (ENDPOINT, "http://127.0.0.1:4318/");
    read(&[&[endpoint], more].concat()).unwrap().unwrap()
}

/// Nothing is exported unless the operator says where to.
#[test]
fn there_is_no_export_without_an_endpoint() {
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[(SERVICE_NAME, "x"), (EXPORTER, "otlp")]), Ok(None));
    let endpoint = (ENDPOINT, "http://127.0.0.1:4318");
    assert_eq!(read(&[endpoint, (DISABLED, "true")]), Ok(None));
    assert_eq!(read(&[endpoint, (EXPORTER, "none")]), Ok(None));
}

/// The variables have the defaults of the specification.
#[test]
fn the_defaults_are_those_of_the_specification() {
    let options = with(&[]);
    assert_eq!(options.receiver.endpoint.as_str(), "http://127.0.0.1:4318/v1/traces");
    assert_eq!(options.receiver.timeout, Duration::from_secs(10));
    assert_eq!(options.delay, Duration::from_secs(5));
    assert_eq!((options.max_queue, options.max_batch), (2048, 512));
    assert_eq!(options.sampler, Sampler { ratio: 1.0, follows_parent: true });
    assert_eq!(options.receiver.resource["service.name"], "turnwire");
    assert!(
        !options.captures_contents
            && !options.receiver.compresses
            && options.receiver.headers.is_empty()
    );
}

#[test]
fn the_variables_of_traces_come_first() {
    let options = with(&[
        (TRACES_ENDPOINT, "https://collector.example/t"),
        (HEADERS[0], "api-key=one%20two, x=y"),
        (HEADERS[1], "z=z"),
        (TIMEOUT[1], "7000"),
        (COMPRESSION[1], "gzip"),
        (RESOURCE, "service.name=ignored,deployment.environment.name=test"),
        (SERVICE_NAME, "agents"),
        (SAMPLER, "traceidratio"),
        (SAMPLER_ARG, "0.25"),
        (DELAY, "100"),
        (MAX_QUEUE, "10"),
        (MAX_BATCH, "20"),
        (CONTENTS, "true"),
    ]);
    assert_eq!(options.receiver.endpoint.as_str(), "https://collector.example/t");
    assert_eq!(options.receiver.headers["api-key"], "one two");
    assert_eq!(options.receiver.headers.len(), 2);
    assert_eq!(options.receiver.timeout, Duration::from_secs(7));
    assert!(options.receiver.compresses);
    assert_eq!(options.receiver.resource["service.name"], "agents");
    assert_eq!(options.receiver.resource["deployment.environment.name"], "test");
    assert_eq!(options.sampler, Sampler { ratio: 0.25, follows_parent: false });
    assert_eq!((options.max_queue, options.max_batch), (10, 10));
    assert_eq!(options.delay, Duration::from_millis(100));
    assert!(options.captures_contents);
}

/// A value that cannot be used is named, and never repeated where it may be a secret.
#[test]
fn wrong_values_are_errors_without_secrets() {
    let endpoint = (ENDPOINT, "http://127.0.0.1:4318");
    for (name, value) in [
        (EXPORTER, "console"),
        (PROTOCOL[0], "grpc"),
        (COMPRESSION[1], "zstd"),
        (HEADERS[1], "hunter2"),
        (HEADERS[1], "key=hunter2%0A"),
        (TIMEOUT[0], "soon"),
        (SAMPLER, "sometimes"),
        (MAX_QUEUE, "-1"),
        (CONTENTS, "perhaps"),
        (TRACES_ENDPOINT, "ftp://user:hunter2@x"),
    ] {
        let error = read(&[endpoint, (name, value)]).unwrap_err();
        assert_eq!(error.name, name);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let ratio = [endpoint, (SAMPLER, "traceidratio"), (SAMPLER_ARG, "2")];
    assert_eq!(read(&ratio).unwrap_err().name, SAMPLER_ARG);
    let options = with(&[(HEADERS[1], "key=hunter2")]);
    assert!(!format!("{options:?}").contains("hunter2"));
    let options = with(&[(TRACES_ENDPOINT, "http://user:hunter2@x/t?key=hunter2")]);
    assert!(!format!("{options:?}").contains("hunter2"));
}
