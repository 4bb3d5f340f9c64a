//! `/v1/runs`: everything there is to know about a run, and what can be done about it.
//!
//! The events are those of the journal, unchanged. A viewer who comes late asks for a snapshot
//! first and then only for what follows it.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future::ready, stream};
use serde::{Deserialize, Serialize};
use turnwire_contract::{EventStream, LogError, RunId, RunRecord, RunStatus, Seq, StoreError};
use turnwire_surfaces::{Cursor, NativeRecord, RunSnapshot, SnapshotFold, wire_json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    body::Json,
    door::Caller,
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::{ErrorBody, Refusal},
    sse::{SseFrame, event_stream, with_heartbeat},
    streaming::{follow_while_it_runs, no_such_place},
};

/// How many runs a list looks at.
const MOST_LISTED: usize = 1_000;
const NDJSON: &str = "application/x-ndjson";
/// The header in which browsers say which event they saw last.
const LAST_EVENT_ID: &str = "Last-Event-ID";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(snapshot))
        .routes(routes!(events))
        .routes(routes!(cancel))
}

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
struct RunLine {
    run_id: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: turnwire_contract::Timestamp,
    model: String,
    conversation_id: Option<String>,
    /// `active`, `stalled`, or how it ended.
    status: &'static str,
    /// What the run needs and no worker has, if it is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
}

impl From<RunRecord> for RunLine {
    fn from(record: RunRecord) -> Self {
        use turnwire_contract::RunOutcome;
        let RunRecord { run_id, created_at, request, status, stalled } = record;
        let status = match status {
            RunStatus::Active if stalled.is_some() => "stalled",
            RunStatus::Active => "active",
            RunStatus::Finished { outcome } => match outcome {
                RunOutcome::Completed => "completed",
                RunOutcome::Incomplete { .. } => "incomplete",
                RunOutcome::Failed { .. } => "failed",
                RunOutcome::Cancelled => "cancelled",
            },
        };
        let conversation_id = request.conversation_id.as_ref().map(ToString::to_string);
        let model = request.model.clone();
        Self { run_id: run_id.to_string(), created_at, model, conversation_id, status, stalled }
    }
}

#[utoipa::path(
    get,
    path = "/v1/runs",
    tag = "runs",
    params(PageWish),
    responses((status = 200, description = "The newest runs first", body = Page<RunLine>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<RunLine>>, Refusal> {
    let mut runs = app.runs().list(caller.tenant(), MOST_LISTED).await?;
    runs.reverse();
    let lines: Vec<RunLine> = runs.into_iter().map(Into::into).collect();
    Ok(Json(Page::of(lines, &wish, Order::Desc, |line| line.run_id.clone())?))
}

#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}",
    tag = "runs",
    params(("run_id" = String, Path)),
    responses(
        (status = 200, description = "The run as it is now", body = RunSnapshot),
        (status = 404, description = "There is none", body = ErrorBody),
    )
)]
async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<RunSnapshot>, Refusal> {
    Ok(Json(snapshot_of(&app, &caller, &id).await?))
}

/// The run as it stands.
pub(crate) async fn snapshot_of(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<RunSnapshot, Refusal> {
    let missing = |error| match error {
        LogError::NotFound(_) => Refusal::not_found("Run", id),
        other => other.into(),
    };
    let mut events = app.runs().stored(caller.tenant(), &RunId::new(id)).await.map_err(missing)?;
    let mut fold = SnapshotFold::default();
    while let Some(recorded) = events.try_next().await.map_err(missing)? {
        fold.note(&recorded);
    }
    let snapshot = fold.snapshot().ok_or_else(|| Refusal::not_found("Run", id))?;
    if snapshot.outcome.is_some() {
        return Ok(snapshot);
    }
    // Who works on a run is not in its journal.
    let record = app.runs().find(caller.tenant(), &RunId::new(id)).await?;
    Ok(snapshot.stalled_by(record.stalled))
}

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct EventsWish {
    /// Begin after the event with this `seq`; `Last-Event-ID` does the same.
    after: Option<String>,
    /// Send the run as it is now first, as the event `snapshot`, and then what follows it.
    snapshot: bool,
    /// `false`: only what there is now.
    follow: Option<bool>,
    /// `sse` or `ndjson`; the `Accept` header does the same.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Sse,
    Ndjson,
}

#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/events",
    tag = "runs",
    params(("run_id" = String, Path), EventsWish, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 200, description = "Every event, up to the one that ends the run", content(
            (RunFrame = "text/event-stream"),
            (RunRow = "application/x-ndjson"),
        )),
        (status = 204, description = "With `Last-Event-ID`: the run is over, and nothing follows"),
    )
)]
async fn events(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(wish): Asked<EventsWish>,
    headers: HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let run_id = RunId::new(id.as_str());
    let mut after = after(&headers, &wish)?;
    let comes_back = headers.contains_key(LAST_EVENT_ID) && !wish.snapshot;
    if comes_back && is_at_the_end(&app, &caller, &run_id, after).await? {
        // An `EventSource` comes back for ever unless it is told so.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut first = None;
    if wish.snapshot {
        let snapshot = snapshot_of(&app, &caller, &id).await?;
        after = snapshot.last_seq;
        first = Some(snapshot);
    }
    let events = rest_of(&app, &caller, &run_id, after, wish.follow != Some(false)).await?;
    if wish.format.unwrap_or_else(|| accepted(&headers)) == Format::Ndjson {
        let first = first.into_iter().map(|snapshot| line(&SnapshotRow { snapshot }));
        let first: Vec<Bytes> = first.collect();
        // A reader whose lines end without the end of the run comes back and reads on.
        let events = events.take_while(|read| ready(read.is_ok()));
        let lines = events.filter_map(|read| ready(read.ok())).map(|recorded| line(&*recorded));
        let lines = lines.take_until(Box::pin(app.streams_end()));
        let open = app.metrics().stream("ndjson");
        let lines = stream::iter(first).chain(lines);
        let body = with_heartbeat_of_lines(lines, app.options().heartbeat);
        let body = body.inspect(move |_| {
            let _ = &open;
        });
        let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON))];
        return Ok((content_type, axum::body::Body::from_stream(body)).into_response());
    }
    let first = first.map(|snapshot| {
        let id = Some(snapshot.last_seq.to_string());
        SseFrame { event: Some("snapshot"), id, data: wire_json(&snapshot) }.bytes()
    });
    let frames = events.map_ok(|recorded| {
        SseFrame { event: None, id: Some(recorded.seq.to_string()), data: wire_json(&*recorded) }
            .bytes()
    });
    Ok(event_stream(&app, stream::iter(first.map(Ok)).chain(frames)))
}

