//! Long requests are stored once for all that begin alike, and nobody notices: whoever reads a
//! request gets all of it, and what is deleted is gone.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{sync::Arc, time::Duration};

use futures::{TryStreamExt, future::join_all};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;
use turnwire_contract::{
    Entries, Entry, Event, Item, ItemId, Journal, Leases, NewRun, RecordedEvent, RunId, RunOutcome,
    RunRecords, RunRequest, Seq, StoreError, TenantId, Timestamp,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{SecretKeys, Store, StoreOptions};

use crate::support::{Backend, run, tenant};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const CANARY: &str = "cnry-4711";

/// What a conversation has said up to its `n`-th turn: about a kilobyte per turn.
fn said(conversation: &str, n_turns: usize) -> Vec<Item> {
    let asked = |n: usize| {
        Item::user(format!("{CANARY} {conversation} question {n} {}", "why ".repeat(120)))
    };
    let answered = |n: usize| {
        Item::assistant(format!("{CANARY} {conversation} answer {n} {}", "so it is ".repeat(60)))
    };
    let mut items: Vec<Item> = (0..n_turns).flat_map(|n| [asked(n), answered(n)]).collect();
    items.push(asked(n_turns));
    items
}

/// A run with the first event of its journal.
fn asked(id: &str, input: Vec<Item>, change: impl FnOnce(&mut RunRequest)) -> NewRun {
    let mut run = run(id, |request| {
        request.input = input;
        request.instructions = Some(format!("{CANARY} Be brief. {}", "Really. ".repeat(600)));
        change(request);
    });
    let (run_id, request) = (run.run_id.clone(), Arc::clone(&run.request));
    let (seq, at, event) = (Seq(1), Timestamp::from_micros(1), Event::RunQueued { request });
    run.first_events = vec![Arc::new(RecordedEvent { run_id, seq, at, event })];
    run
}

/// Creates the run, and ends it with its input and an answer.
async fn have(store: &Store, run: &NewRun) {
    store.create(run.clone()).await.unwrap();
    store.finish(&run.run_id, RunOutcome::Completed, added_by(run)).await.unwrap();
}

fn added_by(run: &NewRun) -> Vec<Entry> {
    let mut added = run.request.entries(&run.run_id);
    added.push(Entry::new(format!("msg_answer_{}", run.run_id), Item::assistant("Because.")));
    added
}

/// The request as the run's row, its journal and its context tell it.
async fn is_whole(store: &Store, run: &NewRun) {
    let found = store.find(&tenant(), &run.run_id).await.unwrap();
    assert!(found.request == run.request, "{}", run.run_id);
    let stored = store.stored(&tenant(), &run.run_id, Seq::START).await.unwrap();
    let journal: Vec<_> = stored.try_collect().await.unwrap();
    assert!(journal.first() == run.first_events.first(), "{}", run.run_id);
    let context = store.context(&tenant(), &run.run_id).await.unwrap();
    assert!(context.ends_with(&added_by(run)), "{}", run.run_id);
}

impl Backend {
    async fn n_lists(&self) -> usize {
        self.ask("select id from input_lists").await.len()
    }

    /// Bytes of everything that requests leave behind.
    async fn n_bytes(&self) -> usize {
        let columns = [
            ("runs", "request"),
            ("run_events", "body"),
            ("entries", "entry"),
            ("input_lists", "item"),
        ];
        let mut n_bytes = 0;
        for (table, column) in columns {
            let values = self.ask(&format!("select {column} from {table}")).await;
            n_bytes += values.iter().map(String::len).sum::<usize>();
        }
        n_bytes
    }
}

/// A store, and another one that has nothing of it in memory.
struct Pair {
    backend: Backend,
    store: Store,
    reader: Store,
}

/// All databases, and both with encryption.
async fn stores() -> Vec<Pair> {
    let plain = Backend::all().into_iter().map(|backend| (backend, None));
    let keys = SecretKeys::read(KEY).unwrap();
    let encrypted = Backend::both().into_iter().map(|backend| (backend, Some(keys.clone())));
    let mut stores = Vec::new();
    for (backend, keys) in plain.chain(encrypted) {
        let change = |options: &mut StoreOptions| options.encryption.clone_from(&keys);
        let (store, reader) = (backend.store_with(change).await, backend.store_with(change).await);
        stores.push(Pair { backend, store, reader });
    }
    stores
}

/// A conversation that its client sends again with every turn grows with what is said, not with its
/// square; and everything that was asked can be read.
#[tokio::test]
async fn what_is_sent_again_is_not_stored_again() {
    for Pair { backend, store, reader } in stores().await {
        let runs: Vec<NewRun> =
            (0..30).map(|n| asked(&format!("run_{n}"), said("a", n), |_| {})).collect();
        for run in &runs {
            have(&store, run).await;
        }
        let last = runs.last().unwrap();
        let once = serde_json::to_string(&last.request).unwrap().len();
        let (n_bytes, n_sent) = (backend.n_bytes().await, 30 * once / 2);
        // The rest of each request twice, and a third more if it is encrypted.
        assert!(n_bytes < 4 * once, "{}: {n_bytes} of {once}, {n_sent} sent", backend.url);
        for run in &runs {
            is_whole(&reader, run).await;
        }
    }
}

/// Two conversations have their instructions and tools in common, and a turn that is tried again
/// continues what was there.
#[tokio::test]
async fn lists_branch() {
    for Pair { backend, store, reader } in stores().await {
        let edited = {
            let mut input = said("a", 4);
            *input.last_mut().unwrap() = Item::user("Another question.");
            input
        };
        let runs = [
            asked("run_a3", said("a", 3), |_| {}),
            asked("run_a4", said("a", 4), |_| {}),
            asked("run_a4b", edited, |_| {}),
            asked("run_a4c", said("a", 4), |_| {}),
            asked("run_b", said("b", 2), |_| {}),
            asked("run_none", Vec::new(), |_| {}),
        ];
        for run in &runs {
            have(&store, run).await;
        }
        // The instructions; of `a` seven items, two more, and one that differs from these; the same
        // again is the same; five of `b`.
        assert_eq!(backend.n_lists().await, 1 + 7 + 2 + 1 + 5, "{}", backend.url);
        for run in &runs {
            is_whole(&reader, run).await;
        }
    }
}

/// C25: in whatever order runs are deleted, the others stay whole, and at the end nothing is left.
#[tokio::test]
async fn what_nobody_has_any_more_is_gone() {
    for order in 0..4_usize {
        for Pair { backend, store, reader } in stores().await {
            let mut runs: Vec<NewRun> = Vec::new();
            for conversation in ["a", "b"] {
                for n in 1..6 {
                    let id = format!("run_{conversation}{n}");
                    runs.push(asked(&id, said(conversation, n), |_| {}));
                }
                let id = format!("run_{conversation}_again");
                runs.push(asked(&id, said(conversation, 3), |_| {}));
            }
            for run in &runs {
                have(&store, run).await;
            }
            // The oldest first, the newest first, and two that mix them.
            match order {
                0 => {}
                1 => runs.reverse(),
                n => runs.sort_by_key(|run| {
                    run.run_id.as_str().bytes().fold(n, |sum, byte| sum * 31 + usize::from(byte))
                        % 101
                }),
            }
            while let Some(run) = runs.pop() {
                RunRecords::delete(&store, &tenant(), &run.run_id).await.unwrap();
                let gone = store.find(&tenant(), &run.run_id).await;
                assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
                for run in &runs {
                    is_whole(&reader, run).await;
                }
            }
            assert_eq!(backend.n_lists().await, 0, "{} order {order}", backend.url);
            assert_eq!(backend.n_bytes().await, 0, "{} order {order}", backend.url);
        }
    }
}

/// C25: a run that was deleted is part of the context of the run that continues it, and goes with
/// it. Its instructions, and items that have rows of their own, are not needed for that.
#[tokio::test]
async fn a_deleted_run_stays_for_the_one_that_continues_it() {
    for Pair { backend, store, .. } in stores().await {
        for (n_turns, n_left) in [(4, 9), (0, 0)] {
            let first = asked("run_1", said("a", n_turns), |request| {
                request.instructions = Some("Of the first one alone. ".repeat(300));
            });
            have(&store, &first).await;
            let second = asked("run_2", said("b", 4), |request| {
                request.continues = Some(RunId::from("run_1"));
            });
            have(&store, &second).await;
            RunRecords::delete(&store, &tenant(), &first.run_id).await.unwrap();
            assert_eq!(backend.n_lists().await, n_left + 1 + 9, "{}", backend.url);
            let context = store.context(&tenant(), &second.run_id).await.unwrap();
            let both = [added_by(&first), added_by(&second)].concat();
            assert!(context == both, "{}", backend.url);
            RunRecords::delete(&store, &tenant(), &second.run_id).await.unwrap();
            let left = (backend.n_lists().await, backend.n_bytes().await);
            assert_eq!(left, (0, 0), "{}", backend.url);
        }
    }
}

/// A conversation whose instructions change with every turn has its items in common all the same.
#[tokio::test]
async fn instructions_may_change() {
    for Pair { backend, store, reader } in stores().await {
        let runs: Vec<NewRun> = (0..3)
            .map(|n| {
                let timed = |request: &mut RunRequest| {
                    request.instructions = Some(format!("It is {n} o'clock."));
                };
                asked(&format!("run_{n}"), said("a", 4), timed)
            })
            .collect();
        for run in &runs {
            have(&store, run).await;
            is_whole(&reader, run).await;
        }
        assert_eq!(backend.n_lists().await, 3 + 9, "{}", backend.url);
    }
}

/// C27: a list of which a part is missing is stored again with the next request that has it.
#[tokio::test]
async fn what_is_missing_is_stored_again() {
    for Pair { backend, store, reader } in stores().await {
        let runs = ["run_1", "run_2"].map(|id| asked(id, said("a", 4), |_| {}));
        have(&store, &runs[0]).await;
        backend.ask("delete from input_lists where n_items in (0, 3)").await;
        have(&store, &runs[1]).await;
        for run in &runs {
            is_whole(&reader, run).await;
        }
    }
}

/// An item of a long input is found by its ID, and only by its own tenant.
#[tokio::test]
async fn an_item_of_a_list_is_found_by_its_id() {
    for Pair { backend, store, .. } in stores().await {
        let run = asked("run_1", said("a", 4), |_| {});
        have(&store, &run).await;
        let all = run.request.entries(&run.run_id);
        let named = [&all[5], &all[0]].map(|entry| entry.id.clone());
        let found = store.entries_named(&tenant(), &named).await.unwrap();
        assert_eq!(found, [all[0].clone(), all[5].clone()], "{}", backend.url);
        let unknown = ["msg_1_99", "msg_2_0", "input_1", "msg_1"].map(ItemId::from);
        assert_eq!(store.entries_named(&tenant(), &unknown).await.unwrap(), []);
        let theirs = store.entries_named(&TenantId::from("u"), &named).await.unwrap();
        assert_eq!(theirs, [], "A1: {}", backend.url);
    }
}

/// In a conversation, where items can be deleted one by one, each has its row.
#[tokio::test]
async fn items_of_conversations_are_deleted_one_by_one() {
    for Pair { backend, store, .. } in stores().await {
        let run = asked("run_1", said("a", 4), |request| {
            request.conversation_id = Some("conv_1".into());
        });
        have(&store, &run).await;
        let mut left = added_by(&run);
        let gone = left.remove(3);
        store.remove_entry(&tenant(), &"conv_1".into(), &gone.id).await.unwrap();
        let history = store.history(&tenant(), &"conv_1".into()).await.unwrap();
        assert_eq!(history, left, "{}", backend.url);
        RunRecords::delete(&store, &tenant(), &run.run_id).await.unwrap();
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);
        let history = store.history(&tenant(), &"conv_1".into()).await.unwrap();
        assert_eq!(history, left, "{}", backend.url);
    }
}

