//! Work time of a run: the sum over all workers, without time spent waiting for people.

use std::time::Duration;

use tokio::time::Instant;
use turnwire_contract::{Event, RecordedEvent, Timestamp};

use crate::{deadline::later, run_state::RunState};

/// The work time of a run in this process. Uses the monotonic clock, because the journal's clock
/// may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkTime {
    before: Duration,
    /// Start of the current period, in addition to `before`. `None` while the run waits for people.
    since: Option<Instant>,
}

impl WorkTime {
    /// Starts with the time used `before`.
    pub(crate) fn begin(before: Duration, asks_people: bool) -> Self {
        Self { before, since: (!asks_people).then(Instant::now) }
    }

    /// Pauses while the run waits for people. Returns whether this is a change.
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

    /// Returns when the work time reaches `limit`.
    pub(crate) fn ends_at(&self, limit: Duration) -> Instant {
        match self.since {
            Some(since) => later(since, limit.saturating_sub(self.before)),
            None => later(Instant::now(), Duration::MAX),
        }
    }
}

/// The work time computed from the journal, for a takeover: the time between events, without
/// waiting for people or for a worker.
#[derive(Debug, Default)]
pub(crate) struct RecordedWork {
    worked: Duration,
    since: Option<Timestamp>,
}

impl RecordedWork {
    /// Adds the next event, which is already applied to `state`.
    pub(crate) fn note(&mut self, recorded: &RecordedEvent, state: &RunState) {
        let is_takeover = matches!(recorded.event, Event::RunTakenOver { .. });
        if let Some(since) = self.since.filter(|_| !is_takeover) {
            // Clocks differ and jump, so each interval is capped by the longest possible step.
            let limits = state.limits();
            let longest = limits.call_total.max(limits.model_total);
            self.worked += recorded.at.since(since).min(longest);
        }
        self.since = (!state.asks_people()).then_some(recorded.at);
    }

    /// Returns the work time up to the last event.
    pub(crate) fn worked(&self) -> Duration {
        self.worked
    }
}

#[cfg(test)]
#[path = "work_time_tests.rs"]
mod tests;
