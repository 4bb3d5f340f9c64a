use std::time::Duration;

use tokio::time::timeout;
use turnwire_contract::{
    ConversationId, Entries, Item, NewRun, RunId, RunOutcome, RunRecords, RunRequest, StoreError,
    TenantId, Timestamp,
};
use turnwire_testkit::services;

use super::*;

/// A work notification reaches all workers, including the sender.
#[tokio::test(flavor = "multi_thread")]
async fn all_workers_hear_that_there_is_something_to_do() {
    for fanout in [None, Some(services::redis_url())] {
        let options = StoreOptions { fanout, ..StoreOptions::at(services::postgres_url()) };
        let one = Store::open(options.clone()).await.unwrap();
        let other = Store::open(options).await.unwrap();
        // A new connection signals work once; that signal is consumed first.
        for store in [&one, &other] {
            timeout(Duration::from_secs(10), store.0.notifier.work())
                .await
                .expect("it is connected");
        }
        one.0.notifier.notify_work().await;
        for store in [&one, &other] {
            timeout(Duration::from_secs(10), store.0.notifier.work()).await.expect("it is told");
        }
    }
}

/// The error for a wrong address names the address and the cause, and no secret.
#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let options = StoreOptions::at(format!("postgres://me:hidden@{nobody}/runs"));
    let error = Store::open(options).await.unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to PostgreSQL at {nobody}")), "{error}");
    assert!(error.contains("refused") && !error.contains("hidden"), "{error}");
}

/// A pooler in transaction mode is rejected with reason and remedy, before anything is written. In
/// session mode it works. Tested with Debian's PgBouncer.
#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused() {
    let url = services::postgres_url();
    let shared = services::PgBouncer::start(&url, "transaction");
    let error = Store::open(StoreOptions::at(shared.url())).await.unwrap_err().to_string();
    assert!(error.contains("PgBouncer") && error.contains("pool_mode = session"), "{error}");
    let shared = services::PgBouncer::start(&url, "session");
    let store = Store::open(StoreOptions::at(shared.url())).await.unwrap();
    let request = Arc::new(RunRequest::new("any", vec![Item::user("hi")]));
    let run = NewRun::new(RunId::from("run_1"), Timestamp::from_micros(1), request);
    store.create(run).await.unwrap();
    assert!(RunRecords::find(&store, &TenantId::default(), &RunId::from("run_1")).await.is_ok());
    store.close().await;
}

/// C8: an expected refusal does not close its connection.
#[tokio::test]
async fn a_refusal_keeps_its_connection() {
    let options = StoreOptions { connections: 1, ..StoreOptions::at(services::postgres_url()) };
    let store = Store::open(options).await.unwrap();
    let (tenant, id) = (TenantId::default(), ConversationId::from("conv_1"));
    let run_in_it = |name: &str| {
        let mut request = RunRequest::new("any", vec![Item::user("hi")]);
        request.conversation_id = Some(id.clone());
        NewRun::new(RunId::from(name), Timestamp::from_micros(1), Arc::new(request))
    };
    let busy = run_in_it("run_1");
    store.create(busy.clone()).await.unwrap();
    let before = backend(&store).await;

    let refused = store.create(run_in_it("run_2")).await;
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
    let refused = store.add_entries(&tenant, &id, Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
    let refused = RunRecords::delete(&store, &tenant, &busy.run_id).await;
    assert!(matches!(refused, Err(StoreError::Unfinished(_))), "{refused:?}");
    assert_eq!(backend(&store).await, before);

    // A refused transaction leaves no lock behind.
    store.finish(&busy.run_id, RunOutcome::Completed, Vec::new()).await.unwrap();
    store.create(run_in_it("run_2")).await.unwrap();
    assert_eq!(backend(&store).await, before);
}

/// Returns the backend process id of the only pooled connection.
async fn backend(store: &Store) -> String {
    let rows = store.0.database.query("select pg_backend_pid()::text", &[]).await.unwrap();
    rows[0].text(0).unwrap().to_owned()
}
