//! Conversations, and the row lock that serializes changes to each.
//!
//! Changing a conversation, or starting a run in it, holds its row lock until the commit. So the
//! entries of a conversation are in commit order.

use std::{collections::BTreeMap, time::Duration};

use turnwire_contract::{
    ConversationId, ConversationRecord, Entry, ItemId, RunId, StoreError, TenantId, Timestamp,
};

use crate::{
    Store,
    database::{Database, DatabaseError, Dialect, Row, Transaction, Value},
    entries,
    failures::{decode, encode, rolled_back},
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
) -> Result<i64, StoreError> {
    let sql = format!(
        "insert into conversations (tenant, id, created_at, used_at, metadata)
         values ($1, $2, $3, {}, '{{}}')
         on conflict (tenant, id) do update set used_at = excluded.used_at",
        dialect.now
    );
    let values = [Value::Tenant(tenant), Value::Text(id.as_str()), Value::Integer(now.as_micros())];
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
    let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
    let found = transaction.query(sql, &values).await?;
    Ok(found.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default())
}

/// Locks an existing, idle conversation.
async fn lock_row(
    transaction: &mut dyn Transaction,
    dialect: &Dialect,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<(), StoreError> {
    let sql = format!(
        "update conversations set used_at = {} where tenant = $1 and id = $2 returning id",
        dialect.now
    );
    let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
    if transaction.query(&sql, &values).await?.is_empty() {
        return Err(unknown(id));
    }
    must_be_idle(transaction, tenant, id).await
}

async fn must_be_idle(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<(), StoreError> {
    let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
    match transaction.query(BUSY_WITH, &values).await?.first() {
        Some(row) => Err(busy(id, row)?),
        None => Ok(()),
    }
}

const BUSY_WITH: &str = "select id from runs
                         where tenant = $1 and conversation_id = $2 and state = 'active'";

fn busy(id: &ConversationId, row: &Row) -> Result<StoreError, StoreError> {
    let run_id = RunId::from(row.text(0)?);
    Ok(StoreError::Busy { conversation_id: id.clone(), run_id })
}

fn unknown(id: &ConversationId) -> StoreError {
    StoreError::NotFound(format!("conversation `{id}`"))
}

fn missing(name: &ItemId) -> StoreError {
    StoreError::NotFound(format!("item `{name}`"))
}

/// Returns the active run of a conversation, if there is one.
pub(crate) async fn active_run(
    database: &dyn Database,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<Option<RunId>, StoreError> {
    let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
    let found = database.query(BUSY_WITH, &values).await?;
    Ok(found.first().map(|row| row.text(0)).transpose()?.map(RunId::from))
}

/// Deletes a locked conversation. Entries that belong to runs stay.
async fn remove(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    id: &ConversationId,
) -> Result<(), DatabaseError> {
    entries::take_out(transaction, tenant, id, None).await?;
    let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
    for sql in [
        "delete from allowed where tenant = $1 and conversation_id = $2",
        "delete from conversations where tenant = $1 and id = $2",
    ] {
        transaction.query(sql, &values).await?;
    }
    Ok(())
}

impl Store {
    pub(crate) async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: &ConversationRecord,
    ) -> Result<(), StoreError> {
        let metadata =
            self.sealed_metadata(tenant, &conversation.id, &conversation.metadata).await?;
        let sql = format!(
            "insert into conversations (tenant, id, created_at, metadata, used_at)
             values ($1, $2, $3, $4, {}) on conflict (tenant, id) do nothing returning id",
            self.0.database.dialect().now
        );
        let opened =
            self.0.database.query(&sql, &values_of(tenant, conversation, &metadata)).await?;
        if opened.is_empty() {
            return Err(StoreError::Exists(format!("conversation `{}`", conversation.id)));
        }
        Ok(())
    }

    pub(crate) async fn find_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        let sql = "select created_at, metadata from conversations where tenant = $1 and id = $2";
        let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| unknown(id))?;
        let created_at = Timestamp::from_micros(row.integer(0)?);
        let metadata = self.0.sealing.open(tenant, Place::metadata(id), row.text(1)?).await?;
        Ok(ConversationRecord { id: id.clone(), created_at, metadata: decode(&metadata)? })
    }

    pub(crate) async fn annotate(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "update conversations set metadata = $3, used_at = {} where tenant = $1 and id = $2
             returning id",
            self.0.database.dialect().now
        );
        let metadata = self.sealed_metadata(tenant, id, metadata).await?;
        let values = [Value::Tenant(tenant), Value::Text(id.as_str()), Value::Text(&metadata)];
        let changed = self.0.database.query(&sql, &values).await?;
        changed.first().map(drop).ok_or_else(|| unknown(id))
    }

    pub(crate) async fn drop_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        let mut transaction = self.lock_conversation(tenant, id).await?;
        remove(&mut *transaction, tenant, id).await?;
        Ok(transaction.commit().await?)
    }

    /// Deletes at most `most` conversations unused for `retention`. Returns how many.
    pub(crate) async fn forget_unused_conversations(
        &self,
        retention: Duration,
        most: usize,
    ) -> Result<usize, StoreError> {
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
        let most = Value::Integer(i64::try_from(most).unwrap_or(i64::MAX));
        let unused = self.0.database.query(&sql, &[age, most]).await?;
        let mut n_forgotten = 0;
        for row in &unused {
            let (tenant, id) = (TenantId::from(row.text(0)?), ConversationId::from(row.text(1)?));
            // It may have been used since.
            let lock = format!(
                "update conversations set used_at = used_at
                 where {is_unused} and tenant = $2 and id = $3 returning id"
            );
            let mut transaction = self.0.database.begin().await?;
            let values = [age, Value::Tenant(&tenant), Value::Text(id.as_str())];
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

    pub(crate) async fn add_to_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        added: &[Entry],
    ) -> Result<(), StoreError> {
        let dialect = self.0.database.dialect();
        let key = self.0.sealing.current(tenant).await?;
        let mut transaction = self.lock_conversation(tenant, id).await?;
        let (id, key) = (Some(id.as_str()), key.as_deref());
        entries::add(&mut *transaction, dialect, tenant, None, id, added, key).await?;
        Ok(transaction.commit().await?)
    }

    pub(crate) async fn take_from_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        name: &ItemId,
    ) -> Result<(), StoreError> {
        let mut transaction = self.lock_conversation(tenant, id).await?;
        if !entries::take_out(&mut *transaction, tenant, id, Some(name)).await? {
            return Err(rolled_back(transaction, missing(name)).await);
        }
        Ok(transaction.commit().await?)
    }

    pub(crate) async fn replace_conversation(
        &self,
        tenant: &TenantId,
        conversation: &ConversationRecord,
        all: &[Entry],
    ) -> Result<(), StoreError> {
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
        transaction.query(&sql, &values_of(tenant, conversation, &metadata)).await?;
        let id = &conversation.id;
        if let Err(refusal) = must_be_idle(&mut *transaction, tenant, id).await {
            return Err(rolled_back(transaction, refusal).await);
        }
        entries::take_out(&mut *transaction, tenant, id, None).await?;
        let (id, key) = (Some(id.as_str()), key.as_deref());
        entries::add(&mut *transaction, dialect, tenant, None, id, all, key).await?;
        Ok(transaction.commit().await?)
    }

    async fn sealed_metadata(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: &BTreeMap<String, String>,
    ) -> Result<String, StoreError> {
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
    ) -> Result<Box<dyn Transaction>, StoreError> {
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
    [
        Value::Tenant(tenant),
        Value::Text(conversation.id.as_str()),
        Value::Integer(conversation.created_at.as_micros()),
        Value::Text(metadata),
    ]
}