/// A1, A17: two tenants with the same request have nothing in common, and nothing of it is readable
/// without the key.
#[tokio::test]
async fn tenants_share_nothing() {
    for Pair { backend, store, reader } in stores().await {
        let ours = asked("run_1", said("a", 4), |_| {});
        let theirs = asked("run_2", said("a", 4), |request| request.tenant = TenantId::from("u"));
        for run in [&ours, &theirs] {
            have(&store, run).await;
        }
        assert_eq!(backend.n_lists().await, 2 * 10, "{}", backend.url);
        RunRecords::delete(&store, &TenantId::from("u"), &theirs.run_id).await.unwrap();
        is_whole(&reader, &ours).await;
        let lists = backend.ask("select item from input_lists").await;
        let is_encrypted = !backend.ask("select id from tenant_keys").await.is_empty();
        let n_readable = lists.iter().filter(|item| item.contains(CANARY)).count();
        assert_eq!(n_readable, if is_encrypted { 0 } else { 10 }, "{}", backend.url);
    }
}

/// Lists of the same beginning are created and deleted at once, by two nodes; no run that is left
/// lost a part of its request.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creations_and_deletions_do_not_disturb_each_other() {
    for backend in Backend::both() {
        // One process per file.
        let nodes = if backend.is_postgres() { 2 } else { 1 };
        let stores = backend.stores(nodes).await;
        let reader = backend.store().await;
        let client = async |n: usize| {
            let store = &stores[n % nodes];
            let mut kept = None;
            for round in 0..12 {
                // The same few requests from all clients, so that they meet.
                let input = said("a", 2 + (n + round) % 3);
                let run = asked(&format!("run_{n}_{round}"), input, |_| {});
                have(store, &run).await;
                is_whole(&reader, &run).await;
                let before: Option<NewRun> = kept.replace(run);
                if let Some(before) = before {
                    RunRecords::delete(store, &tenant(), &before.run_id).await.unwrap();
                }
            }
            kept.unwrap()
        };
        let kept = join_all((0..8).map(client)).await;
        for run in &kept {
            is_whole(&reader, run).await;
        }
        for run in &kept {
            RunRecords::delete(&stores[0], &tenant(), &run.run_id).await.unwrap();
        }
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);
    }
}

