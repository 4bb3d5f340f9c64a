//! `POST /chat` and `POST /chat/stream`: a message in, an answer out, with or without the way
//! there.
//!
//! Both work on the same conversations as every other surface; `session_id` is the id of one.
//! A run does not depend on who reads it: a client that hangs up finds its answer in the
//! conversation, and one that comes back with `Last-Event-ID` reads on where it was.

use std::pin::pin;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response as HttpResponse},
};
use futures::{TryStreamExt, future::ready};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use turnwire_contract::{
    Approvals, ConversationId, Event, EventStream, Item, RunId, RunRequest, Seq,
};
use turnwire_engine::Start;
use turnwire_surfaces::{
    Answer, ChatAnswer, ChatStream, ChatStreamFrame, ChatStreamOptions, Cursor, WithPlaces,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    body::{Json, typed},
    conversations,
    door::Caller,
    failed_run::{FailedRun, FailedRunBody},
    idempotency::{IdempotencyKey, KeyedBody},
    query::Asked,
    refusal::{ErrorBody, Refusal},
    responses::request::{ClientError, refuse_unknown},
    sse::{SseFrame, event_stream},
    streaming::{check_place, follow_while_it_runs, frames, told_frames},
};

/// The longest id of a session.
const MAX_SESSION_ID: usize = 128;
/// The header in which browsers say which frame they saw last.
const LAST_EVENT_ID: &str = "Last-Event-ID";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(chat)).routes(routes!(chat_stream, resume))
}

/// What is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default)]
struct ChatMessage {
    /// The message.
    #[schema(value_type = String, min_length = 1)]
    message: Option<String>,
    /// The conversation it belongs to, which must be there; a new one if not set.
    #[schema(min_length = 1, max_length = 128)]
    session_id: Option<String>,
    /// The file the person is looking at, for the model to know.
    active_file: Option<String>,
    /// `/chat/stream`: whether to send what the model says while it says it.
    tokens: Option<bool>,
    /// `/chat/stream`: whether to send the questions about calls that a person must allow. If
    /// not, such calls are denied, and the model is told.
    approvals: Option<bool>,
    /// `/chat/stream`: whether to send what tools ask the person. If not, they are told that
    /// nobody can be asked.
    inputs: Option<bool>,
}

impl ChatMessage {
    /// Every field, for those who write another.
    const FIELDS: [&str; 6] =
        ["message", "session_id", "active_file", "tokens", "approvals", "inputs"];

    fn read(body: Value) -> Result<Self, Refusal> {
        if let Value::Object(fields) = &body {
            refuse_unknown(fields, &Self::FIELDS)?;
        }
        let message: Self = typed(body)?;
        match message.message.as_deref() {
            None => return Err(ClientError::missing("message").into()),
            Some("") => {
                let text = "`message` must not be empty.";
                return Err(ClientError::invalid("message", text).into());
            }
            Some(_) => {}
        }
        let is_plain = |c: char| c.is_ascii_graphic();
        if let Some(id) = &message.session_id
            && !((1..=MAX_SESSION_ID).contains(&id.len()) && id.chars().all(is_plain))
        {
            let text = "`session_id` must be 1 to 128 visible ASCII characters.";
            return Err(ClientError::invalid("session_id", text).into());
        }
        Ok(message)
    }

    /// What its reader wants to be sent.
    fn options(&self) -> ChatStreamOptions {
        let wants = |what: Option<bool>| what == Some(true);
        ChatStreamOptions {
            tokens: wants(self.tokens),
            approvals: wants(self.approvals),
            inputs: wants(self.inputs),
        }
    }

    /// An answer in one piece cannot tell what happens on the way to it.
    fn refuse_what_needs_a_stream(&self) -> Result<(), Refusal> {
        let wishes =
            [("tokens", self.tokens), ("approvals", self.approvals), ("inputs", self.inputs)];
        match wishes.iter().find(|(_, is_wished)| *is_wished == Some(true)) {
            Some((name, _)) => {
                let message = format!("`{name}` needs a stream; send this to /chat/stream.");
                Err(Refusal::bad_request("unsupported_parameter", message).about(*name))
            }
            None => Ok(()),
        }
    }

    /// The run that answers it. Whoever names a session goes on with it: one that is not there is
    /// refused, as on `/ws/chat`, because a new one under its name would have forgotten everything
    /// without a word.
    async fn into_run(self, app: &App, caller: &Caller) -> Result<RunRequest, Refusal> {
        let session = match self.session_id {
            None => app.runs().new_conversation_id(),
            Some(id) => {
                let found = conversations::find(app, caller, &id).await;
                found.map_err(|refusal| refusal.about("session_id"))?.id
            }
        };
        let mut run = app.chat_request(caller);
        if let Some(file) = self.active_file {
            let hint = format!("The person is looking at the file `{file}`.");
            let instructions = run.instructions.into_iter().chain([hint]);
            run.instructions = Some(instructions.collect::<Vec<_>>().join("\n\n"));
        }
        run.conversation_id = Some(session);
        run.input = vec![Item::user(self.message.unwrap_or_default())];
        Ok(run)
    }
}

