//! Writing server-sent events.
//!
//! Axum's own writer sends its heartbeat as a comment with a blank line, from which the official
//! Python client reads an empty event if the stream has an `id:`. Some clients lose a frame whose
//! last line arrives in another read. So the bytes are made here: chunks of whole frames, and a
//! heartbeat of one line, which every client skips.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::{
    FutureExt, Stream, StreamExt,
    future::{BoxFuture, Pending, ready},
    stream::BoxStream,
};
use memchr::memchr2;
use tokio::time::{Instant, Sleep, sleep};
use turnwire_contract::JournalError;
use turnwire_engine::RunHandle;

use crate::app::App;

const PING: &[u8] = b": ping\n";
/// Last line of a stream whose run continues: makes clients that reconnect by themselves do so
/// soon. No blank line follows, because some clients would read an event from it.
const COME_BACK: &[u8] = b"retry: 100\n";
/// The same if the journal cannot be read.
const COME_BACK_AFTER_LOSS: &[u8] =
    b": the journal cannot be read right now; resume later\nretry: 1000\n";

/// One frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// Name of the event, if the surface names its events. Never taken from client input.
    pub event: Option<&'static str>,
    /// Cursor to resume from, if the surface has cursors.
    pub id: Option<String>,
    /// The data, usually one line.
    pub data: String,
}

impl SseFrame {
    /// A frame that has only data.
    pub fn data(data: String) -> Self {
        Self { data, ..Self::default() }
    }

    /// The bytes of the frame.
    pub fn bytes(&self) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 96);
        if let Some(event) = self.event {
            push_line(&mut text, "event: ", event);
        }
        if let Some(id) = &self.id {
            push_line(&mut text, "id: ", id);
        }
        if memchr2(b'\n', b'\r', self.data.as_bytes()).is_none() {
            push_line(&mut text, "data: ", &self.data);
        } else {
            // Not JSON, which contains no raw line breaks.
            for line in self.data.split(['\n', '\r']) {
                push_line(&mut text, "data: ", line);
            }
        }
        text.push('\n');
        Bytes::from(text)
    }
}

fn push_line(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str(value);
    text.push('\n');
}

/// The last bytes of a stream that ends before its run does.
#[derive(Debug, Clone)]
pub(crate) struct EarlyEnd {
    /// If the server ends its streams. `None`: the stream goes on until its run ends.
    pub(crate) closing: Option<Bytes>,
    /// If the journal cannot be read.
    pub(crate) journal_lost: Bytes,
}

impl EarlyEnd {
    /// Lines that make the client reconnect.
    pub(crate) const RECONNECT: Self = Self {
        closing: Some(Bytes::from_static(COME_BACK)),
        journal_lost: Bytes::from_static(COME_BACK_AFTER_LOSS),
    };

    /// The same for the stream of this run, which does not end early if no other server can
    /// continue the run.
    pub(crate) fn of(self, handle: &RunHandle) -> Self {
        Self { closing: self.closing.filter(|_| !handle.is_ephemeral()), ..self }
    }
}

/// A response that streams `frames`, with heartbeats. If it ends before the run does, the client is
/// told to reconnect.
pub(crate) fn event_stream(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, JournalError>> + Send + 'static,
) -> Response {
    event_stream_with(app, frames, EarlyEnd::RECONNECT)
}

/// Like [`event_stream`], with other last bytes.
pub(crate) fn event_stream_with(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, JournalError>> + Send + 'static,
    early_end: EarlyEnd,
) -> Response {
    let EarlyEnd { closing, journal_lost } = early_end;
    let pieces = frames.map(move |frame| match frame {
        Ok(frame) => Piece::Frame(frame),
        Err(_) => Piece::Last(Ok(journal_lost.clone())),
    });
    body_of(app, pieces, closing.map(Ok))
}

/// A stream that cannot go on. Its connection breaks, so that the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream ends before the run does")]
pub(crate) struct BrokenStream;

/// Like [`event_stream`], for clients that take the end of a stream for the end of the run: if it
/// ends before the run does, the connection breaks.
pub(crate) fn breaking_event_stream(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, BrokenStream>> + Send + 'static,
) -> Response {
    let pieces = frames.map(|frame| match frame {
        Ok(frame) => Piece::Frame(frame),
        Err(broken) => Piece::Last(Err(broken)),
    });
    body_of(app, pieces, Some(Err(BrokenStream)))
}

