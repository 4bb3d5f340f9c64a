//! What others may ask of the engine: start, cancel, approve, look, follow.
//!
//! A run belongs to the engine, never to whoever asked for it: dropping a [`RunHandle`] or an
//! event stream loses a view, not the run.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    fmt,
    future::{Future, pending},
    panic::resume_unwind,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use futures::{FutureExt, TryStreamExt, future::Shared};
use tokio::{
    sync::{oneshot, watch},
    task::JoinError,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info};
use turnwire_contract::{
    BlobError, BlobStore, CallId, Capabilities, ConversationId, Entry, Event, EventStream,
    IncompleteReason, Journal, JournalError, Library, Model, NoToolServers, RecordedEvent,
    RequestKey, RunId, RunOutcome, RunRecord, RunRequest, RunStore, Seq, SingleWorker, StoreError,
    TenantId, Timestamp, ToolServers, Workers,
};

use crate::{
    clock_and_ids::ClockAndIds,
    concurrency::ConcurrencyLimits,
    failures,
    lease_keeper::LeaseKeeper,
    live_run::{LiveRun, Stop},
    memory::{MemoryBlobStore, MemoryJournal, MemoryRunStore},
    policy::ApprovalPolicy,
    prompt_files::PromptFiles,
    run_loop::{DriveOutcome, RunContext, drive},
    run_state::RunState,
    sync::lock,
    toolbox::Toolbox,
};

/// How often a silent tool is said to be still at work, unless told otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a run may exist before its journal does.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for.
const JOURNAL_LOOK_EVERY: Duration = Duration::from_millis(20);

/// How many bytes of files all questions may carry at the same time, unless told otherwise.
const MAX_PROMPT_FILES: usize = 64 * 1024 * 1024;

/// What an engine is made of. [`EngineParts::default`] is all in memory, with no model and no
/// tools.
#[derive(Clone)]
pub struct EngineParts {
    /// Where events are kept.
    pub journal: Arc<dyn Journal>,
    /// Where runs and conversations are kept.
    pub store: Arc<dyn RunStore>,
    /// Where big results are kept.
    pub blobs: Arc<dyn BlobStore>,
    /// The models by name.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// The model for every other name; without one, other names are refused.
    pub any_model: Option<Arc<dyn Model>>,
    /// The tools.
    pub tools: Toolbox,
    /// The servers that bring tools of their own.
    pub servers: Arc<dyn ToolServers>,
    /// Where the files are that conversations name; without it there are none.
    pub library: Option<Arc<dyn Library>>,
    /// How many bytes of files all questions to models may carry at the same time, in base64.
    pub max_prompt_files: usize,
    /// The workers that share the stores with this engine.
    pub workers: Arc<dyn Workers>,
    /// Time and ids.
    pub clock_and_ids: Arc<ClockAndIds>,
    /// How often a silent tool is said to be still at work.
    pub heartbeat: Duration,
    /// What people are asked about, beside what tools and requests say of themselves.
    pub policy: ApprovalPolicy,
}

