//! Composition of models, tools and stores. With its folder, the only place that names the
//! adapters.
//!
//! The first settings and those of a reload take the same way: all that can change is prepared, and
//! put in force together once nothing can go wrong any more.

mod models;
mod traces;

use std::{collections::BTreeMap, env, sync::Arc};

use turnwire::{Agent, Error};
use turnwire_contract::{
    MetricExportCounts, Pins, SecretBox, SpanCounts, TokenVerifier, Tool, ToolServers,
    WebhookCounts, WebhookOutbox,
};
use turnwire_engine::{
    ApprovalPolicy, EngineParts, EngineSettings, MemoryBlobStore, MemoryJournal, MemoryPins,
    MemoryRunStore, Runs, Toolbox, ToolboxError,
};
use turnwire_gateway::{App, AppOptions, AuthOptions, ReloadCalls, Webhooks};
use turnwire_oidc::{Oidc, OidcOptions};
use turnwire_otel::{MetricExport, Providers, SharedProviders, SpanExport};
use turnwire_stores::{OpenError, Store};
use turnwire_tools::{
    DefaultAnalyzer, DocumentReader, Egress, EgressOptions, Embeddings, EmbeddingsOptions,
    FileSearch, HttpFunction, HttpFunctionOptions, Indexer, McpServerOptions, McpServers, UrlRule,
    WebSearch, WebSearchOptions, WebhookSender,
};

use self::{
    models::{BuiltModels, model},
    traces::{metrics, providers, traces},
};
use crate::{
    demo,
    exit::{Problem, Result},
    settings::{ApprovalSettings, Demo, OtherNames, RunSettings, ServeSettings},
};

/// Number of finished runs that a gateway without a store keeps for its clients.
pub(crate) const FINISHED_RUNS_KEPT: usize = 10_000;
/// Number of large results that it keeps.
const BIG_RESULTS_KEPT: usize = 1_000;

/// Builds the agent, and the tool servers that must be shut down with it. Starts nothing.
pub(crate) fn agent(settings: &RunSettings) -> Result<(Agent, Arc<McpServers>)> {
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
    let (web, egress, documents) = (settings.web_search.as_ref(), &settings.egress, documents());
    if let Some(search) = search_tool(web, egress, documents, demo)? {
        agent = agent.shared_tool(search);
    }
    for options in &settings.functions {
        agent = agent.tool(http_function(options)?);
    }
    let agent = agent.build().map_err(|error: Error| Problem::failure(error.to_string()))?;
    Ok((agent, tool_servers))
}

/// A gateway that is ready to listen.
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
    /// Sends metrics in the background, once it is started; none if there is no receiver.
    pub(crate) metrics: Option<MetricExport>,
    /// Replaces what can change, after a reload.
    pub(crate) replaceable: Replaceable,
}

/// Builds the gateway. Opens its store, and starts nothing else. `reloads` takes requests to read
/// the settings again, if they can be.
pub(crate) async fn gateway(
    settings: &ServeSettings,
    reloads: Option<ReloadCalls>,
) -> Result<Gateway> {
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
    let tool_servers = Arc::new(McpServers::new(settings.tool_servers.clone()));
    let servers: Arc<dyn ToolServers> = match settings.models.demo() {
        Some(demo) => Arc::new(demo::WithDemo::new(tool_servers.clone(), demo.tool_time)),
        None => tool_servers.clone(),
    };
    let webhooks = store.as_ref().map(outbox);
    let mut replaceable = Replaceable {
        file_search: Arc::new(FileSearch::new(library.clone())),
        documents: documents(),
        pins: match &store {
            Some(store) => Arc::new(store.clone()),
            None => Arc::new(MemoryPins::default()),
        },
        worker: store.as_ref().map(|store| store.worker().to_owned()),
        webhooks: webhooks.clone(),
        spans: Arc::default(),
        metric_exports: Arc::default(),
        providers: SharedProviders::default(),
        reloads,
        models: BuiltModels::default(),
        tokens: None,
        on_request: None,
    };
    let prepared = replaceable.prepare(settings)?;
    let taken = &settings.server_limits;
    let runs = Runs::new(EngineParts {
        servers,
        secret_box: settings.secret_keys.clone().map(|keys| Arc::new(keys) as Arc<dyn SecretBox>),
        library: Some(library.clone()),
        max_prompt_files: taken.prompt_file_bytes,
        max_gathering: taken.gathering,
        sampler: settings.traces.as_ref().map(|traces| traces.sampler),
        ..kept_in(store.as_ref())
    });
    let traces = traces(settings, &runs, &replaceable.providers, &replaceable.spans)?;
    let indexer = Indexer::new(library.clone(), reader, replaceable.documents.clone());
    // The rest is put in force below, as by a reload.
    let app = App::new(runs, library, prepared.options.clone());
    let Replaceable { providers, metric_exports, .. } = &replaceable;
    let metrics = metrics(settings, &app, files.worker(), providers, metric_exports)?;
    let webhooks = webhooks.map(|webhooks| sender(webhooks, settings, &app)).transpose()?;
    let webhooks = webhooks.flatten();
    replaceable.put_in_force(prepared, &app, &tool_servers);
    Ok(Gateway { app, tool_servers, store, indexer, webhooks, traces, metrics, replaceable })
}

