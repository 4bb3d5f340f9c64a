use std::time::Duration;

use tokio::time::timeout;
use turnwire_testkit::services;

use super::*;

/// Whoever has something to do for others is heard by all workers, itself included.
#[tokio::test(flavor = "multi_thread")]
async fn all_workers_hear_that_there_is_something_to_do() {
    for fanout in [None, Some(services::redis_url())] {
        let options = StoreOptions { fanout, ..StoreOptions::at(services::postgres_url()) };
        let one = Store::open(options.clone()).await.unwrap();
        let other = Store::open(options).await.unwrap();
        // A connection is told to have something to do when it begins: that is not what is meant.
        for store in [&one, &other] {
            timeout(Duration::from_secs(10), store.0.news.to_do()).await.expect("it is connected");
        }
        one.0.news.tell_to_do().await;
        for store in [&one, &other] {
            timeout(Duration::from_secs(10), store.0.news.to_do()).await.expect("it is told");
        }
    }
}
