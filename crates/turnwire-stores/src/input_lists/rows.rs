//! Lists in the database.
//!
//! A run is created in one transaction with the list that it has, and a list is deleted in one
//! transaction with the last run that has it. Row locks of PostgreSQL keep one from continuing what
//! the other deletes, and deletions of a tenant's lists take turns; SQLite has one writer at a
//! time. A preamble is a list of no items.

use std::{collections::HashSet, iter};

use serde::de::DeserializeOwned;
use tracing::error;
use turnwire_contract::{Item, RunId, TenantId};

use super::{Part, SharedIds, SharedParts, SharedRequest};
use crate::{
    database::{Database, DatabaseError, Dialect, Result, Row, Transaction, Value, values},
    failures::decode,
    sealing::{DataKey, Place, Sealing},
};

/// Preambles first, then the longest list: the order in which everybody locks rows.
const LOCK_ORDER: &str = "n_items > 0, n_items desc";

/// Tenant and ID of a list.
pub(crate) type ListKey = (String, String);

/// Stores what of `request` is not stored yet. Until the commit nobody deletes it.
pub(crate) async fn hold(
    transaction: &mut dyn Transaction,
    dialect: &Dialect,
    tenant: &TenantId,
    request: &SharedRequest,
    key: Option<&DataKey>,
) -> Result<()> {
    let ids: Vec<&str> = request.items.iter().map(|item| item.id.as_str()).collect();
    // The preamble, and of all lists that the input begins with the longest. If that one is deleted
    // meanwhile, the whole input is inserted.
    let stored = format!("tenant = $1 and id in (select value from {})", dialect.texts("$2"));
    let sql = format!(
        "select n_items, (select count(*) from input_lists where {stored}) from input_lists
         where tenant = $1 and (id = $3 or id =
             (select id from input_lists where {stored} order by n_items desc limit 1))
         order by {LOCK_ORDER}{}",
        dialect.for_share
    );
    let preamble = &request.preamble;
    let values = values![tenant, &ids, &preamble.id];
    let (mut has_preamble, mut n_stored) = (false, 0);
    for row in transaction.query(&sql, &values).await? {
        let (n_items, n_found) = (row.integer(0)?, row.integer(1)?);
        has_preamble |= n_items == 0;
        // If one is missing in between, all are stored again.
        if n_items == n_found {
            n_stored = usize::try_from(n_items).unwrap_or_default();
        }
    }
    let mut rows = NewRows { key, ..NewRows::default() };
    if !has_preamble {
        rows.add(preamble, "", 0)?;
    }
    let parents = iter::once("").chain(ids.iter().copied());
    let items: Vec<_> = request.items.iter().zip(parents).zip(1..).skip(n_stored).collect();
    for ((item, parent), n_items) in items.into_iter().rev() {
        rows.add(item, parent, n_items)?;
    }
    rows.insert(transaction, dialect, tenant).await
}

/// Columns of new lists.
#[derive(Default)]
struct NewRows<'a> {
    key: Option<&'a DataKey>,
    ids: Vec<&'a str>,
    parents: Vec<&'a str>,
    n_items: Vec<String>,
    items: Vec<String>,
}

impl<'a> NewRows<'a> {
    fn add(&mut self, part: &'a Part, parent: &'a str, n: usize) -> Result<()> {
        let mut item = part.body.clone();
        if let Some(key) = self.key {
            key.seal(Place::input_list(&part.id), &mut item)?;
        }
        self.ids.push(&part.id);
        self.parents.push(parent);
        self.n_items.push(n.to_string());
        self.items.push(item);
        Ok(())
    }

    async fn insert(
        &self,
        transaction: &mut dyn Transaction,
        dialect: &Dialect,
        tenant: &TenantId,
    ) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        // One that somebody else has just stored is only locked.
        let sql = format!(
            "insert into input_lists (tenant, id, parent, n_items, item)
             select $1, zipped.c1, nullif(zipped.c2, ''), cast(zipped.c3 as bigint), zipped.c4
             from {} where true order by zipped.n
             on conflict (tenant, id) do update set n_items = excluded.n_items",
            dialect.zip(&["$2", "$3", "$4", "$5"])
        );
        let n_items: Vec<&str> = self.n_items.iter().map(String::as_str).collect();
        let items: Vec<&str> = self.items.iter().map(String::as_str).collect();
        let values = values![tenant, &self.ids, &self.parents, &n_items, &items];
        transaction.query(&sql, &values).await.map(drop)
    }
}

