//! The audit log: entries whose hashes depend on all entries before them.
//!
//! A chain for the whole store would make all its servers wait for each other, so each process
//! writes a chain of its own. Where a chain begins and ends is stored beside it: that an entry is
//! missing in the middle shows in the hashes, at an end only there. Records that are appended at
//! the same time are committed together. If it is unknown whether a commit happened, the chain ends
//! where it was, and the next record begins another.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::oneshot;
use turnwire_contract::{
    AuditEnd, AuditEntry, AuditFault, AuditLog, AuditQuery, AuditRecord, AuditReport, StoreError,
    Timestamp,
};

use crate::{
    Store,
    audit_chain::{ChainEnd, WaitingRecords, first_hash, next_hash},
    batch_queue::Waited,
    database::{Database, DatabaseError, Result, Row, Value, values},
    workers::micros,
};

/// Number of entries read at a time.
const PAGE: i64 = 1_000;
/// Number of entries deleted in one transaction.
const DELETED_AT_ONCE: i64 = 5_000;
/// How often a chain is read that seems changed while its oldest entries are deleted.
const MAX_LOOKS: u32 = 1_000;

#[async_trait]
impl AuditLog for Store {
    async fn append(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        // In a task: a client that disconnects must not end the chain.
        let records = records.into_iter().map(AuditRecord::bounded).collect();
        let store = self.clone();
        let appended = self.0.tasks.spawn(async move { store.append_together(records).await });
        let panicked = |_| StoreError::Unavailable("the audit log was not written".to_owned());
        Ok(appended.await.map_err(panicked)??)
    }

    async fn list(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let AuditQuery { tenant, action, object, before, limit } = query;
        let mut values = vec![Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX))];
        let mut conditions = Vec::new();
        let filters = [
            ("tenant", tenant.as_ref().map(Value::Tenant)),
            ("action", action.map(|action| Value::Text(action.as_str()))),
            ("object", object.as_deref().map(Value::Text)),
        ];
        for (column, wanted) in filters {
            if let Some(wanted) = wanted {
                values.push(wanted);
                conditions.push(format!("e.{column} = ${}", values.len()));
            }
        }
        if let Some((chain, seq)) = &before {
            values.push(Value::Text(chain));
            values.push(Value::Integer(i64::try_from(*seq).unwrap_or(i64::MAX)));
            conditions.push(format!(
                "(e.at, e.chain, e.seq) < (select b.at, b.chain, b.seq from audit_entries b
                 where b.chain = ${} and b.seq = ${})",
                values.len() - 1,
                values.len()
            ));
        }
        let conditions = match conditions.as_slice() {
            [] => String::new(),
            conditions => format!("where {}", conditions.join(" and ")),
        };
        let sql = format!(
            "select e.chain, e.seq, e.record, e.hash from audit_entries e {conditions}
             order by e.at desc, e.chain desc, e.seq desc limit $1"
        );
        let found = match self.0.database.query(&sql, &values).await {
            // What cannot be stored cannot be found.
            Err(DatabaseError::InvalidValue(_)) => Vec::new(),
            found => found?,
        };
        Ok(found.iter().map(entry).collect::<Result<_, _>>()?)
    }

    async fn verify(&self, kept: &[AuditEnd]) -> Result<AuditReport, StoreError> {
        let database = &*self.0.database;
        let mut report = AuditReport::default();
        let chains = database.query("select chain from audit_chains order by chain", &[]).await?;
        let mut known = HashSet::new();
        for chain in &chains {
            let chain = chain.text(0)?;
            known.insert(chain.to_owned());
            let mut looks = 1;
            let checked = loop {
                let (checked, was_cut) = check_chain(database, chain, kept).await?;
                if checked.faults.is_empty() || !was_cut || looks == MAX_LOOKS {
                    break checked;
                }
                looks += 1;
            };
            report.n_chains += 1;
            report.n_entries += checked.n_entries;
            report.ends.extend(checked.ends);
            report.faults.extend(checked.faults);
        }
        // One chain after the other by its index: a list of all would read every entry.
        let sql = "select min(chain) from audit_entries where chain > $1";
        let mut last = String::new();
        while let Some(next) = database.query(sql, &values![&last]).await?.first() {
            let Some(chain) = next.optional_text(0)? else { break };
            chain.clone_into(&mut last);
            // One that began meanwhile has its row.
            if !known.contains(chain) && row_of(database, chain).await?.is_none() {
                report.n_chains += 1;
                report.faults.push(fault(chain, 1, "where its chain begins and ends was deleted"));
            }
        }
        for end in kept.iter().filter(|end| !known.contains(&end.chain)) {
            report.faults.push(fault_at(&end.chain, end.seq, "the chain that had it was deleted"));
        }
        Ok(report)
    }
}