impl Default for EngineParts {
    fn default() -> Self {
        Self {
            journal: Arc::new(MemoryJournal::default()),
            store: Arc::new(MemoryRunStore::default()),
            blobs: Arc::new(MemoryBlobStore::default()),
            models: BTreeMap::new(),
            any_model: None,
            tools: Toolbox::default(),
            servers: Arc::new(NoToolServers),
            library: None,
            max_prompt_files: MAX_PROMPT_FILES,
            workers: Arc::new(SingleWorker),
            clock_and_ids: Arc::new(ClockAndIds::system()),
            heartbeat: HEARTBEAT,
            policy: ApprovalPolicy::default(),
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

/// The runs of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Runs(pub(crate) Arc<Engine>);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) parts: EngineParts,
    pub(crate) live: Mutex<HashMap<RunId, Arc<LiveRun>>>,
    pub(crate) tasks: TaskTracker,
    /// Ends every run.
    pub(crate) stop: CancellationToken,
    /// Leaves every run to another worker.
    pub(crate) leave: CancellationToken,
    pub(crate) lease_keeper: LeaseKeeper,
    concurrency: ConcurrencyLimits,
    /// How many unreadable parts of answers were left out.
    pub(crate) skipped_parts: Arc<AtomicU64>,
    /// How many runs have ended at a limit, by the limit.
    pub(crate) incomplete: Mutex<HashMap<IncompleteReason, u64>>,
    files: Arc<PromptFiles>,
}

impl Runs {
    /// An engine made of `parts`.
    pub fn new(parts: EngineParts) -> Self {
        let files = PromptFiles::new(parts.library.clone(), parts.max_prompt_files);
        Self(Arc::new(Engine {
            files: Arc::new(files),
            parts,
            live: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            leave: CancellationToken::new(),
            lease_keeper: LeaseKeeper::default(),
            concurrency: ConcurrencyLimits::default(),
            skipped_parts: Arc::default(),
            incomplete: Mutex::default(),
        }))
    }

    /// The tools there are.
    pub fn tools(&self) -> &Toolbox {
        &self.0.parts.tools
    }

    /// The servers that bring tools of their own.
    pub fn servers(&self) -> &Arc<dyn ToolServers> {
        &self.0.parts.servers
    }

    /// The names of the models; any other name goes to the model for every name, if there is
    /// one.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.0.parts.models.keys().map(String::as_str)
    }

    /// Whether a model goes by that name.
    pub fn knows_model(&self, name: &str) -> bool {
        self.model(name).is_ok()
    }

    /// The time, as everything here knows it.
    pub fn now(&self) -> Timestamp {
        self.0.parts.clock_and_ids.now()
    }

    /// A new id that begins with `prefix`.
    pub fn new_id(&self, prefix: &'static str) -> String {
        self.0.parts.clock_and_ids.new_id(prefix)
    }

    /// A new conversation's id. It exists once a run has used it.
    pub fn new_conversation_id(&self) -> ConversationId {
        ConversationId::new(self.0.parts.clock_and_ids.new_id("conv"))
    }

    /// Starts a run; returns once it is recorded.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, StartError> {
        self.start_with(request, Start::default()).await
    }

    /// Starts a run that `watcher` watches; see [`Start::watcher`].
    pub async fn start_watched(
        &self,
        request: RunRequest,
        watcher: Option<watch::Receiver<Seq>>,
    ) -> Result<RunHandle, StartError> {
        self.start_with(request, Start { watcher, ..Start::default() }).await
    }

    /// Starts a run in a manner of its own; returns once it is recorded. A request whose key
    /// has made a run before starts none: the handle is that run's.
    pub async fn start_with(
        &self,
        request: RunRequest,
        start: Start,
    ) -> Result<RunHandle, StartError> {
        let runs = self.clone();
        self.run_detached(async move { runs.begin(request, start).await }).await
    }

