//! Entries that runs and people add to conversations and to chains of runs.
//!
//! All entries are in one table, in insertion order. An entry belongs to a run, a conversation, or
//! both, and is deleted when it belongs to neither.
//!
//! A run may replace the end of its conversation. Entries that were replaced stay in the table, with
//! the position of the last entry at that time (`superseded_upto`): the conversation no longer has
//! them, and runs that began before it still have seen them.

use std::collections::HashSet;

use turnwire_contract::{ConversationId, Entry, ItemId, RunId, StoreError, TenantId};

use crate::{
    database::{Database, DatabaseError, Dialect, Row, Transaction, Value},
    failures::{decode, encode},
    sealing::{DataKey, Place, Sealing},
};

/// Encoded entries: ids and bodies.
#[derive(Debug, Default)]
pub(crate) struct EncodedEntries {
    names: Vec<String>,
    bodies: Vec<String>,
}

impl EncodedEntries {
    /// Encodes entries, and encrypts each if it has a key.
    pub(crate) fn new<'a>(
        entries: impl IntoIterator<Item = (&'a Entry, Option<&'a DataKey>)>,
    ) -> Result<Self, DatabaseError> {
        let (mut names, mut bodies) = (Vec::new(), Vec::new());
        // The column is only a lookup key, and no client can ask for an id with a NUL character. An
        // id invented by the model must not prevent the end of a run.
        for (entry, key) in entries {
            let (name, mut body) = (entry.id.as_str().replace('\0', "\u{fffd}"), encode(entry)?);
            if let Some(key) = key {
                key.seal(Place::entry(&name), &mut body)?;
            }
            names.push(name);
            bodies.push(body);
        }
        Ok(Self { names, bodies })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<&str> {
        self.bodies.iter().map(String::as_str).collect()
    }
}

/// Adds entries to a run, to a conversation, or to both.
pub(crate) async fn add(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    tenant: &TenantId,
    run_id: Option<&RunId>,
    conversation_id: Option<&str>,
    entries: &[Entry],
    key: Option<&DataKey>,
) -> Result<(), DatabaseError> {
    if entries.is_empty() {
        return Ok(());
    }
    let encode = EncodedEntries::new(entries.iter().map(|entry| (entry, key)))?;
    let sql = format!(
        "insert into entries (tenant, run_id, conversation_id, id, entry)
         select $1, $2, $3, zipped.c1, zipped.c2 from {} where true order by zipped.n",
        dialect.zip(&["$4", "$5"])
    );
    let values = [
        Value::Tenant(tenant),
        Value::OptionalText(run_id.map(RunId::as_str)),
        Value::OptionalText(conversation_id),
        Value::Texts(&encode.names()),
        Value::Texts(&encode.bodies()),
    ];
    transaction.query(&sql, &values).await.map(drop)
}

/// Removes all entries, or those with one id, from a conversation. Entries of a run stay with the
/// run. Returns whether there were any.
pub(crate) async fn take_out(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    conversation_id: &ConversationId,
    name: Option<&ItemId>,
) -> Result<bool, DatabaseError> {
    let one = if name.is_some() { "and id = $3" } else { "and $3 = ''" };
    let values = [
        Value::Tenant(tenant),
        Value::Text(conversation_id.as_str()),
        Value::Text(name.map_or("", ItemId::as_str)),
    ];
    let in_it = format!("tenant = $1 and conversation_id = $2 {one}");
    let gone = format!("delete from entries where {in_it} and run_id is null returning 1");
    let gone = transaction.query(&gone, &values).await?;
    let kept = format!("update entries set conversation_id = null where {in_it} returning 1");
    let kept = transaction.query(&kept, &values).await?;
    Ok(!gone.is_empty() || !kept.is_empty())
}

/// Marks the entry `from` of a conversation, and everything after it, as superseded. Returns whether
/// the conversation has it.
pub(crate) async fn supersede(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    conversation_id: &ConversationId,
    from: &ItemId,
) -> Result<bool, DatabaseError> {
    let sql = "update entries set superseded_upto =
                   (select max(position) from entries where tenant = $1 and conversation_id = $2)
               where tenant = $1 and conversation_id = $2 and superseded_upto is null
                   and position >=
                       (select min(position) from entries
                        where tenant = $1 and conversation_id = $2 and superseded_upto is null
                            and id = $3)
               returning 1";
    let values =
        [Value::Tenant(tenant), Value::Text(conversation_id.as_str()), Value::Text(from.as_str())];
    Ok(!transaction.query(sql, &values).await?.is_empty())
}

/// Returns the entries of a conversation that are not superseded.
pub(crate) async fn of_conversation(
    database: &dyn Database,
    sealing: &Sealing,
    tenant: &TenantId,
    conversation_id: &ConversationId,
) -> Result<Vec<Entry>, StoreError> {
    let sql = "select entry, id from entries where tenant = $1 and conversation_id = $2
               and superseded_upto is null order by position";
    let values = [Value::Tenant(tenant), Value::Text(conversation_id.as_str())];
    read(sealing, tenant, &database.query(sql, &values).await?).await
}

/// Returns the whole context of a run: its own entries, preceded by those that its conversation had
/// at its start, or by those of the run it continues, recursively.
pub(crate) async fn of_chain(
    database: &dyn Database,
    sealing: &Sealing,
    tenant: &TenantId,
    run_id: &RunId,
) -> Result<Vec<Entry>, StoreError> {
    // `cross join` makes SQLite start with the chain.
    let sql = "with recursive chain (id, continues, conversation_id, history_upto, depth) as (
                   select id, continues, conversation_id, history_upto, 0 from runs
                   where tenant = $1 and id = $2
                   union all
                   select r.id, r.continues, r.conversation_id, r.history_upto, c.depth + 1
                   from chain c join runs r on r.id = c.continues and r.tenant = $1
               )
               select entry, id from (
                   select c.depth as depth, e.position as position, e.entry as entry, e.id as id
                   from chain c cross join entries e where e.tenant = $1 and e.run_id = c.id
                   union all
                   select c.depth, e.position, e.entry, e.id
                   from chain c cross join entries e
                   where e.tenant = $1 and e.conversation_id = c.conversation_id
                       and e.position <= c.history_upto
                       and (e.superseded_upto is null or e.superseded_upto >= c.history_upto)
               ) as seen order by depth desc, position";
    let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
    read(sealing, tenant, &database.query(sql, &values).await?).await
}

/// Returns the entries with these ids, each once.
pub(crate) async fn named(
    database: &dyn Database,
    sealing: &Sealing,
    tenant: &TenantId,
    names: &[ItemId],
) -> Result<Vec<Entry>, StoreError> {
    let names: Vec<&str> = names.iter().map(ItemId::as_str).collect();
    let sql = format!(
        "select entry, id from entries where tenant = $1 and id in (select value from {})
         order by position",
        database.dialect().texts("$2")
    );
    let values = [Value::Tenant(tenant), Value::Texts(&names)];
    let mut found = read(sealing, tenant, &database.query(&sql, &values).await?).await?;
    let mut seen = HashSet::new();
    found.retain(|entry| seen.insert(entry.id.clone()));
    Ok(found)
}

/// Decodes the columns `entry, id`.
async fn read(
    sealing: &Sealing,
    tenant: &TenantId,
    rows: &[Row],
) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::with_capacity(rows.len());
    for row in rows {
        let entry = sealing.open(tenant, Place::entry(row.text(1)?), row.text(0)?).await?;
        entries.push(decode(&entry)?);
    }
    Ok(entries)
}
