//! Queue of messages for a socket, and the task that writes them.
//!
//! The responses of a connection are produced concurrently and written one frame after the other. A
//! slow client slows them down: the outbox holds a limited number of frames and bytes, and senders
//! wait for free capacity.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures::{SinkExt, stream::SplitSink};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{App, limits::WRITE_TIMEOUT};

/// Maximum number of queued frames.
const MAX_FRAMES: usize = 256;
/// Maximum total size of queued frames, in bytes. A larger frame is queued alone.
const MAX_BYTES: usize = 1024 * 1024;
/// Interval of pings to the client.
const PING: Duration = Duration::from_secs(20);

/// A message to the client.
pub(super) enum Outgoing {
    Text(String),
    /// Closes the connection; nothing follows.
    Close(CloseFrame),
}

impl Outgoing {
    fn n_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Close(frame) => frame.reason.len(),
        }
    }
}

/// The sending side of the queue.
pub(super) struct Outbox {
    frames: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    /// Cancelled when the client has disconnected.
    gone: CancellationToken,
}

/// Writes the messages of an [`Outbox`].
pub(super) struct Writer {
    pub(super) app: App,
    /// Time for the client to read a frame.
    pub(super) write_time: Duration,
    frames: mpsc::Receiver<Waiting>,
    gone: CancellationToken,
}

struct Waiting {
    frame: Outgoing,
    room: OwnedSemaphorePermit,
}

/// Creates an outbox and its writer. Both stop when `gone` is cancelled.
pub(super) fn outbox(app: App, write_time: Duration, gone: CancellationToken) -> (Outbox, Writer) {
    let (sender, frames) = mpsc::channel(MAX_FRAMES);
    let room = Arc::new(Semaphore::new(MAX_BYTES));
    let outbox = Outbox { frames: sender, room, gone: gone.clone() };
    (outbox, Writer { app, write_time, frames, gone })
}

impl Outbox {
    /// Queues a frame, waiting for free capacity. Returns false if the client has disconnected.
    pub(super) async fn put(&self, frame: Outgoing) -> bool {
        let n_bytes = u32::try_from(frame.n_bytes().min(MAX_BYTES)).unwrap_or(u32::MAX);
        let put = async {
            let room = Arc::clone(&self.room).acquire_many_owned(n_bytes).await.ok()?;
            self.frames.send(Waiting { frame, room }).await.ok()
        };
        tokio::select! {
            biased;
            () = self.gone.cancelled() => false,
            put = put => put.is_some(),
        }
    }
}

impl Writer {
    /// Writes all messages until the outbox is dropped or the client disconnects.
    pub(super) async fn write_all(mut self, mut sink: SplitSink<WebSocket, Message>) {
        let mut ping_at = Instant::now() + PING;
        loop {
            let (message, room) = tokio::select! {
                biased;
                () = self.gone.cancelled() => break,
                next = self.frames.recv() => match next {
                    Some(Waiting { frame, room }) => (message_of(frame), Some(room)),
                    None => break,
                },
                () = sleep_until(ping_at) => {
                    ping_at = Instant::now() + PING;
                    (Message::Ping(bytes::Bytes::new()), None)
                }
            };
            let is_last = matches!(message, Message::Close(_));
            let sent = tokio::select! {
                biased;
                () = self.gone.cancelled() => break,
                sent = timeout(self.write_time, sink.send(message)) => sent,
            };
            drop(room);
            if sent.is_err() {
                self.app.metrics().limit_reached(WRITE_TIMEOUT);
            }
            if is_last || !matches!(sent, Ok(Ok(()))) {
                break;
            }
        }
        self.gone.cancel();
    }
}

fn message_of(frame: Outgoing) -> Message {
    match frame {
        Outgoing::Text(text) => Message::Text(Utf8Bytes::from(text)),
        Outgoing::Close(frame) => Message::Close(Some(frame)),
    }
}
