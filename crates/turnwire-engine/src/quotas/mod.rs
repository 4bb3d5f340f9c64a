//! Quotas and budgets of tenants and of holders of keys, over all servers of a store.
//!
//! Each process counts what it admits and uses. Once per interval it stores its own counts and
//! reads the sum of all (`exchange`). Between two exchanges it does not see what the others admit,
//! so a quota can be exceeded by as much as the other processes admit within one interval. That
//! keeps the store out of the way of a request, and lets a server go on with what it knows when the
//! store is away.
//!
//! Requests are counted when they are admitted, everything else when its event is durable. A run
//! that was admitted may use more than what was left of a quota of tokens or calls; a budget of
//! money ends it before its next turn.

mod at_once;
mod counters;
mod exchange;
mod limits;
mod report;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;
use turnwire_contract::{
    Actor, BudgetScope, BudgetUse, Event, TenantId, Timestamp, UsageAmounts, UsageCounters,
    UsageSpan, UsageSubject, UsageWindow,
};

pub use self::{
    at_once::RunSlot,
    limits::{EXCHANGE_EVERY, Measure, Quota, QuotaOptions},
    report::{MAX_REPORTED_HOLDERS, SubjectUsage},
};
use self::{at_once::Running, counters::Counters, limits::Rule};
use crate::{
    clock_and_ids::ClockAndIds,
    settings::{CurrentSettings, EngineSettings},
    sync::lock,
};

/// How long a request waits for counts that this process does not know.
const READING_TIME: Duration = Duration::from_millis(500);

/// The quotas of this process.
pub struct Quotas {
    /// The options are in them, so that a reload applies at once.
    settings: CurrentSettings,
    clock: Arc<ClockAndIds>,
    /// Counts of all processes. `None`: this process is the only one.
    shared: Option<Arc<dyn UsageCounters>>,
    /// Name of this process among those that count.
    node: String,
    counters: Mutex<Counters>,
    /// Held during an exchange: what is read has to include what was written.
    exchanging: tokio::sync::Mutex<()>,
    running: Arc<Running>,
    /// When a store that failed is asked again by a request.
    away_until: Mutex<Option<Instant>>,
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas")
            .field("options", &self.settings.get().quotas)
            .finish_non_exhaustive()
    }
}

/// Who counts for a run or request: the tenant, and the holder of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaSubjects(Vec<UsageSubject>);

impl QuotaSubjects {
    pub(crate) fn new(tenant: &TenantId, actor: Option<&Actor>) -> Self {
        let holder = actor.and_then(|actor| UsageSubject::holder(tenant, actor));
        Self([Some(UsageSubject::tenant(tenant)), holder].into_iter().flatten().collect())
    }
}

/// Where a quota stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaStatus {
    /// What is limited.
    pub measure: Measure,
    /// Whether it is the quota of a single key, and not of the whole tenant.
    pub is_of_key: bool,
    /// The limit.
    pub max: u64,
    /// How much of it is used. May exceed the limit.
    pub used: u64,
    /// How much of it is left.
    pub remaining: u64,
    /// The time in which it is counted. `None`: it is not counted over time.
    pub window: Option<UsageWindow>,
    /// Time until the whole quota is there again.
    pub resets_in: Duration,
    /// Whether so much of a budget is used that its owner is to be warned.
    pub is_nearly_spent: bool,
}

/// The answer to a request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaAnswer {
    /// All quotas of the caller, with the request counted if it was admitted.
    pub quotas: Vec<QuotaStatus>,
    /// The quota that is used up. `None`: the request is admitted.
    pub refused: Option<QuotaStatus>,
}

impl Quotas {
    /// Creates the quotas of a process. Without `shared`, it is the only one that counts.
    pub fn new(
        options: QuotaOptions,
        clock: Arc<ClockAndIds>,
        shared: Option<Arc<dyn UsageCounters>>,
    ) -> Self {
        let settings = EngineSettings { quotas: options, ..EngineSettings::default() };
        Self::following(CurrentSettings::new(settings), clock, shared)
    }

