use serde_json::json;

use super::*;

const LEEWAY: Duration = Duration::from_secs(30);

fn holder(rules: &ClaimRules, claims: Value) -> Result<TokenHolder, String> {
    let Value::Object(mut claims) = claims else { panic!("claims are an object") };
    claims.entry("exp").or_insert(json!(1_000));
    claims.entry("sub").or_insert(json!("ada"));
    rules.holder(&claims, LEEWAY)
}

#[test]
fn scopes_are_a_text_or_a_list() {
    let rules = ClaimRules::default();
    let both = [
        holder(&rules, json!({ "scope": "openid runs:read  approve" })).unwrap(),
        holder(&rules, json!({ "scope": ["openid", "runs:read", "approve", 7] })).unwrap(),
    ];
    for holder in both {
        assert_eq!(holder.scopes, [Scope::RunsRead, Scope::Approve].into());
        assert_eq!(holder.subject, "ada");
        assert_eq!(holder.expires_at, Timestamp::from_micros(1_030_000_000));
    }
    for nothing in [json!({}), json!({ "scope": 7 }), json!({ "scope": "" })] {
        assert_eq!(holder(&rules, nothing).unwrap().scopes, BTreeSet::new());
    }
}

/// A group that happens to be called like a scope gives nothing, if the operator says what groups
/// give.
#[test]
fn only_listed_values_count_where_values_are_listed() {
    let rules = ClaimRules {
        scope_claim: "realm_access.roles".to_owned(),
        scopes: [("staff".to_owned(), Scope::USUAL.into())].into(),
        ..ClaimRules::default()
    };
    let allowed = |roles: Value| {
        holder(&rules, json!({ "realm_access": { "roles": roles } })).unwrap().scopes
    };
    assert_eq!(allowed(json!(["staff"])), Scope::USUAL.into());
    assert_eq!(allowed(json!(["operator"])), BTreeSet::new());
}

#[test]
fn the_tenant_comes_from_its_claim() {
    let rules = ClaimRules {
        tenant_claim: Some("https://example.com/org".to_owned()),
        ..ClaimRules::default()
    };
    let found = holder(&rules, json!({ "https://example.com/org": "acme" })).unwrap();
    assert_eq!(found.tenant, TenantId::from("acme"));
    let missing = holder(&rules, json!({ "org": "acme" })).unwrap_err();
    assert_eq!(missing, "the claim `https://example.com/org` is missing");
    for wrong in [json!(""), json!(7), json!("a\u{0}b"), json!("x".repeat(201)), json!(null)] {
        let claims = json!({ "https://example.com/org": wrong });
        assert!(holder(&rules, claims.clone()).is_err(), "{claims}");
    }
}

#[test]
fn a_subject_is_needed() {
    assert!(holder(&ClaimRules::default(), json!({ "sub": "" })).is_err());
    assert!(holder(&ClaimRules::default(), json!({ "sub": null })).is_err());
}
