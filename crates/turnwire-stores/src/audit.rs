//! The audit log: entries whose hashes depend on all entries before them.
//!
//! A chain for the whole store would make all its servers wait for each other, so each process
//! writes a chain of its own. Where a chain begins and ends is stored beside it: that an entry is
//! missing in the middle shows in the hashes, at an end only there. Records that are appended at the
//! same time are committed together. If it is unknown whether a commit happened, the chain ends
//! where it was, and the next record begins another.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use turnwire_contract::{
    AuditAction, AuditEntry, AuditFault, AuditLog, AuditQuery, AuditRecord, AuditReport,
    StoreError, TenantId,
};

use crate::{
    Store,
    audit_chain::{ChainEnd, WaitingRecords, first_hash, next_hash},
    database::{Database, DatabaseError, Row, Value},
    turn_queue::Waited,
    workers::micros,
};

/// Number of entries read at a time.
const PAGE: i64 = 1_000;
/// Number of entries deleted in one transaction.
const DELETED_AT_ONCE: i64 = 5_000;
/// How often a chain is read that seems changed: its process may be appending to it.
const MAX_LOOKS: u32 = 5;

#[async_trait]
impl AuditLog for Store {
    async fn append(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let queue = &self.0.audit;
        loop {
            let (done, mut appended) = oneshot::channel();
            queue.add(WaitingRecords { records: records.clone(), done });
            let appended = loop {
                match queue.wait(&mut appended).await {
                    Waited::Done(appended) => break appended,
                    Waited::Turn(mut end) => self.append_batch(&mut end, queue.next_batch()).await,
                }
            };
            if let Some(appended) = appended {
                return Ok(appended?);
            }
        }
    }

    async fn list(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        // Newest first. Entries of one chain keep their order, also if the clock went back.
        let sql = "select e.chain, e.seq, e.record, e.hash from audit_entries e
                   where e.tenant = coalesce($1, e.tenant) and e.action = coalesce($2, e.action)
                   and e.object = coalesce($3, e.object)
                   and ($4 is null or (e.at, e.chain, e.seq) <
                       (select b.at, b.chain, b.seq from audit_entries b
                        where b.chain = $4 and b.seq = $5))
                   order by e.at desc, e.chain desc, e.seq desc limit $6";
        let AuditQuery { tenant, action, object, before, limit } = query;
        let seq = before.as_ref().map(|(_, seq)| i64::try_from(*seq).unwrap_or(i64::MAX));
        let values = [
            Value::OptionalText(tenant.as_ref().map(TenantId::as_str)),
            Value::OptionalText(action.map(AuditAction::as_str)),
            Value::OptionalText(object.as_deref()),
            Value::OptionalText(before.as_ref().map(|(chain, _)| chain.as_str())),
            Value::OptionalInteger(seq),
            Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)),
        ];
        let found = match self.0.database.query(sql, &values).await {
            // What cannot be stored cannot be found.
            Err(DatabaseError::InvalidValue(_)) => Vec::new(),
            found => found?,
        };
        Ok(found.iter().map(entry).collect::<Result<_, _>>()?)
    }

    async fn verify(&self) -> Result<AuditReport, StoreError> {
        let database = &*self.0.database;
        let mut report = AuditReport::default();
        let chains = database.query("select chain from audit_chains order by chain", &[]).await?;
        for chain in &chains {
            let chain = chain.text(0)?;
            let mut looks = 1;
            let checked = loop {
                let checked = check_chain(database, chain).await?;
                if checked.faults.is_empty() || looks == MAX_LOOKS {
                    break checked;
                }
                looks += 1;
            };
            report.n_chains += 1;
            report.n_entries += checked.n_entries;
            report.faults.extend(checked.faults);
        }
        let sql = "select chain, min(seq) from audit_entries
                   where chain not in (select chain from audit_chains) group by chain";
        for lost in &database.query(sql, &[]).await? {
            report.n_chains += 1;
            let what = "where its chain begins and ends was deleted";
            report.faults.push(fault(lost.text(0)?, lost.integer(1)?, what));
        }
        Ok(report)
    }
}

impl Store {
    async fn append_batch(&self, end: &mut Option<ChainEnd>, batch: Vec<WaitingRecords>) {
        if batch.is_empty() {
            return;
        }
        // Put back when it is known what the last entry is.
        let mut next = end.take().unwrap_or_else(|| {
            ChainEnd::begin(format!("{}.{}", self.0.worker, uuid::Uuid::new_v4().simple()))
        });
        let records = batch.iter().flat_map(|waiting| &waiting.records);
        let appended = self.write_entries(&mut next, records).await;
        if appended.is_ok() {
            *end = Some(next);
        }
        for waiting in batch {
            // Nobody may wait for it any more.
            drop(waiting.done.send(appended.clone()));
        }
    }

