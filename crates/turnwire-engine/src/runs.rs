//! What others may ask of the engine: start, cancel, approve, look, follow.
//!
//! A run belongs to the engine, never to whoever asked for it: dropping a [`RunHandle`] or an
//! event stream loses a view, not the run.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::{Future, pending},
    panic::resume_unwind,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{FutureExt, TryStreamExt, future::Shared};
use tokio::{
    sync::{oneshot, watch},
    task::JoinError,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info};
use turnwire_contract::{
    BlobStore, CallId, ConversationId, Decision, Entry, Event, EventLog, EventStream, LogError,
    Model, NewRun, NoToolServers, Recorded, RunId, RunOutcome, RunRecord, RunRequest, RunStatus,
    RunStore, Seq, StoreError, TenantId, Timestamp, ToolServers,
};

use crate::{
    ambient::Ambient,
    failures,
    live_run::{LiveRun, Stop},
    memory::{MemoryBlobStore, MemoryEventLog, MemoryRunStore},
    run_loop::{Workplace, drive, put_away},
    run_state::RunState,
    sync::lock,
    toolbox::Toolbox,
};

/// How often a silent tool is said to be still at work, unless told otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// What an engine is made of. [`EngineParts::default`] is all in memory, with no model and no
/// tools.
#[derive(Clone)]
pub struct EngineParts {
    /// Where events are kept.
    pub log: Arc<dyn EventLog>,
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
    /// Time and ids.
    pub ambient: Arc<Ambient>,
    /// How often a silent tool is said to be still at work.
    pub heartbeat: Duration,
}

