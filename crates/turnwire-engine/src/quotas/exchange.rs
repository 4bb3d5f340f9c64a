//! Exchanges counts with the other processes of a store.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use turnwire_contract::{
    StoreError, UsageAmounts, UsageCount, UsageCounters, UsageSpan, UsageSubject, UsageWindow,
};

use super::{QuotaSubjects, Quotas, READING_TIME};
use crate::{runs::Runs, sync::lock};

/// How long a stopping process waits for its last counts to be stored.
const LAST_EXCHANGE: Duration = Duration::from_secs(1);

type Key = (UsageSubject, UsageSpan);

impl Quotas {
    /// What is known of the others is fresh for this long: an exchange may be late once.
    pub(super) fn fresh_for(&self) -> Duration {
        self.exchange_every() * 2
    }

    /// Forgets what is over, stores what this process used, and reads what all used, for every
    /// subject in use.
    pub async fn exchange(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.exchanging.lock().await;
        let now = self.clock.now();
        lock(&self.counters).tidy(now, self.fresh_for());
        self.exchange_runs(self.shared.as_deref()).await?;
        let Some(shared) = self.shared.clone() else { return Ok(()) };
        let changed: Vec<(Key, UsageCount)> = {
            let counters = lock(&self.counters);
            let changed = counters.iter().filter(|(_, counter)| counter.own != counter.stored);
            let count = |(key, counter): (&Key, &super::counters::Counter)| {
                let (subject, window, amounts) = (key.0.clone(), counter.window, counter.own);
                (key.clone(), UsageCount { subject, window, amounts })
            };
            changed.map(count).collect()
        };
        if !changed.is_empty() {
            let (keys, counts): (Vec<Key>, Vec<UsageCount>) = changed.into_iter().unzip();
            shared.set_usage(&self.node, &counts).await?;
            let mut counters = lock(&self.counters);
            for (key, count) in keys.iter().zip(&counts) {
                if let Some(counter) = counters.get_mut(key, count.window) {
                    counter.stored = count.amounts;
                }
            }
        }
        let in_use = {
            let counters = lock(&self.counters);
            let in_use = counters
                .iter()
                .filter(|(_, counter)| now.since(counter.touched_at) <= self.fresh_for());
            in_use.map(|(key, counter)| (key.clone(), counter.window)).collect()
        };
        self.read(&*shared, in_use).await
    }

    /// Reads what all processes used. The caller holds `exchanging`.
    async fn read(
        &self,
        shared: &dyn UsageCounters,
        wanted: Vec<(Key, UsageWindow)>,
    ) -> Result<(), StoreError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let asked_at = self.clock.now();
        let of_store: Vec<_> =
            wanted.iter().map(|((subject, _), window)| (subject.clone(), *window)).collect();
        let found = shared.usage_of(&of_store).await?;
        let mut counters = lock(&self.counters);
        for ((key, window), used) in wanted.into_iter().zip(found) {
            if let Some(counter) = counters.get_mut(&key, window) {
                counter.others = used.beyond(counter.stored);
                counter.read_at = asked_at;
                let is_new_here = counter.own == UsageAmounts::default();
                let rules = self.rules(&key.0);
                let is_nearly = |rule: &super::Rule| {
                    rule.span == key.1 && self.is_nearly(rule.measure.of(counter.used()), *rule)
                };
                // Whoever used it up has logged it.
                counter.has_warned |= is_new_here && rules.iter().any(is_nearly);
            }
        }
        Ok(())
    }

    /// Reads what others used if this process does not know it, or no longer. If the store does not
    /// answer, the request is admitted by what is known.
    pub(super) async fn read_unknown(&self, users: &QuotaSubjects) {
        let Some(shared) = self.shared.clone() else { return };
        let is_away = lock(&self.away_until).is_some_and(|until| Instant::now() < until);
        if is_away || self.unknown(users).is_empty() {
            return;
        }
        let reading = async {
            let _one_at_a_time = self.exchanging.lock().await;
            // Another request may have read it meanwhile.
            self.read(&*shared, self.unknown(users)).await
        };
        let read = timeout(READING_TIME, reading).await;
        let is_read = matches!(read, Ok(Ok(())));
        let away_until = (!is_read).then(|| Instant::now() + self.exchange_every());
        *lock(&self.away_until) = away_until;
    }

    fn unknown(&self, users: &QuotaSubjects) -> Vec<(Key, UsageWindow)> {
        let now = self.clock.now();
        let mut counters = lock(&self.counters);
        let mut unknown = Vec::new();
        for subject in &users.0 {
            for span in self.spans(subject) {
                let counter = counters.at(subject, span, now);
                if !counter.is_fresh(now, self.fresh_for()) {
                    unknown.push(((subject.clone(), span), counter.window));
                }
            }
        }
        unknown
    }
}

impl Runs {
    /// Starts to exchange counts, whenever there are quotas: a reload may set some.
    pub(crate) fn start_exchange(&self) {
        let (quotas, stop) = (Arc::clone(&self.0.quotas), self.0.leases.stop.clone());
        self.0.leases.tasks.spawn(async move {
            let mut is_away = false;
            while timeout(quotas.exchange_every(), stop.cancelled()).await.is_err() {
                if quotas.is_empty() {
                    continue;
                }
                match quotas.exchange().await {
                    Err(error) if !is_away => {
                        is_away = true;
                        warn!(%error, "quotas not exchanged, this server counts alone");
                    }
                    Ok(()) if is_away => {
                        is_away = false;
                        info!("quotas are exchanged again");
                    }
                    Err(_) | Ok(()) => {}
                }
            }
            // What was used since the last exchange.
            if quotas.is_empty() {
                return;
            }
            let _ = timeout(LAST_EXCHANGE, quotas.exchange()).await;
        });
    }
}
