//! A server: its shared connection and its tools.
//!
//! There is at most one connection and one connection attempt. Concurrent callers wait for the same
//! attempt. A broken connection is reopened at once, so that the next run finds it. After repeated
//! failures it is reopened only on demand.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use rmcp::service::ServiceError;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};
use turnwire_contract::{
    LeftOut, ServerSecrets, ServerState, ServerStatus, ServerTransport, Timestamp, ToolError,
};

use super::{
    catalogue::bounded,
    connection::{
        Connection, Handshake, HttpAccess, OpenError, Service, ToolSpecs, challenge_of,
        is_unauthorized, open,
    },
    http::is_too_large,
    oauth::Authorization,
    options::{McpServerOptions, McpTransport},
    redactor::Redactor,
    router::MessageRouter,
    specs::specs,
};
use crate::{Egress, sync::lock};

/// A connection that was open for this long resets the failure count.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Maximum number of consecutive reconnects without demand.
const MAX_AUTO_RECONNECTS: u32 = 5;

/// Delay after the first failure, doubled after each further one, and the maximum delay.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Time for which a failed tool list is cached, so that an unresponsive server does not delay every
/// run by its timeout.
const FAILURE_CACHE_TTL: Duration = Duration::from_secs(5);

/// Maximum time to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_500);

pub(super) struct Server {
    pub(super) label: String,
    pub(super) options: McpServerOptions,
    by_request: ByRequest,
    /// Takes the secrets of the server out of what it returns.
    pub(super) redactor: Arc<Redactor>,
    pub(super) tasks: TaskTracker,
    closing: CancellationToken,
    /// The tokens, if the server requires OAuth.
    pub(super) authorization: Option<Authorization>,
    /// Tools that must be called as tasks, as far as known.
    task_tools: Mutex<HashSet<String>>,
    state: Mutex<ConnectionState>,
}

/// What belongs to a server that a request supplied.
#[derive(Default)]
pub(super) struct ByRequest {
    /// The client for its URL.
    pub(super) egress: Option<Egress>,
    /// Headers that the request supplied with it.
    pub(super) secrets: Option<ServerSecrets>,
}

#[derive(Default)]
struct ConnectionState {
    open: Option<Arc<Connection>>,
    attempt: Option<Attempt>,
    /// Failed attempts and early disconnects since the last stable connection.
    failures: u32,
    /// Last error of the tool list, and its time.
    failed: Option<(Instant, ToolError)>,
    /// The protocol version that worked, if the first one failed.
    handshake: Option<Handshake>,
    /// Duration of the last response to a request for the tools.
    latency: Option<Duration>,
    /// What the last response had beside the tools that are offered.
    left_out: LeftOut,
    /// Last error, and its time. Unlike `failed`, it stays after a success.
    last_error: Option<(String, Timestamp)>,
    /// Whether the settings do not have the server any more.
    is_removed: bool,
    /// Number of resets. Results of attempts before a reset are ignored.
    generation: u64,
}

impl ConnectionState {
    fn recent_failure(&self) -> Option<ToolError> {
        let (at, error) = self.failed.as_ref()?;
        (at.elapsed() < FAILURE_CACHE_TTL).then(|| error.clone())
    }

    fn set_failure(&mut self, error: Option<&ToolError>) {
        self.failed = error.map(|error| (Instant::now(), error.clone()));
        if let Some(error) = error {
            self.last_error = Some((error.to_string(), now()));
        }
    }
}

/// A connection attempt that several callers can await.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Connection>, ToolError>>>;

