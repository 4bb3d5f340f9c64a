//! Inserts a run: its row, its links to other runs, and the first events of its journal,
//! atomically.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use turnwire_contract::{
    Conversations, Created, Event, IdempotencyKey, JournalError, NewRun, RunId, RunProgress,
    RunSummary, StoreError, UsageSubject,
};

use crate::{
    Result, Store, conversations,
    database::{DatabaseError, Dialect, Transaction, Value, values},
    entries,
    failures::{encode, rolled_back},
    input_lists::{self, SHARED_FROM, SharedIds, SharedRequest},
    progress::SummaryColumns,
    rows::{EventRow, first_row, new_tag, sealed_rows, to_rows},
    run_secrets,
    run_store::{lock_finished_run, run_of_key},
    sealing::{DataKey, Place},
    writer::{Append, NewRunRow},
};

/// Lifetime of an idempotency key: one day.
const KEYS_HOLD_FOR_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// How long an insert is retried after a lost response, and the delay in between. The client waits
/// meanwhile.
const RETRY_FOR: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// How long a run that is created in a batch waits for its commit. The client waits meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(6);

impl Store {
    /// Inserts `run`. After a lost response the insert is retried, and finds the run if the first
    /// attempt succeeded.
    pub(crate) async fn create_run(&self, run: &NewRun) -> Result<Created> {
        let key = self.0.sealing.current(&run.request.tenant).await?;
        let request = EncodedRequest::of(run, key.as_deref(), self.0.heartbeats.may_write_lists())?;
        if request.shared.is_none() && is_standalone(run) && !run.first_events.is_empty() {
            return self.create_in_batch(run, request, key).await;
        }
        let encoded = EncodedRun::of(run, request, key)?;
        let until = Instant::now() + RETRY_FOR;
        let mut created = self.try_create(&encoded).await;
        while matches!(created, Err(StoreError::Unavailable(_))) && Instant::now() < until {
            sleep(PAUSE).await;
            created = self.try_create(&encoded).await;
            if is_there_by(&created, &run.run_id) {
                created = Ok(encoded.created());
            }
        }
        match &created {
            Ok(Created::WithEvents) => {
                let (tenant, bytes) = (&run.request.tenant, encoded.n_bytes);
                self.0.tails.note_written(tenant, &run.first_events, bytes);
                let progress = RunProgress::after(&run.first_events);
                self.0.tails.progress().set(&run.run_id, progress);
                self.0.list_changed.notify_waiters();
            }
            // The run may exist with this worker's lease, although it will not be executed here.
            Err(StoreError::Unavailable(_)) => self.0.heartbeats.mark_uncertain(&run.run_id),
            _ => {}
        }
        created
    }

    /// Inserts a run that depends on no other row, in one commit with the appends of other runs.
    /// The writer retries after a lost response.
    async fn create_in_batch(
        &self,
        run: &NewRun,
        request: EncodedRequest,
        key: Option<Arc<DataKey>>,
    ) -> Result<Created> {
        let (progress, run_id) = (RunProgress::after(&run.first_events), &run.run_id);
        let summary = SummaryColumns::of(&progress);
        let append = Append {
            tenant: run.request.tenant.clone(),
            events: run.first_events.clone(),
            catalogues: Vec::new(),
            run_end: None,
            summary: None,
            deliveries: Vec::new(),
            new_run: Some(NewRunRow {
                created_at: run.created_at.as_micros(),
                request: request.request,
                model: model_column(run),
                input_text: request.input_text,
                tools: summary.tools,
                n_calls: summary.n_calls,
                holder: holder_column(run),
            }),
            key,
        };
        // Set before the append, as for every other append.
        self.0.tails.progress().set(run_id, progress);
        let appended = timeout(MAX_WAIT, self.0.writer.append(append)).await;
        let error = match appended {
            Ok(Ok(())) => {
                self.0.list_changed.notify_waiters();
                return Ok(Created::WithEvents);
            }
            Ok(Err(error)) => error,
            Err(late) => JournalError::Unavailable(late.to_string()),
        };
        self.0.tails.progress().forget(run_id);
        Err(match error {
            JournalError::Conflict { .. } => StoreError::Exists(name_of(run_id)),
            JournalError::Rejected { reason, .. } => StoreError::Rejected(reason),
            JournalError::KeyMissing(why) => StoreError::KeyMissing(why),
            JournalError::Unavailable(_) | JournalError::NotFound(_) => {
                // The run may exist with this worker's lease, although it will not be executed
                // here.
                self.0.heartbeats.mark_uncertain(run_id);
                StoreError::Unavailable(error.to_string())
            }
        })
    }

