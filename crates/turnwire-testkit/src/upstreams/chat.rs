//! A model server: the Chat Completions API, answered by [`Scripted::by_prompt`].

use std::io;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use turnwire_contract::{Content, Item, Model, ModelError, ModelPart, ModelStream, Prompt, Role};
use turnwire_models::Scripted;

use super::{chat_chunks::Chunks, chat_request::prompt_of, visitors::Visitors};

/// The only model.
const MODEL: &str = "scripted";

pub(super) async fn models() -> Json<Value> {
    let model = json!({ "id": MODEL, "object": "model", "created": 0, "owned_by": "turnwire" });
    Json(json!({ "object": "list", "data": [model] }))
}

/// Answers as the script in the prompt says: as a stream or as a whole, with an error, or with a
/// connection that breaks.
pub(super) async fn answer(State(visitors): State<Visitors>, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return complaint(ModelError::Rejected { message: error.to_string() }),
    };
    visitors.note("/v1/chat/completions", body.clone());
    let prompt = prompt_of(&body);
    if let Some(refusal) = refusal_in(&prompt) {
        return refusal;
    }
    let is_stream = body.get("stream") == Some(&Value::Bool(true));
    let wants_usage = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    let chunks = Chunks::new(&prompt, wants_usage).with_logprobs(&body);
    match Scripted::by_prompt().stream(prompt).await {
        Err(error) => complaint(error),
        Ok(parts) if is_stream => streamed(parts, chunks),
        Ok(parts) => whole(parts, &chunks).await,
    }
}

/// Returns the literal error response that the prompt requests: `{"refuse": {"status", "headers",
/// "body"}}`. It imitates errors of other servers.
fn refusal_in(prompt: &Prompt) -> Option<Response> {
    let texts = prompt.items.iter().rev().find_map(|item| match item.as_ref() {
        Item::Message { role: Role::User, content } => Some(content),
        _ => None,
    })?;
    let Some(Content::Text { text }) = texts.first() else { return None };
    let question: Value = serde_json::from_str(text).ok()?;
    let refuse = question.get("refuse")?;
    let status = u16::try_from(refuse.get("status")?.as_u64()?).ok()?;
    let status = StatusCode::from_u16(status).ok()?;
    let body = refuse.get("body").cloned().unwrap_or_default();
    let mut response = (status, Json(body)).into_response();
    for (name, value) in refuse.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        let value = HeaderValue::from_str(value.as_str()?).ok()?;
        response.headers_mut().insert(name, value);
    }
    Some(response)
}

async fn whole(parts: ModelStream, chunks: &Chunks) -> Response {
    let parts: Vec<Result<ModelPart, ModelError>> = parts.collect().await;
    match parts.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(parts) => Json(chunks.whole(parts)).into_response(),
        Err(error) => complaint(error),
    }
}

fn streamed(parts: ModelStream, chunks: Chunks) -> Response {
    let opening = frame(&chunks.opening());
    let frames = parts.scan(chunks, |chunks, part| {
        let frames = match part {
            Ok(part) => frames_of(part, chunks),
            Err(error) => frames_of_error(&error),
        };
        std::future::ready(Some(frames))
    });
    let frames = stream::iter([Ok(opening)]).chain(frames.flat_map(stream::iter));
    // Each frame is flushed before the next, so that a break comes after it.
    let frames = frames.then(|frame| async {
        tokio::task::yield_now().await;
        frame
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(frames)).into_response()
}

type Frame = Result<Bytes, io::Error>;

fn frames_of(part: ModelPart, chunks: &mut Chunks) -> Vec<Frame> {
    if let ModelPart::Unreadable { bytes } = part {
        return vec![Ok(garbled_frame(bytes))];
    }
    let is_last = matches!(part, ModelPart::Finished(_));
    let mut frames: Vec<Frame> = chunks.of(part).iter().map(|chunk| Ok(frame(chunk))).collect();
    if is_last {
        frames.push(Ok(Bytes::from_static(b"data: [DONE]\n\n")));
    }
    frames
}

/// A broken answer breaks the connection; other errors are sent.
fn frames_of_error(error: &ModelError) -> Vec<Frame> {
    match error {
        ModelError::Broken { message } => vec![Err(io::Error::other(message.clone()))],
        error => vec![Ok(frame(&error_body(error)))],
    }
}

/// A chunk truncated to this many bytes.
fn garbled_frame(bytes: u64) -> Bytes {
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"a word that is lost on its way"}}]}"#;
    let end = usize::try_from(bytes).unwrap_or(0).min(chunk.len() - 1);
    Bytes::from(format!("data: {}\n\n", chunk.split_at(end).0))
}

fn frame(chunk: &Value) -> Bytes {
    Bytes::from(format!("data: {chunk}\n\n"))
}

fn complaint(error: ModelError) -> Response {
    let (status, retry_after) = match &error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::Overloaded { retry_after, .. } => (503, *retry_after),
        ModelError::RateLimited { retry_after, .. } => (429, *retry_after),
        ModelError::Misconfigured { .. } => (401, None),
        ModelError::UnknownModel { .. } => (404, None),
        ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. } => (400, None),
        ModelError::Broken { .. } => (500, None),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(error_body(&error))).into_response();
    let seconds = retry_after.map(|wait| wait.as_secs_f64().to_string());
    let seconds = seconds.and_then(|wait| HeaderValue::from_str(&wait).ok());
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// The error in the format of `OpenAI`.
fn error_body(error: &ModelError) -> Value {
    let (kind, code) = match error {
        ModelError::Unavailable { .. }
        | ModelError::Overloaded { .. }
        | ModelError::Broken { .. } => ("server_error", None),
        ModelError::RateLimited { .. } => ("requests", Some("rate_limit_exceeded")),
        ModelError::Misconfigured { .. } => ("invalid_request_error", Some("invalid_api_key")),
        ModelError::UnknownModel { .. } => ("invalid_request_error", Some("model_not_found")),
        ModelError::ContextTooLong { .. } => {
            ("invalid_request_error", Some("context_length_exceeded"))
        }
        ModelError::ContentFiltered { .. } => ("invalid_request_error", Some("content_filter")),
        ModelError::Rejected { .. } => ("invalid_request_error", None),
    };
    let message = error.to_string();
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}
