//! `POST /v1/responses`: as a stream, as one object, or in the background.

use std::time::Duration;

use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response as HttpResponse},
};
use futures::StreamExt;
use tokio::{sync::watch, time::timeout};
use tracing::error;
use turnwire_contract::{
    EventStream, IdempotencyKey, JournalError, RunId, RunRequest, Seq, TenantId,
};
use turnwire_engine::{RunHandle, Runs, StartOptions};
use turnwire_surfaces::{
    Projection,
    responses::{Profile, Response, Responses, SequencedEvent},
};

use super::{
    output::{ProfileParams, profile, write_after},
    prepare::{load_prior, prepare},
    request::{self, CreateResponse},
    stored::current_response,
};
use crate::{
    api_error::{ErrorBody, Result},
    app::App,
    auth::Caller,
    failed_run::{FailedRun, FailedRunBody},
    idempotency::{IdempotencyKeyHeader, KeyedBody},
    json::Json,
    query::QueryParams,
    sse::{EarlyEnd, event_stream_with},
    streaming::{CancelOnDrop, guarded, project_to_end, watched_frames},
};

/// How long a response that is not stored is kept for a retry with the same key.
const KEPT_FOR_KEY: Duration = Duration::from_mins(1);

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
    params(ProfileParams, IdempotencyKeyHeader),
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
) -> Result<HttpResponse> {
    // Whether the client knows only the events of the Responses API, or also ours.
    let profile = profile(&headers, &params)?;
    let request = request::read(body, &app.options().requests)?;
    let (streams, stores) = (request.stream == Some(true), request.stores());
    let (in_background, has_key) = (request.background == Some(true), key.is_some());
    let (options, seen) = CreateOptions::of(&request, key);
    let (handle, guard) = create_once(&app, &caller, request, options, |_| {}).await?;
    // The reader of a new run was opened before the run began. `seen` tells the run how far it has
    // come, because a tool waits a moment for its start to reach this client (decision 006).
    let events = handle.events().await?;
    if streams {
        let frames = watched_frames(Responses::new(profile), events, Some(seen));
        let early_end = EarlyEnd::RECONNECT.of(&handle);
        return Ok(event_stream_with(&app, guarded(frames, guard), write_after(None), early_end));
    }
    if in_background && handle.already_existed() {
        return Ok(Json(current_response(&app, &caller, handle.id()).await?).into_response());
    }
    if in_background {
        return Ok(Json(queued_response(events).await?).into_response());
    }
    let ended = project_to_end(Responses::new(Profile::Strict), events).await;
    if let Some(mut guard) = guard {
        guard.disarm();
    }
    let (projection, answer) = ended?;
    let Some(failure) = answer.failure_before_acting() else {
        return Ok(Json(projection.response()).into_response());
    };
    let failed = FailedRun::new(failure).with_key(has_key);
    let failed = if stores { failed.response(handle.id()) } else { failed };
    Ok(failed.into_response())
}

/// How a response is created.
pub(crate) struct CreateOptions {
    /// The first reader of the run, and the idempotency key of the request.
    pub(crate) start: StartOptions,
    /// Whether the run is kept after its end.
    pub(crate) stores: bool,
    /// Whether the run is cancelled when the client disconnects.
    pub(crate) cancels_with_client: bool,
    /// The position of the request's own reader. Its sender is dropped when the reader is done.
    pub(crate) reader: watch::Receiver<Seq>,
}

impl CreateOptions {
    /// The options that a request asks for, and the sender of its reader's position.
    pub(crate) fn of(
        request: &CreateResponse,
        key: Option<IdempotencyKey>,
    ) -> (Self, watch::Sender<Seq>) {
        let in_background = request.background == Some(true);
        // A client with a key can retry and get the answer, so a disconnect cancels the run only
        // if the request says so.
        let comes_back = key.is_some() && request.on_disconnect.is_none();
        let cancels_with_client = request.cancels_on_disconnect() && !in_background && !comes_back;
        // Whom a tool waits for: see `LiveRun::with_first_reader`.
        let (seen, first_reader) = watch::channel(Seq::START);
        let first_reader = (request.stream == Some(true)).then_some(first_reader);
        let (stores, reader) = (request.stores(), seen.subscribe());
        let is_ephemeral = !stores && cancels_with_client;
        let start = StartOptions {
            first_reader,
            idempotency_key: key,
            is_ephemeral,
            ..StartOptions::default()
        };
        (Self { start, stores, cancels_with_client, reader }, seen)
    }
}

