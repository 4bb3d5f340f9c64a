//! Limits hold in one process and over several, with a clock that stands still.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use proptest::prelude::*;
use turnwire_contract::{CallId, Finish, StoreError, Usage, UsageCount, UsageWindow};

use super::*;

/// 2026-11-17T10:49:30Z.
const NOON: i64 = 1_794_912_570_000_000;
const SECOND: i64 = 1_000_000;

/// Counters that several processes share, which can be away.
#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<HashMap<(UsageSubject, UsageWindow, String), UsageAmounts>>,
    is_away: AtomicBool,
    /// Whether writes are done and then said to have failed.
    loses_answers: AtomicBool,
    n_reads: AtomicUsize,
    /// Runs of other processes.
    runs_of_others: AtomicU64,
}

impl Shared {
    fn check(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl UsageCounters for Shared {
    async fn set_usage(&self, node: &str, counts: &[UsageCount]) -> Result<(), StoreError> {
        self.check()?;
        for UsageCount { subject, window, amounts } in counts {
            let key = (subject.clone(), *window, node.to_owned());
            lock(&self.rows).insert(key, *amounts);
        }
        if self.loses_answers.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("lost".to_owned()));
        }
        Ok(())
    }

    async fn usage_of(
        &self,
        wanted: &[(UsageSubject, UsageWindow)],
    ) -> Result<Vec<UsageAmounts>, StoreError> {
        self.check()?;
        self.n_reads.fetch_add(1, Ordering::Relaxed);
        let rows = lock(&self.rows);
        let sum = |(subject, window): &(UsageSubject, UsageWindow)| {
            let mut sum = UsageAmounts::default();
            for ((of, at, _), amounts) in rows.iter() {
                if of == subject && at == window {
                    sum += *amounts;
                }
            }
            sum
        };
        Ok(wanted.iter().map(sum).collect())
    }

    async fn runs_of_others(&self, wanted: &[UsageSubject]) -> Result<Vec<u64>, StoreError> {
        self.check()?;
        Ok(vec![self.runs_of_others.load(Ordering::Relaxed); wanted.len()])
    }

    async fn holders_of(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.check()?;
        let rows = lock(&self.rows);
        let is_current = |window: &UsageWindow| window.starts_at <= at && at < window.ends_at;
        let theirs = rows
            .keys()
            .filter(|(subject, window, _)| subject.tenant == *tenant && is_current(window));
        let holders: BTreeSet<String> =
            theirs.filter_map(|(subject, ..)| subject.holder.clone()).collect();
        Ok(holders.into_iter().take(limit).collect())
    }
}

fn clock() -> Arc<ClockAndIds> {
    Arc::new(ClockAndIds::by_hand(Timestamp::from_micros(NOON)))
}

fn key(name: &str) -> Actor {
    Actor { key_id: Some(name.to_owned()), ..Actor::default() }
}

fn per_tenant(quota: Quota) -> QuotaOptions {
    QuotaOptions { per_tenant: quota, ..QuotaOptions::default() }
}

fn requests(max: u64) -> QuotaOptions {
    per_tenant(Quota { requests_per_minute: Some(max), ..Quota::default() })
}

async fn is_admitted(quotas: &Quotas, tenant: &str) -> bool {
    quotas.admit(&TenantId::from(tenant), None).await.refused.is_none()
}

fn used(tokens: u64, cost: u64) -> Event {
    let usage = Usage {
        input_tokens: tokens / 2,
        output_tokens: tokens - tokens / 2,
        cost_nanos: Some(cost),
        ..Usage::default()
    };
    Event::TurnFinished { turn: 1, finish: Finish::Answered, usage }
}

fn called() -> Event {
    Event::ToolStarted { call_id: CallId::from("call_1"), attempt: 1, label: String::new() }
}

