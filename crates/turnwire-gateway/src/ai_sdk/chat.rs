//! `POST /ai-sdk/chat`.

use std::{collections::HashSet, time::Duration};

use axum::{extract::State, response::Response as HttpResponse};
use futures::TryStreamExt;
use tokio::{sync::watch, time::timeout};
use turnwire_contract::{
    CallId, Event, IdempotencyKey, Item, RecordedEvent, RunId, RunRequest, Seq, StoreError,
};
use turnwire_engine::StartOptions;
use turnwire_surfaces::{
    Projection,
    ai_sdk::{AiSdk, Dialect, MESSAGE_KEY, Span, StreamName, UiChunk},
};

use super::{
    SURFACE_DATA_KEY, SdkParams,
    conversation::Chat,
    messages::{last_items, new_item, results},
    request::{ChatAction, ChatBody, ChatRequest, GivenAnswer, check_chat_id, nothing_new},
    stream::{Reading, chunk_stream, reading_of},
};
use crate::{
    ApiError, App, Caller, QueryParams, Result,
    client_tools::{read_client_tools, with_client_tools},
    idempotency::{IdempotencyKeyHeader, KeyedBody},
    streaming::follow_while_it_runs,
};

/// Time for the worker of a run to record answers that another worker has accepted.
const RECORD_TIME: Duration = Duration::from_secs(10);

/// Send a message of a chat and stream the answer as a UI message stream.
///
/// With answers to approval requests or outputs of functions of the page in the last message, the
/// stream has what is new of the same message. When only people are awaited the stream finishes and the run continues.
#[utoipa::path(
    post,
    path = "/ai-sdk/chat",
    params(SdkParams, IdempotencyKeyHeader),
    request_body = ChatBody,
    responses(
        (status = 200,
            description = "The chunks, as server-sent events. `x-workflow-run-id` is the name of \
                    the stream, for resuming it",
            content((UiChunk = "text/event-stream"))),
        (status = 409, description = "The chat already has a run in progress, or the call does not \
                wait for an approval"),
    )
)]
pub(super) async fn chat(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<SdkParams>,
    KeyedBody { body, key }: KeyedBody,
) -> Result<HttpResponse> {
    let dialect = params.dialect().unwrap_or_default();
    let request = ChatRequest::read(body)?;
    let reading = open(&app, &caller, request, dialect, key).await?;
    Ok(chunk_stream(&app, reading))
}

/// Does what a request asks for. Returns the stream that answers it.
pub(super) async fn open(
    app: &App,
    caller: &Caller,
    request: ChatRequest,
    dialect: Dialect,
    key: Option<IdempotencyKey>,
) -> Result<Reading> {
    if let ChatAction::Approve(answers) = &request.action {
        return approve(app, caller, &request, answers, dialect).await;
    }
    let (seen, first_reader) = watch::channel(Seq::START);
    let handle = if let Some(handle) = app.find_by_key(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        let run = prepare(app, caller, request, dialect).await?;
        let options = StartOptions {
            first_reader: Some(first_reader),
            idempotency_key: key,
            ..StartOptions::default()
        };
        app.start(caller, run, options).await?
    };
    let name = StreamName { run_id: handle.id().clone(), dialect, span: Span::default() };
    Ok(Reading { name, events: handle.events().await?, skip: 0, seen: Some(seen) })
}

/// The run that answers or continues the last message.
async fn prepare(
    app: &App,
    caller: &Caller,
    request: ChatRequest,
    dialect: Dialect,
) -> Result<RunRequest> {
    let chat = Chat::of(app, caller, &request).await?;
    let mut run = app.chat_request(caller);
    run.surface_data.insert(SURFACE_DATA_KEY.to_owned(), dialect.number().into());
    run.input = match request.action {
        ChatAction::Answer { rewind } => {
            let item = new_item(&request.messages, &app.options().requests)?;
            if !chat.exists {
                chat.open_with(app, caller, &request).await?;
            } else if rewind {
                run.replaces = chat.entry_of(app, caller, &request, &item).await?;
            }
            vec![item]
        }
        ChatAction::Continue | ChatAction::Approve(_) => {
            let message_id = request.messages.last().and_then(|message| message.id.clone());
            if let Some(id) = message_id.filter(|id| check_chat_id(id, "messages").is_ok()) {
                run.surface_data.insert(MESSAGE_KEY.to_owned(), id.into());
            }
            new_results(app, caller, &chat, &request).await?
        }
    };
    let of_page = read_client_tools(request.tools, &app.options().requests)?;
    run.tools = with_client_tools(run.tools, of_page, |_, tool| format!("tools.{}", tool.name))?;
    run.conversation_id = Some(chat.conversation_id);
    Ok(run)
}

