//! Chooses the upstream of a request.
//!
//! Among the upstreams that are healthy and below their concurrency limit, the weights decide, by
//! the smooth weighted round robin of nginx: with weights 2 and 1 the order is a, b, a. If all are
//! busy, a request waits; it is served in the order of arrival, because a semaphore gives a permit
//! to the longest waiting one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{pending, select_all};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};
use turnwire_contract::{Model, ModelError};

use super::{
    Upstream,
    breaker::{Admission, Availability, Breaker},
};

pub(super) struct Pool {
    members: Vec<Member>,
    choice: Mutex<Vec<Choice>>,
    /// Notified when an upstream that was on trial is not any more.
    trial_ended: Notify,
    /// An only upstream is never passed over, because nothing else could answer.
    has_breakers: bool,
}

struct Member {
    name: Arc<str>,
    model: Arc<dyn Model>,
    weight: u32,
    max_concurrency: Option<usize>,
    permits: Option<Arc<Semaphore>>,
}

/// What changes about an upstream.
struct Choice {
    breaker: Breaker,
    /// Grows by the weight with every choice, and drops by the sum of the weights when chosen.
    score: i64,
}

/// Why no upstream can be used.
#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    /// All are at their concurrency limit.
    Busy,
    /// All are passed over, for these reasons.
    PassedOver(Vec<ModelError>),
}

/// A permit to use an upstream once.
pub(super) struct UpstreamPermit {
    pool: Arc<Pool>,
    pub(super) index: usize,
    admission: Admission,
    permit: Option<OwnedSemaphorePermit>,
    /// Whether the breaker knows the outcome.
    is_reported: bool,
}

enum Attempt {
    Chosen(UpstreamPermit),
    /// Some are full, or one is tried, or a pause ends soon.
    Wait {
        full: Vec<usize>,
        until: Instant,
    },
    PassedOver(Vec<ModelError>),
}

impl Pool {
    pub(super) fn new(upstreams: Vec<Upstream>) -> Self {
        let now = Instant::now();
        let has_breakers = upstreams.len() > 1;
        let choice = upstreams.iter().map(|_| Choice { breaker: Breaker::new(now), score: 0 });
        let choice = Mutex::new(choice.collect());
        let member = |upstream: Upstream| Member {
            name: upstream.name.into(),
            model: upstream.model,
            weight: upstream.weight,
            max_concurrency: upstream.max_concurrency,
            permits: upstream
                .max_concurrency
                .map(|n_requests| Arc::new(Semaphore::new(n_requests.min(Semaphore::MAX_PERMITS)))),
        };
        let members = upstreams.into_iter().map(member).collect();
        Self { members, choice, trial_ended: Notify::new(), has_breakers }
    }

    /// Takes over what `before` knows about the upstreams that are in both: whether they are
    /// healthy, and how many requests they are at work on.
    pub(super) fn succeeding(mut self, before: &Self) -> Self {
        let now = Instant::now();
        let known = before.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let choice = self.choice.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (member, state) in self.members.iter_mut().zip(choice) {
            let is_it = |(other, _): &(&Member, &Choice)| Arc::ptr_eq(&other.model, &member.model);
            let Some((other, its_state)) = before.members.iter().zip(&*known).find(is_it) else {
                continue;
            };
            if self.has_breakers {
                state.breaker = its_state.breaker.succession(now);
            }
            if member.max_concurrency == other.max_concurrency {
                member.permits.clone_from(&other.permits);
            }
        }
        drop(known);
        self
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn first_model(&self) -> Option<&Arc<dyn Model>> {
        self.members.first().map(|member| &member.model)
    }

    /// Returns an upstream that is not in `tried`. Waits for at most `max_wait`.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        tried: &[usize],
        max_wait: Duration,
    ) -> Result<UpstreamPermit, Refusal> {
        let now = Instant::now();
        let deadline = now.checked_add(max_wait).unwrap_or(now);
        loop {
            let trial_ended = self.trial_ended.notified();
            let (full, until) = match self.choose(tried, deadline) {
                Attempt::Chosen(upstream) => return Ok(upstream),
                Attempt::PassedOver(causes) => return Err(Refusal::PassedOver(causes)),
                Attempt::Wait { full, until } => (full, until),
            };
            if deadline <= Instant::now() {
                let causes = if full.is_empty() { self.causes(tried) } else { Vec::new() };
                return Err(match causes.as_slice() {
                    [] => Refusal::Busy,
                    _ => Refusal::PassedOver(causes),
                });
            }
            tokio::select! {
                (index, permit) = self.any_permit(full) => {
                    if let Some(upstream) = self.admitted(index, permit) {
                        return Ok(upstream);
                    }
                }
                () = trial_ended => {}
                () = sleep_until(until) => {}
            }
        }
    }

