//! Limits on concurrent runs and connections.
//!
//! Runs, requests, streams and sockets use memory, disk and provider capacity while they last. Each
//! is counted from its start to its end: runs while this process executes them, requests, streams
//! and sockets while they are open. A caller over a limit gets a 429. Keys are counted by their
//! digest; the keys themselves are not stored. Readers of share links, who have no key, are counted
//! by link, tenant and address.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{Instant, timeout, timeout_at},
};
use turnwire_contract::{Share, StoreError, TenantId};

use crate::{ApiError, Result, sync::lock};

/// How long a new run waits for the permit of a run that has just ended.
const ENDING_TIME: Duration = Duration::from_millis(250);

/// Maximum number of share links that are looked up at the same time. Anybody can invent links, and
/// the connections of the store are needed for other things.
const MAX_LINK_LOOKUPS: usize = 4;
/// How long the lookup of a share link waits for others.
const LINK_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Of so many readers of share links of a tenant, one may have a full result at a time.
const READERS_PER_RESULT: usize = 64;
/// How long the reader of a full result waits for others to have read theirs.
const RESULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits on concurrent runs and connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Concurrent runs in this process.
    pub runs: usize,
    /// Concurrent runs of one tenant.
    pub runs_per_tenant: usize,
    /// Concurrent runs that one API key has started.
    pub runs_per_key: usize,
    /// Concurrent requests, streams and sockets of one API key.
    pub connections_per_key: usize,
    /// Full results of calls that callers with a key of one tenant read at the same time.
    pub results_per_tenant: usize,
    /// Concurrent requests and streams with one share link.
    pub readers_per_link: usize,
    /// Concurrent requests and streams with share links of one tenant.
    pub readers_per_tenant: usize,
    /// Concurrent requests and streams of one address with share links.
    pub readers_per_address: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            runs: 1_000,
            runs_per_tenant: 1_000,
            runs_per_key: 50,
            connections_per_key: 100,
            results_per_tenant: 4,
            readers_per_link: 64,
            readers_per_tenant: 256,
            readers_per_address: 16,
        }
    }
}

/// SHA-256 digest of an API key. Equal keys have equal digests; the key cannot be recovered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub(crate) fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// In hexadecimal, as it is stored.
    pub(crate) fn hex(self) -> String {
        hex::encode(self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest).ok()?;
        Some(Self(digest))
    }

    /// The first characters, to tell keys apart.
    pub(crate) fn short(self) -> String {
        self.hex().chars().take(8).collect()
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({}…)", self.short())
    }
}

/// What a count is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Runs,
    RunsOfTenant(TenantId),
    RunsOfKey(KeyDigest),
    ConnectionsOfKey(KeyDigest),
    ReadersOfLink(String),
    ReadersOfTenant(TenantId),
    ReadersOfAddress(IpAddr),
    ResultsOfTenant(TenantId, ResultReader),
}

/// Who reads a full result. Readers of share links never use what callers with a key may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ResultReader {
    Caller,
    OfLink,
}

type Counts = Arc<Mutex<HashMap<Subject, usize>>>;

/// Counts of what is currently admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: ArcSwap<AdmissionLimits>,
    counts: Counts,
    /// Notified when a permit is dropped.
    freed: Arc<Notify>,
    link_lookups: Semaphore,
}

/// A permit for a run or a connection. Dropping it frees its share of the limits.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Counts,
    freed: Arc<Notify>,
    subjects: Vec<Subject>,
}

