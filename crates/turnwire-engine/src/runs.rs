//! The public API of the engine: start, cancel, approve, find, follow.
//!
//! A run belongs to the engine. Dropping a [`RunHandle`](crate::RunHandle) or an event stream does
//! not stop the run.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    fmt, ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{
    ApiKeys, AuditLog, BlobError, BlobStore, Capabilities, ConversationId, Entry, EventStream,
    IdempotencyKey, IncompleteReason, Journal, JournalError, Library, Model, NoToolServers,
    Observer, RecordedEvent, RunId, RunRecord, RunStatus, RunStore, Sampler, SecretBox, Seq,
    Shares, SingleWorker, StoreError, TenantId, Timestamp, ToolServers, UsageCounters, Workers,
    ports::Result,
};

use crate::{
    access::{AccessRules, Principal},
    call_statistics::CallStatistics,
    clock_and_ids::ClockAndIds,
    concurrency::ConcurrencyLimits,
    gathering::{Gathering, MAX_GATHERING},
    lease_state::LeaseState,
    live_run::{LiveRun, Stop},
    memory::{
        MemoryApiKeys, MemoryAuditLog, MemoryBlobStore, MemoryJournal, MemoryRunStore, MemoryShares,
    },
    observers::Observers,
    policy::ApprovalPolicy,
    prompt_files::PromptFiles,
    quotas::{QuotaOptions, Quotas},
    run_changes::RunFeeds,
    settings::{CurrentSettings, EngineSettings},
    sync::lock,
    toolbox::Toolbox,
};

/// Default interval between two `ToolStayedSilent` events of a silent tool.
const TOOL_SILENT_INTERVAL: Duration = Duration::from_secs(5);

/// Default byte limit for files in all prompts at once.
const MAX_PROMPT_FILES: usize = 64 * 1024 * 1024;

/// The parts of an engine. [`EngineParts::default`] keeps everything in memory and has no model and
/// no tools.
#[derive(Clone)]
pub struct EngineParts {
    /// Stores events.
    pub journal: Arc<dyn Journal>,
    /// Stores runs and conversations.
    pub store: Arc<dyn RunStore>,
    /// Stores large tool results.
    pub blobs: Arc<dyn BlobStore>,
    /// Stores share links.
    pub shares: Arc<dyn Shares>,
    /// Stores API keys.
    pub api_keys: Arc<dyn ApiKeys>,
    /// Stores who did what.
    pub audit: Arc<dyn AuditLog>,
    /// Stores what tenants used, for all processes. `None`: this process is the only one.
    pub usage: Option<Arc<dyn UsageCounters>>,
    /// What tenants and holders of keys may use.
    pub quotas: QuotaOptions,
    /// Models by name.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// The model for all other names. `None` rejects other names.
    pub any_model: Option<Arc<dyn Model>>,
    /// Who may use which models, tool servers and tools.
    pub access: Arc<AccessRules>,
    /// Tools of this process.
    pub tools: Toolbox,
    /// Servers that provide tools by discovery.
    pub servers: Arc<dyn ToolServers>,
    /// Encrypts secrets that requests supply for such servers. `None` refuses them.
    pub secret_box: Option<Arc<dyn SecretBox>>,
    /// Stores the files named in conversations. `None` disables files.
    pub library: Option<Arc<dyn Library>>,
    /// Byte limit for files in all prompts at once, in base64.
    pub max_prompt_files: usize,
    /// Leases and pending commands, shared with other workers on the same store.
    pub workers: Arc<dyn Workers>,
    /// Source of time and ids.
    pub clock_and_ids: Arc<ClockAndIds>,
    /// Interval between two `ToolStayedSilent` events of a silent tool.
    pub tool_silent_interval: Duration,
    /// Approval policy, in addition to what tools and requests specify.
    pub policy: ApprovalPolicy,
    /// Maximum time for which parts of an answer are gathered before they are appended (Kafka's
    /// `linger.ms`), reached when many answers are streamed at once. Zero appends every part when
    /// it arrives.
    pub max_gathering: Duration,
    /// Which traces an observer of this process records. `None`: there is no such observer, and the
    /// trace context of a request is passed on as it came.
    pub sampler: Option<Sampler>,
}

