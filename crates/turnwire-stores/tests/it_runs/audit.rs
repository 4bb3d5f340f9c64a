//! The audit log shows what was done to it.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use turnwire_contract::{
    Actor, ApiKey, ApiKeys, AuditAction, AuditLog, AuditQuery, AuditRecord, Scope, TenantId,
    Timestamp,
};

use crate::support::Backend;

fn record(tenant: &str, action: AuditAction, object: &str, at: i64) -> AuditRecord {
    AuditRecord {
        at: Timestamp::from_micros(at),
        tenant: TenantId::from(tenant),
        actor: Some(Arc::new(Actor { key_id: Some("key_1".to_owned()), ..Actor::default() })),
        action,
        object: object.to_owned(),
        detail: None,
        content: Some("00".to_owned()),
    }
}

/// Every single edit, deletion, reordering and insertion is found, and nothing where there is none.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_changed_shows() {
    for backend in Backend::all() {
        let stores = backend.stores(2).await;
        for (n, store) in stores.iter().enumerate() {
            for seq in 0..6 {
                let at = 100 * i64::try_from(n).unwrap() + seq;
                let object = format!("run_{n}_{seq}");
                store
                    .append(vec![record("a", AuditAction::RunStarted, &object, at)])
                    .await
                    .unwrap();
            }
        }
        let store = &stores[0];
        let report = store.verify(&[]).await.unwrap();
        assert_eq!((report.n_chains, report.n_entries), (2, 12), "{report:?}");
        assert_eq!(report.faults, []);
        for table in ["audit_entries", "audit_chains"] {
            let copy = format!("create table copy_of_{table} as select * from {table}");
            backend.ask(&copy).await;
        }
        let edits = [
            ("audit_entries", "seq = seq + 100"),
            ("audit_entries", "at = at + 1"),
            ("audit_entries", "tenant = 'b'"),
            ("audit_entries", "action = 'run.deleted'"),
            ("audit_entries", "object = 'run_other'"),
            ("audit_entries", "record = replace(record, 'key_1', 'key_2')"),
            ("audit_entries", "hash = replace(hash, substr(hash, 1, 1), 'x')"),
            ("audit_entries", "chain = 'another'"),
            ("audit_chains", "first_seq = first_seq + 1"),
            ("audit_chains", "start = hash"),
            ("audit_chains", "last_seq = last_seq - 1"),
            ("audit_chains", "last_seq = last_seq + 1"),
            ("audit_chains", "hash = start"),
            ("audit_chains", "chain = 'another'"),
        ];
        let mut tampers: Vec<String> = Vec::new();
        let chains = backend.ask("select chain from audit_chains").await;
        for chain in &chains {
            for (table, edit) in edits {
                let seqs = if table == "audit_entries" { 1..=6 } else { 1..=1 };
                for seq in seqs {
                    let row = if table == "audit_entries" {
                        format!(" and seq = {seq}")
                    } else {
                        String::new()
                    };
                    tampers.push(format!("update {table} set {edit} where chain = '{chain}'{row}"));
                }
            }
            for seq in 1..=6 {
                tampers.push(format!(
                    "delete from audit_entries where chain = '{chain}' and seq = {seq}"
                ));
                // The record of another entry in its place.
                let other = seq % 6 + 1;
                tampers.push(format!(
                    "update audit_entries set record = (select c.record from copy_of_audit_entries c
                         where c.chain = '{chain}' and c.seq = {other}),
                     at = (select c.at from copy_of_audit_entries c where c.chain = '{chain}' and c.seq = {other}),
                     object = (select c.object from copy_of_audit_entries c where c.chain = '{chain}' and c.seq = {other})
                     where chain = '{chain}' and seq = {seq}"
                ));
            }
            tampers.push(format!("delete from audit_chains where chain = '{chain}'"));
            tampers.push(format!("delete from audit_entries where chain = '{chain}'"));
            tampers.push(format!(
                "insert into audit_entries select chain, 7, at, tenant, action, object, record, hash
                 from audit_entries where chain = '{chain}' and seq = 6"
            ));
        }
        for tamper in &tampers {
            backend.ask(tamper).await;
            let report = store.verify(&[]).await.unwrap();
            assert!(!report.faults.is_empty(), "not found on {}: {tamper}", backend.url);
            for table in ["audit_entries", "audit_chains"] {
                backend.ask(&format!("delete from {table}")).await;
                backend.ask(&format!("insert into {table} select * from copy_of_{table}")).await;
            }
        }
        assert_eq!(tampers.len(), 138);
        assert_eq!(store.verify(&[]).await.unwrap().faults, [], "all is as it was");
        for store in stores {
            store.close().await;
        }
    }
}