/// A statement of another node, in a transaction that is open until it commits.
struct OtherNode(PgConnection);

impl OtherNode {
    async fn begin(backend: &Backend) -> Self {
        let mut connection = PgConnection::connect(&backend.url).await.unwrap();
        sqlx::raw_sql("begin").execute(&mut connection).await.unwrap();
        Self(connection)
    }

    async fn execute(&mut self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&mut self.0).await.unwrap();
    }
}

/// Waits until a statement waits for a lock of another one.
async fn until_blocked(backend: &Backend) {
    let waiting = "select query from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    let is_waiting = async { while backend.ask(waiting).await.is_empty() {} };
    timeout(Duration::from_secs(10), is_waiting).await.unwrap();
}

/// A run that is created while another node deletes the list that it is to have waits, and stores
/// the list again.
#[tokio::test]
async fn a_list_that_another_node_deletes_is_stored_again() {
    let backend = Backend::postgres();
    let (store, reader) = (backend.store().await, backend.store().await);
    have(&store, &asked("run_1", said("a", 4), |_| {})).await;
    let mut other = OtherNode::begin(&backend).await;
    other.execute("delete from runs; delete from input_lists where n_items > 2").await;
    let run = asked("run_2", said("a", 4), |_| {});
    let created = async {
        have(&store, &run).await;
    };
    let deleted = async {
        until_blocked(&backend).await;
        other.execute("commit").await;
    };
    tokio::join!(created, deleted);
    is_whole(&reader, &run).await;
}

