//! Merges the journal rows of finished runs.
//!
//! A delta is visible only after it is durable, and a reader should not wait for the next one. So
//! an answer that arrives word by word is stored word by word, and a word of five bytes takes a row
//! of three hundred bytes. When a run has been over for a while, its deltas are stored again in few
//! rows ([`to_merged_rows`]). The events and their times stay the same, and so do all other rows.
//!
//! The key `(run_id, first_seq)` is the fence of the journal: a write to a seq that is taken is
//! refused. A row that was merged into the one before leaves its key free. So nothing is merged
//! that somebody may still want to write:
//!
//! * Runs of a worker that died and runs that several processes wrote to stay as they are. For all
//!   other runs no other process can have an append in progress.
//! * The rows of the last append stay: the writer may not have received the answer and write them again.
//!   It writes an append only after the one before was answered.
//! * A statement that its writer has given up may be executed later, but not after minutes: that is how
//!   long a run has been over.
//!
//! Workers share a cursor in the order in which runs finished. Whoever moves it has these runs to
//! itself. If it dies meanwhile, they are not compacted, which costs only space.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::warn;
use turnwire_contract::{RecordedEvent, RunId, TenantId};

use crate::{
    Store,
    database::{DatabaseError, Result, Row, Value, values},
    pages::{EVENT_OVERHEAD_BYTES, stored_row},
    rows::{EventRow, ROW_BYTES, StoredRow, new_tag, sealed_rows, to_merged_rows, to_rows},
    sealing::{DataKey, Place},
    workers::micros,
};

/// Runs per move of the cursor.
const AT_ONCE: usize = 50;

/// Rows read, and replaced, per transaction.
const PAGE_ROWS: i64 = 512;

/// Bytes of these rows, with what an event takes in memory.
const PAGE_BYTES: i64 = 1024 * 1024;

/// A run with fewer rows of deltas is not worth it.
const MIN_ROWS: i64 = 4;

/// Tags of one process are consecutive numbers after a random one.
const TAGS_OF_ONE_PROCESS: u64 = 1 << 40;

/// Pause after a statement or a transaction, as a multiple of the time that it took, so that
/// compaction takes little of the database's time from active runs.
const REST: u32 = 3;

/// Executes `work`, and pauses afterwards.
async fn with_rest<T>(work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = work.await;
    sleep(began.elapsed() * REST).await;
    done
}

/// A run whose rows may be merged.
struct Candidate {
    tenant: TenantId,
    run_id: RunId,
    /// The tag of its last append.
    last_tag: i64,
}

/// Rows to delete, by their first seq, and the fewer rows to insert instead.
#[derive(Default)]
struct Replacement {
    first_seqs: Vec<i64>,
    rows: Vec<EventRow>,
}

impl Store {
    /// Merges the rows of runs that finished at least `age` ago, those that have waited longest
    /// first. Returns whether there may be more.
    pub(crate) async fn compact_some(&self, age: Duration) -> Result<bool> {
        let runs = self.take_some(age).await?;
        let mut candidates = with_rest(self.candidates(&runs)).await;
        if let Err(DatabaseError::TooSlow(_)) = candidates {
            let mut one_by_one = Vec::new();
            for run in &runs {
                let found = with_rest(self.candidates(std::slice::from_ref(run))).await;
                one_by_one.extend(found.unwrap_or_default());
            }
            candidates = Ok(one_by_one);
        }
        for run in candidates? {
            match self.compact(&run).await {
                Err(error @ DatabaseError::Unavailable(_)) => return Err(error),
                // Another worker may have the key; it is not worth a message each time.
                Err(DatabaseError::KeyMissing(_)) | Ok(()) => {}
                Err(error) => warn!(run_id = %run.run_id, %error, "journal not compacted"),
            }
        }
        Ok(runs.len() == AT_ONCE)
    }

