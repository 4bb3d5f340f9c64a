//! Long lists of tools are stored once for all runs that have them, and nobody notices: whoever
//! reads an event gets all of it, and what is deleted is gone.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;
use turnwire_contract::{
    DiscoveryOutcome, Event, ItemId, Journal, Leases, LeftOut, RecordedEvent, RunId, RunOutcome,
    RunRecords, Seq, TenantId, Timestamp, ToolKind, ToolSpec, WhyLeftOut,
};
use turnwire_stores::{SecretKeys, Store, StoreOptions};

use crate::support::{Backend, run, tenant};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const CANARY: &str = "cnry-4712";

/// The tools of a server, with this many bytes of descriptions.
fn listed(server: &str, n_bytes: usize) -> DiscoveryOutcome {
    let tool = |n: usize| {
        let mut spec = ToolSpec::new(format!("tool_{n}"), "d".repeat(1_000));
        spec.parameters = json!({ "type": "object", "title": CANARY });
        (spec.kind, spec.server) = (ToolKind::Mcp, Some(server.to_owned()));
        Arc::new(spec)
    };
    DiscoveryOutcome::Listed { tools: (0..n_bytes / 1_000).map(tool).collect() }
}

fn left_out() -> LeftOut {
    let mut left_out = LeftOut::default();
    left_out.add("huge", &WhyLeftOut::TooLarge);
    left_out
}

/// The journal of a run that has asked servers for their tools.
fn journal(id: &str, outcomes: &[DiscoveryOutcome]) -> Vec<Arc<RecordedEvent>> {
    let mut events = vec![Event::RunStarted];
    for (n, outcome) in outcomes.iter().enumerate() {
        let (item_id, server) = (ItemId::new(format!("mcpl_{n}")), format!("docs_{n}"));
        let started = Event::DiscoveryStarted { item_id: item_id.clone(), server: server.clone() };
        events.push(started);
        let (outcome, left_out) = (outcome.clone(), left_out());
        events.push(Event::ToolsDiscovered { item_id, server, outcome, left_out });
    }
    let recorded = |(seq, event): (u64, Event)| {
        let (run_id, at) = (RunId::from(id), Timestamp::from_micros(1));
        Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })
    };
    (1..).zip(events).map(recorded).collect()
}

/// Creates the run of a tenant with this journal.
async fn have(store: &Store, of: &TenantId, journal: &[Arc<RecordedEvent>]) {
    let run_id = journal[0].run_id.as_str();
    store.create(run(run_id, |request| request.tenant = of.clone())).await.unwrap();
    for batch in journal.chunks(2) {
        store.append(of, batch.to_vec()).await.unwrap();
    }
}

async fn read(store: &Store, of: &TenantId, id: &str) -> Vec<Arc<RecordedEvent>> {
    let events = store.stored(of, &RunId::from(id), Seq::START).await.unwrap();
    events.try_collect().await.unwrap()
}

async fn end(store: &Store, id: &str) {
    store.finish(&RunId::from(id), RunOutcome::Completed, Vec::new()).await.unwrap();
}

impl Backend {
    async fn n_catalogues(&self) -> usize {
        self.ask("select id from catalogues").await.len()
    }

    async fn n_bytes_of_tools(&self) -> usize {
        let mut n_bytes = 0;
        for sql in ["select body from run_events", "select tools from catalogues"] {
            n_bytes += self.ask(sql).await.iter().map(String::len).sum::<usize>();
        }
        n_bytes
    }
}

/// All databases, and both with encryption: each with two stores, of which the second has nothing
/// in memory.
async fn stores() -> Vec<(Backend, Store, Store)> {
    let plain = Backend::all().into_iter().map(|backend| (backend, None));
    let keys = SecretKeys::read(KEY).unwrap();
    let encrypted = Backend::both().into_iter().map(|backend| (backend, Some(keys.clone())));
    let mut stores = Vec::new();
    for (backend, keys) in plain.chain(encrypted) {
        let change = |options: &mut StoreOptions| options.encryption.clone_from(&keys);
        let (store, reader) = (backend.store_with(change).await, backend.store_with(change).await);
        stores.push((backend, store, reader));
    }
    stores
}

