//! `GET /ai-sdk/chat` with an upgrade: the WebSocket transport of `ai` 7.
//!
//! One socket carries any number of chats. Every frame names its request, and the chunks of a
//! request are numbered from 0. `abort` cancels the run; a socket that closes does not.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

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
use futures::{Stream, StreamExt, future::ready, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use turnwire_contract::RunId;
use turnwire_surfaces::{
    ai_sdk::{Dialect, UiChunk},
    wire_json,
};

use super::{
    SdkParams,
    chat::open,
    request::ChatRequest,
    stream::{Reading, chunks, in_progress, reading_of},
};
use crate::{
    api_error::{ApiError, ErrorBody},
    app::App,
    auth::Caller,
    body::parse,
    connection_permit::ConnectionPermit,
    limits::{self, WRITE_TIMEOUT},
    metrics::Direction,
    query::QueryParams,
    server::HttpLimits,
    websocket::{self, RateLimit},
};

/// Interval of pings to the client.
const PING: Duration = Duration::from_secs(20);

/// Open the WebSocket of the AI SDK.
#[utoipa::path(
    get,
    path = "/ai-sdk/chat",
    tag = "ai-sdk",
    params(SdkParams),
    responses(
        (status = 101, description = "The WebSocket is open. The client sends `send`, `resume` and \
                `abort`, the server `start`, `chunk`, `end`, `no-active` and `error`"),
        (status = 426, description = "The request is not a WebSocket upgrade", body = ErrorBody),
    )
)]
pub(super) async fn connect(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<SdkParams>,
    permit: ConnectionPermit,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse, ApiError> {
    let upgrade = upgrade.map_err(|_| {
        let message = "This endpoint is a WebSocket. Send `Upgrade: websocket`, or `POST`.";
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
    })?;
    let limits = Arc::clone(&permit.limits);
    let dialect = params.dialect().unwrap_or(Dialect::V7);
    Ok(permit.upgrade(&app.clone(), upgrade, async move |socket| {
        let mut chats = ChatSocket {
            app,
            caller,
            socket,
            rate: RateLimit::new(limits.socket_messages_per_second),
            limits,
            dialect,
            requests: HashMap::new(),
            outgoing: stream::SelectAll::new(),
        };
        if let Ok(()) = chats.serve().await {
            websocket::finish(&mut chats.socket).await;
        }
        debug!("AI SDK socket closed");
    }))
}

/// A frame of the client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Request {
    Send {
        request_id: String,
        #[serde(flatten)]
        chat: Map<String, Value>,
    },
    Resume {
        request_id: String,
        id: String,
        last_sequence: Option<u64>,
    },
    Abort {
        request_id: String,
    },
}

/// A frame of the server.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Response {
    Start { request_id: String },
    Chunk { request_id: String, sequence: u64, chunk: Box<UiChunk> },
    End { request_id: String },
    NoActive { request_id: String },
    Error { request_id: String, error_text: String },
}

/// The client has disconnected.
struct Disconnected;

type Responses = Pin<Box<dyn Stream<Item = Response> + Send>>;

struct ChatSocket {
    app: App,
    caller: Caller,
    socket: WebSocket,
    limits: Arc<HttpLimits>,
    rate: RateLimit,
    dialect: Dialect,
    /// Open requests: their runs, and what ends their streams.
    requests: HashMap<String, (RunId, CancellationToken)>,
    outgoing: stream::SelectAll<Responses>,
}

