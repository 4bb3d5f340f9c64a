//! Writing server-sent events.
//!
//! Axum's own writer sends its heartbeat as a comment with a blank line, which makes the
//! official Python client read an empty event once the stream has an `id:`; and some clients
//! lose a frame whose last line comes in another read. So the bytes are made here: one chunk
//! per frame, and a heartbeat of one line, which every client skips.

use std::{convert::Infallible, fmt::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::time::{Instant, sleep_until};
use turnwire_contract::LogError;

use crate::app::App;

/// The longest silence on a stream, unless a server is told otherwise.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

const PING: &[u8] = b": ping\n";
/// The last line of a stream whose run goes on: clients that come back by themselves do so soon.
/// There is no blank line after it, of which some clients would make an event.
const COME_BACK: &[u8] = b"retry: 100\n";
/// The same, where the journal cannot be read right now.
const COME_BACK_AFTER_LOSS: &[u8] =
    b": the journal cannot be read right now; read on later\nretry: 1000\n";

/// One frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The name of the event, if the surface names its events; one of ours, never a client's.
    pub event: Option<&'static str>,
    /// The place to resume at, if the surface has such.
    pub id: Option<String>,
    /// One line.
    pub data: String,
}

impl SseFrame {
    /// A frame that is only data.
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
        // JSON has no line breaks outside of its strings, and none inside; this is for the rest.
        for line in self.data.split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        Bytes::from(text)
    }
}

/// An answer that streams `frames`, with a heartbeat whenever there is nothing to say. If it
/// ends before its run does, its client is told to come back.
pub(crate) fn event_stream(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, LogError>> + Send + 'static,
) -> Response {
    let open = app.metrics().stream("sse");
    let frames = until_streams_end(app, frames);
    let body = with_heartbeat(frames, app.options().heartbeat).map(move |bytes| {
        let _ = &open;
        Ok::<_, Infallible>(bytes)
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Tells nginx not to gather what is meant to be live.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(body)).into_response()
}

/// `frames`, up to the end of all streams of `app` or of the journal, and then what sends the
/// client elsewhere.
fn until_streams_end(
    app: &App,
    frames: impl Stream<Item = Result<Bytes, LogError>> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let state = Some((Box::pin(app.streams_end()), Box::pin(frames)));
    stream::unfold(state, |state| async move {
        let (mut end, mut frames) = state?;
        let next = tokio::select! {
            biased;
            () = &mut end => return Some((Bytes::from_static(COME_BACK), None)),
            next = frames.next() => next?,
        };
        match next {
            Ok(frame) => Some((frame, Some((end, frames)))),
            Err(_) => Some((Bytes::from_static(COME_BACK_AFTER_LOSS), None)),
        }
    })
}

/// `frames`, and a comment after every `silence` without one.
pub fn with_heartbeat(
    frames: impl Stream<Item = Bytes> + Send + 'static,
    silence: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let frames = Box::pin(frames);
    stream::unfold(frames, move |mut frames| async move {
        let next = tokio::select! {
            biased;
            frame = frames.next() => frame?,
            () = sleep_until(Instant::now() + silence) => Bytes::from_static(PING),
        };
        Some((next, frames))
    })
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
