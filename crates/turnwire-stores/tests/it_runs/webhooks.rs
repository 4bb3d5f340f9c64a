//! The outbox of webhooks: what is stored with which event, who claims it, and when it goes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::future::join_all;
use serde_json::json;
use turnwire_contract::{
    ClaimedDelivery, DeliveryAttempt, DeliveryQuery, DeliveryStatus, Event, FreeReceiver, Journal,
    NextAttempt, RecordedEvent, RunEnd, RunId, RunOutcome, RunRecords, Seq, StoreError, TenantId,
    Timestamp, Usage, WebhookDelivery, WebhookEvent, WebhookOutbox, WebhookRoute,
};
use turnwire_stores::Store;

use crate::support::{Backend, run, tenant};

const URL: &str = "https://example.com/hook";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

async fn store_of(backend: &Backend) -> Store {
    let route = |tenant: &str| WebhookRoute {
        tenant: tenant.into(),
        url: URL.to_owned(),
        events: WebhookEvent::ALL.into(),
    };
    backend.store_with(|options| options.webhooks = vec![route("t"), route("u")]).await
}

fn recorded(run_id: &str, seq: u64, event: Event) -> Arc<RecordedEvent> {
    Arc::new(RecordedEvent { run_id: RunId::from(run_id), seq: Seq(seq), at: at(1), event })
}

/// Appends the end of a run of `tenant` after `seq` events.
async fn end(store: &Store, tenant: &TenantId, run_id: &str, seq: u64, outcome: RunOutcome) {
    let event = Event::RunFinished { outcome: outcome.clone(), usage: Usage::default() };
    let run_end = RunEnd { outcome, entries: Vec::new() };
    let batch = vec![recorded(run_id, seq + 1, event)];
    store.append_end(tenant, batch, run_end).await.unwrap();
}

async fn finished(store: &Store, run_id: &str, tenant: &str, stores: bool) {
    let tenant = TenantId::from(tenant);
    let mut new = run(run_id, |request| {
        request.tenant = tenant.clone();
        request.surface_data.insert("store".to_owned(), json!(stores));
    });
    new.first_events = vec![recorded(run_id, 1, Event::RunStarted)];
    store.create(new).await.unwrap();
    end(store, &tenant, run_id, 1, RunOutcome::Completed).await;
}

async fn listed(store: &Store, tenant: &str) -> Vec<WebhookDelivery> {
    let query = DeliveryQuery { most: 100, oldest_first: true, ..DeliveryQuery::default() };
    store.deliveries(&tenant.into(), &query).await.unwrap()
}

fn free(most: usize) -> Vec<FreeReceiver> {
    let lease = Duration::from_secs(20);
    vec![FreeReceiver { tenant: tenant(), url: URL.to_owned(), most, lease }]
}

async fn claim(store: &Store, most: usize, now: Timestamp) -> Vec<ClaimedDelivery> {
    store.claim_deliveries(&free(most), now).await.unwrap()
}

fn ended(next: NextAttempt) -> DeliveryAttempt {
    DeliveryAttempt { at: at(2), http_status: Some(500), error: Some("no".to_owned()), next }
}

/// A delivery is stored with the end of a run and with an approval request, in the transaction of
/// the event: an append that loses its seq stores none. Responses that are not stored cause none.
/// It goes with its run.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_come_and_go_with_their_events() {
    for backend in Backend::both() {
        let store = store_of(&backend).await;
        finished(&store, "run_1", "t", true).await;
        finished(&store, "run_2", "u", true).await;
        finished(&store, "run_3", "t", false).await;
        finished(&store, "run_4", "nobody", true).await;
        let [delivery] = listed(&store, "t").await.try_into().unwrap();
        assert_eq!((delivery.run_id.as_str(), &delivery.call_id), ("run_1", &None));
        assert_eq!(delivery.event, WebhookEvent::ResponseCompleted);
        assert_eq!((delivery.status, delivery.n_attempts), (DeliveryStatus::Pending, 0));
        assert_eq!((delivery.created_at, delivery.next_attempt_at), (at(1), Some(at(1))));
        let [of_other] = listed(&store, "u").await.try_into().unwrap();
        assert_eq!(of_other.run_id.as_str(), "run_2");
        assert_eq!(listed(&store, "nobody").await, []);

        let mut asking = run("run_5", |_| {});
        asking.first_events = vec![recorded("run_5", 1, Event::RunStarted)];
        store.create(asking).await.unwrap();
        let asked = Event::approval_requested("call_1".into());
        store.append(&tenant(), vec![recorded("run_5", 2, asked.clone())]).await.unwrap();
        let late = store.append(&tenant(), vec![recorded("run_5", 2, asked)]).await;
        assert!(late.is_err(), "the seq is taken");
        let other = store_of(&backend).await;
        let failure = turnwire_contract::Failure::journal_unreadable();
        let outcome = RunOutcome::Failed { failure };
        other.force_end(&tenant(), &"run_5".into(), outcome.clone(), at(3)).await.unwrap();
        other.force_end(&tenant(), &"run_5".into(), outcome, at(4)).await.unwrap();
        let events: Vec<(WebhookEvent, bool)> = listed(&store, "t")
            .await
            .iter()
            .filter(|delivery| delivery.run_id.as_str() == "run_5")
            .map(|delivery| (delivery.event, delivery.call_id.is_some()))
            .collect();
        let expected =
            [(WebhookEvent::ApprovalRequested, true), (WebhookEvent::ResponseFailed, false)];
        assert_eq!(events, expected);

        for run_id in ["run_1", "run_5"] {
            RunRecords::delete(&store, &tenant(), &run_id.into()).await.unwrap();
        }
        assert_eq!(listed(&store, "t").await, []);
        assert_eq!(listed(&store, "u").await.len(), 1);
        other.close().await;
        store.close().await;
    }
}

