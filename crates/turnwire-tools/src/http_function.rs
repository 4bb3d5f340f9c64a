//! Tools that call an HTTP API, described in the settings.
//!
//! The operator sets the URL, the model supplies the arguments. An argument may be part of the path
//! or the query, always percent-encoded, and never part of the host. So a request always goes to
//! the operator's host. The other arguments are sent in the query of a `GET` or `DELETE`, and in a
//! JSON body otherwise.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::{
    Client, Method, Request, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::{Map, Value};
use thiserror::Error;
use tracing::warn;
use turnwire_contract::{
    Effect, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
    TraceContext, partial_debug,
};
use turnwire_http::{ReadError, chain, read_at_most};

use crate::{
    Result,
    secret::{Secret, is_secret_name},
};

/// Default maximum size of a response in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Default timeout of a call.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum duration of a connection attempt; at most half of the timeout.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum number of characters of an error response that the model receives.
const MAX_ERROR_CHARS: usize = 500;
/// Maximum number of redirects on the same origin.
const MAX_REDIRECTS: usize = 3;
/// Header with the idempotency key, which is the same for every attempt of a call.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Characters to percent-encode: all except the unreserved ones of RFC 3986.
const MEANINGFUL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Settings of an HTTP function.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpFunctionOptions {
    /// Name of the tool, as the model calls it.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// HTTP method.
    pub method: HttpMethod,
    /// URL. `{name}` in the path or query is replaced by the argument of that name.
    pub url: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Effect class, which decides whether a call may be repeated.
    pub effect: Effect,
    /// Whether each call needs approval.
    pub needs_approval: bool,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Headers of each request whose values are never logged.
    pub secret_headers: BTreeMap<String, Secret>,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Maximum size of a response in bytes.
    pub max_answer_bytes: usize,
}

