//! `[oidc]`: the identity provider whose tokens are accepted in place of API keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_contract::{ApiKey, Scope, TenantId};
use turnwire_oidc::{ClaimRules, OidcOptions};

use super::{
    file::read_table,
    words::{check_needed_url, child, missing},
};

const EXAMPLE_ISSUER: &str = "https://login.example.com";
const NO_AUDIENCE: &str = "missing; it is the name of this server at the provider, and keeps out \
                           tokens that were made for other servers";

/// An identity provider whose tokens are accepted in place of API keys (tenants.md).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawOidc {
    /// The provider, exactly as it names itself in its tokens
    #[schemars(extend("x-required" = true))]
    issuer: Option<String>,
    /// The name of this server at the provider, or a list of names
    #[schemars(extend("x-required" = true))]
    audience: Option<OneOrMore>,
    /// The tenant of all tokens
    #[schemars(extend("default" = TenantId::default().as_str()))]
    tenant: Option<String>,
    /// The claim with the tenant, in place of `tenant`
    tenant_claim: Option<String>,
    /// The claim with the scopes: a text with spaces, or a list. A path may have dots:
    /// `realm_access.roles`
    #[schemars(extend("default" = ClaimRules::default().scope_claim))]
    scope_claim: Option<String>,
    /// A table: what each value of that claim allows. Without it, a value allows the scope of its
    /// name
    scopes: BTreeMap<String, Vec<String>>,
}

/// One text, or a list of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

pub(super) fn oidc(table: Table, mistakes: &mut Vec<String>) -> Option<OidcOptions> {
    let raw: RawOidc = read_table("oidc", table, mistakes);
    check_needed_url("oidc.issuer", raw.issuer.as_deref(), EXAMPLE_ISSUER, mistakes);
    if raw.audience.is_none() {
        missing("oidc.audience", NO_AUDIENCE, mistakes);
    }
    let mut tell = |key: &str, why: String| mistakes.push(format!("oidc.{key}: {why}"));
    let audiences = raw.audience.map(|audience| match audience {
        OneOrMore::One(audience) => vec![audience],
        OneOrMore::More(audiences) => audiences,
    });
    let is_empty = |named: &Vec<String>| named.is_empty() || named.iter().any(String::is_empty);
    if audiences.as_ref().is_some_and(is_empty) {
        tell("audience", NO_AUDIENCE.to_owned());
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
            Err(why) => tell(&child("scopes", &value), why.to_string()),
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
