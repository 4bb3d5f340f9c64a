//! A tool of a server: its spec, and how a call is sent and waited for.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientRequest, GetExtensions, RequestId,
        ServerResult,
    },
    service::{Peer, PeerRequestOptions, RequestHandle, ServiceError},
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use turnwire_contract::{Tool, ToolContext, ToolError, ToolSpec};

use super::{
    connection::{Connection, FailureImpact, http_status_of, is_unauthorized, was_not_delivered},
    http::is_too_large,
    redactor::Redactor,
    result::limited,
    router::{PendingCall, Progress},
    server::Server,
};

use crate::Result;

/// Timeout of a cancellation notification.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_millis(400);

/// Minimum interval between progress reports, so at most ten per second.
const MIN_PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct McpTool {
    pub(super) server: Arc<Server>,
    pub(super) spec: Arc<ToolSpec>,
}

impl McpTool {
    /// The tool of a server that has listed this spec.
    pub(super) fn shared(server: &Arc<Server>, spec: &Arc<ToolSpec>) -> Arc<dyn Tool> {
        Arc::new(Self { server: Arc::clone(server), spec: Arc::clone(spec) })
    }

    /// The tools of a server that has listed these specs.
    pub(super) fn all_of(server: &Arc<Server>, specs: &[Arc<ToolSpec>]) -> Vec<Arc<dyn Tool>> {
        specs.iter().map(|spec| Self::shared(server, spec)).collect()
    }

    pub(super) async fn connection(&self, context: &ToolContext) -> Result<Arc<Connection>> {
        tokio::select! {
            biased;
            () = context.cancelled() => Err(cancelled()),
            connection = self.server.connection() => connection,
        }
    }

    /// Sends a request. From here on only `pending` knows whether the server may have received it.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        mut request: ClientRequest,
        pending: &Arc<PendingCall>,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        request.extensions_mut().insert(pending.as_extension());
        let options = PeerRequestOptions::no_options();
        connection.peer.send_cancellable_request(request, options).await
    }

    /// Waits for the response, and reports progress meanwhile.
    pub(super) async fn response(
        &self,
        handle: RequestHandle<RoleClient>,
        pending: &PendingCall,
        context: &ToolContext,
    ) -> Result<ServerResult, NoResponse> {
        let (peer, id) = (handle.peer.clone(), Some(handle.id.clone()));
        let (tasks, redactor) = (&self.server.tasks, &*self.server.redactor);
        let mut cancel_on_drop = CancelOnDrop { peer, id, tasks, redactor, context };
        let mut response = handle.rx;
        let mut questions = FuturesUnordered::new();
        let mut next_report = Instant::now();
        let next_progress = async |next_report| {
            sleep_until(next_report).await;
            pending.next_progress().await
        };
        loop {
            tokio::select! {
                biased;
                () = context.cancelled() => {
                    cancel_on_drop.cancel("the call was cancelled").await;
                    return Err(NoResponse::Cancelled);
                }
                progress = next_progress(next_report) => {
                    next_report = Instant::now() + MIN_PROGRESS_INTERVAL;
                    report_progress(progress, context).await;
                }
                (question, reply) = pending.next_question() => questions.push(async move {
                    // The server may have stopped waiting.
                    let _ = reply.send(context.ask(question).await);
                }),
                Some(()) = questions.next() => {}
                response = &mut response => {
                    cancel_on_drop.id = None;
                    if let Some(progress) = pending.take_progress() {
                        report_progress(progress, context).await;
                    }
                    return response
                        .unwrap_or(Err(ServiceError::TransportClosed))
                        .map_err(NoResponse::Failed);
                }
            }
        }
    }

    /// Updates the connection after a failed request.
    pub(super) fn handle_failure(
        &self,
        error: &ServiceError,
        connection: &Arc<Connection>,
    ) -> FailureImpact {
        let impact = connection.impact_of(error);
        match impact {
            FailureImpact::ConnectionClosed => connection.stop.cancel(),
            // New requests get a new connection; pending ones are not affected.
            FailureImpact::ServerUnreachable => self.server.retire(connection),
            FailureImpact::RequestOnly => {}
        }
        impact
    }

    /// Converts the error of a failed call.
    pub(super) fn call_error(
        &self,
        error: ServiceError,
        connection: &Arc<Connection>,
        pending: &PendingCall,
    ) -> ToolError {
        let (label, name) = (&self.server.label, &self.spec.name);
        if let ServiceError::McpError(error) = &error {
            if is_too_large(error) {
                return ToolError::failed(format!(
                    "the answer of the server `{label}` has more than 16 MiB or 250,000 values and \
                     was not read; the call may have been executed"
                ));
            }
            let message = limited(error.message.trim());
            return ToolError::failed(format!("the server `{label}` refused the call: {message}"));
        }
        let why = self.server.redactor.error(&error);
        warn!(server = %label, tool = %name, error = %why, "MCP call failed");
        self.server.note_challenge(&error);
        let impact = self.handle_failure(&error, connection);
        if !pending.was_sent() || was_not_delivered(&error) {
            return ToolError::Transient(format!(
                "the server `{label}` disconnected before the call was sent"
            ));
        }
        if is_unauthorized(&error) {
            let advice = self.server.authorization_advice();
            let message = format!("the server `{label}` refused the call: {advice}");
            return if self.server.uses_client_credentials() {
                ToolError::Transient(message)
            } else {
                ToolError::Failed(message)
            };
        }
        let what = match (http_status_of(&error), impact) {
            (Some(status), _) => return http_status_error(status, label),
            (None, FailureImpact::RequestOnly) => "returned an invalid response to the call",
            (None, _) => "disconnected during the call",
        };
        ToolError::OutcomeUnknown(format!("the server `{label}` {what}"))
    }
}

