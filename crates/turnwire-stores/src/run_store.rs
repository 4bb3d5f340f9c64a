//! Runs: creation, lookup and end.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tracing::error;
use turnwire_contract::{
    Created, Entry, Event, Failure, IdempotencyKey, NewRun, RecordedEvent, RunCounts, RunEnd,
    RunFilter, RunId, RunOutcome, RunPage, RunQuery, RunRecord, RunRecords, RunRequest, RunStatus,
    RunSummary, SealedSecret, Seq, StoreError, TenantId, Timestamp, Usage,
};

use crate::{
    Result, Store,
    database::{DatabaseError, Dialect, Row, Transaction, values},
    failures::decode,
    input_lists::{self, Shared, SharedIds},
    rows::append_forced_end,
    run_ends::{self, StoredEnd},
    run_listing::MAX_LISTED,
    sealing::Place,
    webhook_rows::{self, NewDelivery},
};

#[async_trait]
impl RunRecords for Store {
    async fn create(&self, run: NewRun) -> Result<Created> {
        self.create_run(&run).await
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
        _now: Timestamp,
    ) -> Result<Option<RunId>> {
        let sql = format!(
            "select fingerprint, run_id from request_keys
             where tenant = $1 and endpoint = $2 and key = $3 and expires_at > {}",
            self.0.database.dialect().now
        );
        let values = values![tenant, &key.endpoint, &key.key];
        let found = self.0.database.query(&sql, &values).await?;
        found.first().map(|row| run_of_key(row, key)).transpose()
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        let sql = format!("{RECORDS} where tenant = $1 and id = $2 and state <> 'hidden'");
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        self.record(tenant, row).await
    }

