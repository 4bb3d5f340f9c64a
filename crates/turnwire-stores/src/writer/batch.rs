//! Which of the queued appends are written next.
//!
//! If there are more than one batch can have, each tenant gets an equal share of it first, and what
//! is left goes to whoever came first. So an append waits for those of its own tenant, and not for
//! those of a tenant with thousands of runs.

use std::collections::{HashMap, HashSet, VecDeque};

use turnwire_contract::{RunId, TenantId};

use super::{BATCH_BYTES, BATCH_JOBS, Job};

/// How much one tenant may have in a batch.
#[derive(Clone, Copy)]
struct Share {
    jobs: usize,
    bytes: usize,
}

const WHOLE: Share = Share { jobs: BATCH_JOBS, bytes: BATCH_BYTES };

#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    bytes: usize,
    runs: HashSet<RunId>,
}

/// Takes the appends of the next batch, at most one per run. Appends of a run keep their order.
pub(super) fn take_batch(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let mut batch = Batch::default();
    let n_bytes: usize = waiting.iter().map(|job| job.bytes).sum();
    if waiting.len() > BATCH_JOBS || n_bytes > BATCH_BYTES {
        let n_tenants = waiting.iter().map(|job| &job.tenant).collect::<HashSet<_>>().len().max(1);
        let share = Share {
            jobs: (BATCH_JOBS / n_tenants).max(1),
            bytes: (BATCH_BYTES / n_tenants).max(1),
        };
        batch.take(waiting, share);
    }
    batch.take(waiting, WHOLE);
    batch.jobs
}

impl Batch {
    /// Takes what fits of `waiting`, of each tenant no more than `share`, but at least one.
    fn take(&mut self, waiting: &mut VecDeque<Job>, share: Share) {
        let mut taken: HashMap<TenantId, Share> = HashMap::new();
        let mut behind: HashSet<RunId> = HashSet::new();
        let mut later = VecDeque::with_capacity(waiting.len());
        for job in waiting.drain(..) {
            let fits = self.jobs.is_empty() || self.bytes + job.bytes <= BATCH_BYTES;
            let of_tenant = taken.get(&job.tenant).copied().unwrap_or(Share { jobs: 0, bytes: 0 });
            let is_within = of_tenant.jobs == 0
                || of_tenant.jobs < share.jobs && of_tenant.bytes + job.bytes <= share.bytes;
            let is_next = !behind.contains(&job.run_id) && !self.runs.contains(&job.run_id);
            if self.jobs.len() < BATCH_JOBS && fits && is_within && is_next {
                let (jobs, bytes) = (of_tenant.jobs + 1, of_tenant.bytes + job.bytes);
                taken.insert(job.tenant.clone(), Share { jobs, bytes });
                self.bytes += job.bytes;
                self.runs.insert(job.run_id.clone());
                self.jobs.push(job);
            } else {
                // Later appends of the same run stay behind this one.
                behind.insert(job.run_id.clone());
                later.push_back(job);
            }
        }
        *waiting = later;
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