    /// Moves the cursor, and returns the runs that it has passed. None if another worker was
    /// faster.
    async fn take_some(&self, age: Duration) -> Result<Vec<String>> {
        let database = &self.0.database;
        let sql = format!(
            "select id, (select run_id from compaction) from runs
             where state = 'finished' and finished_at <= (select {})
             and (finished_at, id) > ((select finished_at from compaction),
                                      (select run_id from compaction))
             order by finished_at, id limit $2",
            database.dialect().later("$1")
        );
        let values = values![-micros(age), AT_ONCE];
        let found = database.query(&sql, &values).await?;
        let Some(last) = found.last() else { return Ok(Vec::new()) };
        let sql = "update compaction set finished_at = runs.finished_at, run_id = runs.id from runs
                   where runs.id = $1 and compaction.run_id = $2 returning compaction.run_id";
        let values = values![last.text(0)?, last.text(1)?];
        if database.query(sql, &values).await?.is_empty() {
            return Ok(Vec::new());
        }
        found.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    }

    /// Returns those of `runs` that did not change hands, with enough rows of deltas.
    async fn candidates(&self, runs: &[String]) -> Result<Vec<Candidate>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "select min(tenant), run_id, min(tag), max(tag), max(case when kind = 'over' then tag end)
             from run_events
             where run_id in (select id from runs where n_deaths = 0 and n_failed_takeovers = 0
                              and id in (select value from {}))
             group by run_id
             having count(case when kind = 'delta' then 1 end) >= $2",
            self.0.database.dialect().texts("$1")
        );
        let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
        let values = values![&runs, MIN_ROWS];
        let mut candidates = Vec::new();
        for row in self.0.database.query(&sql, &values).await? {
            let (first_tag, last_tag) = (row.integer(2)?, row.optional_integer(4)?);
            let n_tags = row.integer(3)?.wrapping_sub(first_tag).cast_unsigned();
            if let (Some(last_tag), true) = (last_tag, n_tags < TAGS_OF_ONE_PROCESS) {
                let (tenant, run_id) = (row.text(0)?.into(), row.text(1)?.into());
                candidates.push(Candidate { tenant, run_id, last_tag });
            }
        }
        Ok(candidates)
    }

    async fn compact(&self, run: &Candidate) -> Result<()> {
        // Of rows that stay, the body is not read.
        let sql = "select first_seq, last_seq, kind, call_id, body
                   from (select first_seq, last_seq, kind, call_id, body,
                             sum(n_bytes) over (order by first_seq) - n_bytes as before
                         from (select first_seq, last_seq, kind, call_id,
                                   case when is_mergeable then body else '' end as body,
                                   case when is_mergeable then octet_length(body) else 0 end
                                       + (last_seq - first_seq + 1) * $6 as n_bytes
                               from (select first_seq, last_seq, kind, call_id, body,
                                         kind = 'delta' and tag <> $3 and octet_length(body) < $4
                                             as is_mergeable
                                     from run_events where run_id = $1 and first_seq > $2
                                     order by first_seq limit $5) as next) as sized) as page
                   where before < $7 order by first_seq";
        let half_a_row = i64::try_from(ROW_BYTES / 2).unwrap_or(i64::MAX);
        let mut after = 0;
        loop {
            let values = values![
                run.run_id.as_str(),
                after,
                run.last_tag,
                half_a_row,
                PAGE_ROWS,
                EVENT_OVERHEAD_BYTES,
                PAGE_BYTES
            ];
            let page = with_rest(self.0.database.query(sql, &values)).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.integer(0)?;
            // Before anything is decrypted: a key that is deleted meanwhile does not come back.
            let key = self.0.sealing.current(&run.tenant).await?;
            let replacement = self.replacement(run, &page).await?;
            if replacement.rows.is_empty() {
                continue;
            }
            if !with_rest(self.replace(run, replacement, key.as_deref())).await? {
                return Ok(());
            }
        }
    }

    /// Returns what becomes of a page of rows.
    async fn replacement(&self, run: &Candidate, page: &[Row]) -> Result<Replacement> {
        let mut replacement = Replacement::default();
        let mut neighbours = Neighbours::default();
        for row in page {
            let row = stored_row(row)?;
            let place = Place::events(&run.run_id, row.first);
            let body = self.0.sealing.open(&run.tenant, place, row.body).await?;
            let row = StoredRow { body: &body, ..row };
            let events = understood(&row, &run.run_id);
            if events.is_none() || !neighbours.are_followed_by(row.first) {
                std::mem::take(&mut neighbours).merge_into(&mut replacement)?;
            }
            if let Some(events) = events {
                neighbours.add(row, events);
            }
        }
        neighbours.merge_into(&mut replacement)?;
        Ok(replacement)
    }

    /// Replaces rows in one transaction. Returns `false` if the run is about to be deleted.
    async fn replace(
        &self,
        run: &Candidate,
        replacement: Replacement,
        key: Option<&DataKey>,
    ) -> Result<bool> {
        let database = &self.0.database;
        let dialect = database.dialect();
        let Replacement { first_seqs, rows } = replacement;
        let rows = sealed_rows(rows, &run.run_id, key)?;
        let (tenant, run_id) = (Value::Text(run.tenant.as_str()), Value::Text(run.run_id.as_str()));
        let mut transaction = database.begin().await?;
        // Whoever deletes the run locks it, too.
        let lock = format!(
            "select id from runs r where tenant = $1 and id = $2 and state = 'finished'{}",
            dialect.skip_locked
        );
        if transaction.query(&lock, &[tenant, run_id]).await?.is_empty() {
            transaction.rollback().await;
            return Ok(false);
        }
        let delete = format!(
            "delete from run_events where run_id = $1 and kind = 'delta'
             and first_seq between $3 and $4
             and first_seq in (select value from {}) returning first_seq",
            dialect.integers("$2")
        );
        let border = |seq: Option<&i64>| Value::Integer(seq.copied().unwrap_or_default());
        let (first, last) = (border(first_seqs.first()), border(first_seqs.last()));
        let deleted = values![run_id, &first_seqs, first, last];
        if transaction.query(&delete, &deleted).await?.len() != first_seqs.len() {
            transaction.rollback().await;
            return Ok(false);
        }
        let insert = format!(
            "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
             select $1, $2, cast(c1 as bigint), cast(c2 as bigint), $3, 'delta', c3 from {}",
            dialect.zip(&["$4", "$5", "$6"])
        );
        let seqs: Vec<(String, String)> =
            rows.iter().map(|row| (row.first.to_string(), row.last.to_string())).collect();
        let firsts: Vec<&str> = seqs.iter().map(|(first, _)| first.as_str()).collect();
        let lasts: Vec<&str> = seqs.iter().map(|(_, last)| last.as_str()).collect();
        let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
        let values = values![tenant, run_id, new_tag(), &firsts, &lasts, &bodies];
        transaction.query(&insert, &values).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// Returns the deltas of a row, if they would be stored as they are: nothing is dropped that a
/// later version has written.
fn understood(row: &StoredRow<'_>, run_id: &RunId) -> Option<Vec<Arc<RecordedEvent>>> {
    let events = row.decoded(run_id).ok()?;
    let same = to_rows(&events).ok()?;
    matches!(same.as_slice(), [same] if same.kind == "delta" && same.body == row.body)
        .then_some(events)
}

/// Rows of deltas without a gap between them.
#[derive(Default)]
struct Neighbours {
    first_seqs: Vec<i64>,
    last_seq: i64,
    events: Vec<Arc<RecordedEvent>>,
}

impl Neighbours {
    fn are_followed_by(&self, first_seq: i64) -> bool {
        self.first_seqs.is_empty() || self.last_seq + 1 == first_seq
    }

    fn add(&mut self, row: StoredRow<'_>, events: Vec<Arc<RecordedEvent>>) {
        self.first_seqs.push(row.first);
        self.last_seq = row.last;
        self.events.extend(events);
    }

    /// Adds the merged rows, if there are at most half as many.
    fn merge_into(self, replacement: &mut Replacement) -> Result<()> {
        let rows = to_merged_rows(&self.events)?;
        if !rows.is_empty() && rows.len() * 2 <= self.first_seqs.len() {
            replacement.first_seqs.extend(self.first_seqs);
            replacement.rows.extend(rows);
        }
        Ok(())
    }
}
