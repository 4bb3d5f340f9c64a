//! The text of an API key, and new keys.
//!
//! A key is `tw_`, 256 random bits, and four bytes of a checksum, by which a mistyped key is
//! refused without asking the store. Nothing else about a key is in its text: what it allows is
//! in the store alone.

use std::collections::BTreeSet;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use turnwire_contract::{ApiKey, Scope, TenantId, Timestamp};

use crate::admission::KeyDigest;

const START: &str = "tw_";
/// Length of the random part: 32 bytes in base64.
const RANDOM_LENGTH: usize = 43;
/// Length of the checksum: 4 bytes in base64.
const CHECKSUM_LENGTH: usize = 6;
/// Number of characters by which a person recognizes a key.
const PREFIX_LENGTH: usize = 10;

/// What a new key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    pub tenant: TenantId,
    pub project: Option<String>,
    /// Name chosen by the creator.
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

impl NewApiKey {
    /// A key in place of another one: for the same tenant and purpose, and for as long as the other
    /// was made for.
    pub fn in_place_of(old: ApiKey, now: Timestamp) -> Self {
        let lifetime = old.expires_at.map(|end| end.since(old.created_at));
        Self {
            tenant: old.tenant,
            project: old.project,
            name: old.name,
            scopes: old.scopes,
            created_at: now,
            expires_at: lifetime.map(|lifetime| now.later(lifetime)),
        }
    }

    /// Makes the key. Returns its record, and its text, which is nowhere else. Fails if the
    /// operating system has no random bytes.
    pub fn make(self) -> Result<(ApiKey, String), getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        let body = format!("{START}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let text = format!("{body}{}", checksum(&body));
        let Self { tenant, project, name, scopes, created_at, expires_at } = self;
        let record = ApiKey {
            key_id: format!("key_{}", hex::encode(id)),
            tenant,
            project,
            name,
            prefix: text.chars().take(PREFIX_LENGTH).collect(),
            digest: KeyDigest::of(&text).hex(),
            scopes,
            created_at,
            expires_at,
            revoked_at: None,
            last_used_at: None,
            replaced_by: None,
        };
        Ok((record, text))
    }
}

/// Whether a text has the form of a key of a store.
pub(super) fn is_well_formed(text: &str) -> bool {
    let Some((body, sum)) = text.split_at_checked(START.len() + RANDOM_LENGTH) else {
        return false;
    };
    body.starts_with(START) && sum == checksum(body)
}

fn checksum(body: &str) -> String {
    let sum = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(body.as_bytes()));
    sum.chars().take(CHECKSUM_LENGTH).collect()
}

#[cfg(test)]
#[path = "api_key_tests.rs"]
mod tests;
