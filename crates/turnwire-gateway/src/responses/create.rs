//! `POST /v1/responses`: as a stream, as one answer, or in the background.

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
use turnwire_contract::{EventStream, LogError, RunId, RunRequest, Seq, TenantId};
use turnwire_engine::{RunHandle, Runs, Start};
use turnwire_surfaces::{
    Answer, Projection,
    responses::{Profile, Response, ResponseEvent, Responses},
    wire_json,
};
use utoipa::IntoParams;

use super::{
    prepare::{look_back, prepare},
    request::{self, CreateResponse},
    stored::as_it_is,
};
use crate::{
    app::App,
    body::Json,
    door::Caller,
    failed_run::{FailedRun, FailedRunBody},
    idempotency::{IdempotencyKey, KeyedBody},
    query::Asked,
    refusal::{ErrorBody, Refusal},
    sse::{SseFrame, event_stream},
    streaming::{CancelWhenDropped, Told, frames, told_frames},
};

/// How a client asks for events beyond the official ones.
const PROFILE_HEADER: &str = "turnwire-profile";

/// How long a response that is not stored is kept for those who send its request again.
const KEPT_FOR_KEY: Duration = Duration::from_mins(1);

/// The profile in the address.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ProfileWish {
    /// `strict` or `extended`.
    pub(super) profile: Option<String>,
}

/// The profile that a request asks for, by header or in its address (R1).
pub(super) fn profile(headers: &HeaderMap, wish: &ProfileWish) -> Result<Profile, Refusal> {
    let header = headers.get(PROFILE_HEADER).and_then(|value| value.to_str().ok());
    match header.or(wish.profile.as_deref()) {
        None | Some("strict") => Ok(Profile::Strict),
        Some("extended") => Ok(Profile::Extended),
        Some(other) => {
            let message = format!("There is no profile '{other}'; there are strict and extended.");
            Err(Refusal::bad_request("invalid_value", message).about("profile"))
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "responses",
    params(ProfileWish, IdempotencyKey),
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "The response; with `stream: true` its events", content(
            (Response = "application/json"),
            (ResponseEvent = "text/event-stream"),
        )),
        (status = 409, description = "The conversation is busy, or the previous response is not \
            finished", body = ErrorBody),
        (status = 429, description = "The model is asked too often; only without `stream` and \
            `background`, and only if no tool has acted, like the others below",
            body = FailedRunBody),
        (status = 500, description = "The run failed, and would again", body = FailedRunBody),
        (status = 502, description = "The model's answer broke off", body = FailedRunBody),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped answering", body = FailedRunBody),
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<ProfileWish>,
    headers: HeaderMap,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse, Refusal> {
    let profile = profile(&headers, &wish)?;
    let request = request::read(body, &app.options().requests)?;
    let (streams, stores) = (request.stream == Some(true), request.stores());
    let in_background = request.background == Some(true);
    // Whoever has a key can come back for the answer, and asks for it to be given up if not.
    let has_key = key.is_some();
    let comes_back = has_key && request.on_disconnect.is_none();
    let goes_with_client = request.cancels_on_disconnect() && !in_background && !comes_back;
    let (seen, watcher) = watch::channel(Seq::START);
    let start = Start { watcher: streams.then_some(watcher), key, ..Start::default() };
    let manner = Manner { start, stores, goes_with_client };
    let (handle, guard) = made_once(&app, &caller, request, manner).await?;
    let events = handle.events().await?;
    if streams {
        let frames =
            wire_frames(told_frames(Responses::new(profile), events, Some(seen)), None, guard);
        return Ok(event_stream(&app, frames));
    }
    if in_background && handle.was_there() {
        return Ok(Json(as_it_is(&app, &caller, handle.id()).await?).into_response());
    }
    if in_background {
        return Ok(Json(as_it_begins(events).await?).into_response());
    }
    let ended = to_its_end(events).await;
    if let Some(mut guard) = guard {
        guard.let_go();
    }
    let (response, answer) = ended?;
    let Some(failure) = answer.failure_before_acting() else {
        return Ok(Json(response).into_response());
    };
    let failed = FailedRun::new(failure).with_key(has_key);
    let failed = if stores { failed.response(handle.id()) } else { failed };
    Ok(failed.into_response())
}

/// How a response is made, beside what it is.
struct Manner {
    /// With whom who watches it, and with the key of its request.
    start: Start,
    stores: bool,
    goes_with_client: bool,
}

/// The run of a request, or the one that the same request has made before.
async fn made_once(
    app: &App,
    caller: &Caller,
    request: CreateResponse,
    manner: Manner,
) -> Result<(RunHandle, Option<CancelWhenDropped>), Refusal> {
    let (tenant, key) = (caller.tenant(), manner.start.key.clone());
    if let Some(handle) = app.made_before(tenant, key.as_ref()).await? {
        return Ok((handle, None));
    }
    let prepared = async {
        let before = look_back(app, caller, &request).await?;
        prepare(app, caller, request, before).await
    };
    match prepared.await {
        Ok(run) => begin(app, caller, run, manner).await,
        // What was looked up may have been changed in the meantime by the very same request.
        Err(refusal) => match app.made_before(tenant, key.as_ref()).await? {
            Some(handle) => Ok((handle, None)),
            None => Err(refusal),
        },
    }
}

/// Starts the run of a response, in a task of its own: a client that hangs up meanwhile must
/// not leave a run behind that nobody stops and nobody forgets. What the task gives back is
/// dropped when nobody waits for it, and the guard with it.
async fn begin(
    app: &App,
    caller: &Caller,
    run: RunRequest,
    manner: Manner,
) -> Result<(RunHandle, Option<CancelWhenDropped>), Refusal> {
    let (app, caller) = (app.clone(), caller.clone());
    let tenant = caller.tenant().clone();
    let tasks = app.tasks().clone();
    let begun = tasks.spawn(async move {
        let has_key = manner.start.key.is_some();
        let handle = app.start(&caller, run, manner.start).await?;
        if handle.was_there() {
            // Whoever made it sees to the rest.
            return Ok((handle, None));
        }
        if !manner.stores {
            forget_when_over(&app, &tenant, &handle, has_key);
        }
        let guard = manner
            .goes_with_client
            .then(|| CancelWhenDropped::new(app.clone(), tenant, handle.id().clone()));
        Ok((handle, guard))
    });
    outcome_of(begun).await
}

/// What came of a task.
pub(super) async fn outcome_of<T>(task: JoinHandle<Result<T, Refusal>>) -> Result<T, Refusal> {
    task.await.unwrap_or_else(|error| {
        error!(%error, "A task fell over.");
        let message = "Something went wrong in the server; its log says what.";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
    })
}

/// A response that is not stored is forgotten as soon as it is over; one whose request has a
/// key a little later, for those who send it again. One that goes on elsewhere is left to the
/// store, which forgets everything in time.
fn forget_when_over(app: &App, tenant: &TenantId, handle: &RunHandle, has_key: bool) {
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
        forget(app.runs(), &tenant, handle.id()).await;
    });
}

