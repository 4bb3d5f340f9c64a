//! API keys: who may do what, for which tenant.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;

use super::{Result, Scope};
use crate::{TenantId, Timestamp};

/// Maximum length of the names of keys, tenants and projects, in bytes.
const MAX_NAME: usize = 200;

/// An API key. The key itself is not stored: it has 256 random bits, so its digest is enough to
/// recognize it and useless for anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// ID of the key: `key_…`.
    pub key_id: String,
    /// Tenant whose data the key gives access to.
    pub tenant: TenantId,
    /// Part of the tenant that the key is used by. A label, not a boundary.
    pub project: Option<String>,
    /// Name chosen by the creator.
    pub name: String,
    /// First characters of the key, by which a person recognizes it.
    pub prefix: String,
    /// SHA-256 of the key, in hexadecimal.
    pub digest: String,
    /// What the key allows.
    pub scopes: BTreeSet<Scope>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time after which the key is not valid.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation. A revoked key stays in the list.
    pub revoked_at: Option<Timestamp>,
    /// Time of the last request with the key, give or take a minute.
    pub last_used_at: Option<Timestamp>,
    /// ID of the key that it was rotated to.
    pub replaced_by: Option<String>,
}

impl ApiKey {
    /// Checks the name of a key, of a tenant or of a project. The error says what it must be like.
    pub fn check_name(name: &str) -> Result<(), String> {
        let is_fine = !name.trim().is_empty()
            && name.len() <= MAX_NAME
            && !name.chars().any(char::is_control);
        if is_fine {
            return Ok(());
        }
        Err(format!("must have 1 to {MAX_NAME} bytes and no control characters"))
    }

    /// Whether the key is valid at `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Stores API keys.
///
/// Guarantees of an implementation:
///
/// * a key is found by its digest alone, and stays in the list after it expired or was revoked, for
///   as long as entries of the audit log may name it;
/// * a change of a key is in [`changed_keys`](Self::changed_keys) for all users of the store;
/// * a tenant, where one is given, bounds what is listed and changed.
#[async_trait]
pub trait ApiKeys: Send + Sync {
    /// Stores a new key. Fails with [`Rejected`](crate::StoreError::Rejected) if the tenant has
    /// [`MAX_API_KEYS`] valid keys.
    async fn create_key(&self, key: ApiKey) -> Result<()>;

    /// Stores `new` in place of the valid key `key_id`, which stays valid until `until` at the
    /// longest; if that is not later than the creation of `new`, it is revoked. Both or neither.
    /// Returns whether there was such a key. A key is rotated once.
    async fn rotate_key(&self, key_id: &str, until: Timestamp, new: ApiKey) -> Result<bool>;

    /// Revokes a key at `now`. Returns it as it is then; `None` if there is no such key.
    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        key_id: &str,
        now: Timestamp,
    ) -> Result<Option<ApiKey>>;

    /// Returns the keys of one tenant or of all, oldest first.
    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<ApiKey>>;

    /// Returns the key with this digest, valid or not.
    async fn find_key(&self, digest: &str) -> Result<Option<ApiKey>>;

    /// Whether a key was ever created.
    async fn has_keys(&self) -> Result<bool>;

    /// Returns the keys that were rotated or revoked within the last `within`, by the clock of the
    /// store.
    async fn changed_keys(&self, within: Duration) -> Result<Vec<ApiKey>>;

    /// Records the last uses of keys, by their IDs.
    async fn note_uses(&self, uses: &[(String, Timestamp)]) -> Result<()>;
}

/// Maximum number of valid keys of a tenant.
pub const MAX_API_KEYS: usize = 10_000;
