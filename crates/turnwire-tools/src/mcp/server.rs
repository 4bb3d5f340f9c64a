//! A server: its shared connection and its tools.
//!
//! There is at most one connection and one connection attempt. Concurrent callers wait for the same
//! attempt. A broken connection is reopened at once, so that the next run finds it. After repeated
//! failures it is reopened only on demand.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
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
use turnwire_contract::ToolError;

use super::{
    connection::{
        Connection, Handshake, OpenError, Service, Specs, Ways, chain, challenge_to, open,
        was_not_let_in,
    },
    oauth::Authorization,
    options::{McpServerOptions, McpTransport},
    specs::specs,
    wire::Wire,
};
use crate::{Egress, sync::lock};

/// A connection that was open for this long resets the failure count.
const STEADY: Duration = Duration::from_secs(10);

/// Maximum number of consecutive reconnects without demand.
const MAX_BY_ITSELF: u32 = 5;

/// Delay after the first failure, doubled after each further one, and the maximum delay.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Time for which a failed tool list is cached, so that an unresponsive server does not delay every
/// run by its timeout.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Maximum time to close a connection.
const CLOSING: Duration = Duration::from_millis(1_500);

pub(super) struct Server {
    pub(super) label: String,
    pub(super) options: McpServerOptions,
    /// The client for a URL from a request.
    egress: Option<Egress>,
    pub(super) tasks: TaskTracker,
    closing: CancellationToken,
    /// The tokens, if the server requires OAuth.
    pub(super) authorization: Option<Authorization>,
    /// Tools that must be called as tasks, as far as known.
    as_tasks: Mutex<HashSet<String>>,
    line: Mutex<Line>,
}

/// State of the connection.
#[derive(Default)]
struct Line {
    open: Option<Arc<Connection>>,
    attempt: Option<Attempt>,
    /// Failed attempts and early disconnects since the last stable connection.
    failures: u32,
    /// Last error of the tool list, and its time.
    failed: Option<(Instant, ToolError)>,
    /// The protocol version that worked, if the first one failed.
    handshake: Option<Handshake>,
    /// Number of resets. Results of attempts before a reset are ignored.
    n_beginnings: u64,
}

impl Line {
    fn failed_just_now(&self) -> Option<ToolError> {
        let (at, error) = self.failed.as_ref()?;
        (at.elapsed() < REMEMBERED).then(|| error.clone())
    }

    fn note(&mut self, error: Option<&ToolError>) {
        self.failed = error.map(|error| (Instant::now(), error.clone()));
    }
}

/// A connection attempt that several callers can await.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Connection>, ToolError>>>;

impl Server {
    pub(super) fn new(
        label: String,
        options: McpServerOptions,
        egress: Option<Egress>,
        tasks: TaskTracker,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let authorization = match &options.transport {
            McpTransport::Http { url, oauth: Some(oauth), .. } => {
                Some(Authorization::new(url, oauth))
            }
            McpTransport::Http { .. } | McpTransport::Stdio { .. } => None,
        };
        let (as_tasks, line) = (Mutex::default(), Mutex::default());
        Arc::new(Self { label, options, egress, tasks, closing, authorization, as_tasks, line })
    }

    /// Whether the tool must be called as a task, as far as known.
    pub(super) fn is_called_as_a_task(&self, tool: &str) -> bool {
        lock(&self.as_tasks).contains(tool)
    }

    /// Records that the tool must be called as a task.
    pub(super) fn call_as_a_task(&self, tool: &str) {
        lock(&self.as_tasks).insert(tool.to_owned());
    }

    /// Whether a person has to log in.
    pub(super) fn waits_for_login(&self) -> bool {
        let authorization = self.authorization.as_ref();
        authorization.is_some_and(|it| it.is_a_persons() && it.tokens.challenge().is_some())
    }

    /// Whether the server uses a grant without a person.
    pub(super) fn lets_itself_in(&self) -> bool {
        self.authorization.as_ref().is_some_and(|authorization| !authorization.is_a_persons())
    }

    /// Stores the challenge of a request that was refused for lack of authorization.
    pub(super) fn note_challenge(&self, error: &ServiceError) {
        if let (Some(authorization), Some(challenge)) = (&self.authorization, challenge_to(error)) {
            authorization.tokens.keep_challenge(challenge);
        }
    }

    /// Drops the connection and the last error. The next caller reconnects.
    pub(super) fn begin_anew(&self) {
        let mut line = lock(&self.line);
        (line.failed, line.failures, line.attempt) = (None, 0, None);
        line.n_beginnings += 1;
        if let Some(open) = line.open.take() {
            open.retire();
        }
    }

