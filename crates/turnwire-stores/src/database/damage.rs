//! What is done when SQLite says that its file is damaged: the whole file is looked at once, and
//! the log says what was found and what to do.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use tokio_util::task::TaskTracker;
use tracing::error;

/// Result codes: a page makes no sense (11), the file is no database (26).
const DAMAGED: [u32; 2] = [11, 26];

/// Findings that are logged. A file that is damaged in one place often has many.
const MAX_FINDINGS: u32 = 5;

/// Looks at a file once.
#[derive(Debug)]
pub(super) struct DamageCheck {
    options: SqliteConnectOptions,
    is_done: AtomicBool,
    tasks: TaskTracker,
}

impl DamageCheck {
    /// Creates the check of the file with these options.
    pub(super) fn of(options: SqliteConnectOptions) -> Arc<Self> {
        let tasks = TaskTracker::new();
        Arc::new(Self { options, is_done: AtomicBool::new(false), tasks })
    }

    /// Looks at the file in the background if `error` is the first that says that it is damaged.
    /// With a connection of its own: the others have work to do.
    pub(super) fn note(self: &Arc<Self>, error: &sqlx::Error) {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        let code = code.and_then(|code| code.parse::<u32>().ok());
        if code.is_some_and(|code| DAMAGED.contains(&(code & 0xff)))
            && !self.is_done.swap(true, Ordering::Relaxed)
        {
            let (check, words) = (Arc::clone(self), error.to_string());
            self.tasks.spawn(async move {
                let findings = check.findings().await.unwrap_or_else(|error| error.to_string());
                error!(
                    error = words,
                    findings,
                    "database file damaged: stop the server, keep the file, restore a backup"
                );
            });
        }
    }

    async fn findings(&self) -> Result<String, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let check = format!("pragma quick_check({MAX_FINDINGS})");
        let found = sqlx::query_scalar(sqlx::AssertSqlSafe(check)).fetch_all(&mut connection).await;
        connection.close().await?;
        Ok::<Vec<String>, _>(found?).map(|found| found.join("; "))
    }
}