impl Default for EngineParts {
    fn default() -> Self {
        let journal = Arc::new(MemoryJournal::default());
        Self {
            store: Arc::new(MemoryRunStore::default().beside(&journal)),
            journal,
            blobs: Arc::new(MemoryBlobStore::default()),
            shares: Arc::new(MemoryShares::default()),
            api_keys: Arc::new(MemoryApiKeys::default()),
            audit: Arc::new(MemoryAuditLog::default()),
            usage: None,
            quotas: QuotaOptions::default(),
            models: BTreeMap::new(),
            any_model: None,
            access: Arc::default(),
            tools: Toolbox::default(),
            servers: Arc::new(NoToolServers),
            secret_box: None,
            library: None,
            max_prompt_files: MAX_PROMPT_FILES,
            workers: Arc::new(SingleWorker),
            clock_and_ids: Arc::new(ClockAndIds::system()),
            tool_silent_interval: TOOL_SILENT_INTERVAL,
            policy: ApprovalPolicy::default(),
            max_gathering: MAX_GATHERING,
            sampler: None,
        }
    }
}

impl fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineParts")
            .field("models", &self.models.keys())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// The parts that stay as they are for as long as the process lives.
pub(crate) struct FixedParts {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) shares: Arc<dyn Shares>,
    pub(crate) api_keys: Arc<dyn ApiKeys>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) servers: Arc<dyn ToolServers>,
    pub(crate) secret_box: Option<Arc<dyn SecretBox>>,
    pub(crate) workers: Arc<dyn Workers>,
    pub(crate) clock_and_ids: Arc<ClockAndIds>,
    pub(crate) tool_silent_interval: Duration,
    pub(crate) sampler: Option<Sampler>,
}

impl FixedParts {
    /// Whether the store of the runs is their journal and their blob store as well, and so deletes
    /// all of a run at once.
    fn are_one_store(&self) -> bool {
        let store = Arc::as_ptr(&self.store);
        ptr::addr_eq(store, Arc::as_ptr(&self.journal))
            && ptr::addr_eq(store, Arc::as_ptr(&self.blobs))
    }
}

impl fmt::Debug for FixedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedParts").finish_non_exhaustive()
    }
}

/// The runs of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Runs(pub(crate) Arc<Engine>);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) parts: FixedParts,
    /// What a reload replaces.
    pub(crate) settings: CurrentSettings,
    pub(crate) live: Mutex<HashMap<RunId, Arc<LiveRun>>>,
    pub(crate) tasks: TaskTracker,
    /// Stops every run.
    pub(crate) stop: CancellationToken,
    /// Hands every run over.
    pub(crate) leave: CancellationToken,
    pub(crate) leases: LeaseState,
    pub(crate) concurrency: ConcurrencyLimits,
    pub(crate) gathering: Arc<Gathering>,
    /// Number of unreadable answer parts.
    pub(crate) skipped_parts: Arc<AtomicU64>,
    /// Calls of tool servers.
    pub(crate) statistics: Arc<CallStatistics>,
    /// Start of this process's statistics.
    pub(crate) started_at: Timestamp,
    /// Number of runs ended by a limit, by limit.
    pub(crate) incomplete: Mutex<HashMap<IncompleteReason, u64>>,
    pub(crate) files: Arc<PromptFiles>,
    pub(crate) feeds: RunFeeds,
    pub(crate) observers: Observers,
    pub(crate) quotas: Arc<Quotas>,
    /// Number of threads that a run has blocked lately.
    pub(crate) n_blocked_threads: AtomicUsize,
}

impl Runs {
    /// Creates an engine from `parts`.
    pub fn new(parts: EngineParts) -> Self {
        let files = PromptFiles::new(parts.library, parts.max_prompt_files);
        let clock = Arc::clone(&parts.clock_and_ids);
        let settings = EngineSettings {
            models: parts.models,
            any_model: parts.any_model,
            access: parts.access,
            tools: parts.tools,
            policy: parts.policy,
            quotas: parts.quotas,
        };
        let settings = CurrentSettings::new(settings);
        let quotas = Quotas::following(settings.clone(), clock, parts.usage);
        let fixed = FixedParts {
            journal: parts.journal,
            store: parts.store,
            blobs: parts.blobs,
            shares: parts.shares,
            api_keys: parts.api_keys,
            audit: parts.audit,
            servers: parts.servers,
            secret_box: parts.secret_box,
            workers: parts.workers,
            clock_and_ids: parts.clock_and_ids,
            tool_silent_interval: parts.tool_silent_interval,
            sampler: parts.sampler,
        };
        Self(Arc::new(Engine {
            quotas: Arc::new(quotas),
            files: Arc::new(files),
            gathering: Arc::new(Gathering::up_to(parts.max_gathering)),
            started_at: fixed.clock_and_ids.now(),
            parts: fixed,
            settings,
            live: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            leave: CancellationToken::new(),
            leases: LeaseState::default(),
            concurrency: ConcurrencyLimits::default(),
            skipped_parts: Arc::default(),
            statistics: Arc::default(),
            incomplete: Mutex::default(),
            feeds: RunFeeds::default(),
            observers: Observers::default(),
            n_blocked_threads: AtomicUsize::new(0),
        }))
    }

