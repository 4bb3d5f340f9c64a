//! How long a run has worked: over all of its workers, and without the time in which it waited
//! for people.

use std::time::Duration;

use tokio::time::Instant;
use turnwire_contract::{Event, RecordedEvent, Timestamp};

use crate::{deadline::later, run_state::RunState};

/// The working time of a run that this process works on. Goes by the steady clock: the one of the
/// journal may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkTime {
    before: Duration,
    /// Since when the run works, on top of `before`; it waits for people if not set.
    since: Option<Instant>,
}

impl WorkTime {
    /// A run that has worked for this long `before`.
    pub(crate) fn begin(before: Duration, asks_people: bool) -> Self {
        Self { before, since: (!asks_people).then(Instant::now) }
    }

    /// Stands still while the run asks people. Says whether that is a change.
    pub(crate) fn pause(&mut self, asks_people: bool) -> bool {
        match (self.since, asks_people) {
            (Some(since), true) => {
                self.before += since.elapsed();
                self.since = None;
            }
            (None, false) => self.since = Some(Instant::now()),
            (Some(_), false) | (None, true) => return false,
        }
        true
    }

    /// When the run will have worked for as long as `limit`.
    pub(crate) fn ends_at(&self, limit: Duration) -> Instant {
        match self.since {
            Some(since) => later(since, limit.saturating_sub(self.before)),
            None => later(Instant::now(), Duration::MAX),
        }
    }
}

/// The working time of a run as its journal tells it, for whoever takes it over: the time between
/// its events, but for those in which it waited for people or for a worker.
#[derive(Debug, Default)]
pub(crate) struct RecordedWork {
    worked: Duration,
    since: Option<Timestamp>,
}

impl RecordedWork {
    /// Takes note of the next event, which `state` has taken note of already.
    pub(crate) fn note(&mut self, recorded: &RecordedEvent, state: &RunState) {
        let is_takeover = matches!(recorded.event, Event::RunTakenOver { .. });
        if let Some(since) = self.since.filter(|_| !is_takeover) {
            // Clocks differ and jump: nothing that a run does alone takes longer.
            let limits = state.limits();
            let longest = limits.call_total.max(limits.model_total);
            self.worked += recorded.at.since(since).min(longest);
        }
        self.since = (!state.asks_people()).then_some(recorded.at);
    }

    /// How long the run has worked up to the last event.
    pub(crate) fn worked(&self) -> Duration {
        self.worked
    }
}

#[cfg(test)]
#[path = "work_time_tests.rs"]
mod tests;
