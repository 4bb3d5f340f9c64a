//! Batches in SQLite: one transaction, row by row.

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
        let mut transaction = self.database.begin().await?;
        let mut kept = Vec::with_capacity(jobs.len());
        let mut ends: Vec<EndOfRun<'_>> = Vec::new();
        let mut deliveries: Vec<&NewDelivery> = Vec::new();
        for job in jobs {
            let has_won = self.write_job(&mut *transaction, job).await?;
            kept.push(has_won || has_our_tag(&mut *transaction, job).await?);
            ends.extend(job.end().filter(|_| has_won));
            deliveries.extend(job.deliveries.iter().filter(|_| has_won));
        }
        let dialect = self.database.dialect();
        webhook_rows::store(&mut *transaction, dialect, &deliveries).await?;
        run_ends::store(&mut *transaction, dialect, &ends).await?;
        transaction.commit().await?;
        Ok(kept)
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
        if let Some(run) = &job.new_run {
            self.insert_run(transaction, job, run).await?;
        }
        if let Some(progress) = &job.progress {
            let dialect = self.database.dialect();
            progress.store(transaction, dialect, &job.run_id, &self.worker).await?;
        }
        Ok(true)
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
