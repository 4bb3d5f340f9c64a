//! A run in progress, and its reply.

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

/// How long the reply waits for a callback that does not return. A slow callback that makes
/// progress is not limited.
const PATIENCE: Duration = Duration::from_secs(5);

/// A started run. The run continues if this handle is dropped.
#[derive(Debug, Clone)]
pub struct Run {
    agent: Agent,
    handle: RunHandle,
    conversation_id: Option<ConversationId>,
    /// Last event that the callbacks have processed, if there are callbacks.
    seen: Option<watch::Receiver<Seq>>,
}

impl Agent {
    /// Returns a stored run by ID. Another process may have started it. The run may be finished,
    /// executing in any process, or waiting for a takeover.
    pub async fn attach(&self, run_id: &RunId) -> Result<Run, Error> {
        let handle = self.runs.attach(&self.request.tenant, run_id).await?;
        let record = self.runs.find(&self.request.tenant, run_id).await?;
        let conversation_id = record.request.conversation_id.clone();
        Ok(Run::new(self.clone(), handle, conversation_id, None))
    }
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

    /// Returns the ID of the run.
    pub fn id(&self) -> &RunId {
        self.handle.id()
    }

    /// Cancels the run, if this process is executing it. All open items are closed, and the outcome
    /// is `Cancelled`.
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Cancels the run in any process. Returns whether the run was unfinished. The run may end a
    /// moment later.
    pub async fn cancel_anywhere(&self) -> Result<bool, Error> {
        Ok(self.agent.runs.cancel(&self.agent.request.tenant, self.id()).await?)
    }

    /// Cancels one call. The model is informed, and the run continues. Returns whether the call was
    /// executing.
    pub fn cancel_call(&self, call_id: &CallId) -> bool {
        self.handle.cancel_call(call_id)
    }

    /// Answers an approval request with a [`Decision`] or an [`ApprovalAnswer`]. Returns whether
    /// the call was waiting.
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

    /// Returns all events of the run: past ones at once, then new ones as they are recorded, up to
    /// the event that ends the run.
    pub async fn events(&self) -> Result<EventStream, Error> {
        Ok(self.handle.events().await?)
    }

    /// Waits until the run has ended and the callbacks have processed its events.
    pub async fn reply(&self) -> Result<Reply, Error> {
        // Opened first, because an in-memory journal may be deleted soon after the end.
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
                // The callback thread has ended.
                Ok(Err(_)) => return,
                Err(_) => {
                    warn!(run_id = %self.id(), "callback still running, reply not delayed");
                    return;
                }
            }
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// ID of the run.
    pub run_id: RunId,
    /// ID of the conversation, if any.
    pub conversation_id: Option<ConversationId>,
    /// The last message of the model.
    pub text: String,
    /// The refusal; empty if the model did not refuse.
    pub refusal: String,
    /// Outcome of the run: completed, incomplete or cancelled.
    pub outcome: RunOutcome,
    /// Tokens used by the run.
    pub usage: Usage,
}
