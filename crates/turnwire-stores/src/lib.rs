//! Where runs are kept so that they outlive their client, their process and their machine:
//! SQLite for one node, PostgreSQL for several, and Redis to carry news between them.
//!
//! One [`Store`] keeps everything: it is the journal, the run store, the blob store and the
//! roster of workers at once, because what must happen together has to be in one database. A
//! [`StoreLibrary`] keeps files and their index in the same database.

mod backup;
mod blob_store;
mod conversations;
mod database;
mod deletion;
mod entries;
mod failures;
#[cfg(test)]
mod fault_tests;
mod follower;
mod journal;
mod library;
mod live_tails;
mod notify;
mod outage;
mod pages;
mod probe;
mod reader;
mod retention;
mod rows;
mod run_store;
mod shared_pages;
mod start_run;
mod store;
mod sync;
mod trust;
mod workers;
mod writer;

pub use backup::{BackupError, backup};
pub use library::{MAX_FILE_BYTES, StoreLibrary};
pub use probe::reach_fanout;
pub use store::{OpenError, Store, StoreOptions};
