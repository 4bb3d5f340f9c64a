//! Databases for these tests, and ways to look into them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::time::timeout;
use turnwire_contract::{
    ConversationId, Entry, Event, Item, Journal, NewRun, RunId, RunRequest, Seq, TenantId,
    Timestamp,
};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::services::{postgres_url, tenant_role};

/// One new database, for as long as this lives.
pub(crate) struct Backend {
    pub(crate) url: String,
    tenant_role: Option<String>,
    _directory: Option<TempDir>,
}

impl Backend {
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("runs.db").display());
        Self { url, tenant_role: None, _directory: Some(directory) }
    }

    pub(crate) fn postgres() -> Self {
        Self::at(postgres_url())
    }

    /// With row-level security as a second wall between tenants.
    pub(crate) fn postgres_with_role() -> Self {
        let backend = Self::postgres();
        Self { tenant_role: Some(tenant_role(&backend.url)), ..backend }
    }

    /// A server of its own.
    pub(crate) fn at(url: String) -> Self {
        Self { url, tenant_role: None, _directory: None }
    }

    /// Both kinds.
    pub(crate) fn both() -> [Self; 2] {
        [Self::sqlite(), Self::postgres()]
    }

    /// Both kinds, and PostgreSQL with row-level security.
    pub(crate) fn all() -> [Self; 3] {
        [Self::sqlite(), Self::postgres(), Self::postgres_with_role()]
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    pub(crate) async fn store(&self) -> Store {
        self.store_with(|_| {}).await
    }

    pub(crate) async fn store_with(&self, change: impl Fn(&mut StoreOptions)) -> Store {
        let mut options = StoreOptions::at(self.url.as_str());
        options.connections = 8;
        options.tenant_role.clone_from(&self.tenant_role);
        change(&mut options);
        Store::open(options).await.unwrap()
    }

    pub(crate) async fn stores(&self, many: usize) -> Vec<Store> {
        self.stores_with(many, Duration::from_secs(2)).await
    }

    pub(crate) async fn stores_with(&self, many: usize, lease: Duration) -> Vec<Store> {
        let mut stores = Vec::new();
        for _ in 0..many {
            stores.push(self.store_with(|options| options.lease = lease).await);
        }
        stores
    }

    /// One statement by hand; answers with the first column, as text.
    pub(crate) async fn ask(&self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_postgres() {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
        } else {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
        }
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::from("t")
}

pub(crate) fn entries(texts: &[&str]) -> Vec<Entry> {
    texts.iter().map(|text| Entry::new(format!("msg_{text}"), Item::user(*text))).collect()
}

/// A run of the tenant `t`, with changes.
pub(crate) fn run(id: &str, change: impl FnOnce(&mut RunRequest)) -> NewRun {
    let mut request = RunRequest::new("any", vec![Item::user("hi")]);
    request.tenant = tenant();
    change(&mut request);
    let (run_id, created_at) = (RunId::from(id), Timestamp::from_micros(1));
    NewRun::new(run_id, created_at, Arc::new(request))
}

pub(crate) fn run_in(id: &str, conversation: &str) -> NewRun {
    run(id, |request| request.conversation_id = Some(ConversationId::from(conversation)))
}

pub(crate) fn run_after(id: &str, before: &str) -> NewRun {
    run(id, |request| request.continues = Some(RunId::from(before)))
}

/// The first event of a run that `is_it`, when it comes.
pub(crate) async fn until(
    store: &Store,
    tenant: &TenantId,
    run_id: &RunId,
    is_it: impl Fn(&Event) -> bool,
) -> Event {
    let mut events = store.read(tenant, run_id, Seq::START).await.unwrap();
    let found = async {
        loop {
            let recorded = events.next().await.unwrap().unwrap();
            if is_it(&recorded.event) {
                return recorded.event.clone();
            }
        }
    };
    timeout(Duration::from_secs(20), found).await.expect("it happens")
}
