//! Answers of people: approvals, and replies to the questions of tools.
//!
//! Every surface passes them on here, so that each needs the scope `approve`, and approvals are
//! recorded with who gave them.

use axum::http::StatusCode;
use turnwire_contract::{ApprovalAnswer, CallId, InputId, Reply, RunId, Scope};
use turnwire_engine::{AnswerError, AnswerOutcome};

use crate::{api_error::ApiError, app::App, auth::Caller};

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
    ) -> Result<(), ApiError> {
        caller.ensure(Scope::Approve)?;
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
    ) -> Result<(), ApiError> {
        caller.ensure(Scope::Approve)?;
        let (runs, tenant) = (self.runs(), caller.tenant());
        let GivenReply { input_id, reply, by } = reply;
        accepted(runs.reply(tenant, run_id, call_id, input_id, reply, by).await, param)
    }
}

/// The error for a question that nobody asked.
pub(crate) fn not_asked() -> ApiError {
    let message = "The call does not wait for an answer.";
    ApiError::new(StatusCode::CONFLICT, "not_waiting", message)
}

fn accepted(answered: Result<AnswerOutcome, AnswerError>, param: &str) -> Result<(), ApiError> {
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
        Err(AnswerError::Log(error)) => Err(error.into()),
    }
}
