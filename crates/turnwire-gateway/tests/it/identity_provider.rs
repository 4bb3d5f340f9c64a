//! An identity provider that does not give its keys: what its tokens get, and who does not wait.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::Scope;
use turnwire_models::Turn;
use turnwire_testkit::{IdentityProvider, identity_provider::KeysAnswer};

use crate::{
    tenants::{accept_tokens, new_key, token_of},
    world::{Plan, World},
};

/// How long callers may wait whatever they waited before: the program is not optimized, and the
/// machine is shared.
const FLOOR: Duration = Duration::from_millis(400);

/// The longest of many waits of a caller with an API key.
async fn longest_wait(world: &World, key: &str) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let began = Instant::now();
        let asked = world.request(Method::GET, "/v1/models").bearer_auth(key).send().await;
        assert_eq!(asked.unwrap().status(), StatusCode::OK);
        longest = longest.max(began.elapsed());
    }
    longest
}

/// A19: while a provider does not answer, callers with API keys are answered as before. Tokens wait
/// for no longer than it may take to ask it, and then get 503 and when to come again, not 401.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_provider_costs_only_its_tokens() {
    let provider = IdentityProvider::start().await;
    provider.answer(Some(KeysAnswer::Never));
    let plan = Plan::new(Vec::<Turn>::new());
    let world = plan.options(|options| accept_tokens(options, &provider)).start().await;
    let key = new_key(&world, "acme", [Scope::RunsRead]).await.text;
    let quiet = longest_wait(&world, &key).await;
    let token = token_of(&provider, "acme", &[Scope::RunsRead], json!({}));
    let (url, began) = (world.url("/v1/models"), Instant::now());
    let asked = (0..50).map(|_| {
        let client = Client::builder().no_proxy().build().unwrap();
        client.get(&url).bearer_auth(&token).send()
    });
    let (refused, attacked) = tokio::join!(join_all(asked), longest_wait(&world, &key));
    assert!(attacked <= (2 * quiet).max(FLOOR), "{attacked:?} instead of {quiet:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    for refused in refused.into_iter().map(Result::unwrap) {
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
        let refused: Value = refused.json().await.unwrap();
        assert_eq!(refused["error"]["code"], "identity_provider_unavailable");
    }
    world.close().await;
}
