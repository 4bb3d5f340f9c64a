//! Common interface of SQLite and PostgreSQL.
//!
//! Everything except the hot path is written once, in SQL that both support; the [`Dialect`] has
//! the differences. A statement is its text with parameters `$1`, `$2`, …, and a list of
//! [`Value`]s. A result is a list of [`Row`]s.

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use turnwire_contract::{PoolUse, TenantId};

mod damage;
mod library_dialect;
mod postgres;
mod postgres_errors;
mod sqlite;
mod tenant_role;

pub(crate) use library_dialect::{LibraryDialect, is_word};
pub(crate) use postgres::{DedicatedConnection, PostgresDatabase};
pub(crate) use postgres_errors::in_time;
#[cfg(test)]
pub(crate) use sqlite::only_reads;
pub(crate) use sqlite::{SqliteDatabase, private_file};

/// Most statements fail with a [`DatabaseError`].
pub(crate) type Result<T, E = DatabaseError> = std::result::Result<T, E>;

/// A connection pool to a database.
#[async_trait]
pub(crate) trait Database: Send + Sync {
    /// The SQL differences of this database.
    fn dialect(&self) -> &'static Dialect;

    /// Starts a write transaction. If it is dropped without commit or rollback, its connection is
    /// closed, because its state is unknown after an error.
    async fn begin(&self) -> Result<Box<dyn Transaction>>;

    /// Executes one statement in its own transaction.
    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    /// Executes statements in one transaction. After a unique violation, nothing of it has
    /// happened.
    async fn query_all(&self, statements: &[RowsStatement]) -> Result<()> {
        let mut transaction = self.begin().await?;
        for statement in statements {
            let done = statement.execute(&mut *transaction).await;
            if let Err(DatabaseError::UniqueViolation(_)) = done {
                transaction.rollback().await;
                return done;
            }
            done?;
        }
        transaction.commit().await
    }

    /// Executes changes with the same parameters in one transaction. No two of them concern the
    /// same row.
    async fn change(&self, changes: &[String], values: &[Value<'_>]) -> Result<()> {
        let mut transaction = self.begin().await?;
        transaction.query(&self.dialect().together(changes), values).await?;
        transaction.commit().await
    }

    /// Returns the use of the connections.
    fn pool_use(&self) -> PoolUse {
        PoolUse::default()
    }

    /// Allows statements for tenants to use a table that was created after the database was opened.
    async fn share_table(&self, _table: &'static str) -> Result<()> {
        Ok(())
    }

    async fn close(&self);
}

/// An atomic group of statements.
#[async_trait]
pub(crate) trait Transaction: Send {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls back and keeps the connection if it is still usable, for expected refusals.
    async fn rollback(self: Box<Self>);
}

/// A statement of SQLite about any number of rows. It names them `zipped`, with the columns `n`
/// (which counts them from 1), `c1`, `c2`, …
#[derive(Debug)]
pub(crate) struct RowsStatement {
    /// With one parameter: the rows, as a JSON array of arrays.
    sql: String,
    rows: String,
}

impl RowsStatement {
    /// Creates the statement that `sql` makes of the table of `rows`, each with `N` columns.
    pub(crate) fn new<const N: usize>(
        rows: &impl Serialize,
        sql: impl FnOnce(&str) -> String,
    ) -> Result<Self> {
        let columns: Vec<String> = (0..N).map(|n| format!("value ->> {n} as c{}", n + 1)).collect();
        let columns = columns.join(", ");
        let zipped = format!("(select key + 1 as n, {columns} from json_each($1)) as zipped");
        let failed = |error: serde_json::Error| DatabaseError::Failed(error.to_string());
        let rows = serde_json::to_string(rows).map_err(failed)?;
        Ok(Self { sql: sql(&zipped), rows })
    }

