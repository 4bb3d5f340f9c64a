//! OpenAI's WebSocket mode: `GET /v1/responses`, upgraded.
//!
//! Each `response.create` starts a run; its events are sent as JSON texts. The responses of one
//! stream run one after the other, those of different streams concurrently. There is one stream,
//! unless the client names others by `stream_id`. The connection caches the responses it has
//! created, so that they can be continued even if they are not stored.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    extract::{
        State,
        ws::{
            CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code,
            rejection::WebSocketUpgradeRejection,
        },
    },
    http::{HeaderMap, StatusCode},
    response::Response as HttpResponse,
};
use futures::{StreamExt, stream::SplitStream};
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;
use turnwire_contract::{Entry, Event, RecordedEvent, RunId, RunOutcome, RunRequest, Seq, Usage};
use turnwire_engine::StartOptions;
use turnwire_surfaces::{
    Projection,
    responses::{Profile, Responses, SequencedEvent, ids},
    wire_json,
};

use super::{
    create::delete,
    outbox::{Outbox, Outgoing, Writer, outbox},
    output::{ProfileParams, is_terminal, profile},
    prepare::{PriorContext, load_prior, prepare, previous_not_found},
    references::weight,
    request::{self, CreateResponse},
    stored::{self, not_by_get},
};
use crate::{
    ApiError, App, Caller, QueryParams, Result,
    connection_permit::ConnectionPermit,
    json,
    limits::{self, HttpLimits},
    streaming::{CancelOnDrop, frames},
    sync::lock,
    websocket::{self, RateLimit},
};

