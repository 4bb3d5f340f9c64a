//! Encrypts secrets of runs with keys of the settings: XChaCha20-Poly1305 with a random nonce.
//!
//! The first key encrypts, and all of them decrypt. So a key is replaced by putting a new one before
//! it, and is taken out when no run that it has encrypted for is active any more. A key has the ID
//! that follows from it, and two servers with the same key agree on it.

use std::fmt;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};
use thiserror::Error;
use turnwire_contract::{SealedSecret, SecretBox, SecretError, SecretOwner, ServerSecrets};
use zeroize::Zeroizing;

/// Length of a key in bytes.
const KEY_LENGTH: usize = 32;
/// Length of a nonce in bytes: long enough to be random.
const NONCE_LENGTH: usize = 24;
/// Number of bytes of the hash that is the ID of a key.
const ID_LENGTH: usize = 4;
/// What the keys are used for. Another format of what is encrypted gets another name.
const PURPOSE: &str = "turnwire run secrets 1";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The keys for secrets of runs, as [`SecretBox`].
#[derive(Clone)]
pub struct SecretKeys {
    /// Not empty. The first one encrypts.
    keys: Vec<SecretKey>,
}

#[derive(Clone)]
struct SecretKey {
    id: String,
    key: Zeroizing<[u8; KEY_LENGTH]>,
}

/// Why a text has no keys. Says nothing about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SecretKeysError {
    /// The text is empty.
    #[error("there is no key in it")]
    None,
    /// The key with this number, from one, is not 32 bytes.
    #[error("key {0} is not 32 bytes in base64; make one with: openssl rand -base64 32")]
    NotAKey(usize),
    /// The key with this number, from one, is there twice.
    #[error("key {0} is there twice")]
    Duplicate(usize),
}

impl SecretKeys {
    /// Reads keys that are separated by commas or white space, each 32 bytes in base64.
    pub fn read(text: &str) -> Result<Self, SecretKeysError> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        let mut keys: Vec<SecretKey> = Vec::new();
        for (n, word) in (1..).zip(words.filter(|word| !word.is_empty())) {
            let key = SecretKey::read(word).ok_or(SecretKeysError::NotAKey(n))?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(SecretKeysError::Duplicate(n));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(SecretKeysError::None);
        }
        Ok(Self { keys })
    }

    /// Returns the IDs of the keys. The first one encrypts.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }
}

impl fmt::Debug for SecretKeys {
    /// Prints the IDs, never the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl SecretKey {
    fn read(word: &str) -> Option<Self> {
        let bytes = Zeroizing::new(BASE64.decode(word).ok()?);
        let key = Zeroizing::new(<[u8; KEY_LENGTH]>::try_from(bytes.as_slice()).ok()?);
        let hash = Sha256::new().chain_update(PURPOSE).chain_update(*key).finalize();
        let id = hex::encode(hash.get(..ID_LENGTH)?);
        Some(Self { id, key })
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key).into())
    }
}

impl SecretBox for SecretKeys {
    fn seal(
        &self,
        owner: SecretOwner<'_>,
        secrets: &ServerSecrets,
    ) -> Result<SealedSecret, SecretError> {
        let key = self.keys.first().ok_or(SecretError::NoRandomness)?;
        let mut nonce = [0; NONCE_LENGTH];
        getrandom::fill(&mut nonce).map_err(|_| SecretError::NoRandomness)?;
        let plain = secrets.to_bytes();
        let payload = Payload { msg: &plain, aad: &bound_to(owner) };
        let sealed = key.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| SecretError::Rejected)?;
        Ok(SealedSecret {
            server: owner.server.to_owned(),
            key_id: key.id.clone(),
            sealed: BASE64.encode([&nonce[..], &sealed].concat()),
        })
    }

    fn open(
        &self,
        owner: SecretOwner<'_>,
        sealed: &SealedSecret,
    ) -> Result<ServerSecrets, SecretError> {
        let key = self.keys.iter().find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| SecretError::UnknownKey(sealed.key_id.clone()))?;
        let bytes = BASE64.decode(&sealed.sealed).map_err(|_| SecretError::Rejected)?;
        let (nonce, sealed) =
            bytes.split_first_chunk::<NONCE_LENGTH>().ok_or(SecretError::Rejected)?;
        let payload = Payload { msg: sealed, aad: &bound_to(owner) };
        let plain = key.cipher().decrypt(&XNonce::from(*nonce), payload);
        let plain = Zeroizing::new(plain.map_err(|_| SecretError::Rejected)?);
        ServerSecrets::from_bytes(&plain).ok_or(SecretError::Rejected)
    }

    fn knows_key(&self, key_id: &str) -> bool {
        self.ids().any(|id| id == key_id)
    }
}

/// Returns what is authenticated together with the secrets. Lengths keep two owners apart whose
/// parts are the same text.
fn bound_to(owner: SecretOwner<'_>) -> Vec<u8> {
    let SecretOwner { tenant, run_id, server, url } = owner;
    let mut bytes = Vec::new();
    for part in [PURPOSE, tenant.as_str(), run_id.as_str(), server, url] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
#[path = "secret_box_tests.rs"]
mod tests;
