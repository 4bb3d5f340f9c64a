//! State of one open connection.
//!
//! A client that does not read its responses must not hold memory for long (C13). Such a client
//! stalls the whole connection (HTTP/1.1), or one stream by not opening its window (HTTP/2). In
//! both cases the response body is not polled. So that is what is watched: a body that has handed
//! over a piece and is not polled for the next one within the write timeout is dropped with
//! everything it holds. Its connection is closed if no other response is in progress there. A
//! client can read the rest later, from the journal.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};
use tracing::{debug, warn};
use turnwire_engine::WhenWoken;

use crate::{admission::Permit, auth::Validity, connection_table::ReaderPlace, sync::lock};

/// Maximum size of a piece handed to the connection, in bytes. A piece stays in the buffers of the
/// connection until the client reads it, and cannot be taken back.
const MAX_PIECE: usize = 32 * 1024;

/// One connection, and the responses being written to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection(Arc<Mutex<ConnectionState>>);

#[derive(Debug)]
struct ConnectionState {
    bodies: Vec<Weak<Mutex<BodyState>>>,
    opened: Instant,
    n_requests: usize,
    /// When the last request ended.
    idle_since: Instant,
}

impl Default for ConnectionState {
    fn default() -> Self {
        let now = Instant::now();
        Self { bodies: Vec::new(), opened: now, n_requests: 0, idle_since: now }
    }
}

/// Timeouts of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time for the client to read a piece.
    pub(crate) write: Duration,
    /// Time until the first authenticated request.
    pub(crate) unknown: Duration,
    /// Time without a request.
    pub(crate) idle: Duration,
    /// Maximum age.
    pub(crate) total: Duration,
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Accept no further requests, and close it after those in progress. It timed out; the value is
    /// the setting.
    Leave(&'static str),
    /// Close it now: the client reads none of its responses.
    Close,
}

impl Connection {
    /// Drops the bodies that were not polled in time. Returns the verdict for the connection, and
    /// the number of bodies dropped by this call.
    pub(crate) fn check(&self, times: &Times, is_known: bool) -> (Verdict, usize) {
        let bodies = {
            let mut open = lock(&self.0);
            open.bodies.retain(|body| body.strong_count() > 0);
            open.bodies.clone()
        };
        let (mut n_open, mut n_stuck, mut n_dropped) = (0, 0, 0);
        for body in bodies.iter().filter_map(Weak::upgrade) {
            let (is_stuck, dropped) = lock(&body).give_up_after(times.write);
            n_open += 1;
            n_stuck += usize::from(is_stuck);
            n_dropped += usize::from(dropped.is_some());
            // Not under the lock: dropping the body runs arbitrary code.
            drop(dropped);
        }
        let is_stuck = n_stuck > 0 && n_stuck == n_open;
        let verdict = if is_stuck { Verdict::Close } else { self.check_times(times, is_known) };
        (verdict, n_dropped)
    }

    fn check_times(&self, times: &Times, is_known: bool) -> Verdict {
        let open = lock(&self.0);
        let (age, is_idle) = (open.opened.elapsed(), open.n_requests == 0);
        if is_idle && !is_known && age >= times.unknown {
            return Verdict::Leave("limits.header_timeout_sec");
        }
        if is_idle && open.idle_since.elapsed() >= times.idle {
            return Verdict::Leave("limits.idle_timeout_sec");
        }
        if age >= times.total {
            return Verdict::Leave("limits.connection_timeout_sec");
        }
        Verdict::Keep
    }

    /// Whether no request is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.0).n_requests == 0
    }

    /// Counts a request until the returned value is dropped.
    fn begin(&self) -> OpenRequest {
        lock(&self.0).n_requests += 1;
        OpenRequest(self.clone())
    }

    fn watch(&self, body: Body, held: HeldPermits, request: OpenRequest) -> Body {
        let validity = held.validity();
        let body = Some((body, (held, request)));
        let rest = Bytes::new();
        let writing = BodyState {
            body,
            rest,
            handed_over: None,
            has_begun: false,
            validity,
            key_ended: None,
        };
        let writing = Arc::new(Mutex::new(writing));
        lock(&self.0).bodies.push(Arc::downgrade(&writing));
        Body::new(WatchedBody(writing))
    }
}

/// A request whose response is not written yet.
struct OpenRequest(Connection);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut open = lock(&self.0.0);
        open.n_requests -= 1;
        open.idle_since = Instant::now();
    }
}

/// What is held until the response is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldPermits(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    permits: Vec<Arc<Permit>>,
    /// Of a reader of a share link.
    place: Option<ReaderPlace>,
    /// Of the key of the request.
    validity: Option<Validity>,
}

impl HeldPermits {
    /// Holds a permit. The response ends with the key.
    pub(crate) fn hold(&self, permit: Arc<Permit>, validity: Option<Validity>) {
        let mut held = lock(&self.0);
        held.permits.push(permit);
        held.validity = validity;
    }

