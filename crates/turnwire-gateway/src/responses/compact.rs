//! `POST /v1/responses/compact` and `/input_tokens`: a conversation made shorter, and measured.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response as HttpResponse},
};
use futures::TryStreamExt;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use turnwire_contract::{Content, Generation, Item, RunId, RunOutcome, RunRequest, ToolChoice};
use turnwire_engine::{RunHandle, Start};
use turnwire_surfaces::{
    Answer,
    responses::{
        ids,
        item::{CompactionItem, OutputItem},
        response::{ResponseNote, ResponseUsage},
    },
};
use utoipa::ToSchema;

use super::{
    create::{forget, outcome_of},
    prepare::{look_back, prepare},
    request::{self, wrap_summary},
};
use crate::{
    app::App,
    body::{Json, JsonBody},
    door::Caller,
    failed_run::{FailedRun, FailedRunBody},
    refusal::{ErrorBody, Refusal},
};

/// What the model is told when it has to make a conversation shorter.
const SUMMARISE: &str = "Sum up the conversation so far for yourself, so that it can go on \
                         without it: what was asked, what is known, what was decided, what the \
                         tools brought, what is still open. Leave out nothing that matters \
                         later. Write only the summary.";

/// How many bytes of text make up a token, more or less: no tokenizer fits every model.
const BYTES_PER_TOKEN: u64 = 4;
/// What a picture or a file costs, more or less.
const TOKENS_PER_PICTURE: u64 = 800;

/// A conversation made shorter.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Compacted {
    id: String,
    object: &'static str,
    created_at: i64,
    /// What to send instead of the conversation.
    output: Vec<OutputItem>,
    usage: ResponseUsage,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// What a summary is made of. It is no answer, so nothing else has a say.
const SUMMED_UP: [&str; 5] =
    ["model", "input", "instructions", "previous_response_id", "conversation"];

/// What is counted, and how it is found.
const COUNTED: [&str; 6] =
    ["model", "input", "instructions", "previous_response_id", "conversation", "tools"];

/// What of the body is not among the `heeded` fields.
fn not_heeded(body: &Value, heeded: &[&str]) -> Option<ResponseNote> {
    let fields = body.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !value.is_null() && !heeded.contains(&&***name));
    let ignored: Vec<String> = fields.map(|(name, _)| name.clone()).collect();
    (!ignored.is_empty()).then_some(ResponseNote { ignored })
}

