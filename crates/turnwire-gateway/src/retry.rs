//! Retrying a failed call.
//!
//! A call ends once, and its result was given to the model. So a retry is a new run, which starts
//! with the call and then lets the model continue from its result.

use axum::http::StatusCode;
use serde_json::{Map, Value};
use turnwire_contract::{CallId, FirstCall, RunId, RunRequest, RunStatus, ToolRef};
use turnwire_surfaces::CallState;

use crate::{ApiError, App, Caller, Result, client_error::ClientError, runs::snapshot_of};

/// The request of the run that retries the call `call_id` of the run `run_id`, with the arguments
/// of the model or with corrected ones.
pub(crate) async fn retry_of(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    call_id: &CallId,
    corrected: Option<Map<String, Value>>,
) -> Result<RunRequest> {
    let conflict = |message: &str| ApiError::new(StatusCode::CONFLICT, "not_retryable", message);
    let record = app.runs().find(caller.tenant(), run_id).await?;
    let snapshot = snapshot_of(app, caller, run_id.as_str()).await?;
    let call = snapshot.call(call_id);
    let call = call.ok_or_else(|| ApiError::not_found("Call", call_id.as_str()))?;
    if record.status == RunStatus::Active && snapshot.outcome.is_none() {
        return Err(conflict(
            "The run is still in progress. The model was told of the failure and may call the \
             tool again.",
        ));
    }
    if !matches!(
        call.state,
        CallState::Failed
            | CallState::Denied
            | CallState::Stopped
            | CallState::TimedOut
            | CallState::Unknown
    ) {
        return Err(conflict("Only a call that ended without success can be retried."));
    }
    if !call.arguments_complete && corrected.is_none() {
        return Err(conflict(
            "The arguments of this call are truncated, so it can only be executed with others.",
        ));
    }
    let arguments = match corrected {
        Some(corrected) => checked(app, corrected)?,
        None => call.arguments.clone(),
    };
    let first_call = FirstCall {
        call_id: CallId::new(app.runs().new_id("call")),
        tool: ToolRef { name: call.tool.clone(), kind: call.kind, server: call.server.clone() },
        arguments,
        decision: None,
        budget: None,
    };
    let before = &record.request;
    Ok(RunRequest {
        input: Vec::new(),
        replaces: None,
        continues: before.conversation_id.is_none().then(|| run_id.clone()),
        first_calls: vec![first_call],
        ..RunRequest::clone(before)
    })
}

/// Arguments of a client, within the limit.
fn checked(app: &App, arguments: Map<String, Value>) -> Result<String> {
    let text = Value::Object(arguments).to_string();
    let (n_bytes, most) = (text.len(), app.options().requests.argument_bytes);
    if n_bytes > most {
        let message = format!("`arguments` may have at most {most} bytes, not {n_bytes}.");
        return Err(ClientError::new("arguments_too_large", "arguments", message).into());
    }
    Ok(text)
}
