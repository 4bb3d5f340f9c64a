//! What an append stores for receivers of webhooks, in its own transaction.

use std::{borrow::Cow, collections::HashSet};

use sha2::{Digest, Sha256};
use turnwire_contract::{
    CallId, Event, RecordedEvent, RunId, Seq, TenantId, Timestamp, WebhookEvent, WebhookRoute,
};

use crate::database::{DatabaseError, Dialect, RowsStatement, Transaction, Value};

/// An event for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewDelivery {
    id: String,
    tenant: TenantId,
    url: String,
    event: WebhookEvent,
    run_id: RunId,
    call_id: Option<CallId>,
    at: Timestamp,
}

/// Returns what `events` cause, if their run is of `tenant`.
pub(crate) fn caused_by<'a>(
    routes: &[WebhookRoute],
    tenant: &TenantId,
    events: impl IntoIterator<Item = &'a RecordedEvent>,
) -> Vec<NewDelivery> {
    let mut caused = Vec::new();
    if routes.iter().all(|route| route.tenant != *tenant) {
        return caused;
    }
    let events: Vec<&RecordedEvent> = events.into_iter().collect();
    // No person is asked about a call that is decided at once: its tool was approved earlier, or
    // nobody can be asked.
    let decided: HashSet<&CallId> = events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ApprovalResolved { call_id, .. } => Some(call_id),
            _ => None,
        })
        .collect();
    for recorded in &events {
        let (event, call_id) = match &recorded.event {
            Event::RunFinished { outcome, .. } => (WebhookEvent::of_end(outcome), None),
            Event::ApprovalRequested { call_id, .. } if !decided.contains(call_id) => {
                (WebhookEvent::ApprovalRequested, Some(call_id))
            }
            _ => continue,
        };
        let wanted = routes.iter().filter(|it| it.tenant == *tenant && it.events.contains(&event));
        caused.extend(wanted.map(|route| NewDelivery {
            id: id_of(&recorded.run_id, call_id.map(|_| recorded.seq), &route.url),
            tenant: tenant.clone(),
            url: route.url.clone(),
            event,
            run_id: recorded.run_id.clone(),
            call_id: call_id.cloned(),
            at: recorded.at,
        }));
    }
    caused
}

/// A run ends once, and any other event has its own `seq`. So an ID needs neither chance nor a
/// lookup, and a worker that repeats an append makes the same one.
fn id_of(run_id: &RunId, seq: Option<Seq>, url: &str) -> String {
    let mut hash = Sha256::new();
    let seq = seq.map(|seq| seq.to_string()).unwrap_or_default();
    for text in [run_id.as_str(), &seq, url] {
        // The length prefix separates adjacent texts.
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let hash = hex::encode(hash.finalize());
    format!("evt_{}", hash.get(..32).unwrap_or_default())
}

/// Stores deliveries of runs that are active, before their end is stored.
pub(crate) async fn store(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    deliveries: &[&NewDelivery],
) -> Result<(), DatabaseError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let rows = columns_of(deliveries);
    let column = |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|text| &**text).collect();
    let columns: [Vec<&str>; 7] = std::array::from_fn(column);
    let values = columns.each_ref().map(|column| Value::Texts(column));
    let sql = insert(&dialect.zip(&["$1", "$2", "$3", "$4", "$5", "$6", "$7"]));
    transaction.query(&sql, &values).await.map(drop)
}

/// Returns the statement of SQLite that does it, if there is something to do.
pub(crate) fn statement(
    deliveries: &[&NewDelivery],
) -> Result<Option<RowsStatement>, DatabaseError> {
    let is_needed = !deliveries.is_empty();
    is_needed.then(|| RowsStatement::new::<7>(&columns_of(deliveries), insert)).transpose()
}

fn insert(zipped: &str) -> String {
    format!(
        "insert into webhook_deliveries
             (id, tenant, url, event, run_id, call_id, created_at, due_at, status)
         select zipped.c1, runs.tenant, zipped.c2, zipped.c3, runs.id, nullif(zipped.c5, ''),
             cast(zipped.c6 as bigint), cast(zipped.c6 as bigint), 'pending'
         from {zipped} join runs on runs.id = zipped.c4 and runs.tenant = zipped.c7
         where runs.state = 'active'
         on conflict (id) do nothing"
    )
}

/// Returns the columns of each, in the order of [`insert`]. A second row with the same ID in one
/// statement is a conflict that PostgreSQL does not skip.
fn columns_of<'a>(deliveries: &[&'a NewDelivery]) -> Vec<[Cow<'a, str>; 7]> {
    let mut ids = HashSet::new();
    let new = deliveries.iter().filter(|it| ids.insert(it.id.as_str()));
    new.map(|it| {
        [
            Cow::from(&it.id),
            it.url.as_str().into(),
            it.event.as_str().into(),
            it.run_id.as_str().into(),
            it.call_id.as_ref().map_or("", CallId::as_str).into(),
            it.at.as_micros().to_string().into(),
            it.tenant.as_str().into(),
        ]
    })
    .collect()
}

#[cfg(test)]
#[path = "webhook_rows_tests.rs"]
mod tests;
