//! PostgreSQL, by sqlx.

use std::{future::Future, str::FromStr, time::Duration};

use async_trait::async_trait;
use sqlx::{
    Column as _, ConnectOptions, Connection, PgConnection, PgPool, Postgres, Row as _, TypeInfo,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow},
    query::Query,
};
use tokio::time::{Instant, timeout};

use super::{Column, Database, DatabaseError, Dialect, Row, STATEMENT_TIMEOUT, Transaction, Value};
use crate::library;

/// How long somebody waits for a connection before being told that the database is away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that was used this recently is taken as it is.
const FRESH: Duration = Duration::from_secs(1);

/// How long an older one may take to say that it is still there.
const PING_PATIENCE: Duration = Duration::from_millis(500);

/// How often a question is asked again when its connection turns out to be dead: after a restart
/// of the server all those in the pool are.
const TRIES: usize = 32;

/// Said to the server on every connection: a worker that is stopped in the middle of a
/// transaction does not keep the others waiting.
const FIRST_WORDS: &str = "set idle_in_transaction_session_timeout = '2s'";

static DIALECT: Dialect = Dialect {
    now: "clock_timestamp()",
    for_update: " for update",
    skip_locked: " for update of r skip locked",
    runs_of_gone: " cross join lateral
        (select id from runs where worker = gone.worker and state = 'active'
         and (claimable_at is null or claimable_at <= clock_timestamp()
              - case when deferred_by = $1 then interval '5 seconds' else interval '0' end)
         and not exists (select 1 from declined_runs d where d.run_id = id and d.worker = $1)
         order by number limit $2 for update skip locked) as r",
    writes_in_with: true,
    library: &library::POSTGRES,
    later: |micros| format!("clock_timestamp() + {micros}::bigint * interval '1 microsecond'"),
    texts: |list| format!("unnest({list}::text[]) as list(value)"),
    integers: |list| format!("unnest({list}::bigint[]) as list(value)"),
    pairs: |one, other| {
        format!("unnest({one}::text[], {other}::text[]) with ordinality as pairs(one, other, n)")
    },
};

/// A pool of connections to one database.
#[derive(Debug, Clone)]
pub(crate) struct PostgresDatabase {
    pool: PgPool,
}

