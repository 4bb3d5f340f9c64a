//! Counters of what tenants and holders of keys use.
//!
//! Each node sets its own totals and adds up those of all: a repeated write after an unclear commit
//! counts nothing twice, and nodes do not wait for each other's rows.
//!
//! Counters are rows of the database. With Redis, those of minutes are there instead, and in the
//! database while Redis is away.

mod minutes;
mod rows;

use async_trait::async_trait;
use turnwire_contract::{
    TenantId, Timestamp, UsageAmounts, UsageCount, UsageCounters, UsageSubject, UsageWindow,
};

pub(crate) use self::minutes::MinuteCounters;
use crate::{Result, Store};

#[async_trait]
impl UsageCounters for Store {
    async fn set_usage(&self, node: &str, counts: &[UsageCount]) -> Result<()> {
        let (in_redis, mut rows): (Vec<&UsageCount>, Vec<&UsageCount>) =
            counts.iter().partition(|count| {
                self.0.minutes.as_ref().is_some_and(|minutes| minutes.takes(count.window))
            });
        if let Some(minutes) = &self.0.minutes
            && !in_redis.is_empty()
            && !minutes.set(node, &in_redis).await
        {
            rows.extend(in_redis);
        }
        Ok(self.set_usage_rows(node, &rows).await?)
    }

    async fn usage_of(&self, wanted: &[(UsageSubject, UsageWindow)]) -> Result<Vec<UsageAmounts>> {
        let (in_redis, mut rows): (Vec<usize>, Vec<usize>) = (0..wanted.len())
            .partition(|n| wanted.get(*n).is_some_and(|(_, window)| self.is_in_redis(*window)));
        let of = |places: &[usize]| -> Vec<(&UsageSubject, UsageWindow)> {
            let asked = places.iter().filter_map(|n| wanted.get(*n));
            asked.map(|(subject, window)| (subject, *window)).collect()
        };
        let mut found: Vec<(usize, UsageAmounts)> = Vec::with_capacity(wanted.len());
        if let Some(minutes) = &self.0.minutes
            && !in_redis.is_empty()
        {
            match minutes.sums(&of(&in_redis)).await {
                Ok(sums) => found.extend(in_redis.into_iter().zip(sums)),
                Err(error) => {
                    tracing::debug!(%error, "counters of minutes are read from the database");
                    rows.extend(in_redis);
                }
            }
        }
        let sums = self.usage_rows(&of(&rows)).await?;
        found.extend(rows.into_iter().zip(sums));
        found.sort_unstable_by_key(|(n, _)| *n);
        Ok(found.into_iter().map(|(_, amounts)| amounts).collect())
    }

    async fn runs_of_others(&self, wanted: &[UsageSubject]) -> Result<Vec<u64>> {
        Ok(self.active_elsewhere(wanted).await?)
    }

    async fn holders_of(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>> {
        let mut holders = self.holders_in_rows(tenant, at, limit).await?;
        if let Some(minutes) = &self.0.minutes
            && let Ok(others) = minutes.holders(tenant, at, limit).await
        {
            holders.extend(others);
            holders.sort_unstable();
            holders.dedup();
            holders.truncate(limit);
        }
        Ok(holders)
    }
}

impl Store {
    fn is_in_redis(&self, window: UsageWindow) -> bool {
        self.0.minutes.as_ref().is_some_and(|minutes| minutes.has(window))
    }
}
