//! Turns a request into a run: looks up everything it refers to.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use axum::http::StatusCode;
use serde_json::{Value, json};
use turnwire_contract::{
    AskBefore, CallId, CollectionId, ConversationId, Entry, Item, RunId, RunRequest, Scope,
    ServerUse, StoreError, ToolChoice, ToolKind, ToolSpec,
};
use turnwire_engine::StartError;
use turnwire_surfaces::responses::{ids, surface_data};

use super::{
    references::resolve_references,
    request::{
        self, ClientError, CreateResponse, Input, InputBody, PlacedTool, RequestedServer,
        RequestedTool, RequestedTools, ResolvedRequest,
    },
    stored,
};
use crate::{
    api_error::{ApiError, Result},
    app::App,
    auth::Caller,
    conversations,
};

/// The context that a request continues.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorContext {
    pub(super) conversation_id: Option<ConversationId>,
    /// The run that is continued, if it is stored.
    pub(super) continues: Option<RunId>,
    /// Everything the model has received and generated so far.
    pub(super) entries: Vec<Entry>,
    /// Whether the entries are not stored, so that they have to be passed with the run.
    pub(super) is_inline: bool,
}

/// Looks up the context that a request continues.
pub(super) async fn load_prior(
    app: &App,
    caller: &Caller,
    request: &CreateResponse,
) -> Result<PriorContext> {
    if let Some(id) = &request.conversation {
        let found = conversations::find(app, caller, id).await;
        let conversation_id = found.map_err(|error| error.about("conversation"))?.id;
        let entries = app.runs().history(caller.tenant(), &conversation_id).await?;
        let conversation_id = Some(conversation_id);
        return Ok(PriorContext { conversation_id, entries, ..PriorContext::default() });
    }
    if let Some(id) = &request.previous_response_id {
        // A response that is not stored is deleted soon, if it still exists.
        let found = stored::find(app, caller, id).await;
        let found = found.map_err(|error| match error.status {
            StatusCode::NOT_FOUND => previous_not_found(id),
            _ => error.about("previous_response_id"),
        });
        let run_id = found?.run_id;
        let entries = app.runs().context(caller.tenant(), &run_id).await;
        let entries = entries.map_err(|error| match error {
            StoreError::NotFound(_) => previous_not_found(id),
            other => ApiError::from(other).about("previous_response_id"),
        })?;
        return Ok(PriorContext { continues: Some(run_id), entries, ..PriorContext::default() });
    }
    Ok(PriorContext::default())
}

pub(super) fn previous_not_found(id: &str) -> ApiError {
    let message = format!("Previous response with id '{id}' not found.");
    ApiError::bad_request("previous_response_not_found", message).about("previous_response_id")
}

/// Turns a request into a run.
pub(super) async fn prepare(
    app: &App,
    caller: &Caller,
    request: CreateResponse,
    prior: PriorContext,
) -> Result<RunRequest> {
    let model = model_for(app, caller, request.model.as_deref())?;
    let mut input = read_input(app, caller, request.input.as_ref(), &prior.entries).await?;
    let history: Vec<&Item> = prior.entries.iter().map(|entry| &*entry.item).collect();
    request::check_calls(&history, &input.items)?;
    let asked = asked_about(&input, &prior.entries);
    let call_of = |id: &str| asked.get(id).cloned();
    if !input.answers.is_empty() {
        caller.ensure(Scope::Approve)?;
    }
    // Calls of an earlier run that wait for this request, for an approval for example: settled
    // before the first turn.
    let first_calls = request::take_first_calls(&history, &mut input, call_of)?;

    let requested_tools = read_tools(app, &request)?;
    let (tool_choice, wanted) =
        request::read_choice(request.tool_choice.as_ref(), requested_tools.tools, &[])?;
    let only_named = request::functions_by_name(&request.tools.0);
    let found = find_tools(app, caller, wanted, &only_named).await?;
    found.check_choice(request.tool_choice.as_ref(), &tool_choice)?;
    request::qualify_call_names(&mut input.items, &found.tools);

    let mut limits = app.options().limits.clone();
    if request.background == Some(true) {
        limits.wall_clock = app.options().background_time;
    }
    let ignored = [requested_tools.ignored, input.ignored, found.left_out];
    let resolved = ResolvedRequest {
        tenant: caller.tenant().clone(),
        model,
        conversation_id: prior.conversation_id,
        continues: prior.continues,
        n_before_calls: input.n_before_calls,
        input: input.items,
        first_calls,
        tools: found.tools,
        servers: found.servers,
        tool_choice,
        limits,
    };
    let mut run = request::into_run(request, resolved);
    note_ignored(app, &mut run, ignored.into_iter().flatten())?;
    if prior.is_inline {
        run.before = prior.entries;
    }
    if !asked.is_empty() {
        let asked = asked.into_iter().map(|(id, call)| (call.to_string(), json!(id))).collect();
        run.surface_data.insert(surface_data::APPROVAL_REQUESTS.to_owned(), Value::Object(asked));
    }
    Ok(run)
}

