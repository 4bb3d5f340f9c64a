//! Trusted tool definitions. A server may change the definition of a tool after a person has
//! reviewed it.

use async_trait::async_trait;

use crate::TenantId;

use super::Result;

/// A tool of a server and its trusted definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedTool {
    /// Name of the tool on its server.
    pub tool: String,
    /// Hash of name, description and schema.
    pub definition: String,
}

/// Stores the trusted definitions per tenant and server.
///
/// Guarantees of an implementation:
///
/// * if several definitions of one tool are [met](Self::meet) concurrently, one is stored, and
///   every caller gets that one;
/// * definitions are shared by all users of the store and survive a restart;
/// * a tenant cannot see data of another tenant.
#[async_trait]
pub trait Pins: Send + Sync {
    /// Stores the definitions of tools that have none yet, and returns the trusted definitions of
    /// all given tools.
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[PinnedTool],
    ) -> Result<Vec<PinnedTool>>;

    /// Returns the trusted definitions of a server's tools. Stores nothing.
    async fn trusted(&self, _tenant: &TenantId, _server: &str) -> Result<Vec<PinnedTool>> {
        Ok(Vec::new())
    }

    /// Replaces the trusted definition of a tool.
    async fn trust(&self, tenant: &TenantId, server: &str, tool: PinnedTool) -> Result<()>;
}
