//! Servers that provide tools. Their list of tools may change.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{LeftOut, RunId, ServerSecrets, TenantId, Timestamp, Tool, ToolError};

/// Reference to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerRef<'a> {
    /// Label of the server, from the settings or from the request.
    pub label: &'a str,
    /// URL of the server, if a request supplied it.
    pub url: Option<&'a str>,
    /// What the request supplied to be sent to that URL. The connection belongs to the run then.
    pub access: Option<RunAccess<'a>>,
}

/// Headers of one run for a server that its request supplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAccess<'a> {
    /// The run that they belong to.
    pub run_id: &'a RunId,
    /// The headers.
    pub secrets: &'a ServerSecrets,
}

impl<'a> From<&'a str> for ServerRef<'a> {
    /// Refers to the configured server with this label.
    fn from(label: &'a str) -> Self {
        Self { label, url: None, access: None }
    }
}

impl<'a> ServerRef<'a> {
    /// Identifies the server. A server from a request is identified by its URL, because its label
    /// is not unique.
    pub fn identity(self) -> &'a str {
        self.url.unwrap_or(self.label)
    }
}

/// How a tool server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTransport {
    /// A child process, over stdin and stdout.
    Stdio,
    /// Over HTTP.
    Http,
}

/// State of the connection to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// The connection is open.
    Connected,
    /// There is no connection yet.
    Connecting,
    /// The last attempt failed, or the connection was lost.
    Failed,
    /// A person has to log in first.
    LoginRequired,
}

/// What is known about a tool server, without its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Label of the server.
    pub label: String,
    /// How it is reached.
    pub transport: ServerTransport,
    /// The command without its arguments, or the URL without user, query and fragment.
    pub address: String,
    /// State of the connection.
    pub state: ServerState,
    /// Duration of its last response to a request for its tools.
    pub latency: Option<Duration>,
    /// Last error of the connection, and its time. It stays after the connection is open again.
    pub last_error: Option<(String, Timestamp)>,
}

/// The configured tool servers, and those supplied by requests.
///
/// Guarantees of an implementation:
///
/// * connections are shared between runs, and reopened when they break;
/// * the tools of a server are cached; the server is asked again only when it reports a change or
///   after a disconnect;
/// * each tool's spec has the label of its server and the tool's name on that server;
/// * a connection with [secrets of a run](RunAccess) is used for that run alone, and they are sent
///   to the URL of the server and to nothing that it redirects to;
/// * a request to a server that does not answer fails after a timeout, with a reason.
#[async_trait]
pub trait ToolServers: Send + Sync {
    /// Returns the labels of all servers that `tenant` may use.
    fn labels(&self, tenant: &TenantId) -> Vec<String>;

    /// Returns the state of all servers that `tenant` may use, in the order of their labels. Starts
    /// to connect to those that are not connected, and does not wait for it.
    fn statuses(&self, tenant: &TenantId) -> Vec<ServerStatus> {
        let status = |label: String| {
            let is_known = self.known_tools(tenant, label.as_str().into()).is_some();
            ServerStatus {
                transport: ServerTransport::Stdio,
                address: label.clone(),
                state: if is_known { ServerState::Connected } else { ServerState::Connecting },
                latency: None,
                last_error: None,
                label,
            }
        };
        self.labels(tenant).into_iter().map(status).collect()
    }

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

    /// Returns what `server` listed beside the tools that it was last asked for, with the reasons.
    fn left_out(&self, _tenant: &TenantId, _server: ServerRef<'_>) -> LeftOut {
        LeftOut::default()
    }

    /// Closes the connections that have secrets of this run, and forgets these.
    fn forget_run(&self, _run_id: &RunId) {}
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
