//! SQLite, via sqlx: one file, one write connection, several read connections; or one connection to
//! a database in memory.

use std::{io, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{
    Row as _, Sqlite, SqliteConnection, SqlitePool, TypeInfo, ValueRef,
    pool::PoolConnection,
    query::Query,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
        SqliteSynchronous,
    },
};

use super::{
    Column, Database, DatabaseError, Dialect, PoolUse, Result, Row, RowsStatement,
    STATEMENT_TIMEOUT, Transaction, Value, damage::DamageCheck, library_dialect, pool_use_of,
};

/// How long to wait for a write lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

static DIALECT: Dialect = Dialect {
    now: "cast(unixepoch('subsec') * 1000000 as integer)",
    for_update: "",
    for_share: "",
    lock_tenants: None,
    skip_locked: "",
    runs_of_gone: " cross join runs as r indexed by runs_at_work
        on r.worker = gone.worker and r.state = 'active'
        and (r.claimable_at is null
             or r.claimable_at <= cast(unixepoch('subsec') * 1000000 as integer)
                - case when r.deferred_by = $1 then 5000000 else 0 end)
        and not exists
            (select 1 from declined_runs d where d.run_id = r.id and d.worker = $1)
        and {which}",
    writes_in_with: false,
    library: &library_dialect::SQLITE,
    position: "instr",
    micros: str::to_owned,
    lower: |text| format!("lower({text})"),
    later: |micros| format!("cast(unixepoch('subsec') * 1000000 as integer) + {micros}"),
    texts: |list| format!("json_each({list})"),
    integers: |list| format!("json_each({list})"),
    // Materialized first: a direct join would scan one list for every element of the other.
    zip: |lists| {
        let each = |write: &dyn Fn(usize, &str) -> String| -> Vec<String> {
            lists.iter().zip(1..).map(|(list, n)| write(n, list)).collect()
        };
        let tables = each(&|n, list| {
            format!("l{n} as materialized (select key, value from json_each({list}))")
        });
        let columns = each(&|n, _| format!("l{n}.value as c{n}"));
        let joins = each(&|n, _| match n {
            1 => "l1".to_owned(),
            _ => format!("join l{n} on l{n}.key = l1.key"),
        });
        let (tables, columns, joins) = (tables.join(", "), columns.join(", "), joins.join(" "));
        format!("(with {tables} select l1.key + 1 as n, {columns} from {joins}) as zipped")
    },
};

/// Page cache of the writer: 4 MB, as negative KB. Every active run appends to a page of its own,
/// so the usual 2 MB are read again and again with more than a few hundred runs.
const WRITER_CACHE: &str = "-4096";

/// Pages in the write-ahead log before they are copied to the file: 16 MB. Meanwhile a page that
/// many commits have changed is copied once.
const PAGES_BEFORE_CHECKPOINT: &str = "4096";

/// One database file, or one database in memory.
#[derive(Debug, Clone)]
pub(crate) struct SqliteDatabase {
    /// A single connection: SQLite has one writer at a time, and queueing here avoids
    /// `SQLITE_BUSY`.
    writing: SqlitePool,
    reading: SqlitePool,
    /// A connection that is never used: a database in memory lasts as long as its last connection.
    _anchor: Option<SqlitePool>,
    damage: Arc<DamageCheck>,
}

