//! What was used of quotas, and what is left of them.
//!
//! Everybody may see their own tenant and key. Whoever manages a tenant sees each of its keys.

use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use turnwire_contract::{TenantId, Timestamp};
use turnwire_engine::{Measure, QuotaStatus};
use utoipa::{IntoParams, ToSchema};

use crate::{
    App, Caller, Json, QueryParams, Result,
    admin::{Admin, checked_name},
};

module_routes! { [own] [by_key] }

/// An amount: money as in the settings, everything else in whole numbers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Amount {
    Whole(u64),
    Money(f64),
}

impl Amount {
    fn of(measure: Measure, amount: u64) -> Self {
        if measure != Measure::CostPerMonth {
            return Self::Whole(amount);
        }
        #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
        Self::Money(amount as f64 / 1e9)
    }
}

/// Where a quota stands.
#[derive(Debug, Serialize, ToSchema)]
struct QuotaLine {
    /// Name of the quota in the settings, such as `requests_per_minute`.
    quota: &'static str,
    /// Whose quota it is: `tenant` or `key`.
    of: &'static str,
    /// The limit. Money is in the currency of the prices in the settings.
    #[schema(value_type = f64)]
    max: Amount,
    /// How much of it is used. May exceed the limit: what is used is known when it is over.
    #[schema(value_type = f64)]
    used: Amount,
    /// How much of it is left.
    #[schema(value_type = f64)]
    remaining: Amount,
    /// Since when it is counted, if it is counted over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// When it begins anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<Timestamp>,
}

impl From<QuotaStatus> for QuotaLine {
    fn from(status: QuotaStatus) -> Self {
        let amount = |n| Amount::of(status.measure, n);
        Self {
            quota: status.measure.name(),
            of: if status.is_of_key { "key" } else { "tenant" },
            max: amount(status.max),
            used: amount(status.used),
            remaining: amount(status.remaining),
            since: status.window.map(|window| window.starts_at),
            resets_at: status.window.map(|window| window.ends_at),
        }
    }
}

/// What the caller used.
#[derive(Debug, Serialize, ToSchema)]
struct QuotaUsage {
    /// Always `usage`.
    object: &'static str,
    /// The tenant of the caller.
    tenant: String,
    /// The quotas of the tenant, and those of the caller's key. Empty if there are none.
    quotas: Vec<QuotaLine>,
}

/// Show what is used and left of the quotas of the own tenant and key.
///
/// Counts of other servers are up to two seconds old. Only what has a quota is counted.
#[utoipa::path(
    get,
    path = "/v1/usage",
    responses((status = 200, description = "The quotas of the caller", body = QuotaUsage))
)]
async fn own(State(app): State<App>, caller: Caller) -> Result<Json<QuotaUsage>> {
    let (actor, tenant) = (caller.actor().map(|actor| &**actor), caller.tenant());
    let mut quotas = app.runs().quotas().report(tenant, actor).await;
    quotas.extend(app.stored_bytes(tenant).await?);
    let quotas = quotas.into_iter().map(QuotaLine::from).collect();
    Ok(Json(QuotaUsage { object: "usage", tenant: tenant.to_string(), quotas }))
}

impl App {
    /// Where the quota of stored bytes of a tenant stands, if there is one.
    pub(crate) async fn stored_bytes(&self, tenant: &TenantId) -> Result<Option<QuotaStatus>> {
        let Some(max) = self.runs().quotas().max_stored_bytes(tenant) else { return Ok(None) };
        let used = self.library().stored_bytes(tenant).await?;
        Ok(Some(QuotaStatus {
            measure: Measure::StoredBytes,
            is_of_key: false,
            max,
            used,
            remaining: max.saturating_sub(used),
            window: None,
            resets_in: Duration::ZERO,
            is_nearly_spent: false,
        }))
    }
}

/// What a tenant used, or one of its keys.
#[derive(Debug, Serialize, ToSchema)]
struct UsageLine {
    /// Whose use it is: the ID of a key, or `subject:` and the subject of a token. Not there in the
    /// first line, which is about the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// Name of the key, if it is one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its quotas.
    quotas: Vec<QuotaLine>,
}

/// What a tenant used, by key.
#[derive(Debug, Serialize, ToSchema)]
struct UsageList {
    /// Always `list`.
    object: &'static str,
    /// The tenant.
    tenant: String,
    /// The tenant, then each key that used something in a window that has not ended, at most 1,000.
    data: Vec<UsageLine>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct UsageParams {
    /// The tenant. Default: that of the caller. Another one needs the scope `operator`.
    tenant: Option<String>,
}

/// Show what a tenant and each of its keys used.
///
/// Counts of other servers are up to two seconds old. Only what has a quota is counted.
#[utoipa::path(
    get,
    path = "/v1/admin/usage",
    params(UsageParams),
    responses((status = 200, description = "The quotas of the tenant and its keys", body = UsageList))
)]
async fn by_key(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<UsageParams>,
) -> Result<Json<UsageList>> {
    let admin = Admin::new(&caller)?;
    let tenant = admin.tenant(checked_name("tenant", params.tenant)?.map(TenantId::new))?;
    let mut report = app.runs().quotas().report_by_holder(&tenant).await?;
    if let Some(usage) = report.first_mut() {
        usage.quotas.extend(app.stored_bytes(&tenant).await?);
    }
    let keys = app.runs().api_keys().list_keys(Some(&tenant)).await?;
    let name_of =
        |id: &String| keys.iter().find(|key| key.key_id == *id).map(|key| key.name.clone());
    let data = report.into_iter().map(|usage| UsageLine {
        name: usage.holder.as_ref().and_then(name_of),
        key_id: usage.holder,
        quotas: usage.quotas.into_iter().map(QuotaLine::from).collect(),
    });
    Ok(Json(UsageList { object: "list", tenant: tenant.to_string(), data: data.collect() }))
}
