//! The last events of the runs that are written or read here.
//!
//! A tail is how an append reaches the readers of this process without a way through the
//! database: a few recent events, how far the run has come, and a bell. It only ever holds what
//! is durable. Whatever is not in it any more is read from the database, so it may forget
//! anything at any time, and does: it is bounded by number and by weight.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use turnwire_contract::{
    Recorded, RunId, Seq, TenantId,
    seeded::{Fault, is_seeded},
};

use crate::{
    pages::{Head, Known, Page},
    shared_pages::SharedPages,
    sync::lock,
};

/// How much of a run is at hand for its readers.
const KEPT_FOR_READERS: Bound = Bound { events: 256, bytes: 128 * 1024 };

/// How much of a run that nobody reads yet: enough for a reader that comes at its beginning.
const KEPT_IN_ADVANCE: Bound = Bound { events: 32, bytes: 16 * 1024 };

/// A run that was written here this recently is not looked up in the database.
pub(crate) const WRITTEN_LATELY: Duration = Duration::from_secs(1);

/// A run that was last written here this long ago and has no readers is forgotten.
const IDLE: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, Copy)]
struct Bound {
    events: usize,
    bytes: usize,
}

/// The tails of all runs that are written or read here.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    by_run: Mutex<HashMap<RunId, Arc<Tail>>>,
    /// Runs whose news somebody began or ceased to need. As many as there are runs, at most.
    changes: Mutex<HashMap<RunId, bool>>,
    changed: Notify,
}

/// The tail of one run.
#[derive(Debug)]
pub(crate) struct Tail {
    run_id: RunId,
    tenant: TenantId,
    kept: Mutex<Kept>,
    bell: Notify,
    /// What its readers have fetched from the database.
    pages: SharedPages,
}

#[derive(Debug)]
struct Kept {
    head: Seq,
    is_over: bool,
    is_forgotten: bool,
    n_readers: usize,
    /// When this process last wrote to it; never, or not any more, if not set.
    written: Option<Instant>,
    /// Without gaps, up to the head; each with its weight.
    recent: VecDeque<(Arc<Recorded>, usize)>,
    bytes: usize,
}

/// What a reader finds at its place.
#[derive(Debug)]
pub(crate) enum Found {
    /// The next events.
    Events(Vec<Arc<Recorded>>),
    /// They are in the database only.
    Further,
    /// There are none yet.
    Nothing,
    /// There will be none.
    Over,
    /// There is no such run any more.
    Forgotten,
}

/// What became of events that came from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// They are known now.
    Taken,
    /// There is a gap before them.
    Gap,
    /// Nobody waits for them.
    Unwanted,
}

/// === For readers ===
impl Tails {
    /// The run's tail, if it has one.
    pub(crate) fn find(&self, run_id: &RunId) -> Option<Arc<Tail>> {
        lock(&self.by_run).get(run_id).cloned()
    }

    /// A seat at the run's tail, if it has one. Another tenant's run has none.
    pub(crate) fn seat(self: &Arc<Self>, tenant: &TenantId, run_id: &RunId) -> Option<Seat> {
        let tails = lock(&self.by_run);
        let tail = tails.get(run_id).filter(|tail| tail.tenant == *tenant)?;
        Some(self.taken_seat(tail))
    }

    /// A seat at the tail of a run that was found in the database.
    pub(crate) fn seat_at(self: &Arc<Self>, run_id: &RunId, head: Head) -> Seat {
        let mut tails = lock(&self.by_run);
        let tail = tails.entry(run_id.clone()).or_insert_with(|| Tail::new(run_id, head));
        self.taken_seat(tail)
    }

    fn taken_seat(self: &Arc<Self>, tail: &Arc<Tail>) -> Seat {
        let mut kept = lock(&tail.kept);
        kept.n_readers += 1;
        if kept.n_readers == 1 && kept.is_followed() {
            self.note_change(&tail.run_id, true);
        }
        drop(kept);
        Seat { tail: Arc::clone(tail), tails: Arc::clone(self) }
    }

