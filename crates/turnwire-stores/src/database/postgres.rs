//! PostgreSQL, via sqlx.

use std::{str::FromStr, time::Duration};

use async_trait::async_trait;
use sqlx::{
    Column as _, ConnectOptions, Connection, PgConnection, PgPool, Postgres, Row as _, TypeInfo,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow},
    query::Query,
};
use tokio::time::Instant;
use turnwire_contract::TenantId;

use super::{
    Column, Database, DatabaseError, Dialect, PoolUse, Result, Row, STATEMENT_TIMEOUT, Transaction,
    Value, library_dialect, pool_use_of,
    postgres_errors::{failed, in_time, within},
    tenant_role::{ACT_AS_OWNER, TenantRole, run, tenant_of},
};

/// How long to wait for a connection before the database counts as unavailable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection used this recently is not checked.
const FRESH: Duration = Duration::from_secs(1);

/// Ping timeout for an older connection.
const PING_PATIENCE: Duration = Duration::from_millis(500);

/// How often a query is retried on dead connections: after a server restart all pooled ones are.
const TRIES: usize = 32;

/// Sent on every new connection. A worker that stalls inside a transaction does not block others.
const FIRST_WORDS: &str = "set idle_in_transaction_session_timeout = '2s'";

static DIALECT: Dialect = Dialect {
    now: "clock_timestamp()",
    for_update: " for update",
    for_share: " for key share",
    lock_tenants: Some(
        "select pg_advisory_xact_lock(hashtextextended(name, 43))::text
         from (select distinct unnest($1::text[]) as name order by 1) as tenants",
    ),
    skip_locked: " for update of r skip locked",
    runs_of_gone: " cross join lateral
        (select r.id, r.worker, r.n_blamed, r.n_suspicions, r.suspected_until from runs r
         where r.worker = gone.worker and r.state = 'active'
         and (r.claimable_at is null or r.claimable_at <= clock_timestamp()
              - case when r.deferred_by = $1 then interval '5 seconds' else interval '0' end)
         and not exists (select 1 from declined_runs d where d.run_id = r.id and d.worker = $1)
         and {which} order by {order}r.number limit $2 for update skip locked) as r",
    writes_in_with: true,
    library: &library_dialect::POSTGRES,
    position: "strpos",
    micros: |column| format!("cast(extract(epoch from {column}) * 1000000 as bigint)"),
    lower: |text| format!("lower({text} collate \"C\")"),
    later: |micros| format!("clock_timestamp() + {micros}::bigint * interval '1 microsecond'"),
    texts: |list| format!("unnest({list}::text[]) as list(value)"),
    integers: |list| format!("unnest({list}::bigint[]) as list(value)"),
    zip: |lists| {
        let columns: Vec<String> = (1..=lists.len()).map(|n| format!("c{n}")).collect();
        let lists: Vec<String> = lists.iter().map(|list| format!("{list}::text[]")).collect();
        let (lists, columns) = (lists.join(", "), columns.join(", "));
        format!("unnest({lists}) with ordinality as zipped({columns}, n)")
    },
};

/// A connection pool to one database.
#[derive(Debug, Clone)]
pub(crate) struct PostgresDatabase {
    pool: PgPool,
    /// The role of statements for one tenant, if there is one.
    tenant_role: Option<TenantRole>,
}

