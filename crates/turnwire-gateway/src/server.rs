//! Listening and closing.

use std::{any::Any, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::DefaultBodyLimit,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tower_http::{catch_panic::CatchPanicLayer, timeout::RequestBodyTimeoutLayer};
use tracing::{debug, error, info, warn};

use crate::{
    app::App,
    door::{self, Door},
    path::nothing_here,
    refusal::Refusal,
    seat::Seat,
};

/// How long open requests get to end when the server closes.
const CLOSING_TIME: Duration = Duration::from_secs(10);
/// How much of it tools get whose runs go on elsewhere.
const TOOLS_GRACE: Duration = Duration::from_secs(5);
/// How a connection of HTTP/2 begins; any other beginning is HTTP/1.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often a connection is looked at that has only begun to say which protocol it speaks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often a client of HTTP/2 is asked whether it is there.
const HTTP2_PING: Duration = Duration::from_secs(20);

/// How much of everything one server takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of all headers together.
    pub header_bytes: usize,
    /// How many headers.
    pub headers: usize,
    /// How long the headers may take.
    pub header_time: Duration,
    /// How long a body may pause.
    pub body_pause: Duration,
    /// How many connections at once, WebSockets among them.
    pub connections: usize,
    /// How long a WebSocket of `/v1/responses` may be used.
    pub socket_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            header_bytes: 32 * 1024,
            headers: 100,
            header_time: Duration::from_secs(10),
            body_pause: Duration::from_secs(30),
            connections: 5_000,
            socket_time: Duration::from_hours(1),
        }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    app: App,
    limits: HttpLimits,
}

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Everybody could reach it, and there is no key.
    #[error("{0} can be reached from other machines, and there is no API key")]
    NeedsKey(SocketAddr),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
}

impl Server {
    /// Listens on `address`.
    pub async fn bind(
        address: SocketAddr,
        app: App,
        limits: HttpLimits,
    ) -> Result<Self, ServerError> {
        if !app.door().may_open_at(address) {
            return Err(ServerError::NeedsKey(address));
        }
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|cause| ServerError::Listen { address, cause })?;
        Ok(Self { listener, app, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the app is [closing](App::closing), then lets open requests end.
    pub async fn run(self) {
        let Self { listener, app, limits } = self;
        let service = router(&app, &limits);
        let connections = Arc::new(Semaphore::new(limits.connections));
        let graceful = GracefulShutdown::new();
        let builder = connection_builder(&limits);
        let closing = app.closing().clone();
        loop {
            let permit = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                // When there are too many, newcomers wait in the system's queue.
                permit = Arc::clone(&connections).acquire_owned() => permit,
            };
            let stream = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match stream {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "A connection could not be accepted.");
                    // Usually out of file descriptors: give some a chance to be closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            without_delay(&stream);
            let seat = Seat::new(permit.ok(), limits.socket_time);
            let service = TowerToHyperService::new(Extension(seat).layer(service.clone()));
            let (builder, watcher) = (builder.clone(), graceful.watcher());
            let (closing, header_time) = (closing.clone(), limits.header_time);
            app.tasks().spawn(async move {
                if !says_something(&stream, header_time, &closing).await {
                    debug!("A connection said nothing.");
                    return;
                }
                let stream = TokioIo::new(stream);
                let connection = builder.serve_connection_with_upgrades(stream, service);
                if let Err(error) = watcher.watch(connection.into_owned()).await {
                    debug!(%error, "A connection broke off.");
                }
            });
        }
        drop(listener);
        info!("Closing.");
        // Runs that outlive this server are left to others, and their streams have ended already;
        // the others end, streams with their runs and connections with their streams.
        let all_ended = async {
            tokio::join!(app.runs().hand_over(TOOLS_GRACE), graceful.shutdown());
            app.tasks().close();
            app.tasks().wait().await;
        };
        if timeout(CLOSING_TIME, all_ended).await.is_err() {
            warn!("Some connections did not end in time.");
        }
    }
}

/// Waits until a client has said which protocol it speaks: whoever says nothing must not keep
/// others out. From there on, the protocol has its own times.
async fn says_something(
    stream: &TcpStream,
    longest: Duration,
    closing: &CancellationToken,
) -> bool {
    let spoken = async {
        let mut first = [0; HTTP2_PREFACE.len()];
        loop {
            let n_bytes = stream.peek(&mut first).await.unwrap_or(0);
            let begun = first.get(..n_bytes).unwrap_or_default();
            if n_bytes == HTTP2_PREFACE.len() || !HTTP2_PREFACE.starts_with(begun) {
                return true;
            }
            if n_bytes == 0 {
                return false;
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        () = closing.cancelled() => false,
        spoken = timeout(longest, spoken) => spoken.unwrap_or(false),
    }
}

fn without_delay(stream: &TcpStream) {
    // A frame must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "The connection keeps its delay.");
    }
}

fn connection_builder(limits: &HttpLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_PING)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    builder
}

/// Every route, inside the layers that hold for all of them.
pub fn router(app: &App, limits: &HttpLimits) -> Router {
    let door: Door = app.door().clone();
    crate::routes()
        .fallback(async || nothing_here())
        .method_not_allowed_fallback(async || {
            let message = "This path has other methods; `Allow` names them.";
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        })
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyTimeoutLayer::new(limits.body_pause))
        .layer(middleware::from_fn(move |request, next| door::guard(door.clone(), request, next)))
        .layer(CatchPanicLayer::custom(broken))
        .with_state(app.clone())
}

/// The answer of a handler that fell over. Why is for the log.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn broken(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    error!(why, "A handler fell over.");
    let message = "Something went wrong in the server; its log says what.";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message).into_response()
}