/// A run is deleted while another node creates one with the same list: the list stays.
#[tokio::test]
async fn a_list_that_another_node_comes_to_have_stays() {
    let backend = Backend::postgres();
    let (store, reader) = (backend.store().await, backend.store().await);
    let run = asked("run_1", said("a", 4), |_| {});
    have(&store, &run).await;
    let mut other = OtherNode::begin(&backend).await;
    other
        .execute(
            "select from input_lists l, runs r where l.id in (r.input_list, r.preamble)
                 for key share of l;
             insert into runs (id, tenant, created_at, request, preamble, input_list)
                 select 'run_2', tenant, created_at, request, preamble, input_list from runs",
        )
        .await;
    let deleted = async {
        RunRecords::delete(&store, &tenant(), &run.run_id).await.unwrap();
    };
    let created = async {
        until_blocked(&backend).await;
        other.execute("commit").await;
    };
    tokio::join!(deleted, created);
    let found = reader.find(&tenant(), &RunId::from("run_2")).await.unwrap();
    assert!(found.request == run.request, "{:?}", found.request.model);
}

/// C25: of two runs with the same list, with a list that continues the other, or with lists that
/// continue the same one, each is deleted by another node at the same time. The second one sees the
/// first.
#[tokio::test]
async fn two_nodes_that_delete_at_once_leave_nothing() {
    let branch = [said("a", 3), said("b", 0)].concat();
    for theirs in [said("a", 4), said("a", 3), branch] {
        let backend = Backend::postgres();
        let store = backend.store().await;
        let (ours, theirs) = (asked("run_1", said("a", 4), |_| {}), asked("run_2", theirs, |_| {}));
        for run in [&ours, &theirs] {
            have(&store, run).await;
        }
        // What another node does to delete its run, up to what it still needs for ours.
        let mut other = OtherNode::begin(&backend).await;
        other
            .execute(
                "create temporary table its on commit drop as
                     select l.* from input_lists l, runs r
                     where r.id = 'run_2' and l.id in (r.input_list, r.preamble);
                 delete from runs where id = 'run_2';
                 delete from run_events where run_id = 'run_2';
                 delete from entries where run_id = 'run_2';
                 select pg_advisory_xact_lock(hashtextextended('t', 43));
                 delete from input_lists l where id in (select id from its)
                     and not exists (select from input_lists c where c.parent = l.id)
                     and not exists (select from runs r where l.id in (r.input_list, r.preamble))",
            )
            .await;
        let deleted = async {
            RunRecords::delete(&store, &tenant(), &ours.run_id).await.unwrap();
        };
        let committed = async {
            until_blocked(&backend).await;
            other.execute("commit").await;
        };
        tokio::join!(deleted, committed);
        assert_eq!((backend.n_lists().await, backend.n_bytes().await), (0, 0));
    }
}