/// Maximum number of streams.
const MAX_STREAMS: usize = 32;
/// Maximum number of cached responses.
const MAX_CACHED: usize = 64;
/// Maximum total size of cached responses, in bytes. The latest one is cached whatever its size.
const MAX_CACHED_BYTES: usize = 4 * 1024 * 1024;
/// Time for running responses to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7);
/// Maximum length of the reason in a close frame, in bytes.
const MAX_CLOSE_REASON: usize = 123;
/// Time for the client to read what was written before its connection ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Open a WebSocket that creates responses.
#[utoipa::path(
    get,
    path = "/v1/responses",
    params(ProfileParams),
    responses(
        (status = 101, description = "The WebSocket is open. The client sends `response.create` \
                messages and receives their events"),
        (status = 426, description = "The request is not a WebSocket upgrade"),
    )
)]
pub(super) async fn connect(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<ProfileParams>,
    headers: HeaderMap,
    permit: ConnectionPermit,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse> {
    let Ok(upgrade) = upgrade else { return Err(not_by_get().await) };
    let (profile, limits) = (profile(&headers, &params)?, Arc::clone(&permit.limits));
    let upgrade = upgrade.protocols(["realtime", "turnwire"]);
    Ok(permit.upgrade(&app.clone(), &caller.clone(), upgrade, move |socket| {
        let gone = CancellationToken::new();
        let (out, writer) = outbox(app.clone(), limits.write_time, gone.clone());
        let connection = ResponsesSocket {
            app,
            caller,
            profile,
            out,
            cache: Mutex::default(),
            n_active: AtomicUsize::new(0),
            last_sent: Mutex::default(),
            gone,
            limits,
        };
        serve(Arc::new(connection), writer, socket)
    }))
}

struct ResponsesSocket {
    app: App,
    caller: Caller,
    profile: Profile,
    out: Outbox,
    cache: Mutex<ResponseCache>,
    n_active: AtomicUsize,
    /// Last sequence number sent, by ID of the responses in progress.
    last_sent: Mutex<BTreeMap<String, Option<u64>>>,
    /// Cancelled when the client has disconnected.
    gone: CancellationToken,
    limits: Arc<HttpLimits>,
}

/// A `response.create` message.
struct CreateMessage {
    body: Map<String, Value>,
}

/// Queues of the streams, by `stream_id`.
type StreamQueues = HashMap<Option<String>, mpsc::Sender<CreateMessage>>;

/// Why the connection accepts no more messages.
enum CloseReason {
    /// The client has disconnected.
    Gone,
    /// The client closed the connection.
    ClosedByClient,
    /// The client exceeded the rate limit.
    TooFast,
    /// The client sent a frame that cannot be read.
    Unreadable(CloseFrame),
    /// The connection reached its maximum age.
    Expired,
    /// The key of the client was revoked or has expired.
    KeyEnded,
    /// The server shuts down.
    ShuttingDown,
}

async fn serve(connection: Arc<ResponsesSocket>, writer: Writer, socket: WebSocket) {
    let _open = connection.app.metrics().stream("socket");
    let (sink, mut source) = socket.split();
    let gone = connection.gone.clone();
    // However this ends, nothing more is sent and started.
    let _gone_at_the_end = gone.clone().drop_guard();
    let (writing, responses) = (TaskTracker::new(), TaskTracker::new());
    let writer = writing.spawn(writer.write_all(sink));
    let mut queues = StreamQueues::new();
    let reason = connection.listen(&mut source, &mut queues, &responses).await;
    // No stream accepts another message.
    drop(queues);
    responses.close();
    let hung_up = matches!(reason, CloseReason::ClosedByClient);
    let is_readable = !matches!(reason, CloseReason::Unreadable(_));
    let close = match reason {
        CloseReason::Gone | CloseReason::ClosedByClient => None,
        CloseReason::TooFast => Some((None, websocket::too_fast())),
        CloseReason::KeyEnded => Some((None, websocket::invalid_key())),
        CloseReason::Unreadable(frame) => Some((None, frame)),
        CloseReason::Expired => {
            let minutes = connection.limits.socket_time.as_secs() / 60;
            let message =
                format!("This connection has been open for {minutes} minutes; open a new one.");
            let error = ApiError::bad_request("websocket_connection_limit_reached", message);
            let reason = Utf8Bytes::from_static("open for too long");
            Some((Some(error), CloseFrame { code: close_code::NORMAL, reason }))
        }
        CloseReason::ShuttingDown => {
            // Wait for the last events of runs that end with the server. Durable runs continue
            // elsewhere, and their streams have already stopped.
            tokio::select! {
                _ = timeout(DRAIN_TIMEOUT, responses.wait()) => {}
                () = until_gone(&mut source) => gone.cancel(),
            }
            let reason = Utf8Bytes::from(connection.resume_hint());
            Some((None, CloseFrame { code: close_code::RESTART, reason }))
        }
    };
    if let Some((error, frame)) = close {
        // Queued behind all other messages; the writer stops after it.
        let flush = async {
            if let Some(error) = error {
                connection.refuse(None, &error).await;
            }
            connection.out.put(Outgoing::Close(frame)).await;
            let _ = writer.await;
        };
        let _ = timeout(FLUSH_TIMEOUT, flush).await;
        if is_readable {
            websocket::finish(&mut source).await;
        } else {
            websocket::finish_unread().await;
        }
    }
    // Running responses end by their own rules; nothing more is sent.
    gone.cancel();
    if hung_up {
        websocket::finish(&mut source).await;
    }
    responses.wait().await;
    writing.close();
    writing.wait().await;
    debug!("responses socket closed");
}

/// Waits until the client disconnects. Other messages are ignored.
async fn until_gone(source: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = source.next().await {
        if matches!(message, Message::Close(_)) {
            break;
        }
    }
}

impl ResponsesSocket {
    /// Handles messages until there is a reason to stop.
    async fn listen(
        self: &Arc<Self>,
        source: &mut SplitStream<WebSocket>,
        queues: &mut StreamQueues,
        tasks: &TaskTracker,
    ) -> CloseReason {
        let until = Instant::now() + self.limits.socket_time;
        let mut key_ended = pin!(websocket::key_ended(&self.caller));
        let (metrics, mut rate) =
            (self.app.metrics(), RateLimit::new(self.limits.socket_messages_per_second));
        loop {
            let message = tokio::select! {
                biased;
                () = self.gone.cancelled() => return CloseReason::Gone,
                () = &mut key_ended => return CloseReason::KeyEnded,
                () = self.app.closing().cancelled() => return CloseReason::ShuttingDown,
                () = sleep_until(until) => return CloseReason::Expired,
                message = source.next() => message,
            };
            let text = match message {
                Some(Ok(_)) if rate.is_exceeded() => {
                    metrics.limit_reached(limits::MAX_PER_SECOND);
                    return CloseReason::TooFast;
                }
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Binary(_))) => {
                    let error =
                        ApiError::bad_request("invalid_json", "Messages must be JSON text.");
                    self.refuse(None, &error).await;
                    continue;
                }
                Some(Ok(Message::Close(_))) => return CloseReason::ClosedByClient,
                Some(Err(error)) => {
                    let frame = websocket::unreadable(error, metrics);
                    return frame.map_or(CloseReason::Gone, CloseReason::Unreadable);
                }
                None => return CloseReason::Gone,
            };
            if let Err((stream_id, error)) = self.take(&text, queues, tasks) {
                self.refuse(stream_id.as_deref(), &error).await;
            }
        }
    }

    /// Puts a message into the queue of its stream.
    fn take(
        self: &Arc<Self>,
        text: &str,
        queues: &mut StreamQueues,
        tasks: &TaskTracker,
    ) -> Result<(), (Option<String>, ApiError)> {
        let bad = |code, message: &str| ApiError::bad_request(code, message);
        let body = json::read(text.as_bytes(), &self.app.options().requests.json)
            .map_err(|error| (None, ApiError::bad_request(error.code, error.message)))?;
        let Value::Object(mut body) = body else {
            return Err((None, bad("invalid_type", "A message must be a JSON object.")));
        };
        let stream_id = parse_stream_id(body.remove("stream_id")).map_err(|error| (None, error))?;
        match body.remove("type").as_ref().and_then(Value::as_str) {
            Some("response.create") => {}
            Some("response.steer") => {
                let message =
                    "A response in progress cannot be changed; cancel it, or wait until it ends.";
                return Err((stream_id, bad("steering_not_supported", message)));
            }
            _ => {
                let message = "The type of a message must be `response.create`.";
                return Err((stream_id, bad("invalid_value", message).about("type")));
            }
        }
        let most = self.limits.socket_queue;
        if self.n_active.load(Ordering::SeqCst) >= most {
            let message = format!("At most {most} concurrent responses on one connection.");
            return Err((stream_id, bad("websocket_stream_limit_reached", &message)));
        }
        let is_new = stream_id.is_some() && !queues.contains_key(&stream_id);
        if is_new && queues.keys().flatten().count() >= MAX_STREAMS {
            let message = format!("At most {MAX_STREAMS} values of `stream_id` on one connection.");
            return Err((stream_id, bad("websocket_stream_limit_reached", &message)));
        }
        let sender = queues.entry(stream_id.clone()).or_insert_with(|| {
            let (sender, mut messages) = mpsc::channel::<CreateMessage>(most);
            let (connection, stream_id) = (Arc::clone(self), stream_id.clone());
            tasks.spawn(async move {
                while let Some(message) = messages.recv().await {
                    // The client could not receive the result.
                    if !connection.gone.is_cancelled() {
                        connection.make(stream_id.as_deref(), message).await;
                    }
                    connection.n_active.fetch_sub(1, Ordering::SeqCst);
                }
            });
            sender
        });
        self.n_active.fetch_add(1, Ordering::SeqCst);
        sender.try_send(CreateMessage { body }).map_err(|_| {
            self.n_active.fetch_sub(1, Ordering::SeqCst);
            let message = format!("At most {most} responses may be queued in one stream.");
            (stream_id, bad("websocket_stream_limit_reached", &message))
        })
    }

    /// Creates a response, or sends the error if that fails.
    async fn make(&self, stream_id: Option<&str>, message: CreateMessage) {
        let previous = message.body.get("previous_response_id").and_then(Value::as_str);
        let previous = previous.map(str::to_owned);
        if let Err(error) = self.respond(stream_id, message).await {
            // A failed continuation also removes the response it continued from the cache of its
            // stream.
            if let Some(previous) = previous {
                self.cache().delete(&previous, stream_id);
            }
            self.refuse(stream_id, &error).await;
        }
    }

    async fn respond(&self, stream_id: Option<&str>, message: CreateMessage) -> Result<()> {
        let Self { app, caller, .. } = self;
        let request = request::read(Value::Object(message.body), &app.options().requests)?;
        let prior = self.load_prior(&request).await?;
        let (stores, generates) = (request.stores(), request.generate != Some(false));
        let cancels_with_client = request.cancels_on_disconnect();
        let known = prior.entries.clone();
        let run = prepare(app, caller, request, prior).await?;
        if !generates {
            return self.prewarm(stream_id, run, known).await;
        }
        let is_ephemeral = !stores && cancels_with_client;
        let options = StartOptions { is_ephemeral, ..StartOptions::default() };
        let handle = app.start(caller, run, options).await?;
        let (runs, tenant) = (app.runs().clone(), caller.tenant().clone());
        let id = ids::response_id(handle.id());
        let mut guard =
            cancels_with_client.then(|| CancelOnDrop::of(app.clone(), tenant.clone(), &handle));
        let mut frames = Box::pin(frames(Responses::new(self.profile), handle.events().await?));
        let (mut is_connected, mut is_finished) = (true, false);
        if !handle.is_ephemeral() {
            self.last_sent().insert(id.clone(), None);
        }
        let mut draining = Box::pin(app.draining());
        loop {
            let next = tokio::select! {
                biased;
                // The run continues elsewhere; the close frame has the position to resume from.
                () = &mut draining, if !handle.is_ephemeral() => return Ok(()),
                // If the run is to be cancelled on disconnect, do not wait for its next event.
                () = self.gone.cancelled(), if guard.is_some() => break,
                next = frames.next() => next,
            };
            let Some(told) = next else { break };
            let Ok((_, frame)) = told else {
                // The journal cannot be read; the client has not disconnected.
                guard.iter_mut().for_each(CancelOnDrop::disarm);
                break;
            };
            let ends = is_terminal(&frame);
            if ends {
                is_finished = true;
                // Cached before the client can send the next request.
                handle.outcome().await;
                if let Some(guard) = &mut guard {
                    guard.disarm();
                }
                if let Ok(entries) = handle.context().await {
                    self.cache().keep(id.clone(), stream_id, entries);
                }
            }
            is_connected = is_connected && self.send(stream_id, &frame).await;
            if let Some(last_sent) = self.last_sent().get_mut(&id) {
                *last_sent = Some(frame.sequence_number);
            }
        }
        self.last_sent().remove(&id);
        drop(guard);
        if !stores && !handle.is_ephemeral() {
            tokio::select! {
                biased;
                _ = handle.outcome() => delete(&runs, &tenant, handle.id()).await,
                () = app.draining() => {}
            }
        }
        if is_finished || self.gone.is_cancelled() { Ok(()) } else { Err(stream_broken()) }
    }

    /// Looks up the previous response in the cache, then in the store.
    async fn load_prior(&self, request: &CreateResponse) -> Result<PriorContext> {
        if let Some(id) = &request.previous_response_id {
            let cached = self.cache().entries(id);
            if let Some(entries) = cached {
                let run_id = ids::run_id(id).ok_or_else(|| previous_not_found(id))?;
                // A response that is about to be deleted cannot be continued.
                let is_stored = stored::find(&self.app, &self.caller, id).await.is_ok();
                let continues = is_stored.then_some(run_id);
                return Ok(PriorContext {
                    continues,
                    entries,
                    is_inline: !is_stored,
                    ..PriorContext::default()
                });
            }
        }
        load_prior(&self.app, &self.caller, request).await
    }

    /// Creates a response without using the model, for the next one to continue.
    async fn prewarm(
        &self,
        stream_id: Option<&str>,
        run: RunRequest,
        mut known: Vec<Entry>,
    ) -> Result<()> {
        let run_id = RunId::new(self.app.runs().new_id("run"));
        let run = Arc::new(run);
        known.extend(run.entries(&run_id));
        self.cache().keep(ids::response_id(&run_id), stream_id, known);
        let (outcome, usage) = (RunOutcome::Completed, Usage::default());
        let story = [
            Event::RunQueued { request: run },
            Event::RunStarted,
            Event::RunFinished { outcome, usage },
        ];
        let mut projection = Responses::new(self.profile);
        for (seq, event) in (1..).zip(story) {
            let (run_id, at) = (run_id.clone(), self.app.runs().now());
            let recorded = RecordedEvent { run_id, seq: Seq(seq), at, event };
            for frame in projection.project(&recorded) {
                self.send(stream_id, &frame).await;
            }
        }
        Ok(())
    }

    /// Sends a frame. Returns false if the client has disconnected.
    async fn send(&self, stream_id: Option<&str>, frame: &SequencedEvent) -> bool {
        let text = match stream_id {
            None => wire_json(frame),
            Some(stream_id) => {
                with_stream_id(stream_id, serde_json::to_value(frame).unwrap_or_default())
            }
        };
        self.write(text).await
    }

    async fn refuse(&self, stream_id: Option<&str>, error: &ApiError) {
        self.app.count(error);
        let envelope = json!({ "type": "error", "status": error.status.as_u16(), "error": error.body().error });
        let text = match stream_id {
            None => wire_json(&envelope),
            Some(stream_id) => with_stream_id(stream_id, envelope),
        };
        self.write(text).await;
    }

    async fn write(&self, text: String) -> bool {
        self.out.put(Outgoing::Text(text)).await
    }

    /// Reason of a close frame: the responses in progress with the last sequence number sent, as
    /// many as fit.
    fn resume_hint(&self) -> String {
        let mut reason = String::new();
        for (id, seq) in &*self.last_sent() {
            let seq = seq.map_or_else(|| id.clone(), |seq| format!("{id}:{seq}"));
            if reason.len() + 1 + seq.len() > MAX_CLOSE_REASON {
                break;
            }
            if !reason.is_empty() {
                reason.push(' ');
            }
            reason.push_str(&seq);
        }
        if reason.is_empty() { "the server closes".to_owned() } else { reason }
    }

    fn last_sent(&self) -> MutexGuard<'_, BTreeMap<String, Option<u64>>> {
        lock(&self.last_sent)
    }

    fn cache(&self) -> MutexGuard<'_, ResponseCache> {
        lock(&self.cache)
    }
}