    async fn try_create(&self, encoded: &EncodedRun<'_>) -> Result<Created> {
        let mut transaction = self.0.database.begin().await?;
        match self.write(&mut *transaction, encoded).await {
            Ok(before) => {
                transaction.commit().await?;
                Ok(before.map_or_else(|| encoded.created(), Created::Existing))
            }
            Err(CreateError::Taken) => {
                transaction.rollback().await;
                Err(self.why_taken(encoded.run).await?)
            }
            Err(CreateError::Store(refusal)) => Err(rolled_back(transaction, refusal).await),
        }
    }

    /// Inserts all rows, unless the same request created a run before.
    async fn write(
        &self,
        transaction: &mut dyn Transaction,
        encoded: &EncodedRun<'_>,
    ) -> Result<Option<RunId>, CreateError> {
        let (run, dialect) = (encoded.run, self.0.database.dialect());
        if let Some(key) = &run.idempotency_key
            && let Some(before) = use_key(transaction, dialect, run, key).await?
        {
            return Ok(Some(before));
        }
        let (mut links, tenant) = (RunLinks::default(), &run.request.tenant);
        match (&run.request.conversation_id, &run.request.continues) {
            (Some(id), _) => {
                let (now, replaces) = (run.created_at, run.request.replaces.as_ref());
                links.conversation_id = Some(id.as_str());
                let held =
                    conversations::hold_for_run(transaction, dialect, tenant, id, replaces, now);
                links.history_upto = held.await?;
            }
            (None, Some(before)) => {
                lock_finished_run(transaction, dialect, tenant, before).await?;
                links.continues = Some(before.as_str());
            }
            (None, None) => {
                let (run_id, before) = (Some(&run.run_id), &run.request.before);
                let key = encoded.key.as_deref();
                entries::add(transaction, dialect, tenant, run_id, None, before, key).await?;
            }
        }
        if let Some(shared) = &encoded.request.shared {
            input_lists::hold(transaction, dialect, tenant, shared, encoded.key.as_deref()).await?;
        }
        encoded.insert(transaction, dialect, &links, &self.0.worker).await?;
        run_secrets::insert(transaction, tenant, &run.run_id, &run.secrets).await?;
        Ok(None)
    }

    /// Returns the cause of a unique violation: an active run in the conversation, or the same run
    /// id.
    async fn why_taken(&self, run: &NewRun) -> Result<StoreError> {
        if let Some(id) = &run.request.conversation_id {
            let tenant = &run.request.tenant;
            let active = self.active_run(tenant, id).await?;
            if let Some(run_id) = active {
                return Ok(StoreError::Busy { conversation_id: id.clone(), run_id });
            }
        }
        Ok(StoreError::Exists(name_of(&run.run_id)))
    }
}

/// Why a run was not created.
enum CreateError {
    /// A unique violation, whose cause is not known yet.
    Taken,
    Store(StoreError),
}

impl From<StoreError> for CreateError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<DatabaseError> for CreateError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::UniqueViolation(_) => Self::Taken,
            error => Self::Store(error.into()),
        }
    }
}

/// What is stored of a request.
struct EncodedRequest {
    request: String,
    input_text: String,
    /// The parts of a long request that are not in `request`.
    shared: Option<SharedRequest>,
    shared_ids: Option<SharedIds>,
}

