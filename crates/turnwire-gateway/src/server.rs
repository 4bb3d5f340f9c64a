//! Listening, serving connections, and shutting down.

use std::{any::Any, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    timeout::RequestBodyTimeoutLayer,
};
use tracing::{debug, error, info, warn};
use turnwire_contract::StoreError;
use turnwire_engine::WhenWoken;

use crate::{
    ApiError, App, access_log,
    auth::{self, Auth},
    connection::{self, Connection, Times, Verdict, taken},
    connection_permit::ConnectionPermit,
    connection_table::{ConnectionLimits, ConnectionSlot, ConnectionTable},
    limits::{HttpLimits, LimitReached, WRITE_TIMEOUT},
    path::nothing_here,
    probes, quota_headers,
};

/// Time for open requests to end at shutdown.
const CLOSING_TIME: Duration = Duration::from_secs(10);
/// Part of [`CLOSING_TIME`] for tools whose runs other workers continue.
const TOOLS_GRACE: Duration = Duration::from_secs(5);
/// First bytes of an HTTP/2 connection. Anything else is HTTP/1.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Interval of checks for the rest of the HTTP/2 preface.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Interval of HTTP/2 keep-alive pings.
const HTTP2_PING: Duration = Duration::from_secs(20);
/// Maximum number of bytes buffered per HTTP/2 stream.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;
/// Smallest limit on HTTP/1 headers that hyper accepts, in bytes.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// Number of connections beyond the limit, so that probes are always answered.
const RESERVE: usize = 64;
/// Time for a connection that timed out to close by itself.
const LEAVING_TIME: Duration = Duration::from_secs(5);

/// Query parameters with the last frame that a client has.
const CURSORS: [&str; 4] = ["after", "starting_after", "startIndex", "offset"];
/// Media types of streams.
const STREAMS: [&str; 2] = ["text/event-stream", "application/x-ndjson"];

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

#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Listener of the separate address for probes.
    health: Option<TcpListener>,
    app: App,
    limits: HttpLimits,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address can be reached from other machines, and there is no API key.
    #[error("{0} can be reached from other machines, and there is no API key")]
    NeedsKey(SocketAddr),
    /// The store cannot tell whether there is an API key.
    #[error("cannot read the API keys of the store: {0}")]
    Keys(StoreError),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        cause: io::Error,
    },
}

impl Server {
    pub async fn bind(
        address: SocketAddr,
        app: App,
        limits: HttpLimits,
    ) -> Result<Self, ServerError> {
        match app.auth().may_open_at(address).await {
            Ok(true) => {}
            Ok(false) => return Err(ServerError::NeedsKey(address)),
            Err(cause) => return Err(ServerError::Keys(cause)),
        }
        Ok(Self { listener: listen(address).await?, health: None, app, limits })
    }

    /// Also answers probes at a separate address. It serves nothing else, so probes succeed however
    /// busy the main address is.
    pub async fn with_health(mut self, address: SocketAddr) -> Result<Self, ServerError> {
        self.health = Some(listen(address).await?);
        Ok(self)
    }

    /// The separate address for probes, if there is one.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address it listens on.
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
        let (slot, limit) = table.enter(peer.ip());
        if let Some(limit) = limit {
            app.metrics().limit_reached(limit);
        }
        let slot = Arc::new(slot);
        let serving = ConnectionTask {
            app: app.clone(),
            limits: Arc::clone(&limits),
            builder: builder.clone(),
            router: router.clone(),
            permit: ConnectionPermit::new(Some(Arc::clone(&slot)), Arc::clone(&limits)),
        };
        app.tasks().spawn(serving.serve(stream, slot));
    }
    drop(listener);
    info!("shutting down");
    // Durable runs are handed over to other workers, and their streams have already ended. For all
    // others, wait until runs, streams and connections end.
    let all_ended = async {
        app.tasks().close();
        tokio::join!(app.runs().hand_over(TOOLS_GRACE), app.tasks().wait());
    };
    if timeout(CLOSING_TIME, all_ended).await.is_err() {
        warn!("connections still open at the shutdown deadline");
    }
}

/// A connection being served.
struct ConnectionTask {
    app: App,
    limits: Arc<HttpLimits>,
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    permit: ConnectionPermit,
}

impl ConnectionTask {
    async fn serve(self, stream: TcpStream, slot: Arc<ConnectionSlot>) {
        let close = slot.close().clone();
        tokio::select! {
            biased;
            () = WhenWoken::new(close.cancelled().boxed()) => {
                debug!("connection closed to make room for another");
            }
            () = self.until_it_ends(stream, slot) => {}
        }
    }

