//! A tenant that floods a server does not slow the others down.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::json;
use turnwire_contract::Scope;
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services::postgres_url;

use crate::{
    tenants::new_key,
    world::{Plan, World},
};

/// Runs of the tenant that floods. `TURNWIRE_TEST_FLOOD=2000` measures more of them by hand.
const FLOOD: usize = 100;
/// Requests of the other tenant that are measured, while it is idle and while it is not.
const MEASURED: usize = 60;
/// How often it is measured: whatever else the machine does meanwhile makes it slower, never
/// faster.
const TRIES: usize = 3;
/// Less than this is fast, whatever it was before.
const FAST: Duration = Duration::from_millis(150);

/// How long a streamed request waits for its first text.
async fn first_token(world: &World, key: &str) -> Duration {
    let body = json!({ "model": "quick", "input": "?", "stream": true });
    let began = Instant::now();
    let request = world.request(Method::POST, "/v1/responses").bearer_auth(key).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let (mut chunks, mut text) = (response.bytes_stream(), String::new());
    let mut first = None;
    while let Some(chunk) = chunks.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
        if first.is_none() && text.contains("response.output_text.delta") {
            first = Some(began.elapsed());
        }
    }
    first.expect("the model says something")
}

/// The median and the 99th percentile of many requests, one after the other.
async fn median_and_p99(world: &World, key: &str) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..MEASURED {
        times.push(first_token(world, key).await);
    }
    times.sort_unstable();
    (times[MEASURED / 2], times[MEASURED * 99 / 100])
}

/// Many runs at once of one tenant leave the median time to the first token of another within twice
/// what it is without them. The 99th percentile of so few requests is their maximum, which any
/// hiccup of the machine changes: it is only printed. The share of a tenant in a batch of the
/// writer is tested in `writer/batch_tests.rs` of the stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it is also measured by hand")]
async fn a_flood_of_one_tenant_slows_no_other() {
    let n_flood = env::var("TURNWIRE_TEST_FLOOD").ok().and_then(|n| n.parse().ok());
    let n_flood: usize = n_flood.unwrap_or(FLOOD);
    let store = Store::open(StoreOptions::at(postgres_url().as_str())).await.unwrap();
    let words = (0..3_000).map(|n| format!("word {n} "));
    let loud = Scripted::new([Turn::new().text_in(words)]).looping();
    let quick = Scripted::new([Turn::new().text("Hi.")]).looping();
    let plan = Plan::with_model(loud.paced(Duration::from_millis(50))).on(&store);
    let plan = plan.model("quick", Arc::new(quick)).options(|options| {
        options.admission.runs = 2 * n_flood;
        options.admission.runs_per_tenant = n_flood;
        options.admission.runs_per_key = n_flood;
        options.admission.connections_per_key = n_flood;
    });
    let world = plan.start().await;
    let scopes = || [Scope::RunsRead, Scope::RunsWrite];
    let loud = new_key(&world, "loud", scopes()).await.text;
    let quiet = new_key(&world, "quiet", scopes()).await.text;
    first_token(&world, &quiet).await;
    let (idle, idle_p99) = median_and_p99(&world, &quiet).await;
    let flood = async || {
        let body = json!({ "input": "?", "background": true });
        let request = world.request(Method::POST, "/v1/responses").bearer_auth(&loud).json(&body);
        request.send().await.unwrap().status()
    };
    let started = stream::iter(0..n_flood).map(|_| flood()).buffer_unordered(50);
    let started: Vec<StatusCode> = started.collect().await;
    assert!(started.iter().all(|status| *status == StatusCode::OK), "{started:?}");
    assert_eq!(flood().await, StatusCode::TOO_MANY_REQUESTS, "a tenant has so many");
    let most = (2 * idle).max(FAST);
    let (mut busy, mut busy_p99) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        let measured = median_and_p99(&world, &quiet).await;
        (busy, busy_p99) = measured.min((busy, busy_p99));
        if busy <= most {
            break;
        }
    }
    assert!(world.app.runs().n_live() >= n_flood, "the flood was over before");
    let times =
        format!("median {busy:?}, p99 {busy_p99:?}; without them {idle:?}, p99 {idle_p99:?}");
    println!("{n_flood} runs of another tenant: {times}");
    assert!(busy <= most, "{n_flood} runs of another tenant: {times}");
    world.app.runs().shut_down().await;
    world.close().await;
    store.close().await;
}
