//! Many at once, over several workers on one PostgreSQL.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use turnwire_contract::{Created, Entries, NewRun, RequestKey, RunOutcome, RunRecords, StoreError};
use turnwire_stores::Store;

use crate::support::{Backend, run, run_in, tenant};

/// How soon.
const AGAIN: Duration = Duration::from_millis(50);

/// Hundreds wait for a few connections, which takes longer than a worker has patience for when
/// the machine is busy. Whoever is told so comes again, as clients do.
async fn insist(store: &Store, run: NewRun) -> Result<Created, StoreError> {
    loop {
        match store.create(run.clone()).await {
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(AGAIN).await,
            came_of_it => return came_of_it,
        }
    }
}

/// C8: of many runs that begin in one conversation at once, on several nodes, one does.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_has_one_winner() {
    let backend = Backend::postgres();
    let stores = backend.stores(3).await;
    for round in 0..50 {
        let tries = (0..64).zip(stores.iter().cycle()).map(|(n, store)| {
            let made = run_in(&format!("run_{round}_{n}"), "conv_1");
            async move { (made.run_id.clone(), insist(store, made).await) }
        });
        let came_of_it = join_all(tries).await;
        let won: Vec<_> = came_of_it.iter().filter(|(_, created)| created.is_ok()).collect();
        let [(winner, _)] = won.as_slice() else { panic!("round {round}: {won:?}") };
        for (_, lost) in came_of_it.iter().filter(|(id, _)| id != winner) {
            assert!(
                matches!(lost, Err(StoreError::Busy { run_id, .. }) if run_id == winner),
                "round {round}: {lost:?}"
            );
        }
        stores[0].finish(winner, RunOutcome::Completed, Vec::new()).await.unwrap();
    }
}

/// C9: 1,000 posts, three of ten sent again, over several nodes: one run for each key.
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_as_many_as_keys() {
    let backend = Backend::postgres();
    let stores = backend.stores(3).await;
    let keys: Vec<String> = (0..1_000).map(|n| format!("key_{}", n % 700)).collect();
    let posts = keys.iter().zip(stores.iter().cycle()).enumerate().map(|(n, (key, store))| {
        let key = RequestKey {
            endpoint: "/v1/responses".to_owned(),
            key: key.clone(),
            fingerprint: format!("of {key}"),
        };
        let made = NewRun { key: Some(key), ..run(&format!("run_{n}"), |_| {}) };
        async move { (made.run_id.clone(), insist(store, made).await.unwrap()) }
    });
    let posted = join_all(posts).await;
    let new = posted.iter().filter(|(_, created)| *created == Created::New).count();
    let runs: BTreeSet<_> = posted
        .into_iter()
        .map(|(own, created)| match created {
            Created::New | Created::Begun => own,
            Created::Existing(before) => before,
        })
        .collect();
    let kept = stores[0].list(&tenant(), usize::MAX).await.unwrap();
    assert_eq!((new, runs.len(), kept.len()), (700, 700, 700));
    let kept: BTreeSet<_> = kept.into_iter().map(|run| run.run_id).collect();
    assert_eq!(runs, kept, "each finds a run that is there");
}

/// C7: a conversation that people change while runs begin and end in it keeps its order, and
/// every run has seen all that stood there when it began.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_has_seen_is_a_prefix_of_its_conversation() {
    let backend = Backend::postgres();
    let stores = backend.stores(3).await;
    let id = "conv_1".into();
    let person = async {
        for n in 0..100 {
            let said = crate::support::entries(&[&format!("person_{n}_a"), &format!("{n}_b")]);
            match stores[0].add_entries(&tenant(), &id, said).await {
                Ok(()) | Err(StoreError::Busy { .. } | StoreError::NotFound(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    };
    let runs = async {
        for n in 0..40 {
            let made = run_in(&format!("run_{n}"), "conv_1");
            stores[1].create(made.clone()).await.unwrap();
            let said = crate::support::entries(&[&format!("run_{n}")]);
            stores[2].finish(&made.run_id, RunOutcome::Completed, said).await.unwrap();
        }
    };
    tokio::join!(person, runs);
    let history = stores[0].history(&tenant(), &id).await.unwrap();
    for n in 0..40 {
        let name = format!("run_{n}");
        let seen = stores[0].context(&tenant(), &name.as_str().into()).await.unwrap();
        assert_eq!(seen.last().unwrap().id.as_str(), format!("msg_{name}"));
        assert_eq!(seen, history[..seen.len()], "{name}");
    }
}
