//! Batches in SQLite: one transaction, with all rows in one statement.
//!
//! Each statement is a way to the thread of the connection and back, on which the writer waits in line
//! with everything else that the process does. Row by row, a batch of hundreds takes a tenth of a
//! second on a busy server, and every run waits for it.
//!
//! A statement with all rows does not tell which of them had a conflict. Conflicts are rare: if there
//! was one, the batch is written again, row by row.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{BatchWriter, Job, NewRunRow, probe_sql};
use crate::{
    database::{Database, DatabaseError, STATEMENT_TIMEOUT, Transaction, Value},
    rows::EventRow,
    run_ends::{self, EndOfRun},
    webhook_rows::{self, NewDelivery},
};

/// A seq conflict inserts nothing. Any other conflict is an error.
const INSERT: &str = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (run_id, first_seq) do nothing \
     returning first_seq";

/// From this many on, one statement and a count take less than a statement for each. With 3 in place
/// of 16, a hundred streams at the pace of a model cost an eighth more.
const MIN_JOBS_AT_ONCE: usize = 16;

/// The same for a JSON array of rows.
const INSERT_ALL: &str = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
     select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, \
            value ->> 6, value ->> 7 \
     from json_each($1) where true on conflict (run_id, first_seq) do nothing";

/// The [`BatchWriter`] for SQLite.
pub(crate) struct SqliteBatchWriter {
    database: Arc<dyn Database>,
    worker: String,
}

impl SqliteBatchWriter {
    /// Creates a writer for `worker` on `database`.
    pub(crate) fn new(database: Arc<dyn Database>, worker: String) -> Self {
        Self { database, worker }
    }

    async fn try_to_probe(&self) -> Result<(), DatabaseError> {
        let sql = probe_sql(self.database.dialect());
        let mut transaction = self.database.begin().await?;
        transaction.query(&sql, &[Value::Text(&self.worker)]).await?;
        transaction.commit().await
    }

    async fn try_to_write(&self, jobs: &[Job]) -> Result<Vec<bool>, DatabaseError> {
        if let Some(rows) = all_rows(jobs) {
            let mut transaction = self.database.begin().await?;
            if insert_all(&mut *transaction, &rows).await? {
                for job in jobs {
                    self.write_beside(&mut *transaction, job).await?;
                }
                let kept = vec![true; jobs.len()];
                return self.commit(transaction, jobs, kept.clone()).await.map(|()| kept);
            }
            transaction.rollback().await;
        }
        self.write_one_by_one(jobs).await
    }

    async fn write_one_by_one(&self, jobs: &[Job]) -> Result<Vec<bool>, DatabaseError> {
        let mut transaction = self.database.begin().await?;
        let (mut kept, mut won) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for job in jobs {
            let has_won = self.write_job(&mut *transaction, job).await?;
            kept.push(has_won || has_our_tag(&mut *transaction, job).await?);
            won.push(has_won);
        }
        self.commit(transaction, jobs, won).await.map(|()| kept)
    }

    /// Writes what the jobs that have `won` cause, and commits.
    async fn commit(
        &self,
        mut transaction: Box<dyn Transaction>,
        jobs: &[Job],
        won: Vec<bool>,
    ) -> Result<(), DatabaseError> {
        let jobs = jobs.iter().zip(won).filter_map(|(job, has_won)| has_won.then_some(job));
        let deliveries: Vec<&NewDelivery> = jobs.clone().flat_map(|job| &job.deliveries).collect();
        let ends: Vec<EndOfRun<'_>> = jobs.filter_map(Job::end).collect();
        let dialect = self.database.dialect();
        webhook_rows::store(&mut *transaction, dialect, &deliveries).await?;
        run_ends::store(&mut *transaction, dialect, &ends).await?;
        transaction.commit().await
    }

    /// Writes everything of `job` but the end of its run. Returns `false` and writes nothing if its
    /// seq is taken, or if nobody would execute the run.
    async fn write_job(
        &self,
        transaction: &mut dyn Transaction,
        job: &Job,
    ) -> Result<bool, DatabaseError> {
        let mut rows = job.rows.iter();
        let Some(first) = rows.next() else { return Ok(true) };
        if job.is_abandoned() || !insert(transaction, job, first).await? {
            return Ok(false);
        }
        for row in rows {
            if !insert(transaction, job, row).await? {
                return Err(DatabaseError::UniqueViolation(format!("seq {}", row.first)));
            }
        }
        self.write_beside(transaction, job).await?;
        Ok(true)
    }

