//! Probes at a separate address.
//!
//! They are answered there however many connections the main address has, and during a shutdown.
//! The address serves nothing else.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tracing::debug;

use crate::{App, connection::taken, health, path::nothing_here};

/// Maximum number of concurrent probes.
const MAX_AT_ONCE: usize = 64;

/// Answers probes until the future is dropped. Without a listener it does nothing.
pub(crate) async fn serve(listener: Option<TcpListener>, app: App, header_time: Duration) {
    let Some(listener) = listener else { return std::future::pending().await };
    let (router, _) = health::routes().split_for_parts();
    let router = router.fallback(async || nothing_here()).with_state(app);
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_AT_ONCE {
            connections.join_next().await;
        }
        let Some((stream, _)) = taken(listener.accept().await).await else { continue };
        connections.spawn(answer(stream, router.clone(), header_time));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers one request and closes the connection.
async fn answer(stream: TcpStream, router: axum::Router, header_time: Duration) {
    let answering = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if !matches!(timeout(header_time * 2, answering).await, Ok(Ok(()))) {
        debug!("probe connection failed");
    }
}
