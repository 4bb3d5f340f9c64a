//! Authentication, and checks of `Host` and `Origin`.
//!
//! There are two checks. **Where does the request come from**: a layer around all routes checks
//! `Host` and `Origin`, so that a web page in a browser cannot reach a server on the same machine.
//! **Who makes it**: the [`Caller`], which every handler takes as an argument. Handlers get their
//! [`TenantId`] from it and from nowhere else, and only this module creates one (in `extract`): from
//! an API key or a token, from a share link, which stands for the tenant that made it, or for everybody
//! on a server without keys.
//!
//! A key is one of the settings, which are in `rules`, or one of the store: `api_key` is its text,
//! `key_ring` what this process knows of the stored ones. In place of a key, a request may have a
//! token of an identity provider; `token_ring` is what this process knows of these. `in_use` ends
//! what was opened with either. `identity` is what a key or token says about its holder, and
//! `scopes` which scope a route needs.

mod api_key;
mod extract;
mod identity;
mod in_use;
mod key_ring;
mod rules;
pub(crate) mod scopes;
mod token_ring;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwap;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::warn;
use turnwire_contract::{
    Actor, Scope, Share, StoreError, TenantId, Timestamp, TokenVerifier, TraceContext,
};
use turnwire_engine::{Principal, Runs};

pub use self::api_key::NewApiKey;
pub(crate) use self::in_use::Validity;
use self::{identity::Identity, key_ring::KeyRing, rules::Rules, token_ring::is_token};
use crate::{
    admission::{KeyDigest, Permit},
    api_error::{ApiError, Result},
    quota_headers::RateLimitHeaders,
    sync::lock,
};

/// Prefix of the WebSocket subprotocol that carries the key, for browsers, which cannot set headers
/// on a WebSocket.
const KEY_PROTOCOL: &str = "turnwire-key.";
/// The same prefix as the official JavaScript client sends it.
const OPENAI_KEY_PROTOCOL: &str = "openai-insecure-api-key.";

/// Paths of probes. Probes address a server by IP address, whatever its names are.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// Maximum number of refused origins that are remembered, so that each is logged once.
const MAX_LOGGED_ORIGINS: usize = 64;

/// Response headers that a page of an allowed origin may read, beyond those that browsers always
/// show.
const EXPOSED_HEADERS: &str = "etag, retry-after, stream-closed, stream-cursor, stream-next-offset, \
                               stream-up-to-date, turnwire-quota-warning, turnwire-response-id, \
                               turnwire-run-id, x-ratelimit-limit-requests, \
                               x-ratelimit-limit-tokens, x-ratelimit-remaining-requests, \
                               x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, \
                               x-ratelimit-reset-tokens, x-request-id, x-should-retry, \
                               x-workflow-run-id";

/// The source of the current time.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Operator settings for authentication.
#[derive(Clone, Default)]
pub struct AuthOptions {
    /// API keys that are accepted beside those of the store. If there are none in either, requests
    /// need no key.
    pub api_keys: Vec<String>,
    /// Verifies the tokens of an identity provider, which are accepted in place of keys.
    pub tokens: Option<Arc<dyn TokenVerifier>>,
    /// A key that opens `/metrics` and nothing else, for whoever collects them.
    pub metrics_token: Option<String>,
    /// Host names that clients may use for this server, in addition to the loopback names.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call the server, such as `https://chat.example.com`, in
    /// addition to its own.
    pub origins: Vec<String>,
}

impl std::fmt::Debug for AuthOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthOptions")
            .field("n_api_keys", &self.api_keys.len())
            .field("tokens", &self.tokens)
            .field("has_metrics_token", &self.metrics_token.is_some())
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish()
    }
}

/// Authentication of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Auth(Arc<AuthState>);

struct AuthState {
    /// The rules of the settings in force. A reload replaces them as a whole.
    rules: ArcSwap<Rules>,
    /// The keys of the store.
    ring: Arc<KeyRing>,
    clock: Clock,
    /// Refused origins that were already logged.
    logged_origins: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for AuthState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rules, ring, clock: _, logged_origins: _ } = self;
        f.debug_struct("Auth")
            .field("rules", &rules.load())
            .field("ring", ring)
            .finish_non_exhaustive()
    }
}

