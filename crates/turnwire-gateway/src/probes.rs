//! Probes at a separate address.
//!
//! They are answered there however many connections the main address has, and during a shutdown,
//! and by a thread of its own: a runtime whose threads are all blocked cannot say so itself. The
//! address serves nothing else.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use axum::{
    Router,
    http::Request,
    response::{IntoResponse, Response},
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{self, Handle},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, error};

use crate::{App, connection::taken, health, path::nothing_here};

/// Maximum number of concurrent probes.
const MAX_AT_ONCE: usize = 64;

/// Interval of the ticks of the main runtime.
const BETWEEN_TICKS: Duration = Duration::from_millis(250);

/// A main runtime that has not ticked for so long is stuck, and so is one that does not answer a
/// probe in this time.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// When the main runtime last ticked.
#[derive(Debug)]
struct Ticks {
    began: Instant,
    /// In milliseconds since then.
    last: AtomicU64,
}

impl Ticks {
    fn tick(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn are_late(&self) -> bool {
        let late = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        Duration::from_millis(late) > STUCK_AFTER
    }
}

/// Answers probes until the future is dropped. Without a listener it does nothing.
pub(crate) async fn serve(listener: Option<TcpListener>, app: App, header_time: Duration) {
    let Some(listener) = listener else { return std::future::pending().await };
    let ticks = Arc::new(Ticks { began: Instant::now(), last: AtomicU64::new(0) });
    let prober = Prober { app, main: Handle::current(), ticks: Arc::clone(&ticks), header_time };
    let _stops_when_dropped = match prober.start(listener) {
        Ok(guard) => guard,
        Err(error) => {
            error!(%error, "probes are not answered, the thread for them cannot be started");
            return std::future::pending().await;
        }
    };
    loop {
        ticks.tick();
        sleep(BETWEEN_TICKS).await;
    }
}

/// What the thread of the probes has.
#[derive(Clone)]
struct Prober {
    app: App,
    main: Handle,
    ticks: Arc<Ticks>,
    header_time: Duration,
}

impl Prober {
    /// Starts the thread. It ends when the returned value is dropped.
    fn start(self, listener: TcpListener) -> io::Result<DropGuard> {
        let listener = listener.into_std()?;
        let own = runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        thread::Builder::new().name("probes".to_owned()).spawn(move || {
            own.block_on(async move {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return error!(%error, "probes are not answered"),
                };
                stopped.run_until_cancelled(self.accept(listener)).await;
            });
        })?;
        Ok(stop.drop_guard())
    }

    async fn accept(self, listener: TcpListener) {
        let (router, _) = health::routes().split_for_parts();
        let router = router.fallback(async || nothing_here()).with_state(self.app.clone());
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_AT_ONCE {
                connections.join_next().await;
            }
            let Some((stream, _)) = taken(listener.accept().await).await else { continue };
            connections.spawn(self.clone().answer(stream, router.clone()));
            while connections.try_join_next().is_some() {}
        }
    }

    /// Answers one request and closes the connection.
    async fn answer(self, stream: TcpStream, router: Router) {
        let header_time = self.header_time;
        let inner = TowerToHyperService::new(router);
        let service = service_fn(move |request| self.clone().respond(request, inner.clone()));
        let answering = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_time)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        if !matches!(timeout(header_time * 2 + STUCK_AFTER, answering).await, Ok(Ok(()))) {
            debug!("probe connection failed");
        }
    }

    /// Lets the main runtime answer, whose store and metrics it is about, if it can.
    async fn respond(
        self,
        request: Request<Incoming>,
        routes: TowerToHyperService<Router>,
    ) -> Result<Response, Infallible> {
        if self.ticks.are_late() {
            return Ok(health::stuck(&self.app).into_response());
        }
        let answer = self.main.spawn(routes.call(request));
        Ok(match timeout(STUCK_AFTER, answer).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            // The main runtime is blocked, or ends.
            Ok(Err(_)) | Err(_) => health::stuck(&self.app).into_response(),
        })
    }
}
