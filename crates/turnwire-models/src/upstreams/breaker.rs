//! Decides from the outcomes of real requests whether an upstream is used.
//!
//! A breaker is closed while the upstream works. It opens after several failures in a row, or when
//! half of the recent requests fail; the upstream is then passed over for a pause. After the pause
//! one request tries the upstream. If it gets an answer the breaker closes, otherwise the next
//! pause is twice as long. An upstream that asks for a wait, or that is not configured correctly,
//! is passed over at once.
//!
//! There is no I/O and no clock here: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;
use turnwire_contract::ModelError;

/// Number of failures in a row that open a breaker.
const MAX_CONSECUTIVE_FAILURES: u32 = 5;

/// Number of recent outcomes from which on their failure rate counts.
const MIN_RECENT_OUTCOMES: u32 = 20;

/// Length of the time whose outcomes are recent, in seconds.
const RECENT_SECONDS: usize = 10;

/// The first pause; each one that follows is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, also for an upstream that asks for a longer one.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Wait that a client is told while an upstream is paused that did not ask for a wait itself.
const TOLD_WAIT: Duration = Duration::from_secs(5);

/// Whether a request may go to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// Any request may.
    Closed,
    /// One request may, to try it.
    HalfOpen,
    /// No request may until the one that tries it has an answer.
    OnTrial,
    /// No request may until then.
    Open(Instant),
}

/// Identifies the period in which a request was admitted. Its outcome counts only if the breaker
/// has not opened since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission(u64);

#[derive(Debug, Clone)]
pub(super) struct Breaker {
    phase: Phase,
    /// Number of times that the breaker has opened.
    n_openings: u64,
    /// Number of pauses since the last answer.
    n_pauses: u32,
    consecutive_failures: u32,
    recent: RecentOutcomes,
}

#[derive(Debug, Clone)]
enum Phase {
    Closed,
    Open { until: Instant, cause: ModelError, asked_until: Option<Instant> },
    OnTrial { cause: ModelError },
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Closed,
            n_openings: 0,
            n_pauses: 0,
            consecutive_failures: 0,
            recent: RecentOutcomes::new(now),
        }
    }

    pub(super) fn availability(&self, now: Instant) -> Availability {
        match &self.phase {
            Phase::Closed => Availability::Closed,
            Phase::Open { until, .. } if *until <= now => Availability::HalfOpen,
            Phase::Open { until, .. } => Availability::Open(*until),
            Phase::OnTrial { .. } => Availability::OnTrial,
        }
    }

    /// Admits a request. After a pause it is the trial.
    pub(super) fn admit(&mut self) -> Admission {
        if let Phase::Open { cause, .. } = &self.phase {
            self.phase = Phase::OnTrial { cause: cause.clone() };
        }
        Admission(self.n_openings)
    }

    /// Records that a request got an answer. Returns whether the breaker closes.
    pub(super) fn succeeded(&mut self, admission: Admission, now: Instant) -> bool {
        if admission.0 != self.n_openings {
            return false;
        }
        self.consecutive_failures = 0;
        self.recent.add(now, false);
        if matches!(self.phase, Phase::Closed) {
            return false;
        }
        self.phase = Phase::Closed;
        self.n_pauses = 0;
        self.recent = RecentOutcomes::new(now);
        true
    }

    /// Records a failure. Returns the pause if the breaker opens.
    pub(super) fn failed(
        &mut self,
        admission: Admission,
        error: &ModelError,
        now: Instant,
    ) -> Option<Duration> {
        if admission.0 != self.n_openings {
            return None;
        }
        self.consecutive_failures += 1;
        self.recent.add(now, true);
        let asked = asked_wait(error);
        let is_misconfigured = matches!(error, ModelError::Misconfigured { .. });
        let is_broken = self.consecutive_failures >= MAX_CONSECUTIVE_FAILURES
            || self.recent.mostly_failed(now)
            || matches!(self.phase, Phase::OnTrial { .. });
        if !(asked.is_some() || is_misconfigured || is_broken) {
            return None;
        }
        let growing = FIRST_PAUSE.saturating_mul(1 << self.n_pauses.min(16));
        let pause = if is_misconfigured { LONGEST_PAUSE } else { asked.unwrap_or(growing) };
        let pause = pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.n_pauses += 1;
        self.n_openings += 1;
        self.consecutive_failures = 0;
        let asked_until = asked.and_then(|wait| now.checked_add(wait));
        self.phase = Phase::Open { until: now + pause, cause: error.clone(), asked_until };
        Some(pause)
    }

    /// Records that a request ended without an outcome, for example because its run was cancelled.
    /// If it was the trial, the next request is.
    pub(super) fn abandoned(&mut self, admission: Admission, now: Instant) {
        if admission.0 == self.n_openings
            && let Phase::OnTrial { cause } = &self.phase
        {
            self.phase = Phase::Open { until: now, cause: cause.clone(), asked_until: None };
        }
    }

    /// Returns a breaker for the same upstream in another pool. A request that tries it in this one
    /// does not report there, so the next request there is the trial.
    pub(super) fn succession(&self, now: Instant) -> Self {
        let mut next = self.clone();
        next.abandoned(Admission(self.n_openings), now);
        next
    }

    /// Returns why the upstream is passed over, with the wait that is left.
    pub(super) fn cause(&self, now: Instant) -> Option<ModelError> {
        let (cause, wait) = match &self.phase {
            Phase::Closed => return None,
            Phase::OnTrial { cause } => (cause, FIRST_PAUSE),
            Phase::Open { until, cause, asked_until } => {
                let left = |until: Instant| until.saturating_duration_since(now);
                (cause, asked_until.map_or_else(|| left(*until).min(TOLD_WAIT), left))
            }
        };
        Some(with_wait(cause.clone(), wait))
    }
}

fn asked_wait(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. } => *retry_after,
        _ => None,
    }
}

fn with_wait(error: ModelError, wait: Duration) -> ModelError {
    let retry_after = Some(wait);
    match error {
        ModelError::RateLimited { message, .. } => ModelError::RateLimited { message, retry_after },
        ModelError::Unavailable { message, .. } | ModelError::Broken { message } => {
            ModelError::Unavailable { message, retry_after }
        }
        error => error,
    }
}

/// Counts the outcomes of the last seconds.
#[derive(Debug, Clone)]
struct RecentOutcomes {
    start: Instant,
    /// The second that each slot is for, and its numbers of outcomes and of failures.
    slots: [(u64, u32, u32); RECENT_SECONDS],
}

impl RecentOutcomes {
    fn new(now: Instant) -> Self {
        Self { start: now, slots: [(0, 0, 0); RECENT_SECONDS] }
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs()
    }

    fn add(&mut self, now: Instant, is_failure: bool) {
        let second = self.second(now);
        let place = usize::try_from(second).unwrap_or_default() % RECENT_SECONDS;
        let Some(slot) = self.slots.get_mut(place) else { return };
        if slot.0 != second {
            *slot = (second, 0, 0);
        }
        slot.1 += 1;
        slot.2 += u32::from(is_failure);
    }

    fn mostly_failed(&self, now: Instant) -> bool {
        let second = self.second(now);
        let recent = self.slots.iter().filter(|(of, ..)| second - *of < RECENT_SECONDS as u64);
        let (all, failed) = recent
            .fold((0, 0), |(all, failed), (_, n_all, n_failed)| (all + n_all, failed + n_failed));
        all >= MIN_RECENT_OUTCOMES && 2 * failed >= all
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
