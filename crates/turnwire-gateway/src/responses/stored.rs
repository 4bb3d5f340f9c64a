//! Responses that are stored: read, resumed, cancelled, deleted.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use turnwire_contract::{RunId, RunOutcome, RunRecord, RunStatus, Seq};
use turnwire_surfaces::{
    Projection,
    responses::{InputItem, Profile, Response, ResponseEvent, Responses, ids, wire_items},
};
use utoipa::IntoParams;

use super::create::{ProfileWish, profile, stream_of, to_its_end};
use crate::{
    app::App,
    body::Json,
    door::Caller,
    files::Removed,
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::{ErrorBody, Refusal},
    streaming::{follow_while_it_runs, no_such_place},
};

/// How long a cancel waits for the run to have ended.
const CANCEL_TIME: Duration = Duration::from_secs(10);

/// How a stored response is read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadWish {
    /// Whether to send its events, those to come included.
    stream: Option<bool>,
    /// Begin after the event with this `sequence_number`.
    #[param(value_type = Option<u64>)]
    starting_after: Option<String>,
    /// `strict` or `extended`.
    profile: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/responses/{response_id}",
    tag = "responses",
    params(("response_id" = String, Path), ReadWish),
    responses(
        (status = 200, description = "The response as it is now; with `stream=true` its events",
            content((Response = "application/json"), (ResponseEvent = "text/event-stream"))),
        (status = 404, description = "There is none", body = ErrorBody),
    )
)]
pub(super) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(wish): Asked<ReadWish>,
    headers: HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let profile = profile(&headers, &ProfileWish { profile: wish.profile })?;
    if wish.stream == Some(true) {
        let (runs, tenant) = (app.runs(), caller.tenant());
        let after = wish.starting_after.as_deref().map(read_place).transpose()?;
        if let Some(after) = after {
            check_frame(&app, &caller, &record.run_id, profile, after).await?;
        }
        let events = follow_while_it_runs(runs, tenant, &record.run_id, Seq::START).await?;
        return Ok(stream_of(&app, profile, events, after));
    }
    Ok(Json(as_it_is(&app, &caller, &record.run_id).await?).into_response())
}

fn read_place(text: &str) -> Result<u64, Refusal> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| {
        let message = "`starting_after` must be the `sequence_number` of an event, such as 7.";
        Refusal::bad_request("invalid_cursor", message).about("starting_after")
    })
}

/// Refuses a number that no event of the response has yet (C11).
async fn check_frame(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    profile: Profile,
    after: u64,
) -> Result<(), Refusal> {
    let mut projection = Responses::new(profile);
    let mut events = app.runs().stored(caller.tenant(), run_id).await?;
    while let Some(recorded) = events.try_next().await? {
        let frames = projection.project(&recorded);
        if frames.last().is_some_and(|frame| frame.sequence_number() >= after) {
            return Ok(());
        }
    }
    Err(no_such_place(after, "starting_after"))
}

/// The run behind a response that is stored.
pub(super) async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunRecord, Refusal> {
    let not_found = || Refusal::not_found("Response", id);
    let run_id = ids::run_id(id).ok_or_else(not_found)?;
    let record = app.runs().find(caller.tenant(), &run_id).await.map_err(|error| match error {
        turnwire_contract::StoreError::NotFound(_) => not_found(),
        other => other.into(),
    })?;
    let is_stored = record.request.echo.get("store").and_then(Value::as_bool).unwrap_or(true);
    if is_stored { Ok(record) } else { Err(not_found()) }
}

/// The response as it is now.
pub(super) async fn as_it_is(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
) -> Result<Response, Refusal> {
    let events = app.runs().stored(caller.tenant(), run_id).await?;
    Ok(to_its_end(events).await?.0)
}

#[utoipa::path(
    post,
    path = "/v1/responses/{response_id}/cancel",
    tag = "responses",
    params(("response_id" = String, Path)),
    responses(
        (status = 200, description = "The response, cancelled", body = Response),
        (status = 400, description = "It is over", body = ErrorBody),
    )
)]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Response>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    stop(&app, &caller, &record.run_id).await?;
    let response = as_it_is(&app, &caller, &record.run_id).await?;
    let how = match app.runs().find(caller.tenant(), &record.run_id).await?.status {
        RunStatus::Finished { outcome: RunOutcome::Completed } => "completed",
        RunStatus::Finished { outcome: RunOutcome::Failed { .. } } => "failed",
        RunStatus::Finished { outcome: RunOutcome::Incomplete { .. } } => "incomplete",
        RunStatus::Finished { outcome: RunOutcome::Cancelled } | RunStatus::Active => {
            return Ok(Json(response));
        }
    };
    let message = format!("Cannot cancel a {how} response.");
    Err(Refusal::bad_request("response_not_active", message))
}

/// Stops a run, and waits until its end is recorded.
async fn stop(app: &App, caller: &Caller, run_id: &RunId) -> Result<(), Refusal> {
    if app.runs().cancel(caller.tenant(), run_id).await? {
        let events = app.runs().follow(caller.tenant(), run_id, Seq::START).await?;
        // If it takes longer, it is stopping all the same.
        let _ = timeout(CANCEL_TIME, to_its_end(events)).await;
    }
    Ok(())
}

#[utoipa::path(
    delete,
    path = "/v1/responses/{response_id}",
    tag = "responses",
    params(("response_id" = String, Path)),
    responses(
        (status = 200, description = "It is gone, with all of its events", body = Removed),
        (status = 409, description = "It has not ended in time", body = ErrorBody),
    )
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Removed>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    stop(&app, &caller, &record.run_id).await?;
    app.runs().forget(caller.tenant(), &record.run_id).await?;
    Ok(Json(Removed::new(id, "response")))
}

#[utoipa::path(
    get,
    path = "/v1/responses/{response_id}/input_items",
    tag = "responses",
    params(("response_id" = String, Path), PageWish),
    responses((status = 200, description = "What the response was given", body = Page<InputItem>))
)]
pub(super) async fn input_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<InputItem>>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let items = wire_items(&record.request.entries(&record.run_id));
    Ok(Json(Page::of(items, &wish, Order::Desc, |item| item.id().to_string())?))
}

/// A plain 405 would not say what to do.
pub(super) async fn not_by_get() -> Refusal {
    let message = "Create a response with POST, or upgrade to a WebSocket.";
    Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
}
