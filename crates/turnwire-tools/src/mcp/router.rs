//! Inspects all messages of a connection before the protocol library handles them.
//!
//! The protocol library handles notifications concurrently. Two kinds need their original order:
//! progress, which must reach its call before the result, and changes of the tool list. Both are
//! handled here, where messages are still sequential. A call is registered before it is sent, so
//! that no progress arrives too early. Progress after its end is dropped.
#![expect(deprecated, reason = "the new protocol has no logging, the old one has")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
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
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Level, debug, warn};
use turnwire_contract::{Question, Reply, ToolContext, json_start};

use super::redactor::Redactor;
use crate::sync::lock;

/// Maximum length of a progress message in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Maximum time that a cancellation waits for its request to be sent.
const MAX_SEND_WAIT: Duration = Duration::from_millis(100);

/// Maximum length of a log message in bytes, and the number of entries in a second.
const MAX_LOG_BYTES: usize = 1_000;
const MAX_LOGS_PER_SECOND: u32 = 20;

/// Maximum number of questions per call.
const MAX_QUESTIONS: u32 = 8;

/// Routes the notifications and questions of a connection to its pending calls.
#[derive(Debug)]
pub(super) struct MessageRouter {
    label: String,
    /// Pending calls by progress token. The caller owns the pending call; when it is dropped, the
    /// entry is dead.
    calls: Mutex<HashMap<String, Weak<PendingCall>>>,
    /// Number of notifications that the tool list has changed.
    changes: AtomicU64,
    changed: Notify,
    /// Notified when the state of a task changes.
    task_changed: Notify,
    /// Start of the current second, and the number of log entries in it.
    logged: Mutex<(Instant, u32)>,
    /// Cancelled when no more messages can arrive.
    ended: CancellationToken,
}

impl MessageRouter {
    pub(super) fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.to_owned(),
            calls: Mutex::default(),
            changes: AtomicU64::new(0),
            changed: Notify::new(),
            task_changed: Notify::new(),
            logged: Mutex::new((Instant::now(), 0)),
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
    pub(super) async fn task_changed(&self) {
        self.task_changed.notified().await;
    }

    /// Passes a question to the call that the server is executing.
    ///
    /// The elicitation request does not say which call it belongs to. If calls of several runs are
    /// pending, the question is declined, because a user must not see a question of another run.
    pub(super) async fn ask(&self, question: Question) -> Reply {
        let Some(pending) = self.call_to_ask() else {
            debug!(server = %self.label, "MCP elicitation without a call declined");
            return Reply::Declined;
        };
        let (sender, reply) = oneshot::channel();
        let context = pending.context.clone();
        if !pending.asked.add(&self.label) {
            return Reply::Declined;
        }
        pending.push_question(question, sender);
        drop(pending);
        let Ok(reply) = reply.await else {
            if context.is_left() {
                // No person has answered: another worker may ask.
                self.ended.cancelled().await;
            }
            return Reply::Cancelled;
        };
        reply
    }

    fn call_to_ask(&self) -> Option<Arc<PendingCall>> {
        let calls = lock(&self.calls);
        let mut open = calls.values().filter_map(Weak::upgrade);
        let first = open.next()?;
        open.all(|other| other.context.run_id == first.context.run_id).then_some(first)
    }

    /// Registers a request that is about to be sent.
    fn register(&self, request: &ClientRequest) {
        let Some(PendingCallRef(pending)) = request.extensions().get::<PendingCallRef>() else {
            return;
        };
        let Some(token) = request.get_meta().get_progress_token() else { return };
        if let Some(pending) = pending.upgrade() {
            pending.was_sent.store(true, Ordering::Release);
        }
        let mut calls = lock(&self.calls);
        calls.retain(|_, pending| pending.strong_count() > 0);
        calls.insert(key(&token), pending.clone());
    }

