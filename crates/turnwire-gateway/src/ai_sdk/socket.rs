//! `GET /ai-sdk/chat` with an upgrade: the WebSocket transport of `ai` 7.
//!
//! One socket carries any number of chats. Every frame names its request, and the chunks of a
//! request are numbered from 0. `abort` cancels the run; a socket that closes does not. Requests
//! are opened beside each other: a slow one does not hold up the chunks of the others.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use axum::{
    extract::{
        State,
        ws::{WebSocketUpgrade, close_code, rejection::WebSocketUpgradeRejection},
    },
    http::StatusCode,
    response::Response as HttpResponse,
};
use futures::{
    Stream, StreamExt,
    future::{BoxFuture, ready},
    stream::{self, FuturesUnordered},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use turnwire_contract::{RunId, Scope};
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
    ApiError, App, Caller, QueryParams, Result,
    body::parse,
    connection_permit::ConnectionPermit,
    limits,
    websocket::{self, ClientSocket, Disconnected, Incoming},
};

/// Open the WebSocket of the AI SDK.
#[utoipa::path(
    get,
    path = "/ai-sdk/chat",
    params(SdkParams),
    responses(
        (status = 101, description = "The WebSocket is open. The client sends `send`, `resume` and \
                `abort`, the server `start`, `chunk`, `end`, `no-active` and `error`"),
        (status = 426, description = "The request is not a WebSocket upgrade"),
    )
)]
pub(super) async fn connect(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<SdkParams>,
    permit: ConnectionPermit,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse> {
    let upgrade = upgrade.map_err(|_| {
        let message = "This endpoint is a WebSocket. Send `Upgrade: websocket`, or `POST`.";
        websocket::upgrade_required(message)
    })?;
    let limits = Arc::clone(&permit.limits);
    let dialect = params.dialect().unwrap_or(Dialect::V7);
    Ok(permit.upgrade(&app.clone(), &caller.clone(), upgrade, async move |socket| {
        let mut chats = ChatSocket {
            socket: ClientSocket::new(app.clone(), &caller, socket, limits),
            app,
            caller,
            dialect,
            requests: HashMap::new(),
            opening: FuturesUnordered::new(),
            outgoing: stream::SelectAll::new(),
        };
        if let Ok(()) = chats.serve().await {
            chats.socket.finish().await;
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

type Responses = Pin<Box<dyn Stream<Item = Response> + Send>>;
/// What a request reads: nothing if its chat has no run in progress.
type Opened = Result<Option<Reading>>;

/// A request that has not ended.
struct OpenRequest {
    /// The run, once the request is opened.
    run_id: Option<RunId>,
    /// Cancelled by the client's `abort`.
    aborted: CancellationToken,
}

struct ChatSocket {
    app: App,
    caller: Caller,
    socket: ClientSocket,
    dialect: Dialect,
    requests: HashMap<String, OpenRequest>,
    opening: FuturesUnordered<BoxFuture<'static, (String, CancellationToken, Opened)>>,
    outgoing: stream::SelectAll<Responses>,
}

impl ChatSocket {
    async fn serve(&mut self) -> Result<(), Disconnected> {
        let _open = self.app.metrics().stream("socket");
        let closing = self.app.closing().clone();
        loop {
            tokio::select! {
                biased;
                // The runs continue, here or on another worker, and the page resumes them.
                () = closing.cancelled() => {
                    return self.socket.close(close_code::RESTART, "the server closes").await;
                }
                event = self.socket.next_event() => match self.socket.accept(event).await? {
                    Incoming::Text(text) => {
                        if !self.handle(&text).await? {
                            let why = "not a frame of the AI SDK";
                            return self.socket.close(close_code::INVALID, why).await;
                        }
                    }
                    Incoming::Binary => {
                        let why = "frames are JSON texts";
                        return self.socket.close(close_code::UNSUPPORTED, why).await;
                    }
                    Incoming::Nothing => {}
                    Incoming::End => return Ok(()),
                },
                Some((request_id, aborted, opened)) = self.opening.next() => {
                    self.watch(request_id, aborted, opened).await?;
                }
                Some(response) = self.outgoing.next() => self.tell(&response).await?,
            }
        }
    }

    /// Handles a frame. Returns false if it is not one of the protocol.
    async fn handle(&mut self, text: &str) -> Result<bool, Disconnected> {
        let read = parse(text.as_bytes(), &self.app).ok();
        let Some(request) = read.and_then(|frame| serde_json::from_value(frame).ok()) else {
            return Ok(false);
        };
        let (app, caller, dialect) = (self.app.clone(), self.caller.clone(), self.dialect);
        match request {
            Request::Send { request_id, chat } => {
                self.open(request_id, async move { send(&app, &caller, chat, dialect).await })
                    .await?;
            }
            Request::Resume { request_id, id, last_sequence } => {
                let skip = last_sequence.map_or(0, |last| last.saturating_add(1));
                self.open(
                    request_id,
                    async move { resume(&app, &caller, &id, dialect, skip).await },
                )
                .await?;
            }
            Request::Abort { request_id } => {
                if let Some(OpenRequest { run_id, aborted }) = self.requests.remove(&request_id) {
                    aborted.cancel();
                    if let Some(run_id) = run_id {
                        self.cancel(&run_id);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Opens a request in the background, if there is room for it.
    async fn open(
        &mut self,
        request_id: String,
        opened: impl Future<Output = Opened> + Send + 'static,
    ) -> Result<(), Disconnected> {
        if let Err(error) = self.check_room(&request_id) {
            return self.refuse(request_id, error).await;
        }
        let aborted = CancellationToken::new();
        let open = OpenRequest { run_id: None, aborted: aborted.clone() };
        self.requests.insert(request_id.clone(), open);
        self.opening.push(Box::pin(async move { (request_id, aborted, opened.await) }));
        Ok(())
    }

    /// Whether another request may be open. Two of one ID could not be told apart.
    fn check_room(&self, request_id: &str) -> Result<()> {
        if self.requests.contains_key(request_id) {
            let message = "A request with this `requestId` is open on this socket.";
            return Err(ApiError::bad_request("invalid_value", message).about("requestId"));
        }
        if self.requests.len() >= self.socket.limits().socket_queue {
            let message = "This socket has as many open requests as allowed; wait for one to end.";
            let error =
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_connections", message);
            return Err(error.limited_by(limits::MAX_QUEUE));
        }
        Ok(())
    }

    /// Sends the chunks of an opened request from now on, or why there are none.
    async fn watch(
        &mut self,
        request_id: String,
        aborted: CancellationToken,
        opened: Opened,
    ) -> Result<(), Disconnected> {
        if aborted.is_cancelled() {
            if let Ok(Some(reading)) = opened {
                self.cancel(&reading.name.run_id);
            }
            return Ok(());
        }
        let reading = match opened {
            Ok(Some(reading)) => reading,
            Ok(None) => return self.tell(&Response::NoActive { request_id }).await,
            Err(error) => {
                self.requests.remove(&request_id);
                return self.refuse(request_id, error).await;
            }
        };
        if let Some(request) = self.requests.get_mut(&request_id) {
            request.run_id = Some(reading.name.run_id.clone());
        }
        self.tell(&Response::Start { request_id: request_id.clone() }).await?;
        let stream = responses(request_id, reading).take_until(aborted.cancelled_owned());
        self.outgoing.push(Box::pin(stream));
        Ok(())
    }

    fn cancel(&self, run_id: &RunId) {
        self.app.cancel_in_background(&self.caller, run_id);
    }

    /// Tells why a request is not opened. An open one of the same ID goes on.
    async fn refuse(&mut self, request_id: String, error: ApiError) -> Result<(), Disconnected> {
        self.app.count(&error);
        let response = Response::Error { request_id, error_text: error.message };
        self.socket.send_text(wire_json(&response)).await
    }

    /// Sends a frame. One that ends its request makes room for another.
    async fn tell(&mut self, response: &Response) -> Result<(), Disconnected> {
        match response {
            Response::End { request_id }
            | Response::NoActive { request_id }
            | Response::Error { request_id, .. } => drop(self.requests.remove(request_id)),
            Response::Start { .. } | Response::Chunk { .. } => {}
        }
        self.socket.send_text(wire_json(response)).await
    }
}

/// Starts the run of a message.
async fn send(
    app: &App,
    caller: &Caller,
    mut chat: Map<String, Value>,
    dialect: Dialect,
) -> Opened {
    // Fields of the page's own, which the other transports put beside the messages.
    if let Some(Value::Object(body)) = chat.remove("body") {
        for (name, value) in body {
            chat.entry(name).or_insert(value);
        }
    }
    let request = ChatRequest::read(Value::Object(chat))?;
    open(app, caller, request, dialect, None).await.map(Some)
}

/// Finds the run in progress of a chat.
async fn resume(app: &App, caller: &Caller, chat_id: &str, dialect: Dialect, skip: u64) -> Opened {
    caller.ensure(Scope::RunsRead)?;
    let Some(name) = in_progress(app, caller, chat_id, Some(dialect)).await? else {
        return Ok(None);
    };
    reading_of(app, caller, name, skip).await.map(Some)
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
