//! Tools of MCP servers.
//!
//! [`options`] are the settings. `server` manages the connection of one server and its tool list,
//! `connection` opens a connection, `process` starts a stdio server, `http` sends messages to
//! others, `router` inspects messages, `catalogue` bounds what a server may say of its tools, `call`
//! is the call of a tool, `tool` sends it and waits, `task` polls a call that became a task,
//! `elicitation` handles elicitation, and `result` converts results. `redactor` takes secrets out
//! of messages. [`request_servers`] are servers supplied by requests. [`login`] is the OAuth login
//! of a person, `oauth` gets and refreshes tokens, and `tokens` stores them.
//!
//! Types of the protocol library are used only in this module.

mod call;
mod catalogue;
mod connection;
mod elicitation;
pub(crate) mod fuzzing;
mod http;
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

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;
use turnwire_contract::{
    LeftOut, RunId, ServerRef, ServerStatus, TenantId, Tool, ToolError, ToolServers,
};

pub use self::{
    login::{Login, LoginError},
    options::{
        DEFAULT_STARTUP_TIMEOUT, Grant, McpServerOptions, McpToolOptions, McpTransport,
        OAuthOptions, SigningAlgorithm,
    },
    request_servers::{UrlRule, UrlRuleError},
};
use self::{
    request_servers::{RequestServers, UrlRules},
    server::{ByRequest, Server},
    tool::McpTool,
};
use crate::{Egress, Result};

/// Maximum duration of the shutdown of all servers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The servers of the settings in force.
struct CurrentServers {
    by_label: BTreeMap<String, Arc<Server>>,
    /// Which servers requests may supply, and how they are reached. `None`: none.
    on_request: Option<UrlRules>,
}

