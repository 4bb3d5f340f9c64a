//! Entries that runs and people add to conversations and to chains of runs.
//!
//! All entries are in one table, in insertion order. An entry belongs to a run, a conversation, or
//! both, and is deleted when it belongs to neither.
//!
//! A run may replace the end of its conversation. Entries that were replaced stay in the table,
//! with the position of the last entry at that time (`superseded_upto`): the conversation no longer
//! has them, and runs that began before it still have seen them.
//!
//! The input of a run is its first entries. If it is long, its items are in an
//! [input list](crate::input_lists), and one row stands for all of them ([`InputEntries`]). In
//! conversations every entry has its own row, because each can be deleted; so it has in runs that
//! continue another, whose input is only what is new.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use turnwire_contract::{ConversationId, Entry, ItemId, RunId, StoreError, TenantId};

use crate::{
    database::{Database, DatabaseError, Dialect, Result, Row, Transaction, values},
    failures::{decode, encode},
    input_lists::{self, SHARED_FROM},
    sealing::{DataKey, Place, Sealing},
};

/// The first entries of a run, as the first items of the list that its request has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputEntries {
    input_list: String,
    n: usize,
}

/// Begins the name of a row that stands for the input of a run. As in the names of the entries
/// themselves, the run follows.
const INPUT: &str = "input_";

/// Whether an entry `e` is such a row, in SQL.
pub(crate) const IS_INPUT: &str = "substr(e.id, 1, 6) = 'input_'";

fn input_name(run: &str) -> String {
    format!("{INPUT}{run}")
}

/// Takes the input out of what a run adds at its end, if one row can stand for it.
pub(crate) async fn take_input(
    database: &dyn Database,
    tenant: &TenantId,
    run_id: &RunId,
    entries: &mut Vec<Entry>,
) -> Result<Option<InputEntries>> {
    let n_input = n_input_entries(run_id, entries);
    if n_input < 2 || !are_long(entries.iter().take(n_input))? {
        return Ok(None);
    }
    let sql = "select l.id, l.n_items from runs r
               join input_lists l on l.tenant = r.tenant and l.id = r.input_list
               where r.tenant = $1 and r.id = $2
                   and r.conversation_id is null and r.continues is null";
    let values = values![tenant, run_id.as_str()];
    let found = database.query(sql, &values).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let n = n_input.min(usize::try_from(row.integer(1)?).unwrap_or_default());
    entries.drain(..n);
    Ok(Some(InputEntries { input_list: row.text(0)?.to_owned(), n }))
}

/// Returns how many of the first entries are input, which their names tell.
fn n_input_entries(run_id: &RunId, entries: &[Entry]) -> usize {
    let run = Entry::run_part(run_id);
    let is_input = |(n, entry): &(usize, &Entry)| {
        place_in_input(&entry.id).is_some_and(|(of, place)| of == run && place == *n)
    };
    entries.iter().enumerate().take_while(is_input).count()
}

/// Returns the run of an input entry and its place there, counted from 0, if it may be one.
fn place_in_input(id: &ItemId) -> Option<(&str, usize)> {
    let (_, rest) = id.as_str().split_once('_')?;
    let (run, place) = rest.rsplit_once('_')?;
    Some((run, place.parse().ok()?))
}