    fn choose(self: &Arc<Self>, tried: &[usize], deadline: Instant) -> Attempt {
        let now = Instant::now();
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut candidates, mut full, mut is_on_trial) = (Vec::new(), Vec::new(), false);
        let mut pause_ends: Option<Instant> = None;
        let mut causes = Vec::new();
        for (index, (member, state)) in self.members.iter().zip(choice.iter()).enumerate() {
            if tried.contains(&index) {
                continue;
            }
            match state.breaker.availability(now) {
                Availability::Closed | Availability::HalfOpen => match member.permit() {
                    Ok(permit) => candidates.push((index, permit)),
                    Err(_) => full.push(index),
                },
                Availability::OnTrial => is_on_trial = true,
                Availability::Open(until) => {
                    pause_ends = Some(pause_ends.map_or(until, |earlier| earlier.min(until)));
                }
            }
            causes.extend(state.breaker.cause(now));
        }
        if let Some(chosen) = self.heaviest(&candidates, &mut choice) {
            let permit = candidates.into_iter().find(|(index, _)| *index == chosen);
            let permit = permit.and_then(|(_, permit)| permit);
            if let Some(state) = choice.get_mut(chosen) {
                let admission = state.breaker.admit();
                return Attempt::Chosen(self.permit_for(chosen, admission, permit));
            }
        }
        let ends_in_time = pause_ends.filter(|end| *end < deadline);
        if full.is_empty() && !is_on_trial && ends_in_time.is_none() {
            return Attempt::PassedOver(causes);
        }
        Attempt::Wait { full, until: ends_in_time.unwrap_or(deadline) }
    }

    /// Returns the candidate whose turn it is. One without a weight has its turn only if no other
    /// can be used.
    fn heaviest<P>(&self, candidates: &[(usize, P)], choice: &mut [Choice]) -> Option<usize> {
        let weight = |index: usize| self.members.get(index).map_or(0, |member| member.weight);
        let has_weights = candidates.iter().any(|(index, _)| weight(*index) > 0);
        let weighted = candidates.iter().map(|(index, _)| *index).filter_map(|index| {
            let weight = if has_weights { i64::from(weight(index)) } else { 1 };
            (weight > 0).then_some((index, weight))
        });
        let (mut sum, mut chosen) = (0, None);
        for (index, weight) in weighted {
            let Some(state) = choice.get_mut(index) else { continue };
            sum += weight;
            state.score += weight;
            let score = state.score;
            if chosen.is_none_or(|(_, highest)| score > highest) {
                chosen = Some((index, score));
            }
        }
        let (chosen, _) = chosen?;
        choice.get_mut(chosen)?.score -= sum;
        Some(chosen)
    }

    /// Waits for a permit of any upstream in `full`.
    async fn any_permit(&self, full: Vec<usize>) -> (usize, OwnedSemaphorePermit) {
        let waiting = full.into_iter().filter_map(|index| {
            let permits = self.members.get(index)?.permits.clone()?;
            Some(Box::pin(async move { (index, permits.acquire_owned().await) }))
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return pending().await;
        }
        match select_all(waiting).await.0 {
            (index, Ok(permit)) => (index, permit),
            // The semaphores are never closed.
            (_, Err(_)) => pending().await,
        }
    }

    /// Admits a request that has waited for `permit`, if the upstream did not fail meanwhile.
    fn admitted(
        self: &Arc<Self>,
        index: usize,
        permit: OwnedSemaphorePermit,
    ) -> Option<UpstreamPermit> {
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let breaker = &mut choice.get_mut(index)?.breaker;
        let available = breaker.availability(Instant::now());
        matches!(available, Availability::Closed | Availability::HalfOpen)
            .then(|| self.permit_for(index, breaker.admit(), Some(permit)))
    }

    fn permit_for(
        self: &Arc<Self>,
        index: usize,
        admission: Admission,
        permit: Option<OwnedSemaphorePermit>,
    ) -> UpstreamPermit {
        UpstreamPermit { pool: Arc::clone(self), index, admission, permit, is_reported: false }
    }

    fn causes(&self, tried: &[usize]) -> Vec<ModelError> {
        let now = Instant::now();
        let choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let untried = choice.iter().enumerate().filter(|(index, _)| !tried.contains(index));
        untried.filter_map(|(_, state)| state.breaker.cause(now)).collect()
    }

    /// Applies `change` to the breaker of an upstream.
    fn with_breaker<T>(&self, index: usize, change: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        if !self.has_breakers {
            return None;
        }
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = choice.get_mut(index).map(|state| change(&mut state.breaker));
        drop(choice);
        self.trial_ended.notify_waiters();
        changed
    }
}

impl Member {
    /// Returns a permit, if the concurrency is limited. Fails at the limit.
    fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        self.permits.as_ref().map(|permits| Arc::clone(permits).try_acquire_owned()).transpose()
    }
}

impl UpstreamPermit {
    pub(super) fn name(&self) -> &str {
        self.pool.members.get(self.index).map_or("", |member| &member.name)
    }

    pub(super) fn model(&self) -> Option<Arc<dyn Model>> {
        self.pool.members.get(self.index).map(|member| Arc::clone(&member.model))
    }

    /// Records that the upstream answers.
    pub(super) fn succeed(&mut self) {
        self.is_reported = true;
        let admission = self.admission;
        let change = |breaker: &mut Breaker| breaker.succeeded(admission, Instant::now());
        if self.pool.with_breaker(self.index, change) == Some(true) {
            info!(upstream = self.name(), "upstream is used again");
        }
    }

    /// Records that the upstream failed.
    pub(super) fn fail(&mut self, error: &ModelError) {
        self.is_reported = true;
        let admission = self.admission;
        let change = |breaker: &mut Breaker| breaker.failed(admission, error, Instant::now());
        let Some(Some(pause)) = self.pool.with_breaker(self.index, change) else { return };
        let (upstream, pause_ms) = (self.name(), pause.as_millis());
        if matches!(error, ModelError::Misconfigured { .. }) {
            error!(upstream, pause_ms, %error, "upstream is passed over");
        } else {
            warn!(upstream, pause_ms, %error, "upstream is passed over");
        }
    }

    /// Gives the permit back, after the end of the answer.
    pub(super) fn release(&mut self) {
        self.permit = None;
    }
}

impl Drop for UpstreamPermit {
    fn drop(&mut self) {
        if !self.is_reported {
            let admission = self.admission;
            let change = |breaker: &mut Breaker| breaker.abandoned(admission, Instant::now());
            self.pool.with_breaker(self.index, change);
        }
    }
}
