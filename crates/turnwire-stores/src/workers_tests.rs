use std::time::{Duration, Instant};

use turnwire_contract::Leases;
use turnwire_testkit::services::postgres_url;

use super::{HeartbeatState, MAX_STUCK, claim_sql};
use crate::{Store, StoreOptions, database::Value};

/// A store with 100,000 active runs of three live workers, and ten of a dead one.
async fn busy_store(url: String) -> Store {
    let mut options = StoreOptions::at(url);
    options.lease = Duration::from_mins(10);
    let store = Store::open(options).await.expect("it can be opened");
    let (database, postgres) = (&store.0.database, store.0.options.url.starts_with("postgres"));
    let counted = |most: u32| {
        if postgres {
            return format!("generate_series(1, {most}) as n(value)");
        }
        format!(
            "(with recursive n(value) as (select 1 union all
                  select value + 1 from n where value < {most}) select value from n) as n"
        )
    };
    for (name, most, lease) in [("living", 3, 600_000_000), ("dead", 1, -1)] {
        let sql = format!(
            "insert into workers (id, lease_until)
             select '{name}_' || value, {} from {} where true",
            database.dialect().later("$1"),
            counted(most)
        );
        database.query(&sql, &[Value::Integer(lease)]).await.expect("they are new");
    }
    for (worker, most) in [("'living_' || (1 + value % 3)", 100_000), ("'dead_1'", 10)] {
        let sql = format!(
            "insert into runs (id, tenant, created_at, request, worker)
             select 'run_' || {most} || '_' || value, 't', 1, '', {worker} from {} where true",
            counted(most)
        );
        database.query(&sql, &[]).await.expect("they are new");
    }
    database.query("analyze", &[]).await.expect("it can count");
    store
}

async fn plan(store: &Store, explain: &str) -> String {
    let database = &store.0.database;
    let sql = format!("{explain} {}", claim_sql(database.dialect()));
    let values = [Value::Text("living_1"), Value::Integer(10), Value::Integer(1)];
    let rows = database.query(&sql, &values).await.expect("it can be planned");
    let line = |row: &crate::database::Row| {
        row.text(3).or_else(|_| row.text(0)).map(str::to_owned).expect("it is text")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// C17: a claim does not read the runs of live workers.
#[tokio::test]
async fn claiming_does_not_read_the_runs_of_the_living() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = format!("sqlite://{}", directory.path().join("runs.db").display());
    for (url, explain) in [(file, "explain query plan"), (postgres_url(), "explain")] {
        let store = busy_store(url).await;
        let plan = plan(&store, explain).await;
        let reads_all = ["Seq Scan on runs", "SCAN r\n", "SCAN runs\n"];
        assert!(!reads_all.iter().any(|scan| plan.contains(scan)), "{plan}");
        assert!(plan.contains("runs_at_work"), "{plan}");
        store.heartbeat().await.expect("it can be heard");
        // As if heartbeats had succeeded for a whole lease.
        let since = tokio::time::Instant::now().checked_sub(Duration::from_mins(10));
        super::lock(&store.0.heartbeats.series).first = since;
        let before = Instant::now();
        let claimed = store.claim(100).await.expect("it can claim");
        let took = before.elapsed();
        assert_eq!(claimed.len(), 10, "all of the dead one's and no other");
        assert!(took < Duration::from_millis(500), "it took {took:?}");
        assert_eq!(store.claim(100).await.expect("it can claim"), []);
    }
}

/// C18: a gap of more than a lease restarts the series of heartbeats.
#[test]
fn a_worker_is_settled_after_a_lease_of_beats() {
    let lease = Duration::from_secs(2);
    let (heartbeats, start) = (HeartbeatState::default(), tokio::time::Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    assert!(!heartbeats.is_settled(at(0), lease), "never heard");
    for heartbeat in [0, 1_900, 3_800] {
        heartbeats.record(at(heartbeat), lease);
    }
    assert!(heartbeats.is_settled(at(3_800), lease));
    assert!(!heartbeats.is_settled(at(5_900), lease), "not heard any more");
    heartbeats.record(at(5_900), lease);
    assert!(!heartbeats.is_settled(at(5_900), lease), "a new series");
    heartbeats.record(at(7_000), lease);
    assert!(!heartbeats.is_settled(at(7_899), lease));
    assert!(heartbeats.is_settled(at(7_900), lease));
}

/// C27: a node whose writer is stuck stops its heartbeats, so that others claim its runs. After a
/// common outage, the writer gets its time first.
#[test]
fn a_node_that_cannot_write_does_not_beat() {
    let (lease, start) = (Duration::from_secs(2), tokio::time::Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let long = MAX_STUCK + Duration::from_secs(1);
    let heartbeats = HeartbeatState::default();
    assert!(heartbeats.may_send(at(0), long), "it has only just begun");
    for second in 0..=10 {
        heartbeats.record(at(second), lease);
    }
    assert!(heartbeats.may_send(at(10), MAX_STUCK), "not for long enough");
    heartbeats.record(at(11), lease);
    assert!(!heartbeats.may_send(at(11), long));
    assert!(!heartbeats.may_send(at(60), long), "however long it lasts");
    assert!(heartbeats.may_send(at(61), Duration::ZERO), "it writes again");
}
