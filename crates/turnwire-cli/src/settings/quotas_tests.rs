//! Valid and invalid quotas.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings, keys_of};

/// Every quota in the file takes effect, for all tenants, for all keys and for one tenant.
#[test]
fn every_quota_is_read() {
    assert!(demo_settings("", &[]).unwrap().quotas.is_empty());
    let text = "[quotas]\nwarn_at = 0.5\nask_at = 0.9\n\
        [quotas.per_tenant]\nrequests_per_minute = 1\ntokens_per_minute = 2\ntokens_per_day = 3\n\
        tool_calls_per_day = 4\ncost_per_month = 5.5\nruns_at_once = 8\nstored_bytes = 9\n\
        [quotas.per_key]\nrequests_per_minute = 6\n\
        [quotas.tenants.acme]\ncost_per_month = 7\n";
    let read = demo_settings(text, &[]).unwrap().quotas;
    let all = Quota {
        requests_per_minute: Some(1),
        tokens_per_minute: Some(2),
        tokens_per_day: Some(3),
        tool_calls_per_day: Some(4),
        cost_nanos_per_month: Some(5_500_000_000),
        runs_at_once: Some(8),
        stored_bytes: Some(9),
    };
    let acme = Quota { cost_nanos_per_month: Some(7_000_000_000), ..Quota::default() };
    let expected = QuotaOptions {
        per_tenant: all,
        per_key: Quota { requests_per_minute: Some(6), ..Quota::default() },
        tenants: [(TenantId::from("acme"), acme)].into(),
        warn_at_percent: 50,
        ask_at_percent: Some(90),
        ..QuotaOptions::default()
    };
    assert_eq!(read, expected);
}

/// `docs/limits.md` describes every quota, and every quota that is counted is a setting.
#[test]
fn every_quota_is_explained() {
    let explained = include_str!("../../../../docs/limits.md");
    for key in keys_of::<RawQuota>() {
        assert!(explained.contains(&format!("| `{key}` |")), "docs/limits.md has no `{key}`");
        let counted = turnwire_gateway::limits::COUNTED_QUOTAS;
        assert!(counted.contains(&&*format!("quotas.{key}")), "`{key}` is not counted");
    }
}

/// A quota is a number and not nothing: 0 could mean that nobody may, or that everybody may.
#[test]
fn what_is_wrong_is_told() {
    check_mistakes(
        "[quotas.per_key]\nstored_bytes = 5\n",
        &[],
        &["quotas.per_key.stored_bytes: files belong to their tenant, not to a key; set it for \
           tenants"],
    );
    check_mistakes(
        "[quotas]\nwarn_at = 80\nask_at = 0\nper_key = 5\n\
         [quotas.per_tenant]\nrequests_per_minute = 0\nrequests_per_hour = 5\n\
         [quotas.tenants.acme]\ncost_per_month = -1\n",
        &[],
        &[
            "quotas.warn_at: `80` is not a share; it should look like 0.8",
            "quotas.ask_at: `0` is not a share; it should look like 0.8",
            "quotas.per_tenant.requests_per_hour: there is no such setting; did you mean \
             `requests_per_minute`?",
            "quotas.per_tenant.requests_per_minute: 0 is not a whole number from 1 on",
            "quotas.per_key: not a table; write [quotas.per_key] above its settings",
            "quotas.tenants.acme.cost_per_month: `-1` is not an amount; it should look like 0.50",
        ],
    );
}