    fn leave(&self, tail: &Arc<Tail>) {
        let mut tails = lock(&self.by_run);
        let mut kept = lock(&tail.kept);
        kept.n_readers = kept.n_readers.saturating_sub(1);
        if kept.n_readers > 0 {
            return;
        }
        kept.bound();
        self.note_change(&tail.run_id, false);
        let is_needed = kept.written.is_some() && !kept.is_over;
        if !is_needed && tails.get(&tail.run_id).is_some_and(|kept| Arc::ptr_eq(kept, tail)) {
            tails.remove(&tail.run_id);
        }
    }

    fn note_change(&self, run_id: &RunId, is_followed: bool) {
        let mut changes = lock(&self.changes);
        match changes.entry(run_id.clone()) {
            // It began and ended before anybody took note.
            Entry::Occupied(entry) if !is_followed && *entry.get() => drop(entry.remove()),
            entry => drop(entry.insert_entry(is_followed)),
        }
        drop(changes);
        self.changed.notify_one();
    }

    /// Waits until the news of other runs are needed, and tells which.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The runs whose news are needed now (`true`), or no longer.
    pub(crate) fn take_changes(&self) -> HashMap<RunId, bool> {
        std::mem::take(&mut *lock(&self.changes))
    }
}

/// === For the writer ===
impl Tails {
    /// This process has written `events` to the run.
    pub(crate) fn written(&self, tenant: &TenantId, events: &[Arc<Recorded>], bytes: usize) {
        let Some(first) = events.first() else { return };
        let mut tails = lock(&self.by_run);
        let entry = tails.entry(first.run_id.clone());
        let before = Head { tenant: tenant.clone(), last: Seq(first.seq.0 - 1), is_over: false };
        let tail = Arc::clone(entry.or_insert_with(|| Tail::new(&first.run_id, before)));
        let mut kept = lock(&tail.kept);
        kept.written = Some(Instant::now());
        kept.add(events, bytes);
        if kept.is_over && kept.n_readers == 0 {
            tails.remove(&first.run_id);
        }
        drop((kept, tails));
        tail.bell.notify_waiters();
    }

    /// Somebody else writes the run now, or soon will.
    pub(crate) fn let_go(&self, run_id: &RunId) {
        let mut tails = lock(&self.by_run);
        let Entry::Occupied(entry) = tails.entry(run_id.clone()) else { return };
        let tail = Arc::clone(entry.get());
        let mut kept = lock(&tail.kept);
        kept.written = None;
        if kept.n_readers == 0 {
            entry.remove();
        } else if kept.is_followed() {
            self.note_change(run_id, true);
        }
    }

    /// The run is not there any more.
    pub(crate) fn forget(&self, tenant: &TenantId, run_id: &RunId) {
        let mut tails = lock(&self.by_run);
        let Entry::Occupied(entry) = tails.entry(run_id.clone()) else { return };
        if entry.get().tenant != *tenant {
            return;
        }
        let tail = entry.remove();
        lock(&tail.kept).is_forgotten = true;
        tail.bell.notify_waiters();
    }
}

/// === For those who follow what others write ===
impl Tails {
    /// Runs that are read here and may be written elsewhere, and how far they are known.
    pub(crate) fn followed(&self) -> Vec<Known> {
        let tails = lock(&self.by_run);
        tails.values().filter_map(|tail| tail.followed_from()).collect()
    }

    /// Those of `run_ids` that are read here and may be written elsewhere.
    pub(crate) fn followed_of(&self, run_ids: impl IntoIterator<Item = RunId>) -> Vec<Known> {
        let tails = lock(&self.by_run);
        run_ids.into_iter().filter_map(|run_id| tails.get(&run_id)?.followed_from()).collect()
    }

    /// Whether somebody here waits for the event at `place`, which was written elsewhere.
    pub(crate) fn misses(&self, run_id: &RunId, place: Seq) -> bool {
        let followed = self.find(run_id).and_then(|tail| tail.followed_from());
        followed.is_some_and(|(_, head)| head < place)
    }

