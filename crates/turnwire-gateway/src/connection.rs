//! What a server knows about one connection while it is open.
//!
//! A client that does not read must not cost memory for longer than it takes to be sure of it
//! (C13). Over HTTP/1.1 such a client stops the connection, over HTTP/2 perhaps only one stream of
//! it, by giving it no window; in both cases the body of the response is not asked for more. So
//! that is what is watched: a body that has handed over a piece and is not asked for the next one
//! in time is dropped, with everything behind it. Its connection is closed when nothing else goes
//! on there. Whoever reads again finds the rest where it was: in the journal.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::{admission::Permit, sync::lock};

/// The biggest piece of a body that is handed over at once. What is handed over stays in the
/// buffers of the connection until the client reads it, and cannot be taken back.
const MAX_PIECE: usize = 32 * 1024;

/// One connection, and the responses that are being written to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    bodies: Vec<Weak<Mutex<Writing>>>,
    opened: Instant,
    n_requests: usize,
    /// Since when there has been no request.
    idle_since: Instant,
}

impl Default for Open {
    fn default() -> Self {
        let now = Instant::now();
        Self { bodies: Vec::new(), opened: now, n_requests: 0, idle_since: now }
    }
}

/// How long a connection may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Leave unread what is written to it.
    pub(crate) write: Duration,
    /// Be open before a request over it is let in.
    pub(crate) unknown: Duration,
    /// Be open without a request.
    pub(crate) idle: Duration,
    /// Be open at all.
    pub(crate) total: Duration,
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays.
    Keep,
    /// It takes no more requests and ends with those that it has: its time is over, by this
    /// setting.
    Leave(&'static str),
    /// Its client reads nothing of all that is being written to it.
    Close,
}

impl Connection {
    /// Drops the bodies that nobody has asked for more in time. Says what is to become of the
    /// connection, and how many bodies were dropped just now.
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
            // Not under the lock: whatever the body holds may have something to do when it goes.
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

    /// Whether there is no request.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.0).n_requests == 0
    }

    /// Counts a request, until what is returned is dropped.
    fn begin(&self) -> OpenRequest {
        lock(&self.0).n_requests += 1;
        OpenRequest(self.clone())
    }

    fn watch(&self, body: Body, held: Held, request: OpenRequest) -> Body {
        let body = Some((body, (held, request)));
        let writing = Writing { body, rest: Bytes::new(), handed_over: None };
        let writing = Arc::new(Mutex::new(writing));
        lock(&self.0).bodies.push(Arc::downgrade(&writing));
        Body::new(WatchedBody(writing))
    }
}

/// A request whose response has not been written yet.
struct OpenRequest(Connection);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut open = lock(&self.0.0);
        open.n_requests -= 1;
        open.idle_since = Instant::now();
    }
}

/// What is held for a request until its response has been written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Vec<Arc<Permit>>>>);

impl Held {
    pub(crate) fn hold(&self, permit: Arc<Permit>) {
        lock(&self.0).push(permit);
    }
}

/// The layer that has the connection of a request watch over the body of its response.
pub(crate) async fn watch(mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>().cloned();
    let open = connection.as_ref().map(Connection::begin);
    let held = Held::default();
    request.extensions_mut().insert(held.clone());
    let response = next.run(request).await;
    match connection.zip(open) {
        Some((connection, open)) => response.map(|body| connection.watch(body, held, open)),
        // There is no server around the router.
        None => response,
    }
}

/// A body, and what goes with it.
type WatchedContent = (Body, (Held, OpenRequest));

/// A body on its way to a client.
struct Writing {
    /// With what is held for it; nothing, if it was dropped because nobody reads it.
    body: Option<WatchedContent>,
    /// What is left of a piece that was too big to be handed over at once.
    rest: Bytes,
    /// When the last piece was handed over, if nobody has asked for the next one yet.
    handed_over: Option<Instant>,
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").field("handed_over", &self.handed_over).finish_non_exhaustive()
    }
}

impl Writing {
    /// Whether nobody reads the body, and the body itself if that is new.
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
        let Some((body, _)) = &mut self.body else {
            return Poll::Ready(Some(Err(axum::Error::new(Stuck))));
        };
        if self.rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        self.handed_over = Some(Instant::now());
        if self.rest.len() <= MAX_PIECE {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        }
        // A copy: a part of the whole would keep all of it in memory.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(MAX_PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
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

/// The end of a body that nobody read.
#[derive(Debug, thiserror::Error)]
#[error("the client did not read for too long")]
struct Stuck;

/// A body that its connection watches over.
struct WatchedBody(Arc<Mutex<Writing>>);

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

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
