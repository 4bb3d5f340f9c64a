//! Entry points for fuzzing: what tool servers and web pages send.

pub use crate::mcp::fuzzing::{mcp_message, mcp_tools};
