//! `GET /v1/runs/{run_id}/stream`: the events of a run in the Durable Streams protocol.
//!
//! A journal is such a stream already: it only grows, every position in it stays valid, and it ends.
//! So this is an adapter of headers, and clients of that protocol in any language can read runs.
//! Runs are written by Turnwire alone: the operations that create, append and delete are not here.
//!
//! An offset is the seq of the last event that was read, with leading zeros, so that offsets sort as
//! text. Every form of reading returns events after an offset and the offset to continue from.

use std::{
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use turnwire_contract::{Event, EventStream, JournalError, JournalHead, RecordedEvent, RunId, Seq};
use turnwire_surfaces::wire_json;
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, PathParams, QueryParams, Result,
    runs::{head_of, rest_of},
    sse::{EarlyEnd, SseFrame, event_stream_with},
};

const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");

/// Maximum size of one answer, in bytes of JSON. It is exceeded only by a single event.
const MAX_PAGE: usize = 1024 * 1024;
/// How long a long poll waits for events.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Maximum number of events in one frame of a stream.
const MAX_EVENTS_PER_FRAME: usize = 256;
/// Number of seconds in which all readers get the same cursor, so that a cache can merge them.
const CURSOR_SECONDS: u64 = 20;

module_routes! { [read, metadata] }

/// Query parameters of a durable stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ReadParams {
    /// Read events after this offset: one from an earlier answer, `-1` for the beginning, or `now`
    /// for the current end. Required with `live`. Default: `-1`.
    offset: Option<String>,
    /// Wait for new events: `long-poll` until there are some, `sse` as server-sent events until the
    /// run ends. Default: return what is stored.
    #[param(inline)]
    live: Option<Live>,
    /// The cursor of the previous answer, for caches.
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Live {
    LongPoll,
    Sse,
}

/// The data of a `control` frame.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Control {
    /// Offset to continue from.
    stream_next_offset: String,
    /// Cursor for the next request. Missing if the stream is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_cursor: Option<String>,
    /// True if no more events were stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    up_to_date: bool,
    /// True if the run has ended. The connection is closed then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    stream_closed: bool,
}

/// Read the events of a run in the Durable Streams protocol.
///
/// An answer is a JSON array of events. Its header `Stream-Next-Offset` is the `offset` of the next
/// request; `Stream-Up-To-Date` says that there are no more yet, `Stream-Closed` that there never
/// will be. With `live=sse` each `data` frame is such an array, followed by a `control` frame.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/stream",
    params(("run_id" = String, Path, description = "ID of the run"), ReadParams),
    responses(
        (status = 200, description = "Events of the run", content(
            (Vec<RecordedEvent> = "application/json"),
            (Control = "text/event-stream"),
        )),
        (status = 204, description = "With `live=long-poll`: there are no new events"),
        (status = 304, description = "With `If-None-Match`: the answer is the same as before"),
        (status = 400, description = "The offset is not valid"),
        (status = 404, description = "There is no run with this ID"),
    )
)]
async fn read(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<ReadParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let run_id = RunId::new(id);
    let head = head_of(&app, &caller, &run_id).await?;
    if params.live.is_some() && params.offset.is_none() {
        let message = "`live` needs an `offset`; `-1` is the beginning.";
        return Err(ApiError::bad_request("invalid_offset", message).about("offset"));
    }
    let after = parse_offset(params.offset.as_deref(), &head)?;
    let cursor = next_cursor(params.cursor.as_deref());
    match params.live {
        None => {
            let events = rest_of(&app, &caller, &run_id, &head, after, false).await?;
            let page = Page::read(after, events).await?;
            let tag = page.tag(&run_id, after);
            if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str()) {
                return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
            }
            Ok(page.answer(&run_id, after))
        }
        Some(Live::LongPoll) => {
            let events = rest_of(&app, &caller, &run_id, &head, after, true).await?;
            let page = Page::wait(&app, after, &head, events).await?;
            let mut answer = page.answer_to_poll(&run_id, after);
            if !page.is_closed {
                answer.headers_mut().insert(CURSOR, HeaderValue::from(cursor));
            }
            Ok(answer)
        }
        Some(Live::Sse) => {
            let events = rest_of(&app, &caller, &run_id, &head, after, true).await?;
            let pages = sse_pages(events, after, head);
            let write = move |out: &mut Vec<u8>, page: Page| write_page(out, &page, cursor);
            let quietly = EarlyEnd { closing: Some(Bytes::new()), journal_lost: Bytes::new() };
            Ok(event_stream_with(&app, pages, write, quietly))
        }
    }
}