    async fn status(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunStatus> {
        let sql = "select outcome from runs where tenant = $1 and id = $2 and state <> 'hidden'";
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        Ok(status(run_id, row.optional_text(0)?))
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>> {
        let sql = format!(
            "{RECORDS} where tenant = $1 and state <> 'hidden' order by number desc limit $2"
        );
        let values = values![tenant, most];
        let found = self.0.database.query(&sql, &values).await?;
        let mut records = Vec::with_capacity(found.len());
        for row in &found {
            match self.record(tenant, row).await {
                Err(StoreError::NotFound(_)) => {}
                record => records.push(record?),
            }
        }
        Ok(records)
    }

    async fn summaries(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunSummary>> {
        let query = RunQuery { most: most.min(MAX_LISTED), ..RunQuery::default() };
        Ok(self.select_runs(tenant, &query).await?.runs)
    }

    async fn select(&self, tenant: &TenantId, query: &RunQuery) -> Result<RunPage> {
        self.select_runs(tenant, query).await
    }

    async fn count(&self, tenant: &TenantId, filter: &RunFilter) -> Result<RunCounts> {
        self.count_runs(tenant, filter).await
    }

    async fn changed(
        &self,
        tenant: &TenantId,
        within: Duration,
        most: usize,
    ) -> Result<Vec<RunSummary>> {
        self.changed_runs(tenant, within, most).await
    }

    async fn change_noted(&self) {
        self.0.list_changed.notified().await;
    }

    async fn secrets(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<SealedSecret>> {
        self.run_secrets(tenant, run_id).await
    }

    async fn finish(&self, run_id: &RunId, outcome: RunOutcome, entries: Vec<Entry>) -> Result<()> {
        let sql = "select tenant, state from runs where id = $1 and state <> 'hidden'";
        let found = self.0.database.query(sql, &values![run_id.as_str()]).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        if row.text(1)? != "active" {
            return Ok(());
        }
        let tenant = TenantId::from(row.text(0)?);
        let key = self.0.sealing.current(&tenant).await?;
        let (key, database) = (key.as_deref(), &*self.0.database);
        let run_end = RunEnd { outcome, entries };
        let run_end = StoredEnd::of(database, &tenant, run_id, run_end).await;
        let (dialect, mut transaction) = (database.dialect(), database.begin().await?);
        run_ends::store(&mut *transaction, dialect, &[(&tenant, run_id, &run_end, key)]).await?;
        Ok(transaction.commit().await?)
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<()> {
        self.delete_run(tenant, run_id).await?;
        self.0.tails.delete(tenant, run_id);
        Ok(())
    }

    async fn force_end(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        outcome: RunOutcome,
        at: Timestamp,
    ) -> Result<()> {
        let dialect = self.0.database.dialect();
        let (end, usage) = (outcome.clone(), Usage::default());
        let event = Event::RunFinished { outcome: end, usage };
        let end = RecordedEvent { run_id: run_id.clone(), seq: Seq::START, at, event };
        let deliveries = self.deliveries_of(tenant, [&end]).await;
        let mut transaction = self.0.database.begin().await?;
        append_forced_end(&mut *transaction, tenant, run_id, &outcome, at).await?;
        let added: Vec<&NewDelivery> = deliveries.iter().collect();
        webhook_rows::store(&mut *transaction, dialect, &added).await?;
        let run_end = StoredEnd::new(outcome, Vec::new());
        run_ends::store(&mut *transaction, dialect, &[(tenant, run_id, &run_end, None)]).await?;
        transaction.commit().await?;
        if !deliveries.is_empty() {
            self.0.delivery_added.notify_one();
        }
        self.0.tails.release(run_id);
        Ok(())
    }
}

impl Store {
    /// Decodes a row of [`RECORDS`].
    async fn record(&self, tenant: &TenantId, row: &Row) -> Result<RunRecord> {
        let run_id = RunId::from(row.text(0)?);
        let request = self.0.sealing.open(tenant, Place::request(&run_id), row.text(2)?).await?;
        let request = decode(&request).inspect_err(|error| log_unreadable(&run_id, error));
        let request = match (request.ok(), row.optional_text(5)?) {
            (Some(mut request), Some(preamble)) => {
                let input_list = row.optional_text(6)?.map(str::to_owned);
                let ids = SharedIds { preamble: preamble.to_owned(), input_list };
                let shared = input_lists::read(&self.0.sealing, tenant, &run_id, &ids).await?;
                match shared {
                    Shared::Read(parts, _) => {
                        parts.join(&mut request);
                        Some(request)
                    }
                    Shared::Damaged => None,
                    Shared::RunDeleted => return Err(unknown(&run_id)),
                }
            }
            (request, _) => request,
        };
        let request = request.unwrap_or_else(|| RunRequest::new("unreadable", Vec::new()));
        Ok(RunRecord {
            created_at: Timestamp::from_micros(row.integer(1)?),
            request: Arc::new(request),
            status: status(&run_id, row.optional_text(3)?),
            stalled: row.optional_text(4)?.map(str::to_owned),
            run_id,
        })
    }
}

/// Returns the run that has the key, if the same request created it.
pub(crate) fn run_of_key(row: &Row, key: &IdempotencyKey) -> Result<RunId> {
    if row.text(0)? == key.fingerprint {
        Ok(RunId::from(row.text(1)?))
    } else {
        Err(StoreError::IdempotencyKeyReused(key.key.clone()))
    }
}

/// Locks a finished run against deletion and continuation.
pub(crate) async fn lock_finished_run(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    tenant: &TenantId,
    run_id: &RunId,
) -> Result<()> {
    let sql = format!(
        "select state from runs where tenant = $1 and id = $2 and state <> 'hidden'{}",
        dialect.for_update
    );
    let values = values![tenant, run_id.as_str()];
    let found = transaction.query(&sql, &values).await?;
    match found.first().map(|row| row.text(0)).transpose()? {
        None => Err(unknown(run_id)),
        Some("active") => Err(StoreError::Unfinished(run_id.clone())),
        Some(_) => Ok(()),
    }
}

pub(crate) fn unknown(run_id: &RunId) -> StoreError {
    StoreError::NotFound(format!("run `{run_id}`"))
}

/// Selects the columns of a [`RunRecord`].
const RECORDS: &str = "select id, created_at, request, outcome,
    case when state = 'active' and worker = '' then
        (select min(reason) from declined_runs where run_id = runs.id) end,
    preamble, input_list
    from runs";

/// An unreadable run can still be listed, found, cancelled and deleted.
fn log_unreadable(run_id: &RunId, error: &DatabaseError) {
    error!(%run_id, %error, "unreadable run");
}

/// Decodes the column `outcome`.
fn status(run_id: &RunId, outcome: Option<&str>) -> RunStatus {
    let Some(outcome) = outcome else { return RunStatus::Active };
    let failed = || RunOutcome::Failed { failure: Failure::journal_unreadable() };
    let outcome = decode(outcome).inspect_err(|error| log_unreadable(run_id, error));
    RunStatus::Finished { outcome: outcome.unwrap_or_else(|_| failed()) }
}