impl ChatSocket {
    async fn serve(&mut self) -> Result<(), Disconnected> {
        let _open = self.app.metrics().stream("socket");
        let closing = self.app.closing().clone();
        let mut ping_at = Instant::now() + PING;
        loop {
            tokio::select! {
                biased;
                // The runs continue, here or on another worker, and the page resumes them.
                () = closing.cancelled() => return self.close("the server closes").await,
                received = self.socket.recv() => match received {
                    Some(Ok(_)) if self.rate.is_exceeded() => {
                        self.app.metrics().limit_reached(limits::MAX_PER_SECOND);
                        return self.send(Message::Close(Some(websocket::too_fast()))).await;
                    }
                    Some(Ok(Message::Text(text))) => self.handle(&text).await?,
                    Some(Ok(Message::Binary(_))) => return self.close("frames are JSON texts").await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_))) | None => return Ok(()),
                    Some(Err(error)) => return self.refuse_unreadable(error).await,
                },
                Some(response) = self.outgoing.next() => {
                    if let Response::End { request_id } | Response::Error { request_id, .. } = &response {
                        self.requests.remove(request_id);
                    }
                    self.tell(&response).await?;
                }
                () = sleep_until(ping_at) => {
                    ping_at = Instant::now() + PING;
                    self.send(Message::Ping(bytes::Bytes::new())).await?;
                }
            }
        }
    }

    async fn handle(&mut self, text: &str) -> Result<(), Disconnected> {
        self.app.metrics().ws_message(Direction::Received, text.len());
        let read = parse(text.as_bytes(), &self.app).ok();
        let Some(request) = read.and_then(|frame| serde_json::from_value(frame).ok()) else {
            return self.close("not a frame of the AI SDK").await.and(Err(Disconnected));
        };
        match request {
            Request::Send { request_id, chat } => {
                let opened = self.send_message(chat).await;
                self.watch(request_id, opened.map(Some)).await
            }
            Request::Resume { request_id, id, last_sequence } => {
                let opened = self.resume(&id, last_sequence).await;
                self.watch(request_id, opened).await
            }
            Request::Abort { request_id } => {
                if let Some((run_id, stream)) = self.requests.remove(&request_id) {
                    stream.cancel();
                    self.app.runs().cancel_in_background(self.caller.tenant(), &run_id);
                }
                Ok(())
            }
        }
    }

    async fn send_message(&mut self, mut chat: Map<String, Value>) -> Result<Reading, ApiError> {
        if self.requests.len() >= self.limits.socket_queue {
            let message = "This socket has as many open requests as allowed; wait for one to end.";
            let error =
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_connections", message);
            return Err(error.limited_by(limits::MAX_QUEUE));
        }
        // Fields of the page's own, which the other transports put beside the messages.
        chat.remove("body");
        let request = ChatRequest::read(Value::Object(chat))?;
        open(&self.app, &self.caller, request, self.dialect, None).await
    }

    async fn resume(
        &mut self,
        chat_id: &str,
        last_sequence: Option<u64>,
    ) -> Result<Option<Reading>, ApiError> {
        let found = in_progress(&self.app, &self.caller, chat_id, Some(self.dialect)).await?;
        let Some(name) = found else { return Ok(None) };
        let skip = last_sequence.map_or(0, |last| last.saturating_add(1));
        Ok(Some(reading_of(&self.app, &self.caller, name, skip).await?))
    }

    /// Sends the chunks of a request from now on, or why there are none.
    async fn watch(
        &mut self,
        request_id: String,
        opened: Result<Option<Reading>, ApiError>,
    ) -> Result<(), Disconnected> {
        let reading = match opened {
            Ok(Some(reading)) => reading,
            Ok(None) => return self.tell(&Response::NoActive { request_id }).await,
            Err(error) => {
                self.app.count(&error);
                let error_text = error.message;
                return self.tell(&Response::Error { request_id, error_text }).await;
            }
        };
        self.tell(&Response::Start { request_id: request_id.clone() }).await?;
        let token = CancellationToken::new();
        self.requests.insert(request_id.clone(), (reading.name.run_id.clone(), token.clone()));
        let stream = responses(request_id, reading).take_until(token.cancelled_owned());
        self.outgoing.push(Box::pin(stream));
        Ok(())
    }

    async fn tell(&mut self, response: &Response) -> Result<(), Disconnected> {
        self.send(Message::Text(wire_json(response).into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Disconnected> {
        if let Message::Text(text) = &message {
            self.app.metrics().ws_message(Direction::Sent, text.len());
        }
        match timeout(self.limits.write_time, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Disconnected),
            Err(_) => {
                self.app.metrics().limit_reached(WRITE_TIMEOUT);
                Err(Disconnected)
            }
        }
    }

    async fn close(&mut self, why: &'static str) -> Result<(), Disconnected> {
        let frame = CloseFrame { code: close_code::RESTART, reason: Utf8Bytes::from_static(why) };
        self.send(Message::Close(Some(frame))).await
    }

    /// Closes the socket after a frame that cannot be read, because nothing after it can be.
    async fn refuse_unreadable(&mut self, error: axum::Error) -> Result<(), Disconnected> {
        let Some(frame) = websocket::unreadable(error, self.app.metrics()) else {
            return Err(Disconnected);
        };
        self.send(Message::Close(Some(frame))).await?;
        websocket::finish_unread().await;
        Err(Disconnected)
    }
}

/// The frames of one request: its chunks, then its end.
fn responses(request_id: String, reading: Reading) -> impl Stream<Item = Response> + Send {
    let (skip, id) = (reading.skip, request_id.clone());
    let chunks = chunks(reading).zip(stream::iter(0..)).map(move |(read, sequence)| {
        let request_id = id.clone();
        if let Ok(chunk) = read {
            return Response::Chunk { request_id, sequence, chunk: Box::new(chunk) };
        }
        let error_text = "The journal cannot be read right now; resume later.".to_owned();
        Response::Error { request_id, error_text }
    });
    let is_new = move |response: &Response| {
        ready(!matches!(response, Response::Chunk { sequence, .. } if *sequence < skip))
    };
    chunks.filter(is_new).chain(stream::once(ready(Response::End { request_id })))
}