    /// Takes events that somebody else has made durable.
    pub(crate) fn arrived(&self, run_id: &RunId, page: &Page) -> Arrival {
        let Some(tail) = self.find(run_id) else { return Arrival::Unwanted };
        let Some(first) = page.events.first() else { return Arrival::Taken };
        let mut kept = lock(&tail.kept);
        if kept.n_readers == 0 {
            return Arrival::Unwanted;
        }
        if first.seq > kept.head.next() && !is_seeded(Fault::NewsAsTruth) {
            return Arrival::Gap;
        }
        let before = kept.head;
        kept.add(&page.events, page.bytes);
        if kept.head > before && kept.written.take().is_some() {
            // Somebody else writes it now.
            self.note_change(run_id, true);
        }
        drop(kept);
        tail.bell.notify_waiters();
        Arrival::Taken
    }

    /// Forgets runs that were written here once and are not any more.
    pub(crate) fn sweep(&self) {
        let is_idle = |kept: &Kept| {
            kept.n_readers == 0 && kept.written.is_none_or(|written| written.elapsed() > IDLE)
        };
        lock(&self.by_run).retain(|_, tail| !is_idle(&lock(&tail.kept)));
    }
}

impl Tail {
    fn new(run_id: &RunId, head: Head) -> Arc<Self> {
        let kept = Kept {
            head: head.last,
            is_over: head.is_over,
            is_forgotten: false,
            n_readers: 0,
            written: None,
            recent: VecDeque::new(),
            bytes: 0,
        };
        let (kept, bell, pages) = (Mutex::new(kept), Notify::new(), SharedPages::default());
        Arc::new(Self { run_id: run_id.clone(), tenant: head.tenant, kept, bell, pages })
    }

    /// Which run.
    pub(crate) fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Whose run it is.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// How far the run has come, as far as is known here.
    pub(crate) fn head(&self) -> Head {
        let kept = self.kept();
        Head { tenant: self.tenant.clone(), last: kept.head, is_over: kept.is_over }
    }

    /// What its readers have fetched from the database.
    pub(crate) fn pages(&self) -> &SharedPages {
        &self.pages
    }

    /// What follows on `after`.
    pub(crate) fn after(&self, after: Seq) -> Found {
        let kept = self.kept();
        if kept.is_forgotten {
            return Found::Forgotten;
        }
        if after >= kept.head {
            return if kept.is_over { Found::Over } else { Found::Nothing };
        }
        let first = kept.recent.front().map_or(kept.head.next(), |(first, _)| first.seq);
        match (after.next().0).checked_sub(first.0).map(usize::try_from) {
            Some(Ok(seen)) => {
                let next = kept.recent.range(seen.min(kept.recent.len())..);
                Found::Events(next.map(|(recorded, _)| Arc::clone(recorded)).collect())
            }
            _ if is_lax(after) && !kept.recent.is_empty() => {
                let next = kept.recent.iter();
                Found::Events(next.map(|(recorded, _)| Arc::clone(recorded)).collect())
            }
            _ => Found::Further,
        }
    }

    /// Rings when there may be something new.
    pub(crate) fn bell(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    fn followed_from(&self) -> Option<Known> {
        let kept = self.kept();
        let is_followed = kept.n_readers > 0 && kept.is_followed();
        is_followed.then(|| (self.run_id.clone(), kept.head))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

impl Kept {
    /// Whether the next event of the run may come from another process.
    fn is_followed(&self) -> bool {
        !self.is_over && self.written.is_none_or(|written| written.elapsed() > WRITTEN_LATELY)
    }

    /// Adds what is new of `events`, which are durable.
    fn add(&mut self, events: &[Arc<Recorded>], bytes: usize) {
        let each = bytes / events.len().max(1);
        let head = self.head;
        for recorded in events.iter().filter(|recorded| recorded.seq > head) {
            if recorded.seq != self.head.next() {
                self.recent.clear();
                self.bytes = 0;
            }
            self.head = recorded.seq;
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

/// Whether a reader goes on with what there is, whatever is missing: a fault for tests.
fn is_lax(after: Seq) -> bool {
    is_seeded(Fault::DropOnOverflow) || is_seeded(Fault::NewsAsTruth) && after > Seq::START
}

/// A reader's place at a tail. While somebody sits there, the tail is kept up to date.
#[derive(Debug)]
pub(crate) struct Seat {
    tail: Arc<Tail>,
    tails: Arc<Tails>,
}

impl Seat {
    /// The tail.
    pub(crate) fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.tails.leave(&self.tail);
    }
}

#[cfg(test)]
#[path = "tails_tests.rs"]
mod tests;