/// Every quota admits what it allows and refuses what follows, until its window ends; others are
/// not touched.
#[tokio::test]
async fn a_quota_holds_until_its_window_ends() {
    let minute = 30 * SECOND;
    let day = (13 * 60 + 10) * 60 * SECOND + minute;
    let month = 13 * 24 * 3_600 * SECOND + day;
    let cases = [
        (Quota { tokens_per_minute: Some(10), ..Quota::default() }, used(5, 0), minute),
        (Quota { tokens_per_day: Some(10), ..Quota::default() }, used(5, 0), day),
        (Quota { tool_calls_per_day: Some(2), ..Quota::default() }, called(), day),
        (Quota { cost_nanos_per_month: Some(10), ..Quota::default() }, used(0, 5), month),
    ];
    for (quota, event, resets_after) in cases {
        for is_of_key in [false, true] {
            let clock = clock();
            let options = if is_of_key {
                QuotaOptions { per_key: quota.clone(), ..QuotaOptions::default() }
            } else {
                per_tenant(quota.clone())
            };
            let quotas = Quotas::new(options, Arc::clone(&clock), None);
            let (tenant, actor) = (TenantId::from("acme"), key("key_1"));
            let users = QuotaSubjects::new(&tenant, Some(&actor));
            let is_budget = quota.cost_nanos_per_month.is_some();
            for _ in 0..2 {
                let answer = quotas.admit(&tenant, Some(&actor)).await;
                assert_eq!(answer.refused, None, "{quota:?}");
                assert!(!quotas.is_spent(&users).await);
                quotas.count(&users, &event);
            }
            assert_eq!(quotas.is_spent(&users).await, is_budget, "{quota:?}");
            let refused = quotas.admit(&tenant, Some(&actor)).await.refused.expect("used up");
            assert_eq!((refused.remaining, refused.is_of_key), (0, is_of_key));
            assert_eq!(refused.resets_in.as_micros(), u128::try_from(resets_after).unwrap());
            let other = quotas.admit(&TenantId::from("other"), Some(&key("key_2"))).await;
            assert_eq!(other.refused, None, "another tenant");
            let sibling = quotas.admit(&tenant, Some(&key("key_3"))).await;
            assert_eq!(sibling.refused.is_some(), !is_of_key, "another key of the tenant");
            clock.set(Timestamp::from_micros(NOON + resets_after - 1));
            assert!(quotas.admit(&tenant, Some(&actor)).await.refused.is_some());
            clock.set(Timestamp::from_micros(NOON + resets_after));
            assert_eq!(quotas.admit(&tenant, Some(&actor)).await.refused, None, "a new window");
            assert!(!quotas.is_spent(&users).await);
        }
    }
}

/// Requests are counted when they are admitted; refused ones and those that started nothing are
/// not.
#[tokio::test]
async fn requests_are_counted_once() {
    let clock = clock();
    let quotas = Quotas::new(requests(2), Arc::clone(&clock), None);
    let tenant = TenantId::from("acme");
    let answer = quotas.admit(&tenant, None).await;
    assert_eq!(answer.quotas[0].remaining, 1, "this request is counted");
    quotas.take_back(&tenant, None);
    assert!(is_admitted(&quotas, "acme").await);
    assert!(is_admitted(&quotas, "acme").await);
    for _ in 0..5 {
        assert!(!is_admitted(&quotas, "acme").await);
    }
    quotas.take_back(&tenant, None);
    assert!(is_admitted(&quotas, "acme").await, "refused requests do not count");
    clock.set(Timestamp::from_micros(NOON + 30 * SECOND));
    assert!(is_admitted(&quotas, "acme").await, "a new minute");
}

/// A tenant that is named has its own quota, and what it does not name is as for all.
#[tokio::test]
async fn a_named_tenant_has_its_own_quota() {
    let own = Quota { requests_per_minute: Some(2), ..Quota::default() };
    let usual =
        Quota { requests_per_minute: Some(1), tool_calls_per_day: Some(1), ..Quota::default() };
    let options =
        QuotaOptions { tenants: [(TenantId::from("acme"), own)].into(), ..per_tenant(usual) };
    let quotas = Quotas::new(options, clock(), None);
    assert!(is_admitted(&quotas, "other").await && !is_admitted(&quotas, "other").await);
    assert!(is_admitted(&quotas, "acme").await);
    let tenant = TenantId::from("acme");
    quotas.count(&QuotaSubjects::new(&tenant, None), &called());
    let refused = quotas.admit(&tenant, None).await.refused.expect("one call is allowed");
    assert_eq!(refused.measure, Measure::ToolCallsPerDay);
}

/// A budget is nearly spent at the share of the settings, and not before.
#[tokio::test]
async fn a_budget_warns_before_it_ends() {
    let quota = Quota { cost_nanos_per_month: Some(100), ..Quota::default() };
    let quotas = Quotas::new(per_tenant(quota), clock(), None);
    let tenant = TenantId::from("acme");
    for (cost, is_nearly) in [(79, false), (1, true)] {
        quotas.count(&QuotaSubjects::new(&tenant, None), &used(0, cost));
        let answer = quotas.admit(&tenant, None).await;
        assert_eq!((answer.refused, answer.quotas[0].is_nearly_spent), (None, is_nearly));
    }
}

