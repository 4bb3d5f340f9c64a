//! `POST /v1/chat/completions`: the other dialect of the official clients.
//!
//! A request is translated into one of the Responses API and handled like one. What differs is the
//! projection, and that a client of this dialect cannot return to a run: it cannot resume a stream,
//! no person can answer an approval in the next request, and a stream that must end early ends with
//! an error.

mod field_names;
mod messages;
mod request;
mod tools;

use std::{
    collections::{BTreeSet, HashSet},
    task::{Poll, ready},
};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use turnwire_contract::{Approvals, JournalError, RunRequest};
use turnwire_surfaces::{
    ChatCompletion, ChatCompletions, CompletionFrame, CompletionOptions, Profile,
    chat_completions::ChatCompletionChunk, responses::surface_data::IGNORED,
};
use utoipa::ToSchema;

use self::request::Translated;
pub(crate) use self::request::translate;
use crate::{
    ApiError, App, Caller, Json, QueryParams, Result,
    failed_run::{FailedRun, FailedRunBody},
    idempotency::{IdempotencyKeyHeader, KeyedBody},
    responses::{CreateOptions, ProfileParams, create_once, profile, request as run_request},
    sse::{EarlyEnd, SseFrame, event_stream_with, write_done},
    streaming::{ProjectedFrame, guarded, project_to_end, watched_frames},
};

module_routes! { [create] }

/// Request body of `POST /v1/chat/completions`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
struct CreateChatCompletion {
    /// Name of the model. Default: the default model of the server.
    model: Option<String>,
    /// The conversation so far, with the roles `system`, `developer`, `user`, `assistant` and
    /// `tool`. The content of a message is a string, or a list of `text`, `image_url` and `file`
    /// parts.
    #[schema(value_type = Vec<Object>, min_items = 1)]
    messages: Vec<Value>,
    /// Stream the answer as server-sent events. Default: false.
    stream: Option<bool>,
    /// Options for streaming: `include_usage`.
    #[schema(value_type = Option<Object>)]
    stream_options: Option<Value>,
    /// Tools the model may call. Calls of a `function` or `custom` tool go to the client; those of
    /// `mcp`, `web_search` and `file_search` are executed by the server.
    #[schema(value_type = Vec<Object>, required = false)]
    tools: Vec<Value>,
    /// Whether the model calls tools: `auto`, `required` or `none`, or an object that names a tool
    /// or a set of allowed tools. Default: `auto`.
    tool_choice: Option<Value>,
    /// Whether calls of one turn may be executed in parallel. Default: true.
    parallel_tool_calls: Option<bool>,
    /// Settings of a web search. Adds the search to the tools.
    #[schema(value_type = Option<Object>)]
    web_search_options: Option<Value>,
    /// Format of the answer: an object of the type `text`, `json_object` or `json_schema`.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// Maximum number of tokens the model may generate in one turn.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u32>,
    /// Older name of `max_completion_tokens`.
    #[schema(minimum = 1)]
    max_tokens: Option<u32>,
    /// Reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    reasoning_effort: Option<String>,
    /// Length of the answer: `low`, `medium` or `high`.
    verbosity: Option<String>,
    /// Sampling temperature, 0 to 2.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Penalty for tokens by how often they occurred, −2 to 2.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Penalty for tokens that occurred, −2 to 2.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Up to 4 texts that end the answer: a string, or a list of strings.
    stop: Option<Value>,
    /// Seed for sampling.
    seed: Option<i64>,
    /// Return log probabilities of the tokens of the answer. Default: false.
    logprobs: Option<bool>,
    /// Number of most likely tokens to return for each token, 0 to 20.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// Must be 1.
    #[schema(minimum = 1, maximum = 1)]
    n: Option<u32>,
    /// Must be `["text"]`.
    modalities: Option<Vec<String>>,
    /// Up to 16 key-value pairs. Keys have up to 64 characters, values up to 512.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Keep the run after its end, so that it can be read at `/v1/runs`. Default: false.
    store: Option<bool>,
    /// ID of the end user, passed to the model provider.
    user: Option<String>,
    /// Stable ID of the end user, passed to the model provider.
    safety_identifier: Option<String>,
    /// Key of the prompt cache, passed to the model provider.
    prompt_cache_key: Option<String>,
    /// Retention of the prompt cache, passed to the model provider.
    prompt_cache_retention: Option<String>,
    /// Service tier, passed to the model provider.
    service_tier: Option<String>,
    /// Maximum number of tool calls the run may execute. Cannot exceed the limit of the server.
    #[schema(minimum = 1)]
    max_tool_calls: Option<u32>,
    /// What happens to the run when the client disconnects: `continue` or `cancel`. Default:
    /// `cancel`, or `continue` with `store`.
    on_disconnect: Option<String>,
}

