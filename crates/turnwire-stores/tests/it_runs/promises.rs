//! The promises of the ports, and what databases are peculiar about.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use turnwire_contract::{
    BlobError, BlobStore, Commands, ConversationId, ConversationRecord, Conversations, Created,
    Entries, Entry, Event, IdempotencyKey, Item, ItemId, Journal, Leases, NewRun, PinnedTool, Pins,
    RecordedEvent, RunCommand, RunId, RunOutcome, RunRecords, RunStatus, Seq, StoreError, TenantId,
    Timestamp,
};
use turnwire_testkit::{conformance, services::Postgres};

use crate::support::{Backend, entries, run, run_after, run_in, tenant};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_the_promises_of_a_run_store() {
    conformance::run_store::check(&Backend::sqlite().store().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_promises_of_a_run_store() {
    conformance::run_store::check(&Backend::postgres().store().await).await;
}

/// C7: a run is there with the first events of its journal, or not at all, whatever it has to do
/// with others.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_there_with_its_journal_or_not_at_all() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let key = IdempotencyKey {
            endpoint: "/v1/responses".to_owned(),
            key: "key".to_owned(),
            fingerprint: "of it".to_owned(),
        };
        let keyed = NewRun { idempotency_key: Some(key), ..run("run_keyed", |_| {}) };
        let informed = run("run_informed", |request| request.before = entries(&["earlier"]));
        for new in [run("run_alone", |_| {}), keyed, informed, run_in("run_in", "conv")] {
            let new = begun(new);
            assert_eq!(store.create(new.clone()).await.unwrap(), Created::WithEvents);
            let kept = store.read_stored(&tenant(), &new.run_id, Seq::START).await.unwrap();
            assert_eq!(kept, new.first_events, "{}: {}", backend.url, new.run_id);
            let next = RecordedEvent { seq: Seq(3), ..(*new.first_events[1]).clone() };
            store.append(&tenant(), vec![Arc::new(next)]).await.unwrap();
        }
        for refused in [run_in("run_second", "conv"), run("run_alone", |_| {})] {
            let refused = begun(NewRun { created_at: Timestamp::from_micros(2), ..refused });
            let error = store.create(refused).await.unwrap_err();
            assert!(matches!(error, StoreError::Busy { .. } | StoreError::Exists(_)), "{error:?}");
        }
        let journals =
            "select run_id || ':' || first_seq from run_events order by run_id, first_seq";
        let runs = ["run_alone", "run_in", "run_informed", "run_keyed"];
        let backends = runs.iter().flat_map(|run| (1..=3).map(move |n| format!("{run}:{n}")));
        assert_eq!(backend.ask(journals).await, backends.collect::<Vec<_>>(), "{}", backend.url);
    }
}

