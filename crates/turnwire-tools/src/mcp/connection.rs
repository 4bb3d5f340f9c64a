//! A connection to a server: opening it, and its state.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
    redirect,
};
use rmcp::{
    RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ClientRequest, ElicitationCapability, ErrorCode,
        ExtensionCapabilities, FormElicitationCapability, Implementation, JsonObject,
        ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
        SubscriptionFilter, TASKS_EXTENSION_ID,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, Peer, RunningService, ServiceError,
        serve_client_with_lifecycle,
    },
    transport::{
        DynamicTransportError, StreamableHttpClientTransport, Transport,
        common::client_side_sse::ExponentialBackoff,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};
use turnwire_contract::{LeftOut, ServerSecrets, ToolSpec, WhyLeftOut, json_size};

use super::{
    elicitation::McpClientHandler,
    http::{self, HttpClient},
    oauth::Authorization,
    options::McpTransport,
    process::ServerProcess,
    redactor::Redactor,
    router::{MessageRouter, RoutedTransport},
};
use crate::{Egress, secret::Secret, sync::lock};

/// Maximum number of tools per server.
const MAX_TOOLS: usize = 1_000;

/// Maximum number of pages in a tool list, and the maximum size of its tools in JSON.
const MAX_PAGES: usize = 100;
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// How many lists are requested one after another while the list keeps changing, and the pause
/// before each further one, which doubles.
const MAX_LISTS_AT_ONCE: u32 = 3;
const MIN_LIST_PAUSE: Duration = Duration::from_secs(10);
const MAX_LIST_PAUSE: Duration = Duration::from_mins(5);

/// Timeout for the subscription to changes of the tool list.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of attempts to resume a broken HTTP stream, and the delay between them. Afterwards the
/// pending requests fail.
const STREAM_RETRIES: usize = 3;
const STREAM_RETRY_WAIT: Duration = Duration::from_millis(200);

pub(super) type Service = RunningService<RoleClient, McpClientHandler>;

/// What a server has listed.
pub(super) type ToolSpecs = Arc<[Arc<ToolSpec>]>;

pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) router: Arc<MessageRouter>,
    pub(super) opened_at: Instant,
    /// Closes the connection.
    pub(super) stop: CancellationToken,
    /// Cancelled when no new requests may use the connection.
    retired: CancellationToken,
    pub(super) calls: TaskTracker,
    /// Serializes concurrent requests for the tool list.
    pub(super) list_lock: tokio::sync::Mutex<()>,
    listed: Mutex<Option<CachedTools>>,
}

/// The cached tool list.
struct CachedTools {
    tools: ToolSpecs,
    /// Number of change notifications before the list was requested.
    changes: u64,
    pace: ListPace,
}

/// How often the tool list is requested. Some changes in a row are followed at once; a server
/// whose list changes on and on is asked less and less often.
#[derive(Debug, Clone, Copy)]
struct ListPace {
    /// Number of requests since the last quiet time.
    n_lists: u32,
    pause: Duration,
    last: Instant,
    /// When the list may be requested again.
    next: Instant,
}

impl ListPace {
    /// The pace after the first list.
    fn new(now: Instant) -> Self {
        Self { n_lists: 1, pause: MIN_LIST_PAUSE, last: now, next: now }
    }

    /// The pace after another list.
    fn after(self, now: Instant) -> Self {
        if now.duration_since(self.last) >= self.pause.saturating_mul(2) {
            return Self::new(now);
        }
        if self.n_lists < MAX_LISTS_AT_ONCE {
            return Self { n_lists: self.n_lists + 1, last: now, next: now, ..self };
        }
        let pause = self.pause.saturating_mul(2).min(MAX_LIST_PAUSE);
        Self { pause, last: now, next: now + self.pause, ..self }
    }
}

