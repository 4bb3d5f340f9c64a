//! The one door to the journal.
//!
//! A [`LiveRun`] is a run that this process works on. Everything that happens in it goes
//! through [`LiveRun::record`], which gives three guarantees: an event is durable before
//! anyone sees it, the state is never ahead of the journal, and a worker that lost its run
//! finds out at its next step.
//!
//! Whoever records while another append is under way waits for it, and what has gathered in
//! the meantime is then written in one go (group commit). So eight tools that report at once
//! cost one or two appends, not eight.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    future::pending,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{
    ApprovalAnswer, BlobError, CallId, Decision, Event, IncompleteReason, InputId, Journal,
    JournalError, RecordedEvent, Reply, RunEnd, RunId, RunOutcome, Seq, StoreError, TenantId,
    Timestamp,
};

use crate::{
    clock_and_ids::ClockAndIds,
    deadline::later,
    failures,
    run_state::{Call, RunState},
    sync::lock,
    work_time::WorkTime,
};

/// How long a tool start waits for an attached watcher to have seen it. A watcher that takes
/// longer is not waited for again, so the slowest of all costs a run this much, once.
const WATCHER_GRACE: Duration = Duration::from_millis(250);

/// How long a run waits before it asks a store again that is away: twice as long every time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A run that this process works on.
pub struct LiveRun {
    id: RunId,
    tenant: TenantId,
    journal: Arc<dyn Journal>,
    clock_and_ids: Arc<ClockAndIds>,
    waiting: Mutex<Waiting>,
    /// The last durable place. Held while an append is under way: that is what makes the
    /// others gather behind it.
    committed: tokio::sync::Mutex<Seq>,
    state: Mutex<RunState>,
    /// How long the run has worked, and a bell for when it begins or ceases to wait for people.
    worked: Mutex<WorkTime>,
    paused: Notify,
    stop: CancellationToken,
    /// Told to leave the run to another worker, where that can be done well.
    leave: CancellationToken,
    /// Until when this worker may rely on the run being its own; always, if there is none.
    lease_end: Option<watch::Receiver<Instant>>,
    stopped_by: OnceLock<Stop>,
    calls_at_work: Mutex<HashMap<CallId, CancellationToken>>,
    /// Serializes the answers of people: each looks at the state before it is recorded.
    resolving: tokio::sync::Mutex<()>,
    resolved: Notify,
    /// Rung when something new may expire.
    asked: Notify,
    /// Who waits for the answers to what tools have asked.
    repliers: Mutex<HashMap<InputId, oneshot::Sender<Reply>>>,
    /// Whether what the run leaves behind was stored with its end.
    ending_is_stored: AtomicBool,
    persisted: CancellationToken,
    watcher: Option<Watcher>,
}

/// Events that have a place but are not durable yet.
#[derive(Debug)]
struct Waiting {
    last: Seq,
    /// Whether the event that ends the run has a place; nothing gets one after it.
    is_over: bool,
    /// Why the journal has rejected an event of this run; only its end is recorded after that.
    rejected: Option<String>,
    events: Vec<Arc<RecordedEvent>>,
    /// What the run leaves behind, once its end is among the events.
    ending: Option<RunEnd>,
}

async fn retry_while_unavailable<T, E: StoreFailure, F>(ask: impl Fn() -> F) -> Result<T, E>
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

/// An error of a store.
pub(crate) trait StoreFailure {
    /// Whether the store is only away.
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

/// Somebody in this process who wants to know of a tool's start before the tool does anything.
#[derive(Debug)]
pub struct Watcher {
    seen: watch::Receiver<Seq>,
    is_slow: AtomicBool,
}

/// Why a run stops before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// It took too long.
    TimeLimit,
    /// The process is going away.
    Shutdown,
    /// Something that worked for it panicked.
    Panicked,
}

