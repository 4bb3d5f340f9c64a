//! `/v1/runs`: the state and the events of a run, and commands on it.
//!
//! The events are those of the journal, unchanged. A client that joins late requests a snapshot
//! first and then only the events after it.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures::{
    StreamExt, TryStreamExt,
    future::{BoxFuture, Either, pending, ready},
    stream,
};
use serde::{Deserialize, Serialize};
use turnwire_contract::{
    EventStream, JournalHead, RecordedEvent, RunId, RunRecord, RunStatus, Seq,
};
use turnwire_surfaces::{Cursor, RunSnapshot, SnapshotFold, redacted, wire_json, without_actors};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, Json, OrNotFound, PathParams, QueryParams, Result,
    sse::{SseFrame, body_of_lines, event_stream},
    streaming::{cursor_ahead, follow_while_it_runs},
};

const NDJSON: &str = "application/x-ndjson";
/// Header with the ID of the last event that a client received.
const LAST_EVENT_ID: &str = "Last-Event-ID";

module_routes! { [snapshot] [events] [cancel] }

/// Get the current state of a run.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}",
    responses(
        (status = 200, description = "The current state of the run", body = RunSnapshot),
        (status = 404, description = "There is no run with this ID"),
    )
)]
async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<RunSnapshot>> {
    Ok(Json(snapshot_of(&app, &caller, &id).await?))
}

/// The current state of the run.
pub(crate) async fn snapshot_of(app: &App, caller: &Caller, id: &str) -> Result<RunSnapshot> {
    shared_snapshot(app, caller, id, false).await
}

/// The current state of the run, without its texts if `redact` is set.
pub(crate) async fn shared_snapshot(
    app: &App,
    caller: &Caller,
    id: &str,
    redact: bool,
) -> Result<RunSnapshot> {
    let run_id = RunId::new(id);
    let mut events = app.runs().stored(caller.tenant(), &run_id).await.or_not_found("Run", id)?;
    let mut fold = SnapshotFold::default();
    while let Some(recorded) = events.try_next().await.or_not_found("Run", id)? {
        if redact {
            fold.note(&redacted(&recorded));
        } else {
            fold.note(&recorded);
        }
    }
    let mut snapshot = fold.snapshot().ok_or_else(|| ApiError::not_found("Run", id))?;
    if snapshot.outcome.is_none() {
        // The worker of a run is not recorded in its journal.
        let record = app.runs().find(caller.tenant(), &run_id).await?;
        snapshot = snapshot.stalled_by(record.stalled);
    }
    Ok(if redact { snapshot.redacted() } else { snapshot })
}

/// Query parameters of the events of a run.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsParams {
    /// Return events after this `seq`. The `Last-Event-ID` header does the same. Default: 0, which
    /// returns all events.
    after: Option<String>,
    /// Send the current state of the run first, as an event named `snapshot`, then the events after
    /// it. Default: false.
    snapshot: bool,
    /// Keep the stream open and send new events until the run ends. If false, the stream ends after
    /// the events recorded so far. Default: true.
    follow: Option<bool>,
    /// Format of the stream: `sse` or `ndjson`. Default: `ndjson` if the `Accept` header asks for
    /// it, else `sse`.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Sse,
    Ndjson,
}

/// Stream the events of a run.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/events",
    params(EventsParams, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 200, description = "The events of the run. The stream ends with the event that \
                ends the run", content(
            (RunFrame = "text/event-stream"),
            (RunRow = "application/x-ndjson"),
        )),
        (status = 204,
            description = "With `Last-Event-ID`: the run has ended and no events follow"),
    )
)]
async fn events(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<EventsParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let view = EventsView { shown: Shown::Everything, until: Box::pin(pending()) };
    stream_events(&app, &caller, &id, params, &headers, view).await
}

/// What a reader sees of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Everything,
    /// Not who asked for the run and who decided.
    WithoutActors,
    /// Nor any texts.
    WithoutTexts,
}

impl Shown {
    fn of(self, recorded: Arc<RecordedEvent>) -> Arc<RecordedEvent> {
        match self {
            Self::Everything => recorded,
            Self::WithoutActors => without_actors(recorded),
            Self::WithoutTexts => Arc::new(redacted(&recorded)),
        }
    }
}

/// How the events of a run are shown.
pub(crate) struct EventsView {
    pub(crate) shown: Shown,
    /// The stream ends when this does.
    pub(crate) until: BoxFuture<'static, ()>,
}