/// Records that come at the same time are all there, each once, in one chain per process; lists are
/// bounded by tenant, and pages join without a gap.
#[tokio::test(flavor = "multi_thread")]
async fn records_come_from_everywhere() {
    for backend in Backend::all() {
        let stores = backend.stores(3).await;
        let appends = (0..300).map(|n| {
            let tenant = if n % 3 == 0 { "a" } else { "b" };
            let records = vec![
                record(tenant, AuditAction::RunStarted, &format!("run_{n}"), n),
                record(tenant, AuditAction::RunCancelled, &format!("run_{n}"), n),
            ];
            stores[usize::try_from(n).unwrap() % 3].append(records)
        });
        for appended in join_all(appends).await {
            appended.unwrap();
        }
        let report = stores[0].verify(&[]).await.unwrap();
        assert_eq!((report.n_chains, report.n_entries), (3, 600), "{report:?}");
        assert_eq!(report.faults, []);
        let query = AuditQuery { tenant: Some("a".into()), limit: 7, ..AuditQuery::default() };
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let page = stores[1].list(AuditQuery { before, ..query.clone() }).await.unwrap();
            assert!(page.iter().all(|entry| entry.record.tenant == TenantId::from("a")));
            before = page.last().map(|last| (last.chain.clone(), last.seq));
            if page.is_empty() {
                break;
            }
            seen.extend(
                page.into_iter().map(|entry| (entry.record.object, entry.record.action.as_str())),
            );
        }
        assert_eq!(seen.len(), 200);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 200, "each once");
        let one = AuditQuery {
            action: Some(AuditAction::RunCancelled),
            object: Some("run_5".to_owned()),
            limit: 10,
            ..AuditQuery::default()
        };
        assert_eq!(stores[2].list(one).await.unwrap().len(), 1);
        let none =
            AuditQuery { object: Some("a\0b".to_owned()), limit: 10, ..AuditQuery::default() };
        assert_eq!(stores[2].list(none).await.unwrap(), []);
    }
}

/// Old entries go from the beginning of each chain, and the rest is still a chain.
#[tokio::test(flavor = "multi_thread")]
async fn old_entries_go_and_the_rest_holds() {
    for backend in Backend::all() {
        let day = Duration::from_hours(24);
        let store = backend.store_with(|options| options.audit_retention = Some(day)).await;
        let long_ago = record("a", AuditAction::RunStarted, "run_old", 1);
        let now = i64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros(),
        );
        let just_now = record("a", AuditAction::RunStarted, "run_new", now.unwrap());
        store.append(vec![long_ago.clone(), long_ago, just_now.clone()]).await.unwrap();
        store.forget_old_runs().await.unwrap();
        store.append(vec![just_now]).await.unwrap();
        let report = store.verify(&[]).await.unwrap();
        assert_eq!((report.n_entries, report.faults), (2, Vec::new()), "{}", backend.url);
        backend.ask("delete from audit_entries where seq = 3").await;
        assert_ne!(
            store.verify(&[]).await.unwrap().faults,
            [],
            "the first that is left is missing"
        );
    }
}