/// What was taken out of a request.
pub(crate) enum Shared {
    /// With the number of its bytes.
    Read(SharedParts, usize),
    Damaged,
    /// The run has been deleted since its row was read.
    RunDeleted,
}

/// Reads what was taken out of the request of a run.
pub(crate) async fn read(
    sealing: &Sealing,
    tenant: &TenantId,
    run_id: &RunId,
    ids: &SharedIds,
) -> Result<Shared> {
    let input_list = ids.input_list.as_deref().unwrap_or_default();
    let stored = StoredParts::read(sealing, tenant, &ids.preamble, input_list).await?;
    let decoded = stored.as_ref().and_then(|stored| {
        let (preamble, items) = stored.bodies.split_first()?;
        let preamble = stored.decoded(preamble)?;
        let input = items.iter().map(|item| stored.decoded(item)).collect::<Option<_>>()?;
        let n_bytes = stored.bodies.iter().map(String::len).sum();
        Some(Shared::Read(SharedParts { preamble, input }, n_bytes))
    });
    if let Some(decoded) = decoded {
        return Ok(decoded);
    }
    let sql = "select id from runs where tenant = $1 and id = $2 and state <> 'hidden'";
    let values = values![tenant, run_id.as_str()];
    if sealing.database().query(sql, &values).await?.is_empty() {
        return Ok(Shared::RunDeleted);
    }
    error!(%tenant, %run_id, ?ids, "a part of the request is missing or cannot be read");
    Ok(Shared::Damaged)
}

/// Reads the items of a list. `None` if it is damaged.
pub(crate) async fn read_items(
    sealing: &Sealing,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Vec<Item>>> {
    let stored = StoredParts::read(sealing, tenant, "", id).await?;
    Ok(stored.and_then(|stored| stored.bodies.iter().map(|item| stored.decoded(item)).collect()))
}

/// The bodies of a preamble, if there is one, and of all items of a list.
struct StoredParts<'a> {
    tenant: &'a TenantId,
    bodies: Vec<String>,
}

impl<'a> StoredParts<'a> {
    /// Reads both by their IDs, which may be empty. `None` if something is missing.
    async fn read(
        sealing: &Sealing,
        tenant: &'a TenantId,
        preamble: &str,
        input_list: &str,
    ) -> Result<Option<Self>> {
        let sql = "with recursive up (id, parent, n_items, item) as (
                       select id, parent, n_items, item from input_lists
                       where tenant = $1 and id in ($2, $3)
                       union all
                       select l.id, l.parent, l.n_items, l.item
                       from up join input_lists l on l.tenant = $1 and l.id = up.parent
                   )
                   select id, item, n_items from up order by n_items";
        let values = values![tenant, preamble, input_list];
        let rows = sealing.database().query(sql, &values).await?;
        let mut bodies = Vec::with_capacity(rows.len());
        for row in &rows {
            let item = sealing.open(tenant, Place::input_list(row.text(0)?), row.text(1)?).await?;
            bodies.push(item.into_owned());
        }
        // The last one says how many there are.
        let n_items = rows.last().map(|row| row.integer(2)).transpose()?.unwrap_or_default();
        let n_items = usize::try_from(n_items).unwrap_or_default();
        let n_rows = n_items + usize::from(!preamble.is_empty());
        if rows.len() != n_rows || (n_items == 0) != input_list.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { tenant, bodies }))
    }

    fn decoded<T: DeserializeOwned>(&self, body: &str) -> Option<T> {
        let report = |error: &DatabaseError| {
            error!(tenant = %self.tenant, %error, "an item of an input list cannot be read");
        };
        decode(body).inspect_err(report).ok()
    }
}

/// Deletes those of `lists` that no run has and no other list continues, then those that only they
/// continued, and so on.
pub(crate) async fn delete_unused(
    transaction: &mut dyn Transaction,
    dialect: &Dialect,
    mut lists: Vec<ListKey>,
) -> Result<()> {
    if lists.is_empty() {
        return Ok(());
    }
    // One deletion at a time, so that the second one sees what the first one has deleted.
    if let Some(lock_tenants) = dialect.lock_tenants {
        let tenants: Vec<&str> = lists.iter().map(|(tenant, _)| tenant.as_str()).collect();
        transaction.query(lock_tenants, &values![&tenants]).await?;
    }
    let unused = unused(dialect);
    let lock = format!(
        "select tenant, id from input_lists where (tenant, id) in ({unused})
         order by {LOCK_ORDER}, tenant, id{}",
        dialect.for_update
    );
    // Asked again after the lock, because a run may have come to have one meanwhile.
    let delete = format!(
        "delete from input_lists where (tenant, id) in ({unused})
         and (tenant, id) in (select zipped.c1, zipped.c2 from {})
         returning tenant, id, parent",
        dialect.zip(&["$3", "$4"])
    );
    while !lists.is_empty() {
        let columns = Columns::of(&lists);
        let [tenants, ids] = columns.values();
        let locked = transaction.query(&lock, &[tenants, ids]).await?;
        let locked = locked.iter().map(list_key).collect::<Result<Vec<_>, _>>()?;
        if locked.is_empty() {
            break;
        }
        let of_locked = Columns::of(&locked);
        let [locked_tenants, locked_ids] = of_locked.values();
        let values = [tenants, ids, locked_tenants, locked_ids];
        let gone = transaction.query(&delete, &values).await?;
        lists = parents_of(&gone)?;
    }
    Ok(())
}

