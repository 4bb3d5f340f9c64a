//! Servers that bring tools of their own: they are asked for them, and may change their mind.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{TenantId, Tool, ToolError};

/// Which server is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerRef<'a> {
    /// What it is called: in the settings, or by the request that brings it.
    pub label: &'a str,
    /// Where it is, if a request brings it.
    pub url: Option<&'a str>,
}

impl<'a> From<&'a str> for ServerRef<'a> {
    /// The server of the settings with that label.
    fn from(label: &'a str) -> Self {
        Self { label, url: None }
    }
}

impl<'a> ServerRef<'a> {
    /// What tells it from every other server, also from one that somebody gives the same name.
    pub fn identity(self) -> &'a str {
        self.url.unwrap_or(self.label)
    }
}

/// The tool servers there are, by label, and those that requests bring.
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

    /// Whether requests of `tenant` may bring the server at `url`.
    fn allows_url(&self, _tenant: &TenantId, _url: &str) -> bool {
        false
    }

    /// The tools of `server`, if they are known without asking it.
    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>>;

    /// The tools of `server`; asks it if need be.
    async fn tools(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError>;
}

/// No servers at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoToolServers;

#[async_trait]
impl ToolServers for NoToolServers {
    fn labels(&self, _tenant: &TenantId) -> Vec<String> {
        Vec::new()
    }

    fn known_tools(&self, _: &TenantId, _: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        None
    }

    async fn tools(
        &self,
        _tenant: &TenantId,
        ServerRef { label, .. }: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Err(ToolError::failed(format!("there is no tool server `{label}`")))
    }
}