/// The data of a frame of a run's stream.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
enum RunFrame {
    /// An event of the run.
    Event(Box<NativeRecord>),
    /// With `snapshot=true`, in the frame `event: snapshot`: the run as it is now.
    Snapshot(Box<RunSnapshot>),
}

/// A line of a run's stream.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
enum RunRow {
    /// An event of the run.
    Event(Box<NativeRecord>),
    /// With `snapshot=true`, the first line.
    Snapshot(Box<SnapshotRow>),
}

/// The run as it is now.
#[derive(Debug, Serialize, ToSchema)]
struct SnapshotRow {
    snapshot: RunSnapshot,
}

/// A line of JSON has no comments, so silence is filled with empty lines.
fn with_heartbeat_of_lines(
    lines: impl futures::Stream<Item = Bytes> + Send + 'static,
    silence: Duration,
) -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    with_heartbeat(lines, silence)
        .map(|bytes| Ok(if bytes.starts_with(b":") { Bytes::from_static(b"\n") } else { bytes }))
}

fn line(value: &impl Serialize) -> Bytes {
    Bytes::from(wire_json(value) + "\n")
}

/// What a run recorded after `after`, and what it will record.
async fn rest_of(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    after: Seq,
    follow: bool,
) -> Result<EventStream, Refusal> {
    let tenant = caller.tenant();
    let not_found = |error| match error {
        LogError::NotFound(_) => Refusal::not_found("Run", run_id.as_str()),
        other => other.into(),
    };
    // Whether it is over is asked first: then its journal is whole.
    let record = app.runs().find(tenant, run_id).await.map_err(|error| match error {
        StoreError::NotFound(_) => Refusal::not_found("Run", run_id.as_str()),
        other => other.into(),
    })?;
    let is_over = record.status != RunStatus::Active;
    let head = app.runs().head(tenant, run_id).await.map_err(not_found)?;
    if after > head.last {
        return Err(no_such_place(after.0, "after"));
    }
    let rest = if is_over || head.is_over || !follow {
        app.runs().stored_after(tenant, run_id, after).await
    } else {
        follow_while_it_runs(app.runs(), tenant, run_id, after).await
    };
    rest.map_err(not_found)
}

/// Whether the run is over and nothing was recorded after this event.
async fn is_at_the_end(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    after: Seq,
) -> Result<bool, Refusal> {
    let head = app.runs().head(caller.tenant(), run_id).await.map_err(|error| match error {
        LogError::NotFound(_) => Refusal::not_found("Run", run_id.as_str()),
        other => other.into(),
    })?;
    Ok(head.is_over && head.last == after)
}

fn after(headers: &HeaderMap, wish: &EventsWish) -> Result<Seq, Refusal> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    let (text, param) = match (header, wish.after.as_deref()) {
        (Some(header), _) => (header, LAST_EVENT_ID),
        (None, Some(after)) => (after, "after"),
        (None, None) => return Ok(Seq::START),
    };
    text.parse::<Cursor>().map(|cursor| cursor.seq).map_err(|_| {
        let message = format!("`{param}` must be the `seq` of an event, such as 7.");
        Refusal::bad_request("invalid_cursor", message).about(param)
    })
}

fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains(NDJSON)) { Format::Ndjson } else { Format::Sse }
}

/// What came of a wish.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    /// The run.
    pub(crate) run_id: String,
    /// Whether there was something to do.
    pub(crate) done: bool,
}

#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/cancel",
    tag = "runs",
    params(("run_id" = String, Path)),
    responses((status = 200, description = "Whether it was running", body = Done))
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Done>, Refusal> {
    let run_id = find(&app, &caller, &id).await?;
    let done = app.runs().cancel(caller.tenant(), &run_id).await?;
    Ok(Json(Done { run_id: id, done }))
}

pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunId, Refusal> {
    let run_id = RunId::new(id);
    match app.runs().find(caller.tenant(), &run_id).await {
        Ok(_) => Ok(run_id),
        Err(StoreError::NotFound(_)) => Err(Refusal::not_found("Run", id)),
        Err(other) => Err(other.into()),
    }
}
