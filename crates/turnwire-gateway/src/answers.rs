//! What people say to a run in progress: approvals, replies to the questions of tools, and that
//! they want it to end.
//!
//! Every surface passes it on here, so that answers need the scope `approve` on each, and
//! everything is recorded with who said it.

use axum::http::StatusCode;
use tracing::warn;
use turnwire_contract::{ApprovalAnswer, AuditAction, CallId, InputId, Reply, RunId, Scope};
use turnwire_engine::{AnswerError, AnswerOutcome};

use crate::{ApiError, App, Caller, Result, audit::Deed};

/// A reply to a question of a tool.
pub(crate) struct GivenReply<'a> {
    /// ID of the question. `None`: the only one of the call.
    pub(crate) input_id: Option<InputId>,
    pub(crate) reply: Reply,
    /// Name of the surface.
    pub(crate) by: &'a str,
}

impl App {
    /// Passes on the answer to an approval request. `param` is where the request has its arguments.
    pub(crate) async fn answer(
        &self,
        caller: &Caller,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
        param: &str,
    ) -> Result<()> {
        caller.ensure(Scope::Approve)?;
        let action = AuditAction::of(&answer.decision);
        self.audit(caller, Deed::of_call(action, run_id, call_id).content(&answer)).await?;
        let answer = ApprovalAnswer { actor: caller.actor().cloned(), ..answer };
        accepted(self.runs().answer(caller.tenant(), run_id, call_id, answer).await, param)
    }

    /// Passes on the reply to a question of a tool. `param` is where the request has its content.
    pub(crate) async fn reply(
        &self,
        caller: &Caller,
        run_id: &RunId,
        call_id: &CallId,
        reply: GivenReply<'_>,
        param: &str,
    ) -> Result<()> {
        caller.ensure(Scope::Approve)?;
        let deed = Deed::of_call(AuditAction::CallAnswered, run_id, call_id).content(&reply.reply);
        self.audit(caller, deed).await?;
        let (runs, tenant) = (self.runs(), caller.tenant());
        let GivenReply { input_id, reply, by } = reply;
        accepted(runs.reply(tenant, run_id, call_id, input_id, reply, by).await, param)
    }
}

/// Commands about runs in progress.
impl App {
    /// Cancels a run. Returns whether it was in progress.
    pub(crate) async fn cancel(&self, caller: &Caller, run_id: &RunId) -> Result<bool> {
        self.audit(caller, Deed::new(AuditAction::RunCancelled, run_id.as_str())).await?;
        Ok(self.runs().cancel(caller.tenant(), run_id).await?)
    }

    /// Cancels a run, for a message that nobody waits for.
    pub(crate) fn cancel_in_background(&self, caller: &Caller, run_id: &RunId) {
        self.runs().cancel_in_background(caller.tenant(), run_id);
        let (app, caller, run_id) = (self.clone(), caller.clone(), run_id.clone());
        self.tasks().spawn(async move {
            let deed = Deed::new(AuditAction::RunCancelled, run_id.as_str());
            if app.audit(&caller, deed).await.is_err() {
                warn!(%run_id, "cancel not recorded in the audit log");
            }
        });
    }

    /// Cancels a call. Returns whether it was in progress.
    pub(crate) async fn cancel_call(
        &self,
        caller: &Caller,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<bool> {
        self.audit(caller, Deed::of_call(AuditAction::CallCancelled, run_id, call_id)).await?;
        Ok(self.runs().cancel_call(caller.tenant(), run_id, call_id).await?)
    }
}

/// The error for a question that nobody asked.
pub(crate) fn not_asked() -> ApiError {
    let message = "The call does not wait for an answer.";
    ApiError::new(StatusCode::CONFLICT, "not_waiting", message)
}

fn accepted(answered: Result<AnswerOutcome, AnswerError>, param: &str) -> Result<()> {
    match answered {
        Ok(AnswerOutcome::Accepted) => Ok(()),
        Ok(AnswerOutcome::TooLate) => {
            let message = "The question is closed: it was already answered, or it expired.";
            Err(ApiError::new(StatusCode::CONFLICT, "already_answered", message))
        }
        Ok(AnswerOutcome::NotAsked) => Err(not_asked()),
        Err(AnswerError::DoesNotFit(why)) => {
            let message = format!("The answer does not match the schema of the question: {why}.");
            Err(ApiError::bad_request("invalid_value", message).about(param))
        }
        Err(AnswerError::Journal(error)) => Err(error.into()),
    }
}