/// The outputs of the page's functions.
async fn new_results(
    app: &App,
    caller: &Caller,
    chat: &Chat,
    request: &ChatRequest,
) -> Result<Vec<Item>> {
    let limits = &app.options().requests.clone();
    let items = if chat.exists {
        let open = chat.open_calls(app, caller).await?;
        results(&request.messages, &open, limits)?
    } else {
        chat.open_with(app, caller, request).await?;
        last_items(&request.messages, limits)?
    };
    if items.is_empty() {
        return Err(nothing_new().into());
    }
    Ok(items)
}

/// Passes answers to approval requests on, and streams what comes after the requests.
async fn approve(
    app: &App,
    caller: &Caller,
    request: &ChatRequest,
    answers: &[GivenAnswer],
    dialect: Dialect,
) -> Result<Reading> {
    if !dialect.has_approvals() {
        let message = "Version 5 has no approvals; send them to /v1/runs, or use `sdk=6`.";
        return Err(ApiError::bad_request("unsupported_parameter", message).about("sdk"));
    }
    let run_id = asked_run(app, caller, request, answers).await?;
    for GivenAnswer { call_id, answer, .. } in answers {
        match app.answer(caller, &run_id, call_id, answer.clone(), "messages").await {
            // Somebody was quicker, or the request has expired. The stream says how it was decided.
            Err(error) if error.code == "already_answered" => {}
            other => other?,
        }
    }
    let calls = answers.iter().map(|answer| answer.call_id.clone()).collect();
    let span = span_after(app, caller, &run_id, calls, dialect).await?;
    reading_of(app, caller, StreamName { run_id, dialect, span }, 0).await
}

/// The run that the answers are for. It must be one of the chat.
async fn asked_run(
    app: &App,
    caller: &Caller,
    request: &ChatRequest,
    answers: &[GivenAnswer],
) -> Result<RunId> {
    let run_id = answers.first().map_or_else(|| RunId::from(""), |answer| answer.run_id.clone());
    let missing = || ApiError::not_found("Run", run_id.as_str()).about("messages");
    let record = match app.runs().find(caller.tenant(), &run_id).await {
        Err(StoreError::NotFound(_)) => return Err(missing()),
        other => other?,
    };
    if request.chat_id.is_some() {
        let chat = Chat::of(app, caller, request).await?;
        if record.request.conversation_id != Some(chat.conversation_id) {
            return Err(missing());
        }
    }
    Ok(run_id)
}

/// The segments after the requests for `calls`, up to the one in which the last answer is recorded.
/// The stream must not finish between two answers that came together.
async fn span_after(
    app: &App,
    caller: &Caller,
    run_id: &RunId,
    mut calls: HashSet<CallId>,
    dialect: Dialect,
) -> Result<Span> {
    let mut events = follow_while_it_runs(app.runs(), caller.tenant(), run_id, Seq::START).await?;
    let mut projection = AiSdk::new(dialect, Span::default());
    let mut asked_in = 0;
    let asked = calls.clone();
    let reading = async {
        while !calls.is_empty() {
            let Some(recorded) = events.try_next().await? else { break };
            projection.project(&recorded);
            if is_question(&recorded, &asked) {
                asked_in = projection.segment();
            }
            if let Some(call_id) = settled(&recorded) {
                calls.remove(call_id);
            }
        }
        Ok::<(), ApiError>(())
    };
    // A worker that does not record them in time is about to be replaced, and the stream follows.
    if let Ok(read) = timeout(RECORD_TIME, reading).await {
        read?;
    }
    let first = asked_in + 1;
    Ok(Span { first, last: projection.segment().max(first) })
}

fn is_question(recorded: &RecordedEvent, asked: &HashSet<CallId>) -> bool {
    matches!(&recorded.event, Event::ApprovalRequested { call_id, .. } if asked.contains(call_id))
}

/// The call that needs no answer any more.
fn settled(recorded: &RecordedEvent) -> Option<&CallId> {
    match &recorded.event {
        Event::ApprovalResolved { call_id, .. } | Event::ToolFinished { call_id, .. } => {
            Some(call_id)
        }
        _ => None,
    }
}
