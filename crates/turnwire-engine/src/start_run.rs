//! Starting a run: stores it together with the first events of its journal, then executes it.
//!
//! A durable store writes both or neither, because a run without a journal could not be taken over.
//! From then on some worker will execute the run, even if this one dies.

use std::{
    any::Any,
    future::{Future, pending},
    panic::resume_unwind,
    sync::{Arc, Mutex},
};

use futures::FutureExt;
use tokio::{
    sync::{oneshot, watch},
    task::JoinError,
};
use tracing::{error, info, warn};
use turnwire_contract::{
    ApprovalAnswer, Completeness, Created, Entry, Event, EventStream, Finish, FirstCall, ItemId,
    Journal, JournalError, Model, NewRun, ObservedRun, RecordedEvent, RunId, RunOutcome,
    RunRequest, Seq, StoreError, Usage,
};

use crate::{
    Result,
    access::Principal,
    clock_and_ids::ClockAndIds,
    ephemeral::{self, EphemeralJournal, needs_nothing_stored},
    failures,
    live_run::LiveRun,
    observers::RunObservers,
    polls::{Noted, Work},
    quotas::QuotaSubjects,
    run_context::{DriveOutcome, RunContext},
    run_handle::RunHandle,
    run_loop::drive,
    run_state::{RunState, item_prefix},
    runs::{Runs, StartError, StartOptions},
    settings::RunModel,
    sync::lock,
};

