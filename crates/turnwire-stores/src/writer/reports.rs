//! Tells callers, readers and other workers what became of a batch.
//!
//! Every report wakes the task of a run and the connections that read it. Five hundred at once
//! would put a thousand tasks before whatever else has to happen in this process, such as the
//! request of another tenant. So a tenant with few appends in a batch is told first, and the others
//! [`GROUP`] at a time, with a turn for all other tasks in between. While there is nothing else to
//! do, that takes no longer.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::task::yield_now;
use turnwire_contract::{JournalError, TenantId};

use super::Job;
use crate::{database::DatabaseError, live_tails::LiveTails, notify::Publisher};

/// How many appends are reported before other tasks have their turn.
const GROUP: usize = 16;

/// Appends that the database has answered, and whose callers do not know it yet.
pub(super) struct Reports {
    notifier: CommitNotifier,
    /// Each with whether it is stored.
    pending: VecDeque<(Job, bool)>,
}

impl Reports {
    pub(super) fn new(notifier: CommitNotifier) -> Self {
        Self { notifier, pending: VecDeque::new() }
    }

    pub(super) fn notifier(&self) -> &CommitNotifier {
        &self.notifier
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a batch and what of it is stored. Reports at once to tenants with few appends in it.
    pub(super) fn add(&mut self, batch: Vec<Job>, kept: Vec<bool>) {
        let mut n_of: HashMap<TenantId, usize> = HashMap::new();
        for job in &batch {
            *n_of.entry(job.tenant.clone()).or_default() += 1;
        }
        // Reports of one tenant, and so of one run, stay in order.
        for (job, _) in &self.pending {
            n_of.entry(job.tenant.clone()).and_modify(|n| *n = usize::MAX);
        }
        let is_of_flood =
            |(job, _): &(Job, bool)| n_of.get(&job.tenant).is_some_and(|n| *n > GROUP);
        let (flood, mut few): (VecDeque<_>, VecDeque<_>) =
            batch.into_iter().zip(kept).partition(is_of_flood);
        for (job, is_kept) in few.drain(..few.len().min(GROUP)) {
            self.notifier.tell(job, is_kept);
        }
        // The rest of many tenants with few appends each, then what was pending, then the new.
        few.append(&mut self.pending);
        few.extend(flood);
        self.pending = few;
    }

    /// Reports the next few.
    pub(super) fn next_group(&mut self) {
        let n = self.pending.len().min(GROUP);
        for (job, is_kept) in self.pending.drain(..n) {
            self.notifier.tell(job, is_kept);
        }
    }

    /// Reports all, with turns for other tasks. Can be dropped while it waits, and called again.
    pub(super) async fn all(&mut self) {
        while !self.is_empty() {
            self.next_group();
            yield_now().await;
        }
    }
}

/// Reports the result of an append to its caller, to tails and to other workers.
#[derive(Clone)]
pub(crate) struct CommitNotifier {
    pub(crate) tails: Arc<LiveTails>,
    pub(crate) publisher: Option<Publisher>,
}

impl CommitNotifier {
    pub(super) fn tell(&self, job: Job, is_kept: bool) {
        if !is_kept {
            self.tails.release(&job.run_id);
            let conflict = job.conflict();
            let _ = job.answer.send(Err(conflict));
            return;
        }
        self.tails.note_written(&job.tenant, &job.events, job.bytes + job.bytes_elsewhere);
        let _ = job.answer.send(Ok(()));
        if let Some(publisher) = &self.publisher {
            publisher.publish(job.run_id, job.rows);
        }
    }

    pub(super) fn refuse(&self, batch: Vec<Job>, error: &DatabaseError) {
        for job in batch {
            let run_id = job.run_id.clone();
            let refusal = match error {
                // A second end of a call or of the run: the writer of the first one owns it.
                DatabaseError::UniqueViolation(index) => {
                    tracing::warn!(%run_id, index, "append refused by a unique index");
                    self.tails.release(&run_id);
                    job.conflict()
                }
                DatabaseError::Unavailable(reason)
                | DatabaseError::NoRoom(reason)
                | DatabaseError::TooSlow(reason)
                | DatabaseError::InvalidValue(reason)
                | DatabaseError::Failed(reason)
                | DatabaseError::KeyMissing(reason) => {
                    tracing::error!(%run_id, bytes = job.bytes, reason, "append rejected");
                    JournalError::Rejected { run_id, reason: reason.clone() }
                }
            };
            let _ = job.answer.send(Err(refusal));
        }
    }
}

#[cfg(test)]
#[path = "reports_tests.rs"]
mod tests;