/// A process that has just started knows what others used before it admits anything.
#[tokio::test]
async fn a_new_process_reads_first() {
    let (shared, clock) = (Arc::new(Shared::default()), clock());
    let node = || Quotas::new(requests(3), Arc::clone(&clock), Some(shared.clone()));
    let first = node();
    for _ in 0..3 {
        assert!(is_admitted(&first, "acme").await);
    }
    first.exchange().await.unwrap();
    assert!(!is_admitted(&node(), "acme").await);
    assert!(is_admitted(&node(), "other").await);
}

/// A process that takes a run over knows before its first turn that others used up the budget.
#[tokio::test]
async fn a_new_process_reads_a_budget_first() {
    let (shared, clock) = (Arc::new(Shared::default()), clock());
    let quota = Quota { cost_nanos_per_month: Some(10), ..Quota::default() };
    let options = per_tenant(quota);
    let node = || Quotas::new(options.clone(), Arc::clone(&clock), Some(shared.clone()));
    let users = QuotaSubjects::new(&TenantId::from("acme"), None);
    let first = node();
    first.count(&users, &used(0, 10));
    first.exchange().await.unwrap();
    assert!(node().is_spent(&users).await);
    assert!(!node().is_spent(&QuotaSubjects::new(&TenantId::from("other"), None)).await);
}

/// A clock that was an hour ahead and is set right leaves no window that lasts for an hour; one
/// that is set back by seconds does not bring the last minute back.
#[tokio::test]
async fn a_clock_that_is_set_back_freezes_no_window() {
    let clock = clock();
    let quotas = Quotas::new(requests(1), Arc::clone(&clock), None);
    let set = |seconds: i64| clock.set(Timestamp::from_micros(NOON + seconds * SECOND));
    set(3_600);
    assert!(is_admitted(&quotas, "acme").await);
    // Two seconds before that minute.
    set(3_568);
    assert!(!is_admitted(&quotas, "acme").await);
    set(0);
    assert!(is_admitted(&quotas, "acme").await, "the minute of the right clock");
    assert!(!is_admitted(&quotas, "acme").await);
    set(30);
    assert!(is_admitted(&quotas, "acme").await, "the next one");
}

/// A store that is away stops nobody: each process goes on with what it knows, and a write whose
/// answer was lost counts nothing twice.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_stops_nobody() {
    let (shared, clock) = (Arc::new(Shared::default()), clock());
    let node = || Quotas::new(requests(4), Arc::clone(&clock), Some(shared.clone()));
    let (one, other) = (node(), node());
    assert!(is_admitted(&one, "acme").await);
    shared.is_away.store(true, Ordering::Relaxed);
    one.exchange().await.unwrap_err();
    assert!(is_admitted(&one, "acme").await, "by what it knows");
    assert!(is_admitted(&other, "acme").await, "which is nothing");
    shared.is_away.store(false, Ordering::Relaxed);
    shared.loses_answers.store(true, Ordering::Relaxed);
    one.exchange().await.unwrap_err();
    one.exchange().await.unwrap_err();
    shared.loses_answers.store(false, Ordering::Relaxed);
    one.exchange().await.unwrap();
    other.exchange().await.unwrap();
    one.exchange().await.unwrap();
    // Three of four were used.
    assert!(is_admitted(&one, "acme").await);
    assert!(!is_admitted(&one, "acme").await, "no more than what both used is counted");
}

/// While the store is away, requests do not wait for it one after the other.
#[tokio::test]
async fn a_store_that_is_away_is_not_asked_by_every_request() {
    let (shared, clock) = (Arc::new(Shared::default()), clock());
    let quotas = Quotas::new(requests(100), Arc::clone(&clock), Some(shared.clone()));
    shared.is_away.store(true, Ordering::Relaxed);
    assert!(is_admitted(&quotas, "acme").await);
    shared.is_away.store(false, Ordering::Relaxed);
    for _ in 0..10 {
        assert!(is_admitted(&quotas, "acme").await);
    }
    assert_eq!(shared.n_reads.load(Ordering::Relaxed), 0);
}

