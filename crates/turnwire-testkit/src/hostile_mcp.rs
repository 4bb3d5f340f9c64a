//! An MCP server that means harm, over HTTP: it answers with too much, too often or for ever.
//!
//! A test says what a request is answered with ([`Answer`]); what it leaves is answered properly,
//! in the older protocol unless the test answers `server/discover` ([`newer`]). The server counts
//! what it was asked and how many bytes it got rid of, so that a test need not measure time.
#![expect(clippy::indexing_slicing, reason = "what is not in a JSON value is null")]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

/// How long a test waits for something that happens at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Long answers are sent in pieces of this size.
const PIECE: usize = 64 * 1024;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// What a request is answered with.
pub enum Answer {
    /// This result, as JSON.
    Result(Value),
    /// This JSON-RPC error, as JSON.
    Error(i64, String),
    /// A result whose text has this many bytes, as JSON.
    Long(usize),
    /// A result whose text has this many bytes, as one event of a stream.
    LongEvent(usize),
    /// This HTTP status, with a body of this many bytes and this type.
    Status(u16, &'static str, usize),
    /// These bytes as a body of JSON, with these headers.
    Raw(Vec<(&'static str, &'static str)>, Bytes),
    /// These messages, each as an event.
    Events(BoxStream<'static, Value>),
}

impl Answer {
    /// These messages as events.
    pub fn events(messages: impl IntoIterator<Item = Value, IntoIter: Send + 'static>) -> Self {
        Self::Events(stream::iter(messages).boxed())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// Says what a request is answered with; `None`: properly.
type Answers = dyn Fn(&HostileMcp, &Value) -> Option<Answer> + Send + Sync;

/// The server. Clones are the same server; it ends with the runtime of the test.
#[derive(Clone)]
pub struct HostileMcp(Arc<Inner>);

struct Inner {
    port: u16,
    tools: Vec<Value>,
    answers: Box<Answers>,
    /// Requests and notifications by method.
    asked: Mutex<BTreeMap<String, usize>>,
    n_sent: AtomicUsize,
    /// Answers to our own requests.
    replies: watch::Sender<Vec<Value>>,
}

impl HostileMcp {
    /// Starts a server that lists `tools` and answers as `answers` says.
    pub async fn start(
        tools: Vec<Value>,
        answers: impl Fn(&Self, &Value) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let server = Self(Arc::new(Inner {
            port,
            tools,
            answers: Box::new(answers),
            asked: Mutex::default(),
            n_sent: AtomicUsize::new(0),
            replies: watch::Sender::new(Vec::new()),
        }));
        let routes = Router::new().route("/mcp", post(answer)).with_state(server.clone());
        TaskTracker::new().spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        server
    }

    /// Starts a server that does nothing but list `tools`, each of which says "fine".
    pub async fn listing(tools: Vec<Value>) -> Self {
        Self::start(tools, |_, _| None).await
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.0.port)
    }

    /// How often it was asked for `method`.
    pub fn asked(&self, method: &str) -> usize {
        let asked = self.0.asked.lock().expect("no test panics while it holds this lock");
        asked.get(method).copied().unwrap_or_default()
    }

    /// How many bytes of answers were taken from it.
    pub fn n_sent(&self) -> usize {
        self.0.n_sent.load(Ordering::SeqCst)
    }

    /// Waits for this many answers to its own requests, and returns all.
    pub async fn replies(&self, at_least: usize) -> Vec<Value> {
        let mut replies = self.0.replies.subscribe();
        let enough = replies.wait_for(|replies| replies.len() >= at_least);
        let enough = timeout(PATIENCE, enough).await.expect("too few replies");
        enough.expect("the sender is in the server").clone()
    }

    fn proper(&self, method: &str, request: &Value) -> Answer {
        Answer::Result(match method {
            "initialize" => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "hostile", "version": "1" },
            }),
            "tools/list" => json!({ "tools": self.0.tools }),
            "tools/call" => fine(),
            _ => return Answer::Error(-32601, format!("there is no method {method}")),
        })
    }
}

impl fmt::Debug for HostileMcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostileMcp").field("port", &self.0.port).finish_non_exhaustive()
    }
}

/// A tool without parameters.
pub fn tool(name: &str) -> Value {
    tool_with(name, "A tool.", &json!({ "type": "object", "properties": {} }))
}

