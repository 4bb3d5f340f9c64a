//! A tool of a server: its spec and its calls.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientRequest, ContentBlock, CustomRequest, ErrorCode,
        GetExtensions, InputRequiredResult, InputResponses, JsonObject, RequestId,
        RequestMetaObject, ServerResult, ToolAnnotations,
    },
    service::{Peer, PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use turnwire_contract::{
    AskBefore, Effect, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
    seeded::{Fault, is_seeded},
};

use super::{
    asking::answers,
    connection::{Aftermath, Connection, chain, never_arrived, refused_with, was_not_let_in},
    options::McpServerOptions,
    result::{limited, read},
    server::Server,
    task,
    wire::{Mailbox, Progress},
};

/// Key of the idempotency key in `_meta`; the same for every attempt of a call.
const IDEMPOTENCY_KEY: &str = "dev.turnwire/idempotencyKey";

/// Timeout of a cancellation notification.
pub(super) const TELLING: Duration = Duration::from_millis(400);

/// Minimum interval between progress notes, so at most ten per second.
const BETWEEN_NOTES: Duration = Duration::from_millis(100);

/// Maximum length of a tool name.
const MAX_NAME: usize = 128;

/// Maximum number of elicitation rounds per call.
const MAX_ROUNDS: usize = 10;

pub(super) struct McpTool {
    pub(super) server: Arc<Server>,
    spec: ToolSpec,
}

/// A request of a call. Later rounds contain the replies to the server's requests.
struct Round {
    arguments: JsonObject,
    key: String,
    responses: Option<InputResponses>,
    state: Option<String>,
    as_a_task: bool,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, spec: ToolSpec) -> Self {
        Self { server, spec }
    }

    /// Calls the tool, and again after each round of elicitation.
    async fn begin(
        &self,
        request: ToolRequest,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let (name, label) = (&self.spec.name, &self.server.label);
        let mut round = Round {
            arguments: request.arguments,
            key: request.idempotency_key,
            responses: None,
            state: None,
            as_a_task: self.server.is_called_as_a_task(name),
        };
        for _ in 0..MAX_ROUNDS {
            let connection = self.connection(context).await?;
            let _under_way = connection.calls.token();
            let mailbox = Mailbox::new(context.run_id.clone());
            let sent = self.send(&connection, self.called(&round, context), &mailbox);
            let answer = match sent.await {
                Ok(handle) => self.answer(handle, &mailbox, context).await,
                Err(error) => Err(Stop::Failed(error)),
            };
            match answer {
                Ok(ServerResult::CallToolResult(result))
                    if !round.as_a_task && says_that_it_wants_a_task(&result, name) =>
                {
                    self.call_as_a_task(&mut round);
                }
                Ok(ServerResult::CallToolResult(result)) => return read(result),
                Ok(ServerResult::InputRequiredResult(asked)) => {
                    let InputRequiredResult { input_requests, request_state, .. } = asked;
                    let requests = input_requests.unwrap_or_default();
                    round.responses = Some(answers(label, requests, context).await?);
                    round.state = request_state;
                }
                Ok(other) => match task::created(&other) {
                    Some(created) => return self.follow(created, context).await,
                    None => return Err(ToolError::Failed(unsupported(label))),
                },
                Err(Stop::Cancelled) => return Err(cancelled()),
                Err(Stop::Failed(error))
                    if !round.as_a_task && wants_a_task(&error, &connection) =>
                {
                    self.call_as_a_task(&mut round);
                }
                Err(Stop::Failed(error)) => {
                    return Err(self.problem(error, &connection, &mailbox));
                }
            }
        }
        Err(ToolError::failed(format!("the server `{label}` asks again and again")))
    }

    fn call_as_a_task(&self, round: &mut Round) {
        let (server, tool) = (&self.server, &self.spec.name);
        debug!(server = %server.label, %tool, "MCP tool requires task mode");
        server.call_as_a_task(tool);
        round.as_a_task = true;
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

    /// Builds the request.
    fn called(&self, round: &Round, context: &ToolContext) -> ClientRequest {
        let mut request = if round.as_a_task {
            // In the old protocol the call requests a task. The protocol library no longer supports
            // this.
            let params = json!({
                "name": self.spec.name,
                "arguments": round.arguments,
                "task": { "ttl": task::time_to_live(context) },
            });
            ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
        } else {
            let mut params = CallToolRequestParams::new(self.spec.name.clone())
                .with_arguments(round.arguments.clone());
            params.input_responses.clone_from(&round.responses);
            params.request_state.clone_from(&round.state);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), json!(round.key));
        request.extensions_mut().insert(RequestMetaObject::from(meta));
        request
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
        match context.begun_task() {
            Some(task) => self.watch(task, &context).await,
            None => self.begin(request, &context).await,
        }
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

fn unsupported(label: &str) -> String {
    format!("the server `{label}` answered with something else than a result")
}

/// Whether the server requires the tool to be called as a task. Old servers then report an unknown
/// method, and have not executed the call.
fn wants_a_task(error: &ServiceError, connection: &Connection) -> bool {
    let is_unknown = matches!(
        error,
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND
    );
    is_unknown && !connection.is_newer()
}

/// The same error from the official TypeScript SDK, which returns it as a result. The text contains
/// the name of the tool, so it cannot be confused with a regular result.
fn says_that_it_wants_a_task(result: &CallToolResult, name: &str) -> bool {
    let words = format!("MCP error -32601: Tool {name} requires task augmentation");
    let first = result.content.first();
    let is_it =
        |block: &ContentBlock| block.as_text().is_some_and(|it| it.text.starts_with(&words));
    result.is_error == Some(true) && first.is_some_and(is_it)
}

/// Returns the specs of the enabled tools of a server.
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
            warn!(server = %label, tool = ?name, "MCP tool with an invalid name ignored");
            return None;
        }
        Some(spec(label, options, &tool))
    })
}

/// A name is shown to models and people, so it must not be empty, too long or contain control
/// characters.
fn is_good_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control)
}

fn spec(label: &str, options: &McpServerOptions, tool: &rmcp::model::Tool) -> ToolSpec {
    let name = tool.name.as_ref();
    let title = || tool.title.as_deref().unwrap_or_default();
    let description = tool.description.as_deref().unwrap_or_else(title);
    let stated = options.effects.get(name).copied().unwrap_or(Effect::Once);
    let own = options.tools.get(name).cloned().unwrap_or_default();
    let is_excepted = matches!(&options.require_approval, AskBefore::AllBut(names)
        if names.iter().any(|excepted| excepted == name));
    ToolSpec {
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        kind: ToolKind::Mcp,
        server: Some(label.to_owned()),
        effect: tightened(stated, tool.annotations.as_ref()),
        parallel: true,
        needs_approval: own.ask.unwrap_or_else(|| options.require_approval.includes(name)),
        exempt: own.ask.map_or(options.exempt || is_excepted, |ask| !ask),
        approval_expiry: own.approval_expiry,
        timeout: own.timeout.or(options.tool_timeout),
        deadline: own.deadline.or(options.tool_deadline),
        most_at_once: own.most_at_once,
        server_most_at_once: options.most_at_once,
        ..ToolSpec::new(name, description)
    }
}

/// Returns the effect class set by the operator, or a stricter one if the server's hints say so.
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
