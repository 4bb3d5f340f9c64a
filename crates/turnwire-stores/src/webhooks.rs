//! The outbox of webhooks: claims, attempts and lists. The rows come from `webhook_rows`.
//!
//! Times are those of the callers, as the times of events are: a clock that is wrong by seconds
//! moves an attempt, and a delivery that two processes send at the same time arrives twice with the
//! same ID.

use async_trait::async_trait;
use serde::Deserialize;
use tracing::warn;
use turnwire_contract::{
    CallId, ClaimedDelivery, DeliveryAttempt, DeliveryQuery, DeliveryStatus, FreeReceiver,
    NextAttempt, RecordedEvent, RunId, StoreError, TenantId, Timestamp, WebhookDelivery,
    WebhookOutbox,
};

use crate::{
    Result, Store,
    database::{DatabaseError, Row, Value, values},
    rows::new_tag,
    webhook_rows::{self, NewDelivery},
    workers::micros,
};

const COLUMNS: &str = "id, tenant, url, event, run_id, call_id, created_at, status, n_attempts,
                       due_at, last_attempt_at, http_status, error";

#[async_trait]
impl WebhookOutbox for Store {
    async fn claim_deliveries(
        &self,
        receivers: &[FreeReceiver],
        now: Timestamp,
    ) -> Result<Vec<ClaimedDelivery>> {
        let (mut claimed, mut has_claimed, mut failures) = (Vec::new(), false, Vec::new());
        for receiver in self.with_due(receivers, now).await? {
            match self.claim_for(receiver, now).await {
                Ok(more) => {
                    has_claimed = true;
                    claimed.extend(more);
                }
                Err(error) => {
                    // Without a database, waiting for each receiver would use up the claims so far.
                    let is_away = matches!(error, DatabaseError::Unavailable(_));
                    failures.push(error);
                    if is_away {
                        break;
                    }
                }
            }
        }
        // Those that are claimed must be sent.
        if !has_claimed && let Some(error) = failures.pop() {
            return Err(error.into());
        }
        for error in failures {
            warn!(%error, "claim of webhook deliveries failed, retried later");
        }
        Ok(claimed)
    }

    async fn record_attempt(
        &self,
        claimed: &ClaimedDelivery,
        attempt: &DeliveryAttempt,
    ) -> Result<bool> {
        let sql = "update webhook_deliveries set status = $3, due_at = $4, last_attempt_at = $5,
                       http_status = $6, error = $7, n_attempts = n_attempts + 1, claim = 0
                   where id = $1 and status = 'pending' and (claim = $2 or $3 = 'delivered')
                   returning id";
        let (status, due_at) = match attempt.next {
            NextAttempt::Delivered => (DeliveryStatus::Delivered, None),
            NextAttempt::At(time) => (DeliveryStatus::Pending, Some(time.as_micros())),
            NextAttempt::GivenUp => (DeliveryStatus::Failed, None),
        };
        let values = values![
            &claimed.delivery.delivery_id,
            claimed.claim,
            status.as_str(),
            due_at,
            attempt.at.as_micros(),
            attempt.http_status.map(i64::from),
            attempt.error.as_deref()
        ];
        Ok(!self.0.database.query(sql, &values).await?.is_empty())
    }