/// A tool with this description and schema.
pub fn tool_with(name: &str, description: &str, schema: &Value) -> Value {
    json!({ "name": name, "description": description, "inputSchema": schema })
}

/// The result of a call that says "fine".
pub fn fine() -> Value {
    json!({ "content": [{ "type": "text", "text": "fine" }] })
}

/// A message with the result of `request`.
pub fn result_of(request: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

/// A notification.
pub fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The notification that the list of tools has changed.
pub fn list_changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

/// A question of the older protocol, with a form.
pub fn question(id: &str, message: &str, schema: &Value) -> Value {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
}

/// The answer to `server/discover` of a server with the newer protocol.
pub fn newer() -> Answer {
    Answer::Result(json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {} },
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {
            "io.modelcontextprotocol/serverInfo": { "name": "hostile", "version": "1" },
        },
    }))
}

async fn answer(State(server): State<HostileMcp>, body: Bytes) -> Response<Body> {
    let request: Value = serde_json::from_slice(&body).expect("our client sends JSON");
    let Some(method) = request["method"].as_str() else {
        server.0.replies.send_modify(|replies| replies.push(request));
        return accepted();
    };
    {
        let mut asked = server.0.asked.lock().expect("no test panics while it holds this lock");
        *asked.entry(method.to_owned()).or_default() += 1;
    }
    if request.get("id").is_none() {
        return accepted();
    }
    let answer = (server.0.answers)(&server, &request);
    match answer.unwrap_or_else(|| server.proper(method, &request)) {
        Answer::Result(result) => {
            let body = result_of(&request, &result).to_string();
            server.body(200, &[(CONTENT_TYPE.as_str(), JSON)], once(body))
        }
        Answer::Error(code, message) => {
            let error = json!({ "code": code, "message": message });
            let body = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string();
            server.body(200, &[(CONTENT_TYPE.as_str(), JSON)], once(body))
        }
        Answer::Long(n_bytes) => {
            let (head, tail) = around(&request);
            let pieces = once(head).chain(filling(n_bytes)).chain(once(tail));
            server.body(200, &[(CONTENT_TYPE.as_str(), JSON)], pieces)
        }
        Answer::LongEvent(n_bytes) => {
            let (head, tail) = around(&request);
            let (head, tail) = (format!("data: {head}"), format!("{tail}\n\n"));
            let pieces = once(head).chain(filling(n_bytes)).chain(once(tail));
            server.body(200, &[(CONTENT_TYPE.as_str(), EVENTS)], pieces)
        }
        Answer::Status(status, kind, n_bytes) => {
            server.body(status, &[(CONTENT_TYPE.as_str(), kind)], filling(n_bytes))
        }
        Answer::Raw(mut headers, bytes) => {
            headers.push((CONTENT_TYPE.as_str(), JSON));
            server.body(200, &headers, once(bytes))
        }
        Answer::Events(messages) => {
            let events = messages.map(|message| Bytes::from(format!("data: {message}\n\n")));
            server.body(200, &[(CONTENT_TYPE.as_str(), EVENTS)], events)
        }
    }
}

impl HostileMcp {
    fn body(
        &self,
        status: u16,
        headers: &[(&str, &str)],
        pieces: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Response<Body> {
        let server = self.clone();
        let counted = pieces.map(move |piece| {
            server.0.n_sent.fetch_add(piece.len(), Ordering::SeqCst);
            Ok::<_, Infallible>(piece)
        });
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(Body::from_stream(counted)).expect("the headers are valid")
    }
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn once(piece: impl Into<Bytes>) -> impl Stream<Item = Bytes> + Send {
    let piece = piece.into();
    stream::once(async move { piece })
}

/// What is before and after the text of a result.
fn around(request: &Value) -> (String, String) {
    let id = &request["id"];
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    (head, r#""}]}}"#.to_owned())
}

/// This many bytes, made while they are taken.
fn filling(n_bytes: usize) -> impl Stream<Item = Bytes> + Send {
    let piece = Bytes::from(vec![b'x'; PIECE]);
    stream::unfold(n_bytes, move |left| {
        let piece = piece.slice(..left.min(PIECE));
        async move { (left > 0).then(|| (piece.clone(), left - piece.len())) }
    })
}
