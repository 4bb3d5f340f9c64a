//! What comes and goes on one connection, looked at before anybody else sees it.
//!
//! Two things have to be known in the order in which the server said them, and the protocol
//! library hands out notifications side by side: progress, which must reach its call before the
//! result does, and the word that the tools have changed. So both are picked up here, where
//! messages still come one after the other. A call is known here before it is sent: no progress
//! can be too early for it, and what comes after its end finds nobody.
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

/// How much of the message of a note is passed on.
const MAX_NOTE_BYTES: usize = 1024;

/// How long a cancellation waits for its request to be out.
const OVERTAKING: Duration = Duration::from_millis(100);

/// How much of a log message is passed on.
const MAX_LOG_CHARS: usize = 1_000;

/// How many questions of a call may wait to be asked.
const MAX_QUESTIONS: usize = 8;

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
    /// Told when something has happened to a task.
    task_news: Notify,
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
            task_news: Notify::new(),
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

    /// Waits until the server says that something has happened to a task, whichever.
    pub(super) async fn task_news(&self) {
        self.task_news.notified().await;
    }

    /// Asks the person who watches the call that the server works on.
    ///
    /// The protocol does not say which call a question belongs to. If calls of several runs are
    /// out, nobody is asked: a person must not be shown the question of another's run.
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
            ServerNotification::TaskStatusNotification(_) => {
                self.task_news.notify_waiters();
                Passed::No
            }
            // What the older generation calls the same.
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

/// The beginning of a message, if it is too long.
pub(super) fn shortened(message: &str) -> String {
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
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Whose call it is.
    run_id: RunId,
    latest: Mutex<Option<Progress>>,
    arrived: Notify,
    handed_over: AtomicBool,
    questions: Mutex<VecDeque<Asked>>,
    was_asked: Notify,
}

/// A question, and where its answer goes.
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

    /// The next question of the server.
    pub(super) async fn next_question(&self) -> Asked {
        loop {
            if let Some(asked) = lock(&self.questions).pop_front() {
                return asked;
            }
            self.was_asked.notified().await;
        }
    }

    /// Says whether there was room for it.
    fn put_question(&self, question: Question, tell: oneshot::Sender<Reply>) -> bool {
        let mut questions = lock(&self.questions);
        let has_room = questions.len() < MAX_QUESTIONS;
        if has_room {
            questions.push_back((question, tell));
            self.was_asked.notify_one();
        }
        has_room
    }

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
    /// The requests that are on their way out; each closes when it is out.
    leaving: HashMap<RequestId, oneshot::Receiver<()>>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire, leaving: HashMap::new() }
    }

    /// What a message has to wait for, and what says that it is out. The library sends every
    /// message in a task of its own, and a cancellation that overtakes its request is about
    /// nothing: the server would work on for ever.
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
                // Over HTTP a request may be out only when it is answered.
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