    /// Does `work` to its end even if whoever waits for it goes away in the middle: a run must
    /// not be left half begun because a client hung up.
    pub(crate) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.0.tasks.spawn(work).await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is going away, and everything with it.
            Err(Err(_)) => pending().await,
        }
    }

    pub(crate) fn ensure_open(&self) -> Result<(), StartError> {
        if self.0.stop.is_cancelled() || self.0.leave.is_cancelled() {
            Err(StartError::ShuttingDown)
        } else {
            Ok(())
        }
    }

    /// What the model of this name can be told; none if there is no such model.
    pub fn capabilities(&self, model: &str) -> Option<Capabilities> {
        self.model(model).ok().map(|model| model.capabilities())
    }

    pub(crate) fn model(&self, name: &str) -> Result<Arc<dyn Model>, StartError> {
        let parts = &self.0.parts;
        let found = parts.models.get(name).or(parts.any_model.as_ref());
        found.cloned().ok_or_else(|| StartError::UnknownModel(name.to_owned()))
    }

    pub(crate) async fn history_of(&self, request: &RunRequest) -> Result<Vec<Entry>, StoreError> {
        let store = &self.0.parts.store;
        match (&request.conversation_id, &request.continues) {
            (Some(id), _) => store.history(&request.tenant, id).await,
            (None, Some(before)) => store.context(&request.tenant, before).await,
            (None, None) => Ok(request.before.clone()),
        }
    }

    pub(crate) fn live_run(&self, run_id: RunId, state: RunState, head: Seq) -> LiveRun {
        let parts = &self.0.parts;
        let (journal, clock_and_ids) =
            (Arc::clone(&parts.journal), Arc::clone(&parts.clock_and_ids));
        LiveRun::new(run_id, journal, clock_and_ids, state, head)
            .stopped_with(&self.0.stop)
            .left_with(&self.0.leave)
            .with_lease(self.0.lease_keeper.lease_end())
    }

    /// Lets the run work in a task of its own, to its end.
    pub(crate) fn work_on(
        &self,
        run: Arc<LiveRun>,
        model: Arc<dyn Model>,
        events: EventStream,
        held: Option<Arc<dyn Any + Send + Sync>>,
    ) -> RunHandle {
        let parts = &self.0.parts;
        let context = RunContext {
            model,
            files: Arc::clone(&self.0.files),
            tools: parts.tools.clone(),
            servers: Arc::clone(&parts.servers),
            store: Arc::clone(&parts.store),
            blobs: Arc::clone(&parts.blobs),
            tasks: self.0.tasks.clone(),
            heartbeat: parts.heartbeat,
            policy: parts.policy.clone(),
            concurrency: self.0.concurrency.clone(),
            skipped_parts: Arc::clone(&self.0.skipped_parts),
        };
        lock(&self.0.live).insert(run.id().clone(), Arc::clone(&run));
        let (done, outcome) = oneshot::channel();
        let handle = RunHandle {
            runs: self.clone(),
            tenant: run.tenant().clone(),
            run_id: run.id().clone(),
            already_existed: false,
            outcome: Some(outcome.shared()),
            first_events: Arc::new(Mutex::new(Some(events))),
        };
        let (runs, run_hold) = (self.clone(), self.hold_run(run.id()));
        self.0.tasks.spawn(async move {
            let driven = Box::pin(drive(&run, &context)).await;
            {
                let mut live = lock(&runs.0.live);
                // Another worker's death may have brought the run back to us meanwhile.
                if live.get(run.id()).is_some_and(|known| Arc::ptr_eq(known, &run)) {
                    live.remove(run.id());
                }
            }
            run.mark_persisted();
            let _ = done.send(runs.after(&run, driven).await);
            drop((run_hold, held));
        });
        handle
    }

    /// What came of this worker's part in a run: its outcome, or nothing if the run goes on
    /// with another worker.
    async fn after(
        &self,
        run: &LiveRun,
        driven: Result<DriveOutcome, JournalError>,
    ) -> Option<RunOutcome> {
        let (run_id, is_durable) = (run.id(), self.0.parts.workers.is_durable());
        match driven {
            Ok(DriveOutcome::Ended(outcome)) => {
                self.note_limit(&outcome);
                info!(%run_id, ?outcome, "run finished");
                return Some(outcome);
            }
            Ok(DriveOutcome::HandedOver) => {
                info!(%run_id, "run handed over");
                self.release(run_id).await;
                return None;
            }
            Err(JournalError::Conflict { .. }) if is_durable => {
                info!(%run_id, "append conflict, another worker owns the run");
                if self.is_held_twice(run_id) {
                    return None;
                }
            }
            Err(error) => {
                error!(%run_id, %error, "journal unavailable, run given up");
                if !is_durable {
                    return Some(RunOutcome::Failed { failure: failures::journal_lost() });
                }
            }
        }
        // If it is still ours, whoever takes it up at once may lose it at once.
        self.defer(run_id).await;
        None
    }

    /// The handle of a run that is kept, whoever works on it.
    pub async fn attach(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunHandle, StartError> {
        self.existing_handle(tenant.clone(), run_id.clone()).await
    }

    /// The handle of a run that was started before, here or elsewhere.
    pub(crate) async fn existing_handle(
        &self,
        tenant: TenantId,
        run_id: RunId,
    ) -> Result<RunHandle, StartError> {
        let handle = self.remote_handle(tenant, run_id).await?;
        Ok(RunHandle { already_existed: true, ..handle })
    }

    /// The handle of a run that somebody else works on, or soon will.
    pub(crate) async fn remote_handle(
        &self,
        tenant: TenantId,
        run_id: RunId,
    ) -> Result<RunHandle, StartError> {
        let events = self.opened(&tenant, &run_id).await?;
        let first_events = Arc::new(Mutex::new(Some(events)));
        let (runs, already_existed) = (self.clone(), false);
        Ok(RunHandle { runs, tenant, run_id, already_existed, outcome: None, first_events })
    }

    /// The events of a run that exists. Its journal may be a moment later than the run itself.
    async fn opened(&self, tenant: &TenantId, run_id: &RunId) -> Result<EventStream, JournalError> {
        let until = Instant::now() + JOURNAL_PATIENCE;
        loop {
            match self.0.parts.journal.read(tenant, run_id, Seq::START).await {
                Err(JournalError::NotFound(_)) if Instant::now() < until => {
                    // Nobody will begin the journal of a run that is gone.
                    if let Err(StoreError::NotFound(_)) = self.find(tenant, run_id).await {
                        return Err(JournalError::NotFound(run_id.clone()));
                    }
                    sleep(JOURNAL_LOOK_EVERY).await;
                }
                read => return read,
            }
        }
    }
}

