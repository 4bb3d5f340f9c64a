//! `GET /ws/chat`: the chat WebSocket of specification 002.
//!
//! It sends one turn at a time and queues further messages, because a `token` does not say which
//! turn it belongs to. The socket outlives every turn, and a turn outlives its socket: a client
//! that reconnects finds the answer in the conversation, or resumes where it was.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use axum::{
    extract::{
        State,
        ws::{WebSocketUpgrade, close_code, rejection::WebSocketUpgradeRejection},
    },
    http::StatusCode,
    response::Response as HttpResponse,
};
use futures::{
    Stream, StreamExt, TryStreamExt,
    future::{BoxFuture, join_all, ready},
    stream::FuturesUnordered,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};
use tracing::{debug, error};
use turnwire_contract::{
    Approvals, CallId, ConversationId, EventStream, Item, JournalError, RunId, RunRequest, Scope,
    Seq, StoreError,
};
use turnwire_engine::StartOptions;
use turnwire_surfaces::{Cursor, ErrorCode, FrameAt, WsChat, WsMessage, WsOptions, WsRequest};
use utoipa::IntoParams;

use crate::{
    App, Caller, QueryParams, Result,
    answers::{GivenReply, not_asked},
    connection_permit::ConnectionPermit,
    limits,
    retry::retry_of,
    run_calls::approval,
    streaming::{follow_while_it_runs, frames},
    websocket::{self, ClientSocket, Disconnected, Incoming, SocketEvent},
};

/// Recorded as the source of answers given over the socket.
const BY: &str = "/ws/chat";
/// How long the socket waits for a turn to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7);
/// Timeout for a tool server to list its tools. Servers that take longer are left out.
const TOOLS_TIME: Duration = Duration::from_secs(2);

module_routes! { [connect] }

/// Query parameters of the socket.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ConnectParams {
    /// `1` or `true`: send the list of tools right after connecting.
    tools: Option<String>,
}

