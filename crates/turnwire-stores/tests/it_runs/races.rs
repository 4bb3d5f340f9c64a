//! Many at once, over several workers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
use turnwire_contract::{
    Created, Entries, Event, IdempotencyKey, Journal, NewRun, RecordedEvent, RunEnd, RunId,
    RunOutcome, RunRecords, Seq, StoreError, Timestamp, Usage,
};
use turnwire_stores::Store;

use crate::support::{Backend, entries, run, run_in, tenant};

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
        let key = IdempotencyKey {
            endpoint: "/v1/responses".to_owned(),
            key: key.clone(),
            fingerprint: format!("of {key}"),
        };
        let made = NewRun { idempotency_key: Some(key), ..run(&format!("run_{n}"), |_| {}) };
        async move { (made.run_id.clone(), insist(store, made).await.unwrap()) }
    });
    let posted = join_all(posts).await;
    let new = posted.iter().filter(|(_, created)| *created == Created::RowOnly).count();
    let runs: BTreeSet<_> = posted
        .into_iter()
        .map(|(own, created)| match created {
            Created::RowOnly | Created::WithEvents => own,
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

/// C3, C16: of runs that end at the same time, one that another worker has taken over does not end
/// and adds nothing to its conversation, and the others do.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_run_does_not_end_with_others() {
    for backend in Backend::all() {
        let one = backend.store().await;
        let ids: Vec<String> = (10..30).map(|n| format!("run_{n}")).collect();
        let recorded = |run_id: &str, seq, event| {
            let (run_id, at) = (RunId::from(run_id), Timestamp::from_micros(1));
            vec![Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })]
        };
        for id in &ids {
            one.create(run_in(id, &format!("conv_{id}"))).await.unwrap();
            one.append(&tenant(), recorded(id, 1, Event::RunStarted)).await.unwrap();
            // From here on the end changes nothing that lists say about the run.
            one.append(&tenant(), recorded(id, 2, Event::TurnStarted { turn: 1 })).await.unwrap();
        }
        // Nobody is told about this row, so that the database has to refuse what comes next.
        let theirs = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
                      values ('t', 'run_17', 3, 3, 1, 'event', '[]') returning run_id";
        assert_eq!(backend.ask(theirs).await, ["run_17"]);
        let (tenant, outcome) = (tenant(), RunOutcome::Completed);
        let end = |id: &String| {
            let end = Event::RunFinished { outcome: outcome.clone(), usage: Usage::default() };
            let run_end = RunEnd { outcome: outcome.clone(), entries: entries(&[id]) };
            one.append_end(&tenant, recorded(id, 3, end), run_end)
        };
        for (id, ended) in ids.iter().zip(join_all(ids.iter().map(end)).await) {
            assert_eq!(ended.is_ok(), id != "run_17", "{id}: {ended:?}");
        }
        assert_eq!(backend.ask("select id from runs where state = 'active'").await, ["run_17"]);
        let expected: Vec<&String> = ids.iter().filter(|id| *id != "run_17").collect();
        let added = "select run_id from entries where id like 'msg_run%' order by run_id";
        assert_eq!(backend.ask(added).await.iter().collect::<Vec<_>>(), expected);
    }
}