impl Stop {
    /// How a run ends that was stopped for this reason.
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
    /// A run whose journal ends at `head`, in this `state`.
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
            waiting: Mutex::new(Waiting {
                last: head,
                is_over: false,
                rejected: None,
                events: Vec::new(),
                ending: None,
            }),
            committed: tokio::sync::Mutex::new(head),
            worked: Mutex::new(WorkTime::begin(Duration::ZERO, state.asks_people())),
            paused: Notify::new(),
            state: Mutex::new(state),
            stop: CancellationToken::new(),
            leave: CancellationToken::new(),
            lease_end: None,
            stopped_by: OnceLock::new(),
            calls_at_work: Mutex::default(),
            resolving: tokio::sync::Mutex::default(),
            resolved: Notify::new(),
            asked: Notify::new(),
            repliers: Mutex::default(),
            ending_is_stored: AtomicBool::new(false),
            persisted: CancellationToken::new(),
            watcher: None,
        }
    }

    /// The same run, with somebody who wants to have seen a tool's start before the tool works.
    pub fn watched_by(mut self, watcher: Option<watch::Receiver<Seq>>) -> Self {
        self.watcher = watcher.map(|seen| Watcher { seen, is_slow: AtomicBool::new(false) });
        self
    }

    /// The same run, which also stops when `everything` does.
    pub fn stopped_with(mut self, everything: &CancellationToken) -> Self {
        self.stop = everything.child_token();
        self
    }

    /// The same run, which is also left when `everything` is.
    pub(crate) fn left_with(mut self, everything: &CancellationToken) -> Self {
        self.leave = everything.clone();
        self
    }

    /// The same run, which has worked for this long in other hands.
    pub(crate) fn having_worked(self, worked: Duration) -> Self {
        *lock(&self.worked) = WorkTime::begin(worked, self.state().asks_people());
        self
    }

    /// The same run, which acts only while `lease_end` says that it is ours.
    pub(crate) fn with_lease(mut self, lease_end: Option<watch::Receiver<Instant>>) -> Self {
        self.lease_end = lease_end;
        self
    }

    /// The last place that was given.
    pub(crate) fn head(&self) -> Seq {
        lock(&self.waiting).last
    }

    /// Which run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Whose run it is.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The time, as the journal knows it.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock_and_ids.now()
    }

    /// A new id of the given kind.
    pub fn new_id(&self, prefix: &'static str) -> String {
        self.clock_and_ids.new_id(prefix)
    }

    /// What the durable events mean.
    pub fn state(&self) -> MutexGuard<'_, RunState> {
        lock(&self.state)
    }

    /// Stores `event` and takes note of it. Returns its place once it is durable.
    pub async fn record(&self, event: Event) -> Result<Seq, JournalError> {
        self.record_all(vec![event]).await
    }

    /// Stores `events` in one go, and returns the place of the last one once all are durable.
    ///
    /// Not cancel-safe: events whose append is given up half-way may or may not be stored.
    /// The engine never drops a recording: it only gives up models and tools, and what others
    /// ask of it is done in tasks of its own.
    pub async fn record_all(&self, events: Vec<Event>) -> Result<Seq, JournalError> {
        let seq = self.assign_seqs(events, None)?;
        self.commit_up_to(seq).await
    }

    /// Stores the events that end the run, and what it leaves behind, in one go. If the journal
    /// does not take what closes the open blocks, it is asked to take the end alone.
    pub(crate) async fn record_end(&self, outcome: RunOutcome) -> Result<Seq, JournalError> {
        // What somebody is answering just now is settled, and must not be settled again.
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        let (closing, entries) = {
            let state = self.state();
            let closing = state.closing_events(outcome.clone());
            let mut closed = state.clone();
            for event in &closing {
                closed.apply(event);
            }
            (closing, closed.added().to_vec())
        };
        let end = closing.last().cloned();
        let ended = self.commit_end(closing, RunEnd { outcome: outcome.clone(), entries }).await;
        match ended {
            Err(JournalError::Rejected { .. }) => {
                let (end, entries) = (end.into_iter().collect(), Vec::new());
                self.commit_end(end, RunEnd { outcome, entries }).await
            }
            ended => ended,
        }
    }

    async fn commit_end(&self, closing: Vec<Event>, ending: RunEnd) -> Result<Seq, JournalError> {
        lock(&self.waiting).rejected = None;
        let seq = self.assign_seqs(closing, Some(ending))?;
        self.commit_up_to(seq).await
    }

    /// Waits until everything up to `seq` is durable.
    async fn commit_up_to(&self, seq: Seq) -> Result<Seq, JournalError> {
        let mut committed = self.committed.lock().await;
        if *committed >= seq {
            // A neighbour wrote ours along with its own.
            return Ok(seq);
        }
        let (batch, ending) = {
            let mut waiting = lock(&self.waiting);
            (mem::take(&mut waiting.events), waiting.ending.take())
        };
        let Some(last) = batch.last().map(|recorded| recorded.seq) else {
            // A neighbour took ours along and failed; the run is lost for us too.
            return Err(self.lost_at(seq));
        };
        let appended = match ending {
            None => self.journal.append(&self.tenant, batch.clone()).await.map(|()| false),
            Some(ending) => self.journal.append_end(&self.tenant, batch.clone(), ending).await,
        };
        match appended {
            Ok(true) => self.ending_is_stored.store(true, Ordering::Release),
            Ok(false) => {}
            Err(error) => {
                if let JournalError::Rejected { reason, .. } = &error {
                    self.take_back(&batch, *committed, reason);
                }
                return Err(error);
            }
        }
        let mut state = self.state();
        for recorded in &batch {
            state.apply(&recorded.event);
        }
        let asks_people = state.asks_people();
        drop(state);
        if lock(&self.worked).pause(asks_people) {
            self.paused.notify_one();
        }
        *committed = last;
        Ok(seq)
    }

    /// Takes back every place after `committed`: nothing of the `batch` was kept, and the end of
    /// the run is to follow on what was.
    fn take_back(&self, batch: &[Arc<RecordedEvent>], committed: Seq, reason: &str) {
        let was_end = batch.last().is_some_and(|last| last.event.ends_the_run());
        let mut waiting = lock(&self.waiting);
        waiting.events.clear();
        waiting.ending = None;
        waiting.last = committed;
        // A run that was let go stays so.
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

    fn assign_seqs(&self, events: Vec<Event>, ending: Option<RunEnd>) -> Result<Seq, JournalError> {
        let at = self.clock_and_ids.now();
        let mut waiting = lock(&self.waiting);
        if let Some(reason) = waiting.rejected.clone() {
            return Err(JournalError::Rejected { run_id: self.id.clone(), reason });
        }
        for event in events {
            let seq = waiting.last.next();
            if waiting.is_over {
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
        waiting.ending = waiting.ending.take().or(ending);
        Ok(waiting.last)
    }
}

impl fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRun").field("id", &self.id).finish_non_exhaustive()
    }
}

