//! Runs: how they come into being, how they are found, and how they end.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use turnwire_contract::{
    Allowed, ConversationId, ConversationRecord, Created, Ending, Entry, ItemId, NewRun,
    RequestKey, RunId, RunOutcome, RunRecord, RunStatus, RunStore, StoreError, TenantId, Timestamp,
};

use crate::{
    Store, conversations,
    database::{DatabaseError, Dialect, Row, Transaction, Value},
    entries::{self, Written},
    failures::{read_again, written},
    forgetting,
};

/// For how long a request can be sent again with its key: a day.
const KEYS_HOLD_FOR_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

#[async_trait]
impl RunStore for Store {
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        let created = self.try_to_create(&run).await;
        if let Err(StoreError::Unavailable(_)) = &created {
            // It may be there all the same, with us as its worker, who will not work on it.
            self.0.standing.doubt(&run.run_id);
        }
        created
    }

    async fn made_by(
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
        let values =
            [Value::Text(tenant.as_str()), Value::Text(&key.endpoint), Value::Text(&key.key)];
        let found = self.0.database.query(&sql, &values).await?;
        found.first().map(|row| run_of_key(row, key)).transpose()
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        let sql = "select id, created_at, request, outcome from runs
                   where tenant = $1 and id = $2 and state <> 'hidden'";
        let values = [Value::Text(tenant.as_str()), Value::Text(run_id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(run_id))?;
        Ok(record(row)?)
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        let sql = "select id, created_at, request, outcome from runs
                   where tenant = $1 and state <> 'hidden' order by number desc limit $2";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = [Value::Text(tenant.as_str()), Value::Integer(most)];
        let found = self.0.database.query(sql, &values).await?;
        Ok(found.iter().map(record).collect::<Result<_, _>>()?)
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
        let mut transaction = self.0.database.begin().await?;
        let (dialect, ending) = (self.0.database.dialect(), Ending { outcome, entries });
        store_ending(&mut *transaction, dialect, &tenant, run_id, &ending).await?;
        Ok(transaction.commit().await?)
    }

    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        // A run that is forgotten is still there for whoever was continuing it at the time.
        let sql = "select state from runs as r where tenant = $1 and id = $2
                   and (state <> 'hidden' or exists
                       (select 1 from runs as next where next.continues = r.id
                        and next.tenant = r.tenant and next.state = 'active'))";
        let values = [Value::Text(tenant.as_str()), Value::Text(run_id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        match found.first().map(|row| row.text(0)).transpose()? {
            None => Err(unknown(run_id)),
            Some("active") => Err(StoreError::Unfinished(run_id.clone())),
            Some(_) => entries::of_chain(&*self.0.database, tenant, run_id).await,
        }
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        // A name that nobody can have must not hide the others.
        let names: Vec<ItemId> =
            names.iter().filter(|name| !name.as_str().contains('\0')).cloned().collect();
        entries::named(&*self.0.database, tenant, &names).await
    }

    async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
        let dialect = self.0.database.dialect();
        let mut transaction = self.0.database.begin().await?;
        hold_finished(&mut *transaction, dialect, tenant, run_id).await?;
        let run = forgetting::Theirs {
            tenant: tenant.as_str().to_owned(),
            run_id: run_id.as_str().to_owned(),
        };
        forgetting::forget(&mut *transaction, dialect, &[run]).await?;
        Ok(transaction.commit().await?)
    }

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

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        self.annotate(tenant, id, &metadata).await
    }

    async fn forget_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        self.drop_conversation(tenant, id).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        entries::of_conversation(&*self.0.database, tenant, id).await
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

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.replace_conversation(tenant, &conversation, &entries).await
    }
}

impl Store {
    async fn try_to_create(&self, run: &NewRun) -> Result<Created, StoreError> {
        let (database, dialect) = (&self.0.database, self.0.database.dialect());
        let (tenant, request) = (&run.request.tenant, &run.request);
        let (json, mut place) = (written(&**request)?, Place::default());
        if stands_alone(run) {
            let values = place.values(run, &json, &self.0.worker);
            return match database.query(INSERT, &values).await {
                Err(DatabaseError::Taken(_)) => Err(self.why_taken(run).await?),
                inserted => Ok(inserted.map(|_| Created::New)?),
            };
        }
        let mut transaction = database.begin().await?;
        if let Some(key) = &run.key
            && let Some(before) = use_key(&mut *transaction, dialect, run, key).await?
        {
            // Nothing was written; whoever just drops it gives up the connection, too.
            transaction.commit().await?;
            return Ok(Created::Before(before));
        }
        match (&request.conversation_id, &request.continues) {
            (Some(id), _) => {
                let now = run.created_at;
                place.conversation_id = Some(id.as_str());
                place.history_upto =
                    conversations::hold_for_run(&mut *transaction, tenant, id, now).await?;
            }
            (None, Some(before)) => {
                hold_finished(&mut *transaction, dialect, tenant, before).await?;
                place.continues = Some(before.as_str());
            }
            (None, None) => {
                let (run_id, before) = (Some(&run.run_id), &request.before);
                entries::add(&mut *transaction, dialect, tenant, run_id, None, before).await?;
            }
        }
        match transaction.query(INSERT, &place.values(run, &json, &self.0.worker)).await {
            Err(DatabaseError::Taken(_)) => {
                drop(transaction);
                return Err(self.why_taken(run).await?);
            }
            inserted => inserted?,
        };
        transaction.commit().await?;
        Ok(Created::New)
    }