impl Runs {
    /// Starts a run. Returns once it is recorded. The start completes even if the future is
    /// dropped.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, StartError> {
        self.start_with_first_reader(request, None).await
    }

    /// Starts a run with a `first_reader`; see [`StartOptions::first_reader`].
    pub async fn start_with_first_reader(
        &self,
        request: RunRequest,
        first_reader: Option<watch::Receiver<Seq>>,
    ) -> Result<RunHandle, StartError> {
        let runs = self.clone();
        let options = StartOptions { first_reader, ..StartOptions::default() };
        self.run_detached(async move { runs.start_with(request, options).await }).await
    }

    /// Starts a run, or returns the one that an earlier request with the same idempotency key
    /// started.
    ///
    /// Not cancel-safe: a disconnecting client must not leave a run half started. Callers spawn it
    /// in a task.
    pub async fn start_with(
        &self,
        mut request: RunRequest,
        options: StartOptions,
    ) -> Result<RunHandle, StartError> {
        self.ensure_open()?;
        // Shutdown waits for runs that are being started.
        let _token = self.0.tasks.token();
        let parts = &self.0.parts;
        if !self.may_use_model(Principal::of(&request), &request.model) {
            // As if there were none.
            return Err(StartError::UnknownModel(request.model));
        }
        let model = self.model(&request.model)?;
        self.leave_out_tools(&mut request);
        let run_id = RunId::new(parts.clock_and_ids.new_id("run"));
        let is_ephemeral = self.is_ephemeral(&request, &options);
        if is_ephemeral && !self.0.leases.becomes_valid().await {
            // What it uses and who asked for it could not be stored, so it waits like all others.
            let away = "no heartbeat has succeeded for the length of a lease".to_owned();
            return Err(StoreError::Unavailable(away).into());
        }
        let _guard = (!is_ephemeral).then(|| self.track_local_run(&run_id));
        self.settings().policy.apply_to_request(&mut request);
        let users = QuotaSubjects::new(&request.tenant, request.asked_by.as_deref());
        // The share of a monthly budget at which a person is asked whether to go on.
        request.limits.ask_month_percent = self.0.quotas.asks_at_percent(&users);
        let upstream = model.upstream_model(&request.model);
        request.upstream_model = (upstream != request.model).then_some(upstream);
        let secrets = self.seal_secrets(&mut request, &run_id)?;
        let (tenant, request) = (request.tenant.clone(), Arc::new(request));
        let created_at = parts.clock_and_ids.now();
        let first_events = first_events(&run_id, &request, &parts.clock_and_ids);
        let (id, key) = (run_id.clone(), options.idempotency_key);
        let new =
            NewRun { run_id: id, created_at, request, idempotency_key: key, first_events, secrets };
        let request = Some(Arc::clone(&new.request));
        if is_ephemeral {
            let (run, events) = self.open_ephemeral(new, options.first_reader).await?;
            let handle = self.work_on(run, model, events, options.permit);
            return Ok(RunHandle { request, ..handle });
        }
        let created = self.create(new.clone()).await?;
        if let Created::Existing(before) = created {
            return self.existing_handle(tenant, before).await;
        }
        let error = match self.open(new, &created, options.first_reader).await {
            Ok((run, events)) => {
                let handle = self.work_on(run, model, events, options.permit);
                return Ok(RunHandle { request, ..handle });
            }
            Err(error) => error,
        };
        if parts.workers.is_durable() {
            warn!(%run_id, %error, "run created but not started here, released");
            self.release(&run_id).await;
            let handle = self.remote_handle(tenant, run_id).await?;
            return Ok(RunHandle { request, ..handle });
        }
        // The failed run must not block its conversation.
        let outcome = RunOutcome::Failed { failure: failures::journal_lost() };
        if let Err(error) = parts.store.finish(&run_id, outcome, Vec::new()).await {
            warn!(%run_id, %error, "failed to end a run that never started");
        }
        Err(error)
    }

    /// Returns whether nothing of a run could outlive this process, so that it need not be stored.
    fn is_ephemeral(&self, request: &RunRequest, options: &StartOptions) -> bool {
        options.is_ephemeral
            && options.idempotency_key.is_none()
            && needs_nothing_stored(request)
            && self.is_durable()
    }

    /// Stores a new run. If the conversation's last run has ended and is being stored, waits for
    /// it, so that a client that saw the end can continue.
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        let store = &self.0.parts.store;
        let before = match store.create(run.clone()).await {
            Err(StoreError::Busy { run_id, .. } | StoreError::Unfinished(run_id)) => {
                self.live(&run.request.tenant, &run_id)
            }
            other => return other,
        };
        if let Some(before) = before.filter(|before| before.state().outcome().is_some()) {
            before.persisted().await;
        }
        store.create(run).await
    }

    /// Returns the `created` run, ready to execute.
    async fn open(
        &self,
        new: NewRun,
        created: &Created,
        first_reader: Option<watch::Receiver<Seq>>,
    ) -> Result<(Arc<LiveRun>, EventStream), StartError> {
        let journal = &self.0.parts.journal;
        if *created == Created::RowOnly {
            journal.append(&new.request.tenant, new.first_events.clone()).await?;
        }
        let run = Arc::new(self.begun(new, first_reader).await?);
        let events = journal.read(run.tenant(), run.id(), Seq::START).await?;
        Ok((run, events))
    }

    /// Returns a run that is kept in memory, ready to execute.
    async fn open_ephemeral(
        &self,
        new: NewRun,
        first_reader: Option<watch::Receiver<Seq>>,
    ) -> Result<(Arc<LiveRun>, EventStream), StartError> {
        let journal = Arc::new(EphemeralJournal::default());
        journal.append(&new.request.tenant, new.first_events.clone()).await?;
        let events = ephemeral::read(&journal);
        let run = self.begun(new, first_reader).await?.kept_in(journal);
        Ok((Arc::new(run), events))
    }

    /// Returns a run whose first events are in its journal.
    async fn begun(
        &self,
        new: NewRun,
        first_reader: Option<watch::Receiver<Seq>>,
    ) -> Result<LiveRun, StoreError> {
        let NewRun { run_id, request, first_events, .. } = new;
        let history = self.history_of(&request).await?;
        let mut state = RunState::new(&run_id, Arc::clone(&request), history);
        for recorded in &first_events {
            state.apply(&recorded.event);
        }
        let head = first_events.last().map_or(Seq::START, |last| last.seq);
        let mut observed = self.observers_of(&run_id, &request, false);
        observed.note(&first_events);
        Ok(self.live_run(run_id, state, head).with_first_reader(first_reader).observed_by(observed))
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
            .handed_over_with(&self.0.leave)
            .with_lease(self.0.leases.lease_end())
            .counted_by(&self.0.quotas)
    }

    /// Returns the observers of a run. `was_lost` says that a worker of the run died.
    pub(crate) fn observers_of(
        &self,
        run_id: &RunId,
        request: &Arc<RunRequest>,
        was_lost: bool,
    ) -> RunObservers {
        let parts = &self.0.parts;
        self.0.observers.observe(|| ObservedRun {
            run_id,
            request,
            is_model_configured: self.settings().models.contains_key(&request.model),
            servers: parts.servers.labels(&request.tenant),
            was_lost,
        })
    }

    /// Executes the run in its own task, to its end.
    pub(crate) fn work_on(
        &self,
        run: Arc<LiveRun>,
        model: Arc<dyn Model>,
        events: EventStream,
        permit: Option<Arc<dyn Any + Send + Sync>>,
    ) -> RunHandle {
        let (parts, settings) = (&self.0.parts, self.settings());
        let context = RunContext {
            model: RunModel::new(model, self.0.settings.clone()),
            files: Arc::clone(&self.0.files),
            tools: settings.tools.clone(),
            servers: Arc::new(self.servers_of(run.state().request(), run.id())),
            store: Arc::clone(&parts.store),
            blobs: Arc::clone(&parts.blobs),
            tasks: self.0.tasks.clone(),
            work: Work::new(run.id(), "start"),
            tool_silent_interval: parts.tool_silent_interval,
            policy: settings.policy.clone(),
            concurrency: self.0.concurrency.clone(),
            gathering: Arc::clone(&self.0.gathering),
            skipped_parts: Arc::clone(&self.0.skipped_parts),
            statistics: Arc::clone(&self.0.statistics),
            sampler: parts.sampler,
        };
        lock(&self.0.live).insert(run.id().clone(), Arc::clone(&run));
        let (done, outcome) = oneshot::channel();
        let handle = RunHandle {
            runs: self.clone(),
            tenant: run.tenant().clone(),
            run_id: run.id().clone(),
            already_existed: false,
            request: None,
            outcome: Some(outcome.shared()),
            ephemeral: run.is_ephemeral().then(|| Arc::clone(&run)),
            opened_events: Arc::new(Mutex::new(Some(events))),
        };
        let run_guard = (!run.is_ephemeral()).then(|| self.track_local_run(run.id()));
        let runs = self.clone();
        let work = Arc::clone(&context.work);
        // Boxed, because the runtime moves a task's future several times.
        self.0.tasks.spawn(Box::pin(Noted::new(work, async move {
            let driven = drive(&run, &context).await;
            // Connections with secrets of the run are closed before it can be executed again.
            drop(context);
            {
                let mut live = lock(&runs.0.live);
                // A takeover may have brought the run back here meanwhile.
                if live.get(run.id()).is_some_and(|known| Arc::ptr_eq(known, &run)) {
                    live.remove(run.id());
                }
            }
            run.mark_persisted();
            let _ = done.send(runs.after(&run, driven).await);
            drop((run_guard, permit));
        })));
        handle
    }

    /// Returns the outcome of this worker's execution, or `None` if the run continues on another
    /// worker.
    async fn after(&self, run: &LiveRun, driven: Result<DriveOutcome>) -> Option<RunOutcome> {
        let (run_id, is_durable) = (run.id(), self.is_durable() && !run.is_ephemeral());
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
                if self.is_tracked_twice(run_id) {
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
        // If the lease is still ours, an immediate claim would probably fail again.
        self.defer(run_id).await;
        None
    }

    /// Runs `work` to completion even if the caller's future is dropped, so that a disconnect does
    /// not leave a run half started.
    pub(crate) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.0.tasks.spawn(work).await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is shutting down.
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
}