impl SqliteDatabase {
    /// Opens the file, creates it if it does not exist, and runs the migrations.
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        create_private(path).map_err(|error| DatabaseError::Unavailable(error.to_string()))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // Commits survive a power failure.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let of_writer = options
            .clone()
            .pragma("cache_size", WRITER_CACHE)
            .pragma("wal_autocheckpoint", PAGES_BEFORE_CHECKPOINT);
        let writing = pool(1).connect_with(of_writer).await.map_err(failed)?;
        migrate(&writing).await?;
        let options = options.read_only(true);
        let reading = pool(4).connect_with(options.clone()).await.map_err(failed)?;
        Ok(Self { writing, reading, _anchor: None, damage: DamageCheck::of(options) })
    }

    /// Creates a database in memory and runs the migrations. Readers and the writer take turns:
    /// there is no write-ahead log in memory.
    pub(crate) async fn in_memory() -> Result<Self> {
        let name = format!("/{}", uuid::Uuid::new_v4().simple());
        let options =
            SqliteConnectOptions::new().filename(name).vfs("memdb").busy_timeout(BUSY_TIMEOUT);
        let lasting = || pool(1).max_lifetime(None).idle_timeout(None);
        let anchor = lasting().connect_with(options.clone()).await.map_err(failed)?;
        let writing = lasting().connect_with(options.clone()).await.map_err(failed)?;
        migrate(&writing).await?;
        let (reading, damage) = (writing.clone(), DamageCheck::of(options));
        Ok(Self { reading, writing, _anchor: Some(anchor), damage })
    }

    async fn transaction(&self) -> Result<SqliteTransaction> {
        let connection = Some(self.writing.acquire().await.map_err(failed)?);
        Ok(SqliteTransaction { connection, damage: Arc::clone(&self.damage) })
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(connections).acquire_timeout(STATEMENT_TIMEOUT)
}

async fn migrate(writing: &SqlitePool) -> Result<()> {
    let mut migrations = sqlx::migrate!("migrations/sqlite");
    migrations.set_ignore_missing(true);
    migrations.run(writing).await.map_err(|error| DatabaseError::Failed(error.to_string()))
}

/// Creates the file, if it does not exist, readable only by its owner. SQLite uses the same
/// permissions for the files beside it.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    match private_file().append(true).create(true).open(path) {
        // SQLite reports errors of an existing file better.
        Err(_) if path.exists() => Ok(()),
        opened => opened.map(drop),
    }
}

/// Options that create a file readable only by its owner.
pub(crate) fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[async_trait]
impl Database for SqliteDatabase {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn pool_use(&self) -> PoolUse {
        let (one, other) = (&self.writing, &self.reading);
        let max = one.options().get_max_connections() + other.options().get_max_connections();
        pool_use_of(one.size() + other.size(), one.num_idle() + other.num_idle(), max)
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        let mut transaction = self.transaction().await?;
        transaction.execute("begin immediate").await?;
        Ok(Box::new(transaction))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let pool = if only_reads(sql) { &self.reading } else { &self.writing };
        let mut connection = pool.acquire().await.map_err(failed)?;
        let rows = bound(sql, values).fetch_all(&mut *connection).await;
        let rows = rows.inspect_err(|error| self.damage.note(error)).map_err(failed);
        if rows.as_ref().is_err_and(DatabaseError::is_transient) {
            drop(connection.detach());
        }
        rows?.iter().map(read).collect()
    }

    async fn query_all(&self, statements: &[RowsStatement]) -> Result<()> {
        let numbered =
            |(statement, n): (&RowsStatement, usize)| statement.sql.replace("$1", &format!("${n}"));
        let all: Vec<String> = statements.iter().zip(1..).map(numbered).collect();
        let values: Vec<Value<'_>> =
            statements.iter().map(|statement| Value::Text(&statement.rows)).collect();
        self.change(&all, &values).await
    }

