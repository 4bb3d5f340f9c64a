//! What tenants and holders of keys may use, as the operator set it.

use std::{collections::BTreeMap, time::Duration};

use turnwire_contract::{TenantId, UsageAmounts, UsageSpan, UsageSubject};

/// Time between two exchanges of counts with other servers.
pub const EXCHANGE_EVERY: Duration = Duration::from_secs(1);

/// Share of a budget at which its owner is warned, in percent.
const WARN_AT_PERCENT: u32 = 80;

/// Quotas of one subject. `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// Runs that may be started in a minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens that may be used in a minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens that may be used in a day.
    pub tokens_per_day: Option<u64>,
    /// Tool calls that may be made in a day.
    pub tool_calls_per_day: Option<u64>,
    /// Budget of a month, in billionths of the operator's currency.
    pub cost_nanos_per_month: Option<u64>,
    /// Runs that may be active at once.
    pub runs_at_once: Option<u64>,
    /// Bytes of files that may be stored. Only tenants have it.
    pub stored_bytes: Option<u64>,
}

impl Quota {
    /// Returns these quotas, and those of `usual` where there are none.
    pub fn or(&self, usual: &Self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.or(usual.requests_per_minute),
            tokens_per_minute: self.tokens_per_minute.or(usual.tokens_per_minute),
            tokens_per_day: self.tokens_per_day.or(usual.tokens_per_day),
            tool_calls_per_day: self.tool_calls_per_day.or(usual.tool_calls_per_day),
            cost_nanos_per_month: self.cost_nanos_per_month.or(usual.cost_nanos_per_month),
            runs_at_once: self.runs_at_once.or(usual.runs_at_once),
            stored_bytes: self.stored_bytes.or(usual.stored_bytes),
        }
    }

    /// The limits that are counted over time.
    pub(super) fn rules(&self) -> impl Iterator<Item = Rule> + use<> {
        let of = |measure: Measure, max: Option<u64>| {
            Some(Rule { measure, span: measure.span()?, max: max? })
        };
        let rules = [
            of(Measure::RequestsPerMinute, self.requests_per_minute),
            of(Measure::TokensPerMinute, self.tokens_per_minute),
            of(Measure::TokensPerDay, self.tokens_per_day),
            of(Measure::ToolCallsPerDay, self.tool_calls_per_day),
            of(Measure::CostPerMonth, self.cost_nanos_per_month),
        ];
        rules.into_iter().flatten()
    }
}

/// The quotas of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaOptions {
    /// Quotas of each tenant.
    pub per_tenant: Quota,
    /// Quotas of each holder of a key or token.
    pub per_key: Quota,
    /// Quotas of some tenants, in place of those of all.
    pub tenants: BTreeMap<TenantId, Quota>,
    /// Share of a budget at which its owner is warned, in percent.
    pub warn_at_percent: u32,
    /// Share of a budget at which a person is asked before a run goes on, in percent. `None`:
    /// nobody is asked.
    pub ask_at_percent: Option<u8>,
    /// Time between two exchanges of counts with other servers.
    pub exchange_every: Duration,
}

impl Default for QuotaOptions {
    fn default() -> Self {
        Self {
            per_tenant: Quota::default(),
            per_key: Quota::default(),
            tenants: BTreeMap::new(),
            warn_at_percent: WARN_AT_PERCENT,
            ask_at_percent: None,
            exchange_every: EXCHANGE_EVERY,
        }
    }
}

impl QuotaOptions {
    /// Returns whether anything is limited.
    pub fn is_empty(&self) -> bool {
        let all = [&self.per_tenant, &self.per_key];
        all.into_iter().chain(self.tenants.values()).all(|quota| *quota == Quota::default())
    }

    pub(super) fn of(&self, subject: &UsageSubject) -> Vec<Rule> {
        self.quota_of(subject).rules().collect()
    }

    /// Returns the quotas of a subject.
    pub(super) fn quota_of(&self, subject: &UsageSubject) -> Quota {
        if subject.holder.is_some() {
            return self.per_key.clone();
        }
        match self.tenants.get(&subject.tenant) {
            Some(own) => own.or(&self.per_tenant),
            None => self.per_tenant.clone(),
        }
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Runs started in a minute.
    RequestsPerMinute,
    /// Tokens used in a minute.
    TokensPerMinute,
    /// Tokens used in a day.
    TokensPerDay,
    /// Tool calls made in a day.
    ToolCallsPerDay,
    /// Money spent in a month.
    CostPerMonth,
    /// Runs that are active.
    RunsAtOnce,
    /// Bytes of files that are stored.
    StoredBytes,
}

impl Measure {
    /// Returns its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestsPerMinute => "requests_per_minute",
            Self::TokensPerMinute => "tokens_per_minute",
            Self::TokensPerDay => "tokens_per_day",
            Self::ToolCallsPerDay => "tool_calls_per_day",
            Self::CostPerMonth => "cost_per_month",
            Self::RunsAtOnce => "runs_at_once",
            Self::StoredBytes => "stored_bytes",
        }
    }

    /// Returns the span over which it is counted, if it is counted over time.
    pub fn span(self) -> Option<UsageSpan> {
        Some(match self {
            Self::RequestsPerMinute | Self::TokensPerMinute => UsageSpan::Minute,
            Self::TokensPerDay | Self::ToolCallsPerDay => UsageSpan::Day,
            Self::CostPerMonth => UsageSpan::Month,
            Self::RunsAtOnce | Self::StoredBytes => return None,
        })
    }

    /// Returns how much of it was used.
    pub(super) fn of(self, used: UsageAmounts) -> u64 {
        match self {
            Self::RequestsPerMinute => used.requests,
            Self::TokensPerMinute | Self::TokensPerDay => used.tokens,
            Self::ToolCallsPerDay => used.tool_calls,
            Self::CostPerMonth => used.cost_nanos,
            Self::RunsAtOnce | Self::StoredBytes => 0,
        }
    }
}

/// One limit of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) measure: Measure,
    pub(super) span: UsageSpan,
    pub(super) max: u64,
}
