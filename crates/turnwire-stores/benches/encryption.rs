//! What encryption costs: `cargo bench -p turnwire-stores --bench encryption -- 5`.
//!
//! Runs append their events one by one, as answers of models arrive, and are read again by another
//! store. Without and with encryption in turns; the number is how many pairs are measured. The time
//! is that of this process, without the one of PostgreSQL.
#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should fall over, and tells what it found"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use turnwire_contract::{
    Event, ItemId, Journal, NewRun, RecordedEvent, RunId, RunOutcome, RunRecords, RunRequest, Seq,
    TenantId, Timestamp, Usage,
};
use turnwire_stores::{SecretKeys, Store, StoreOptions};
use turnwire_testkit::services;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const N_RUNS: usize = 100;
const N_EVENTS: u64 = 200;
const N_TICKS_PER_SECOND: f64 = 100.0;

fn main() {
    let mut arguments = std::env::args();
    let n_pairs = arguments.find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let runtime = tokio::runtime::Runtime::new().expect("there is room for a runtime");
    runtime.block_on(measure(n_pairs));
}

async fn measure(n_pairs: usize) {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite://{}", directory.path().join("runs.db").display());
    println!("{:<34} {:>12} {:>12} {:>8}", "per event", "plain", "encrypted", "ratio");
    for (name, url) in [("SQLite", sqlite), ("PostgreSQL", services::postgres_url())] {
        let mut plain = Vec::new();
        let mut encrypted = Vec::new();
        // The first pair warms up.
        for _ in 0..=n_pairs {
            plain.push(pass(&url, None).await);
            encrypted.push(pass(&url, Some(SecretKeys::read(KEY).unwrap())).await);
        }
        for (words, of) in [
            ("processor time of append", (|cost| cost.append_cpu) as fn(&Cost) -> f64),
            ("processor time of read", |cost| cost.read_cpu),
            ("time of append", |cost| cost.append),
            ("time of read", |cost| cost.read),
        ] {
            let (plain, encrypted) = (median(&plain[1..], of), median(&encrypted[1..], of));
            println!(
                "{:<34} {plain:>9.2} µs {encrypted:>9.2} µs {:>8.3}",
                format!("{name}: {words}"),
                encrypted / plain
            );
        }
    }
}

/// Microseconds per event.
struct Cost {
    append_cpu: f64,
    read_cpu: f64,
    append: f64,
    read: f64,
}

fn median(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Time that this process has used.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u32 = fields[11..=12].iter().map(|ticks| ticks.parse::<u32>().unwrap()).sum();
    Duration::from_secs_f64(f64::from(ticks) / N_TICKS_PER_SECOND)
}

fn tenant() -> TenantId {
    TenantId::from("tenant")
}

async fn pass(url: &str, encryption: Option<SecretKeys>) -> Cost {
    let open = || async {
        let encryption = encryption.clone();
        Store::open(StoreOptions { encryption, ..StoreOptions::at(url) }).await.unwrap()
    };
    let store = open().await;
    let new = |_| RunId::new(format!("run_{}", uuid::Uuid::new_v4().simple()));
    let runs: Vec<RunId> = (0..N_RUNS).map(new).collect();
    let per_event = |spent: Duration| spent.as_secs_f64() * 1e6 / (N_RUNS as f64 * N_EVENTS as f64);

    let (began, spent) = (Instant::now(), cpu());
    join_all(runs.iter().map(|run_id| write(&store, run_id))).await;
    let (append, append_cpu) = (per_event(began.elapsed()), per_event(cpu().saturating_sub(spent)));
    store.close().await;

    let store = open().await;
    let (began, spent) = (Instant::now(), cpu());
    // Often, so that the clock of the kernel is fine enough.
    let n_times = 10;
    for _ in 0..n_times {
        let each = stream::iter(&runs).map(|run_id| read(&store, run_id));
        each.buffer_unordered(8).collect::<Vec<()>>().await;
    }
    let (read, read_cpu) = (per_event(began.elapsed()), per_event(cpu().saturating_sub(spent)));
    store.close().await;
    let n_times = f64::from(n_times);
    Cost { append_cpu, read_cpu: read_cpu / n_times, append, read: read / n_times }
}

async fn write(store: &Store, run_id: &RunId) {
    let mut request = RunRequest::new("m", Vec::new());
    request.tenant = tenant();
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    store.create(NewRun::new(run_id.clone(), at, Arc::new(request))).await.unwrap();
    for seq in 1..=N_EVENTS {
        let event = if seq == N_EVENTS {
            Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() }
        } else {
            Event::TextAdded { item_id: ItemId::from("msg_1"), text: "word ".to_owned() }
        };
        let recorded = RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event };
        store.append(&tenant(), vec![Arc::new(recorded)]).await.unwrap();
    }
}

async fn read(store: &Store, run_id: &RunId) {
    let events = store.stored(&tenant(), run_id, Seq::START).await.unwrap();
    let events: Vec<Arc<RecordedEvent>> = events.try_collect().await.unwrap();
    assert_eq!(events.len() as u64, N_EVENTS);
}
