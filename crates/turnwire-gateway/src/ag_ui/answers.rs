//! Answers to interrupts, which come with the next request.
//!
//! All answers are recorded before the stream begins, so it goes on until the run ends or asks
//! something else. The same request again changes nothing, and gets the same stream.

use axum::{http::StatusCode, response::Response as HttpResponse};
use serde_json::{Map, Value};
use turnwire_contract::{Reply, RunId, Seq};
use turnwire_surfaces::ag_ui::{InterruptTarget, origin::source};

use super::{
    input::{AgentRequest, InterruptAnswer, OnDisconnect, ResumeStatus},
    stream::{Progress, StreamOptions, stream_of},
};
use crate::{
    ApiError, App, Caller, Result,
    answers::GivenReply,
    run_calls::approval,
    runs::find,
    streaming::{CancelOnDrop, follow_while_it_runs},
    typed,
};

/// The answer to an approval.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct ApprovalPayload {
    approved: Option<bool>,
    reason: Option<String>,
    arguments: Option<Map<String, Value>>,
    remember: Option<bool>,
}

/// Answers the interrupts, and streams what follows.
pub(super) async fn answer_interrupts(
    app: &App,
    caller: &Caller,
    request: AgentRequest,
) -> Result<HttpResponse> {
    let run_id = the_run(app, caller, &request.answers).await?;
    let tenant = caller.tenant();
    let progress = Progress::of(app, tenant, &run_id).await?;
    let after = asked_at(&progress, &request)?;
    let source = source(&request.origin.run_id);
    for answer in &request.answers {
        give(app, caller, answer, &source).await?;
    }
    let events = follow_while_it_runs(app.runs(), tenant, &run_id, Seq::START).await?;
    let cancels = request.options.on_disconnect == Some(OnDisconnect::Cancel);
    let guard = cancels.then(|| CancelOnDrop::new(app.clone(), tenant.clone(), run_id.clone()));
    let options = StreamOptions { after, seen: None, guard };
    Ok(stream_of(app, tenant, &run_id, events, options))
}

/// The run that asked. All interrupts of one thread belong to one.
async fn the_run(app: &App, caller: &Caller, answers: &[InterruptAnswer]) -> Result<RunId> {
    let Some(first) = answers.first() else { return Err(ApiError::not_found("Run", "")) };
    if let Some(other) = answers.iter().find(|answer| answer.id.run_id != first.id.run_id) {
        let message = "All interrupts of a request must belong to one run.";
        let error = ApiError::bad_request("invalid_value", message);
        return Err(error.about(format!("{}.interruptId", other.param)));
    }
    let found = find(app, caller, first.id.run_id.as_str()).await;
    found.map_err(|error| match error.status {
        StatusCode::NOT_FOUND => unknown_interrupt(first),
        _ => error,
    })
}

/// Number of the frame that asked.
fn asked_at(progress: &Progress, request: &AgentRequest) -> Result<u64> {
    let mut asked_at = 0;
    for answer in &request.answers {
        let id = answer.id.to_string();
        let pause = progress.pauses.iter().rev().find(|pause| pause.interrupts.contains(&id));
        let pause = pause.filter(|_| progress.thread_id == request.origin.thread_id);
        let pause = pause.ok_or_else(|| unknown_interrupt(answer))?;
        if pause.run_id == request.origin.run_id {
            let message = "`runId` must be a new one; the run with this ID has ended with the \
                           interrupt.";
            return Err(ApiError::bad_request("invalid_value", message).about("runId"));
        }
        asked_at = asked_at.max(pause.number);
    }
    Ok(asked_at)
}

fn unknown_interrupt(answer: &InterruptAnswer) -> ApiError {
    let message = "There is no such interrupt on this thread.";
    let error = ApiError::new(StatusCode::NOT_FOUND, "interrupt_not_found", message);
    error.about(format!("{}.interruptId", answer.param))
}

async fn give(app: &App, caller: &Caller, answer: &InterruptAnswer, source: &str) -> Result<()> {
    let run_id = &answer.id.run_id;
    let payload_param = format!("{}.payload", answer.param);
    let is_resolved = answer.status == ResumeStatus::Resolved;
    match &answer.id.target {
        InterruptTarget::Approval(call_id) => {
            let payload = read_approval(answer, &payload_param)?;
            let is_approved = is_resolved && payload.approved == Some(true);
            let reason = payload.reason.unwrap_or_default();
            let remember = payload.remember == Some(true);
            let decision = approval(is_approved, reason, payload.arguments, remember).by(source);
            let param = format!("{payload_param}.arguments");
            app.answer(caller, run_id, call_id, decision, &param).await
        }
        InterruptTarget::Input(call_id, input_id) => {
            let content = answer.payload.clone();
            let reply = if is_resolved { Reply::Accepted { content } } else { Reply::Cancelled };
            let reply = GivenReply { input_id: Some(input_id.clone()), reply, by: source };
            app.reply(caller, run_id, call_id, reply, &payload_param).await
        }
    }
}

/// The answer to an approval. One that does not say whether the call is approved is refused.
fn read_approval(answer: &InterruptAnswer, param: &str) -> Result<ApprovalPayload> {
    let payload = typed::<ApprovalPayload>(Value::Object(answer.payload.clone()));
    let payload = payload.map_err(|error| {
        let field = error.param.clone().unwrap_or_default();
        error.about(format!("{param}.{field}"))
    })?;
    if answer.status == ResumeStatus::Resolved && payload.approved.is_none() {
        let message = "`approved` is missing: true or false.";
        let error = ApiError::bad_request("missing_required_parameter", message);
        return Err(error.about(format!("{param}.approved")));
    }
    Ok(payload)
}
