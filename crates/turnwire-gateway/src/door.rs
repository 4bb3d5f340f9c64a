//! Who is this, and may they come in.
//!
//! Two questions, asked in two places. **Where does the request come from**: a layer around
//! everything looks at `Host` and `Origin`, so that a web page in somebody's browser cannot
//! reach a server on that person's machine. **Who is it**: the [`Caller`] of a request, which
//! every handler asks for by taking it as an argument. Handlers take their [`TenantId`] from it
//! and from nowhere else, and only the door makes one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use axum::{
    extract::{FromRequestParts, Request},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::warn;
use turnwire_contract::TenantId;

use crate::{
    admission::{KeyDigest, Permit},
    app::App,
    connection::Held,
    connection_table::MAX_CONNECTIONS,
    refusal::Refusal,
    seat::Seat,
    sync::lock,
};

/// How a browser, which cannot set headers on a WebSocket, sends its key.
const KEY_PROTOCOL: &str = "turnwire-key.";
/// How the official JavaScript client does it.
const OPENAI_KEY_PROTOCOL: &str = "openai-insecure-api-key.";

/// Where probes look: they know a server by its address, whatever names it has.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// How many pages that were turned away are remembered, so that the log names each of them once.
const MAX_LOGGED_ORIGINS: usize = 64;

/// What the operator says about the door.
#[derive(Clone, Default)]
pub struct DoorOptions {
    /// The keys that open it; none: everybody who reaches it comes in.
    pub api_keys: Vec<String>,
    /// Names by which clients may call this server, beside the loopback ones.
    pub hosts: Vec<String>,
    /// Web pages that may call it, such as `https://chat.example.com`, beside its own.
    pub origins: Vec<String>,
}

impl std::fmt::Debug for DoorOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DoorOptions")
            .field("n_api_keys", &self.api_keys.len())
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish()
    }
}

/// The door of one server.
#[derive(Debug, Clone)]
pub struct Door(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    /// Whose key it is, by the hash of the key: keys themselves are not kept.
    keys: BTreeMap<KeyDigest, TenantId>,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Pages that were turned away, and that the log has named.
    logged_origins: Mutex<BTreeSet<String>>,
}

impl Door {
    /// A door with these rules.
    pub fn new(options: &DoorOptions) -> Self {
        let keys =
            options.api_keys.iter().map(|key| (KeyDigest::of(key), TenantId::default())).collect();
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        let (hosts, origins) = (lower(&options.hosts), lower(&options.origins));
        Self(Arc::new(Rules { keys, hosts, origins, logged_origins: Mutex::default() }))
    }

    /// Whether it may open to an address: anybody can reach an address that is not loopback, so
    /// there must be a key.
    pub fn may_open_at(&self, address: SocketAddr) -> bool {
        address.ip().is_loopback() || !self.0.keys.is_empty()
    }

    /// Whose request this is, and the key that says so, if there are keys.
    fn identify(&self, headers: &HeaderMap) -> Result<(TenantId, Option<KeyDigest>), Refusal> {
        if self.0.keys.is_empty() {
            return Ok((TenantId::default(), None));
        }
        let key = key_in(headers).ok_or_else(|| {
            let message = "No API key was given. Send it as `Authorization: Bearer KEY`.";
            Refusal::new(StatusCode::UNAUTHORIZED, "missing_api_key", message)
        })?;
        let key = KeyDigest::of(key);
        let tenant = self.0.keys.get(&key).cloned().ok_or_else(|| {
            let message = "The API key is not valid. Check it against the server's settings.";
            Refusal::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
        })?;
        Ok((tenant, Some(key)))
    }

    /// Refuses requests that a foreign web page makes, or that reach us under a name that is
    /// not ours (A9).
    fn check_origin(&self, request: &Request) -> Result<(), ForeignRequest> {
        let host = host_of(request);
        if !host.as_ref().is_some_and(|host| self.knows_host(host, request.uri().path())) {
            return Err(ForeignRequest::Host);
        }
        let mut origins = request.headers().get_all(header::ORIGIN).iter();
        let Some(sent) = origins.next() else { return Ok(()) };
        let origin = sent.to_str().unwrap_or_default().to_lowercase();
        let its_own = host.is_some_and(|host| same_place(&origin, &host));
        if origins.next().is_none() && (its_own || self.0.origins.contains(&origin)) {
            return Ok(());
        }
        self.log_origin(&origin);
        let is_local = is_loopback_page(&origin);
        Err(ForeignRequest::Origin { origin, sent: is_local.then(|| sent.clone()) })
    }