    /// Holds another permit.
    pub(crate) fn hold_more(&self, permit: Permit) {
        lock(&self.0).permits.push(Arc::new(permit));
    }

    /// Holds the place of a reader of a share link.
    pub(crate) fn hold_place(&self, place: ReaderPlace) {
        lock(&self.0).place = Some(place);
    }

    fn validity(&self) -> Option<Validity> {
        lock(&self.0).validity.clone()
    }
}

/// The layer that lets the connection watch the body of each response.
pub(crate) async fn watch(mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>().cloned();
    let open = connection.as_ref().map(Connection::begin);
    let held = HeldPermits::default();
    request.extensions_mut().insert(held.clone());
    let response = next.run(request).await;
    match connection.zip(open) {
        Some((connection, open)) => response.map(|body| connection.watch(body, held, open)),
        // The router is used without a server.
        None => response,
    }
}

/// A body, and what is held for it.
type WatchedContent = (Body, (HeldPermits, OpenRequest));

/// A response body being written.
struct BodyState {
    /// `None` if it was dropped because the client does not read it.
    body: Option<WatchedContent>,
    /// The rest of a piece that was too large to hand over at once.
    rest: Bytes,
    /// When the last piece was handed over. `None` if the next one was already asked for.
    handed_over: Option<Instant>,
    /// Whether a piece was asked for.
    has_begun: bool,
    /// Of the key of the request. `None` if it cannot be revoked.
    validity: Option<Validity>,
    /// Completes when the key is revoked or expires. Created when a second piece is asked for.
    key_ended: Option<WhenWoken<BoxFuture<'static, ()>>>,
}

impl fmt::Debug for BodyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").field("handed_over", &self.handed_over).finish_non_exhaustive()
    }
}

impl BodyState {
    /// Returns whether the client does not read the body, and the body itself if this call dropped
    /// it.
    fn give_up_after(&mut self, write_time: Duration) -> (bool, Option<WatchedContent>) {
        if self.body.is_none() {
            return (true, None);
        }
        let is_stuck = self.handed_over.is_some_and(|since| since.elapsed() >= write_time);
        let dropped = self.body.take_if(|_| is_stuck);
        if is_stuck {
            self.rest = Bytes::new();
        }
        (is_stuck, dropped)
    }

    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.handed_over = None;
        if self.body.is_none() {
            return Poll::Ready(Some(Err(axum::Error::new(WriteTimeout))));
        }
        // What is complete at once is not cut: it may be the new key in place of the old one.
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        if has_begun && self.poll_key_ended(cx).is_ready() {
            return self.end_with_key();
        }
        if self.rest.is_empty()
            && let Some((body, _)) = &mut self.body
        {
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Ready(other) => return Poll::Ready(other),
                Poll::Pending => {
                    ready!(self.poll_key_ended(cx));
                    return self.end_with_key();
                }
            }
        }
        self.handed_over = Some(Instant::now());
        if self.rest.len() <= MAX_PIECE {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        }
        // A copy, because a slice would keep the whole buffer in memory.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(MAX_PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn poll_key_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(validity) = &self.validity else { return Poll::Pending };
        let ended = || WhenWoken::new(validity.clone().ended().boxed());
        self.key_ended.get_or_insert_with(ended).poll_unpin(cx)
    }

    /// Drops the rest of the body, because the key of the request is no longer valid.
    fn end_with_key(&mut self) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        (self.body, self.rest) = (None, Bytes::new());
        Poll::Ready(Some(Err(axum::Error::new(KeyEnded))))
    }

    fn is_over(&self) -> bool {
        self.rest.is_empty() && self.body.as_ref().is_some_and(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.as_ref().map(|(body, _)| body.size_hint()).unwrap_or_default();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// Error that ends a body that the client did not read.
#[derive(Debug, thiserror::Error)]
#[error("the client did not read for too long")]
struct WriteTimeout;

/// Error that ends a body whose request had a key that is no longer valid.
#[derive(Debug, thiserror::Error)]
#[error("the API key was revoked or has expired")]
struct KeyEnded;

/// A body watched by its connection.
struct WatchedBody(Arc<Mutex<BodyState>>);

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        lock(&self.0).poll_piece(cx)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).is_over()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).size_hint()
    }
}

/// An accepted connection with `TCP_NODELAY`, so that a frame is not delayed until the next one.
pub(crate) async fn taken(
    accepted: io::Result<(TcpStream, SocketAddr)>,
) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok((stream, peer)) => {
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "TCP_NODELAY not set");
            }
            Some((stream, peer))
        }
        Err(error) => {
            warn!(%error, "accept failed");
            // Usually out of file descriptors. Wait for some to be closed.
            sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
