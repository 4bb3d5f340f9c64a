//! Encrypts with keys of the settings: XChaCha20-Poly1305 with a random nonce. This is how secrets
//! of runs are stored, and the keys of tenants (`sealing`).
//!
//! The first key encrypts, and all of them decrypt. So a key is replaced by putting a new one
//! before it, and is taken out when nothing is left that it has encrypted. A key has the ID that
//! follows from it, and two servers with the same key agree on it.

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
pub(crate) const KEY_LENGTH: usize = 32;
/// Length of a nonce in bytes: long enough to be random.
pub(crate) const NONCE_LENGTH: usize = 24;
/// Number of bytes of the hash that is the ID of a key.
const ID_LENGTH: usize = 4;
/// What the keys are used for. Another format of what is encrypted gets another name.
const PURPOSE: &str = "turnwire run secrets 1";

pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Keys of the operator. For secrets of runs, they are a [`SecretBox`].
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKeys {
    /// Not empty. The first one encrypts.
    keys: Vec<SecretKey>,
}

#[derive(Clone, PartialEq, Eq)]
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

    /// Encrypts `plain` with the first key, and authenticates `bound_to` with it. Returns the ID of
    /// the key and the ciphertext.
    pub(crate) fn wrap(
        &self,
        bound_to: &[u8],
        plain: &[u8],
    ) -> Result<(String, String), SecretError> {
        let key = self.keys.first().ok_or(SecretError::NoRandomness)?;
        let nonce = random::<NONCE_LENGTH>().map_err(|_| SecretError::NoRandomness)?;
        let payload = Payload { msg: plain, aad: bound_to };
        let sealed = key.cipher().encrypt(&XNonce::from(*nonce), payload);
        let sealed = sealed.map_err(|_| SecretError::Rejected)?;
        Ok((key.id.clone(), BASE64.encode([&nonce[..], &sealed].concat())))
    }

    /// Decrypts what the key with this ID has encrypted.
    pub(crate) fn unwrap(
        &self,
        key_id: &str,
        bound_to: &[u8],
        sealed: &str,
    ) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        let key = self.keys.iter().find(|key| key.id == key_id);
        let key = key.ok_or_else(|| SecretError::UnknownKey(key_id.to_owned()))?;
        let bytes = BASE64.decode(sealed).map_err(|_| SecretError::Rejected)?;
        let (nonce, sealed) =
            bytes.split_first_chunk::<NONCE_LENGTH>().ok_or(SecretError::Rejected)?;
        let payload = Payload { msg: sealed, aad: bound_to };
        let plain = key.cipher().decrypt(&XNonce::from(*nonce), payload);
        plain.map(Zeroizing::new).map_err(|_| SecretError::Rejected)
    }
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut *bytes)?;
    Ok(bytes)
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
        let (key_id, sealed) = self.wrap(&bound_to(owner), &secrets.to_bytes())?;
        Ok(SealedSecret { server: owner.server.to_owned(), key_id, sealed })
    }

    fn open(
        &self,
        owner: SecretOwner<'_>,
        sealed: &SealedSecret,
    ) -> Result<ServerSecrets, SecretError> {
        let plain = self.unwrap(&sealed.key_id, &bound_to(owner), &sealed.sealed)?;
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