/// Create a chat completion.
///
/// Tools that the request names with `mcp`, `web_search` or `file_search`, and those that the model
/// brings by its settings, are executed by the server before the answer ends. A client sees only
/// the text; with the profile `extended` a stream also has their events, in the field `turnwire` of
/// chunks without choices, and calls that need an approval wait for `POST /v1/runs/{run_id}/…`.
/// Otherwise such calls are denied, and the model is told so. A failed run has a 4xx or 5xx status;
/// in a stream, it is an error frame.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    params(ProfileParams, IdempotencyKeyHeader),
    request_body = CreateChatCompletion,
    responses(
        (status = 200, description = "The completion. With `stream: true`, its chunks", content(
            (ChatCompletion = "application/json"),
            (ChatCompletionChunk = "text/event-stream"),
        )),
        (status = 400, description = "The request is invalid, or the model rejected it",
            body = FailedRunBody),
        (status = 404, description = "There is no model with this name", body = FailedRunBody),
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
async fn create(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<ProfileParams>,
    headers: HeaderMap,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse> {
    let profile = profile(&headers, &params)?;
    let Translated { body, include_usage, names, ignored } =
        translate(body, &app.options().requests)?;
    let read = run_request::read(body, &app.options().requests);
    let request = read.map_err(|error| names.in_error(error.into()))?;
    let (streams, has_key) = (request.stream == Some(true), key.is_some());
    let (options, seen) = CreateOptions::of(&request, key);
    let adjust = |run: &mut RunRequest| {
        // Only a client that sees the approval request can bring it to somebody.
        let sees_approvals = streams && profile == Profile::Extended;
        run.approvals = if sees_approvals { Approvals::Wait } else { Approvals::Decline };
        bring_tools(&app, &caller, run);
        note_ignored(run, ignored, |path| names.sent(path));
    };
    let created = create_once(&app, &caller, request, options, adjust).await;
    let (handle, guard) = created.map_err(|error| names.in_error(error))?;
    let events = handle.events().await?;
    if streams {
        let projection = ChatCompletions::new(CompletionOptions { profile, include_usage });
        let frames = guarded(watched_frames(projection, events, Some(seen)), guard);
        let early_end = early_end().of(&handle);
        return Ok(event_stream_with(&app, until_done(frames), write_frame, early_end));
    }
    let projection = ChatCompletions::new(CompletionOptions::default());
    let ended = project_to_end(projection, events).await;
    if let Some(mut guard) = guard {
        guard.disarm();
    }
    let (projection, answer) = ended?;
    Ok(match projection.completion() {
        Ok(completion) => Json(completion).into_response(),
        Err(failure) => {
            let has_acted = answer.failure_before_acting().is_none();
            let failed = FailedRun::new(&failure).after_acting(has_acted).with_key(has_key);
            let failed = if handle.is_ephemeral() { failed } else { failed.run(handle.id()) };
            failed.into_response()
        }
    })
}

/// Adds the tools of the server, if the model brings them and the request names none of them. A
/// function of the client keeps its name.
fn bring_tools(app: &App, caller: &Caller, run: &mut RunRequest) {
    let names_some = run.tools.iter().any(|tool| !tool.kind.is_run_by_client());
    if !app.options().models_with_tools.contains(&run.model)
        || names_some
        || !run.servers.is_empty()
    {
        return;
    }
    let taken: HashSet<String> = run.tools.iter().map(|tool| tool.name.clone()).collect();
    run.tools.extend(app.own_tools(caller).into_iter().filter(|tool| !taken.contains(&tool.name)));
    run.servers = app.own_servers(caller);
}

/// Lists the ignored fields under the names that the client wrote.
fn note_ignored(run: &mut RunRequest, more: Vec<String>, sent: impl Fn(&str) -> String) {
    let listed = run.surface_data.get(IGNORED).and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(Value::as_str).map(sent);
    let ignored: BTreeSet<String> = listed.chain(more).collect();
    if !ignored.is_empty() {
        run.surface_data.insert(IGNORED.to_owned(), json!(ignored));
    }
}

/// The frames up to the one that ends the stream. If that comes before the end of the run, the run
/// is cancelled like after a disconnect.
fn until_done(
    frames: impl Stream<Item = Result<ProjectedFrame<CompletionFrame>, JournalError>> + Unpin,
) -> impl Stream<Item = Result<ProjectedFrame<CompletionFrame>, JournalError>> {
    let mut frames = Some(frames);
    stream::poll_fn(move |context| {
        let Some(reading) = &mut frames else { return Poll::Ready(None) };
        let read = ready!(reading.poll_next_unpin(context));
        if matches!(read, None | Some(Err(_) | Ok((_, CompletionFrame::Done)))) {
            frames = None;
        }
        Poll::Ready(read)
    })
}

fn write_frame(out: &mut Vec<u8>, (_, frame): ProjectedFrame<CompletionFrame>) {
    match frame {
        CompletionFrame::Chunk(chunk) => SseFrame::begin(out).json(&chunk),
        CompletionFrame::Error(error) => SseFrame::begin(out).json(&error),
        CompletionFrame::Done => write_done(out),
    }
}

/// An error, because a client takes a stream that just ends for a whole answer.
fn early_end() -> EarlyEnd {
    let frame = |code, message| {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        let mut bytes = Vec::new();
        SseFrame::begin(&mut bytes).json(&error.body());
        Bytes::from(bytes)
    };
    EarlyEnd {
        closing: Some(frame(
            "shutting_down",
            "The server is shutting down; send the request again.",
        )),
        journal_lost: frame("store_unavailable", "The run cannot be read right now."),
    }
}
