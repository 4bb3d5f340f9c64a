//! Webhooks: events of runs that are sent to receivers of their tenant, from an outbox.
//!
//! The outbox is in the database of the runs. What is to be sent is stored in the transaction of the
//! event that causes it, so a process that dies loses nothing. It is sent at least once; a receiver
//! drops repeats by the ID.

use std::{
    collections::BTreeSet,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CallId, RunId, RunOutcome, TenantId, Timestamp, words};

use super::Result;

words! {
    /// Type of an event that is sent.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
    )]
    pub enum WebhookEvent {
        /// A run completed.
        ResponseCompleted = "response.completed",
        /// A run failed.
        ResponseFailed = "response.failed",
        /// A run ended at a limit.
        ResponseIncomplete = "response.incomplete",
        /// A run was cancelled.
        ResponseCancelled = "response.cancelled",
        /// A call waits for a person to approve it.
        ApprovalRequested = "run.approval_requested",
    }
}

impl WebhookEvent {
    /// Returns the type for the end of a run.
    pub fn of_end(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed => Self::ResponseCompleted,
            RunOutcome::Failed { .. } => Self::ResponseFailed,
            RunOutcome::Incomplete { .. } => Self::ResponseIncomplete,
            RunOutcome::Cancelled => Self::ResponseCancelled,
        }
    }
}

/// A word that is not the type of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the type of an event")]
pub struct UnknownWebhookEvent(pub String);

impl FromStr for WebhookEvent {
    type Err = UnknownWebhookEvent;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|event| event.as_str() == word);
        known.ok_or_else(|| UnknownWebhookEvent(word.to_owned()))
    }
}

/// Which events of a tenant are stored for which receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRoute {
    /// Tenant whose runs are meant.
    pub tenant: TenantId,
    /// Address of the receiver.
    pub url: String,
    /// Types of events that it gets.
    pub events: BTreeSet<WebhookEvent>,
}

words! {
    /// How far a delivery has come.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    pub enum DeliveryStatus {
        /// Waits for its next attempt, or is being sent.
        Pending = "pending",
        /// The receiver has accepted it.
        Delivered = "delivered",
        /// No further attempt is made.
        Failed = "failed",
    }
}

impl DeliveryStatus {
    /// Returns the status with this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One event for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// ID of the event at this receiver, `evt_…`. It is the same in every attempt.
    pub delivery_id: String,
    /// Tenant of the run.
    pub tenant: TenantId,
    /// Address of the receiver.
    pub url: String,
    /// Type of the event.
    pub event: WebhookEvent,
    /// The run.
    pub run_id: RunId,
    /// The call that waits, for [`WebhookEvent::ApprovalRequested`].
    pub call_id: Option<CallId>,
    /// Time of the event.
    pub created_at: Timestamp,
    /// How far it has come.
    pub status: DeliveryStatus,
    /// Number of attempts that have ended.
    pub n_attempts: u32,
    /// Time of the next attempt. `None` if there is none.
    pub next_attempt_at: Option<Timestamp>,
    /// Time of the last attempt.
    pub last_attempt_at: Option<Timestamp>,
    /// HTTP status that the receiver answered the last attempt with.
    pub http_status: Option<u16>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// A delivery that this process may send for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// What is to be sent.
    pub delivery: WebhookDelivery,
    /// Number of the claim, which the end of the attempt must name.
    pub claim: i64,
}

/// How many deliveries to a receiver may be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeReceiver {
    /// Tenant of the receiver.
    pub tenant: TenantId,
    /// Address of the receiver.
    pub url: String,
    /// Maximum number of deliveries.
    pub most: usize,
    /// How long a claim lasts.
    pub lease: Duration,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Time of the end.
    pub at: Timestamp,
    /// HTTP status that the receiver answered with.
    pub http_status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// What follows.
    pub next: NextAttempt,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// Nothing: the receiver has accepted it.
    Delivered,
    /// Another attempt at this time.
    At(Timestamp),
    /// Nothing: it is given up.
    GivenUp,
}

/// Which deliveries to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// Only those with this status.
    pub status: Option<DeliveryStatus>,
    /// ID of a delivery. The list starts after it.
    pub after: Option<String>,
    /// ID of a delivery. The list ends before it.
    pub before: Option<String>,
    /// Whether the oldest come first.
    pub oldest_first: bool,
    /// Maximum number of deliveries.
    pub most: usize,
}

/// The deliveries that wait to be sent, and those that were.
///
/// Guarantees of an implementation:
///
/// * a delivery is stored if and only if the event that causes it is;
/// * a claimed delivery is not claimed again before its lease has ended;
/// * an attempt whose claim was lost changes nothing, unless it succeeded;
/// * a tenant cannot see or repeat deliveries of another tenant;
/// * deliveries are deleted with their run.
#[async_trait]
pub trait WebhookOutbox: Send + Sync {
    /// Claims deliveries that are due at `now`, the longest waiting first, for each of `receivers`.
    async fn claim_deliveries(
        &self,
        receivers: &[FreeReceiver],
        now: Timestamp,
    ) -> Result<Vec<ClaimedDelivery>>;

    /// Stores the end of an attempt. Returns whether it changed something.
    async fn record_attempt(
        &self,
        claimed: &ClaimedDelivery,
        attempt: &DeliveryAttempt,
    ) -> Result<bool>;

    /// Lists the deliveries of a tenant by time of creation, the newest first unless the query says
    /// otherwise. Fails with [`NotFound`](crate::StoreError::NotFound) if it names a delivery that
    /// is not there.
    async fn deliveries(
        &self,
        tenant: &TenantId,
        query: &DeliveryQuery,
    ) -> Result<Vec<WebhookDelivery>>;

    /// Makes a delivery due at `now` with all its attempts, however far it has come. Returns `None`
    /// if the tenant has no such delivery.
    async fn redeliver(
        &self,
        tenant: &TenantId,
        delivery_id: &str,
        now: Timestamp,
    ) -> Result<Option<WebhookDelivery>>;

    /// Returns the number of pending deliveries of all tenants.
    async fn n_pending(&self) -> Result<u64>;

    /// Waits until this process has stored a delivery. Those of other processes are not noticed.
    async fn delivery_added(&self);
}

/// What a process has sent, for its metrics.
#[derive(Debug, Default)]
pub struct WebhookCounts {
    delivered: AtomicU64,
    failed_attempts: AtomicU64,
    given_up: AtomicU64,
    pending: AtomicU64,
}

impl WebhookCounts {
    /// Counts the end of an attempt.
    pub fn count(&self, next: NextAttempt) {
        match next {
            NextAttempt::Delivered => {
                self.delivered.fetch_add(1, Ordering::Relaxed);
            }
            NextAttempt::At(_) => {
                self.failed_attempts.fetch_add(1, Ordering::Relaxed);
            }
            NextAttempt::GivenUp => {
                self.failed_attempts.fetch_add(1, Ordering::Relaxed);
                self.given_up.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sets the number of pending deliveries.
    pub fn set_pending(&self, n_pending: u64) {
        self.pending.store(n_pending, Ordering::Relaxed);
    }

    /// Number of deliveries that were accepted.
    pub fn n_delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Number of attempts that failed.
    pub fn n_failed_attempts(&self) -> u64 {
        self.failed_attempts.load(Ordering::Relaxed)
    }

    /// Number of deliveries that were given up.
    pub fn n_given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Number of pending deliveries when they were last counted.
    pub fn n_pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }
}