/// Nodes delete the turns of one conversation, while another one is created and read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_delete_the_turns_of_a_conversation_at_once() {
    let backend = Backend::postgres();
    let stores = backend.stores(2).await;
    for round in 0..3 {
        let runs: Vec<NewRun> =
            (0..24).map(|n| asked(&format!("run_{n}"), said("a", n), |_| {})).collect();
        for run in &runs {
            have(&stores[0], run).await;
        }
        let deletions = runs.iter().enumerate().map(async |(n, run)| {
            RunRecords::delete(&stores[(n + round) % 2], &tenant(), &run.run_id).await.unwrap();
        });
        join_all(deletions).await;
        assert_eq!((backend.n_lists().await, backend.n_bytes().await), (0, 0));
    }
}

/// A worker of the version before cannot read lists. While one is there, nobody writes them.
#[tokio::test]
async fn nobody_writes_lists_that_another_worker_cannot_read() {
    for backend in Backend::both() {
        let store = backend.store().await;
        let later =
            if backend.is_postgres() { "clock_timestamp() + interval '1 hour'" } else { "1 << 60" };
        backend
            .ask(&format!("insert into workers (id, lease_until) values ('old', {later})"))
            .await;
        store.heartbeat().await.unwrap();
        let run = asked("run_1", said("a", 4), |_| {});
        have(&store, &run).await;
        is_whole(&store, &run).await;
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);
        let request = backend.ask("select request from runs").await;
        assert_eq!(request, [serde_json::to_string(&run.request).unwrap()], "as before");
        // A store that is opened meanwhile knows it from the beginning, and its own check of the
        // database, which makes a row for a worker, does not count as one.
        let other = backend.store().await;
        Journal::probe(&other).await.unwrap();
        have(&other, &asked("run_2", said("a", 4), |_| {})).await;
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);

        // It may only have been late with its heartbeat.
        let long_ago = if backend.is_postgres() { "'-infinity'" } else { "0" };
        backend.ask(&format!("update workers set lease_until = {long_ago} where id = 'old'")).await;
        store.heartbeat().await.unwrap();
        have(&store, &asked("run_late", said("a", 4), |_| {})).await;
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);

        backend.ask("delete from workers where id = 'old'").await;
        other.heartbeat().await.unwrap();
        store.heartbeat().await.unwrap();
        let run = asked("run_3", said("a", 4), |_| {});
        have(&store, &run).await;
        is_whole(&store, &run).await;
        assert_eq!(backend.n_lists().await, 10, "{}", backend.url);
    }
}

