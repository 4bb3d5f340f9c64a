//! `/v1/webhooks/deliveries`: what is sent to the receivers of a tenant, and how far it has come.
//!
//! Receivers are in the settings, and what sends is in `turnwire-tools`. Here it is only shown and
//! asked for again.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use turnwire_contract::{
    DeliveryQuery, DeliveryStatus, StoreError, Timestamp, WebhookDelivery, WebhookEvent,
};
use turnwire_surfaces::responses::ids::response_id;
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, Json, PathParams, QueryParams, Result,
    page::{Order, Page, checked_limit, unknown_entry},
};

module_routes! { [list] [redeliver] }

/// An event for one receiver.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct DeliveryLine {
    /// ID of the delivery. Every attempt sends it as `webhook-id`.
    id: String,
    /// Always `webhook.delivery`.
    object: &'static str,
    /// Type of the event.
    #[serde(rename = "type")]
    event: WebhookEvent,
    /// ID of the response that the event is about.
    response_id: String,
    /// ID of its run.
    run_id: String,
    /// ID of the call that waits, for `run.approval_requested`.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    /// Address of the receiver.
    url: String,
    /// How far it has come.
    status: DeliveryStatus,
    /// Number of attempts that have ended.
    attempts: u32,
    /// Time of the event, in RFC 3339 format.
    created_at: Timestamp,
    /// Time of the next attempt. While an attempt is made, when it is repeated if its server dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Timestamp>,
    /// Time of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt_at: Option<Timestamp>,
    /// HTTP status of the answer to the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<WebhookDelivery> for DeliveryLine {
    fn from(delivery: WebhookDelivery) -> Self {
        Self {
            id: delivery.delivery_id,
            object: "webhook.delivery",
            event: delivery.event,
            response_id: response_id(&delivery.run_id),
            run_id: delivery.run_id.to_string(),
            call_id: delivery.call_id.map(|call_id| call_id.to_string()),
            url: delivery.url,
            status: delivery.status,
            attempts: delivery.n_attempts,
            created_at: delivery.created_at,
            next_attempt_at: delivery.next_attempt_at,
            last_attempt_at: delivery.last_attempt_at,
            http_status: delivery.http_status,
            error: delivery.error,
        }
    }
}

/// Query parameters of a list of deliveries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct DeliveryListParams {
    /// ID of a delivery. The page starts after it.
    after: Option<String>,
    /// ID of a delivery. The page ends before it.
    before: Option<String>,
    /// Maximum number of deliveries, 1 to 100. Default: 20.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// Sort order by time of the event: `asc` (oldest first) or `desc` (newest first). Default:
    /// `desc`.
    #[param(inline)]
    order: Option<Order>,
    /// Only deliveries with this status: `pending`, `delivered` or `failed`.
    #[param(inline)]
    status: Option<DeliveryStatus>,
}

/// List webhook deliveries of the caller's tenant, newest first by default.
///
/// Deliveries are kept as long as their run.
#[utoipa::path(
    get,
    path = "/v1/webhooks/deliveries",
    params(DeliveryListParams),
    responses((status = 200, description = "A page of deliveries", body = Page<DeliveryLine>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<DeliveryListParams>,
) -> Result<Json<Page<DeliveryLine>>> {
    let most = checked_limit(params.limit)?;
    let query = DeliveryQuery {
        status: params.status,
        after: params.after,
        before: params.before,
        oldest_first: params.order == Some(Order::Asc),
        // One more tells whether there are more.
        most: most + 1,
    };
    let mut found = match &app.options().webhooks {
        Some(webhooks) => webhooks.outbox.deliveries(caller.tenant(), &query).await,
        None if query.after.is_some() || query.before.is_some() => {
            Err(StoreError::NotFound("delivery".to_owned()))
        }
        None => Ok(Vec::new()),
    }
    .map_err(|error| match error {
        StoreError::NotFound(_) => unknown_cursor(&query),
        other => other.into(),
    })?;
    let has_more = found.len() > most;
    found.truncate(most);
    let data: Vec<DeliveryLine> = found.into_iter().map(DeliveryLine::from).collect();
    let id = |line: Option<&DeliveryLine>| line.map(|line| line.id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    Ok(Json(Page { object: "list", data, first_id, last_id, has_more, turnwire: None }))
}

fn unknown_cursor(query: &DeliveryQuery) -> ApiError {
    let (name, id) = match (&query.after, &query.before) {
        (Some(id), None) => ("after", id.as_str()),
        (_, before) => ("before", before.as_deref().unwrap_or_default()),
    };
    unknown_entry(name, id)
}

/// Send a webhook again.
///
/// The delivery becomes pending with all its attempts, also if it was delivered or given up, and is
/// sent at once with the same ID.
#[utoipa::path(
    post,
    path = "/v1/webhooks/deliveries/{delivery_id}/redeliver",
    responses((status = 200, description = "The delivery", body = DeliveryLine))
)]
async fn redeliver(
    State(app): State<App>,
    caller: Caller,
    PathParams(delivery_id): PathParams<String>,
) -> Result<Json<DeliveryLine>> {
    let now = app.runs().now();
    let found = match &app.options().webhooks {
        Some(webhooks) => webhooks.outbox.redeliver(caller.tenant(), &delivery_id, now).await?,
        None => None,
    };
    let line = found.map(DeliveryLine::from);
    Ok(Json(line.ok_or_else(|| ApiError::not_found("Delivery", &delivery_id))?))
}