/// A19, C29: the tools of a server are stored once for all runs of a tenant that have them, and
/// every reader gets all of them. Two tenants share nothing.
#[tokio::test]
async fn a_catalogue_is_stored_once() {
    for (backend, store, reader) in stores().await {
        let outcomes = [listed("docs_0", 900_000), listed("docs_1", 500)];
        for n in 0..10 {
            have(&store, &tenant(), &journal(&format!("run_{n}"), &outcomes)).await;
        }
        let n_bytes = backend.n_bytes_of_tools().await;
        assert!((900_000..2_000_000).contains(&n_bytes), "{}: {n_bytes}", backend.url);
        assert_eq!(backend.n_catalogues().await, 1, "the other one is short");
        for store in [&store, &reader] {
            assert!(read(store, &tenant(), "run_9").await == journal("run_9", &outcomes));
        }
        have(&store, &TenantId::from("other"), &journal("run_other", &outcomes)).await;
        assert_eq!(backend.n_catalogues().await, 2);
        let other = read(&reader, &TenantId::from("other"), "run_other").await;
        assert!(other == journal("run_other", &outcomes));
    }
}

/// With encryption nothing of a catalogue can be read in the database.
#[tokio::test]
async fn a_catalogue_is_encrypted() {
    for (backend, store, _) in stores().await {
        have(&store, &tenant(), &journal("run_1", &[listed("docs_0", 9_000)])).await;
        let is_sealed = !backend.ask("select tenant from tenant_keys").await.is_empty();
        let found = backend.ask("select tools from catalogues").await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].contains(CANARY), !is_sealed, "{}", backend.url);
    }
}

/// A node that follows a run of another one gets the tools with the other events.
#[tokio::test]
async fn a_follower_gets_the_tools() {
    for (_, store, follower) in stores().await {
        let journal = journal("run_1", &[listed("docs_0", 9_000)]);
        have(&store, &tenant(), &journal[..1]).await;
        let mut events = follower.read(&tenant(), &RunId::from("run_1"), Seq::START).await.unwrap();
        store.append(&tenant(), journal[1..].to_vec()).await.unwrap();
        for recorded in &journal {
            let next = timeout(Duration::from_secs(30), events.try_next()).await.unwrap();
            assert!(next.unwrap().as_ref() == Some(recorded));
        }
    }
}

/// C25: a catalogue stays as long as a run has it. Then retention deletes it.
#[tokio::test]
async fn a_catalogue_goes_with_its_last_run() {
    for (backend, store, reader) in stores().await {
        let outcomes = [listed("docs_0", 9_000)];
        for id in ["run_1", "run_2"] {
            have(&store, &tenant(), &journal(id, &outcomes)).await;
            end(&store, id).await;
        }
        let delete = async |id: &str| {
            RunRecords::delete(&store, &tenant(), &RunId::from(id)).await.unwrap();
            store.forget_old_runs().await.unwrap();
        };
        delete("run_1").await;
        assert!(read(&reader, &tenant(), "run_2").await == journal("run_2", &outcomes));
        assert_eq!(backend.n_catalogues().await, 1);
        delete("run_2").await;
        assert_eq!(backend.n_catalogues().await, 0, "{}", backend.url);
        assert_eq!(backend.ask("select run_id from run_catalogues").await, [""; 0]);
        // It is stored again for the next run.
        have(&store, &tenant(), &journal("run_3", &outcomes)).await;
        assert!(read(&reader, &tenant(), "run_3").await == journal("run_3", &outcomes));
    }
}

