//! Writing server-sent events.
//!
//! Axum's own writer sends its keep-alive as a comment with a blank line, from which the official
//! Python client reads an empty event if the stream has an `id:`. Some clients lose a frame whose
//! last line arrives in another read. So the bytes are made here: chunks of whole frames, and a
//! comment of one line, which every client skips.

use std::{
    fmt::Display,
    io::Write,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use memchr::memchr2;
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};
use turnwire_contract::JournalError;
use turnwire_engine::{RunHandle, WhenWoken};
use turnwire_surfaces::wire_json::write_wire_json;

use crate::{app::App, metrics::OpenStream};

const PING: &[u8] = b": ping\n";
/// Last line of a stream whose run continues: makes clients that reconnect by themselves do so
/// soon. No blank line follows, because some clients would read an event from it.
const COME_BACK: &[u8] = b"retry: 100\n";
/// The same if the journal cannot be read.
const COME_BACK_AFTER_LOSS: &[u8] =
    b": the journal cannot be read right now; resume later\nretry: 1000\n";

/// Writes one frame to the end of a buffer: the name of the event and the ID, if the surface has
/// them, and then the data, which ends the frame.
#[derive(Debug)]
pub struct SseFrame<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> SseFrame<'a> {
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// With the name of the event, which is never taken from client input.
    pub fn event(self, name: &'static str) -> Self {
        self.line("event", name.as_bytes())
    }

    /// With a cursor to resume from.
    pub fn id(self, id: impl Display) -> Self {
        // Writing to a vector cannot fail.
        let _ = writeln!(self.out, "id: {id}");
        self
    }

    /// Ends the frame with `value` as JSON, which contains no raw line breaks.
    pub fn json(self, value: &impl Serialize) {
        self.out.extend_from_slice(b"data: ");
        write_wire_json(self.out, value);
        self.out.extend_from_slice(b"\n\n");
    }

    /// Ends the frame with `data`, usually one line.
    pub fn data(self, data: &str) {
        let frame = if memchr2(b'\n', b'\r', data.as_bytes()).is_none() {
            self.line("data", data.as_bytes())
        } else {
            data.split(['\n', '\r']).fold(self, |frame, line| frame.line("data", line.as_bytes()))
        };
        frame.out.push(b'\n');
    }

    fn line(self, field: &str, value: &[u8]) -> Self {
        for part in [field.as_bytes(), b": ", value, b"\n"] {
            self.out.extend_from_slice(part);
        }
        self
    }
}

