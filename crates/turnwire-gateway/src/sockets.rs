//! What all sockets have in common: how fast a client may send, and how a socket ends.
//!
//! A client sees a socket end well only if the closing frames of both sides have passed. So a
//! client that closes gets its answer, and one that is closed is told why and gets a moment to
//! answer before the connection goes.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, close_code};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use crate::metrics::Metrics;

/// The setting of how many frames a client may send in a second.
pub(crate) const MAX_PER_SECOND: &str = "limits.max_socket_messages_per_sec";
/// The setting of how big a message may be.
pub(crate) const MAX_MESSAGE: &str = "limits.max_socket_message_bytes";
/// The setting of how many turns may wait on a socket.
pub(crate) const MAX_QUEUE: &str = "limits.max_socket_queue";
/// How long a client gets to answer a closing frame, or to read one.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// How fast a client sends. Every frame counts, also those that need no answer.
#[derive(Debug)]
pub(crate) struct Pace {
    max_per_second: u32,
    since: Instant,
    n_frames: u32,
}

impl Pace {
    pub(crate) fn new(max_per_second: u32) -> Self {
        Self { max_per_second, since: Instant::now(), n_frames: 0 }
    }

    /// Counts a frame, and says whether it was one too many.
    pub(crate) fn is_exceeded(&mut self) -> bool {
        if self.since.elapsed() > Duration::from_secs(1) {
            *self = Self::new(self.max_per_second);
        }
        self.n_frames += 1;
        self.n_frames > self.max_per_second
    }
}

/// What a client is told that sends too fast.
pub(crate) fn too_fast() -> CloseFrame {
    closing(close_code::POLICY, "too many messages in one second")
}

/// What a client is told whose message cannot be read; nothing, if it is gone.
pub(crate) fn unreadable(error: axum::Error, metrics: &Metrics) -> Option<CloseFrame> {
    match *error.into_inner().downcast::<tungstenite::Error>().ok()? {
        tungstenite::Error::Capacity(_) => {
            metrics.limit_reached(MAX_MESSAGE);
            Some(closing(close_code::SIZE, "the message is too big"))
        }
        tungstenite::Error::Utf8(_) => Some(closing(close_code::INVALID, "a text is not UTF-8")),
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) => {
            Some(closing(close_code::PROTOCOL, "not a frame of a WebSocket"))
        }
        _ => None,
    }
}

/// Waits until the closing frames have passed. Reading is also what answers the client's.
pub(crate) async fn finish(
    frames: &mut (impl Stream<Item = Result<Message, axum::Error>> + Unpin),
) {
    let rest = async { while let Some(Ok(_)) = frames.next().await {} };
    let _ = timeout(CLOSING_TIME, rest).await;
}

/// The same where nothing can be read any more. A connection that is closed with something unread
/// takes back what was written, so the client gets a moment to read it.
pub(crate) async fn finish_unread() {
    sleep(CLOSING_TIME).await;
}

fn closing(code: u16, why: &'static str) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::from_static(why) }
}