/// Open the chat WebSocket.
#[utoipa::path(
    get,
    path = "/ws/chat",
    params(ConnectParams),
    responses(
        (status = 101, description = "The chat WebSocket is open. The client sends `WsRequest`, \
                the server `WsMessage`"),
        (status = 426, description = "The request is not a WebSocket upgrade"),
    )
)]
async fn connect(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<ConnectParams>,
    permit: ConnectionPermit,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse> {
    let upgrade = upgrade.map_err(|_| {
        websocket::upgrade_required("This endpoint is a WebSocket. Send `Upgrade: websocket`.")
    })?;
    let tools = params.tools.is_some_and(|params| matches!(params.as_str(), "1" | "true"));
    let (upgrade, limits) = (upgrade.protocols(["turnwire"]), Arc::clone(&permit.limits));
    Ok(permit.upgrade(&app.clone(), &caller.clone(), upgrade, async move |socket| {
        let options = WsOptions { tools, ..WsOptions::default() };
        let mut chat = Chat {
            socket: ClientSocket::new(app.clone(), &caller, socket, limits),
            app,
            caller,
            options,
            current: None,
            waiting: VecDeque::new(),
            last_run: None,
            last_sent: Cursor::START,
            asking: FuturesUnordered::new(),
        };
        if let Ok(()) = chat.serve().await {
            chat.socket.finish().await;
        }
        debug!("chat socket closed");
    }))
}

struct Chat {
    app: App,
    caller: Caller,
    socket: ClientSocket,
    options: WsOptions,
    current: Option<RunFrames>,
    waiting: VecDeque<RunRequest>,
    /// The latest run of this socket.
    last_run: Option<RunId>,
    /// Cursor of the last frame that was sent.
    last_sent: Cursor,
    /// Pending requests for the list of tools.
    asking: FuturesUnordered<BoxFuture<'static, WsMessage>>,
}

/// The frames of the current turn.
type RunFrames = Pin<Box<dyn Stream<Item = Result<FrameAt<WsMessage>, JournalError>> + Send>>;

impl Chat {
    async fn serve(&mut self) -> Result<(), Disconnected> {
        if self.options.tools {
            self.ask_for_tools();
        }
        let _open = self.app.metrics().stream("socket");
        let app = self.app.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = time_to_close(&app, self.current.is_some()) => Next::Close,
                Some(tools) = self.asking.next() => Next::Tools(tools),
                event = self.socket.next_event() => Next::Event(event),
                message = next_of(&mut self.current) => Next::Frame(message),
            };
            match next {
                Next::Close => {
                    let why = self.resume_hint().unwrap_or_else(|| "the server closes".into());
                    return self.socket.close(close_code::RESTART, why).await;
                }
                Next::Event(event) => match self.socket.accept(event).await? {
                    Incoming::Text(text) => self.handle(&text).await?,
                    Incoming::Binary => {
                        self.refuse(ErrorCode::InvalidFormat, "messages must be JSON text").await?;
                    }
                    Incoming::Nothing => {}
                    Incoming::End => return Ok(()),
                },
                Next::Frame(Some(Ok(message))) => {
                    self.socket.send_text(self.options.wire_text(&message)).await?;
                    self.last_sent = message.cursor;
                }
                Next::Frame(Some(Err(_))) => {
                    // The run continues, and the client can resume it.
                    let why = self.resume_hint().unwrap_or_default();
                    return self.socket.close(close_code::ERROR, why).await;
                }
                Next::Frame(None) => self.start_next().await?,
                Next::Tools(tools) => self.tell(tools).await?,
            }
        }
    }

    async fn handle(&mut self, text: &str) -> Result<(), Disconnected> {
        let request = match WsRequest::read(text) {
            Ok(request) => request,
            Err(why) => return self.refuse(ErrorCode::InvalidFormat, &why).await,
        };
        match request {
            WsRequest::Ping => self.tell(WsMessage::Pong).await,
            WsRequest::Hello(options) => {
                self.options = options;
                if options.tools {
                    self.ask_for_tools();
                }
                Ok(())
            }
            WsRequest::Tools => {
                self.ask_for_tools();
                Ok(())
            }
            WsRequest::Message { conversation_id, content } => {
                self.send_message(conversation_id, content).await
            }
            WsRequest::Cancel => {
                let was_running = match &self.last_run {
                    Some(run) => self.app.cancel(&self.caller, run).await,
                    None => Ok(false),
                };
                self.done(was_running, "there is no run to cancel").await
            }
            WsRequest::ToolCancel { tool_call_id } => {
                let was_at_work = match &self.last_run {
                    Some(run) => self.app.cancel_call(&self.caller, run, &tool_call_id).await,
                    None => Ok(false),
                };
                self.done(was_at_work, "the call is not running").await
            }
            WsRequest::ToolRetry { tool_call_id, arguments } => {
                self.retry(&tool_call_id, arguments).await
            }
            WsRequest::Approval { tool_call_id, approved, reason, arguments, remember } => {
                let answer = approval(approved, reason, arguments, remember).by(BY);
                let Some(run_id) = self.last_run.clone() else { return self.not_asked().await };
                let (app, caller) = (&self.app, &self.caller);
                let answered =
                    app.answer(caller, &run_id, &tool_call_id, answer, "arguments").await;
                self.note_answered(answered).await
            }
            WsRequest::Input { tool_call_id, input_id, action, content } => {
                let Some(run_id) = self.last_run.clone() else { return self.not_asked().await };
                let (app, caller) = (&self.app, &self.caller);
                let reply = GivenReply { input_id, reply: action.reply(content), by: BY };
                let answered = app.reply(caller, &run_id, &tool_call_id, reply, "content").await;
                self.note_answered(answered).await
            }
            WsRequest::Resume { run_id, after } => self.resume(run_id, after).await,
        }
    }

    /// Sends a message in a conversation of the caller.
    async fn send_message(
        &mut self,
        id: ConversationId,
        content: String,
    ) -> Result<(), Disconnected> {
        let found = self.app.runs().store().conversation(self.caller.tenant(), &id).await;
        match found {
            Ok(_) => {}
            Err(StoreError::NotFound(_)) => {
                let why = "there is no such conversation, or it is not yours";
                return self.refuse(ErrorCode::AccessDenied, why).await;
            }
            Err(error) => return self.broken(&error).await,
        }
        let mut run = self.app.chat_request(&self.caller);
        run.conversation_id = Some(id);
        run.input = vec![Item::user(content)];
        self.start_or_queue(run).await
    }

    /// Starts a turn, or queues it behind the current one.
    async fn start_or_queue(&mut self, run: RunRequest) -> Result<(), Disconnected> {
        if self.current.is_none() {
            return self.begin(run).await;
        }
        let max_waiting = self.socket.limits().socket_queue;
        if self.waiting.len() >= max_waiting {
            self.app.metrics().limit_reached(limits::MAX_QUEUE);
            let why =
                format!("{max_waiting} messages are already queued; wait for an answer first");
            return self.refuse(ErrorCode::InvalidFormat, &why).await;
        }
        self.waiting.push_back(run);
        Ok(())
    }

    async fn start_next(&mut self) -> Result<(), Disconnected> {
        self.current = None;
        if self.app.closing().is_cancelled() {
            // Queued turns are not started any more; the close of the socket tells the client.
            self.waiting.clear();
        }
        while let Some(run) = self.waiting.pop_front() {
            self.begin(run).await?;
            if self.current.is_some() {
                break;
            }
        }
        Ok(())
    }

    async fn begin(&mut self, mut run: RunRequest) -> Result<(), Disconnected> {
        if !self.options.approvals {
            run.approvals = Approvals::Decline;
        }
        run.inputs = self.options.inputs;
        let handle = match self.app.start(&self.caller, run, StartOptions::default()).await {
            Ok(handle) => handle,
            // Errors the client can act on are sent as they are.
            Err(error) => {
                self.app.count(&error);
                let code = match error.code {
                    "model_not_found" => ErrorCode::LlmError,
                    _ => ErrorCode::InternalError,
                };
                return self.refuse(code, &error.message).await;
            }
        };
        match handle.events().await {
            Ok(events) => self.watch(handle.id().clone(), events, Cursor::START),
            Err(error) => return self.broken(&error).await,
        }
        Ok(())
    }

    fn watch(&mut self, run_id: RunId, events: EventStream, after: Cursor) {
        self.last_run = Some(run_id);
        self.last_sent = after;
        let messages = frames(WsChat::new(self.options), events);
        let messages = messages.try_filter_map(move |(_, message)| {
            ready(Ok(message.cursor.is_after(after).then_some(message)))
        });
        self.current = Some(Box::pin(messages));
    }

    async fn resume(&mut self, run_id: Option<RunId>, after: Cursor) -> Result<(), Disconnected> {
        if self.current.is_some() {
            return self
                .refuse(ErrorCode::InvalidFormat, "a run is in progress on this connection")
                .await;
        }
        let Some(run_id) = run_id.or_else(|| self.last_run.clone()) else {
            return self.refuse(ErrorCode::InvalidFormat, "`run_id` is missing").await;
        };
        if self.last_run.as_ref() != Some(&run_id)
            && let Err(error) = self.caller.ensure(Scope::RunsRead)
        {
            return self.refuse(ErrorCode::AccessDenied, &error.message).await;
        }
        let (runs, tenant) = (self.app.runs(), self.caller.tenant());
        if let Ok(false) = runs.has_reached(tenant, &run_id, after.seq).await {
            let why = format!(
                "the run has not reached {after}; resume after the last message that you received"
            );
            return self.refuse(ErrorCode::InvalidFormat, &why).await;
        }
        match follow_while_it_runs(runs, tenant, &run_id, Seq::START).await {
            Ok(events) => {
                self.watch(run_id, events, after);
                Ok(())
            }
            Err(JournalError::NotFound(_)) => {
                let why = "there is no such run, or it is not yours";
                self.refuse(ErrorCode::AccessDenied, why).await
            }
            Err(error) => self.broken(&error).await,
        }
    }

    async fn retry(
        &mut self,
        call_id: &CallId,
        arguments: Option<Map<String, Value>>,
    ) -> Result<(), Disconnected> {
        let Some(run_id) = self.last_run.clone() else {
            return self.refuse(ErrorCode::InvalidFormat, "there is no call to retry").await;
        };
        match retry_of(&self.app, &self.caller, &run_id, call_id, arguments).await {
            Ok(run) => self.start_or_queue(run).await,
            Err(error) => self.refuse(ErrorCode::InvalidFormat, &error.message).await,
        }
    }

    /// Sends the reason if a user's answer was not accepted.
    async fn note_answered(&mut self, answered: Result<()>) -> Result<(), Disconnected> {
        let Err(error) = answered else { return Ok(()) };
        let code = match error.status {
            StatusCode::FORBIDDEN => ErrorCode::AccessDenied,
            status if status.is_server_error() => return self.broken(&error.message).await,
            _ => ErrorCode::InvalidFormat,
        };
        self.refuse(code, &error.message).await
    }

    async fn not_asked(&mut self) -> Result<(), Disconnected> {
        self.note_answered(Err(not_asked())).await
    }

    /// Requests the list of tools in the background.
    fn ask_for_tools(&self) {
        self.asking.push(Box::pin(all_tools(self.app.clone(), self.caller.clone())));
    }

    async fn done(&mut self, was_done: Result<bool>, otherwise: &str) -> Result<(), Disconnected> {
        match was_done {
            Ok(true) => Ok(()),
            Ok(false) => self.refuse(ErrorCode::InvalidFormat, otherwise).await,
            Err(error) => self.broken(&error.message).await,
        }
    }

    async fn broken(&mut self, cause: &(dyn std::fmt::Display + Sync)) -> Result<(), Disconnected> {
        error!(%cause, "chat request failed");
        self.refuse(ErrorCode::InternalError, "something went wrong; try again").await
    }

    async fn refuse(&mut self, code: ErrorCode, why: &str) -> Result<(), Disconnected> {
        self.tell(WsMessage::refused(code, why)).await
    }

    async fn tell(&mut self, message: WsMessage) -> Result<(), Disconnected> {
        self.socket.send_text(turnwire_surfaces::wire_json(&message)).await
    }

    /// Cursor to resume the current turn from, in the format of `/chat/stream`.
    fn resume_hint(&self) -> Option<String> {
        let run_id = self.current.as_ref().and(self.last_run.as_ref())?;
        Some(format!("{run_id}:{}", self.last_sent))
    }
}