/// The run of a request, or the run that an earlier request with the same key created. A new run is
/// passed to `adjust` before it starts.
pub(crate) async fn create_once(
    app: &App,
    caller: &Caller,
    request: CreateResponse,
    options: CreateOptions,
    adjust: impl FnOnce(&mut RunRequest) + Send,
) -> Result<(RunHandle, Option<CancelOnDrop>)> {
    let (tenant, key) = (caller.tenant(), options.start.idempotency_key.clone());
    if let Some(handle) = app.find_by_key(tenant, key.as_ref()).await? {
        return Ok((handle, None));
    }
    let prepared = async {
        let prior = load_prior(app, caller, &request).await?;
        prepare(app, caller, request, prior).await
    };
    match prepared.await {
        Ok(mut run) => {
            adjust(&mut run);
            start(app, caller, run, options).await
        }
        // The same request may have changed what was looked up in the meantime.
        Err(error) => match app.find_by_key(tenant, key.as_ref()).await? {
            Some(handle) => Ok((handle, None)),
            None => Err(error),
        },
    }
}

/// Starts the run of a response, which is deleted and cancelled as its request says.
async fn start(
    app: &App,
    caller: &Caller,
    run: RunRequest,
    options: CreateOptions,
) -> Result<(RunHandle, Option<CancelOnDrop>)> {
    let CreateOptions { start, stores, cancels_with_client, reader } = options;
    let (tenant, has_key) = (caller.tenant().clone(), start.idempotency_key.is_some());
    let then = move |app: &App, handle: &RunHandle| {
        if handle.already_existed() {
            // The request that created the run takes care of the rest.
            return None;
        }
        if !stores && !handle.is_ephemeral() {
            delete_when_over(app, &tenant, handle, has_key, reader);
        }
        cancels_with_client.then(|| CancelOnDrop::of(app.clone(), tenant, handle))
    };
    app.start_then(caller, run, start, then).await
}

/// Deletes a response that is not stored when its run has ended and the request's own reader has
/// read it; with a key, a little later, for retries. If this server shuts down before, whoever
/// continues the run leaves it to the retention of the store.
fn delete_when_over(
    app: &App,
    tenant: &TenantId,
    handle: &RunHandle,
    has_key: bool,
    mut reader: watch::Receiver<Seq>,
) {
    let (app, tenant, handle) = (app.clone(), tenant.clone(), handle.clone());
    let tasks = app.tasks().clone();
    tasks.spawn(Box::pin(async move {
        tokio::select! {
            biased;
            _ = handle.outcome() => {}
            () = app.draining() => return,
        }
        // A client that does not read is given up after a while, and the reader goes with it.
        let read = async { while reader.changed().await.is_ok() {} };
        tokio::select! {
            () = read => {}
            () = app.draining() => {}
        }
        if has_key {
            let _ = timeout(KEPT_FOR_KEY, app.closing().cancelled()).await;
        }
        delete(app.runs(), &tenant, handle.id()).await;
    }));
}

pub(super) async fn delete(runs: &Runs, tenant: &TenantId, run_id: &RunId) {
    if let Err(error) = runs.delete(tenant, run_id).await {
        error!(%error, %run_id, "failed to delete run");
    }
}

/// The response right after its run was queued, for background requests.
async fn queued_response(mut events: EventStream) -> Result<Response> {
    let mut projection = Responses::new(Profile::Strict);
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        if matches!(recorded.event, turnwire_contract::Event::RunQueued { .. }) {
            return Ok(projection.response());
        }
    }
    Err(JournalError::Unavailable("the journal is empty".to_owned()).into())
}
