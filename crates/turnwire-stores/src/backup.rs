//! A copy of a SQLite store while it is at work.
//!
//! Copying the file is not enough: the newest commits may still be in the write-ahead log beside
//! it. SQLite itself writes the copy, from one snapshot, and nobody waits for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use thiserror::Error;

use crate::database::private_file;

/// Copies the store at `url` into the new file `target`, which only its owner can read.
pub async fn backup(url: &str, target: &Path) -> Result<(), BackupError> {
    let Some(source) = url.strip_prefix("sqlite://").map(Path::new) else {
        return Err(BackupError::NotSqlite);
    };
    if !source.exists() {
        return Err(BackupError::NoStore(source.to_owned()));
    }
    create_new(target)?;
    let copied = copy(source, target).await;
    if copied.is_err() {
        let _ = fs::remove_file(target);
    }
    copied
}

/// Makes the file, empty: SQLite writes into it and leaves its rights alone.
fn create_new(target: &Path) -> Result<(), BackupError> {
    match private_file().write(true).create_new(true).open(target) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(BackupError::TargetExists(target.to_owned()))
        }
        Err(error) => Err(BackupError::Failed(error.to_string())),
    }
}

async fn copy(source: &Path, target: &Path) -> Result<(), BackupError> {
    let failed = |error: sqlx::Error| BackupError::Failed(error.to_string());
    let text = target.to_str().ok_or_else(|| {
        BackupError::Failed(format!("{} is not a name that SQLite takes", target.display()))
    })?;
    let mut store = SqliteConnectOptions::new().filename(source).connect().await.map_err(failed)?;
    sqlx::query("vacuum into $1").bind(text).execute(&mut store).await.map_err(failed)?;
    store.close().await.map_err(failed)?;
    // SQLite leaves this to the operating system.
    let written = fs::File::open(target).and_then(|file| file.sync_all());
    written.map_err(|error| BackupError::Failed(error.to_string()))
}

/// Why there is no copy.
#[derive(Debug, Error)]
pub enum BackupError {
    /// Only SQLite is copied by us.
    #[error("only a SQLite store can be copied into a file")]
    NotSqlite,
    /// There is nothing to copy.
    #[error("there is no store at {}", .0.display())]
    NoStore(PathBuf),
    /// A backup never replaces anything.
    #[error("{} is there already", .0.display())]
    TargetExists(PathBuf),
    /// The database or the disk refused.
    #[error("{0}")]
    Failed(String),
}
