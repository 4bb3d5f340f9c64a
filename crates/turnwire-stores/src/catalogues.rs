//! Long lists of tools: each is stored once for all runs of a tenant that have it.
//!
//! A server with a hundred tools tells the same with every run. If that takes [`SHARED_FROM`] bytes
//! or more, the list is a row of its own, and the event of the run has its ID, which is a hash of
//! its content. If contents are encrypted, so is the list, and the hash has a key
//! ([`input_lists`](crate::input_lists) does the same with requests).
//!
//! A run is noted with the list before its event is appended, and forgotten when it is deleted.
//! Retention deletes lists that no run has. The last run that has one does not: a run that is not
//! stored is deleted when it ends, and the next one has the same tools.
//!
//! Lists are internal to this crate: an event is always returned whole.

use std::sync::Arc;

use serde::Serialize;
use tracing::error;
use turnwire_contract::{
    DiscoveryOutcome, Event, Failure, RecordedEvent, RunId, Seq, TenantId, ToolSpec,
};

use crate::{
    database::{Database, Dialect, Result, values},
    failures::{decode, encode},
    input_lists::{content_id, list_key},
    nesting::{MAX_NESTING, nesting},
    sealing::{DataKey, Place, Sealing},
};

/// Shorter lists are stored with their event.
const SHARED_FROM: usize = 2 * 1024;

/// Stands for the parent in the hash of a list.
const CATALOGUE: &str = "catalogue";

/// Lists deleted per transaction.
const AT_ONCE: usize = 20;

/// What an event has instead of its list. A version before this one takes it for the IDs of a
/// request and ignores it: it reads that the tools could not be listed.
#[derive(Debug, Serialize)]
pub(crate) struct CatalogueRef<'a> {
    preamble: &'static str,
    catalogue: &'a str,
}

/// A list that an event has.
#[derive(Debug)]
pub(crate) struct Catalogue {
    seq: Seq,
    id: String,
    body: String,
}

impl Catalogue {
    /// Returns the list of an event, if it is worth a row of its own.
    pub(crate) fn of(recorded: &RecordedEvent, key: Option<&DataKey>) -> Result<Option<Self>> {
        let Some(tools) = listed(&recorded.event) else { return Ok(None) };
        // Most lists are longer, and few of those that are not have many tools.
        let body = encode(&tools)?;
        // One that could not be read again is refused with its event.
        if body.len() < SHARED_FROM || nesting(&body) > MAX_NESTING {
            return Ok(None);
        }
        let id = content_id(key, CATALOGUE, &body)?;
        Ok(Some(Self { seq: recorded.seq, id, body }))
    }

    /// Notes that the run has the list, and stores it if nobody has.
    pub(crate) async fn hold(
        &self,
        database: &dyn Database,
        tenant: &TenantId,
        run_id: &RunId,
        key: Option<&DataKey>,
    ) -> Result<HeldCatalogue> {
        let dialect = database.dialect();
        let note = format!(
            "insert into run_catalogues (tenant, run_id, catalogue)
             select c.tenant, $2, c.id from catalogues c where c.tenant = $1 and c.id = $3{}
             on conflict (run_id, catalogue) do update set tenant = excluded.tenant
             returning catalogue",
            dialect.for_share
        );
        let noted = values![tenant, run_id.as_str(), &self.id];
        if database.query(&note, &noted).await?.is_empty() {
            let mut body = self.body.clone();
            if let Some(key) = key {
                key.seal(Place::catalogue(&self.id), &mut body)?;
            }
            let mut transaction = database.begin().await?;
            // One that somebody else has just stored is only locked.
            let store = "insert into catalogues (tenant, id, tools) values ($1, $2, $3)
                         on conflict (tenant, id) do update set id = excluded.id";
            transaction.query(store, &values![tenant, &self.id, &body]).await?;
            transaction.query(&note, &noted).await?;
            transaction.commit().await?;
        }
        Ok(HeldCatalogue { seq: self.seq, id: self.id.clone(), n_bytes: self.body.len() })
    }
}

/// A list that is stored, and noted with the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldCatalogue {
    pub(crate) seq: Seq,
    id: String,
    pub(crate) n_bytes: usize,
}

impl HeldCatalogue {
    /// Lets those who read the list share that of the event which has it.
    pub(crate) fn share(&self, sealing: &Sealing, tenant: &TenantId, event: &Event) {
        if let Some(tools) = listed(event) {
            sealing.known_tools.add(tenant, &self.id, tools, self.n_bytes);
        }
    }

