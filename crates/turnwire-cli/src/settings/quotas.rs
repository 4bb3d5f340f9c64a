//! `[quotas]`: what tenants and holders of keys may use.

use std::{collections::BTreeMap, num::NonZeroU64};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_contract::{ApiKey, TenantId};
use turnwire_engine::{Quota, QuotaOptions};

use super::{
    file::read_table,
    words::{child, nanos},
};

/// What tenants and keys may use, on all servers of the store together. limits.md says how exact
/// they are and what happens when they are used up. None by default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawQuotas {
    /// Share of `cost_per_month` from which responses have the header `turnwire-quota-warning`;
    /// logged once per month and server
    #[schemars(extend("minimum" = 0.01, "maximum" = 1, "default" = usual_share()))]
    warn_at: Option<f64>,
    /// Share of `cost_per_month` from which a run asks a person before it goes on after tool calls.
    /// Nobody is asked by default
    #[schemars(extend("minimum" = 0.01, "maximum" = 1))]
    ask_at: Option<f64>,
    /// Quotas of each tenant
    per_tenant: RawQuota,
    /// Quotas of each key, or of each subject of an identity provider. Without keys they do not
    /// apply
    per_key: RawQuota,
    /// `[quotas.tenants.NAME]`: quotas of one tenant; what it does not name is as in `per_tenant`
    tenants: BTreeMap<String, RawQuota>,
}

/// The same in `[quotas.per_key]` and `[quotas.tenants.NAME]`. A quota is at least 1.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawQuota {
    /// Runs that are started
    requests_per_minute: Option<NonZeroU64>,
    /// Tokens of the models, input and output
    tokens_per_minute: Option<NonZeroU64>,
    /// The same in a day
    tokens_per_day: Option<NonZeroU64>,
    /// Tool calls
    tool_calls_per_day: Option<NonZeroU64>,
    /// Budget in the currency of the prices of the models
    #[schemars(extend("exclusiveMinimum" = 0))]
    cost_per_month: Option<f64>,
    /// Runs that have not ended
    runs_at_once: Option<NonZeroU64>,
    /// Bytes of uploaded files; only for tenants
    stored_bytes: Option<NonZeroU64>,
}

pub(super) fn quotas(table: Table, mistakes: &mut Vec<String>) -> QuotaOptions {
    let raw: RawQuotas = read_table("quotas", table, mistakes);
    let usual = QuotaOptions::default();
    let warn_at = raw.warn_at.map(|share| percent("quotas.warn_at", share, mistakes));
    let ask_at = raw.ask_at.map(|share| percent("quotas.ask_at", share, mistakes));
    let per_tenant = quota("quotas.per_tenant", &raw.per_tenant, mistakes);
    let per_key = quota("quotas.per_key", &raw.per_key, mistakes);
    if per_key.stored_bytes.is_some() {
        let why = "files belong to their tenant, not to a key; set it for tenants";
        mistakes.push(format!("quotas.per_key.stored_bytes: {why}"));
    }
    let mut of_tenants = usual.tenants;
    for (name, quotas) in raw.tenants {
        let path = child("quotas.tenants", &name);
        if let Err(why) = ApiKey::check_name(&name) {
            mistakes.push(format!("{path}: the name {why}"));
        }
        of_tenants.insert(TenantId::new(name), quota(&path, &quotas, mistakes));
    }
    QuotaOptions {
        per_tenant,
        per_key,
        tenants: of_tenants,
        warn_at_percent: warn_at.map_or(usual.warn_at_percent, u32::from),
        ask_at_percent: ask_at,
        exchange_every: usual.exchange_every,
    }
}

/// The default of `warn_at`.
fn usual_share() -> f64 {
    f64::from(QuotaOptions::default().warn_at_percent) / 100.0
}

fn quota(path: &str, raw: &RawQuota, mistakes: &mut Vec<String>) -> Quota {
    let cost = raw.cost_per_month;
    let cost = cost.map(|cost| nanos(&format!("{path}.cost_per_month"), cost, mistakes));
    Quota {
        requests_per_minute: raw.requests_per_minute.map(NonZeroU64::get),
        tokens_per_minute: raw.tokens_per_minute.map(NonZeroU64::get),
        tokens_per_day: raw.tokens_per_day.map(NonZeroU64::get),
        tool_calls_per_day: raw.tool_calls_per_day.map(NonZeroU64::get),
        cost_nanos_per_month: cost.flatten(),
        runs_at_once: raw.runs_at_once.map(NonZeroU64::get),
        stored_bytes: raw.stored_bytes.map(NonZeroU64::get),
    }
}

/// A share in percent.
fn percent(path: &str, share: f64, mistakes: &mut Vec<String>) -> u8 {
    let percent = (share * 100.0).round();
    if (1.0..=100.0).contains(&percent) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it fits")]
        return percent as u8;
    }
    mistakes.push(format!("{path}: `{share}` is not a share; it should look like 0.8"));
    100
}

#[cfg(test)]
#[path = "quotas_tests.rs"]
mod tests;
