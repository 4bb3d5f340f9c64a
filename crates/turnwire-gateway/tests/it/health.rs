//! Whether a server takes work, and what its operator is told.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use turnwire_models::Turn;

use crate::{faults::SlowStore, world::Plan};

/// A server says who it is, if it has a name.
#[tokio::test]
async fn a_worker_says_its_name() {
    let version = env!("CARGO_PKG_VERSION");
    let world = Plan::new([]).options(|it| it.worker = Some("w-1".to_owned())).start().await;
    let named = json!({ "status": "ok", "version": version, "worker": "w-1" });
    assert_eq!(world.get("/healthz").await, (StatusCode::OK, named));
    world.close().await;
    let world = Plan::new([]).start().await;
    let nameless = json!({ "status": "ok", "version": version });
    assert_eq!(world.get("/healthz").await, (StatusCode::OK, nameless));
    world.close().await;
}

/// C18: a server whose store does not answer takes no work, but is alive; and it notices when
/// the store is back.
#[tokio::test]
async fn without_its_store_a_server_is_not_ready() {
    let store = SlowStore::default();
    let world = Plan::new([]).store(store.clone()).start().await;
    store.finding.set_open(false);
    let (status, health) = world.get("/readyz").await;
    assert_eq!(
        (status, &health["status"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("store_unavailable"))
    );
    assert_eq!(world.get("/healthz").await.0, StatusCode::OK);
    // Several tries, because a busy machine may take longer than the moment.
    let mut has_held = false;
    for _ in 0..10 {
        let n_asked = store.finding.n_come_by_now();
        assert_eq!(world.get("/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        has_held |= store.finding.n_come_by_now() == n_asked;
    }
    assert!(has_held, "the answer holds for a moment");
    store.finding.set_open(true);
    let is_ready = async {
        while world.get("/readyz").await.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), is_ready).await.expect("it is back");
    world.close().await;
}

/// What is going on is counted, each with a word of explanation.
#[tokio::test]
async fn what_is_going_on_is_counted() {
    let world = Plan::new([Turn::new().text("Hm. ").wait_forever()]).start().await;
    let body = json!({ "message": "?", "tokens": true });
    let mut response =
        world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    response.chunk().await.unwrap();
    let _socket = world.socket("/ws/chat").await;
    let metrics = async || world.text(world.request(Method::GET, "/metrics")).await;
    let mut text = metrics().await;
    while !text.contains("turnwire_streams_open{kind=\"socket\"} 1\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
        text = metrics().await;
    }
    for line in [
        "turnwire_runs_live 1",
        "turnwire_runs_taken_over_total 0",
        "turnwire_streams_open{kind=\"sse\"} 1",
        "turnwire_drains_total 0",
        "turnwire_requests_found_by_key_total 0",
        "turnwire_runs_refused_while_closing_total 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
        let name = line.split(['{', ' ']).next().unwrap().trim_end_matches("_total");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
    }
    drop(response);
    while !metrics().await.contains("turnwire_streams_open{kind=\"sse\"} 0\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.close().await;
}
