//! `POST /ag-ui`: starts a run, or goes on with one that waited for people.

use axum::{extract::State, response::Response as HttpResponse};
use tokio::sync::watch;
use turnwire_contract::{Entry, IdempotencyKey, RunRequest, Seq};
use turnwire_engine::{RunHandle, StartOptions};
use turnwire_surfaces::{AgUiFrame, ag_ui::Origin};

use super::{
    answers::answer_interrupts,
    input::{AgentRequest, OnDisconnect, RunAgentInput},
    message_references::with_references,
    messages::new_items,
    stream::{StreamOptions, stream_of},
    thread::{conversation_of, key_of},
};
use crate::{
    App, Caller, JsonBody, Result, client_tools::with_client_tools, responses::model_for,
    streaming::CancelOnDrop,
};

/// Run the agent and stream the events of AG-UI.
///
/// The tools of the settings are offered to the model, and those of the request, which the client
/// executes. When only people are awaited, the stream ends with interrupts; a request with `resume`
/// continues. The `id` of an event is its number, for `GET /ag-ui/runs/{run_id}`. The run continues
/// if the client disconnects, unless `forwardedProps.turnwire.on_disconnect` is `cancel`. The stream
/// ends cleanly only with `RUN_FINISHED` or `RUN_ERROR`; otherwise the connection breaks.
#[utoipa::path(
    post,
    path = "/ag-ui",
    request_body = RunAgentInput,
    responses(
        (status = 200, description = "The events of the run, as server-sent events", content(
            (AgUiFrame = "text/event-stream"),
        )),
        (status = 409,
            description = "The thread has a run in progress, or an interrupt was already answered"),
    )
)]
pub(super) async fn run_agent(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<HttpResponse> {
    let request = AgentRequest::read(body, &app.options().requests)?;
    if !request.answers.is_empty() {
        return answer_interrupts(&app, &caller, request).await;
    }
    let cancels = request.options.on_disconnect == Some(OnDisconnect::Cancel);
    let (seen, first_reader) = watch::channel(Seq::START);
    let handle = match find_same(&app, &caller, &request.origin).await? {
        Lookup::Same(handle) => handle,
        Lookup::Free => {
            let key = Some(key_of(&request.origin.run_id));
            start(&app, &caller, request, key, first_reader).await?
        }
        Lookup::Taken => start(&app, &caller, request, None, first_reader).await?,
    };
    let (tenant, run_id) = (caller.tenant(), handle.id().clone());
    let guard = cancels.then(|| CancelOnDrop::new(app.clone(), tenant.clone(), run_id.clone()));
    let options = StreamOptions { after: 0, seen: Some(seen), guard };
    Ok(stream_of(&app, tenant, &run_id, handle.events().await?, options))
}

/// What is known of a `runId`.
enum Lookup {
    /// No run has it.
    Free,
    /// The same request was sent before.
    Same(RunHandle),
    /// Another request had it. Clients that use one `runId` for all their runs exist; only the first
    /// run is found by it.
    Taken,
}

async fn find_same(app: &App, caller: &Caller, origin: &Origin) -> Result<Lookup> {
    let key = key_of(&origin.run_id);
    let Some(handle) = app.find_by_key(caller.tenant(), Some(&key)).await? else {
        return Ok(Lookup::Free);
    };
    let record = app.runs().find(caller.tenant(), handle.id()).await?;
    let is_same =
        Origin::of(&record.request).is_some_and(|before| before.fingerprint == origin.fingerprint);
    Ok(if is_same { Lookup::Same(handle) } else { Lookup::Taken })
}

async fn start(
    app: &App,
    caller: &Caller,
    request: AgentRequest,
    key: Option<IdempotencyKey>,
    first_reader: watch::Receiver<Seq>,
) -> Result<RunHandle> {
    let run = into_run(app, caller, request).await?;
    let options = StartOptions {
        first_reader: Some(first_reader),
        idempotency_key: key,
        ..StartOptions::default()
    };
    app.start(caller, run, options).await
}

/// The run that answers the request.
async fn into_run(app: &App, caller: &Caller, request: AgentRequest) -> Result<RunRequest> {
    let conversation_id = conversation_of(app, caller, &request.origin.thread_id).await?;
    let history: Vec<Entry> = app.runs().history(caller.tenant(), &conversation_id).await?;
    let mut run = app.chat_request(caller);
    run.input = new_items(&history, &request.messages, &request.tools)?;
    run.conversation_id = Some(conversation_id);
    run.model = model_for(app, caller, request.options.model.as_deref())?;
    let instructions = run.instructions.into_iter().chain(request.context_text());
    let instructions: Vec<String> = instructions.collect();
    run.instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    run.inputs = true;
    let messages = with_references(request.origin.messages, &history);
    run.surface_data = Origin { messages, ..request.origin }.surface_data();
    run.tools = with_client_tools(run.tools, request.tools, |n, _| format!("tools[{n}]"))?;
    Ok(run)
}