/// A key that ended goes when no entry can name it any more. One that ended later, one that is
/// valid and the newest stay: a store that had a key stays locked.
#[tokio::test(flavor = "multi_thread")]
async fn dead_keys_go_with_the_log_that_names_them() {
    let day = Duration::from_hours(24);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ago = |days: u32| {
        let at = i64::try_from(now.checked_sub(day * days).unwrap().as_micros()).unwrap();
        Timestamp::from_micros(at)
    };
    let key = |id: &str, created: u32, expires: Option<u32>| ApiKey {
        key_id: id.to_owned(),
        tenant: TenantId::from("acme"),
        project: None,
        name: id.to_owned(),
        prefix: "tw_".to_owned(),
        digest: id.to_owned(),
        scopes: [Scope::RunsRead].into(),
        created_at: ago(created),
        expires_at: expires.map(ago),
        revoked_at: None,
        last_used_at: None,
        replaced_by: None,
    };
    for backend in Backend::all() {
        let store = backend.store_with(|options| options.audit_retention = Some(day)).await;
        let names = async || {
            let keys = store.list_keys(None).await.unwrap();
            keys.into_iter().map(|key| key.key_id).collect::<Vec<_>>()
        };
        let [expired, revoked] = [key("expired", 9, Some(2)), key("revoked", 8, None)];
        for new in [expired, revoked, key("late", 7, Some(0)), key("valid", 6, None)] {
            store.create_key(new).await.unwrap();
        }
        store.revoke_key(None, "revoked", ago(2)).await.unwrap();
        store.forget_old_runs().await.unwrap();
        assert_eq!(names().await, ["late", "valid"], "{}", backend.url);
        store.create_key(key("last", 5, Some(3))).await.unwrap();
        for id in ["late", "valid"] {
            store.revoke_key(None, id, ago(2)).await.unwrap();
        }
        store.forget_old_runs().await.unwrap();
        assert_eq!(names().await, ["last"], "{}", backend.url);
        assert!(store.has_keys().await.unwrap());
    }
}

/// A log that is being written is not taken for one that was changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_use_is_verified() {
    for backend in Backend::all() {
        let stores = backend.stores(2).await;
        let (writer, checker) = (&stores[0], &stores[1]);
        let writing = async {
            for n in 0..300 {
                let object = format!("run_{n}");
                let started = record("a", AuditAction::RunStarted, &object, n);
                writer.append(vec![started]).await.unwrap();
            }
        };
        let checking = async {
            let mut n_entries = 0;
            while n_entries < 300 {
                let report = checker.verify(&[]).await.unwrap();
                assert_eq!(report.faults, [], "{}", backend.url);
                n_entries = report.n_entries;
            }
        };
        tokio::join!(writing, checking);
    }
}

/// What a caller chose as the name of something harms neither the log nor others.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_any_size_are_stored() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let mut odd = record("a", AuditAction::Changed, &"/\u{10FFFF}\0".repeat(100_000), 1);
        odd.detail = Some("x".repeat(1_000_000));
        let others = (0..20).map(|n| {
            let fine = record("b", AuditAction::RunStarted, &format!("run_{n}"), n);
            store.append(vec![if n == 10 { odd.clone() } else { fine }])
        });
        for appended in join_all(others).await {
            appended.unwrap();
        }
        let report = store.verify(&[]).await.unwrap();
        assert_eq!((report.n_entries, report.faults), (20, Vec::new()), "{}", backend.url);
        let query = AuditQuery { tenant: Some("a".into()), limit: 1, ..AuditQuery::default() };
        let [entry] = store.list(query).await.unwrap().try_into().unwrap();
        assert!(entry.record.object.len() <= 500 && entry.record.object.ends_with("bytes)"));
    }
}

/// The end of a chain that was kept elsewhere shows what the database alone cannot: that the last
/// entries, or a whole chain, were deleted together with where they end.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_kept_shows_more() {
    for backend in Backend::all() {
        let stores = backend.stores(2).await;
        for store in &stores {
            for n in 0..3 {
                store.append(vec![record("a", AuditAction::RunStarted, "run", n)]).await.unwrap();
            }
        }
        let kept = stores[0].verify(&[]).await.unwrap().ends;
        assert_eq!(kept.len(), 2);
        stores[0].append(vec![record("a", AuditAction::RunStarted, "run", 9)]).await.unwrap();
        assert_eq!(stores[0].verify(&kept).await.unwrap().faults, [], "it goes on from there");
        let [one, other] = [&kept[0].chain, &kept[1].chain];
        backend.ask(&format!("delete from audit_entries where chain = '{one}' and seq > 2")).await;
        backend
            .ask(&format!(
                "update audit_chains set last_seq = 2, hash = (select hash from audit_entries
                     where chain = '{one}' and seq = 2) where chain = '{one}'"
            ))
            .await;
        assert_eq!(stores[0].verify(&[]).await.unwrap().faults, [], "the database does not know");
        assert_eq!(stores[0].verify(&kept).await.unwrap().faults.len(), 1);
        for table in ["audit_entries", "audit_chains"] {
            backend.ask(&format!("delete from {table} where chain = '{other}'")).await;
        }
        assert_eq!(stores[0].verify(&kept).await.unwrap().faults.len(), 2, "{}", backend.url);
    }
}
