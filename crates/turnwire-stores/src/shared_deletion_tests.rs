use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::future::join_all;
use turnwire_contract::{
    Item, NewRun, RunId, RunOutcome, RunRecords, RunRequest, StoreError, TenantId, Timestamp,
};

use crate::{
    Store, StoreOptions,
    database::{Database, DatabaseError, Dialect, Row, SqliteDatabase, Transaction, Value},
};

/// A database that counts transactions of several statements.
struct Counting {
    database: SqliteDatabase,
    n_begun: Arc<AtomicUsize>,
}

#[async_trait]
impl Database for Counting {
    fn dialect(&self) -> &'static Dialect {
        self.database.dialect()
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError> {
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        self.database.begin().await
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        self.database.query(sql, values).await
    }

    async fn close(&self) {
        self.database.close().await;
    }
}

/// C25: runs that are deleted while another deletion is in progress share one transaction; and of
/// two who delete the same run, one did.
#[tokio::test]
async fn deletions_share_transactions() {
    let n_begun = Arc::new(AtomicUsize::new(0));
    let database = SqliteDatabase::in_memory().await.unwrap();
    let database = Arc::new(Counting { database, n_begun: Arc::clone(&n_begun) });
    let store = Store::over(database, None, StoreOptions::at("memory:")).await.unwrap();
    let tenant = TenantId::default();
    let ids: Vec<RunId> = (0..50).map(|n| RunId::new(format!("run_{n}"))).collect();
    for id in &ids {
        let request = Arc::new(RunRequest::new("any", vec![Item::user("hi")]));
        let new = NewRun::new(id.clone(), Timestamp::from_micros(1), request);
        store.create(new).await.unwrap();
        store.finish(id, RunOutcome::Completed, Vec::new()).await.unwrap();
    }
    let before = n_begun.load(Ordering::Relaxed);
    let twice = ids.last().unwrap();
    let deleted =
        join_all(ids.iter().chain([twice]).map(|id| RunRecords::delete(&store, &tenant, id))).await;
    assert_eq!(n_begun.load(Ordering::Relaxed) - before, 2, "the first one, and all others");
    let (last, others) = deleted.split_last().unwrap();
    assert_eq!(others.iter().filter(|deleted| deleted.is_ok()).count(), 50, "{others:?}");
    assert!(matches!(last, Err(StoreError::NotFound(_))), "{last:?}");
    store.close().await;
}
