//! `POST /v1/responses`: as a stream, as one object, or in the background.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde::Deserialize;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tracing::error;
use turnwire_contract::{EventStream, JournalError, RunId, RunRequest, Seq, TenantId};
use turnwire_engine::{RunHandle, Runs, Start};
use turnwire_surfaces::{
    Answer, Projection,
    responses::{Profile, Response, ResponseEvent, Responses, SequencedEvent},
    wire_json,
};
use utoipa::IntoParams;

use super::{
    prepare::{load_prior, prepare},
    request::{self, CreateResponse},
    stored::current_response,
};
use crate::{
    api_error::{ApiError, ErrorBody},
    app::App,
    auth::Caller,
    body::Json,
    failed_run::{FailedRun, FailedRunBody},
    idempotency::{IdempotencyKey, KeyedBody},
    query::QueryParams,
    sse::{SseFrame, event_stream},
    streaming::{CancelOnDrop, ProjectedFrame, frames, watched_frames},
};

/// Header that selects the profile.
const PROFILE_HEADER: &str = "turnwire-profile";

/// How long a response that is not stored is kept for a retry with the same key.
const KEPT_FOR_KEY: Duration = Duration::from_mins(1);

/// The profile as a query parameter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ProfileParams {
    /// Set of stream events: `strict` sends only official event types, `extended` adds Turnwire's
    /// own. The `Turnwire-Profile` header takes precedence. Default: `strict`.
    pub(super) profile: Option<String>,
}

/// The profile of a request, from its header or query (R1).
pub(super) fn profile(headers: &HeaderMap, params: &ProfileParams) -> Result<Profile, ApiError> {
    let header = headers.get(PROFILE_HEADER).and_then(|value| value.to_str().ok());
    match header.or(params.profile.as_deref()) {
        None | Some("strict") => Ok(Profile::Strict),
        Some("extended") => Ok(Profile::Extended),
        Some(other) => {
            let message = format!("There is no profile '{other}'; there are strict and extended.");
            Err(ApiError::bad_request("invalid_value", message).about("profile"))
        }
    }
}

/// Create a response.
///
/// With `stream: true` the events are sent as server-sent events. With `background: true` the
/// response is returned at once and the run continues. A 4xx or 5xx status for a failed run is only
/// used without `stream` and `background`, and only if no tool was executed; otherwise the response
/// has the status `failed`.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "responses",
    params(ProfileParams, IdempotencyKey),
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "The response. With `stream: true`, its events", content(
            (Response = "application/json"),
            (SequencedEvent = "text/event-stream"),
        )),
        (status = 409,
            description = "The conversation already has a run in progress, or the previous \
                    response is still in progress",
            body = ErrorBody),
        (status = 429,
            description = "The model provider's rate limit was reached, or a concurrency limit",
            body = FailedRunBody),
        (status = 500, description = "The run failed with an error that a retry does not resolve",
            body = FailedRunBody),
        (status = 502, description = "The model's output ended unexpectedly", body = FailedRunBody),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped responding", body = FailedRunBody),
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<ProfileParams>,
    headers: HeaderMap,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse, ApiError> {
    let profile = profile(&headers, &params)?;
    let request = request::read(body, &app.options().requests)?;
    let (streams, stores) = (request.stream == Some(true), request.stores());
    let in_background = request.background == Some(true);
    // A client with a key can retry and get the answer, so a disconnect cancels the run only if the
    // request says so.
    let has_key = key.is_some();
    let comes_back = has_key && request.on_disconnect.is_none();
    let cancels_with_client = request.cancels_on_disconnect() && !in_background && !comes_back;
    let (seen, watcher) = watch::channel(Seq::START);
    let start = Start { watcher: streams.then_some(watcher), key, ..Start::default() };
    let options = CreateOptions { start, stores, cancels_with_client };
    let (handle, guard) = create_once(&app, &caller, request, options).await?;
    let events = handle.events().await?;
    if streams {
        let frames =
            wire_frames(watched_frames(Responses::new(profile), events, Some(seen)), None, guard);
        return Ok(event_stream(&app, frames));
    }
    if in_background && handle.already_existed() {
        return Ok(Json(current_response(&app, &caller, handle.id()).await?).into_response());
    }
    if in_background {
        return Ok(Json(queued_response(events).await?).into_response());
    }
    let ended = final_response(events).await;
    if let Some(mut guard) = guard {
        guard.disarm();
    }
    let (response, answer) = ended?;
    let Some(failure) = answer.failure_before_acting() else {
        return Ok(Json(response).into_response());
    };
    let failed = FailedRun::new(failure).with_key(has_key);
    let failed = if stores { failed.response(handle.id()) } else { failed };
    Ok(failed.into_response())
}

/// How a response is created.
struct CreateOptions {
    /// The watcher of the run, and the key of the request.
    start: Start,
    stores: bool,
    cancels_with_client: bool,
}

/// The run of a request, or the run that an earlier request with the same key created.
async fn create_once(
    app: &App,
    caller: &Caller,
    request: CreateResponse,
    options: CreateOptions,
) -> Result<(RunHandle, Option<CancelOnDrop>), ApiError> {
    let (tenant, key) = (caller.tenant(), options.start.key.clone());
    if let Some(handle) = app.find_by_key(tenant, key.as_ref()).await? {
        return Ok((handle, None));
    }
    let prepared = async {
        let prior = load_prior(app, caller, &request).await?;
        prepare(app, caller, request, prior).await
    };
    match prepared.await {
        Ok(run) => start_detached(app, caller, run, options).await,
        // The same request may have changed what was looked up in the meantime.
        Err(error) => match app.find_by_key(tenant, key.as_ref()).await? {
            Some(handle) => Ok((handle, None)),
            None => Err(error),
        },
    }
}

