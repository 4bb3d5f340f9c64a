//! Encryption of what is stored: each tenant has a random key, which is stored encrypted with a key
//! of the operator.
//!
//! Everything that reads or writes content of tenants passes here: [`Sealing::current`] returns the
//! key to [write with](DataKey::seal), [`Sealing::open`] decrypts what was read. What was stored
//! without encryption, before it was turned on, is returned as it is.
//!
//! A key that this process does not have is not a damaged row: it is
//! [`DatabaseError::KeyMissing`], and another process may have it. A ciphertext that its key
//! refuses is returned as it is, and is then as unreadable as any other damaged row.

mod data_key;
mod tenant_keys;

pub(crate) use data_key::{DataKey, Place, SEALED};
pub use tenant_keys::{EncryptionStatus, WrappedKeys};

use std::{borrow::Cow, collections::HashMap, sync::Arc, sync::Mutex, time::Duration};

use tokio::time::Instant;
use tracing::error;
use turnwire_contract::TenantId;

use self::data_key::{SealedBytes, SealedText};
use crate::{
    database::{Database, DatabaseError, Result},
    known_tools::KnownTools,
    secret_box::SecretKeys,
    sync::lock,
};

/// How many tenants' keys are in memory.
const MAX_TENANTS: usize = 16_384;

/// After this time the keys of a tenant are read again, to learn of a new one.
const FRESH_FOR: Duration = Duration::from_mins(1);

/// A key that was not found is looked for again after this time.
const MISSING_FOR: Duration = Duration::from_secs(1);

/// Encrypts and decrypts with the keys of tenants.
pub(crate) struct Sealing {
    database: Arc<dyn Database>,
    /// `None` encrypts nothing.
    operator_keys: Option<SecretKeys>,
    tenants: Mutex<HashMap<TenantId, CachedKeys>>,
    /// Lists of tools that were decrypted and decoded.
    pub(crate) known_tools: KnownTools,
}

#[derive(Clone)]
struct CachedKeys {
    keys: Arc<TenantKeys>,
    read_at: Instant,
    /// When somebody last went to read them again.
    asked_at: Instant,
    /// The key that was last looked for in the database and not found, and when.
    missed: Option<(String, Instant)>,
}

/// The keys of one tenant, oldest first.
#[derive(Debug, Default)]
struct TenantKeys {
    opened: Vec<Arc<DataKey>>,
    /// Those that this process cannot decrypt, and why.
    closed: Vec<(String, String)>,
}

/// What is known of a key.
enum Lookup {
    Found(Arc<DataKey>),
    /// It exists and cannot be decrypted here, for this reason.
    Closed(String),
    Unknown,
}

impl TenantKeys {
    fn find(&self, key_id: &str) -> Lookup {
        if let Some(key) = self.opened.iter().find(|key| key.id() == key_id) {
            return Lookup::Found(Arc::clone(key));
        }
        match self.closed.iter().find(|(id, _)| id == key_id) {
            Some((_, why)) => Lookup::Closed(why.clone()),
            None => Lookup::Unknown,
        }
    }
}

impl Sealing {
    pub(crate) fn new(database: Arc<dyn Database>, operator_keys: Option<SecretKeys>) -> Self {
        let (tenants, known_tools) = (Mutex::default(), KnownTools::default());
        Self { database, operator_keys, tenants, known_tools }
    }

    /// The database that has the keys, and what they encrypt.
    pub(crate) fn database(&self) -> &dyn Database {
        &*self.database
    }

    /// Returns the key that encrypts what is written for a tenant. `None` if nothing is encrypted.
    pub(crate) async fn current(&self, tenant: &TenantId) -> Result<Option<Arc<DataKey>>> {
        let Some(operator_keys) = &self.operator_keys else { return Ok(None) };
        if let Some(key) = self.fresh_key(tenant) {
            return Ok(Some(key));
        }
        let keys = match self.read(tenant).await {
            Ok(keys) if keys.opened.is_empty() && keys.closed.is_empty() => {
                self.create(operator_keys, tenant).await?;
                self.read(tenant).await?
            }
            Ok(keys) => keys,
            // What it had is still good.
            Err(error) => self.cached(tenant).map(|cached| cached.keys).ok_or(error)?,
        };
        if let Some((id, why)) = keys.closed.last() {
            error!(%tenant, key = id, why, "a key of the tenant cannot be used");
        }
        match (keys.opened.last(), keys.closed.last()) {
            (Some(newest), _) => Ok(Some(Arc::clone(newest))),
            (None, Some((_, why))) => Err(DatabaseError::KeyMissing(why.clone())),
            (None, None) => Err(DatabaseError::KeyMissing("the tenant has no key".to_owned())),
        }
    }