/// The frame that tells clients of OpenAI's APIs that nothing follows.
pub(crate) fn write_done(out: &mut Vec<u8>) {
    SseFrame::begin(out).data("[DONE]");
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

/// A stream that cannot go on. Its connection breaks, so that the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream ends before the run does")]
pub(crate) struct BrokenStream;

/// A response that streams `items`, written by `write`, with keep-alive comments. If the stream
/// ends before the run does, the client is told to reconnect.
pub(crate) fn event_stream<T>(
    app: &App,
    items: impl Stream<Item = Result<T, JournalError>> + Send + 'static,
    write: impl FnMut(&mut Vec<u8>, T) + Send + Unpin + 'static,
) -> Response {
    event_stream_with(app, items, write, EarlyEnd::RECONNECT)
}

/// Like [`event_stream`], with other last bytes.
pub(crate) fn event_stream_with<T>(
    app: &App,
    items: impl Stream<Item = Result<T, JournalError>> + Send + 'static,
    write: impl FnMut(&mut Vec<u8>, T) + Send + Unpin + 'static,
    early_end: EarlyEnd,
) -> Response {
    let EarlyEnd { closing, journal_lost } = early_end;
    let items = items.map(move |item| item.map_err(|_| Ok(journal_lost.clone())));
    body_of(app, items, write, closing.map(Ok))
}

/// Like [`event_stream`], for clients that take the end of a stream for the end of the run: if it
/// ends before the run does, the connection breaks.
pub(crate) fn breaking_event_stream<T>(
    app: &App,
    items: impl Stream<Item = Result<T, BrokenStream>> + Send + 'static,
    write: impl FnMut(&mut Vec<u8>, T) + Send + Unpin + 'static,
) -> Response {
    body_of(app, items.map(|item| item.map_err(Err)), write, Some(Err(BrokenStream)))
}

fn body_of<T>(
    app: &App,
    items: impl Stream<Item = Result<T, LastChunk>> + Send + 'static,
    write: impl FnMut(&mut Vec<u8>, T) + Send + Unpin + 'static,
    closing: Option<LastChunk>,
) -> Response {
    let chunks = Chunks {
        end: closing.map(|closing| (WhenWoken::new(app.draining().boxed()), closing)),
        _open: Some(app.metrics().stream("sse")),
        ..Chunks::new(items, write, app.options().keep_alive_interval, PING)
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Disables buffering in nginx.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

/// A body of `lines`, and an empty line after every `silence` without one, because NDJSON has no
/// comments.
pub(crate) fn body_of_lines(app: &App, lines: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    let lines = lines.map(Ok);
    let write = |out: &mut Vec<u8>, line: Bytes| out.extend_from_slice(&line);
    let chunks = Chunks {
        _open: Some(app.metrics().stream("ndjson")),
        ..Chunks::new(lines, write, app.options().keep_alive_interval, b"\n")
    };
    Body::from_stream(chunks)
}

/// A chunk with this many bytes is not made larger.
const CHUNK_BYTES: usize = 64 * 1024;
/// Room for the frames of most events.
const FRAME_BYTES: usize = 512;

/// The last chunk of a stream that ends early.
type LastChunk = Result<Bytes, BrokenStream>;

/// The chunks of a body. All frames that are ready become one chunk, and so one write; none is held
/// back for those that follow. A chunk has whole frames only.
///
/// The keep-alive timer is not reset for every chunk: when it fires, it is set to the time at which
/// a comment is then due.
struct Chunks<S, W> {
    items: Pin<Box<S>>,
    write: W,
    /// The last chunk, if it is known.
    last: Option<LastChunk>,
    is_over: bool,
    /// Completes when the streams of the server end, with the last chunk for that.
    end: Option<(WhenWoken<BoxFuture<'static, ()>>, LastChunk)>,
    keep_alive: &'static [u8],
    silence: Duration,
    silent_since: Instant,
    timer: Pin<Box<Sleep>>,
    /// Counts the stream.
    _open: Option<OpenStream>,
}

impl<T, S, W> Chunks<S, W>
where
    S: Stream<Item = Result<T, LastChunk>>,
    W: FnMut(&mut Vec<u8>, T),
{
    fn new(items: S, write: W, silence: Duration, keep_alive: &'static [u8]) -> Self {
        Self {
            items: Box::pin(items),
            write,
            last: None,
            is_over: false,
            end: None,
            keep_alive,
            silence,
            silent_since: Instant::now(),
            timer: Box::pin(sleep(silence)),
            _open: None,
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Option<LastChunk> {
        let (end, closing) = self.end.as_mut()?;
        let has_ended = end.poll_unpin(context).is_ready();
        has_ended.then(|| closing.clone())
    }

    /// Writes the frames that are ready.
    fn gather(&mut self, context: &mut Context<'_>) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            match self.items.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(item))) => {
                    chunk.reserve(FRAME_BYTES);
                    (self.write)(&mut chunk, item);
                }
                Poll::Ready(Some(Err(last))) => {
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
        (!chunk.is_empty()).then(|| chunk.into())
    }

    /// Whether a keep-alive comment is due.
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

impl<T, S, W> Stream for Chunks<S, W>
where
    S: Stream<Item = Result<T, LastChunk>>,
    W: FnMut(&mut Vec<u8>, T) + Unpin,
{
    type Item = LastChunk;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<LastChunk>> {
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
            Some(Ok(Bytes::from_static(this.keep_alive)))
        })
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
