//! `[oidc]`: the identity provider whose tokens are accepted in place of API keys.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Table;
use turnwire_contract::{ApiKey, Scope, TenantId};
use turnwire_oidc::{ClaimRules, OidcOptions};

use super::{
    file::{RawTable, read_table},
    words::{is_http_url, not_a_url},
};

const EXAMPLE_ISSUER: &str = "https://login.example.com";
const NO_AUDIENCE: &str = "missing; it is the name of this server at the provider, and keeps out \
                           tokens that were made for other servers";

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawOidc {
    issuer: Option<String>,
    audience: Option<OneOrMore>,
    tenant: Option<String>,
    tenant_claim: Option<String>,
    scope_claim: Option<String>,
    scopes: BTreeMap<String, Vec<String>>,
}

/// One text, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl RawTable for RawOidc {
    const KEYS: &'static [&'static str] =
        &["issuer", "audience", "tenant", "tenant_claim", "scope_claim", "scopes"];
}

pub(super) fn oidc(table: Table, mistakes: &mut Vec<String>) -> Option<OidcOptions> {
    let (had_issuer, had_audience) = (table.contains_key("issuer"), table.contains_key("audience"));
    let raw: RawOidc = read_table("oidc.", table, mistakes);
    let mut tell = |key: &str, why: String| mistakes.push(format!("oidc.{key}: {why}"));
    match raw.issuer.as_deref() {
        Some(issuer) if !is_http_url(issuer) => tell("issuer", not_a_url(issuer, EXAMPLE_ISSUER)),
        None if !had_issuer => {
            tell("issuer", format!("missing; it should look like {EXAMPLE_ISSUER}"));
        }
        // An invalid value is already reported.
        Some(_) | None => {}
    }
    let audiences = raw.audience.map(|audience| match audience {
        OneOrMore::One(audience) => vec![audience],
        OneOrMore::More(audiences) => audiences,
    });
    match audiences.as_deref() {
        Some([]) => tell("audience", NO_AUDIENCE.to_owned()),
        Some(named) if named.iter().any(String::is_empty) => {
            tell("audience", NO_AUDIENCE.to_owned());
        }
        None if !had_audience => tell("audience", NO_AUDIENCE.to_owned()),
        Some(_) | None => {}
    }
    if raw.tenant.is_some() && raw.tenant_claim.is_some() {
        tell("tenant", "a claim names the tenant already; leave out one of the two".to_owned());
    }
    if let Some(Err(why)) = raw.tenant.as_deref().map(ApiKey::check_name) {
        tell("tenant", why);
    }
    let mut scopes = BTreeMap::new();
    for (value, named) in raw.scopes {
        let parsed: Result<_, _> = named.iter().map(|name| name.parse::<Scope>()).collect();
        match parsed {
            Ok(parsed) => drop(scopes.insert(value, parsed)),
            Err(why) => tell(&format!("scopes.{value}"), why.to_string()),
        }
    }
    let usual = ClaimRules::default();
    let claims = ClaimRules {
        tenant_claim: raw.tenant_claim,
        tenant: raw.tenant.map_or(usual.tenant, TenantId::new),
        scope_claim: raw.scope_claim.unwrap_or(usual.scope_claim),
        scopes,
    };
    Some(OidcOptions { issuer: raw.issuer?, audiences: audiences?, claims })
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