/// C24: while a node of a version before this one is there, catalogues are stored with their runs;
/// they can be read afterwards. What that version deletes leaves nothing.
#[tokio::test]
async fn a_version_before_is_waited_for() {
    for backend in Backend::both() {
        let soon = if backend.is_postgres() {
            "clock_timestamp() + interval '1 hour'"
        } else {
            "cast(unixepoch('subsec') * 1000000 as integer) + 3600000000"
        };
        let store = backend.store().await;
        backend
            .ask(&format!(
                "insert into workers (id, lease_until, reads_lists) values ('before', {soon}, 2)"
            ))
            .await;
        store.heartbeat().await.unwrap();
        let outcomes = [listed("docs_0", 9_000)];
        have(&store, &tenant(), &journal("run_1", &outcomes)).await;
        assert_eq!(backend.n_catalogues().await, 0, "{}", backend.url);
        backend.ask("delete from workers where id = 'before'").await;
        store.heartbeat().await.unwrap();
        have(&store, &tenant(), &journal("run_2", &outcomes)).await;
        assert_eq!(backend.n_catalogues().await, 1, "{}", backend.url);
        for id in ["run_1", "run_2"] {
            assert!(read(&store, &tenant(), id).await == journal(id, &outcomes));
        }
        // That version reads such a row as a listing that failed, and deletes the run without the
        // note that it has the catalogue.
        let row = backend.ask("select body from run_events where body like '%catalogue%'").await;
        assert!(row[0].contains("\"failed\"") && row[0].contains("\"preamble\":\"\""), "{row:?}");
        backend.ask("delete from run_events where run_id = 'run_2'").await;
        backend.ask("delete from runs where id = 'run_2'").await;
        store.forget_old_runs().await.unwrap();
        assert_eq!(backend.n_catalogues().await, 0, "{}", backend.url);
        assert_eq!(backend.ask("select run_id from run_catalogues").await, [""; 0]);
    }
}

/// C27: a catalogue that is damaged or missing harms the runs that have it. The next run stores it
/// again if it is missing.
#[tokio::test]
async fn a_damaged_catalogue_harms_its_runs_alone() {
    for backend in Backend::both() {
        for damage in ["update catalogues set tools = '[{'", "delete from catalogues"] {
            let (store, reader) = (backend.store().await, backend.store().await);
            let outcomes = [listed("docs_0", 9_000)];
            let id = format!("run_{}", damage.len());
            have(&store, &tenant(), &journal(&id, &outcomes)).await;
            backend.ask(damage).await;
            let events = read(&reader, &tenant(), &id).await;
            assert_eq!(events.len(), 3);
            assert!(events[2].event.is_unreadable(), "{:?}", events[2].event);
            backend.ask("delete from catalogues").await;
            have(&store, &tenant(), &journal(&format!("{id}_next"), &outcomes)).await;
            let next = read(&reader, &tenant(), &format!("{id}_next")).await;
            assert!(next == journal(&format!("{id}_next"), &outcomes));
        }
    }
}

/// Waits until a statement waits for a lock of another one.
async fn until_blocked(backend: &Backend) {
    let waiting = "select query from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    let is_waiting = async { while backend.ask(waiting).await.is_empty() {} };
    timeout(Duration::from_secs(30), is_waiting).await.unwrap();
}

/// C25: a catalogue that another node deletes while a run comes to have it is stored again, and one
/// that another node's run comes to have while it is deleted stays.
#[tokio::test]
async fn a_catalogue_is_deleted_and_used_at_once() {
    let outcomes = [listed("docs_0", 9_000)];
    let backend = Backend::postgres();
    let (store, reader) = (backend.store().await, backend.store().await);
    have(&store, &tenant(), &journal("run_1", &outcomes)).await;
    end(&store, "run_1").await;
    RunRecords::delete(&store, &tenant(), &RunId::from("run_1")).await.unwrap();

    let mut other = PgConnection::connect(&backend.url).await.unwrap();
    sqlx::raw_sql("begin; delete from catalogues").execute(&mut other).await.unwrap();
    let created = async { have(&store, &tenant(), &journal("run_2", &outcomes)).await };
    let deleted = async {
        until_blocked(&backend).await;
        sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    };
    tokio::join!(created, deleted);
    assert!(read(&reader, &tenant(), "run_2").await == journal("run_2", &outcomes));

    end(&store, "run_2").await;
    RunRecords::delete(&store, &tenant(), &RunId::from("run_2")).await.unwrap();
    store.create(run("run_3", |_| {})).await.unwrap();
    let note = "begin; select from catalogues for key share;
                insert into run_catalogues (tenant, run_id, catalogue)
                    select tenant, 'run_3', id from catalogues";
    sqlx::raw_sql(note).execute(&mut other).await.unwrap();
    let swept = async {
        store.forget_old_runs().await.unwrap();
    };
    let noted = async {
        until_blocked(&backend).await;
        sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    };
    tokio::join!(swept, noted);
    assert_eq!(backend.n_catalogues().await, 1);
}
