//! One tool of a server: what is known about it, and how it is called.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientRequest, JsonObject, RequestId, RequestMetaObject, ServerResult, ToolAnnotations,
    },
    service::{Peer, PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use turnwire_contract::{
    Effect, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
    seeded::{Fault, is_seeded},
};

use super::{
    connection::{Aftermath, Connection, chain, never_connected, refused_with},
    options::McpServerOptions,
    result::{limited, read},
    server::Server,
    wire::{Mailbox, Progress},
};

/// Where a call's key is in the request: the same for every try of the call.
const IDEMPOTENCY_KEY: &str = "dev.turnwire/idempotencyKey";

/// How long telling the server to stop may take.
const TELLING: Duration = Duration::from_millis(400);

/// How long a note of a call waits for a newer one after the last that was passed on: a chatty
/// server is heard ten times a second.
const BETWEEN_NOTES: Duration = Duration::from_millis(100);

/// The longest name a tool may have.
const MAX_NAME: usize = 128;

/// A tool of an MCP server.
pub(super) struct McpTool {
    server: Arc<Server>,
    spec: ToolSpec,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, spec: ToolSpec) -> Self {
        Self { server, spec }
    }

    /// Sends the call. From here on only the mailbox knows whether the server may have it.
    async fn send(
        &self,
        connection: &Connection,
        request: ToolRequest,
        mailbox: &Arc<Mailbox>,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        let params =
            CallToolRequestParams::new(self.spec.name.clone()).with_arguments(request.arguments);
        let mut call = CallToolRequest::new(params);
        call.extensions.insert(mailbox.address());
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), json!(request.idempotency_key));
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let call = ClientRequest::CallToolRequest(call);
        connection.peer.send_cancellable_request(call, options).await
    }

    /// Waits for the answer, and passes on what comes before it.
    async fn answer(
        &self,
        handle: RequestHandle<RoleClient>,
        mailbox: &Mailbox,
        context: &ToolContext,
    ) -> Result<ServerResult, Stop> {
        let (peer, id) = (handle.peer.clone(), Some(handle.id.clone()));
        let mut unanswered = Unanswered { peer, id, tasks: &self.server.tasks };
        let mut answer = handle.rx;
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

    /// What a failed call means for whoever made it.
    fn problem(
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
        warn!(server = %label, tool = %name, error = %chain(&error), "The call broke off.");
        let aftermath = connection.after(&error);
        match aftermath {
            Aftermath::Ended => connection.stop.cancel(),
            // The next one should not meet it, and those beside it should not suffer from it.
            Aftermath::OutOfReach => self.server.retire(connection),
            Aftermath::AsBefore => {}
        }
        let never_arrived =
            matches!(&error, ServiceError::TransportSend(error) if never_connected(error));
        if !mailbox.was_handed_over() || never_arrived {
            return ToolError::Transient(format!(
                "the server `{label}` went away before it was given the call"
            ));
        }
        let what = match (refused_with(&error), aftermath) {
            (Some(status), _) => format!("answered the call with the HTTP status {status}"),
            (None, Aftermath::AsBefore) => "did not answer the call as it should".to_owned(),
            (None, _) => "went away in the middle of the call".to_owned(),
        };
        ToolError::failed(format!(
            "the server `{label}` {what}; whether it did its work is not known"
        ))
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let connection = tokio::select! {
            biased;
            () = context.cancelled() => return Err(cancelled()),
            connection = self.server.connection() => connection?,
        };
        let _under_way = connection.calls.token();
        let mailbox = Arc::new(Mailbox::default());
        let answer = match self.send(&connection, request, &mailbox).await {
            Ok(handle) => self.answer(handle, &mailbox, &context).await,
            Err(error) => Err(Stop::Failed(error)),
        };
        match answer {
            Ok(ServerResult::CallToolResult(result)) => read(result),
            Ok(other) => Err(ToolError::Failed(unsupported(&self.server.label, &other))),
            Err(Stop::Cancelled) => Err(cancelled()),
            Err(Stop::Failed(error)) => Err(self.problem(error, &connection, &mailbox)),
        }
    }
}

/// Why there is no answer.
enum Stop {
    Cancelled,
    Failed(ServiceError),
}

/// A call the server still works on, as far as is known. Whoever loses interest in it without
/// saying so has it cancelled all the same.
struct Unanswered<'a> {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    tasks: &'a TaskTracker,
}

impl Unanswered<'_> {
    /// Tells the server to stop.
    async fn tell(&mut self, reason: &str) {
        let Some(id) = self.id.take() else { return };
        let telling = self.peer.send_notification(stop_working_on(id, reason).into());
        match timeout(TELLING, telling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "The server could not be told to stop."),
            Err(_) => debug!("The server could not be told to stop in time."),
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        // A runtime that is gone takes the connection along.
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

fn cancelled() -> ToolError {
    ToolError::failed("the call was cancelled")
}

fn unsupported(label: &str, result: &ServerResult) -> String {
    let what = match result {
        ServerResult::CreateTaskResult(_) => "turned the call into a task",
        ServerResult::InputRequiredResult(_) => "asks for more input in the middle of the call",
        _ => return format!("the server `{label}` answered with something else than a result"),
    };
    format!("the server `{label}` {what}, which is not supported yet")
}

/// What is known about the tools that a server has told of, as far as they exist for us.
pub(super) fn specs<'a>(
    label: &'a str,
    options: &'a McpServerOptions,
    told: Vec<rmcp::model::Tool>,
) -> impl Iterator<Item = ToolSpec> + 'a {
    let mut seen = HashSet::new();
    told.into_iter().filter_map(move |tool| {
        let name = tool.name.as_ref();
        let enabled = options.enabled_tools.as_ref();
        if !enabled.is_none_or(|enabled| enabled.iter().any(|known| known == name)) {
            return None;
        }
        if !is_good_name(name) || !seen.insert(name.to_owned()) {
            warn!(server = %label, tool = ?name, "A tool without a usable name is left out.");
            return None;
        }
        Some(spec(label, options, &tool))
    })
}

/// A name goes to models and people; one that is empty, endless or full of control characters
/// is of no use to either.
fn is_good_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control)
}

fn spec(label: &str, options: &McpServerOptions, tool: &rmcp::model::Tool) -> ToolSpec {
    let name = tool.name.as_ref();
    let title = || tool.title.as_deref().unwrap_or_default();
    let description = tool.description.as_deref().unwrap_or_else(title);
    let stated = options.effects.get(name).copied().unwrap_or(Effect::Once);
    ToolSpec {
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        kind: ToolKind::Mcp,
        server: Some(label.to_owned()),
        effect: tightened(stated, tool.annotations.as_ref()),
        parallel: true,
        needs_approval: options.require_approval.includes(name),
        timeout: options.tool_timeout,
        ..ToolSpec::new(name, description)
    }
}

/// The operator says what a tool does to the world; the server can only say that it is worse.
fn tightened(stated: Effect, hints: Option<&ToolAnnotations>) -> Effect {
    let Some(hints) = hints else { return stated };
    if is_seeded(Fault::TrustAnnotations) && hints.read_only_hint == Some(true) {
        return Effect::Pure;
    }
    let acts = hints.read_only_hint == Some(false);
    match (stated, hints.idempotent_hint) {
        (Effect::Pure, Some(true)) if acts => Effect::Idempotent,
        (Effect::Pure, _) | (Effect::Idempotent, Some(false)) if acts => Effect::Once,
        (stated, _) => stated,
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
