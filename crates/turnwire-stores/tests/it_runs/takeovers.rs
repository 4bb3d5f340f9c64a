//! A run changes hands, with an engine at either end.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use turnwire_contract::{
    Event, EventLog, Item, RunOutcome, RunRequest, Seq, TenantId, Wish, Workers,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;

use crate::support::Place;

/// How long a worker's runs stay its own; and no chance that its neighbour is quicker.
const LEASE: Duration = Duration::from_millis(300);

fn engine(store: &Store, model: Scripted) -> Runs {
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        log: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        ..EngineParts::default()
    })
}

/// C14: a cancel that was taken while a run had no worker holds, also if the next worker would
/// have had the answer at once.
#[tokio::test]
async fn c14_a_cancel_is_heeded_before_the_next_worker_begins() {
    for place in Place::both() {
        let [first, second]: [Store; 2] = place.stores_with(2, LEASE).await.try_into().unwrap();
        let slow = Scripted::new([Turn::new().text("Let me ").wait_forever()]);
        let request = RunRequest::new("m", vec![Item::user("?")]);
        let tenant = TenantId::from(request.tenant.as_str());
        // It beats once and never again: gone, without a word.
        first.beat().await.unwrap();
        let left = engine(&first, slow);
        let run = left.start(request).await.unwrap();
        let mut events = run.events().await.unwrap();
        let spoke = |event: &Event| matches!(event, Event::TextAdded { .. });
        while !spoke(&events.next().await.unwrap().unwrap().event) {}
        second.leave(&tenant, run.id(), Wish::Cancel).await.unwrap();

        let quick = Scripted::new([Turn::new().text("Done.")]);
        let next = engine(&second, quick);
        next.keep_working().await.unwrap();
        let mut events = second.read(&tenant, run.id(), Seq::START).await.unwrap();
        let outcome = loop {
            if let Event::RunFinished { outcome, .. } = &events.next().await.unwrap().unwrap().event
            {
                break outcome.clone();
            }
        };
        assert_eq!(outcome, RunOutcome::Cancelled, "{}", place.url);
    }
}