/// Get the current end of the stream of a run, in the headers.
#[utoipa::path(
    head,
    path = "/v1/runs/{run_id}/stream",
    params(("run_id" = String, Path, description = "ID of the run")),
    responses(
        (status = 200, description = "The current end of the stream, in the headers"),
        (status = 404, description = "There is no run with this ID"),
    )
)]
async fn metadata(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<HttpResponse> {
    let head = head_of(&app, &caller, &RunId::new(id)).await?;
    let page = Page { next: head.last, is_closed: head.is_over, ..Page::default() };
    let mut answer = StatusCode::OK.into_response();
    page.put_headers(&mut answer);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// The events between two offsets.
#[derive(Debug, Default)]
struct Page {
    /// The elements of the JSON array.
    events: Vec<String>,
    /// The offset to continue from.
    next: Seq,
    /// Whether there are no more events yet.
    is_up_to_date: bool,
    /// Whether there will be no more events.
    is_closed: bool,
}

impl Page {
    /// The stored events after `after`, up to the size of a page.
    async fn read(after: Seq, mut events: EventStream) -> Result<Self> {
        let mut page = Self { next: after, ..Self::default() };
        let mut n_bytes = 0;
        while n_bytes < MAX_PAGE {
            let Some(recorded) = events.try_next().await? else {
                page.is_up_to_date = true;
                break;
            };
            n_bytes += page.add(&recorded);
        }
        page.is_up_to_date |= page.is_closed;
        Ok(page)
    }

    /// The events after `after`, once there are some; none if the wait was in vain.
    async fn wait(app: &App, after: Seq, head: &JournalHead, events: EventStream) -> Result<Self> {
        let is_closed = head.is_over && head.last == after;
        let mut page = Self { next: after, is_up_to_date: true, is_closed, ..Self::default() };
        if is_closed {
            return Ok(page);
        }
        let mut events = pin!(events.ready_chunks(MAX_EVENTS_PER_FRAME));
        let first = timeout(LONG_POLL, events.next());
        let read = tokio::select! {
            biased;
            () = app.draining() => None,
            read = first => read.ok().flatten(),
        };
        for recorded in read.into_iter().flatten() {
            page.add(&*recorded?);
        }
        // More may follow at once; the next request gets it.
        page.is_up_to_date = page.is_closed || page.events.is_empty();
        Ok(page)
    }

    /// Adds an event. Returns its size.
    fn add(&mut self, recorded: &RecordedEvent) -> usize {
        let event = wire_json(recorded);
        let n_bytes = event.len();
        self.events.push(event);
        self.next = recorded.seq;
        self.is_closed = matches!(recorded.event, Event::RunFinished { .. });
        n_bytes
    }

    fn json(&self) -> String {
        format!("[{}]", self.events.join(","))
    }

    fn put_headers(&self, answer: &mut HttpResponse) {
        let headers = answer.headers_mut();
        if let Ok(next) = HeaderValue::try_from(offset(self.next)) {
            headers.insert(NEXT_OFFSET, next);
        }
        for (name, is_set) in [(UP_TO_DATE, self.is_up_to_date), (CLOSED, self.is_closed)] {
            if is_set {
                headers.insert(name, HeaderValue::from_static("true"));
            }
        }
    }

    /// The entity tag of this page. Events never change, so the offsets say everything.
    fn tag(&self, run_id: &RunId, after: Seq) -> String {
        let closed = if self.is_closed { ":closed" } else { "" };
        format!("\"{run_id}:{}:{}{closed}\"", after.0, self.next.0)
    }

    fn answer(&self, run_id: &RunId, after: Seq) -> HttpResponse {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut answer = (kind, self.json()).into_response();
        self.put_headers(&mut answer);
        let headers = answer.headers_mut();
        if let Ok(tag) = HeaderValue::try_from(self.tag(run_id, after)) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        answer
    }

    fn answer_to_poll(&self, run_id: &RunId, after: Seq) -> HttpResponse {
        if !self.events.is_empty() {
            return self.answer(run_id, after);
        }
        let mut answer = StatusCode::NO_CONTENT.into_response();
        self.put_headers(&mut answer);
        answer
    }
}

/// The batches of events for a stream. `head` was the end of the journal when the request came.
fn sse_pages(
    events: EventStream,
    after: Seq,
    head: JournalHead,
) -> impl Stream<Item = Result<Page, JournalError>> + Send + 'static {
    let has_everything = after == head.last;
    let is_closed = has_everything && head.is_over;
    let batches = events.ready_chunks(MAX_EVENTS_PER_FRAME).map(move |batch| {
        let mut page = Page::default();
        for recorded in batch {
            page.add(&*recorded?);
        }
        page.is_up_to_date = page.is_closed || page.next >= head.last;
        Ok(page)
    });
    // A reader that has everything is told so at once.
    let greeting = Page { next: after, is_up_to_date: true, is_closed, ..Page::default() };
    stream::iter(has_everything.then_some(Ok(greeting))).chain(batches)
}

/// Writes a `data` frame with the events of a page, if there are any, and a `control` frame.
fn write_page(out: &mut Vec<u8>, page: &Page, cursor: u64) {
    if !page.events.is_empty() {
        SseFrame::begin(out).event("data").data(&page.json());
    }
    SseFrame::begin(out).event("control").json(&Control {
        stream_next_offset: offset(page.next),
        stream_cursor: (!page.is_closed).then(|| cursor.to_string()),
        up_to_date: page.is_up_to_date,
        stream_closed: page.is_closed,
    });
}

/// The offset after the event with this seq.
fn offset(seq: Seq) -> String {
    format!("{:020}", seq.0)
}

fn parse_offset(text: Option<&str>, head: &JournalHead) -> Result<Seq> {
    match text {
        None | Some("-1") => Ok(Seq::START),
        Some("now") => Ok(head.last),
        Some(text) => {
            let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let seq = digits.and_then(|digits| digits.parse().ok()).map(Seq);
            seq.filter(|seq| *seq <= head.last).ok_or_else(|| {
                let message = "`offset` must come from `Stream-Next-Offset` of this stream, or be \
                               `-1` or `now`.";
                ApiError::bad_request("invalid_offset", message).about("offset")
            })
        }
    }
}

/// The cursor of an answer: the number of the current interval, but always after the one that the
/// client sent, so that no cache answers a client with what it has.
fn next_cursor(sent: Option<&str>) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let current = now.as_secs() / CURSOR_SECONDS;
    let sent = sent.and_then(|cursor| cursor.parse::<u64>().ok());
    sent.map_or(current, |sent| current.max(sent.saturating_add(1)))
}

#[cfg(test)]
#[path = "durable_stream_tests.rs"]
mod tests;