/// The error for a journal that cannot be read to its end.
fn stream_broken() -> ApiError {
    let message = "The events of this response cannot be read right now; its run continues.";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
}

/// A `stream_id`: 1 to 256 letters, digits, `_`, `.` or `-`.
fn parse_stream_id(stream_id: Option<Value>) -> Result<Option<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    match stream_id {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name))
            if (1..=256).contains(&name.len()) && name.chars().all(is_plain) =>
        {
            Ok(Some(name))
        }
        Some(_) => {
            let message = "`stream_id` must be 1 to 256 letters, digits, `_`, `.` or `-`.";
            Err(ApiError::bad_request("invalid_stream_id", message).about("stream_id"))
        }
    }
}

fn with_stream_id(stream_id: &str, mut message: Value) -> String {
    if let Value::Object(message) = &mut message {
        message.insert("stream_id".to_owned(), json!(stream_id));
    }
    wire_json(&message)
}

/// The latest responses of a connection, with the context of each.
#[derive(Debug, Default)]
struct ResponseCache {
    responses: VecDeque<CachedResponse>,
}

#[derive(Debug)]
struct CachedResponse {
    id: String,
    stream_id: Option<String>,
    entries: Vec<Entry>,
    n_bytes: usize,
}

impl ResponseCache {
    fn keep(&mut self, id: String, stream_id: Option<&str>, entries: Vec<Entry>) {
        let stream_id = stream_id.map(str::to_owned);
        let n_bytes = entries.iter().map(|entry| weight(&entry.item)).sum();
        self.responses.push_back(CachedResponse { id, stream_id, entries, n_bytes });
        while self.responses.len() > 1 && self.is_too_much() {
            self.responses.pop_front();
        }
    }

    fn is_too_much(&self) -> bool {
        let n_bytes: usize = self.responses.iter().map(|cached| cached.n_bytes).sum();
        self.responses.len() > MAX_CACHED || n_bytes > MAX_CACHED_BYTES
    }

    fn entries(&self, id: &str) -> Option<Vec<Entry>> {
        let found = self.responses.iter().find(|cached| cached.id == id);
        found.map(|cached| cached.entries.clone())
    }

    fn delete(&mut self, id: &str, stream_id: Option<&str>) {
        let is_it =
            |cached: &CachedResponse| cached.id == id && cached.stream_id.as_deref() == stream_id;
        self.responses.retain(|cached| !is_it(cached));
    }
}