#[utoipa::path(
    post,
    path = "/chat",
    tag = "chat",
    params(IdempotencyKey),
    request_body = ChatMessage,
    responses(
        (status = 200, description = "The answer", body = ChatAnswer),
        (status = 409, description = "The session is busy with another message", body = ErrorBody),
        (status = 400, description = "The message makes no sense, or the model does not take it",
            body = FailedRunBody),
        (status = 429, description = "The model is asked too often", body = FailedRunBody),
        (status = 500, description = "The run failed, and would again", body = FailedRunBody),
        (status = 502, description = "There is no answer", body = ErrorBody),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped answering", body = FailedRunBody),
    )
)]
async fn chat(
    State(app): State<App>,
    caller: Caller,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse, Refusal> {
    let message = ChatMessage::read(body)?;
    message.refuse_what_needs_a_stream()?;
    let has_key = key.is_some();
    let handle = if let Some(handle) = app.made_before(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let mut run = message.into_run(&app, &caller).await?;
        run.approvals = Approvals::Decline;
        app.start(&caller, run, Start { key, ..Start::default() }).await?
    };
    let (mut answer, mut session) = (Answer::default(), None);
    let mut events = handle.events_when_over().await?;
    while let Some(recorded) = events.try_next().await? {
        // Also where an earlier request has made the run.
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
    answer.map_err(|why| Refusal::new(StatusCode::BAD_GATEWAY, "no_answer", why))
}

#[utoipa::path(
    post,
    path = "/chat/stream",
    tag = "chat",
    request_body = ChatMessage,
    params(IdempotencyKey, ("Last-Event-ID" = Option<String>, Header, description = "Reads on \
        after this frame; of the body, only `tokens`, `approvals` and `inputs` are looked at")),
    responses(
        (status = 200, description = "What happens, as it happens", content(
            (ChatStreamFrame = "text/event-stream"),
        )),
        (status = 409, description = "The session is busy with another message", body = ErrorBody),
    )
)]
async fn chat_stream(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Result<KeyedBody, Refusal>,
) -> Result<HttpResponse, Refusal> {
    if let Some(place) = place_in(&headers)? {
        let body = body.map_or_else(|_| Value::Null, |sent| sent.body);
        let message: ChatMessage = serde_json::from_value(body).unwrap_or_default();
        return read_on(&app, &caller, place, message.options()).await;
    }
    let KeyedBody { body, key } = body?;
    let message = ChatMessage::read(body)?;
    let options = message.options();
    let (seen, watcher) = watch::channel(Seq::START);
    let handle = if let Some(handle) = app.made_before(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let mut run = message.into_run(&app, &caller).await?;
        if !options.approvals {
            run.approvals = Approvals::Decline;
        }
        run.inputs = options.inputs;
        let start = Start { watcher: Some(watcher), key, ..Start::default() };
        app.start(&caller, run, start).await?
    };
    let (run_id, events) = (handle.id().clone(), handle.events().await?);
    Ok(stream_of(&app, run_id, events, Cursor::START, options, Some(seen)))
}

/// How a stream is read on by a client that cannot set headers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ResumeWish {
    /// The `id` of the last frame that was seen.
    after: Option<String>,
    /// Whether to send what the model says while it says it.
    #[serde(default)]
    tokens: bool,
    /// Whether to send the questions about calls that a person must allow.
    #[serde(default)]
    approvals: bool,
    /// Whether to send what tools ask the person.
    #[serde(default)]
    inputs: bool,
}

#[utoipa::path(
    get,
    path = "/chat/stream",
    tag = "chat",
    params(ResumeWish, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 200, description = "The rest of a stream", content(
            (ChatStreamFrame = "text/event-stream"),
        )),
        (status = 204, description = "With `Last-Event-ID`: the run is over, and nothing follows"),
        (status = 404, description = "There is no such run", body = ErrorBody),
    )
)]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<ResumeWish>,
    headers: HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let options =
        ChatStreamOptions { tokens: wish.tokens, approvals: wish.approvals, inputs: wish.inputs };
    let Some(place) = place_in(&headers)? else {
        let place = read_place(wish.after.as_deref().unwrap_or_default(), "after")?;
        return read_on(&app, &caller, place, options).await;
    };
    if is_at_the_end(&app, &caller, &place, options).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    read_on(&app, &caller, place, options).await
}

/// Whether the run is over and no frame follows this one. An `EventSource` comes back for ever
/// unless it is told so.
async fn is_at_the_end(
    app: &App,
    caller: &Caller,
    (run_id, after): &(RunId, Cursor),
    options: ChatStreamOptions,
) -> Result<bool, Refusal> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    let head = runs.head(tenant, run_id).await?;
    if !head.is_over || after.seq != head.last {
        return Ok(false);
    }
    let events = runs.stored(tenant, run_id).await?;
    let mut frames = pin!(frames(WithPlaces::new(ChatStream::new(options)), events));
    while let Some((_, placed)) = frames.try_next().await? {
        if placed.cursor.is_after(*after) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where a client was: in which run, and after which frame.
fn place_in(headers: &HeaderMap) -> Result<Option<(RunId, Cursor)>, Refusal> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    header.map(|text| read_place(text, LAST_EVENT_ID)).transpose()
}

fn read_place(text: &str, param: &str) -> Result<(RunId, Cursor), Refusal> {
    let place = text.rsplit_once(':').and_then(|(run, cursor)| Some((run, cursor.parse().ok()?)));
    place.map(|(run, cursor)| (RunId::new(run), cursor)).ok_or_else(|| {
        let message = format!("`{param}` must be the id of a frame, such as `run_…:12.0`.");
        Refusal::bad_request("invalid_cursor", message).about(param)
    })
}

async fn read_on(
    app: &App,
    caller: &Caller,
    (run_id, after): (RunId, Cursor),
    options: ChatStreamOptions,
) -> Result<HttpResponse, Refusal> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    check_place(runs, tenant, &run_id, after.seq, LAST_EVENT_ID).await?;
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
    let frames = told_frames(WithPlaces::new(ChatStream::new(options)), events, seen);
    let frames = frames.try_filter_map(move |(_, placed)| {
        let id = Some(format!("{run_id}:{}", placed.cursor));
        let frame = SseFrame { event: None, id, data: placed.frame.data() };
        ready(Ok(placed.cursor.is_after(after).then(|| frame.bytes())))
    });
    event_stream(app, frames)
}