    /// Handles a notification. Returns whether the protocol library should see it too.
    pub(super) fn handle(&self, notification: &ServerNotification) -> Handling {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.route_progress(&progress.params);
                Handling::Consume
            }
            ServerNotification::LoggingMessageNotification(message) => {
                self.log(&message.params);
                Handling::Consume
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.changes.fetch_add(1, Ordering::AcqRel);
                self.changed.notify_one();
                Handling::Forward
            }
            ServerNotification::TaskStatusNotification(_) => {
                self.task_changed.notify_waiters();
                Handling::Consume
            }
            // The same notification in the old protocol.
            ServerNotification::CustomNotification(other)
                if other.method == "notifications/tasks/status" =>
            {
                self.task_changed.notify_waiters();
                Handling::Consume
            }
            _ => Handling::Forward,
        }
    }

    fn log(&self, message: &rmcp::model::LoggingMessageNotificationParam) {
        if tracing::enabled!(Level::DEBUG) && self.may_log() {
            let text = json_start(&message.data, MAX_LOG_BYTES);
            debug!(server = %self.label, level = ?message.level, %text, "MCP server log");
        }
    }

    /// Counts a log entry that the server caused. Returns whether there is room for it.
    fn may_log(&self) -> bool {
        let mut logged = lock(&self.logged);
        let (since, n_entries) = &mut *logged;
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *n_entries) = (Instant::now(), 0);
        }
        *n_entries = n_entries.saturating_add(1);
        if *n_entries == MAX_LOGS_PER_SECOND + 1 {
            debug!(server = %self.label, "more than 20 log entries in a second, leaving out some");
        }
        *n_entries <= MAX_LOGS_PER_SECOND
    }

    fn route_progress(&self, params: &ProgressNotificationParam) {
        let pending = lock(&self.calls).get(&key(&params.progress_token)).and_then(Weak::upgrade);
        let Some(pending) = pending else {
            if self.may_log() {
                debug!(server = %self.label, "MCP progress for a finished call ignored");
            }
            return;
        };
        pending.set_progress(Progress {
            done: params.progress,
            total: params.total,
            message: params.message.as_deref().map(truncated),
        });
    }
}

/// Truncates a message that is too long.
pub(super) fn truncated(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let capacity = MAX_MESSAGE_BYTES - '…'.len_utf8();
    let (start, _) = message.split_at(message.floor_char_boundary(capacity));
    format!("{start}…")
}

/// Formats a token. Some servers return a number as a string.
fn key(token: &ProgressToken) -> String {
    token.0.to_string()
}

/// Whether a notification is passed to the protocol library.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handling {
    Forward,
    Consume,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Progress {
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// A call without a response so far: its unread progress and questions. Only the latest progress is
/// kept, because it replaces earlier ones.
#[derive(Debug)]
pub(super) struct PendingCall {
    context: ToolContext,
    asked: Arc<QuestionCount>,
    latest: Mutex<Option<Progress>>,
    progress_arrived: Notify,
    was_sent: AtomicBool,
    questions: Mutex<VecDeque<PendingQuestion>>,
    question_arrived: Notify,
}

/// Number of questions of a call. Each is recorded, and interrupts a person.
#[derive(Debug, Default)]
pub(super) struct QuestionCount(AtomicU32);

impl QuestionCount {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Counts a question. Returns whether it may be asked.
    pub(super) fn add(&self, label: &str) -> bool {
        let n_before = self.0.fetch_add(1, Ordering::Relaxed);
        if n_before == MAX_QUESTIONS {
            warn!(server = %label, "MCP call with more than 8 questions, declining the others");
        }
        n_before < MAX_QUESTIONS
    }
}

/// A question and the sender for its reply.
pub(super) type PendingQuestion = (Question, oneshot::Sender<Reply>);

impl PendingCall {
    /// `asked` counts the questions of the call in all its requests.
    pub(super) fn new(context: &ToolContext, asked: &Arc<QuestionCount>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            asked: Arc::clone(asked),
            latest: Mutex::default(),
            progress_arrived: Notify::new(),
            was_sent: AtomicBool::new(false),
            questions: Mutex::default(),
            question_arrived: Notify::new(),
        })
    }

    /// Waits for the next question of the server.
    pub(super) async fn next_question(&self) -> PendingQuestion {
        loop {
            if let Some(question) = lock(&self.questions).pop_front() {
                return question;
            }
            self.question_arrived.notified().await;
        }
    }

    fn push_question(&self, question: Question, reply: oneshot::Sender<Reply>) {
        lock(&self.questions).push_back((question, reply));
        self.question_arrived.notify_one();
    }

    /// Returns the reference that is attached to a request, to route its progress.
    pub(super) fn as_extension(self: &Arc<Self>) -> PendingCallRef {
        PendingCallRef(Arc::downgrade(self))
    }

    /// Whether the request was given to the transport. From then on the server may have received
    /// it.
    pub(super) fn was_sent(&self) -> bool {
        self.was_sent.load(Ordering::Acquire)
    }

    /// Waits for unread progress.
    pub(super) async fn next_progress(&self) -> Progress {
        loop {
            if let Some(progress) = self.take_progress() {
                return progress;
            }
            self.progress_arrived.notified().await;
        }
    }

    /// Takes the latest progress, if it is unread.
    pub(super) fn take_progress(&self) -> Option<Progress> {
        lock(&self.latest).take()
    }

    fn set_progress(&self, progress: Progress) {
        *lock(&self.latest) = Some(progress);
        self.progress_arrived.notify_one();
    }
}