impl EncodedRequest {
    fn of(run: &NewRun, key: Option<&DataKey>, may_share: bool) -> Result<Self, DatabaseError> {
        let mut request = encode(&*run.request)?;
        let mut shared = None;
        if may_share && request.len() >= SHARED_FROM {
            shared = SharedRequest::of(&run.request, key)?;
        }
        if let Some(shared) = &shared {
            request = encode(&shared.rest)?;
        }
        let mut input_text = RunSummary::text_of(&run.request);
        if let Some(key) = key {
            key.seal(Place::request(&run.run_id), &mut request)?;
            key.seal(Place::input_text(&run.run_id), &mut input_text)?;
        }
        let shared_ids = shared.as_ref().map(SharedRequest::ids);
        Ok(Self { request, input_text, shared, shared_ids })
    }

    /// Encodes the first event of the run again, without what is stored elsewhere.
    fn shorten(&self, rows: &mut [EventRow], run: &NewRun) -> Result<(), DatabaseError> {
        if let (Some(shared), Some(row), Some(queued)) =
            (&self.shared, rows.first_mut(), run.first_events.first())
            && let Event::RunQueued { request } = &queued.event
            && *request == run.request
        {
            *row = first_row(queued, shared)?;
        }
        Ok(())
    }
}

fn model_column(run: &NewRun) -> String {
    run.request.model.replace('\0', "")
}

/// Who asked for the run, as for quotas.
fn holder_column(run: &NewRun) -> Option<String> {
    let actor = run.request.asked_by.as_deref()?;
    UsageSubject::holder(&run.request.tenant, actor)?.holder.map(|holder| holder.replace('\0', ""))
}

fn name_of(run_id: &RunId) -> String {
    format!("run `{run_id}`")
}

/// Returns whether the conflicting run is the run itself, from an earlier attempt. Run ids are
/// unique.
fn is_there_by(created: &Result<Created>, run_id: &RunId) -> bool {
    match created {
        Ok(Created::Existing(before)) => before == run_id,
        Err(StoreError::Busy { run_id: busy_with, .. }) => busy_with == run_id,
        Err(StoreError::Exists(what)) => *what == name_of(run_id),
        _ => false,
    }
}

/// Links of a run to its conversation and to the run it continues.
#[derive(Debug, Default)]
struct RunLinks<'a> {
    conversation_id: Option<&'a str>,
    history_upto: i64,
    continues: Option<&'a str>,
}

fn insert_run(dialect: &Dialect) -> String {
    format!(
        "insert into runs (id, tenant, created_at, request, conversation_id, history_upto,
                           continues, worker, model, input_text, tools, n_calls, holder,
                           preamble, input_list, changed_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, {})",
        dialect.now
    )
}

const INSERT_EVENTS: &str = "insert into run_events (tenant, run_id, first_seq, last_seq, tag,
                                                     kind, call_id, body) values ";

struct EncodedRun<'a> {
    run: &'a NewRun,
    request: EncodedRequest,
    model: String,
    holder: Option<String>,
    /// What a list says about the first events.
    summary: SummaryColumns,
    rows: Vec<EventRow>,
    /// Size of the first events in memory.
    n_bytes: usize,
    tag: i64,
    /// Has encrypted the above, and encrypts entries.
    key: Option<Arc<DataKey>>,
}

impl<'a> EncodedRun<'a> {
    fn of(run: &'a NewRun, request: EncodedRequest, key: Option<Arc<DataKey>>) -> Result<Self> {
        let rejected = |error: DatabaseError| StoreError::Rejected(error.to_string());
        let mut rows = to_rows(&run.first_events).map_err(rejected)?;
        let n_bytes = rows.iter().map(|row| row.body.len()).sum();
        request.shorten(&mut rows, run)?;
        let rows = sealed_rows(rows, &run.run_id, key.as_deref()).map_err(rejected)?;
        let model = model_column(run);
        let summary = SummaryColumns::of(&RunProgress::after(&run.first_events));
        let holder = holder_column(run);
        Ok(Self { run, request, model, holder, summary, rows, n_bytes, tag: new_tag(), key })
    }

    /// Returns the result for the created run.
    fn created(&self) -> Created {
        if self.rows.is_empty() { Created::RowOnly } else { Created::WithEvents }
    }

