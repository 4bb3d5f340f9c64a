//! Composition of models, tools and stores. The only file that names the adapters.

use std::{env, sync::Arc, time::Duration};

use turnwire::{Agent, Error, Model};
use turnwire_contract::{
    CustomTools, Pins, SecretBox, SpanCounts, TokenVerifier, Tool, ToolServers, WebhookCounts,
    WebhookOutbox,
};
use turnwire_engine::{
    ApprovalPolicy, EngineParts, MemoryBlobStore, MemoryJournal, MemoryPins, MemoryRunStore, Runs,
    Toolbox, ToolboxError,
};
use turnwire_gateway::{App, AppOptions, AuthOptions, Webhooks};
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    CustomToolsAsFunctions, DEFAULT_CONNECT_TIMEOUT, JsonSchemaCalls, OpenAiResponses,
    OpenAiResponsesOptions, Priced, Upstream, Upstreams, UpstreamsOptions, WithoutParameters,
};
use turnwire_oidc::{Oidc, OidcOptions};
use turnwire_otel::{Providers, SpanExport};
use turnwire_stores::{OpenError, Store};
use turnwire_tools::{
    DefaultAnalyzer, Egress, EgressOptions, Embeddings, EmbeddingsOptions, FileSearch,
    HttpFunction, HttpFunctionOptions, Indexer, McpServers, PdfProgram, WebSearch,
    WebSearchOptions, WebhookSender,
};

use crate::{
    demo,
    exit::Problem,
    settings::{
        ApprovalSettings, Demo, Kind, ModelSettings, OtherNames, Provider, RunSettings,
        ServeSettings, ServedModels, ToolCalling, UpstreamSettings,
    },
};

/// Number of finished runs that a gateway without a store keeps for its clients.
pub(crate) const FINISHED_RUNS_KEPT: usize = 10_000;
/// Number of large results that it keeps.
const BIG_RESULTS_KEPT: usize = 1_000;

/// Builds the agent, and the tool servers that must be shut down with it. Starts nothing.
pub(crate) fn agent(settings: &RunSettings) -> Result<(Agent, Arc<McpServers>), Problem> {
    let tool_servers = Arc::new(McpServers::new(settings.tool_servers.clone()));
    let mut agent = Agent::builder()
        .model_name(settings.model_name.as_str())
        .limits(settings.limits.clone())
        .ask_before(settings.ask_before.iter().copied())
        .tool_servers(tool_servers.clone())
        .shared_model(model(&settings.model)?);
    if let Some(instructions) = &settings.instructions {
        agent = agent.instructions(instructions.as_str());
    }
    let demo = settings.model.demo();
    if let Some(demo) = demo {
        agent = agent
            .tool(demo::multiply(demo.tool_time))
            .tool(demo::deploy_check(demo.tool_time))
            .tool(demo::delete_branch(demo.tool_time));
    }
    if let Some(search) = search_tool(settings.web_search.as_ref(), &settings.egress, demo)? {
        agent = agent.shared_tool(search);
    }
    for options in &settings.functions {
        agent = agent.tool(http_function(options)?);
    }
    let agent = agent.build().map_err(|error: Error| Problem::failure(error.to_string()))?;
    Ok((agent, tool_servers))
}

/// A gateway that is ready to listen.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) app: App,
    /// The tool servers, to be shut down with the gateway.
    pub(crate) tool_servers: Arc<McpServers>,
    /// The store, to be closed after the gateway; none if in memory.
    pub(crate) store: Option<Store>,
    /// Indexes files in the background, once it is started.
    pub(crate) indexer: Indexer,
    /// Sends webhooks in the background, once it is started; none if there is no receiver.
    pub(crate) webhooks: Option<WebhookSender>,
    /// Sends spans in the background, once it is started; none if there is no receiver.
    pub(crate) traces: Option<SpanExport>,
}