impl Connection {
    pub(super) fn new(
        service: &Service,
        router: Arc<MessageRouter>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            peer: service.peer().clone(),
            router,
            opened_at: Instant::now(),
            stop,
            retired: CancellationToken::new(),
            calls: TaskTracker::new(),
            list_lock: tokio::sync::Mutex::default(),
            listed: Mutex::default(),
        }
    }

    /// Whether new requests may be sent, as far as known.
    pub(super) fn is_open(&self) -> bool {
        !self.retired.is_cancelled() && !self.has_ended()
    }

    /// Whether the connection is closed.
    pub(super) fn has_ended(&self) -> bool {
        self.stop.is_cancelled() || self.router.has_ended() || self.peer.is_transport_closed()
    }

    /// Whether the server supports protocol version 2026-07-28.
    pub(super) fn uses_new_protocol(&self) -> bool {
        let server = self.peer.peer_info();
        server.is_some_and(|server| server.protocol_version >= ProtocolVersion::V_2026_07_28)
    }

    /// Allows no new requests. Pending ones continue.
    pub(super) fn retire(&self) {
        self.retired.cancel();
    }

    /// Waits until the connection is retired and no requests are pending.
    pub(super) async fn drained(&self) {
        self.retired.cancelled().await;
        self.calls.close();
        self.calls.wait().await;
    }

    /// Returns the state of the connection after a failed request.
    pub(super) fn impact_of(&self, error: &ServiceError) -> FailureImpact {
        match error {
            _ if self.has_ended() => FailureImpact::ConnectionClosed,
            ServiceError::TransportClosed => FailureImpact::ConnectionClosed,
            // With stdio, all requests share one pipe.
            ServiceError::TransportSend(error) if error.error.is::<io::Error>() => {
                FailureImpact::ConnectionClosed
            }
            ServiceError::TransportSend(error) => match http_error(error) {
                Some(StreamableHttpError::Client(error)) if error.status().is_none() => {
                    FailureImpact::ServerUnreachable
                }
                // A new connection uses the tokens of the latest login.
                Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::Auth(_)) => {
                    FailureImpact::ServerUnreachable
                }
                _ => FailureImpact::RequestOnly,
            },
            _ => FailureImpact::RequestOnly,
        }
    }

    /// Returns the cached tools, if they have not changed, or it is too early to ask again.
    pub(super) fn known_tools(&self) -> Option<ToolSpecs> {
        let listed = lock(&self.listed);
        let changes = self.router.changes();
        let is_known =
            |listed: &&CachedTools| listed.changes == changes || Instant::now() < listed.pace.next;
        Some(Arc::clone(&listed.as_ref().filter(is_known)?.tools))
    }

    /// Caches the tools. `changes` is the number of change notifications before the request.
    pub(super) fn cache_tools(&self, tools: ToolSpecs, changes: u64) {
        let mut listed = lock(&self.listed);
        let now = Instant::now();
        let pace = listed.as_ref().map_or_else(|| ListPace::new(now), |it| it.pace.after(now));
        *listed = Some(CachedTools { tools, changes, pace });
    }

    /// Waits until the tool list has changed and may be requested again.
    pub(super) async fn list_outdated(&self) {
        loop {
            self.router.changed().await;
            let next = lock(&self.listed).as_ref().map(|listed| listed.pace.next);
            if let Some(next) = next {
                sleep_until(next).await;
            }
            if self.known_tools().is_none() {
                return;
            }
        }
    }

    /// Requests the tool list, page by page. What is not read of it is in `left_out`.
    pub(super) async fn list(
        &self,
        left_out: &mut LeftOut,
    ) -> Result<Vec<rmcp::model::Tool>, ServiceError> {
        let (mut tools, mut remaining) = (Vec::new(), MAX_LIST_BYTES);
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest::with_param(params);
            // The list method of the protocol library may answer from a cache.
            let page = match self.peer.send_request(ClientRequest::ListToolsRequest(request)).await
            {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err(ServiceError::UnexpectedResponse),
                // A server without tools may not implement the method.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    break;
                }
                Err(error) => return Err(error),
            };
            cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
            for tool in page.tools {
                let size = json_size(&tool, remaining).filter(|_| tools.len() < MAX_TOOLS);
                let Some(size) = size else {
                    left_out.add(&tool.name, &WhyLeftOut::Unread);
                    return Ok(tools);
                };
                remaining -= size;
                tools.push(tool);
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        if cursor.is_some() {
            // Its name would be on the next page.
            left_out.add("…", &WhyLeftOut::Unread);
        }
        Ok(tools)
    }

    /// Subscribes to changes of the tool list. Needed since protocol version 2026-07-28; earlier
    /// servers send the notifications without a subscription.
    pub(super) async fn subscribe(&self, tasks: &TaskTracker, redactor: &Redactor) {
        let wanted = self.peer.peer_info().is_some_and(|server| {
            let tools = server.capabilities.tools.as_ref();
            server.protocol_version >= ProtocolVersion::V_2026_07_28
                && tools.and_then(|tools| tools.list_changed) == Some(true)
        });
        if !wanted {
            return;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match timeout(SUBSCRIBE_TIMEOUT, self.peer.listen(filter)).await {
            // `MessageRouter` handles the notifications; this task only keeps the subscription
            // open.
            Ok(Ok(mut subscription)) => {
                tasks.spawn(self.stop.clone().run_until_cancelled_owned(async move {
                    while let Ok(Some(_)) = subscription.next().await {}
                }));
            }
            Ok(Err(error)) => {
                let error = redactor.error(&error);
                debug!(%error, "MCP server does not notify of tool changes");
            }
            Err(_) => debug!("MCP server did not answer the subscription to tool changes"),
        }
    }
}

