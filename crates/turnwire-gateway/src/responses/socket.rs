//! OpenAI's WebSocket mode: `GET /v1/responses`, upgraded.
//!
//! Each `response.create` is one turn; its events come as JSON texts. Turns of one lane wait
//! for each other, lanes do not. There is one lane, unless the client names others by
//! `stream_id`. The connection remembers the responses it has made, so that they can be
//! continued even where nothing is stored.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
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
use turnwire_contract::{Entry, Event, Recorded, RunId, RunOutcome, RunRequest, Seq, Usage};
use turnwire_engine::Start;
use turnwire_surfaces::{
    Projection,
    responses::{Profile, ResponseEvent, Responses, ids},
    wire_json,
};

use super::{
    create::{ProfileWish, forget, is_terminal, profile},
    outbox::{Outbox, Outgoing, Writer, outbox},
    prepare::{Before, look_back, prepare, previous_not_found, weight},
    request::{self, CreateResponse},
    stored::{self, not_by_get},
};
use crate::{
    app::App,
    door::Caller,
    json,
    query::Asked,
    refusal::Refusal,
    seat::Seat,
    server::HttpLimits,
    sockets::{self, Pace},
    streaming::{CancelWhenDropped, frames},
    sync::lock,
};

/// How many lanes a client may name.
const MOST_LANES: usize = 32;
/// How many responses the connection remembers.
const MOST_REMEMBERED: usize = 64;
/// How many bytes they may have together. The latest is remembered whatever it weighs.
const MAX_REMEMBERED_BYTES: usize = 4 * 1024 * 1024;
/// How long running responses get to end when the server closes.
const LAST_TURNS: Duration = Duration::from_secs(7);
/// How many bytes the reason in a close frame can have.
const MOST_CLOSE_REASON: usize = 123;
/// How long a client gets to read what was written before its connection ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[utoipa::path(
    get,
    path = "/v1/responses",
    tag = "responses",
    params(ProfileWish),
    responses(
        (status = 101, description = "WebSocket mode: send `response.create`, receive its events"),
        (status = 426, description = "Not a WebSocket", body = crate::refusal::ErrorBody),
    )
)]
pub(super) async fn connect(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<ProfileWish>,
    headers: HeaderMap,
    seat: Seat,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<HttpResponse, Refusal> {
    let Ok(upgrade) = upgrade else { return Err(not_by_get().await) };
    let (profile, limits) = (profile(&headers, &wish)?, Arc::clone(&seat.limits));
    let upgrade = upgrade.protocols(["realtime", "turnwire"]);
    Ok(seat.upgrade(&app.clone(), upgrade, move |socket| {
        let gone = CancellationToken::new();
        let (out, writer) = outbox(app.clone(), limits.write_time, gone.clone());
        let connection = Connection {
            app,
            caller,
            profile,
            out,
            memory: Mutex::default(),
            n_active: AtomicUsize::new(0),
            places: Mutex::default(),
            gone,
            limits,
        };
        serve(Arc::new(connection), writer, socket)
    }))
}

/// One connection.
struct Connection {
    app: App,
    caller: Caller,
    profile: Profile,
    out: Outbox,
    memory: Mutex<Memory>,
    n_active: AtomicUsize,
    /// How far each response under way has been told.
    places: Mutex<BTreeMap<String, Option<u64>>>,
    /// Falls when the client is gone.
    gone: CancellationToken,
    limits: Arc<HttpLimits>,
}

/// One turn that a client asks for.
struct Create {
    body: Map<String, Value>,
}

/// Where turns wait, by the name of their lane; the one without a name is there for everybody.
type Lanes = HashMap<Option<String>, mpsc::Sender<Create>>;

/// Why nothing more is heard on a connection.
enum Ending {
    /// The client is gone.
    Gone,
    /// It has said so.
    HungUp,
    /// It sends too fast.
    TooFast,
    /// It sends something that cannot be read, nor can what follows.
    Unreadable(CloseFrame),
    /// It was open for as long as it may be.
    TooLong,
    /// The server closes.
    Closing,
}

async fn serve(connection: Arc<Connection>, writer: Writer, socket: WebSocket) {
    let _open = connection.app.metrics().stream("socket");
    let (sink, mut source) = socket.split();
    let gone = connection.gone.clone();
    let (writing, turns) = (TaskTracker::new(), TaskTracker::new());
    let writer = writing.spawn(writer.write_all(sink));
    let mut lanes = Lanes::new();
    let ending = connection.listen(&mut source, &mut lanes, &turns).await;
    // No lane takes another turn.
    drop(lanes);
    turns.close();
    let hung_up = matches!(ending, Ending::HungUp);
    let is_readable = !matches!(ending, Ending::Unreadable(_));
    let close = match ending {
        Ending::Gone | Ending::HungUp => None,
        Ending::TooFast => Some((None, sockets::too_fast())),
        Ending::Unreadable(frame) => Some((None, frame)),
        Ending::TooLong => {
            let minutes = connection.limits.socket_time.as_secs() / 60;
            let message =
                format!("This connection has been open for {minutes} minutes; open another.");
            let refusal = Refusal::bad_request("websocket_connection_limit_reached", message);
            let reason = Utf8Bytes::from_static("open for too long");
            Some((Some(refusal), CloseFrame { code: close_code::NORMAL, reason }))
        }
        Ending::Closing => {
            // Runs end with the server, and their last events are told; or they go on without
            // it, and whoever is told of them has stopped.
            tokio::select! {
                _ = timeout(LAST_TURNS, turns.wait()) => {}
                () = until_gone(&mut source) => gone.cancel(),
            }
            let reason = Utf8Bytes::from(connection.where_to_read_on());
            Some((None, CloseFrame { code: close_code::RESTART, reason }))
        }
    };
    if let Some((refusal, frame)) = close {
        // It comes after everything that waits to be sent, and the writer ends with it.
        let last_words = async {
            if let Some(refusal) = refusal {
                connection.refuse(None, &refusal).await;
            }
            connection.out.put(Outgoing::Close(frame)).await;
            let _ = writer.await;
        };
        let _ = timeout(LAST_WORDS, last_words).await;
        if is_readable {
            sockets::finish(&mut source).await;
        } else {
            sockets::finish_unread().await;
        }
    }
    // Whatever is running ends by its own rules; nobody listens here any more.
    gone.cancel();
    if hung_up {
        sockets::finish(&mut source).await;
    }
    turns.wait().await;
    writing.close();
    writing.wait().await;
    debug!("A Responses socket was closed.");
}

/// Waits until the client hangs up. What it says meanwhile is not heard.
async fn until_gone(source: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = source.next().await {
        if matches!(message, Message::Close(_)) {
            break;
        }
    }
}

impl Connection {
    /// Takes what the client says, until there is a reason to take no more.
    async fn listen(
        self: &Arc<Self>,
        source: &mut SplitStream<WebSocket>,
        lanes: &mut Lanes,
        tasks: &TaskTracker,
    ) -> Ending {
        let until = Instant::now() + self.limits.socket_time;
        let (metrics, mut pace) =
            (self.app.metrics(), Pace::new(self.limits.socket_messages_per_second));
        loop {
            let message = tokio::select! {
                biased;
                () = self.gone.cancelled() => return Ending::Gone,
                () = self.app.closing().cancelled() => return Ending::Closing,
                () = sleep_until(until) => return Ending::TooLong,
                message = source.next() => message,
            };
            let text = match message {
                Some(Ok(_)) if pace.is_exceeded() => {
                    metrics.limit_reached(sockets::MAX_PER_SECOND);
                    return Ending::TooFast;
                }
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Binary(_))) => {
                    let refusal = Refusal::bad_request("invalid_json", "Messages are JSON texts.");
                    self.refuse(None, &refusal).await;
                    continue;
                }
                Some(Ok(Message::Close(_))) => return Ending::HungUp,
                Some(Err(error)) => {
                    let frame = sockets::unreadable(error, metrics);
                    return frame.map_or(Ending::Gone, Ending::Unreadable);
                }
                None => return Ending::Gone,
            };
            if let Err((lane, refusal)) = self.take(&text, lanes, tasks) {
                self.refuse(lane.as_deref(), &refusal).await;
            }
        }
    }

    /// Puts a message of the client into its lane.
    fn take(
        self: &Arc<Self>,
        text: &str,
        lanes: &mut Lanes,
        tasks: &TaskTracker,
    ) -> Result<(), (Option<String>, Refusal)> {
        let bad = |code, message: &str| Refusal::bad_request(code, message);
        let body = json::read(text.as_bytes(), &self.app.options().requests.json)
            .map_err(|error| (None, Refusal::bad_request(error.code, error.message)))?;
        let Value::Object(mut body) = body else {
            return Err((None, bad("invalid_type", "A message must be a JSON object.")));
        };
        let lane = lane_of(body.remove("stream_id")).map_err(|refusal| (None, refusal))?;
        match body.remove("type").as_ref().and_then(Value::as_str) {
            Some("response.create") => {}
            Some("response.steer") => {
                let message = "A response under way cannot be steered; cancel it, or wait.";
                return Err((lane, bad("steering_not_supported", message)));
            }
            _ => {
                let message = "The type of a message must be `response.create`.";
                return Err((lane, bad("invalid_value", message).about("type")));
            }
        }
        let most = self.limits.socket_queue;
        if self.n_active.load(Ordering::SeqCst) >= most {
            let message = format!("At most {most} responses at once on one connection.");
            return Err((lane, bad("websocket_stream_limit_reached", &message)));
        }
        let is_new = lane.is_some() && !lanes.contains_key(&lane);
        if is_new && lanes.keys().flatten().count() >= MOST_LANES {
            let message = format!("At most {MOST_LANES} values of `stream_id` on one connection.");
            return Err((lane, bad("websocket_stream_limit_reached", &message)));
        }
        let sender = lanes.entry(lane.clone()).or_insert_with(|| {
            let (sender, mut turns) = mpsc::channel::<Create>(most);
            let (connection, lane) = (Arc::clone(self), lane.clone());
            tasks.spawn(async move {
                while let Some(turn) = turns.recv().await {
                    // Nobody would hear what comes of it.
                    if !connection.gone.is_cancelled() {
                        connection.make(lane.as_deref(), turn).await;
                    }
                    connection.n_active.fetch_sub(1, Ordering::SeqCst);
                }
            });
            sender
        });
        self.n_active.fetch_add(1, Ordering::SeqCst);
        sender.try_send(Create { body }).map_err(|_| {
            self.n_active.fetch_sub(1, Ordering::SeqCst);
            let message = format!("At most {most} responses may wait in one lane.");
            (lane, bad("websocket_stream_limit_reached", &message))
        })
    }

    /// Makes one response, and tells what went wrong if it cannot be made.
    async fn make(&self, lane: Option<&str>, turn: Create) {
        let previous = turn.body.get("previous_response_id").and_then(Value::as_str);
        let previous = previous.map(str::to_owned);
        if let Err(refusal) = self.respond(lane, turn).await {
            // A continuation that failed takes what it continued with it, in its own lane.
            if let Some(previous) = previous {
                self.memory().forget(&previous, lane);
            }
            self.refuse(lane, &refusal).await;
        }
    }

    async fn respond(&self, lane: Option<&str>, turn: Create) -> Result<(), Refusal> {
        let Self { app, caller, .. } = self;
        let request = request::read(Value::Object(turn.body), &app.options().requests)?;
        let before = self.look_back(&request).await?;
        let (stores, generates) = (request.stores(), request.generate != Some(false));
        let goes_with_client = request.cancels_on_disconnect();
        let known = before.entries.clone();
        let run = prepare(app, caller, request, before).await?;
        if !generates {
            return self.get_ready(lane, run, known).await;
        }
        let handle = app.start(caller, run, Start::default()).await?;
        let (runs, tenant) = (app.runs().clone(), caller.tenant().clone());
        let id = ids::response_id(handle.id());
        let mut guard = goes_with_client
            .then(|| CancelWhenDropped::new(app.clone(), tenant.clone(), handle.id().clone()));
        let mut frames = Box::pin(frames(Responses::new(self.profile), handle.events().await?));
        let (mut is_heard, mut is_told) = (true, false);
        self.places().insert(id.clone(), None);
        let mut streams_end = Box::pin(app.streams_end());
        loop {
            let next = tokio::select! {
                biased;
                // The run goes on elsewhere; the client is told where it was.
                () = &mut streams_end => return Ok(()),
                // Whoever wants the run to go along does not wait for its next word.
                () = self.gone.cancelled(), if guard.is_some() => break,
                next = frames.next() => next,
            };
            let Some(told) = next else { break };
            let Ok((_, frame)) = told else {
                // The client is not gone; the journal is.
                guard.iter_mut().for_each(CancelWhenDropped::let_go);
                break;
            };
            let ends = is_terminal(&frame);
            if ends {
                is_told = true;
                // What the next turn continues is there before the client can ask for it.
                handle.outcome().await;
                if let Some(guard) = &mut guard {
                    guard.let_go();
                }
                if let Ok(entries) = app.runs().context(&tenant, handle.id()).await {
                    self.memory().keep(id.clone(), lane, entries);
                }
            }
            is_heard = is_heard && self.send(lane, &frame).await;
            self.places().insert(id.clone(), Some(frame.sequence_number()));
        }
        self.places().remove(&id);
        drop(guard);
        if !stores {
            tokio::select! {
                biased;
                _ = handle.outcome() => forget(&runs, &tenant, handle.id()).await,
                () = app.streams_end() => {}
            }
        }
        if is_told || self.gone.is_cancelled() { Ok(()) } else { Err(end_not_told()) }
    }

    /// What the connection remembers comes first, then what is stored.
    async fn look_back(&self, request: &CreateResponse) -> Result<Before, Refusal> {
        if let Some(id) = &request.previous_response_id {
            let remembered = self.memory().entries(id);
            if let Some(entries) = remembered {
                let run_id = ids::run_id(id).ok_or_else(|| previous_not_found(id))?;
                // One that is about to be forgotten is not there to be continued.
                let is_stored = stored::find(&self.app, &self.caller, id).await.is_ok();
                let continues = is_stored.then_some(run_id);
                return Ok(Before {
                    continues,
                    entries,
                    comes_along: !is_stored,
                    ..Before::default()
                });
            }
        }
        look_back(&self.app, &self.caller, request).await
    }

    /// A response that asks the model nothing: the next one can continue it.
    async fn get_ready(
        &self,
        lane: Option<&str>,
        run: RunRequest,
        mut known: Vec<Entry>,
    ) -> Result<(), Refusal> {
        let run_id = RunId::new(self.app.runs().new_id("run"));
        let run = Arc::new(run);
        known.extend(run.entries(&run_id));
        self.memory().keep(ids::response_id(&run_id), lane, known);
        let (outcome, usage) = (RunOutcome::Completed, Usage::default());
        let story = [
            Event::RunQueued { request: run },
            Event::RunStarted,
            Event::RunFinished { outcome, usage },
        ];
        let mut projection = Responses::new(self.profile);
        for (seq, event) in (1..).zip(story) {
            let (run_id, at) = (run_id.clone(), self.app.runs().now());
            let recorded = Recorded { run_id, seq: Seq(seq), at, event };
            for frame in projection.project(&recorded) {
                self.send(lane, &frame).await;
            }
        }
        Ok(())
    }

    /// Sends a frame. Says whether anybody is there to hear it.
    async fn send(&self, lane: Option<&str>, frame: &ResponseEvent) -> bool {
        let text = match lane {
            None => wire_json(frame),
            Some(lane) => in_lane(lane, serde_json::to_value(frame).unwrap_or_default()),
        };
        self.write(text).await
    }

    async fn refuse(&self, lane: Option<&str>, refusal: &Refusal) {
        self.app.count(refusal);
        let envelope = json!({ "type": "error", "status": refusal.status.as_u16(), "error": refusal.body().error });
        let text = match lane {
            None => wire_json(&envelope),
            Some(lane) => in_lane(lane, envelope),
        };
        self.write(text).await;
    }

    async fn write(&self, text: String) -> bool {
        self.out.put(Outgoing::Text(text)).await
    }

    /// What a client is told when its connection ends before its responses do: each of those
    /// with the last number that was told, as many as a close frame has room for.
    fn where_to_read_on(&self) -> String {
        let mut reason = String::new();
        for (id, place) in &*self.places() {
            let place = place.map_or_else(|| id.clone(), |place| format!("{id}:{place}"));
            if reason.len() + 1 + place.len() > MOST_CLOSE_REASON {
                break;
            }
            if !reason.is_empty() {
                reason.push(' ');
            }
            reason.push_str(&place);
        }
        if reason.is_empty() { "the server closes".to_owned() } else { reason }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Option<u64>>> {
        lock(&self.places)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

/// The journal could not be read to its end.
fn end_not_told() -> Refusal {
    let message = "The events of this response cannot be read right now; its run goes on.";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
}

/// The lane that a client names: 1 to 256 letters, digits, `_`, `.` or `-`.
fn lane_of(stream_id: Option<Value>) -> Result<Option<String>, Refusal> {
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
            Err(Refusal::bad_request("invalid_stream_id", message).about("stream_id"))
        }
    }
}

