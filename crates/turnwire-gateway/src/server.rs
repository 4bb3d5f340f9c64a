//! Listening and closing.

use std::{any::Any, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::DefaultBodyLimit,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tower_http::{catch_panic::CatchPanicLayer, timeout::RequestBodyTimeoutLayer};
use tracing::{debug, error, info, warn};

use crate::{
    app::App,
    connection::{self, Connection, Times, Verdict},
    connection_table::{ConnectionLimits, ConnectionTable, Place},
    door::{self, Door},
    limits,
    path::nothing_here,
    probes,
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
/// The setting of the longest time that a client may leave unread what is written to it.
pub(crate) const WRITE_TIMEOUT: &str = "limits.write_timeout_sec";
/// How often a client of HTTP/2 is asked whether it is there.
const HTTP2_PING: Duration = Duration::from_secs(20);
/// How much of a response may wait in a stream of HTTP/2 for its client.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;
/// The least that headers of HTTP/1 may have together.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// How many connections there may be beyond the limit, so that probes always find a place.
const RESERVE: usize = 64;
/// How long a connection whose time is over gets to end by itself.
const LEAVING_TIME: Duration = Duration::from_secs(5);

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
    /// How many connections of clients at once, WebSockets among them.
    pub connections: usize,
    /// How many connections of one address over which no request was let in yet.
    pub unknown_per_address: usize,
    /// How long a connection may be open without a request.
    pub idle_time: Duration,
    /// How long a connection takes requests.
    pub connection_time: Duration,
    /// How many requests at once over one connection of HTTP/2.
    pub streams: u32,
    /// How long a client may leave unread what is written to it.
    pub write_time: Duration,
    /// How long a WebSocket of `/v1/responses` may be used.
    pub socket_time: Duration,
    /// How many bytes a message of a WebSocket may have.
    pub socket_message_bytes: usize,
    /// How many frames a WebSocket takes in one second.
    pub socket_messages_per_second: u32,
    /// How many turns may wait on a WebSocket.
    pub socket_queue: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            header_bytes: 32 * 1024,
            headers: 100,
            header_time: Duration::from_secs(10),
            body_pause: Duration::from_secs(30),
            connections: 5_000,
            unknown_per_address: 256,
            idle_time: Duration::from_mins(1),
            connection_time: Duration::from_hours(1),
            streams: 100,
            write_time: Duration::from_secs(30),
            socket_time: Duration::from_hours(1),
            socket_message_bytes: 1024 * 1024,
            socket_messages_per_second: 50,
            socket_queue: 16,
        }
    }
}

impl HttpLimits {
    fn times(&self) -> Times {
        Times {
            write: self.write_time,
            unknown: self.header_time,
            idle: self.idle_time,
            total: self.connection_time,
        }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Where only probes are answered, if that has an address of its own.
    health: Option<TcpListener>,
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
        Ok(Self { listener: listen(address).await?, health: None, app, limits })
    }

    /// Answers probes at an address of their own, too. Nothing else is answered there, so that
    /// whatever happens to the other one, an operator sees it.
    pub async fn with_health(mut self, address: SocketAddr) -> Result<Self, ServerError> {
        self.health = Some(listen(address).await?);
        Ok(self)
    }

    /// Where it answers probes, if that is an address of its own.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the app is [closing](App::closing), then lets open requests end.
    pub async fn run(self) {
        let Self { listener, health, app, limits } = self;
        let probes = probes::serve(health, app.clone(), limits.header_time);
        tokio::select! {
            () = serve(listener, app, Arc::new(limits)) => {}
            () = probes => {}
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|cause| ServerError::Listen { address, cause })
}

async fn serve(listener: TcpListener, app: App, limits: Arc<HttpLimits>) {
    let (router, builder) = (router(&app, &limits), connection_builder(&limits));
    let table = ConnectionTable::new(ConnectionLimits {
        known: limits.connections,
        unknown_per_address: limits.unknown_per_address,
        reserve: RESERVE,
    });
    let closing = app.closing().clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Some((stream, peer)) = taken(accepted).await else { continue };
        let (place, limit) = table.enter(peer.ip());
        if let Some(limit) = limit {
            app.metrics().limit_reached(limit);
        }
        let place = Arc::new(place);
        let serving = Serving {
            app: app.clone(),
            limits: Arc::clone(&limits),
            builder: builder.clone(),
            router: router.clone(),
            seat: Seat::new(Some(Arc::clone(&place)), Arc::clone(&limits)),
        };
        app.tasks().spawn(serving.serve(stream, place));
    }
    drop(listener);
    info!("Closing.");
    // Runs that outlive this server are left to others, and their streams have ended already;
    // the others end, streams with their runs and connections with their streams.
    let all_ended = async {
        app.tasks().close();
        tokio::join!(app.runs().hand_over(TOOLS_GRACE), app.tasks().wait());
    };
    if timeout(CLOSING_TIME, all_ended).await.is_err() {
        warn!("Some connections did not end in time.");
    }
}