impl PostgresDatabase {
    /// Connects, and brings the tables up to date.
    pub(crate) async fn open(url: &str, most_connections: u32) -> Result<Self, DatabaseError> {
        let options = PgConnectOptions::from_str(url).map_err(failed)?;
        let options = options.application_name("turnwire");
        let pool = PgPoolOptions::new()
            .max_connections(most_connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    // It may have died in its sleep, with the server.
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
        // A newer version may have been here, and may be here still.
        migrations.set_ignore_missing(true);
        migrations.run(&pool).await.map_err(|error| DatabaseError::Broken(error.to_string()))?;
        Ok(Self { pool })
    }

    /// The pool itself, for what is said in PostgreSQL's own words.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A connection of its own, for somebody who should never wait for others.
    pub(crate) fn dedicated_connection(&self) -> DedicatedConnection {
        DedicatedConnection { options: (*self.pool.connect_options()).clone(), connection: None }
    }

    async fn try_query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let mut connection = self.connection().await?;
        let statement = bound(sql, values).fetch_all(&mut *connection);
        let rows = in_time(STATEMENT_TIMEOUT, statement).await;
        if rows.as_ref().is_err_and(DatabaseError::is_transient) {
            // The pool would wait for its answer before it lets anybody else have its place.
            drop(connection.detach());
        }
        rows?.iter().map(read).collect()
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>, DatabaseError> {
        within(CONNECT_TIMEOUT, self.pool.acquire()).await
    }
}

/// A pool only says that it has waited. Whoever has just set this up wants to know for what.
async fn why_it_is_away(options: &PgConnectOptions) -> DatabaseError {
    let why = match within(CONNECT_TIMEOUT, options.connect()).await {
        Err(error) => error.to_string(),
        Ok(_) => "it was away until now".to_owned(),
    };
    let (host, port) = (options.get_host(), options.get_port());
    DatabaseError::Away(format!("no PostgreSQL at {host}:{port}: {why}"))
}

/// Refuses a connection pooler that lends one session of the server to several clients in turn,
/// as PgBouncer does in transaction mode: prepared statements, `LISTEN` and settings of a session
/// would get lost or mixed up in the middle of the work.
async fn refuse_shared_sessions(
    pool: &PgPool,
    options: &PgConnectOptions,
) -> Result<(), DatabaseError> {
    let mut one = within(CONNECT_TIMEOUT, pool.acquire()).await?;
    let mut other = within(CONNECT_TIMEOUT, options.connect()).await?;
    let ours = session_of(&mut one).await?;
    // While a transaction is open on the other connection, its session is nobody else's.
    in_time(STATEMENT_TIMEOUT, sqlx::raw_sql("begin").execute(&mut other)).await?;
    let run_key = session_of(&mut other).await?;
    let still_ours = session_of(&mut one).await?;
    if ours != run_key && ours == still_ours {
        return Ok(());
    }
    Err(DatabaseError::Broken(
        "the address leads to a connection pooler in transaction mode, such as PgBouncer; set \
         pool_mode = session there, or use the address of PostgreSQL itself"
            .to_owned(),
    ))
}

/// Which session of the server answers, asked without a prepared statement.
async fn session_of(connection: &mut PgConnection) -> Result<i32, DatabaseError> {
    let asked = sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection);
    in_time(STATEMENT_TIMEOUT, asked).await?.try_get(0).map_err(failed)
}

/// One connection outside of the pool, made when it is needed.
#[derive(Debug)]
pub(crate) struct DedicatedConnection {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
}

impl DedicatedConnection {
    /// The connection, a new one if there is none.
    pub(crate) async fn get(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(self.connection.insert(connection))
    }

    async fn connect(&self) -> Result<PgConnection, DatabaseError> {
        let connect = async {
            let mut connection = self.options.connect().await?;
            sqlx::query(FIRST_WORDS).execute(&mut connection).await?;
            Ok(connection)
        };
        within(CONNECT_TIMEOUT, connect).await
    }

    /// Begins a transaction, none of whose statements may take longer than `time`. Dropping it
    /// undoes it.
    pub(crate) async fn begin(
        &mut self,
        time: Duration,
    ) -> Result<PostgresTransaction<'_>, DatabaseError> {
        let transaction = in_time(STATEMENT_TIMEOUT, self.get().await?.begin()).await?;
        Ok(PostgresTransaction { transaction, time })
    }

    /// Gives the connection up, without a word: whatever was under way is undone, or done.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError> {
        let mut transaction = PooledTransaction(Some(self.connection().await?));
        transaction.say("begin").await?;
        Ok(Box::new(transaction))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let tries = if sql.starts_with("select") { TRIES } else { 1 };
        let began = Instant::now();
        for n in 1.. {
            match self.try_query(sql, values).await {
                Err(DatabaseError::Away(_)) if n < tries && began.elapsed() < FRESH => {}
                done => return done,
            }
        }
        Err(DatabaseError::Away("the database does not answer".to_owned()))
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction on a connection of the pool. If it is not committed, the connection is given up
/// with it: it may be dead, and the pool would wait for its answer before it lets anybody else
/// have its place.
struct PooledTransaction(Option<PoolConnection<Postgres>>);

impl PooledTransaction {
    fn connection(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let gone = || DatabaseError::Away("the transaction is over".to_owned());
        self.0.as_deref_mut().ok_or_else(gone)
    }

    async fn say(&mut self, words: &'static str) -> Result<(), DatabaseError> {
        in_time(STATEMENT_TIMEOUT, sqlx::query(words).execute(self.connection()?)).await.map(drop)
    }
}

