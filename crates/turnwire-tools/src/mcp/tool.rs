//! A tool of a server: its spec and its calls.

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
    connection::{Aftermath, Connection, chain, never_arrived, refused_with, was_not_let_in},
    result::limited,
    server::Server,
    wire::{Mailbox, Progress},
};

/// Timeout of a cancellation notification.
pub(super) const TELLING: Duration = Duration::from_millis(400);

/// Minimum interval between progress notes, so at most ten per second.
const BETWEEN_NOTES: Duration = Duration::from_millis(100);

pub(super) struct McpTool {
    pub(super) server: Arc<Server>,
    pub(super) spec: Arc<ToolSpec>,
}

impl McpTool {
    /// The tools of a server that has listed these.
    pub(super) fn all_of(server: &Arc<Server>, specs: &[Arc<ToolSpec>]) -> Vec<Arc<dyn Tool>> {
        let tool = |spec: &Arc<ToolSpec>| {
            let (server, spec) = (Arc::clone(server), Arc::clone(spec));
            Arc::new(Self { server, spec }) as Arc<dyn Tool>
        };
        specs.iter().map(tool).collect()
    }

    pub(super) async fn connection(
        &self,
        context: &ToolContext,
    ) -> Result<Arc<Connection>, ToolError> {
        tokio::select! {
            biased;
            () = context.cancelled() => Err(cancelled()),
            connection = self.server.connection() => connection,
        }
    }

    /// Sends a request. From here on only the mailbox knows whether the server may have received
    /// it.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        mut request: ClientRequest,
        mailbox: &Arc<Mailbox>,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        request.extensions_mut().insert(mailbox.address());
        let options = PeerRequestOptions::no_options();
        connection.peer.send_cancellable_request(request, options).await
    }

    /// Waits for the response, and passes on notes meanwhile.
    pub(super) async fn answer(
        &self,
        handle: RequestHandle<RoleClient>,
        mailbox: &Mailbox,
        context: &ToolContext,
    ) -> Result<ServerResult, Stop> {
        let (peer, id) = (handle.peer.clone(), Some(handle.id.clone()));
        let mut unanswered = Unanswered { peer, id, tasks: &self.server.tasks };
        let mut answer = handle.rx;
        let mut asking = FuturesUnordered::new();
        let mut quiet_until = Instant::now();
        let next_note = async |quiet_until| {
            sleep_until(quiet_until).await;
            mailbox.next().await
        };
        loop {
            tokio::select! {
                biased;
                () = context.cancelled() => {
                    unanswered.tell("the call was cancelled").await;
                    return Err(Stop::Cancelled);
                }
                note = next_note(quiet_until) => {
                    quiet_until = Instant::now() + BETWEEN_NOTES;
                    pass_on(note, context).await;
                }
                (question, tell) = mailbox.next_question() => asking.push(async move {
                    // The server may have stopped waiting.
                    let _ = tell.send(context.ask(question).await);
                }),
                Some(()) = asking.next() => {}
                answer = &mut answer => {
                    unanswered.id = None;
                    if let Some(note) = mailbox.take() {
                        pass_on(note, context).await;
                    }
                    return answer
                        .unwrap_or(Err(ServiceError::TransportClosed))
                        .map_err(Stop::Failed);
                }
            }
        }
    }

    /// Updates the connection after a failed request.
    pub(super) fn settle(&self, error: &ServiceError, connection: &Arc<Connection>) -> Aftermath {
        let aftermath = connection.after(error);
        match aftermath {
            Aftermath::Ended => connection.stop.cancel(),
            // New requests get a new connection; pending ones are not affected.
            Aftermath::OutOfReach => self.server.retire(connection),
            Aftermath::AsBefore => {}
        }
        aftermath
    }

    /// Converts the error of a failed call.
    pub(super) fn problem(
        &self,
        error: ServiceError,
        connection: &Arc<Connection>,
        mailbox: &Mailbox,
    ) -> ToolError {
        let (label, name) = (&self.server.label, &self.spec.name);
        if let ServiceError::McpError(error) = &error {
            let message = limited(error.message.trim());
            return ToolError::failed(format!("the server `{label}` refused the call: {message}"));
        }
        warn!(server = %label, tool = %name, error = %chain(&error), "MCP call failed");
        self.server.note_challenge(&error);
        let aftermath = self.settle(&error, connection);
        if !mailbox.was_handed_over() || never_arrived(&error) {
            return ToolError::Transient(format!(
                "the server `{label}` went away before it was given the call"
            ));
        }
        if was_not_let_in(&error) {
            let way = self.server.how_to_get_in();
            let words = format!("the server `{label}` refused the call: {way}");
            return if self.server.lets_itself_in() {
                ToolError::Transient(words)
            } else {
                ToolError::Failed(words)
            };
        }
        let what = match (refused_with(&error), aftermath) {
            (Some(status), _) => return answered_with(status, label),
            (None, Aftermath::AsBefore) => "did not answer the call as it should",
            (None, _) => "went away in the middle of the call",
        };
        ToolError::OutcomeUnknown(format!("the server `{label}` {what}"))
    }
}

/// Why there is no response.
pub(super) enum Stop {
    Cancelled,
    Failed(ServiceError),
}

/// A call without a response so far. Dropping it cancels the call.
struct Unanswered<'a> {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    tasks: &'a TaskTracker,
}

impl Unanswered<'_> {
    /// Sends the cancellation.
    async fn tell(&mut self, reason: &str) {
        let Some(id) = self.id.take() else { return };
        let telling = self.peer.send_notification(stop_working_on(id, reason).into());
        match timeout(TELLING, telling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "MCP cancellation failed"),
            Err(_) => debug!("MCP cancellation timed out"),
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        // Without a runtime the connection is closed anyway.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(async move {
                let telling = peer
                    .send_notification(stop_working_on(id, "nobody waits for it any more").into());
                let _ = timeout(TELLING, telling).await;
            });
        }
    }
}

fn stop_working_on(id: RequestId, reason: &str) -> CancelledNotification {
    CancelledNotification::new(CancelledNotificationParam::new(Some(id), Some(reason.to_owned())))
}

async fn pass_on(note: Progress, context: &ToolContext) {
    match note.message {
        Some(message) => context.progress_with(note.done, note.total, message).await,
        None => context.progress(note.done, note.total).await,
    }
}

/// Converts an HTTP error status of a call. A client error was not executed. After a server error
/// the call may have been executed.
fn answered_with(status: u16, label: &str) -> ToolError {
    let words = format!("the server `{label}` answered the call with the HTTP status {status}");
    match status {
        408 | 425 | 429 => ToolError::Transient(words),
        400..=499 => ToolError::Failed(words),
        _ => ToolError::OutcomeUnknown(words),
    }
}

pub(super) fn cancelled() -> ToolError {
    ToolError::failed("the call was cancelled")
}