/// Windows that ended and subjects that only asked are forgotten.
#[tokio::test]
async fn old_counters_are_forgotten() {
    let (shared, clock) = (Arc::new(Shared::default()), clock());
    let quotas = Quotas::new(requests(1), Arc::clone(&clock), Some(shared.clone()));
    for n in 0..100 {
        assert!(is_admitted(&quotas, &format!("tenant_{n}")).await);
    }
    quotas.exchange().await.unwrap();
    assert_eq!(lock(&quotas.counters).len(), 100);
    clock.set(Timestamp::from_micros(NOON + 60 * SECOND));
    quotas.exchange().await.unwrap();
    assert_eq!(lock(&quotas.counters).len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Three processes, whatever the order of their requests and exchanges: each admits exactly
    /// while its own requests, and those of others that it has read, are fewer than the limit. So
    /// all together admit at most the limit and what was not read yet.
    #[test]
    fn several_processes_exceed_a_limit_only_by_what_they_have_not_read(
        steps in prop::collection::vec((0_usize..3, prop::bool::weighted(0.2)), 1..200),
        limit in 1_u64..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (shared, clock) = (Arc::new(Shared::default()), clock());
            let nodes: Vec<Quotas> = (0..3)
                .map(|_| Quotas::new(requests(limit), Arc::clone(&clock), Some(shared.clone())))
                .collect();
            let (mut own, mut stored, mut read) = ([0_u64; 3], [0_u64; 3], [None; 3]);
            for (node, exchanges) in steps {
                let of_others = |stored: [u64; 3]| stored.iter().sum::<u64>() - stored[node];
                if exchanges {
                    nodes[node].exchange().await.unwrap();
                    if own[node] > 0 || read[node].is_some() {
                        stored[node] = own[node];
                        read[node] = Some(of_others(stored));
                    }
                    continue;
                }
                // The first request reads what is there.
                let known = *read[node].get_or_insert(of_others(stored));
                let is_allowed = own[node] + known < limit;
                prop_assert_eq!(is_admitted(&nodes[node], "acme").await, is_allowed);
                if is_allowed {
                    own[node] += 1;
                    let unread = of_others(own) - known;
                    prop_assert!(own.iter().sum::<u64>() <= limit + unread);
                }
            }
            Ok(())
        })?;
    }
}

/// Runs at once are exact within a process, include those of others when they were last counted,
/// and end with their slots.
#[tokio::test(start_paused = true)]
async fn runs_at_once_are_limited() {
    let quota = |max| Quota { runs_at_once: Some(max), ..Quota::default() };
    let options =
        QuotaOptions { per_tenant: quota(3), per_key: quota(2), ..QuotaOptions::default() };
    let clock = Arc::new(ClockAndIds::by_hand(Timestamp::from_micros(NOON)));
    let shared = Arc::new(Shared::default());
    let quotas = Quotas::new(options, Arc::clone(&clock), Some(shared.clone()));
    let tenant = TenantId::from("acme");
    let key = |id: &str| Actor { key_id: Some(id.to_owned()), ..Actor::default() };
    let (one, two) = (key("key_1"), key("key_2"));
    let hold = async |actor: &Actor| quotas.hold_run(&tenant, Some(actor)).await;
    let (first, second) = (hold(&one).await.unwrap(), hold(&one).await.unwrap());
    let refused = hold(&one).await.unwrap_err();
    assert!(refused.is_of_key && refused.measure == Measure::RunsAtOnce, "{refused:?}");
    let third = hold(&two).await.unwrap();
    assert!(!hold(&two).await.unwrap_err().is_of_key, "three of the tenant");
    drop(first);
    let fourth = hold(&two).await.unwrap();
    drop((second, third, fourth));
    shared.runs_of_others.store(2, Ordering::Relaxed);
    clock.set(Timestamp::from_micros(NOON + 10 * SECOND));
    assert!(hold(&one).await.unwrap_err().is_of_key, "others have two of the key");
    shared.is_away.store(true, Ordering::Relaxed);
    clock.set(Timestamp::from_micros(NOON + 20 * SECOND));
    assert!(hold(&one).await.is_err(), "what is known counts while the store is away");
    shared.is_away.store(false, Ordering::Relaxed);
    shared.runs_of_others.store(0, Ordering::Relaxed);
    quotas.exchange().await.unwrap();
    let place = hold(&one).await.unwrap();
    let report = quotas.report(&tenant, Some(&one)).await;
    let used: Vec<_> = report.iter().map(|status| (status.max, status.used)).collect();
    assert_eq!(used, [(3, 1), (2, 1)]);
    drop(place);
    clock.set(Timestamp::from_micros(NOON + 60 * SECOND));
    quotas.exchange().await.unwrap();
    assert_eq!(quotas.running.len(), 0, "nobody is remembered for ever");
}
