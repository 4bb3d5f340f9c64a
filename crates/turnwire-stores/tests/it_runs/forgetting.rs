//! What is forgotten is gone: from every table, and for ever.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{process::Command, sync::Arc, time::Duration};

use turnwire_contract::{
    BlobStore, CallId, Commands, Conversations, Entries, Entry, IdempotencyKey, Item, Journal,
    JournalError, NewRun, RunCommand, RunId, RunOutcome, RunRecords, RunRequest, Seq, StoreError,
    TenantId,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;

use crate::support::{Backend, entries, run, run_after, run_in, tenant};

const CANARY: &str = "canary-4711";

impl Backend {
    /// All that is in the database, as text.
    async fn dump(&self) -> String {
        if self.is_postgres() {
            let mut dump = Command::new("pg_dump");
            let dump = dump.args(["--data-only", "--inserts", &self.url]).output().unwrap();
            assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
            return String::from_utf8_lossy(&dump.stdout).into_owned();
        }
        let mut dump = String::new();
        for table in self.ask("select name from sqlite_schema where type = 'table'").await {
            let columns = self.ask(&format!("select name from pragma_table_info('{table}')")).await;
            for column in columns {
                let sql = format!(
                    "select case typeof({column}) when 'blob' then lower(hex({column}))
                            else coalesce(cast({column} as text), '') end from {table}"
                );
                dump.push_str(&self.ask(&sql).await.join("\n"));
            }
        }
        dump
    }

    async fn hits(&self) -> usize {
        // Bytes are shown in hexadecimal.
        let hex = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let dump = self.dump().await;
        dump.matches(CANARY).count() + dump.matches(&hex).count()
    }

    /// A run that says the canary's name wherever a run can say something.
    async fn sing(&self, store: &Store, id: &str) -> RunId {
        let mut made = run(id, |request| {
            request.input = vec![Item::user(CANARY)];
            request.instructions = Some(CANARY.to_owned());
            request.before = vec![Entry::new("msg_before", Item::user(CANARY))];
            request.metadata.insert("note".to_owned(), CANARY.to_owned());
        });
        made.idempotency_key = Some(IdempotencyKey {
            endpoint: "/a".to_owned(),
            key: format!("{CANARY} {id}"),
            fingerprint: CANARY.to_owned(),
        });
        let run_id = made.run_id.clone();
        store.create(made).await.unwrap();
        store.put(&tenant(), &run_id, &"blob_1".into(), CANARY.to_owned()).await.unwrap();
        let event = format!(
            "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
             values ('t', '{id}', 1, 1, 1, 'event', '{CANARY}')"
        );
        self.ask(&event).await;
        let command = RunCommand::CancelCall { call_id: CallId::from(CANARY) };
        store.enqueue(&tenant(), &run_id, command).await.unwrap();
        assert!(self.hits().await >= 10, "the search is blind");
        let said = vec![Entry::new(format!("msg_{CANARY}"), Item::user(CANARY))];
        let outcome = RunOutcome::Completed;
        store.finish(&run_id, outcome, said).await.unwrap();
        run_id
    }

    /// Makes everything that is finished as old as can be.
    async fn age(&self) {
        let long_ago = if self.is_postgres() { "'-infinity'" } else { "0" };
        self.ask(&format!(
            "update runs set finished_at = {long_ago} where finished_at is not null"
        ))
        .await;
        self.ask(&format!("update request_keys set expires_at = {long_ago}")).await;
    }

    async fn count(&self, what: &str) -> usize {
        self.ask(&format!("select 'x' from {what}")).await.len()
    }
}

/// C25: by hand.
#[tokio::test]
async fn a_forgotten_run_leaves_nothing() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let run_id = backend.sing(&store, "run_1").await;
        let stranger = TenantId::from("stranger");
        let theirs = RunRecords::delete(&store, &stranger, &run_id).await;
        assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
        assert!(backend.hits().await >= 8, "A1: it is not theirs to forget");
        RunRecords::delete(&store, &tenant(), &run_id).await.unwrap();
        assert_eq!(backend.hits().await, 0, "{}", backend.dump().await);
        let again = RunRecords::delete(&store, &tenant(), &run_id).await;
        assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
    }
}

