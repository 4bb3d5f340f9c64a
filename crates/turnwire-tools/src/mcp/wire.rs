//! What comes and goes on one connection, looked at before anybody else sees it.
//!
//! Two things have to be known in the order in which the server said them, and the protocol
//! library hands out notifications side by side: progress, which must reach its call before the
//! result does, and the word that the tools have changed. So both are picked up here, where
//! messages still come one after the other. A call is known here before it is sent: no progress
//! can be too early for it, and what comes after its end finds nobody.
#![expect(deprecated, reason = "the newest generation has no logging, the others have")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, ProgressNotificationParam,
        ProgressToken, ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::sync::lock;

/// How much of the message of a note is passed on.
const MAX_NOTE_BYTES: usize = 1024;

/// How much of a log message is passed on.
const MAX_LOG_CHARS: usize = 1_000;

/// What is known about a connection from what has passed over it.
#[derive(Debug)]
pub(super) struct Wire {
    label: String,
    /// The calls that are out, by their progress token. Whoever waits for a call owns its
    /// mailbox; when nobody waits any more, the entry is dead.
    calls: Mutex<HashMap<String, Weak<Mailbox>>>,
    /// How often the server has said that its tools have changed.
    changes: AtomicU64,
    changed: Notify,
    /// Set when nothing will come any more.
    ended: CancellationToken,
}

impl Wire {
    pub(super) fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.to_owned(),
            calls: Mutex::default(),
            changes: AtomicU64::new(0),
            changed: Notify::new(),
            ended: CancellationToken::new(),
        })
    }

    /// Whether nothing will come any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// How often the server has said that its tools have changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Waits until the server says that its tools have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A request is about to go out.
    fn sending(&self, request: &ClientRequest) {
        let Some(Addressed(mailbox)) = request.extensions().get::<Addressed>() else { return };
        let Some(token) = request.get_meta().get_progress_token() else { return };
        if let Some(mailbox) = mailbox.upgrade() {
            mailbox.handed_over.store(true, Ordering::Release);
        }
        let mut calls = lock(&self.calls);
        calls.retain(|_, mailbox| mailbox.strong_count() > 0);
        calls.insert(key(&token), mailbox.clone());
    }

    /// A notification has come in. Gives it back if others should see it too.
    fn heard(&self, notification: &ServerNotification) -> Passed {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.progressed(&progress.params);
                Passed::No
            }
            ServerNotification::LoggingMessageNotification(message) => {
                self.logged(&message.params);
                Passed::No
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.changes.fetch_add(1, Ordering::AcqRel);
                self.changed.notify_one();
                Passed::On
            }
            _ => Passed::On,
        }
    }

    fn logged(&self, message: &rmcp::model::LoggingMessageNotificationParam) {
        let text: String = message.data.to_string().chars().take(MAX_LOG_CHARS).collect();
        debug!(server = %self.label, level = ?message.level, %text, "The server logs.");
    }

    fn progressed(&self, params: &ProgressNotificationParam) {
        let mailbox = lock(&self.calls).get(&key(&params.progress_token)).and_then(Weak::upgrade);
        let Some(mailbox) = mailbox else {
            debug!(server = %self.label, "Progress of a call that is over.");
            return;
        };
        mailbox.put(Progress {
            done: params.progress,
            total: params.total,
            message: params.message.as_deref().map(shortened),
        });
    }
}

/// The beginning of a message, if it is too long.
fn shortened(message: &str) -> String {
    if message.len() <= MAX_NOTE_BYTES {
        return message.to_owned();
    }
    let room = MAX_NOTE_BYTES - '…'.len_utf8();
    let (beginning, _) = message.split_at(message.floor_char_boundary(room));
    format!("{beginning}…")
}

/// Some servers give a number back as text.
fn key(token: &ProgressToken) -> String {
    token.0.to_string()
}

/// Whether a notification goes on to the protocol library.
#[derive(Debug, PartialEq, Eq)]
enum Passed {
    On,
    No,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Progress {
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// What has come for one call and was not read yet: the latest note, which says all that those
/// before it said.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    latest: Mutex<Option<Progress>>,
    arrived: Notify,
    handed_over: AtomicBool,
}

impl Mailbox {
    /// What a request carries so that its progress finds the way back here.
    pub(super) fn address(self: &Arc<Self>) -> Addressed {
        Addressed(Arc::downgrade(self))
    }

    /// Whether the request was given to the transport: from then on the server may have it.
    pub(super) fn was_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Acquire)
    }

    /// The latest note, as soon as there is one.
    pub(super) async fn next(&self) -> Progress {
        loop {
            if let Some(note) = self.take() {
                return note;
            }
            self.arrived.notified().await;
        }
    }

    /// The latest note, if one is here already.
    pub(super) fn take(&self) -> Option<Progress> {
        lock(&self.latest).take()
    }

    fn put(&self, note: Progress) {
        *lock(&self.latest) = Some(note);
        self.arrived.notify_one();
    }
}

/// Travels with a request inside this process, never on the wire.
#[derive(Debug, Clone)]
pub(super) struct Addressed(Weak<Mailbox>);

/// A transport that is listened to.
#[derive(Debug)]
pub(super) struct Watched<T> {
    inner: T,
    wire: Arc<Wire>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            self.wire.sending(&request.request);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.wire.ended.cancel();
                return None;
            };
            if let JsonRpcMessage::Notification(heard) = &message
                && self.wire.heard(&heard.notification) == Passed::No
            {
                continue;
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.wire.ended.cancel();
        self.inner.close()
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.wire.ended.cancel();
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