    /// With a key, the name does not matter: whoever has no key gets nothing under any name. No
    /// page can make a browser say an address where it means a name, so probes may say one.
    fn knows_host(&self, host: &Authority, path: &str) -> bool {
        let name = host.host().to_lowercase();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<IpAddr>();
        let is_loopback = name == "localhost"
            || name.ends_with(".localhost")
            || address.as_ref().is_ok_and(IpAddr::is_loopback);
        let is_known = self.0.hosts.iter().any(|known| known == name || known == host.as_str());
        let is_probe = address.is_ok() && PROBES.contains(&path);
        is_loopback || is_known || is_probe || (self.0.hosts.is_empty() && !self.0.keys.is_empty())
    }

    /// Tells the operator once about a page: a browser tells the page nothing about a WebSocket
    /// that was refused.
    fn log_origin(&self, origin: &str) {
        let mut logged = lock(&self.0.logged_origins);
        if logged.len() < MAX_LOGGED_ORIGINS && logged.insert(origin.to_owned()) {
            warn!(origin, "a web page was refused; `origins` in the settings lets it in");
        }
    }
}

/// Where a request comes from that is turned away.
enum ForeignRequest {
    /// It uses a name that is not ours.
    Host,
    /// A web page makes it.
    Origin {
        /// The page.
        origin: String,
        /// The page as it was sent, if it is one of this machine: it may read why.
        sent: Option<HeaderValue>,
    },
}

impl ForeignRequest {
    /// A page of this machine is most likely somebody's own, on another port. Its browser hides
    /// from it what it may not read, and asks first whether it may send at all; so it may ask, and
    /// read the refusal, and nothing else.
    fn refuse(self, request: &Request) -> Response {
        let forbidden = |code, message: String| Refusal::new(StatusCode::FORBIDDEN, code, message);
        let (origin, sent) = match self {
            Self::Host => {
                let message = "This server is not known by that name. Add it to `hosts` in the \
                               settings.";
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
        let refusal = forbidden("foreign_origin", message);
        let Some(sent) = sent else { return refusal.into_response() };
        let mut response =
            if is_preflight(request) { preflight(request) } else { refusal.into_response() };
        allow_reading(sent, &mut response);
        response
    }
}

/// Whether a page is served by this very machine.
fn is_loopback_page(origin: &str) -> bool {
    let Some(page) = origin.parse::<Uri>().ok().filter(|page| page.scheme().is_some()) else {
        return false;
    };
    let host = page.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a browser must be told so that it lets a page that may call us read the answer.
fn allow_reading(origin: HeaderValue, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
}

/// The layer around everything: looks at where a request comes from.
pub(crate) async fn guard(door: Door, request: Request, next: Next) -> Response {
    if let Err(foreign) = door.check_origin(&request) {
        return foreign.refuse(&request);
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

/// Who makes a request. Only the door makes one.
#[derive(Debug, Clone)]
pub struct Caller {
    tenant: TenantId,
    key: Option<KeyDigest>,
    /// Their place among those that the key may have open at once.
    _permit: Arc<Permit>,
}

impl Caller {
    /// Whose data they see.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// What stands for the key they came with.
    pub(crate) fn key(&self) -> Option<KeyDigest> {
        self.key
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let (tenant, key) = app.door().identify(&parts.headers)?;
        // The connection counts among those of clients from here on.
        let has_room = parts.extensions.get::<Seat>().is_none_or(Seat::note_known);
        if !has_room && !PROBES.contains(&parts.uri.path()) {
            return Err(server_full());
        }
        let permit = app.admission().admit_connection(key)?;
        let permit = Arc::new(permit);
        // A stream goes on when its handler is done.
        if let Some(held) = parts.extensions.get::<Held>() {
            held.hold(Arc::clone(&permit));
        }
        Ok(Self { tenant, key, _permit: permit })
    }
}

fn server_full() -> Refusal {
    let message = "The server has as many connections as it can hold; try again later.";
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message);
    refusal.limited_by(MAX_CONNECTIONS)
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

/// The name the client used: from the request line if it is there (HTTP/2 and proxies), else
/// from `Host`. Two different names are none.
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

/// Whether a page of `origin` was served under the name `host`.
fn same_place(origin: &str, host: &Authority) -> bool {
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    place.is_some_and(|place| place == host.as_str().to_lowercase())
}
