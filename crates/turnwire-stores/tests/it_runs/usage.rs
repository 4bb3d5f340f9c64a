//! Counters of use: the sum of all nodes, and nothing for ever.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{slice, sync::Arc};

use turnwire_contract::{
    Actor, Event, Item, NewRun, RecordedEvent, RunId, RunOutcome, RunRecords, RunRequest, Seq,
    TenantId, Timestamp, UsageAmounts, UsageCount, UsageCounters, UsageSpan, UsageSubject,
    UsageWindow,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services::redis_url;

use crate::support::Backend;

const MINUTE: i64 = 60_000_000;

fn amounts(n: u64) -> UsageAmounts {
    UsageAmounts { requests: n, tokens: 10 * n, tool_calls: 100 * n, cost_nanos: 1_000 * n }
}

fn subject(tenant: &str, holder: Option<&str>) -> UsageSubject {
    UsageSubject { tenant: TenantId::from(tenant), holder: holder.map(str::to_owned) }
}

fn window(start: i64) -> UsageWindow {
    UsageSpan::Minute.window(Timestamp::from_micros(start))
}

fn count(subject: &UsageSubject, window: UsageWindow, n: u64) -> UsageCount {
    UsageCount { subject: subject.clone(), window, amounts: amounts(n) }
}

/// What a node sets replaces what it set before, what is read is the sum of all nodes, and
/// subjects and windows are kept apart.
#[tokio::test]
async fn nodes_add_up() {
    for backend in Backend::both() {
        let stores = backend.stores(2).await;
        let [one, two] = stores.as_slice() else { unreachable!() };
        add_up(one, two).await;
    }
}

async fn add_up(one: &Store, two: &Store) {
    let now = 4_000_000_000_000_000;
    let (acme, key) = (subject("acme", None), subject("acme", Some("key_1")));
    let (this, next) = (window(now), window(now + MINUTE));
    one.set_usage("a", &[count(&acme, this, 1), count(&key, this, 2)]).await.unwrap();
    one.set_usage("a", &[count(&acme, this, 3)]).await.unwrap();
    two.set_usage("b", &[count(&acme, this, 5), count(&acme, next, 7)]).await.unwrap();
    // The same again, as after an answer that was lost.
    two.set_usage("b", &[count(&acme, this, 5)]).await.unwrap();
    let wanted =
        [(acme.clone(), next), (subject("other", None), this), (key, this), (acme.clone(), this)];
    let found = one.usage_of(&wanted).await.unwrap();
    assert_eq!(found, [amounts(7), amounts(0), amounts(2), amounts(8)]);
    let holders = async |tenant: &str, at: i64, limit: usize| {
        let (tenant, at) = (TenantId::from(tenant), Timestamp::from_micros(at));
        two.holders_of(&tenant, at, limit).await.unwrap()
    };
    for name in ["key_12", "key_0", "key_2", "key_", "key_10", "key_11"] {
        one.set_usage("a", &[count(&subject("acme", Some(name)), this, 2)]).await.unwrap();
    }
    let by_name = ["key_", "key_0", "key_1", "key_10", "key_11", "key_12", "key_2"];
    assert_eq!(holders("acme", now, 9).await, by_name);
    for limit in 0..by_name.len() {
        assert_eq!(
            holders("acme", now, limit).await,
            *by_name.get(..limit).unwrap(),
            "the first {limit}"
        );
    }
    assert!(holders("acme", now + MINUTE, 9).await.is_empty(), "their window is over");
    assert!(holders("other", now, 9).await.is_empty());
    let many: Vec<UsageCount> =
        (0..1_200).map(|n| count(&subject(&format!("t{n}"), None), this, 1 + n)).collect();
    one.set_usage("a", &many).await.unwrap();
    let wanted: Vec<_> = many.iter().map(|count| (count.subject.clone(), this)).collect();
    let found = two.usage_of(&wanted).await.unwrap();
    let expected: Vec<UsageAmounts> = many.iter().map(|count| count.amounts).collect();
    assert_eq!(found, expected, "in their order");
    // More than a database can add up is less, for its subject alone.
    let most = UsageAmounts { cost_nanos: u64::MAX, ..amounts(1) };
    let whale = subject("whale", None);
    let whales = UsageCount { subject: whale.clone(), window: this, amounts: most };
    for node in ["a", "b", "c"] {
        one.set_usage(node, slice::from_ref(&whales)).await.unwrap();
    }
    let found = one.usage_of(&[(whale, this)]).await.unwrap();
    assert!(found.first().unwrap().cost_nanos > u64::try_from(i64::MAX / 1_000).unwrap());
    assert_eq!(one.usage_of(&[]).await.unwrap(), []);
    one.set_usage("a", &[]).await.unwrap();
}

/// With Redis, minutes are counted there alone, and leave by themselves; days stay in the database.
/// What others write into Redis is not counted.
#[tokio::test]
async fn minutes_are_counted_in_redis() {
    let backend = Backend::postgres();
    let with_redis = |options: &mut StoreOptions| options.fanout = Some(redis_url());
    let (one, two) = (backend.store_with(with_redis).await, backend.store_with(with_redis).await);
    add_up(&one, &two).await;
    let rows = "select cast(count(*) as text) from usage_counters";
    assert_eq!(backend.ask(rows).await, ["0"]);

    let now = Timestamp::from_micros(4_000_000_000_000_000);
    let tenant = format!("acme {}:", uuid::Uuid::new_v4());
    let acme = subject(&tenant, None);
    let (minute, day) = (UsageSpan::Minute.window(now), UsageSpan::Day.window(now));
    one.set_usage("a", &[count(&acme, day, 1), count(&acme, minute, 2)]).await.unwrap();
    two.set_usage("b", &[count(&acme, minute, 3), count(&acme, day, 4)]).await.unwrap();
    assert_eq!(backend.ask(rows).await, ["2"]);
    let mut redis = redis::Client::open(redis_url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("*{tenant}*")).query(&mut redis).unwrap();
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    let expires: i64 = redis::cmd("PEXPIRETIME").arg(key).query(&mut redis).unwrap();
    assert_eq!(expires, (minute.ends_at.as_micros() + 60 * MINUTE) / 1_000);
    let copied: Vec<u8> = redis::cmd("HGET").arg(key).arg("a").query(&mut redis).unwrap();
    for (node, forged) in [("c", copied), ("d", b"9 9 9 9".to_vec()), ("e", Vec::new())] {
        let () = redis::cmd("HSET").arg(key).arg(node).arg(forged).query(&mut redis).unwrap();
    }
    let found = one.usage_of(&[(acme.clone(), minute), (acme, day)]).await.unwrap();
    assert_eq!(found, [amounts(5), amounts(5)]);
}

/// A Redis that answers and takes nothing is not asked for counts either.
#[tokio::test]
async fn minutes_are_counted_without_rights_to_write() {
    let mut redis = redis::Client::open(redis_url()).unwrap().get_connection().unwrap();
    let user = format!("reader-{}", uuid::Uuid::new_v4());
    let rules = ["on", ">secret", "allkeys", "allchannels", "+@all", "-hset"];
    let () = redis::cmd("ACL").arg("SETUSER").arg(&user).arg(&rules).query(&mut redis).unwrap();
    let backend = Backend::postgres();
    let url = redis_url().replace("redis://", &format!("redis://{user}:secret@"));
    let refused = |options: &mut StoreOptions| options.fanout = Some(url.clone());
    let (one, two) = (backend.store_with(refused).await, backend.store_with(refused).await);
    add_up(&one, &two).await;
    let rows = "select cast(count(*) > 0 as text) from usage_counters";
    assert_eq!(backend.ask(rows).await, ["true"]);
    let () = redis::cmd("ACL").arg("DELUSER").arg(&user).query(&mut redis).unwrap();
}

/// While Redis is away, minutes are counted in the database.
#[tokio::test]
async fn minutes_are_counted_without_redis() {
    let backend = Backend::postgres();
    let nowhere = |options: &mut StoreOptions| options.fanout = Some("redis://127.0.0.1:9/".into());
    let (one, two) = (backend.store_with(nowhere).await, backend.store_with(nowhere).await);
    add_up(&one, &two).await;
}

/// Retention deletes windows that ended more than a day ago, all of them, and no others.
#[tokio::test]
async fn old_windows_are_deleted() {
    for backend in Backend::both() {
        let store = backend.store().await;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_micros()).unwrap();
        let day = 24 * 60 * MINUTE;
        let acme = subject("acme", None);
        let old: Vec<UsageCount> = (0..1_500)
            .map(|n| count(&subject(&format!("t{n}"), None), window(now - day - 2 * MINUTE), 1))
            .collect();
        store.set_usage("a", &old).await.unwrap();
        let month = UsageSpan::Month.window(Timestamp::from_micros(now));
        let kept = [window(now), window(now - day + 10 * MINUTE), month];
        let counts: Vec<UsageCount> = kept.iter().map(|kept| count(&acme, *kept, 2)).collect();
        store.set_usage("a", &counts).await.unwrap();
        store.forget_old_runs().await.unwrap();
        let left = backend.ask("select cast(count(*) as text) from usage_counters").await;
        assert_eq!(left, ["3"]);
        let wanted = kept.map(|kept| (acme.clone(), kept));
        assert_eq!(store.usage_of(&wanted).await.unwrap(), [amounts(2); 3]);
    }
}

