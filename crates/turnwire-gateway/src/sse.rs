//! Writing server-sent events.
//!
//! Axum's own writer sends its heartbeat as a comment with a blank line, from which the official
//! Python client reads an empty event if the stream has an `id:`. Some clients lose a frame whose
//! last line arrives in another read. So the bytes are made here: one chunk per frame, and a
//! heartbeat of one line, which every client skips.

use std::{convert::Infallible, fmt::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::time::{Instant, sleep_until};
use turnwire_contract::JournalError;

use crate::app::App;

/// Default heartbeat interval.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

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
        let mut text = String::with_capacity(self.data.len() + 64);
        if let Some(event) = self.event {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "event: {event}");
        }
        if let Some(id) = &self.id {
            let _ = writeln!(text, "id: {id}");
        }
        // JSON contains no raw line breaks; this handles other data.
        for line in self.data.split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        Bytes::from(text)
    }
}

/// The last bytes of a stream that ends before its run does.
#[derive(Debug, Clone)]
pub(crate) struct EarlyEnd {
    /// If the server ends its streams.
    pub(crate) closing: Bytes,
    /// If the journal cannot be read.
    pub(crate) journal_lost: Bytes,
}

impl EarlyEnd {
    /// Lines that make the client reconnect.
    const RECONNECT: Self = Self {
        closing: Bytes::from_static(COME_BACK),
        journal_lost: Bytes::from_static(COME_BACK_AFTER_LOSS),
    };
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
    let open = app.metrics().stream("sse");
    let frames = until_streams_end(app, frames, early_end);
    let body = with_heartbeat(frames, app.options().heartbeat).map(move |bytes| {
        let _ = &open;
        Ok::<_, Infallible>(bytes)
    });
    response(Body::from_stream(body))
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
    let open = app.metrics().stream("sse");
    let state = Some((Box::pin(app.streams_end()), Box::pin(frames)));
    let frames = stream::unfold(state, |state| async move {
        let (mut end, mut frames) = state?;
        let next = tokio::select! {
            biased;
            () = &mut end => Err(BrokenStream),
            next = frames.next() => next?,
        };
        let rest = next.is_ok().then_some((end, frames));
        Some((next, rest))
    });
    let ping = || Ok(Bytes::from_static(PING));
    let body = with_pings(frames, app.options().heartbeat, ping).inspect(move |_| {
        let _ = &open;
    });
    response(Body::from_stream(body))
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

/// `frames` until the streams of `app` end or the journal cannot be read, then the early end.
fn until_streams_end(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, JournalError>> + Send + 'static,
    early_end: EarlyEnd,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let state = Some((Box::pin(app.streams_end()), Box::pin(frames), early_end));
    stream::unfold(state, |state| async move {
        let (mut end, mut frames, early_end) = state?;
        let next = tokio::select! {
            biased;
            () = &mut end => return Some((early_end.closing, None)),
            next = frames.next() => next?,
        };
        match next {
            Ok(frame) => Some((frame, Some((end, frames, early_end)))),
            Err(_) => Some((early_end.journal_lost, None)),
        }
    })
}

/// `frames`, and a comment after every `silence` without one.
pub fn with_heartbeat(
    frames: impl Stream<Item = Bytes> + Send + 'static,
    silence: Duration,
) -> impl Stream<Item = Bytes> + Send {
    with_pings(frames, silence, || Bytes::from_static(PING))
}

fn with_pings<T: Send>(
    frames: impl Stream<Item = T> + Send + 'static,
    silence: Duration,
    ping: impl Fn() -> T + Send + 'static,
) -> impl Stream<Item = T> + Send {
    let state = (Box::pin(frames), ping);
    stream::unfold(state, move |(mut frames, ping)| async move {
        let next = tokio::select! {
            biased;
            frame = frames.next() => frame?,
            () = sleep_until(Instant::now() + silence) => ping(),
        };
        Some((next, (frames, ping)))
    })
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