/// What verifies tokens, with what it was built from.
type KnownProvider = (OidcOptions, Arc<dyn TokenVerifier>);

/// What can change while the gateway runs, as it is in force, and what it is built with.
pub(crate) struct Replaceable {
    file_search: Arc<dyn Tool>,
    documents: DocumentReader,
    pins: Arc<dyn Pins>,
    worker: Option<String>,
    webhooks: Option<Webhooks>,
    /// What became of the spans of this process.
    spans: Arc<SpanCounts>,
    /// How often the metrics of this process were exported.
    metric_exports: Arc<MetricExportCounts>,
    /// The providers that spans and metrics name.
    providers: SharedProviders,
    reloads: Option<ReloadCalls>,
    models: BuiltModels,
    tokens: Option<KnownProvider>,
    /// The rules for servers that requests supply, and how these are reached.
    on_request: Option<(Vec<UrlRule>, EgressOptions)>,
}

/// What is ready to be put in force.
pub(crate) struct Prepared {
    engine: EngineSettings,
    options: AppOptions,
    tool_servers: BTreeMap<String, McpServerOptions>,
    /// `None`: they stay.
    new_rules: Option<Egress>,
    models: BuiltModels,
    providers: Providers,
    tokens: Option<KnownProvider>,
    on_request: (Vec<UrlRule>, EgressOptions),
}

impl Prepared {
    /// Who may call.
    pub(crate) fn auth(&self) -> &AuthOptions {
        &self.options.auth
    }
}

impl Replaceable {
    /// Builds everything that can change, and puts nothing of it in force. What did not change is
    /// used again.
    pub(crate) fn prepare(&self, settings: &ServeSettings) -> Result<Prepared> {
        let models = self.models.next(&settings.models)?;
        let tokens = self.tokens(settings.oidc.as_ref())?;
        let on_request = (settings.on_request.clone(), settings.egress.clone());
        let has_new_rules = self.on_request.as_ref() != Some(&on_request);
        let engine = EngineSettings {
            models: models.named(),
            any_model: models.others(),
            access: Arc::new(settings.access.clone()),
            tools: self.tools(settings)?,
            policy: policy(&settings.approvals, &self.pins),
            quotas: settings.quotas.clone(),
        };
        let verifier = tokens.as_ref().map(|(_, verifier)| Arc::clone(verifier));
        Ok(Prepared {
            engine,
            options: self.options(settings, verifier),
            tool_servers: settings.tool_servers.clone(),
            new_rules: has_new_rules.then(|| egress(&settings.egress)).transpose()?,
            models,
            providers: providers(&settings.models),
            tokens,
            on_request,
        })
    }

    /// Puts everything in force, one layer after the other, without waiting for anything.
    pub(crate) fn put_in_force(
        &mut self,
        prepared: Prepared,
        app: &App,
        tool_servers: &McpServers,
    ) {
        let Prepared { engine, options, models, tokens, on_request, .. } = prepared;
        let new_rules = prepared.new_rules.map(|egress| (on_request.0.clone(), egress));
        // Rules before servers, and those of servers that go until they are gone: a server without
        // a rule is open to all.
        let mut rules = (*engine.access).clone();
        for (label, rule) in &app.runs().access().servers {
            rules.servers.entry(label.clone()).or_insert_with(|| rule.clone());
        }
        // Before the models, so that no run of a new one is without its provider.
        self.providers.replace(prepared.providers);
        app.runs().reload(EngineSettings { access: Arc::new(rules), ..engine.clone() });
        tool_servers.reload(prepared.tool_servers, new_rules);
        app.runs().reload(engine);
        app.reload(options);
        self.models = models;
        self.tokens = tokens;
        self.on_request = Some(on_request);
    }

    /// Returns what verifies tokens, if an identity provider is set.
    fn tokens(&self, options: Option<&OidcOptions>) -> Result<Option<KnownProvider>> {
        let Some(options) = options else { return Ok(None) };
        if let Some(same) = self.tokens.as_ref().filter(|(known, _)| known == options) {
            return Ok(Some(same.clone()));
        }
        let verifier: Arc<dyn TokenVerifier> = Arc::new(oidc(options)?);
        Ok(Some((options.clone(), verifier)))
    }

