//! What the settings say about who may call. A reload replaces it as a whole.
//!
//! What stays the same over a reload keeps its state, so that open requests are not ended: a key by
//! its digest, an identity provider by its verifier.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;
use turnwire_contract::Timestamp;

use super::{
    AuthOptions, Clock,
    identity::Identity,
    in_use::{InUse, Validity},
    key_ring::KeyRing,
    token_ring::TokenRing,
};
use crate::admission::KeyDigest;

#[derive(Debug)]
pub(super) struct Rules {
    /// Cancelled when requests without a key end: the store has one, or the settings.
    closed: CancellationToken,
    /// The keys of the settings, by their digests; the keys themselves are not kept.
    keys: BTreeMap<KeyDigest, Arc<InUse>>,
    /// The tokens of the identity provider, if there is one.
    pub(super) tokens: Option<Arc<TokenRing>>,
    pub(super) metrics_token: Option<KeyDigest>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
}

impl Rules {
    pub(super) fn new(options: &AuthOptions, ring: &KeyRing, clock: &Clock) -> Self {
        let keys = options.api_keys.iter().map(|key| KeyDigest::of(key));
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        let tokens = options.tokens.clone();
        Self {
            closed: ring.has_keys_token(),
            keys: keys.map(|key| (key, Arc::new(InUse::new(clock())))).collect(),
            tokens: tokens.map(|verifier| TokenRing::new(verifier, Arc::clone(clock))),
            metrics_token: options.metrics_token.as_deref().map(KeyDigest::of),
            hosts: lower(&options.hosts),
            origins: lower(&options.origins),
        }
    }

    /// Takes over from `before` what is the same.
    pub(super) fn succeeding(mut self, before: &Self) -> Self {
        for (key, in_use) in &mut self.keys {
            if let Some(known) = before.keys.get(key) {
                *in_use = Arc::clone(known);
            }
        }
        if let (Some(tokens), Some(known)) = (&mut self.tokens, &before.tokens)
            && tokens.has_verifier_of(known)
        {
            *tokens = Arc::clone(known);
        }
        if !self.need_key() && !before.need_key() {
            self.closed = before.closed.clone();
        }
        self
    }

    /// Ends what was opened by these rules and is not allowed by `next`.
    pub(super) fn end_what_is_not_in(&self, next: &Self) {
        for (_, in_use) in self.keys.iter().filter(|(key, _)| !next.keys.contains_key(key)) {
            in_use.end();
        }
        if let Some(tokens) = &self.tokens
            && !next.tokens.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, tokens))
        {
            tokens.end_all();
        }
        if next.need_key() {
            self.closed.cancel();
        }
    }

    /// Whether requests need a key, whatever the store has.
    pub(super) fn need_key(&self) -> bool {
        !self.keys.is_empty() || self.tokens.is_some()
    }

    /// Whoever calls a server that needs no key.
    pub(super) fn anybody(&self) -> Identity {
        Identity { validity: Some(Validity::until(&self.closed)), ..Identity::of_anybody() }
    }

    /// The holder of a key of the settings.
    pub(super) fn holder(&self, key: KeyDigest, now: Timestamp) -> Option<Identity> {
        let in_use = self.keys.get(&key)?;
        Some(Identity { validity: Some(in_use.begin(now)), ..Identity::of_settings_key(key) })
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
