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

/// Whoever got the address wrong is told which one was tried and what came of it, and no secret.
#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let options = StoreOptions::at(format!("postgres://me:hidden@{nobody}/runs"));
    let error = Store::open(options).await.unwrap_err().to_string();
    assert!(error.contains(&format!("no PostgreSQL at {nobody}")), "{error}");
    assert!(error.contains("refused") && !error.contains("hidden"), "{error}");
}
