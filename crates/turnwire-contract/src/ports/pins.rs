//! Which definitions of tools are trusted: a server may change what its tools say of themselves
//! after somebody has looked at them.

use async_trait::async_trait;

use crate::{StoreError, TenantId};

/// A tool of a server, with the definition of it that is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedTool {
    /// The name its server knows it by.
    pub tool: String,
    /// What stands for its name, description and schema: the same for the same ones, and
    /// another for others.
    pub definition: String,
}

/// Keeps the definitions that are trusted, for each tenant and server.
///
/// Promises an implementation makes:
///
/// * of several definitions of one tool that are [met](Self::meet) at once, one is kept, and
///   everybody is told which;
/// * what was met or trusted is known to all who share the store, and after a restart;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait Pins: Send + Sync {
    /// Keeps the definitions of tools that nothing is known of, and tells what is trusted of
    /// all of these tools.
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[PinnedTool],
    ) -> Result<Vec<PinnedTool>, StoreError>;

    /// Trusts this definition from now on, and no longer the one before.
    async fn trust(
        &self,
        tenant: &TenantId,
        server: &str,
        tool: PinnedTool,
    ) -> Result<(), StoreError>;
}
