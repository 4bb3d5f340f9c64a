//! Batches in SQLite are the same whether they are written at once or row by row.

use turnwire_contract::{
    CallId, Entry, Event, Item, ItemId, RecordedEvent, RunId, RunOutcome, Seq, Timestamp, Usage,
};

use super::{super::NewRunRow, *};
use crate::{
    database::{Row, SqliteDatabase},
    progress::SummaryColumns,
    rows::to_rows,
    run_ends::StoredEnd,
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
    let (job, waits) = Job::of_one_event("a \"tenant\"", run, 1);
    std::mem::forget(waits);
    let (rows, new_run) = (to_rows(&events).unwrap(), Some(Box::new(new_run)));
    Job { tag, events, rows, new_run, ..job }
}

/// The end of a run, with two entries.
fn end_of(run: &str) -> Job {
    let mut job = job(run, 2);
    let (outcome, usage) = (RunOutcome::Completed, Usage::default());
    let event = Event::RunFinished { outcome: outcome.clone(), usage };
    let (run_id, at) = (job.run_id.clone(), Timestamp::from_micros(1));
    let end = Arc::new(RecordedEvent { run_id, seq: Seq(5), at, event });
    job.rows = to_rows(&[Arc::clone(&end)]).unwrap();
    (job.events, job.new_run) = (vec![end], None);
    let entry = |id: &str| {
        Entry::new(id, Item::Reasoning { text: ODD.to_owned(), encrypted_content: None })
    };
    job.run_end = Some(StoredEnd::new(outcome, vec![entry("msg_2"), entry("msg_1")]));
    let tools = "[\"a\"]".to_owned();
    let summary = SummaryColumns { tools, n_calls: 3, n_failed_calls: 1, is_waiting: true };
    job.summary = Some(Box::new(summary));
    job
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
    let (together, writer) = database().await;
    writer.write_at_once(&jobs).await.unwrap();
    let (apart, writer) = database().await;
    assert_eq!(writer.write_one_by_one(&jobs).await.unwrap(), [true; 16]);
    let stored = all_stored(&*together).await;
    assert_eq!(stored.len(), 16 * 3, "text of one item is one row");
    assert_eq!(stored, all_stored(&*apart).await);
    let runs = all_runs(&*together).await;
    assert_eq!(runs.len(), 16);
    for (run, job) in runs.iter().zip(&jobs) {
        assert_eq!(run.text(6).unwrap(), ODD);
        assert_eq!(run.text(7).unwrap(), job.run_id.as_str());
    }
    assert_eq!(runs, all_runs(&*apart).await);
}

/// C2: an end is stored with all that belongs to it, at once or row by row: the entries in their
/// order, the status, and nothing that nobody needs any more. A run that is not active is not ended
/// again.
#[tokio::test]
async fn an_end_at_once_is_the_end_row_by_row() {
    let mut found = Vec::new();
    for at_once in [true, false] {
        let (database, writer) = database().await;
        let begun: Vec<Job> = ["run_1", "run_2", "run_3"].map(|run| job(run, 1)).into();
        writer.write_at_once(&begun).await.unwrap();
        for sql in [
            "insert into commands (run_id, tenant, command) select id, tenant, '{}' from runs",
            "insert into run_secrets (tenant, run_id, server, key_id, sealed)
             select tenant, id, 'one', 'two', 'three' from runs",
        ] {
            database.query(sql, &[]).await.unwrap();
        }
        let over = "update runs set state = 'finished', outcome = 'before' where id = 'run_3'";
        database.query(over, &[]).await.unwrap();
        let ends: Vec<Job> = ["run_1", "run_3"].map(end_of).into();
        if at_once {
            writer.write_at_once(&ends).await.unwrap();
        } else {
            assert_eq!(writer.write_one_by_one(&ends).await.unwrap(), [true; 2]);
        }
        let mut rows = Vec::new();
        for sql in [
            "select id, state, outcome, worker, tools, n_calls, waiting_by from runs order by id",
            "select run_id, tenant, conversation_id, id, entry from entries order by position",
            "select run_id from commands union all select run_id from run_secrets order by 1",
        ] {
            rows.extend(database.query(sql, &[]).await.unwrap());
        }
        found.push(rows);
    }
    assert_eq!(found[0], found[1]);
    let texts = |n: usize| found[0].iter().map(move |row| row.optional_text(n).unwrap());
    let firsts: Vec<&str> = texts(0).flatten().collect();
    let (runs, rest) = firsts.split_at(3);
    assert_eq!(runs, ["run_1", "run_2", "run_3"]);
    assert_eq!(
        rest,
        ["run_1", "run_1", "run_2", "run_2", "run_3", "run_3"],
        "entries, then the rest"
    );
    let states: Vec<&str> = texts(1).take(3).flatten().collect();
    assert_eq!(states, ["finished", "active", "finished"]);
    assert_eq!(texts(2).nth(2).flatten(), Some("before"));
    let names: Vec<&str> = texts(3).skip(3).take(2).flatten().collect();
    assert_eq!(names, ["msg_2", "msg_1"], "in the order of the run");
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
