//! Batches in SQLite are the same whether they are written at once or row by row.

use tokio::sync::oneshot;
use turnwire_contract::{CallId, Event, ItemId, RecordedEvent, RunId, Seq, TenantId, Timestamp};

use super::*;
use crate::{
    database::{Row, SqliteDatabase},
    rows::to_rows,
};

const TIME: Duration = Duration::from_secs(5);
const ODD: &str = "\"quoted\" \\ \u{0} \u{1f989} [1,2] 'x' \n";

/// A start of a call, and some text.
fn job(run: &str, tag: i64) -> Job {
    let run_id = RunId::from(run);
    let events = [
        Event::RunStarted,
        Event::ToolStarted { call_id: CallId::from(ODD), attempt: 1, label: ODD.to_owned() },
        Event::TextAdded { item_id: ItemId::from("msg_1"), text: ODD.to_owned() },
        Event::TextAdded { item_id: ItemId::from("msg_1"), text: "more".to_owned() },
    ];
    let recorded = |(event, seq): (Event, u64)| {
        let at = Timestamp::from_micros(1);
        Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event })
    };
    let events: Vec<Arc<RecordedEvent>> = events.into_iter().zip(1..).map(recorded).collect();
    let new_run = NewRunRow {
        created_at: tag,
        request: "{}".to_owned(),
        model: ODD.to_owned(),
        input_text: ODD.to_owned(),
        tools: "[]".to_owned(),
        n_calls: 0,
        holder: Some(run.to_owned()),
    };
    // Somebody waits for the answer: the run is not abandoned.
    let (answer, waits) = oneshot::channel();
    std::mem::forget(waits);
    Job {
        tenant: TenantId::from("a \"tenant\""),
        rows: to_rows(&events).unwrap(),
        run_id,
        tag,
        events,
        bytes: 1,
        ending: None,
        progress: None,
        deliveries: Vec::new(),
        new_run: Some(Box::new(new_run)),
        answer,
    }
}

async fn database() -> (Arc<dyn Database>, SqliteBatchWriter) {
    let database: Arc<dyn Database> = Arc::new(SqliteDatabase::in_memory().await.unwrap());
    (Arc::clone(&database), SqliteBatchWriter::new(database, "worker_1".to_owned()))
}

async fn all_runs(database: &dyn Database) -> Vec<Row> {
    let sql = "select id, tenant, created_at, request, worker, model, input_text, holder \
               from runs order by id";
    database.query(sql, &[]).await.unwrap()
}

async fn all_stored(database: &dyn Database) -> Vec<Row> {
    let sql = "select tenant, run_id, first_seq, last_seq, tag, kind, call_id, body, typeof(tag) \
               from run_events order by run_id, first_seq";
    database.query(sql, &[]).await.unwrap()
}

/// C2: what is written at once is what is written row by row, whatever is in it.
#[tokio::test]
async fn at_once_and_row_by_row_are_the_same() {
    let jobs: Vec<Job> = (10..26).map(|n| job(&format!("run_{n}"), i64::MAX - n)).collect();
    assert!(all_rows(&jobs).is_some());
    let (together, mut writer) = database().await;
    assert_eq!(writer.write(&jobs, TIME).await.unwrap(), [true; 16]);
    let (apart, mut writer) = database().await;
    for job in &jobs {
        let job = std::slice::from_ref(job);
        assert!(all_rows(job).is_none());
        assert_eq!(writer.write(job, TIME).await.unwrap(), [true]);
    }
    let stored = all_stored(&*together).await;
    assert_eq!(stored.len(), 16 * 3, "text of one item is one row");
    assert_eq!(stored, all_stored(&*apart).await);
    let runs = all_runs(&*together).await;
    assert_eq!(runs.len(), 16);
    assert_eq!(runs, all_runs(&*apart).await);
}

/// C2: a batch that is repeated is stored once, and one run whose seq somebody else has taken
/// leaves nothing behind and costs the others nothing.
#[tokio::test]
async fn a_conflict_costs_one_run() {
    let (database, mut writer) = database().await;
    let mut other = job("run_11", 7);
    other.rows.truncate(1);
    assert_eq!(writer.write(&[other], TIME).await.unwrap(), [true]);
    let jobs: Vec<Job> = (10..26).map(|n| job(&format!("run_{n}"), n)).collect();
    let mut expected = [true; 16];
    expected[1] = false;
    for _ in 0..2 {
        assert_eq!(writer.write(&jobs, TIME).await.unwrap(), expected);
        let stored = all_stored(&*database).await;
        assert_eq!(stored.len(), 15 * 3 + 1);
        let of_the_other = stored.iter().filter(|row| row.text(1).unwrap() == "run_11");
        assert_eq!(of_the_other.map(|row| row.integer(4).unwrap()).collect::<Vec<_>>(), [7]);
    }
}
