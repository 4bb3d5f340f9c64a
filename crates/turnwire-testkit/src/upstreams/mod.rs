//! Fake servers behind a gateway, on loopback.
//!
//! `chat` is a model with the Chat Completions API, `search` is a `SearXNG`, and `pages` is a site
//! with pages; all have one address. They are stateless, so any number of tests can share them: the
//! prompt contains the model's script
//! ([`Scripted::by_prompt`](turnwire_models::Scripted::by_prompt)), and the search results are
//! derived from the query. Requests are recorded for the tests at `/requests`.
//!
//! The binary `upstreams` runs these servers.

mod chat;
mod chat_chunks;
mod chat_request;
mod pages;
mod search;
mod visitors;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use axum::{
    Router,
    routing::{get, post},
    serve::{Listener, ListenerExt},
};
use futures::future::{Either, select};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, sync::DropGuard, task::TaskTracker};

use self::visitors::Visitors;

/// All servers, until dropped.
#[derive(Debug)]
pub struct Upstreams {
    address: SocketAddr,
    visitors: Visitors,
    tasks: TaskTracker,
    _stop: DropGuard,
}

/// Disables Nagle's algorithm, as streaming servers do. Otherwise a chunk waits up to 40 ms for the
/// acknowledgement of the previous one.
pub fn without_delay(listener: TcpListener) -> impl Listener<Io = TcpStream, Addr = SocketAddr> {
    listener.tap_io(|stream| {
        // If this fails, the connection is closed.
        let _ = stream.set_nodelay(true);
    })
}

/// Serves until the guard is dropped.
pub(crate) fn serve(listener: TcpListener, router: Router) -> (TaskTracker, DropGuard) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let tasks = TaskTracker::new();
    tasks.spawn(async move {
        let serving = axum::serve(without_delay(listener), router).into_future();
        match select(serving, Box::pin(stopped.cancelled())).await {
            Either::Left((Err(error), _)) => Err(error),
            Either::Left((Ok(()), _)) | Either::Right(_) => Ok(()),
        }
    });
    tasks.close();
    (tasks, stop.drop_guard())
}

impl Upstreams {
    /// Listens on `port` of loopback; 0 uses any free one.
    pub async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let visitors = Visitors::default();
        let (tasks, stop) = serve(listener, router(visitors.clone()));
        Ok(Self { address, visitors, tasks, _stop: stop })
    }

    /// Returns the base URL of the model, for an adapter.
    pub fn model_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the base URL of the search.
    pub fn search_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all addresses, for a parent process.
    pub fn addresses(&self) -> Value {
        json!({
            "models": self.model_url(),
            "search": self.search_url(),
            "requests": format!("http://{}/requests", self.address),
        })
    }

    /// Returns the recorded requests, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        self.visitors.all()
    }

    /// Waits until the server stops.
    pub async fn wait(&self) {
        self.tasks.wait().await;
    }
}

fn router(visitors: Visitors) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::answer))
        .route("/v1/models", get(chat::models))
        .route("/search", get(search::search))
        .route("/pages/{name}", get(pages::page))
        .route("/moved/{name}", get(pages::moved))
        .route("/requests", get(visitors::list).delete(visitors::forget))
        .with_state(visitors)
}