/// Returns the first events of the journal, with their seqs.
fn first_events(
    run_id: &RunId,
    request: &Arc<RunRequest>,
    clock_and_ids: &ClockAndIds,
) -> Vec<Arc<RecordedEvent>> {
    let (at, mut seq) = (clock_and_ids.now(), Seq::START);
    let recorded = |event| {
        seq = seq.next();
        Arc::new(RecordedEvent { run_id: run_id.clone(), seq, at, event })
    };
    opening_events(request, |prefix| clock_and_ids.new_id(prefix))
        .into_iter()
        .map(recorded)
        .collect()
}

/// Returns the first events of a run: its creation, and the calls in its request.
pub(crate) fn opening_events(
    request: &Arc<RunRequest>,
    mut new_id: impl FnMut(&'static str) -> String,
) -> Vec<Event> {
    let mut events = vec![Event::RunQueued { request: Arc::clone(request) }, Event::RunStarted];
    let calls = &request.first_calls;
    if calls.is_empty() {
        return events;
    }
    events.push(Event::TurnStarted { turn: 0 });
    for FirstCall { call_id, tool, arguments, .. } in calls {
        let item_id = ItemId::new(new_id(item_prefix(tool.kind)));
        let (call_id, tool) = (call_id.clone(), tool.clone());
        events.push(Event::CallAnnounced { call_id: call_id.clone(), item_id, tool });
        let (arguments, completeness) = (arguments.clone(), Completeness::Complete);
        events.push(Event::ArgumentsFinished { call_id, arguments, completeness });
    }
    let (finish, usage) = (Finish::CalledTools, Usage::default());
    events.push(Event::TurnFinished { turn: 0, finish, usage });
    for FirstCall { call_id, decision, .. } in calls {
        let Some(decision) = decision.clone() else { continue };
        let answer = ApprovalAnswer::from(decision).by("next_request");
        let answer = ApprovalAnswer { actor: request.asked_by.clone(), ..answer };
        events.push(Event::approval_resolved(call_id.clone(), answer));
    }
    events
}