/// How many lists [`find_unused`] looks at.
const LOOKED_AT: i64 = 10_000;

/// Looks at some lists after `from` for those that nobody needs. Returns them, and where to go on.
pub(crate) async fn find_unused(
    database: &dyn Database,
    from: &ListKey,
) -> Result<(Vec<ListKey>, ListKey)> {
    let sql = "select tenant, id from input_lists where (tenant, id) > ($1, $2)
               order by tenant, id limit 1 offset $3";
    let (tenant, id) = (Value::Text(&from.0), Value::Text(&from.1));
    let next = database.query(sql, &values![tenant, id, LOOKED_AT]).await?;
    let next = next.first().map(list_key).transpose()?;
    let sql = format!(
        "select l.tenant, l.id from input_lists l
         where (l.tenant, l.id) > ($1, $2) and {} and {NO_RUN} and {NO_CHILD}",
        if next.is_some() { "(l.tenant, l.id) <= ($3, $4)" } else { "$3 = $4" }
    );
    let (until_tenant, until_id) = next.as_ref().map_or(("", ""), |(tenant, id)| (tenant, id));
    let values = values![tenant, id, until_tenant, until_id];
    let unused = database.query(&sql, &values).await?;
    let unused = unused.iter().map(list_key).collect::<Result<_, _>>()?;
    Ok((unused, next.unwrap_or_default()))
}

/// Conditions for a list `l`.
const NO_RUN: &str = "not exists
    (select 1 from runs r where r.tenant = l.tenant and r.input_list = l.id)
    and not exists (select 1 from runs r where r.tenant = l.tenant and r.preamble = l.id)";
const NO_CHILD: &str =
    "not exists (select 1 from input_lists c where c.tenant = l.tenant and c.parent = l.id)";

/// Selects those of the lists `$1`, `$2` that nobody needs, and the lists that only these continue.
fn unused(dialect: &Dialect) -> String {
    format!(
        "with recursive unused (tenant, id, parent) as (
             select l.tenant, l.id, l.parent from input_lists l
             where (l.tenant, l.id) in (select zipped.c1, zipped.c2 from {}) and {NO_RUN} and {NO_CHILD}
             union all
             select l.tenant, l.id, l.parent
             from unused u join input_lists l on l.tenant = u.tenant and l.id = u.parent
             where {NO_RUN} and not exists
                 (select 1 from input_lists c
                  where c.tenant = l.tenant and c.parent = l.id and c.id <> u.id)
         )
         select tenant, id from unused",
        dialect.zip(&["$1", "$2"])
    )
}

/// Returns what the deleted lists continued, unless it is deleted, too.
fn parents_of(gone: &[Row]) -> Result<Vec<ListKey>> {
    let deleted = gone.iter().map(list_key).collect::<Result<HashSet<_>, _>>()?;
    let mut parents = HashSet::new();
    for row in gone {
        let Some(parent) = row.optional_text(2)? else { continue };
        parents.insert((row.text(0)?.to_owned(), parent.to_owned()));
    }
    Ok(parents.difference(&deleted).cloned().collect())
}

/// Decodes the columns `tenant, id`.
pub(crate) fn list_key(row: &Row) -> Result<ListKey> {
    Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
}

/// Keys of lists as parameters.
struct Columns<'a> {
    tenants: Vec<&'a str>,
    ids: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(lists: &'a [ListKey]) -> Self {
        Self {
            tenants: lists.iter().map(|(tenant, _)| tenant.as_str()).collect(),
            ids: lists.iter().map(|(_, id)| id.as_str()).collect(),
        }
    }

    fn values(&self) -> [Value<'_>; 2] {
        values![&self.tenants, &self.ids]
    }
}
