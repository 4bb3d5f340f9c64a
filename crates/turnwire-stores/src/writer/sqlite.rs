//! Batches in SQLite: one transaction, with all rows of a table in one statement, and all
//! statements in one text.
//!
//! Such a transaction does not tell which of its rows had a conflict. Conflicts are rare: if there
//! was one, the batch is written again, row by row.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{BatchWriter, Job, probe_sql};
use crate::{
    database::{
        Database, DatabaseError, Result, RowsStatement, STATEMENT_TIMEOUT, Transaction, values,
    },
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

    async fn try_to_probe(&self) -> Result<()> {
        let sql = probe_sql(self.database.dialect());
        let mut transaction = self.database.begin().await?;
        transaction.query(&sql, &values![&self.worker]).await?;
        transaction.commit().await
    }

    async fn try_to_write(&self, jobs: &[Job]) -> Result<Vec<bool>> {
        if !jobs.iter().any(Job::is_abandoned) {
            match self.write_at_once(jobs).await {
                Err(DatabaseError::UniqueViolation(_)) => {}
                done => return done.map(|()| vec![true; jobs.len()]),
            }
        }
        self.write_one_by_one(jobs).await
    }

    /// Writes all or nothing.
    async fn write_at_once(&self, jobs: &[Job]) -> Result<()> {
        let mut statements = vec![insert_events(jobs)?];
        statements.extend(self.statements_beside(&jobs.iter().collect::<Vec<_>>())?);
        self.database.query_all(&statements).await
    }

    async fn write_one_by_one(&self, jobs: &[Job]) -> Result<Vec<bool>> {
        let mut transaction = self.database.begin().await?;
        let (mut kept, mut won) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for job in jobs {
            let has_won = insert_events_of(&mut *transaction, job).await?;
            kept.push(has_won || has_our_tag(&mut *transaction, job).await?);
            won.extend(has_won.then_some(job));
        }
        for statement in self.statements_beside(&won)? {
            statement.execute(&mut *transaction).await?;
        }
        transaction.commit().await.map(|()| kept)
    }

    /// Returns the statements for what `jobs` have beside their events.
    fn statements_beside(&self, jobs: &[&Job]) -> Result<Vec<RowsStatement>> {
        let deliveries: Vec<&NewDelivery> = jobs.iter().flat_map(|job| &job.deliveries).collect();
        let ends: Vec<EndOfRun<'_>> = jobs.iter().filter_map(|job| job.end()).collect();
        let mut statements = Vec::new();
        statements.extend(self.insert_runs(jobs)?);
        statements.extend(self.update_summaries(jobs)?);
        statements.extend(webhook_rows::statement(&deliveries)?);
        statements.extend(run_ends::statements(self.database.dialect(), &ends)?);
        Ok(statements)
    }

    fn insert_runs(&self, jobs: &[&Job]) -> Result<Option<RowsStatement>> {
        let new = jobs.iter().filter_map(|job| Some((job, job.new_run.as_deref()?)));
        let rows: Vec<_> = new
            .map(|(job, run)| {
                (
                    job.run_id.as_str(),
                    job.tenant.as_str(),
                    run.created_at,
                    &run.request,
                    &self.worker,
                    &run.model,
                    &run.input_text,
                    &run.tools,
                    run.n_calls,
                    &run.holder,
                )
            })
            .collect();
        let sql = |zipped: &str| {
            format!(
                "insert into runs (id, tenant, created_at, request, worker, model, input_text,
                                   tools, n_calls, holder, changed_at)
                 select c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, {} from {zipped}",
                self.database.dialect().now
            )
        };
        (!rows.is_empty()).then(|| RowsStatement::new::<10>(&rows, sql)).transpose()
    }

    /// What lists say about the runs from now on.
    fn update_summaries(&self, jobs: &[&Job]) -> Result<Option<RowsStatement>> {
        let changed = jobs.iter().filter_map(|job| Some((job, job.summary.as_deref()?)));
        let rows: Vec<_> = changed
            .map(|(job, summary)| {
                let waiting_by = summary.is_waiting.then_some(&self.worker);
                let run_id = job.run_id.as_str();
                (run_id, &summary.tools, summary.n_calls, summary.n_failed_calls, waiting_by)
            })
            .collect();
        let sql = |zipped: &str| {
            format!(
                "update runs set tools = c2, n_calls = c3, n_failed_calls = c4, waiting_by = c5,
                     changed_at = {} from {zipped} where runs.id = c1",
                self.database.dialect().now
            )
        };
        (!rows.is_empty()).then(|| RowsStatement::new::<5>(&rows, sql)).transpose()
    }
}

#[async_trait]
impl BatchWriter for SqliteBatchWriter {
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>> {
        in_time(time, self.try_to_write(jobs)).await
    }

    async fn probe(&mut self) -> Result<()> {
        in_time(STATEMENT_TIMEOUT, self.try_to_probe()).await
    }
}

async fn in_time<T>(time: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let too_slow = |_| Err(DatabaseError::TooSlow(format!("the file took longer than {time:?}")));
    timeout(time, work).await.unwrap_or_else(too_slow)
}

/// The columns of an event row.
type Columns<'a> = (&'a str, &'a str, i64, i64, i64, &'a str, Option<&'a str>, &'a str);

fn columns<'a>((job, row): (&'a Job, &'a EventRow)) -> Columns<'a> {
    let EventRow { first, last, kind, call, body } = row;
    let (tenant, run_id) = (job.tenant.as_str(), job.run_id.as_str());
    (tenant, run_id, *first, *last, job.tag, kind, call.as_deref(), body)
}

/// The events of all `jobs`. A conflict is an error.
fn insert_events(jobs: &[Job]) -> Result<RowsStatement> {
    let rows = jobs.iter().flat_map(|job| job.rows.iter().map(move |row| (job, row)));
    let rows: Vec<Columns<'_>> = rows.map(columns).collect();
    RowsStatement::new::<8>(&rows, |zipped| {
        format!(
            "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body)
             select c1, c2, c3, c4, c5, c6, c7, c8 from {zipped}"
        )
    })
}

/// Inserts the events of `job`. Returns `false` and inserts nothing if its seq is taken, or if
/// nobody would execute the run.
async fn insert_events_of(transaction: &mut dyn Transaction, job: &Job) -> Result<bool> {
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
    Ok(true)
}

/// Inserts a row. Returns whether its seq was free.
async fn insert(transaction: &mut dyn Transaction, job: &Job, row: &EventRow) -> Result<bool> {
    let values = row.values(&job.tenant, &job.run_id, job.tag);
    Ok(!transaction.query(INSERT, &values).await?.is_empty())
}

/// Whether an earlier attempt has stored the append.
async fn has_our_tag(transaction: &mut dyn Transaction, job: &Job) -> Result<bool> {
    let Some(row) = job.rows.first() else { return Ok(false) };
    let sql = "select tag from run_events where run_id = $1 and first_seq = $2";
    let values = values![job.run_id.as_str(), row.first];
    let rows = transaction.query(sql, &values).await?;
    rows.first().map_or(Ok(false), |row| Ok(row.integer(0)? == job.tag))
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
