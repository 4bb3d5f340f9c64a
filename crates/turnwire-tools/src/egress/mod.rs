//! The one way out to addresses that come from a model or a request (A4).
//!
//! Whoever may name an address may try to reach what only this server can reach: the loopback
//! interface, the private network, a cloud's metadata. So every address goes through here:
//! [`rules`] says which URLs may be asked for at all, [`address`] which networks are closed, and
//! `resolver` sees to it that a connection goes to the very address that was checked: a name is
//! looked up once for each connection, all of its addresses are checked, and there is no second
//! look that could have another answer. Redirects are followed here, one by one, by the same
//! rules.
//!
//! Addresses from the operator's own settings do not come this way.

pub mod address;
mod resolver;
pub mod rules;

use std::{error::Error, fmt, sync::Arc, time::Duration};

use ipnet::IpNet;
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
    redirect,
};
use thiserror::Error;
use tracing::warn;

use self::resolver::Guarded;
pub use self::{
    resolver::{Lookup, SystemLookup},
    rules::{Refusal, Rules},
};
use crate::answer::{Unread, read_at_most};

/// How often one fetch may be pointed elsewhere.
const MAX_REDIRECTS: usize = 5;

/// What the operator says about the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressOptions {
    /// Networks that may be reached although they are not public.
    pub open_networks: Vec<IpNet>,
    /// The ports that may be reached.
    pub ports: Vec<u16>,
    /// How long one fetch may take, redirects and all.
    pub timeout: Duration,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How many bytes of an answer are read at most.
    pub max_bytes: usize,
}

impl Default for EgressOptions {
    /// Public networks only, on the two usual ports.
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

/// The client for addresses that somebody else names. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    client: Client,
    rules: Arc<Rules>,
    timeout: Duration,
    max_bytes: usize,
}

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EgressError {
    /// It was not even tried.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Nobody answered, or the answer broke off.
    #[error("the address is out of reach")]
    OutOfReach,
    /// It took too long.
    #[error("the address did not answer in time")]
    TooSlow,
    /// More bytes came than are read.
    #[error("the answer is too long")]
    TooLong,
    /// It was pointed elsewhere again and again.
    #[error("the address points elsewhere again and again")]
    TooManyRedirects,
}

impl EgressError {
    /// Whether another try may end better.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::OutOfReach | Self::TooSlow)
    }
}

/// The HTTP client does not start, usually for want of root certificates.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot set up the HTTP client: {0}")]
pub struct EgressSetupError(pub(crate) String);

/// What was found at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it was found in the end.
    pub url: Url,
    /// The status it came with.
    pub status: u16,
    /// What it says it is.
    pub content_type: Option<String>,
    /// All of its bytes.
    pub body: Vec<u8>,
}

impl Egress {
    /// A way out by these rules.
    pub fn new(options: &EgressOptions) -> Result<Self, EgressSetupError> {
        Self::with_lookup(options, Arc::new(SystemLookup))
    }

    /// The same with another way to look up names.
    pub fn with_lookup(
        options: &EgressOptions,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, EgressSetupError> {
        let rules = Arc::new(Rules::new(&options.open_networks, &options.ports));
        let client = Client::builder()
            .user_agent(concat!("turnwire/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Guarded::new(Arc::clone(&rules), lookup))
            .connect_timeout(options.connect_timeout)
            // Redirects are followed by hand, each by the rules.
            .redirect(redirect::Policy::none())
            // A proxy would look up names by itself.
            .no_proxy()
            .referer(false)
            // Every fetch has a connection of its own, so each is looked up and checked anew.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| EgressSetupError(error.to_string()))?;
        Ok(Self { client, rules, timeout: options.timeout, max_bytes: options.max_bytes })
    }

    /// Whether `address` may be asked for, and how it reads. Which addresses a name leads to is
    /// checked when a connection is made.
    pub fn check(&self, address: &str) -> Result<Url, Refusal> {
        self.rules.check(address)
    }

    /// The client behind it, for protocols of their own. It follows no redirects, and it checks
    /// the addresses of names; an address itself must have passed [`check`](Self::check).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads what is at `address`.
    pub async fn get(&self, address: &str, accept: &str) -> Result<Fetched, EgressError> {
        let fetching = self.follow(address, accept);
        tokio::time::timeout(self.timeout, fetching).await.unwrap_or(Err(EgressError::TooSlow))
    }

    async fn follow(&self, address: &str, accept: &str) -> Result<Fetched, EgressError> {
        let mut url = self.rules.check(address)?;
        for _ in 0..=MAX_REDIRECTS {
            let request = self.client.get(url.clone()).header(ACCEPT, accept);
            let response = request.send().await.map_err(|error| why(&error))?;
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
            Unread::Broken(error) => why(&error),
            Unread::TooLong => EgressError::TooLong,
        })?;
        Ok(Fetched { url, status, content_type, body })
    }
}

/// Where an answer points, if it points elsewhere.
fn elsewhere(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
    // One that is no text is no address either, and is refused as such.
    location.map(|place| place.to_str().unwrap_or("\\").to_owned())
}

/// A refusal of ours may be deep inside an error of the library's.
fn why(error: &reqwest::Error) -> EgressError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref::<Refusal>() {
            return EgressError::Refused(refusal.clone());
        }
        cause = inner.source();
    }
    // The host may be named in it; the model is not told.
    warn!(?error, "fetch failed");
    if error.is_timeout() { EgressError::TooSlow } else { EgressError::OutOfReach }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