fn in_lane(lane: &str, mut message: Value) -> String {
    if let Value::Object(message) = &mut message {
        message.insert("stream_id".to_owned(), json!(lane));
    }
    wire_json(&message)
}

/// The last responses of a connection, with all that the model had seen and said.
#[derive(Debug, Default)]
struct Memory {
    responses: VecDeque<Remembered>,
}

#[derive(Debug)]
struct Remembered {
    id: String,
    lane: Option<String>,
    entries: Vec<Entry>,
    n_bytes: usize,
}

impl Memory {
    fn keep(&mut self, id: String, lane: Option<&str>, entries: Vec<Entry>) {
        let lane = lane.map(str::to_owned);
        let n_bytes = entries.iter().map(|entry| weight(&entry.item)).sum();
        self.responses.push_back(Remembered { id, lane, entries, n_bytes });
        while self.responses.len() > 1 && self.is_too_much() {
            self.responses.pop_front();
        }
    }

    fn is_too_much(&self) -> bool {
        let n_bytes: usize = self.responses.iter().map(|remembered| remembered.n_bytes).sum();
        self.responses.len() > MOST_REMEMBERED || n_bytes > MAX_REMEMBERED_BYTES
    }

    fn entries(&self, id: &str) -> Option<Vec<Entry>> {
        let found = self.responses.iter().find(|remembered| remembered.id == id);
        found.map(|remembered| remembered.entries.clone())
    }

    fn forget(&mut self, id: &str, lane: Option<&str>) {
        let is_it =
            |remembered: &Remembered| remembered.id == id && remembered.lane.as_deref() == lane;
        self.responses.retain(|remembered| !is_it(remembered));
    }
}