    /// Decrypts a column of JSON, if it is encrypted.
    pub(crate) async fn open<'a>(
        &self,
        tenant: &TenantId,
        place: Place<'_>,
        text: &'a str,
    ) -> Result<Cow<'a, str>> {
        let Some(sealed) = SealedText::of(text) else { return Ok(Cow::Borrowed(text)) };
        let key = self.key(tenant, sealed.key_id).await?;
        let key = key.ok_or_else(|| unknown_key(sealed.key_id))?;
        Ok(opened_text(&key, tenant, place, text, &sealed))
    }

    /// Decrypts a text for a list. One that cannot be decrypted here is empty: the rest of the list
    /// says enough. One that only looks encrypted, because somebody wrote so, is returned as it is.
    pub(crate) async fn open_text<'a>(
        &self,
        tenant: &TenantId,
        place: Place<'_>,
        text: &'a str,
    ) -> Result<Cow<'a, str>> {
        let Some(sealed) = SealedText::of(text) else { return Ok(Cow::Borrowed(text)) };
        let opened = match self.key(tenant, sealed.key_id).await {
            Ok(Some(key)) => key.open(place, &sealed),
            Ok(None) | Err(DatabaseError::KeyMissing(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(match opened {
            Some(opened) => Cow::Owned(opened),
            None if sealed.is_whole() => Cow::Borrowed(""),
            None => Cow::Borrowed(text),
        })
    }

    /// Like [`Self::open`], without asking the database. `None` if the key is not in memory.
    pub(crate) fn open_cached<'a>(
        &self,
        tenant: &TenantId,
        place: Place<'_>,
        text: &'a str,
    ) -> Option<Cow<'a, str>> {
        let Some(sealed) = SealedText::of(text) else { return Some(Cow::Borrowed(text)) };
        let Lookup::Found(key) = self.cached(tenant)?.keys.find(sealed.key_id) else { return None };
        Some(opened_text(&key, tenant, place, text, &sealed))
    }

    /// Decrypts bytes, if they are encrypted.
    pub(crate) async fn open_bytes(
        &self,
        tenant: &TenantId,
        place: Place<'_>,
        bytes: &[u8],
    ) -> Result<Vec<u8>> {
        let Some(sealed) = SealedBytes::of(bytes) else { return Ok(bytes.to_vec()) };
        let key = self.key(tenant, sealed.key_id).await?;
        let key = key.ok_or_else(|| unknown_key(sealed.key_id))?;
        key.open_bytes(place, &sealed).ok_or_else(|| {
            report(tenant, place);
            DatabaseError::Failed(format!("a value is damaged: {place:?}"))
        })
    }

    /// Returns a key of a tenant. `None` if the tenant has no such key.
    async fn key(&self, tenant: &TenantId, key_id: &str) -> Result<Option<Arc<DataKey>>> {
        let is_recent = |at: Instant| at.elapsed() < MISSING_FOR;
        let known = self.cached(tenant).and_then(|cached| match cached.keys.find(key_id) {
            Lookup::Closed(_) if !is_recent(cached.read_at) => None,
            Lookup::Unknown => {
                let (missed, at) = cached.missed?;
                (missed == key_id && is_recent(at)).then_some(Lookup::Unknown)
            }
            known => Some(known),
        });
        let lookup = match known {
            Some(known) => known,
            None => self.read(tenant).await?.find(key_id),
        };
        match lookup {
            Lookup::Found(key) => Ok(Some(key)),
            Lookup::Closed(why) => Err(DatabaseError::KeyMissing(why)),
            Lookup::Unknown => {
                if let Some(cached) = lock(&self.tenants).get_mut(tenant) {
                    cached.missed = Some((key_id.to_owned(), Instant::now()));
                }
                Ok(None)
            }
        }
    }

    fn cached(&self, tenant: &TenantId) -> Option<CachedKeys> {
        lock(&self.tenants).get(tenant).cloned()
    }

    /// Returns the newest key in memory, if it need not be read again. One caller at a time is sent
    /// to read it again; the others go on with what there is.
    fn fresh_key(&self, tenant: &TenantId) -> Option<Arc<DataKey>> {
        let mut tenants = lock(&self.tenants);
        let cached = tenants.get_mut(tenant)?;
        if cached.asked_at.elapsed() >= FRESH_FOR {
            cached.asked_at = Instant::now();
            return None;
        }
        cached.keys.opened.last().cloned()
    }

    fn cache(&self, tenant: &TenantId, keys: &Arc<TenantKeys>) {
        let mut tenants = lock(&self.tenants);
        if tenants.len() >= MAX_TENANTS && !tenants.contains_key(tenant) {
            let oldest = tenants.iter().min_by_key(|(_, cached)| cached.read_at);
            if let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) {
                tenants.remove(&oldest);
            }
        }
        let (keys, now) = (Arc::clone(keys), Instant::now());
        let cached = CachedKeys { keys, read_at: now, asked_at: now, missed: None };
        tenants.insert(tenant.clone(), cached);
    }
}

/// A ciphertext that its key refuses stays as it is: no JSON.
fn opened_text<'a>(
    key: &DataKey,
    tenant: &TenantId,
    place: Place<'_>,
    text: &'a str,
    sealed: &SealedText<'_>,
) -> Cow<'a, str> {
    key.open(place, sealed).map_or_else(
        || {
            report(tenant, place);
            Cow::Borrowed(text)
        },
        Cow::Owned,
    )
}

fn report(tenant: &TenantId, place: Place<'_>) {
    error!(%tenant, ?place, "a stored value was changed or moved: its key refuses it");
}

fn unknown_key(key_id: &str) -> DatabaseError {
    DatabaseError::KeyMissing(format!("the tenant has no key `{key_id}`"))
}

#[cfg(test)]
#[path = "sealing_tests.rs"]
mod tests;