/// The configured MCP servers by label, available to every tenant, and those supplied by requests,
/// if [allowed](Self::allowing_urls).
///
/// Servers are started on first use or by [`warm_up`](Self::warm_up). Dropping this closes all
/// connections and kills all processes; [`shut_down`](Self::shut_down) also waits for that.
pub struct McpServers {
    /// What a reload replaces, as a whole.
    current: ArcSwap<CurrentServers>,
    /// Kept over reloads, because runs at work have connections in it.
    request_servers: Arc<RequestServers>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl McpServers {
    /// Creates the servers without connecting to them. Settings are checked on first use.
    pub fn new(options: BTreeMap<String, McpServerOptions>) -> Self {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let current = CurrentServers { by_label: BTreeMap::new(), on_request: None };
        let current = ArcSwap::from_pointee(current);
        let servers = Self { current, request_servers: Arc::default(), tasks, closing };
        servers.reload(options, None);
        servers
    }

    /// Allows requests to supply servers whose URL matches one of `url_rules`, reached through
    /// `egress`.
    pub fn allowing_urls(self, url_rules: Vec<UrlRule>, egress: Egress) -> Self {
        let by_label = self.current.load().by_label.clone();
        let on_request = UrlRules::new(url_rules, egress);
        self.current.store(Arc::new(CurrentServers { by_label, on_request }));
        self
    }

    /// Replaces the servers, all at once. A server whose options are the same is not touched. One
    /// that is gone, or whose options changed, gets no new calls; it is closed when its calls at
    /// work have ended. New ones are not connected yet. `on_request` replaces the rules for
    /// servers that requests supply; `None` leaves them as they are.
    pub fn reload(
        &self,
        options: BTreeMap<String, McpServerOptions>,
        on_request: Option<(Vec<UrlRule>, Egress)>,
    ) {
        let before = self.current.load_full();
        let has_new_rules = on_request.is_some();
        let on_request = match on_request {
            Some((url_rules, egress)) => UrlRules::new(url_rules, egress),
            None => before.on_request.clone(),
        };
        let server = |(label, options): (String, McpServerOptions)| {
            let known = before.by_label.get(&label).filter(|known| known.options == options);
            let server = known.cloned().unwrap_or_else(|| self.new_server(&label, options));
            (label, server)
        };
        let by_label: BTreeMap<_, _> = options.into_iter().map(server).collect();
        let now = Arc::new(CurrentServers { by_label, on_request });
        self.current.store(Arc::clone(&now));
        for (label, server) in &before.by_label {
            if !now.by_label.get(label).is_some_and(|kept| Arc::ptr_eq(kept, server)) {
                server.remove();
            }
        }
        if has_new_rules {
            self.request_servers.close_all();
        }
    }

    fn new_server(&self, label: &str, options: McpServerOptions) -> Arc<Server> {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        Server::new(label.to_owned(), options, ByRequest::default(), tasks, closing)
    }

    /// The server with this label, if there is one.
    fn by_label(&self, label: &str) -> Option<Arc<Server>> {
        self.current.load().by_label.get(label).cloned()
    }

    /// Connects to all servers in the background, so that the first run does not have to wait.
    pub fn warm_up(&self) {
        for server in self.current.load().by_label.values().cloned() {
            self.tasks.spawn(async move {
                if let Err(error) = server.tools().await {
                    warn!(server = %server.label, %error, "MCP server not reachable at start");
                }
            });
        }
    }

    /// Connects to all servers, and returns the tools or the error of each.
    pub async fn connect_all(&self) -> BTreeMap<String, Result<Vec<Arc<dyn Tool>>>> {
        let current = self.current.load_full();
        let connecting = current.by_label.values().map(|server| async move {
            let tools = server.tools().await.map(|specs| McpTool::all_of(server, &specs));
            (server.label.clone(), tools)
        });
        join_all(connecting).await.into_iter().collect()
    }

    /// Starts the login of a person to a server with an `oauth` setting. After its end, call
    /// [`reconnect`](Self::reconnect).
    pub async fn login(&self, label: &str) -> Result<Login, LoginError> {
        let unknown = || LoginError::UnknownServer(label.to_owned());
        let server = self.by_label(label).ok_or_else(unknown)?;
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
        self.by_label(label).is_some_and(|server| server.waits_for_login())
    }

    /// Drops the connection to a server and its last error. The next request for its tools opens a
    /// new connection. Pending calls complete on the old one.
    pub fn reconnect(&self, label: &str) {
        if let Some(server) = self.by_label(label) {
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
    ) -> Result<Arc<Server>> {
        let unknown = || ToolError::failed(format!("there is no tool server `{label}`"));
        let Some(url) = url else {
            let server = self.by_label(label).filter(|server| server.options.is_for(tenant));
            return server.ok_or_else(unknown);
        };
        let current = self.current.load_full();
        let rules = current.on_request.as_ref().ok_or_else(unknown)?;
        self.request_servers.server(rules, tenant, label, url, access, (&self.tasks, &self.closing))
    }
}

#[async_trait]
impl ToolServers for McpServers {
    fn labels(&self, tenant: &TenantId) -> Vec<String> {
        let current = self.current.load_full();
        let servers = current.by_label.iter().filter(|(_, server)| server.options.is_for(tenant));
        servers.map(|(label, _)| label.clone()).collect()
    }

    fn statuses(&self, tenant: &TenantId) -> Vec<ServerStatus> {
        let current = self.current.load_full();
        let servers = current.by_label.values().filter(|server| server.options.is_for(tenant));
        servers.map(Server::status).collect()
    }

    fn allows_url(&self, tenant: &TenantId, url: &str) -> bool {
        let current = self.current.load();
        current.on_request.as_ref().is_some_and(|rules| rules.allowed(tenant, url).is_some())
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

    async fn tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Result<Vec<Arc<dyn Tool>>> {
        let server = self.server(tenant, server)?;
        let specs = server.tools().await?;
        Ok(McpTool::all_of(&server, &specs))
    }

    fn left_out(&self, tenant: &TenantId, server: ServerRef<'_>) -> LeftOut {
        self.server(tenant, server).map(|server| server.left_out()).unwrap_or_default()
    }

    fn forget_run(&self, run_id: &RunId) {
        self.request_servers.forget_run(run_id);
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.current.load();
        let labels = current.by_label.keys();
        f.debug_struct("McpServers").field("labels", &labels).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
