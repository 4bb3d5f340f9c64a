//! Counters of what tenants and the holders of their keys use, shared by all servers of a store.

use std::ops::AddAssign;

use async_trait::async_trait;
use time::{Duration, Month, OffsetDateTime, Time};

use crate::{Actor, TenantId, Timestamp};

use super::Result;

/// Whose use is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UsageSubject {
    /// The tenant.
    pub tenant: TenantId,
    /// A key of the tenant, or a person that an identity provider vouches for. `None`: all of the
    /// tenant together.
    pub holder: Option<String>,
}

impl UsageSubject {
    /// All of a tenant together.
    pub fn tenant(tenant: &TenantId) -> Self {
        Self { tenant: tenant.clone(), holder: None }
    }

    /// One holder of a key or token. `None` if nobody needs one.
    pub fn holder(tenant: &TenantId, actor: &Actor) -> Option<Self> {
        let subject = actor.subject.as_ref().map(|subject| format!("subject:{subject}"));
        let holder = actor.key_id.clone().or(subject)?;
        Some(Self { tenant: tenant.clone(), holder: Some(holder) })
    }
}

/// How long use is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageSpan {
    /// A minute.
    Minute,
    /// A day, in UTC.
    Day,
    /// A month of the calendar, in UTC.
    Month,
}

impl UsageSpan {
    /// All spans.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Day, Self::Month];

    /// Returns the window that a moment is in.
    pub fn window(self, at: Timestamp) -> UsageWindow {
        let nanos = i128::from(at.as_micros()) * 1_000;
        let moment =
            OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let day = moment.replace_time(Time::MIDNIGHT);
        let (start, end) = match self {
            Self::Minute => {
                let minute = at.as_micros().div_euclid(60_000_000) * 60_000_000;
                let end = Timestamp::from_micros(minute.saturating_add(60_000_000));
                return UsageWindow { starts_at: Timestamp::from_micros(minute), ends_at: end };
            }
            Self::Day => (day, day.saturating_add(Duration::DAY)),
            Self::Month => {
                let start = day.replace_day(1).unwrap_or(day);
                let next = start.month().next();
                let year = start.year() + i32::from(next == Month::January);
                // In the last month that can be written, the window ends with the day.
                let end = start.replace_year(year).and_then(|start| start.replace_month(next));
                (start, end.unwrap_or(day.saturating_add(Duration::DAY)))
            }
        };
        UsageWindow { starts_at: timestamp(start), ends_at: timestamp(end) }
    }
}

fn timestamp(moment: OffsetDateTime) -> Timestamp {
    let micros = moment.unix_timestamp_nanos() / 1_000;
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// A time in which use is added up: from its start up to, and without, its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UsageWindow {
    /// When it starts.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
}

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageAmounts {
    /// Runs that were asked for.
    pub requests: u64,
    /// Tokens of the model, input and output.
    pub tokens: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Cost in billionths of the operator's currency.
    pub cost_nanos: u64,
}

impl UsageAmounts {
    /// Returns how much more this is than `other`; never less than nothing.
    pub fn beyond(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            tokens: self.tokens.saturating_sub(other.tokens),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            cost_nanos: self.cost_nanos.saturating_sub(other.cost_nanos),
        }
    }
}

impl AddAssign for UsageAmounts {
    fn add_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.cost_nanos = self.cost_nanos.saturating_add(other.cost_nanos);
    }
}

/// What one subject used in one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageCount {
    /// Whose use it is.
    pub subject: UsageSubject,
    /// When it was used.
    pub window: UsageWindow,
    /// How much.
    pub amounts: UsageAmounts,
}

/// Stores counters of use.
///
/// Guarantees of an implementation:
///
/// * what a node sets replaces what the same node has set before, for the same subject and window,
///   so that repeating it changes nothing;
/// * what is read is the sum over all nodes, and includes everything whose setting has returned;
/// * a window is kept at least until an hour after its end.
#[async_trait]
pub trait UsageCounters: Send + Sync {
    /// Sets what `node` has used.
    async fn set_usage(&self, node: &str, counts: &[UsageCount]) -> Result<()>;

    /// Returns what all nodes have used, one for each of `wanted`, in their order.
    async fn usage_of(&self, wanted: &[(UsageSubject, UsageWindow)]) -> Result<Vec<UsageAmounts>>;

    /// Returns the number of active runs that other workers execute or nobody does, one for each of
    /// `wanted`, in their order. Runs of versions that did not record the holder count for their
    /// tenant alone.
    async fn runs_of_others(&self, wanted: &[UsageSubject]) -> Result<Vec<u64>>;

    /// Returns the holders of a tenant that used something in a window that `at` is in, in the
    /// order of their names, at most `limit`.
    async fn holders_of(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>>;
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