    /// Returns the advice for a server that refuses us.
    pub(super) fn how_to_get_in(&self) -> String {
        match &self.authorization {
            Some(authorization) if authorization.is_a_persons() => {
                format!("somebody has to log in: turnwire mcp login {}", self.label)
            }
            Some(_) | None => OpenError::Unauthorized.words().to_owned(),
        }
    }

    pub(super) fn known_tools(&self) -> Option<Specs> {
        let open = lock(&self.line).open.clone()?;
        open.known_tools().filter(|_| open.is_open())
    }

    /// Returns the tools; requests them if they are not cached and the last request did not fail
    /// recently.
    pub(super) async fn tools(self: &Arc<Self>) -> Result<Specs, ToolError> {
        if let Some(tools) = self.known_tools() {
            return Ok(tools);
        }
        if let Some(error) = lock(&self.line).failed_just_now() {
            return Err(error);
        }
        let connection = self.connection().await?;
        let in_time = timeout(self.options.startup_timeout, self.tools_over(&connection));
        let asked = in_time.await.unwrap_or_else(|_| Err(self.out_of_time()));
        lock(&self.line).note(asked.as_ref().err());
        asked
    }

    async fn tools_over(self: &Arc<Self>, connection: &Connection) -> Result<Specs, ToolError> {
        let _one_asks = connection.asking.lock().await;
        if let Some(tools) = connection.known_tools() {
            return Ok(tools);
        }
        let changes = connection.wire.changes();
        let told = connection.list().await.map_err(|error| self.no_list(&error))?;
        let tools: Specs = specs(&self.label, &self.options, told).map(Arc::new).collect();
        debug!(server = %self.label, tools = tools.len(), "MCP tools listed");
        connection.remember(Arc::clone(&tools), changes);
        Ok(tools)
    }