/// Builds the gateway. Opens its store, and starts nothing else.
pub(crate) async fn gateway(settings: &ServeSettings) -> Result<Gateway, Problem> {
    let store = match &settings.store {
        Some(options) => Some(Store::open(options.clone()).await.map_err(not_opened)?),
        None => None,
    };
    let reader = Arc::new(DefaultAnalyzer::new(embeddings(settings.embeddings.as_ref())?));
    let files = match &store {
        Some(store) => store.clone(),
        None => Store::in_memory().await.map_err(not_opened)?,
    };
    let library = Arc::new(files.library(reader.clone()));
    let mut tools = Toolbox::default();
    let unusable = |error: ToolboxError| Problem::failure(error.to_string());
    tools.add(Arc::new(FileSearch::new(library.clone()))).map_err(unusable)?;
    let demo = settings.models.demo();
    if let Some(search) = search_tool(settings.web_search.as_ref(), &settings.egress, demo)? {
        tools.add(search).map_err(unusable)?;
    }
    for options in &settings.functions {
        tools.add(Arc::new(http_function(options)?)).map_err(unusable)?;
    }
    let named = settings.models.named.iter();
    let models = named.map(|(name, settings)| Ok((name.clone(), model(settings)?)));
    let tool_servers = McpServers::new(settings.tool_servers.clone())
        .allowing_urls(settings.on_request.clone(), egress(&settings.egress)?);
    let tool_servers = Arc::new(tool_servers);
    let servers: Arc<dyn ToolServers> = match demo {
        Some(demo) => Arc::new(demo::WithDemo::new(tool_servers.clone(), demo.tool_time)),
        None => tool_servers.clone(),
    };
    let (any_model, fallback_model) = match &settings.models.others {
        OtherNames::Refused => (None, None),
        OtherNames::PassedOn(to) => (Some(provided(to.clone())?), None),
        OtherNames::AnsweredBy(name) => (None, Some(name.clone())),
    };
    let taken = &settings.server_limits;
    let runs = Runs::new(EngineParts {
        models: models.collect::<Result<_, Problem>>()?,
        model_tenants: settings.models.tenants.clone(),
        any_model,
        any_model_tenants: settings.models.other_tenants.clone(),
        access: Arc::new(settings.access.clone()),
        tools,
        servers,
        secret_box: settings.secret_keys.clone().map(|keys| Arc::new(keys) as Arc<dyn SecretBox>),
        library: Some(library.clone()),
        max_prompt_files: taken.prompt_file_bytes,
        policy: policy(&settings.approvals, store.as_ref()),
        max_gathering: taken.gathering,
        quotas: settings.quotas.clone(),
        sampler: settings.traces.as_ref().map(|traces| traces.sampler),
        ..kept_in(store.as_ref())
    });
    let spans = Arc::new(SpanCounts::default());
    let traces = traces(settings, &runs, &spans)?;
    let webhooks = store.as_ref().map(outbox);
    let options = AppOptions {
        default_model: settings.models.default_name.clone(),
        fallback_model,
        models_with_tools: settings.models.with_tools.clone(),
        instructions: settings.instructions.clone(),
        limits: settings.limits.clone(),
        background_time: taken.background_time,
        body_limit: taken.body_bytes,
        upload_limit: taken.file_bytes,
        requests: taken.requests.clone(),
        admission: taken.admission.clone(),
        heartbeat: taken.heartbeat,
        auth: AuthOptions { tokens: tokens(settings.oidc.as_ref())?, ..settings.auth.clone() },
        audit: settings.audit,
        worker: store.as_ref().map(|store| store.worker().to_owned()),
        webhooks: webhooks.clone(),
        spans,
        ..AppOptions::default()
    };
    let indexer = Indexer::new(library.clone(), reader, pdf_program());
    let app = App::new(runs, library, options);
    let webhooks = webhooks.map(|webhooks| sender(webhooks, settings, &app)).transpose()?;
    let webhooks = webhooks.flatten();
    Ok(Gateway { app, tool_servers, store, indexer, webhooks, traces })
}

/// Observes the runs with what exports their spans, if there is a receiver.
fn traces(
    settings: &ServeSettings,
    runs: &Runs,
    counts: &Arc<SpanCounts>,
) -> Result<Option<SpanExport>, Problem> {
    let Some(options) = &settings.traces else { return Ok(None) };
    let providers = providers(&settings.models);
    let (export, observer) = SpanExport::new(options, providers, Arc::clone(counts))
        .map_err(|error| Problem::failure(error.to_string()))?;
    runs.observe_with(Arc::new(observer));
    Ok(Some(export))
}

/// Names the providers of the models, as the semantic conventions do: by the API that they speak.
fn providers(models: &ServedModels) -> Providers {
    let name = |settings: &ModelSettings| match settings {
        ModelSettings::Scripted(_) => "scripted",
        ModelSettings::Provider(provider) => provider_name(provider.kind),
    };
    let named = models.named.iter().map(|(model, settings)| (model.clone(), name(settings).into()));
    let others = match &models.others {
        OtherNames::PassedOn(provider) => provider_name(provider.kind),
        OtherNames::AnsweredBy(model) => models.named.get(model).map_or("", name),
        OtherNames::Refused => "",
    };
    Providers { named: named.collect(), others: others.into() }
}