    /// Adds an observer. It is told about the runs that start or are taken over from now on.
    pub fn observe_with(&self, observer: Arc<dyn Observer>) {
        self.0.observers.add(observer);
    }

    /// Replaces models, tools, approval policy and quotas, all at once. Runs at work go on: they
    /// keep their tools and policy, and ask the new model of their name from the next turn on, if
    /// it is the same one of its provider.
    pub fn reload(&self, settings: EngineSettings) {
        self.0.settings.replace(settings);
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<EngineSettings> {
        self.0.settings.get()
    }

    /// Returns the tools of this process.
    pub fn tools(&self) -> Toolbox {
        self.settings().tools.clone()
    }

    /// Returns the tool servers.
    pub fn servers(&self) -> &Arc<dyn ToolServers> {
        &self.0.parts.servers
    }

    /// Returns the configured model names that the principal may use. Other names use `any_model`,
    /// if set.
    pub fn model_names(&self, who: Principal<'_>) -> Vec<String> {
        let settings = self.settings();
        let names = settings.models.keys();
        names.filter(|name| settings.may_use_model(who, name)).cloned().collect()
    }

    /// Returns the names of all configured models, whoever may use them.
    pub fn all_model_names(&self) -> Vec<String> {
        self.settings().models.keys().cloned().collect()
    }

    /// Returns whether a model with this name exists for the principal.
    pub fn knows_model(&self, who: Principal<'_>, name: &str) -> bool {
        self.may_use_model(who, name) && self.model(name).is_ok()
    }

    /// Returns whether the principal may use the model with this name, if there is one.
    pub fn may_use_model(&self, who: Principal<'_>, name: &str) -> bool {
        self.settings().may_use_model(who, name)
    }

    /// Returns the current time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.parts.clock_and_ids.now()
    }

    /// Returns a new id that starts with `prefix`.
    pub fn new_id(&self, prefix: &'static str) -> String {
        self.0.parts.clock_and_ids.new_id(prefix)
    }

    /// Returns a new conversation id. The conversation exists once a run uses it.
    pub fn new_conversation_id(&self) -> ConversationId {
        ConversationId::new(self.0.parts.clock_and_ids.new_id("conv"))
    }

    /// Returns the capabilities of a model, or `None` if it does not exist.
    pub fn capabilities(&self, model: &str) -> Option<Capabilities> {
        self.model(model).ok().map(|model| model.capabilities())
    }

    pub(crate) fn model(&self, name: &str) -> Result<Arc<dyn Model>, StartError> {
        let found = self.settings().model(name).cloned();
        found.ok_or_else(|| StartError::UnknownModel(name.to_owned()))
    }
}

impl Runs {
    /// Streams all events after `after`: stored ones first, then live ones, until the run ends.
    pub async fn follow(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.0.parts.journal.read(tenant, run_id, after).await
    }

    /// Streams all events stored so far, without loading the whole journal into memory.
    pub async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<EventStream, JournalError> {
        self.stored_after(tenant, run_id, Seq::START).await
    }

    /// Streams the stored events after `after`.
    pub async fn stored_after(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.0.parts.journal.stored(tenant, run_id, after).await
    }