/// The response that streams the events of a run.
pub(crate) async fn stream_events(
    app: &App,
    caller: &Caller,
    id: &str,
    params: EventsParams,
    headers: &HeaderMap,
    view: EventsView,
) -> Result<HttpResponse> {
    let run_id = RunId::new(id);
    let mut after = after(headers, &params)?;
    let mut first = None;
    if params.snapshot {
        let snapshot = shared_snapshot(app, caller, id, view.shown == Shown::WithoutTexts).await?;
        after = snapshot.last_seq;
        first = Some(snapshot);
    }
    let head = head_of(app, caller, &run_id).await?;
    let comes_back = headers.contains_key(LAST_EVENT_ID) && !params.snapshot;
    if comes_back && head.is_over && head.last == after {
        // An `EventSource` reconnects for ever unless it gets a 204.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let follow = params.follow != Some(false);
    let events = rest_of(app, caller, &run_id, &head, after, follow).await?;
    let shown = view.shown;
    let events = events.map_ok(move |recorded| shown.of(recorded)).take_until(view.until);
    if params.format.unwrap_or_else(|| accepted(headers)) == Format::Ndjson {
        let first = first.into_iter().map(|snapshot| line(&SnapshotRow { snapshot }));
        let first: Vec<Bytes> = first.collect();
        // A client whose lines stop before the run has ended reconnects and resumes.
        let events = events.take_while(|read| ready(read.is_ok()));
        let lines = events.filter_map(|read| ready(read.ok())).map(|recorded| line(&*recorded));
        let lines = lines.take_until(Box::pin(app.draining()));
        let body = body_of_lines(app, stream::iter(first).chain(lines));
        let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON))];
        return Ok((content_type, body).into_response());
    }
    let frames = stream::iter(first.map(|snapshot| Ok(Either::Left(snapshot))))
        .chain(events.map_ok(Either::Right));
    Ok(event_stream(app, frames, |out, frame| match frame {
        Either::Left(snapshot) => {
            let frame = SseFrame::begin(out).event("snapshot").id(snapshot.last_seq);
            frame.json(&snapshot);
        }
        Either::Right(recorded) => SseFrame::begin(out).id(recorded.seq).json(&*recorded),
    }))
}

/// Data of a frame in the event stream of a run.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
pub(crate) enum RunFrame {
    /// An event of the run.
    Event(Box<RecordedEvent>),
    /// With `snapshot=true`, in the frame named `snapshot`: the current state of the run.
    Snapshot(Box<RunSnapshot>),
}

/// A line in the NDJSON stream of a run.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
pub(crate) enum RunRow {
    /// An event of the run.
    Event(Box<RecordedEvent>),
    /// With `snapshot=true`, the first line: the current state of the run.
    Snapshot(Box<SnapshotRow>),
}

/// The current state of a run, as a line of NDJSON.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotRow {
    /// State of the run.
    snapshot: RunSnapshot,
}

fn line(value: &impl Serialize) -> Bytes {
    Bytes::from(wire_json(value) + "\n")
}

/// Position of the journal of a run. A run that is over gets no more events, even if its journal
/// does not say so.
pub(crate) async fn head_of(app: &App, caller: &Caller, run_id: &RunId) -> Result<JournalHead> {
    // Read before the journal: if the run is over now, its journal is complete.
    let record = record_of(app, caller, run_id).await?;
    let head = app.runs().head(caller.tenant(), run_id).await;
    let head = head.or_not_found("Run", run_id.as_str())?;
    let is_over = head.is_over || record.status != RunStatus::Active;
    Ok(JournalHead { is_over, ..head })
}

/// The events of a run after `after`, including later ones if `follow` is set. `head` was the
/// position of its journal a moment ago.
pub(crate) async fn rest_of(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    head: &JournalHead,
    after: Seq,
    follow: bool,
) -> Result<EventStream> {
    if after > head.last {
        return Err(cursor_ahead(after.0, "after"));
    }
    let (runs, tenant) = (app.runs(), caller.tenant());
    let rest = if head.is_over || !follow {
        runs.stored_after(tenant, run_id, after).await
    } else {
        follow_while_it_runs(runs, tenant, run_id, after).await
    };
    rest.or_not_found("Run", run_id.as_str())
}

fn after(headers: &HeaderMap, params: &EventsParams) -> Result<Seq> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    let (text, param) = match (header, params.after.as_deref()) {
        (Some(header), _) => (header, LAST_EVENT_ID),
        (None, Some(after)) => (after, "after"),
        (None, None) => return Ok(Seq::START),
    };
    text.parse::<Cursor>().map(|cursor| cursor.seq).map_err(|_| {
        let message = format!("`{param}` must be the `seq` of an event, such as 7.");
        ApiError::bad_request("invalid_cursor", message).about(param)
    })
}

fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains(NDJSON)) { Format::Ndjson } else { Format::Sse }
}

/// Result of a command on a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandResult {
    /// ID of the run. For a retry, the ID of the new run.
    pub(crate) run_id: String,
    /// Whether the command had an effect.
    pub(crate) done: bool,
}

/// Cancel a run.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/cancel",
    responses((status = 200, description = "`done` is true if the run was in progress",
        body = CommandResult))
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<CommandResult>> {
    let run_id = find(&app, &caller, &id).await?;
    let done = app.cancel(&caller, &run_id).await?;
    Ok(Json(CommandResult { run_id: id, done }))
}

pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunId> {
    let run_id = RunId::new(id);
    app.runs().status(caller.tenant(), &run_id).await.or_not_found("Run", id)?;
    Ok(run_id)
}

async fn record_of(app: &App, caller: &Caller, run_id: &RunId) -> Result<RunRecord> {
    app.runs().find(caller.tenant(), run_id).await.or_not_found("Run", run_id.as_str())
}