impl Store {
    /// Appends records together with others that wait.
    async fn append_together(&self, records: Vec<AuditRecord>) -> Result<()> {
        let queue = &self.0.audit;
        loop {
            let (done, mut appended) = oneshot::channel();
            queue.add(WaitingRecords { records: records.clone(), done });
            let appended = loop {
                match queue.wait(&mut appended).await {
                    Waited::Done(appended) => break appended,
                    Waited::Leader(mut end) => {
                        self.append_batch(&mut end, queue.next_batch()).await;
                    }
                }
            };
            if let Some(appended) = appended {
                return appended;
            }
        }
    }

    async fn append_batch(&self, end: &mut Option<ChainEnd>, batch: Vec<WaitingRecords>) {
        if batch.is_empty() {
            return;
        }
        let records: Vec<&AuditRecord> =
            batch.iter().flat_map(|waiting| &waiting.records).collect();
        let appended = self.append_to_chain(end, &records).await;
        let is_refused = appended.as_ref().is_err_and(|error| !error.is_transient());
        if is_refused && batch.len() > 1 {
            // The records of one may be the cause; the others are not to suffer from it.
            for waiting in batch {
                let records: Vec<&AuditRecord> = waiting.records.iter().collect();
                let appended = self.append_to_chain(end, &records).await;
                drop(waiting.done.send(appended));
            }
            return;
        }
        for waiting in batch {
            // Nobody may wait for it any more.
            drop(waiting.done.send(appended.clone()));
        }
    }

    async fn append_to_chain(
        &self,
        end: &mut Option<ChainEnd>,
        records: &[&AuditRecord],
    ) -> Result<()> {
        let before = end.take();
        let mut next = before.clone().unwrap_or_else(|| {
            ChainEnd::begin(format!("{}.{}", self.0.worker, uuid::Uuid::new_v4().simple()))
        });
        let appended = self.write_entries(&mut next, records).await;
        *end = match &appended {
            Ok(()) => Some(next),
            Err(DatabaseError::InvalidValue(_) | DatabaseError::Failed(_)) => before,
            // It is unknown what the last entry is, or somebody put another one there: a new chain
            // begins.
            Err(_) => None,
        };
        appended
    }

