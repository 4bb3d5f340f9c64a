//! The in-memory stores keep the promises of their ports, and do not grow for ever.

use std::sync::Arc;

use turnwire_contract::{
    BlobError, BlobStore, Event, Item, Journal, NewRun, RecordedEvent, RunId, RunOutcome,
    RunRecords, RunRequest, Seq, TenantId, Timestamp, Usage,
};
use turnwire_engine::{
    ClockAndIds, MemoryApiKeys, MemoryBlobStore, MemoryJournal, MemoryRunStore, MemoryShares,
};
use turnwire_testkit::conformance;

/// C1, C2, C3, C11 as far as memory goes.
#[tokio::test]
async fn the_event_log_keeps_its_promises() {
    conformance::journal::check(&MemoryJournal::default()).await;
}

/// C7, C8, A1 as far as memory goes.
#[tokio::test]
async fn the_run_store_keeps_its_promises() {
    conformance::run_store::check(&MemoryRunStore::default()).await;
}

/// What lists say of runs is what their events say, as far as memory goes.
#[tokio::test]
async fn the_lists_of_runs_keep_their_promises() {
    let journal = Arc::new(MemoryJournal::default());
    let store = MemoryRunStore::default().beside(&journal);
    conformance::run_listing::check(&store, &*journal).await;
}

/// A1 as far as memory goes.
#[tokio::test]
async fn the_shares_keep_their_promises() {
    conformance::shares::check(&MemoryShares::default()).await;
}

/// A16 as far as memory goes.
#[tokio::test]
async fn the_api_keys_keep_their_promises() {
    conformance::api_keys::check(&MemoryApiKeys::default()).await;
}

/// R17, A1 as far as memory goes.
#[tokio::test]
async fn the_blob_store_keeps_its_promises() {
    conformance::blob_store::check(&MemoryBlobStore::default()).await;
}

fn finished(run: &str) -> Arc<RecordedEvent> {
    let event = Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() };
    let (run_id, at) = (RunId::from(run), Timestamp::from_micros(0));
    Arc::new(RecordedEvent { run_id, seq: Seq(1), at, event })
}

#[tokio::test]
async fn the_event_log_forgets_the_oldest_finished_run() {
    let log = MemoryJournal::keeping(2);
    for run in ["run_a", "run_b", "run_c"] {
        log.append(&TenantId::default(), vec![finished(run)]).await.unwrap();
    }
    assert!(log.read(&TenantId::default(), &RunId::from("run_a"), Seq::START).await.is_err());
    assert!(log.read(&TenantId::default(), &RunId::from("run_b"), Seq::START).await.is_ok());
    assert!(log.read(&TenantId::default(), &RunId::from("run_c"), Seq::START).await.is_ok());
}

#[tokio::test]
async fn the_run_store_forgets_finished_runs_and_only_those() {
    let store = MemoryRunStore::keeping(2);
    let tenant = TenantId::default();
    let create = async |run: &str| {
        let request = Arc::new(RunRequest::new("m", vec![Item::user("hi")]));
        let (run_id, created_at) = (RunId::from(run), Timestamp::from_micros(0));
        store.create(NewRun::new(run_id, created_at, request)).await.unwrap();
    };
    let finish = async |run: &str| {
        store.finish(&RunId::from(run), RunOutcome::Completed, Vec::new()).await.unwrap();
    };
    let kept = async || {
        let runs = store.list(&tenant, 9).await.unwrap();
        runs.iter().map(|run| run.run_id.to_string()).collect::<Vec<_>>()
    };
    for run in ["run_a", "run_b", "run_c", "run_d"] {
        create(run).await;
    }
    finish("run_b").await;
    finish("run_a").await;
    assert_eq!(kept().await, ["run_d", "run_c", "run_b", "run_a"], "two finished ones may stay");
    finish("run_c").await;
    assert_eq!(kept().await, ["run_d", "run_c", "run_a"], "the first one finished is forgotten");
}

