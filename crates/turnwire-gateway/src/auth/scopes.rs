//! Which scope each route needs.
//!
//! The table is read by the [`Caller`](super::Caller) of every handler and by the OpenAPI document.
//! It uses the path that the router matched, never the path that was sent. A route that is not in
//! it cannot be called.

use axum::http::Method;
use turnwire_contract::Scope;

/// Whether a route only reads.
pub(crate) fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The scope for a route, by the pattern of its path. `None`: nobody may call it.
pub(crate) fn needed(method: &Method, path: &str) -> Option<Scope> {
    let scope = match path {
        // Some of them are sockets, by GET, which start runs.
        "/ws/chat"
        | "/ai-sdk/chat"
        | "/v1/responses"
        | "/chat"
        | "/ag-ui"
        | "/v1/chat/completions"
        | "/v1/responses/compact"
        | "/v1/responses/input_tokens"
        | "/v1/mcp_servers/{server_name}/tools/{tool_name}/try" => Scope::RunsWrite,
        "/v1/runs/{run_id}/calls/{call_id}/approve" | "/v1/runs/{run_id}/calls/{call_id}/input" => {
            Scope::Approve
        }
        "/metrics" => Scope::Metrics,
        // The settings are of all tenants.
        "/v1/admin/reload" => Scope::Operator,
        path if is_in(path, "/v1/admin") || is_in(path, "/v1/webhooks") => Scope::Admin,
        path if is_in(path, "/v1/files") || is_in(path, "/v1/vector_stores") => Scope::Files,
        path if OF_RUNS.iter().any(|root| is_in(path, root)) => {
            if reads(method) {
                Scope::RunsRead
            } else {
                Scope::RunsWrite
            }
        }
        _ => return None,
    };
    Some(scope)
}

/// Paths under which reading needs `runs:read`, and everything else `runs:write`.
const OF_RUNS: [&str; 9] = [
    "/v1/responses",
    "/v1/runs",
    "/v1/conversations",
    "/v1/models",
    "/v1/mcp_servers",
    "/v1/usage",
    "/chat/stream",
    "/ai-sdk/chat",
    "/ag-ui/runs",
];

fn is_in(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
