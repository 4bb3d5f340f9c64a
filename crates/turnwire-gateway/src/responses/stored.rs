//! Stored responses: get, resume, cancel, delete.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::{TryStreamExt, future::ready};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use turnwire_contract::{
    AuditAction, JournalError, RunId, RunOutcome, RunRecord, RunStatus, Seq, StoreError,
};
use turnwire_surfaces::{
    Projection,
    responses::{InputItem, Profile, Response, Responses, SequencedEvent, ids, wire_items},
};
use utoipa::IntoParams;

use super::output::{ProfileParams, profile, stream_of};
use crate::{
    ApiError, App, Caller, Json, OrNotFound, PathParams, QueryParams, Result,
    audit::Deed,
    files::DeletedObject,
    page::{Order, Page, PageParams},
    streaming::{cursor_ahead, follow_while_it_runs, project_to_end},
};

/// How long a cancel waits for the end of the run.
const CANCEL_TIME: Duration = Duration::from_secs(10);

/// Query parameters for getting a response.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadParams {
    /// Send the events of the response as server-sent events, including later ones until it ends.
    /// Default: false.
    stream: Option<bool>,
    /// With `stream=true`: send only events after this `sequence_number`. If omitted, all events
    /// are sent.
    #[param(value_type = Option<u64>)]
    starting_after: Option<String>,
    /// Set of stream events: `strict` sends only official event types, `extended` adds Turnwire's
    /// own. The `Turnwire-Profile` header takes precedence. Default: `strict`.
    profile: Option<String>,
}

/// Get a response, or resume its stream.
#[utoipa::path(
    get,
    path = "/v1/responses/{response_id}",
    params(ReadParams),
    responses(
        (status = 200,
            description = "The current state of the response. With `stream=true`, its events",
            content((Response = "application/json"), (SequencedEvent = "text/event-stream"))),
        (status = 404, description = "There is no response with this ID"),
    )
)]
pub(super) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<ReadParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let record = find(&app, &caller, &id).await?;
    let profile = profile(&headers, &ProfileParams { profile: params.profile })?;
    if params.stream == Some(true) {
        let (runs, tenant) = (app.runs(), caller.tenant());
        let after = params.starting_after.as_deref().map(parse_cursor).transpose()?;
        if let Some(after) = after {
            check_frame(&app, &caller, &record.run_id, profile, after).await?;
        }
        let events = follow_while_it_runs(runs, tenant, &record.run_id, Seq::START).await?;
        return Ok(stream_of(&app, profile, events, after));
    }
    Ok(Json(current_response(&app, &caller, &record.run_id).await?).into_response())
}

fn parse_cursor(text: &str) -> Result<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| {
        let message = "`starting_after` must be the `sequence_number` of an event, such as 7.";
        ApiError::bad_request("invalid_cursor", message).about("starting_after")
    })
}

/// Refuses a sequence number that the response has not reached (C11).
async fn check_frame(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    profile: Profile,
    after: u64,
) -> Result<()> {
    let mut projection = Responses::new(profile);
    let mut events = app.runs().stored(caller.tenant(), run_id).await?;
    while let Some(recorded) = events.try_next().await? {
        let frames = projection.project(&recorded);
        if frames.last().is_some_and(|frame| frame.sequence_number >= after) {
            return Ok(());
        }
    }
    Err(cursor_ahead(after, "starting_after"))
}

/// The run of a stored response.
pub(super) async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunRecord> {
    let run_id = run_id_of(id)?;
    stored(app.runs().find(caller.tenant(), &run_id).await, id)
}

/// Its ID and status, also if its key is missing: it can be cancelled and deleted all the same.
async fn find_status(app: &App, caller: &Caller, id: &str) -> Result<(RunId, RunStatus)> {
    let run_id = run_id_of(id)?;
    let status = match app.runs().find(caller.tenant(), &run_id).await {
        Err(StoreError::KeyMissing(_)) => app.runs().status(caller.tenant(), &run_id).await?,
        found => stored(found, id)?.status,
    };
    Ok((run_id, status))
}

