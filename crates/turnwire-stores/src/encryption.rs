//! What an operator asks about the keys of tenants, and does with them.

use tracing::info;
use turnwire_contract::TenantId;

use crate::{Result, Store, sealing::EncryptionStatus};

impl Store {
    /// Returns which keys are in use.
    pub async fn encryption_status(&self) -> Result<EncryptionStatus> {
        Ok(self.0.sealing.status().await?)
    }

    /// Encrypts the keys of tenants with the first key of the operator, where an earlier one did.
    /// Nothing else is rewritten. Returns how many there were.
    pub async fn rewrap_tenant_keys(&self) -> Result<u64> {
        let n_keys = self.0.sealing.rewrap().await?;
        info!(n_keys, "keys of tenants encrypted anew");
        Ok(n_keys)
    }

    /// Gives a tenant a new key, or every tenant that has one. It encrypts what is stored from then
    /// on; other processes use it a minute later at the latest. Returns how many tenants got one.
    pub async fn rotate_tenant_keys(&self, tenant: Option<&TenantId>) -> Result<u64> {
        let n_tenants = self.0.sealing.rotate(tenant).await?;
        info!(n_tenants, "tenants have a new key");
        Ok(n_tenants)
    }
}
