//! HTTP client for all providers.
//!
//! Sends one request and passes the bytes of the response to a [`Translator`]. Retries and
//! timeouts, except for connecting, are in the engine and in `upstreams`.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use futures::{Stream, StreamExt, stream};
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde::Serialize;
use thiserror::Error;
use tracing::{debug, warn};
use turnwire_contract::{ModelError, ModelStream, TraceContext};
use turnwire_http::chain;

use crate::{
    provider_error::{Fault, fault_of_status, shortened},
    seal::Origin,
    secret::{Secret, hidden_in},
    translator::{Dialect, Translated, Translator},
};

/// Default timeout of a connection attempt.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Header of OpenAI with the delay in milliseconds, besides `Retry-After`.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Header of OpenAI and Anthropic that says whether a retry can help.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Headers of W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// An endpoint of a provider.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    secret: Option<Secret>,
    /// Whether the model is set by the operator, not by the request.
    names_model: bool,
    base_url: String,
}

impl Endpoint {
    /// Creates the endpoint at `path` below `base_url`.
    pub(crate) fn new(
        base_url: &str,
        path: &str,
        connect_timeout: Duration,
    ) -> Result<Self, SetupError> {
        let not_a_url = || SetupError::BaseUrl(base_url.to_owned());
        let base = Url::parse(base_url).map_err(|_| not_a_url())?;
        let address = format!("{}{path}", base_url.trim_end_matches('/'));
        let url = Url::parse(&address).map_err(|_| not_a_url())?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(not_a_url());
        }
        let client = turnwire_http::client()
            .connect_timeout(connect_timeout)
            // A redirect would forward the key to another host.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| SetupError::Client(chain(&error)))?;
        let headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        let base_url = base_url.to_owned();
        Ok(Self { client, url, headers, secret: None, names_model: false, base_url })
    }

    /// Adds a header without a secret.
    pub(crate) fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Records whether the operator sets the model.
    pub(crate) fn with_model(mut self, model: Option<&str>) -> Self {
        self.names_model = model.is_some();
        self
    }

    /// Adds the header `name` with `prefix` and the key.
    pub(crate) fn with_key(
        mut self,
        name: HeaderName,
        prefix: &str,
        key: Option<Secret>,
    ) -> Result<Self, SetupError> {
        if let Some(key) = &key {
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.reveal()))
                .map_err(|_| SetupError::ApiKey)?;
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self.secret = key;
        Ok(self)
    }

    /// Returns whose reasoning may be given back to `model`.
    pub(crate) fn origin(&self, model: &str) -> Origin {
        Origin::new(&self.base_url, self.secret.as_ref().map(Secret::reveal), model)
    }

    /// Sends the body, and returns the response as a stream of parts. A provider that refuses the
    /// reasoning in the request is asked once more without it: `body` is told whether to give
    /// reasoning back. `dialect` reads the answer to a body.
    pub(crate) async fn ask<B, D>(
        &self,
        body: impl Fn(bool) -> B,
        dialect: impl FnOnce(&B) -> D,
        trace: Option<&TraceContext>,
    ) -> Result<ModelStream, ModelError>
    where
        B: Serialize,
        D: Dialect + Send + 'static,
    {
        let mut sent = body(true);
        let mut response = self.post(&sent, trace).await?;
        if !response.status().is_success() {
            let fault = refusal(response).await;
            if !fault.is_about_reasoning {
                return Err(self.model_error(fault));
            }
            warn!("the provider refused the reasoning in the conversation and is asked without it");
            self.log(&fault);
            sent = body(false);
            response = self.post(&sent, trace).await?;
        }
        if !response.status().is_success() {
            return Err(self.model_error(refusal(response).await));
        }
        let dialect = dialect(&sent);
        let endpoint = self.clone();
        let parts = translated(response.bytes_stream(), Translator::new(dialect));
        Ok(Box::pin(parts.map(move |part| part.map_err(|fault| endpoint.model_error(fault)))))
    }

    async fn post(
        &self,
        body: &impl Serialize,
        trace: Option<&TraceContext>,
    ) -> Result<Response, ModelError> {
        let mut headers = self.headers.clone();
        headers.extend(trace.into_iter().flat_map(trace_headers));
        let request = self.client.post(self.url.clone()).headers(headers).json(body);
        request.send().await.map_err(|error| out_of_reach(error.without_url()))
    }

    /// Converts a fault to an error. The provider's text is only logged, without our key, which
    /// some providers quote.
    fn model_error(&self, fault: Fault) -> ModelError {
        self.log(&fault);
        match fault.error {
            ModelError::UnknownModel { message } if self.names_model => {
                ModelError::Misconfigured { message }
            }
            error => error,
        }
    }

    fn log(&self, Fault { error, provider_text, .. }: &Fault) {
        if let Some(text) = provider_text {
            let text = self.secret.as_ref().map_or(text.clone(), |key| hidden_in(text, key));
            debug!(%error, provider_text = %text, "provider error");
        }
    }
}