    async fn deliveries(
        &self,
        tenant: &TenantId,
        query: &DeliveryQuery,
    ) -> Result<Vec<WebhookDelivery>> {
        let mut values = values![tenant, query.most].to_vec();
        let mut conditions = vec!["d.tenant = $1".to_owned()];
        if let Some(status) = query.status {
            values.push(Value::Text(status.as_str()));
            conditions.push(format!("d.status = ${}", values.len()));
        }
        let (order, after, before) =
            if query.oldest_first { ("asc", '>', '<') } else { ("desc", '<', '>') };
        for (place, side) in [(&query.after, after), (&query.before, before)] {
            let Some(id) = place else { continue };
            self.must_exist(tenant, id).await?;
            values.push(Value::Text(id));
            conditions.push(format!(
                "(d.created_at, d.id) {side} (select b.created_at, b.id
                     from webhook_deliveries b where b.tenant = $1 and b.id = ${})",
                values.len()
            ));
        }
        let sql = format!(
            "select {COLUMNS} from webhook_deliveries d where {}
             order by d.created_at {order}, d.id {order} limit $2",
            conditions.join(" and ")
        );
        let found = self.0.database.query(&sql, &values).await?;
        Ok(found.iter().filter_map(readable).collect())
    }

    async fn redeliver(
        &self,
        tenant: &TenantId,
        delivery_id: &str,
        now: Timestamp,
    ) -> Result<Option<WebhookDelivery>> {
        let sql = format!(
            "update webhook_deliveries set status = 'pending', due_at = $3, n_attempts = 0,
                 claim = 0 where tenant = $1 and id = $2 returning {COLUMNS}"
        );
        let values = values![tenant, delivery_id, now.as_micros()];
        let found = match self.0.database.query(&sql, &values).await {
            // An id that cannot be stored cannot exist.
            Err(DatabaseError::InvalidValue(_)) => return Ok(None),
            found => found?,
        };
        self.0.delivery_added.notify_one();
        Ok(found.first().map(delivery).transpose()?)
    }

    async fn n_pending(&self) -> Result<u64> {
        let sql = "select count(*) from webhook_deliveries where status = 'pending'";
        let found = self.0.database.query(sql, &[]).await?;
        let n_pending = found.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default();
        Ok(u64::try_from(n_pending).unwrap_or_default())
    }

    async fn delivery_added(&self) {
        self.0.delivery_added.notified().await;
    }
}

impl Store {
    /// Returns what `events` cause for receivers of webhooks. Costs nothing if there are none.
    pub(crate) async fn deliveries_of(
        &self,
        tenant: &TenantId,
        events: impl IntoIterator<Item = &RecordedEvent>,
    ) -> Vec<NewDelivery> {
        let routes = &self.0.options.webhooks;
        if routes.is_empty() {
            return Vec::new();
        }
        let mut events = events.into_iter().peekable();
        let Some(run_id) = events.peek().map(|recorded| recorded.run_id.clone()) else {
            return Vec::new();
        };
        let caused = webhook_rows::caused_by(routes, tenant, events);
        if caused.is_empty() || self.is_response_stored(tenant, &run_id).await {
            return caused;
        }
        Vec::new()
    }

    /// Whether the response of a run can be retrieved later. If that is not known, it can: an event
    /// too many does less harm than one that is missing.
    async fn is_response_stored(&self, tenant: &TenantId, run_id: &RunId) -> bool {
        let sql = "select request from runs where tenant = $1 and id = $2";
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(sql, &values).await;
        let request = found.as_ref().ok().and_then(|found| found.first()?.text(0).ok());
        let request =
            request.and_then(|text| serde_json::from_str::<RequestSurfaceData>(text).ok());
        request.and_then(|request| request.surface_data.store).unwrap_or(true)
    }

