//! Durable storage of runs: SQLite for one node, PostgreSQL for several, optionally Redis for
//! notifications between them.
//!
//! One [`Store`] implements the journal, the run store, the blob store, and the leases of workers,
//! because their changes share transactions. A [`StoreLibrary`] stores files and their index in the
//! same database.
//!
//! Reading order:
//!
//! * `store` opens the database and starts the background tasks. `database` is the common interface
//!   of SQLite and PostgreSQL.
//! * `start_run` inserts a run with the first events of its journal. `input_lists` stores long requests
//!   once for all that begin alike. `run_store`, `conversations` and `entries` store runs and
//!   conversations. `run_listing` lists runs from the summaries that
//!   `progress` computes and the writer stores.
//! * `journal` is the append path. `writer` commits appends of all runs in batches. `rows` encodes
//!   events, `run_ends` stores how runs ended.
//! * `live_tails` buffers recent events. `reader` reads one run from its tail and the database,
//!   with `pages` and `shared_pages`.
//! * `notify` sends notifications to other workers, by PostgreSQL or Redis. `follower` reads the
//!   runs that other workers write.
//! * `workers` stores leases, claims and pending commands, `heartbeats` is what this worker knows of
//!   its own. `outage` has the backoff while a server is unavailable.
//! * `deletion` deletes runs, `shared_deletion` those that are to go at the same time, `retention`
//!   old ones. `batch_queue` executes requests of several callers in one batch. `compaction` merges
//!   the journal rows of finished runs. `backup` copies a SQLite store.
//! * `sealing` encrypts what is stored, with a key per tenant. `encryption` is what an operator does
//!   with these keys. `secret_box` has the keys of the operator.
//! * `webhook_rows` is what an append stores for receivers of webhooks, `webhooks` sends from there.
//! * `audit` stores who did what, in chains (`audit_chain`). `api_keys` stores keys, `shares` share
//!   links, `blob_store` large tool results, `trust` pins, `usage` what tenants used, `library`
//!   files.
#![warn(missing_docs)]

mod api_keys;
mod audit;
mod audit_chain;
mod backup;
mod batch_queue;
mod blob_store;
mod catalogues;
mod compaction;
mod conversations;
mod database;
mod deletion;
mod encryption;
mod entries;
mod failures;
#[cfg(test)]
mod fault_tests;
mod follower;
#[doc(hidden)]
pub mod fuzzing;
mod heartbeats;
mod input_lists;
mod journal;
mod known_tools;
mod library;
mod live_tails;
mod nesting;
mod notify;
mod outage;
mod pages;
mod probe;
mod progress;
mod reader;
mod retention;
mod rows;
mod run_ends;
mod run_listing;
mod run_secrets;
mod run_store;
mod sealing;
mod secret_box;
mod shared_deletion;
mod shared_pages;
mod shares;
mod start_run;
mod statistics;
mod store;
mod sync;
mod time;
mod trust;
mod usage;
mod webhook_rows;
mod webhooks;
mod workers;
mod writer;

pub use backup::{BackupError, backup};
pub use library::{MAX_FILE_BYTES, StoreLibrary};
pub use probe::reach_fanout;
pub use sealing::{EncryptionStatus, WrappedKeys};
pub use secret_box::{SecretKeys, SecretKeysError};
pub use store::{OpenError, Store, StoreOptions};

use turnwire_contract::ports::Result;