    async fn write_entries(&self, end: &mut ChainEnd, records: &[&AuditRecord]) -> Result<()> {
        let mut columns: [Vec<String>; 7] = Default::default();
        for record in records {
            let text = serde_json::to_string(record)
                .map_err(|error| DatabaseError::Failed(error.to_string()))?;
            end.add(&text);
            let values = [
                end.seq.to_string(),
                record.at.as_micros().to_string(),
                record.tenant.as_str().to_owned(),
                record.action.as_str().to_owned(),
                record.object.clone(),
                text,
                end.hash.clone(),
            ];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let add_entries = format!(
            "insert into audit_entries (chain, seq, at, tenant, action, object, record, hash)
             select $1, cast(zipped.c1 as bigint), cast(zipped.c2 as bigint), zipped.c3, zipped.c4,
                    zipped.c5, zipped.c6, zipped.c7 from {}",
            self.0.database.dialect().zip(&["$2", "$3", "$4", "$5", "$6", "$7", "$8"])
        );
        let move_end = "insert into audit_chains (chain, first_seq, start, last_seq, hash)
                        values ($1, 1, $9, $10, $11)
                        on conflict (chain) do update set last_seq = $10, hash = $11";
        let columns = columns
            .each_ref()
            .map(|column| column.iter().map(String::as_str).collect::<Vec<&str>>());
        let start = first_hash(&end.chain);
        let mut values = vec![Value::Text(&end.chain)];
        values.extend(columns.iter().map(|column| Value::Texts(column)));
        values.extend(values![&start, end.seq, &end.hash]);
        self.0.database.change(&[add_entries, move_end.to_owned()], &values).await
    }

    /// Deletes entries older than `retention`, from the beginning of each chain up to the first
    /// that is younger.
    pub(crate) async fn forget_old_audit(&self, retention: Duration) -> Result<()> {
        let database = &self.0.database;
        let sql = "select chain, first_seq, last_seq from audit_chains where first_seq <= last_seq";
        let first_young = format!(
            "select min(seq) from audit_entries
             where chain = $1 and seq >= $2 and seq <= $3 and at > (select {now}) - $4",
            now = database.dialect().library.now
        );
        for row in &database.query(sql, &[]).await? {
            let (chain, mut first, last) = (row.text(0)?, row.integer(1)?, row.integer(2)?);
            while first <= last {
                let upto = last.min(first.saturating_add(DELETED_AT_ONCE - 1));
                let values = values![chain, first, upto, micros(retention)];
                let found = database.query(&first_young, &values).await?;
                let young = found.first().map(|row| row.optional_integer(0)).transpose()?.flatten();
                let old = young.map_or(upto, |young| young - 1);
                if old >= first {
                    self.cut_chain(chain, old).await?;
                }
                if young.is_some() {
                    break;
                }
                first = upto + 1;
            }
        }
        Ok(())
    }

    /// Deletes the entries of a chain up to `last`.
    async fn cut_chain(&self, chain: &str, last: i64) -> Result<()> {
        let values = values![chain, last];
        let mut transaction = self.0.database.begin().await?;
        let sql = "update audit_chains set first_seq = cast($2 as bigint) + 1, start =
                       (select hash from audit_entries where chain = $1 and seq = $2)
                   where chain = $1 and first_seq <= $2 and exists
                       (select 1 from audit_entries where chain = $1 and seq = $2)
                   returning chain";
        if transaction.query(sql, &values).await?.is_empty() {
            // Another server was faster, or somebody deleted it: that is for `verify` to tell.
            transaction.rollback().await;
            return Ok(());
        }
        let sql = "delete from audit_entries where chain = $1 and seq <= $2 returning seq";
        transaction.query(sql, &values).await?;
        transaction.commit().await
    }
}

/// Where a chain begins and ends, as stored.
struct ChainRow {
    first_seq: i64,
    start: String,
    last_seq: i64,
    hash: String,
}

async fn row_of(database: &dyn Database, chain: &str) -> Result<Option<ChainRow>> {
    let sql = "select first_seq, start, last_seq, hash from audit_chains where chain = $1";
    let found = database.query(sql, &values![chain]).await?;
    let ends = |row: &Row| {
        Ok(ChainRow {
            first_seq: row.integer(0)?,
            start: row.text(1)?.to_owned(),
            last_seq: row.integer(2)?,
            hash: row.text(3)?.to_owned(),
        })
    };
    found.first().map(ends).transpose()
}

/// Follows one chain from its beginning to its end. Its process may append to it meanwhile: what
/// comes after the end that was read is not looked at, only that there is a later end. Also returns
/// whether its oldest entries were deleted meanwhile.
async fn check_chain(
    database: &dyn Database,
    chain: &str,
    kept: &[AuditEnd],
) -> Result<(AuditReport, bool)> {
    let mut report = AuditReport { n_chains: 1, ..AuditReport::default() };
    let Some(ends) = row_of(database, chain).await? else {
        report.faults.push(fault(chain, 0, "where its chain begins and ends was deleted"));
        return Ok((report, false));
    };
    let (mut seq, mut hash) = (ends.first_seq - 1, ends.start);
    if seq == 0 && hash != first_hash(chain) {
        report.faults.push(fault(chain, 0, "where the chain begins was changed"));
    }
    let mut kept: HashMap<i64, &str> = kept
        .iter()
        .filter(|end| end.chain == chain)
        .filter_map(|end| Some((i64::try_from(end.seq).ok()?, end.hash.as_str())))
        // Retention may have deleted it.
        .filter(|(kept_seq, _)| *kept_seq > seq)
        .collect();
    loop {
        let sql = "select seq, hash, record, at, tenant, action, object from audit_entries
                   where chain = $1 and seq > $2 and seq <= $3 order by seq limit $4";
        let values = values![chain, seq, ends.last_seq, PAGE];
        let page = database.query(sql, &values).await?;
        for row in &page {
            let (stored_seq, stored_hash, record) = (row.integer(0)?, row.text(1)?, row.text(2)?);
            report.n_entries += 1;
            let what = if stored_seq != seq + 1 {
                Some("entries are missing before it")
            } else if stored_hash != next_hash(&hash, stored_seq, record) {
                Some("its hash does not follow from it and the entries before")
            } else if !is_about(row, record)? {
                Some("its columns are not those of its record")
            } else if kept.remove(&stored_seq).is_some_and(|kept| kept != stored_hash) {
                Some("it had another hash when its end was kept")
            } else {
                None
            };
            report.faults.extend(what.map(|what| fault(chain, stored_seq, what)));
            stored_hash.clone_into(&mut hash);
            seq = stored_seq;
        }
        if page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
            break;
        }
    }
    if seq != ends.last_seq {
        let what = "entries are missing at the end of the chain";
        report.faults.push(fault(chain, seq + 1, what));
    } else if hash != ends.hash {
        report.faults.push(fault(chain, seq, "where the chain ends was changed"));
    }
    for seq in kept.into_keys() {
        report.faults.push(fault(chain, seq, "it was there when its end was kept, and is missing"));
    }
    // An end is stored with its entries, so the last entry is never after the end that is read
    // later.
    let sql = "select max(seq) from audit_entries where chain = $1";
    let found = database.query(sql, &values![chain]).await?;
    let last = found.first().map(|row| row.optional_integer(0)).transpose()?.flatten();
    let later = row_of(database, chain).await?;
    let was_cut = later.as_ref().is_some_and(|later| later.first_seq != ends.first_seq);
    if last > later.map(|later| later.last_seq) {
        let what = "entries were added after the end of the chain";
        report.faults.push(fault(chain, ends.last_seq + 1, what));
    }
    let seq = u64::try_from(ends.last_seq).unwrap_or_default();
    report.ends.push(AuditEnd { chain: chain.to_owned(), seq, hash: ends.hash });
    Ok((report, was_cut))
}

