//! `[quotas]`: what tenants and holders of keys may use.

use std::num::NonZeroU64;

use serde::Deserialize;
use toml::{Table, Value};
use turnwire_contract::{ApiKey, TenantId};
use turnwire_engine::{Quota, QuotaOptions};

use super::{
    file::{RawTable, read_table, table_of},
    words::nanos,
};

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawQuotas {
    warn_at: Option<f64>,
    per_tenant: Option<Value>,
    per_key: Option<Value>,
    tenants: Option<Value>,
}

impl RawTable for RawQuotas {
    const KEYS: &'static [&'static str] = &["warn_at", "per_tenant", "per_key", "tenants"];
}

/// The quotas of a tenant or key as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawQuota {
    requests_per_minute: Option<NonZeroU64>,
    tokens_per_minute: Option<NonZeroU64>,
    tokens_per_day: Option<NonZeroU64>,
    tool_calls_per_day: Option<NonZeroU64>,
    cost_per_month: Option<f64>,
    runs_at_once: Option<NonZeroU64>,
    stored_bytes: Option<NonZeroU64>,
}

impl RawTable for RawQuota {
    const KEYS: &'static [&'static str] = &[
        "requests_per_minute",
        "tokens_per_minute",
        "tokens_per_day",
        "tool_calls_per_day",
        "cost_per_month",
        "runs_at_once",
        "stored_bytes",
    ];
}

pub(super) fn quotas(table: Table, mistakes: &mut Vec<String>) -> QuotaOptions {
    let raw: RawQuotas = read_table("quotas.", table, mistakes);
    let usual = QuotaOptions::default();
    let warn_at_percent = raw.warn_at.map(|share| percent(share, mistakes));
    let per_tenant = quota("quotas.per_tenant", raw.per_tenant, mistakes);
    let per_key = quota("quotas.per_key", raw.per_key, mistakes);
    if per_key.stored_bytes.is_some() {
        let why = "files belong to their tenant, not to a key; set it for tenants";
        mistakes.push(format!("quotas.per_key.stored_bytes: {why}"));
    }
    let tenants = table_of("quotas.tenants", raw.tenants, mistakes).unwrap_or_default();
    let mut of_tenants = usual.tenants;
    for (name, value) in tenants {
        let path = format!("quotas.tenants.{name}");
        if let Err(why) = ApiKey::check_name(&name) {
            mistakes.push(format!("{path}: the name {why}"));
        }
        of_tenants.insert(TenantId::new(name), quota(&path, Some(value), mistakes));
    }
    QuotaOptions {
        per_tenant,
        per_key,
        tenants: of_tenants,
        warn_at_percent: warn_at_percent.unwrap_or(usual.warn_at_percent),
        exchange_every: usual.exchange_every,
    }
}

fn quota(path: &str, value: Option<Value>, mistakes: &mut Vec<String>) -> Quota {
    let table = table_of(path, value, mistakes).unwrap_or_default();
    let raw: RawQuota = read_table(&format!("{path}."), table, mistakes);
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
fn percent(share: f64, mistakes: &mut Vec<String>) -> u32 {
    let percent = (share * 100.0).round();
    if (1.0..=100.0).contains(&percent) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it fits")]
        return percent as u32;
    }
    mistakes.push(format!("quotas.warn_at: `{share}` is not a share; it should look like 0.8"));
    100
}

#[cfg(test)]
#[path = "quotas_tests.rs"]
mod tests;