#[async_trait]
impl Transaction for PooledTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let statement = bound(sql, values).fetch_all(self.connection()?);
        let rows = in_time(STATEMENT_TIMEOUT, statement).await?;
        rows.iter().map(read).collect()
    }

    async fn commit(mut self: Box<Self>) -> Result<(), DatabaseError> {
        self.say("commit").await?;
        self.0 = None;
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) {
        if self.say("rollback").await.is_ok() {
            self.0 = None;
        }
    }
}

impl Drop for PooledTransaction {
    fn drop(&mut self) {
        drop(self.0.take().map(PoolConnection::detach));
    }
}

/// A transaction under way.
pub(crate) struct PostgresTransaction<'c> {
    transaction: sqlx::Transaction<'c, Postgres>,
    /// How long each statement may take.
    time: Duration,
}

impl PostgresTransaction<'_> {
    /// The connection itself, for what is said in PostgreSQL's own words.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}

#[async_trait]
impl Transaction for PostgresTransaction<'_> {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let statement = bound(sql, values).fetch_all(&mut *self.transaction);
        let rows = in_time(self.time, statement).await?;
        rows.iter().map(read).collect()
    }

    async fn commit(self: Box<Self>) -> Result<(), DatabaseError> {
        in_time(self.time, self.transaction.commit()).await
    }

    async fn rollback(self: Box<Self>) {
        let _ = in_time(self.time, self.transaction.rollback()).await;
    }
}

/// What a statement returns, if it does not take longer than `time`.
pub(crate) async fn in_time<T>(
    time: Duration,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, DatabaseError> {
    match timeout(time, statement).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(DatabaseError::TooSlow(format!("no answer within {time:?}"))),
    }
}

/// What `work` returns, if the database can be reached within `backoff`.
async fn within<T>(
    backoff: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, DatabaseError> {
    match timeout(backoff, work).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(DatabaseError::Away("the database does not answer".to_owned())),
    }
}

fn bound<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Postgres, PgArguments> {
    let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
    values.iter().fold(query, |query, value| match *value {
        Value::Text(text) => query.bind(text),
        Value::OptionalText(text) => query.bind(text),
        Value::Integer(number) => query.bind(number),
        Value::OptionalInteger(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Texts(texts) => query.bind(texts.to_vec()),
        Value::Integers(numbers) => query.bind(numbers.to_vec()),
    })
}

fn read(row: &PgRow) -> Result<Row, DatabaseError> {
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

pub(crate) fn failed(error: sqlx::Error) -> DatabaseError {
    let words = error.to_string();
    match &error {
        sqlx::Error::Database(cause) if cause.is_unique_violation() => {
            DatabaseError::Taken(cause.constraint().unwrap_or_default().to_owned())
        }
        // A character that no text can have, and a name that does not fit into an index.
        sqlx::Error::Database(cause)
            if cause.code().is_some_and(|code| ["22021", "54000"].contains(&code.as_ref())) =>
        {
            DatabaseError::Refused(words)
        }
        // Cancelled by `statement_timeout` or by the operator, and out of memory.
        sqlx::Error::Database(cause)
            if cause.code().is_some_and(|code| ["57014", "53200"].contains(&code.as_ref())) =>
        {
            DatabaseError::TooSlow(words)
        }
        // 40: it has to be done again; 53 and 57: no room, or going away; 08: the connection;
        // 25006: it only follows another server; 25P03: it was kept waiting for too long.
        sqlx::Error::Database(cause)
            if !cause.code().is_some_and(|code| {
                ["08", "40", "53", "57", "25006", "25P03"]
                    .iter()
                    .any(|class| code.starts_with(class))
            }) =>
        {
            DatabaseError::Broken(words)
        }
        sqlx::Error::Configuration(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_) => DatabaseError::Broken(words),
        _ => DatabaseError::Away(words),
    }
}
