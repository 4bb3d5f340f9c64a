//! An agent: a model, instructions and tools.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use turnwire_contract::{
    BlobStore, ConversationId, ConversationRecord, Effect, Entry, Generation, Item, Journal,
    Limits, Model, RunId, RunRecord, RunRequest, RunStore, ServerUse, TenantId, Tool, ToolServers,
    Workers,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};

use crate::{
    chat::{Input, StreamChat},
    error::Error,
    run::Run,
};

/// The model name that is used when none was given.
const ANY_MODEL: &str = "default";

/// Something that answers, with tools. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) runs: Runs,
    pub(crate) request: Arc<RunRequest>,
}

impl Agent {
    /// Begins to make an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Asks something, in a conversation of its own. Nothing happens until the result is
    /// awaited or [started](StreamChat::start).
    pub fn stream_chat(&self, input: impl Into<Input>) -> StreamChat {
        StreamChat::new(self.clone(), None, input.into())
    }

    /// Begins a conversation: each question in it knows the ones before.
    pub fn conversation(&self) -> Conversation {
        self.continue_conversation(self.runs.new_conversation_id())
    }

    /// Goes on in a conversation that is kept in the run store.
    pub fn continue_conversation(&self, id: ConversationId) -> Conversation {
        Conversation { agent: self.clone(), id }
    }

    /// Begins to share the work with every process that keeps its runs in the same
    /// [store](AgentBuilder::store): runs that a process has left, because it was killed or told to
    /// go, are taken up by one that is there. To be called once, before the first question; runs
    /// that are kept in memory end with their process, and then this does nothing.
    pub async fn start_worker(&self) -> Result<(), Error> {
        Ok(self.runs.start_worker().await?)
    }

    /// A run that is kept, by its id: one that was begun earlier, perhaps by another process. It
    /// may be over, under way anywhere, or about to be taken up.
    pub async fn attach(&self, run_id: &RunId) -> Result<Run, Error> {
        let handle = self.runs.attach(&self.request.tenant, run_id).await?;
        let record = self.runs.find(&self.request.tenant, run_id).await?;
        let conversation_id = record.request.conversation_id.clone();
        Ok(Run::new(self.clone(), handle, conversation_id, None))
    }

    /// The newest runs that are kept, at most so many.
    pub async fn kept_runs(&self, most: usize) -> Result<Vec<RunRecord>, Error> {
        Ok(self.runs.list(&self.request.tenant, most).await?)
    }

    /// Leaves every run to other processes, or to the next start of this one, and starts no more.
    /// Tools may work on for `grace`. Runs that are kept in memory are
    /// [ended](Self::shut_down) instead.
    pub async fn hand_over(&self, grace: Duration) {
        self.runs.hand_over(grace).await;
    }

    /// Stops a run by its id. Says whether it was being worked on in this process.
    pub fn cancel(&self, run_id: &RunId) -> bool {
        self.runs.cancel_here(&self.request.tenant, run_id)
    }

    /// The engine underneath.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Stops every run of this agent, and waits until each has been ended properly.
    pub async fn shut_down(&self) {
        self.runs.shut_down().await;
    }

    pub(crate) fn request(&self, input: Vec<Item>) -> RunRequest {
        RunRequest { input, ..RunRequest::clone(&self.request) }
    }
}

/// A series of questions that share a history. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Conversation {
    agent: Agent,
    id: ConversationId,
}

impl Conversation {
    /// Its id, to go on later.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Asks something. While a run of this conversation is under way, another is refused.
    pub fn stream_chat(&self, input: impl Into<Input>) -> StreamChat {
        StreamChat::new(self.agent.clone(), Some(self.id.clone()), input.into())
    }

    /// Everything said so far.
    pub async fn history(&self) -> Result<Vec<Item>, Error> {
        let entries = self.agent.runs.store().history(&TenantId::default(), &self.id).await?;
        Ok(entries.into_iter().map(|entry| Arc::unwrap_or_clone(entry.item)).collect())
    }

    /// Puts a history in place that was kept elsewhere. No callback is called for it.
    pub async fn restore(&self, items: Vec<Item>) -> Result<(), Error> {
        let runs = &self.agent.runs;
        let entries = items.into_iter().map(|item| Entry::new(runs.new_id("item"), item)).collect();
        let conversation = ConversationRecord {
            id: self.id.clone(),
            created_at: runs.now(),
            metadata: BTreeMap::new(),
        };
        Ok(runs.store().restore(&TenantId::default(), conversation, entries).await?)
    }

    /// Starts a run without watching it.
    pub async fn start(&self, input: impl Into<Input>) -> Result<Run, Error> {
        self.stream_chat(input).start().await
    }
}

/// Makes an [`Agent`].
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
    /// The model that answers.
    pub fn model(self, model: impl Model + 'static) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// The model that answers, shared with others.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.parts.any_model = Some(model);
        self
    }

    /// The name under which the model is asked for, where its provider has several.
    pub fn model_name(mut self, name: impl Into<String>) -> Self {
        self.request.model = name.into();
        self
    }

    /// What the model is told before anything else.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.request.instructions = Some(instructions.into());
        self
    }

    /// A tool that the model may use.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// A tool that the model may use, shared with others.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools = self.tools.and_then(|mut tools| {
            tools.add(tool)?;
            Ok(tools)
        });
        self
    }

    /// Servers that bring tools of their own; the model may use all of them.
    pub fn tool_servers(mut self, servers: Arc<dyn ToolServers>) -> Self {
        let labels = servers.labels(&self.request.tenant);
        self.request.servers = labels.into_iter().map(ServerUse::all_of).collect();
        self.parts.servers = servers;
        self
    }

    /// Whether several calls of one answer may run at the same time; they may by default.
    pub fn parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.request.parallel_tool_calls = parallel;
        self
    }

    /// Which tools a person has to allow before each call, by what they do to the world; beside
    /// those that ask for it themselves. See [`Run::resolve`](crate::Run::resolve).
    pub fn ask_before(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.parts.policy.ask_before = effects.into_iter().collect();
        self
    }

    /// How far a run may go.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.request.limits = limits;
        self
    }

    /// How the model should write.
    pub fn generation(mut self, generation: Generation) -> Self {
        self.request.generation = generation;
        self
    }

    /// How often a silent tool is reported to be still at work; every 5 seconds by default.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.parts.heartbeat = heartbeat;
        self
    }

    /// Where everything is kept, so that runs outlive this process: something that keeps events,
    /// runs and big results, and knows who works on what. The `Store` of `turnwire-stores` does, in
    /// an SQLite file or in PostgreSQL. See [`Agent::start_worker`].
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

    /// The processes that share the stores with this one; nobody does by default.
    pub fn workers(mut self, workers: Arc<dyn Workers>) -> Self {
        self.parts.workers = workers;
        self
    }

    /// Where events are kept; in memory by default.
    pub fn event_log(mut self, log: Arc<dyn Journal>) -> Self {
        self.parts.journal = log;
        self
    }

    /// Where runs and conversations are kept; in memory by default.
    pub fn run_store(mut self, store: Arc<dyn RunStore>) -> Self {
        self.parts.store = store;
        self
    }

    /// Where big results are kept; in memory by default.
    pub fn blob_store(mut self, blobs: Arc<dyn BlobStore>) -> Self {
        self.parts.blobs = blobs;
        self
    }

    /// Makes the agent.
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