    /// Creates quotas that are always those of `settings`.
    pub(crate) fn following(
        settings: CurrentSettings,
        clock: Arc<ClockAndIds>,
        shared: Option<Arc<dyn UsageCounters>>,
    ) -> Self {
        let node = clock.new_id("node");
        Self {
            settings,
            clock,
            shared,
            node,
            counters: Mutex::default(),
            running: Arc::default(),
            exchanging: tokio::sync::Mutex::default(),
            away_until: Mutex::default(),
        }
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.settings.get().quotas.is_empty()
    }

    /// Time between two exchanges.
    fn exchange_every(&self) -> Duration {
        self.settings.get().quotas.exchange_every
    }

    /// The limits of a subject.
    fn rules(&self, subject: &UsageSubject) -> Vec<Rule> {
        self.settings.get().quotas.of(subject)
    }

    /// Admits a request for a run and counts it, or says which quota is used up.
    pub async fn admit(&self, tenant: &TenantId, actor: Option<&Actor>) -> QuotaAnswer {
        if self.is_empty() {
            return QuotaAnswer { quotas: Vec::new(), refused: None };
        }
        let users = QuotaSubjects::new(tenant, actor);
        self.read_unknown(&users).await;
        let now = self.clock.now();
        let mut counters = lock(&self.counters);
        let standing = self.standing(&mut counters, &users, now);
        // The one that takes longest: an earlier retry would be refused again.
        let used_up = standing.iter().filter(|status| status.remaining == 0);
        if let Some(refused) = used_up.max_by_key(|status| status.resets_in).copied() {
            return QuotaAnswer { quotas: standing, refused: Some(refused) };
        }
        let one = UsageAmounts { requests: 1, ..UsageAmounts::default() };
        self.add(&mut counters, &users, now, one);
        QuotaAnswer { quotas: self.standing(&mut counters, &users, now), refused: None }
    }

    /// Takes back a request that was admitted and started no run.
    pub fn take_back(&self, tenant: &TenantId, actor: Option<&Actor>) {
        if self.is_empty() {
            return;
        }
        let (users, now) = (QuotaSubjects::new(tenant, actor), self.clock.now());
        let mut counters = lock(&self.counters);
        for subject in &users.0 {
            for span in self.spans(subject) {
                let counter = counters.at(subject, span, now);
                counter.own.requests = counter.own.requests.saturating_sub(1);
            }
        }
    }

    /// Counts what an event of a run says was used. Called once per event, when it is durable.
    pub(crate) fn count(&self, users: &QuotaSubjects, event: &Event) {
        if self.is_empty() {
            return;
        }
        let mut used = UsageAmounts::default();
        if let Event::TurnFinished { usage, .. } = event {
            used.tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            used.cost_nanos = usage.cost_nanos.unwrap_or_default();
        } else if matches!(event, Event::ToolStarted { .. }) {
            used.tool_calls = 1;
        }
        if used != UsageAmounts::default() {
            self.add(&mut lock(&self.counters), users, self.clock.now(), used);
        }
    }

    /// Returns whether a budget of money is used up. A process that took a run over, or whose run
    /// waited for long, first reads what others used.
    pub(crate) async fn is_spent(&self, users: &QuotaSubjects) -> bool {
        if self.is_empty() {
            return false;
        }
        self.read_unknown(users).await;
        let standing = self.standing(&mut lock(&self.counters), users, self.clock.now());
        let mut budgets = standing.iter().filter(|status| status.measure == Measure::CostPerMonth);
        budgets.any(|status| status.remaining == 0)
    }

    /// Returns the share of the budget of the month at which a person is asked, if the user has
    /// such a budget.
    pub(crate) fn asks_at_percent(&self, users: &QuotaSubjects) -> Option<u8> {
        let percent = self.settings.get().quotas.ask_at_percent?;
        let is_budget = |rule: Rule| rule.measure == Measure::CostPerMonth;
        let has_budget = users.0.iter().any(|user| self.rules(user).into_iter().any(is_budget));
        has_budget.then_some(percent)
    }