/// C25: by age, in batches; what is young, active, or in a conversation stays.
#[tokio::test]
async fn old_runs_leave_nothing() {
    for backend in Backend::all() {
        let day = |options: &mut turnwire_stores::StoreOptions| {
            options.retention = Some(Duration::from_hours(24));
        };
        let store = backend.store_with(day).await;
        backend.sing(&store, "run_1").await;
        store.create(run("run_active", |_| {})).await.unwrap();
        store.create(run_in("run_said", "conv_1")).await.unwrap();
        let done = RunOutcome::Completed;
        store.finish(&"run_said".into(), done.clone(), entries(&["kept"])).await.unwrap();
        for n in 0..120 {
            let made = run(&format!("run_many_{n}"), |_| {});
            store.create(made.clone()).await.unwrap();
            store.finish(&made.run_id, done.clone(), Vec::new()).await.unwrap();
        }
        assert_eq!(store.forget_old_runs().await.unwrap(), 0, "they are young");
        backend.age().await;
        store.create(run("run_young", |_| {})).await.unwrap();
        store.finish(&"run_young".into(), done, entries(&["young"])).await.unwrap();
        let forever = backend.store_with(|options| options.retention = None).await;
        assert_eq!(forever.forget_old_runs().await.unwrap(), 0, "runs are kept for ever");
        assert_eq!(store.forget_old_runs().await.unwrap(), 122);
        assert_eq!(backend.hits().await, 0, "{}", backend.dump().await);
        let left = store.list(&tenant(), 10).await.unwrap();
        let left: Vec<&str> = left.iter().map(|run| run.run_id.as_str()).collect();
        assert_eq!(left, ["run_young", "run_active"]);
        let history = store.history(&tenant(), &"conv_1".into()).await.unwrap();
        assert_eq!(history, entries(&["kept"]));
    }
}

/// C25: conversations that nobody has used for as long as they are kept go, with what was said in
/// them; those with a run at work, and those that were used since, stay.
#[tokio::test]
async fn unused_conversations_go() {
    for backend in Backend::all() {
        // A store deletes by itself, too, at a time of its own.
        let forever = backend.store_with(|options| options.conversation_retention = None).await;
        let done = RunOutcome::Completed;
        for name in ["unused", "used", "busy"] {
            let run_id = format!("run_{name}");
            forever.create(run_in(&run_id, &format!("conv_{name}"))).await.unwrap();
            if name != "busy" {
                let said = entries(&[name]);
                forever.finish(&run_id.as_str().into(), done.clone(), said).await.unwrap();
            }
        }
        let long_ago = if backend.is_postgres() { "'-infinity'" } else { "0" };
        backend.ask(&format!("update conversations set used_at = {long_ago}")).await;
        forever.forget_old_runs().await.unwrap();
        assert_eq!(backend.count("conversations").await, 3, "they are kept for ever");

        forever.create(run_in("run_again", "conv_used")).await.unwrap();
        forever.finish(&"run_again".into(), done, entries(&["again"])).await.unwrap();
        let store = backend.store().await;
        store.forget_old_runs().await.unwrap();
        let found = async |id: &str| store.conversation(&tenant(), &id.into()).await.is_ok();
        assert!(
            !found("conv_unused").await && found("conv_used").await && found("conv_busy").await
        );
        let history = store.history(&tenant(), &"conv_used".into()).await.unwrap();
        assert_eq!(history, entries(&["used", "again"]));
    }
}

