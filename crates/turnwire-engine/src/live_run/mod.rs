//! All appends to the journal of a run after its first events, which are stored with the run.
//!
//! A [`LiveRun`] is a run that this process executes. Every event goes through [`LiveRun::record`]
//! and its siblings, which guarantee: an event is durable before anyone sees it (unless the run is
//! ephemeral), the state is never ahead of the journal, and a worker that lost its run finds out at
//! its next append.
//!
//! Only a run that no worker can take over is ended without one, by its store (`takeover.rs`).
//!
//! Events recorded during an append wait and are then written in one batch (group commit). Eight
//! tools that report at once cost one or two appends.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, SetOnce, oneshot, watch},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{
    BlobError, BudgetUse, CallId, Event, IncompleteReason, InputId, Journal, JournalError,
    RecordedEvent, Reply, RunEnd, RunId, RunOutcome, Seq, StoreError, TenantId, Timestamp,
    partial_debug,
};

use crate::{
    Result,
    clock_and_ids::ClockAndIds,
    ephemeral::EphemeralJournal,
    failures,
    observers::RunObservers,
    quotas::{QuotaSubjects, Quotas},
    run_state::RunState,
    sync::lock,
    work_time::WorkTime,
};

mod people;
mod stopping;

/// First delay of the exponential backoff while a store is unavailable.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A run that this process executes.
pub struct LiveRun {
    id: RunId,
    tenant: TenantId,
    journal: Arc<dyn Journal>,
    clock_and_ids: Arc<ClockAndIds>,
    waiting: Mutex<PendingBatch>,
    /// What is durable. Locked during an append, so that other events form the next batch.
    committed: tokio::sync::Mutex<Committed>,
    state: Mutex<RunState>,
    /// Work time of the run, with a notification when it starts or stops waiting for people.
    worked: Mutex<WorkTime>,
    paused: Notify,
    stop: CancellationToken,
    /// Whether this worker gave the run up: another one has it, or may have it. Shared with the calls,
    /// which are dropped then, but not cancelled.
    left: Arc<AtomicBool>,
    /// Requests a handover: this worker stops at the next safe point, and another one claims the
    /// run.
    leave: CancellationToken,
    /// End of the lease. `None` means the run cannot be claimed by others.
    lease_end: Option<watch::Receiver<Instant>>,
    /// Whether it is kept in memory although the store is durable.
    is_ephemeral: bool,
    stopped_by: OnceLock<Stop>,
    calls_at_work: Mutex<HashMap<CallId, CancellationToken>>,
    /// Serializes answers of people: each checks the state before it is recorded.
    resolving: tokio::sync::Mutex<()>,
    resolved: Notify,
    /// Notified when a new question may expire.
    asked: Notify,
    /// Tool calls that wait for the answer to a question.
    repliers: Mutex<HashMap<InputId, oneshot::Sender<Reply>>>,
    /// Whether the [`RunEnd`] was stored in the batch of the end event.
    run_end_is_stored: AtomicBool,
    persisted: SetOnce<()>,
    // Boxed, like the quotas, because most runs have none, and many wait at once.
    first_reader: Option<Box<FirstReader>>,
    /// Counts what the run uses, for its tenant and the holder of its key.
    quotas: Option<Box<(Arc<Quotas>, QuotaSubjects)>>,
}

/// The durable part of a run.
struct Committed {
    /// Seq of the last durable event.
    last: Seq,
    /// The observers of the run. They get the events in their order.
    observers: RunObservers,
}

/// Events that have a seq but are not durable yet.
#[derive(Debug)]
struct PendingBatch {
    last: Seq,
    /// Whether the end event has a seq. No event may follow it.
    is_over: bool,
    /// Why the journal rejected an event. Every further append fails with it, except the one that
    /// ends the run.
    rejected: Option<String>,
    events: Vec<Arc<RecordedEvent>>,
    /// Stored together with the end event. Boxed, because few runs are about to end.
    run_end: Option<Box<RunEnd>>,
}

