//! Tail buffer: the latest events of the runs that are written or read here.
//!
//! A tail delivers an append to readers in this process without a database read. It has some recent
//! events, the head of the run, and a notification. It contains only durable events. Older events
//! are read from the database, so a tail may drop any event, and is bounded by count and size.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use turnwire_contract::{DurationCounter, DurationCounts, RecordedEvent, RunId, Seq, TenantId};

use crate::{
    pages::{Head, KnownHead, Page},
    progress::ProgressTable,
    shared_pages::SharedPages,
    sync::lock,
    time::now,
};

/// Tail bound of a run with readers.
const KEPT_FOR_READERS: Bound = Bound { events: 256, bytes: 128 * 1024 };

/// Tail bound of a run without readers: enough for a reader that connects at the start.
const KEPT_IN_ADVANCE: Bound = Bound { events: 32, bytes: 16 * 1024 };

/// A run written here this recently is not polled.
pub(crate) const WRITTEN_LATELY: Duration = Duration::from_secs(1);

/// A run without readers is dropped this long after its last write here.
const IDLE: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, Copy)]
struct Bound {
    events: usize,
    bytes: usize,
}

/// The tails of all runs that are written or read here.
#[derive(Debug, Default)]
pub(crate) struct LiveTails {
    by_run: Mutex<HashMap<RunId, Arc<RunTail>>>,
    /// Runs to subscribe to (`true`) or unsubscribe from. At most one entry per run.
    changes: Mutex<HashMap<RunId, bool>>,
    changed: Notify,
    /// Progress of the runs that are written here.
    progress: ProgressTable,
    /// Delay of events that other workers have committed.
    lag: DurationCounter,
}

#[derive(Debug)]
pub(crate) struct RunTail {
    run_id: RunId,
    tenant: TenantId,
    state: Mutex<TailState>,
    notified: Notify,
    /// Pages that readers fetched from the database.
    pages: SharedPages,
}

#[derive(Debug)]
struct TailState {
    head: Seq,
    is_over: bool,
    is_deleted: bool,
    /// Whether there are events after the head that only a reader can read, or fail to.
    is_unread: bool,
    n_readers: usize,
    /// Last write by this process. `None` if another process writes the run.
    written: Option<Instant>,
    /// Contiguous up to the head, each with its size.
    recent: VecDeque<(Arc<RecordedEvent>, usize)>,
    bytes: usize,
}

/// The result of a read from a tail.
#[derive(Debug)]
pub(crate) enum TailRead {
    Events(Vec<Arc<RecordedEvent>>),
    /// The next events are only in the database.
    InDatabase,
    /// There are none yet.
    NotYet,
    /// The run has ended.
    Over,
    Deleted,
}

/// The result of adding events from another worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddOutcome {
    /// The events are in the tail.
    Accepted,
    /// Events before them are missing.
    Gap,
    /// The run has no readers here.
    Unwanted,
}

impl LiveTails {
    /// Returns the run's tail, if it has one.
    pub(crate) fn find(&self, run_id: &RunId) -> Option<Arc<RunTail>> {
        lock(&self.by_run).get(run_id).cloned()
    }

    /// Subscribes to the run's tail, if it exists and belongs to `tenant`.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Option<Subscription> {
        let tails = lock(&self.by_run);
        let tail = tails.get(run_id).filter(|tail| tail.tenant == *tenant)?;
        Some(self.subscription(tail))
    }

    /// Subscribes to the tail of a run that was found in the database.
    pub(crate) fn subscribe_at(self: &Arc<Self>, run_id: &RunId, head: Head) -> Subscription {
        let mut tails = lock(&self.by_run);
        let tail = tails.entry(run_id.clone()).or_insert_with(|| RunTail::new(run_id, head));
        self.subscription(tail)
    }

    fn subscription(self: &Arc<Self>, tail: &Arc<RunTail>) -> Subscription {
        let mut state = lock(&tail.state);
        state.n_readers += 1;
        if state.n_readers == 1 && state.is_followed() {
            self.note_change(&tail.run_id, true);
        }
        drop(state);
        Subscription { tail: Arc::clone(tail), tails: Arc::clone(self) }
    }

    fn unsubscribe(&self, tail: &Arc<RunTail>) {
        let mut tails = lock(&self.by_run);
        let mut state = lock(&tail.state);
        state.n_readers = state.n_readers.saturating_sub(1);
        if state.n_readers > 0 {
            return;
        }
        state.bound();
        self.note_change(&tail.run_id, false);
        let is_needed = state.written.is_some() && !state.is_over;
        if !is_needed && tails.get(&tail.run_id).is_some_and(|state| Arc::ptr_eq(state, tail)) {
            tails.remove(&tail.run_id);
        }
    }

    fn note_change(&self, run_id: &RunId, is_followed: bool) {
        let mut changes = lock(&self.changes);
        match changes.entry(run_id.clone()) {
            // The subscription started and ended before the change was consumed.
            Entry::Occupied(entry) if !is_followed && *entry.get() => drop(entry.remove()),
            entry => drop(entry.insert_entry(is_followed)),
        }
        drop(changes);
        self.changed.notify_one();
    }

    /// Returns the progress of the runs that are written here.
    pub(crate) fn progress(&self) -> &ProgressTable {
        &self.progress
    }

    /// Waits for a change of the needed notifications.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the runs to subscribe to (`true`) or unsubscribe from.
    pub(crate) fn take_changes(&self) -> HashMap<RunId, bool> {
        std::mem::take(&mut *lock(&self.changes))
    }
}

