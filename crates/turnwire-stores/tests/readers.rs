//! What readers cost that do not read. A process of its own: it looks at its whole memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{fs, sync::Arc};

use futures::StreamExt;
use turnwire_contract::{
    Event, EventStream, Journal, RunId, RunOutcome, Seq, TenantId, Timestamp, ToolOutcome,
    ToolOutput, Usage,
};
use turnwire_stores::{Store, StoreOptions};

const MIB: usize = 1024 * 1024;
const N_READERS: usize = 200;

/// This process's memory, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    kilobytes * 1024
}

fn recorded(seq: u64, event: Event) -> Arc<turnwire_contract::RecordedEvent> {
    let (run_id, at) = (RunId::from("run_long"), Timestamp::from_micros(1));
    Arc::new(turnwire_contract::RecordedEvent { run_id, seq: Seq(seq), at, event })
}

/// A run of 40 MB: small pieces of text, big pieces of text, and big results.
async fn long_run(store: &Store) -> u64 {
    let tenant = TenantId::default();
    let mut seq = 0;
    let mut append = async |events: Vec<Event>| {
        let batch = events.into_iter().map(|event| {
            seq += 1;
            recorded(seq, event)
        });
        store.append(&tenant, batch.collect()).await.unwrap();
        seq
    };
    let text = |text: String| Event::TextAdded { item_id: "msg_1".into(), text };
    for n in 0..400 {
        append((0..250).map(|m| text(format!("{n} {m} "))).collect()).await;
    }
    for _ in 0..100 {
        append((0..20).map(|_| text("big ".repeat(2_000))).collect()).await;
    }
    for n in 0..20 {
        let (call_id, output) = (format!("call_{n}").as_str().into(), "x".repeat(MIB));
        let outcome = ToolOutcome::Succeeded { output: ToolOutput::text(output) };
        append(vec![Event::ToolFinished { call_id, outcome, duration_ms: 1 }]).await;
    }
    let (outcome, usage) = (RunOutcome::Completed, Usage::default());
    append(vec![Event::RunFinished { outcome, usage }]).await
}

/// Readers that have taken one event each and then stop.
async fn stopped(store: &Store, backends: impl Iterator<Item = u64>) -> Vec<EventStream> {
    let (tenant, run_id) = (TenantId::default(), RunId::from("run_long"));
    let mut readers = Vec::new();
    for backend in backends {
        let mut reader = store.read(&tenant, &run_id, Seq(backend)).await.unwrap();
        let first = reader.next().await.unwrap().unwrap();
        assert_eq!(first.seq, Seq(backend + 1));
        readers.push(reader);
    }
    readers
}

/// C13, C29: two hundred readers of a run of 40 MB that stop after their first event cost one page
/// if they are at the same place, and a page each if they are not. They cost nothing once they are
/// gone; and whoever asks how far the run has come, or reads it from end to end, does not hold all
/// of it either.
#[tokio::test]
async fn readers_that_do_not_read_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/runs.db", folder.path().display());
    let store = Store::open(StoreOptions::at(url)).await.unwrap();
    let last = long_run(&store).await;
    let (tenant, run_id) = (TenantId::default(), RunId::from("run_long"));

    let before = resident();
    let mut n_events = 0;
    let mut stored = store.stored(&tenant, &run_id, Seq::START).await.unwrap();
    while let Some(recorded) = stored.next().await {
        recorded.unwrap();
        n_events += 1;
    }
    assert_eq!(n_events, last);
    drop(stored);
    assert_eq!(store.head(&tenant, &run_id).await.unwrap().last, Seq(last));
    grown_by_at_most(before, 24 * MIB, "whoever reads on");

    let before = resident();
    for backend in [0, 100_100, last - 3] {
        let readers = stopped(&store, (0..N_READERS).map(|_| backend)).await;
        assert_eq!(readers.len(), N_READERS);
        grown_by_at_most(before, 16 * MIB, "readers of one place");
    }

    let before = resident();
    let apart = last / N_READERS as u64;
    let readers = stopped(&store, (0..N_READERS as u64).map(|n| n * apart)).await;
    grown_by_at_most(before, N_READERS * MIB, "readers of many places");
    drop(readers);
    store.close().await;
}

fn grown_by_at_most(before: usize, most: usize, who: &str) {
    let grown = resident().saturating_sub(before);
    assert!(grown <= most, "{who} cost {} MiB, at most {}", grown / MIB, most / MIB);
}
