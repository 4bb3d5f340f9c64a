//! Inspects all messages of a connection before the protocol library handles them.
//!
//! The protocol library handles notifications concurrently. Two kinds need their original order:
//! progress, which must reach its call before the result, and changes of the tool list. Both are
//! handled here, where messages are still sequential. A call is registered before it is sent, so
//! that no progress arrives too early. Progress after its end is dropped.
#![expect(deprecated, reason = "the newest generation has no logging, the others have")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{
        ClientNotification, ClientRequest, GetExtensions, GetMeta, JsonRpcMessage,
        ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    sync::{
        Notify,
        oneshot::{self, error::TryRecvError},
    },
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use turnwire_contract::{Question, Reply, RunId};

use crate::sync::lock;

/// Maximum length of a progress message in bytes.
const MAX_NOTE_BYTES: usize = 1024;

/// Maximum time that a cancellation waits for its request to be sent.
const OVERTAKING: Duration = Duration::from_millis(100);

/// Maximum length of a log message in characters.
const MAX_LOG_CHARS: usize = 1_000;

/// Maximum number of queued questions per call.
const MAX_QUESTIONS: usize = 8;

/// State of a connection, derived from its messages.
#[derive(Debug)]
pub(super) struct Wire {
    label: String,
    /// Pending calls by progress token. The caller owns the mailbox; when it is dropped, the entry
    /// is dead.
    calls: Mutex<HashMap<String, Weak<Mailbox>>>,
    /// Number of notifications that the tool list has changed.
    changes: AtomicU64,
    changed: Notify,
    /// Notified when the state of a task changes.
    task_news: Notify,
    /// Cancelled when no more messages can arrive.
    ended: CancellationToken,
}

impl Wire {
    pub(super) fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.to_owned(),
            calls: Mutex::default(),
            changes: AtomicU64::new(0),
            changed: Notify::new(),
            task_news: Notify::new(),
            ended: CancellationToken::new(),
        })
    }

    /// Whether no more messages can arrive.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns the number of notifications that the tool list has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Waits for a notification that the tool list has changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits for a notification about any task.
    pub(super) async fn task_news(&self) {
        self.task_news.notified().await;
    }

    /// Passes a question to the call that the server is executing.
    ///
    /// The elicitation request does not say which call it belongs to. If calls of several runs are
    /// pending, the question is declined, because a user must not see a question of another run.
    pub(super) async fn ask(&self, question: Question) -> Reply {
        let Some(mailbox) = self.asked_about() else {
            debug!(server = %self.label, "MCP elicitation without a call declined");
            return Reply::Declined;
        };
        let (tell, told) = oneshot::channel();
        if !mailbox.put_question(question, tell) {
            return Reply::Declined;
        }
        drop(mailbox);
        told.await.unwrap_or(Reply::Cancelled)
    }

    fn asked_about(&self) -> Option<Arc<Mailbox>> {
        let calls = lock(&self.calls);
        let mut open = calls.values().filter_map(Weak::upgrade);
        let first = open.next()?;
        open.all(|other| other.run_id == first.run_id).then_some(first)
    }

    /// Registers a request that is about to be sent.
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

    /// Handles a notification. Returns whether the protocol library should see it too.
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
            ServerNotification::TaskStatusNotification(_) => {
                self.task_news.notify_waiters();
                Passed::No
            }
            // The same notification in the old protocol.
            ServerNotification::CustomNotification(other)
                if other.method == "notifications/tasks/status" =>
            {
                self.task_news.notify_waiters();
                Passed::No
            }
            _ => Passed::On,
        }
    }

    fn logged(&self, message: &rmcp::model::LoggingMessageNotificationParam) {
        let text: String = message.data.to_string().chars().take(MAX_LOG_CHARS).collect();
        debug!(server = %self.label, level = ?message.level, %text, "MCP server log");
    }

    fn progressed(&self, params: &ProgressNotificationParam) {
        let mailbox = lock(&self.calls).get(&key(&params.progress_token)).and_then(Weak::upgrade);
        let Some(mailbox) = mailbox else {
            debug!(server = %self.label, "MCP progress for a finished call ignored");
            return;
        };
        mailbox.put(Progress {
            done: params.progress,
            total: params.total,
            message: params.message.as_deref().map(shortened),
        });
    }
}