    /// The database itself says no to a second run: in the conversation, or of that id.
    async fn why_taken(&self, run: &NewRun) -> Result<StoreError, StoreError> {
        let busy = match &run.request.conversation_id {
            Some(id) => conversations::busy_now(&*self.0.database, &run.request.tenant, id).await?,
            None => None,
        };
        Ok(busy.unwrap_or_else(|| StoreError::Exists(format!("run `{}`", run.run_id))))
    }
}

/// Where a run stands among the others.
#[derive(Debug, Default)]
struct Place<'a> {
    conversation_id: Option<&'a str>,
    history_upto: i64,
    continues: Option<&'a str>,
}

const INSERT: &str = "insert into runs (id, tenant, created_at, request, conversation_id,
                                        history_upto, continues, worker)
                      values ($1, $2, $3, $4, $5, $6, $7, $8)";

impl Place<'_> {
    fn values<'a>(&'a self, run: &'a NewRun, request: &'a str, worker: &'a str) -> [Value<'a>; 8] {
        [
            Value::Text(run.run_id.as_str()),
            Value::Text(run.request.tenant.as_str()),
            Value::Integer(run.created_at.as_micros()),
            Value::Text(request),
            Value::OptionalText(self.conversation_id),
            Value::Integer(self.history_upto),
            Value::OptionalText(self.continues),
            Value::Text(worker),
        ]
    }
}

/// Whether the run needs nothing but a row of its own.
fn stands_alone(run: &NewRun) -> bool {
    let NewRun { request, key, .. } = run;
    let follows = request.conversation_id.is_some() || request.continues.is_some();
    key.is_none() && !follows && request.before.is_empty()
}

/// Takes the key for this run, unless it is taken: then this is the run that has it.
async fn use_key(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    run: &NewRun,
    key: &RequestKey,
) -> Result<Option<RunId>, StoreError> {
    // Whoever comes second waits here until the first is done. If its key is too old, it is
    // replaced; if not, it is locked all the same, and stays to be read.
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
    let values = [
        Value::Text(run.request.tenant.as_str()),
        Value::Text(&key.endpoint),
        Value::Text(&key.key),
        Value::Text(&key.fingerprint),
        Value::Text(run.run_id.as_str()),
        Value::Integer(KEYS_HOLD_FOR_MICROS),
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

/// The run that has the key, if it was made by the same request.
fn run_of_key(row: &Row, key: &RequestKey) -> Result<RunId, StoreError> {
    if row.text(0)? == key.fingerprint {
        Ok(RunId::from(row.text(1)?))
    } else {
        Err(StoreError::KeyReused(key.key.clone()))
    }
}

/// Holds a run that is finished: nobody forgets or continues it meanwhile.
async fn hold_finished(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    tenant: &TenantId,
    run_id: &RunId,
) -> Result<(), StoreError> {
    let sql = format!(
        "select state from runs where tenant = $1 and id = $2 and state <> 'hidden'{}",
        dialect.for_update
    );
    let values = [Value::Text(tenant.as_str()), Value::Text(run_id.as_str())];
    let found = transaction.query(&sql, &values).await?;
    match found.first().map(|row| row.text(0)).transpose()? {
        None => Err(unknown(run_id)),
        Some("active") => Err(StoreError::Unfinished(run_id.clone())),
        Some(_) => Ok(()),
    }
}

/// Stores what a run leaves behind, together with whatever else is in the transaction. Does
/// nothing if the run is not active.
pub(crate) async fn store_ending(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    tenant: &TenantId,
    run_id: &RunId,
    ending: &Ending,
) -> Result<(), DatabaseError> {
    let end = format!(
        "update runs set state = 'finished', outcome = $3, finished_at = {}, worker = ''
         where tenant = $1 and id = $2 and state = 'active'
         returning tenant, id, conversation_id",
        dialect.now
    );
    let (tenant_id, outcome) = (tenant, written(&ending.outcome)?);
    let (tenant, run) = (Value::Text(tenant.as_str()), Value::Text(run_id.as_str()));
    let outcome = Value::Text(&outcome);
    if dialect.writes_in_with {
        let sql = format!(
            "with ended as ({end}),
                  gone as (delete from wishes using ended
                           where wishes.tenant = ended.tenant and wishes.run_id = ended.id)
             insert into entries (tenant, run_id, conversation_id, id, entry)
             select ended.tenant, ended.id, ended.conversation_id, pairs.one, pairs.other
             from ended, {} order by pairs.n",
            dialect.pairs("$4", "$5")
        );
        let added = Written::new(&ending.entries)?;
        let (names, bodies) = (added.names(), added.bodies());
        let values = [tenant, run, outcome, Value::Texts(&names), Value::Texts(&bodies)];
        return transaction.query(&sql, &values).await.map(drop);
    }
    let ended = transaction.query(&end, &[tenant, run, outcome]).await?;
    let Some(row) = ended.first() else {
        return Ok(());
    };
    let (conversation_id, added) = (row.optional_text(2)?, &ending.entries);
    entries::add(transaction, dialect, tenant_id, Some(run_id), conversation_id, added).await?;
    let wishes = "delete from wishes where tenant = $1 and run_id = $2";
    transaction.query(wishes, &[tenant, run]).await.map(drop)
}

fn unknown(run_id: &RunId) -> StoreError {
    StoreError::NotFound(format!("run `{run_id}`"))
}

fn record(row: &Row) -> Result<RunRecord, DatabaseError> {
    let status = match row.optional_text(3)? {
        None => RunStatus::Active,
        Some(outcome) => RunStatus::Finished { outcome: read_again(outcome)? },
    };
    Ok(RunRecord {
        run_id: RunId::from(row.text(0)?),
        created_at: Timestamp::from_micros(row.integer(1)?),
        request: Arc::new(read_again(row.text(2)?)?),
        status,
    })
}
