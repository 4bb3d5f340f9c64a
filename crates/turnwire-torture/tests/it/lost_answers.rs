//! The way to the database breaks after a commit and before its answer.

use std::{sync::Arc, time::Duration};

use turnwire_contract::{
    ConversationId, Created, Event, IdempotencyKey, Item, Journal, NewRun, RecordedEvent, RunId,
    RunRecords, RunRequest, Seq, TenantId, Timestamp,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services::postgres_url;
use turnwire_torture::proxy::Proxy;

/// C7, C9: a run that was kept without an answer is found when it is kept again, whatever it
/// has to do with others. Its client is not told to come back later.
#[tokio::test]
async fn no_answer_is_no_refusal() {
    let url = postgres_url();
    let (before, after) = url.rsplit_once(':').unwrap();
    let (port, database) = after.split_once('/').unwrap();
    let proxy = Proxy::to(port.parse().unwrap()).await.unwrap();
    let store = StoreOptions::at(format!("{before}:{}/{database}", proxy.port()));
    let store = Store::open(store).await.unwrap();

    let keyed = IdempotencyKey {
        endpoint: "/v1/responses".to_owned(),
        key: "key".to_owned(),
        fingerprint: "of the request".to_owned(),
    };
    let alone = new_run("run_alone");
    let keyed = NewRun { idempotency_key: Some(keyed), ..new_run("run_keyed") };
    let mut together = new_run("run_together");
    Arc::make_mut(&mut together.request).conversation_id = Some(ConversationId::from("conv_1"));

    for (n, run) in (1..).zip([alone, keyed, together]) {
        let (run_id, first_events) = (run.run_id.clone(), run.first_events.clone());
        let losing = proxy.drop_next_response(Duration::from_secs(10));
        let (is_lost, created) = tokio::join!(losing, store.create(run));
        assert!(is_lost && proxy.n_dropped() == n, "{run_id}: no answer was lost");
        assert_eq!(created.unwrap(), Created::WithEvents, "{run_id}");
        let journal = store.read_stored(&TenantId::default(), &run_id, Seq::START).await;
        assert_eq!(journal.unwrap(), first_events, "{run_id}");
    }
}

fn new_run(id: &str) -> NewRun {
    let (run_id, at) = (RunId::from(id), Timestamp::from_micros(1));
    let request = Arc::new(RunRequest::new("any", vec![Item::user("hi")]));
    let event = Event::RunQueued { request: Arc::clone(&request) };
    let first = RecordedEvent { run_id: run_id.clone(), seq: Seq(1), at, event };
    NewRun { first_events: vec![Arc::new(first)], ..NewRun::new(run_id, at, request) }
}
