//! What durability costs: `cargo bench -p turnwire-stores --bench journal -- 5`.
//!
//! Against a PostgreSQL and a Redis that it starts itself; the number is for how many seconds
//! each part is measured. What is compared is measured in turns, in the same minute.
#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should fall over, and tells what it found"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, future::join_all};
use sqlx::{Connection, PgConnection};
use tokio_util::task::TaskTracker;
use turnwire_contract::{
    Event, ItemId, Journal, RecordedEvent, RunId, RunOutcome, Seq, TenantId, Timestamp, Usage,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services;

const N_BUSY: usize = 1_000;
const N_CALM: usize = 100;
const PACE: Duration = Duration::from_millis(20);
const TURNS: u32 = 3;

fn main() {
    let mut arguments = std::env::args();
    let seconds = arguments.find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let runtime = tokio::runtime::Runtime::new().expect("there is room for a runtime");
    runtime.block_on(measure(Duration::from_secs(seconds)));
}

async fn measure(time: Duration) {
    let url = services::postgres_url();
    let store = open(&url, None).await;
    println!("{:<58} {:>12} {:>12}", "", "p50", "p99");
    durable_events(&url, &store, time).await;
    append_latency(&store, time).await;
    let redis = services::redis_url();
    for (words, fanout) in [("PostgreSQL alone", None), ("Redis", Some(redis))] {
        let url = services::postgres_url();
        let (writer, reader) = (open(&url, fanout.clone()).await, open(&url, fanout).await);
        to_another_worker(words, &writer, &reader, time).await;
    }
    replay(&url, &store).await;
}

async fn open(url: &str, fanout: Option<String>) -> Store {
    Store::open(StoreOptions { fanout, ..StoreOptions::at(url) }).await.expect("it can be opened")
}

fn tenant() -> TenantId {
    TenantId::from("tenant")
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

fn word(run_id: &RunId, seq: u64) -> Arc<RecordedEvent> {
    let event = Event::TextAdded { item_id: ItemId::from("msg_1"), text: "word ".to_owned() };
    let at = Timestamp::from_micros(now());
    Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event })
}

fn new_runs(n: usize) -> Vec<RunId> {
    (0..n).map(|_| RunId::new(format!("run_{}", uuid::Uuid::new_v4().simple()))).collect()
}

fn row(words: &str, values: &mut [Duration]) {
    values.sort_unstable();
    let at = |share: usize| {
        let place = (values.len() * share / 100).min(values.len() - 1);
        format!("{:.2} ms", values[place].as_secs_f64() * 1e3)
    };
    println!("{words:<58} {:>12} {:>12}", at(50), at(99));
}

/// Events per second of a thousand runs that append one after the other, against a loop that
/// sends the same rows in the same statement.
async fn durable_events(url: &str, store: &Store, time: Duration) {
    let (mut ours, mut bare) = (0.0, 0.0);
    let each = time / TURNS;
    for _ in 0..TURNS {
        bare += bare_events(url, each).await / f64::from(TURNS);
        ours += our_events(store, each).await / f64::from(TURNS);
    }
    println!(
        "{:<58} {ours:>10.0}/s",
        format!("durable events of {N_BUSY} runs through `Store::append`")
    );
    println!("{:<58} {bare:>10.0}/s", "the same rows by a bare loop");
    println!("{:<58} {:>12.2}", "ratio (goal: 0.8)", ours / bare);
}