    /// Returns the receivers that have something due.
    async fn with_due<'a>(
        &self,
        receivers: &'a [FreeReceiver],
        now: Timestamp,
    ) -> Result<Vec<&'a FreeReceiver>, DatabaseError> {
        if receivers.is_empty() {
            return Ok(Vec::new());
        }
        // Reading is cheap; in SQLite, starting a write transaction is not.
        let sql = format!(
            "select zipped.n from {} where exists
                 (select 1 from webhook_deliveries d where d.tenant = zipped.c1
                  and d.url = zipped.c2 and d.status = 'pending' and d.due_at <= $3)",
            self.0.database.dialect().zip(&["$1", "$2"])
        );
        let tenants: Vec<&str> = receivers.iter().map(|it| it.tenant.as_str()).collect();
        let urls: Vec<&str> = receivers.iter().map(|it| it.url.as_str()).collect();
        let values = values![&tenants, &urls, now.as_micros()];
        let found = self.0.database.query(&sql, &values).await?;
        let places = found.iter().map(|row| Ok(row.integer(0)? - 1));
        let places: Vec<i64> = places.collect::<Result<_, DatabaseError>>()?;
        let at = |place: &i64| receivers.get(usize::try_from(*place).ok()?);
        Ok(places.iter().filter_map(at).collect())
    }

    async fn claim_for(
        &self,
        receiver: &FreeReceiver,
        now: Timestamp,
    ) -> Result<Vec<ClaimedDelivery>, DatabaseError> {
        let dialect = self.0.database.dialect();
        let look = format!(
            "select r.id from webhook_deliveries r where r.tenant = $1 and r.url = $2
             and r.status = 'pending' and r.due_at <= $3 order by r.due_at limit $4{}",
            dialect.skip_locked
        );
        let values = values![&receiver.tenant, &receiver.url, now.as_micros(), receiver.most];
        let mut transaction = self.0.database.begin().await?;
        let found = transaction.query(&look, &values).await?;
        let ids: Vec<&str> = found.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
        if ids.is_empty() {
            transaction.rollback().await;
            return Ok(Vec::new());
        }
        let claim = new_tag();
        let take = format!(
            "update webhook_deliveries set claim = $2, due_at = $3
             where id in (select value from {}) returning {COLUMNS}",
            dialect.texts("$1")
        );
        let until = now.as_micros().saturating_add(micros(receiver.lease));
        let values = values![&ids, claim, until];
        let taken = transaction.query(&take, &values).await?;
        transaction.commit().await?;
        let taken = taken.iter().filter_map(readable);
        Ok(taken.map(|delivery| ClaimedDelivery { delivery, claim }).collect())
    }

    async fn must_exist(&self, tenant: &TenantId, delivery_id: &str) -> Result<()> {
        let sql = "select id from webhook_deliveries where tenant = $1 and id = $2";
        let values = values![tenant, delivery_id];
        match self.0.database.query(sql, &values).await?.first() {
            Some(_) => Ok(()),
            None => Err(StoreError::NotFound(format!("delivery `{delivery_id}`"))),
        }
    }
}

/// The part of a request that says whether its response is stored.
#[derive(Default, Deserialize)]
struct RequestSurfaceData {
    #[serde(rename = "echo", default)]
    surface_data: SurfaceDataFields,
}

#[derive(Default, Deserialize)]
struct SurfaceDataFields {
    store: Option<bool>,
}

/// Reads a delivery, unless a later version has written it in words that this one does not know.
fn readable(row: &Row) -> Option<WebhookDelivery> {
    let delivery_id = row.text(0).unwrap_or_default();
    let skipped = |error: &DatabaseError| {
        warn!(delivery_id, %error, "unreadable webhook delivery skipped");
    };
    delivery(row).inspect_err(skipped).ok()
}

fn delivery(row: &Row) -> Result<WebhookDelivery, DatabaseError> {
    let time = |n| Ok::<_, DatabaseError>(row.optional_integer(n)?.map(Timestamp::from_micros));
    let odd = |what: &str| DatabaseError::Failed(format!("unexpected {what} of a delivery"));
    Ok(WebhookDelivery {
        delivery_id: row.text(0)?.to_owned(),
        tenant: TenantId::from(row.text(1)?),
        url: row.text(2)?.to_owned(),
        event: row.text(3)?.parse().map_err(|_| odd("event"))?,
        run_id: RunId::from(row.text(4)?),
        call_id: row.optional_text(5)?.map(CallId::from),
        created_at: Timestamp::from_micros(row.integer(6)?),
        status: DeliveryStatus::of(row.text(7)?).ok_or_else(|| odd("status"))?,
        n_attempts: u32::try_from(row.integer(8)?).unwrap_or(u32::MAX),
        next_attempt_at: time(9)?,
        last_attempt_at: time(10)?,
        http_status: row.optional_integer(11)?.and_then(|status| status.try_into().ok()),
        error: row.optional_text(12)?.map(str::to_owned),
    })
}
