//! Sends webhooks: takes what is due from the outbox, signs it, and posts it to its receiver.
//!
//! Every process of a store runs a [`WebhookSender`]. A delivery is claimed for as long as its
//! attempt may take, so two processes send the same one only if a clock is wrong or a process was
//! killed. Each receiver has its own share of the parallel attempts: one that does not answer uses
//! up its own and delays no other.
//!
//! Addresses are posted to through [`Egress`] only. No redirect is followed and no answer is read
//! beyond its head.

mod schedule;
mod signature;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use reqwest::Url;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use turnwire_contract::{
    CallId, ClaimedDelivery, DeliveryAttempt, FreeReceiver, NextAttempt, StoreError, TenantId,
    Timestamp, WebhookCounts, WebhookDelivery, WebhookOutbox, partial_debug,
};

pub use self::signature::{NotASecret, SigningSecret};
use self::{schedule::pause, signature::signatures};
use crate::{
    egress::{Egress, Posted},
    sync::lock,
};

/// Interval at which the outbox is read for deliveries of other processes and for those whose pause
/// is over.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Interval at which pending deliveries are counted.
const BETWEEN_COUNTS: Duration = Duration::from_secs(10);

/// Attempts at the same time: of a receiver, and of all of them unless there are more receivers.
const AT_ONCE_PER_RECEIVER: usize = 8;
const AT_ONCE: usize = 64;

/// How much longer than an attempt its claim lasts, for storing how it ended.
const RECORDING_TIME: Duration = Duration::from_secs(5);

/// Pauses before storing the end of an attempt once more, if that failed.
const RECORDING_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// How long attempts may take that have begun when the server stops. The next server repeats those
/// that are cut.
const CLOSING_TIME: Duration = Duration::from_secs(3);

/// Status with which a receiver asks for no further attempt.
const GONE: u16 = 410;

/// A receiver of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookReceiver {
    /// Tenant whose events it gets.
    pub tenant: TenantId,
    /// Its address.
    pub url: String,
    /// Secrets that sign, each for itself.
    pub secrets: Vec<SigningSecret>,
    /// Maximum duration of an attempt.
    pub timeout: Duration,
}

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Sends what is in an outbox.
pub struct WebhookSender {
    outbox: Arc<dyn WebhookOutbox>,
    egress: Egress,
    receivers: Vec<WebhookReceiver>,
    counts: Arc<WebhookCounts>,
    now: Clock,
}

partial_debug!(WebhookSender { receivers });

/// Name of a receiver in the outbox.
type ReceiverKey = (TenantId, String);

/// Attempts in progress, by receiver.
#[derive(Default)]
struct Slots(Arc<Mutex<HashMap<ReceiverKey, usize>>>);

impl Slots {
    fn n_taken(&self, receiver: &ReceiverKey) -> usize {
        lock(&self.0).get(receiver).copied().unwrap_or_default()
    }

    fn take(&self, delivery: &WebhookDelivery) -> Slot {
        let receiver = (delivery.tenant.clone(), delivery.url.clone());
        *lock(&self.0).entry(receiver.clone()).or_default() += 1;
        Slot { slots: Arc::clone(&self.0), receiver }
    }
}

/// An attempt in progress. It ends when this is dropped, also by a panic.
struct Slot {
    slots: Arc<Mutex<HashMap<ReceiverKey, usize>>>,
    receiver: ReceiverKey,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(n_taken) = lock(&self.slots).get_mut(&self.receiver) {
            *n_taken = n_taken.saturating_sub(1);
        }
    }
}

impl WebhookSender {
    /// Creates a sender. Deliveries to addresses that are not among `receivers` stay where they
    /// are.
    pub fn new(
        outbox: Arc<dyn WebhookOutbox>,
        egress: Egress,
        receivers: Vec<WebhookReceiver>,
        counts: Arc<WebhookCounts>,
        now: Clock,
    ) -> Self {
        Self { outbox, egress, receivers, counts, now }
    }