impl LiveTails {
    /// Adds `events` that this process has committed.
    pub(crate) fn note_written(
        &self,
        tenant: &TenantId,
        events: &[Arc<RecordedEvent>],
        bytes: usize,
    ) {
        let Some(first) = events.first() else { return };
        let mut tails = lock(&self.by_run);
        let entry = tails.entry(first.run_id.clone());
        let before = Head { tenant: tenant.clone(), last: Seq(first.seq.0 - 1), is_over: false };
        let tail = Arc::clone(entry.or_insert_with(|| RunTail::new(&first.run_id, before)));
        let mut state = lock(&tail.state);
        state.written = Some(Instant::now());
        state.add(events, bytes);
        if state.is_over && state.n_readers == 0 {
            tails.remove(&first.run_id);
        }
        drop((state, tails));
        tail.notified.notify_waiters();
    }

    /// Marks the run as written by another worker.
    pub(crate) fn release(&self, run_id: &RunId) {
        self.progress.forget(run_id);
        let mut tails = lock(&self.by_run);
        let Entry::Occupied(entry) = tails.entry(run_id.clone()) else { return };
        let tail = Arc::clone(entry.get());
        let mut state = lock(&tail.state);
        state.written = None;
        if state.n_readers == 0 {
            entry.remove();
        } else if state.is_followed() {
            self.note_change(run_id, true);
        }
    }

    /// Marks the run as deleted.
    pub(crate) fn delete(&self, tenant: &TenantId, run_id: &RunId) {
        let mut tails = lock(&self.by_run);
        let Entry::Occupied(entry) = tails.entry(run_id.clone()) else { return };
        if entry.get().tenant != *tenant {
            return;
        }
        let tail = entry.remove();
        lock(&tail.state).is_deleted = true;
        tail.notified.notify_waiters();
    }
}

impl LiveTails {
    /// Returns the runs that are read here and may be written elsewhere, with their known heads.
    pub(crate) fn followed(&self) -> Vec<KnownHead> {
        let tails = lock(&self.by_run);
        tails.values().filter_map(|tail| tail.followed_from()).collect()
    }

    /// Like [`Self::followed`], without the runs that this process has written last: others write
    /// them only after a takeover.
    pub(crate) fn followed_elsewhere(&self) -> Vec<KnownHead> {
        let tails = lock(&self.by_run);
        let elsewhere = tails.values().filter(|tail| tail.state().written.is_none());
        elsewhere.filter_map(|tail| tail.followed_from()).collect()
    }

    /// Like [`Self::followed`], but only for `run_ids`.
    pub(crate) fn followed_of(&self, run_ids: impl IntoIterator<Item = RunId>) -> Vec<KnownHead> {
        let tails = lock(&self.by_run);
        run_ids.into_iter().filter_map(|run_id| tails.get(&run_id)?.followed_from()).collect()
    }

    /// Returns whether a reader here waits for the event at `seq`, written elsewhere.
    pub(crate) fn misses(&self, run_id: &RunId, seq: Seq) -> bool {
        let followed = self.find(run_id).and_then(|tail| tail.followed_from());
        followed.is_some_and(|(_, head)| head < seq)
    }

    /// Adds events that another worker has committed, as a notification has them.
    pub(crate) fn arrived(&self, run_id: &RunId, page: &Page) -> AddOutcome {
        self.add_page(run_id, page, false)
    }

    /// Adds events that another worker has committed, as they were found in the database. Where
    /// some are missing between the head and them, they are in a row that begins before the head
    /// ([`compaction`](crate::compaction)); readers find them in the database.
    pub(crate) fn found(&self, run_id: &RunId, page: &Page) -> AddOutcome {
        self.add_page(run_id, page, true)
    }

    fn add_page(&self, run_id: &RunId, page: &Page, may_skip: bool) -> AddOutcome {
        let Some(tail) = self.find(run_id) else { return AddOutcome::Unwanted };
        let Some(first) = page.events.first() else { return AddOutcome::Accepted };
        let mut state = lock(&tail.state);
        if state.n_readers == 0 {
            return AddOutcome::Unwanted;
        }
        if first.seq > state.head.next() && !may_skip {
            return AddOutcome::Gap;
        }
        let before = state.head;
        state.add(&page.events, page.bytes);
        let has_grown = state.head > before;
        if has_grown && state.written.take().is_some() {
            // Another worker writes the run now.
            self.note_change(run_id, true);
        }
        drop(state);
        if let Some(last) = page.events.last().filter(|_| has_grown) {
            self.lag.note(now().since(last.at));
        }
        tail.notified.notify_waiters();
        AddOutcome::Accepted
    }

