//! Online backup of a SQLite store.
//!
//! Copying the file is not enough: recent commits may still be in the write-ahead log. SQLite
//! writes the copy from one snapshot, without blocking writers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use thiserror::Error;

use crate::database::private_file;

/// Copies the store at `url` into the new file `target`, readable only by its owner.
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

/// Creates the empty file with private permissions. SQLite keeps them.
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
        BackupError::Failed(format!("{} is not a valid file name for SQLite", target.display()))
    })?;
    let mut store = SqliteConnectOptions::new().filename(source).connect().await.map_err(failed)?;
    sqlx::query("vacuum into $1").bind(text).execute(&mut store).await.map_err(failed)?;
    store.close().await.map_err(failed)?;
    // SQLite does not sync the copy.
    let written = fs::File::open(target).and_then(|file| file.sync_all());
    written.map_err(|error| BackupError::Failed(error.to_string()))
}

/// Why the backup failed.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The store is not SQLite.
    #[error("only a SQLite store can be copied into a file")]
    NotSqlite,
    /// The store file does not exist.
    #[error("there is no store at {}", .0.display())]
    NoStore(PathBuf),
    /// The target exists. A backup never overwrites a file.
    #[error("{} already exists", .0.display())]
    TargetExists(PathBuf),
    /// Error of the database or the disk.
    #[error("{0}")]
    Failed(String),
}
