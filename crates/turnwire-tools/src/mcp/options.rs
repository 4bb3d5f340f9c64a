//! What the operator says about a server. Nothing of it ever comes from a request.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use turnwire_contract::{AskBefore, Effect};

use crate::secret::Secret;

/// How long a server may take to start and to tell its tools, if nothing else is said.
pub const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// One MCP server, and how far it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerOptions {
    /// How it is reached.
    pub transport: McpTransport,
    /// How long it may take to start and to tell its tools.
    pub startup_timeout: Duration,
    /// How long its tools may stay silent; the engine's own limit if not set.
    pub tool_timeout: Option<Duration>,
    /// Which of its tools exist for us; all of them if not set.
    pub enabled_tools: Option<Vec<String>>,
    /// What its tools do to the world. Those that are not named must not be called twice.
    pub effects: BTreeMap<String, Effect>,
    /// Which of its tools a person must allow, in every run.
    pub require_approval: AskBefore,
    /// Whether the operator has said that nobody need be asked about its other tools, whatever
    /// holds for tools of their effect.
    pub exempt: bool,
    /// How long a call may take altogether; the engine's own limit if not set.
    pub tool_deadline: Option<Duration>,
    /// How many calls it is given at the same time; any number if not set.
    pub most_at_once: Option<u32>,
    /// What is said about single tools.
    pub tools: BTreeMap<String, McpToolOptions>,
}

/// What the operator says about one tool, beside its effect. What is not set is as for all tools
/// of its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpToolOptions {
    /// Whether a person must allow each call.
    pub ask: Option<bool>,
    /// How long that person may take.
    pub approval_expiry: Option<Duration>,
    /// How long it may stay silent.
    pub timeout: Option<Duration>,
    /// How long a call may take altogether.
    pub deadline: Option<Duration>,
    /// How many calls of it are made at the same time.
    pub most_at_once: Option<u32>,
}

impl McpServerOptions {
    /// A server that is reached over `transport`, with the usual settings.
    pub fn new(transport: McpTransport) -> Self {
        Self {
            transport,
            startup_timeout: DEFAULT_STARTUP_TIMEOUT,
            tool_timeout: None,
            enabled_tools: None,
            effects: BTreeMap::new(),
            require_approval: AskBefore::Nothing,
            exempt: false,
            tool_deadline: None,
            most_at_once: None,
            tools: BTreeMap::new(),
        }
    }

    /// A program that is started and spoken with over its standard input and output.
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

    /// A server at an address.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(McpTransport::Http {
            url: url.into(),
            bearer_token: None,
            headers: BTreeMap::new(),
            oauth: None,
        })
    }

    /// The same server, with tokens of its authorization server. Only a server at an address
    /// has one.
    pub fn with_oauth(mut self, wanted: OAuthOptions) -> Self {
        if let McpTransport::Http { oauth, .. } = &mut self.transport {
            *oauth = Some(Box::new(wanted));
        }
        self
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// It is started, and spoken with over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments, exactly.
        args: Vec<String>,
        /// What it finds in its environment beside a few harmless things. May hold keys.
        env: BTreeMap<String, String>,
        /// The folder it is started in; ours if not set.
        cwd: Option<PathBuf>,
    },
    /// It is asked over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// What it knows us by.
        bearer_token: Option<Secret>,
        /// Headers of every request. May hold keys.
        headers: BTreeMap<String, String>,
        /// How tokens are got for it, if it has an authorization server.
        oauth: Option<Box<OAuthOptions>>,
    },
}

/// How tokens are got for a server that has an authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthOptions {
    /// Who logs in.
    pub grant: Grant,
    /// What the authorization server knows us by, if its operator has told it of us.
    pub client_id: Option<String>,
    /// What proves that we are that client.
    pub client_secret: Option<Secret>,
    /// The address of a document about us, for authorization servers that read such documents.
    pub client_metadata_url: Option<String>,
    /// What we want to be allowed; what the server asks for if empty.
    pub scopes: Vec<String>,
    /// The file that tokens are kept in, readable by its owner alone; in memory if not set.
    pub token_file: Option<PathBuf>,
    /// The port on this machine that a browser comes back to; any free one if not set.
    pub redirect_port: Option<u16>,
    /// Whether the authorization server may be at a private address, though the server's own is
    /// a name.
    pub private_addresses: bool,
}

/// Who logs in to an authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person, in a browser, once; see [`Login`](super::Login).
    #[default]
    Person,
    /// We ourselves, with the id and the secret of a client.
    Machine,
    /// We ourselves, with the id of a client and a statement signed with its private key.
    MachineWithKey {
        /// The key, in PEM.
        key: Secret,
        /// How it signs.
        algorithm: SigningAlgorithm,
    },
}

/// How a statement about us is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// The curve P-256 with SHA-256.
    Es256,
}

impl fmt::Debug for McpTransport {
    /// Shows what may be shown: the names of variables and headers, never their values.
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