/// The headers of a trace context.
fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let state = trace.tracestate.as_ref().map(|state| (TRACESTATE, state));
    let fields = [(TRACEPARENT, &trace.traceparent)].into_iter().chain(state);
    fields.filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)))
}

fn out_of_reach(error: reqwest::Error) -> ModelError {
    if error.is_builder() {
        let message = format!("the request could not be built: {}", chain(&error));
        return ModelError::Rejected { message };
    }
    ModelError::Unavailable {
        message: format!("cannot connect to the provider: {}", shortened(&chain(&error))),
        retry_after: None,
    }
}

/// Why an adapter could not be created. The operator has to fix the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// The base URL is invalid.
    #[error("`{0}` is not an http or https URL")]
    BaseUrl(String),
    /// The key is not valid in a header.
    #[error("the API key contains characters that no header can carry")]
    ApiKey,
    /// The HTTP client could not be created, usually because there are no root certificates.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

fn translated<D: Dialect>(
    bytes: impl Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin,
    translator: Translator<D>,
) -> impl Stream<Item = Translated> {
    let state = StreamedResponse { bytes: Some(bytes), translator, waiting: VecDeque::new() };
    stream::unfold(state, |mut answer| async {
        let part = answer.next().await?;
        Some((part, answer))
    })
}

/// A response in progress.
struct StreamedResponse<B, D> {
    /// Dropped at the end of the answer, so that the provider can stop.
    bytes: Option<B>,
    translator: Translator<D>,
    /// Parts from the last bytes that are not returned yet.
    waiting: VecDeque<Translated>,
}

impl<B, D> StreamedResponse<B, D>
where
    B: Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin,
    D: Dialect,
{
    async fn next(&mut self) -> Option<Translated> {
        loop {
            if let Some(part) = self.waiting.pop_front() {
                return Some(part);
            }
            let parts = match self.bytes.as_mut()?.next().await {
                Some(Ok(bytes)) => self.translator.push(&bytes),
                Some(Err(error)) => {
                    let reason = format!(
                        "the connection was lost: {}",
                        shortened(&chain(&error.without_url()))
                    );
                    self.end(&reason)
                }
                None => self.end("the connection closed before the end of the answer"),
            };
            if self.translator.is_over() {
                self.bytes = None;
            }
            self.waiting.extend(parts);
        }
    }

    fn end(&mut self, reason: &str) -> Vec<Translated> {
        self.bytes = None;
        self.translator.finish(reason)
    }
}

async fn refusal(response: Response) -> Fault {
    let status = response.status().as_u16();
    let retry_after = asked_wait(response.headers(), SystemTime::now());
    let is_final = response.headers().get(SHOULD_RETRY).is_some_and(|value| value == "false");
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(Ok(more)) = bytes.next().await {
        body.extend_from_slice(&more);
        if body.len() > MAX_ERROR_BYTES {
            break;
        }
    }
    let fault = fault_of_status(status, retry_after, &String::from_utf8_lossy(&body));
    if is_final { fault.not_retried() } else { fault }
}

/// Returns the delay requested by the provider. OpenAI also sends it in milliseconds.
fn asked_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let millis = text(RETRY_AFTER_MS).and_then(|value| value.trim().parse().ok());
    let millis = millis.map(Duration::from_millis);
    millis.or_else(|| waiting_time(text(RETRY_AFTER)?, now))
}

/// Parses a `Retry-After` header: seconds or a date.
fn waiting_time(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
