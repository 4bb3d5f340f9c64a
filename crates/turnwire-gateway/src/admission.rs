//! How much of the server anybody may have at once.
//!
//! What is admitted is paid for in memory, on disk and at the provider for as long as it lasts, so
//! it is counted from the beginning to the end: runs while this process works on them, requests,
//! streams and sockets while they are open. Who asks for one too many is told to come back later
//! (429). Keys are counted by their digest; the keys themselves are kept nowhere.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use turnwire_contract::TenantId;

use crate::{refusal::Refusal, sync::lock};

/// How long after its end was seen a run may keep its place.
const ENDING_TIME: Duration = Duration::from_millis(250);

/// How much is admitted at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Runs that this process works on.
    pub runs: usize,
    /// Those of one tenant.
    pub runs_per_tenant: usize,
    /// Those that one API key has started.
    pub runs_per_key: usize,
    /// Requests, streams and sockets of one API key.
    pub connections_per_key: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self { runs: 1_000, runs_per_tenant: 1_000, runs_per_key: 50, connections_per_key: 100 }
    }
}

/// What stands for an API key: the same for the same key, and of no use to open anything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub(crate) fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, ..] = self.0;
        write!(f, "KeyDigest({first:02x}{second:02x}{third:02x}…)")
    }
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Runs,
    RunsOfTenant(TenantId),
    RunsOfKey(KeyDigest),
    ConnectionsOfKey(KeyDigest),
}

type Counts = Arc<Mutex<HashMap<Subject, usize>>>;

/// What is admitted just now.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: AdmissionLimits,
    counts: Counts,
    /// Rings when something that was admitted is over.
    freed: Arc<Notify>,
}

/// Something that was admitted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Counts,
    freed: Arc<Notify>,
    subjects: Vec<Subject>,
}

/// A limit that somebody has come to.
struct Limit {
    subject: Subject,
    max: usize,
    setting: &'static str,
    code: &'static str,
    message: String,
}

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits) -> Self {
        Self { limits, counts: Counts::default(), freed: Arc::default() }
    }

    /// Admits a run, perhaps after a moment: whoever has seen the end of one may begin the next,
    /// and its place is free a little later than its end is seen.
    pub(crate) async fn admit_run_soon(
        &self,
        tenant: &TenantId,
        key: Option<KeyDigest>,
        n_live: impl Fn() -> usize,
    ) -> Result<Permit, Refusal> {
        let until = Instant::now() + ENDING_TIME;
        loop {
            let freed = self.freed.notified();
            let refusal = match self.admit_run(tenant, key, n_live()) {
                Ok(permit) => return Ok(permit),
                Err(refusal) => refusal,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(refusal);
            }
        }
    }

    /// Admits a run. Those that this process has taken over from others count too: `n_live` is
    /// how many it works on.
    fn admit_run(
        &self,
        tenant: &TenantId,
        key: Option<KeyDigest>,
        n_live: usize,
    ) -> Result<Permit, Refusal> {
        let AdmissionLimits { runs, runs_per_tenant, runs_per_key, .. } = self.limits;
        let limit = |subject, max, setting, whom: &str| {
            let message = format!("At most {max} runs at once{whom}; wait until one is over.");
            Limit { subject, max, setting, code: "too_many_runs", message }
        };
        let of_process = limit(Subject::Runs, runs, "limits.max_runs", "");
        if n_live >= runs {
            return Err(of_process.into());
        }
        let of_tenant = Subject::RunsOfTenant(tenant.clone());
        let of_tenant =
            limit(of_tenant, runs_per_tenant, "limits.max_runs_per_tenant", " for one tenant");
        let of_key = key.map(|key| {
            let subject = Subject::RunsOfKey(key);
            limit(subject, runs_per_key, "limits.max_runs_per_key", " for one API key")
        });
        self.admit([Some(of_process), Some(of_tenant), of_key].into_iter().flatten().collect())
    }

    /// Admits a request, with the stream or the socket that may become of it. Without keys there
    /// is nobody to tell apart.
    pub(crate) fn admit_connection(&self, key: Option<KeyDigest>) -> Result<Permit, Refusal> {
        let max = self.limits.connections_per_key;
        let limit = key.map(|key| Limit {
            subject: Subject::ConnectionsOfKey(key),
            max,
            setting: "limits.max_connections_per_key",
            code: "too_many_connections",
            message: format!(
                "At most {max} requests, streams and sockets at once for one API key; close one."
            ),
        });
        self.admit(limit.into_iter().collect())
    }

    /// Admits to all of it or to nothing.
    fn admit(&self, limits: Vec<Limit>) -> Result<Permit, Refusal> {
        let mut counts = lock(&self.counts);
        let mut subjects = Vec::with_capacity(limits.len());
        for limit in limits {
            if counts.get(&limit.subject).is_some_and(|n| *n >= limit.max) || limit.max == 0 {
                return Err(limit.into());
            }
            subjects.push(limit.subject);
        }
        for subject in &subjects {
            *counts.entry(subject.clone()).or_default() += 1;
        }
        drop(counts);
        let (counts, freed) = (Arc::clone(&self.counts), Arc::clone(&self.freed));
        Ok(Permit { counts, freed, subjects })
    }
}

impl From<Limit> for Refusal {
    fn from(Limit { setting, code, message, .. }: Limit) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, message).limited_by(setting)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        for subject in &self.subjects {
            if let Some(n) = counts.get_mut(subject) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(subject);
                }
            }
        }
        drop(counts);
        self.freed.notify_waiters();
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
