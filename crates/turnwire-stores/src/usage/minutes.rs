//! Counters of minutes, in Redis.
//!
//! Each minute leaves a row per subject and node that nobody needs a minute later. Redis forgets
//! them by itself. Days and months stay in the database: a budget has to survive a Redis that is
//! restarted without its data.
//!
//! A count is signed, because other clients may be able to write there. One that is malformed or
//! not signed is not counted.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncCommands as _, Client, Pipeline, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tracing::{info, warn};
use turnwire_contract::{
    TenantId, Timestamp, UsageAmounts, UsageCount, UsageSpan, UsageSubject, UsageWindow,
};

use crate::{notify::signature::Secret, outage::Availability};

/// Timeout of connecting and of a response: a request that waits for its quota can still ask the
/// database afterwards.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a minute is kept after its end, in microseconds: longer than clocks of servers differ.
const KEPT_MICROS: i64 = 60 * 60 * 1_000_000;
/// What ends a holder's name in front of its signature, less than every character of a name.
const HOLDER_END: &[u8] = b"\0";
/// Number of counters per pipeline.
const AT_ONCE: usize = 500;

/// The counters of minutes of one database.
pub(crate) struct MinuteCounters {
    connection: ConnectionManager,
    prefix: String,
    secret: Secret,
    /// Whether Redis is known to be away.
    outage: Arc<Availability>,
    /// Whether the counts of this process could not be set, and are in the database: a Redis may
    /// answer and take nothing, for want of memory or rights.
    is_refused: AtomicBool,
}

impl MinuteCounters {
    /// Connects when it is first used.
    pub(crate) fn new(
        client: Client,
        secret: Secret,
        outage: Arc<Availability>,
    ) -> Result<Self, RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        let prefix = format!("turnwire:{}:usage:", secret.database());
        Ok(Self { connection, prefix, secret, outage, is_refused: AtomicBool::new(false) })
    }

    /// Returns whether Redis has the counters of this window. Those of the database are added up
    /// while this process cannot set its own.
    pub(crate) fn has(&self, window: UsageWindow) -> bool {
        self.takes(window) && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Returns whether counters of this window are to be set in Redis.
    pub(crate) fn takes(&self, window: UsageWindow) -> bool {
        UsageSpan::Minute.window(window.starts_at) == window && !self.outage.is_down()
    }

    /// Sets counters. Returns whether Redis took them.
    pub(crate) async fn set(&self, node: &str, counts: &[&UsageCount]) -> bool {
        let set = self.try_to_set(node, counts).await;
        let was_refused = self.is_refused.swap(set.is_err(), Ordering::Relaxed);
        match &set {
            Err(error) if !was_refused => {
                warn!(%error, "Redis takes no counters, minutes are counted in the database");
            }
            Ok(()) if was_refused => info!("minutes are counted in Redis again"),
            Err(_) | Ok(()) => {}
        }
        set.is_ok()
    }

    async fn try_to_set(&self, node: &str, counts: &[&UsageCount]) -> Result<(), RedisError> {
        for counts in counts.chunks(AT_ONCE) {
            let mut pipeline = redis::pipe();
            for UsageCount { subject, window, amounts } in counts {
                let key = self.counts_key(subject, *window);
                let count =
                    self.secret.sign(&signed_name(&key, node), encoded(*amounts).as_bytes());
                pipeline.hset(&key, node, count).ignore();
                expire(&mut pipeline, &key, *window);
                if let Some(holder) = &subject.holder {
                    let key = self.holders_key(&subject.tenant, *window);
                    pipeline.zadd(&key, self.signed_holder(&key, holder), 0).ignore();
                    expire(&mut pipeline, &key, *window);
                }
            }
            pipeline.query_async::<()>(&mut self.connection.clone()).await?;
        }
        Ok(())
    }

    /// Returns the sums over all nodes, one for each of `wanted`, in their order.
    pub(crate) async fn sums(
        &self,
        wanted: &[(&UsageSubject, UsageWindow)],
    ) -> Result<Vec<UsageAmounts>, RedisError> {
        let mut sums = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(AT_ONCE) {
            let keys: Vec<String> =
                wanted.iter().map(|(subject, window)| self.counts_key(subject, *window)).collect();
            let mut pipeline = redis::pipe();
            for key in &keys {
                pipeline.hgetall(key);
            }
            let found: Vec<HashMap<String, Vec<u8>>> =
                pipeline.query_async(&mut self.connection.clone()).await?;
            sums.extend(keys.iter().zip(&found).map(|(key, by_node)| self.sum(key, by_node)));
        }
        Ok(sums)
    }

    fn sum(&self, key: &str, by_node: &HashMap<String, Vec<u8>>) -> UsageAmounts {
        let mut sum = UsageAmounts::default();
        for (node, signed) in by_node {
            let count = self.secret.check(&signed_name(key, node), signed).and_then(decoded);
            sum += count.unwrap_or_default();
        }
        sum
    }

    /// Returns who of a tenant used something in the minute of `at`: the first `limit` of them in
    /// the order of their names.
    pub(crate) async fn holders(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, RedisError> {
        let key = self.holders_key(tenant, UsageSpan::Minute.window(at));
        let end = isize::try_from(limit).unwrap_or(isize::MAX) - 1;
        let members: Vec<Vec<u8>> = match end {
            ..0 => Vec::new(),
            0.. => self.connection.clone().zrange(&key, 0, end).await?,
        };
        let holder = |signed: &Vec<u8>| {
            let name = self.secret.check_behind(&key, signed)?.strip_suffix(HOLDER_END)?;
            String::from_utf8(name.to_vec()).ok()
        };
        Ok(members.iter().filter_map(holder).collect())
    }

    /// Returns the member of a sorted set, which Redis keeps in the order of the names.
    fn signed_holder(&self, key: &str, holder: &str) -> Vec<u8> {
        self.secret.sign_behind(key, &[holder.as_bytes(), HOLDER_END].concat())
    }

    fn counts_key(&self, subject: &UsageSubject, window: UsageWindow) -> String {
        let (tenant, holder) = (subject.tenant.as_str(), subject.holder.as_deref().unwrap_or(""));
        let minute = window.starts_at.as_micros();
        // The length tells where the tenant ends, whatever is in it.
        format!("{}{minute}:{}:{tenant}:{holder}", self.prefix, tenant.len())
    }

    fn holders_key(&self, tenant: &TenantId, window: UsageWindow) -> String {
        format!("{}{}:holders_by_name:{tenant}", self.prefix, window.starts_at.as_micros())
    }
}

fn expire(pipeline: &mut Pipeline, key: &str, window: UsageWindow) {
    let at = window.ends_at.as_micros().saturating_add(KEPT_MICROS) / 1_000;
    pipeline.pexpire_at(key, at).ignore();
}

/// What the signature of a count is bound to.
fn signed_name(key: &str, node: &str) -> String {
    format!("{key}\0{node}")
}

fn encoded(amounts: UsageAmounts) -> String {
    let UsageAmounts { requests, tokens, tool_calls, cost_nanos } = amounts;
    format!("{requests} {tokens} {tool_calls} {cost_nanos}")
}

fn decoded(text: &[u8]) -> Option<UsageAmounts> {
    let numbers: Result<Vec<u64>, _> =
        std::str::from_utf8(text).ok()?.split(' ').map(str::parse).collect();
    let [requests, tokens, tool_calls, cost_nanos] = numbers.ok()?.try_into().ok()?;
    Some(UsageAmounts { requests, tokens, tool_calls, cost_nanos })
}