    /// Returns the budgets of the month of which this share is used, that of the key first. None if
    /// one is used up, because that ends the run anyway.
    pub(crate) async fn nearly_spent(&self, users: &QuotaSubjects, percent: u8) -> Vec<BudgetUse> {
        self.read_unknown(users).await;
        let mut standing = self.standing(&mut lock(&self.counters), users, self.clock.now());
        standing.retain(|status| status.measure == Measure::CostPerMonth);
        if standing.iter().any(|status| status.remaining == 0) {
            return Vec::new();
        }
        let of_budget = |status: &QuotaStatus| BudgetUse {
            scope: if status.is_of_key { BudgetScope::Key } else { BudgetScope::Tenant },
            used_nanos: status.used,
            ask_nanos: share(status.max, percent),
            max_nanos: Some(status.max),
        };
        let budgets = standing.iter().rev().map(of_budget);
        budgets.filter(|budget| budget.used_nanos >= budget.ask_nanos).collect()
    }

    fn add(
        &self,
        counters: &mut Counters,
        users: &QuotaSubjects,
        now: Timestamp,
        used: UsageAmounts,
    ) {
        for subject in &users.0 {
            for span in self.spans(subject) {
                counters.at(subject, span, now).own += used;
            }
            self.warn_if_nearly_spent(counters, subject, now);
        }
    }

    /// Logs once per window that a budget is nearly spent.
    fn warn_if_nearly_spent(
        &self,
        counters: &mut Counters,
        subject: &UsageSubject,
        now: Timestamp,
    ) {
        for rule in self.rules(subject) {
            if rule.measure != Measure::CostPerMonth {
                continue;
            }
            let counter = counters.at(subject, rule.span, now);
            let used = rule.measure.of(counter.used());
            if self.is_nearly(used, rule) && !counter.has_warned {
                counter.has_warned = true;
                let (tenant, holder) = (&subject.tenant, subject.holder.as_deref());
                warn!(%tenant, holder, used, max = rule.max, "budget of the month nearly spent");
            }
        }
    }

    fn is_nearly(&self, used: u64, rule: Rule) -> bool {
        let percent = u128::from(self.settings.get().quotas.warn_at_percent);
        rule.measure == Measure::CostPerMonth
            && u128::from(used) * 100 >= u128::from(rule.max) * percent
    }

    /// Where all quotas of `users` stand.
    fn standing(
        &self,
        counters: &mut Counters,
        users: &QuotaSubjects,
        now: Timestamp,
    ) -> Vec<QuotaStatus> {
        let mut standing = Vec::new();
        for subject in &users.0 {
            for rule in self.rules(subject) {
                let counter = counters.at(subject, rule.span, now);
                let used = rule.measure.of(counter.used());
                standing.push(QuotaStatus {
                    measure: rule.measure,
                    is_of_key: subject.holder.is_some(),
                    max: rule.max,
                    used,
                    window: Some(counter.window),
                    remaining: rule.max.saturating_sub(used),
                    resets_in: counter.window.ends_at.since(now),
                    is_nearly_spent: self.is_nearly(used, rule),
                });
            }
        }
        standing
    }

    /// The spans over which a subject is counted.
    fn spans(&self, subject: &UsageSubject) -> Vec<UsageSpan> {
        let mut spans: Vec<UsageSpan> = self.rules(subject).iter().map(|rule| rule.span).collect();
        spans.sort_unstable();
        spans.dedup();
        spans
    }
}

/// A share of `whole`, rounded up, so that nothing used is never enough.
fn share(whole: u64, percent: u8) -> u64 {
    let share = (u128::from(whole) * u128::from(percent)).div_ceil(100);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "quotas_tests.rs"]
mod tests;