/// Why there is no response.
pub(super) enum NoResponse {
    Cancelled,
    Failed(ServiceError),
}

/// A call without a response so far. Dropping it cancels the call, unless another worker continues
/// it.
struct CancelOnDrop<'a> {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    tasks: &'a TaskTracker,
    redactor: &'a Redactor,
    context: &'a ToolContext,
}

impl CancelOnDrop<'_> {
    async fn cancel(&mut self, reason: &str) {
        let Some(id) = self.id.take() else { return };
        let sending = self.peer.send_notification(cancellation(id, reason).into());
        match timeout(CANCEL_TIMEOUT, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = self.redactor.error(&error);
                debug!(%error, "MCP cancellation failed");
            }
            Err(_) => debug!("MCP cancellation timed out"),
        }
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take().filter(|_| !self.context.is_left()) else { return };
        let peer = self.peer.clone();
        // Without a runtime the connection is closed anyway.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(async move {
                let sending = peer.send_notification(
                    cancellation(id, "the caller no longer waits for it").into(),
                );
                let _ = timeout(CANCEL_TIMEOUT, sending).await;
            });
        }
    }
}

fn cancellation(id: RequestId, reason: &str) -> CancelledNotification {
    CancelledNotification::new(CancelledNotificationParam::new(Some(id), Some(reason.to_owned())))
}

async fn report_progress(progress: Progress, context: &ToolContext) {
    match progress.message {
        Some(message) => context.progress_with(progress.done, progress.total, message).await,
        None => context.progress(progress.done, progress.total).await,
    }
}

/// Converts an HTTP error status of a call. A client error was not executed. After a server error
/// the call may have been executed.
fn http_status_error(status: u16, label: &str) -> ToolError {
    let message = format!("the server `{label}` answered the call with the HTTP status {status}");
    match status {
        408 | 425 | 429 => ToolError::Transient(message),
        400..=499 => ToolError::Failed(message),
        _ => ToolError::OutcomeUnknown(message),
    }
}

pub(super) fn cancelled() -> ToolError {
    ToolError::failed("the call was cancelled")
}
