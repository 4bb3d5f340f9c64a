//! The chunks on their way to the client, and the routes that resume and stop a chat.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use tokio::{sync::watch, time::timeout};
use turnwire_contract::{EventStream, JournalError, RunId, Seq, StoreError};
use turnwire_surfaces::{
    Projection,
    ai_sdk::{AiSdk, AiSdkFrame, Dialect, Span, StreamName, UiChunk},
};
use utoipa::IntoParams;

use super::{SURFACE_DATA_KEY, Sdk, SdkParams, conversation::Chat};
use crate::{
    ApiError, App, Caller, Json, PathParams, QueryParams, Result,
    runs::CommandResult,
    sse::{BrokenStream, SseFrame, breaking_event_stream, write_done},
    streaming::{ProjectedFrame, cursor_ahead, follow_while_it_runs, watched_frames},
};

/// Time after which nothing but people is awaited. What is recorded together arrives together.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

const UI_MESSAGE_STREAM: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
const STREAM_NAME: HeaderName = HeaderName::from_static("x-workflow-run-id");
const TAIL_INDEX: HeaderName = HeaderName::from_static("x-workflow-stream-tail-index");

/// A stream to be sent.
pub(super) struct Reading {
    pub(super) name: StreamName,
    /// All events of the run, from the first on.
    pub(super) events: EventStream,
    /// Number of chunks that the client has.
    pub(super) skip: u64,
    /// Receives the position of the first reader.
    pub(super) seen: Option<watch::Sender<Seq>>,
}

/// Sends the chunks of a stream, and `[DONE]` after the last.
pub(super) fn chunk_stream(app: &App, reading: Reading) -> HttpResponse {
    let name = reading.name.to_string();
    let skip = reading.skip;
    // A page takes a stream that just ends for a whole answer.
    let chunks = chunks(reading).map_err(|_: JournalError| BrokenStream);
    let mut index = 0;
    let mut response = breaking_event_stream(app, chunks, move |out, chunk| {
        if index >= skip {
            SseFrame::begin(out).json(&chunk);
        }
        if chunk.is_last() {
            write_done(out);
        }
        index += 1;
    });
    let headers = response.headers_mut();
    headers.insert(UI_MESSAGE_STREAM, HeaderValue::from_static("v1"));
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(STREAM_NAME, name);
    }
    response
}

/// All chunks of a stream, those that the client has too. Ends after the last, or with an error if
/// the journal cannot be read.
pub(super) fn chunks(
    reading: Reading,
) -> impl Stream<Item = Result<UiChunk, JournalError>> + Send + 'static {
    let Reading { name, events, seen, .. } = reading;
    let frames = watched_frames(AiSdk::new(name.dialect, name.span), events, seen);
    let reader = ChunkReader {
        frames: Box::pin(frames),
        closing: None,
        ready: VecDeque::new(),
        is_over: false,
    };
    stream::unfold(reader, ChunkReader::next)
}

type Frames = Pin<Box<dyn Stream<Item = Result<ProjectedFrame<AiSdkFrame>, JournalError>> + Send>>;

struct ChunkReader {
    frames: Frames,
    /// The end of the stream if nothing follows.
    closing: Option<Vec<UiChunk>>,
    ready: VecDeque<UiChunk>,
    is_over: bool,
}

impl ChunkReader {
    async fn next(mut self) -> Option<(Result<UiChunk, JournalError>, Self)> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                self.is_over = chunk.is_last();
                return Some((Ok(chunk), self));
            }
            if self.is_over {
                return None;
            }
            let next = if let Some(closing) = self.closing.take() {
                let Ok(next) = timeout(SETTLED_AFTER, self.frames.next()).await else {
                    self.ready.extend(closing);
                    continue;
                };
                next
            } else {
                self.frames.next().await
            };
            match next? {
                Ok((_, AiSdkFrame::Chunk(chunk))) => self.ready.push_back(chunk),
                Ok((_, AiSdkFrame::AwaitsPeople(closing))) => self.closing = Some(closing),
                Err(error) => {
                    self.is_over = true;
                    return Some((Err(error), self));
                }
            }
        }
    }
}

/// Query parameters for resuming a stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct ResumeParams {
    /// Major version of the `ai` package that reads the stream. Default: that of the request that
    /// started the run.
    #[param(inline)]
    sdk: Option<Sdk>,
    /// Number of chunks that the client has received. The stream continues after them. A negative
    /// number counts from the end; `x-workflow-stream-tail-index` is the index of the last chunk
    /// then. Default: 0.
    start_index: Option<i64>,
}

