//! Adapters of the [`Tool`](turnwire_contract::Tool) port.
//!
//! [`function`] makes a tool from a typed Rust function, [`output`] converts its result, and
//! [`schema`] derives the schema of its arguments. [`http_function`] calls an HTTP API described in
//! the settings. [`mcp`] provides the tools of MCP servers. [`web_search`] and [`file_search`] are
//! the built-in searches, and [`documents`] reads what they open. [`egress`] is the HTTP client for
//! URLs from a model or a request, and [`webhooks`] sends events of runs through it.
//!
//! Validation of arguments, timeouts, retries, cancellation and events are in the engine, once for
//! all tools.
#![warn(missing_docs)]

pub mod documents;
pub mod egress;
pub mod file_search;
pub mod function;
#[doc(hidden)]
pub mod fuzzing;
pub mod http_function;
pub mod mcp;
pub mod output;
pub mod schema;
mod secret;
mod sync;
pub mod web_search;
pub mod webhooks;

pub use documents::DocumentReader;
pub use egress::{Egress, EgressError, EgressOptions, EgressSetupError, Posted};
pub use file_search::{
    DefaultAnalyzer, Embeddings, EmbeddingsError, EmbeddingsOptions, FileSearch, Indexer,
};
pub use function::{FunctionTool, NoArguments};
pub use http_function::{HttpFunction, HttpFunctionError, HttpFunctionOptions, HttpMethod};
pub use mcp::{
    Grant, Login, LoginError, McpServerOptions, McpServers, McpToolOptions, McpTransport,
    OAuthOptions, SigningAlgorithm, UrlRule, UrlRuleError,
};
pub use output::{IntoToolOutput, Json};
pub use secret::Secret;
pub use web_search::{SearchProvider, WebSearch, WebSearchError, WebSearchOptions};
pub use webhooks::{Clock, NotASecret, SigningSecret, WebhookReceiver, WebhookSender};

/// Result of a tool.
type Result<T, E = turnwire_contract::ToolError> = std::result::Result<T, E>;
