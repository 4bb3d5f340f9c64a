//! `/v1/webhooks/deliveries`: what is sent is seen by its tenant, and by nobody else.

use std::sync::Arc;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{
    DeliveryAttempt, FreeReceiver, NextAttempt, Scope, WebhookEvent, WebhookOutbox, WebhookRoute,
};
use turnwire_gateway::Webhooks;
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};

use crate::{
    tenants::{ask, made, new_key},
    world::{Plan, World},
};

const URL: &str = "https://example.com/hook";
const LIST: &str = "/v1/webhooks/deliveries";

fn talking() -> Plan {
    Plan::with_model(Scripted::new([Turn::new().text("Hi.")]).repeat_last())
}

/// A server with a receiver for each of two tenants, and the outbox.
async fn world(url: String) -> (World, Store) {
    let route = |tenant: &str| WebhookRoute {
        tenant: tenant.into(),
        url: URL.to_owned(),
        events: WebhookEvent::ALL.into(),
    };
    let webhooks = vec![route("owner"), route("stranger")];
    let store = Store::open(StoreOptions { webhooks, ..StoreOptions::at(url) }).await.unwrap();
    let outbox: Arc<dyn WebhookOutbox> = Arc::new(store.clone());
    let plan = talking().store(store.clone()).log(store.clone());
    let plan = plan.options(|options| {
        options.webhooks = Some(Webhooks { outbox, counts: Arc::default() });
    });
    (plan.start().await, store)
}

/// A1, A2: deliveries are listed by page and by status, sent again on request, and gone with their
/// response; a tenant sees and repeats only its own, and needs the scope `admin` for that.
#[tokio::test]
async fn deliveries_are_those_of_the_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("runs.db").display());
    let (world, store) = world(url).await;
    let owner = new_key(&world, "owner", Scope::ALL).await.text;
    let stranger = new_key(&world, "stranger", Scope::ALL).await.text;
    let reader = new_key(&world, "owner", Scope::USUAL).await.text;
    let get = async |key: &str, path: &str| ask(&world, key, Method::GET, path, None).await;
    let mut responses = Vec::new();
    for body in [json!({ "input": "1" }), json!({ "input": "2" })] {
        responses.push(made(&world, &owner, "/v1/responses", body).await["id"].clone());
    }
    made(&world, &owner, "/v1/responses", json!({ "input": "3", "store": false })).await;
    let (status, list) = get(&owner, LIST).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    let about = |list: &Value| -> Vec<Value> {
        let data = list["data"].as_array().unwrap();
        data.iter().map(|line| line["response_id"].clone()).collect()
    };
    assert_eq!(about(&list), [responses[1].clone(), responses[0].clone()], "newest first");
    let line = &list["data"][1];
    assert_eq!((&line["type"], &line["status"]), (&"response.completed".into(), &"pending".into()));
    assert_eq!((&line["url"], &line["attempts"]), (&json!(URL), &json!(0)));
    let (_, page) = get(&owner, &format!("{LIST}?limit=1")).await;
    assert_eq!((about(&page), &page["has_more"]), (vec![responses[1].clone()], &true.into()));
    let after = page["last_id"].as_str().unwrap();
    let (_, page) = get(&owner, &format!("{LIST}?limit=1&after={after}")).await;
    assert_eq!((about(&page), &page["has_more"]), (vec![responses[0].clone()], &false.into()));

    let (status, answer) = get(&reader, LIST).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    let (_, of_stranger) = get(&stranger, LIST).await;
    assert_eq!(of_stranger["data"], json!([]));
    let (status, answer) = get(&stranger, &format!("{LIST}?after={after}")).await;
    assert_eq!((status, &answer["error"]["param"]), (StatusCode::BAD_REQUEST, &"after".into()));
    let (status, _) = get(&owner, &format!("{LIST}?status=lost")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    let id = line["id"].as_str().unwrap();
    let now = world.app.runs().now();
    let lease = std::time::Duration::from_secs(20);
    let free = FreeReceiver { tenant: "owner".into(), url: URL.to_owned(), most: 9, lease };
    for claimed in store.claim_deliveries(&[free], now).await.unwrap() {
        let (error, next) = (Some("away".to_owned()), NextAttempt::GivenUp);
        let attempt = DeliveryAttempt { at: now, http_status: Some(500), error, next };
        assert!(store.record_attempt(&claimed, &attempt).await.unwrap());
    }
    let (_, failed) = get(&owner, &format!("{LIST}?status=failed")).await;
    assert_eq!(failed["data"].as_array().unwrap().len(), 2);
    assert_eq!(failed["data"][0]["error"], "away");
    let again = format!("{LIST}/{id}/redeliver");
    let (status, _) = ask(&world, &stranger, Method::POST, &again, None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, line) = ask(&world, &owner, Method::POST, &again, None).await;
    assert_eq!((status, &line["status"]), (StatusCode::OK, &"pending".into()), "{line}");
    let (_, pending) = get(&owner, &format!("{LIST}?status=pending")).await;
    assert_eq!(about(&pending), [responses[0].clone()]);

    for response in &responses {
        let path = format!("/v1/responses/{}", response.as_str().unwrap());
        ask(&world, &owner, Method::DELETE, &path, None).await;
    }
    assert_eq!(get(&owner, LIST).await.1["data"], json!([]));
    world.close().await;
    store.close().await;
}

/// A server without a database has nothing to list, and says so as an empty list.
#[tokio::test]
async fn without_an_outbox_there_is_nothing() {
    let world = talking().start().await;
    let (status, list) = world.get(LIST).await;
    assert_eq!((status, &list["data"]), (StatusCode::OK, &json!([])));
    assert_eq!(world.get(&format!("{LIST}?after=evt_1")).await.0, StatusCode::BAD_REQUEST);
    let (status, _) = world.post(&format!("{LIST}/evt_1/redeliver"), json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    world.close().await;
}
