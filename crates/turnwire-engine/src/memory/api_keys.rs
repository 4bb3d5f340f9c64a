//! In-memory API keys.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use async_trait::async_trait;
use turnwire_contract::{
    ApiKey, ApiKeys, MAX_API_KEYS, StoreError, TenantId, Timestamp, ports::Result,
};

use crate::sync::lock;

/// API keys in memory. They do not outlive the process.
#[derive(Debug, Default)]
pub struct MemoryApiKeys(Mutex<HashMap<String, ApiKey>>);

impl MemoryApiKeys {
    fn listed(&self, is_wanted: impl Fn(&ApiKey) -> bool) -> Vec<ApiKey> {
        let mut found: Vec<ApiKey> =
            lock(&self.0).values().filter(|key| is_wanted(key)).cloned().collect();
        found.sort_by(|one, other| {
            (one.created_at, &one.key_id).cmp(&(other.created_at, &other.key_id))
        });
        found
    }
}

fn add(keys: &mut HashMap<String, ApiKey>, key: ApiKey) -> Result<()> {
    let counts = |known: &&ApiKey| known.tenant == key.tenant && known.is_valid_at(key.created_at);
    if keys.values().filter(counts).count() >= MAX_API_KEYS {
        return Err(StoreError::Rejected(format!("{MAX_API_KEYS} keys exist")));
    }
    keys.insert(key.key_id.clone(), key);
    Ok(())
}

#[async_trait]
impl ApiKeys for MemoryApiKeys {
    async fn create_key(&self, key: ApiKey) -> Result<()> {
        add(&mut lock(&self.0), key)
    }

    async fn rotate_key(&self, key_id: &str, until: Timestamp, new: ApiKey) -> Result<bool> {
        let mut keys = lock(&self.0);
        let (now, new_id) = (new.created_at, new.key_id.clone());
        let is_it = keys.get(key_id).is_some_and(|key| {
            key.tenant == new.tenant && key.is_valid_at(now) && key.replaced_by.is_none()
        });
        if !is_it {
            return Ok(false);
        }
        add(&mut keys, new)?;
        if let Some(old) = keys.get_mut(key_id) {
            old.expires_at = Some(old.expires_at.map_or(until, |end| end.min(until)));
            old.revoked_at = (until <= now).then_some(now);
            old.replaced_by = Some(new_id);
        }
        Ok(true)
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        key_id: &str,
        now: Timestamp,
    ) -> Result<Option<ApiKey>> {
        let mut keys = lock(&self.0);
        let is_theirs = |key: &&mut ApiKey| tenant.is_none_or(|tenant| key.tenant == *tenant);
        let Some(key) = keys.get_mut(key_id).filter(is_theirs) else { return Ok(None) };
        key.revoked_at.get_or_insert(now);
        Ok(Some(key.clone()))
    }

    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<ApiKey>> {
        Ok(self.listed(|key| tenant.is_none_or(|tenant| key.tenant == *tenant)))
    }

    async fn find_key(&self, digest: &str) -> Result<Option<ApiKey>> {
        Ok(lock(&self.0).values().find(|key| key.digest == digest).cloned())
    }

    async fn has_keys(&self) -> Result<bool> {
        Ok(!lock(&self.0).is_empty())
    }

    async fn changed_keys(&self, _: Duration) -> Result<Vec<ApiKey>> {
        Ok(self.listed(|key| key.revoked_at.is_some() || key.expires_at.is_some()))
    }

    async fn note_uses(&self, uses: &[(String, Timestamp)]) -> Result<()> {
        let mut keys = lock(&self.0);
        for (key_id, at) in uses {
            if let Some(key) = keys.get_mut(key_id) {
                key.last_used_at = key.last_used_at.max(Some(*at));
            }
        }
        Ok(())
    }
}
