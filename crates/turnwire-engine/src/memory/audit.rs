//! In-memory audit log.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use turnwire_contract::{
    AuditEnd, AuditEntry, AuditLog, AuditQuery, AuditRecord, AuditReport, StoreError,
};

use crate::sync::lock;

/// Number of entries that are kept.
const MAX_ENTRIES: usize = 10_000;

/// The last entries of an audit log, in memory. Whoever can change them can do anything to the
/// process, so they have no hashes.
#[derive(Debug, Default)]
pub struct MemoryAuditLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    entries: VecDeque<AuditEntry>,
    n_appended: u64,
}

#[async_trait]
impl AuditLog for MemoryAuditLog {
    async fn append(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        let mut log = lock(&self.0);
        for record in records {
            log.n_appended += 1;
            let (chain, seq) = ("memory".to_owned(), log.n_appended);
            let record = record.bounded();
            log.entries.push_back(AuditEntry { chain, seq, record, hash: String::new() });
            if log.entries.len() > MAX_ENTRIES {
                log.entries.pop_front();
            }
        }
        Ok(())
    }

    async fn list(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let AuditQuery { tenant, action, object, before, limit } = query;
        let is_wanted = |entry: &&AuditEntry| {
            tenant.as_ref().is_none_or(|tenant| entry.record.tenant == *tenant)
                && action.is_none_or(|action| entry.record.action == action)
                && object.as_ref().is_none_or(|object| entry.record.object == *object)
                && before.as_ref().is_none_or(|(_, seq)| entry.seq < *seq)
        };
        let log = lock(&self.0);
        Ok(log.entries.iter().rev().filter(is_wanted).take(limit).cloned().collect())
    }

    async fn verify(&self, _: &[AuditEnd]) -> Result<AuditReport, StoreError> {
        let n_entries = u64::try_from(lock(&self.0).entries.len()).unwrap_or(u64::MAX);
        Ok(AuditReport { n_chains: 1, n_entries, ..AuditReport::default() })
    }
}