fn body_of(
    app: &App,
    pieces: impl Stream<Item = Piece> + Send + 'static,
    closing: Option<Result<Bytes, BrokenStream>>,
) -> Response {
    let open = app.metrics().stream("sse");
    let end = closing.map(|closing| (app.draining(), closing));
    let chunks = Chunks::new(pieces, app.options().heartbeat, end);
    response(Body::from_stream(chunks.inspect(move |_| {
        let _ = &open;
    })))
}

fn response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Disables buffering in nginx.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// `frames`, and a comment after every `silence` without one.
pub fn with_heartbeat(
    frames: impl Stream<Item = Bytes> + Send + 'static,
    silence: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let never: Option<(Pending<()>, _)> = None;
    let chunks = Chunks::new(frames.map(Piece::Frame), silence, never);
    chunks.filter_map(|chunk| ready(chunk.ok()))
}

/// What a chunk is made of.
#[derive(Debug)]
enum Piece {
    Frame(Bytes),
    /// Nothing follows.
    Last(Result<Bytes, BrokenStream>),
}

/// A chunk with this many bytes is not made larger.
const CHUNK_BYTES: usize = 64 * 1024;

/// The chunks of a body. All frames that are ready become one chunk, and so one write; none is held
/// back for those that follow. A chunk has whole frames only.
///
/// The timer for the heartbeat is not set again for every chunk: when it fires, it is set to the
/// time that is due by then.
struct Chunks {
    pieces: BoxStream<'static, Piece>,
    /// The last chunk, if it is known.
    last: Option<Result<Bytes, BrokenStream>>,
    is_over: bool,
    /// Completes when the streams of the server end, with the last chunk for that.
    end: Option<(BoxFuture<'static, ()>, Result<Bytes, BrokenStream>)>,
    silence: Duration,
    silent_since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Chunks {
    fn new(
        pieces: impl Stream<Item = Piece> + Send + 'static,
        silence: Duration,
        end: Option<(impl Future<Output = ()> + Send + 'static, Result<Bytes, BrokenStream>)>,
    ) -> Self {
        Self {
            pieces: pieces.boxed(),
            last: None,
            is_over: false,
            end: end.map(|(end, closing)| (end.boxed(), closing)),
            silence,
            silent_since: Instant::now(),
            timer: Box::pin(sleep(silence)),
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Option<Result<Bytes, BrokenStream>> {
        let (end, closing) = self.end.as_mut()?;
        let has_ended = end.as_mut().poll(context).is_ready();
        has_ended.then(|| closing.clone())
    }

    /// Takes the frames that are ready.
    fn gather(&mut self, context: &mut Context<'_>) -> Option<Bytes> {
        let mut chunk = Bytes::new();
        let mut several = BytesMut::new();
        while several.len() < CHUNK_BYTES {
            match self.pieces.poll_next_unpin(context) {
                Poll::Ready(Some(Piece::Frame(frame))) if chunk.is_empty() => chunk = frame,
                Poll::Ready(Some(Piece::Frame(frame))) => {
                    if several.is_empty() {
                        several.reserve(8 * (chunk.len() + frame.len()));
                        several.extend_from_slice(&chunk);
                    }
                    several.extend_from_slice(&frame);
                }
                Poll::Ready(Some(Piece::Last(last))) => {
                    self.last = Some(last);
                    break;
                }
                Poll::Ready(None) => {
                    self.is_over = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        let chunk = if several.is_empty() { chunk } else { several.freeze() };
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Whether a heartbeat is due.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(context).is_ready() {
            let due = self.silent_since + self.silence;
            let is_due = due <= Instant::now();
            self.timer.as_mut().reset(if is_due { due + self.silence } else { due });
            if is_due {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes, BrokenStream>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let last = this.last.take().or_else(|| this.poll_end(context));
        if let Some(last) = last {
            this.is_over = true;
            return Poll::Ready(Some(last));
        }
        if let Some(chunk) = this.gather(context) {
            this.silent_since = Instant::now();
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(last) = this.last.take() {
            this.is_over = true;
            return Poll::Ready(Some(last));
        }
        if this.is_over {
            return Poll::Ready(None);
        }
        this.poll_silence(context).map(|()| {
            this.silent_since = Instant::now();
            Some(Ok(Bytes::from_static(PING)))
        })
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
