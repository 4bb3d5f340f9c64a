//! `/v1/runs/{run_id}/calls/{call_id}`: commands on one call of a run, and its full result.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{
    ApprovalAnswer, CallId, Decision, Event, InputId, RecordedEvent, RunId, ToolOutcome,
};
use turnwire_engine::StartOptions;
use turnwire_surfaces::{InputAction, redacted};
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Json, JsonBody, OrNotFound, PathParams, Result,
    admission::ResultReader,
    answers::GivenReply,
    client_error::ClientError,
    connection::HeldPermits,
    idempotency::{IdempotencyKeyHeader, KeyedBody, OptionalBody},
    range::{Range, range_of},
    retry::retry_of,
    runs::{CommandResult, find},
    typed,
};

/// Recorded as the source of answers given over these routes.
const BY: &str = "/v1/runs";

module_routes! {
    [cancel_call]
    [retry_call]
    [approve_call]
    [give_input]
    [result]
}

/// Cancel a call. The run continues.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/cancel",
    responses((status = 200, description = "`done` is true if the call was in progress",
        body = CommandResult))
)]
async fn cancel_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
) -> Result<Json<CommandResult>> {
    let run_id = find(&app, &caller, &id).await?;
    let done = app.cancel_call(&caller, &run_id, &CallId::new(call_id)).await?;
    Ok(Json(CommandResult { run_id: id, done }))
}

/// How a call is retried.
#[derive(Debug, Deserialize, ToSchema)]
struct CallRetry {
    /// Arguments to use instead of the model's. If they do not match the schema of the tool, the
    /// call ends as `invalid_arguments`, and the model is told.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
}

/// Retry a call that ended without success.
///
/// Starts a new run, which begins with the call. The earlier run must have ended. The body may be
/// empty.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/retry",
    params(IdempotencyKeyHeader),
    request_body = Option<CallRetry>,
    responses(
        (status = 200, description = "The new run, which starts with the call", body = CommandResult),
        (status = 409, description = "The run is still in progress, or the call cannot be retried"),
    )
)]
async fn retry_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    OptionalBody(KeyedBody { body, key }): OptionalBody,
) -> Result<Json<CommandResult>> {
    let CallRetry { arguments } = typed(body)?;
    let run_id = find(&app, &caller, &id).await?;
    let handle = if let Some(handle) = app.find_by_key(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let run = retry_of(&app, &caller, &run_id, &CallId::new(call_id), arguments).await?;
        app.start(&caller, run, StartOptions { idempotency_key: key, ..StartOptions::default() })
            .await?
    };
    Ok(Json(CommandResult { run_id: handle.id().to_string(), done: true }))
}

/// Answer to an approval request. Either `decision` or `approve` is required.
#[derive(Debug, Deserialize, ToSchema)]
struct CallApproval {
    /// The decision. Required unless `approve` is set.
    decision: Option<DecisionWord>,
    /// Short form of `decision`: true approves the call, false denies it.
    approve: Option<bool>,
    /// Why the call is denied. Passed to the model.
    reason: Option<String>,
    /// Arguments to use instead of the model's. They must match the schema of the tool. Ignored if
    /// the call is denied.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
    /// Also approve later calls of this tool in this conversation. Ignored if the call is denied.
    /// Default: false.
    remember: Option<bool>,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DecisionWord {
    /// Execute the call.
    Approve,
    /// Do not execute the call.
    Deny,
}

impl CallApproval {
    fn read(body: Value) -> Result<ApprovalAnswer> {
        let answer: Self = typed(body)?;
        let word = answer.decision.map(|word| word == DecisionWord::Approve);
        let approve = match (word, answer.approve) {
            (Some(word), Some(approve)) if word != approve => {
                let message = "`decision` and `approve` contradict each other; send one of them.";
                return Err(ApiError::bad_request("mutually_exclusive_parameters", message));
            }
            (Some(approve), _) | (None, Some(approve)) => approve,
            (None, None) => {
                let message = "`decision` is missing: `approve` or `deny`.";
                let missing = ApiError::bad_request("missing_required_parameter", message);
                return Err(missing.about("decision"));
            }
        };
        let Self { reason, arguments, remember, .. } = answer;
        let (reason, remember) = (reason.unwrap_or_default(), remember == Some(true));
        Ok(approval(approve, reason, arguments, remember).by(BY))
    }
}

/// Makes the answer to an approval request. A denial changes no arguments and is not remembered.
pub(crate) fn approval(
    approve: bool,
    reason: String,
    arguments: Option<Map<String, Value>>,
    remember: bool,
) -> ApprovalAnswer {
    if !approve {
        return Decision::Denied { reason }.into();
    }
    let arguments = arguments.map(|arguments| Value::Object(arguments).to_string());
    ApprovalAnswer { arguments, remember, ..Decision::Approved.into() }
}

/// Approve or deny a call that waits for an approval.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/approve",
    request_body = CallApproval,
    responses(
        (status = 200, description = "The decision was accepted", body = CommandResult),
        (status = 400, description = "The request is invalid, or the arguments do not match the \
                schema of the tool"),
        (status = 409,
            description = "The call does not wait for an approval, or it was already decided"),
    )
)]
async fn approve_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<CommandResult>> {
    let answer = CallApproval::read(body)?;
    let run_id = find(&app, &caller, &id).await?;
    let call_id = CallId::new(call_id);
    app.answer(&caller, &run_id, &call_id, answer, "arguments").await?;
    Ok(Json(CommandResult { run_id: id, done: true }))
}