    /// Executes it in a transaction of several steps.
    pub(crate) async fn execute(&self, transaction: &mut dyn Transaction) -> Result<()> {
        transaction.query(&self.sql, &values![&self.rows]).await.map(drop)
    }
}

/// A statement parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    /// The tenant that the statement is for. PostgreSQL can run it as a role that sees only this
    /// tenant's rows.
    Tenant(&'a TenantId),
    OptionalText(Option<&'a str>),
    Integer(i64),
    OptionalInteger(Option<i64>),
    Bytes(&'a [u8]),
    /// For [`Dialect::texts`] and [`Dialect::zip`].
    Texts(&'a [&'a str]),
    Integers(&'a [i64]),
}

/// An array of [`Value`]s, each made from what it is: `values![tenant, run_id.as_str(), most]`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::database::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! value_from {
    ($($type:ty => $variant:ident,)*) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

value_from! {
    &'a str => Text,
    &'a String => Text,
    &'a TenantId => Tenant,
    Option<&'a str> => OptionalText,
    i64 => Integer,
    Option<i64> => OptionalInteger,
    &'a [u8] => Bytes,
    &'a Vec<u8> => Bytes,
    &'a [&'a str] => Texts,
    &'a Vec<&'a str> => Texts,
    &'a [i64] => Integers,
    &'a Vec<i64> => Integers,
}

impl From<usize> for Value<'_> {
    /// A count; the largest integer stands for larger ones.
    fn from(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

/// A column value of a result row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    Null,
    Text(String),
    Integer(i64),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row(pub(crate) Vec<Column>);

impl Row {
    /// Returns the text in column `n`, counted from 0.
    pub(crate) fn text(&self, n: usize) -> Result<&str> {
        match self.0.get(n) {
            Some(Column::Text(text)) => Ok(text),
            other => Err(unexpected(n, other)),
        }
    }

    /// Returns the nullable text in column `n`.
    pub(crate) fn optional_text(&self, n: usize) -> Result<Option<&str>> {
        match self.0.get(n) {
            Some(Column::Null) => Ok(None),
            _ => self.text(n).map(Some),
        }
    }

    /// Returns the integer in column `n`.
    pub(crate) fn integer(&self, n: usize) -> Result<i64> {
        match self.0.get(n) {
            Some(Column::Integer(number)) => Ok(*number),
            other => Err(unexpected(n, other)),
        }
    }

    /// Returns the nullable integer in column `n`.
    pub(crate) fn optional_integer(&self, n: usize) -> Result<Option<i64>> {
        match self.0.get(n) {
            Some(Column::Null) => Ok(None),
            _ => self.integer(n).map(Some),
        }
    }

    /// Returns the bytes in column `n`.
    pub(crate) fn bytes(&self, n: usize) -> Result<&[u8]> {
        match self.0.get(n) {
            Some(Column::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(n, other)),
        }
    }
}

/// Returns the use of a pool with `open` connections, of which `idle` are not in use.
fn pool_use_of(open: u32, idle: usize, max: u32) -> PoolUse {
    let idle = u32::try_from(idle).unwrap_or(u32::MAX).min(open);
    PoolUse { busy: open - idle, idle, max }
}

fn unexpected(n: usize, found: Option<&Column>) -> DatabaseError {
    DatabaseError::Failed(format!("unexpected value in column {n}: {found:?}"))
}

/// SQL that differs between the two databases.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The current time, in the representation that is compared with the clock.
    pub(crate) now: &'static str,
    /// Suffix of a `select` that locks the rows until the end of the transaction.
    pub(crate) for_update: &'static str,
    /// Suffix of a `select` that keeps others from deleting the rows until then.
    pub(crate) for_share: &'static str,
    /// Statement with which one transaction at a time changes what belongs to the tenants `$1`, a
    /// [`Value::Texts`]. `None` if there is one at a time anyway.
    pub(crate) lock_tenants: Option<&'static str>,
    /// Like `for_update`, but of the table `r` alone, and skips rows that are locked.
    pub(crate) skip_locked: &'static str,
    /// Follows `from gone`: as `r`, the active and unlocked runs of worker `gone.worker` that
    /// worker `$1` may claim and for which `{which}` holds, at most `$2` of them where that saves
    /// work. It fixes the join order, because the planner would assume that a dead worker has as
    /// many runs as others and scan all runs. `{order}` are columns to sort by first.
    pub(crate) runs_of_gone: &'static str,
    /// Whether a `with` clause can write, so that several changes fit into one statement.
    pub(crate) writes_in_with: bool,
    /// SQL for chunks of files.
    pub(crate) library: &'static LibraryDialect,
    /// Function that returns the position of a text in another one, 0 if it is not there.
    pub(crate) position: &'static str,
    later: fn(&str) -> String,
    micros: fn(&str) -> String,
    lower: fn(&str) -> String,
    texts: fn(&str) -> String,
    integers: fn(&str) -> String,
    zip: fn(&[&str]) -> String,
}

impl Dialect {
    /// Returns the time `parameter` microseconds from now: `lease_until = {later("$2")}`.
    pub(crate) fn later(&self, parameter: &str) -> String {
        (self.later)(parameter)
    }

    /// Returns a time column as microseconds since 1970.
    pub(crate) fn micros(&self, column: &str) -> String {
        (self.micros)(column)
    }

    /// Returns a text with its ASCII letters in lower case.
    pub(crate) fn lower(&self, text: &str) -> String {
        (self.lower)(text)
    }

    /// Returns a table of the texts in a [`Value::Texts`]: `id in (select value from
    /// {texts("$1")})`.
    pub(crate) fn texts(&self, parameter: &str) -> String {
        (self.texts)(parameter)
    }

    /// Returns a table of the numbers in a [`Value::Integers`].
    pub(crate) fn integers(&self, parameter: &str) -> String {
        (self.integers)(parameter)
    }

    /// Returns `changes`, no two of which concern the same row, as one text.
    pub(crate) fn together(&self, changes: &[String]) -> String {
        match changes.split_last() {
            Some((last, others)) if self.writes_in_with && !others.is_empty() => {
                let others: Vec<String> =
                    others.iter().zip(1..).map(|(sql, n)| format!("t{n} as ({sql})")).collect();
                format!("with {} {last}", others.join(", "))
            }
            _ => changes.join("; "),
        }
    }

    /// Returns a table `zipped` of several [`Value::Texts`] of the same length: row number `n`,
    /// from 1 on, and the texts as `c1`, `c2`, ….
    pub(crate) fn zip(&self, lists: &[&str]) -> String {
        (self.zip)(lists)
    }
}

/// A database error, classified by what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// Unreachable, or unable to write to disk: retry. Whether the statement was executed is
    /// unknown.
    #[error("{0}")]
    Unavailable(String),
    /// The disk is full: retry. It is never the fault of the statement, although a smaller one may
    /// still find room.
    #[error("{0}")]
    NoRoom(String),
    /// The statement took too long or too much memory: use smaller statements. Whether it was
    /// executed is unknown, and so is whether the database is available; a small statement tells.
    #[error("{0}")]
    TooSlow(String),
    /// A unique constraint failed. Names the index if known.
    #[error("{0}")]
    UniqueViolation(String),
    /// A text that the database cannot store: it contains a NUL character or is too long.
    #[error("{0}")]
    InvalidValue(String),
    /// An invalid statement, or a result of an unexpected type.
    #[error("{0}")]
    Failed(String),
    /// What was read is encrypted, and this process does not have the key. Another one may.
    #[error("{0}")]
    KeyMissing(String),
}

impl DatabaseError {
    /// Returns whether a retry may succeed, unchanged or with smaller statements.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::NoRoom(_) | Self::TooSlow(_) => true,
            Self::UniqueViolation(_)
            | Self::InvalidValue(_)
            | Self::Failed(_)
            | Self::KeyMissing(_) => false,
        }
    }
}

/// Statement timeout, after which the connection is closed.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