    /// Marks that another worker has committed events that could not be read here.
    pub(crate) fn mark_unread(&self, run_id: &RunId) {
        let Some(tail) = self.find(run_id) else { return };
        lock(&tail.state).is_unread = true;
        tail.notified.notify_waiters();
    }

    /// Returns the delay of events that other workers have committed. It is as exact as the clocks
    /// of the workers agree.
    pub(crate) fn lag(&self) -> DurationCounts {
        self.lag.counts()
    }

    /// Drops idle runs without readers.
    pub(crate) fn sweep(&self) {
        let is_idle = |state: &TailState| {
            state.n_readers == 0 && state.written.is_none_or(|written| written.elapsed() > IDLE)
        };
        lock(&self.by_run).retain(|_, tail| !is_idle(&lock(&tail.state)));
    }
}

impl RunTail {
    fn new(run_id: &RunId, head: Head) -> Arc<Self> {
        let state = TailState {
            head: head.last,
            is_over: head.is_over,
            is_deleted: false,
            is_unread: false,
            n_readers: 0,
            written: None,
            recent: VecDeque::new(),
            bytes: 0,
        };
        let (state, notified, pages) = (Mutex::new(state), Notify::new(), SharedPages::default());
        Arc::new(Self { run_id: run_id.clone(), tenant: head.tenant, state, notified, pages })
    }

    pub(crate) fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Returns the head of the run, as known here.
    pub(crate) fn head(&self) -> Head {
        let state = self.state();
        Head { tenant: self.tenant.clone(), last: state.head, is_over: state.is_over }
    }

    /// Returns the pages that readers fetched from the database.
    pub(crate) fn pages(&self) -> &SharedPages {
        &self.pages
    }

    /// Returns the events after `after`.
    pub(crate) fn after(&self, after: Seq) -> TailRead {
        let mut state = self.state();
        if state.is_deleted {
            return TailRead::Deleted;
        }
        if after >= state.head && std::mem::take(&mut state.is_unread) {
            return TailRead::InDatabase;
        }
        if after >= state.head {
            return if state.is_over { TailRead::Over } else { TailRead::NotYet };
        }
        let first = state.recent.front().map_or(state.head.next(), |(first, _)| first.seq);
        match (after.next().0).checked_sub(first.0).map(usize::try_from) {
            Some(Ok(seen)) => {
                let next = state.recent.range(seen.min(state.recent.len())..);
                TailRead::Events(next.map(|(recorded, _)| Arc::clone(recorded)).collect())
            }
            _ => TailRead::InDatabase,
        }
    }

    /// Completes when there may be new events.
    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.notified.notified()
    }

    fn followed_from(&self) -> Option<KnownHead> {
        let state = self.state();
        let is_followed = state.n_readers > 0 && state.is_followed();
        is_followed.then(|| (self.run_id.clone(), state.head))
    }

    fn state(&self) -> MutexGuard<'_, TailState> {
        lock(&self.state)
    }
}

impl TailState {
    /// Returns whether the next event may come from another process.
    fn is_followed(&self) -> bool {
        !self.is_over && self.written.is_none_or(|written| written.elapsed() > WRITTEN_LATELY)
    }

    /// Adds those of the durable `events` that are new.
    fn add(&mut self, events: &[Arc<RecordedEvent>], bytes: usize) {
        let each = bytes / events.len().max(1);
        let head = self.head;
        for recorded in events.iter().filter(|recorded| recorded.seq > head) {
            if recorded.seq != self.head.next() {
                self.recent.clear();
                self.bytes = 0;
            }
            self.head = recorded.seq;
            self.is_unread = false;
            self.is_over = recorded.event.ends_the_run();
            self.recent.push_back((Arc::clone(recorded), each));
            self.bytes += each;
        }
        self.bound();
    }

    fn bound(&mut self) {
        let bound = if self.n_readers > 0 { KEPT_FOR_READERS } else { KEPT_IN_ADVANCE };
        while self.recent.len() > bound.events || self.bytes > bound.bytes {
            let Some((_, bytes)) = self.recent.pop_front() else { return };
            self.bytes -= bytes;
        }
    }
}

/// A reader's subscription to a tail. The tail is kept up to date while it exists.
#[derive(Debug)]
pub(crate) struct Subscription {
    tail: Arc<RunTail>,
    tails: Arc<LiveTails>,
}

impl Subscription {
    pub(crate) fn tail(&self) -> &Arc<RunTail> {
        &self.tail
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.tails.unsubscribe(&self.tail);
    }
}

#[cfg(test)]
#[path = "live_tails_tests.rs"]
mod tests;
