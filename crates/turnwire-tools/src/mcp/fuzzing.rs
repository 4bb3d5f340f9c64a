//! Entry points for fuzzing: the messages of a tool server.

use rmcp::{
    RoleClient,
    model::{CallToolResult, ElicitRequestParams, JsonRpcMessage, ListToolsResult},
    service::RxJsonRpcMessage,
};

use super::{
    elicitation, options::McpServerOptions, redactor::Redactor, result, router::MessageRouter,
    specs::specs,
};

/// Any message, a result of a tool, or a question.
pub fn mcp_message(bytes: &[u8]) {
    let redactor = Redactor::default();
    redactor.learn("secret-token-of-the-server");
    if let Ok(message) = serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(bytes)
        && let Some(JsonRpcMessage::Notification(message)) = redactor.message(message)
    {
        MessageRouter::new("server").handle(&message.notification);
    }
    if let Ok(called) = serde_json::from_slice::<CallToolResult>(bytes) {
        drop(result::convert(called));
    }
    if let Ok(asked) = serde_json::from_slice::<ElicitRequestParams>(bytes) {
        drop(elicitation::question(&asked));
    }
}

/// A page of a tool list.
pub fn mcp_tools(bytes: &[u8]) {
    let Ok(page) = serde_json::from_slice::<ListToolsResult>(bytes) else { return };
    let options = McpServerOptions::http("http://127.0.0.1/mcp");
    specs("server", &options, page.tools).for_each(drop);
}