    /// Sends until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        if self.receivers.is_empty() {
            return;
        }
        let (sender, slots) = (Arc::new(self), Slots::default());
        // Tasks, because an attempt that waits for its turn in this loop would hold the connection
        // to the database that the loop waits for.
        let mut attempts = JoinSet::new();
        let mut counted: Option<Instant> = None;
        let mut is_away = false;
        while !stop.is_cancelled() {
            let free = sender.free(&slots);
            match sender.outbox.claim_deliveries(&free, (sender.now)()).await {
                Ok(claimed) => {
                    if std::mem::take(&mut is_away) {
                        info!("webhook deliveries continue");
                    }
                    for next in claimed {
                        let (sender, slot) = (Arc::clone(&sender), slots.take(&next.delivery));
                        attempts.spawn(async move {
                            sender.attempt(next).await;
                            drop(slot);
                        });
                    }
                }
                Err(error) if !is_away => {
                    warn!(%error, "webhook deliveries wait for the store");
                    is_away = true;
                }
                Err(_) => {}
            }
            if counted.is_none_or(|at| at.elapsed() >= BETWEEN_COUNTS) {
                counted = Some(Instant::now());
                sender.count_pending().await;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = attempts.join_next() => {
                    // Those that have ended meanwhile, too: one look for all of them.
                    while attempts.try_join_next().is_some() {}
                }
                () = sender.outbox.delivery_added() => {}
                () = sleep(BETWEEN_LOOKS) => {}
            }
        }
        let rest = async { while attempts.join_next().await.is_some() {} };
        if timeout(CLOSING_TIME, rest).await.is_err() {
            info!("webhook deliveries interrupted, they are repeated");
        }
    }

    /// Sends everything that is due now, and returns the number of attempts.
    pub async fn send_due(&self) -> Result<usize, StoreError> {
        let mut n_attempts = 0;
        loop {
            let free = self.free(&Slots::default());
            let claimed = self.outbox.claim_deliveries(&free, (self.now)()).await?;
            if claimed.is_empty() {
                return Ok(n_attempts);
            }
            n_attempts += claimed.len();
            join_all(claimed.into_iter().map(|next| self.attempt(next))).await;
        }
    }

    async fn count_pending(&self) {
        if let Ok(n_pending) = self.outbox.n_pending().await {
            self.counts.set_pending(n_pending);
        }
    }

    /// Returns the receivers that can get more, with how much.
    fn free(&self, slots: &Slots) -> Vec<FreeReceiver> {
        let share = (AT_ONCE / self.receivers.len().max(1)).clamp(1, AT_ONCE_PER_RECEIVER);
        let free = self.receivers.iter().filter_map(|receiver| {
            let (tenant, url) = (receiver.tenant.clone(), receiver.url.clone());
            let most = share.saturating_sub(slots.n_taken(&(tenant.clone(), url.clone())));
            let lease = receiver.timeout + RECORDING_TIME;
            (most > 0).then_some(FreeReceiver { tenant, url, most, lease })
        });
        free.collect()
    }

    /// Sends one delivery and stores how that ended.
    async fn attempt(&self, claimed: ClaimedDelivery) {
        let delivery = &claimed.delivery;
        let answer = self.post(delivery).await;
        let attempt = self.judged(delivery, answer);
        let (delivery_id, host) = (&delivery.delivery_id, host_of(&delivery.url));
        match self.record_attempt(&claimed, &attempt).await {
            Ok(true) => self.counts.count(attempt.next),
            Ok(false) => {
                debug!(delivery_id, %host, "webhook attempt ended after its claim");
                return;
            }
            Err(error) => {
                warn!(delivery_id, %error, "webhook attempt not stored, it is repeated");
                return;
            }
        }
        match (&attempt.next, &attempt.error) {
            (NextAttempt::GivenUp, Some(error)) => {
                warn!(delivery_id, %host, error, "webhook given up");
            }
            (_, Some(error)) => debug!(delivery_id, %host, error, "webhook not delivered"),
            (_, None) => {}
        }
    }

    /// Stores how an attempt ended, and tries that again as long as the claim lasts.
    async fn record_attempt(
        &self,
        claimed: &ClaimedDelivery,
        attempt: &DeliveryAttempt,
    ) -> Result<bool, StoreError> {
        let began = Instant::now();
        for pause in RECORDING_PAUSES {
            match self.outbox.record_attempt(claimed, attempt).await {
                Err(_) if began.elapsed() + pause < RECORDING_TIME => sleep(pause).await,
                recorded => return recorded,
            }
        }
        self.outbox.record_attempt(claimed, attempt).await
    }

    async fn post(&self, delivery: &WebhookDelivery) -> Result<Posted, String> {
        let receiver = self
            .receivers
            .iter()
            .find(|receiver| receiver.tenant == delivery.tenant && receiver.url == delivery.url);
        let receiver = receiver.ok_or("the receiver is not in the settings")?;
        let (id, body) = (delivery.delivery_id.as_str(), body_of(delivery));
        let seconds = seconds((self.now)());
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signatures(&receiver.secrets, id, seconds, &body)),
        ];
        let posting = self.egress.post(&receiver.url, &headers, body);
        match timeout(receiver.timeout, posting).await {
            Ok(posted) => posted.map_err(|error| error.to_string()),
            Err(_) => Err("the receiver did not answer in time".to_owned()),
        }
    }

    /// Decides what follows an answer.
    fn judged(
        &self,
        delivery: &WebhookDelivery,
        answer: Result<Posted, String>,
    ) -> DeliveryAttempt {
        let at = (self.now)();
        let (http_status, asked, error) = match answer {
            Ok(Posted { status: status @ 200..=299, .. }) => {
                let (http_status, error) = (Some(status), None);
                return DeliveryAttempt { at, http_status, error, next: NextAttempt::Delivered };
            }
            Ok(Posted { status, retry_after }) => {
                (Some(status), retry_after, format!("the receiver answered with status {status}"))
            }
            Err(error) => (None, None, error),
        };
        let pause = match http_status {
            Some(GONE) => None,
            _ => pause(&delivery.delivery_id, delivery.n_attempts.saturating_add(1), asked),
        };
        let next = pause.map_or(NextAttempt::GivenUp, |pause| NextAttempt::At(at.later(pause)));
        DeliveryAttempt { at, http_status, error: Some(error), next }
    }
}

/// The part of an address that may be logged: the rest may contain a token.
fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

fn seconds(at: Timestamp) -> i64 {
    at.as_micros() / 1_000_000
}

/// The message. It is the same in every attempt.
fn body_of(delivery: &WebhookDelivery) -> String {
    let run = delivery.run_id.as_str();
    let response = format!("resp_{}", run.strip_prefix("run_").unwrap_or(run));
    let mut data = json!({ "id": response });
    if let Some(call_id) = &delivery.call_id {
        data = json!({ "id": response, "run_id": run, "call_id": CallId::as_str(call_id) });
    }
    json!({
        "id": delivery.delivery_id,
        "object": "event",
        "created_at": seconds(delivery.created_at),
        "type": delivery.event.as_str(),
        "data": data,
    })
    .to_string()
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
