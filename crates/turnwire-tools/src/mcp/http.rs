//! The HTTP client of a connection, which reads no more of an answer than its limit.
//!
//! The protocol library bounds each event of a stream, but it reads an answer in JSON and the body
//! of an error to their ends. So we send messages ourselves. What is over a limit becomes an error
//! in the place of the answer ([`is_too_large`]): it ends the request that it answers, and no other.
//!
//! The bytes are counted as the client hands them out. It does not ask for compression.

use std::{collections::HashMap, future::ready, io, sync::Arc};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use memchr::memchr2;
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage,
    },
    transport::{
        common::http_header::{
            EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
        },
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError,
            StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};
use turnwire_http::{EventSize, ReadError, read_at_most};

/// Maximum size of an answer, in JSON or as an event.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of an answer that describes the server: of the handshake, or a page of a list.
const MAX_DESCRIPTION_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of values and names in an answer. One takes up to a few hundred bytes of memory,
/// but only two in JSON.
const MAX_VALUES: usize = 250_000;

/// Maximum size of the body of an HTTP error. Of a larger one, only the status is used.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How much of a body is shown in an error.
const MAX_SHOWN_BYTES: usize = 1_000;

/// The code of an error that stands for an answer that is too large.
const TOO_LARGE: ErrorCode = ErrorCode(-413);

type Error = StreamableHttpError<reqwest::Error>;
type Result<T, E = Error> = std::result::Result<T, E>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Whether an error stands for an answer that was too large to be read.
pub(super) fn is_too_large(error: &ErrorData) -> bool {
    error.code == TOO_LARGE
}

/// A client that reads answers up to their limits.
#[derive(Debug, Clone)]
pub(super) struct HttpClient(reqwest::Client);