/// Active runs are counted by tenant and by holder, whoever executes them but the one who asks;
/// ended ones are not.
#[tokio::test]
async fn runs_of_others_are_counted() {
    for backend in Backend::both() {
        let stores = backend.stores(2).await;
        let [one, two] = stores.as_slice() else { unreachable!() };
        let begin = async |id: &str, tenant: &str, key: Option<&str>| {
            let mut request = RunRequest::new("m", vec![Item::user("?")]);
            request.tenant = TenantId::from(tenant);
            request.asked_by =
                key.map(|key| Arc::new(Actor { key_id: Some(key.to_owned()), ..Actor::default() }));
            let (run_id, request, at) =
                (RunId::new(id), Arc::new(request), Timestamp::from_micros(1));
            let event = Event::RunQueued { request: Arc::clone(&request) };
            let first = RecordedEvent { run_id: run_id.clone(), seq: Seq::START.next(), at, event };
            // With the first events it is written in a batch, without them in a transaction.
            let first_events = if id.ends_with('b') { vec![Arc::new(first)] } else { Vec::new() };
            let run = NewRun { first_events, ..NewRun::new(run_id, at, request) };
            one.create(run).await.unwrap();
        };
        begin("run_1b", "acme", Some("key_1")).await;
        begin("run_2", "acme", Some("key_1")).await;
        begin("run_3b", "acme", Some("key_2")).await;
        begin("run_4", "acme", None).await;
        begin("run_5b", "other", Some("key_1")).await;
        let wanted = [
            subject("acme", None),
            subject("acme", Some("key_1")),
            subject("acme", Some("key_2")),
            subject("other", None),
            subject("nobody", None),
        ];
        assert_eq!(two.runs_of_others(&wanted).await.unwrap(), [4, 2, 1, 1, 0]);
        assert_eq!(one.runs_of_others(&wanted).await.unwrap(), [0; 5], "they are its own");
        one.finish(&RunId::new("run_2"), RunOutcome::Completed, Vec::new()).await.unwrap();
        assert_eq!(two.runs_of_others(&wanted).await.unwrap(), [3, 1, 1, 1, 0]);
        for store in &stores {
            store.close().await;
        }
    }
}
