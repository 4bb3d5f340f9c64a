//! SQLite's own: its files, and its connections.

use super::*;

/// C28: with its last connection SQLite removes the write-ahead log, as when the connection of the
/// writer is closed after a failure. Readers open the database all the same.
#[tokio::test]
async fn readers_open_without_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.db");
    let database = SqliteDatabase::open(&path).await.unwrap();
    for pool in [&database.reading, &database.writing] {
        pool.acquire().await.unwrap().close().await.unwrap();
    }
    assert!(!path.with_extension("db-wal").exists());
    assert_eq!(database.query("select id from runs", &[]).await, Ok(Vec::new()));
}

/// Readers cannot write.
#[tokio::test]
async fn readers_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = SqliteDatabase::open(&folder.path().join("one.db")).await.unwrap();
    let mut reader = database.reading.acquire().await.unwrap();
    let written = sqlx::query("delete from runs").execute(&mut *reader).await;
    assert!(written.unwrap_err().to_string().contains("readonly"));
}