/// C27: a damaged list makes its runs unreadable, and nothing else. They can be deleted.
#[tokio::test]
async fn a_damaged_list_affects_only_its_own_runs() {
    for Pair { backend, store, reader } in stores().await {
        let broken = asked("run_1", said("a", 4), |_| {});
        let other = asked("run_2", said("b", 4), |_| {});
        for run in [&broken, &other] {
            have(&store, run).await;
        }
        let of_broken = "id = (select input_list from runs where id = 'run_1')";
        for damage in ["update input_lists set item = '[{]' where", "delete from input_lists where"]
        {
            backend.ask(&format!("{damage} {of_broken}")).await;
            is_whole(&reader, &other).await;
            let found = reader.find(&tenant(), &broken.run_id).await.unwrap();
            assert_eq!(found.request.model, "unreadable", "{}", backend.url);
            let stored = reader.stored(&tenant(), &broken.run_id, Seq::START).await.unwrap();
            let journal: Vec<_> = stored.try_collect().await.unwrap();
            assert!(journal[0].event == Event::unreadable(), "{}", backend.url);
            assert!(store.context(&tenant(), &broken.run_id).await.is_err());
        }
        for run in [&broken, &other] {
            RunRecords::delete(&store, &tenant(), &run.run_id).await.unwrap();
        }
        // What the one continued that was deleted by hand is found later.
        assert_eq!(backend.n_lists().await, 8, "{}", backend.url);
        store.forget_old_runs().await.unwrap();
        assert_eq!(backend.n_lists().await, 0, "{}", backend.url);
    }
}

/// Another node executes what is left of a run with a long request, with all of its request.
#[tokio::test]
async fn a_run_with_a_list_is_taken_over() {
    for backend in Backend::both() {
        let lease = Duration::from_millis(300);
        let stores = backend.stores_with(2, lease).await;
        let engine = |store: &Store, model: Scripted| {
            Runs::new(EngineParts {
                any_model: Some(Arc::new(model)),
                journal: Arc::new(store.clone()),
                store: Arc::new(store.clone()),
                blobs: Arc::new(store.clone()),
                workers: Arc::new(store.clone()),
                ..EngineParts::default()
            })
        };
        let first = engine(&stores[0], Scripted::new([Turn::new().text("Let me ").wait_forever()]));
        first.start_worker().await.unwrap();
        let mut request = RunRequest::clone(&asked("run_1", said("a", 6), |_| {}).request);
        request.tenant = tenant();
        let run = first.start(request.clone()).await.unwrap();
        let run_id = run.id().clone();
        assert_eq!(backend.n_lists().await, 14, "{}", backend.url);
        drop((run, first));
        stores[0].close().await;

        let second = engine(&stores[1], Scripted::new([Turn::new().text("Here it is.")]));
        second.start_worker().await.unwrap();
        let is_end = |event: &Event| matches!(event, Event::RunFinished { .. });
        let end = crate::support::until(&stores[1], &tenant(), &run_id, is_end).await;
        let Event::RunFinished { outcome, .. } = end else { panic!("{end:?}") };
        assert_eq!(outcome, RunOutcome::Completed, "{}", backend.url);
        let context = stores[1].context(&tenant(), &run_id).await.unwrap();
        assert!(context.starts_with(&request.entries(&run_id)), "{}", backend.url);
        assert!(context.len() > request.input.len(), "and the answer: {}", backend.url);
    }
}