#[tokio::test]
async fn the_blob_store_keeps_the_newest() {
    let store = MemoryBlobStore::keeping(2);
    let tenant = TenantId::default();
    for id in ["blob_a", "blob_b", "blob_c"] {
        store.put(&tenant, &"run".into(), &id.into(), format!("text of {id}")).await.unwrap();
    }
    let gone = store.get(&tenant, &"blob_a".into()).await;
    assert!(matches!(gone, Err(BlobError::NotFound(_))));
    assert_eq!(store.get(&tenant, &"blob_b".into()).await.unwrap(), "text of blob_b");
    assert_eq!(store.get(&tenant, &"blob_c".into()).await.unwrap(), "text of blob_c");
}

/// A1: ids are long and random, and the time is now.
#[test]
fn ids_and_times_of_the_system() {
    let clock_and_ids = ClockAndIds::system();
    let (one, other) = (clock_and_ids.new_id("run"), clock_and_ids.new_id("run"));
    assert_ne!(one, other);
    assert_eq!(one.len(), "run_".len() + 32);
    let year_2025 = Timestamp::from_micros(1_735_689_600_000_000);
    assert!(clock_and_ids.now() > year_2025);
}

/// Simulated time is the runtime's own, simulated ids count.
#[tokio::test(start_paused = true)]
async fn ids_and_times_of_a_simulation() {
    let clock_and_ids = ClockAndIds::simulated();
    assert_eq!(clock_and_ids.now().to_string(), "2026-01-01T00:00:00.000000Z");
    tokio::time::advance(std::time::Duration::from_millis(1500)).await;
    assert_eq!(clock_and_ids.now().to_string(), "2026-01-01T00:00:01.500000Z");
    assert_eq!(clock_and_ids.new_id("run"), "run_1");
    assert_eq!(clock_and_ids.new_id("call"), "call_1");
    assert_eq!(clock_and_ids.new_id("run"), "run_2");
}

/// C29: what is finished is bounded by its weight too, and the latest is there in any case.
#[tokio::test]
async fn finished_runs_are_bounded_by_bytes() {
    let (tenant, at) = (TenantId::default(), Timestamp::from_micros(0));
    let log = MemoryJournal::keeping(100).within_bytes(10_000);
    let is_there = async |run: &str| log.head(&tenant, &RunId::from(run)).await.is_ok();
    let append = async |run: &str, n_bytes: usize| {
        let run_id = RunId::from(run);
        let event = Event::TextAdded { item_id: "msg_1".into(), text: "x".repeat(n_bytes) };
        let said = Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(1), at, event });
        log.append(&tenant, vec![said]).await.unwrap();
        let end = RecordedEvent { seq: Seq(2), ..RecordedEvent::clone(&finished(run)) };
        log.append(&tenant, vec![Arc::new(end)]).await.unwrap();
    };
    append("run_a", 4_000).await;
    append("run_b", 4_000).await;
    assert!(is_there("run_a").await && is_there("run_b").await);
    append("run_c", 4_000).await;
    assert!(!is_there("run_a").await && is_there("run_b").await && is_there("run_c").await);
    append("run_d", 40_000).await;
    assert!(!is_there("run_c").await && is_there("run_d").await);

    let store = MemoryRunStore::keeping(100).within_bytes(10_000);
    for run in ["run_a", "run_b", "run_c"] {
        let request = Arc::new(RunRequest::new("m", vec![Item::user("x".repeat(4_000))]));
        store.create(NewRun::new(RunId::from(run), at, request)).await.unwrap();
        store.finish(&RunId::from(run), RunOutcome::Completed, Vec::new()).await.unwrap();
    }
    assert!(store.find(&tenant, &RunId::from("run_a")).await.is_err());
    assert!(store.find(&tenant, &RunId::from("run_c")).await.is_ok());

    let blobs = MemoryBlobStore::keeping(100).within_bytes(10_000);
    for blob in ["blob_a", "blob_b", "blob_c"] {
        let text = "x".repeat(4_000);
        blobs.put(&tenant, &RunId::from("run_a"), &blob.into(), text).await.unwrap();
    }
    assert!(blobs.get(&tenant, &"blob_a".into()).await.is_err());
    assert!(blobs.get(&tenant, &"blob_c".into()).await.is_ok());
}
