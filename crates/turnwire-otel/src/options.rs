//! The standard variables of OpenTelemetry, as far as they concern traces.
//!
//! Nothing is exported without an endpoint. A value that cannot be used is an error: a server that
//! starts and exports nothing would be noticed when the trace is needed.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use percent_encoding::percent_decode_str;
use reqwest::Url;
use thiserror::Error;
use turnwire_contract::Sampler;

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const COMPRESSION: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const EXPORT_TIMEOUT: &str = "OTEL_BSP_EXPORT_TIMEOUT";
/// A longer queue would only take memory.
const LARGEST_QUEUE: usize = 1 << 20;
const MAX_QUEUE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
const MAX_BATCH: &str = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE";
const CONTENTS: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Attribute with the name of the service.
const SERVICE: &str = "service.name";

/// Where spans go, and which.
#[derive(Clone, PartialEq)]
pub struct TraceOptions {
    /// URL that receives spans.
    pub endpoint: Url,
    /// Headers of each request; their values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Maximum time for a batch to be accepted, with all attempts.
    pub timeout: Duration,
    /// Whether batches are compressed with gzip.
    pub compresses: bool,
    /// Attributes of this process.
    pub resource: BTreeMap<String, String>,
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

impl fmt::Debug for TraceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceOptions")
            .field("receiver", &self.receiver())
            .field("headers", &self.headers.keys())
            .field("sampler", &self.sampler)
            .field("captures_contents", &self.captures_contents)
            .finish_non_exhaustive()
    }
}

/// A variable with a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name}: {reason}")]
pub struct VariableError {
    /// The variable.
    pub name: &'static str,
    /// What it must be. The value is not repeated if it may be a secret.
    pub reason: String,
}

impl VariableError {
    fn new(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into() }
    }
}

/// Looks a variable up.
struct Variables<'a, F: Fn(&str) -> Option<&'a str>>(F);

impl<'a, F: Fn(&str) -> Option<&'a str>> Variables<'a, F> {
    fn get(&self, name: &str) -> Option<&'a str> {
        (self.0)(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    fn number<T: FromStr>(&self, name: &'static str, usual: T) -> Result<T, VariableError> {
        let Some(text) = self.get(name) else { return Ok(usual) };
        text.parse().map_err(|_| VariableError::new(name, format!("`{text}` is not a number")))
    }

    fn millis(&self, names: &[&'static str], usual: u64) -> Result<Duration, VariableError> {
        let name = self.first(names).map_or("", |(name, _)| name);
        self.number(name, usual).map(Duration::from_millis)
    }

    /// Reads `name=value,…` with percent-encoded values.
    fn pairs(&self, names: &[&'static str]) -> Result<BTreeMap<String, String>, VariableError> {
        let Some((name, text)) = self.first(names) else { return Ok(BTreeMap::new()) };
        let wrong = || VariableError::new(name, "it must be `name=value,name=value`");
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let read = |pair: &str| {
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let decoded = |text: &str| {
                let text = percent_decode_str(text.trim()).decode_utf8().map_err(|_| wrong())?;
                Ok::<_, VariableError>(text.into_owned())
            };
            Ok((decoded(key)?, decoded(value)?))
        };
        pairs.map(read).collect()
    }
}

impl TraceOptions {
    /// Reads the variables. Returns `None` if they do not ask for traces.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, VariableError> {
        let variables = Variables(get);
        let is_disabled = variables.get(DISABLED).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        if is_disabled || !is_wanted(&variables)? {
            return Ok(None);
        }
        let Some(endpoint) = endpoint(&variables)? else { return Ok(None) };
        let compresses = check_format(&variables)?;
        // A batch cannot be larger than the queue.
        let max_queue = variables.number(MAX_QUEUE, 2048)?.clamp(1, LARGEST_QUEUE);
        let max_batch = variables.number(MAX_BATCH, 512)?.clamp(1, max_queue);
        let timeout = variables.millis(&TIMEOUT, 10_000)?;
        Ok(Some(Self {
            endpoint,
            headers: headers(&variables)?,
            timeout: timeout.min(variables.millis(&[EXPORT_TIMEOUT], 30_000)?),
            compresses,
            resource: resource(&variables)?,
            sampler: sampler(&variables)?,
            delay: variables.millis(&[DELAY], 5_000)?,
            max_queue,
            max_batch,
            captures_contents: captures_contents(&variables)?,
        }))
    }

    /// The receiver, without what may be a secret in its URL.
    pub fn receiver(&self) -> String {
        let mut url = self.endpoint.clone();
        // These fail for URLs that have none.
        let _ = (url.set_username(""), url.set_password(None));
        url.set_query(None);
        url.to_string()
    }
}

fn is_wanted<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<bool, VariableError> {
    match variables.get(EXPORTER) {
        None | Some("otlp") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => {
            Err(VariableError::new(EXPORTER, format!("`{other}`: there are `otlp`, `none`")))
        }
    }
}

fn endpoint<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<Option<Url>, VariableError> {
    let (name, text) = match (variables.get(TRACES_ENDPOINT), variables.get(ENDPOINT)) {
        (Some(text), _) => (TRACES_ENDPOINT, text.to_owned()),
        (None, Some(base)) => (ENDPOINT, format!("{}/v1/traces", base.trim_end_matches('/'))),
        (None, None) => return Ok(None),
    };
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let wrong = "it must be an http or https URL, such as http://127.0.0.1:4318";
    url.map(Some).ok_or_else(|| VariableError::new(name, wrong))
}

/// Checks the protocol, and returns whether batches are compressed.
fn check_format<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<bool, VariableError> {
    if let Some((name, protocol)) = variables.first(&PROTOCOL)
        && protocol != "http/protobuf"
    {
        let reason = format!(
            "`{protocol}`: there is only `http/protobuf`, which receivers usually take at port 4318"
        );
        return Err(VariableError::new(name, reason));
    }
    match variables.first(&COMPRESSION) {
        None | Some((_, "none")) => Ok(false),
        Some((_, "gzip")) => Ok(true),
        Some((name, other)) => {
            Err(VariableError::new(name, format!("`{other}`: there are `gzip`, `none`")))
        }
    }
}

fn headers<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<BTreeMap<String, String>, VariableError> {
    let headers = variables.pairs(&HEADERS)?;
    let is_header = |name: &str, value: &str| {
        reqwest::header::HeaderName::from_str(name).is_ok()
            && reqwest::header::HeaderValue::from_str(value).is_ok()
    };
    if headers.iter().all(|(name, value)| is_header(name, value)) {
        return Ok(headers);
    }
    let name = variables.first(&HEADERS).map_or("", |(name, _)| name);
    Err(VariableError::new(name, "a name or value in it cannot be sent as a header"))
}

fn resource<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<BTreeMap<String, String>, VariableError> {
    let mut resource = variables.pairs(&[RESOURCE])?;
    if let Some(name) = variables.get(SERVICE_NAME) {
        resource.insert(SERVICE.to_owned(), name.to_owned());
    }
    resource.entry(SERVICE.to_owned()).or_insert_with(|| "turnwire".to_owned());
    let version = resource.entry("service.version".to_owned());
    version.or_insert_with(|| env!("CARGO_PKG_VERSION").to_owned());
    Ok(resource)
}

fn sampler<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<Sampler, VariableError> {
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

fn captures_contents<'a>(
    variables: &Variables<'a, impl Fn(&str) -> Option<&'a str>>,
) -> Result<bool, VariableError> {
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
