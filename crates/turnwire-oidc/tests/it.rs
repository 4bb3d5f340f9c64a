//! Tokens of a provider on loopback.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::time::Duration;

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use turnwire_contract::{Scope, TenantId, TokenError, TokenVerifier};
use turnwire_oidc::{ClaimRules, Oidc, OidcOptions};
use turnwire_testkit::identity_provider::{IdentityProvider, KeysAnswer, SigningKey, now};

fn oidc(provider: &IdentityProvider) -> Oidc {
    Oidc::new(OidcOptions {
        issuer: provider.issuer(),
        audiences: vec!["turnwire".to_owned(), "other".to_owned()],
        claims: ClaimRules { tenant_claim: Some("org".to_owned()), ..ClaimRules::default() },
    })
    .unwrap()
}

fn claims(provider: &IdentityProvider, more: Value) -> Value {
    let mut claims = provider.claims("turnwire", json!({ "org": "acme", "scope": "runs:read" }));
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

async fn why(oidc: &Oidc, token: &str) -> String {
    match oidc.verify(token).await {
        Err(TokenError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_valid_token_says_who_its_holder_is() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    let end = now() + 100;
    for audience in [json!("turnwire"), json!(["foreign", "other"])] {
        let token = provider.sign(&claims(&provider, json!({ "aud": audience, "exp": end })));
        let holder = oidc.verify(&token).await.unwrap();
        assert_eq!(holder.tenant, TenantId::from("acme"));
        assert_eq!(holder.subject, "ada");
        assert_eq!(holder.scopes, [Scope::RunsRead].into());
        let seconds = u64::try_from(holder.expires_at.as_micros()).unwrap() / 1_000_000;
        assert_eq!(seconds, end + 30, "with the leeway for clocks");
    }
    provider.add(SigningKey::rsa("rsa"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    oidc.verify(&provider.sign(&claims(&provider, json!({})))).await.unwrap();
}

/// A2: nothing but a token of this provider, for this server, signed with a published key and not
/// expired, is accepted.
#[tokio::test]
async fn other_tokens_are_refused() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    let valid = provider.sign(&claims(&provider, json!({})));
    oidc.verify(&valid).await.unwrap();
    let signed = |more: Value| provider.sign(&claims(&provider, more));
    let without = |claim: &str| {
        let mut claims = claims(&provider, json!({}));
        claims.as_object_mut().unwrap().remove(claim);
        provider.sign(&claims)
    };
    let (head, signature) = valid.rsplit_once('.').unwrap();
    let (_, body) = head.split_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let other_signature = format!("{first}{}", signature.get(1..).unwrap());
    // {"alg":"none"}, and {"alg":"HS256","kid":"key_0"} with a secret that is public.
    let unsigned = format!("eyJhbGciOiJub25lIn0.{body}.");
    let symmetric = format!("eyJhbGciOiJIUzI1NiIsImtpZCI6ImtleV8wIn0.{body}.{signature}");
    let cases = [
        (signed(json!({ "exp": now() - 31 })), "it has expired"),
        (signed(json!({ "nbf": now() + 60 })), "it is not valid yet"),
        (signed(json!({ "aud": "foreign" })), "it is for another audience"),
        (signed(json!({ "iss": "https://foreign.example.com" })), "it is of another issuer"),
        (signed(json!({ "sub": 7 })), "the claim `sub` is missing"),
        (
            signed(json!({ "org": "" })),
            "the claim `org` must have 1 to 200 bytes and no control characters",
        ),
        (without("exp"), "the claim `exp` is missing"),
        (without("aud"), "the claim `aud` is missing"),
        (without("iss"), "the claim `iss` is missing"),
        (without("sub"), "the claim `sub` is missing"),
        (without("org"), "the claim `org` is missing"),
        (
            SigningKey::elliptic("key_0").sign(&claims(&provider, json!({}))),
            "its signature is wrong",
        ),
        (
            SigningKey::elliptic("foreign").sign(&claims(&provider, json!({}))),
            "it is signed with an unknown key",
        ),
        (
            SigningKey::rsa("key_0").sign(&claims(&provider, json!({}))),
            "its algorithm is not that of the key",
        ),
        (format!("{head}.{other_signature}"), "its signature is wrong"),
        (unsigned, "it is not a signed JSON web token"),
        (symmetric, "it is not signed with a public key"),
        (head.to_owned(), "it is not a signed JSON web token"),
        ("a.b.c".to_owned(), "it is not a signed JSON web token"),
        (String::new(), "it is not a signed JSON web token"),
    ];
    for (token, expected) in cases {
        assert_eq!(why(&oidc, &token).await, expected, "{token}");
    }
}

/// A rotated key is fetched when the first token comes that is signed with it, and a key that is no
/// longer published does not verify for longer than keys are used without asking.
#[tokio::test]
async fn keys_are_rotated() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    let old = provider.sign(&claims(&provider, json!({})));
    oidc.verify(&old).await.unwrap();
    provider.rotate(false);
    let new = provider.sign(&claims(&provider, json!({})));
    assert_eq!(why(&oidc, &new).await, "it is signed with an unknown key", "asked just now");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    oidc.verify(&new).await.unwrap();
    assert_eq!(why(&oidc, &old).await, "it is signed with an unknown key");
}

/// Keys are fetched again while they are used, in the background, and a key that the provider took
/// back does not verify any more.
#[tokio::test]
async fn a_key_that_was_taken_back_ends() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    let token = provider.sign(&claims(&provider, json!({})));
    oidc.verify(&token).await.unwrap();
    provider.rotate(false);
    oidc.verify(&token).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(301)).await;
    tokio::time::resume();
    oidc.verify(&token).await.unwrap();
    let until_refused = async {
        while oidc.verify(&token).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until_refused).await.unwrap();
    assert_eq!(why(&oidc, &token).await, "it is signed with an unknown key");
}

/// Requests that are dropped while the provider is asked neither ask again nor keep others from
/// its keys.
#[tokio::test]
async fn dropped_requests_do_not_reach_the_provider() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    for n in 0..20 {
        let invented = SigningKey::elliptic(&format!("invented_{n}"));
        let token = invented.sign(&claims(&provider, json!({})));
        let mut asking = Box::pin(oidc.verify(&token));
        // Polled once, and dropped.
        let _ = futures::poll!(&mut asking);
    }
    oidc.verify(&provider.sign(&claims(&provider, json!({})))).await.unwrap();
    assert_eq!(provider.n_asked(), 1, "the first one goes on, and all others get its keys");
}