impl Default for EngineParts {
    fn default() -> Self {
        Self {
            log: Arc::new(MemoryEventLog::default()),
            store: Arc::new(MemoryRunStore::default()),
            blobs: Arc::new(MemoryBlobStore::default()),
            models: BTreeMap::new(),
            any_model: None,
            tools: Toolbox::default(),
            servers: Arc::new(NoToolServers),
            ambient: Arc::new(Ambient::system()),
            heartbeat: HEARTBEAT,
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
pub struct Runs(Arc<Engine>);

#[derive(Debug)]
struct Engine {
    parts: EngineParts,
    live: Mutex<HashMap<RunId, Arc<LiveRun>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Runs {
    /// An engine made of `parts`.
    pub fn new(parts: EngineParts) -> Self {
        let (live, tasks, stop) = (Mutex::default(), TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Engine { parts, live, tasks, stop }))
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
        self.0.parts.ambient.now()
    }

    /// A new id that begins with `prefix`.
    pub fn new_id(&self, prefix: &'static str) -> String {
        self.0.parts.ambient.new_id(prefix)
    }

    /// A new conversation's id. It exists once a run has used it.
    pub fn new_conversation_id(&self) -> ConversationId {
        ConversationId::new(self.0.parts.ambient.new_id("conv"))
    }

    /// Starts a run; returns once it is recorded.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, StartError> {
        self.start_watched(request, None).await
    }

    /// Starts a run whose tools wait a moment, before they begin, for `watcher` to have seen
    /// their start. See [`LiveRun`] for how long.
    pub async fn start_watched(
        &self,
        request: RunRequest,
        watcher: Option<watch::Receiver<Seq>>,
    ) -> Result<RunHandle, StartError> {
        let runs = self.clone();
        self.to_its_end(async move { runs.begin(request, watcher).await }).await
    }

    async fn begin(
        &self,
        request: RunRequest,
        watcher: Option<watch::Receiver<Seq>>,
    ) -> Result<RunHandle, StartError> {
        self.refuse_if_closing()?;
        let parts = &self.0.parts;
        let model = self.model(&request.model)?;
        let run_id = RunId::new(parts.ambient.new_id("run"));
        let request = Arc::new(request);
        let created_at = parts.ambient.now();
        let new = NewRun { run_id: run_id.clone(), created_at, request: Arc::clone(&request) };
        self.create(new).await?;
        match self.record_beginning(run_id.clone(), request, watcher).await {
            Ok((run, events)) => Ok(self.work_on(run, model, events)),
            Err(error) => {
                // A run that never began must not keep its conversation busy.
                let outcome = RunOutcome::Failed { failure: failures::journal_lost() };
                parts.store.finish(&run_id, outcome, Vec::new()).await?;
                Err(error)
            }
        }
    }

    /// Keeps a new run. If the conversation's last run is over and only being put away, this
    /// waits for it: whoever has seen the end may go on.
    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        let store = &self.0.parts.store;
        let before = match store.create(run.clone()).await {
            Err(StoreError::Busy { run_id, .. } | StoreError::Unfinished(run_id)) => {
                self.live(&run.request.tenant, &run_id)
            }
            other => return other,
        };
        if let Some(before) = before.filter(|before| before.state().outcome().is_some()) {
            before.put_away().await;
        }
        store.create(run).await
    }

    async fn record_beginning(
        &self,
        run_id: RunId,
        request: Arc<RunRequest>,
        watcher: Option<watch::Receiver<Seq>>,
    ) -> Result<(Arc<LiveRun>, EventStream), StartError> {
        let history = self.history_of(&request).await?;
        let state = RunState::new(&run_id, Arc::clone(&request), history);
        let run = Arc::new(self.live_run(run_id, state, Seq::START).watched_by(watcher));
        let mut beginning = vec![Event::RunQueued { request }, Event::RunStarted];
        beginning.extend(run.state().opening_events(|prefix| run.new_id(prefix)));
        run.record_all(beginning).await?;
        let events = self.0.parts.log.read(run.id(), Seq::START).await?;
        Ok((run, events))
    }

    /// Takes over a run that another worker left unfinished: reads its journal, closes what
    /// that worker left open, and goes on.
    pub async fn take_over(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<RunHandle, StartError> {
        let (runs, tenant, run_id) = (self.clone(), tenant.clone(), run_id.clone());
        self.to_its_end(async move { runs.go_on(&tenant, &run_id).await }).await
    }

    async fn go_on(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunHandle, StartError> {
        self.refuse_if_closing()?;
        let parts = &self.0.parts;
        let record = parts.store.find(tenant, run_id).await?;
        if record.status != RunStatus::Active || lock(&self.0.live).contains_key(run_id) {
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        let model = self.model(&record.request.model)?;
        let history = self.history_of(&record.request).await?;
        let mut state = RunState::new(run_id, record.request, history);
        let mut head = Seq::START;
        for recorded in parts.log.read_stored(run_id, Seq::START).await? {
            state.apply(&recorded.event);
            head = recorded.seq;
        }
        let outcome = state.outcome().cloned();
        let owed = state.takeover_events();
        let run = Arc::new(self.live_run(run_id.clone(), state, head));
        if let Some(outcome) = outcome {
            // Only the last thing was left to do.
            put_away(&run, parts.store.as_ref(), outcome).await;
            return Err(StartError::NotAbandoned(run_id.clone()));
        }
        run.record_all(owed).await?;
        let events = parts.log.read(run.id(), Seq::START).await?;
        Ok(self.work_on(run, model, events))
    }

    /// Does `work` to its end even if whoever waits for it goes away in the middle: a run must
    /// not be left half begun because a client hung up.
    async fn to_its_end<T: Send + 'static>(
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

    fn refuse_if_closing(&self) -> Result<(), StartError> {
        if self.0.stop.is_cancelled() { Err(StartError::ShuttingDown) } else { Ok(()) }
    }

    fn model(&self, name: &str) -> Result<Arc<dyn Model>, StartError> {
        let parts = &self.0.parts;
        let found = parts.models.get(name).or(parts.any_model.as_ref());
        found.cloned().ok_or_else(|| StartError::UnknownModel(name.to_owned()))
    }

    async fn history_of(&self, request: &RunRequest) -> Result<Vec<Entry>, StoreError> {
        let store = &self.0.parts.store;
        match (&request.conversation_id, &request.continues) {
            (Some(id), _) => store.history(&request.tenant, id).await,
            (None, Some(before)) => store.context(&request.tenant, before).await,
            (None, None) => Ok(request.before.clone()),
        }
    }

    fn live_run(&self, run_id: RunId, state: RunState, head: Seq) -> LiveRun {
        let parts = &self.0.parts;
        let (log, ambient) = (Arc::clone(&parts.log), Arc::clone(&parts.ambient));
        LiveRun::new(run_id, log, ambient, state, head).stopped_with(&self.0.stop)
    }

    /// Lets the run work in a task of its own, to its end.
    fn work_on(&self, run: Arc<LiveRun>, model: Arc<dyn Model>, events: EventStream) -> RunHandle {
        let parts = &self.0.parts;
        let workplace = Workplace {
            model,
            tools: parts.tools.clone(),
            servers: Arc::clone(&parts.servers),
            store: Arc::clone(&parts.store),
            blobs: Arc::clone(&parts.blobs),
            tasks: self.0.tasks.clone(),
            heartbeat: parts.heartbeat,
        };
        lock(&self.0.live).insert(run.id().clone(), Arc::clone(&run));
        let (done, outcome) = oneshot::channel();
        let handle = RunHandle {
            runs: self.clone(),
            run: Arc::clone(&run),
            outcome: outcome.shared(),
            first_events: Arc::new(Mutex::new(Some(events))),
        };
        let engine = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            let outcome = match Box::pin(drive(&run, &workplace)).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    error!(run_id = %run.id(), %error, "The run lost its journal.");
                    RunOutcome::Failed { failure: failures::journal_lost() }
                }
            };
            lock(&engine.live).remove(run.id());
            run.note_put_away();
            info!(run_id = %run.id(), ?outcome, "Run finished.");
            let _ = done.send(outcome);
        });
        handle
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
    ) -> Result<EventStream, LogError> {
        self.must_be_theirs(tenant, run_id).await?;
        self.0.parts.log.read(run_id, after).await
    }