/// === Asking about runs ===
impl Runs {
    /// Every event of a run after `after`: what is there, then what comes, up to its end.
    pub async fn follow(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.0.parts.journal.read(tenant, run_id, after).await
    }

    /// Every event of a run so far, as it is read: a long journal is never in memory as a whole.
    pub async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<EventStream, JournalError> {
        self.stored_after(tenant, run_id, Seq::START).await
    }

    /// The same, from the event after `after` on.
    pub async fn stored_after(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.0.parts.journal.stored(tenant, run_id, after).await
    }

    /// The same, all of it at once: for journals that are known to be short.
    pub async fn recorded(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<Arc<RecordedEvent>>, JournalError> {
        self.0.parts.journal.read_stored(tenant, run_id, Seq::START).await
    }

    /// All that a finished run had seen and said. If the run is over and only being put away,
    /// this waits for it.
    pub async fn context(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<Entry>, StoreError> {
        self.wait_until_persisted(tenant, |run| run.id() == run_id).await;
        self.0.parts.store.context(tenant, run_id).await
    }

    /// All entries of a conversation; none if it is new. If its last run is over and only being
    /// put away, this waits for it.
    pub async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        let is_in_it = |run: &LiveRun| run.state().request().conversation_id.as_ref() == Some(id);
        self.wait_until_persisted(tenant, is_in_it).await;
        self.0.parts.store.history(tenant, id).await
    }

    /// Waits for those runs of `tenant` that are over and only being put away: whoever has seen
    /// the end may go on.
    async fn wait_until_persisted(&self, tenant: &TenantId, is_meant: impl Fn(&LiveRun) -> bool) {
        let live: Vec<Arc<LiveRun>> = lock(&self.0.live).values().cloned().collect();
        for run in live {
            let is_theirs = run.state().request().tenant == *tenant;
            if is_theirs && is_meant(&run) && run.state().outcome().is_some() {
                run.persisted().await;
            }
        }
    }

    /// Forgets a run that is finished, with all of its events. What it added to a conversation
    /// stays there.
    pub async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), DeleteError> {
        self.wait_until_persisted(tenant, |run| run.id() == run_id).await;
        self.0.parts.store.delete(tenant, run_id).await?;
        self.0.parts.blobs.delete(tenant, run_id).await?;
        Ok(self.0.parts.journal.delete(tenant, run_id).await?)
    }

    /// One run.
    pub async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        self.0.parts.store.find(tenant, run_id).await
    }

    /// The newest runs first.
    pub async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.0.parts.store.list(tenant, most).await
    }

    /// Where runs and conversations are kept.
    pub fn store(&self) -> &Arc<dyn RunStore> {
        &self.0.parts.store
    }

    /// Where big results are kept.
    pub fn blobs(&self) -> &Arc<dyn BlobStore> {
        &self.0.parts.blobs
    }

    /// Cancels a run of this process. Says whether there was one.
    pub fn cancel_here(&self, tenant: &TenantId, run_id: &RunId) -> bool {
        let run = self.live(tenant, run_id);
        run.inspect(|run| run.stop(Stop::Cancelled)).is_some()
    }

    /// Stops every run, waits until each has been ended properly, and starts no more.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.stop_worker().await;
    }

    /// A run of `tenant` that this process works on.
    pub(crate) fn live(&self, tenant: &TenantId, run_id: &RunId) -> Option<Arc<LiveRun>> {
        let run = lock(&self.0.live).get(run_id).cloned();
        run.filter(|run| run.state().request().tenant == *tenant)
    }
}

