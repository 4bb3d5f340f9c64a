//! Common parts of all WebSockets: the rate limit, pings, the write timeout, and the closing
//! handshake.
//!
//! [`ClientSocket`] is a socket that one task reads and writes. The socket of the Responses API
//! writes from many tasks, so it shares only the parts.
//!
//! A client sees a clean close only if the closing frames of both sides have passed. So a client
//! that closes gets a reply, and one that is closed gets the reason and a moment to reply before
//! the connection ends.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code},
    http::StatusCode,
};
use futures::{
    FutureExt, Stream, StreamExt,
    future::{BoxFuture, pending},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use crate::{
    ApiError, App, Caller,
    limits::{HttpLimits, MAX_MESSAGE, MAX_PER_SECOND, WRITE_TIMEOUT},
    metrics::{Direction, Metrics},
};

/// Interval of pings to the client.
const PING: Duration = Duration::from_secs(20);
/// Time for the client to reply to a closing frame, or to read one.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// The error for a request that is not an upgrade.
pub(crate) fn upgrade_required(message: &str) -> ApiError {
    ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
}

/// The client has disconnected.
pub(crate) struct Disconnected;

/// What happened on a socket, before it is handled.
pub(crate) enum SocketEvent {
    Received(Option<Result<Message, axum::Error>>),
    PingIsDue,
    /// The key of the client was revoked or has expired.
    KeyEnded,
}

/// What the client sent, for the endpoint to handle.
pub(crate) enum Incoming {
    Text(Utf8Bytes),
    Binary,
    /// Nothing to handle.
    Nothing,
    /// No more can come: the closing handshake has begun.
    End,
}

/// A socket that one task reads and writes.
pub(crate) struct ClientSocket {
    app: App,
    socket: WebSocket,
    limits: Arc<HttpLimits>,
    rate: RateLimit,
    ping_at: Instant,
    /// Completes when the key of the client is revoked or expires.
    key_ended: BoxFuture<'static, ()>,
}

impl ClientSocket {
    pub(crate) fn new(
        app: App,
        caller: &Caller,
        socket: WebSocket,
        limits: Arc<HttpLimits>,
    ) -> Self {
        let rate = RateLimit::new(limits.socket_messages_per_second);
        let key_ended = key_ended(caller).boxed();
        Self { app, socket, limits, rate, ping_at: Instant::now() + PING, key_ended }
    }

    pub(crate) fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Waits until something happens. Nothing is lost if the future is dropped before.
    pub(crate) async fn next_event(&mut self) -> SocketEvent {
        tokio::select! {
            biased;
            message = self.socket.recv() => SocketEvent::Received(message),
            () = sleep_until(self.ping_at) => SocketEvent::PingIsDue,
            () = &mut self.key_ended => SocketEvent::KeyEnded,
        }
    }

    /// Handles what every endpoint handles alike, and returns the rest.
    pub(crate) async fn accept(&mut self, event: SocketEvent) -> Result<Incoming, Disconnected> {
        let message = match event {
            SocketEvent::PingIsDue => {
                self.ping_at = Instant::now() + PING;
                self.send(Message::Ping(bytes::Bytes::new())).await?;
                return Ok(Incoming::Nothing);
            }
            SocketEvent::KeyEnded => {
                self.send(Message::Close(Some(invalid_key()))).await?;
                return Ok(Incoming::End);
            }
            SocketEvent::Received(None) => return Ok(Incoming::End),
            SocketEvent::Received(Some(Err(error))) => return self.refuse_unreadable(error).await,
            SocketEvent::Received(Some(Ok(message))) => message,
        };
        if self.rate.is_exceeded() {
            self.app.metrics().limit_reached(MAX_PER_SECOND);
            self.send(Message::Close(Some(too_fast()))).await?;
            return Ok(Incoming::End);
        }
        Ok(match message {
            Message::Text(text) => {
                self.app.metrics().ws_message(Direction::Received, text.len());
                Incoming::Text(text)
            }
            Message::Binary(_) => Incoming::Binary,
            Message::Ping(_) | Message::Pong(_) => Incoming::Nothing,
            Message::Close(_) => Incoming::End,
        })
    }

    pub(crate) async fn send_text(&mut self, text: String) -> Result<(), Disconnected> {
        self.app.metrics().ws_message(Direction::Sent, text.len());
        self.send(Message::Text(text.into())).await
    }

    pub(crate) async fn close(
        &mut self,
        code: u16,
        why: impl Into<Utf8Bytes>,
    ) -> Result<(), Disconnected> {
        self.send(Message::Close(Some(CloseFrame { code, reason: why.into() }))).await
    }

    /// Ends the closing handshake.
    pub(crate) async fn finish(&mut self) {
        finish(&mut self.socket).await;
    }

    async fn send(&mut self, message: Message) -> Result<(), Disconnected> {
        match timeout(self.limits.write_time, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Disconnected),
            Err(_) => {
                self.app.metrics().limit_reached(WRITE_TIMEOUT);
                Err(Disconnected)
            }
        }
    }

    /// Closes the socket after a frame that cannot be read, because nothing after it can be.
    async fn refuse_unreadable(&mut self, error: axum::Error) -> Result<Incoming, Disconnected> {
        let frame = unreadable(error, self.app.metrics()).ok_or(Disconnected)?;
        self.send(Message::Close(Some(frame))).await?;
        finish_unread().await;
        Err(Disconnected)
    }
}

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

/// Waits until the key of a client is revoked or expires.
pub(crate) fn key_ended(caller: &Caller) -> impl Future<Output = ()> + Send + 'static {
    let validity = caller.validity().cloned();
    async move {
        match validity {
            Some(validity) => validity.ended().await,
            None => pending().await,
        }
    }
}

/// Closing frame for a client whose key is no longer valid.
pub(crate) fn invalid_key() -> CloseFrame {
    closing(close_code::POLICY, "the API key was revoked or has expired")
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