    /// Returns the connection; opens it if needed.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, ToolError> {
        let attempt = {
            let mut line = lock(&self.line);
            if let Some(open) = line.open.as_ref().filter(|open| open.is_open()) {
                return Ok(Arc::clone(open));
            }
            self.attempt(&mut line)
        };
        attempt.await
    }

    /// Returns the current attempt, or starts one.
    fn attempt(self: &Arc<Self>, line: &mut Line) -> Attempt {
        if let Some(attempt) = &line.attempt {
            return attempt.clone();
        }
        let (tell, told) = oneshot::channel();
        let (server, wait, handshake) =
            (Arc::clone(self), wait_after(line.failures), line.handshake);
        let n_beginnings = line.n_beginnings;
        // A separate task, because the first caller may be cancelled while others wait.
        self.tasks.spawn(async move {
            let result = tokio::select! {
                biased;
                () = server.closing.cancelled() => Err(server.closed()),
                result = server.connect(wait, handshake) => result,
            };
            server.tried(&result, n_beginnings);
            let _ = tell.send(result);
        });
        let closed = self.closed();
        let attempt = told.map(|told| told.unwrap_or(Err(closed))).boxed().shared();
        line.attempt = Some(attempt.clone());
        attempt
    }

    /// Records the result of an attempt, unless there was a reset since its start.
    fn tried(&self, result: &Result<Arc<Connection>, ToolError>, n_beginnings: u64) {
        let mut line = lock(&self.line);
        let is_old = line.n_beginnings != n_beginnings;
        if !is_old {
            line.attempt = None;
            line.note(result.as_ref().err());
        }
        match result {
            Ok(connection) if is_old => connection.retire(),
            Ok(connection) => line.open = Some(Arc::clone(connection)),
            Err(_) if is_old => {}
            Err(_) => line.failures = line.failures.saturating_add(1),
        }
    }

    /// Opens a connection and requests the tools.
    async fn connect(
        self: &Arc<Self>,
        wait: Duration,
        handshake: Option<Handshake>,
    ) -> Result<Arc<Connection>, ToolError> {
        sleep(wait).await;
        let began = Instant::now();
        let until = began + self.options.startup_timeout;
        let (service, wire) = match handshake {
            Some(handshake) => self.introduced(handshake, until).await,
            None => self.introduced_somehow(until).await,
        }?;
        let connection = Arc::new(Connection::new(&service, wire, self.closing.child_token()));
        self.tasks.spawn(Arc::clone(self).keep(service, Arc::clone(&connection)));
        let ready = async {
            connection.subscribe(&self.tasks).await;
            self.tools_over(&connection).await
        };
        let ready = timeout_at(until, ready).await.unwrap_or_else(|_| Err(self.out_of_time()));
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
    async fn introduced_somehow(&self, until: Instant) -> Result<(Service, Arc<Wire>), ToolError> {
        let first = self.options.startup_timeout.mul_f64(0.7);
        let wire = Wire::new(&self.label);
        let opening = self.open(Handshake::Either, &wire);
        match timeout(first, opening).await {
            Ok(Ok(service)) => return Ok((service, wire)),
            Ok(Err(error)) if !error.may_be_the_handshake() => return Err(self.no_line(error)),
            Ok(Err(_)) | Err(_) => {}
        }
        let introduced = self.introduced(Handshake::Older, until).await?;
        lock(&self.line).handshake = Some(Handshake::Older);
        Ok(introduced)
    }

    async fn introduced(
        &self,
        handshake: Handshake,
        until: Instant,
    ) -> Result<(Service, Arc<Wire>), ToolError> {
        let wire = Wire::new(&self.label);
        match timeout_at(until, self.open(handshake, &wire)).await {
            Ok(Ok(service)) => Ok((service, wire)),
            Ok(Err(error)) => Err(self.no_line(error)),
            Err(_) => Err(self.out_of_time()),
        }
    }

    /// Boxed, because the future is large.
    fn open<'a>(
        &'a self,
        handshake: Handshake,
        wire: &'a Arc<Wire>,
    ) -> BoxFuture<'a, Result<Service, OpenError>> {
        let keepers = (&self.tasks, &self.closing);
        let ways =
            Ways { egress: self.egress.as_ref(), authorization: self.authorization.as_ref() };
        open(&self.label, &self.options.transport, ways, handshake, wire, keepers).boxed()
    }

    /// Waits until a connection ends, and cleans up.
    async fn keep(self: Arc<Self>, service: Service, connection: Arc<Connection>) {
        let stop = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        loop {
            tokio::select! {
                biased;
                () = connection.stop.cancelled() => {
                    stop.cancel();
                    let _ = timeout(CLOSING, ended).await;
                    break;
                }
                _ = &mut ended => break,
                () = connection.done() => connection.stop.cancel(),
                () = connection.wire.changed() => {
                    debug!(server = %self.label, "MCP tools changed");
                    let server = Arc::clone(&self);
                    self.tasks.spawn(async move {
                        if let Err(error) = server.tools().await {
                            warn!(server = %server.label, %error, "MCP tools not listed after a change");
                        }
                    });
                }
            }
        }
        connection.stop.cancel();
        self.lost(&connection);
    }

    /// Opens a new connection for new requests. Pending ones may complete on the old one.
    pub(super) fn retire(self: &Arc<Self>, connection: &Arc<Connection>) {
        connection.retire();
        self.lost(connection);
    }

    fn lost(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.closing.is_cancelled() {
            return;
        }
        let mut line = lock(&self.line);
        if !line.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, connection)) {
            return;
        }
        line.open = None;
        line.failures = match connection.opened_at.elapsed() {
            lived if lived >= STEADY => 0,
            _ => line.failures.saturating_add(1),
        };
        warn!(server = %self.label, failures = line.failures, "MCP connection lost");
        if line.failures <= MAX_BY_ITSELF {
            // The attempt runs in the background.
            drop(self.attempt(&mut line));
        }
    }

    fn no_list(&self, error: &ServiceError) -> ToolError {
        warn!(server = %self.label, error = %chain(error), "MCP tools not listed");
        self.note_challenge(error);
        if was_not_let_in(error) {
            return self.transient(&self.how_to_get_in());
        }
        self.transient("it does not tell its tools")
    }

    fn no_line(&self, error: OpenError) -> ToolError {
        match error {
            OpenError::Unauthorized => self.transient(&self.how_to_get_in()),
            error => self.transient(error.words()),
        }
    }

    fn out_of_time(&self) -> ToolError {
        let seconds = self.options.startup_timeout.as_secs_f64();
        self.transient(&format!("it has not answered within {seconds} s"))
    }

    fn closed(&self) -> ToolError {
        self.transient("the connections are being closed")
    }

    /// Nothing was sent, so a retry is safe.
    fn transient(&self, reason: &str) -> ToolError {
        ToolError::Transient(format!("the tool server `{}` is not available: {reason}", self.label))
    }
}

fn wait_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        more => FIRST_WAIT.saturating_mul(2_u32.saturating_pow(more - 1)).min(LONGEST_WAIT),
    }
}
