//! What the claims of a token mean: its tenant, its subject and its scopes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Map, Value};
use turnwire_contract::{ApiKey, Scope, TenantId, Timestamp, TokenHolder};

/// Which claims say what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRules {
    /// The claim with the tenant. `None`: all tokens are of [`tenant`](Self::tenant).
    pub tenant_claim: Option<String>,
    /// Tenant of all tokens, if no claim names it.
    pub tenant: TenantId,
    /// The claim with the scopes: a text with spaces, or a list of texts.
    pub scope_claim: String,
    /// What each value of that claim allows. If it is empty, a value allows the scope of that name.
    pub scopes: BTreeMap<String, BTreeSet<Scope>>,
}

impl Default for ClaimRules {
    /// One tenant, and the scopes of Turnwire in the claim `scope`, as OAuth has it.
    fn default() -> Self {
        Self {
            tenant_claim: None,
            tenant: TenantId::default(),
            scope_claim: "scope".to_owned(),
            scopes: BTreeMap::new(),
        }
    }
}

impl ClaimRules {
    /// Who the claims are about. The error says what is wrong with them.
    pub(crate) fn holder(
        &self,
        claims: &Map<String, Value>,
        leeway: Duration,
    ) -> Result<TokenHolder, String> {
        let tenant = match &self.tenant_claim {
            Some(claim) => TenantId::new(name(claims, claim)?),
            None => self.tenant.clone(),
        };
        let subject = name(claims, "sub")?.to_owned();
        // Fractions of seconds are allowed, and rounded down.
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        let seconds = |end: &Value| end.as_i64().or_else(|| end.as_f64().map(|end| end as i64));
        let end = claims.get("exp").and_then(seconds).ok_or("the claim `exp` is missing")?;
        let expires_at = Timestamp::from_micros(end.saturating_mul(1_000_000)).later(leeway);
        Ok(TokenHolder { tenant, subject, scopes: self.scopes(claims), expires_at })
    }

    fn scopes(&self, claims: &Map<String, Value>) -> BTreeSet<Scope> {
        let values: Vec<&str> = match claim(claims, &self.scope_claim) {
            Some(Value::String(text)) => text.split_whitespace().collect(),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if self.scopes.is_empty() {
            return values.iter().filter_map(|value| value.parse().ok()).collect();
        }
        values.iter().filter_map(|value| self.scopes.get(*value)).flatten().copied().collect()
    }
}

/// A claim by its name, or by a path with dots, such as `realm_access.roles`. Names may have dots,
/// too.
fn claim<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        claim(claims.get(first)?.as_object()?, rest)
    })
}

/// A claim that is the name of a tenant or subject.
fn name<'a>(claims: &'a Map<String, Value>, path: &str) -> Result<&'a str, String> {
    let found = claim(claims, path).ok_or_else(|| format!("the claim `{path}` is missing"))?;
    let name = found.as_str().ok_or_else(|| format!("the claim `{path}` is not a text"))?;
    ApiKey::check_name(name).map_err(|why| format!("the claim `{path}` {why}"))?;
    Ok(name)
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
