//! What the model can use: adapters of the [`Tool`](turnwire_contract::Tool) port.
//!
//! Reading order: [`function`] makes a tool out of a typed Rust function, [`output`] is what
//! such a function may return, and [`schema`] is what the model is told about its arguments.
//! [`http_function`] calls somebody's HTTP interface, as the settings describe it.
//! [`mcp`] are the tools of MCP servers, [`web_search`] and [`file_search`] are the two that
//! search. [`egress`] is the way out to addresses that a model or a request names.
//!
//! This crate only adapts. Checking arguments, timeouts, retries, cancellation and events are
//! the engine's, once, for all tools.

mod answer;
pub mod egress;
pub mod file_search;
pub mod function;
pub mod http_function;
pub mod mcp;
pub mod output;
pub mod schema;
mod secret;
mod sync;
pub mod web_search;

pub use egress::{Egress, EgressError, EgressOptions, EgressSetupError};
pub use file_search::{
    DefaultAnalyzer, Embeddings, EmbeddingsError, EmbeddingsOptions, FileSearch, Indexer,
    MemoryLibrary, PdfProgram,
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
