//! Servers that bring tools of their own: they are asked for them, and may change their mind.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{TenantId, Tool, ToolError};

/// The tool servers there are, by label.
///
/// Promises an implementation makes:
///
/// * connections are shared between runs, and made again when they break;
/// * a server that has told its tools is not asked again for every run, only when it says that
///   they have changed or after it went away;
/// * each tool carries the server's label in its spec, and the name the server knows it by;
/// * a server that does not answer is given up after a while, and says why.
#[async_trait]
pub trait ToolServers: Send + Sync {
    /// The labels of all servers that `tenant` may use.
    fn labels(&self, tenant: &TenantId) -> Vec<String>;

    /// The tools of the server `label`, if they are known without asking it.
    fn known_tools(&self, tenant: &TenantId, label: &str) -> Option<Vec<Arc<dyn Tool>>>;

    /// The tools of the server `label`; asks it if need be.
    async fn tools(&self, tenant: &TenantId, label: &str) -> Result<Vec<Arc<dyn Tool>>, ToolError>;
}

/// No servers at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoToolServers;

#[async_trait]
impl ToolServers for NoToolServers {
    fn labels(&self, _tenant: &TenantId) -> Vec<String> {
        Vec::new()
    }

    fn known_tools(&self, _tenant: &TenantId, _label: &str) -> Option<Vec<Arc<dyn Tool>>> {
        None
    }

    async fn tools(
        &self,
        _tenant: &TenantId,
        label: &str,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Err(ToolError::failed(format!("there is no tool server `{label}`")))
    }
}
