//! A run under way, and what comes of it.

use std::time::Duration;

use futures::StreamExt;
use tokio::{sync::watch, time::timeout};
use tracing::warn;
use turnwire_contract::{
    ApprovalAnswer, CallId, ConversationId, EventStream, RunId, RunOutcome, Seq, Usage,
};
use turnwire_engine::{RunHandle, failures::is_journal_lost};
use turnwire_surfaces::Answer;

use crate::{agent::Agent, error::Error};

/// How long the reply waits for a callback that does not return. One that is merely slow is
/// waited for as long as it gets on.
const PATIENCE: Duration = Duration::from_secs(5);

/// A run that was started. Dropping it changes nothing: the run goes on.
#[derive(Debug, Clone)]
pub struct Run {
    agent: Agent,
    handle: RunHandle,
    conversation_id: Option<ConversationId>,
    /// How far the callbacks are, if there are any.
    seen: Option<watch::Receiver<Seq>>,
}

impl Run {
    pub(crate) fn new(
        agent: Agent,
        handle: RunHandle,
        conversation_id: Option<ConversationId>,
        seen: Option<watch::Receiver<Seq>>,
    ) -> Self {
        Self { agent, handle, conversation_id, seen }
    }

    /// Which run.
    pub fn id(&self) -> &RunId {
        self.handle.id()
    }

    /// Stops the run, if this process works on it. Everything it has open is closed, and its reply
    /// says that it was cancelled.
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Stops the run in whichever process works on it, or will. Says whether there was something to
    /// stop; the end may be a moment away.
    pub async fn cancel_anywhere(&self) -> Result<bool, Error> {
        Ok(self.agent.runs.cancel(&self.agent.request.tenant, self.id()).await?)
    }

    /// Stops one call; the model is told and the run goes on. Says whether the call was at work.
    pub fn cancel_call(&self, call_id: &CallId) -> bool {
        self.handle.cancel_call(call_id)
    }

    /// Answers whether a call that waits for approval may be carried out: a [`Decision`], or an
    /// [`ApprovalAnswer`] that says more. Says whether it was waiting.
    ///
    /// [`Decision`]: turnwire_contract::Decision
    pub async fn resolve(
        &self,
        call_id: &CallId,
        answer: impl Into<ApprovalAnswer>,
    ) -> Result<bool, Error> {
        let tenant = &self.agent.request.tenant;
        Ok(self.agent.runs.resolve(tenant, self.id(), call_id, answer).await?)
    }

    /// Every event of the run, from the first to the one that ends it; those that are past
    /// come at once, the others as they happen.
    pub async fn events(&self) -> Result<EventStream, Error> {
        Ok(self.handle.events().await?)
    }

    /// Waits for the end, and for the callbacks to have seen it.
    pub async fn reply(&self) -> Result<Reply, Error> {
        // Opened first: a journal in memory may be forgotten soon after the end.
        let mut events = self.events().await?;
        let outcome = self.handle.outcome().await;
        let (mut answer, mut last) = (Answer::default(), Seq::START);
        let has_an_end = !is_journal_lost(&outcome);
        while has_an_end && let Some(recorded) = events.next().await {
            let recorded = recorded?;
            answer.note(&recorded);
            last = recorded.seq;
        }
        self.wait_for_callbacks(last).await;
        if let RunOutcome::Failed { failure } = outcome {
            return Err(Error::Failed { run_id: self.id().clone(), failure });
        }
        Ok(Reply {
            run_id: self.id().clone(),
            conversation_id: self.conversation_id.clone(),
            text: answer.text().to_owned(),
            refusal: answer.refusal().to_owned(),
            outcome,
            usage: answer.usage(),
        })
    }

    async fn wait_for_callbacks(&self, last: Seq) {
        let Some(mut seen) = self.seen.clone() else { return };
        while *seen.borrow_and_update() < last {
            match timeout(PATIENCE, seen.changed()).await {
                Ok(Ok(())) => {}
                // The thread is gone, with what it had to say.
                Ok(Err(_)) => return,
                Err(_) => {
                    warn!(run_id = %self.id(), "callback still running, reply not delayed");
                    return;
                }
            }
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The run.
    pub run_id: RunId,
    /// The conversation it belongs to.
    pub conversation_id: Option<ConversationId>,
    /// The answer: what the model said last.
    pub text: String,
    /// The refusal, if the model refused.
    pub refusal: String,
    /// How the run ended: completed, incomplete or cancelled.
    pub outcome: RunOutcome,
    /// What it cost.
    pub usage: Usage,
}