fn provider_name(kind: Kind) -> &'static str {
    match kind {
        Kind::ChatCompletions | Kind::OpenAiResponses => "openai",
        Kind::AnthropicMessages => "anthropic",
    }
}

/// Returns the outbox of webhooks. A gateway that sends none lists those of others.
fn outbox(store: &Store) -> Webhooks {
    let outbox: Arc<dyn WebhookOutbox> = Arc::new(store.clone());
    Webhooks { outbox, counts: Arc::new(WebhookCounts::default()) }
}

fn sender(
    webhooks: Webhooks,
    settings: &ServeSettings,
    app: &App,
) -> Result<Option<WebhookSender>, Problem> {
    let receivers = settings.webhooks.receivers.clone();
    if receivers.is_empty() {
        return Ok(None);
    }
    let (Webhooks { outbox, counts }, runs) = (webhooks, app.runs().clone());
    let now = Arc::new(move || runs.now());
    Ok(Some(WebhookSender::new(outbox, egress(&settings.egress)?, receivers, counts, now)))
}

/// This program extracts text from PDFs, in a child process.
fn pdf_program() -> Option<PdfProgram> {
    env::current_exe().ok().map(|program| PdfProgram::new(program, "read-pdf"))
}

/// Returns what verifies tokens, if an identity provider is set.
pub(crate) fn oidc(options: &OidcOptions) -> Result<Oidc, Problem> {
    Oidc::new(options.clone()).map_err(|error| {
        Problem::usage(format!("tokens cannot be verified: {}", turnwire_http::chain(&error)))
            .hint("check [oidc] in the settings")
    })
}

fn tokens(options: Option<&OidcOptions>) -> Result<Option<Arc<dyn TokenVerifier>>, Problem> {
    let verifier = options.map(oidc).transpose()?;
    Ok(verifier.map(|verifier| Arc::new(verifier) as Arc<dyn TokenVerifier>))
}

fn embeddings(options: Option<&EmbeddingsOptions>) -> Result<Option<Embeddings>, Problem> {
    let made = options.map(|options| Embeddings::new(options.clone())).transpose();
    made.map_err(|error| {
        Problem::usage(format!("the embeddings cannot be used: {error}"))
            .hint("check [embeddings] in the settings")
    })
}

fn policy(settings: &ApprovalSettings, store: Option<&Store>) -> ApprovalPolicy {
    let pins = settings.pin_definitions.then(|| match store {
        Some(store) => Arc::new(store.clone()) as Arc<dyn Pins>,
        None => Arc::new(MemoryPins::default()),
    });
    let (ask_before, unknown_outcomes) = (settings.ask_before.clone(), settings.unknown_outcomes);
    ApprovalPolicy { ask_before, unknown_outcomes, pins }
}

/// Returns the parts of an engine that stores its runs in `store` or in memory.
fn kept_in(store: Option<&Store>) -> EngineParts {
    let Some(store) = store else {
        let journal = Arc::new(MemoryJournal::keeping(FINISHED_RUNS_KEPT));
        return EngineParts {
            store: Arc::new(MemoryRunStore::keeping(FINISHED_RUNS_KEPT).beside(&journal)),
            journal,
            blobs: Arc::new(MemoryBlobStore::keeping(BIG_RESULTS_KEPT)),
            ..EngineParts::default()
        };
    };
    EngineParts {
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        shares: Arc::new(store.clone()),
        api_keys: Arc::new(store.clone()),
        audit: Arc::new(store.clone()),
        usage: Some(Arc::new(store.clone())),
        workers: Arc::new(store.clone()),
        ..EngineParts::default()
    }
}

pub(crate) fn not_opened(error: OpenError) -> Problem {
    Problem::failure(format!("the store cannot be opened: {error}"))
        .hint("check [store] in the settings, or TURNWIRE_STORE_URL")
        .hint("TURNWIRE_STORE_URL=memory: keeps runs in memory, for as long as the process lives")
}

fn model(settings: &ModelSettings) -> Result<Arc<dyn Model>, Problem> {
    match settings {
        ModelSettings::Scripted(demo) => Ok(Arc::new(demo::model(*demo))),
        ModelSettings::Provider(provider) => provided(provider.clone()),
    }
}