    /// Every event of a run so far.
    pub async fn recorded(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<Arc<Recorded>>, LogError> {
        self.must_be_theirs(tenant, run_id).await?;
        self.0.parts.log.read_stored(run_id, Seq::START).await
    }

    async fn must_be_theirs(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), LogError> {
        match self.find(tenant, run_id).await {
            Ok(_) => Ok(()),
            Err(StoreError::Unavailable(why)) => Err(LogError::Unavailable(why)),
            Err(_) => Err(LogError::NotFound(run_id.clone())),
        }
    }

    /// All that a finished run had seen and said. If the run is over and only being put away,
    /// this waits for it.
    pub async fn context(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<Entry>, StoreError> {
        self.let_settle(tenant, |run| run.id() == run_id).await;
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
        self.let_settle(tenant, is_in_it).await;
        self.0.parts.store.history(tenant, id).await
    }

    /// Waits for those runs of `tenant` that are over and only being put away: whoever has seen
    /// the end may go on.
    async fn let_settle(&self, tenant: &TenantId, is_meant: impl Fn(&LiveRun) -> bool) {
        let live: Vec<Arc<LiveRun>> = lock(&self.0.live).values().cloned().collect();
        for run in live {
            let is_theirs = run.state().request().tenant == *tenant;
            if is_theirs && is_meant(&run) && run.state().outcome().is_some() {
                run.put_away().await;
            }
        }
    }

    /// Forgets a run that is finished, with all of its events. What it added to a conversation
    /// stays there.
    pub async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), ForgetError> {
        self.let_settle(tenant, |run| run.id() == run_id).await;
        self.0.parts.store.forget(tenant, run_id).await?;
        Ok(self.0.parts.log.forget(run_id).await?)
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

    /// Cancels a run. Says whether it was running here.
    pub fn cancel(&self, tenant: &TenantId, run_id: &RunId) -> bool {
        let run = self.live(tenant, run_id);
        run.inspect(|run| run.stop(Stop::Cancelled)).is_some()
    }

    /// Cancels one call; the run goes on. Says whether the call was at work.
    pub fn cancel_call(&self, tenant: &TenantId, run_id: &RunId, call_id: &CallId) -> bool {
        self.live(tenant, run_id).is_some_and(|run| run.stop_call(call_id))
    }

    /// Answers for a person whether a call may be carried out. Says whether it was waiting
    /// for that; a second answer changes nothing.
    pub async fn resolve(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        decision: Decision,
    ) -> Result<bool, LogError> {
        let Some(run) = self.live(tenant, run_id) else { return Ok(false) };
        let call_id = call_id.clone();
        self.to_its_end(async move { run.resolve(&call_id, decision).await }).await
    }

    /// Stops every run, waits until each has been ended properly, and starts no more.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// A run of `tenant` that this process works on.
    fn live(&self, tenant: &TenantId, run_id: &RunId) -> Option<Arc<LiveRun>> {
        let run = lock(&self.0.live).get(run_id).cloned();
        run.filter(|run| run.state().request().tenant == *tenant)
    }
}

/// A run that was started here. Dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle {
    runs: Runs,
    run: Arc<LiveRun>,
    outcome: Shared<oneshot::Receiver<RunOutcome>>,
    /// Opened before the run began to work, for whoever asks first: a log that forgets finished
    /// runs may have forgotten a quick one by then.
    first_events: Arc<Mutex<Option<EventStream>>>,
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunHandle {
    /// Which run.
    pub fn id(&self) -> &RunId {
        self.run.id()
    }

    /// Cancels it.
    pub fn cancel(&self) {
        self.run.stop(Stop::Cancelled);
    }

    /// Cancels one of its calls; the run goes on. Says whether the call was at work.
    pub fn cancel_call(&self, call_id: &CallId) -> bool {
        self.run.stop_call(call_id)
    }

    /// Every event, from the first to the one that ends the run.
    pub async fn events(&self) -> Result<EventStream, LogError> {
        let first = lock(&self.first_events).take();
        if let Some(events) = first {
            return Ok(events);
        }
        self.runs.0.parts.log.read(self.id(), Seq::START).await
    }

    /// Waits for the end, with everything put away: the conversation can go on.
    pub async fn outcome(&self) -> RunOutcome {
        let lost = || RunOutcome::Failed { failure: failures::engine_stopped() };
        self.outcome.clone().await.unwrap_or_else(|_| lost())
    }

    /// Waits for the end, and returns the whole journal.
    pub async fn journal(&self) -> Result<Vec<Arc<Recorded>>, LogError> {
        if failures::is_journal_lost(&self.outcome().await) {
            return Err(LogError::Unavailable(failures::journal_lost().message));
        }
        self.events().await?.try_collect().await
    }
}

/// Why a run was not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// The run store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal refused.
    #[error(transparent)]
    Log(#[from] LogError),
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
    /// The run store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal refused.
    #[error(transparent)]
    Log(#[from] LogError),
}
