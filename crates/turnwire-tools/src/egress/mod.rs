//! HTTP client for URLs from a model or a request, and for receivers of webhooks (A4).
//!
//! Such a URL may target what only this server can reach: the loopback interface, the private
//! network, a cloud's metadata service. [`rules`] checks the URL, [`address`] lists the denied
//! networks, and `resolver` ensures that a connection goes to the address that was checked: a name
//! is resolved once per connection, all its addresses are checked, and the name is not resolved
//! again. Redirects are followed here, one by one, with the same checks.
//!
//! Other URLs from the operator's settings do not use this client.

pub mod address;
mod resolver;
pub mod rules;

use std::{error::Error, sync::Arc, time::Duration};

use ipnet::IpNet;
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER},
    redirect,
};
use thiserror::Error;
use tracing::{debug, warn};
use turnwire_http::{ReadError, chain, read_at_most};

use self::resolver::CheckedResolver;
pub use self::{
    resolver::{Lookup, SystemLookup},
    rules::{Rules, UrlRefusal},
};

use turnwire_contract::partial_debug;

/// Maximum number of redirects per request.
const MAX_REDIRECTS: usize = 5;

/// Settings of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressOptions {
    /// Networks that are allowed although they are not public.
    pub open_networks: Vec<IpNet>,
    /// Allowed ports.
    pub ports: Vec<u16>,
    /// Maximum duration of a request, including redirects.
    pub timeout: Duration,
    /// Maximum duration of a connection attempt.
    pub connect_timeout: Duration,
    /// Maximum size of a response body in bytes.
    pub max_bytes: usize,
}

impl Default for EgressOptions {
    /// Allows public networks only, on ports 80 and 443.
    fn default() -> Self {
        Self {
            open_networks: Vec::new(),
            ports: vec![80, 443],
            timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(5),
            max_bytes: 2 * 1024 * 1024,
        }
    }
}

impl EgressOptions {
    /// Checks a URL as a client with these options does, except for the addresses of a name.
    pub fn check(&self, address: &str) -> Result<Url, UrlRefusal> {
        Rules::new(&self.open_networks, &self.ports).check(address)
    }
}

/// HTTP client for untrusted URLs. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    client: Client,
    rules: Arc<Rules>,
    timeout: Duration,
    max_bytes: usize,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EgressError {
    /// The URL was refused, and no request was sent.
    #[error("{0}")]
    Refused(#[from] UrlRefusal),
    /// The host did not answer, or the connection broke.
    #[error("cannot connect to the address")]
    OutOfReach,
    /// The request timed out.
    #[error("the address did not respond in time")]
    TooSlow,
    /// The response exceeds the maximum size.
    #[error("the answer is too long")]
    TooLong,
    /// The request was redirected too often.
    #[error("the address redirects too many times")]
    TooManyRedirects,
}

impl EgressError {
    /// Whether a retry may succeed.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::OutOfReach | Self::TooSlow)
    }
}

/// The HTTP client could not be created, usually because there are no root certificates.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot set up the HTTP client: {0}")]
pub struct EgressSetupError(pub(crate) String);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// URL after redirects.
    pub url: Url,
    /// HTTP status.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// The head of the answer to a POST request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// HTTP status.
    pub status: u16,
    /// Value of `Retry-After`, if it is a number of seconds.
    pub retry_after: Option<Duration>,
}

impl Egress {
    /// Creates a client that resolves names with the system resolver.
    pub fn new(options: &EgressOptions) -> Result<Self, EgressSetupError> {
        Self::with_lookup(options, Arc::new(SystemLookup))
    }

    /// Creates a client that resolves names with `lookup`.
    pub fn with_lookup(
        options: &EgressOptions,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, EgressSetupError> {
        let rules = Arc::new(Rules::new(&options.open_networks, &options.ports));
        let client = turnwire_http::client()
            .dns_resolver(CheckedResolver::new(Arc::clone(&rules), lookup))
            .connect_timeout(options.connect_timeout)
            // Redirects are followed in `follow`, with checks.
            .redirect(redirect::Policy::none())
            // A proxy would resolve names itself.
            .no_proxy()
            .referer(false)
            // Every request uses a new connection, so that its name is resolved and checked.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| EgressSetupError(chain(&error)))?;
        Ok(Self { client, rules, timeout: options.timeout, max_bytes: options.max_bytes })
    }

    /// Checks and parses a URL. The addresses of a name are checked when a connection is made.
    pub fn check(&self, address: &str) -> Result<Url, UrlRefusal> {
        self.rules.check(address)
    }

    /// Returns the underlying client, for other protocols. It follows no redirects and checks the
    /// addresses of names. The URL must be checked with [`check`](Self::check) first.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a GET request.
    pub async fn get(&self, address: &str, accept: &str) -> Result<Fetched, EgressError> {
        let fetching = self.follow(address, accept);
        tokio::time::timeout(self.timeout, fetching).await.unwrap_or(Err(EgressError::TooSlow))
    }

    /// Sends a POST request. Follows no redirect and reads no body, so whoever chose the address
    /// learns nothing from it. The caller limits the time.
    pub async fn post(
        &self,
        address: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> Result<Posted, EgressError> {
        let url = self.rules.check(address)?;
        let request = self.client.post(url).body(body);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let response = request.send().await.map_err(|error| {
            let reason = why(&error);
            // The caller knows how much this matters. The URL may contain a token.
            debug!(error = ?error.without_url(), "post failed");
            reason
        })?;
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let retry_after = retry_after.map(Duration::from_secs);
        Ok(Posted { status: response.status().as_u16(), retry_after })
    }

    async fn follow(&self, address: &str, accept: &str) -> Result<Fetched, EgressError> {
        let mut url = self.rules.check(address)?;
        for _ in 0..=MAX_REDIRECTS {
            let request = self.client.get(url.clone()).header(ACCEPT, accept);
            let response = request.send().await.map_err(failed)?;
            match elsewhere(&response) {
                Some(place) => url = self.rules.check_redirect(&url, &place)?,
                None => return self.read(url, response).await,
            }
        }
        Err(EgressError::TooManyRedirects)
    }

    async fn read(&self, url: Url, response: Response) -> Result<Fetched, EgressError> {
        let status = response.status().as_u16();
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|kind| Some(kind.to_str().ok()?.to_owned()));
        let body = read_at_most(response, self.max_bytes).await.map_err(|unread| match unread {
            ReadError::Broken(error) => failed(error),
            ReadError::TooLong => EgressError::TooLong,
        })?;
        Ok(Fetched { url, status, content_type, body })
    }
}

/// Returns the target of a redirect.
fn elsewhere(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
    // A non-text header becomes an invalid URL, which is refused.
    location.map(|place| place.to_str().unwrap_or("\\").to_owned())
}

/// Logs why a page was not loaded, unless its URL was refused.
fn failed(error: reqwest::Error) -> EgressError {
    let reason = why(&error);
    if !matches!(reason, EgressError::Refused(_)) {
        // The error may contain the host, so it is logged and not sent to the model. The rest of
        // the URL may contain a token, so it is not even logged.
        let host = error.url().and_then(Url::host_str).unwrap_or_default().to_owned();
        let error = error.without_url();
        warn!(%host, ?error, "fetch failed");
    }
    reason
}

/// Finds a [`UrlRefusal`] in the source chain of a client error.
fn why(error: &reqwest::Error) -> EgressError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref::<UrlRefusal>() {
            return EgressError::Refused(refusal.clone());
        }
        cause = inner.source();
    }
    if error.is_timeout() { EgressError::TooSlow } else { EgressError::OutOfReach }
}

partial_debug!(Egress { rules });

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
