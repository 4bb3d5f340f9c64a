//! An HTTP server that gives one answer, and remembers what it was asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::Query,
    http::{HeaderMap, Method, StatusCode, Uri},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};

/// The server, on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct StubServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl StubServer {
    /// A server that answers every request with this.
    pub async fn answering(reply: Reply) -> Self {
        Self::start(move |_| reply.clone()).await
    }

    /// A server that decides by the request.
    pub async fn start(reply: impl Fn(&Asked) -> Reply + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
        let address = listener.local_addr().expect("a listener has an address");
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let remembered = Arc::clone(&asked);
        let handler = async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let asked = Asked { method, uri, headers, body };
            let reply = reply(&asked);
            remembered.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
            (reply.status, reply.headers, reply.body)
        };
        let router = Router::new().fallback(handler);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            axum::serve(listener, router).await.expect("serving has no end");
        });
        Self { address, asked, _tasks: tasks }
    }

    /// The address, without a slash at its end.
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The request, if it was exactly one.
    #[track_caller]
    pub fn only_request(&self) -> Asked {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let [only] = &asked[..] else { panic!("{} requests: {asked:?}", asked.len()) };
        only.clone()
    }
}

impl Asked {
    /// Whether it was this method and path.
    pub fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.uri.path() == path
    }

    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first parameter of this name after the question mark.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&self.uri).ok()?;
        pairs.into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

impl Reply {
    /// An answer without a body.
    #[track_caller]
    pub fn new(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status has three digits");
        Self { status, headers: HeaderMap::new(), body: String::new() }
    }

    /// With another header.
    #[track_caller]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().expect("the value fits a header"));
        self
    }

    /// With a text of this media type.
    #[track_caller]
    pub fn body(self, body: impl Into<String>, media_type: &str) -> Self {
        Self { body: body.into(), ..self.header("content-type", media_type) }
    }

    /// With JSON.
    #[track_caller]
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string(), "application/json")
    }
}
