//! Tools of MCP servers.
//!
//! [`options`] are the settings. `server` manages the connection of one server and its tool list,
//! `connection` opens a connection, `process` starts a stdio server, `router` inspects messages,
//! `tool` makes a call, `task` polls a call that became a task, `elicitation` handles elicitation, and
//! `result` converts results. `redactor` takes secrets out of messages. [`request_servers`] are servers supplied by requests. [`login`] is
//! the OAuth login of a person, `oauth` gets and refreshes tokens, and `tokens` stores them.
//!
//! Types of the protocol library are used only in this module.

mod call;
mod connection;
mod elicitation;
pub mod login;
mod oauth;
pub mod options;
mod process;
mod redactor;
pub mod request_servers;
mod result;
mod router;
mod server;
mod specs;
mod task;
mod tokens;
mod tool;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;
use turnwire_contract::{RunId, ServerRef, ServerStatus, TenantId, Tool, ToolError, ToolServers};

pub use self::{
    login::{Login, LoginError},
    options::{
        DEFAULT_STARTUP_TIMEOUT, Grant, McpServerOptions, McpToolOptions, McpTransport,
        OAuthOptions, SigningAlgorithm,
    },
    request_servers::{UrlRule, UrlRuleError},
};
use self::{
    request_servers::RequestServers,
    server::{ByRequest, Server},
    tool::McpTool,
};
use crate::Egress;

/// Maximum duration of the shutdown of all servers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The configured MCP servers by label, available to every tenant, and those supplied by requests,
/// if [allowed](Self::allowing_urls).
///
/// Servers are started on first use or by [`warm_up`](Self::warm_up). Dropping this closes all
/// connections and kills all processes; [`shut_down`](Self::shut_down) also waits for that.
pub struct McpServers {
    servers: BTreeMap<String, Arc<Server>>,
    request_servers: Option<RequestServers>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl McpServers {
    /// Creates the servers without connecting to them. Settings are checked on first use.
    pub fn new(options: BTreeMap<String, McpServerOptions>) -> Self {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let server = |(label, options): (String, McpServerOptions)| {
            let (tasks, closing) = (tasks.clone(), closing.clone());
            (label.clone(), Server::new(label, options, ByRequest::default(), tasks, closing))
        };
        let servers = options.into_iter().map(server).collect();
        Self { servers, request_servers: None, tasks, closing }
    }

    /// Allows requests to supply servers whose URL matches one of `url_rules`, reached through
    /// `egress`.
    pub fn allowing_urls(mut self, url_rules: Vec<UrlRule>, egress: Egress) -> Self {
        self.request_servers =
            (!url_rules.is_empty()).then(|| RequestServers::new(url_rules, egress));
        self
    }

    /// Connects to all servers in the background, so that the first run does not have to wait.
    pub fn warm_up(&self) {
        for server in self.servers.values().cloned() {
            self.tasks.spawn(async move {
                if let Err(error) = server.tools().await {
                    warn!(server = %server.label, %error, "MCP server not reachable at start");
                }
            });
        }
    }

    /// Connects to all servers, and returns the tools or the error of each.
    pub async fn connect_all(&self) -> BTreeMap<String, Result<Vec<Arc<dyn Tool>>, ToolError>> {
        let connecting = self.servers.values().map(|server| async move {
            let tools = server.tools().await.map(|specs| McpTool::all_of(server, &specs));
            (server.label.clone(), tools)
        });
        join_all(connecting).await.into_iter().collect()
    }

    /// Starts the login of a person to a server with an `oauth` setting. After its end, call
    /// [`reconnect`](Self::reconnect).
    pub async fn login(&self, label: &str) -> Result<Login, LoginError> {
        let unknown = || LoginError::UnknownServer(label.to_owned());
        let server = self.servers.get(label).ok_or_else(unknown)?;
        let authorization = server.authorization.as_ref();
        let authorization =
            authorization.ok_or_else(|| LoginError::NotConfigured(label.to_owned()))?;
        if !authorization.needs_login() {
            return Err(LoginError::NotInteractive(label.to_owned()));
        }
        Login::start(authorization).await
    }

    /// Whether a server refused a request and a login may help.
    pub fn waits_for_login(&self, label: &str) -> bool {
        self.servers.get(label).is_some_and(|server| server.waits_for_login())
    }

    /// Drops the connection to a server and its last error. The next request for its tools opens a
    /// new connection. Pending calls complete on the old one.
    pub fn reconnect(&self, label: &str) {
        if let Some(server) = self.servers.get(label) {
            server.reset();
        }
    }

    /// Closes all connections, stops all processes, and waits for them up to a timeout. The servers
    /// cannot be used afterwards.
    pub async fn shut_down(&self) {
        self.closing.cancel();
        self.tasks.close();
        if timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            warn!("tool servers still running at the shutdown deadline");
        }
    }

    fn server(
        &self,
        tenant: &TenantId,
        ServerRef { label, url, access }: ServerRef<'_>,
    ) -> Result<Arc<Server>, ToolError> {
        let unknown = || ToolError::failed(format!("there is no tool server `{label}`"));
        let Some(url) = url else {
            let server = self.servers.get(label).filter(|server| server.options.is_for(tenant));
            return server.cloned().ok_or_else(unknown);
        };
        let request_servers = self.request_servers.as_ref().ok_or_else(unknown)?;
        request_servers.server(tenant, label, url, access, (&self.tasks, &self.closing))
    }
}

#[async_trait]
impl ToolServers for McpServers {
    fn labels(&self, tenant: &TenantId) -> Vec<String> {
        let servers = self.servers.iter().filter(|(_, server)| server.options.is_for(tenant));
        servers.map(|(label, _)| label.clone()).collect()
    }

    fn statuses(&self, tenant: &TenantId) -> Vec<ServerStatus> {
        let servers = self.servers.values().filter(|server| server.options.is_for(tenant));
        servers.map(Server::status).collect()
    }

    fn allows_url(&self, tenant: &TenantId, url: &str) -> bool {
        self.request_servers
            .as_ref()
            .is_some_and(|request_servers| request_servers.allows_url(tenant, url).is_some())
    }

    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        let server = self.server(tenant, server).ok()?;
        Some(McpTool::all_of(&server, &server.known_tools()?))
    }

    fn known_tool(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
        name: &str,
    ) -> Option<Arc<dyn Tool>> {
        let server = self.server(tenant, server).ok()?;
        let specs = server.known_tools()?;
        let spec = specs.iter().find(|spec| spec.name == name)?;
        Some(McpTool::shared(&server, spec))
    }

    async fn tools(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let server = self.server(tenant, server)?;
        let specs = server.tools().await?;
        Ok(McpTool::all_of(&server, &specs))
    }

    fn forget_run(&self, run_id: &RunId) {
        if let Some(request_servers) = &self.request_servers {
            request_servers.forget_run(run_id);
        }
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").field("labels", &self.servers.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