/// Truncates a message that is too long.
pub(super) fn shortened(message: &str) -> String {
    if message.len() <= MAX_NOTE_BYTES {
        return message.to_owned();
    }
    let room = MAX_NOTE_BYTES - '…'.len_utf8();
    let (beginning, _) = message.split_at(message.floor_char_boundary(room));
    format!("{beginning}…")
}

/// Formats a token. Some servers return a number as a string.
fn key(token: &ProgressToken) -> String {
    token.0.to_string()
}

/// Whether a notification is passed to the protocol library.
#[derive(Debug, PartialEq, Eq)]
enum Passed {
    On,
    No,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Progress {
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// Unread notes of one call. Only the latest note is kept, because it replaces earlier ones.
#[derive(Debug)]
pub(super) struct Mailbox {
    run_id: RunId,
    latest: Mutex<Option<Progress>>,
    arrived: Notify,
    handed_over: AtomicBool,
    questions: Mutex<VecDeque<Asked>>,
    was_asked: Notify,
}

/// A question and the sender for its reply.
pub(super) type Asked = (Question, oneshot::Sender<Reply>);

impl Mailbox {
    pub(super) fn new(run_id: RunId) -> Arc<Self> {
        Arc::new(Self {
            run_id,
            latest: Mutex::default(),
            arrived: Notify::new(),
            handed_over: AtomicBool::new(false),
            questions: Mutex::default(),
            was_asked: Notify::new(),
        })
    }

    /// Waits for the next question of the server.
    pub(super) async fn next_question(&self) -> Asked {
        loop {
            if let Some(asked) = lock(&self.questions).pop_front() {
                return asked;
            }
            self.was_asked.notified().await;
        }
    }

    /// Returns whether there was room in the queue.
    fn put_question(&self, question: Question, tell: oneshot::Sender<Reply>) -> bool {
        let mut questions = lock(&self.questions);
        let has_room = questions.len() < MAX_QUESTIONS;
        if has_room {
            questions.push_back((question, tell));
            self.was_asked.notify_one();
        }
        has_room
    }

    /// Returns the address that is attached to a request, to route its progress.
    pub(super) fn address(self: &Arc<Self>) -> Addressed {
        Addressed(Arc::downgrade(self))
    }

    /// Whether the request was given to the transport. From then on the server may have received
    /// it.
    pub(super) fn was_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Acquire)
    }

    /// Waits for the latest note.
    pub(super) async fn next(&self) -> Progress {
        loop {
            if let Some(note) = self.take() {
                return note;
            }
            self.arrived.notified().await;
        }
    }

    /// Takes the latest note, if any.
    pub(super) fn take(&self) -> Option<Progress> {
        lock(&self.latest).take()
    }

    fn put(&self, note: Progress) {
        *lock(&self.latest) = Some(note);
        self.arrived.notify_one();
    }
}

/// Attached to a request inside this process, never sent.
#[derive(Debug, Clone)]
pub(super) struct Addressed(Weak<Mailbox>);

/// A transport whose messages are inspected.
#[derive(Debug)]
pub(super) struct Watched<T> {
    inner: T,
    wire: Arc<Wire>,
    /// Requests that are being sent. The channel closes when the request is sent.
    leaving: HashMap<RequestId, oneshot::Receiver<()>>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire, leaving: HashMap::new() }
    }

    /// Returns what a message has to wait for, and the signal that it is sent. The protocol library
    /// sends every message in a separate task. A cancellation that overtakes its request would have
    /// no effect, and the server would continue the call.
    fn order(
        &mut self,
        item: &TxJsonRpcMessage<RoleClient>,
    ) -> (Option<oneshot::Receiver<()>>, Option<oneshot::Sender<()>>) {
        match item {
            JsonRpcMessage::Request(request) => {
                self.leaving.retain(|_, leaving| leaving.try_recv() == Err(TryRecvError::Empty));
                let (out, leaving) = oneshot::channel();
                self.leaving.insert(request.id.clone(), leaving);
                (None, Some(out))
            }
            JsonRpcMessage::Notification(sent) => match &sent.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let about = cancelled.params.request_id.as_ref();
                    (about.and_then(|id| self.leaving.remove(id)), None)
                }
                _ => (None, None),
            },
            _ => (None, None),
        }
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
        let (before, out) = self.order(&item);
        let sending = self.inner.send(item);
        async move {
            if let Some(before) = before {
                // Over HTTP, sending may complete only with the response.
                let _ = timeout(OVERTAKING, before).await;
            }
            let sent = sending.await;
            drop(out);
            sent
        }
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
