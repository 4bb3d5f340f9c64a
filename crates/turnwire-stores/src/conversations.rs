//! Conversations, and the row lock that serializes changes to each.
//!
//! Changing a conversation, or starting a run in it, holds its row lock until the commit. So the
//! entries of a conversation are in commit order.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use turnwire_contract::{
    Allowed, ConversationId, ConversationRecord, Conversations, Entries, Entry, ItemId, RunId,
    StoreError, TenantId, Timestamp,
};

use crate::{
    Result, Store,
    database::{DatabaseError, Dialect, Row, Transaction, Value, values},
    entries,
    failures::{decode, encode, rolled_back},
    run_store::unknown as unknown_run,
    sealing::Place,
    workers::micros,
};

/// Locks a conversation for a new run and creates it if it does not exist. Supersedes what the run
/// `replaces`. Returns the number of the last entry that is left. It must be idle.
pub(crate) async fn hold_for_run(
    transaction: &mut dyn Transaction,
    dialect: &Dialect,
    tenant: &TenantId,
    id: &ConversationId,
    replaces: Option<&ItemId>,
    now: Timestamp,
) -> Result<i64> {
    let sql = format!(
        "insert into conversations (tenant, id, created_at, used_at, metadata)
         values ($1, $2, $3, {}, '{{}}')
         on conflict (tenant, id) do update set used_at = excluded.used_at",
        dialect.now
    );
    let values = values![tenant, id.as_str(), now.as_micros()];
    transaction.query(&sql, &values).await?;
    // A separate statement: it must start after the lock to see earlier commits.
    must_be_idle(transaction, tenant, id).await?;
    if let Some(from) = replaces
        && !entries::supersede(transaction, tenant, id, from).await?
    {
        return Err(missing(from));
    }
    let sql = "select coalesce(max(position), 0) from entries
               where tenant = $1 and conversation_id = $2 and superseded_upto is null";
    let values = values![tenant, id.as_str()];
    let found = transaction.query(sql, &values).await?;
    Ok(found.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default())
}