    /// Writes what `job` has beside its events and the end of its run.
    async fn write_beside(
        &self,
        transaction: &mut dyn Transaction,
        job: &Job,
    ) -> Result<(), DatabaseError> {
        if let Some(run) = &job.new_run {
            self.insert_run(transaction, job, run).await?;
        }
        if let Some(progress) = &job.progress {
            let dialect = self.database.dialect();
            progress.store(transaction, dialect, &job.run_id, &self.worker).await?;
        }
        Ok(())
    }

    async fn insert_run(
        &self,
        transaction: &mut dyn Transaction,
        job: &Job,
        run: &NewRunRow,
    ) -> Result<(), DatabaseError> {
        let sql = format!(
            "insert into runs (id, tenant, created_at, request, worker, model, input_text, tools,
                               n_calls, holder, changed_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, {})",
            self.database.dialect().now
        );
        let values = [
            Value::Text(job.run_id.as_str()),
            Value::Tenant(&job.tenant),
            Value::Integer(run.created_at),
            Value::Text(&run.request),
            Value::Text(&self.worker),
            Value::Text(&run.model),
            Value::Text(&run.input_text),
            Value::Text(&run.tools),
            Value::Integer(run.n_calls),
            Value::OptionalText(run.holder.as_deref()),
        ];
        transaction.query(&sql, &values).await.map(drop)
    }
}

#[async_trait]
impl BatchWriter for SqliteBatchWriter {
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>, DatabaseError> {
        in_time(time, self.try_to_write(jobs)).await
    }

    async fn probe(&mut self) -> Result<(), DatabaseError> {
        in_time(STATEMENT_TIMEOUT, self.try_to_probe()).await
    }
}

async fn in_time<T>(
    time: Duration,
    work: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let too_slow = |_| Err(DatabaseError::TooSlow(format!("the file took longer than {time:?}")));
    timeout(time, work).await.unwrap_or_else(too_slow)
}

/// The columns of a row, in the order of [`INSERT_ALL`].
type Columns<'a> = (&'a str, &'a str, i64, i64, i64, &'a str, Option<&'a str>, &'a str);

/// Returns the rows of all jobs. `None` if they are few, or if they have to be written one by one.
fn all_rows(jobs: &[Job]) -> Option<Vec<Columns<'_>>> {
    if jobs.len() < MIN_JOBS_AT_ONCE || jobs.iter().any(Job::is_abandoned) {
        return None;
    }
    let rows = jobs.iter().flat_map(|job| job.rows.iter().map(move |row| (job, row)));
    Some(rows.map(columns).collect())
}

fn columns<'a>((job, row): (&'a Job, &'a EventRow)) -> Columns<'a> {
    let EventRow { first, last, kind, call, body } = row;
    let (tenant, run_id) = (job.tenant.as_str(), job.run_id.as_str());
    (tenant, run_id, *first, *last, job.tag, kind, call.as_deref(), body)
}

/// Inserts rows. Returns whether the seqs of all were free.
async fn insert_all(
    transaction: &mut dyn Transaction,
    rows: &[Columns<'_>],
) -> Result<bool, DatabaseError> {
    let list =
        serde_json::to_string(rows).map_err(|error| DatabaseError::Failed(error.to_string()))?;
    transaction.query(INSERT_ALL, &[Value::Text(&list)]).await?;
    let changed = transaction.query("select changes()", &[]).await?;
    let n_changed = changed.first().map_or(Ok(0), |row| row.integer(0))?;
    Ok(usize::try_from(n_changed) == Ok(rows.len()))
}

/// Inserts a row. Returns whether its seq was free.
async fn insert(
    transaction: &mut dyn Transaction,
    job: &Job,
    row: &EventRow,
) -> Result<bool, DatabaseError> {
    let values = row.values(&job.tenant, &job.run_id, job.tag);
    Ok(!transaction.query(INSERT, &values).await?.is_empty())
}

/// Whether an earlier attempt has stored the append.
async fn has_our_tag(transaction: &mut dyn Transaction, job: &Job) -> Result<bool, DatabaseError> {
    let Some(row) = job.rows.first() else { return Ok(false) };
    let sql = "select tag from run_events where run_id = $1 and first_seq = $2";
    let values = [Value::Text(job.run_id.as_str()), Value::Integer(row.first)];
    let rows = transaction.query(sql, &values).await?;
    rows.first().map_or(Ok(false), |row| Ok(row.integer(0)? == job.tag))
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