#[utoipa::path(
    post,
    path = "/v1/responses/compact",
    tag = "responses",
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "A summary to go on with", body = Compacted),
        (status = 409, description = "The previous response is not finished", body = ErrorBody),
        (status = 429, description = "The model is asked too often", body = FailedRunBody),
        (status = 500, description = "The model cannot be used", body = FailedRunBody),
        (status = 502, description = "There is no summary", body = FailedRunBody),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped answering", body = FailedRunBody),
    )
)]
pub(super) async fn compact(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<HttpResponse, Refusal> {
    let turnwire = not_heeded(&body, &SUMMED_UP);
    let request = request::read(body, &app.options().requests)?;
    if request.model.is_none() {
        let message = "`model` is missing.";
        return Err(Refusal::bad_request("missing_required_parameter", message).about("model"));
    }
    let mut before = look_back(&app, &caller, &request).await?;
    if before.conversation_id.take().is_some() {
        // The summary is in no conversation, so what is in this one has to come along.
        before.comes_along = true;
    }
    let mut run = prepare(&app, &caller, request, before).await?;
    ask_for_summary(&mut run);
    let hung_up = CancellationToken::new();
    let _here = hung_up.clone().drop_guard();
    let summary = app.tasks().spawn(sum_up(app.clone(), caller.clone(), run, hung_up));
    let (run_id, outcome, answer) = outcome_of(summary).await?;
    if let RunOutcome::Failed { failure } = &outcome {
        return Ok(FailedRun::new(failure).into_response());
    }
    if outcome != RunOutcome::Completed || answer.text().is_empty() {
        let message = "The model did not sum up the conversation; try again.";
        return Err(Refusal::new(StatusCode::BAD_GATEWAY, "not_compacted", message));
    }
    let encrypted_content = wrap_summary(answer.text());
    let id = turnwire_contract::ItemId::new(app.runs().new_id("cmp"));
    let compacted = Compacted {
        id: ids::response_id(&run_id),
        object: "response.compaction",
        created_at: app.runs().now().as_micros() / 1_000_000,
        output: vec![OutputItem::Compaction(CompactionItem { id, encrypted_content })],
        usage: ResponseUsage::from(answer.usage()),
        turnwire,
    };
    Ok(Json(compacted).into_response())
}

/// Makes the summary and forgets how, also for a client that has hung up; for that one, it is
/// not even made.
async fn sum_up(
    app: App,
    caller: Caller,
    run: RunRequest,
    hung_up: CancellationToken,
) -> Result<(RunId, RunOutcome, Answer), Refusal> {
    let tenant = run.tenant.clone();
    let handle = app.start(&caller, run, Start::default()).await?;
    let outcome = tokio::select! {
        biased;
        outcome = handle.outcome() => outcome,
        () = hung_up.cancelled() => {
            handle.cancel();
            handle.outcome().await
        }
    };
    let answer = answer_of(&handle).await;
    forget(app.runs(), &tenant, handle.id()).await;
    Ok((handle.id().clone(), outcome, answer?))
}

async fn answer_of(handle: &RunHandle) -> Result<Answer, Refusal> {
    let (mut answer, mut events) = (Answer::default(), handle.events_when_over().await?);
    while let Some(recorded) = events.try_next().await? {
        answer.note(&recorded);
    }
    Ok(answer)
}

/// The summary is a run like any other, without tools and in no conversation: it must not add
/// to what it sums up.
fn ask_for_summary(run: &mut RunRequest) {
    run.conversation_id = None;
    run.input.push(Item::user(SUMMARISE));
    run.first_calls.clear();
    run.tools.clear();
    run.servers.clear();
    run.tool_choice = ToolChoice::None;
    run.generation = Generation::default();
}

/// How much a request would make the model read.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
pub(super) struct InputTokens {
    object: &'static str,
    /// An estimate: a quarter of the bytes.
    input_tokens: u64,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

#[utoipa::path(
    post,
    path = "/v1/responses/input_tokens",
    tag = "responses",
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "An estimate", body = InputTokens),
        (status = 409, description = "The previous response is not finished", body = ErrorBody),
    )
)]
pub(super) async fn input_tokens(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<InputTokens>, Refusal> {
    let turnwire = not_heeded(&body, &COUNTED);
    let request = request::read(body, &app.options().requests)?;
    let before = look_back(&app, &caller, &request).await?;
    let entries = before.entries.clone();
    let run = prepare(&app, &caller, request, before).await?;
    let items = entries.iter().map(|entry| &*entry.item).chain(&run.input);
    let instructions = run.instructions.as_deref().map_or(0, str::len) as u64;
    let tools: u64 = run.tools.iter().map(|spec| written(&**spec)).sum();
    let bytes = instructions + tools;
    let input_tokens = bytes.div_ceil(BYTES_PER_TOKEN) + items.map(tokens_of).sum::<u64>();
    Ok(Json(InputTokens { object: "response.input_tokens", input_tokens, turnwire }))
}

fn tokens_of(item: &Item) -> u64 {
    match item {
        Item::Message { content, .. } => content.iter().map(tokens_of_content).sum(),
        Item::Reasoning { text, .. } => of_bytes(text),
        Item::Call { name, arguments, .. } => of_bytes(name) + of_bytes(arguments),
        Item::CallResult { output, images, .. } => {
            of_bytes(output) + images.len() as u64 * TOKENS_PER_PICTURE
        }
    }
}

fn tokens_of_content(content: &Content) -> u64 {
    match content {
        Content::Text { text } | Content::Refusal { text } => of_bytes(text),
        Content::Image { .. } | Content::File { .. } => TOKENS_PER_PICTURE,
    }
}

fn of_bytes(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

fn written(value: &impl Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |text| text.len() as u64)
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