/// A limit to check, and the error if it is reached.
struct Limit {
    subject: Subject,
    max: usize,
    setting: &'static str,
    code: &'static str,
    message: String,
}

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits) -> Self {
        let limits = ArcSwap::from_pointee(limits);
        let link_lookups = Semaphore::new(MAX_LINK_LOOKUPS);
        Self { limits, counts: Counts::default(), freed: Arc::default(), link_lookups }
    }

    /// Replaces the limits. What was admitted stays.
    pub(crate) fn set_limits(&self, limits: AdmissionLimits) {
        self.limits.store(Arc::new(limits));
    }

    /// Admits a run, and waits for up to [`ENDING_TIME`] if a limit is reached. A client that
    /// starts a run as soon as it sees the end of another would otherwise be refused, because the
    /// permit is freed slightly after the end becomes visible.
    pub(crate) async fn admit_run_soon(
        &self,
        tenant: &TenantId,
        key: Option<KeyDigest>,
        n_live: impl Fn() -> usize,
    ) -> Result<Permit> {
        self.admit_soon(ENDING_TIME, || self.admit_run(tenant, key, n_live())).await
    }

    /// Admits what `admit` admits, and waits for up to `time` if a limit is reached.
    async fn admit_soon(
        &self,
        time: Duration,
        admit: impl Fn() -> Result<Permit>,
    ) -> Result<Permit> {
        let until = Instant::now() + time;
        loop {
            let freed = self.freed.notified();
            let error = match admit() {
                Ok(permit) => return Ok(permit),
                Err(error) => error,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(error);
            }
        }
    }

    /// Admits a run. `n_live` is the number of runs this process executes, which includes those it
    /// took over from other workers.
    fn admit_run(
        &self,
        tenant: &TenantId,
        key: Option<KeyDigest>,
        n_live: usize,
    ) -> Result<Permit> {
        let AdmissionLimits { runs, runs_per_tenant, runs_per_key, .. } = **self.limits.load();
        let limit = |subject, max, setting, whom: &str| {
            let message = format!("At most {max} concurrent runs{whom}; wait until one ends.");
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

    /// Admits a request, including the stream or socket it may become. Without API keys there is no
    /// limit per key.
    pub(crate) fn admit_connection(&self, key: Option<KeyDigest>) -> Result<Permit> {
        let max = self.limits.load().connections_per_key;
        let limit = key.map(|key| Limit {
            subject: Subject::ConnectionsOfKey(key),
            max,
            setting: "limits.max_connections_per_key",
            code: "too_many_connections",
            message: format!(
                "At most {max} concurrent requests, streams and sockets for one API key; close one."
            ),
        });
        self.admit(limit.into_iter().collect())
    }

    /// Waits until a share link may be looked up.
    pub(crate) async fn look_up_link(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let busy = |_| StoreError::Unavailable("too many share links are looked up".to_owned());
        let permit = timeout(LINK_LOOKUP_TIMEOUT, self.link_lookups.acquire()).await;
        permit.map_err(busy)?.map_err(|_| StoreError::Unavailable("closed".to_owned()))
    }

    /// Admits a request with a share link, including the stream it may become (A21). The address is
    /// unknown if the router is used without a server.
    pub(crate) fn admit_reader(&self, share: &Share, address: Option<IpAddr>) -> Result<Permit> {
        let AdmissionLimits { readers_per_link, readers_per_tenant, readers_per_address, .. } =
            **self.limits.load();
        let limit = |subject, max, setting, whom: &str| {
            let message =
                format!("At most {max} readers {whom} at the same time; try again later.");
            Limit { subject, max, setting, code: "too_many_readers", message }
        };
        let of_link = Subject::ReadersOfLink(share.share_id.clone());
        let of_tenant = Subject::ReadersOfTenant(share.tenant.clone());
        let of_address = address.map(|address| {
            let subject = Subject::ReadersOfAddress(address);
            let setting = "limits.max_readers_per_address";
            limit(subject, readers_per_address, setting, "of share links from one address")
        });
        let of_link =
            limit(of_link, readers_per_link, "limits.max_readers_per_link", "of one share link");
        let of_tenant = limit(
            of_tenant,
            readers_per_tenant,
            "limits.max_readers_per_tenant",
            "of the share links of one tenant",
        );
        self.admit(of_address.into_iter().chain([of_link, of_tenant]).collect())
    }

    /// Admits a reader to a full result, which is in memory until it is read. Waits until others
    /// have read theirs.
    pub(crate) async fn admit_result(
        &self,
        tenant: &TenantId,
        reader: ResultReader,
    ) -> Result<Permit> {
        let AdmissionLimits { results_per_tenant, readers_per_tenant, .. } = **self.limits.load();
        let (max, setting, whom) = match reader {
            ResultReader::Caller => {
                (results_per_tenant, "limits.max_results_per_tenant", "callers")
            }
            ResultReader::OfLink => (
                readers_per_tenant.div_ceil(READERS_PER_RESULT),
                "limits.max_readers_per_tenant",
                "readers of share links",
            ),
        };
        let limit = || Limit {
            subject: Subject::ResultsOfTenant(tenant.clone(), reader),
            max,
            setting,
            code: "too_many_results",
            message: format!(
                "At most {max} {whom} of one tenant read a full result at the same time; try again \
                 later."
            ),
        };
        self.admit_soon(RESULT_TIMEOUT, || self.admit(vec![limit()])).await
    }

    /// Takes a permit for all `limits`, or for none of them.
    fn admit(&self, limits: Vec<Limit>) -> Result<Permit> {
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

impl From<Limit> for ApiError {
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
