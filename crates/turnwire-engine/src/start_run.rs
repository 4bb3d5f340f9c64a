//! How a run begins: it is kept together with the beginning of its journal, and then worked on.
//!
//! A run without a journal could only be guessed at by whoever finds it. So where runs outlive
//! their worker, the store keeps both or none; and from then on the run is somebody's, whatever
//! becomes of the worker that it was asked of.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;
use turnwire_contract::{
    ApprovalAnswer, Completeness, Created, Event, EventStream, Finish, FirstCall, ItemId, NewRun,
    RecordedEvent, RunId, RunOutcome, RunRequest, Seq, StoreError, Usage,
};

use crate::{
    clock_and_ids::ClockAndIds,
    failures,
    live_run::LiveRun,
    run_state::{RunState, item_prefix},
    runs::{RunHandle, Runs, Start, StartError},
};

impl Runs {
    /// Begins a run that is asked for, or finds the one that the same request has made before.
    pub(crate) async fn begin(
        &self,
        mut request: RunRequest,
        start: Start,
    ) -> Result<RunHandle, StartError> {
        self.ensure_open()?;
        let parts = &self.0.parts;
        let model = self.model(&request.model)?;
        let run_id = RunId::new(parts.clock_and_ids.new_id("run"));
        let _hold = self.hold_run(&run_id);
        parts.policy.apply_to_request(&mut request);
        let upstream = model.upstream_model(&request.model);
        request.upstream_model = (upstream != request.model).then_some(upstream);
        let (tenant, request) = (request.tenant.clone(), Arc::new(request));
        let created_at = parts.clock_and_ids.now();
        let beginning = beginning(&run_id, &request, &parts.clock_and_ids);
        let new = NewRun { run_id: run_id.clone(), created_at, request, key: start.key, beginning };
        let created = self.create(new.clone()).await?;
        if let Created::Existing(before) = created {
            return self.existing_handle(tenant, before).await;
        }
        let error = match self.open(new, &created, start.watcher).await {
            Ok((run, events)) => return Ok(self.work_on(run, model, events, start.held)),
            Err(error) => error,
        };
        if parts.workers.is_durable() {
            warn!(%run_id, %error, "run created but not started here, released");
            self.release(&run_id).await;
            return self.remote_handle(tenant, run_id).await;
        }
        // It must not keep its conversation busy.
        let outcome = RunOutcome::Failed { failure: failures::journal_lost() };
        if let Err(error) = parts.store.finish(&run_id, outcome, Vec::new()).await {
            warn!(%run_id, %error, "run that never started not ended");
        }
        Err(error)
    }

    /// Keeps a new run. If the conversation's last run is over and only being put away, this
    /// waits for it: whoever has seen the end may go on.
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

    /// The run that was just `created`, ready to be worked on.
    async fn open(
        &self,
        new: NewRun,
        created: &Created,
        watcher: Option<watch::Receiver<Seq>>,
    ) -> Result<(Arc<LiveRun>, EventStream), StartError> {
        let NewRun { run_id, request, beginning, .. } = new;
        let journal = &self.0.parts.journal;
        if *created == Created::New {
            journal.append(&request.tenant, beginning.clone()).await?;
        }
        let history = self.history_of(&request).await?;
        let mut state = RunState::new(&run_id, Arc::clone(&request), history);
        for recorded in &beginning {
            state.apply(&recorded.event);
        }
        let head = beginning.last().map_or(Seq::START, |last| last.seq);
        let run = Arc::new(self.live_run(run_id, state, head).watched_by(watcher));
        let events = journal.read(run.tenant(), run.id(), Seq::START).await?;
        Ok((run, events))
    }
}

/// What the journal of the run begins with, each event at its place.
fn beginning(
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

/// What is recorded before anything is done: that there is a run, and the calls that its request
/// brings along.
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
        events.push(Event::approval_resolved(call_id.clone(), answer));
    }
    events
}
