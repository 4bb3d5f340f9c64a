use std::time::Duration;

use futures::FutureExt;
use turnwire_contract::TenantId;

use super::Places;

fn tenant(name: &str) -> TenantId {
    TenantId::from(name)
}

/// A20: a tenant with many documents has one place, and another one the next.
#[tokio::test(start_paused = true)]
async fn each_tenant_has_one_place() {
    let places = Places::new(2);
    let (greedy, modest) = (tenant("greedy"), tenant("modest"));
    let first = places.take(&greedy).now_or_never().unwrap();
    assert!(places.take(&greedy).now_or_never().is_none(), "it has a place");
    let other = places.take(&modest).now_or_never().unwrap();
    assert!(places.take(&tenant("third")).now_or_never().is_none(), "all are taken");
    drop(other);
    drop(places.take(&tenant("third")).now_or_never().unwrap());
    drop(first);
    drop(places.take(&greedy).now_or_never().unwrap());
}

/// Who waits longest is next, whatever the others have in their queues.
#[tokio::test(start_paused = true)]
async fn nobody_is_overtaken() {
    let places = Places::new(1);
    let first = places.take(&tenant("a")).await;
    let mut order = Vec::new();
    let (b, c) = (tenant("b"), tenant("c"));
    let waits = async |name: &'static str, of: &TenantId| {
        let place = places.take(of).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(place);
        name
    };
    let mut all = futures::stream::FuturesUnordered::new();
    all.push(waits("b1", &b).boxed_local());
    all.push(waits("b2", &b).boxed_local());
    all.push(waits("c1", &c).boxed_local());
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(first);
    };
    let done = async {
        while let Some(name) = futures::StreamExt::next(&mut all).await {
            order.push(name);
        }
    };
    tokio::join!(free, done);
    assert_eq!(order, ["b1", "c1", "b2"]);
    assert!(places.turns.lock().unwrap().values().all(|turn| turn.strong_count() == 0));
}