    pub(crate) fn reference(&self) -> CatalogueRef<'_> {
        CatalogueRef { preamble: "", catalogue: &self.id }
    }
}

/// Returns the event without its list, as it is stored beside a [`CatalogueRef`].
pub(crate) fn without_list(event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::ToolsDiscovered { outcome, .. } = &mut event {
        *outcome = DiscoveryOutcome::Failed { failure: Failure::journal_unreadable() };
    }
    event
}

fn listed(event: &Event) -> Option<&[Arc<ToolSpec>]> {
    match event {
        Event::ToolsDiscovered { outcome: DiscoveryOutcome::Listed { tools }, .. } => Some(tools),
        _ => None,
    }
}

/// Puts the list back into an event. Returns the number of its bytes, or `None` if the run has been
/// deleted since its row was read.
pub(crate) async fn join(
    sealing: &Sealing,
    tenant: &TenantId,
    run_id: &RunId,
    id: &str,
    event: &mut Event,
) -> Result<Option<usize>> {
    if let Event::ToolsDiscovered { outcome, .. } = event
        && let Some((tools, n_bytes)) = read(sealing, tenant, id).await?
    {
        *outcome = DiscoveryOutcome::Listed { tools };
        return Ok(Some(n_bytes));
    }
    let sql = "select id from runs where tenant = $1 and id = $2 and state <> 'hidden'";
    let values = values![tenant, run_id.as_str()];
    if sealing.database().query(sql, &values).await?.is_empty() {
        return Ok(None);
    }
    error!(%tenant, %run_id, catalogue = id, "a list of tools is missing or cannot be read");
    *event = Event::unreadable();
    Ok(Some(0))
}

/// `None` if it is not there or cannot be read.
async fn read(
    sealing: &Sealing,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<(Vec<Arc<ToolSpec>>, usize)>> {
    if let Some(known) = sealing.known_tools.find(tenant, id) {
        return Ok(Some(known));
    }
    let sql = "select tools from catalogues where tenant = $1 and id = $2";
    let rows = sealing.database().query(sql, &values![tenant, id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let body = sealing.open(tenant, Place::catalogue(id), row.text(0)?).await?;
    let Ok(tools) = decode::<Vec<Arc<ToolSpec>>>(&body) else { return Ok(None) };
    sealing.known_tools.add(tenant, id, &tools, body.len());
    Ok(Some((tools, body.len())))
}

/// Deletes lists that no run has.
pub(crate) async fn delete_unused(database: &dyn Database) -> Result<()> {
    let dialect = database.dialect();
    while delete_some(database, dialect).await? == AT_ONCE {}
    Ok(())
}

async fn delete_some(database: &dyn Database, dialect: &Dialect) -> Result<usize> {
    // A version before this one deletes runs without what is noted with them.
    let unused = "not exists (select 1 from run_catalogues h join runs r on r.id = h.run_id
                              where h.tenant = c.tenant and h.catalogue = c.id)";
    let mut transaction = database.begin().await?;
    let sql = format!(
        "select c.tenant, c.id from catalogues c where {unused} order by c.tenant, c.id limit $1{}",
        dialect.for_update
    );
    let found = transaction.query(&sql, &values![AT_ONCE]).await?;
    if found.is_empty() {
        transaction.rollback().await;
        return Ok(0);
    }
    let keys = found.iter().map(list_key).collect::<Result<Vec<_>>>()?;
    let tenants: Vec<&str> = keys.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let ids: Vec<&str> = keys.iter().map(|(_, id)| id.as_str()).collect();
    // Asked again after the lock, because a run may have come to have one meanwhile.
    let these = format!("(select zipped.c1, zipped.c2 from {})", dialect.zip(&["$1", "$2"]));
    let delete =
        format!("delete from catalogues as c where (c.tenant, c.id) in {these} and {unused}");
    transaction.query(&delete, &values![&tenants, &ids]).await?;
    let forget = format!(
        "delete from run_catalogues where (tenant, catalogue) in {these} and not exists
             (select 1 from catalogues c where c.tenant = run_catalogues.tenant
              and c.id = run_catalogues.catalogue)"
    );
    transaction.query(&forget, &values![&tenants, &ids]).await?;
    transaction.commit().await?;
    Ok(found.len())
}
