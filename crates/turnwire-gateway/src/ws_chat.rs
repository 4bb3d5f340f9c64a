//! `GET /ws/chat`: the socket of specification 002.
//!
//! One turn at a time; what is said meanwhile waits its turn, because a `token` does not say
//! which turn it belongs to. The socket outlives every turn, and a turn outlives its socket:
//! whoever comes back finds the answer in the conversation, or reads on where it was.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use axum::{
    extract::{
        State,
        ws::{
            CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code,
            rejection::WebSocketUpgradeRejection,
        },
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
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error};
use turnwire_contract::{
    Approvals, CallId, ConversationId, EventStream, Item, LogError, RunId, RunRequest, Seq,
    StoreError,
};
use turnwire_engine::{AnswerError, Answered, Start};
use turnwire_surfaces::{Cursor, ErrorCode, Placed, WsChat, WsMessage, WsOptions, WsRequest};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    door::Caller,
    metrics::Direction,
    query::Asked,
    refusal::{ErrorBody, Refusal},
    retry::retry_of,
    run_calls::{approval, taken},
    seat::Seat,
    server::{HttpLimits, WRITE_TIMEOUT},
    sockets::{self, Pace},
    streaming::{follow_while_it_runs, frames},
};

/// Where answers that come over the socket come from.
const BY: &str = "/ws/chat";
/// How often the client is asked whether it is there.
const PING: Duration = Duration::from_secs(20);
/// How long a turn may be silent when the server closes, before its socket ends without it.
const LAST_TURN: Duration = Duration::from_secs(7);
/// How long a server may take to say which tools it has, before the others are told without.
const TOOLS_TIME: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(connect))
}

/// What a client can ask for in the address.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ConnectWish {
    /// `1`: send the tools at once.
    tools: Option<String>,
}