    /// One text with all statements: each on its own would be a way to the thread of the connection
    /// and back, on which the caller waits in line with everything else that the process does.
    async fn change(&self, changes: &[String], values: &[Value<'_>]) -> Result<()> {
        let mut transaction = self.transaction().await?;
        let script = format!("begin immediate; {}; commit", self.dialect().together(changes));
        let done = bound(&script, values).execute(transaction.connection()?).await;
        let done = done.inspect_err(|error| self.damage.note(error)).map(drop).map_err(failed);
        match &done {
            Ok(()) => transaction.connection = None,
            Err(error) if error.is_transient() => {}
            Err(_) => Box::new(transaction).rollback().await,
        }
        done
    }

    /// Checkpoints the write-ahead log, so that a copy of the file is a copy of the database.
    async fn close(&self) {
        if self._anchor.is_some() {
            return self.writing.close().await;
        }
        self.reading.close().await;
        let checkpoint = sqlx::query("pragma wal_checkpoint(truncate)");
        if let Err(error) = checkpoint.execute(&self.writing).await {
            tracing::warn!(%error, "checkpoint failed, the -wal file is still needed");
        }
        self.writing.close().await;
    }
}

/// Returns whether a statement can use a read connection.
pub(crate) fn only_reads(sql: &str) -> bool {
    let sql = sql.trim_start();
    sql.starts_with("select") || sql.starts_with("with recursive")
}

/// A transaction on the write connection. If it is neither committed nor rolled back, the
/// connection is closed: after a disk error SQLite may have rolled back by itself, which leaves the
/// next transaction in an unknown state.
struct SqliteTransaction {
    connection: Option<PoolConnection<Sqlite>>,
    damage: Arc<DamageCheck>,
}

impl SqliteTransaction {
    fn connection(&mut self) -> Result<&mut SqliteConnection> {
        let over = || DatabaseError::Unavailable("the transaction is over".to_owned());
        self.connection.as_deref_mut().ok_or_else(over)
    }

    async fn execute(&mut self, sql: &'static str) -> Result<()> {
        let done = sqlx::query(sql).execute(self.connection()?).await;
        done.inspect_err(|error| self.damage.note(error)).map(drop).map_err(failed)
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let rows = bound(sql, values).fetch_all(self.connection()?).await;
        let rows = rows.inspect_err(|error| self.damage.note(error)).map_err(failed)?;
        rows.iter().map(read).collect()
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        self.execute("commit").await?;
        self.connection = None;
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) {
        if self.execute("rollback").await.is_ok() {
            self.connection = None;
        }
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

fn bound<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Sqlite, SqliteArguments> {
    let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
    values.iter().fold(query, |query, value| match *value {
        Value::Text(text) => query.bind(text),
        Value::Tenant(tenant) => query.bind(tenant.as_str()),
        Value::OptionalText(text) => query.bind(text),
        Value::Integer(number) => query.bind(number),
        Value::OptionalInteger(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Texts(texts) => query.bind(serde_json::json!(texts).to_string()),
        Value::Integers(numbers) => query.bind(serde_json::json!(numbers).to_string()),
    })
}

fn read(row: &SqliteRow) -> Result<Row> {
    let column = |n: usize| {
        let value = row.try_get_raw(n)?;
        if value.is_null() {
            return Ok(Column::Null);
        }
        Ok(match value.type_info().name() {
            "INTEGER" => Column::Integer(row.try_get(n)?),
            "BLOB" => Column::Bytes(row.try_get(n)?),
            _ => Column::Text(row.try_get(n)?),
        })
    };
    let columns: Result<Vec<Column>, sqlx::Error> = (0..row.columns().len()).map(column).collect();
    columns.map(Row).map_err(failed)
}

fn failed(error: sqlx::Error) -> DatabaseError {
    let words = error.to_string();
    match &error {
        sqlx::Error::Database(cause) if cause.is_unique_violation() => {
            DatabaseError::UniqueViolation(cause.message().to_owned())
        }
        sqlx::Error::Database(cause) if cause.code().as_deref() == Some(FULL) => {
            DatabaseError::NoRoom(words)
        }
        sqlx::Error::Database(cause)
            if !cause.code().is_some_and(|code| {
                code.parse().is_ok_and(|code: u32| AWAY.contains(&(code & 0xff)))
            }) =>
        {
            DatabaseError::Failed(words)
        }
        sqlx::Error::Configuration(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_) => DatabaseError::Failed(words),
        _ => DatabaseError::Unavailable(words),
    }
}

/// Result codes of a temporarily unusable file: busy (5), locked (6), no memory (7), read-only (8),
/// interrupted (9), I/O error (10), cannot open (14), locking protocol (15).
const AWAY: [u32; 8] = [5, 6, 7, 8, 9, 10, 14, 15];

/// Result code of a full disk.
const FULL: &str = "13";