impl PostgresDatabase {
    /// Connects and runs the migrations.
    pub(crate) async fn open(url: &str, most_connections: u32) -> Result<Self> {
        let options = PgConnectOptions::from_str(url).map_err(failed)?;
        let options = options.application_name("turnwire");
        let pool = PgPoolOptions::new()
            .max_connections(most_connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    // The connection may have died with the server while idle.
                    let is_fresh = meta.idle_for < FRESH;
                    Ok(is_fresh || within(PING_PATIENCE, connection.ping()).await.is_ok())
                })
            })
            .after_connect(|connection, _| {
                Box::pin(
                    async move { sqlx::query(FIRST_WORDS).execute(connection).await.map(drop) },
                )
            })
            .connect_with(options.clone())
            .await;
        let pool = match pool {
            Ok(pool) => pool,
            Err(sqlx::Error::PoolTimedOut) => return Err(why_it_is_away(&options).await),
            Err(error) => return Err(failed(error)),
        };
        refuse_shared_sessions(&pool, &options).await?;
        let mut migrations = sqlx::migrate!("migrations/postgres");
        // A newer version may have migrated the database, and may still be running.
        migrations.set_ignore_missing(true);
        migrations.run(&pool).await.map_err(|error| DatabaseError::Failed(error.to_string()))?;
        Ok(Self { pool, tenant_role: None })
    }

    /// Runs the statements for one tenant as role `name` from now on.
    pub(crate) async fn with_tenant_role(mut self, name: &str) -> Result<Self> {
        self.tenant_role = Some(TenantRole::prepare(&self.pool, name).await?);
        Ok(self)
    }

    /// Returns the pool, for PostgreSQL-specific statements.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Creates a connection outside the pool, for callers that must never wait for others.
    pub(crate) fn dedicated_connection(&self) -> DedicatedConnection {
        DedicatedConnection { options: (*self.pool.connect_options()).clone(), connection: None }
    }

    async fn try_query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        if self.tenant_role.is_some() && tenant_of(values).is_some() {
            return self.try_query_as_tenant(sql, values).await;
        }
        let mut connection = self.connection().await?;
        let statement = bound(sql, values).fetch_all(&mut *connection);
        let rows = in_time(STATEMENT_TIMEOUT, statement).await;
        if rows.as_ref().is_err_and(DatabaseError::is_transient) {
            // Returning it to the pool would wait for a response of the dead server.
            drop(connection.detach());
        }
        rows?.iter().map(read).collect()
    }

    /// The role holds for one transaction.
    async fn try_query_as_tenant(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let mut transaction = Box::new(self.transaction().await?);
        match transaction.query(sql, values).await {
            Ok(rows) => transaction.commit().await.map(|()| rows),
            Err(error) => {
                if !error.is_transient() {
                    transaction.rollback().await;
                }
                Err(error)
            }
        }
    }

    async fn transaction(&self) -> Result<PooledTransaction> {
        let connection = Some(self.connection().await?);
        let role = self.tenant_role.clone();
        Ok(PooledTransaction { connection, role, has_begun: false, tenant: None })
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>> {
        within(CONNECT_TIMEOUT, self.pool.acquire()).await
    }
}

/// A pool timeout does not name a cause. Connects once directly to get the real error.
async fn why_it_is_away(options: &PgConnectOptions) -> DatabaseError {
    let why = match within(CONNECT_TIMEOUT, options.connect()).await {
        Err(error) => error.to_string(),
        Ok(_) => "it was unavailable until now".to_owned(),
    };
    let (host, port) = (options.get_host(), options.get_port());
    DatabaseError::Unavailable(format!("cannot connect to PostgreSQL at {host}:{port}: {why}"))
}

/// Rejects a connection pooler in transaction mode, such as PgBouncer. It shares server sessions
/// between clients, which breaks prepared statements, `LISTEN` and session settings.
async fn refuse_shared_sessions(pool: &PgPool, options: &PgConnectOptions) -> Result<()> {
    let mut one = within(CONNECT_TIMEOUT, pool.acquire()).await?;
    let mut other = within(CONNECT_TIMEOUT, options.connect()).await?;
    let ours = session_of(&mut one).await?;
    // While the other connection has an open transaction, its session is not shared.
    in_time(STATEMENT_TIMEOUT, sqlx::raw_sql("begin").execute(&mut other)).await?;
    let run_key = session_of(&mut other).await?;
    let still_ours = session_of(&mut one).await?;
    if ours != run_key && ours == still_ours {
        return Ok(());
    }
    Err(DatabaseError::Failed(
        "the address is that of a connection pooler in transaction mode, such as PgBouncer; set \
         pool_mode = session there, or use the address of PostgreSQL itself"
            .to_owned(),
    ))
}

/// Returns the backend process id, without a prepared statement.
async fn session_of(connection: &mut PgConnection) -> Result<i32> {
    let asked = sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection);
    in_time(STATEMENT_TIMEOUT, asked).await?.try_get(0).map_err(failed)
}

/// A connection outside the pool, opened on demand.
#[derive(Debug)]
pub(crate) struct DedicatedConnection {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
}