/// C25: a run that others continue is gone for everybody, and its last words go with the last of
/// those that continue it.
#[tokio::test]
async fn a_continued_run_goes_with_the_last_that_continues_it() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let run_id = backend.sing(&store, "run_1").await;
        let done = RunOutcome::Completed;
        for (id, before) in [("run_2", "run_1"), ("run_3", "run_2"), ("run_4", "run_2")] {
            store.create(run_after(id, before)).await.unwrap();
            store.finish(&id.into(), done.clone(), entries(&[id])).await.unwrap();
        }
        store.create(run_after("run_5", "run_1")).await.unwrap();
        RunRecords::delete(&store, &tenant(), &run_id).await.unwrap();
        let gone = store.find(&tenant(), &run_id).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
        let gone = store.finish(&run_id, done.clone(), Vec::new()).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
        assert_eq!(store.list(&tenant(), 10).await.unwrap().len(), 4);
        for table in ["run_events", "blobs", "commands", "request_keys"] {
            assert_eq!(backend.count(table).await, 0, "{table}");
        }
        // Whoever takes over a run that was continuing it must know what it had seen.
        assert_eq!(store.context(&tenant(), &run_id).await.unwrap().len(), 2);
        store.finish(&"run_5".into(), done.clone(), Vec::new()).await.unwrap();
        let gone = store.context(&tenant(), &run_id).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
        let seen = store.context(&tenant(), &"run_4".into()).await.unwrap();
        assert_eq!(seen.len(), 4, "{seen:?}");
        for id in ["run_5", "run_2", "run_3"] {
            RunRecords::delete(&store, &tenant(), &id.into()).await.unwrap();
            assert!(backend.hits().await > 0, "run_4 has still seen it");
        }
        RunRecords::delete(&store, &tenant(), &"run_4".into()).await.unwrap();
        assert_eq!(backend.hits().await, 0, "{}", backend.dump().await);
        assert_eq!((backend.count("runs").await, backend.count("entries").await), (0, 0));
    }
}

/// C25: two runs that continue the same one and are forgotten at the same time do not both leave
/// it to the other.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_two_do_not_leave_it_to_each_other() {
    let backend = Backend::postgres();
    let (one, other) = (backend.store().await, backend.store().await);
    let done = RunOutcome::Completed;
    for n in 0..50 {
        let [before, left, right] = ["a", "b", "c"].map(|name| format!("run_{n}_{name}"));
        let made: [NewRun; 3] =
            [run(&before, |_| {}), run_after(&left, &before), run_after(&right, &before)];
        for made in made {
            one.create(made.clone()).await.unwrap();
            one.finish(&made.run_id, done.clone(), entries(&["x"])).await.unwrap();
        }
        RunRecords::delete(&one, &tenant(), &before.as_str().into()).await.unwrap();
        let (left, right) = (RunId::from(left.as_str()), RunId::from(right.as_str()));
        let tenant = tenant();
        let (first, second) = tokio::join!(
            RunRecords::delete(&one, &tenant, &left),
            RunRecords::delete(&other, &tenant, &right)
        );
        first.unwrap();
        second.unwrap();
        assert_eq!(backend.count("runs").await, 0, "round {n}");
    }
}

/// C25: a long chain goes at once when all of it is old.
#[tokio::test]
async fn an_old_chain_goes_as_a_whole() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let done = RunOutcome::Completed;
        store.create(run("run_0", |_| {})).await.unwrap();
        store.finish(&"run_0".into(), done.clone(), entries(&["x"])).await.unwrap();
        for n in 1..80 {
            let id = format!("run_{n}");
            store.create(run_after(&id, &format!("run_{}", n - 1))).await.unwrap();
            store.finish(&id.as_str().into(), done.clone(), entries(&["x"])).await.unwrap();
        }
        backend.age().await;
        assert_eq!(store.forget_old_runs().await.unwrap(), 80);
        assert_eq!((backend.count("runs").await, backend.count("entries").await), (0, 0));
    }
}