/// Reference to a pending call. Attached to a request inside this process, never sent.
#[derive(Debug, Clone)]
pub(super) struct PendingCallRef(Weak<PendingCall>);

/// A transport whose messages pass through a router.
#[derive(Debug)]
pub(super) struct RoutedTransport<T> {
    inner: T,
    router: Arc<MessageRouter>,
    redactor: Arc<Redactor>,
    /// Requests that are being sent. The channel closes when the request is sent.
    in_flight: HashMap<RequestId, oneshot::Receiver<()>>,
}

impl<T> RoutedTransport<T> {
    pub(super) fn new(inner: T, router: Arc<MessageRouter>, redactor: Arc<Redactor>) -> Self {
        Self { inner, router, redactor, in_flight: HashMap::new() }
    }

    /// Returns what a message has to wait for, and the signal that it is sent. The protocol library
    /// sends every message in a separate task. A cancellation that overtakes its request would have
    /// no effect, and the server would continue the call.
    fn send_order(
        &mut self,
        item: &TxJsonRpcMessage<RoleClient>,
    ) -> (Option<oneshot::Receiver<()>>, Option<oneshot::Sender<()>>) {
        match item {
            JsonRpcMessage::Request(request) => {
                self.in_flight.retain(|_, sent| sent.try_recv() == Err(TryRecvError::Empty));
                let (out, sent) = oneshot::channel();
                self.in_flight.insert(request.id.clone(), sent);
                (None, Some(out))
            }
            JsonRpcMessage::Notification(sent) => match &sent.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let about = cancelled.params.request_id.as_ref();
                    (about.and_then(|id| self.in_flight.remove(id)), None)
                }
                _ => (None, None),
            },
            _ => (None, None),
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for RoutedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            self.router.register(&request.request);
        }
        let (before, out) = self.send_order(&item);
        let sending = self.inner.send(item);
        async move {
            if let Some(before) = before {
                // Over HTTP, sending may complete only with the response.
                let _ = timeout(MAX_SEND_WAIT, before).await;
            }
            let sent = sending.await;
            drop(out);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.router.ended.cancel();
                return None;
            };
            // A message that cannot be read without its secrets is dropped; its call times out.
            let Some(message) = self.redactor.message(message) else {
                warn!(server = %self.router.label, "MCP message with secrets dropped");
                continue;
            };
            if let JsonRpcMessage::Notification(message) = &message
                && self.router.handle(&message.notification) == Handling::Consume
            {
                continue;
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.router.ended.cancel();
        self.inner.close()
    }
}

impl<T> Drop for RoutedTransport<T> {
    fn drop(&mut self) {
        self.router.ended.cancel();
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