    async fn until_it_ends(self, stream: TcpStream, slot: Arc<ConnectionSlot>) {
        let Self { app, limits, builder, router, permit } = self;
        if !says_something(&stream, limits.header_time, app.closing()).await {
            debug!("connection closed, no request in time");
            return;
        }
        let (open, times) = (Connection::default(), limits.times());
        let service = Extension(open.clone()).layer(Extension(permit).layer(router));
        let service = TowerToHyperService::new(service);
        let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut serving = pin!(serving);
        let mut closing = WhenWoken::new(app.closing().cancelled().boxed());
        let look_every = look_every(&times);
        let mut look = WhenWoken::new(Box::pin(sleep(look_every)));
        let mut leaving_since: Option<Instant> = None;
        loop {
            tokio::select! {
                served = serving.as_mut() => {
                    if let Err(error) = served {
                        debug!(%error, "connection failed");
                    }
                    return;
                }
                () = &mut closing, if leaving_since.is_none() => {
                    leaving_since = Some(Instant::now());
                    serving.as_mut().graceful_shutdown();
                }
                () = &mut look => {
                    look = WhenWoken::new(Box::pin(sleep(look_every)));
                    let (verdict, n_dropped) = open.check(&times, slot.is_known());
                    (0..n_dropped).for_each(|_| app.metrics().limit_reached(WRITE_TIMEOUT));
                    match (verdict, leaving_since) {
                        (Verdict::Close, _) => return debug!("connection closed, client did not read in time"),
                        (Verdict::Leave(limit), None) => {
                            app.metrics().limit_reached(limit);
                            leaving_since = Some(Instant::now());
                            serving.as_mut().graceful_shutdown();
                        }
                        // Some clients ignore the request to close.
                        (Verdict::Leave(_), Some(since))
                            if open.is_idle() && since.elapsed() > LEAVING_TIME => return,
                        (Verdict::Leave(_) | Verdict::Keep, _) => {}
                    }
                }
            }
        }
    }
}

/// Interval of the checks of a connection.
fn look_every(times: &Times) -> Duration {
    let shortest = times.write.min(times.unknown).min(times.idle).min(times.total);
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(5))
}

/// Waits until the client has sent enough to tell its protocol, so that silent clients do not use
/// up connections. After that, the timeouts of the protocol apply.
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
        // hyper accepts no less.
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

/// All routes, with the layers that apply to all of them.
pub fn router(app: &App, limits: &HttpLimits) -> Router {
    let auth: Auth = app.auth().clone();
    crate::routes()
        .fallback(async || nothing_here())
        .method_not_allowed_fallback(async || {
            let message = "This path does not have this method; `Allow` lists those it has.";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        })
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyTimeoutLayer::new(limits.body_pause))
        .layer(middleware::from_fn(quota_headers::attach))
        .layer(middleware::from_fn(move |request, next| auth::guard(auth.clone(), request, next)))
        .layer(CatchPanicLayer::custom(broken))
        .layer(middleware::from_fn_with_state(app.clone(), count))
        .layer(middleware::from_fn(connection::watch))
        .layer(middleware::from_fn(access_log::log))
        // Official clients show it, so that a person can name the request that failed.
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .with_state(app.clone())
}

/// The response for a handler that panicked. The cause is only logged.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn broken(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    error!(why, "handler panicked");
    let message = "Internal server error. See the server log.";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message).into_response()
}

/// The layer that counts limits that were reached, errors and resumed streams.
async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let resumes = resumes(request.uri(), request.headers());
    let response = next.run(request).await;
    if let Some(LimitReached(limit)) = response.extensions().get() {
        app.metrics().limit_reached(limit);
    }
    if let Some(access_log::ErrorCode(code)) = response.extensions().get() {
        app.metrics().rejected(code);
    }
    if resumes && is_stream(response.headers()) {
        app.metrics().resumed();
    }
    response
}

/// Whether the client names the last frame that it has.
fn resumes(uri: &Uri, headers: &HeaderMap) -> bool {
    if headers.contains_key("last-event-id") {
        return true;
    }
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        CURSORS.contains(&name) && !["", "0", "-1"].contains(&value)
    })
}

fn is_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    content_type.is_some_and(|it| STREAMS.iter().any(|stream| it.starts_with(stream)))
}
