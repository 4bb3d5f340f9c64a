use async_trait::async_trait;
use futures::FutureExt;
use turnwire_contract::{TokenError, TokenHolder, TokenVerifier};
use turnwire_engine::MemoryApiKeys;

use super::*;

/// A provider whose tokens are never valid.
#[derive(Debug)]
struct NoTokens;

#[async_trait]
impl TokenVerifier for NoTokens {
    async fn verify(&self, _token: &str) -> Result<TokenHolder, TokenError> {
        Err(TokenError::Invalid("none is".to_owned()))
    }
}

fn clock() -> Clock {
    Arc::new(|| Timestamp::from_micros(1))
}

fn rules(options: &AuthOptions) -> Rules {
    let ring = KeyRing::new(Arc::new(MemoryApiKeys::default()), clock());
    Rules::new(options, &ring, &clock())
}

fn keys(keys: &[&str]) -> AuthOptions {
    let api_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    AuthOptions { api_keys, ..AuthOptions::default() }
}

fn validity(rules: &Rules, key: &str) -> Option<Validity> {
    rules.holder(KeyDigest::of(key), clock()())?.validity
}

fn has_ended(validity: &Validity) -> bool {
    validity.clone().ended().now_or_never().is_some()
}

/// What was opened with a key that a reload removes ends, at once; with a key that stays, it goes
/// on and ends with a later reload.
#[test]
fn what_is_open_ends_with_its_key() {
    let first = rules(&keys(&["stays", "goes"]));
    let (stays, goes) = (validity(&first, "stays").unwrap(), validity(&first, "goes").unwrap());
    let second = rules(&keys(&["stays", "new"])).succeeding(&first);
    first.end_what_is_not_in(&second);
    assert!(has_ended(&goes) && !has_ended(&stays));
    assert!(validity(&second, "goes").is_none(), "it is not accepted");
    assert!(validity(&second, "new").is_some());
    let third = rules(&keys(&["new"])).succeeding(&second);
    second.end_what_is_not_in(&third);
    assert!(has_ended(&stays));
}

/// A server that needed no key and needs one now ends what was opened without one.
#[test]
fn what_was_opened_without_a_key_ends_with_the_first_one() {
    let open = rules(&AuthOptions::default());
    let anybody = open.anybody().validity.unwrap();
    let still_open = rules(&AuthOptions::default()).succeeding(&open);
    open.end_what_is_not_in(&still_open);
    assert!(!has_ended(&anybody));
    let closed = rules(&keys(&["first"])).succeeding(&still_open);
    still_open.end_what_is_not_in(&closed);
    assert!(has_ended(&anybody));
    assert!(closed.need_key());
}

/// Tokens of a provider that stays are not verified again after a reload.
#[test]
fn a_provider_that_stays_keeps_what_is_known_of_its_tokens() {
    let verifier: Arc<dyn TokenVerifier> = Arc::new(NoTokens);
    let with = |verifier: &Arc<dyn TokenVerifier>| AuthOptions {
        tokens: Some(Arc::clone(verifier)),
        ..AuthOptions::default()
    };
    let first = rules(&with(&verifier));
    let second = rules(&with(&verifier)).succeeding(&first);
    let ring = |rules: &Rules| rules.tokens.clone().unwrap();
    assert!(Arc::ptr_eq(&ring(&first), &ring(&second)));
    let third = rules(&with(&(Arc::new(NoTokens) as _))).succeeding(&second);
    assert!(!Arc::ptr_eq(&ring(&second), &ring(&third)));
}