    /// For databases that can insert into two tables with one statement.
    fn in_one_statement<'v>(
        &'v self,
        dialect: &Dialect,
        links: &'v RunLinks<'_>,
        worker: &'v str,
    ) -> (String, Vec<Value<'v>>) {
        let insert_run = insert_run(dialect);
        let mut values = self.values(links, worker).to_vec();
        if self.rows.is_empty() {
            return (insert_run, values);
        }
        let events = self.events(values.len());
        values.extend(self.values_of_events());
        (format!("with run as ({insert_run}) {INSERT_EVENTS}{events}"), values)
    }

    async fn insert(
        &self,
        transaction: &mut dyn Transaction,
        dialect: &Dialect,
        links: &RunLinks<'_>,
        worker: &str,
    ) -> Result<(), DatabaseError> {
        if dialect.writes_in_with {
            let (sql, values) = self.in_one_statement(dialect, links, worker);
            return transaction.query(&sql, &values).await.map(drop);
        }
        transaction.query(&insert_run(dialect), &self.values(links, worker)).await?;
        if !self.rows.is_empty() {
            let sql = format!("{INSERT_EVENTS}{}", self.events(0));
            transaction.query(&sql, &self.values_of_events()).await?;
        }
        Ok(())
    }

    fn values<'v>(&'v self, links: &'v RunLinks<'_>, worker: &'v str) -> [Value<'v>; 15] {
        let shared = self.request.shared_ids.as_ref();
        values![
            self.run.run_id.as_str(),
            &self.run.request.tenant,
            self.run.created_at.as_micros(),
            &self.request.request,
            links.conversation_id,
            links.history_upto,
            links.continues,
            worker,
            &self.model,
            &self.request.input_text,
            &self.summary.tools,
            self.summary.n_calls,
            self.holder.as_deref(),
            shared.map(|ids| ids.preamble.as_str()),
            shared.and_then(|ids| ids.input_list.as_deref())
        ]
    }

    /// Returns a placeholder for each of [`Self::values_of_events`], after `taken` others.
    fn events(&self, taken: usize) -> String {
        let row = |n: usize| {
            let first = taken + n * 8;
            let parameters: Vec<String> = (1..=8).map(|m| format!("${}", first + m)).collect();
            format!("({})", parameters.join(", "))
        };
        (0..self.rows.len()).map(row).collect::<Vec<_>>().join(", ")
    }

    fn values_of_events(&self) -> Vec<Value<'_>> {
        let (tenant, run_id) = (&self.run.request.tenant, &self.run.run_id);
        self.rows.iter().flat_map(|row| row.values(tenant, run_id, self.tag)).collect()
    }
}

/// Returns whether the run has no conversation, no continued run, no idempotency key and no
/// secrets.
fn is_standalone(run: &NewRun) -> bool {
    let NewRun { request, idempotency_key: key, secrets, .. } = run;
    let follows = request.conversation_id.is_some() || request.continues.is_some();
    key.is_none() && !follows && request.before.is_empty() && secrets.is_empty()
}

/// Assigns the idempotency key to this run. If it is taken, returns the run that has it.
async fn use_key(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    run: &NewRun,
    key: &IdempotencyKey,
) -> Result<Option<RunId>> {
    // A second request waits here for the first. An expired key is replaced. A valid one is only
    // locked and then read.
    let take = format!(
        "insert into request_keys (tenant, endpoint, key, fingerprint, run_id, expires_at)
         values ($1, $2, $3, $4, $5, {later})
         on conflict (tenant, endpoint, key) do update set fingerprint = excluded.fingerprint,
             run_id = excluded.run_id, expires_at = excluded.expires_at
         where request_keys.expires_at <= {now}
         returning run_id",
        later = dialect.later("$6"),
        now = dialect.now,
    );
    let values = values![
        &run.request.tenant,
        &key.endpoint,
        &key.key,
        &key.fingerprint,
        run.run_id.as_str(),
        KEYS_HOLD_FOR_MICROS
    ];
    if !transaction.query(&take, &values).await?.is_empty() {
        return Ok(None);
    }
    let sql = "select fingerprint, run_id from request_keys
               where tenant = $1 and endpoint = $2 and key = $3";
    let [tenant, endpoint, name, ..] = values;
    let found = transaction.query(sql, &[tenant, endpoint, name]).await?;
    found.first().map(|row| run_of_key(row, key)).transpose()
}