/// C25: a deletion that was interrupted after the run was hidden is completed; a hidden run that
/// another one continues stays.
#[tokio::test]
async fn an_interrupted_deletion_is_completed() {
    for backend in Backend::all() {
        let store = backend.store_with(|options| options.retention = None).await;
        let done = RunOutcome::Completed;
        for made in [run("run_1", |_| {}), run("run_2", |_| {}), run_after("run_3", "run_2")] {
            let run_id = made.run_id.clone();
            store.create(made).await.unwrap();
            let blob = format!("blob_{run_id}");
            store.put(&tenant(), &run_id, &blob.as_str().into(), "x".to_owned()).await.unwrap();
            store.finish(&run_id, done.clone(), entries(&["x"])).await.unwrap();
        }
        backend.ask("update runs set state = 'hidden' where id in ('run_1', 'run_2')").await;
        store.forget_old_runs().await.unwrap();
        assert_eq!(backend.ask("select id from runs order by id").await, ["run_2", "run_3"]);
        let blobs = backend.ask("select run_id from blobs order by run_id").await;
        assert_eq!(blobs, ["run_2", "run_3"]);
    }
}

/// C25: runs that are deleted at the same time are gone together; one that cannot be deleted does
/// not keep the others, and nobody deletes a run of another tenant.
#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_deleted_at_once() {
    for backend in Backend::all() {
        let store = backend.store().await;
        let ids: Vec<RunId> = (0..250).map(|n| RunId::new(format!("run_many_{n}"))).collect();
        for id in &ids {
            store.create(run(id.as_str(), |_| {})).await.unwrap();
            store.finish(id, RunOutcome::Completed, Vec::new()).await.unwrap();
        }
        store.create(run("run_many_active", |_| {})).await.unwrap();
        let (active, unknown) = (RunId::from("run_many_active"), RunId::from("run_many_none"));
        let odd = RunId::from("run_\0");
        let stranger = TenantId::from("stranger");
        let own = ids.iter().chain([&active, &unknown, &odd]).map(|id| (tenant(), id.clone()));
        let foreign = ids.iter().take(3).map(|id| (stranger.clone(), id.clone()));
        let deleted = foreign.chain(own).map(|(tenant, id)| {
            let store = store.clone();
            async move { (RunRecords::delete(&store, &tenant, &id).await, tenant, id) }
        });
        for (deleted, tenant, id) in futures::future::join_all(deleted).await {
            let is_right = match deleted {
                Ok(()) => tenant != stranger && ids.contains(&id),
                Err(StoreError::Unfinished(_)) => id == active,
                Err(StoreError::NotFound(_)) => tenant == stranger || id == unknown || id == odd,
                Err(StoreError::Rejected(_)) => id == odd,
                Err(_) => false,
            };
            assert!(is_right, "{tenant} {id}");
        }
        assert_eq!(backend.ask("select id from runs").await, ["run_many_active"]);
    }
}

/// C25: a run that an engine deletes is gone from every table, and cannot be read, whether the
/// engine knows that its runs, events and blobs are in one store or not.
#[tokio::test]
async fn an_engine_deletes_all_of_a_run() {
    for backend in Backend::all() {
        for is_one_store in [true, false] {
            let store = Arc::new(backend.store().await);
            let another = || if is_one_store { store.clone() } else { Arc::new((*store).clone()) };
            let engine = Runs::new(EngineParts {
                any_model: Some(Arc::new(Scripted::new([Turn::new().text("Done.")]))),
                journal: another(),
                store: another(),
                blobs: another(),
                workers: another(),
                ..EngineParts::default()
            });
            let run = engine.start(RunRequest::new("m", vec![Item::user("?")])).await.unwrap();
            run.outcome().await;
            let text = "text".to_owned();
            store.put(&TenantId::default(), run.id(), &"blob_1".into(), text).await.unwrap();
            engine.delete(&TenantId::default(), run.id()).await.unwrap();
            for table in ["runs", "run_events", "blobs", "entries"] {
                assert_eq!(backend.count(table).await, 0, "{table} {is_one_store}");
            }
            let read = store.read(&TenantId::default(), run.id(), Seq::START).await.map(drop);
            assert!(matches!(read, Err(JournalError::NotFound(_))), "{is_one_store} {read:?}");
        }
    }
}
