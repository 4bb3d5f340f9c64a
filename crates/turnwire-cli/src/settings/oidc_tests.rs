//! Valid and invalid settings of the identity provider.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

const LINES: &str = "[oidc]\nissuer = \"https://login.example.com\"\naudience = \"turnwire\"\n";

#[test]
fn a_provider_is_named() {
    let claims = ClaimRules::default();
    let expected = OidcOptions {
        issuer: "https://login.example.com".to_owned(),
        audiences: vec!["turnwire".to_owned()],
        claims,
    };
    assert_eq!(demo_settings(LINES, &[]).unwrap().oidc, Some(expected.clone()));
    assert_eq!(demo_settings("", &[]).unwrap().oidc, None);
    let text = "[oidc]\nissuer = \"https://login.example.com\"\naudience = [\"a\", \"b\"]\n\
                tenant_claim = \"org\"\nscope_claim = \"groups\"\n[oidc.scopes]\n\
                staff = [\"runs:read\", \"approve\"]\n";
    let claims = ClaimRules {
        tenant_claim: Some("org".to_owned()),
        scope_claim: "groups".to_owned(),
        scopes: [("staff".to_owned(), [Scope::RunsRead, Scope::Approve].into())].into(),
        ..ClaimRules::default()
    };
    let audiences = vec!["a".to_owned(), "b".to_owned()];
    let expected = OidcOptions { audiences, claims, ..expected };
    assert_eq!(demo_settings(text, &[]).unwrap().oidc, Some(expected));
}

#[test]
fn what_is_missing_or_wrong_is_told() {
    let no_audience = format!("oidc.audience: {NO_AUDIENCE}");
    check_mistakes(
        "[oidc]\n",
        &[],
        &["oidc.issuer: missing; it should look like https://login.example.com", &no_audience],
    );
    check_mistakes(
        "[oidc]\nissuer = \"login\"\naudience = [\"\"]\ntenant = \"a\"\ntenant_claim = \"org\"\n\
         [oidc.scopes]\nstaff = [\"runs:reed\"]\n",
        &[],
        &[
            "oidc.issuer: `login` is not an address; it should look like \
             https://login.example.com",
            &no_audience,
            "oidc.tenant: a claim names the tenant already; leave out one of the two",
            "oidc.scopes.staff: `runs:reed` is not a scope; there are runs:read, runs:write, \
             approve, files, metrics, admin, operator, and use:NAME with up to 59 letters, \
             digits and . _ : / -",
        ],
    );
}