impl Auth {
    /// Creates the rules from the settings, and the keys in the store of `runs`.
    pub fn new(options: &AuthOptions, runs: &Runs) -> Self {
        let runs_clock = runs.clone();
        let clock: Clock = Arc::new(move || runs_clock.now());
        let ring = KeyRing::new(Arc::clone(runs.api_keys()), Arc::clone(&clock));
        let rules = ArcSwap::from_pointee(Rules::new(options, &ring, &clock));
        Self(Arc::new(AuthState { rules, ring, clock, logged_origins: Mutex::default() }))
    }

    /// Replaces the rules by those of new settings. What was opened with a key that they do not
    /// have any more ends, and so does what was opened without one if they need one now.
    pub(crate) fn reload(&self, options: &AuthOptions) {
        let before = self.rules();
        let rules = Rules::new(options, &self.0.ring, &self.0.clock);
        let rules = Arc::new(rules.succeeding(&before));
        self.0.rules.store(Arc::clone(&rules));
        before.end_what_is_not_in(&rules);
    }

    fn rules(&self) -> Arc<Rules> {
        self.0.rules.load_full()
    }

    /// Whether the server may listen on this address. An address other than loopback needs an API
    /// key.
    pub async fn may_open_at(&self, address: SocketAddr) -> Result<bool, StoreError> {
        Ok(self.needs_key().await? || address.ip().is_loopback())
    }

    /// Whether the server may go on listening on this address with new settings.
    pub async fn may_stay_at(
        &self,
        address: SocketAddr,
        options: &AuthOptions,
    ) -> Result<bool, StoreError> {
        let needs_key = !options.api_keys.is_empty() || options.tokens.is_some();
        Ok(needs_key || address.ip().is_loopback() || self.0.ring.has_keys().await?)
    }

    /// Whether requests need a key: the settings have one, or an identity provider, or there was
    /// ever a key in the store. So the server does not become open to all when its last key is
    /// revoked.
    async fn needs_key(&self) -> Result<bool, StoreError> {
        Ok(self.is_closed_by_settings() || self.0.ring.has_keys().await?)
    }

    /// Whether requests need a key, as far as is known.
    pub fn is_known_to_need_key(&self) -> bool {
        self.is_closed_by_settings() || self.0.ring.was_seen_with_keys()
    }

    fn is_closed_by_settings(&self) -> bool {
        self.rules().need_key()
    }

    /// Who makes a request.
    async fn identify(&self, headers: &HeaderMap) -> Result<Arc<Identity>> {
        let key = key_in(headers);
        // Once: what a reload ends is what was admitted by the rules before it.
        let rules = self.rules();
        if !(rules.need_key() || self.0.ring.has_keys().await?) {
            // The first key of the store may have been created just now.
            let first = match key {
                Some(key) => self.0.ring.identify(key).await?,
                None => None,
            };
            return Ok(Arc::new(first.unwrap_or_else(|| rules.anybody())));
        }
        let key = key.ok_or_else(missing_key)?;
        if let Some(holder) = rules.holder(KeyDigest::of(key), (self.0.clock)()) {
            return Ok(Arc::new(holder));
        }
        if let Some(tokens) = rules.tokens.as_ref().filter(|_| is_token(key)) {
            return tokens.identify(key).await.map(Arc::new);
        }
        self.0.ring.identify(key).await?.map(Arc::new).ok_or_else(invalid_key)
    }

    /// Whether the request has the metrics token. A server that has one shows its metrics to
    /// nobody without a key, even if all else needs none.
    async fn has_metrics_token(&self, headers: &HeaderMap) -> Result<bool> {
        let Some(token) = self.rules().metrics_token else { return Ok(false) };
        let key = KeyDigest::of(key_in(headers).ok_or_else(missing_key)?);
        if key != token && !self.needs_key().await? {
            return Err(invalid_key());
        }
        Ok(key == token)
    }