#[utoipa::path(
    get,
    path = "/ws/chat",
    tag = "chat",
    params(ConnectWish),
    responses(
        (status = 101, description = "A chat socket: see `WsRequest` and `WsMessage`"),
        (status = 426, description = "Not a WebSocket", body = ErrorBody),
    )
)]
async fn connect(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<ConnectWish>,
    seat: Seat,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse, Refusal> {
    let upgrade = upgrade.map_err(|_| {
        let message = "This is a WebSocket; come with `Upgrade: websocket`.";
        Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
    })?;
    let tools = wish.tools.is_some_and(|wish| matches!(wish.as_str(), "1" | "true"));
    let (upgrade, limits) = (upgrade.protocols(["turnwire"]), Arc::clone(&seat.limits));
    Ok(seat.upgrade(&app.clone(), upgrade, async move |socket| {
        let options = WsOptions { tools, ..WsOptions::default() };
        let mut chat = Chat {
            app,
            caller,
            socket,
            pace: Pace::new(limits.socket_messages_per_second),
            limits,
            options,
            turn: None,
            waiting: VecDeque::new(),
            last_run: None,
            told: Cursor::START,
            asking: FuturesUnordered::new(),
        };
        if let Ok(()) = chat.go_on().await {
            sockets::finish(&mut chat.socket).await;
        }
        debug!("A chat socket was closed.");
    }))
}

/// The client is gone.
struct Gone;

/// One socket.
struct Chat {
    app: App,
    caller: Caller,
    socket: WebSocket,
    limits: Arc<HttpLimits>,
    pace: Pace,
    options: WsOptions,
    turn: Option<Turn>,
    waiting: VecDeque<RunRequest>,
    /// The latest run of this socket.
    last_run: Option<RunId>,
    /// How far it has been told.
    told: Cursor,
    /// Which tools there are, being found out.
    asking: FuturesUnordered<BoxFuture<'static, WsMessage>>,
}

/// A turn that is being told.
type Turn = Pin<Box<dyn Stream<Item = Result<Placed<WsMessage>, LogError>> + Send>>;

impl Chat {
    async fn go_on(&mut self) -> Result<(), Gone> {
        if self.options.tools {
            self.ask_for_tools();
        }
        let _open = self.app.metrics().stream("socket");
        let app = self.app.clone();
        let mut ping_at = Instant::now() + PING;
        loop {
            let next = tokio::select! {
                biased;
                () = time_to_close(&app, self.turn.is_some()) => Next::Close,
                Some(tools) = self.asking.next() => Next::Tools(tools),
                message = self.socket.recv() => Next::Heard(message),
                message = next_of(&mut self.turn) => Next::Tell(message),
                () = sleep_until(ping_at) => Next::Ping,
            };
            match next {
                Next::Close => {
                    let why = self.where_to_read_on().unwrap_or_else(|| "the server closes".into());
                    return self.close(close_code::RESTART, why).await;
                }
                Next::Heard(Some(Ok(_))) if self.pace.is_exceeded() => {
                    self.app.metrics().limit_reached(sockets::MAX_PER_SECOND);
                    return self.send(Message::Close(Some(sockets::too_fast()))).await;
                }
                Next::Heard(Some(Ok(Message::Text(text)))) => {
                    self.app.metrics().ws_message(Direction::Received, text.len());
                    self.hear(&text).await?;
                }
                Next::Heard(Some(Ok(Message::Binary(_)))) => {
                    self.refuse(ErrorCode::InvalidFormat, "messages are JSON texts").await?;
                }
                Next::Heard(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Next::Heard(Some(Ok(Message::Close(_))) | None) => return Ok(()),
                Next::Heard(Some(Err(error))) => return self.refuse_unreadable(error).await,
                Next::Tell(Some(Ok(message))) => {
                    let text = self.options.wire_text(&message);
                    self.send(Message::Text(text.into())).await?;
                    self.told = message.cursor;
                }
                Next::Tell(Some(Err(_))) => {
                    // The run goes on; whoever comes back reads on.
                    let why = self.where_to_read_on().unwrap_or_default();
                    return self.close(close_code::ERROR, why).await;
                }
                Next::Tell(None) => self.next_turn().await?,
                Next::Tools(tools) => self.tell(tools).await?,
                Next::Ping => {
                    ping_at = Instant::now() + PING;
                    self.send(Message::Ping(bytes::Bytes::new())).await?;
                }
            }
        }
    }

    async fn hear(&mut self, text: &str) -> Result<(), Gone> {
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
                self.say(conversation_id, content).await
            }
            WsRequest::Cancel => {
                let was_running = match &self.last_run {
                    Some(run) => self.app.runs().cancel(self.caller.tenant(), run).await,
                    None => Ok(false),
                };
                self.done(was_running, "there is no turn to cancel").await
            }
            WsRequest::ToolCancel { tool_call_id } => {
                let tenant = self.caller.tenant();
                let was_at_work = match &self.last_run {
                    Some(run) => self.app.runs().cancel_call(tenant, run, &tool_call_id).await,
                    None => Ok(false),
                };
                self.done(was_at_work, "that call is not at work").await
            }
            WsRequest::ToolRetry { tool_call_id } => self.retry(&tool_call_id).await,
            WsRequest::Approval { tool_call_id, approved, reason, arguments, remember } => {
                let answer = approval(approved, reason, arguments, remember).by(BY);
                let Some(run_id) = self.last_run.clone() else { return self.not_asked().await };
                let tenant = self.caller.tenant();
                let answered = self.app.runs().answer(tenant, &run_id, &tool_call_id, answer);
                let answered = answered.await;
                self.note_answered(answered, "arguments").await
            }
            WsRequest::Input { tool_call_id, input_id, action, content } => {
                let Some(run_id) = self.last_run.clone() else { return self.not_asked().await };
                let (runs, tenant) = (self.app.runs(), self.caller.tenant());
                let reply = action.reply(content);
                let answered = runs.reply(tenant, &run_id, &tool_call_id, input_id, reply, BY);
                let answered = answered.await;
                self.note_answered(answered, "content").await
            }
            WsRequest::Resume { run_id, after } => self.resume(run_id, after).await,
        }
    }

    /// Says something in a conversation of the caller.
    async fn say(&mut self, id: ConversationId, content: String) -> Result<(), Gone> {
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
        self.take_turn(run).await
    }

    /// Begins a turn, or lets it wait for the one under way.
    async fn take_turn(&mut self, run: RunRequest) -> Result<(), Gone> {
        if self.turn.is_none() {
            return self.begin(run).await;
        }
        let max_waiting = self.limits.socket_queue;
        if self.waiting.len() >= max_waiting {
            self.app.metrics().limit_reached(sockets::MAX_QUEUE);
            let why = format!("{max_waiting} messages wait already; wait for an answer first");
            return self.refuse(ErrorCode::InvalidFormat, &why).await;
        }
        self.waiting.push_back(run);
        Ok(())
    }

    async fn next_turn(&mut self) -> Result<(), Gone> {
        self.turn = None;
        if self.app.closing().is_cancelled() {
            // What waits is not begun any more; the client is told with the end of the socket.
            self.waiting.clear();
        }
        while let Some(run) = self.waiting.pop_front() {
            self.begin(run).await?;
            if self.turn.is_some() {
                break;
            }
        }
        Ok(())
    }

    async fn begin(&mut self, mut run: RunRequest) -> Result<(), Gone> {
        if !self.options.approvals {
            run.approvals = Approvals::Decline;
        }
        run.inputs = self.options.inputs;
        let handle = match self.app.start(&self.caller, run, Start::default()).await {
            Ok(handle) => handle,
            // What the client can do something about is said as it is.
            Err(refusal) => {
                self.app.count(&refusal);
                let code = match refusal.code {
                    "model_not_found" => ErrorCode::LlmError,
                    _ => ErrorCode::InternalError,
                };
                return self.refuse(code, &refusal.message).await;
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
        self.told = after;
        let messages = frames(WsChat::new(self.options), events);
        let messages = messages.try_filter_map(move |(_, message)| {
            ready(Ok(message.cursor.is_after(after).then_some(message)))
        });
        self.turn = Some(Box::pin(messages));
    }

    async fn resume(&mut self, run_id: Option<RunId>, after: Cursor) -> Result<(), Gone> {
        if self.turn.is_some() {
            return self.refuse(ErrorCode::InvalidFormat, "a turn is under way here").await;
        }
        let Some(run_id) = run_id.or_else(|| self.last_run.clone()) else {
            return self.refuse(ErrorCode::InvalidFormat, "say which run to go on with").await;
        };
        let (runs, tenant) = (self.app.runs(), self.caller.tenant());
        if let Ok(false) = runs.has_come_to(tenant, &run_id, after.seq).await {
            let why = format!("the run has not come to {after}; read on after what you have seen");
            return self.refuse(ErrorCode::InvalidFormat, &why).await;
        }
        match follow_while_it_runs(runs, tenant, &run_id, Seq::START).await {
            Ok(events) => {
                self.watch(run_id, events, after);
                Ok(())
            }
            Err(LogError::NotFound(_)) => {
                let why = "there is no such run, or it is not yours";
                self.refuse(ErrorCode::AccessDenied, why).await
            }
            Err(error) => self.broken(&error).await,
        }
    }

    async fn retry(&mut self, call_id: &CallId) -> Result<(), Gone> {
        let Some(run_id) = self.last_run.clone() else {
            return self.refuse(ErrorCode::InvalidFormat, "there is no call to try again").await;
        };
        match retry_of(&self.app, &self.caller, &run_id, call_id).await {
            Ok(run) => self.take_turn(run).await,
            Err(refusal) => self.refuse(ErrorCode::InvalidFormat, &refusal.message).await,
        }
    }

    /// Says why a person's answer does not count, if it does not.
    async fn note_answered(
        &mut self,
        answered: Result<Answered, AnswerError>,
        written: &str,
    ) -> Result<(), Gone> {
        match answered {
            Err(AnswerError::Log(error)) => self.broken(&error).await,
            answered => match taken(answered, written) {
                Ok(()) => Ok(()),
                Err(refusal) => self.refuse(ErrorCode::InvalidFormat, &refusal.message).await,
            },
        }
    }

    async fn not_asked(&mut self) -> Result<(), Gone> {
        self.note_answered(Ok(Answered::NotAsked), "").await
    }

    /// Finds out which tools there are, beside everything else.
    fn ask_for_tools(&self) {
        self.asking.push(Box::pin(all_tools(self.app.clone(), self.caller.clone())));
    }

    async fn done(
        &mut self,
        was_done: Result<bool, StoreError>,
        otherwise: &str,
    ) -> Result<(), Gone> {
        match was_done {
            Ok(true) => Ok(()),
            Ok(false) => self.refuse(ErrorCode::InvalidFormat, otherwise).await,
            Err(error) => self.broken(&error).await,
        }
    }

    async fn broken(&mut self, cause: &(dyn std::fmt::Display + Sync)) -> Result<(), Gone> {
        error!(%cause, "A chat socket could not do what it was asked.");
        self.refuse(ErrorCode::InternalError, "something went wrong; try again").await
    }

    async fn refuse(&mut self, code: ErrorCode, why: &str) -> Result<(), Gone> {
        self.tell(WsMessage::refused(code, why)).await
    }

    async fn tell(&mut self, message: WsMessage) -> Result<(), Gone> {
        self.send(Message::Text(turnwire_surfaces::wire_json(&message).into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        if let Message::Text(text) = &message {
            self.app.metrics().ws_message(Direction::Sent, text.len());
        }
        match timeout(self.limits.write_time, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                self.app.metrics().limit_reached(WRITE_TIMEOUT);
                Err(Gone)
            }
        }
    }

    /// Ends the socket of a client whose frame cannot be read: nothing that follows it can be.
    async fn refuse_unreadable(&mut self, error: axum::Error) -> Result<(), Gone> {
        let Some(frame) = sockets::unreadable(error, self.app.metrics()) else { return Err(Gone) };
        self.send(Message::Close(Some(frame))).await?;
        sockets::finish_unread().await;
        Err(Gone)
    }

    /// Where to go on with the turn that is being told, written as on `/chat/stream`.
    fn where_to_read_on(&self) -> Option<String> {
        let run_id = self.turn.as_ref().and(self.last_run.as_ref())?;
        Some(format!("{run_id}:{}", self.told))
    }

    async fn close(&mut self, code: u16, why: String) -> Result<(), Gone> {
        let frame = CloseFrame { code, reason: Utf8Bytes::from(why) };
        self.send(Message::Close(Some(frame))).await
    }
}

/// What happens next on a socket.
enum Next {
    Heard(Option<Result<Message, axum::Error>>),
    Tell(Option<Result<Placed<WsMessage>, LogError>>),
    Tools(WsMessage),
    Ping,
    Close,
}

/// Waits until the server closes and there is nothing more to tell of a turn. Runs end when the
/// server closes, unless they go on without it: then the turn is told elsewhere.
async fn time_to_close(app: &App, has_turn: bool) {
    app.closing().cancelled().await;
    if has_turn && !app.ends_streams() {
        sleep(LAST_TURN).await;
    }
}

/// The next message of the turn; never, if there is none.
async fn next_of(turn: &mut Option<Turn>) -> Option<Result<Placed<WsMessage>, LogError>> {
    match turn {
        Some(turn) => turn.next().await,
        None => std::future::pending().await,
    }
}

/// The tools of the settings and of every server. All servers are asked at once; one that does
/// not answer has no tools to tell of.
async fn all_tools(app: App, caller: Caller) -> WsMessage {
    let (servers, tenant) = (app.runs().servers(), caller.tenant());
    let request = app.chat_request(&caller);
    let of_servers = join_all(request.servers.iter().map(async |server| {
        if let Some(known) = servers.known_tools(tenant, server.server()) {
            return known;
        }
        let asked = timeout(TOOLS_TIME, servers.tools(tenant, server.server())).await;
        asked.ok().and_then(Result::ok).unwrap_or_default()
    }));
    let of_servers = of_servers.await;
    let of_servers = of_servers.iter().flatten().map(|tool| tool.spec());
    WsMessage::tools(request.tools.iter().map(AsRef::as_ref).chain(of_servers))
}