impl Server {
    pub(super) fn new(
        label: String,
        options: McpServerOptions,
        by_request: ByRequest,
        tasks: TaskTracker,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let redactor = Arc::new(Redactor::new(&options, by_request.secrets.as_ref()));
        let authorization = match &options.transport {
            McpTransport::Http { url, oauth: Some(oauth), .. } => {
                Some(Authorization::new(url, oauth, &redactor))
            }
            McpTransport::Http { .. } | McpTransport::Stdio { .. } => None,
        };
        let (task_tools, state) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            label,
            options,
            by_request,
            redactor,
            tasks,
            closing,
            authorization,
            task_tools,
            state,
        })
    }

    /// Whether the tool must be called as a task, as far as known.
    pub(super) fn requires_task(&self, tool: &str) -> bool {
        lock(&self.task_tools).contains(tool)
    }

    /// Records that the tool must be called as a task.
    pub(super) fn set_requires_task(&self, tool: &str) {
        lock(&self.task_tools).insert(tool.to_owned());
    }

    /// Whether a person has to log in.
    pub(super) fn waits_for_login(&self) -> bool {
        let authorization = self.authorization.as_ref();
        authorization.is_some_and(|it| it.needs_login() && it.tokens.challenge().is_some())
    }

    /// Whether the server uses a grant without a person.
    pub(super) fn uses_client_credentials(&self) -> bool {
        self.authorization.as_ref().is_some_and(|authorization| !authorization.needs_login())
    }

    /// Stores the challenge of a request that was refused for lack of authorization.
    pub(super) fn note_challenge(&self, error: &ServiceError) {
        if let (Some(authorization), Some(challenge)) = (&self.authorization, challenge_of(error)) {
            authorization.tokens.store_challenge(challenge);
        }
    }

    /// Drops the connection and the last error. The next caller reconnects.
    pub(super) fn reset(&self) {
        let mut state = lock(&self.state);
        (state.failed, state.failures, state.attempt) = (None, 0, None);
        state.generation += 1;
        if let Some(open) = state.open.take() {
            open.retire();
        }
    }

    /// Lets calls at work end, and then closes the connection for good.
    pub(super) fn remove(&self) {
        let mut state = lock(&self.state);
        state.is_removed = true;
        state.attempt = None;
        state.generation += 1;
        if let Some(open) = &state.open {
            open.retire();
        }
    }

    /// Returns the advice for a server that refuses us.
    pub(super) fn authorization_advice(&self) -> String {
        match &self.authorization {
            Some(authorization) if authorization.needs_login() => {
                format!("login required, run: turnwire mcp login {}", self.label)
            }
            Some(_) | None => OpenError::Unauthorized.message().to_owned(),
        }
    }

    pub(super) fn known_tools(&self) -> Option<ToolSpecs> {
        let open = lock(&self.state).open.clone()?;
        open.known_tools().filter(|_| open.is_open())
    }

    /// Returns what the server last listed beside its tools.
    pub(super) fn left_out(&self) -> LeftOut {
        lock(&self.state).left_out.clone()
    }

    /// Returns the state, and starts an attempt to connect if there is no connection and the last
    /// attempt is a while ago.
    pub(super) fn status(self: &Arc<Self>) -> ServerStatus {
        let waits_for_login = self.waits_for_login();
        let mut state = lock(&self.state);
        let is_open = state.open.as_ref().is_some_and(|open| open.is_open());
        let may_connect = !state.is_removed && !self.closing.is_cancelled();
        if !is_open && state.recent_failure().is_none() && may_connect {
            // It goes on in the background.
            drop(self.attempt(&mut state));
        }
        let (transport, address) = match &self.options.transport {
            McpTransport::Stdio { command, .. } => (ServerTransport::Stdio, command.clone()),
            McpTransport::Http { url, .. } => (ServerTransport::Http, without_secrets(url)),
        };
        ServerStatus {
            label: self.label.clone(),
            transport,
            address,
            state: match (is_open, waits_for_login) {
                (true, _) => ServerState::Connected,
                (false, true) => ServerState::LoginRequired,
                (false, false) if state.failures > 0 => ServerState::Failed,
                (false, false) => ServerState::Connecting,
            },
            latency: state.latency,
            last_error: state.last_error.clone(),
        }
    }

    /// Returns the tools; requests them if they are not cached and the last request did not fail
    /// recently.
    pub(super) async fn tools(self: &Arc<Self>) -> Result<ToolSpecs, ToolError> {
        if let Some(tools) = self.known_tools() {
            return Ok(tools);
        }
        if let Some(error) = lock(&self.state).recent_failure() {
            return Err(error);
        }
        let connection = self.connection().await?;
        let in_time = timeout(self.options.startup_timeout, self.list_tools(&connection));
        let result = in_time.await.unwrap_or_else(|_| Err(self.timed_out()));
        lock(&self.state).set_failure(result.as_ref().err());
        result
    }

    async fn list_tools(self: &Arc<Self>, connection: &Connection) -> Result<ToolSpecs, ToolError> {
        let _list_guard = connection.list_lock.lock().await;
        if let Some(tools) = connection.known_tools() {
            return Ok(tools);
        }
        let (changes, asked) = (connection.router.changes(), Instant::now());
        let mut left_out = LeftOut::default();
        let listed = connection.list(&mut left_out).await;
        let listed = listed.map_err(|error| self.list_failed(&error))?;
        let specs = specs(&self.label, &self.options, listed);
        let tools = bounded(&self.label, specs, &mut left_out);
        debug!(server = %self.label, tools = tools.len(), "MCP tools listed");
        {
            let mut state = lock(&self.state);
            (state.latency, state.left_out) = (Some(asked.elapsed()), left_out);
        }
        connection.cache_tools(Arc::clone(&tools), changes);
        Ok(tools)
    }

    /// Returns the connection; opens it if needed.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, ToolError> {
        let attempt = {
            let mut state = lock(&self.state);
            if let Some(open) = state.open.as_ref().filter(|open| open.is_open()) {
                return Ok(Arc::clone(open));
            }
            if state.is_removed {
                // Calls at work go on where they are.
                let open = state.open.as_ref().filter(|open| !open.has_ended());
                return open.cloned().ok_or_else(|| self.removed());
            }
            self.attempt(&mut state)
        };
        attempt.await
    }

    /// Returns the current attempt, or starts one.
    fn attempt(self: &Arc<Self>, state: &mut ConnectionState) -> Attempt {
        if let Some(attempt) = &state.attempt {
            return attempt.clone();
        }
        let (sender, receiver) = oneshot::channel();
        let (server, backoff, handshake) =
            (Arc::clone(self), backoff_after(state.failures), state.handshake);
        let generation = state.generation;
        // A separate task, because the first caller may be cancelled while others wait.
        self.tasks.spawn(async move {
            let result = tokio::select! {
                biased;
                () = server.closing.cancelled() => Err(server.closed()),
                result = server.connect(backoff, handshake) => result,
            };
            server.finish_attempt(&result, generation);
            let _ = sender.send(result);
        });
        let closed = self.closed();
        let attempt = receiver.map(|result| result.unwrap_or(Err(closed))).boxed().shared();
        state.attempt = Some(attempt.clone());
        attempt
    }

    /// Records the result of an attempt, unless there was a reset since its start.
    fn finish_attempt(&self, result: &Result<Arc<Connection>, ToolError>, generation: u64) {
        let mut state = lock(&self.state);
        let is_old = state.generation != generation;
        if !is_old {
            state.attempt = None;
            state.set_failure(result.as_ref().err());
        }
        match result {
            Ok(connection) if is_old => connection.retire(),
            Ok(connection) => state.open = Some(Arc::clone(connection)),
            Err(_) if is_old => {}
            Err(_) => state.failures = state.failures.saturating_add(1),
        }
    }

    /// Opens a connection and requests the tools.
    async fn connect(
        self: &Arc<Self>,
        backoff: Duration,
        handshake: Option<Handshake>,
    ) -> Result<Arc<Connection>, ToolError> {
        sleep(backoff).await;
        let began = Instant::now();
        let until = began + self.options.startup_timeout;
        let (service, router) = match handshake {
            Some(handshake) => self.open_with(handshake, until).await,
            None => self.negotiate(until).await,
        }?;
        let connection = Arc::new(Connection::new(&service, router, self.closing.child_token()));
        self.tasks.spawn(Arc::clone(self).supervise(service, Arc::clone(&connection)));
        let ready = async {
            connection.subscribe(&self.tasks, &self.redactor).await;
            self.list_tools(&connection).await
        };
        let ready = timeout_at(until, ready).await.unwrap_or_else(|_| Err(self.timed_out()));
        if let Err(error) = ready {
            connection.stop.cancel();
            return Err(error);
        }
        info!(server = %self.label, took = ?began.elapsed(), "MCP server connected");
        Ok(connection)
    }

    /// Tries the new protocol first. Almost all old servers reject it at once, and the handshake
    /// continues on the same connection. For a server that does not answer or disconnects, part of
    /// the timeout is reserved for a second attempt.
    async fn negotiate(&self, until: Instant) -> Result<(Service, Arc<MessageRouter>), ToolError> {
        let first = self.options.startup_timeout.mul_f64(0.7);
        let router = MessageRouter::new(&self.label);
        let opening = self.open(Handshake::Auto, &router);
        match timeout(first, opening).await {
            Ok(Ok(service)) => return Ok((service, router)),
            Ok(Err(error)) if !error.may_be_version_mismatch() => {
                return Err(self.open_failed(error));
            }
            Ok(Err(_)) | Err(_) => {}
        }
        let opened = self.open_with(Handshake::Legacy, until).await?;
        lock(&self.state).handshake = Some(Handshake::Legacy);
        Ok(opened)
    }

    async fn open_with(
        &self,
        handshake: Handshake,
        until: Instant,
    ) -> Result<(Service, Arc<MessageRouter>), ToolError> {
        let router = MessageRouter::new(&self.label);
        match timeout_at(until, self.open(handshake, &router)).await {
            Ok(Ok(service)) => Ok((service, router)),
            Ok(Err(error)) => Err(self.open_failed(error)),
            Err(_) => Err(self.timed_out()),
        }
    }

    /// Boxed, because the future is large.
    fn open<'a>(
        &'a self,
        handshake: Handshake,
        router: &'a Arc<MessageRouter>,
    ) -> BoxFuture<'a, Result<Service, OpenError>> {
        let background = (&self.tasks, &self.closing);
        let access = HttpAccess {
            egress: self.by_request.egress.as_ref(),
            secrets: self.by_request.secrets.as_ref(),
            redactor: &self.redactor,
            authorization: self.authorization.as_ref(),
        };
        open(&self.label, &self.options.transport, access, handshake, router, background).boxed()
    }

    /// Waits until a connection ends, and cleans up.
    async fn supervise(self: Arc<Self>, service: Service, connection: Arc<Connection>) {
        let stop = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let mut changes = std::pin::pin!(self.follow_changes(&connection));
        loop {
            tokio::select! {
                biased;
                () = connection.stop.cancelled() => {
                    stop.cancel();
                    let _ = timeout(CLOSE_TIMEOUT, ended).await;
                    break;
                }
                _ = &mut ended => break,
                () = connection.drained() => connection.stop.cancel(),
                () = &mut changes => {}
            }
        }
        connection.stop.cancel();
        self.connection_lost(&connection);
    }

    /// Requests the tools after changes, without end.
    async fn follow_changes(self: &Arc<Self>, connection: &Connection) {
        loop {
            connection.list_outdated().await;
            debug!(server = %self.label, "MCP tools changed");
            if let Err(error) = self.tools().await {
                warn!(server = %self.label, %error, "MCP tools not listed after a change");
            }
        }
    }

    /// Opens a new connection for new requests. Pending ones may complete on the old one.
    pub(super) fn retire(self: &Arc<Self>, connection: &Arc<Connection>) {
        connection.retire();
        self.connection_lost(connection);
    }

    fn connection_lost(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.closing.is_cancelled() {
            return;
        }
        let mut state = lock(&self.state);
        if !state.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, connection)) {
            return;
        }
        state.open = None;
        if state.is_removed {
            info!(server = %self.label, "MCP server closed, the settings do not have it any more");
            return;
        }
        state.failures = match connection.opened_at.elapsed() {
            lived if lived >= STABLE_AFTER => 0,
            _ => state.failures.saturating_add(1),
        };
        warn!(server = %self.label, failures = state.failures, "MCP connection lost");
        if state.failures <= MAX_AUTO_RECONNECTS {
            // The attempt runs in the background.
            drop(self.attempt(&mut state));
        }
    }

    fn list_failed(&self, error: &ServiceError) -> ToolError {
        let why = self.redactor.error(error);
        warn!(server = %self.label, error = %why, "MCP tools not listed");
        self.note_challenge(error);
        if is_unauthorized(error) {
            return self.transient(&self.authorization_advice());
        }
        self.transient(match error {
            ServiceError::McpError(error) if is_too_large(error) => {
                "a page of its tool list has more than 4 MiB or 250,000 values"
            }
            _ => "it did not return its tool list",
        })
    }

    fn open_failed(&self, error: OpenError) -> ToolError {
        match error {
            OpenError::Unauthorized => self.transient(&self.authorization_advice()),
            error => self.transient(error.message()),
        }
    }

    fn timed_out(&self) -> ToolError {
        let seconds = self.options.startup_timeout.as_secs_f64();
        self.transient(&format!("no response within {seconds} s"))
    }

    fn closed(&self) -> ToolError {
        self.transient("Turnwire is shutting down")
    }

    fn removed(&self) -> ToolError {
        let label = &self.label;
        ToolError::failed(format!("the tool server `{label}` was removed from the settings"))
    }

    /// Nothing was sent, so a retry is safe.
    fn transient(&self, reason: &str) -> ToolError {
        ToolError::Transient(format!("the tool server `{}` is not available: {reason}", self.label))
    }
}

/// Returns a URL without user, query and fragment, which may contain keys.
fn without_secrets(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = url.get(..end).unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn backoff_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        more => FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(more - 1)).min(MAX_BACKOFF),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
