//! An agent: a model, instructions and tools.

use std::{sync::Arc, time::Duration};

use turnwire_contract::{
    BlobStore, Effect, Generation, Item, Journal, Limits, Model, RunId, RunRecord, RunRequest,
    RunStore, ServerUse, Tool, ToolServers, Workers,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};

use crate::error::Error;

/// Model name that is used if none is set.
const ANY_MODEL: &str = "default";

/// A model with instructions and tools. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) runs: Runs,
    pub(crate) request: Arc<RunRequest>,
}

impl Agent {
    /// Creates a builder.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Starts to share work with every process that uses the same [store](AgentBuilder::store).
    /// Runs of a process that was killed or shut down are taken over by another. Call this once,
    /// before the first input. Does nothing for runs in memory, which end with their process.
    pub async fn start_worker(&self) -> Result<(), Error> {
        Ok(self.runs.start_worker().await?)
    }

    /// Returns the newest stored runs, at most `most`.
    pub async fn kept_runs(&self, most: usize) -> Result<Vec<RunRecord>, Error> {
        Ok(self.runs.list(&self.request.tenant, most).await?)
    }

    /// Releases all runs to other processes, or to the next start of this one, and starts no more.
    /// Tools may continue for `grace`. Runs in memory are [ended](Self::shut_down) instead.
    pub async fn hand_over(&self, grace: Duration) {
        self.runs.hand_over(grace).await;
    }

    /// Cancels a run by ID. Returns whether this process was executing it.
    pub fn cancel(&self, run_id: &RunId) -> bool {
        self.runs.cancel_here(&self.request.tenant, run_id)
    }

    /// Returns the underlying engine.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Cancels all runs of this agent, and waits until each has ended.
    pub async fn shut_down(&self) {
        self.runs.shut_down().await;
    }

    pub(crate) fn request(&self, input: Vec<Item>) -> RunRequest {
        RunRequest { input, ..RunRequest::clone(&self.request) }
    }
}

/// Builder for an [`Agent`].
#[derive(Debug)]
pub struct AgentBuilder {
    parts: EngineParts,
    request: RunRequest,
    tools: Result<Toolbox, Error>,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            parts: EngineParts::default(),
            request: RunRequest::new(ANY_MODEL, Vec::new()),
            tools: Ok(Toolbox::default()),
        }
    }
}

impl AgentBuilder {
    /// Sets the model.
    pub fn model(self, model: impl Model + 'static) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// Sets a model that is shared with other agents.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.parts.any_model = Some(model);
        self
    }

    /// Sets the name of the model, for providers with several models.
    pub fn model_name(mut self, name: impl Into<String>) -> Self {
        self.request.model = name.into();
        self
    }

    /// Sets the instructions for the model.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.request.instructions = Some(instructions.into());
        self
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that is shared with other agents.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools = self.tools.and_then(|mut tools| {
            tools.add(tool)?;
            Ok(tools)
        });
        self
    }

    /// Sets servers that provide tools. The model may call all of their tools.
    pub fn tool_servers(mut self, servers: Arc<dyn ToolServers>) -> Self {
        let labels = servers.labels(&self.request.tenant);
        self.request.servers = labels.into_iter().map(ServerUse::all_of).collect();
        self.parts.servers = servers;
        self
    }

    /// Sets whether several calls of one answer may be executed concurrently. Defaults to true.
    pub fn parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.request.parallel_tool_calls = parallel;
        self
    }

    /// Sets the effect classes whose tools need approval before each call, in addition to tools
    /// that require it themselves. See [`Run::resolve`](crate::Run::resolve).
    pub fn ask_before(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.parts.policy.ask_before = effects.into_iter().collect();
        self
    }

    /// Sets the limits of a run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.request.limits = limits;
        self
    }

    /// Sets the sampling and output parameters.
    pub fn generation(mut self, generation: Generation) -> Self {
        self.request.generation = generation;
        self
    }

    /// Sets the interval at which a silent tool is reported as still running. Defaults to 5
    /// seconds.
    pub fn tool_silent_interval(mut self, tool_silent_interval: Duration) -> Self {
        self.parts.tool_silent_interval = tool_silent_interval;
        self
    }

    /// Sets the store for events, runs, blobs and leases, so that runs survive this process. The
    /// `Store` of `turnwire-stores` implements all of them on SQLite or PostgreSQL. See
    /// [`Agent::start_worker`].
    pub fn store<S>(self, store: S) -> Self
    where
        S: Journal + RunStore + BlobStore + Workers + 'static,
    {
        let store = Arc::new(store);
        self.event_log(store.clone())
            .run_store(store.clone())
            .blob_store(store.clone())
            .workers(store)
    }

    /// Sets the lease store for processes that share the other stores. Defaults to a single
    /// process.
    pub fn workers(mut self, workers: Arc<dyn Workers>) -> Self {
        self.parts.workers = workers;
        self
    }

    /// Sets the store for events. Defaults to memory.
    pub fn event_log(mut self, log: Arc<dyn Journal>) -> Self {
        self.parts.journal = log;
        self
    }

    /// Sets the store for runs and conversations. Defaults to memory.
    pub fn run_store(mut self, store: Arc<dyn RunStore>) -> Self {
        self.parts.store = store;
        self
    }

    /// Sets the store for large results. Defaults to memory.
    pub fn blob_store(mut self, blobs: Arc<dyn BlobStore>) -> Self {
        self.parts.blobs = blobs;
        self
    }

    /// Builds the agent. Fails without a model or with an invalid tool.
    pub fn build(self) -> Result<Agent, Error> {
        let Self { mut parts, mut request, tools } = self;
        parts.tools = tools?;
        if parts.any_model.is_none() {
            return Err(Error::NoModel);
        }
        request.tools = parts.tools.specs();
        Ok(Agent { runs: Runs::new(parts), request: Arc::new(request) })
    }
}