/// === Stopping ===
impl LiveRun {
    /// Stops the run. The first reason given is the one that counts.
    pub fn stop(&self, why: Stop) {
        let _ = self.stopped_by.set(why);
        self.stop.cancel();
    }

    /// Stops the run once it has worked for as long as it may. Never returns.
    pub(crate) async fn enforce_time_limit(&self) -> Infallible {
        loop {
            let limit = self.state().limits().wall_clock;
            let end = lock(&self.worked).ends_at(limit);
            if timeout_at(end, self.paused.notified()).await.is_err() {
                break;
            }
        }
        self.stop(Stop::TimeLimit);
        pending().await
    }

    /// Why the run is to stop, if it is.
    pub fn stopped_by(&self) -> Option<Stop> {
        let with_everything = || self.stop.is_cancelled().then_some(Stop::Shutdown);
        self.stopped_by.get().copied().or_else(with_everything)
    }

    /// Waits until the run is to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether the run is to be left to another worker.
    pub(crate) fn is_to_be_left(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Waits until the run is to be left to another worker.
    pub(crate) async fn left(&self) {
        self.leave.cancelled().await;
    }

    /// Lets go of the run at once: nothing more of it is recorded here, and whatever works for
    /// it is stopped.
    pub(crate) fn relinquish(&self) {
        lock(&self.waiting).is_over = true;
        self.stop.cancel();
    }

    /// Waits while this worker cannot be sure that the run is still its own: its store has not
    /// heard of it for too long, and another worker may have taken over.
    pub(crate) async fn wait_for_lease(&self) {
        let Some(mut lease_end) = self.lease_end.clone() else { return };
        tokio::select! {
            biased;
            () = self.stopped() => {}
            // The sender lives as long as the engine.
            _ = lease_end.wait_for(|until| *until > Instant::now()) => {}
        }
    }

    /// Asks a store something, again and again while it is away: the run could not record what
    /// comes next anyway. Nothing if the run is to stop or to be left meanwhile.
    pub(crate) async fn retry_until_available<T, E: StoreFailure, F>(
        &self,
        ask: impl Fn() -> F,
    ) -> Option<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        tokio::select! {
            biased;
            heard = retry_while_unavailable(&ask) => Some(heard),
            () = self.stopped() => None,
            () = self.left() => None,
        }
    }

