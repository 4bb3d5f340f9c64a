//! Common parts of all WebSockets: the rate limit, and the closing handshake.
//!
//! A client sees a clean close only if the closing frames of both sides have passed. So a client
//! that closes gets a reply, and one that is closed gets the reason and a moment to reply before
//! the connection ends.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, close_code};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use crate::{limits::MAX_MESSAGE, metrics::Metrics};

/// Time for the client to reply to a closing frame, or to read one.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Limit on the frames a client may send. Every frame counts, including those that need no reply.
#[derive(Debug)]
pub(crate) struct RateLimit {
    max_per_second: u32,
    since: Instant,
    n_frames: u32,
}

impl RateLimit {
    pub(crate) fn new(max_per_second: u32) -> Self {
        Self { max_per_second, since: Instant::now(), n_frames: 0 }
    }

    /// Counts a frame. Returns whether the limit is exceeded.
    pub(crate) fn is_exceeded(&mut self) -> bool {
        if self.since.elapsed() > Duration::from_secs(1) {
            *self = Self::new(self.max_per_second);
        }
        self.n_frames += 1;
        self.n_frames > self.max_per_second
    }
}

/// Closing frame for a client that exceeds the rate limit.
pub(crate) fn too_fast() -> CloseFrame {
    closing(close_code::POLICY, "too many messages in one second")
}

/// Closing frame for a message that cannot be read. `None` if the client has disconnected.
pub(crate) fn unreadable(error: axum::Error, metrics: &Metrics) -> Option<CloseFrame> {
    match *error.into_inner().downcast::<tungstenite::Error>().ok()? {
        tungstenite::Error::Capacity(_) => {
            metrics.limit_reached(MAX_MESSAGE);
            Some(closing(close_code::SIZE, "the message is too large"))
        }
        tungstenite::Error::Utf8(_) => {
            Some(closing(close_code::INVALID, "a text message is not UTF-8"))
        }
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) => {
            Some(closing(close_code::PROTOCOL, "not a valid WebSocket frame"))
        }
        _ => None,
    }
}

/// Waits until the closing frames have passed. Reading also sends the reply to the client's.
pub(crate) async fn finish(
    frames: &mut (impl Stream<Item = Result<Message, axum::Error>> + Unpin),
) {
    let rest = async { while let Some(Ok(_)) = frames.next().await {} };
    let _ = timeout(CLOSING_TIME, rest).await;
}

/// Like [`finish`], if nothing more can be read. Closing a connection with unread data discards
/// what was written, so the client gets a moment to read it.
pub(crate) async fn finish_unread() {
    sleep(CLOSING_TIME).await;
}

fn closing(code: u16, why: &'static str) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::from_static(why) }
}
