//! `POST /chat` and `POST /chat/stream`: send a message, get the answer, as one JSON object or as a
//! stream.
//!
//! Both use the same conversations as every other surface; `session_id` is a conversation ID. A run
//! does not depend on its reader: after a disconnect the answer is in the conversation, and a
//! client that reconnects with `Last-Event-ID` resumes after that frame.

use std::pin::pin;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use turnwire_contract::{Approvals, ConversationId, Event, EventStream, RunId, Scope, Seq};
use turnwire_engine::StartOptions;
use turnwire_surfaces::{
    Answer, ChatAnswer, ChatStream, ChatStreamFrame, ChatStreamOptions, Cursor, FrameAt,
    WithCursors,
};
use utoipa::IntoParams;

use crate::{
    ApiError, App, Caller, Json, QueryParams, Result,
    chat_message::ChatMessage,
    failed_run::{FailedRun, FailedRunBody, RUN_ID},
    idempotency::{IdempotencyKeyHeader, KeyedBody},
    sse::{SseFrame, event_stream},
    streaming::{check_cursor, follow_while_it_runs, frames, watched_frames},
};

/// Header with the ID of the last frame that a client received.
const LAST_EVENT_ID: &str = "Last-Event-ID";

module_routes! { [chat] [chat_stream, resume] }

/// Send a message and get the answer as one JSON object.
///
/// Calls that need an approval are denied, and tools cannot ask the user. Use `/chat/stream` for
/// both.
#[utoipa::path(
    post,
    path = "/chat",
    params(IdempotencyKeyHeader),
    request_body = ChatMessage,
    responses(
        (status = 200, description = "The answer", body = ChatAnswer),
        (status = 409, description = "The conversation already has a run in progress"),
        (status = 400, description = "The request is invalid, or the model rejected it",
            body = FailedRunBody),
        (status = 429, description = "The model provider's rate limit was reached",
            body = FailedRunBody),
        (status = 500, description = "The run failed with an error that a retry does not resolve",
            body = FailedRunBody),
        (status = 502, description = "The run ended without an answer"),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped responding", body = FailedRunBody),
    )
)]
async fn chat(
    State(app): State<App>,
    caller: Caller,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse> {
    let message = ChatMessage::read(body)?;
    message.refuse_what_needs_a_stream()?;
    let has_key = key.is_some();
    let handle = if let Some(handle) = app.find_by_key(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let mut run = message.into_run(&app, &caller).await?;
        run.approvals = Approvals::Decline;
        app.start(&caller, run, StartOptions { idempotency_key: key, ..StartOptions::default() })
            .await?
    };
    let (mut answer, mut session) = (Answer::default(), None);
    let mut events = handle.events_when_over().await?;
    while let Some(recorded) = events.try_next().await? {
        // Set also if an earlier request with the same key created the run.
        if let Event::RunQueued { request } = &recorded.event {
            session.clone_from(&request.conversation_id);
        }
        answer.note(&recorded);
    }
    if let Some(failure) = answer.failure_before_acting() {
        let failed = FailedRun::new(failure).with_key(has_key).run(handle.id());
        return Ok(failed.into_response());
    }
    let session = session.unwrap_or_else(|| ConversationId::new(""));
    let answer = ChatAnswer::of(&answer, session);
    let answer = answer.map(|answer| Json(answer).into_response());
    answer.map_err(|why| ApiError::new(StatusCode::BAD_GATEWAY, "no_answer", why))
}

/// Send a message and stream the run as server-sent events.
///
/// With a `Last-Event-ID` header the request resumes an earlier stream and starts no run.
#[utoipa::path(
    post,
    path = "/chat/stream",
    request_body = ChatMessage,
    params(IdempotencyKeyHeader, ("Last-Event-ID" = Option<String>, Header, description = "Resumes the \
            stream after this frame. Of the body, only `tokens`, `approvals` and `inputs` are \
            used")),
    responses(
        (status = 200, description = "The frames of the run, as server-sent events", content(
            (ChatStreamFrame = "text/event-stream"),
        )),
        (status = 409, description = "The conversation already has a run in progress"),
    )
)]
async fn chat_stream(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Result<KeyedBody>,
) -> Result<HttpResponse> {
    if let Some(cursor) = cursor_in(&headers)? {
        caller.ensure(Scope::RunsRead)?;
        let body = body.map_or_else(|_| Value::Null, |sent| sent.body);
        let message: ChatMessage = serde_json::from_value(body).unwrap_or_default();
        return read_on(&app, &caller, cursor, message.options()).await;
    }
    let KeyedBody { body, key } = body?;
    let message = ChatMessage::read(body)?;
    let options = message.options();
    let (seen, first_reader) = watch::channel(Seq::START);
    let handle = if let Some(handle) = app.find_by_key(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let mut run = message.into_run(&app, &caller).await?;
        if !options.approvals {
            run.approvals = Approvals::Decline;
        }
        run.inputs = options.inputs;
        let start = StartOptions {
            first_reader: Some(first_reader),
            idempotency_key: key,
            ..StartOptions::default()
        };
        app.start(&caller, run, start).await?
    };
    let (run_id, events) = (handle.id().clone(), handle.events().await?);
    Ok(stream_of(&app, run_id, events, Cursor::START, options, Some(seen)))
}