/// Locks an existing, idle conversation.
async fn lock_row(
    transaction: &mut dyn Transaction,
    dialect: &Dialect,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<()> {
    let sql = format!(
        "update conversations set used_at = {} where tenant = $1 and id = $2 returning id",
        dialect.now
    );
    let values = values![tenant, id.as_str()];
    if transaction.query(&sql, &values).await?.is_empty() {
        return Err(unknown(id));
    }
    must_be_idle(transaction, tenant, id).await
}

async fn must_be_idle(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<()> {
    let values = values![tenant, id.as_str()];
    match transaction.query(BUSY_WITH, &values).await?.first() {
        Some(row) => Err(busy(id, row)?),
        None => Ok(()),
    }
}

const BUSY_WITH: &str = "select id from runs
                         where tenant = $1 and conversation_id = $2 and state = 'active'";

fn busy(id: &ConversationId, row: &Row) -> Result<StoreError> {
    let run_id = RunId::from(row.text(0)?);
    Ok(StoreError::Busy { conversation_id: id.clone(), run_id })
}

fn unknown(id: &ConversationId) -> StoreError {
    StoreError::NotFound(format!("conversation `{id}`"))
}

fn missing(name: &ItemId) -> StoreError {
    StoreError::NotFound(format!("item `{name}`"))
}

/// Deletes a locked conversation. Entries that belong to runs stay.
async fn remove(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<(), DatabaseError> {
    entries::take_out(transaction, tenant, id, None).await?;
    let values = values![tenant, id.as_str()];
    for sql in [
        "delete from allowed where tenant = $1 and conversation_id = $2",
        "delete from conversations where tenant = $1 and id = $2",
    ] {
        transaction.query(sql, &values).await?;
    }
    Ok(())
}

#[async_trait]
impl Conversations for Store {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<()> {
        let metadata =
            self.sealed_metadata(tenant, &conversation.id, &conversation.metadata).await?;
        let sql = format!(
            "insert into conversations (tenant, id, created_at, metadata, used_at)
             values ($1, $2, $3, $4, {}) on conflict (tenant, id) do nothing returning id",
            self.0.database.dialect().now
        );
        let opened =
            self.0.database.query(&sql, &values_of(tenant, &conversation, &metadata)).await?;
        if opened.is_empty() {
            return Err(StoreError::Exists(format!("conversation `{}`", conversation.id)));
        }
        Ok(())
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord> {
        let sql = "select created_at, metadata from conversations where tenant = $1 and id = $2";
        let values = values![tenant, id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(id))?;
        let created_at = Timestamp::from_micros(row.integer(0)?);
        let metadata = self.0.sealing.open(tenant, Place::metadata(id), row.text(1)?).await?;
        Ok(ConversationRecord { id: id.clone(), created_at, metadata: decode(&metadata)? })
    }

    async fn active_run(&self, tenant: &TenantId, id: &ConversationId) -> Result<Option<RunId>> {
        let values = values![tenant, id.as_str()];
        let found = self.0.database.query(BUSY_WITH, &values).await?;
        Ok(found.first().map(|row| row.text(0)).transpose()?.map(RunId::from))
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<()> {
        let sql = format!(
            "update conversations set metadata = $3, used_at = {} where tenant = $1 and id = $2
             returning id",
            self.0.database.dialect().now
        );
        let metadata = self.sealed_metadata(tenant, id, &metadata).await?;
        let values = values![tenant, id.as_str(), &metadata];
        let changed = self.0.database.query(&sql, &values).await?;
        changed.first().map(drop).ok_or_else(|| unknown(id))
    }

    async fn delete_conversation(&self, tenant: &TenantId, id: &ConversationId) -> Result<()> {
        let mut transaction = self.lock_conversation(tenant, id).await?;
        remove(&mut *transaction, tenant, id).await?;
        Ok(transaction.commit().await?)
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<()> {
        let dialect = self.0.database.dialect();
        let key = self.0.sealing.current(tenant).await?;
        let metadata =
            self.sealed_metadata(tenant, &conversation.id, &conversation.metadata).await?;
        let mut transaction = self.0.database.begin().await?;
        let sql = format!(
            "insert into conversations (tenant, id, created_at, metadata, used_at)
             values ($1, $2, $3, $4, {}) on conflict (tenant, id) do update
             set created_at = excluded.created_at, metadata = excluded.metadata,
                 used_at = excluded.used_at",
            dialect.now
        );
        transaction.query(&sql, &values_of(tenant, &conversation, &metadata)).await?;
        let id = &conversation.id;
        if let Err(refusal) = must_be_idle(&mut *transaction, tenant, id).await {
            return Err(rolled_back(transaction, refusal).await);
        }
        entries::take_out(&mut *transaction, tenant, id, None).await?;
        let (id, key) = (Some(id.as_str()), key.as_deref());
        entries::add(&mut *transaction, dialect, tenant, None, id, &entries, key).await?;
        Ok(transaction.commit().await?)
    }

    async fn allowed(&self, tenant: &TenantId, id: &ConversationId) -> Result<Vec<Allowed>> {
        let sql = "select tool, definition from allowed where tenant = $1 and conversation_id = $2";
        let values = values![tenant, id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        let allowed = |row: &Row| {
            let (tool, definition) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
            Ok::<_, DatabaseError>(Allowed { tool, definition })
        };
        Ok(found.iter().map(allowed).collect::<Result<_, _>>()?)
    }

    async fn allow(&self, tenant: &TenantId, id: &ConversationId, allowed: Allowed) -> Result<()> {
        // Only for an existing conversation: permissions are deleted with it.
        let sql = "insert into allowed (tenant, conversation_id, tool, definition)
                   select tenant, id, $3, $4 from conversations where tenant = $1 and id = $2
                   on conflict (tenant, conversation_id, tool, definition) do nothing";
        let values = values![tenant, id.as_str(), &allowed.tool, &allowed.definition];
        self.0.database.query(sql, &values).await?;
        Ok(())
    }
}

#[async_trait]
impl Entries for Store {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>> {
        // A deleted run is still visible to a run that continues it.
        let sql = "select state from runs as r where tenant = $1 and id = $2
                   and (state <> 'hidden' or exists
                       (select 1 from runs as next where next.continues = r.id
                        and next.tenant = r.tenant and next.state = 'active'))";
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        match found.first().map(|row| row.text(0)).transpose()? {
            None => Err(unknown_run(run_id)),
            Some("active") => Err(StoreError::Unfinished(run_id.clone())),
            Some(_) => entries::of_chain(&*self.0.database, &self.0.sealing, tenant, run_id).await,
        }
    }

    async fn entries_named(&self, tenant: &TenantId, names: &[ItemId]) -> Result<Vec<Entry>> {
        // An id that cannot be stored must not hide the others.
        let names: Vec<ItemId> =
            names.iter().filter(|name| !name.as_str().contains('\0')).cloned().collect();
        entries::named(&*self.0.database, &self.0.sealing, tenant, &names).await
    }

    async fn history(&self, tenant: &TenantId, id: &ConversationId) -> Result<Vec<Entry>> {
        entries::of_conversation(&*self.0.database, &self.0.sealing, tenant, id).await
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<()> {
        let dialect = self.0.database.dialect();
        let key = self.0.sealing.current(tenant).await?;
        let mut transaction = self.lock_conversation(tenant, id).await?;
        let (id, key) = (Some(id.as_str()), key.as_deref());
        entries::add(&mut *transaction, dialect, tenant, None, id, &entries, key).await?;
        Ok(transaction.commit().await?)
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        item_id: &ItemId,
    ) -> Result<()> {
        let mut transaction = self.lock_conversation(tenant, id).await?;
        if !entries::take_out(&mut *transaction, tenant, id, Some(item_id)).await? {
            return Err(rolled_back(transaction, missing(item_id)).await);
        }
        Ok(transaction.commit().await?)
    }
}

impl Store {
    /// Deletes at most `most` conversations unused for `retention`. Returns how many.
    pub(crate) async fn forget_unused_conversations(
        &self,
        retention: Duration,
        most: usize,
    ) -> Result<usize> {
        let dialect = self.0.database.dialect();
        let age = Value::Integer(-micros(retention));
        let is_unused = format!(
            "used_at <= (select {}) and not exists
                 (select 1 from runs where runs.tenant = conversations.tenant
                  and runs.conversation_id = conversations.id and runs.state = 'active')",
            dialect.later("$1")
        );
        let sql = format!(
            "select tenant, id from conversations where {is_unused} order by used_at limit $2"
        );
        let unused = self.0.database.query(&sql, &values![age, most]).await?;
        let mut n_forgotten = 0;
        for row in &unused {
            let (tenant, id) = (TenantId::from(row.text(0)?), ConversationId::from(row.text(1)?));
            // It may have been used since.
            let lock = format!(
                "update conversations set used_at = used_at
                 where {is_unused} and tenant = $2 and id = $3 returning id"
            );
            let mut transaction = self.0.database.begin().await?;
            let values = values![age, &tenant, id.as_str()];
            if transaction.query(&lock, &values).await?.is_empty() {
                transaction.rollback().await;
                continue;
            }
            remove(&mut *transaction, &tenant, &id).await?;
            transaction.commit().await?;
            n_forgotten += 1;
        }
        Ok(n_forgotten)
    }

    async fn sealed_metadata(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: &BTreeMap<String, String>,
    ) -> Result<String> {
        let mut metadata = encode(metadata)?;
        if let Some(key) = self.0.sealing.current(tenant).await? {
            key.seal(Place::metadata(id), &mut metadata)?;
        }
        Ok(metadata)
    }

    async fn lock_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Box<dyn Transaction>> {
        let dialect = self.0.database.dialect();
        let mut transaction = self.0.database.begin().await?;
        match lock_row(&mut *transaction, dialect, tenant, id).await {
            Ok(()) => Ok(transaction),
            Err(refusal) => Err(rolled_back(transaction, refusal).await),
        }
    }
}

fn values_of<'a>(
    tenant: &'a TenantId,
    conversation: &'a ConversationRecord,
    metadata: &'a str,
) -> [Value<'a>; 4] {
    values![tenant, conversation.id.as_str(), conversation.created_at.as_micros(), metadata]
}
