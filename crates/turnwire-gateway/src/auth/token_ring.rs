//! The tokens of an identity provider, as this process knows them.
//!
//! A token that was verified is remembered, so that not every request verifies it again. While any
//! is remembered, a task looks at them: what was opened with a token ends when the token expires,
//! and within a minute or so after its provider took back the key that signed it. If the provider
//! cannot be reached, tokens stay valid until they expire.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tracing::debug;
use turnwire_contract::{Actor, Timestamp, TokenError, TokenHolder, TokenVerifier};

use super::{Clock, identity::Identity, in_use::InUse};
use crate::{
    admission::KeyDigest,
    api_error::{ApiError, Result},
    sync::lock,
};

/// How often tokens are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a verified token is used before it is verified again.
const VERIFY_AFTER: Duration = Duration::from_mins(1);

/// The tokens of a provider.
pub(super) struct TokenRing {
    verifier: Arc<dyn TokenVerifier>,
    clock: Clock,
    known: Mutex<Known>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Known {
    tokens: HashMap<KeyDigest, KnownToken>,
    /// Whether the task that watches them runs.
    is_watched: bool,
    /// Whether the settings do not have the provider any more.
    has_ended: bool,
}

/// A token that was verified.
struct KnownToken {
    text: Arc<str>,
    holder: TokenHolder,
    in_use: InUse,
    verified: Instant,
}

impl std::fmt::Debug for TokenRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenRing")
            .field("verifier", &self.verifier)
            .field("n_known", &lock(&self.known).tokens.len())
            .finish_non_exhaustive()
    }
}

/// Whether a text has the form of a token: three parts, of which the first is JSON in base64.
pub(super) fn is_token(text: &str) -> bool {
    text.starts_with("ey") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl TokenRing {
    pub(super) fn new(verifier: Arc<dyn TokenVerifier>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { verifier, clock, known: Mutex::default(), tasks: TaskTracker::new() })
    }

    /// Whether the same verifier is asked in `other`.
    pub(super) fn has_verifier_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.verifier, &other.verifier)
    }

    /// Ends what is open with any token: the settings have another provider now, or none.
    pub(super) fn end_all(&self) {
        let mut known = lock(&self.known);
        known.has_ended = true;
        for token in known.tokens.values() {
            token.in_use.end();
        }
    }

    /// The holder of a token.
    pub(super) async fn identify(self: &Arc<Self>, text: &str) -> Result<Identity> {
        let digest = KeyDigest::of(text);
        if let Some(identity) = self.identity(digest, Some(VERIFY_AFTER)) {
            return Ok(identity);
        }
        match self.verifier.verify(text).await {
            Ok(holder) => {
                self.remember(digest, text, holder);
                // A clock that counts seconds lets it live a little longer than ours.
                self.identity(digest, None).ok_or_else(|| invalid_token("it has expired"))
            }
            Err(TokenError::Invalid(why)) => {
                self.forget(digest);
                Err(invalid_token(&why))
            }
            Err(TokenError::Unavailable(_)) => self.identity(digest, None).ok_or_else(unavailable),
        }
    }

    /// The holder of a token that is remembered, was verified within a time, and has not expired.
    fn identity(&self, digest: KeyDigest, within: Option<Duration>) -> Option<Identity> {
        let now = (self.clock)();
        let known = lock(&self.known);
        let token = known.tokens.get(&digest)?;
        let is_fresh = within.is_none_or(|within| token.verified.elapsed() < within);
        if !is_fresh || token.holder.expires_at <= now {
            return None;
        }
        let TokenHolder { tenant, subject, scopes, expires_at } = &token.holder;
        Some(Identity {
            tenant: tenant.clone(),
            // Whoever gets a new token has no new limits.
            key: Some(KeyDigest::of(&format!("{tenant}\0{subject}"))),
            actor: Some(Arc::new(Actor { subject: Some(subject.clone()), ..Actor::default() })),
            scopes: scopes.clone(),
            expires_at: Some(*expires_at),
            validity: Some(token.in_use.begin(now)),
        })
    }

    fn remember(self: &Arc<Self>, digest: KeyDigest, text: &str, holder: TokenHolder) {
        let now = (self.clock)();
        let mut known = lock(&self.known);
        let token = known.tokens.entry(digest).or_insert_with(|| KnownToken {
            text: Arc::from(text),
            holder: holder.clone(),
            in_use: InUse::new(now),
            verified: Instant::now(),
        });
        (token.holder, token.verified) = (holder, Instant::now());
        if known.has_ended {
            // It was verified while the settings were reloaded.
            known.tokens.values().for_each(|token| token.in_use.end());
        }
        if !known.is_watched {
            known.is_watched = true;
            // Ends with the ring, so nothing waits for it.
            self.tasks.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Ends what is open with a token that is not valid.
    fn forget(&self, digest: KeyDigest) {
        if let Some(token) = lock(&self.known).tokens.remove(&digest) {
            token.in_use.end();
        }
    }

    /// Verifies tokens of open requests again, one after the other: keys are fetched once.
    async fn verify_again(self: &Arc<Self>) {
        let is_due =
            |token: &KnownToken| token.verified.elapsed() >= VERIFY_AFTER && token.in_use.is_open();
        let due: Vec<(KeyDigest, Arc<str>)> = {
            let known = lock(&self.known);
            let due = known.tokens.iter().filter(|(_, token)| is_due(token));
            due.map(|(digest, token)| (*digest, Arc::clone(&token.text))).collect()
        };
        for (digest, text) in due {
            match self.verifier.verify(&text).await {
                Ok(holder) => self.remember(digest, &text, holder),
                Err(TokenError::Invalid(why)) => {
                    debug!(why, "token not valid any more");
                    self.forget(digest);
                }
                Err(TokenError::Unavailable(why)) => {
                    debug!(why, "token not verified again");
                    return;
                }
            }
        }
    }

    /// Ends tokens that expired, and forgets those that are not used. Returns whether any is left.
    fn tidy(&self) -> bool {
        let now: Timestamp = (self.clock)();
        let mut known = lock(&self.known);
        known.tokens.retain(|_, token| {
            let has_expired = token.holder.expires_at <= now;
            if has_expired {
                token.in_use.end();
            }
            !has_expired && !token.in_use.is_idle(now)
        });
        known.is_watched = !known.tokens.is_empty();
        known.is_watched
    }
}

/// Looks at tokens until none is remembered.
async fn watch(ring: Weak<TokenRing>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(ring) = ring.upgrade() else { return };
        if !ring.tidy() {
            return;
        }
        ring.verify_again().await;
    }
}

fn invalid_token(why: &str) -> ApiError {
    let message = format!("The token is not valid: {why}.");
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_token", message)
}

fn unavailable() -> ApiError {
    let message = "The identity provider cannot be reached, so the token was not verified.";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "identity_provider_unavailable", message)
}