/// State of a connection after a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureImpact {
    /// The connection is closed for all requests.
    ConnectionClosed,
    /// The server was unreachable, or disconnected during the request. New requests need a new
    /// connection; pending ones may still complete on this one.
    ServerUnreachable,
    RequestOnly,
}

/// Protocol versions to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    /// The new protocol, with fallback to the old one if the server rejects it.
    Auto,
    /// The old protocol, for servers that do not reject the new one properly.
    Legacy,
}

impl Handshake {
    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Legacy => ClientLifecycleMode::Initialize,
        }
    }
}

/// How to reach an HTTP server.
#[derive(Clone, Copy)]
pub(super) struct HttpAccess<'a> {
    /// The client for URLs from requests; none for URLs from the settings.
    pub(super) egress: Option<&'a Egress>,
    /// Headers from the request, for such URLs alone.
    pub(super) secrets: Option<&'a ServerSecrets>,
    pub(super) redactor: &'a Arc<Redactor>,
    /// The tokens, if the server requires OAuth.
    pub(super) authorization: Option<&'a Authorization>,
}

/// Opens a connection and performs the handshake.
pub(super) async fn open(
    label: &str,
    transport: &McpTransport,
    HttpAccess { egress, secrets, redactor, authorization }: HttpAccess<'_>,
    handshake: Handshake,
    router: &Arc<MessageRouter>,
    background: (&TaskTracker, &CancellationToken),
) -> Result<Service, OpenError> {
    let safely = |error: &dyn std::error::Error| redactor.error(error);
    let opened = match transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            let process = ServerProcess::start(
                label,
                command,
                args,
                env,
                cwd.as_deref(),
                redactor,
                background,
            )
            .map_err(|error| {
                warn!(server = %label, %error, "MCP server process not started");
                OpenError::NotStarted
            })?;
            serve(process, handshake, router, redactor).await
        }
        McpTransport::Http { url, bearer_token, headers, .. } => {
            let client = match egress {
                Some(egress) => checked_client(label, egress, url)?,
                None => http_client(url)?,
            };
            let client = HttpClient::new(client);
            let config = http_config(url, bearer_token.as_ref(), headers, secrets)?;
            if let Some(authorization) = authorization {
                let client = authorization.client(client).await.map_err(|error| {
                    warn!(server = %label, error = %safely(&error), "no token for the MCP server");
                    OpenError::Unauthorized
                })?;
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve(transport, handshake, router, redactor).await
            } else {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve(transport, handshake, router, redactor).await
            }
        }
    };
    opened.map_err(|error| {
        let cause = client_error(&error).map(|cause| safely(cause));
        warn!(server = %label, error = %safely(&error), cause, "MCP handshake failed");
        if let (Some(authorization), Some(challenge)) = (authorization, error.auth_challenge()) {
            authorization.tokens.store_challenge(challenge);
        }
        OpenError::of(&error)
    })
}