/// Asks again, with a growing pause, while the store is unavailable.
pub(crate) async fn retry_while_unavailable<T, E: StoreFailure, F>(
    ask: impl Fn() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match ask().await {
            Err(error) if error.is_unavailable() => sleep(pause).await,
            heard => return heard,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

pub(crate) trait StoreFailure {
    /// Returns whether the store is temporarily unavailable.
    fn is_unavailable(&self) -> bool;
}

impl StoreFailure for StoreError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl StoreFailure for BlobError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// The first reader of a run: the client that started it, if it streams the run from this process.
/// A tool starts only after this reader has seen its start, or after a grace period.
#[derive(Debug)]
pub struct FirstReader {
    seen: watch::Receiver<Seq>,
    is_slow: AtomicBool,
}

/// Why a run is stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Cancelled by a command.
    Cancelled,
    /// The time limit is reached.
    TimeLimit,
    /// The process shuts down.
    Shutdown,
    /// A task of the run panicked.
    Panicked,
}

impl Stop {
    /// Returns the outcome of a run stopped for this reason.
    pub fn outcome(self) -> RunOutcome {
        match self {
            Self::Cancelled => RunOutcome::Cancelled,
            Self::TimeLimit => RunOutcome::Incomplete { reason: IncompleteReason::TimeLimit },
            Self::Shutdown => RunOutcome::Failed { failure: failures::engine_stopped() },
            Self::Panicked => RunOutcome::Failed { failure: failures::engine_failed() },
        }
    }
}

impl LiveRun {
    /// Creates a run whose journal ends at `head`, in this `state`.
    pub fn new(
        id: RunId,
        journal: Arc<dyn Journal>,
        clock_and_ids: Arc<ClockAndIds>,
        state: RunState,
        head: Seq,
    ) -> Self {
        Self {
            id,
            tenant: state.request().tenant.clone(),
            journal,
            clock_and_ids,
            waiting: Mutex::new(PendingBatch {
                last: head,
                is_over: false,
                rejected: None,
                events: Vec::new(),
                run_end: None,
            }),
            committed: tokio::sync::Mutex::new(Committed {
                last: head,
                observers: RunObservers::default(),
            }),
            worked: Mutex::new(WorkTime::begin(Duration::ZERO, state.asks_people())),
            paused: Notify::new(),
            state: Mutex::new(state),
            stop: CancellationToken::new(),
            left: Arc::default(),
            leave: CancellationToken::new(),
            lease_end: None,
            is_ephemeral: false,
            stopped_by: OnceLock::new(),
            calls_at_work: Mutex::default(),
            resolving: tokio::sync::Mutex::default(),
            resolved: Notify::new(),
            asked: Notify::new(),
            repliers: Mutex::default(),
            run_end_is_stored: AtomicBool::new(false),
            persisted: SetOnce::new(),
            first_reader: None,
            quotas: None,
        }
    }

    /// Attaches a first reader: a tool begins when this reader has seen its start, or after a grace
    /// period.
    pub fn with_first_reader(mut self, first_reader: Option<watch::Receiver<Seq>>) -> Self {
        let first_reader =
            first_reader.map(|seen| FirstReader { seen, is_slow: AtomicBool::new(false) });
        self.first_reader = first_reader.map(Box::new);
        self
    }

    /// Attaches the observers of the run.
    pub(crate) fn observed_by(mut self, observers: RunObservers) -> Self {
        self.committed.get_mut().observers = observers;
        self
    }

    /// Also stops the run when `everything` is cancelled.
    pub fn stopped_with(mut self, everything: &CancellationToken) -> Self {
        self.stop = everything.child_token();
        self
    }

    /// Keeps the run in memory only. It needs no lease, and cannot be handed over.
    pub(crate) fn kept_in(mut self, journal: Arc<EphemeralJournal>) -> Self {
        self.journal = journal;
        self.is_ephemeral = true;
        self.lease_end = None;
        self.leave = CancellationToken::new();
        self
    }

    /// Returns whether the run is kept in memory although the store is durable: other workers do
    /// not know it.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.is_ephemeral
    }

    /// Also hands the run over when `everything` is cancelled.
    pub(crate) fn handed_over_with(mut self, everything: &CancellationToken) -> Self {
        self.leave = everything.clone();
        self
    }

    /// Sets the work time used by previous workers.
    pub(crate) fn having_worked(self, worked: Duration) -> Self {
        *lock(&self.worked) = WorkTime::begin(worked, self.state().asks_people());
        self
    }

    /// Sets the lease; the run acts only while it is valid.
    pub(crate) fn with_lease(mut self, lease_end: Option<watch::Receiver<Instant>>) -> Self {
        self.lease_end = lease_end;
        self
    }

    /// Counts what the run uses, if anything is limited.
    pub(crate) fn counted_by(mut self, quotas: &Arc<Quotas>) -> Self {
        if quotas.is_empty() {
            return self;
        }
        let users = QuotaSubjects::new(&self.tenant, self.state().request().asked_by.as_deref());
        self.quotas = Some(Box::new((Arc::clone(quotas), users)));
        self
    }

    /// Returns whether the budget of the run's tenant or key is used up.
    pub(crate) async fn is_spent(&self) -> bool {
        let Some((quotas, users)) = self.quotas.as_deref() else { return false };
        // Boxed, so that a run does not hold the memory of reading while it does something else.
        Box::pin(quotas.is_spent(users)).await
    }

    /// Returns the budget of the month of the run's key or tenant, if it is used to its soft limit
    /// and a person is to be asked now.
    pub(crate) async fn nearly_spent(&self) -> Option<BudgetUse> {
        let (quotas, users) = self.quotas.as_deref()?;
        let percent = {
            let state = self.state();
            state.limits().ask_month_percent.filter(|_| state.may_ask_about_budget())?
        };
        let nearly_spent = Box::pin(quotas.nearly_spent(users, percent)).await;
        let state = self.state();
        nearly_spent.into_iter().find(|budget| !state.was_asked_about(budget.scope))
    }

    /// Returns the last assigned seq.
    pub(crate) fn last_assigned(&self) -> Seq {
        lock(&self.waiting).last
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the tenant that owns the run.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock_and_ids.now()
    }

    /// Returns a new id that starts with `prefix`.
    pub fn new_id(&self, prefix: &'static str) -> String {
        self.clock_and_ids.new_id(prefix)
    }

    /// Locks the state folded from the durable events.
    pub fn state(&self) -> MutexGuard<'_, RunState> {
        lock(&self.state)
    }

    /// Appends `event` and applies it to the state. Returns its seq once it is durable.
    pub async fn record(&self, event: Event) -> Result<Seq> {
        self.record_all(vec![event]).await
    }

    /// Appends `events` in one batch. Returns the last seq once all are durable.
    ///
    /// Not cancel-safe: if the future is dropped during the append, the events may or may not be
    /// stored. The engine drops it only when another append of the run has failed and the run is
    /// given up: otherwise only models and tools are aborted, and external requests run in their
    /// own tasks.
    pub async fn record_all(&self, events: Vec<Event>) -> Result<Seq> {
        let seq = self.assign_seqs(events, None)?;
        self.commit_up_to(seq).await
    }

    /// Appends the events that end the run, with its [`RunEnd`], in one batch. If the journal
    /// rejects them, they are appended without the entries, and at last without the events that
    /// close open blocks.
    pub(crate) async fn record_end(&self, outcome: RunOutcome) -> Result<Seq> {
        // An answer that is being recorded must not be closed a second time.
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        let (closing, run_end) = end_of(self.state().clone(), outcome.clone());
        let ended = self.commit_end(closing, run_end).await;
        let Err(JournalError::Rejected { .. }) = ended else { return ended };
        let run_end = RunEnd { outcome: outcome.clone(), entries: Vec::new() };
        let closing = self.state().closing_events(outcome);
        let end = closing.last().cloned().into_iter().collect();
        match self.commit_end(closing, run_end.clone()).await {
            Err(JournalError::Rejected { .. }) => self.commit_end(end, run_end).await,
            ended => ended,
        }
    }

    /// Appends `events` with the end of the run that they lead to: `after` is the state after them.
    /// If the journal rejects that, they are appended without the end. Returns whether the run
    /// ended.
    pub(crate) async fn record_last(
        &self,
        events: Vec<Event>,
        after: RunState,
        outcome: RunOutcome,
    ) -> Result<bool> {
        let _one_at_a_time = self.resolving.lock().await;
        let (closing, run_end) = end_of(after, outcome);
        let all = events.iter().cloned().chain(closing).collect();
        match self.commit_end(all, run_end).await {
            Err(JournalError::Rejected { .. }) => {
                lock(&self.waiting).rejected = None;
                self.record_all(events).await.map(|_| false)
            }
            ended => ended.map(|_| true),
        }
    }

    async fn commit_end(&self, closing: Vec<Event>, run_end: RunEnd) -> Result<Seq> {
        lock(&self.waiting).rejected = None;
        let seq = self.assign_seqs(closing, Some(Box::new(run_end)))?;
        self.commit_up_to(seq).await
    }

    /// Waits until all events up to `seq` are durable.
    async fn commit_up_to(&self, seq: Seq) -> Result<Seq> {
        let mut committed = self.committed.lock().await;
        if committed.last >= seq {
            // Another batch included this event.
            return Ok(seq);
        }
        let (batch, run_end) = {
            let mut waiting = lock(&self.waiting);
            (mem::take(&mut waiting.events), waiting.run_end.take())
        };
        let Some(last) = batch.last().map(|recorded| recorded.seq) else {
            // Another batch included this event and failed; the run is lost.
            return Err(self.lost_at(seq));
        };
        if !self.is_ephemeral {
            committed.observers.append_begins();
        }
        let appended = match run_end {
            None => self.journal.append(&self.tenant, batch.clone()).await.map(|()| false),
            Some(run_end) => self.journal.append_end(&self.tenant, batch.clone(), *run_end).await,
        };
        match appended {
            Ok(true) => self.run_end_is_stored.store(true, Ordering::Release),
            Ok(false) => {}
            Err(error) => {
                match &error {
                    JournalError::Rejected { reason, .. } => {
                        self.take_back(&batch, committed.last, reason);
                    }
                    JournalError::Conflict { .. } => self.relinquish(),
                    JournalError::NotFound(_)
                    | JournalError::Unavailable(_)
                    | JournalError::KeyMissing(_) => {}
                }
                return Err(error);
            }
        }
        let mut state = self.state();
        for recorded in &batch {
            state.apply(&recorded.event);
            if let Some((quotas, users)) = self.quotas.as_deref() {
                quotas.count(users, &recorded.event);
            }
        }
        let asks_people = state.asks_people();
        drop(state);
        if lock(&self.worked).pause(asks_people) {
            self.paused.notify_one();
        }
        committed.observers.note(&batch);
        committed.last = last;
        Ok(seq)
    }

    /// Rolls back every seq after `committed`. No event of the `batch` was stored, and the end of
    /// the run follows the last durable event.
    fn take_back(&self, batch: &[Arc<RecordedEvent>], committed: Seq, reason: &str) {
        let was_end = batch.last().is_some_and(|last| last.event.ends_the_run());
        let mut waiting = lock(&self.waiting);
        waiting.events.clear();
        waiting.run_end = None;
        waiting.last = committed;
        waiting.is_over &= !was_end;
        waiting.rejected = Some(reason.to_owned());
    }

    fn lost_at(&self, seq: Seq) -> JournalError {
        let run_id = self.id.clone();
        match lock(&self.waiting).rejected.clone() {
            Some(reason) => JournalError::Rejected { run_id, reason },
            None => JournalError::Conflict { run_id, seq },
        }
    }

    fn assign_seqs(&self, events: Vec<Event>, run_end: Option<Box<RunEnd>>) -> Result<Seq> {
        let at = self.clock_and_ids.now();
        let mut waiting = lock(&self.waiting);
        if let Some(reason) = waiting.rejected.clone() {
            return Err(JournalError::Rejected { run_id: self.id.clone(), reason });
        }
        for event in events {
            let seq = waiting.last.next();
            if waiting.is_over || self.is_left() {
                return Err(JournalError::Conflict { run_id: self.id.clone(), seq });
            }
            waiting.is_over = event.ends_the_run();
            waiting.last = seq;
            waiting.events.push(Arc::new(RecordedEvent {
                run_id: self.id.clone(),
                seq,
                at,
                event,
            }));
        }
        waiting.run_end = waiting.run_end.take().or(run_end);
        Ok(waiting.last)
    }
}

/// Returns the events that close everything open in `state` and end the run, and what is stored
/// with them.
fn end_of(mut state: RunState, outcome: RunOutcome) -> (Vec<Event>, RunEnd) {
    let closing = state.closing_events(outcome.clone());
    for event in &closing {
        state.apply(event);
    }
    (closing, RunEnd { outcome, entries: state.added().to_vec() })
}

partial_debug!(LiveRun { id });
