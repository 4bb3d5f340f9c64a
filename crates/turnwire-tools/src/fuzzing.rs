//! Entry points for fuzzing: what tool servers send.

pub use crate::mcp::fuzzing::{mcp_message, mcp_tools};