/// Whatever tokens come, the provider is asked once per pause.
#[tokio::test]
async fn invented_tokens_do_not_reach_the_provider() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    oidc.verify(&provider.sign(&claims(&provider, json!({})))).await.unwrap();
    for n in 0..50 {
        let invented = SigningKey::elliptic(&format!("invented_{n}"));
        why(&oidc, &invented.sign(&claims(&provider, json!({})))).await;
    }
    assert_eq!(provider.n_asked(), 1);
}

/// Keys that are known stay in use while the provider is away, and a provider that was never
/// reached is not the fault of the token.
#[tokio::test]
async fn a_provider_that_is_away_is_no_reason_to_refuse() {
    let provider = IdentityProvider::start().await;
    let (early, late) = (oidc(&provider), oidc(&provider));
    let token = provider.sign(&claims(&provider, json!({})));
    early.verify(&token).await.unwrap();
    provider.set_away(true);
    let error = late.verify(&token).await.unwrap_err();
    assert!(
        matches!(&error, TokenError::Unavailable(why) if why.ends_with("status 502")),
        "{error:?}"
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(10)).await;
    tokio::time::resume();
    early.verify(&token).await.unwrap();
    provider.set_away(false);
    late.verify(&token).await.unwrap();
}

/// What a provider may answer that has no key in it.
fn answers_without_keys() -> Vec<(&'static str, KeysAnswer)> {
    let key = SigningKey::elliptic("key_0").public();
    let of_algorithm = |algorithm: &str| {
        let mut key = key.clone();
        key.as_object_mut().unwrap().insert("alg".to_owned(), json!(algorithm));
        key
    };
    let of_wrong_types = [json!(1), json!(null), json!([]), json!({ "kty": 7 }), json!({})];
    let with_wrong_algorithms = ["none", "HS256", "RS256", "EdDSA", "x"].map(of_algorithm);
    vec![
        ("empty", KeysAnswer::Keys(Vec::new())),
        ("10 MiB", KeysAnswer::Long(10 * 1024 * 1024)),
        ("100,000 keys", KeysAnswer::Keys(vec![json!({}); 100_000])),
        ("one too many", KeysAnswer::Keys(vec![key; 1_001])),
        ("wrong types", KeysAnswer::Keys(of_wrong_types.into())),
        ("wrong algorithms", KeysAnswer::Keys(with_wrong_algorithms.into())),
        ("an error", KeysAnswer::Status(StatusCode::INTERNAL_SERVER_ERROR)),
        ("a redirect", KeysAnswer::Status(StatusCode::TEMPORARY_REDIRECT)),
        ("nothing", KeysAnswer::Never),
    ]
}

