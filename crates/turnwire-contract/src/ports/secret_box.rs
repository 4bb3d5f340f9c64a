//! Encryption of the secrets that requests bring, so that a run can be continued by another worker.

use thiserror::Error;

use crate::{RunId, ServerSecrets, TenantId};

/// What secrets belong to. They can be decrypted only for exactly this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretOwner<'a> {
    /// Tenant of the run.
    pub tenant: &'a TenantId,
    /// The run.
    pub run_id: &'a RunId,
    /// Label of the server in the run.
    pub server: &'a str,
    /// URL of the server.
    pub url: &'a str,
}

/// Encrypted secrets of one run for one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Label of the server in the run.
    pub server: String,
    /// The key that encrypted them.
    pub key_id: String,
    /// The ciphertext and what belongs to it, as text.
    pub sealed: String,
}

/// Encrypts and decrypts secrets.
///
/// Guarantees of an implementation:
///
/// * the ciphertext is authenticated, together with its owner;
/// * equal secrets have different ciphertexts;
/// * what was encrypted with an earlier key can be decrypted for as long as that key is known.
pub trait SecretBox: Send + Sync {
    /// Encrypts `secrets` for their owner, with the current key.
    fn seal(
        &self,
        owner: SecretOwner<'_>,
        secrets: &ServerSecrets,
    ) -> Result<SealedSecret, SecretError>;

    /// Decrypts secrets of this owner.
    fn open(
        &self,
        owner: SecretOwner<'_>,
        sealed: &SealedSecret,
    ) -> Result<ServerSecrets, SecretError>;

    /// Whether the key with this ID is known.
    fn knows_key(&self, key_id: &str) -> bool;
}

/// Why secrets cannot be encrypted or decrypted. Says nothing about them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// This server does not have the key that encrypted them.
    #[error("they are encrypted with the key `{0}`, which is not in [secrets] of this server")]
    UnknownKey(String),
    /// They were changed, or belong to something else.
    #[error("they cannot be decrypted: they were changed, or belong to another run or server")]
    Rejected,
    /// There is no source of random numbers.
    #[error("they cannot be encrypted: there are no random numbers")]
    NoRandomness,
}
