//! Settings of a server. No part of them comes from a request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use turnwire_contract::{AskBefore, Effect, TenantId};

use crate::secret::Secret;

/// Default time for the start of a server and its first tool list.
pub const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerOptions {
    /// How to connect to the server.
    pub transport: McpTransport,
    /// Maximum time for the start and the first tool list.
    pub startup_timeout: Duration,
    /// Maximum time without a report from a tool; the run's limit if not set.
    pub tool_timeout: Option<Duration>,
    /// Tenants that may use the server; all if not set.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Names of the tools to use; all if not set.
    pub enabled_tools: Option<Vec<String>>,
    /// Effect classes of its tools. Tools that are not listed must not be called twice.
    pub effects: BTreeMap<String, Effect>,
    /// Tools that need approval in every run.
    pub require_approval: AskBefore,
    /// Whether its other tools are exempt from the approval rules for their effect class.
    pub exempt: bool,
    /// Maximum duration of a call; the run's limit if not set.
    pub tool_deadline: Option<Duration>,
    /// Maximum number of concurrent calls; unlimited if not set.
    pub max_parallel_calls: Option<u32>,
    /// Settings of individual tools.
    pub tools: BTreeMap<String, McpToolOptions>,
}

/// Settings of one tool, besides its effect class. Unset fields default to those of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpToolOptions {
    /// Whether each call needs approval.
    pub ask: Option<bool>,
    /// Time after which an unanswered approval request is denied.
    pub approval_expiry: Option<Duration>,
    /// Maximum time without a report.
    pub timeout: Option<Duration>,
    /// Maximum duration of a call.
    pub deadline: Option<Duration>,
    /// Maximum number of concurrent calls.
    pub max_parallel_calls: Option<u32>,
}

impl McpServerOptions {
    /// Settings with defaults for a server with this transport.
    pub fn new(transport: McpTransport) -> Self {
        Self {
            transport,
            startup_timeout: DEFAULT_STARTUP_TIMEOUT,
            tool_timeout: None,
            tenants: None,
            enabled_tools: None,
            effects: BTreeMap::new(),
            require_approval: AskBefore::Nothing,
            exempt: false,
            tool_deadline: None,
            max_parallel_calls: None,
            tools: BTreeMap::new(),
        }
    }

    /// Whether a tenant may use the server.
    pub(super) fn is_for(&self, tenant: &TenantId) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }

    /// Settings for a program that is started and reached over stdin and stdout.
    pub fn stdio<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::new(McpTransport::Stdio {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
        })
    }

    /// Settings for a server at a URL.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(McpTransport::Http {
            url: url.into(),
            bearer_token: None,
            headers: BTreeMap::new(),
            oauth: None,
        })
    }

    /// Adds OAuth settings. Has no effect on a stdio server.
    pub fn with_oauth(mut self, wanted: OAuthOptions) -> Self {
        if let McpTransport::Http { oauth, .. } = &mut self.transport {
            *oauth = Some(Box::new(wanted));
        }
        self
    }
}

/// How to connect to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// The server is a child process, reached over stdin and stdout.
    Stdio {
        /// Path or name of the program.
        command: String,
        /// Arguments, passed unchanged.
        args: Vec<String>,
        /// Additional environment variables. May contain keys.
        env: BTreeMap<String, String>,
        /// Working directory; that of this process if not set.
        cwd: Option<PathBuf>,
    },
    /// The server is reached over streamable HTTP.
    Http {
        /// URL of the server.
        url: String,
        /// Bearer token of every request.
        bearer_token: Option<Secret>,
        /// Headers of every request. May contain keys.
        headers: BTreeMap<String, String>,
        /// OAuth settings, if the server has an authorization server.
        oauth: Option<Box<OAuthOptions>>,
    },
}

/// OAuth settings of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthOptions {
    /// The grant to use.
    pub grant: Grant,
    /// Client ID, if the client is registered already.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Secret>,
    /// URL of a client metadata document, for authorization servers that support it.
    pub client_metadata_url: Option<String>,
    /// Scopes to request; those that the server requires if empty.
    pub scopes: Vec<String>,
    /// File for the tokens, readable only by its owner; in memory if not set.
    pub token_file: Option<PathBuf>,
    /// Local port of the redirect URI; any free port if not set.
    pub redirect_port: Option<u16>,
    /// Whether the authorization server may have a private address although the URL of the server
    /// has a public name.
    pub private_addresses: bool,
}

/// OAuth grant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grant {
    /// Authorization code: a person logs in once, in a browser; see [`Login`](super::Login).
    #[default]
    AuthorizationCode,
    /// Client credentials with an ID and a secret.
    ClientCredentials,
    /// Client credentials with an ID and a JWT signed with a private key.
    ClientCredentialsWithKey {
        /// The private key in PEM.
        key: Secret,
        /// Signature algorithm.
        algorithm: SigningAlgorithm,
    },
}

/// Signature algorithm of a JWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl fmt::Debug for McpTransport {
    /// Prints the names of variables and headers, never their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys())
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, bearer_token, headers, oauth } => f
                .debug_struct("Http")
                .field("url", url)
                .field("bearer_token", bearer_token)
                .field("headers", &headers.keys())
                .field("oauth", oauth)
                .finish(),
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
