//! Descriptions of tools for MCP servers.

use rmcp::model::Tool;
use serde_json::{Value, json};

/// Describes a tool whose arguments have these properties.
pub(crate) fn tool(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let schema = json!({ "type": "object", "properties": properties });
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, schema)
}