fn are_long<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<bool> {
    let mut n_bytes = 0;
    for entry in entries {
        n_bytes += encode(&entry.item)?.len();
        if n_bytes >= SHARED_FROM {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Encoded entries: ids and bodies.
#[derive(Debug, Default)]
pub(crate) struct EncodedEntries {
    names: Vec<String>,
    bodies: Vec<String>,
}

impl EncodedEntries {
    /// Encodes an entry, and encrypts it if there is a key.
    pub(crate) fn add(&mut self, entry: &Entry, key: Option<&DataKey>) -> Result<()> {
        // The column is only a lookup key, and no client can ask for an id with a NUL character. An
        // id invented by the model must not prevent the end of a run.
        self.add_row(entry.id.as_str().replace('\0', "\u{fffd}"), encode(entry)?, key)
    }

    /// Encodes the row that stands for the input of a run.
    pub(crate) fn add_input(
        &mut self,
        run_id: &RunId,
        input: &InputEntries,
        key: Option<&DataKey>,
    ) -> Result<()> {
        self.add_row(input_name(Entry::run_part(run_id)), encode(input)?, key)
    }

    fn add_row(&mut self, name: String, mut body: String, key: Option<&DataKey>) -> Result<()> {
        if let Some(key) = key {
            key.seal(Place::entry(&name), &mut body)?;
        }
        self.names.push(name);
        self.bodies.push(body);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
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
) -> Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut encoded = EncodedEntries::default();
    for entry in entries {
        encoded.add(entry, key)?;
    }
    let sql = format!(
        "insert into entries (tenant, run_id, conversation_id, id, entry)
         select $1, $2, $3, zipped.c1, zipped.c2 from {} where true order by zipped.n",
        dialect.zip(&["$4", "$5"])
    );
    let (run_id, names, bodies) = (run_id.map(RunId::as_str), encoded.names(), encoded.bodies());
    let values = values![tenant, run_id, conversation_id, &names, &bodies];
    transaction.query(&sql, &values).await.map(drop)
}

/// Removes all entries, or those with one id, from a conversation. Entries of a run stay with the
/// run. Returns whether there were any.
pub(crate) async fn take_out(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    conversation_id: &ConversationId,
    name: Option<&ItemId>,
) -> Result<bool> {
    let one = if name.is_some() { "and id = $3" } else { "and $3 = ''" };
    let values = values![tenant, conversation_id.as_str(), name.map_or("", ItemId::as_str)];
    let in_it = format!("tenant = $1 and conversation_id = $2 {one}");
    let gone = format!("delete from entries where {in_it} and run_id is null returning 1");
    let gone = transaction.query(&gone, &values).await?;
    let kept = format!("update entries set conversation_id = null where {in_it} returning 1");
    let kept = transaction.query(&kept, &values).await?;
    Ok(!gone.is_empty() || !kept.is_empty())
}

/// Marks the entry `from` of a conversation, and everything after it, as superseded. Returns
/// whether the conversation has it.
pub(crate) async fn supersede(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    conversation_id: &ConversationId,
    from: &ItemId,
) -> Result<bool> {
    let sql = "update entries set superseded_upto =
                   (select max(position) from entries where tenant = $1 and conversation_id = $2)
               where tenant = $1 and conversation_id = $2 and superseded_upto is null
                   and position >=
                       (select min(position) from entries
                        where tenant = $1 and conversation_id = $2 and superseded_upto is null
                            and id = $3)
               returning 1";
    let values = values![tenant, conversation_id.as_str(), from.as_str()];
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
    let values = values![tenant, conversation_id.as_str()];
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
    let values = values![tenant, run_id.as_str()];
    read(sealing, tenant, &database.query(sql, &values).await?).await
}

/// Returns the entries with these ids, each once.
pub(crate) async fn named(
    database: &dyn Database,
    sealing: &Sealing,
    tenant: &TenantId,
    names: &[ItemId],
) -> Result<Vec<Entry>, StoreError> {
    let wanted: HashSet<&str> = names.iter().map(ItemId::as_str).collect();
    let inputs: HashSet<String> =
        names.iter().filter_map(place_in_input).map(|(run, _)| input_name(run)).collect();
    let names: Vec<&str> =
        wanted.iter().copied().chain(inputs.iter().map(String::as_str)).collect();
    let sql = format!(
        "select entry, id from entries where tenant = $1 and id in (select value from {})
         order by position",
        database.dialect().texts("$2")
    );
    let values = values![tenant, &names];
    let mut found = read(sealing, tenant, &database.query(&sql, &values).await?).await?;
    let mut seen = HashSet::new();
    found.retain(|entry| wanted.contains(entry.id.as_str()) && seen.insert(entry.id.clone()));
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
        let (entry, name) = (row.text(0)?, row.text(1)?);
        let entry = sealing.open(tenant, Place::entry(name), entry).await?;
        if name.starts_with(INPUT)
            && let Ok(InputEntries { input_list, n }) = decode(&entry)
        {
            let input = input_lists::read_items(sealing, tenant, &input_list).await?;
            let mut input = input.ok_or_else(|| unreadable(&input_list))?;
            input.truncate(n);
            // All that counts of the name is the run in it.
            entries.extend(Entry::of_input(&RunId::from(name), &input));
        } else {
            entries.push(decode(&entry)?);
        }
    }
    Ok(entries)
}

fn unreadable(input_list: &str) -> DatabaseError {
    DatabaseError::Failed(format!("the input list `{input_list}` cannot be read"))
}