/// The model to use: the requested one, or the fallback for unknown names.
pub(crate) fn model_for(app: &App, caller: &Caller, asked: Option<&str>) -> Result<String> {
    let who = caller.principal();
    let name = asked.map(str::to_owned).or_else(|| app.default_model(caller));
    let name = name.ok_or_else(|| app.no_model_named(caller))?;
    if app.runs().knows_model(who, &name) {
        return Ok(name);
    }
    let fallback = app.options().fallback_model.clone();
    let fallback = fallback.filter(|name| app.runs().may_use_model(who, name));
    fallback.ok_or_else(|| StartError::UnknownModel(name).into())
}

/// The tools in `tools`, and those in the input.
fn read_tools(app: &App, request: &CreateResponse) -> Result<RequestedTools, ClientError> {
    let listed = request.tools.0.iter().enumerate();
    let listed = listed.map(|(n, tool)| (format!("tools[{n}]"), tool));
    let additional = request::additional_tools(request.input.as_ref())?;
    let tools: Vec<PlacedTool<'_>> = listed.chain(additional).collect();
    request::read_tools(&tools, &app.options().requests)
}

/// Records the fields that are ignored, by the gateway or by the model, for the response to list.
fn note_ignored(
    app: &App,
    run: &mut RunRequest,
    more: impl Iterator<Item = String>,
) -> Result<(), ClientError> {
    let capabilities = app.runs().capabilities(&run.model).unwrap_or_default();
    request::check_custom_tools(&capabilities, run)?;
    let mut ignored: BTreeSet<String> = more.collect();
    ignored.extend(request::not_taken(&capabilities, run));
    if let Some(Value::Array(of_body)) = run.surface_data.shift_remove(surface_data::IGNORED) {
        ignored.extend(of_body.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    if !ignored.is_empty() {
        run.surface_data.insert(surface_data::IGNORED.to_owned(), json!(ignored));
    }
    Ok(())
}

async fn read_input(
    app: &App,
    caller: &Caller,
    input: Option<&InputBody>,
    entries: &[Entry],
) -> Result<Input> {
    let Some(body) = input else { return Ok(Input::default()) };
    let references = request::references(body);
    let references_found = resolve_references(app, caller, references, entries).await?;
    Ok(request::read_input(body, &references_found)?)
}

/// The calls that the answered approval requests are about.
fn asked_about(input: &Input, entries: &[Entry]) -> BTreeMap<String, CallId> {
    let call_of = |id: &str| {
        let item_id = ids::asked_about(id)?;
        let entry = entries.iter().find(|entry| entry.id == item_id)?;
        match &*entry.item {
            Item::Call { call_id, .. } => Some(call_id.clone()),
            Item::Message { .. } | Item::Reasoning { .. } | Item::CallResult { .. } => None,
        }
    };
    let answers = input.answers.iter().map(|answer| &answer.approval_request_id);
    answers.filter_map(|id| Some((id.clone(), call_of(id)?))).collect()
}

/// The tools of a chat, as the client listed them: tools and MCP servers of the settings. Nothing
/// is left out silently, because a chat has no place to report it, and no call can go to the
/// client.
pub(crate) async fn choose_tools(
    app: &App,
    caller: &Caller,
    listed: &[Value],
) -> Result<ResolvedTools> {
    let placed: Vec<PlacedTool<'_>> =
        listed.iter().enumerate().map(|(n, tool)| (format!("tools[{n}]"), tool)).collect();
    let requested = request::read_tools(&placed, &app.options().requests)?;
    let only_named = request::functions_by_name(listed);
    let found = find_tools(app, caller, requested.tools, &only_named).await?;
    if let Some(path) = requested.ignored.first() {
        let message = format!("`{path}` has no effect here; leave it out.");
        return Err(ApiError::bad_request("unsupported_parameter", message).about(path));
    }
    if let Some(path) = found.left_out.first() {
        return Err(no_web_search().about(format!("{path}.type")));
    }
    let of_client = found.tools.iter().find(|tool| tool.kind.is_run_by_client());
    if let Some(ToolSpec { name, .. }) = of_client.map(AsRef::as_ref) {
        let is_it = |tool: &Value| tool.get("name").and_then(Value::as_str) == Some(name);
        let place = listed.iter().position(is_it).unwrap_or_default();
        let message = format!(
            "There is no function `{name}` in the settings of this server, and a chat cannot pass \
             calls on to the client. Use /v1/responses for functions of your own."
        );
        let error = ApiError::bad_request("unsupported_tool", message);
        return Err(error.about(format!("tools[{place}].name")));
    }
    Ok(found)
}

/// The tools of a run.
#[derive(Default)]
pub(crate) struct ResolvedTools {
    pub(crate) tools: Vec<Arc<ToolSpec>>,
    pub(crate) servers: Vec<ServerUse>,
    /// Paths of requested searches that this server does not have and the client can do without.
    left_out: Vec<String>,
}

impl ResolvedTools {
    /// A search that was left out is refused after all if `tool_choice` depends on it.
    fn check_choice(&self, written: Option<&Value>, choice: &ToolChoice) -> Result<()> {
        if self.left_out.is_empty() {
            return Ok(());
        }
        let must_call = matches!(choice, ToolChoice::Required);
        let has_none = self.tools.is_empty() && self.servers.is_empty();
        if request::names_web_search(written) || must_call && has_none {
            return Err(no_web_search().about("tool_choice"));
        }
        Ok(())
    }
}

fn no_web_search() -> ApiError {
    let message = "This server has no web search: leave the tool out, or have its operator set \
                   one up with [web_search] in the settings.";
    ApiError::bad_request("unsupported_tool", message)
}

/// Looks up the requested tools. A search that this server does not have is refused, because the
/// model would answer from memory what it was told to look up.
async fn find_tools(
    app: &App,
    caller: &Caller,
    requested_tools: Vec<RequestedTool>,
    bare: &HashSet<&str>,
) -> Result<ResolvedTools> {
    let mut found = ResolvedTools::default();
    for requested in requested_tools {
        match requested {
            RequestedTool::Function(spec) => {
                let ours = app.function(caller, &spec.name).filter(|_| bare.contains(&*spec.name));
                found.tools.push(ours.unwrap_or_else(|| Arc::new(spec)));
            }
            RequestedTool::WebSearch { settings, param } => {
                match app.built_in(caller, ToolKind::WebSearch) {
                    Some(spec) => found.tools.push(with_settings(&spec, settings)),
                    None if stays_off_the_web(&settings) => found.left_out.push(param),
                    None => return Err(no_web_search().about(format!("{param}.type"))),
                }
            }
            RequestedTool::FileSearch { settings, param } => {
                check_collections(app, caller, &settings, &param).await?;
                let Some(spec) = app.built_in(caller, ToolKind::FileSearch) else {
                    let message = "This server has no file search; leave the tool out.";
                    let error = ApiError::bad_request("unsupported_tool", message);
                    return Err(error.about(format!("{param}.type")));
                };
                found.tools.push(with_settings(&spec, settings));
            }
            RequestedTool::Mcp(requested) => {
                found.servers.push(find_server(app, caller, requested)?);
            }
        }
    }
    Ok(found)
}

fn with_settings(spec: &ToolSpec, settings: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec { settings, ..spec.clone() })
}

/// Whether a web search may use the index of its provider only. Codex requests that by default,
/// without anybody having asked for a search.
fn stays_off_the_web(settings: &Value) -> bool {
    settings.get("external_web_access") == Some(&Value::Bool(false))
}

async fn check_collections(
    app: &App,
    caller: &Caller,
    settings: &Value,
    param: &str,
) -> Result<()> {
    let named = settings.get("vector_store_ids").and_then(Value::as_array);
    let Some(named) = named.filter(|ids| !ids.is_empty()) else {
        return Err(ClientError::missing(format!("{param}.vector_store_ids")).into());
    };
    caller.ensure(Scope::Files)?;
    for id in named.iter().filter_map(Value::as_str) {
        let found = app.library().collection(caller.tenant(), &CollectionId::new(id)).await;
        found.map_err(|_| ApiError::not_found("Vector store", id).about("tools"))?;
    }
    Ok(())
}

/// Looks up an MCP server. A request names a configured server by its label, or brings its own URL
/// if the settings allow it. The tools of such a server have no configured approvals, so each call
/// needs an approval unless the request says otherwise.
fn find_server(app: &App, caller: &Caller, requested: RequestedServer) -> Result<ServerUse> {
    let RequestedServer { label, url, allowed, ask_before, param, secrets } = requested;
    let (servers, tenant) = (app.runs().servers(), caller.tenant());
    let labels = app.runs().server_labels(caller.principal());
    let (url, unless_said) = match url {
        _ if labels.contains(&label) => (None, AskBefore::Nothing),
        Some(url) if servers.allows_url(tenant, &url) => (Some(url), AskBefore::Everything),
        Some(_) => {
            let message = format!(
                "The MCP server '{label}' is not in the settings of this server, and its operator \
                 does not let requests supply one from that address. See [[mcp.on_request]] in the \
                 settings."
            );
            let param = format!("{param}.server_url");
            return Err(ApiError::bad_request("mcp_server_not_found", message).about(param));
        }
        None => {
            let message = format!(
                "There is no MCP server '{label}' in the settings of this server. Servers are \
                 configured by its operator; a request names one by its `server_label`."
            );
            let param = format!("{param}.server_label");
            return Err(ApiError::bad_request("mcp_server_not_found", message).about(param));
        }
    };
    let has_secrets = !secrets.is_empty();
    if has_secrets && (url.is_none() || !app.runs().keeps_secrets()) {
        let message = match url {
            None => format!(
                "Headers and tokens for the MCP server '{label}' are set by the operator of this \
                 server; leave out `headers` and `authorization`."
            ),
            Some(_) => format!(
                "Headers and tokens for the MCP server '{label}' cannot be kept for the run: this \
                 server has no keys to encrypt them. Its operator can set one up with [secrets] in \
                 the settings."
            ),
        };
        return Err(ApiError::bad_request("unsupported_parameter", message).about(param));
    }
    // Whoever asks for no approvals approves beforehand.
    if url.is_some() && ask_before.as_ref().is_some_and(|before| *before != AskBefore::Everything) {
        caller.ensure(Scope::Approve)?;
    }
    let ask_before = ask_before.unwrap_or(unless_said);
    let secrets = has_secrets.then_some(secrets);
    Ok(ServerUse { label, url, allowed, ask_before, has_secrets, secrets })
}