pub(super) async fn forget(runs: &Runs, tenant: &TenantId, run_id: &RunId) {
    if let Err(error) = runs.forget(tenant, run_id).await {
        error!(%error, %run_id, "A run that should be forgotten was not.");
    }
}

/// The response when its run has begun: what a client in a hurry gets.
async fn as_it_begins(mut events: EventStream) -> Result<Response, Refusal> {
    let mut projection = Responses::new(Profile::Strict);
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        if matches!(recorded.event, turnwire_contract::Event::RunQueued { .. }) {
            return Ok(projection.response());
        }
    }
    Err(LogError::Unavailable("the journal ended before it began".to_owned()).into())
}

/// The response when its run is over, and what came of the run.
pub(super) async fn to_its_end(mut events: EventStream) -> Result<(Response, Answer), Refusal> {
    let (mut projection, mut answer) = (Responses::new(Profile::Strict), Answer::default());
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        answer.note(&recorded);
    }
    Ok((projection.response(), answer))
}

/// The events of a response as a stream, from the one after `after` on.
pub(super) fn stream_of(
    app: &App,
    profile: Profile,
    events: EventStream,
    after: Option<u64>,
) -> HttpResponse {
    event_stream(app, wire_frames(frames(Responses::new(profile), events), after, None))
}

fn wire_frames(
    frames: impl Stream<Item = Result<Told<ResponseEvent>, LogError>> + Send,
    after: Option<u64>,
    mut guard: Option<CancelWhenDropped>,
) -> impl Stream<Item = Result<Bytes, LogError>> + Send {
    let is_new = move |frame: &ResponseEvent| after.is_none_or(|n| frame.sequence_number() > n);
    frames.flat_map(move |told| {
        let ends = told.as_ref().map_or(true, |(_, frame)| is_terminal(frame));
        // A client that is sent away because the journal is lost has not gone.
        if ends && let Some(guard) = &mut guard {
            guard.let_go();
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

fn wire_frame(frame: &ResponseEvent) -> Bytes {
    SseFrame { event: Some(frame.event_type()), id: None, data: wire_json(frame) }.bytes()
}

/// Whether nothing follows.
pub(super) fn is_terminal(frame: &ResponseEvent) -> bool {
    matches!(
        frame,
        ResponseEvent::Completed(_) | ResponseEvent::Failed(_) | ResponseEvent::Incomplete(_)
    )
}