fn run_id_of(id: &str) -> Result<RunId> {
    ids::run_id(id).ok_or_else(|| ApiError::not_found("Response", id))
}

/// A run that is not stored is no response that can be found.
fn stored(found: Result<RunRecord, StoreError>, id: &str) -> Result<RunRecord> {
    let record = found.or_not_found("Response", id)?;
    let is_stored =
        record.request.surface_data.get("store").and_then(Value::as_bool).unwrap_or(true);
    if is_stored { Ok(record) } else { Err(ApiError::not_found("Response", id)) }
}

/// The current state of the response.
pub(super) async fn current_response(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
) -> Result<Response> {
    let events = app.runs().stored(caller.tenant(), run_id).await?;
    let (projection, _) = project_to_end(Responses::new(Profile::Strict), events).await?;
    Ok(projection.response())
}

/// Cancel a response.
#[utoipa::path(
    post,
    path = "/v1/responses/{response_id}/cancel",
    responses(
        (status = 200, description = "The cancelled response", body = Response),
        (status = 400, description = "The response has already ended"),
    )
)]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Response>> {
    let (run_id, _) = find_status(&app, &caller, &id).await?;
    stop(&app, &caller, &run_id).await?;
    let response = current_response(&app, &caller, &run_id).await?;
    let how = match app.runs().status(caller.tenant(), &run_id).await? {
        RunStatus::Finished { outcome: RunOutcome::Completed } => "completed",
        RunStatus::Finished { outcome: RunOutcome::Failed { .. } } => "failed",
        RunStatus::Finished { outcome: RunOutcome::Incomplete { .. } } => "incomplete",
        RunStatus::Finished { outcome: RunOutcome::Cancelled } | RunStatus::Active => {
            return Ok(Json(response));
        }
    };
    let message = format!("Cannot cancel a {how} response.");
    Err(ApiError::bad_request("response_not_active", message))
}

/// Cancels a run, and waits until its end is recorded.
async fn stop(app: &App, caller: &Caller, run_id: &RunId) -> Result<()> {
    if app.cancel(caller, run_id).await? {
        let events = match app.runs().follow(caller.tenant(), run_id, Seq::START).await {
            // Whoever ends it does not need to read it.
            Err(JournalError::KeyMissing(_)) => return Ok(()),
            events => events?,
        };
        // If it takes longer, the run still ends later.
        let _ = timeout(CANCEL_TIME, events.try_for_each(|_| ready(Ok(())))).await;
    }
    Ok(())
}

/// Delete a response and its events. A running response is cancelled first.
#[utoipa::path(
    delete,
    path = "/v1/responses/{response_id}",
    responses(
        (status = 200, description = "The response was deleted", body = DeletedObject),
        (status = 409, description = "The response did not end in time"),
    )
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedObject>> {
    let (run_id, status) = find_status(&app, &caller, &id).await?;
    if status == RunStatus::Active {
        stop(&app, &caller, &run_id).await?;
    }
    let deed = Deed::new(AuditAction::RunDeleted, run_id.as_str());
    app.audit(&caller, deed).await?;
    app.runs().delete(caller.tenant(), &run_id).await?;
    Ok(Json(DeletedObject::new(id, "response")))
}

/// List the input items of a response, newest first by default.
#[utoipa::path(
    get,
    path = "/v1/responses/{response_id}/input_items",
    params(PageParams),
    responses((status = 200, description = "A page of input items", body = Page<InputItem>))
)]
pub(super) async fn input_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<InputItem>>> {
    let record = find(&app, &caller, &id).await?;
    let items = wire_items(&record.request.entries(&record.run_id));
    Ok(Json(Page::of(items, &params, Order::Desc, |item| item.id().to_string())?))
}

/// Says what to do, unlike a plain 405.
pub(super) async fn not_by_get() -> ApiError {
    let message = "Create a response with POST, or upgrade to a WebSocket.";
    ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
}
