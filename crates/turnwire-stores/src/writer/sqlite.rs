//! A batch in SQLite: one transaction, row by row.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::timeout;

use super::{Job, Journal};
use crate::{
    database::{Database, DatabaseError, STATEMENT_PATIENCE, Transaction, Value},
    rows::EventRow,
    run_store::store_ending,
};

/// At a place where there is a row already, nothing happens; anything else that is there twice
/// is an error.
const INSERT: &str = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (run_id, first_seq) do nothing \
     returning first_seq";

/// The journal in SQLite.
pub(crate) struct SqliteJournal {
    database: Arc<dyn Database>,
}

impl SqliteJournal {
    /// A journal in `database`.
    pub(crate) fn new(database: Arc<dyn Database>) -> Self {
        Self { database }
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
                return Err(DatabaseError::Taken(format!("place {}", row.first)));
            }
        }
        if let Some(ending) = &job.ending {
            let dialect = self.database.dialect();
            store_ending(transaction, dialect, &job.tenant, &job.run_id, ending).await?;
        }
        Ok(true)
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn write(&mut self, jobs: &[Job]) -> Result<Vec<bool>, DatabaseError> {
        match timeout(STATEMENT_PATIENCE, self.try_to_write(jobs)).await {
            Ok(written) => written,
            Err(_) => Err(DatabaseError::Away("the file does not answer".to_owned())),
        }
    }
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
