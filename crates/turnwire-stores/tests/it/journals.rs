//! Stores to write to, and journals to write.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tempfile::TempDir;
use turnwire_contract::{
    Event, EventStream, Journal, RecordedEvent, RunId, RunOutcome, Seq, TenantId, Timestamp, Usage,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn tenant() -> TenantId {
    TenantId::from("tenant")
}

pub(crate) fn event(run: &str, seq: u64, event: Event) -> Arc<RecordedEvent> {
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(seq).unwrap());
    Arc::new(RecordedEvent { run_id: RunId::from(run), seq: Seq(seq), at, event })
}

pub(crate) fn text(run: &str, seq: u64, text: &str) -> Arc<RecordedEvent> {
    event(run, seq, Event::TextAdded { item_id: "msg_1".into(), text: text.to_owned() })
}

pub(crate) fn end(run: &str, seq: u64) -> Arc<RecordedEvent> {
    let (outcome, usage) = (RunOutcome::Completed, Usage::default());
    event(run, seq, Event::RunFinished { outcome, usage })
}

/// A file of its own, and the store in it.
pub(crate) async fn sqlite() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = in_file(&directory).await;
    (directory, store)
}

pub(crate) async fn in_file(directory: &TempDir) -> Store {
    let path = directory.path().join("runs.db");
    Store::open(StoreOptions::at(format!("sqlite://{}", path.display()))).await.unwrap()
}

pub(crate) async fn at(url: &str, fanout: Option<String>) -> Store {
    let options = StoreOptions { fanout, connections: 4, ..StoreOptions::at(url) };
    Store::open(options).await.unwrap()
}

/// Two workers on one database, with PostgreSQL alone and with Redis.
pub(crate) async fn pairs() -> Vec<(Store, Store)> {
    let mut pairs = Vec::new();
    for fanout in [None, Some(services::redis_url())] {
        let url = services::postgres_url();
        pairs.push((at(&url, fanout.clone()).await, at(&url, fanout).await));
    }
    pairs
}

pub(crate) async fn reader(store: &Store, run: &str, after: u64) -> EventStream {
    store.read(&tenant(), &RunId::from(run), Seq(after)).await.unwrap()
}

/// The next event, which must come.
pub(crate) async fn next(reader: &mut EventStream) -> Arc<RecordedEvent> {
    let next = tokio::time::timeout(PATIENCE, reader.next()).await;
    next.expect("nothing arrives").expect("it is not over").unwrap()
}

/// Everything up to the end.
pub(crate) async fn rest(mut reader: EventStream) -> Vec<Arc<RecordedEvent>> {
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, reader.next()).await;
        match next.unwrap_or_else(|_| panic!("nothing follows on {:?}", events.last())) {
            Some(event) => events.push(event.unwrap()),
            None => return events,
        }
    }
}

pub(crate) async fn stored(store: &Store, run: &str) -> Vec<Arc<RecordedEvent>> {
    store.read_stored(&tenant(), &RunId::from(run), Seq::START).await.unwrap()
}

pub(crate) fn backends(events: &[Arc<RecordedEvent>]) -> Vec<u64> {
    events.iter().map(|recorded| recorded.seq.0).collect()
}
