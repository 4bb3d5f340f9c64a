//! The keys of a provider: where they are is discovered, and they are fetched when they are needed.
//!
//! Keys are fetched again while they are used, and when a token names an unknown one, but not more
//! often than every few seconds, whatever tokens come. If the provider cannot be reached, or gives no
//! key that can be used, the keys that are known stay in use.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use reqwest::{Client, StatusCode, redirect::Policy};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use turnwire_contract::TokenError;
use turnwire_http::chain;

use crate::RSA;

/// How long one answer of the provider is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long keys are used before they are fetched again.
const FETCH_AFTER: Duration = Duration::from_mins(5);
/// How long the provider is left alone after it was asked, whatever it answered.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum size of a document of the provider, in bytes.
const MAX_DOCUMENT: usize = 1024 * 1024;
/// Maximum number of keys.
const MAX_KEYS: usize = 1_000;

/// Keys with their IDs. A provider with one key may give it none.
pub(crate) type Keys = Vec<(Option<String>, Key)>;

/// A key that verifies tokens.
#[derive(Clone)]
pub(crate) struct Key {
    key: Arc<DecodingKey>,
    /// The algorithms it may be used with.
    algorithms: Vec<Algorithm>,
}

/// The keys of one provider.
#[derive(Debug)]
pub(crate) struct ProviderKeys {
    client: Client,
    issuer: String,
    known: Mutex<Known>,
    /// Held by whoever asks the provider.
    fetching: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Known {
    keys: Arc<Keys>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    /// When the provider was last asked, and why that failed.
    asked: Option<(Instant, Option<String>)>,
}

impl Known {
    fn was_just_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|(at, _)| at.elapsed() < PAUSE)
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("n_keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// What discovery says, as far as it is used.
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Debug, Deserialize)]
struct KeyDocument {
    /// Untyped, because one key of an unknown kind must not spoil the others.
    keys: Vec<Value>,
}

impl ProviderKeys {
    pub(crate) fn new(issuer: &str) -> Result<Arc<Self>, reqwest::Error> {
        let client = turnwire_http::client().redirect(Policy::none()).timeout(TIMEOUT).build()?;
        Ok(Arc::new(Self {
            client,
            issuer: issuer.to_owned(),
            known: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// The key that a token was signed with.
    pub(crate) async fn find(
        self: &Arc<Self>,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Arc<DecodingKey>, TokenError> {
        let found = if let Some(known) = self.key(kid, algorithm) {
            // Nobody waits for a provider whose keys are known.
            if self.is_due() {
                self.refresh_in_background();
            }
            known
        } else {
            // It goes on without us: somebody may send tokens and leave, to keep others from the
            // keys. If it panics, there is no key.
            let _ = self.refresh_in_background().await;
            self.key(kid, algorithm).ok_or_else(|| self.why_not())?
        };
        if !found.algorithms.contains(&algorithm) {
            return Err(TokenError::Invalid("its algorithm is not that of the key".to_owned()));
        }
        Ok(found.key)
    }

    fn key(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<Key> {
        let known = self.known();
        match kid {
            Some(_) => {
                let named = known.keys.iter().filter(|(id, _)| id.as_deref() == kid);
                let named = named.map(|(_, key)| key);
                // Keys of different kinds may share an ID.
                let fits = |key: &&Key| key.algorithms.contains(&algorithm);
                named.clone().find(fits).or_else(|| named.clone().next()).cloned()
            }
            // Without a name it must be the only one.
            None => match known.keys.as_slice() {
                [(_, only)] => Some(only.clone()),
                _ => None,
            },
        }
    }

    /// Whether the keys should be fetched again.
    fn is_due(&self) -> bool {
        let known = self.known();
        known.fetched.is_none_or(|at| at.elapsed() >= FETCH_AFTER) && !known.was_just_asked()
    }

    fn refresh_in_background(self: &Arc<Self>) -> JoinHandle<()> {
        let keys = Arc::clone(self);
        self.tasks.spawn(async move { keys.refresh().await })
    }

    /// Fetches the keys, unless somebody did just now.
    async fn refresh(&self) {
        let _one_at_a_time = self.fetching.lock().await;
        if self.known().was_just_asked() {
            return;
        }
        let fetched = self.fetch().await;
        let now = Instant::now();
        let mut known = self.known();
        match fetched {
            Ok(keys) => {
                let names = |keys: &Keys| -> Vec<Option<String>> {
                    keys.iter().map(|(kid, _)| kid.clone()).collect()
                };
                if names(&keys) != names(&known.keys) {
                    info!(
                        issuer = self.issuer,
                        n_keys = keys.len(),
                        "keys of the provider fetched"
                    );
                }
                *known =
                    Known { keys: Arc::new(keys), fetched: Some(now), asked: Some((now, None)) };
            }
            Err(error) => {
                warn!(issuer = self.issuer, error, "keys of the provider not fetched");
                known.asked = Some((now, Some(error)));
            }
        }
    }

    /// Why there is no key for a token.
    fn why_not(&self) -> TokenError {
        let known = self.known();
        match (&known.fetched, &known.asked) {
            (None, Some((_, Some(error)))) => TokenError::Unavailable(error.clone()),
            _ => TokenError::Invalid("it is signed with an unknown key".to_owned()),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the provider for its keys. There is at least one.
    pub(crate) async fn fetch(&self) -> Result<Keys, String> {
        let issuer = self.issuer.trim_end_matches('/');
        let discovery: Discovery =
            self.document(&format!("{issuer}/.well-known/openid-configuration")).await?;
        if discovery.issuer != self.issuer {
            return Err(format!(
                "the provider calls itself `{}`, which must be the issuer in the settings",
                discovery.issuer
            ));
        }
        let is_safe = |url: &str| url.starts_with("https://");
        if is_safe(issuer) && !is_safe(&discovery.jwks_uri) {
            return Err(format!("its keys are not at an https address: {}", discovery.jwks_uri));
        }
        let document: KeyDocument = self.document(&discovery.jwks_uri).await?;
        if document.keys.len() > MAX_KEYS {
            return Err(format!("the provider has more than {MAX_KEYS} keys"));
        }
        let keys: Keys = document.keys.into_iter().filter_map(usable).collect();
        if keys.is_empty() { Err("the provider has no usable key".to_owned()) } else { Ok(keys) }
    }

    async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        let failed = |error: reqwest::Error| format!("{url}: {}", chain(&error.without_url()));
        let request = self.client.get(url).header("accept", "application/json");
        let mut response = request.send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(format!("{url}: status {}", response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_DOCUMENT {
                return Err(format!("{url}: more than {MAX_DOCUMENT} bytes"));
            }
        }
        serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))
    }
}

/// A key that verifies tokens, by its ID. `None` for keys of other uses and kinds.
fn usable(key: Value) -> Option<(Option<String>, Key)> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|what| *what != PublicKeyUse::Signature) {
        return None;
    }
    let mut algorithms = algorithms_of(&jwk.algorithm).to_vec();
    if let Some(named) = jwk.common.key_algorithm {
        let named = Algorithm::try_from(named).ok()?;
        algorithms.retain(|algorithm| *algorithm == named);
    }
    if algorithms.is_empty() {
        return None;
    }
    let key = Arc::new(DecodingKey::from_jwk(&jwk).ok()?);
    Some((jwk.common.key_id, Key { key, algorithms }))
}

/// The algorithms for which a key can be used. A secret is none that verifies: nobody who verifies
/// should have it.
fn algorithms_of(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    match parameters {
        AlgorithmParameters::RSA(_) => &RSA,
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        _ => &[],
    }
}
