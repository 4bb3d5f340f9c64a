//! A receiver that speaks OTLP over HTTP, as the standard variables describe it: the same for
//! traces and for metrics, with variables of its own for each of them.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use reqwest::{
    Client, Url,
    header::{HeaderName, HeaderValue},
    redirect,
};
use thiserror::Error;
use turnwire_http::chain;

use crate::variables::{VariableError, Variables};

const DISABLED: &str = "OTEL_SDK_DISABLED";
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
pub(crate) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Attribute with the name of the service.
const SERVICE: &str = "service.name";

/// How long the last data of a process may take.
pub(crate) const LAST_EXPORT: Duration = Duration::from_secs(3);

/// Why data cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExportError {
    /// The HTTP client or the exporter cannot be set up.
    #[error("cannot set up the export to OpenTelemetry: {0}")]
    Setup(String),
    /// The receiver did not accept the data.
    #[error("{0}")]
    Refused(String),
}

/// The names of what is said about traces, or about metrics. Of two names, the first comes first.
#[derive(Debug)]
pub(crate) struct Signal {
    /// Added to the endpoint of all signals.
    pub(crate) path: &'static str,
    pub(crate) exporter: &'static str,
    /// Exporters that are not this one, besides `none`.
    pub(crate) others: &'static [&'static str],
    pub(crate) endpoint: &'static str,
    pub(crate) protocol: [&'static str; 2],
    pub(crate) headers: [&'static str; 2],
    pub(crate) timeout: [&'static str; 2],
    pub(crate) compression: [&'static str; 2],
    /// A further limit of the time of an export.
    pub(crate) export_timeout: &'static str,
}

/// Where data goes, and who sends it.
#[derive(Clone, PartialEq)]
pub struct ReceiverOptions {
    /// URL that receives the data.
    pub endpoint: Url,
    /// Headers of each request; their values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Maximum time for an export to be accepted, with all attempts.
    pub timeout: Duration,
    /// Whether requests are compressed with gzip.
    pub compresses: bool,
    /// Attributes of this process.
    pub resource: BTreeMap<String, String>,
}

impl fmt::Debug for ReceiverOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverOptions")
            .field("endpoint", &self.shown())
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

impl ReceiverOptions {
    /// Reads the variables of a signal. Returns `None` if they do not ask for its export.
    pub(crate) fn read(
        variables: &Variables<'_, '_>,
        signal: &Signal,
    ) -> Result<Option<Self>, VariableError> {
        let is_disabled = variables.get(DISABLED).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        if is_disabled || !is_wanted(variables, signal)? {
            return Ok(None);
        }
        let Some(endpoint) = endpoint(variables, signal)? else { return Ok(None) };
        let compresses = check_format(variables, signal)?;
        let timeout = variables.millis(&signal.timeout, 10_000)?;
        Ok(Some(Self {
            endpoint,
            headers: headers(variables, signal)?,
            timeout: timeout.min(variables.millis(&[signal.export_timeout], 30_000)?),
            compresses,
            resource: resource(variables)?,
        }))
    }

    /// The URL, without what may be a secret in it.
    pub fn shown(&self) -> String {
        let mut url = self.endpoint.clone();
        // These fail for URLs that have none.
        let _ = (url.set_username(""), url.set_password(None));
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    }

    /// The client for this receiver, without its headers.
    pub(crate) fn client(&self) -> Result<Client, ExportError> {
        turnwire_http::client()
            .timeout(self.timeout)
            // A redirect would forward the headers to another host.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| ExportError::Setup(chain(&error)))
    }
}

fn is_wanted(variables: &Variables<'_, '_>, signal: &Signal) -> Result<bool, VariableError> {
    // A list, as a host may have it for all of its programs.
    let names = variables.get(signal.exporter).unwrap_or("otlp").split(',').map(str::trim);
    let mut is_wanted = false;
    for name in names {
        match name {
            "otlp" => is_wanted = true,
            "none" => {}
            other if signal.others.contains(&other) => {}
            other => {
                let wrong = format!("`{other}`: there are `otlp`, `none`");
                return Err(VariableError::new(signal.exporter, wrong));
            }
        }
    }
    Ok(is_wanted)
}

fn endpoint(variables: &Variables<'_, '_>, signal: &Signal) -> Result<Option<Url>, VariableError> {
    let (name, text) = match (variables.get(signal.endpoint), variables.get(ENDPOINT)) {
        (Some(text), _) => (signal.endpoint, text.to_owned()),
        (None, Some(base)) => (ENDPOINT, format!("{}{}", base.trim_end_matches('/'), signal.path)),
        (None, None) => return Ok(None),
    };
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let wrong = "it must be an http or https URL, such as http://127.0.0.1:4318";
    url.map(Some).ok_or_else(|| VariableError::new(name, wrong))
}

/// Checks the protocol, and returns whether requests are compressed.
fn check_format(variables: &Variables<'_, '_>, signal: &Signal) -> Result<bool, VariableError> {
    if let Some((name, protocol)) = variables.first(&signal.protocol)
        && protocol != "http/protobuf"
    {
        let reason = format!(
            "`{protocol}`: there is only `http/protobuf`, which receivers usually take at port 4318"
        );
        return Err(VariableError::new(name, reason));
    }
    match variables.first(&signal.compression) {
        None | Some((_, "none")) => Ok(false),
        Some((_, "gzip")) => Ok(true),
        Some((name, other)) => {
            Err(VariableError::new(name, format!("`{other}`: there are `gzip`, `none`")))
        }
    }
}

fn headers(
    variables: &Variables<'_, '_>,
    signal: &Signal,
) -> Result<BTreeMap<String, String>, VariableError> {
    let headers = variables.pairs(&signal.headers)?;
    let is_header = |name: &str, value: &str| {
        HeaderName::from_str(name).is_ok() && HeaderValue::from_str(value).is_ok()
    };
    if headers.iter().all(|(name, value)| is_header(name, value)) {
        return Ok(headers);
    }
    let name = variables.first(&signal.headers).map_or("", |(name, _)| name);
    Err(VariableError::new(name, "a name or value in it cannot be sent as a header"))
}

fn resource(variables: &Variables<'_, '_>) -> Result<BTreeMap<String, String>, VariableError> {
    let mut resource = variables.pairs(&[RESOURCE])?;
    if let Some(name) = variables.get(SERVICE_NAME) {
        resource.insert(SERVICE.to_owned(), name.to_owned());
    }
    resource.entry(SERVICE.to_owned()).or_insert_with(|| "turnwire".to_owned());
    let version = resource.entry("service.version".to_owned());
    version.or_insert_with(|| env!("CARGO_PKG_VERSION").to_owned());
    Ok(resource)
}
