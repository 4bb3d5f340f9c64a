//! What this process knows about the use of each subject.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    time::Duration,
};

use turnwire_contract::{TenantId, Timestamp, UsageAmounts, UsageSpan, UsageSubject, UsageWindow};

/// How far a clock is set back without bringing an old window back.
const SMALL_STEP: Duration = Duration::from_secs(5);

/// The counters of all subjects that were seen in windows that have not ended.
#[derive(Debug, Default)]
pub(super) struct Counters(HashMap<(UsageSubject, UsageSpan), Counter>);

/// What one subject used in the current window.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    pub(super) window: UsageWindow,
    /// By this process.
    pub(super) own: UsageAmounts,
    /// What of it is stored.
    pub(super) stored: UsageAmounts,
    /// By other processes, when it was last read.
    pub(super) others: UsageAmounts,
    /// When it was last read. At the start of a window, nobody has used anything.
    pub(super) read_at: Timestamp,
    pub(super) touched_at: Timestamp,
    /// Whether it was logged that the budget is nearly spent.
    pub(super) has_warned: bool,
}

impl Counter {
    fn new(window: UsageWindow, now: Timestamp) -> Self {
        let nothing = UsageAmounts::default();
        Self {
            window,
            own: nothing,
            stored: nothing,
            others: nothing,
            read_at: window.starts_at,
            touched_at: now,
            has_warned: false,
        }
    }

    pub(super) fn used(&self) -> UsageAmounts {
        let mut used = self.own;
        used += self.others;
        used
    }

    /// Returns whether `now` is in the window, or so shortly before it that a clock was corrected.
    fn is_current(&self, now: Timestamp) -> bool {
        now < self.window.ends_at && self.window.starts_at.since(now) <= SMALL_STEP
    }

    /// Returns whether what others used was read within `age`.
    pub(super) fn is_fresh(&self, now: Timestamp, age: Duration) -> bool {
        now.since(self.read_at) <= age
    }
}

impl Counters {
    /// Returns the counter of the window that `now` is in.
    pub(super) fn at(
        &mut self,
        subject: &UsageSubject,
        span: UsageSpan,
        now: Timestamp,
    ) -> &mut Counter {
        let counter = match self.0.entry((subject.clone(), span)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Counter::new(span.window(now), now)),
        };
        // A clock that was far ahead and is set back does not leave a window that never ends.
        if !counter.is_current(now) {
            *counter = Counter::new(span.window(now), now);
        }
        counter.touched_at = now;
        counter
    }

    pub(super) fn get_mut(
        &mut self,
        key: &(UsageSubject, UsageSpan),
        window: UsageWindow,
    ) -> Option<&mut Counter> {
        self.0.get_mut(key).filter(|counter| counter.window == window)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&(UsageSubject, UsageSpan), &Counter)> {
        self.0.iter()
    }

    /// Returns the holders of keys of a tenant that used something of this process.
    pub(super) fn holders_of(&self, tenant: &TenantId, now: Timestamp) -> BTreeSet<String> {
        let in_use = self.0.iter().filter(|((subject, _), counter)| {
            let used = counter.used() != UsageAmounts::default();
            subject.tenant == *tenant && used && counter.is_current(now)
        });
        in_use.filter_map(|((subject, _), _)| subject.holder.clone()).collect()
    }

    /// Forgets windows that are not current, and counters with nothing of this process in them that
    /// nobody asked about within `age`. The others stay: what is stored replaces what was stored.
    pub(super) fn tidy(&mut self, now: Timestamp, age: Duration) {
        self.0.retain(|_, counter| {
            let is_in_use = counter.own != UsageAmounts::default()
                || counter.stored != UsageAmounts::default()
                || now.since(counter.touched_at) <= age;
            counter.is_current(now) && is_in_use
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
