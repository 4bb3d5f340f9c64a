//! SQLite, by sqlx: one file, one connection that writes, a few that read.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use sqlx::{
    Row as _, Sqlite, SqlitePool, TypeInfo, ValueRef,
    query::Query,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
        SqliteSynchronous,
    },
};

use super::{Column, Database, DatabaseError, Dialect, Row, Transaction, Value};
use crate::library;

/// How long somebody waits for another process that writes to the same file.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

static DIALECT: Dialect = Dialect {
    now: "cast(unixepoch('subsec') * 1000000 as integer)",
    for_update: "",
    skip_locked: "",
    runs_of_gone: " cross join runs as r indexed by runs_at_work
        on r.worker = gone.worker and r.state = 'active'",
    writes_in_with: false,
    library: &library::SQLITE,
    later: |micros| format!("cast(unixepoch('subsec') * 1000000 as integer) + {micros}"),
    texts: |list| format!("json_each({list})"),
    integers: |list| format!("json_each({list})"),
    // Kept apart first: matching one list with the other directly would read it over and over.
    pairs: |one, other| {
        format!(
            "(with ones as materialized (select key, value from json_each({one})),
                   others as materialized (select key, value from json_each({other}))
              select ones.key as n, ones.value as one, others.value as other
              from ones join others on others.key = ones.key) as pairs"
        )
    },
};

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct SqliteDatabase {
    /// One connection: SQLite has one writer at a time, and waiting for it in a queue is better
    /// than being told to come back.
    writing: SqlitePool,
    reading: SqlitePool,
}

impl SqliteDatabase {
    /// Opens the file, makes it if it is not there, and brings the tables up to date.
    pub(crate) async fn open(path: &Path) -> Result<Self, DatabaseError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was committed survives a power cut too.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_PATIENCE);
        let pool = |most| SqlitePoolOptions::new().max_connections(most);
        let writing = pool(1).connect_with(options.clone()).await.map_err(failed)?;
        let mut migrations = sqlx::migrate!("migrations/sqlite");
        migrations.set_ignore_missing(true);
        migrations.run(&writing).await.map_err(|error| DatabaseError::Broken(error.to_string()))?;
        let reading = pool(4).connect_with(options.read_only(true)).await.map_err(failed)?;
        Ok(Self { writing, reading })
    }
}

#[async_trait]
impl Database for SqliteDatabase {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError> {
        let transaction = self.writing.begin_with("begin immediate").await.map_err(failed)?;
        Ok(Box::new(SqliteTransaction(transaction)))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let only_reads = sql.trim_start().get(..6).is_some_and(|word| word == "select")
            || sql.trim_start().starts_with("with recursive");
        let pool = if only_reads { &self.reading } else { &self.writing };
        let rows = bound(sql, values).fetch_all(pool).await.map_err(failed)?;
        rows.iter().map(read).collect()
    }
}

struct SqliteTransaction(sqlx::Transaction<'static, Sqlite>);

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let rows = bound(sql, values).fetch_all(&mut *self.0).await.map_err(failed)?;
        rows.iter().map(read).collect()
    }

    async fn commit(self: Box<Self>) -> Result<(), DatabaseError> {
        self.0.commit().await.map_err(failed)
    }

    async fn undo(self: Box<Self>) {
        let _ = self.0.rollback().await;
    }
}

fn bound<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Sqlite, SqliteArguments> {
    let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
    values.iter().fold(query, |query, value| match *value {
        Value::Text(text) => query.bind(text),
        Value::OptionalText(text) => query.bind(text),
        Value::Integer(number) => query.bind(number),
        Value::OptionalInteger(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Texts(texts) => query.bind(serde_json::json!(texts).to_string()),
        Value::Integers(numbers) => query.bind(serde_json::json!(numbers).to_string()),
    })
}

fn read(row: &SqliteRow) -> Result<Row, DatabaseError> {
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
            DatabaseError::Taken(cause.message().to_owned())
        }
        // 5 and 6: another process has the file for now; 10 and 13: the disk.
        sqlx::Error::Database(cause)
            if !cause.code().is_some_and(|code| {
                code.parse().is_ok_and(|code: u32| [5, 6, 10, 13].contains(&(code & 0xff)))
            }) =>
        {
            DatabaseError::Broken(words)
        }
        sqlx::Error::Configuration(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_) => DatabaseError::Broken(words),
        _ => DatabaseError::Away(words),
    }
}