impl HttpClient {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self(client)
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse> {
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let mut request = self.0.post(uri).header(ACCEPT, accepted);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            if is_reserved(&name) {
                return Err(Error::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        let response = request.json(message).send().await?;
        let status = response.status();
        if let Some(refusal) = challenge(&response) {
            return Err(refusal);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Error::SessionExpired);
        }
        if status.is_success() {
            return answer(response, message).await;
        }
        refusal(response, message, session.is_some()).await
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse> {
        self.post(&uri, &message, session_id.as_deref(), auth_header, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<()> {
        self.0.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events> {
        let client = &self.0;
        let opening = client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_ANSWER_BYTES,
        );
        // Such an event answers nothing that is known here, so it is dropped.
        let small = |event: &Result<Sse, SseError>| match event {
            Ok(Sse { data: Some(data), .. }) => n_values(data.as_bytes()) <= MAX_VALUES,
            _ => true,
        };
        Ok(opening.await?.filter(move |event| ready(small(event))).boxed())
    }
}

/// Reads the answer to a message that the server did not refuse.
async fn answer(
    response: Response,
    message: &ClientJsonRpcMessage,
) -> Result<StreamableHttpPostResponse> {
    let (id, limit) = match message {
        JsonRpcMessage::Request(request) => (Some(&request.id), limit_of(&request.request)),
        _ => (None, MAX_DESCRIPTION_BYTES),
    };
    let session = response.headers().get(HEADER_SESSION_ID);
    let session = session.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let content_type = content_type(&response);
    if has_type(content_type.as_deref(), EVENT_STREAM_MIME_TYPE) {
        let events = bounded_events(response.bytes_stream(), limit, id.cloned());
        return Ok(StreamableHttpPostResponse::Sse(events, session));
    }
    // A message that is no request has no answer.
    let Some(id) = id else { return Ok(StreamableHttpPostResponse::Accepted) };
    if !has_type(content_type.as_deref(), JSON_MIME_TYPE) {
        return Err(Error::UnexpectedContentType(content_type));
    }
    let body = match read_at_most(response, limit).await {
        Ok(body) => Some(body).filter(|body| n_values(body) <= MAX_VALUES),
        Err(ReadError::TooLong) => None,
        Err(ReadError::Broken(error)) => return Err(error.into()),
    };
    let message = match body {
        Some(body) => serde_json::from_slice(&body).map_err(|error| {
            let body = shown(&body);
            unexpected(format!("the answer is not a message of the protocol: {error}: {body}"))
        })?,
        None => too_large(Some(id.clone()), limit),
    };
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// Reads an answer with an error status. Some contain a message all the same.
async fn refusal(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse> {
    let status = response.status();
    let is_json = has_type(content_type(&response).as_deref(), JSON_MIME_TYPE);
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let by_status = || Error::HttpStatus(HttpStatusError::new(status.as_u16(), retry_after));
    if is_busy || (status.is_server_error() && !is_json) {
        return Err(by_status());
    }
    let is_forbidden = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = read_at_most(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let parsed = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        Ok(_) | Err(_) => None,
    };
    // A server of the older protocol may refuse this with any error and any id. The handshake goes
    // on if it is told so by an answer to its request.
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::DiscoverRequest(_) = &request.request
        && status.is_client_error()
        && !(has_session || is_forbidden)
    {
        let error = parsed.map_or_else(
            || ErrorData::invalid_request(format!("refused with the HTTP status {status}"), None),
            |parsed| parsed.error,
        );
        let error = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(error, None));
    }
    match parsed {
        Some(error) if is_json && !is_forbidden => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None))
        }
        _ if status.is_server_error() => Err(by_status()),
        _ => Err(unexpected(format!("HTTP {status}: {}", shown(&body)))),
    }
}

/// Returns the error for an answer that asks for authorization.
fn challenge(response: &Response) -> Option<Error> {
    let challenge = response.headers().get(WWW_AUTHENTICATE)?;
    let challenge = String::from_utf8_lossy(challenge.as_bytes()).into_owned();
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(Error::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            Some(Error::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => None,
    }
}

/// Returns the events of an answer. One that is too large is replaced by an error, the last event.
fn bounded_events(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    limit: usize,
    id: Option<RequestId>,
) -> Events {
    let mut size = EventSize::default();
    let pieces = pieces.map(move |piece| {
        let piece = piece.map_err(io::Error::other)?;
        let fits = size.add(&piece) <= limit;
        if fits { Ok(piece) } else { Err(io::Error::from(io::ErrorKind::FileTooLarge)) }
    });
    let mut has_ended = false;
    let events = SseStream::from_bytes_stream(pieces);
    let events = events.map(move |event| match event {
        _ if has_ended => None,
        Ok(event)
            if event.data.as_ref().is_none_or(|data| n_values(data.as_bytes()) <= MAX_VALUES) =>
        {
            Some(Ok(event))
        }
        Err(SseError::Body(error)) if !is_size_error(&*error) => Some(Err(SseError::Body(error))),
        Ok(_) | Err(SseError::Body(_)) => {
            has_ended = true;
            let error = too_large(id.clone(), limit);
            let error = serde_json::to_string(&error).unwrap_or_default();
            Some(Ok(Sse::default().data(error)))
        }
        Err(other) => Some(Err(other)),
    });
    events.take_while(|event| ready(event.is_some())).filter_map(ready).boxed()
}

/// Returns the error that stands for an answer over its limits.
fn too_large(id: Option<RequestId>, limit: usize) -> ServerJsonRpcMessage {
    let message =
        format!("the answer has more than {} MiB or {MAX_VALUES} values", limit / (1024 * 1024));
    ServerJsonRpcMessage::error(ErrorData::new(TOO_LARGE, message, None), id)
}

fn limit_of(request: &ClientRequest) -> usize {
    match request {
        ClientRequest::InitializeRequest(_)
        | ClientRequest::DiscoverRequest(_)
        | ClientRequest::ListToolsRequest(_) => MAX_DESCRIPTION_BYTES,
        _ => MAX_ANSWER_BYTES,
    }
}

/// Returns an upper bound of the number of values and names in JSON: of what begins or separates
/// them.
fn n_values(json: &[u8]) -> usize {
    let (mut rest, mut n_values, mut is_in_string) = (json, 0, false);
    loop {
        if is_in_string {
            let Some(at) = memchr2(b'"', b'\\', rest) else { return n_values };
            // What is escaped has one character that matters.
            let skipped = if rest.get(at) == Some(&b'"') { 1 } else { 2 };
            is_in_string = skipped == 2;
            rest = rest.get(at + skipped..).unwrap_or_default();
        } else {
            let Some((first, others)) = rest.split_first() else { return n_values };
            n_values += usize::from(matches!(first, b',' | b':' | b'[' | b'{'));
            is_in_string = *first == b'"';
            rest = others;
        }
    }
}

fn is_size_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn has_type(content_type: Option<&str>, wanted: &str) -> bool {
    content_type.is_some_and(|value| value.starts_with(wanted))
}

/// Whether the protocol library sets a header itself.
fn is_reserved(name: &HeaderName) -> bool {
    let reserved = [ACCEPT.as_str(), HEADER_SESSION_ID, HEADER_LAST_EVENT_ID];
    reserved.iter().any(|reserved| name.as_str().eq_ignore_ascii_case(reserved))
}

fn unexpected(message: String) -> Error {
    Error::UnexpectedServerResponse(message.into())
}

fn shown(body: &[u8]) -> String {
    let start = body.get(..MAX_SHOWN_BYTES).unwrap_or(body);
    String::from_utf8_lossy(start).into_owned()
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