    /// Returns all stored events at once. Only for short journals.
    pub async fn recorded(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<Arc<RecordedEvent>>, JournalError> {
        self.0.parts.journal.read_stored(tenant, run_id, Seq::START).await
    }

    /// Returns the whole context of a finished run. Waits if the run has ended and is being stored.
    pub async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>> {
        self.wait_until_run_is_persisted(tenant, run_id).await;
        self.0.parts.store.context(tenant, run_id).await
    }

    /// Returns all entries of a conversation, or none if it is new. Waits if its last run has ended
    /// and is being stored.
    pub async fn history(&self, tenant: &TenantId, id: &ConversationId) -> Result<Vec<Entry>> {
        let is_in_it = |run: &LiveRun| run.state().request().conversation_id.as_ref() == Some(id);
        self.wait_until_persisted(tenant, is_in_it).await;
        self.0.parts.store.history(tenant, id).await
    }

    /// Waits until a run that has ended is stored.
    async fn wait_until_run_is_persisted(&self, tenant: &TenantId, run_id: &RunId) {
        if let Some(run) = self.live(tenant, run_id)
            && run.state().outcome().is_some()
        {
            run.persisted().await;
        }
    }

    /// Waits for ended runs of `tenant` that are being stored, so that a client that saw the end
    /// can continue.
    async fn wait_until_persisted(&self, tenant: &TenantId, is_meant: impl Fn(&LiveRun) -> bool) {
        let live: Vec<Arc<LiveRun>> = lock(&self.0.live).values().cloned().collect();
        for run in live {
            let is_theirs = run.state().request().tenant == *tenant;
            if is_theirs && is_meant(&run) && run.state().outcome().is_some() {
                run.persisted().await;
            }
        }
    }

    /// Deletes a finished run with all events. Its entries in a conversation stay.
    pub async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), DeleteError> {
        self.wait_until_run_is_persisted(tenant, run_id).await;
        let parts = &self.0.parts;
        parts.store.delete(tenant, run_id).await?;
        if parts.are_one_store() {
            return Ok(());
        }
        parts.blobs.delete(tenant, run_id).await?;
        Ok(parts.journal.delete(tenant, run_id).await?)
    }

    /// Returns the status of a run, also if its request cannot be read here.
    pub async fn status(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunStatus> {
        self.0.parts.store.status(tenant, run_id).await
    }

    /// Returns the record of a run.
    pub async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        self.0.parts.store.find(tenant, run_id).await
    }

    /// Returns at most `most` runs, newest first.
    pub async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>> {
        self.0.parts.store.list(tenant, most).await
    }

    /// Returns the store of runs and conversations.
    pub fn store(&self) -> &Arc<dyn RunStore> {
        &self.0.parts.store
    }

    /// Returns the store of share links.
    pub fn shares(&self) -> &Arc<dyn Shares> {
        &self.0.parts.shares
    }

    /// Returns the store of API keys.
    pub fn api_keys(&self) -> &Arc<dyn ApiKeys> {
        &self.0.parts.api_keys
    }

    /// Returns the log of who did what.
    pub fn audit(&self) -> &Arc<dyn AuditLog> {
        &self.0.parts.audit
    }

    /// Returns the quotas of tenants and holders of keys.
    pub fn quotas(&self) -> &Quotas {
        &self.0.quotas
    }

    /// Returns the blob store.
    pub fn blobs(&self) -> &Arc<dyn BlobStore> {
        &self.0.parts.blobs
    }

    /// Cancels a run of this process. Returns whether there was one.
    pub fn cancel_here(&self, tenant: &TenantId, run_id: &RunId) -> bool {
        let run = self.live(tenant, run_id);
        run.inspect(|run| run.stop(Stop::Cancelled)).is_some()
    }

    /// Stops every run, waits for their ends to be recorded, and rejects new runs.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.stop_worker().await;
    }

    /// Returns a run of `tenant` that this process executes.
    pub(crate) fn live(&self, tenant: &TenantId, run_id: &RunId) -> Option<Arc<LiveRun>> {
        let run = lock(&self.0.live).get(run_id).cloned();
        run.filter(|run| run.state().request().tenant == *tenant)
    }
}

/// Options for starting a run.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// Position of the first reader. A tool waits briefly until this reader has seen its start. See
    /// [`LiveRun`].
    pub first_reader: Option<watch::Receiver<Seq>>,
    /// Idempotency key of the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Whether nobody can ask for the run once its client is gone: it is cancelled then, and cannot
    /// be retrieved. If it also has no tools to execute, it is kept in memory only, and nobody
    /// finds it by its ID.
    pub is_ephemeral: bool,
    /// Dropped when this process stops executing the run, for example a concurrency permit.
    pub permit: Option<Arc<dyn Any + Send + Sync>>,
}

/// Why a run was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// Error of the run store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Error of the blob store.
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No model has this name.
    #[error("there is no model named `{0}`")]
    UnknownModel(String),
    /// The engine is shutting down.
    #[error("the engine is shutting down; start the run elsewhere")]
    ShuttingDown,
    /// The run has ended, or is being executed.
    #[error("run `{0}` does not need another worker")]
    NotAbandoned(RunId),
    /// This worker lacks a model or a tool that the run needs.
    #[error("this worker does not have the run's {0}")]
    Lacks(String),
    /// Secrets for this server cannot be stored, for this reason.
    #[error("secrets for the server `{0}` cannot be stored: {1}")]
    Secrets(String, String),
    /// Error of the run store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