/// Resume the stream of a chat or of a run.
///
/// With the ID of a chat, the message in progress is sent from its start. With the name of a stream
/// (`x-workflow-run-id`), the chunks after `startIndex` are sent, also after the end of the run.
#[utoipa::path(
    get,
    path = "/ai-sdk/chat/{chat_id}/stream",
    params(("chat_id" = String, Path, description = "ID of the chat, or name of a stream"),
        ResumeParams),
    responses(
        (status = 200, description = "The chunks, as server-sent events",
            content((UiChunk = "text/event-stream"))),
        (status = 204, description = "The chat has no run in progress"),
    )
)]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<ResumeParams>,
) -> Result<HttpResponse> {
    let dialect = SdkParams { sdk: params.sdk }.dialect();
    if params.start_index.is_some() {
        let name = StreamName::read(&id, dialect.unwrap_or_default());
        match app.runs().find(caller.tenant(), &name.run_id).await {
            Ok(_) => return read_on(&app, &caller, name, params.start_index).await,
            // A transport that has no name of a stream sends the ID of its chat.
            Err(StoreError::NotFound(_)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    match in_progress(&app, &caller, &id, dialect).await? {
        Some(name) => read_on(&app, &caller, name, params.start_index).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The stream of a chat's run in progress, from the start of its message.
pub(super) async fn in_progress(
    app: &App,
    caller: &Caller,
    chat_id: &str,
    dialect: Option<Dialect>,
) -> Result<Option<StreamName>> {
    let chat = Chat::find(app, caller, chat_id).await?;
    let Some(run_id) = chat.active_run(app, caller).await? else { return Ok(None) };
    let dialect = match dialect {
        Some(dialect) => dialect,
        None => dialect_of(app, caller, &run_id).await?,
    };
    let first = StreamName { run_id, dialect, span: Span::default() };
    let Progress { segment, .. } = progress(app, caller, &first).await?;
    Ok(Some(StreamName { span: Span::up_to(segment), ..first }))
}

/// The dialect of the page that started the run.
async fn dialect_of(app: &App, caller: &Caller, run_id: &RunId) -> Result<Dialect> {
    let record = app.runs().find(caller.tenant(), run_id).await?;
    let kept = record.request.surface_data.get(SURFACE_DATA_KEY).map(ToString::to_string);
    Ok(kept.and_then(|kept| kept.parse().ok()).unwrap_or_default())
}

/// How far a stream has come.
struct Progress {
    /// Number of chunks so far.
    n_chunks: u64,
    /// The current segment of the run.
    segment: u32,
}

async fn progress(app: &App, caller: &Caller, name: &StreamName) -> Result<Progress> {
    let mut events = app.runs().stored(caller.tenant(), &name.run_id).await?;
    let mut projection = AiSdk::new(name.dialect, name.span);
    let (mut n_chunks, mut n_closing) = (0, 0);
    while let Some(recorded) = events.try_next().await? {
        for frame in projection.project(&recorded) {
            match frame {
                AiSdkFrame::Chunk(_) => (n_chunks, n_closing) = (n_chunks + 1, 0),
                AiSdkFrame::AwaitsPeople(closing) => n_closing = closing.len() as u64,
            }
        }
    }
    Ok(Progress { n_chunks: n_chunks + n_closing, segment: projection.segment() })
}

async fn read_on(
    app: &App,
    caller: &Caller,
    name: StreamName,
    start_index: Option<i64>,
) -> Result<HttpResponse> {
    let Progress { n_chunks, segment } = progress(app, caller, &name).await?;
    // A segment starts with the answer that ends the one before it, which may not be recorded yet.
    if name.span.first > segment + 1 {
        return Err(ApiError::not_found("Stream", &name.to_string()));
    }
    let start_index = start_index.unwrap_or_default();
    let counts_back = start_index < 0;
    let distance = start_index.unsigned_abs();
    let skip = if counts_back { n_chunks.saturating_sub(distance) } else { distance };
    if skip > n_chunks {
        return Err(cursor_ahead(skip, "startIndex"));
    }
    let mut response = chunk_stream(app, reading_of(app, caller, name, skip).await?);
    if counts_back {
        let tail = n_chunks.saturating_sub(1);
        response.headers_mut().insert(TAIL_INDEX, HeaderValue::from(tail));
    }
    Ok(response)
}

/// A stream of a run, without its first `skip` chunks.
pub(super) async fn reading_of(
    app: &App,
    caller: &Caller,
    name: StreamName,
    skip: u64,
) -> Result<Reading> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    let events = follow_while_it_runs(runs, tenant, &name.run_id, Seq::START).await?;
    Ok(Reading { name, events, skip, seen: None })
}

/// Stop the run in progress of a chat.
///
/// `stop()` of the AI SDK only closes the connection. A page that wants the run to end calls this.
#[utoipa::path(
    post,
    path = "/ai-sdk/chat/{chat_id}/stop",
    responses(
        (status = 200, description = "The run is being cancelled", body = CommandResult),
        (status = 204, description = "The chat has no run in progress"),
    )
)]
pub(super) async fn stop(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<HttpResponse> {
    let chat = Chat::find(&app, &caller, &id).await?;
    let Some(run_id) = chat.active_run(&app, &caller).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let done = app.cancel(&caller, &run_id).await?;
    Ok(Json(CommandResult { run_id: run_id.to_string(), done }).into_response())
}
