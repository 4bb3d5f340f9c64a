//! A model server: Chat Completions outside, [`Scripted::by_prompt`] inside.

use std::io;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use turnwire_contract::{Model, ModelError, ModelPart, ModelStream};
use turnwire_models::Scripted;

use super::{chat_chunks::Chunks, chat_request::prompt_of, visitors::Visitors};

/// The one model there is.
const MODEL: &str = "scripted";

pub(super) async fn models() -> Json<Value> {
    let model = json!({ "id": MODEL, "object": "model", "created": 0, "owned_by": "turnwire" });
    Json(json!({ "object": "list", "data": [model] }))
}

/// Answers as the script in the question says: as a stream or in one piece, with an error in
/// place of the answer, or with a connection that breaks in the middle of it.
pub(super) async fn answer(State(visitors): State<Visitors>, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return complaint(ModelError::Rejected { message: error.to_string() }),
    };
    visitors.note("/v1/chat/completions", body.clone());
    let prompt = prompt_of(&body);
    let is_stream = body.get("stream") == Some(&Value::Bool(true));
    let wants_usage = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    let chunks = Chunks::new(&prompt, wants_usage);
    match Scripted::by_prompt().stream(prompt).await {
        Err(error) => complaint(error),
        Ok(parts) if is_stream => streamed(parts, chunks),
        Ok(parts) => whole(parts, &chunks).await,
    }
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
    // Each frame is written before the next one is made: what breaks off, breaks off after it.
    let frames = frames.then(|frame| async {
        tokio::task::yield_now().await;
        frame
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(frames)).into_response()
}

type Frame = Result<Bytes, io::Error>;

fn frames_of(part: ModelPart, chunks: &mut Chunks) -> Vec<Frame> {
    let is_last = matches!(part, ModelPart::Finished(_));
    let mut frames: Vec<Frame> = chunks.of(part).iter().map(|chunk| Ok(frame(chunk))).collect();
    if is_last {
        frames.push(Ok(Bytes::from_static(b"data: [DONE]\n\n")));
    }
    frames
}

/// A broken answer is a broken connection; the rest is said.
fn frames_of_error(error: &ModelError) -> Vec<Frame> {
    match error {
        ModelError::Broken { message } => vec![Err(io::Error::other(message.clone()))],
        ModelError::Unavailable { .. } | ModelError::Rejected { .. } => {
            vec![Ok(frame(&error_body(error)))]
        }
    }
}

fn frame(chunk: &Value) -> Bytes {
    Bytes::from(format!("data: {chunk}\n\n"))
}

fn complaint(error: ModelError) -> Response {
    let (status, retry_after) = match &error {
        ModelError::Rejected { .. } => (StatusCode::BAD_REQUEST, None),
        ModelError::Unavailable { retry_after: Some(wait), .. } => {
            (StatusCode::TOO_MANY_REQUESTS, Some(wait.as_secs_f64()))
        }
        ModelError::Unavailable { .. } | ModelError::Broken { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, None)
        }
    };
    let mut response = (status, Json(error_body(&error))).into_response();
    let seconds = retry_after.and_then(|wait| HeaderValue::from_str(&wait.to_string()).ok());
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

fn error_body(error: &ModelError) -> Value {
    let (message, kind) = match error {
        ModelError::Rejected { message } => (message, "invalid_request_error"),
        ModelError::Unavailable { message, .. } | ModelError::Broken { message } => {
            (message, "server_error")
        }
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
}
