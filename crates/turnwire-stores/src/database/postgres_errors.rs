//! Time limits and errors of statements in PostgreSQL.

use std::{future::Future, time::Duration};

use tokio::time::timeout;

use super::{DatabaseError, Result};

/// Returns the result of a statement, with a timeout of `time`.
pub(crate) async fn in_time<T>(
    time: Duration,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T> {
    match timeout(time, statement).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(DatabaseError::TooSlow(format!("no answer within {time:?}"))),
    }
}

/// Runs `work`. A timeout of `backoff` means that the database is unavailable.
pub(super) async fn within<T>(
    backoff: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T> {
    match timeout(backoff, work).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(DatabaseError::Unavailable("the database does not answer".to_owned())),
    }
}

pub(crate) fn failed(error: sqlx::Error) -> DatabaseError {
    let words = error.to_string();
    match &error {
        sqlx::Error::Database(cause) if cause.is_unique_violation() => {
            DatabaseError::UniqueViolation(cause.constraint().unwrap_or_default().to_owned())
        }
        // A NUL character, or a text too long for an index.
        sqlx::Error::Database(cause)
            if cause.code().is_some_and(|code| ["22021", "54000"].contains(&code.as_ref())) =>
        {
            DatabaseError::InvalidValue(words)
        }
        // Cancelled by `statement_timeout` or by the operator, or out of memory.
        sqlx::Error::Database(cause)
            if cause.code().is_some_and(|code| ["57014", "53200"].contains(&code.as_ref())) =>
        {
            DatabaseError::TooSlow(words)
        }
        sqlx::Error::Database(cause) if cause.code().as_deref() == Some("53100") => {
            DatabaseError::NoRoom(words)
        }
        // Class 40: transaction must be retried; 53 and 57: no resources, or shutdown; 08:
        // connection; 25006: read-only replica; 25P03: idle in transaction for too long.
        sqlx::Error::Database(cause)
            if !cause.code().is_some_and(|code| {
                ["08", "40", "53", "57", "25006", "25P03"]
                    .iter()
                    .any(|class| code.starts_with(class))
            }) =>
        {
            DatabaseError::Failed(words)
        }
        sqlx::Error::Configuration(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_) => DatabaseError::Failed(words),
        _ => DatabaseError::Unavailable(words),
    }
}
