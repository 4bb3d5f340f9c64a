//! Approvals, answers to tools, and the first reader of a run.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{ApprovalAnswer, CallId, Event, InputId, JournalError, Reply, Seq};

use super::LiveRun;
use crate::{Result, deadline::later, sync::lock};

/// How long a tool start waits for the first reader. One that exceeds it is not waited for again,
/// so it delays a run only once.
const FIRST_READER_GRACE: Duration = Duration::from_millis(250);

impl LiveRun {
    /// Records an answer if the call waits for an approval, and returns whether it did. A conflict
    /// means that the run was lost; it says nothing about the approval.
    pub(crate) async fn resolve(&self, call_id: &CallId, answer: ApprovalAnswer) -> Result<bool> {
        // Of two concurrent answers, only the first is recorded. The lock is held until its event
        // is applied.
        let _one_at_a_time = self.resolving.lock().await;
        // Readers see an event shortly before the state includes it. Waits until the state has
        // caught up.
        drop(self.committed.lock().await);
        self.record_expired().await?;
        let counted = {
            let state = self.state();
            let call = state.call(call_id).filter(|call| call.waits_for_approval());
            call.map(|call| call.as_counted(answer))
        };
        let Some(answer) = counted else { return Ok(false) };
        self.record(Event::approval_resolved(call_id.clone(), answer)).await?;
        self.resolved.notify_one();
        Ok(true)
    }

    /// Records the expiry of overdue questions. Returns whether the run is still ours.
    async fn expire(&self) -> Result<bool> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        self.record_expired().await
    }

    async fn record_expired(&self) -> Result<bool> {
        let expired = self.state().expired_events(self.now());
        if expired.is_empty() {
            return Ok(true);
        }
        if !self.record_if_ours(expired.clone()).await? {
            return Ok(false);
        }
        for event in expired {
            self.pass_on(&event);
        }
        self.resolved.notify_one();
        Ok(true)
    }

    /// Appends `events`. Returns `false` if the run has just ended or moved to another worker.
    async fn record_if_ours(&self, events: Vec<Event>) -> Result<bool> {
        match self.record_all(events).await {
            Ok(_) => Ok(true),
            Err(JournalError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Signals that a question was recorded, which may expire.
    pub(crate) fn note_asked(&self) {
        self.asked.notify_one();
    }

    /// Expires overdue questions until `done` is cancelled or the run is lost. Must not be dropped
    /// earlier: an append may be in progress.
    pub(crate) async fn expire_unanswered(&self, done: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = done.cancelled() => return,
                () = self.wait_for_expiry() => {}
            }
            match self.expire().await {
                Ok(true) => {}
                // The steps detect the lost run themselves.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Waits until a question is overdue.
    async fn wait_for_expiry(&self) {
        loop {
            let next = self.state().next_expiry();
            let wait = match next {
                Some(at) if at <= self.now() => return,
                Some(at) => at.since(self.now()),
                None => Duration::MAX,
            };
            tokio::select! {
                () = sleep_until(later(Instant::now(), wait)) => {}
                () = self.asked.notified() => {}
            }
        }
    }

    /// Waits for an answer of a person.
    pub(crate) async fn answered(&self) {
        self.resolved.notified().await;
    }

    /// Waits for an answer, a stop or a handover.
    pub(crate) async fn wait_for_change(&self) {
        tokio::select! {
            // The order does not matter: the loop checks state and stop next.
            () = self.resolved.notified() => {}
            () = self.stopped() => {}
            () = self.handover_requested() => {}
        }
    }

    /// Returns the question about the outcome of a call, which is unknown because of `what`.
    pub(crate) fn outcome_question(&self, call_id: &CallId, what: &str) -> Event {
        let input_id = InputId::new(self.new_id("inp"));
        self.state().outcome_question(call_id, input_id, what, self.now())
    }

    /// Records a question of a tool and registers the receiver of the answer.
    pub(crate) async fn ask(
        &self,
        input_id: InputId,
        asked: Event,
        replier: oneshot::Sender<Reply>,
    ) -> Result<()> {
        lock(&self.repliers).insert(input_id, replier);
        self.record(asked).await?;
        self.note_asked();
        Ok(())
    }

    /// Records the answer to a question of a tool, if it is open. Returns whether it was.
    pub(crate) async fn reply(
        &self,
        input_id: &InputId,
        reply: Reply,
        by: Option<String>,
    ) -> Result<bool> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        self.record_expired().await?;
        let Some(question) = self.state().question(input_id).cloned() else { return Ok(false) };
        let end = question.end_of_call(&reply);
        let (call_id, input_id) = (question.call_id, question.input_id);
        let resolved = Event::InputResolved { call_id, input_id, reply, by };
        self.record_all([resolved.clone()].into_iter().chain(end).collect()).await?;
        self.pass_on(&resolved);
        self.resolved.notify_one();
        Ok(true)
    }

    /// Sends the recorded answer to the tool.
    fn pass_on(&self, event: &Event) {
        if let Event::InputResolved { input_id, reply, .. } = event
            && let Some(replier) = lock(&self.repliers).remove(input_id)
        {
            // The receiver may be gone. The answer is in the journal anyway.
            let _ = replier.send(reply.clone());
        }
    }

    /// Records the end of a call, or of its execution, and closes its open questions.
    pub(crate) async fn record_end_of_call(&self, call_id: &CallId, end: Event) -> Result<Seq> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        let mut events = self.state().close_questions(call_id);
        for event in &events {
            self.pass_on(event);
        }
        events.push(end);
        self.record_all(events).await
    }

    /// Waits briefly for the first reader to see `seq` before the tool starts.
    pub(crate) async fn let_first_reader_see(&self, seq: Seq) {
        let Some(first_reader) = &self.first_reader else { return };
        if first_reader.is_slow.load(Ordering::Relaxed) {
            return;
        }
        let mut seen = first_reader.seen.clone();
        if timeout(FIRST_READER_GRACE, seen.wait_for(|seen| *seen >= seq)).await.is_err() {
            first_reader.is_slow.store(true, Ordering::Relaxed);
        }
    }
}
