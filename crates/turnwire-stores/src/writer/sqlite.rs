//! Batches in SQLite: one transaction, row by row.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{BatchWriter, Job, probe_sql};
use crate::{
    database::{Database, DatabaseError, STATEMENT_TIMEOUT, Transaction, Value},
    rows::EventRow,
    run_store::store_end,
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
        for job in jobs {
            kept.push(self.write_job(&mut *transaction, job).await?);
        }
        transaction.commit().await?;
        Ok(kept)
    }

    async fn write_job(
        &self,
        transaction: &mut dyn Transaction,
        job: &Job,
    ) -> Result<bool, DatabaseError> {
        let Some((first, rest)) = job.rows.split_first() else { return Ok(true) };
        if !insert(transaction, job, first).await? {
            return has_our_tag(transaction, job, first).await;
        }
        for row in rest {
            if !insert(transaction, job, row).await? {
                return Err(DatabaseError::UniqueViolation(format!("place {}", row.first)));
            }
        }
        let dialect = self.database.dialect();
        if let Some(progress) = &job.progress {
            progress.store(transaction, dialect, &job.run_id, &self.worker).await?;
        }
        if let Some(ending) = &job.ending {
            store_end(transaction, dialect, &job.tenant, &job.run_id, ending).await?;
        }
        Ok(true)
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

async fn insert(
    transaction: &mut dyn Transaction,
    job: &Job,
    row: &EventRow,
) -> Result<bool, DatabaseError> {
    let values = row.values(&job.tenant, &job.run_id, job.tag);
    Ok(!transaction.query(INSERT, &values).await?.is_empty())
}

async fn has_our_tag(
    transaction: &mut dyn Transaction,
    job: &Job,
    row: &EventRow,
) -> Result<bool, DatabaseError> {
    let sql = "select tag from run_events where run_id = $1 and first_seq = $2";
    let values = [Value::Text(job.run_id.as_str()), Value::Integer(row.first)];
    let rows = transaction.query(sql, &values).await?;
    rows.first().map_or(Ok(false), |row| Ok(row.integer(0)? == job.tag))
}
