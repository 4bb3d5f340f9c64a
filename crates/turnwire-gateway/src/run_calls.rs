//! `/v1/runs/{run_id}/calls/{call_id}`: what can be done about one call of a run, and its whole
//! result.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{
    ApprovalAnswer, CallId, Decision, Event, InputId, LogError, Recorded, ToolOutcome,
};
use turnwire_engine::{AnswerError, Answered, Start};
use turnwire_surfaces::InputAction;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    body::{Json, JsonBody, typed},
    door::Caller,
    idempotency::{IdempotencyKey, Keyed},
    path::PathParams,
    range::{Range, range_of},
    refusal::{ErrorBody, Refusal},
    responses::request::ClientError,
    retry::retry_of,
    runs::{Done, find},
};

/// Where answers that come over these routes come from.
const BY: &str = "/v1/runs";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel_call))
        .routes(routes!(retry_call))
        .routes(routes!(approve_call))
        .routes(routes!(give_input))
        .routes(routes!(result))
}

#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/cancel",
    tag = "runs",
    params(("run_id" = String, Path), ("call_id" = String, Path)),
    responses((status = 200, description = "Whether the call was at work", body = Done))
)]
async fn cancel_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
) -> Result<Json<Done>, Refusal> {
    let run_id = find(&app, &caller, &id).await?;
    let done = app.runs().cancel_call(caller.tenant(), &run_id, &CallId::new(call_id)).await?;
    Ok(Json(Done { run_id: id, done }))
}

#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/retry",
    tag = "runs",
    params(("run_id" = String, Path), ("call_id" = String, Path), IdempotencyKey),
    responses(
        (status = 200, description = "The new run, which begins with the call", body = Done),
        (status = 409, description = "The run goes on, or the call worked", body = ErrorBody),
    )
)]
async fn retry_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    Keyed(key): Keyed,
) -> Result<Json<Done>, Refusal> {
    let run_id = find(&app, &caller, &id).await?;
    let handle = if let Some(handle) = app.made_before(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let run = retry_of(&app, &caller, &run_id, &CallId::new(call_id)).await?;
        app.start(&caller, run, Start { key, ..Start::default() }).await?
    };
    Ok(Json(Done { run_id: handle.id().to_string(), done: true }))
}