    /// The same for what was done already and must not be lost: a run that is to be left waits
    /// with it.
    pub(crate) async fn retry_until_stored<T, E: StoreFailure, F>(
        &self,
        keep: impl Fn() -> F,
    ) -> Option<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        tokio::select! {
            biased;
            kept = retry_while_unavailable(&keep) => Some(kept),
            () = self.stopped() => None,
        }
    }

    /// Whether what the run leaves behind was stored with its end.
    pub(crate) fn ending_is_stored(&self) -> bool {
        self.ending_is_stored.load(Ordering::Acquire)
    }

    /// Says that the run is over and everything about it is stored.
    pub(crate) fn mark_persisted(&self) {
        self.persisted.cancel();
    }

    /// Waits until the run is over and everything about it is stored.
    pub(crate) async fn persisted(&self) {
        self.persisted.cancelled().await;
    }

    /// A token for a call that is about to be carried out; stopping the run stops it too.
    pub(crate) fn begin_call(&self, call_id: &CallId) -> CancellationToken {
        let token = self.stop.child_token();
        lock(&self.calls_at_work).insert(call_id.clone(), token.clone());
        token
    }

    /// The call is over.
    pub(crate) fn end_call(&self, call_id: &CallId) {
        lock(&self.calls_at_work).remove(call_id);
    }

    /// Stops one call; the run goes on. Says whether there was such a call at work.
    pub fn stop_call(&self, call_id: &CallId) -> bool {
        let token = lock(&self.calls_at_work).get(call_id).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }
}

impl LiveRun {
    /// Cancels one call, at work or waiting for a person; the run goes on. Says whether there
    /// was something to cancel.
    pub(crate) async fn cancel_call(&self, call_id: &CallId) -> Result<bool, JournalError> {
        if self.stop_call(call_id) {
            return Ok(true);
        }
        let decision = Decision::Denied { reason: "the call was cancelled".to_owned() };
        self.resolve(call_id, ApprovalAnswer::from(decision).by("cancel")).await
    }
}

/// === Waiting for people ===
impl LiveRun {
    /// Records a person's answer, if the call waits for one. Says whether it did. A conflict says
    /// that the run is not ours any more, and nothing about the question.
    pub(crate) async fn resolve(
        &self,
        call_id: &CallId,
        answer: ApprovalAnswer,
    ) -> Result<bool, JournalError> {
        // Of two answers that come at once, the one that takes the call out of the state's
        // waiting ones is recorded; the lock below is held until its event is applied.
        let _one_at_a_time = self.resolving.lock().await;
        // Readers see an event a moment before the state has taken note of it; whoever answers
        // that fast waits here until it has.
        drop(self.committed.lock().await);
        self.record_expired().await?;
        if !self.state().call(call_id).is_some_and(Call::waits_for_approval) {
            return Ok(false);
        }
        self.record(Event::approval_resolved(call_id.clone(), answer)).await?;
        self.resolved.notify_one();
        Ok(true)
    }

