use std::time::{Duration, Instant};

use turnwire_contract::Leases;
use turnwire_testkit::services::postgres_url;

use super::{Claimed, claim_sql};
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

async fn plan(store: &Store, explain: &str, which: Claimed) -> String {
    let database = &store.0.database;
    let sql = format!("{explain} {}", claim_sql(database.dialect(), which));
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
        for which in [Claimed::Unsuspected, Claimed::Suspects] {
            let plan = plan(&store, explain, which).await;
            let reads_all = ["Seq Scan on runs", "SCAN r\n", "SCAN runs\n"];
            assert!(!reads_all.iter().any(|scan| plan.contains(scan)), "{plan}");
            assert!(plan.contains("runs_at_work"), "{plan}");
        }
        store.heartbeat().await.expect("it can be heard");
        let since = tokio::time::Instant::now().checked_sub(Duration::from_mins(10));
        store.0.heartbeats.assume_heard_since(since);
        let before = Instant::now();
        let claimed = store.claim(100).await.expect("it can claim");
        let took = before.elapsed();
        assert_eq!(claimed.len(), 10, "all of the dead one's and no other");
        assert!(took < Duration::from_millis(500), "it took {took:?}");
        assert_eq!(store.claim(100).await.expect("it can claim"), []);
    }
}