/// A person's answer about a call. Either `decision` or `approve` says what was decided.
#[derive(Debug, Deserialize, ToSchema)]
struct CallApproval {
    /// What was decided.
    decision: Option<DecisionWord>,
    /// Whether the call may be carried out; the same as `decision`, in short.
    approve: Option<bool>,
    /// Why not; the model is told.
    reason: Option<String>,
    /// The arguments to call the tool with instead of the model's.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
    /// Whether later calls of this tool in this conversation are allowed too.
    remember: Option<bool>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DecisionWord {
    /// Go ahead.
    Approve,
    /// Do not.
    Deny,
}

impl CallApproval {
    fn read(body: Value) -> Result<ApprovalAnswer, Refusal> {
        let answer: Self = typed(body)?;
        let word = answer.decision.map(|word| word == DecisionWord::Approve);
        let approve = match (word, answer.approve) {
            (Some(word), Some(approve)) if word != approve => {
                let message = "`decision` and `approve` say different things; send one of them.";
                return Err(Refusal::bad_request("mutually_exclusive_parameters", message));
            }
            (Some(approve), _) | (None, Some(approve)) => approve,
            (None, None) => {
                let message = "`decision` is missing: `approve` or `deny`.";
                let missing = Refusal::bad_request("missing_required_parameter", message);
                return Err(missing.about("decision"));
            }
        };
        let Self { reason, arguments, remember, .. } = answer;
        let (reason, remember) = (reason.unwrap_or_default(), remember == Some(true));
        Ok(approval(approve, reason, arguments, remember).by(BY))
    }
}

/// A person's answer in our words. Who says no changes nothing about the arguments, and is asked
/// again the next time.
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

#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/approve",
    tag = "runs",
    params(("run_id" = String, Path), ("call_id" = String, Path)),
    request_body = CallApproval,
    responses(
        (status = 200, description = "This is the answer that counts", body = Done),
        (status = 400, description = "The arguments do not fit the tool", body = ErrorBody),
        (status = 409, description = "The call does not wait, or has another answer", body = ErrorBody),
    )
)]
async fn approve_call(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>, Refusal> {
    let answer = CallApproval::read(body)?;
    let run_id = find(&app, &caller, &id).await?;
    let call_id = CallId::new(call_id);
    let answered = app.runs().answer(caller.tenant(), &run_id, &call_id, answer).await;
    taken(answered, "arguments")?;
    Ok(Json(Done { run_id: id, done: true }))
}

/// A person's answer to what a tool asked.
#[derive(Debug, Deserialize, ToSchema)]
struct CallInput {
    /// What the person does about it.
    #[schema(value_type = InputAction)]
    action: Option<InputAction>,
    /// With `accept`: what the person says, in the shape that was asked for.
    #[schema(value_type = Option<Object>)]
    content: Option<Map<String, Value>>,
    /// The question; the call's latest if it is missing.
    #[schema(value_type = Option<String>)]
    input_id: Option<InputId>,
}

#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/calls/{call_id}/input",
    tag = "runs",
    params(("run_id" = String, Path), ("call_id" = String, Path)),
    request_body = CallInput,
    responses(
        (status = 200, description = "This is the answer that counts", body = Done),
        (status = 400, description = "The answer does not fit the question", body = ErrorBody),
        (status = 409, description = "Nothing is asked, or it has another answer", body = ErrorBody),
    )
)]
async fn give_input(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<Done>, Refusal> {
    let CallInput { action, content, input_id } = typed(body)?;
    let action = action.ok_or_else(|| ClientError::missing("action"))?;
    let run_id = find(&app, &caller, &id).await?;
    let (call_id, reply) = (CallId::new(call_id), action.reply(content.unwrap_or_default()));
    let answered = app.runs().reply(caller.tenant(), &run_id, &call_id, input_id, reply, BY).await;
    taken(answered, "content")?;
    Ok(Json(Done { run_id: id, done: true }))
}

/// Whether an answer counts, and if not, why.
pub(crate) fn taken(answered: Result<Answered, AnswerError>, written: &str) -> Result<(), Refusal> {
    match answered {
        Ok(Answered::Taken) => Ok(()),
        Ok(Answered::TooLate) => {
            let message = "The question is settled: somebody was quicker, or it was too late.";
            Err(Refusal::new(StatusCode::CONFLICT, "already_answered", message))
        }
        Ok(Answered::NotAsked) => {
            let message = "That call does not wait for an answer.";
            Err(Refusal::new(StatusCode::CONFLICT, "not_waiting", message))
        }
        Err(AnswerError::DoesNotFit(why)) => {
            let message = format!("That does not fit what is asked for: {why}.");
            Err(Refusal::bad_request("invalid_value", message).about(written))
        }
        Err(AnswerError::Log(error)) => Err(error.into()),
    }
}

#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/calls/{call_id}/result",
    tag = "runs",
    params(
        ("run_id" = String, Path),
        ("call_id" = String, Path),
        ("Range" = Option<String>, Header, description = "One range of bytes: `bytes=0-32767`"),
    ),
    responses(
        (status = 200, description = "The whole result", content_type = "text/plain"),
        (status = 206, description = "The range that was asked for", content_type = "text/plain"),
        (status = 416, description = "The result is not that long", body = ErrorBody),
    )
)]
async fn result(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, call_id)): PathParams<(String, String)>,
    headers: HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let run_id = find(&app, &caller, &id).await?;
    let missing = |error| match error {
        LogError::NotFound(_) => Refusal::not_found("Run", &id),
        other => other.into(),
    };
    let mut events = app.runs().stored(caller.tenant(), &run_id).await.map_err(missing)?;
    let output = loop {
        let Some(recorded) = events.try_next().await.map_err(missing)? else {
            return Err(Refusal::not_found("Result of call", &call_id));
        };
        if let Some(output) = output_of(&recorded, &call_id) {
            break output;
        }
    };
    drop(events);
    let text = match output.rest {
        Some(rest) => app.runs().blobs().get(caller.tenant(), &rest.blob).await?,
        None => output.text,
    };
    let bytes = text.into_bytes();
    let total = bytes.len();
    let (status, content_range, body) = match range_of(&headers, total) {
        Range::Everything => (StatusCode::OK, None, bytes),
        Range::Part { first, last } => {
            let part = bytes.get(first..=last).unwrap_or_default().to_vec();
            (StatusCode::PARTIAL_CONTENT, Some(format!("bytes {first}-{last}/{total}")), part)
        }
        Range::Beyond => {
            let message = format!("The result has {total} bytes; ask for some of those.");
            let mut refusal =
                Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable", message)
                    .into_response();
            if let Ok(whole) = HeaderValue::try_from(format!("bytes */{total}")) {
                refusal.headers_mut().insert(header::CONTENT_RANGE, whole);
            }
            return Ok(refusal);
        }
    };
    // Never shown by a browser as anything but text, whatever the tool returned.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    ];
    let mut response = (status, headers, body).into_response();
    if let Some(range) = content_range.and_then(|range| HeaderValue::try_from(range).ok()) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    Ok(response)
}

fn output_of(recorded: &Recorded, call: &str) -> Option<turnwire_contract::ToolOutput> {
    match &recorded.event {
        Event::ToolFinished { call_id, outcome: ToolOutcome::Succeeded { output }, .. }
            if call_id.as_str() == call =>
        {
            Some(output.clone())
        }
        _ => None,
    }
}