/// A connection that was accepted, without delay: a frame must not wait for the next one.
pub(crate) async fn taken(
    accepted: io::Result<(TcpStream, SocketAddr)>,
) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok((stream, peer)) => {
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "The connection keeps its delay.");
            }
            Some((stream, peer))
        }
        Err(error) => {
            warn!(%error, "A connection could not be accepted.");
            // Usually out of file descriptors: give some a chance to be closed.
            sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// A connection that is being served.
struct Serving {
    app: App,
    limits: Arc<HttpLimits>,
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    seat: Seat,
}

impl Serving {
    async fn serve(self, stream: TcpStream, place: Arc<Place>) {
        let close = place.close().clone();
        tokio::select! {
            biased;
            () = close.cancelled() => debug!("A connection was closed for another one."),
            () = self.until_it_ends(stream, place) => {}
        }
    }

    async fn until_it_ends(self, stream: TcpStream, place: Arc<Place>) {
        let Self { app, limits, builder, router, seat } = self;
        if !says_something(&stream, limits.header_time, app.closing()).await {
            debug!("A connection said nothing.");
            return;
        }
        let (open, times) = (Connection::default(), limits.times());
        let service = Extension(open.clone()).layer(Extension(seat).layer(router));
        let service = TowerToHyperService::new(service);
        let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut serving = pin!(serving);
        let mut look_at = interval(look_every(&times));
        let mut leaving_since: Option<Instant> = None;
        loop {
            tokio::select! {
                served = serving.as_mut() => {
                    if let Err(error) = served {
                        debug!(%error, "A connection broke off.");
                    }
                    return;
                }
                () = app.closing().cancelled(), if leaving_since.is_none() => {
                    leaving_since = Some(Instant::now());
                    serving.as_mut().graceful_shutdown();
                }
                _ = look_at.tick() => {
                    let (verdict, n_dropped) = open.check(&times, place.is_known());
                    (0..n_dropped).for_each(|_| app.metrics().limit_reached(WRITE_TIMEOUT));
                    match (verdict, leaving_since) {
                        (Verdict::Close, _) => return debug!("A client did not read for too long."),
                        (Verdict::Leave(limit), None) => {
                            app.metrics().limit_reached(limit);
                            leaving_since = Some(Instant::now());
                            serving.as_mut().graceful_shutdown();
                        }
                        // Not everybody goes who is asked to.
                        (Verdict::Leave(_), Some(since))
                            if open.is_idle() && since.elapsed() > LEAVING_TIME => return,
                        (Verdict::Leave(_) | Verdict::Keep, _) => {}
                    }
                }
            }
        }
    }
}

/// How often a connection is looked at.
fn look_every(times: &Times) -> Duration {
    let shortest = times.write.min(times.unknown).min(times.idle).min(times.total);
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(5))
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

fn connection_builder(limits: &HttpLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits.headers)
        // hyper takes no less.
        .max_buf_size(limits.header_bytes.max(MIN_HEADER_BYTES));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_PING)
        .max_concurrent_streams(limits.streams)
        .max_send_buf_size(HTTP2_SEND_BUFFER)
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
        .layer(middleware::from_fn_with_state(app.clone(), limits::count))
        .layer(middleware::from_fn(connection::watch))
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