    fn tools(&self, settings: &ServeSettings) -> Result<Toolbox> {
        let mut tools = Toolbox::default();
        let unusable = |error: ToolboxError| Problem::failure(error.to_string());
        tools.add(Arc::clone(&self.file_search)).map_err(unusable)?;
        let demo = settings.models.demo();
        let (web, documents) = (settings.web_search.as_ref(), self.documents.clone());
        if let Some(search) = search_tool(web, &settings.egress, documents, demo)? {
            tools.add(search).map_err(unusable)?;
        }
        for options in &settings.functions {
            tools.add(Arc::new(http_function(options)?)).map_err(unusable)?;
        }
        Ok(tools)
    }

    fn options(
        &self,
        settings: &ServeSettings,
        tokens: Option<Arc<dyn TokenVerifier>>,
    ) -> AppOptions {
        let fallback_model = match &settings.models.others {
            OtherNames::AnsweredBy(name) => Some(name.clone()),
            OtherNames::Refused | OtherNames::PassedOn(_) => None,
        };
        let taken = &settings.server_limits;
        AppOptions {
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
            keep_alive_interval: taken.keep_alive_interval,
            auth: AuthOptions { tokens, ..settings.auth.clone() },
            audit: settings.audit,
            worker: self.worker.clone(),
            webhooks: self.webhooks.clone(),
            spans: Arc::clone(&self.spans),
            metric_exports: Arc::clone(&self.metric_exports),
            reloads: self.reloads.clone(),
            ..AppOptions::default()
        }
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
) -> Result<Option<WebhookSender>> {
    let receivers = settings.webhooks.receivers.clone();
    if receivers.is_empty() {
        return Ok(None);
    }
    let (Webhooks { outbox, counts }, runs) = (webhooks, app.runs().clone());
    let now = Arc::new(move || runs.now());
    Ok(Some(WebhookSender::new(outbox, egress(&settings.egress)?, receivers, counts, now)))
}

/// This program reads documents, in child processes. Without `/proc`, the name that it was started
/// by has to do.
fn documents() -> DocumentReader {
    let named = || env::args_os().next().unwrap_or_default().into();
    let program = env::current_exe().unwrap_or_else(|_| named());
    DocumentReader::program(program, "read")
}

/// Returns what verifies tokens, if an identity provider is set.
pub(crate) fn oidc(options: &OidcOptions) -> Result<Oidc> {
    Oidc::new(options.clone()).map_err(|error| {
        Problem::usage(format!("tokens cannot be verified: {}", turnwire_http::chain(&error)))
            .hint("check [oidc] in the settings")
    })
}

fn embeddings(options: Option<&EmbeddingsOptions>) -> Result<Option<Embeddings>> {
    let made = options.map(|options| Embeddings::new(options.clone())).transpose();
    made.map_err(|error| {
        Problem::usage(format!("the embeddings cannot be used: {error}"))
            .hint("check [embeddings] in the settings")
    })
}

fn policy(settings: &ApprovalSettings, pins: &Arc<dyn Pins>) -> ApprovalPolicy {
    let pins = settings.pin_definitions.then(|| Arc::clone(pins));
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
    // One `Arc`, so that the engine sees that it is one store.
    let store = Arc::new(store.clone());
    EngineParts {
        journal: store.clone(),
        store: store.clone(),
        blobs: store.clone(),
        shares: store.clone(),
        api_keys: store.clone(),
        audit: store.clone(),
        usage: Some(store.clone()),
        workers: store,
        ..EngineParts::default()
    }
}

pub(crate) fn not_opened(error: OpenError) -> Problem {
    Problem::failure(format!("the store cannot be opened: {error}"))
        .hint("check [store] in the settings, or TURNWIRE_STORE_URL")
        .hint("TURNWIRE_STORE_URL=memory: keeps runs in memory, for as long as the process lives")
}

fn http_function(options: &HttpFunctionOptions) -> Result<HttpFunction> {
    let name = &options.name;
    HttpFunction::new(options.clone()).map_err(|error| {
        Problem::usage(format!("the function `{name}` cannot be used: {error}"))
            .hint(format!("check [functions.{name}] in the settings"))
    })
}

fn egress(options: &EgressOptions) -> Result<Egress> {
    Egress::new(options).map_err(|error| Problem::failure(error.to_string()))
}

/// Returns the web search of the settings, or that of the demo.
fn search_tool(
    options: Option<&WebSearchOptions>,
    way_out: &EgressOptions,
    documents: DocumentReader,
    demo: Option<Demo>,
) -> Result<Option<Arc<dyn Tool>>> {
    Ok(match (options, demo) {
        (Some(options), _) => Some(Arc::new(web_search(options, way_out)?.documents(documents))),
        (None, Some(demo)) => Some(demo::web_search(demo.tool_time)),
        (None, None) => None,
    })
}

pub(crate) fn web_search(options: &WebSearchOptions, way_out: &EgressOptions) -> Result<WebSearch> {
    WebSearch::new(options.clone(), egress(way_out)?).map_err(|error| {
        Problem::usage(format!("the web search cannot be used: {error}"))
            .hint("check [web_search] in the settings")
    })
}

#[cfg(test)]
#[path = "wiring_tests.rs"]
mod tests;