/// How a run is started.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Somebody who wants to have seen a tool's start before the tool works: it waits a moment
    /// for them. See [`LiveRun`] for how long.
    pub watcher: Option<watch::Receiver<Seq>>,
    /// What makes the request one of a kind.
    pub key: Option<RequestKey>,
    /// Kept for as long as this process works on the run: its place among so many.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}

/// A run that was started here. Dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle {
    runs: Runs,
    tenant: TenantId,
    run_id: RunId,
    already_existed: bool,
    /// What this worker's part in the run comes to, if it has one.
    outcome: Option<Shared<oneshot::Receiver<Option<RunOutcome>>>>,
    /// Opened before the run began to work, for whoever asks first: a log that forgets finished
    /// runs may have forgotten a quick one by then.
    first_events: Arc<Mutex<Option<EventStream>>>,
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl RunHandle {
    /// Which run.
    pub fn id(&self) -> &RunId {
        &self.run_id
    }

    /// Whether the run was there already: the same request has made it before.
    pub fn already_existed(&self) -> bool {
        self.already_existed
    }

    /// Cancels it, if this process works on it; [`Runs::cancel`] reaches it everywhere.
    pub fn cancel(&self) {
        self.runs.cancel_here(&self.tenant, &self.run_id);
    }

    /// Cancels one of its calls; the run goes on. Says whether the call was at work here.
    pub fn cancel_call(&self, call_id: &CallId) -> bool {
        let run = self.runs.live(&self.tenant, &self.run_id);
        run.is_some_and(|run| run.stop_call(call_id))
    }

    /// Every event, from the first to the one that ends the run.
    pub async fn events(&self) -> Result<EventStream, JournalError> {
        let first = lock(&self.first_events).take();
        if let Some(events) = first {
            return Ok(events);
        }
        self.runs.0.parts.journal.read(&self.tenant, self.id(), Seq::START).await
    }

    /// Waits for the end, with everything put away: the conversation can go on.
    pub async fn outcome(&self) -> RunOutcome {
        let Some(here) = self.outcome.clone() else { return self.outcome_elsewhere().await };
        match here.await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => self.outcome_elsewhere().await,
            Err(_) => RunOutcome::Failed { failure: failures::engine_stopped() },
        }
    }

    /// The outcome of a run that another worker brings to its end.
    async fn outcome_elsewhere(&self) -> RunOutcome {
        let lost = RunOutcome::Failed { failure: failures::journal_lost() };
        let events = self.runs.0.parts.journal.read(&self.tenant, &self.run_id, Seq::START).await;
        let Ok(mut events) = events else { return lost };
        while let Ok(Some(recorded)) = events.try_next().await {
            if let Event::RunFinished { outcome, .. } = &recorded.event {
                return outcome.clone();
            }
        }
        lost
    }

    /// Waits for the end, and returns every event.
    pub async fn events_when_over(&self) -> Result<EventStream, JournalError> {
        if failures::is_journal_lost(&self.outcome().await) {
            return Err(JournalError::Unavailable(failures::journal_lost().message));
        }
        self.events().await
    }

    /// Waits for the end, and returns the whole journal.
    pub async fn journal(&self) -> Result<Vec<Arc<RecordedEvent>>, JournalError> {
        self.events_when_over().await?.try_collect().await
    }
}

/// Why a run was not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The run store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal refused.
    #[error(transparent)]
    Log(#[from] JournalError),
    /// The blob store refused.
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No model goes by that name.
    #[error("there is no model named `{0}`")]
    UnknownModel(String),
    /// The engine is going away.
    #[error("the engine is shutting down; start the run elsewhere")]
    ShuttingDown,
    /// The run is finished, or being worked on.
    #[error("run `{0}` does not need another worker")]
    NotAbandoned(RunId),
    /// The run needs something that this worker does not have.
    #[error("this worker does not have the run's {0}")]
    Lacks(String),
    /// The run store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal refused.
    #[error(transparent)]
    Log(#[from] JournalError),
}