    async fn write_entries(
        &self,
        end: &mut ChainEnd,
        records: impl Iterator<Item = &AuditRecord>,
    ) -> Result<(), DatabaseError> {
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
        let sql = format!(
            "insert into audit_entries (chain, seq, at, tenant, action, object, record, hash)
             select $1, cast(zipped.c1 as bigint), cast(zipped.c2 as bigint), zipped.c3, zipped.c4,
                    zipped.c5, zipped.c6, zipped.c7 from {}
             where true returning seq",
            self.0.database.dialect().zip(&["$2", "$3", "$4", "$5", "$6", "$7", "$8"])
        );
        let columns = columns
            .each_ref()
            .map(|column| column.iter().map(String::as_str).collect::<Vec<&str>>());
        let mut values = vec![Value::Text(&end.chain)];
        values.extend(columns.iter().map(|column| Value::Texts(column)));
        let mut transaction = self.0.database.begin().await?;
        transaction.query(&sql, &values).await?;
        let sql = "insert into audit_chains (chain, first_seq, start, last_seq, hash)
                   values ($1, 1, $2, $3, $4)
                   on conflict (chain) do update set last_seq = $3, hash = $4 returning chain";
        let start = first_hash(&end.chain);
        let values = [
            Value::Text(&end.chain),
            Value::Text(&start),
            Value::Integer(end.seq),
            Value::Text(&end.hash),
        ];
        transaction.query(sql, &values).await?;
        transaction.commit().await
    }

    /// Deletes entries older than `retention`, from the beginning of each chain.
    pub(crate) async fn forget_old_audit(&self, retention: Duration) -> Result<(), DatabaseError> {
        let sql = format!(
            "select chain, min(seq), max(seq) from audit_entries
             where at <= (select {now}) - $1 group by chain",
            now = self.0.database.dialect().library.now
        );
        let values = [Value::Integer(micros(retention))];
        for old in &self.0.database.query(&sql, &values).await? {
            let (chain, first, last) = (old.text(0)?, old.integer(1)?, old.integer(2)?);
            let mut upto = first;
            while upto < last {
                upto = last.min(upto.saturating_add(DELETED_AT_ONCE));
                self.cut_chain(chain, upto).await?;
            }
            if first == last {
                self.cut_chain(chain, last).await?;
            }
        }
        Ok(())
    }

    /// Deletes the entries of a chain up to `last`.
    async fn cut_chain(&self, chain: &str, last: i64) -> Result<(), DatabaseError> {
        let values = [Value::Text(chain), Value::Integer(last)];
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

/// Follows one chain from its beginning to its end.
async fn check_chain(database: &dyn Database, chain: &str) -> Result<AuditReport, DatabaseError> {
    let mut report = AuditReport { n_chains: 1, ..AuditReport::default() };
    let sql = "select first_seq, start, last_seq, hash from audit_chains where chain = $1";
    let found = database.query(sql, &[Value::Text(chain)]).await?;
    let Some(ends) = found.first() else { return Ok(report) };
    let mut seq = ends.integer(0)? - 1;
    let mut hash = ends.text(1)?.to_owned();
    if seq == 0 && hash != first_hash(chain) {
        report.faults.push(fault(chain, 0, "where the chain begins was changed"));
    }
    loop {
        let sql = "select seq, hash, record, at, tenant, action, object from audit_entries
                   where chain = $1 and seq > $2 order by seq limit $3";
        let values = [Value::Text(chain), Value::Integer(seq), Value::Integer(PAGE)];
        let page = database.query(sql, &values).await?;
        for row in &page {
            let (stored_seq, stored_hash, record) = (row.integer(0)?, row.text(1)?, row.text(2)?);
            report.n_entries += 1;
            if stored_seq != seq + 1 {
                report.faults.push(fault(
                    chain,
                    seq + 1,
                    "entries are missing before the next one",
                ));
            } else if stored_hash != next_hash(&hash, stored_seq, record) {
                report.faults.push(fault(
                    chain,
                    stored_seq,
                    "its hash does not follow from it and the entries before",
                ));
            } else if !is_about(row, record)? {
                report.faults.push(fault(
                    chain,
                    stored_seq,
                    "its columns are not those of its record",
                ));
            }
            stored_hash.clone_into(&mut hash);
            seq = stored_seq;
        }
        if page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
            break;
        }
    }
    let (last_seq, last_hash) = (ends.integer(2)?, ends.text(3)?);
    if seq != last_seq {
        report.faults.push(fault(
            chain,
            seq.min(last_seq) + 1,
            "the chain does not end where it should",
        ));
    } else if hash != last_hash {
        report.faults.push(fault(chain, seq, "where the chain ends was changed"));
    }
    Ok(report)
}

/// Whether the columns for queries say what the record says.
fn is_about(row: &Row, record: &str) -> Result<bool, DatabaseError> {
    let Ok(record) = serde_json::from_str::<AuditRecord>(record) else { return Ok(false) };
    Ok(row.integer(3)? == record.at.as_micros()
        && row.text(4)? == record.tenant.as_str()
        && row.text(5)? == record.action.as_str()
        && row.text(6)? == record.object)
}

fn fault(chain: &str, seq: i64, what: &str) -> AuditFault {
    let seq = u64::try_from(seq).unwrap_or_default();
    AuditFault { chain: chain.to_owned(), seq, what: what.to_owned() }
}

fn entry(row: &Row) -> Result<AuditEntry, DatabaseError> {
    let record = serde_json::from_str(row.text(2)?)
        .map_err(|error| DatabaseError::Failed(format!("an entry of the audit log: {error}")))?;
    Ok(AuditEntry {
        chain: row.text(0)?.to_owned(),
        seq: u64::try_from(row.integer(1)?).unwrap_or_default(),
        record,
        hash: row.text(3)?.to_owned(),
    })
}