/// Performs the handshake over a transport.
async fn serve<T: Transport<RoleClient> + 'static>(
    transport: T,
    handshake: Handshake,
    router: &Arc<MessageRouter>,
    redactor: &Arc<Redactor>,
) -> Result<Service, ClientInitializeError> {
    let handler = McpClientHandler::new(client_config(), Arc::clone(router));
    let transport = RoutedTransport::new(transport, Arc::clone(router), Arc::clone(redactor));
    serve_client_with_lifecycle(handler, transport, handshake.mode()).await
}

/// Our client info and capabilities.
fn client_config() -> ClientConfig {
    let form = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(form);
    let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
    capabilities.extensions = Some(ExtensionCapabilities::from_iter([tasks]));
    ClientConfig::new(capabilities, Implementation::new("turnwire", env!("CARGO_PKG_VERSION")))
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// Returns the client for a URL from a request, if the URL is allowed.
fn checked_client(label: &str, egress: &Egress, url: &str) -> Result<reqwest::Client, OpenError> {
    egress.check(url).map_err(|refusal| {
        warn!(server = %label, %refusal, "MCP server address refused");
        OpenError::UrlNotAllowed
    })?;
    Ok(egress.client().clone())
}

fn http_client(url: &str) -> Result<reqwest::Client, OpenError> {
    let invalid = |what| OpenError::InvalidSettings(what);
    let address = Url::parse(url).map_err(|_| invalid("its address is not a URL"))?;
    let mut client = turnwire_http::client()
        // A redirect would forward keys to another host.
        .redirect(redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        // Reused connections stall occasionally if a response was not read to its end.
        .pool_max_idle_per_host(0);
    if turnwire_http::is_loopback(&address) {
        client = client.no_proxy();
    }
    client.build().map_err(|_| invalid("the HTTP client could not be created"))
}

fn http_config(
    url: &str,
    bearer_token: Option<&Secret>,
    headers: &BTreeMap<String, String>,
    secrets: Option<&ServerSecrets>,
) -> Result<StreamableHttpClientTransportConfig, OpenError> {
    let invalid = |what| OpenError::InvalidSettings(what);
    let mut sent = HashMap::new();
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let supplied = secrets.into_iter().flat_map(ServerSecrets::headers);
    for (name, value) in headers.chain(supplied.map(|(name, value)| (name, value.reveal()))) {
        let name = HeaderName::try_from(name).map_err(|_| invalid("a header name is not valid"))?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| invalid("a header value is not valid"))?;
        value.set_sensitive(true);
        sent.insert(name, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(sent);
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(STREAM_RETRIES);
    retries.base_duration = STREAM_RETRY_WAIT;
    config.retry_config = Arc::new(retries);
    if let Some(token) = bearer_token {
        config = config.auth_header(token.reveal());
    }
    Ok(config)
}

/// Why no connection could be opened. The cause is only logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenError {
    /// The command could not be started.
    NotStarted,
    InvalidSettings(&'static str),
    /// The URL is not allowed.
    UrlNotAllowed,
    /// The server requires authentication, or denied it.
    Unauthorized,
    /// The server is unreachable.
    Unreachable,
    /// The certificate of the server has expired, or is not trusted for another reason.
    UntrustedCertificate,
    /// The server disconnected during the handshake.
    Disconnected,
    /// The server said too much in the handshake.
    TooLarge,
    Other,
}

impl OpenError {
    fn of(error: &ClientInitializeError) -> Self {
        if error.is_authorization_required() {
            return Self::Unauthorized;
        }
        match error {
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of(fallback),
            _ if error.auth_challenge().is_some() => Self::Unauthorized,
            ClientInitializeError::ConnectionClosed(_) => Self::Disconnected,
            ClientInitializeError::JsonRpcError(error) if http::is_too_large(error) => {
                Self::TooLarge
            }
            ClientInitializeError::TransportError { error, .. }
                if error.error.is::<io::Error>() =>
            {
                Self::Disconnected
            }
            ClientInitializeError::TransportError { error, .. } if is_connect_error(error) => {
                if is_certificate_error(error) {
                    Self::UntrustedCertificate
                } else {
                    Self::Unreachable
                }
            }
            _ => Self::Other,
        }
    }

    /// Whether another protocol version may help.
    pub(super) fn may_be_version_mismatch(self) -> bool {
        matches!(self, Self::Disconnected | Self::Other)
    }

    /// Description of the error, as the end of a sentence.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::NotStarted => "its command could not be started",
            Self::InvalidSettings(what) => what,
            Self::UrlNotAllowed => "requests may not supply a server at this address",
            Self::Unauthorized => "it requires a key, or rejected the configured one",
            Self::Unreachable => "cannot connect to its address",
            Self::UntrustedCertificate => "its certificate has expired or is not trusted",
            Self::Disconnected => "it closed the connection during the handshake",
            Self::TooLarge => "its answer to the handshake has more than 4 MiB or 250,000 values",
            Self::Other => "its response is not valid MCP",
        }
    }
}

/// Whether the server cannot have received the request: there was no connection, or the pipe was
/// closed before the end of the line.
pub(super) fn was_not_delivered(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    error.error.is::<io::Error>() || is_connect_error(error)
}

/// Whether no connection could be established.
fn is_connect_error(error: &DynamicTransportError) -> bool {
    matches!(http_error(error), Some(StreamableHttpError::Client(error)) if error.is_connect())
}

/// Whether there was no connection because of the certificate of the server. The error of the TLS
/// library is hidden in others; its words are known.
fn is_certificate_error(error: &DynamicTransportError) -> bool {
    let Some(StreamableHttpError::Client(error)) = http_error(error) else { return false };
    turnwire_http::chain(error).contains("invalid peer certificate")
}

/// Returns the error of the HTTP client. The protocol library shows it, but not its causes.
fn client_error(error: &ClientInitializeError) -> Option<&reqwest::Error> {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => client_error(fallback),
        ClientInitializeError::TransportError { error, .. } => match http_error(error)? {
            StreamableHttpError::Client(error) => Some(error),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the HTTP status of a refused request.
pub(super) fn http_status_of(error: &ServiceError) -> Option<u16> {
    let ServiceError::TransportSend(error) = error else { return None };
    match http_error(error)? {
        StreamableHttpError::HttpStatus(error) => Some(error.status),
        StreamableHttpError::Client(error) => Some(error.status()?.as_u16()),
        _ => None,
    }
}

/// Returns the `WWW-Authenticate` challenge of a refused request.
pub(super) fn challenge_of(error: &ServiceError) -> Option<&str> {
    let ServiceError::TransportSend(error) = error else { return None };
    http_error(error)?.auth_challenge()
}

/// Whether the request was refused for lack of authorization, or there was no token to send. The
/// server has not executed it.
pub(super) fn is_unauthorized(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(
        http_error(error),
        Some(
            StreamableHttpError::AuthRequired(_)
                | StreamableHttpError::InsufficientScope(_)
                | StreamableHttpError::Auth(_)
        )
    )
}

fn http_error(error: &DynamicTransportError) -> Option<&StreamableHttpError<reqwest::Error>> {
    error.error.downcast_ref()
}
