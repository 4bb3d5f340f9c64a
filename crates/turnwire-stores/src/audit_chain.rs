//! Chains of the audit log, and records that wait to be added to one.

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use turnwire_contract::AuditRecord;

use crate::{batch_queue::BatchQueue, database::DatabaseError};

/// Records that wait to be appended. The leader has the end of the chain, unless the next
/// record begins a new one.
pub(crate) type AuditQueue = BatchQueue<WaitingRecords, Option<ChainEnd>>;

pub(crate) struct WaitingRecords {
    pub(crate) records: Vec<AuditRecord>,
    pub(crate) done: oneshot::Sender<Result<(), DatabaseError>>,
}

/// The last entry of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub(crate) chain: String,
    pub(crate) seq: i64,
    pub(crate) hash: String,
}

impl ChainEnd {
    pub(crate) fn begin(chain: String) -> Self {
        Self { hash: first_hash(&chain), chain, seq: 0 }
    }

    /// Adds an entry, which is the end then.
    pub(crate) fn add(&mut self, record: &str) {
        self.seq += 1;
        self.hash = next_hash(&self.hash, self.seq, record);
    }
}

/// What the first entry of a chain depends on.
pub(crate) fn first_hash(chain: &str) -> String {
    hex::encode(Sha256::digest(chain))
}

pub(crate) fn next_hash(before: &str, seq: i64, record: &str) -> String {
    hex::encode(Sha256::digest(format!("{before}\n{seq}\n{record}")))
}