impl DedicatedConnection {
    /// Returns the connection; opens one if there is none.
    pub(crate) async fn get(&mut self) -> Result<&mut PgConnection> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(self.connection.insert(connection))
    }

    async fn connect(&self) -> Result<PgConnection> {
        let connect = async {
            let mut connection = self.options.connect().await?;
            sqlx::query(FIRST_WORDS).execute(&mut connection).await?;
            Ok(connection)
        };
        within(CONNECT_TIMEOUT, connect).await
    }

    /// Starts a transaction with a statement timeout of `time`. Dropping it rolls back.
    pub(crate) async fn begin(&mut self, time: Duration) -> Result<PostgresTransaction<'_>> {
        let transaction = in_time(STATEMENT_TIMEOUT, self.get().await?.begin()).await?;
        Ok(PostgresTransaction { transaction, time })
    }

    /// Closes the connection without waiting. Statements in progress may or may not take effect.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn pool_use(&self) -> PoolUse {
        let (pool, max) = (&self.pool, self.pool.options().get_max_connections());
        pool_use_of(pool.size(), pool.num_idle(), max)
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        let mut transaction = self.transaction().await?;
        transaction.say("begin").await?;
        transaction.has_begun = true;
        Ok(Box::new(transaction))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let only_reads = sql.starts_with("select") || sql.starts_with("with recursive");
        let tries = if only_reads { TRIES } else { 1 };
        let began = Instant::now();
        for n in 1.. {
            match self.try_query(sql, values).await {
                Err(DatabaseError::Unavailable(_)) if n < tries && began.elapsed() < FRESH => {}
                done => return done,
            }
        }
        Err(DatabaseError::Unavailable("the database does not answer".to_owned()))
    }

    async fn change(&self, changes: &[String], values: &[Value<'_>]) -> Result<()> {
        self.query(&DIALECT.together(changes), values).await.map(drop)
    }

    async fn share_table(&self, table: &'static str) -> Result<()> {
        let Some(role) = &self.tenant_role else { return Ok(()) };
        let mut connection = self.connection().await?;
        run(&mut connection, &role.grant(table)).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction on a pooled connection. If it is not committed, the connection is closed: it may
/// be dead, and the pool would wait for its response.
struct PooledTransaction {
    connection: Option<PoolConnection<Postgres>>,
    role: Option<TenantRole>,
    has_begun: bool,
    /// Whom the statements are for at the moment, if there is a role.
    tenant: Option<TenantId>,
}

impl PooledTransaction {
    /// Takes the role that a statement with `values` needs.
    async fn act_for(&mut self, tenant: Option<&TenantId>) -> Result<()> {
        let Some(role) = &self.role else { return Ok(()) };
        if self.has_begun && self.tenant.as_ref() == tenant {
            return Ok(());
        }
        let words = tenant.map_or_else(|| ACT_AS_OWNER.to_owned(), |tenant| role.act_for(tenant));
        let words = if self.has_begun { words } else { format!("begin; {words}") };
        run(self.connection()?, &words).await?;
        self.has_begun = true;
        self.tenant = tenant.cloned();
        Ok(())
    }

    fn connection(&mut self) -> Result<&mut PgConnection> {
        let gone = || DatabaseError::Unavailable("the transaction is over".to_owned());
        self.connection.as_deref_mut().ok_or_else(gone)
    }

    async fn say(&mut self, words: &'static str) -> Result<()> {
        in_time(STATEMENT_TIMEOUT, sqlx::query(words).execute(self.connection()?)).await.map(drop)
    }
}

#[async_trait]
impl Transaction for PooledTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.act_for(tenant_of(values)).await?;
        let statement = bound(sql, values).fetch_all(self.connection()?);
        let rows = in_time(STATEMENT_TIMEOUT, statement).await?;
        rows.iter().map(read).collect()
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        self.say("commit").await?;
        self.connection = None;
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) {
        if self.say("rollback").await.is_ok() {
            self.connection = None;
        }
    }
}

impl Drop for PooledTransaction {
    fn drop(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

pub(crate) struct PostgresTransaction<'c> {
    transaction: sqlx::Transaction<'c, Postgres>,
    /// The statement timeout.
    time: Duration,
}

impl PostgresTransaction<'_> {
    /// Returns the connection, for PostgreSQL-specific statements.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}

#[async_trait]
impl Transaction for PostgresTransaction<'_> {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = bound(sql, values).fetch_all(&mut *self.transaction);
        let rows = in_time(self.time, statement).await?;
        rows.iter().map(read).collect()
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        in_time(self.time, self.transaction.commit()).await
    }

    async fn rollback(self: Box<Self>) {
        let _ = in_time(self.time, self.transaction.rollback()).await;
    }
}

fn bound<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Postgres, PgArguments> {
    let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
    values.iter().fold(query, |query, value| match *value {
        Value::Text(text) => query.bind(text),
        Value::Tenant(tenant) => query.bind(tenant.as_str()),
        Value::OptionalText(text) => query.bind(text),
        Value::Integer(number) => query.bind(number),
        Value::OptionalInteger(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Texts(texts) => query.bind(texts.to_vec()),
        Value::Integers(numbers) => query.bind(numbers.to_vec()),
    })
}

fn read(row: &PgRow) -> Result<Row> {
    let column = |column: &sqlx::postgres::PgColumn| {
        let n = column.ordinal();
        Ok(match column.type_info().name() {
            "INT8" => row.try_get::<Option<i64>, _>(n)?.map(Column::Integer),
            "INT4" => {
                row.try_get::<Option<i32>, _>(n)?.map(|number| Column::Integer(number.into()))
            }
            "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(n)?.map(Column::Bytes),
            _ => row.try_get::<Option<String>, _>(n)?.map(Column::Text),
        }
        .unwrap_or(Column::Null))
    };
    let columns: Result<Vec<Column>, sqlx::Error> = row.columns().iter().map(column).collect();
    columns.map(Row).map_err(failed)
}
