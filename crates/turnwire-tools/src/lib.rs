//! What the model can use: adapters of the [`Tool`](turnwire_contract::Tool) port.
//!
//! Reading order: [`function`] makes a tool out of a typed Rust function, [`output`] is what
//! such a function may return, and [`schema`] is what the model is told about its arguments.
//! [`mcp`] are the tools of MCP servers, [`web_search`] and [`file_search`] are the two that
//! search.
//!
//! This crate only adapts. Checking arguments, timeouts, retries, cancellation and events are
//! the engine's, once, for all tools.

pub mod file_search;
pub mod function;
pub mod mcp;
pub mod output;
pub mod schema;
mod secret;
mod sync;
pub mod web_search;

pub use file_search::{FileSearch, MemoryLibrary};
pub use function::{FunctionTool, NoArguments};
pub use mcp::{McpServerOptions, McpServers, McpTransport};
pub use output::{IntoToolOutput, Json};
pub use secret::Secret;
pub use web_search::{WebSearch, WebSearchError, WebSearchOptions};