    /// Answers for everybody who has taken too long. Says whether the run is still ours.
    async fn expire(&self) -> Result<bool, JournalError> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        self.record_expired().await
    }

    async fn record_expired(&self) -> Result<bool, JournalError> {
        let expired = self.state().expired_events(self.now());
        if expired.is_empty() {
            return Ok(true);
        }
        if !self.record_if_ours(expired.clone()).await? {
            return Ok(false);
        }
        for event in expired {
            self.pass_on(&event);
        }
        self.resolved.notify_one();
        Ok(true)
    }

    /// Records `events`. Says whether the run was still ours to record them: it may have ended,
    /// or moved on to another worker, in the same moment.
    async fn record_if_ours(&self, events: Vec<Event>) -> Result<bool, JournalError> {
        match self.record_all(events).await {
            Ok(_) => Ok(true),
            Err(JournalError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that people have been asked something that may expire.
    pub(crate) fn note_asked(&self) {
        self.asked.notify_one();
    }

    /// Keeps an eye on what nobody answers, until it is `done` with or the run is lost. Not to be
    /// dropped before: it may be recording.
    pub(crate) async fn expire_unanswered(&self, done: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = done.cancelled() => return,
                () = self.due() => {}
            }
            match self.expire().await {
                Ok(true) => {}
                // The steps will find out for themselves.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Waits until somebody has taken too long to answer.
    async fn due(&self) {
        loop {
            let next = self.state().next_expiry();
            let wait = match next {
                Some(at) if at <= self.now() => return,
                Some(at) => at.since(self.now()),
                None => Duration::MAX,
            };
            tokio::select! {
                () = sleep_until(later(Instant::now(), wait)) => {}
                () = self.asked.notified() => {}
            }
        }
    }

    /// Waits until a person has answered, or the run is to stop or to be left.
    pub(crate) async fn woken(&self) {
        tokio::select! {
            // Either order is right: the loop looks at the state and at the stop next.
            () = self.resolved.notified() => {}
            () = self.stopped() => {}
            () = self.left() => {}
        }
    }

    /// Records what a tool asks, and remembers who waits for the answer.
    pub(crate) async fn ask(
        &self,
        input_id: InputId,
        asked: Event,
        replier: oneshot::Sender<Reply>,
    ) -> Result<(), JournalError> {
        lock(&self.repliers).insert(input_id, replier);
        self.record(asked).await?;
        self.note_asked();
        Ok(())
    }

    /// Records a person's answer to what a tool asked, if it waits for one. Says whether it did.
    pub(crate) async fn reply(
        &self,
        input_id: &InputId,
        reply: Reply,
        by: Option<String>,
    ) -> Result<bool, JournalError> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        self.record_expired().await?;
        let Some(call_id) = self.state().question(input_id).map(|open| open.call_id.clone()) else {
            return Ok(false);
        };
        let resolved = Event::InputResolved { call_id, input_id: input_id.clone(), reply, by };
        self.record(resolved.clone()).await?;
        self.pass_on(&resolved);
        Ok(true)
    }

    /// Tells the tool what was answered.
    fn pass_on(&self, event: &Event) {
        if let Event::InputResolved { input_id, reply, .. } = event
            && let Some(replier) = lock(&self.repliers).remove(input_id)
        {
            // A tool that has lost interest has it in its journal all the same.
            let _ = replier.send(reply.clone());
        }
    }

    /// Records the end of a call, and of what its tool still asks.
    pub(crate) async fn record_end_of_call(
        &self,
        call_id: &CallId,
        end: Event,
    ) -> Result<Seq, JournalError> {
        let _one_at_a_time = self.resolving.lock().await;
        drop(self.committed.lock().await);
        let mut events = self.state().close_questions(call_id);
        for event in &events {
            self.pass_on(event);
        }
        events.push(end);
        self.record_all(events).await
    }

    /// Gives the attached watcher a chance to have seen `seq` before the tool begins.
    pub(crate) async fn let_watcher_see(&self, seq: Seq) {
        let Some(watcher) = &self.watcher else { return };
        if watcher.is_slow.load(Ordering::Relaxed) {
            return;
        }
        let mut seen = watcher.seen.clone();
        if timeout(WATCHER_GRACE, seen.wait_for(|seen| *seen >= seq)).await.is_err() {
            watcher.is_slow.store(true, Ordering::Relaxed);
        }
    }
}
