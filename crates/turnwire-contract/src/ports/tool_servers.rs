//! Servers that provide tools. Their list of tools may change.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{TenantId, Tool, ToolError};

/// Reference to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerRef<'a> {
    /// Label of the server, from the settings or from the request.
    pub label: &'a str,
    /// URL of the server, if a request supplied it.
    pub url: Option<&'a str>,
}

impl<'a> From<&'a str> for ServerRef<'a> {
    /// Refers to the configured server with this label.
    fn from(label: &'a str) -> Self {
        Self { label, url: None }
    }
}

impl<'a> ServerRef<'a> {
    /// Identifies the server. A server from a request is identified by its URL, because its label
    /// is not unique.
    pub fn identity(self) -> &'a str {
        self.url.unwrap_or(self.label)
    }
}

/// The configured tool servers, and those supplied by requests.
///
/// Guarantees of an implementation:
///
/// * connections are shared between runs, and reopened when they break;
/// * the tools of a server are cached; the server is asked again only when it reports a change or
///   after a disconnect;
/// * each tool's spec has the label of its server and the tool's name on that server;
/// * a request to a server that does not answer fails after a timeout, with a reason.
#[async_trait]
pub trait ToolServers: Send + Sync {
    /// Returns the labels of all servers that `tenant` may use.
    fn labels(&self, tenant: &TenantId) -> Vec<String>;

    /// Whether requests of `tenant` may supply the server at `url`.
    fn allows_url(&self, _tenant: &TenantId, _url: &str) -> bool {
        false
    }

    /// Returns the cached tools of `server`, if any.
    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>>;

    /// Returns the cached tool of `server` with this name, if any.
    fn known_tool(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
        name: &str,
    ) -> Option<Arc<dyn Tool>> {
        self.known_tools(tenant, server)?.into_iter().find(|tool| tool.spec().name == name)
    }

    /// Returns the tools of `server`, and asks the server if they are not cached.
    async fn tools(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError>;
}

/// An implementation without servers.
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