/// What happens next on a socket.
enum Next {
    Event(SocketEvent),
    Frame(Option<Result<FrameAt<WsMessage>, JournalError>>),
    Tools(WsMessage),
    Close,
}

/// Waits until the server shuts down and the current turn has ended. Durable runs continue on
/// another worker, so their turns are not waited for.
async fn time_to_close(app: &App, has_run: bool) {
    app.closing().cancelled().await;
    if has_run && !app.ends_streams() {
        sleep(DRAIN_TIMEOUT).await;
    }
}

/// The next frame of the current turn. Pending for ever if there is none.
async fn next_of(
    current: &mut Option<RunFrames>,
) -> Option<Result<FrameAt<WsMessage>, JournalError>> {
    match current {
        Some(current) => current.next().await,
        None => std::future::pending().await,
    }
}

/// The configured tools and those of every server. All servers are queried at once; one that does
/// not respond in time is left out.
async fn all_tools(app: App, caller: Caller) -> WsMessage {
    let (runs, who) = (app.runs(), caller.principal());
    let request = app.chat_request(&caller);
    let of_servers = join_all(request.servers.iter().map(async |server| {
        if let Some(known) = runs.known_server_tools(who, &server.label) {
            return known;
        }
        let asked = timeout(TOOLS_TIME, runs.server_tools(who, &server.label)).await;
        asked.ok().and_then(Result::ok).unwrap_or_default()
    }));
    let of_servers = of_servers.await;
    let of_servers = of_servers.iter().flatten().map(|tool| tool.spec());
    WsMessage::tools(request.tools.iter().map(AsRef::as_ref).chain(of_servers))
}
