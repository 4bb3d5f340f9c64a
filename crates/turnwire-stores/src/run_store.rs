//! Runs: creation, lookup and end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use tracing::error;
use turnwire_contract::{
    Allowed, ConversationId, ConversationRecord, Conversations, Created, Entries, Entry, Event,
    Failure, ItemId, NewRun, RecordedEvent, RequestKey, RunCounts, RunEnd, RunFilter, RunId,
    RunOutcome, RunPage, RunQuery, RunRecord, RunRecords, RunRequest, RunStatus, RunSummary,
    SealedSecret, Seq, StoreError, TenantId, Timestamp, Usage,
};

use crate::{
    Store, conversations,
    database::{DatabaseError, Dialect, Row, Transaction, Value},
    entries,
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
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        self.create_run(&run).await
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
        _now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        let sql = format!(
            "select fingerprint, run_id from request_keys
             where tenant = $1 and endpoint = $2 and key = $3 and expires_at > {}",
            self.0.database.dialect().now
        );
        let values = [Value::Tenant(tenant), Value::Text(&key.endpoint), Value::Text(&key.key)];
        let found = self.0.database.query(&sql, &values).await?;
        found.first().map(|row| run_of_key(row, key)).transpose()
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        let sql = format!("{RECORDS} where tenant = $1 and id = $2 and state <> 'hidden'");
        let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
        let found = self.0.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        self.record(tenant, row).await
    }

    async fn status(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunStatus, StoreError> {
        let sql = "select outcome from runs where tenant = $1 and id = $2 and state <> 'hidden'";
        let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        Ok(status(run_id, row.optional_text(0)?))
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        let sql = format!(
            "{RECORDS} where tenant = $1 and state <> 'hidden' order by number desc limit $2"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = [Value::Tenant(tenant), Value::Integer(most)];
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

    async fn summaries(
        &self,
        tenant: &TenantId,
        most: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let query = RunQuery { most: most.min(MAX_LISTED), ..RunQuery::default() };
        Ok(self.select_runs(tenant, &query).await?.runs)
    }

    async fn select(&self, tenant: &TenantId, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.select_runs(tenant, query).await
    }

    async fn count(&self, tenant: &TenantId, filter: &RunFilter) -> Result<RunCounts, StoreError> {
        self.count_runs(tenant, filter).await
    }

    async fn changed(
        &self,
        tenant: &TenantId,
        within: Duration,
        most: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.changed_runs(tenant, within, most).await
    }

    async fn change_noted(&self) {
        self.0.list_changed.notified().await;
    }

    async fn secrets(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<SealedSecret>, StoreError> {
        self.run_secrets(tenant, run_id).await
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        let sql = "select tenant, state from runs where id = $1 and state <> 'hidden'";
        let found = self.0.database.query(sql, &[Value::Text(run_id.as_str())]).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        if row.text(1)? != "active" {
            return Ok(());
        }
        let tenant = TenantId::from(row.text(0)?);
        let key = self.0.sealing.current(&tenant).await?;
        let (key, database) = (key.as_deref(), &*self.0.database);
        let ending = RunEnd { outcome, entries };
        let ending = StoredEnd::of(database, &tenant, run_id, ending).await;
        let (dialect, mut transaction) = (database.dialect(), database.begin().await?);
        run_ends::store(&mut *transaction, dialect, &[(&tenant, run_id, &ending, key)]).await?;
        Ok(transaction.commit().await?)
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
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
    ) -> Result<(), StoreError> {
        let dialect = self.0.database.dialect();
        let (end, usage) = (outcome.clone(), Usage::default());
        let event = Event::RunFinished { outcome: end, usage };
        let end = RecordedEvent { run_id: run_id.clone(), seq: Seq::START, at, event };
        let deliveries = self.deliveries_of(tenant, [&end]).await;
        let mut transaction = self.0.database.begin().await?;
        append_forced_end(&mut *transaction, tenant, run_id, &outcome, at).await?;
        let added: Vec<&NewDelivery> = deliveries.iter().collect();
        webhook_rows::store(&mut *transaction, dialect, &added).await?;
        let ending = StoredEnd::new(outcome, Vec::new());
        run_ends::store(&mut *transaction, dialect, &[(tenant, run_id, &ending, None)]).await?;
        transaction.commit().await?;
        if !deliveries.is_empty() {
            self.0.delivery_added.notify_one();
        }
        self.0.tails.release(run_id);
        Ok(())
    }
}

#[async_trait]
impl Conversations for Store {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError> {
        Self::open_conversation(self, tenant, &conversation).await
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        self.find_conversation(tenant, id).await
    }

    async fn active_run(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Option<RunId>, StoreError> {
        conversations::active_run(&*self.0.database, tenant, id).await
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        self.annotate(tenant, id, &metadata).await
    }

    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        self.drop_conversation(tenant, id).await
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.replace_conversation(tenant, &conversation, &entries).await
    }

    async fn allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        self.find_allowed(tenant, id).await
    }

    async fn allow(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError> {
        self.keep_allowed(tenant, id, &allowed).await
    }
}

#[async_trait]
impl Entries for Store {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        // A deleted run is still visible to a run that continues it.
        let sql = "select state from runs as r where tenant = $1 and id = $2
                   and (state <> 'hidden' or exists
                       (select 1 from runs as next where next.continues = r.id
                        and next.tenant = r.tenant and next.state = 'active'))";
        let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        match found.first().map(|row| row.text(0)).transpose()? {
            None => Err(unknown(run_id)),
            Some("active") => Err(StoreError::Unfinished(run_id.clone())),
            Some(_) => entries::of_chain(&*self.0.database, &self.0.sealing, tenant, run_id).await,
        }
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        // An id that cannot be stored must not hide the others.
        let names: Vec<ItemId> =
            names.iter().filter(|name| !name.as_str().contains('\0')).cloned().collect();
        entries::named(&*self.0.database, &self.0.sealing, tenant, &names).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        entries::of_conversation(&*self.0.database, &self.0.sealing, tenant, id).await
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.add_to_conversation(tenant, id, &entries).await
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<(), StoreError> {
        self.take_from_conversation(tenant, id, item_id).await
    }
}

impl Store {
    /// Decodes a row of [`RECORDS`].
    async fn record(&self, tenant: &TenantId, row: &Row) -> Result<RunRecord, StoreError> {
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
pub(crate) fn run_of_key(row: &Row, key: &RequestKey) -> Result<RunId, StoreError> {
    if row.text(0)? == key.fingerprint {
        Ok(RunId::from(row.text(1)?))
    } else {
        Err(StoreError::KeyReused(key.key.clone()))
    }
}

/// Locks a finished run against deletion and continuation.
pub(crate) async fn lock_finished_run(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    tenant: &TenantId,
    run_id: &RunId,
) -> Result<(), StoreError> {
    let sql = format!(
        "select state from runs where tenant = $1 and id = $2 and state <> 'hidden'{}",
        dialect.for_update
    );
    let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
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