    /// Refuses requests of foreign web pages, and requests under an unknown host name (A9).
    fn check_origin(&self, request: &Request) -> Result<(), ForeignRequest> {
        let host = host_of(request);
        if !host.as_ref().is_some_and(|host| self.knows_host(host, request.uri().path())) {
            return Err(ForeignRequest::Host);
        }
        let mut origins = request.headers().get_all(header::ORIGIN).iter();
        let Some(sent) = origins.next() else { return Ok(()) };
        let origin = sent.to_str().unwrap_or_default().to_lowercase();
        let its_own = host.is_some_and(|host| same_place(&origin, &host));
        if origins.next().is_none() && (its_own || self.rules().origins.contains(&origin)) {
            return Ok(());
        }
        self.log_origin(&origin);
        let is_local = is_loopback_page(&origin);
        Err(ForeignRequest::Origin { origin, sent: is_local.then(|| sent.clone()) })
    }

    /// Whether the host name is accepted. With API keys and no configured hosts, every name is.
    /// Probes may use an IP address: a web page cannot make a browser send an address in `Host`
    /// where its URL has a name.
    fn knows_host(&self, host: &Authority, path: &str) -> bool {
        let name = host.host().to_lowercase();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<IpAddr>();
        let is_loopback = name == "localhost"
            || name.ends_with(".localhost")
            || address.as_ref().is_ok_and(IpAddr::is_loopback);
        let rules = self.rules();
        let is_known = rules.hosts.iter().any(|known| known == name || known == host.as_str());
        let is_probe = address.is_ok() && PROBES.contains(&path);
        is_loopback
            || is_known
            || is_probe
            || (rules.hosts.is_empty() && self.is_known_to_need_key())
    }

    /// Logs a refused origin once, because a browser does not tell the page why a WebSocket was
    /// refused.
    fn log_origin(&self, origin: &str) {
        let mut logged = lock(&self.0.logged_origins);
        if logged.len() < MAX_LOGGED_ORIGINS && logged.insert(origin.to_owned()) {
            warn!(origin, "origin refused, add it to `origins` in the settings to allow it");
        }
    }
}

/// Why a request was refused by [`Auth::check_origin`].
enum ForeignRequest {
    /// The host name is unknown.
    Host,
    /// The origin is not allowed.
    Origin {
        /// The origin, in lower case.
        origin: String,
        /// The `Origin` header as it was sent, if the page is on this machine: it may read the
        /// error.
        sent: Option<HeaderValue>,
    },
}

impl ForeignRequest {
    /// Makes the error response. A page on this machine is most likely the operator's own, on
    /// another port. It is allowed to send a preflight request and to read this error, so that its
    /// developer sees what to configure.
    fn refuse(self, request: &Request) -> Response {
        let forbidden = |code, message: String| ApiError::new(StatusCode::FORBIDDEN, code, message);
        let (origin, sent) = match self {
            Self::Host => {
                let message =
                    "The `Host` of the request is not allowed. Add it to `hosts` in the settings.";
                return forbidden("unknown_host", message.to_owned()).into_response();
            }
            Self::Origin { origin, sent } => (origin, sent),
        };
        let message = if sent.is_some() {
            format!(
                "Web pages of {origin} may not call this server. Start it with `--origin \
                 {origin}`, or add that to `origins` under [server] in the settings."
            )
        } else {
            "Web pages of that origin may not call this server. Add it to `origins` under \
             [server] in the settings."
                .to_owned()
        };
        let error = forbidden("foreign_origin", message);
        let Some(sent) = sent else { return error.into_response() };
        let mut response =
            if is_preflight(request) { preflight(request) } else { error.into_response() };
        allow_reading(sent, &mut response);
        response
    }
}