/// Builds the model of a provider, with its wrappers.
fn provided(provider: Provider) -> Result<Arc<dyn Model>, Problem> {
    let Provider { kind, upstreams, timeouts, tool_calling, custom_tools, unsupported, price } =
        provider;
    let usual = UpstreamsOptions::default();
    let options = UpstreamsOptions {
        first_content_timeout: timeouts.first_content,
        max_wait: timeouts.max_wait.unwrap_or(usual.max_wait),
    };
    let connect_timeout = timeouts.connect.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
    let upstreams =
        upstreams.into_iter().map(|upstream| upstream_of(kind, upstream, connect_timeout));
    let upstreams = upstreams.collect::<Result<_, Problem>>()?;
    let model: Arc<dyn Model> = Arc::new(Upstreams::new(upstreams, options));
    let model: Arc<dyn Model> = match price {
        Some(price) => Arc::new(Priced::new(model, price)),
        None => model,
    };
    let model: Arc<dyn Model> = match unsupported.as_slice() {
        [] => model,
        _ => Arc::new(WithoutParameters::new(model, unsupported)),
    };
    let (model, custom_tools): (Arc<dyn Model>, _) = match (tool_calling, custom_tools) {
        (ToolCalling::Native, custom_tools) => (model, custom_tools),
        // Tools that are described in text are always functions.
        (ToolCalling::JsonSchema, CustomTools::Refused) => {
            (Arc::new(JsonSchemaCalls::new(model)), CustomTools::Refused)
        }
        (ToolCalling::JsonSchema, CustomTools::Native | CustomTools::AsFunctions) => {
            (Arc::new(JsonSchemaCalls::new(model)), CustomTools::AsFunctions)
        }
    };
    Ok(match custom_tools {
        CustomTools::Native => model,
        CustomTools::AsFunctions => Arc::new(CustomToolsAsFunctions::new(model)),
        CustomTools::Refused => Arc::new(CustomToolsAsFunctions::refusing(model)),
    })
}

fn upstream_of(
    kind: Kind,
    settings: UpstreamSettings,
    connect_timeout: Duration,
) -> Result<Upstream, Problem> {
    let UpstreamSettings { name, base_url, api_key, model, weight, max_concurrency } = settings;
    let model: Result<Arc<dyn Model>, _> = match kind {
        Kind::ChatCompletions => {
            let usual = ChatCompletionsOptions::new(base_url);
            ChatCompletions::new(ChatCompletionsOptions {
                api_key,
                model,
                connect_timeout,
                ..usual
            })
            .map(|model| Arc::new(model) as _)
        }
        Kind::OpenAiResponses => {
            let usual = OpenAiResponsesOptions::default();
            OpenAiResponses::new(OpenAiResponsesOptions {
                base_url,
                api_key,
                model,
                connect_timeout,
                ..usual
            })
            .map(|model| Arc::new(model) as _)
        }
        Kind::AnthropicMessages => AnthropicMessages::new(AnthropicMessagesOptions {
            base_url,
            api_key,
            model,
            connect_timeout,
        })
        .map(|model| Arc::new(model) as _),
    };
    let model = model.map_err(|error| {
        Problem::usage(format!("the model cannot be used: {error}"))
            .hint("check its address and its key in the settings")
    })?;
    Ok(Upstream { name, model, weight, max_concurrency })
}

fn http_function(options: &HttpFunctionOptions) -> Result<HttpFunction, Problem> {
    let name = &options.name;
    HttpFunction::new(options.clone()).map_err(|error| {
        Problem::usage(format!("the function `{name}` cannot be used: {error}"))
            .hint(format!("check [functions.{name}] in the settings"))
    })
}

fn egress(options: &EgressOptions) -> Result<Egress, Problem> {
    Egress::new(options).map_err(|error| Problem::failure(error.to_string()))
}

/// Returns the web search of the settings, or that of the demo.
fn search_tool(
    options: Option<&WebSearchOptions>,
    way_out: &EgressOptions,
    demo: Option<Demo>,
) -> Result<Option<Arc<dyn Tool>>, Problem> {
    Ok(match (options, demo) {
        (Some(options), _) => Some(Arc::new(web_search(options, way_out)?)),
        (None, Some(demo)) => Some(demo::web_search(demo.tool_time)),
        (None, None) => None,
    })
}

pub(crate) fn web_search(
    options: &WebSearchOptions,
    way_out: &EgressOptions,
) -> Result<WebSearch, Problem> {
    WebSearch::new(options.clone(), egress(way_out)?).map_err(|error| {
        Problem::usage(format!("the web search cannot be used: {error}"))
            .hint("check [web_search] in the settings")
    })
}

#[cfg(test)]
#[path = "wiring_tests.rs"]
mod tests;
