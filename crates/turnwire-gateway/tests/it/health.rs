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

/// What `/healthz` answers, asked without a runtime.
fn asked_from_outside(address: std::net::SocketAddr) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// C36: while every thread of the server is blocked, its address for probes says so.
#[test]
fn a_server_that_is_stuck_says_so() {
    let (told, address) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = Plan::new([]).start().await;
            let loopback = "127.0.0.1:0".parse().unwrap();
            let server = turnwire_gateway::Server::bind(
                loopback,
                world.app.clone(),
                turnwire_gateway::HttpLimits::default(),
            );
            let server = server.await.unwrap().with_health(loopback).await.unwrap();
            let probes = server.health_address().unwrap();
            let blocking = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                told.send(probes).unwrap();
                // Alive until it is asked for the first time.
                tokio::time::sleep(Duration::from_secs(1)).await;
                may_go_on.recv().unwrap();
                tokio::time::sleep(Duration::from_secs(2)).await;
            };
            tokio::select! {
                () = server.run() => {}
                () = blocking => {}
            }
            world.close().await;
        });
    });
    let probes = address.recv().unwrap();
    let answer = asked_from_outside(probes);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut answer = asked_from_outside(probes);
    while answer.starts_with("HTTP/1.1 200") {
        answer = asked_from_outside(probes);
    }
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains(r#""status":"stuck""#), "{answer}");
    // At once now, because it is known.
    let asked = std::time::Instant::now();
    assert!(asked_from_outside(probes).starts_with("HTTP/1.1 503"));
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    go_on.send(()).unwrap();
    while !asked_from_outside(probes).starts_with("HTTP/1.1 200") {
        std::thread::sleep(Duration::from_millis(50));
    }
    serving.join().unwrap();
}
