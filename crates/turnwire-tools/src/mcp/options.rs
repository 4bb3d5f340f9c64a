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
        })
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
    },
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
            Self::Http { url, bearer_token, headers } => f
                .debug_struct("Http")
                .field("url", url)
                .field("bearer_token", bearer_token)
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