async fn our_events(store: &Store, time: Duration) -> f64 {
    let (tasks, n_events) = (TaskTracker::new(), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    for run_id in new_runs(N_BUSY) {
        let (store, n_events) = (store.clone(), Arc::clone(&n_events));
        tasks.spawn(async move {
            let mut seq = 1;
            while began.elapsed() < time {
                store.append(&tenant(), vec![word(&run_id, seq)]).await.unwrap();
                n_events.fetch_add(1, Ordering::Relaxed);
                seq += 1;
            }
        });
    }
    tasks.close();
    tasks.wait().await;
    n_events.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

async fn bare_events(url: &str, time: Duration) -> f64 {
    const SQL: &str = "with first as ( \
        insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], \
            $6::text[], $7::text[], $8::text[]) \
        on conflict (run_id, first_seq) do nothing \
        returning run_id) \
        select run_id from first";
    let mut connection = PgConnection::connect(url).await.unwrap();
    let runs = new_runs(N_BUSY);
    let (began, mut n_events, mut seq) = (Instant::now(), 0, 0);
    while began.elapsed() < time {
        seq += 1;
        for some in runs.chunks(N_BUSY / 2) {
            let n = some.len();
            let body = format!(
                r#"[[{},{{"type":"text_added","item_id":"msg_1","text":"word "}}]]"#,
                now()
            );
            let query = sqlx::query_scalar(SQL)
                .bind(vec!["tenant"; n])
                .bind(some.iter().map(RunId::as_str).collect::<Vec<_>>())
                .bind(vec![seq; n])
                .bind(vec![seq; n])
                .bind(vec![7_i64; n])
                .bind(vec!["delta"; n])
                .bind(vec![None::<&str>; n])
                .bind(vec![body.as_str(); n]);
            let winners: Vec<String> = query.fetch_all(&mut connection).await.unwrap();
            assert_eq!(winners.len(), n);
            n_events += n;
        }
    }
    n_events as f64 / began.elapsed().as_secs_f64()
}

async fn append_latency(store: &Store, time: Duration) {
    let writing = new_runs(N_CALM).into_iter().enumerate().map(|(n, run_id)| async move {
        let mut ticks = paced(n).await;
        let (began, mut took, mut seq) = (Instant::now(), Vec::new(), 1);
        while began.elapsed() < time {
            ticks.tick().await;
            let asked = Instant::now();
            store.append(&tenant(), vec![word(&run_id, seq)]).await.unwrap();
            took.push(asked.elapsed());
            seq += 1;
        }
        took
    });
    let mut took = join_all(writing).await.concat();
    row(&format!("append, {N_CALM} runs of 50 events/s"), &mut took);
}

/// Fifty times a second, not all at once.
async fn paced(n: usize) -> tokio::time::Interval {
    let offset = PACE * u32::try_from(n).unwrap() / u32::try_from(N_CALM).unwrap();
    tokio::time::sleep(offset).await;
    tokio::time::interval(PACE)
}

async fn to_another_worker(words: &str, writer: &Store, reader: &Store, time: Duration) {
    let runs = new_runs(N_CALM);
    for run_id in &runs {
        writer.append(&tenant(), vec![word(run_id, 1)]).await.unwrap();
    }
    let n_events = usize::try_from(time.as_millis() / PACE.as_millis()).unwrap();
    let both = runs.iter().enumerate().map(|(n, run_id)| async move {
        let acknowledged: Vec<AtomicU64> = (0..n_events + 2).map(|_| AtomicU64::new(0)).collect();
        let mut events = reader.read(&tenant(), run_id, Seq(1)).await.unwrap();
        let base = Instant::now();
        let micros = || u64::try_from(base.elapsed().as_micros()).unwrap();
        let writing = async {
            let mut ticks = paced(n).await;
            for (seq, acknowledged) in (0..).zip(&acknowledged).skip(2) {
                ticks.tick().await;
                writer.append(&tenant(), vec![word(run_id, seq)]).await.unwrap();
                acknowledged.store(micros(), Ordering::Relaxed);
            }
        };
        let reading = async {
            let mut seen = Vec::new();
            while seen.len() < n_events {
                let recorded = events.next().await.unwrap().unwrap();
                let from_call = u64::try_from(now() - recorded.at.as_micros()).unwrap_or(0);
                seen.push((recorded.seq.0, from_call, micros()));
            }
            seen
        };
        let ((), seen) = tokio::join!(writing, reading);
        let pairs = seen.into_iter().skip(25).map(|(seq, from_call, at)| {
            let known = acknowledged[usize::try_from(seq).unwrap()].load(Ordering::Relaxed);
            (from_call, at.saturating_sub(known))
        });
        pairs.collect::<Vec<(u64, u64)>>()
    });
    let seen = join_all(both).await.concat();
    let mut from_call: Vec<_> = seen.iter().map(|(call, _)| Duration::from_micros(*call)).collect();
    let mut from_commit: Vec<_> =
        seen.iter().map(|(_, commit)| Duration::from_micros(*commit)).collect();
    row(&format!("{words}: call of append to reader elsewhere"), &mut from_call);
    row(&format!("{words}: return of append to reader elsewhere"), &mut from_commit);
}

/// A stored run of 2,000 events, each a row of its own, against the bare rows.
async fn replay(url: &str, store: &Store) {
    let run_id = new_runs(1).swap_remove(0);
    let at = Timestamp::from_micros(now());
    let recorded =
        |seq, event| Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event });
    for first in (1..2_000).step_by(2) {
        let item_id = ItemId::from("msg_1");
        let turn = Event::TurnStarted { turn: 1 };
        let text = Event::TextAdded { item_id, text: "a few words ".to_owned() };
        let batch = vec![recorded(first, text), recorded(first + 1, turn)];
        store.append(&tenant(), batch).await.unwrap();
    }
    let (outcome, usage) = (RunOutcome::Completed, Usage::default());
    store
        .append(&tenant(), vec![recorded(2_001, Event::RunFinished { outcome, usage })])
        .await
        .unwrap();
    let mut connection = PgConnection::connect(url).await.unwrap();
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let began = Instant::now();
        let sql = "select first_seq, last_seq, body from run_events where run_id = $1 \
                   order by first_seq";
        let rows: Vec<(i64, i64, String)> =
            sqlx::query_as(sql).bind(run_id.as_str()).fetch_all(&mut connection).await.unwrap();
        assert_eq!(rows.len(), 2_001);
        bare.push(began.elapsed());
        let began = Instant::now();
        let events = store.read(&tenant(), &run_id, Seq::START).await.unwrap();
        let events: Vec<Arc<RecordedEvent>> = events.try_collect().await.unwrap();
        assert_eq!(events.len(), 2_001);
        ours.push(began.elapsed());
    }
    row("replay of 2,001 events", &mut ours);
    row("the bare rows", &mut bare);
    println!(
        "{:<58} {:>12.2}",
        "ratio (goal: 3)",
        ours[100].as_secs_f64() / bare[100].as_secs_f64()
    );
}
