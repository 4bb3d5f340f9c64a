//! The servers that a gateway leans on, played on loopback.
//!
//! `chat` is a model behind the real wire of Chat Completions, `search` a `SearXNG`, and `pages` a
//! site whose pages can be opened; all live at one address. They remember nothing between requests, so any number of tests can use
//! them at once: what the model says stands in the question
//! ([`Scripted::by_prompt`](turnwire_models::Scripted::by_prompt)), and what the search finds
//! follows from the query. What they were asked is kept for the tests to read, at `/requests`.
//!
//! The binary `upstreams` is this and nothing else.

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

/// Both servers, until it is dropped.
#[derive(Debug)]
pub struct Upstreams {
    address: SocketAddr,
    visitors: Visitors,
    tasks: TaskTracker,
    _stop: DropGuard,
}

/// As servers do whose answers come in pieces: a word must not wait until the one before has been
/// acknowledged, which takes 40 ms.
pub fn without_delay(listener: TcpListener) -> impl Listener<Io = TcpStream, Addr = SocketAddr> {
    listener.tap_io(|stream| {
        // One that cannot be told is gone.
        let _ = stream.set_nodelay(true);
    })
}

impl Upstreams {
    /// Listens on `port` of loopback; 0 takes any free one.
    pub async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let visitors = Visitors::default();
        let router = router(visitors.clone());
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
        Ok(Self { address, visitors, tasks, _stop: stop.drop_guard() })
    }

    /// The base URL of the model, such as an adapter wants it.
    pub fn model_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The base URL of the search.
    pub fn search_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where everything is, for a program that started this one.
    pub fn addresses(&self) -> Value {
        json!({
            "models": self.model_url(),
            "search": self.search_url(),
            "requests": format!("http://{}/requests", self.address),
        })
    }

    /// What was asked so far, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        self.visitors.all()
    }

    /// Returns when the server has stopped, which it does not by itself.
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