fn begun(new: NewRun) -> NewRun {
    let events = [Event::RunQueued { request: Arc::clone(&new.request) }, Event::RunStarted];
    let recorded = |(seq, event)| {
        Arc::new(RecordedEvent {
            run_id: new.run_id.clone(),
            seq: Seq(seq),
            at: new.created_at,
            event,
        })
    };
    let first_events = (1..).zip(events).map(recorded).collect();
    NewRun { first_events, ..new }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_keep_the_promises_of_a_blob_store() {
    for backend in Backend::all() {
        conformance::blob_store::check(&backend.store().await).await;
    }
}

/// A7: which definitions are trusted is kept, also over a restart.
#[tokio::test(flavor = "multi_thread")]
async fn both_keep_the_promises_of_pins() {
    for backend in Backend::all() {
        conformance::pins::check(&backend.store().await).await;
        let again = backend.store().await;
        let met = [PinnedTool { tool: "a".to_owned(), definition: "9".to_owned() }];
        let trusted = again.meet(&TenantId::from("ours"), "server", &met).await.unwrap();
        assert_eq!(trusted, [PinnedTool { tool: "a".to_owned(), definition: "2".to_owned() }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_the_promises_of_workers() {
    // Places are kept until the end: a file that is gone cannot be written to.
    let backends = std::sync::Mutex::new(Vec::new());
    let make = async |many, lease| {
        let backend = Backend::sqlite();
        let stores = backend.stores_with(many, lease).await;
        backends.lock().unwrap().push(backend);
        stores
    };
    conformance::workers::check(make).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_promises_of_workers() {
    conformance::workers::check(async |many, lease| {
        Backend::postgres().stores_with(many, lease).await
    })
    .await;
}

/// What was kept is there after a restart, word for word.
#[tokio::test]
async fn a_restart_forgets_nothing() {
    for backend in Backend::all() {
        let made = run("run_1", |request| {
            request.before = entries(&["earlier"]);
            request.instructions = Some("a NUL \0 and a crab 🦀".to_owned());
        });
        let store = backend.store().await;
        store.create(made.clone()).await.unwrap();
        store.create(run_in("run_2", "conv_1")).await.unwrap();
        let added = entries(&["one", "two"]);
        store.finish(&"run_2".into(), RunOutcome::Completed, added.clone()).await.unwrap();
        drop(store);
        let store = backend.store().await;
        let found = store.find(&tenant(), &"run_1".into()).await.unwrap();
        assert_eq!((found.request, found.status), (made.request, RunStatus::Active));
        assert_eq!(store.history(&tenant(), &"conv_1".into()).await.unwrap(), added);
        assert_eq!(store.context(&tenant(), &"run_2".into()).await.unwrap(), added);
    }
}

/// What came before a run is part of what it has seen, wherever it is from.
#[tokio::test]
async fn a_run_has_seen_what_came_before_it() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let done = RunOutcome::Completed;
        store.create(run("run_1", |request| request.before = entries(&["a", "b"]))).await.unwrap();
        store.finish(&"run_1".into(), done.clone(), entries(&["c"])).await.unwrap();
        store.create(run_after("run_2", "run_1")).await.unwrap();
        store.finish(&"run_2".into(), done.clone(), entries(&["d"])).await.unwrap();
        let seen = store.context(&tenant(), &"run_2".into()).await.unwrap();
        assert_eq!(seen, entries(&["a", "b", "c", "d"]));

        // In a conversation: up to where it stood when the run began.
        store.create(run_in("run_3", "conv_1")).await.unwrap();
        store.finish(&"run_3".into(), done.clone(), entries(&["e"])).await.unwrap();
        store.add_entries(&tenant(), &"conv_1".into(), entries(&["f"])).await.unwrap();
        store.create(run_in("run_4", "conv_1")).await.unwrap();
        store.finish(&"run_4".into(), done.clone(), entries(&["g"])).await.unwrap();
        let seen = store.context(&tenant(), &"run_3".into()).await.unwrap();
        assert_eq!(seen, entries(&["e"]));
        store.create(run_after("run_5", "run_4")).await.unwrap();
        store.finish(&"run_5".into(), done, entries(&["h"])).await.unwrap();
        let seen = store.context(&tenant(), &"run_5".into()).await.unwrap();
        assert_eq!(seen, entries(&["e", "f", "g", "h"]));

        // What is taken out of the conversation stays with the run that said it.
        store.remove_entry(&tenant(), &"conv_1".into(), &"msg_e".into()).await.unwrap();
        let left = store.history(&tenant(), &"conv_1".into()).await.unwrap();
        assert_eq!(left, entries(&["f", "g"]));
        let seen = store.context(&tenant(), &"run_3".into()).await.unwrap();
        assert_eq!(seen, entries(&["e"]));
    }
}

/// A1, A11: no name can do more than not be found.
#[tokio::test]
async fn a_name_with_a_nul_character_is_a_name_that_nobody_has() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let strange = "\0x";
        let id = ConversationId::from(strange);
        let absent = |refused: Result<(), StoreError>| {
            assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
        };
        let history = store.history(&tenant(), &id).await;
        assert!(matches!(history.as_deref(), Ok([]) | Err(StoreError::NotFound(_))), "{history:?}");
        absent(store.conversation(&tenant(), &id).await.map(drop));
        absent(store.annotate_conversation(&tenant(), &id, BTreeMap::new()).await);
        absent(store.delete_conversation(&tenant(), &id).await);
        absent(store.add_entries(&tenant(), &id, entries(&["x"])).await);
        absent(store.find(&tenant(), &RunId::from(strange)).await.map(drop));
        absent(store.context(&tenant(), &RunId::from(strange)).await.map(drop));
        absent(RunRecords::delete(&store, &tenant(), &RunId::from(strange)).await);
        absent(store.enqueue(&tenant(), &RunId::from(strange), RunCommand::Cancel).await);
        absent(store.create(run_after("run_after", strange)).await.map(drop));
        let blob = BlobStore::get(&store, &tenant(), &strange.into()).await;
        assert!(matches!(blob, Err(BlobError::NotFound(_))), "{blob:?}");
        BlobStore::delete(&store, &tenant(), &RunId::from(strange)).await.unwrap();
        if backend.is_postgres() {
            // Nor can it be given.
            absent(store.create(run_in("run_in", strange)).await.map(drop));
            let created_at = Timestamp::from_micros(1);
            let record = ConversationRecord { id, created_at, metadata: BTreeMap::new() };
            absent(store.open_conversation(&tenant(), record).await);
            let mut keyed = run("run_keyed", |_| {});
            let (endpoint, key) = ("/a".to_owned(), strange.to_owned());
            keyed.idempotency_key =
                Some(IdempotencyKey { endpoint, key, fingerprint: "f".to_owned() });
            absent(store.create(keyed).await.map(drop));
            absent(store.create(run_in("run_long", &long_name())).await.map(drop));
        }
        // It does not hide the others, and cannot keep a run from ending.
        store.create(run_in("run_1", "conv_1")).await.unwrap();
        let odd = Entry::new(strange, Item::user("a \0 b"));
        let added = vec![odd.clone(), entries(&["good"]).remove(0)];
        store.finish(&"run_1".into(), RunOutcome::Completed, added.clone()).await.unwrap();
        assert_eq!(store.history(&tenant(), &"conv_1".into()).await.unwrap(), added);
        let names = [strange, "msg_good"].map(ItemId::from);
        let found = store.entries_named(&tenant(), &names).await.unwrap();
        assert_eq!(found, entries(&["good"]));
    }
}

/// Longer than what fits into an index, and not to be shortened by packing it.
fn long_name() -> String {
    let numbers: Vec<String> =
        (0..4_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    numbers.concat()
}

/// C9: a key holds for a day by the clock of the database, and as long as its run is there.
#[tokio::test]
async fn a_key_is_free_again_after_a_day_and_with_its_run() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let sent = |id: &str, fingerprint: &str| {
            let (endpoint, key) = ("/a".to_owned(), "key".to_owned());
            let mut sent = run(id, |_| {});
            sent.idempotency_key =
                Some(IdempotencyKey { endpoint, key, fingerprint: fingerprint.to_owned() });
            sent
        };
        assert_eq!(store.create(sent("run_1", "one")).await.unwrap(), Created::RowOnly);
        let reused = store.create(sent("run_2", "other")).await;
        assert!(matches!(reused, Err(StoreError::IdempotencyKeyReused(_))), "{reused:?}");
        let now = if backend.is_postgres() { "now()" } else { "0" };
        let past = &format!("update request_keys set expires_at = {now}");
        backend.ask(past).await;
        assert_eq!(store.create(sent("run_2", "other")).await.unwrap(), Created::RowOnly);
        let before = store.create(sent("run_3", "other")).await.unwrap();
        assert_eq!(before, Created::Existing("run_2".into()));
        store.finish(&"run_2".into(), RunOutcome::Completed, Vec::new()).await.unwrap();
        RunRecords::delete(&store, &tenant(), &"run_2".into()).await.unwrap();
        assert_eq!(store.create(sent("run_4", "third")).await.unwrap(), Created::RowOnly);
        // A request that makes no run does not use up its key.
        backend.ask(past).await;
        store.create(run_in("run_5", "conv_1")).await.unwrap();
        let mut second = run_in("run_6", "conv_1");
        second.idempotency_key = sent("run_6", "fourth").idempotency_key;
        let busy = store.create(second).await;
        assert!(matches!(busy, Err(StoreError::Busy { run_id, .. }) if run_id.as_str() == "run_5"));
        assert_eq!(store.create(sent("run_7", "fifth")).await.unwrap(), Created::RowOnly);
    }
}

/// C18: while the database is away, work is refused, soon and as what it is; and a run that may
/// have been kept all the same does not stay for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_and_leaves_no_run_behind() {
    let mut server = Postgres::start();
    let backend = Backend::at(server.url());
    let store = backend.store().await;
    store.heartbeat().await.unwrap();
    server.kill();
    let refused = store.create(run_in("run_lost", "conv_lost")).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let refused = store.find(&tenant(), &"run_lost".into()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let mut keyed = run("run_keyed", |_| {});
    let (endpoint, key) = ("/a".to_owned(), "key".to_owned());
    keyed.idempotency_key = Some(IdempotencyKey { endpoint, key, fingerprint: "f".to_owned() });
    let refused = store.create(keyed.clone()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    server.restart();
    // As if the database had kept them and only its answer was lost.
    let worker = format!("{store:?}");
    let worker = worker.split('"').nth(1).unwrap();
    for (id, conversation) in [("run_lost", "'conv_lost'"), ("run_keyed", "null")] {
        let insert = format!(
            "insert into runs (id, tenant, created_at, request, conversation_id, worker)
             values ('{id}', 't', 1, '{{}}', {conversation}, '{worker}')"
        );
        backend.ask(&insert).await;
    }
    let key = "insert into request_keys values ('t', '/a', 'key', 'f', 'run_keyed', 'infinity')";
    backend.ask(key).await;
    while store.heartbeat().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(backend.ask("select id from runs").await, ["run_keyed"], "C8: it would be busy");
    // Who sends it again finds it, and somebody works on it.
    let again = store.create(keyed).await.unwrap();
    assert_eq!(again, Created::Existing("run_keyed".into()));
    let claimed = store.claim(10).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    store.heartbeat().await.unwrap();
    assert_eq!(store.lost_runs(&["run_keyed".into()]).await.unwrap(), []);
}