/// Query parameters for resuming a stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ResumeParams {
    /// ID of the last frame received, such as `run_…:12.0`. The stream continues after it. The
    /// `Last-Event-ID` header does the same.
    after: Option<String>,
    /// Send text deltas while the model generates them. Default: false.
    #[serde(default)]
    tokens: bool,
    /// Send approval requests for calls that need one. Default: false.
    #[serde(default)]
    approvals: bool,
    /// Send the questions that tools ask the user. Default: false.
    #[serde(default)]
    inputs: bool,
}

/// Resume a stream after a given frame.
#[utoipa::path(
    get,
    path = "/chat/stream",
    params(ResumeParams, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 200,
            description = "The frames after the given one, as server-sent events", content(
            (ChatStreamFrame = "text/event-stream"),
        )),
        (status = 204,
            description = "With `Last-Event-ID`: the run has ended and no frames follow"),
        (status = 404, description = "There is no run with this ID"),
    )
)]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<ResumeParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let options = ChatStreamOptions {
        tokens: params.tokens,
        approvals: params.approvals,
        inputs: params.inputs,
    };
    let Some(cursor) = cursor_in(&headers)? else {
        let cursor = parse_cursor(params.after.as_deref().unwrap_or_default(), "after")?;
        return read_on(&app, &caller, cursor, options).await;
    };
    if is_at_the_end(&app, &caller, &cursor, options).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    read_on(&app, &caller, cursor, options).await
}

/// Whether the run has ended and no frame follows the cursor. An `EventSource` reconnects for ever
/// unless it gets a 204.
async fn is_at_the_end(
    app: &App,
    caller: &Caller,
    (run_id, after): &(RunId, Cursor),
    options: ChatStreamOptions,
) -> Result<bool> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    let head = runs.head(tenant, run_id).await?;
    if !head.is_over || after.seq != head.last {
        return Ok(false);
    }
    let events = runs.stored(tenant, run_id).await?;
    let mut frames = pin!(frames(WithCursors::new(ChatStream::new(options)), events));
    while let Some((_, placed)) = frames.try_next().await? {
        if placed.cursor.is_after(*after) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The run and cursor from the `Last-Event-ID` header.
fn cursor_in(headers: &HeaderMap) -> Result<Option<(RunId, Cursor)>> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    header.map(|text| parse_cursor(text, LAST_EVENT_ID)).transpose()
}

fn parse_cursor(text: &str, param: &str) -> Result<(RunId, Cursor)> {
    let cursor = text.rsplit_once(':').and_then(|(run, cursor)| Some((run, cursor.parse().ok()?)));
    cursor.map(|(run, cursor)| (RunId::new(run), cursor)).ok_or_else(|| {
        let message = format!("`{param}` must be the id of a frame, such as `run_…:12.0`.");
        ApiError::bad_request("invalid_cursor", message).about(param)
    })
}

async fn read_on(
    app: &App,
    caller: &Caller,
    (run_id, after): (RunId, Cursor),
    options: ChatStreamOptions,
) -> Result<HttpResponse> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    check_cursor(runs, tenant, &run_id, after.seq, LAST_EVENT_ID).await?;
    let events = follow_while_it_runs(runs, tenant, &run_id, Seq::START).await?;
    Ok(stream_of(app, run_id, events, after, options, None))
}

fn stream_of(
    app: &App,
    run_id: RunId,
    events: EventStream,
    after: Cursor,
    options: ChatStreamOptions,
    seen: Option<watch::Sender<Seq>>,
) -> HttpResponse {
    // Lets a client cancel or follow the run before its first frame.
    let name = HeaderValue::try_from(run_id.as_str());
    let frames = watched_frames(WithCursors::new(ChatStream::new(options)), events, seen);
    let mut response = event_stream(app, frames, move |out, (_, FrameAt { cursor, frame })| {
        if cursor.is_after(after) {
            SseFrame::begin(out).id(format_args!("{run_id}:{cursor}")).json(&frame);
        }
    });
    if let Ok(name) = name {
        response.headers_mut().insert(RUN_ID, name);
    }
    response
}