/// Servers that claim at the same time never get the same delivery, until the claim ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_claimed_by_one() {
    for backend in Backend::both() {
        let store = store_of(&backend).await;
        for n in 0..40 {
            finished(&store, &format!("run_{n}"), "t", true).await;
        }
        let others = join_all((0..3).map(|_| store_of(&backend))).await;
        let claims = join_all(others.iter().map(|other| async move {
            let mut all = Vec::new();
            loop {
                let claimed = claim(other, 3, at(10)).await;
                if claimed.is_empty() {
                    return all;
                }
                assert!(claimed.len() <= 3);
                all.extend(claimed);
            }
        }))
        .await;
        let claimed: Vec<ClaimedDelivery> = claims.into_iter().flatten().collect();
        let distinct: HashSet<&str> =
            claimed.iter().map(|claimed| claimed.delivery.delivery_id.as_str()).collect();
        assert_eq!(claimed.len(), distinct.len(), "claimed twice");
        // PostgreSQL skips what another one holds locked, and that one may have claimed it.
        let rest = claim(&store, 100, at(10)).await;
        assert_eq!(claimed.len() + rest.len(), 40);
        assert_eq!(claim(&store, 100, at(29)).await, []);
        let again = claim(&store, 100, at(30)).await;
        assert_eq!(again.len(), 40, "a server that died holds nothing for ever");
        assert_eq!(store.claim_deliveries(&[], at(90)).await.unwrap(), []);

        // An attempt whose claim was lost changes nothing, unless it succeeded.
        let (old, new) = (&claimed[0], &again[0]);
        assert!(!store.record_attempt(old, &ended(NextAttempt::GivenUp)).await.unwrap());
        assert!(store.record_attempt(new, &ended(NextAttempt::At(at(100)))).await.unwrap());
        assert!(!store.record_attempt(new, &ended(NextAttempt::At(at(100)))).await.unwrap());
        assert!(store.record_attempt(old, &ended(NextAttempt::Delivered)).await.unwrap());
        assert_eq!(store.n_pending().await.unwrap(), 39);
        for store in others.into_iter().chain([store]) {
            store.close().await;
        }
    }
}

/// Pages join without a gap, in both orders, and by status; those of another tenant are not there.
#[tokio::test(flavor = "multi_thread")]
async fn pages_join() {
    for backend in Backend::both() {
        let store = store_of(&backend).await;
        for n in 0..7 {
            finished(&store, &format!("run_{n}"), "t", true).await;
        }
        finished(&store, "run_u", "u", true).await;
        let all: Vec<String> =
            listed(&store, "t").await.into_iter().map(|it| it.delivery_id).collect();
        assert_eq!(all.len(), 7);
        for oldest_first in [true, false] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let query =
                    DeliveryQuery { after, most: 3, oldest_first, ..DeliveryQuery::default() };
                let page = store.deliveries(&tenant(), &query).await.unwrap();
                seen.extend(page.iter().map(|delivery| delivery.delivery_id.clone()));
                after = page.last().map(|delivery| delivery.delivery_id.clone());
                if page.len() < 3 {
                    break;
                }
            }
            if !oldest_first {
                seen.reverse();
            }
            assert_eq!(seen, all);
        }
        let before = Some(all[2].clone());
        let query =
            DeliveryQuery { before, most: 9, oldest_first: true, ..DeliveryQuery::default() };
        assert_eq!(store.deliveries(&tenant(), &query).await.unwrap().len(), 2);
        let status = Some(DeliveryStatus::Failed);
        let query = DeliveryQuery { status, most: 9, ..DeliveryQuery::default() };
        assert_eq!(store.deliveries(&tenant(), &query).await.unwrap(), []);
        let foreign = listed(&store, "u").await[0].delivery_id.clone();
        let query =
            DeliveryQuery { after: Some(foreign.clone()), most: 9, ..DeliveryQuery::default() };
        let refused = store.deliveries(&tenant(), &query).await;
        assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
        assert_eq!(store.redeliver(&tenant(), &foreign, at(9)).await.unwrap(), None);
        store.close().await;
    }
}
