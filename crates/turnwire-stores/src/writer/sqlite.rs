//! Batches in SQLite: one transaction, row by row.

use std::{collections::HashSet, slice, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{BatchWriter, Job, NewRunRow, probe_sql};
use crate::{
    database::{Database, DatabaseError, STATEMENT_TIMEOUT, Transaction, Value},
    rows::EventRow,
    run_ends::{self, EndOfRun},
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
        let wanted = jobs.iter().filter(|job| !job.is_abandoned());
        let firsts: Vec<JobRow<'_>> = wanted.filter_map(JobRow::first_of).collect();
        let won = insert(&mut *transaction, &firsts).await?;
        let mut kept = Vec::with_capacity(jobs.len());
        for job in jobs {
            let is_kept = match JobRow::first_of(job) {
                Some(first) if !won.contains(job.run_id.as_str()) => {
                    has_our_tag(&mut *transaction, job, first.row).await?
                }
                _ => true,
            };
            kept.push(is_kept);
        }
        let winners = || jobs.iter().filter(|job| won.contains(job.run_id.as_str()));
        let rest: Vec<JobRow<'_>> = winners().flat_map(JobRow::rest_of).collect();
        for row in &rest {
            if insert(&mut *transaction, slice::from_ref(row)).await?.is_empty() {
                return Err(DatabaseError::UniqueViolation(format!("seq {}", row.row.first)));
            }
        }
        for job in winners() {
            if let Some(run) = &job.new_run {
                self.insert_run(&mut *transaction, job, run).await?;
            }
        }
        let dialect = self.database.dialect();
        for job in winners() {
            if let Some(progress) = &job.progress {
                progress.store(&mut *transaction, dialect, &job.run_id, &self.worker).await?;
            }
        }
        let ends: Vec<EndOfRun<'_>> = winners().filter_map(Job::end).collect();
        run_ends::store(&mut *transaction, dialect, &ends).await?;
        transaction.commit().await?;
        Ok(kept)
    }
}

impl SqliteBatchWriter {
    async fn insert_run(
        &self,
        transaction: &mut dyn Transaction,
        job: &Job,
        run: &NewRunRow,
    ) -> Result<(), DatabaseError> {
        let sql = format!(
            "insert into runs (id, tenant, created_at, request, worker, model, input_text, tools,
                               n_calls, changed_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, {})",
            self.database.dialect().now
        );
        let values = [
            Value::Text(job.run_id.as_str()),
            Value::Text(job.tenant.as_str()),
            Value::Integer(run.created_at),
            Value::Text(&run.request),
            Value::Text(&self.worker),
            Value::Text(&run.model),
            Value::Text(&run.input_text),
            Value::Text(&run.tools),
            Value::Integer(run.n_calls),
        ];
        transaction.query(&sql, &values).await.map(drop)
    }
}

/// A row with its append.
#[derive(Clone, Copy)]
struct JobRow<'a> {
    job: &'a Job,
    row: &'a EventRow,
}

impl<'a> JobRow<'a> {
    /// The row that decides whether the append has won its seq.
    fn first_of(job: &'a Job) -> Option<Self> {
        job.rows.first().map(|row| Self { job, row })
    }

    fn rest_of(job: &'a Job) -> impl Iterator<Item = Self> {
        job.rows.iter().skip(1).map(move |row| Self { job, row })
    }

    fn values(self) -> [Value<'a>; 8] {
        self.row.values(&self.job.tenant, &self.job.run_id, self.job.tag)
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

/// Inserts `rows`. Returns the runs of those that were inserted.
async fn insert(
    transaction: &mut dyn Transaction,
    rows: &[JobRow<'_>],
) -> Result<HashSet<String>, DatabaseError> {
    let mut inserted = HashSet::with_capacity(rows.len());
    for row in rows {
        if !transaction.query(INSERT, &row.values()).await?.is_empty() {
            inserted.insert(row.job.run_id.to_string());
        }
    }
    Ok(inserted)
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
