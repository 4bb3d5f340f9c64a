//! What waits to be written to a socket, and whoever writes it.
//!
//! The responses of a connection are made side by side and written one frame after the other. A
//! client that reads slowly makes them wait: the outbox takes so many frames and so many bytes,
//! and whoever has one too many to send waits until there is room.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures::{SinkExt, stream::SplitSink};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{app::App, server::WRITE_TIMEOUT};

/// How many frames may wait for the client.
const MAX_FRAMES: usize = 256;
/// How many bytes they may have together. A frame that has more waits alone.
const MAX_BYTES: usize = 1024 * 1024;
/// How often the client is asked whether it is there.
const PING: Duration = Duration::from_secs(20);

/// What goes to the client, in this order.
pub(super) enum Outgoing {
    Text(String),
    /// Nothing follows.
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

/// Where frames are put that go to the client.
pub(super) struct Outbox {
    frames: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    /// Falls when the client is gone.
    gone: CancellationToken,
}

/// Whoever writes what is in an [`Outbox`].
pub(super) struct Writer {
    pub(super) app: App,
    /// How long the client may leave a frame unread.
    pub(super) write_time: Duration,
    frames: mpsc::Receiver<Waiting>,
    gone: CancellationToken,
}

struct Waiting {
    frame: Outgoing,
    room: OwnedSemaphorePermit,
}

/// An outbox, and whoever writes what is put into it, until `gone` falls.
pub(super) fn outbox(app: App, write_time: Duration, gone: CancellationToken) -> (Outbox, Writer) {
    let (sender, frames) = mpsc::channel(MAX_FRAMES);
    let room = Arc::new(Semaphore::new(MAX_BYTES));
    let outbox = Outbox { frames: sender, room, gone: gone.clone() };
    (outbox, Writer { app, write_time, frames, gone })
}

impl Outbox {
    /// Waits for room, and says whether anybody is there to get the frame.
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
    /// Writes what there is to write, until the last of it is written or the client is gone.
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
