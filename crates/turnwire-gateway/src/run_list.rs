//! `GET /v1/runs` and `GET /v1/runs/changes`: which runs there are, and a live feed of what changes.
//!
//! A line says what a list shows. It is stored with the events, so no journal is read here.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response as HttpResponse};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use turnwire_contract::{
    ConversationId, ListedStatus, RunFilter, RunId, RunQuery, RunSummary, StoreError, Timestamp,
};
use turnwire_engine::RunChange;
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, Json, QueryParams, Result,
    page::{Order, checked_limit, unknown_entry},
    sse::{SseFrame, event_stream},
};

module_routes! { [list] [changes] }

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
struct RunLine {
    /// ID of the run.
    run_id: String,
    /// Time of creation, in RFC 3339 format.
    created_at: Timestamp,
    /// Name of the model.
    model: String,
    /// ID of the conversation. Null if the run belongs to none.
    conversation_id: Option<String>,
    /// Status of the run.
    status: ListedStatus,
    /// If `status` is `stalled`: the model, server or tool that the run needs and no worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// The first 120 characters of the user's text, on one line.
    title: String,
    /// Names of the tools that were called, in the order of their first call; at most 64.
    tools: Vec<String>,
    /// Number of tool calls.
    n_calls: u32,
    /// Number of tool calls that failed. A call that was denied, cancelled or skipped did not.
    n_failed_calls: u32,
    /// Time at which the run ended. Null while it is in progress.
    ended_at: Option<Timestamp>,
}

impl From<&RunSummary> for RunLine {
    fn from(run: &RunSummary) -> Self {
        let is_stalled = run.status == ListedStatus::Stalled;
        Self {
            run_id: run.run_id.to_string(),
            created_at: run.created_at,
            model: run.model.clone(),
            conversation_id: run.conversation_id.as_ref().map(ToString::to_string),
            status: run.status,
            stalled: run.stalled.clone().filter(|_| is_stalled),
            title: run.title(),
            tools: run.tools.clone(),
            n_calls: run.n_calls,
            n_failed_calls: run.n_failed_calls,
            ended_at: run.ended_at,
        }
    }
}

/// One page of a list of runs.
#[derive(Debug, Serialize, ToSchema)]
struct RunList {
    /// Always `list`.
    object: &'static str,
    /// The runs of the page.
    data: Vec<RunLine>,
    /// ID of the first run. Null if the page is empty.
    first_id: Option<String>,
    /// ID of the last run. Null if the page is empty.
    last_id: Option<String>,
    /// Whether there are more runs after this page.
    has_more: bool,
    /// Number of runs by status, for all statuses. The filters apply, except `status`.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    counts: BTreeMap<ListedStatus, u64>,
}

/// Query parameters of a list of runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct RunListParams {
    /// ID of a run. The page starts after it.
    after: Option<String>,
    /// ID of a run. The page ends before it.
    before: Option<String>,
    /// Maximum number of runs, 1 to 100. Default: 20.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// Sort order by time of creation: `asc` (oldest first) or `desc` (newest first). Default:
    /// `desc`.
    #[param(inline)]
    order: Option<Order>,
    /// Only runs with one of these statuses, separated by commas: `active`, `needs_input`,
    /// `stalled`, `completed`, `incomplete`, `failed`, `cancelled`.
    status: Option<String>,
    /// Only runs of this model.
    model: Option<String>,
    /// Only runs of this conversation.
    conversation_id: Option<String>,
    /// Only runs that called the tool with this name.
    tool: Option<String>,
    /// Only runs whose input contains this text. The first 1000 characters of the user's last
    /// message are searched. The case of ASCII letters is ignored.
    q: Option<String>,
    /// Only runs created at this time or later, in RFC 3339 format.
    created_after: Option<Timestamp>,
    /// Only runs created before this time, in RFC 3339 format.
    created_before: Option<Timestamp>,
}

impl RunListParams {
    fn query(self) -> Result<RunQuery> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(RunQuery {
            filter: RunFilter {
                statuses: statuses(self.status.as_deref().unwrap_or_default())?,
                model: given(self.model),
                conversation_id: given(self.conversation_id).map(ConversationId::new),
                tool: given(self.tool),
                text: given(self.q),
                created_after: self.created_after,
                created_before: self.created_before,
            },
            after: self.after.map(RunId::new),
            before: self.before.map(RunId::new),
            oldest_first: self.order == Some(Order::Asc),
            most: checked_limit(self.limit)?,
        })
    }
}

fn statuses(list: &str) -> Result<Vec<ListedStatus>> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            ListedStatus::of(word).ok_or_else(|| {
                let known: Vec<&str> = ListedStatus::ALL.map(ListedStatus::as_str).to_vec();
                let message = format!("`status` must be a list of {}.", known.join(", "));
                ApiError::bad_request("invalid_value", message).about("status")
            })
        })
        .collect()
}

/// List runs, newest first by default.
///
/// The 100,000 newest runs of the caller can be listed and are counted; 1,000 finished ones if the
/// store is in memory.
#[utoipa::path(
    get,
    path = "/v1/runs",
    params(RunListParams),
    responses((status = 200, description = "A page of runs", body = RunList))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<RunListParams>,
) -> Result<Json<RunList>> {
    let query = params.query()?;
    let store = app.runs().store();
    let page = store.select(caller.tenant(), &query).await.map_err(|error| match error {
        StoreError::NotFound(_) => unknown_cursor(&query),
        other => other.into(),
    })?;
    let mut counts: BTreeMap<ListedStatus, u64> =
        ListedStatus::ALL.into_iter().map(|status| (status, 0)).collect();
    counts.extend(store.count(caller.tenant(), &query.filter).await?);
    let data: Vec<RunLine> = page.runs.iter().map(RunLine::from).collect();
    let id = |line: Option<&RunLine>| line.map(|line| line.run_id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    Ok(Json(RunList { object: "list", first_id, last_id, data, has_more: page.has_more, counts }))
}

fn unknown_cursor(query: &RunQuery) -> ApiError {
    let (name, id) = match (&query.after, &query.before) {
        (Some(id), None) => ("after", id.as_str()),
        (_, Some(id)) => ("before", id.as_str()),
        (None, None) => ("q", "with this text"),
    };
    unknown_entry(name, id)
}

/// Follow the runs of the caller.
///
/// Sends a frame named `run` whenever a run is created, changes its status or calls a tool. Its
/// data is the line of the run as in the list, and replaces earlier lines of the same run. Changes
/// by this server are sent at once, those by other servers on the same store within two seconds.
/// A frame named `missed` says that changes were left out, because there were too many or the
/// client was too slow: list the runs again. There is nothing to resume: after a reconnect, list
/// the runs again. A client that lists the runs after the stream has opened misses nothing.
#[utoipa::path(
    get,
    path = "/v1/runs/changes",
    responses((status = 200, description = "The lines of runs that change. The stream has no end",
        content((RunLine = "text/event-stream"))))
)]
async fn changes(State(app): State<App>, caller: Caller) -> Result<HttpResponse> {
    let changes = app.runs().changes(caller.tenant()).await?;
    Ok(event_stream(&app, changes.map(Ok), |out, change| match change {
        RunChange::Run(run) => SseFrame::begin(out).event("run").json(&RunLine::from(&*run)),
        RunChange::Missed => SseFrame::begin(out).event("missed").data("{}"),
    }))
}
