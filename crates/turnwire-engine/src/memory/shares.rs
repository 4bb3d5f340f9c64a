//! In-memory share links.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use turnwire_contract::{MAX_SHARES, RunId, Share, Shares, StoreError, TenantId, ports::Result};
use uuid::Uuid;

use crate::sync::lock;

/// Share links in memory. They do not outlive the process.
#[derive(Debug)]
pub struct MemoryShares {
    secret: String,
    shares: Mutex<HashMap<String, Share>>,
}

impl Default for MemoryShares {
    fn default() -> Self {
        let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { secret, shares: Mutex::default() }
    }
}

#[async_trait]
impl Shares for MemoryShares {
    async fn secret(&self) -> Result<String> {
        Ok(self.secret.clone())
    }

    async fn share(&self, share: Share) -> Result<()> {
        let mut shares = lock(&self.shares);
        shares.retain(|_, known| known.expires_at > share.created_at);
        let of_run = |known: &&Share| known.tenant == share.tenant && known.run_id == share.run_id;
        if shares.values().filter(of_run).count() >= MAX_SHARES {
            return Err(StoreError::Rejected(format!("{MAX_SHARES} share links exist")));
        }
        shares.insert(share.share_id.clone(), share);
        Ok(())
    }

    async fn shares_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Share>> {
        let shares = lock(&self.shares);
        let of_run = shares.values().filter(|share| share.tenant == *tenant);
        let mut of_run: Vec<Share> =
            of_run.filter(|share| share.run_id == *run_id).cloned().collect();
        of_run.sort_by(|one, other| {
            (one.created_at, &one.share_id).cmp(&(other.created_at, &other.share_id))
        });
        Ok(of_run)
    }

    async fn find_share(&self, share_id: &str) -> Result<Option<Share>> {
        Ok(lock(&self.shares).get(share_id).cloned())
    }

    async fn revoke(&self, tenant: &TenantId, run_id: &RunId, share_id: &str) -> Result<bool> {
        let mut shares = lock(&self.shares);
        let is_it =
            shares.get(share_id).is_some_and(|it| it.tenant == *tenant && it.run_id == *run_id);
        Ok(is_it && shares.remove(share_id).is_some())
    }
}
