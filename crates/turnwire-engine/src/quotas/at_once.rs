//! Runs at once, over all servers of a store.
//!
//! A process knows exactly how many runs it executes. How many the others have is counted in the
//! store, where a run is active until it ends, whoever executes it: so a run whose server was
//! killed still counts. That count may be slightly outdated, like all counts of other processes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};
use turnwire_contract::{Actor, TenantId, Timestamp, UsageCounters, UsageSubject, ports::Result};

use super::{Measure, QuotaStatus, QuotaSubjects, Quotas, READING_TIME};
use crate::sync::lock;

/// How long a request waits for a run that is about to end. A client that starts a run as soon as
/// it sees the end of another would otherwise be refused.
const ENDING_TIME: Duration = Duration::from_millis(250);
/// When a refused request may be repeated.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The runs of all subjects that have a limit.
#[derive(Debug, Default)]
pub(super) struct Running {
    levels: Mutex<Levels>,
    freed: Notify,
}

#[cfg(test)]
impl Running {
    pub(super) fn len(&self) -> usize {
        lock(&self.levels).len()
    }
}

#[derive(Debug, Default)]
struct Level {
    /// Executed by this process.
    own: u64,
    /// Executed by other processes or by none, when they were last counted.
    others: u64,
    read_at: Option<Timestamp>,
    touched_at: Option<Timestamp>,
}

/// A run that counts as being executed by this process, until this is dropped.
#[derive(Debug, Default)]
pub struct RunSlot {
    running: Option<Arc<Running>>,
    subjects: Vec<UsageSubject>,
}

type Levels = HashMap<UsageSubject, Level>;

/// How much of each limit is used.
fn statuses(levels: &mut Levels, limits: &[(UsageSubject, u64)]) -> Vec<QuotaStatus> {
    let status = |(subject, max): &(UsageSubject, u64)| {
        let level = levels.entry(subject.clone()).or_default();
        let used = level.own.saturating_add(level.others);
        QuotaStatus {
            measure: Measure::RunsAtOnce,
            is_of_key: subject.holder.is_some(),
            max: *max,
            used,
            remaining: max.saturating_sub(used),
            window: None,
            resets_in: RETRY_AFTER,
            is_nearly_spent: false,
        }
    };
    limits.iter().map(status).collect()
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let Some(running) = &self.running else { return };
        let mut levels = lock(&running.levels);
        for subject in &self.subjects {
            if let Some(level) = levels.get_mut(subject) {
                level.own = level.own.saturating_sub(1);
            }
        }
        drop(levels);
        running.freed.notify_waiters();
    }
}

impl Quotas {
    /// Takes a concurrency slot for a run, or says which limit is reached.
    pub async fn hold_run(
        &self,
        tenant: &TenantId,
        actor: Option<&Actor>,
    ) -> Result<RunSlot, QuotaStatus> {
        let users = QuotaSubjects::new(tenant, actor);
        let limits = self.run_limits(&users);
        if limits.is_empty() {
            return Ok(RunSlot::default());
        }
        self.read_unknown_runs(&limits).await;
        let until = Instant::now() + ENDING_TIME;
        loop {
            let freed = self.running.freed.notified();
            let reached = match self.try_to_hold(&limits) {
                Ok(slot) => return Ok(slot),
                Err(reached) => reached,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(reached);
            }
        }
    }

    fn try_to_hold(&self, limits: &[(UsageSubject, u64)]) -> Result<RunSlot, QuotaStatus> {
        let mut levels = lock(&self.running.levels);
        let reached =
            statuses(&mut levels, limits).into_iter().find(|status| status.remaining == 0);
        reached.map_or_else(|| Ok(self.slot(&mut levels, limits)), Err)
    }

    /// Takes a slot for a run that is taken over, whatever the limit.
    pub(crate) fn hold_taken_over(&self, users: &QuotaSubjects) -> RunSlot {
        self.slot(&mut lock(&self.running.levels), &self.run_limits(users))
    }

    /// Reads the runs of other processes that are not known, for all of `users` at once.
    pub(super) async fn learn_runs(&self, users: &QuotaSubjects) {
        self.read_unknown_runs(&self.run_limits(users)).await;
    }

    /// How much of the limits of `users` is used, as far as this process knows.
    pub(super) fn known_runs(&self, users: &QuotaSubjects) -> Vec<QuotaStatus> {
        statuses(&mut lock(&self.running.levels), &self.run_limits(users))
    }

    fn run_limits(&self, users: &QuotaSubjects) -> Vec<(UsageSubject, u64)> {
        let settings = self.settings.get();
        let limit = |subject: &UsageSubject| {
            Some((subject.clone(), settings.quotas.quota_of(subject).runs_at_once?))
        };
        users.0.iter().filter_map(limit).collect()
    }

    fn slot(&self, levels: &mut Levels, limits: &[(UsageSubject, u64)]) -> RunSlot {
        for (subject, _) in limits {
            levels.entry(subject.clone()).or_default().own += 1;
        }
        let subjects = limits.iter().map(|(subject, _)| subject.clone()).collect();
        RunSlot { running: Some(Arc::clone(&self.running)), subjects }
    }

    /// Counts the runs of others, if this process does not know it, or no longer.
    async fn read_unknown_runs(&self, limits: &[(UsageSubject, u64)]) {
        let Some(shared) = self.shared.clone() else { return };
        let now = self.clock.now();
        let unknown: Vec<UsageSubject> = {
            let mut levels = lock(&self.running.levels);
            let mut is_unknown = |subject: &UsageSubject| {
                let level = levels.entry(subject.clone()).or_default();
                level.touched_at = Some(now);
                level.read_at.is_none_or(|read_at| now.since(read_at) > self.fresh_for())
            };
            let subjects = limits.iter().map(|(subject, _)| subject);
            subjects.filter(|subject| is_unknown(subject)).cloned().collect()
        };
        if !unknown.is_empty() {
            // If the store does not answer, the request is admitted by what is known.
            let _ = timeout(READING_TIME, self.read_runs(&*shared, unknown)).await;
        }
    }

    /// Counts the runs of others for all subjects in use, and forgets those that are not.
    pub(super) async fn exchange_runs(&self, shared: Option<&dyn UsageCounters>) -> Result<()> {
        let now = self.clock.now();
        let in_use: Vec<UsageSubject> = {
            let mut levels = lock(&self.running.levels);
            let is_touched = |level: &Level| {
                level.touched_at.is_some_and(|touched| now.since(touched) <= self.fresh_for())
            };
            levels.retain(|_, level| level.own > 0 || is_touched(level));
            let in_use = levels.iter().filter(|(_, level)| is_touched(level));
            in_use.map(|(subject, _)| subject.clone()).collect()
        };
        match shared {
            Some(shared) if !in_use.is_empty() => self.read_runs(shared, in_use).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn read_runs(
        &self,
        shared: &dyn UsageCounters,
        subjects: Vec<UsageSubject>,
    ) -> Result<()> {
        let asked_at = self.clock.now();
        let found = shared.runs_of_others(&subjects).await?;
        let mut levels = lock(&self.running.levels);
        for (subject, others) in subjects.into_iter().zip(found) {
            let level = levels.entry(subject).or_default();
            level.others = others;
            level.read_at = Some(asked_at);
        }
        Ok(())
    }
}
