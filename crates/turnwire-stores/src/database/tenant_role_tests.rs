use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Write as _},
    process::Command,
    sync::Arc,
};

use async_trait::async_trait;
use turnwire_contract::{
    ApiKey, ApiKeys, AuditLog, AuditQuery, BlobId, BlobStore, CollectionId, CollectionNotes,
    CollectionRecord, Collections, ConversationId, ConversationRecord, Conversations, Entries,
    Entry, FileId, FileRecord, Files, IdempotencyKey, Item, ItemId, Journal, NewRun, PinnedTool,
    Pins, PoolUse, RunFilter, RunId, RunQuery, RunRecords, RunRequest, Seq, Share, Shares,
    Timestamp,
};
use turnwire_testkit::{conformance::library::Plainly, services};

use super::*;
use crate::{
    Store, StoreLibrary, StoreOptions,
    database::{Database, Dialect, PostgresDatabase, Row, Transaction},
};

/// Every table that has a tenant is behind a policy, or is known not to be.
#[tokio::test]
async fn every_table_with_a_tenant_is_protected() {
    let (_, url) = opened(true).await;
    let ask = |sql: &'static str| {
        let url = url.clone();
        async move {
            let database = PostgresDatabase::open(&url, 2).await.unwrap();
            let rows = database.query(sql, &[]).await.unwrap();
            rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    let with_tenant = ask("select c.table_name::text from information_schema.columns c
         join information_schema.tables t using (table_schema, table_name)
         where c.table_schema = current_schema() and c.column_name = 'tenant'
         and t.table_type = 'BASE TABLE' order by 1")
    .await;
    let protected = ask("select relname::text from pg_class where relrowsecurity order by 1").await;
    let mut expected = PROTECTED.to_vec();
    expected.sort_unstable();
    assert_eq!(protected, expected);
    let open: Vec<&String> =
        with_tenant.iter().filter(|table| !protected.contains(table)).collect();
    assert!(open.iter().all(|table| WITHOUT_POLICY.contains(&table.as_str())), "{open:?}");
    let secrets =
        ask("select 'readable' where has_table_privilege('turnwire_tenant', 'secrets', 'select')");
    assert!(secrets.await.is_empty(), "a tenant's role reads no secrets");
}

/// A1: two tenants that do the same things under the same names, in 100 random orders, while no
/// statement has its tenant condition. The policies alone keep them apart; without them, they are
/// not.
#[tokio::test(flavor = "multi_thread")]
async fn policies_alone_keep_tenants_apart() {
    let mut n_crossed = 0;
    let walls = [true, false];
    for has_policies in walls {
        let (database, url) = opened(has_policies).await;
        let forgetful = Arc::new(Forgetful(database.clone()));
        let store = Store::over(forgetful, Some(database), StoreOptions::at(url)).await.unwrap();
        let rounds = if has_policies { 100 } else { 5 };
        for round in 0..rounds {
            n_crossed += usize::from(crosses(&store, round, has_policies).await);
        }
        store.close().await;
    }
    assert_eq!(n_crossed, 5, "without policies and conditions, every round shows it");
}

/// A statement for a tenant writes nothing for another.
#[tokio::test]
async fn a_row_of_another_tenant_is_not_written() {
    let (database, _) = opened(true).await;
    let sql = "insert into pins (tenant, server, tool, definition) values ('other', $2, $2, $1)";
    let values = [Value::Tenant(&TenantId::from("ours")), Value::Text("any")];
    let error = database.query(sql, &values).await.unwrap_err().to_string();
    assert!(error.contains("row-level security"), "{error}");
    // The connection is as good as before.
    assert_eq!(
        database.query("select count(*) from pins", &[]).await.unwrap()[0].integer(0),
        Ok(0)
    );
}

/// One transaction can serve several tenants, and the owner.
#[tokio::test]
async fn a_transaction_changes_its_role_with_its_statements() {
    let (database, _) = opened(true).await;
    let (one, other) = (TenantId::from("it's \\one"), TenantId::from("other"));
    let insert = "insert into pins (tenant, server, tool, definition) values ($1, 's', 't', 'd')";
    let count = "select count(*) from pins where $1::text is not null";
    let mut transaction = database.begin().await.unwrap();
    for tenant in [&one, &other, &one] {
        let many = transaction.query(count, &[Value::Tenant(tenant)]).await.unwrap();
        if many[0].integer(0) == Ok(0) {
            transaction.query(insert, &[Value::Tenant(tenant)]).await.unwrap();
        }
    }
    let all = transaction.query(count, &[Value::Text("")]).await.unwrap();
    assert_eq!(all[0].integer(0), Ok(2));
    transaction.commit().await.unwrap();
    let seen = database.query(count, &[Value::Tenant(&one)]).await.unwrap();
    assert_eq!(seen[0].integer(0), Ok(1));
}

/// What is wrong with a role is told, with the remedy.
#[tokio::test]
async fn a_role_that_is_no_wall_is_refused() {
    let (url, its_own) = (services::postgres_url(), services::postgres_url());
    let login = format!("login_{}", uuid::Uuid::new_v4().simple());
    let bypass = format!("bypass_{}", uuid::Uuid::new_v4().simple());
    administer(&url, &format!("create role {bypass} bypassrls; create role {login} login"));
    administer(&its_own, &format!("grant create, usage on schema public to {login}"));
    let (_, address) = its_own.split_once('@').expect("a user is named");
    let as_login = format!("postgres://{login}@{address}");
    let role = services::tenant_role(&url);
    let at = |url: &str, role: &str| StoreOptions {
        tenant_role: Some(role.to_owned()),
        ..StoreOptions::at(url)
    };
    let cases = [
        (at(&url, "nobody_here"), "create role nobody_here"),
        (at(&url, &bypass), "cannot bypass"),
        (at(&url, "no; name"), "lower-case"),
        (at(&as_login, &role), "grant turnwire_tenant to"),
    ];
    for (options, expected) in cases {
        let error = Store::open(options).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    administer(&url, &format!("grant {role} to {login}"));
    // An ordinary login that owns its tables and is a member is enough, twice.
    for _ in 0..2 {
        Store::open(at(&as_login, &role)).await.unwrap().close().await;
    }
    administer(&its_own, &format!("drop owned by {login}; drop role {login}; drop role {bypass}"));
}

fn administer(url: &str, sql: &str) {
    let done =
        Command::new("psql").args(["--quiet", "--no-psqlrc", "--command", sql, url]).output();
    let done = done.expect("psql can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

async fn opened(has_policies: bool) -> (PostgresDatabase, String) {
    let url = services::postgres_url();
    let database = PostgresDatabase::open(&url, 8).await.unwrap();
    if !has_policies {
        return (database, url);
    }
    let role = services::tenant_role(&url);
    (database.with_tenant_role(&role).await.unwrap(), url)
}

/// A database whose statements have lost their tenant conditions.
struct Forgetful(PostgresDatabase);

struct ForgetfulTransaction(Box<dyn Transaction>);

#[async_trait]
impl Database for Forgetful {
    fn dialect(&self) -> &'static Dialect {
        self.0.dialect()
    }

    fn pool_use(&self) -> PoolUse {
        self.0.pool_use()
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError> {
        Ok(Box::new(ForgetfulTransaction(self.0.begin().await?)))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        self.0.query(&without_conditions(sql), values).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[async_trait]
impl Transaction for ForgetfulTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        self.0.query(&without_conditions(sql), values).await
    }

    async fn commit(self: Box<Self>) -> Result<(), DatabaseError> {
        self.0.commit().await
    }

    async fn rollback(self: Box<Self>) {
        self.0.rollback().await;
    }
}

/// `x.tenant = $1` becomes `$1::text is not null`; the parameter keeps its place.
fn without_conditions(sql: &str) -> String {
    let mut rest = sql;
    let mut changed = String::new();
    while let Some(at) = rest.find("tenant = $") {
        let (before, condition) = rest.split_at(at);
        let is_alias = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        changed.push_str(before.trim_end_matches(is_alias));
        let condition = condition.trim_start_matches("tenant = $");
        let end = condition.find(|c: char| !c.is_ascii_digit()).unwrap_or(condition.len());
        write!(changed, "${}::text is not null", &condition[..end]).unwrap();
        rest = &condition[end..];
    }
    changed + rest
}

#[test]
fn conditions_are_taken_out() {
    let sql = "select a from t where t.tenant = $12 and (tenant = $1 or k.tenant = t.tenant)";
    let without = "select a from t where $12::text is not null and ($1::text is not null \
                   or k.tenant = t.tenant)";
    assert_eq!(without_conditions(sql), without);
}

/// What a tenant does, and what it has seen.
struct Actor {
    tenant: TenantId,
    word: String,
    runs: Vec<RunId>,
    seen: String,
    n_damaged: usize,
}

impl Actor {
    fn new(name: &str, round: u64) -> Self {
        let word = format!("word-of-{name}-{round}");
        let tenant = TenantId::from(format!("{name}{round}").as_str());
        Self { tenant, word, runs: Vec::new(), seen: String::new(), n_damaged: 0 }
    }

    fn see(&mut self, what: impl Debug) {
        writeln!(self.seen, "{what:?}").unwrap();
    }

    /// Does the `n`th thing. Both tenants use the same names where names are theirs to choose.
    async fn act(&mut self, n: u64, store: &Store, library: &StoreLibrary, other: &[RunId]) {
        let tenant = self.tenant.clone();
        let conversation = ConversationId::from("conv_same");
        let last = other.last().cloned().unwrap_or_else(|| RunId::from("run_none"));
        match n {
            0 => self.start_run(store).await,
            1 => {
                self.see(RunRecords::find(store, &tenant, &last).await);
                self.see(Entries::context(store, &tenant, &last).await);
            }
            2 => {
                self.see(RunRecords::list(store, &tenant, 100).await);
                self.see(store.summaries(&tenant, 100).await);
                let query = RunQuery { most: 100, ..RunQuery::default() };
                self.see(store.select(&tenant, &query).await);
                let counts = store.count(&tenant, &RunFilter::default()).await.unwrap();
                self.n_damaged +=
                    usize::from(counts.values().sum::<u64>() != self.runs.len() as u64);
            }
            3 => {
                let metadata = BTreeMap::from([("of".to_owned(), self.word.clone())]);
                let id = conversation.clone();
                let record =
                    ConversationRecord { id, created_at: Timestamp::from_micros(1), metadata };
                let _ = Conversations::open_conversation(store, &tenant, record).await;
                let entry =
                    Entry { id: ItemId::from("item_same"), item: Arc::new(Item::user(&self.word)) };
                let _ = store.add_entries(&tenant, &conversation, vec![entry]).await;
            }
            4 => {
                self.see(store.conversation(&tenant, &conversation).await);
                self.see(store.history(&tenant, &conversation).await);
                self.see(store.entries_named(&tenant, &[ItemId::from("item_same")]).await);
            }
            5 => self.see(store.read_stored(&tenant, &last, Seq(0)).await),
            6 => {
                let id = BlobId::from("blob_same");
                self.see(BlobStore::get(store, &tenant, &id).await);
                let run = RunId::from("run_of_blob");
                store.put(&tenant, &run, &id, self.word.clone()).await.unwrap();
                self.see(BlobStore::get(store, &tenant, &id).await);
            }
            7 => {
                let tool = PinnedTool { tool: "same".to_owned(), definition: self.word.clone() };
                self.see(store.trusted(&tenant, "server").await);
                store.trust(&tenant, "server", tool).await.unwrap();
            }
            8 => {
                self.see(store.shares_of(&tenant, &last).await);
                if let Ok(shares) = store.shares_of(&tenant, &last).await {
                    for share in shares {
                        let revoked = store.revoke(&tenant, &last, &share.share_id).await;
                        self.n_damaged += usize::from(revoked.unwrap());
                    }
                }
            }
            9 => self.use_files(library).await,
            10 => {
                let deleted = RunRecords::delete(store, &tenant, &last).await;
                self.n_damaged += usize::from(deleted.is_ok());
            }
            11 => {
                self.see(store.list_keys(Some(&tenant)).await);
                let query =
                    AuditQuery { tenant: Some(tenant.clone()), limit: 10, ..AuditQuery::default() };
                self.see(AuditLog::list(store, query).await);
            }
            _ => {
                let key = IdempotencyKey {
                    endpoint: "/v1/responses".to_owned(),
                    key: "same".to_owned(),
                    fingerprint: "same".to_owned(),
                };
                let found = store.find_by_key(&tenant, &key, Timestamp::from_micros(1)).await;
                self.n_damaged +=
                    usize::from(found.is_ok_and(|run| run.is_some_and(|run| other.contains(&run))));
            }
        }
    }

    async fn start_run(&mut self, store: &Store) {
        let run_id = RunId::from(format!("run_{}", uuid::Uuid::new_v4().simple()).as_str());
        let mut request = RunRequest::new("any", vec![Item::user(&self.word)]);
        request.tenant = self.tenant.clone();
        let at = Timestamp::from_micros(1_000);
        let key = IdempotencyKey {
            endpoint: "/v1/responses".to_owned(),
            key: "same".to_owned(),
            fingerprint: "same".to_owned(),
        };
        let is_first = self.runs.is_empty();
        let mut run = NewRun::new(run_id.clone(), at, Arc::new(request));
        run.idempotency_key = is_first.then_some(key);
        store.create(run).await.unwrap();
        let share = Share {
            share_id: format!("{}-{run_id}", self.word),
            tenant: self.tenant.clone(),
            run_id: run_id.clone(),
            created_at: at,
            expires_at: Timestamp::from_micros(i64::MAX / 2),
            redact: false,
        };
        store.share(share).await.unwrap();
        self.runs.push(run_id);
    }

    async fn use_files(&mut self, library: &StoreLibrary) {
        let tenant = self.tenant.clone();
        let (id, at) = (FileId::from("file_same"), Timestamp::from_micros(1));
        self.see(library.files(&tenant).await);
        self.see(
            library
                .content(&tenant, &id)
                .await
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        );
        let (name, purpose) = (self.word.clone(), "assistants".to_owned());
        let bytes = self.word.len() as u64;
        let file = FileRecord { id, name, bytes, purpose, created_at: at, expires_at: None };
        let _ = library.add_file(&tenant, file, self.word.clone().into_bytes().into()).await;
        let notes = CollectionNotes { name: self.word.clone(), ..CollectionNotes::default() };
        let id = CollectionId::from("vs_same");
        let record = CollectionRecord { id, created_at: at, last_active_at: at, notes };
        let _ = library.open_collection(&tenant, record).await;
        self.see(library.collections(&tenant).await);
    }
}

/// Returns whether anything crossed over between two tenants in one random order.
async fn crosses(store: &Store, round: u64, has_policies: bool) -> bool {
    let library = store.library(Plainly::by_words());
    let mut one = Actor::new("one", round);
    let mut two = Actor::new("two", round);
    for actor in [&mut one, &mut two] {
        let key = key_of(&actor.tenant, &actor.word);
        store.create_key(key).await.unwrap();
        actor.start_run(store).await;
    }
    let mut random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..30 {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (actor, others) = if random & 64 == 0 {
            (&mut one, two.runs.clone())
        } else {
            (&mut two, one.runs.clone())
        };
        actor.act((random >> 8) % 13, store, &library, &others).await;
        if !has_policies && actor.n_damaged > 0 {
            return true;
        }
    }
    let crossed =
        |actor: &Actor, other: &Actor| actor.n_damaged > 0 || actor.seen.contains(&other.word);
    let has_crossed = crossed(&one, &two) || crossed(&two, &one);
    if has_policies {
        assert!(
            !has_crossed,
            "round {round}: {} {}\n{}\n{}",
            one.n_damaged, two.n_damaged, one.seen, two.seen
        );
        // Each still has what it made.
        for actor in [&one, &two] {
            for run_id in &actor.runs {
                assert!(RunRecords::find(store, &actor.tenant, run_id).await.is_ok(), "{run_id}");
            }
        }
    }
    has_crossed
}

fn key_of(tenant: &TenantId, word: &str) -> ApiKey {
    ApiKey {
        key_id: format!("key_{word}"),
        tenant: tenant.clone(),
        project: None,
        name: word.to_owned(),
        prefix: "tw".to_owned(),
        digest: word.to_owned(),
        scopes: BTreeSet::new(),
        created_at: Timestamp::from_micros(1),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        replaced_by: None,
    }
}