impl HttpFunctionOptions {
    /// A function without arguments at `url`, with conservative defaults: calls are never repeated.
    pub fn new(name: impl Into<String>, method: HttpMethod, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            method,
            url: url.into(),
            parameters: ToolSpec::new("", "").parameters,
            effect: Effect::Once,
            needs_approval: false,
            headers: BTreeMap::new(),
            secret_headers: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
            max_answer_bytes: MAX_ANSWER_BYTES,
        }
    }

    /// Checks the settings without creating a client.
    pub fn check(&self) -> Result<(), HttpFunctionError> {
        Address::read(&self.url, &self.parameters)?;
        self.header_map().map(drop)
    }

    fn header_map(&self) -> Result<HeaderMap, HttpFunctionError> {
        let mut headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json, */*"))]);
        let plain = self.headers.iter().map(|(name, value)| (name, value.as_str(), false));
        let secret = self.secret_headers.iter().map(|(name, value)| (name, value.reveal(), true));
        for (name, value, is_secret) in plain.chain(secret) {
            let wrong = || HttpFunctionError::Header(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(is_secret);
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl HttpMethod {
    /// All methods, with their names.
    pub const NAMES: [(&str, Self); 5] = [
        ("GET", Self::Get),
        ("POST", Self::Post),
        ("PUT", Self::Put),
        ("PATCH", Self::Patch),
        ("DELETE", Self::Delete),
    ];

    fn has_body(self) -> bool {
        match self {
            Self::Get | Self::Delete => false,
            Self::Post | Self::Put | Self::Patch => true,
        }
    }
}

impl From<HttpMethod> for Method {
    fn from(method: HttpMethod) -> Self {
        match method {
            HttpMethod::Get => Self::GET,
            HttpMethod::Post => Self::POST,
            HttpMethod::Put => Self::PUT,
            HttpMethod::Patch => Self::PATCH,
            HttpMethod::Delete => Self::DELETE,
        }
    }
}

/// Why a function could not be created. The operator has to fix the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpFunctionError {
    /// The URL is invalid.
    #[error("`{0}` is not an http or https address without a user, a password and a `#`")]
    Url(String),
    /// A placeholder is in the host, so the model could choose the host.
    #[error("`{0}` stands before the path; only the path and the query may have placeholders")]
    PlaceholderInHost(String),
    /// Unbalanced braces.
    #[error("there is a `{{` without its `}}`, or the other way round")]
    Brace,
    /// A placeholder without an argument of that name.
    #[error("`{{{0}}}` has no property of that name in the parameters")]
    NoSuchArgument(String),
    /// A placeholder in the path whose argument is not required.
    #[error("`{{{0}}}` is part of the path, so it has to be in `required` of the parameters")]
    NotRequired(String),
    /// An invalid header.
    #[error("the header `{0}` has a name or a value that cannot be sent")]
    Header(String),
    /// The HTTP client could not be created, usually because there are no root certificates.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

/// A tool that calls an HTTP API.
pub struct HttpFunction {
    spec: ToolSpec,
    client: Client,
    address: Address,
    options: HttpFunctionOptions,
    headers: HeaderMap,
}

impl HttpFunction {
    /// Creates the tool. Sends no request.
    pub fn new(options: HttpFunctionOptions) -> Result<Self, HttpFunctionError> {
        let address = Address::read(&options.url, &options.parameters)?;
        let headers = options.header_map()?;
        let client = turnwire_http::client()
            // Shorter than the timeout, so that a call that times out was sent.
            .connect_timeout(MAX_CONNECT_TIME.min(options.timeout / 2))
            .redirect(redirect::Policy::custom(stay_at_home))
            // A proxy from the environment must not redirect the operator's URL.
            .no_proxy()
            .build()
            .map_err(|error| HttpFunctionError::Client(chain(&error)))?;
        let spec = ToolSpec {
            parameters: options.parameters.clone(),
            kind: ToolKind::Function,
            effect: options.effect,
            // Calls without side effects may be concurrent.
            parallel: options.effect == Effect::Pure,
            needs_approval: options.needs_approval,
            timeout: Some(options.timeout + Duration::from_secs(1)),
            telling_arguments: address.placeholders().map(str::to_owned).collect(),
            ..ToolSpec::new(options.name.as_str(), options.description.as_str())
        };
        Ok(Self { spec, client, address, options, headers })
    }

    fn request(&self, call: ToolRequest, trace: Option<&TraceContext>) -> Result<Request> {
        let (url, rest) = self.address.filled(call.arguments, self.options.method.has_body())?;
        let key = HeaderValue::try_from(call.idempotency_key)
            .map_err(|_| ToolError::failed("the idempotency key is not a valid header value"))?;
        let mut request = self
            .client
            .request(self.options.method.into(), url)
            .headers(self.headers.clone())
            .header(IDEMPOTENCY_KEY, key);
        if let Some(trace) = trace {
            request = request.header("traceparent", &trace.traceparent);
            let state = trace.tracestate.iter();
            request = state.fold(request, |request, state| request.header("tracestate", state));
        }
        if self.options.method.has_body() {
            request = request.json(&rest);
        }
        request.build().map_err(|error| {
            warn!(error = %error.without_url(), "request not built");
            ToolError::failed("the request could not be built")
        })
    }

    async fn ask(&self, request: Request) -> Result<ToolOutput> {
        let response = self.client.execute(request).await.map_err(out_of_reach)?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("text/plain").to_ascii_lowercase();
        if !status.is_success() {
            let page = read(response, self.options.max_answer_bytes).await.unwrap_or_default();
            return Err(self.refused(status, &self.without_keys(&page)));
        }
        if !is_text(&kind) {
            return Err(ToolError::failed(format!("the answer is `{kind}`, which is not text")));
        }
        let text = self.without_keys(&read(response, self.options.max_answer_bytes).await?);
        let structured = kind.contains("json").then(|| serde_json::from_str(&text).ok()).flatten();
        Ok(ToolOutput { structured, ..ToolOutput::text(text) })
    }

    fn refused(&self, status: StatusCode, page: &str) -> ToolError {
        let name = &self.spec.name;
        warn!(%status, function = %name, "HTTP function returned an error");
        let page: String = page.trim().chars().take(MAX_ERROR_CHARS).collect();
        let colon = if page.is_empty() { "" } else { ": " };
        let message = format!("it answered with status {}{colon}{page}", status.as_u16());
        match status {
            // A proxy lost the connection to the function, so the outcome is unknown.
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                ToolError::OutcomeUnknown(message)
            }
            status if is_passing(status) => ToolError::Transient(message),
            _ => ToolError::Failed(message),
        }
    }

    /// Removes keys from a response. Some servers quote the key or the whole request.
    fn without_keys(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let in_headers = self.options.secret_headers.values().map(Secret::reveal);
        for key in in_headers.chain(self.address.keys()) {
            // The part after `Bearer ` is also secret.
            for part in [key, key.rsplit(' ').next().unwrap_or(key)] {
                if part.len() >= SHORTEST_KEY && text.contains(part) {
                    text = text.replace(part, "***");
                }
            }
        }
        text
    }
}

/// Shorter parts are not removed, because they may occur in ordinary text.
const SHORTEST_KEY: usize = 8;

#[async_trait]
impl Tool for HttpFunction {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: ToolRequest, context: ToolContext) -> Result<ToolOutput> {
        let request = self.request(request, context.trace())?;
        let asking = tokio::time::timeout(self.options.timeout, self.ask(request));
        tokio::select! {
            biased;
            () = context.cancelled() => Err(ToolError::failed("the call was cancelled")),
            answer = asking => answer.unwrap_or_else(|_| {
                let seconds = self.options.timeout.as_secs_f64();
                Err(ToolError::OutcomeUnknown(format!("no response within {seconds} s")))
            }),
        }
    }
}

/// Whether a retry may succeed.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || ["json", "xml", "yaml", "urlencoded"].iter().any(|word| kind.contains(word))
}

/// Follows redirects only on the same origin, because the headers contain keys.
fn stay_at_home(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let (from, to) = (attempt.previous().first(), attempt.url());
    let is_home = from.is_some_and(|from| from.origin() == to.origin());
    if is_home && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

async fn read(response: Response, most: usize) -> Result<String> {
    let answer = read_at_most(response, most).await.map_err(|unread| match unread {
        ReadError::Broken(error) => out_of_reach(error),
        ReadError::TooLong => ToolError::failed(format!("the answer is longer than {most} bytes")),
    })?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn out_of_reach(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    warn!(?error, "HTTP function unreachable");
    if error.is_connect() {
        ToolError::Transient("cannot connect to the server".to_owned())
    } else {
        ToolError::OutcomeUnknown("the connection was lost before the response".to_owned())
    }
}

partial_debug!(HttpFunction { spec });

/// A URL with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    /// Scheme, host and port.
    origin: String,
    path: Vec<Piece>,
    /// Query parameters as written: name and value.
    query: Vec<(String, Vec<Piece>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Text from the operator.
    Fixed(String),
    /// Placeholder for this argument.
    Argument(String),
}

impl Address {
    fn read(url: &str, parameters: &Value) -> Result<Self, HttpFunctionError> {
        let wrong = || HttpFunctionError::Url(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let at = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(at);
        if host.contains(['{', '}']) || scheme.contains(['{', '}']) {
            return Err(HttpFunctionError::PlaceholderInHost(format!("{scheme}://{host}")));
        }
        let origin = format!("{scheme}://{host}");
        let parsed = Url::parse(&origin).map_err(|_| wrong())?;
        let is_plain = matches!(parsed.scheme(), "http" | "https")
            && parsed.has_host()
            && !host.contains('@')
            && !rest.contains(['#', '\\']);
        if !is_plain {
            return Err(wrong());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name.contains(['{', '}']) {
                return Err(HttpFunctionError::Brace);
            }
            Ok((name.to_owned(), pieces(value)?))
        });
        let query = pairs.collect::<Result<_, _>>()?;
        let address = Self { origin, path: pieces(path)?, query };
        address.check(parameters)?;
        Ok(address)
    }

    /// Checks that every placeholder is an argument, and that those in the path are required.
    fn check(&self, parameters: &Value) -> Result<(), HttpFunctionError> {
        let properties = parameters.get("properties").and_then(Value::as_object);
        let required = parameters.get("required").and_then(Value::as_array);
        let is_known = |name: &str| properties.is_some_and(|known| known.contains_key(name));
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|known| known.as_str() == Some(name)))
        };
        if let Some(name) = self.placeholders().find(|name| !is_known(name)) {
            return Err(HttpFunctionError::NoSuchArgument(name.to_owned()));
        }
        let mut in_path = names(&self.path);
        match in_path.find(|name| !is_required(name)) {
            Some(name) => Err(HttpFunctionError::NotRequired(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the parts of the query that are keys by their names.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let secret = self.query.iter().filter(|(name, _)| is_secret_name(name));
        secret.flat_map(|(_, value)| value).filter_map(|piece| match piece {
            Piece::Fixed(text) => Some(text.as_str()),
            Piece::Argument(_) => None,
        })
    }

    fn placeholders(&self) -> impl Iterator<Item = &str> {
        names(&self.path).chain(self.query.iter().flat_map(|(_, value)| names(value)))
    }

    /// Returns the URL for these arguments, and the arguments that are not part of it. Without a
    /// body all of them are part of it.
    fn filled(
        &self,
        mut arguments: Map<String, Value>,
        has_body: bool,
    ) -> Result<(Url, Map<String, Value>)> {
        let mut text = self.origin.clone();
        text.push_str(&self.filled_path(&arguments)?);
        let mut pairs = Vec::new();
        for (name, value) in &self.query {
            pairs.extend(filled_pair(name, value, &arguments));
        }
        for name in self.placeholders() {
            arguments.shift_remove(name);
        }
        if !has_body {
            for (name, value) in std::mem::take(&mut arguments) {
                let name = encoded(&name);
                pairs.extend(
                    texts_of(&value).iter().map(|text| format!("{name}={}", encoded(text))),
                );
            }
        }
        if !pairs.is_empty() {
            text.push('?');
            text.push_str(&pairs.join("&"));
        }
        let url = Url::parse(&text).map_err(|_| {
            ToolError::InvalidArguments("they do not form a valid address".to_owned())
        })?;
        Ok((url, arguments))
    }

    fn filled_path(&self, arguments: &Map<String, Value>) -> Result<String> {
        let mut path = String::new();
        for piece in &self.path {
            match piece {
                Piece::Fixed(text) => path.push_str(text),
                Piece::Argument(name) => {
                    let text = arguments.get(name).and_then(scalar).filter(|text| !text.is_empty());
                    let text = text.ok_or_else(|| {
                        let message = format!("`{name}` must be a text or a number, and not empty");
                        ToolError::InvalidArguments(message)
                    })?;
                    path.push_str(&encoded(&text));
                }
            }
        }
        // A `.` or `..` segment would leave the operator's path, encoded or not.
        let is_climbing = |segment: &str| {
            let plain = percent_decode_str(segment).decode_utf8_lossy();
            plain == "." || plain == ".."
        };
        if self.path.len() > 1 && path.split('/').any(is_climbing) {
            let message = "an argument adds a `.` or `..` segment to the path";
            return Err(ToolError::InvalidArguments(message.to_owned()));
        }
        Ok(path)
    }
}

/// Returns the query parameter; none for a missing argument, several for a list.
fn filled_pair(name: &str, value: &[Piece], arguments: &Map<String, Value>) -> Vec<String> {
    if let [Piece::Argument(argument)] = value {
        let texts = arguments.get(argument).map(texts_of).unwrap_or_default();
        return texts.iter().map(|text| format!("{name}={}", encoded(text))).collect();
    }
    let mut text = format!("{name}=");
    for piece in value {
        match piece {
            Piece::Fixed(fixed) => text.push_str(fixed),
            Piece::Argument(argument) => {
                let value = arguments.get(argument).map(texts_of).unwrap_or_default();
                text.push_str(&encoded(&value.join(",")));
            }
        }
    }
    vec![text]
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, MEANINGFUL).to_string()
}

/// Formats a value for the path.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Formats a value for the query: a list gives several parameters, an object JSON, null none.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().flat_map(texts_of).collect(),
        Value::Object(_) => vec![value.to_string()],
        Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value).into_iter().collect(),
    }
}

fn names(pieces: &[Piece]) -> impl Iterator<Item = &str> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Argument(name) => Some(name.as_str()),
        Piece::Fixed(_) => None,
    })
}

fn pieces(text: &str) -> Result<Vec<Piece>, HttpFunctionError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(HttpFunctionError::Brace)?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err(HttpFunctionError::Brace);
        }
        if !before.is_empty() {
            pieces.push(Piece::Fixed(before.to_owned()));
        }
        pieces.push(Piece::Argument(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return Err(HttpFunctionError::Brace);
    }
    if !rest.is_empty() {
        pieces.push(Piece::Fixed(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
#[path = "http_function_tests.rs"]
mod tests;