/// A19: keys that are known stay in use when those that come later are none, and a provider that
/// never gave any is not the fault of the token. Nobody waits for longer than two answers may take,
/// and a provider that gives keys again is asked again.
#[tokio::test]
async fn answers_without_keys_are_no_reason_to_refuse() {
    let tried = answers_without_keys().into_iter().map(|(name, answer)| async move {
        let provider = IdentityProvider::start().await;
        let (early, late) = (oidc(&provider), oidc(&provider));
        let token = provider.sign(&claims(&provider, json!({})));
        early.verify(&token).await.unwrap();
        provider.answer(Some(answer));
        let asked = timeout(Duration::from_secs(20), late.verify(&token));
        let error = asked.await.expect(name).unwrap_err();
        assert!(matches!(error, TokenError::Unavailable(_)), "{name}: {error:?}");
        (name, provider, early, late, token)
    });
    let tried = join_all(tried).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(6)).await;
    tokio::time::resume();
    let again = tried.into_iter().map(|(name, provider, early, late, token)| async move {
        let foreign = SigningKey::elliptic("foreign").sign(&claims(&provider, json!({})));
        // Waits until the provider was asked again.
        assert_eq!(why(&early, &foreign).await, "it is signed with an unknown key", "{name}");
        early.verify(&token).await.expect(name);
        provider.answer(None);
        (provider, late, token)
    });
    let again = join_all(again).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    for (_provider, late, token) in again {
        late.verify(&token).await.unwrap();
    }
}

/// A provider may give one ID to keys of different kinds; each token is verified with its own.
#[tokio::test]
async fn keys_of_different_kinds_may_share_an_id() {
    let provider = IdentityProvider::start().await;
    let oidc = oidc(&provider);
    let elliptic = provider.sign(&claims(&provider, json!({})));
    provider.add(SigningKey::rsa("key_0"));
    let rsa = provider.sign(&claims(&provider, json!({})));
    oidc.verify(&elliptic).await.unwrap();
    oidc.verify(&rsa).await.unwrap();
}

#[tokio::test]
async fn the_issuer_must_be_the_name_of_the_provider() {
    let provider = IdentityProvider::start().await;
    assert_eq!(oidc(&provider).check().await, Ok(1));
    provider.set_name("https://login.example.com");
    let why = oidc(&provider).check().await.unwrap_err();
    assert!(why.contains("`https://login.example.com`"), "{why}");
}