/// Answer to a question that a tool asked the user.
#[derive(Debug, Deserialize, ToSchema)]
struct CallInput {
    /// How the user responds. Required.
    #[schema(value_type = InputAction)]
    action: Option<InputAction>,
    /// With `accept`: the user's input. It must match the schema of the question.
    #[schema(value_type = Option<Object>)]
    content: Option<Map<String, Value>>,
    /// ID of the question. Default: the latest question of the call.
    #[schema(value_type = Option<String>)]
    input_id: Option<InputId>,
}

/// Answer a question that a tool asked the user.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/input",
    request_body = CallInput,
    responses(
        (status = 200, description = "The answer was accepted", body = CommandResult),
        (status = 400, description = "The request is invalid, or the answer does not match the \
                schema of the question"),
        (status = 409,
            description = "The call does not wait for an answer, or it was already answered"),
    )
)]
async fn give_input(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<CommandResult>> {
    let CallInput { action, content, input_id } = typed(body)?;
    let action = action.ok_or_else(|| ClientError::missing("action"))?;
    let run_id = find(&app, &caller, &id).await?;
    let (call_id, reply) = (CallId::new(call_id), action.reply(content.unwrap_or_default()));
    let reply = GivenReply { input_id, reply, by: BY };
    app.reply(&caller, &run_id, &call_id, reply, "content").await?;
    Ok(Json(CommandResult { run_id: id, done: true }))
}

/// Get the full result of a call.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/calls/{call_id}/result",
    params(
        ("Range" = Option<String>, Header,
            description = "A single byte range, such as `bytes=0-32767`"),
    ),
    responses(
        (status = 200, description = "The full result", content_type = "text/plain"),
        (status = 206, description = "The requested range", content_type = "text/plain"),
        (status = 416, description = "The range is past the end of the result"),
    )
)]
async fn result(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    Extension(held): Extension<HeldPermits>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let run_id = find(&app, &caller, &id).await?;
    held.hold_more(app.admission().admit_result(caller.tenant(), ResultReader::Caller).await?);
    let text = full_result(&app, &caller, &run_id, &call_id, false).await?;
    Ok(text_response(text, &headers))
}

/// The full result of a call. If `redact` is set, what stands in its place. The response holds a
/// permit for it until it is written, because the result is in memory for as long.
pub(crate) async fn full_result(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    call_id: &str,
    redact: bool,
) -> Result<String> {
    let id = run_id.as_str();
    let mut events = app.runs().stored(caller.tenant(), run_id).await.or_not_found("Run", id)?;
    let output = loop {
        let Some(recorded) = events.try_next().await.or_not_found("Run", id)? else {
            return Err(ApiError::not_found("Result of call", call_id));
        };
        let shown = if redact { Arc::new(redacted(&recorded)) } else { recorded };
        if let Some(output) = output_of(&shown, call_id) {
            break output;
        }
    };
    drop(events);
    Ok(match output.rest {
        Some(rest) => app.runs().blobs().get(caller.tenant(), &rest.blob).await?,
        None => output.text,
    })
}

/// A text, or the range of it that the client asks for.
pub(crate) fn text_response(text: String, headers: &HeaderMap) -> HttpResponse {
    let bytes = text.into_bytes();
    let total = bytes.len();
    let (status, content_range, body) = match range_of(headers, total) {
        Range::Everything => (StatusCode::OK, None, bytes),
        Range::Part { first, last } => {
            let part = bytes.get(first..=last).unwrap_or_default().to_vec();
            (StatusCode::PARTIAL_CONTENT, Some(format!("bytes {first}-{last}/{total}")), part)
        }
        Range::Beyond => {
            let message = format!("The result has {total} bytes; request a range within them.");
            let mut error =
                ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable", message)
                    .into_response();
            if let Ok(whole) = HeaderValue::try_from(format!("bytes */{total}")) {
                error.headers_mut().insert(header::CONTENT_RANGE, whole);
            }
            return error;
        }
    };
    // A browser must show it as plain text, whatever the tool returned.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    ];
    let mut response = (status, headers, body).into_response();
    if let Some(range) = content_range.and_then(|range| HeaderValue::try_from(range).ok()) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    response
}

fn output_of(recorded: &RecordedEvent, call: &str) -> Option<turnwire_contract::ToolOutput> {
    match &recorded.event {
        Event::ToolFinished { call_id, outcome: ToolOutcome::Succeeded { output }, .. }
            if call_id.as_str() == call =>
        {
            Some(output.clone())
        }
        _ => None,
    }
}
