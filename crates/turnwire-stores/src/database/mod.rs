//! What SQLite and PostgreSQL have in common, as far as this crate needs it.
//!
//! Everything but the hot path is written once, in SQL that both understand; what differs is
//! said by the [`Dialect`]. A statement is its text, with parameters `$1`, `$2`, …, and a list of
//! [`Value`]s; an answer is a list of [`Row`]s.

use std::time::Duration;

use async_trait::async_trait;

use crate::library::LibraryDialect;

mod postgres;
mod sqlite;

pub(crate) use postgres::{DedicatedConnection, PostgresDatabase, in_time};
#[cfg(test)]
pub(crate) use sqlite::only_reads;
pub(crate) use sqlite::{SqliteDatabase, private_file};

/// A database that can be asked.
#[async_trait]
pub(crate) trait Database: Send + Sync {
    /// How it likes its SQL.
    fn dialect(&self) -> &'static Dialect;

    /// Begins a transaction that will write. If it is not committed or undone, its connection is
    /// closed with it: after an error nobody knows in which state it is.
    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError>;

    /// One statement in a transaction of its own.
    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError>;

    /// Closes every connection.
    async fn close(&self);
}

/// Statements that happen together or not at all.
#[async_trait]
pub(crate) trait Transaction: Send {
    /// One statement.
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError>;

    /// Makes it so.
    async fn commit(self: Box<Self>) -> Result<(), DatabaseError>;

    /// Undoes it, and keeps the connection if it is still good: for what is refused every day.
    async fn rollback(self: Box<Self>);
}

/// Something that goes into a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Integer(i64),
    OptionalInteger(Option<i64>),
    Bytes(&'a [u8]),
    /// For [`Dialect::any_of`], [`Dialect::texts`] and their like.
    Texts(&'a [&'a str]),
    Integers(&'a [i64]),
}

/// One column of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    Null,
    Text(String),
    Integer(i64),
    Bytes(Vec<u8>),
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row(pub(crate) Vec<Column>);

impl Row {
    /// The text in column `n`, counted from 0.
    pub(crate) fn text(&self, n: usize) -> Result<&str, DatabaseError> {
        match self.0.get(n) {
            Some(Column::Text(text)) => Ok(text),
            other => Err(unexpected(n, other)),
        }
    }

    /// The text in column `n`, which may be null.
    pub(crate) fn optional_text(&self, n: usize) -> Result<Option<&str>, DatabaseError> {
        match self.0.get(n) {
            Some(Column::Null) => Ok(None),
            _ => self.text(n).map(Some),
        }
    }

    /// The number in column `n`.
    pub(crate) fn integer(&self, n: usize) -> Result<i64, DatabaseError> {
        match self.0.get(n) {
            Some(Column::Integer(number)) => Ok(*number),
            other => Err(unexpected(n, other)),
        }
    }

    /// The number in column `n`, which may be null.
    pub(crate) fn optional_integer(&self, n: usize) -> Result<Option<i64>, DatabaseError> {
        match self.0.get(n) {
            Some(Column::Null) => Ok(None),
            _ => self.integer(n).map(Some),
        }
    }

    /// The bytes in column `n`.
    pub(crate) fn bytes(&self, n: usize) -> Result<&[u8], DatabaseError> {
        match self.0.get(n) {
            Some(Column::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(n, other)),
        }
    }
}

fn unexpected(n: usize, found: Option<&Column>) -> DatabaseError {
    DatabaseError::Broken(format!("column {n} holds {found:?}"))
}

/// What the two databases say differently.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The time now, as it is kept where it is compared with the clock.
    pub(crate) now: &'static str,
    /// Behind a `select` in a transaction: nobody else changes these rows until it is over.
    pub(crate) for_update: &'static str,
    /// The same, and rows that somebody else holds are left out.
    pub(crate) skip_locked: &'static str,
    /// Behind `from gone`: as `r`, the active runs of the worker `gone.worker` that nobody else is
    /// taking just now and that worker `$1` may claim, `$2` of them at most where that saves work. Says which way to go, because
    /// a database that guesses takes a dead worker for a usual one and reads all runs there are.
    pub(crate) runs_of_gone: &'static str,
    /// Whether a `with` may write too, so that several changes fit into one statement.
    pub(crate) writes_in_with: bool,
    /// How passages are written and found.
    pub(crate) library: &'static LibraryDialect,
    later: fn(&str) -> String,
    texts: fn(&str) -> String,
    integers: fn(&str) -> String,
    pairs: fn(&str, &str) -> String,
}

impl Dialect {
    /// The time `parameter` microseconds from now: `lease_until = {later("$2")}`.
    pub(crate) fn later(&self, parameter: &str) -> String {
        (self.later)(parameter)
    }

    /// A table of the texts in a [`Value::Texts`]: `id in (select value from {texts("$1")})`.
    pub(crate) fn texts(&self, parameter: &str) -> String {
        (self.texts)(parameter)
    }

    /// A table of the numbers in a [`Value::Integers`].
    pub(crate) fn integers(&self, parameter: &str) -> String {
        (self.integers)(parameter)
    }

    /// A table of two [`Value::Texts`] of the same length, side by side: `n`, which counts them,
    /// `one` and `other`.
    pub(crate) fn pairs(&self, one: &str, other: &str) -> String {
        (self.pairs)(one, other)
    }
}

/// Why a database did not do what it was asked. Named by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// It cannot be reached, or cannot write to its disk: wait and try again. Whether it has done
    /// what it was asked is not known.
    #[error("{0}")]
    Away(String),
    /// The statement took too long, or more memory than there is: ask for less. Whether it was
    /// done is not known, nor whether the database is away; a small statement tells.
    #[error("{0}")]
    TooSlow(String),
    /// A unique index said no. Names the index where the database tells.
    #[error("{0}")]
    Taken(String),
    /// It cannot keep a text of this kind: a name with a NUL character, or one that is too long.
    #[error("{0}")]
    Refused(String),
    /// The statement makes no sense to it, or its answer none to us.
    #[error("{0}")]
    Broken(String),
}

impl DatabaseError {
    /// Whether the same may work later, as it is or in smaller pieces.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Away(_) | Self::TooSlow(_) => true,
            Self::Taken(_) | Self::Refused(_) | Self::Broken(_) => false,
        }
    }
}

/// How long one statement may take before its connection is given up.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
