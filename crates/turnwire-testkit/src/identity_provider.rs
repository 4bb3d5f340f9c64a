//! An `OpenID` Connect provider on loopback: it signs tokens, publishes its keys, and rotates them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    encoding::AsDer,
    rand::SystemRandom,
    rsa::{KeyPair, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::get,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;

use crate::upstreams::serve;

/// A provider, until dropped.
#[derive(Debug)]
pub struct IdentityProvider {
    address: SocketAddr,
    inside: Arc<Mutex<Inside>>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Inside {
    /// Published keys. The last one signs.
    keys: Vec<SigningKey>,
    n_rotations: usize,
    /// How often the keys were asked for.
    n_asked: usize,
    is_away: bool,
    answer: Option<KeysAnswer>,
    /// The issuer that discovery names, if it is not the true one.
    other_name: Option<String>,
}

/// What a provider answers when it is asked for its keys, in place of them.
#[derive(Debug, Clone)]
pub enum KeysAnswer {
    /// These keys.
    Keys(Vec<Value>),
    /// This status; with one of redirects, the address of the true keys.
    Status(StatusCode),
    /// A document of so many bytes.
    Long(usize),
    /// Nothing, without end.
    Never,
}

/// A key of a provider.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// ID of the key.
    pub kid: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    /// A new key for `ES256`.
    pub fn elliptic(kid: &str) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = EncodingKey::from_ec_der(key.expect("a key").as_ref());
        Self { kid: kid.to_owned(), algorithm: Algorithm::ES256, key }
    }

    /// A new key for `RS256`.
    pub fn rsa(kid: &str) -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let pkcs8 = key.as_der().expect("its form");
        // The key itself follows a header of 26 bytes, which says that it is one.
        let key = EncodingKey::from_rsa_der(pkcs8.as_ref().get(26..).expect("it is longer"));
        Self { kid: kid.to_owned(), algorithm: Algorithm::RS256, key }
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).expect("it can be signed")
    }

    /// The key that verifies, as it is published.
    pub fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("it has one");
        jwk.common.key_id = Some(self.kid.clone());
        serde_json::to_value(jwk).expect("it is JSON")
    }
}

impl IdentityProvider {
    /// Listens on any free port of loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let inside = Arc::new(Mutex::new(Inside {
            keys: vec![SigningKey::elliptic("key_0")],
            n_rotations: 0,
            n_asked: 0,
            is_away: false,
            answer: None,
            other_name: None,
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/true_keys", get(true_keys))
            .with_state((address, Arc::clone(&inside)));
        let (_, stop) = serve(listener, router);
        Self { address, inside, _stop: stop }
    }

    /// Returns the issuer, which is its URL.
    pub fn issuer(&self) -> String {
        issuer(self.address)
    }

    /// Returns claims of a valid token for an audience, with more or other ones.
    pub fn claims(&self, audience: &str, more: Value) -> Value {
        let mut claims = json!({
            "iss": self.issuer(), "aud": audience, "sub": "ada", "exp": now() + 3_600, "iat": now(),
        });
        if let (Some(claims), Value::Object(more)) = (claims.as_object_mut(), more) {
            claims.extend(more);
        }
        claims
    }

    /// Signs claims with the newest key.
    pub fn sign(&self, claims: &Value) -> String {
        self.inside().keys.last().expect("there is a key").sign(claims)
    }

    /// Signs with a new key from now on. Publishes the old ones further, or not.
    pub fn rotate(&self, keeps_old: bool) {
        let mut inside = self.inside();
        if !keeps_old {
            inside.keys.clear();
        }
        inside.n_rotations += 1;
        let kid = format!("key_{}", inside.n_rotations);
        inside.keys.push(SigningKey::elliptic(&kid));
    }

    /// Publishes another key, which signs from now on.
    pub fn add(&self, key: SigningKey) {
        self.inside().keys.push(key);
    }

    /// Answers everything with an error, or no longer.
    pub fn set_away(&self, is_away: bool) {
        self.inside().is_away = is_away;
    }

    /// Answers so when it is asked for its keys, or with them again.
    pub fn answer(&self, answer: Option<KeysAnswer>) {
        self.inside().answer = answer;
    }

    /// Has discovery name another issuer.
    pub fn set_name(&self, name: &str) {
        self.inside().other_name = Some(name.to_owned());
    }

    /// Returns how often its keys were asked for.
    pub fn n_asked(&self) -> usize {
        self.inside().n_asked
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs()
}

type Shared = (SocketAddr, Arc<Mutex<Inside>>);

fn issuer(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn lock(inside: &Mutex<Inside>) -> MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn discovery(State((address, inside)): State<Shared>) -> Result<Json<Value>, StatusCode> {
    let inside = lock(&inside);
    if inside.is_away {
        return Err(StatusCode::BAD_GATEWAY);
    }
    let url = issuer(address);
    let name = inside.other_name.clone().unwrap_or_else(|| url.clone());
    Ok(Json(json!({ "issuer": name, "jwks_uri": format!("{url}/keys") })))
}

async fn keys(State((address, inside)): State<Shared>) -> Response {
    let answer = {
        let mut inside = lock(&inside);
        if inside.is_away {
            return StatusCode::BAD_GATEWAY.into_response();
        }
        inside.n_asked += 1;
        inside.answer.clone()
    };
    match answer {
        None => true_keys(State((address, inside))).await.into_response(),
        Some(KeysAnswer::Keys(keys)) => Json(json!({ "keys": keys })).into_response(),
        Some(KeysAnswer::Status(status)) => (status, [(LOCATION, "/true_keys")]).into_response(),
        Some(KeysAnswer::Long(n_bytes)) => {
            Json(json!({ "keys": ["k".repeat(n_bytes)] })).into_response()
        }
        Some(KeysAnswer::Never) => std::future::pending().await,
    }
}

async fn true_keys(State((_, inside)): State<Shared>) -> Json<Value> {
    let inside = lock(&inside);
    let mut keys: Vec<Value> = inside.keys.iter().map(SigningKey::public).collect();
    // Providers publish keys that nobody here can use, too.
    keys.push(json!({ "kty": "new-kind", "kid": "unknown" }));
    keys.push(
        json!({ "kty": "RSA", "use": "enc", "kid": "for_encryption", "n": "AQAB", "e": "AQAB" }),
    );
    keys.push(json!({ "kty": "oct", "kid": "secret", "k": "c2VjcmV0" }));
    Json(json!({ "keys": keys }))
}
