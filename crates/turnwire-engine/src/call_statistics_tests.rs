use super::*;

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn tenant() -> TenantId {
    TenantId::from("t")
}

fn start() -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000)
}

fn note(statistics: &CallStatistics, tool: &str, end: CallEnd, ms: u64, now: Timestamp) {
    statistics.note((&tenant(), "ci", tool), end, millis(ms), now);
}

/// Calls are counted per half hour; a cancelled call is one, without a duration.
#[test]
fn calls_are_counted_with_their_ends_and_durations() {
    let statistics = CallStatistics::default();
    for ms in 1..=99 {
        note(&statistics, "look", CallEnd::Succeeded, ms, start());
    }
    let later = start().later(PERIOD);
    note(&statistics, "fix", CallEnd::Failed, 1_000, later);
    note(&statistics, "fix", CallEnd::Cancelled, 90_000, later);
    let calls = statistics.calls(&tenant(), "ci", later);
    assert_eq!((calls.n_calls, calls.n_failed), (101, 1));
    assert_eq!((calls.median, calls.p95), (Some(millis(50)), Some(millis(95))));
    let period = |start, n_calls, n_failed, mean| CallPeriod {
        start,
        n_calls,
        n_failed,
        mean: Some(millis(mean)),
    };
    assert_eq!(calls.periods, [period(start(), 99, 0, 50), period(later, 2, 1, 1_000)]);
    let tools = [("fix".to_owned(), millis(1_000)), ("look".to_owned(), millis(83))];
    assert_eq!(calls.tools, BTreeMap::from(tools), "of the last 32 calls of a tool");
}

/// What is older than a day no longer counts, also if nothing was called since.
#[test]
fn a_day_is_kept() {
    let statistics = CallStatistics::default();
    note(&statistics, "look", CallEnd::Failed, 5, start());
    let late = start().later(PERIOD * 47);
    assert_eq!(statistics.calls(&tenant(), "ci", late).n_failed, 1);
    let later = start().later(PERIOD * 48);
    assert_eq!(statistics.calls(&tenant(), "ci", later), ServerCalls::default());
    note(&statistics, "look", CallEnd::Succeeded, 7, later);
    let calls = statistics.calls(&tenant(), "ci", later);
    assert_eq!((calls.n_calls, calls.n_failed, calls.median), (1, 0, Some(millis(7))));
}

/// Tenants and servers do not see the calls of one another.
#[test]
fn each_tenant_has_its_own_calls() {
    let statistics = CallStatistics::default();
    note(&statistics, "look", CallEnd::Succeeded, 5, start());
    let others = statistics.calls(&TenantId::from("other"), "ci", start());
    assert_eq!(others, ServerCalls::default());
    assert_eq!(statistics.calls(&tenant(), "git", start()), ServerCalls::default());
}

/// However much is called, a server costs a few kilobytes, and there are so many servers.
#[test]
fn memory_is_bounded() {
    let statistics = CallStatistics::default();
    for n in 0..2_000 {
        note(&statistics, &format!("tool {n}"), CallEnd::Succeeded, 1, start());
    }
    for n in 0..2 * u32::try_from(MAX_SERVERS).unwrap() {
        let now = start().later(Duration::from_secs(n.into()));
        statistics.note((&tenant(), &format!("s{n}"), "x"), CallEnd::Failed, millis(1), now);
    }
    let servers = lock(&statistics.0);
    assert_eq!(servers.len(), MAX_SERVERS);
    assert!(servers.contains_key(&(tenant(), format!("s{}", 2 * MAX_SERVERS - 1))));
    assert!(!servers.contains_key(&(tenant(), "ci".to_owned())), "the oldest gives way");
    drop(servers);
    let one = CallStatistics::default();
    for n in 0..2_000 {
        note(&one, &format!("tool {n}"), CallEnd::Succeeded, 1, start());
    }
    let servers = lock(&one.0);
    let counters = servers.get(&(tenant(), "ci".to_owned())).unwrap();
    assert_eq!((counters.durations.len(), counters.tools.len()), (MAX_DURATIONS, MAX_TOOLS));
}
