//! `GET /ag-ui/runs/{run_id}` and `POST /ag-ui/runs/{run_id}/cancel`: what the protocol lacks.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use serde::Deserialize;
use turnwire_contract::Seq;
use turnwire_surfaces::AgUiFrame;
use utoipa::IntoParams;

use super::{
    stream::{Progress, StreamOptions, stream_of},
    thread::find_run,
};
use crate::{
    ApiError, App, Caller, Json, PathParams, QueryParams, Result,
    runs::CommandResult,
    streaming::{cursor_ahead, follow_while_it_runs},
};

/// Header with the number of the last event that a client received.
const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Query parameters for resuming a stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ResumeParams {
    /// Number of the last event received: the `id` of the server-sent event. The stream continues
    /// after it. The `Last-Event-ID` header does the same and takes precedence. Default: 0, which
    /// returns all events.
    after: Option<u64>,
}

/// Resume the events of a run after a given one.
///
/// The path has the ID in `metadata.turnwire.run_id` of `RUN_STARTED`, or, for a day, the `runId` of
/// the request that started the run. The stream continues to the end of the run, or to interrupts
/// that are not answered. With interrupts that were answered it has several runs of the protocol,
/// one after the other.
#[utoipa::path(
    get,
    path = "/ag-ui/runs/{run_id}",
    params(
        ResumeParams,
        ("Last-Event-ID" = Option<String>, Header),
    ),
    responses(
        (status = 200,
            description = "The events after the given one, as server-sent events", content(
            (AgUiFrame = "text/event-stream"),
        )),
        (status = 204,
            description = "With `Last-Event-ID`: the run has ended and no events follow"),
        (status = 404, description = "There is no run with this ID"),
    )
)]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<ResumeParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let run_id = find_run(&app, &caller, &id).await?;
    let header = last_event_id(&headers)?;
    let after = header.or(params.after).unwrap_or_default();
    let tenant = caller.tenant();
    let progress = Progress::of(&app, tenant, &run_id).await?;
    if after > progress.last_number {
        return Err(cursor_ahead(after, "after"));
    }
    // An `EventSource` reconnects for ever unless it gets a 204.
    if header.is_some() && progress.is_over && after == progress.last_number {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let events = follow_while_it_runs(app.runs(), tenant, &run_id, Seq::START).await?;
    let options = StreamOptions { after, ..StreamOptions::default() };
    Ok(stream_of(&app, tenant, &run_id, events, options))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(header) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = header.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let message = format!("`{LAST_EVENT_ID}` must be the number of an event, such as 7.");
        ApiError::bad_request("invalid_cursor", message).about(LAST_EVENT_ID)
    })
}

/// Cancel a run.
///
/// Its stream ends with the outcome `cancelled`. A client that only disconnects leaves the run
/// going.
#[utoipa::path(
    post,
    path = "/ag-ui/runs/{run_id}/cancel",
    responses((status = 200, description = "`done` is true if the run was in progress",
        body = CommandResult))
)]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<CommandResult>> {
    let run_id = find_run(&app, &caller, &id).await?;
    let done = app.cancel(&caller, &run_id).await?;
    Ok(Json(CommandResult { run_id: run_id.to_string(), done }))
}
