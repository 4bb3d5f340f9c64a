//! `POST /v1/responses/compact` and `/input_tokens`: summarizing a conversation, and estimating its
//! size.

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
use turnwire_engine::{RunHandle, StartOptions};
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
    create::delete,
    prepare::{load_prior, prepare},
    request::{self, wrap_summary},
};
use crate::{
    ApiError, App, Caller, Json, JsonBody, Result,
    failed_run::{FailedRun, FailedRunBody},
    start_run::outcome_of,
};

/// Instruction for the model that writes the summary.
const SUMMARISE: &str = "Sum up the conversation so far for yourself, so that it can go on \
                         without it: what was asked, what is known, what was decided, what the \
                         tools brought, what is still open. Leave out nothing that matters \
                         later. Write only the summary.";

/// Estimated bytes of text per token; no tokenizer fits every model.
const BYTES_PER_TOKEN: u64 = 4;
/// Estimated tokens of an image or a file.
const TOKENS_PER_PICTURE: u64 = 800;

/// A summarized conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Compacted {
    /// ID of the summary.
    id: String,
    /// Always `response.compaction`.
    object: &'static str,
    /// Time of creation, in Unix seconds.
    created_at: i64,
    /// Items to send instead of the conversation.
    output: Vec<OutputItem>,
    /// Tokens used to write the summary.
    usage: ResponseUsage,
    /// Present if request fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// The fields a summary uses. All others are ignored.
const SUMMED_UP: [&str; 5] =
    ["model", "input", "instructions", "previous_response_id", "conversation"];

/// The fields an estimate uses. All others are ignored.
const COUNTED: [&str; 6] =
    ["model", "input", "instructions", "previous_response_id", "conversation", "tools"];

/// The fields of the body that are not in `heeded`.
fn not_heeded(body: &Value, heeded: &[&str]) -> Option<ResponseNote> {
    let fields = body.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !value.is_null() && !heeded.contains(&&***name));
    let ignored: Vec<String> = fields.map(|(name, _)| name.clone()).collect();
    (!ignored.is_empty()).then_some(ResponseNote { ignored })
}

/// Summarize a conversation.
///
/// The output can be sent instead of the conversation. Only `model` (required), `input`,
/// `instructions`, `previous_response_id` and `conversation` are used.
#[utoipa::path(
    post,
    path = "/v1/responses/compact",
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "The summary", body = Compacted),
        (status = 409, description = "The previous response is still in progress"),
        (status = 429, description = "The model provider's rate limit was reached",
            body = FailedRunBody),
        (status = 500, description = "The run failed with an error that a retry does not resolve",
            body = FailedRunBody),
        (status = 502, description = "The model did not write a summary", body = FailedRunBody),
        (status = 503, description = "The model is not available", body = FailedRunBody),
        (status = 504, description = "The model stopped responding", body = FailedRunBody),
    )
)]
pub(super) async fn compact(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<HttpResponse> {
    let turnwire = not_heeded(&body, &SUMMED_UP);
    let request = request::read(body, &app.options().requests)?;
    if request.model.is_none() {
        let message = "`model` is missing.";
        return Err(ApiError::bad_request("missing_required_parameter", message).about("model"));
    }
    let mut before = load_prior(&app, &caller, &request).await?;
    if before.conversation_id.take().is_some() {
        // The run that writes the summary is in no conversation, so the items are passed with it.
        before.is_inline = true;
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
        return Err(ApiError::new(StatusCode::BAD_GATEWAY, "not_compacted", message));
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

/// Runs the summary and deletes the run afterwards, even if the client disconnects. In that case
/// the run is cancelled.
async fn sum_up(
    app: App,
    caller: Caller,
    run: RunRequest,
    hung_up: CancellationToken,
) -> Result<(RunId, RunOutcome, Answer)> {
    let tenant = run.tenant.clone();
    let handle = app.start(&caller, run, StartOptions::default()).await?;
    let outcome = tokio::select! {
        biased;
        outcome = handle.outcome() => outcome,
        () = hung_up.cancelled() => {
            handle.cancel();
            handle.outcome().await
        }
    };
    let answer = answer_of(&handle).await;
    delete(app.runs(), &tenant, handle.id()).await;
    Ok((handle.id().clone(), outcome, answer?))
}

async fn answer_of(handle: &RunHandle) -> Result<Answer> {
    let (mut answer, mut events) = (Answer::default(), handle.events_when_over().await?);
    while let Some(recorded) = events.try_next().await? {
        answer.note(&recorded);
    }
    Ok(answer)
}

/// Turns the request into a run without tools and outside of any conversation, so that it does not
/// add to what it summarizes.
fn ask_for_summary(run: &mut RunRequest) {
    run.conversation_id = None;
    run.input.push(Item::user(SUMMARISE));
    run.first_calls.clear();
    run.tools.clear();
    run.servers.clear();
    run.tool_choice = ToolChoice::None;
    run.generation = Generation::default();
}

/// Estimated size of the input.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
pub(super) struct InputTokens {
    /// Always `response.input_tokens`.
    object: &'static str,
    /// Estimated number of input tokens: bytes of text divided by 4, and 800 for each image or
    /// file.
    input_tokens: u64,
    /// Present if request fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// Estimate the number of input tokens of a request.
#[utoipa::path(
    post,
    path = "/v1/responses/input_tokens",
    request_body = request::CreateResponse,
    responses(
        (status = 200, description = "The estimate", body = InputTokens),
        (status = 409, description = "The previous response is still in progress"),
    )
)]
pub(super) async fn input_tokens(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<InputTokens>> {
    let turnwire = not_heeded(&body, &COUNTED);
    let request = request::read(body, &app.options().requests)?;
    let before = load_prior(&app, &caller, &request).await?;
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
