//! The whole composition: the only file that names models, tools and stores.

use std::sync::Arc;

use turnwire::{Agent, Error, Model};
use turnwire_contract::ToolServers;
use turnwire_engine::{
    EngineParts, MemoryBlobStore, MemoryEventLog, MemoryRunStore, Runs, Toolbox, ToolboxError,
};
use turnwire_gateway::{App, AppOptions};
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    OpenAiResponses, OpenAiResponsesOptions,
};
use turnwire_stores::{OpenError, Store};
use turnwire_tools::{FileSearch, McpServers, MemoryLibrary, WebSearch, WebSearchOptions};

use crate::{
    demo,
    exit::Problem,
    settings::{Kind, ModelSettings, Provider, RunSettings, ServeSettings},
};

/// How many finished runs a gateway remembers: its clients come back for them.
pub(crate) const FINISHED_RUNS_KEPT: usize = 10_000;
/// How many big results it remembers.
const BIG_RESULTS_KEPT: usize = 1_000;

/// The agent that the settings describe, and the tool servers that have to be ended with it.
/// Nothing is started yet.
pub(crate) fn agent(settings: &RunSettings) -> Result<(Agent, Arc<McpServers>), Problem> {
    let tool_servers = Arc::new(McpServers::new(settings.tool_servers.clone()));
    let mut agent = Agent::builder()
        .model_name(settings.model_name.as_str())
        .limits(settings.limits.clone())
        .tool_servers(tool_servers.clone())
        .shared_model(model(&settings.model)?);
    if let Some(instructions) = &settings.instructions {
        agent = agent.instructions(instructions.as_str());
    }
    if let ModelSettings::Scripted(demo) = &settings.model {
        agent = agent.tool(demo::multiply(demo.tool_time));
    }
    if let Some(options) = &settings.web_search {
        agent = agent.tool(web_search(options)?);
    }
    let agent = agent.build().map_err(|error: Error| Problem::failure(error.to_string()))?;
    Ok((agent, tool_servers))
}

/// A gateway, ready to listen.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) app: App,
    /// The tool servers, which have to be ended with it.
    pub(crate) tool_servers: Arc<McpServers>,
    /// Where runs are kept, which has to be closed after it; nothing if that is in memory.
    pub(crate) store: Option<Store>,
}

/// The gateway that the settings describe. Its store is open, and nothing else is started yet.
pub(crate) async fn gateway(settings: &ServeSettings) -> Result<Gateway, Problem> {
    let library = Arc::new(MemoryLibrary::new());
    let mut tools = Toolbox::default();
    let unusable = |error: ToolboxError| Problem::failure(error.to_string());
    tools.add(Arc::new(FileSearch::new(library.clone()))).map_err(unusable)?;
    if let Some(options) = &settings.web_search {
        tools.add(Arc::new(web_search(options)?)).map_err(unusable)?;
    }
    let named = settings.models.named.iter();
    let models = named.map(|(name, settings)| Ok((name.clone(), model(settings)?)));
    let tool_servers = Arc::new(McpServers::new(settings.tool_servers.clone()));
    let servers: Arc<dyn ToolServers> = match &settings.models.any {
        ModelSettings::Scripted(demo) => {
            Arc::new(demo::WithDemo::new(tool_servers.clone(), demo.tool_time))
        }
        ModelSettings::Provider(_) => tool_servers.clone(),
    };
    let store = match &settings.store {
        Some(options) => Some(Store::open(options.clone()).await.map_err(not_opened)?),
        None => None,
    };
    let runs = Runs::new(EngineParts {
        models: models.collect::<Result<_, Problem>>()?,
        any_model: Some(model(&settings.models.any)?),
        tools,
        servers,
        ..kept_in(store.as_ref())
    });
    let options = AppOptions {
        default_model: settings.models.default_name.clone(),
        instructions: settings.instructions.clone(),
        limits: settings.limits.clone(),
        door: settings.door.clone(),
        worker: store.as_ref().map(|store| store.worker().to_owned()),
        ..AppOptions::default()
    };
    Ok(Gateway { app: App::new(runs, library, options), tool_servers, store })
}

/// An engine that keeps its runs in `store`, or in memory.
fn kept_in(store: Option<&Store>) -> EngineParts {
    let Some(store) = store else {
        return EngineParts {
            log: Arc::new(MemoryEventLog::keeping(FINISHED_RUNS_KEPT)),
            store: Arc::new(MemoryRunStore::keeping(FINISHED_RUNS_KEPT)),
            blobs: Arc::new(MemoryBlobStore::keeping(BIG_RESULTS_KEPT)),
            ..EngineParts::default()
        };
    };
    EngineParts {
        log: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        ..EngineParts::default()
    }
}

fn not_opened(error: OpenError) -> Problem {
    Problem::failure(format!("the store cannot be opened: {error}"))
        .hint("check [store] in the settings, or TURNWIRE_STORE_URL")
        .hint("TURNWIRE_STORE_URL=memory: keeps runs in memory, for as long as the process lives")
}

fn model(settings: &ModelSettings) -> Result<Arc<dyn Model>, Problem> {
    let Provider { kind, base_url, api_key, model } = match settings {
        ModelSettings::Scripted(demo) => return Ok(Arc::new(demo::model(*demo))),
        ModelSettings::Provider(provider) => provider.clone(),
    };
    let model: Result<Arc<dyn Model>, _> = match kind {
        Kind::ChatCompletions => {
            let usual = ChatCompletionsOptions::new(base_url);
            ChatCompletions::new(ChatCompletionsOptions { api_key, model, ..usual })
                .map(|model| Arc::new(model) as _)
        }
        Kind::OpenAiResponses => {
            let usual = OpenAiResponsesOptions::default();
            OpenAiResponses::new(OpenAiResponsesOptions { base_url, api_key, model, ..usual })
                .map(|model| Arc::new(model) as _)
        }
        Kind::AnthropicMessages => {
            let usual = AnthropicMessagesOptions::default();
            AnthropicMessages::new(AnthropicMessagesOptions { base_url, api_key, model, ..usual })
                .map(|model| Arc::new(model) as _)
        }
    };
    model.map_err(|error| {
        Problem::usage(format!("the model cannot be used: {error}"))
            .hint("check its address and its key in the settings")
    })
}

fn web_search(options: &WebSearchOptions) -> Result<WebSearch, Problem> {
    WebSearch::new(options.clone()).map_err(|error| {
        Problem::usage(format!("the web cannot be searched: {error}"))
            .hint("check [web_search] in the settings")
    })
}

#[cfg(test)]
#[path = "wiring_tests.rs"]
mod tests;
