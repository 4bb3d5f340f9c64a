//! A run that is watched: its updates, and what a person can do with it.
//!
//! The run may be executed by this process or by a server. The display is the same.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use turnwire::{Agent, ApprovalAnswer, CallId, RecordedEvent, Run, RunId, TenantId};
use turnwire_contract::{InputId, Reply};
use turnwire_engine::{AnswerError, AnswerOutcome};

use super::broken;
use crate::{exit::Result, terminal::Connection};

/// Recorded as the source of the answers.
pub(crate) const BY: &str = "terminal";

pub(crate) struct OpenRun {
    pub(crate) id: RunId,
    pub(crate) updates: BoxStream<'static, Result<RunUpdate>>,
    pub(crate) control: Arc<dyn RunControl>,
}

/// What happens to a watched run.
#[derive(Debug)]
pub(crate) enum RunUpdate {
    Event(Arc<RecordedEvent>),
    /// The connection to the server was lost, or is back.
    Connection(Connection),
}

/// What came of an answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was accepted, or another one was before it.
    Settled,
    /// It was not accepted, for this reason. The question is still open.
    Refused(String),
}

/// Commands on a run.
#[async_trait]
pub(crate) trait RunControl: Send + Sync {
    /// Cancels the run. Returns once the command has arrived.
    async fn cancel(&self);

    /// Answers an approval request.
    async fn approve(&self, call_id: &CallId, answer: ApprovalAnswer) -> Result<Taken>;

    /// Answers a question of a tool.
    async fn reply(&self, call_id: &CallId, input_id: &InputId, reply: Reply) -> Result<Taken>;

    /// Leaves the run because nothing can be displayed any more.
    async fn abandon(&self);

    /// Whether the run goes on when this process ends.
    fn outlives_us(&self) -> bool;
}

/// A run of this process.
struct LocalRun {
    agent: Agent,
    run: Run,
}

/// Watches a run of this process.
pub(crate) async fn local(agent: Agent, run: Run) -> Result<OpenRun> {
    let events = run.events().await.map_err(broken)?;
    let updates = events.map(|read| match read {
        Ok(recorded) => Ok(RunUpdate::Event(recorded)),
        Err(error) => Err(broken(error.into())),
    });
    let id = run.id().clone();
    Ok(OpenRun { id, updates: updates.boxed(), control: Arc::new(LocalRun { agent, run }) })
}

#[async_trait]
impl RunControl for LocalRun {
    async fn cancel(&self) {
        self.run.cancel();
    }

    async fn approve(&self, call_id: &CallId, answer: ApprovalAnswer) -> Result<Taken> {
        let runs = self.agent.runs();
        taken(runs.answer(&TenantId::default(), self.run.id(), call_id, answer).await)
    }

    async fn reply(&self, call_id: &CallId, input_id: &InputId, reply: Reply) -> Result<Taken> {
        let (runs, tenant, run_id) = (self.agent.runs(), TenantId::default(), self.run.id());
        let input_id = Some(input_id.clone());
        taken(runs.reply(&tenant, run_id, call_id, input_id, reply, BY).await)
    }

    async fn abandon(&self) {
        self.run.cancel();
        // The outcome does not matter here, only that the run ends properly.
        let _ = self.run.reply().await;
    }

    fn outlives_us(&self) -> bool {
        false
    }
}

fn taken(answered: Result<AnswerOutcome, AnswerError>) -> Result<Taken> {
    match answered {
        Ok(_) => Ok(Taken::Settled),
        Err(AnswerError::DoesNotFit(why)) => {
            Ok(Taken::Refused(format!("that does not fit the tool: {why}")))
        }
        Err(AnswerError::Journal(error)) => Err(broken(error.into())),
    }
}
