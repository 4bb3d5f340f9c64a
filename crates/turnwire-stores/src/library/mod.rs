//! Files, collections and their index, in the same database as runs.
//!
//! * [`files`] stores uploaded files, [`uploads`] streams them in and out, [`collections`] group
//!   them for search;
//! * [`attachments`] are files in collections, and their batches;
//! * [`queue`] indexes files and deletes stale index entries;
//! * [`search`] finds chunks by words and by [`vectors`], with [`pgvector`] where available.
//!
//! Large data (files, chunks, the rest of a deleted collection) is written and deleted in slices,
//! each in its own transaction. SQLite has one writer, and runs must not wait for files.

mod attachments;
mod collections;
mod files;
mod pgvector;
mod queue;
mod search;
mod uploads;
mod vectors;

use std::sync::Arc;

use tokio::sync::{Notify, OnceCell};
use turnwire_contract::{LibraryError, TextAnalyzer, partial_debug};

use crate::{
    Store,
    database::{Database, LibraryDialect},
    time::{micros, now},
};

type Result<T, E = LibraryError> = std::result::Result<T, E>;

/// Maximum size of a file.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// The library of a [`Store`]. Cheap to clone.
#[derive(Clone)]
pub struct StoreLibrary {
    /// Keeps the database and its background tasks open.
    store: Store,
    database: Arc<dyn Database>,
    reader: Arc<dyn TextAnalyzer>,
    /// Notified when there is work for the index.
    changed: Arc<Notify>,
    /// Whether vectors use a pgvector column, once known.
    column: Arc<OnceCell<bool>>,
}

impl Store {
    /// Returns the library in this database, with `reader` as text analyzer.
    pub fn library(&self, reader: Arc<dyn TextAnalyzer>) -> StoreLibrary {
        StoreLibrary {
            store: self.clone(),
            database: Arc::clone(&self.0.database),
            reader,
            changed: Arc::default(),
            column: Arc::default(),
        }
    }
}

impl StoreLibrary {
    fn dialect(&self) -> &'static LibraryDialect {
        self.database.dialect().library
    }
}

/// Converts a count for the database.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

partial_debug!(StoreLibrary {});
