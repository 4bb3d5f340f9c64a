//! Share links: read-only access to one run for whoever has the link.

use async_trait::async_trait;

use crate::{RunId, TenantId, Timestamp};

use super::Result;

/// A share link of a run. The link itself is not stored: it is the ID with a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// ID of the share.
    pub share_id: String,
    /// Tenant of the run.
    pub tenant: TenantId,
    /// The shared run.
    pub run_id: RunId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time after which the link does not work.
    pub expires_at: Timestamp,
    /// Whether texts are withheld.
    pub redact: bool,
}

/// Stores share links.
///
/// Guarantees of an implementation:
///
/// * a revoked share, and one of a deleted run, is not found;
/// * the secret is the same for all users of the store, and survives a restart if the shares do;
/// * a tenant cannot list or revoke shares of another tenant.
#[async_trait]
pub trait Shares: Send + Sync {
    /// Returns the secret that links are signed with.
    async fn secret(&self) -> Result<String>;

    /// Stores a share of an existing run. Fails with [`Rejected`](crate::StoreError::Rejected) if
    /// the run has [`MAX_SHARES`] that have not expired by `share.created_at`.
    async fn share(&self, share: Share) -> Result<()>;

    /// Returns the shares of a run, oldest first.
    async fn shares_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Share>>;

    /// Returns a share, of whichever tenant.
    async fn find_share(&self, share_id: &str) -> Result<Option<Share>>;

    /// Revokes a share. Returns whether there was one.
    async fn revoke(&self, tenant: &TenantId, run_id: &RunId, share_id: &str) -> Result<bool>;
}

/// Maximum number of valid share links of a run.
pub const MAX_SHARES: usize = 100;