/// Whether the columns for queries say what the record says, whatever version wrote it.
fn is_about(row: &Row, record: &str) -> Result<bool> {
    let Ok(record) = serde_json::from_str::<serde_json::Value>(record) else { return Ok(false) };
    let text = |name: &str| record.get(name).and_then(serde_json::Value::as_str);
    let at = record.get("at").cloned().and_then(|at| serde_json::from_value(at).ok());
    Ok(at.is_some_and(|at: Timestamp| row.integer(3).is_ok_and(|stored| stored == at.as_micros()))
        && text("tenant") == Some(row.text(4)?)
        && text("action") == Some(row.text(5)?)
        && text("object") == Some(row.text(6)?))
}

fn fault(chain: &str, seq: i64, what: &str) -> AuditFault {
    fault_at(chain, u64::try_from(seq).unwrap_or_default(), what)
}

fn fault_at(chain: &str, seq: u64, what: &str) -> AuditFault {
    AuditFault { chain: chain.to_owned(), seq, what: what.to_owned() }
}

fn entry(row: &Row) -> Result<AuditEntry> {
    let record = serde_json::from_str(row.text(2)?)
        .map_err(|error| DatabaseError::Failed(format!("an entry of the audit log: {error}")))?;
    Ok(AuditEntry {
        chain: row.text(0)?.to_owned(),
        seq: u64::try_from(row.integer(1)?).unwrap_or_default(),
        record,
        hash: row.text(3)?.to_owned(),
    })
}