/// Whether a page is served from a loopback address.
fn is_loopback_page(origin: &str) -> bool {
    let Some(page) = origin.parse::<Uri>().ok().filter(|page| page.scheme().is_some()) else {
        return false;
    };
    let host = page.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Adds the CORS headers that let an allowed page read the response. Credentials are not allowed:
/// a key travels in a header that the page sets, never in a cookie.
fn allow_reading(origin: HeaderValue, response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// The layer around all routes: checks host and origin, and answers CORS preflight requests.
pub(crate) async fn guard(auth: Auth, request: Request, next: Next) -> Response {
    if let Err(foreign) = auth.check_origin(&request) {
        // The first key of the store may have been created just now, and then every name is known.
        let may_have_changed = matches!(foreign, ForeignRequest::Host)
            && !auth.is_known_to_need_key()
            && auth.needs_key().await.unwrap_or(false);
        if !may_have_changed || auth.check_origin(&request).is_err() {
            return foreign.refuse(&request);
        }
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response =
        if is_preflight(&request) { preflight(&request) } else { next.run(request).await };
    if let Some(origin) = origin {
        allow_reading(origin, &mut response);
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    }
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(request: &Request) -> Response {
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(wanted) = wanted {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    response
}

/// The caller of a request. Only this module creates one.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: Arc<Identity>,
    /// Share of the limit on connections per key.
    _permit: Arc<Permit>,
    /// What the response says about quotas.
    rate_limit_headers: RateLimitHeaders,
    /// Trace context of the request.
    trace: Option<Arc<TraceContext>>,
}

impl Caller {
    /// The tenant whose data the caller may access.
    pub fn tenant(&self) -> &TenantId {
        &self.identity.tenant
    }

    /// Digest of the caller's API key.
    pub(crate) fn key(&self) -> Option<KeyDigest> {
        self.identity.key
    }

    /// What is recorded of the caller. `None` if the server needs no key.
    pub(crate) fn actor(&self) -> Option<&Arc<Actor>> {
        self.identity.actor.as_ref()
    }

    /// Where to note what the response says about quotas.
    pub(crate) fn rate_limit_headers(&self) -> &RateLimitHeaders {
        &self.rate_limit_headers
    }

    /// The trace that the request belongs to, if it says so.
    pub(crate) fn trace(&self) -> Option<&Arc<TraceContext>> {
        self.trace.as_ref()
    }

    /// Whether the caller's key has a scope.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.identity.has(scope)
    }

    /// When the caller's key ends. `None` if it does not.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        self.identity.expires_at
    }

    /// The scopes of the caller's key.
    pub(crate) fn scopes(&self) -> &BTreeSet<Scope> {
        &self.identity.scopes
    }

    /// The caller, for what not everybody may use.
    pub(crate) fn principal(&self) -> Principal<'_> {
        Principal { tenant: self.tenant(), scopes: self.scopes() }
    }

    /// Refuses what needs a scope that the caller's key does not have. Routes are checked already;
    /// this is for what is inside of a request or message.
    pub(crate) fn ensure(&self, scope: Scope) -> Result<()> {
        self.identity.ensure(scope)
    }

    /// Whether the caller's key is still valid. `None` if it cannot be revoked.
    pub(crate) fn validity(&self) -> Option<&Validity> {
        self.identity.validity.as_ref()
    }
}

/// Somebody who may read the metrics: with the metrics token, or as any other caller.
#[derive(Debug)]
pub(crate) struct MetricsReader;

/// Somebody with a share link. They may read the one run that it names, and nothing else.
#[derive(Debug, Clone)]
pub(crate) struct SharedReader {
    /// Reads on behalf of the tenant that shared the run.
    pub(crate) caller: Caller,
    pub(crate) share: Share,
}

fn missing_key() -> ApiError {
    let message = "No API key was given. Send it as `Authorization: Bearer KEY`.";
    ApiError::new(StatusCode::UNAUTHORIZED, "missing_api_key", message)
}

fn invalid_key() -> ApiError {
    let message = "The API key is not valid: it is unknown, was revoked, or has expired.";
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
}

fn key_in(headers: &HeaderMap) -> Option<&str> {
    if let Some(header) = headers.get(header::AUTHORIZATION) {
        let (scheme, key) = header.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then_some(key.trim());
    }
    let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let mut protocols = protocols.split(',').map(str::trim);
    protocols.find_map(|protocol| {
        protocol.strip_prefix(KEY_PROTOCOL).or_else(|| protocol.strip_prefix(OPENAI_KEY_PROTOCOL))
    })
}

/// The host the client used: from the request line if it is there (HTTP/2 and proxies), else from
/// `Host`. `None` if the two differ.
fn host_of(request: &Request) -> Option<Authority> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let in_header = hosts.next().and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let in_line = request.uri().authority().cloned();
    if hosts.next().is_some() || in_header.as_ref().is_some_and(has_user) {
        return None;
    }
    match (in_line, in_header) {
        (Some(line), Some(header)) if line != header => None,
        (line, header) => line.or(header),
    }
}

fn has_user(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

/// Whether `origin` has the same host and port as `host`.
fn same_place(origin: &str, host: &Authority) -> bool {
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    place.is_some_and(|place| place == host.as_str().to_lowercase())
}
