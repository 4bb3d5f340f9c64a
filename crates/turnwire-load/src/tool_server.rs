//! An MCP server with one tool, as cheap as the model beside it: Streamable HTTP without sessions,
//! where every answer is plain JSON.

use serde_json::{Value, json};

/// The path of the server.
pub(crate) const PATH: &str = "/mcp";

/// What the tool returns.
pub(crate) const RESULT: &str = "the sum is 42";

/// Answers one message of a client.
pub(crate) fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    if !head.starts_with("POST ") {
        return b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n"
            .to_vec();
    }
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(id) = message.get("id").filter(|id| !id.is_null()) else {
        // A notification.
        return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec();
    };
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let answer = result(method, message.get("params")).map_or_else(
        || json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": method } }),
        |result| json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    );
    let answer = answer.to_string();
    let n_bytes = answer.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {n_bytes}\r\n\r\n\
         {answer}"
    )
    .into_bytes()
}

fn result(method: &str, params: Option<&Value>) -> Option<Value> {
    match method {
        "initialize" => {
            let version = params.and_then(|params| params.get("protocolVersion"));
            Some(json!({
                "protocolVersion": version,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "load", "version": "1" },
            }))
        }
        "ping" => Some(json!({})),
        "tools/list" => Some(json!({ "tools": [{
            "name": "add",
            "description": "Adds two numbers.",
            "inputSchema": {
                "type": "object",
                "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
                "required": ["a", "b"],
            },
            "annotations": { "readOnlyHint": true },
        }] })),
        "tools/call" => Some(json!({ "content": [{ "type": "text", "text": RESULT }] })),
        _ => None,
    }
}