/// Starts the run of a response in its own task, so that a client that disconnects meanwhile does
/// not leave a run that is never cancelled or deleted. If nothing awaits the result of the task, it
/// is dropped together with the guard.
async fn start_detached(
    app: &App,
    caller: &Caller,
    run: RunRequest,
    options: CreateOptions,
) -> Result<(RunHandle, Option<CancelOnDrop>), ApiError> {
    let (app, caller) = (app.clone(), caller.clone());
    let tenant = caller.tenant().clone();
    let tasks = app.tasks().clone();
    let begun = tasks.spawn(async move {
        let has_key = options.start.key.is_some();
        let handle = app.start(&caller, run, options.start).await?;
        if handle.already_existed() {
            // The request that created the run takes care of the rest.
            return Ok((handle, None));
        }
        if !options.stores {
            delete_when_over(&app, &tenant, &handle, has_key);
        }
        let guard = options
            .cancels_with_client
            .then(|| CancelOnDrop::new(app.clone(), tenant, handle.id().clone()));
        Ok((handle, guard))
    });
    outcome_of(begun).await
}

/// The result of a task.
pub(super) async fn outcome_of<T>(task: JoinHandle<Result<T, ApiError>>) -> Result<T, ApiError> {
    task.await.unwrap_or_else(|error| {
        error!(%error, "task panicked");
        let message = "Something went wrong in the server; its log says what.";
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
    })
}

/// Deletes a response that is not stored when its run ends; with a key, a little later, for
/// retries. A run that continues on another worker is left to the retention of the store.
fn delete_when_over(app: &App, tenant: &TenantId, handle: &RunHandle, has_key: bool) {
    let (app, tenant, handle) = (app.clone(), tenant.clone(), handle.clone());
    let tasks = app.tasks().clone();
    tasks.spawn(async move {
        tokio::select! {
            biased;
            _ = handle.outcome() => {}
            () = app.streams_end() => return,
        }
        if has_key {
            let _ = timeout(KEPT_FOR_KEY, app.closing().cancelled()).await;
        }
        delete(app.runs(), &tenant, handle.id()).await;
    });
}

pub(super) async fn delete(runs: &Runs, tenant: &TenantId, run_id: &RunId) {
    if let Err(error) = runs.delete(tenant, run_id).await {
        error!(%error, %run_id, "run not deleted");
    }
}

/// The response right after its run was queued, for background requests.
async fn queued_response(mut events: EventStream) -> Result<Response, ApiError> {
    let mut projection = Responses::new(Profile::Strict);
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        if matches!(recorded.event, turnwire_contract::Event::RunQueued { .. }) {
            return Ok(projection.response());
        }
    }
    Err(JournalError::Unavailable("the journal ended before it began".to_owned()).into())
}

/// The response after the end of its run, and the answer of the run.
pub(super) async fn final_response(
    mut events: EventStream,
) -> Result<(Response, Answer), ApiError> {
    let (mut projection, mut answer) = (Responses::new(Profile::Strict), Answer::default());
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        answer.note(&recorded);
    }
    Ok((projection.response(), answer))
}

/// The events of a response as a stream, starting after `after`.
pub(super) fn stream_of(
    app: &App,
    profile: Profile,
    events: EventStream,
    after: Option<u64>,
) -> HttpResponse {
    event_stream(app, wire_frames(frames(Responses::new(profile), events), after, None))
}

fn wire_frames(
    frames: impl Stream<Item = Result<ProjectedFrame<SequencedEvent>, JournalError>> + Send,
    after: Option<u64>,
    mut guard: Option<CancelOnDrop>,
) -> impl Stream<Item = Result<Bytes, JournalError>> + Send {
    let is_new = move |frame: &SequencedEvent| after.is_none_or(|n| frame.sequence_number > n);
    frames.flat_map(move |told| {
        let ends = told.as_ref().map_or(true, |(_, frame)| is_terminal(frame));
        // If the journal cannot be read the client is told to reconnect; that is not a disconnect.
        if ends && let Some(guard) = &mut guard {
            guard.disarm();
        }
        let (frame, done) = match told {
            Ok((_, frame)) => {
                let done = ends.then(|| SseFrame::data("[DONE]".to_owned()).bytes());
                (is_new(&frame).then(|| Ok(wire_frame(&frame))), done.map(Ok))
            }
            Err(error) => (Some(Err(error)), None),
        };
        stream::iter(frame.into_iter().chain(done))
    })
}

fn wire_frame(frame: &SequencedEvent) -> Bytes {
    SseFrame { event: Some(frame.event_type()), id: None, data: wire_json(frame) }.bytes()
}

/// Whether no event follows.
pub(super) fn is_terminal(frame: &SequencedEvent) -> bool {
    matches!(
        frame.event,
        ResponseEvent::Completed(_) | ResponseEvent::Failed(_) | ResponseEvent::Incomplete(_)
    )
}
