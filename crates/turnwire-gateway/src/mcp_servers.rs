//! `/v1/mcp_servers`: the configured MCP servers with their tools, and a run that tries one tool.

use std::time::Duration;

use axum::{extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{
    CallId, Effect, LeftOut, Scope, ServerState, ServerStatus, ServerTransport, Timestamp,
    ToolClaims,
};
use turnwire_engine::{CallPeriod, ListedTool, ServerCalls, StartOptions, one_call};
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Json, JsonBody, PathParams, Result,
    idempotency::{IdempotencyKeyHeader, OptionalIdempotencyKey},
    typed,
};

/// What is told of an error to callers who do not administer: the message may have the address.
const HIDDEN_ERROR: &str = "The server cannot be reached. Its operator sees why.";

module_routes! { [list] [try_tool] }

/// The configured MCP servers.
#[derive(Debug, Serialize, ToSchema)]
struct McpServerList {
    /// Always `list`.
    object: &'static str,
    /// The servers, in the order of their names.
    data: Vec<McpServer>,
}

/// An MCP server.
#[derive(Debug, Serialize, ToSchema)]
struct McpServer {
    /// Name of the server in the settings.
    name: String,
    /// How the server is reached.
    transport: Transport,
    /// The command without its arguments, or the URL without user, query and fragment. Null without
    /// the scope `admin`.
    address: Option<String>,
    /// State of the connection.
    state: ConnectionWord,
    /// Duration of the last response to a request for the tools, in milliseconds. Null if unknown.
    latency_ms: Option<u64>,
    /// Last error of the connection. It stays after the connection is open again. Null if there was
    /// none since the start of the server. Without the scope `admin`, only its time is told.
    last_error: Option<McpServerError>,
    /// The calls of its tools. Calls of other tenants do not count.
    calls: McpCalls,
    /// The tools. Empty while they are not known.
    tools: Vec<McpTool>,
    /// Tools that the server listed and that no model is offered, with the reasons. Missing if there
    /// are none.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    left_out: LeftOut,
}

/// The calls of a server that the answering process executed, within the last 24 hours.
#[derive(Debug, Serialize, ToSchema)]
struct McpCalls {
    /// Since when calls are counted: 24 hours ago, or the start of the process.
    since: Timestamp,
    /// Number of calls that ended.
    total: u64,
    /// Number of calls that failed, timed out, or have an unknown outcome.
    failed: u64,
    /// Median duration of the last 500 calls, in milliseconds. Null if there were none.
    p50_ms: Option<u64>,
    /// Duration that 95 % of the last 500 calls did not exceed, in milliseconds. Null if there were
    /// none.
    p95_ms: Option<u64>,
    /// The half hours with calls, oldest first, at most 48.
    half_hours: Vec<McpCallPeriod>,
}

/// The calls of a server within half an hour.
#[derive(Debug, Serialize, ToSchema)]
struct McpCallPeriod {
    /// Start of the half hour.
    start: Timestamp,
    /// Number of calls that ended.
    total: u64,
    /// Number of calls that failed.
    failed: u64,
    /// Mean duration, in milliseconds, without cancelled calls. Null if all were cancelled.
    mean_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Transport {
    /// A child process of the server.
    Stdio,
    /// Streamable HTTP.
    Http,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ConnectionWord {
    /// The connection is open.
    Connected,
    /// There is no connection yet.
    Connecting,
    /// The last attempt failed, or the connection was lost.
    Failed,
    /// A person has to log in with `turnwire mcp login`.
    LoginRequired,
}

/// An error of a connection.
#[derive(Debug, Serialize, ToSchema)]
struct McpServerError {
    /// What happened, in one sentence.
    message: String,
    /// Time of the error.
    at: Timestamp,
}

/// A tool of an MCP server.
#[derive(Debug, Serialize, ToSchema)]
struct McpTool {
    /// Name of the tool on its server.
    name: String,
    /// Title for display. Null if the server gives none.
    title: Option<String>,
    /// What the tool does, in the words of the server.
    description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Effect class: whether a call may be repeated. Set by the operator.
    effect: Effect,
    /// Whether a call needs approval.
    requires_approval: bool,
    /// What the server claims about the tool. Not verified.
    claims: Claims,
    /// Whether the definition differs from the trusted one. Calls need approval then.
    changed: bool,
    /// Median duration of the last 32 calls, in milliseconds, as in `calls` of the server. Null if
    /// there were none.
    p50_ms: Option<u64>,
}

/// What a server claims about a tool. Null where it claims nothing.
#[derive(Debug, Serialize, ToSchema)]
struct Claims {
    /// The tool changes nothing.
    read_only: Option<bool>,
    /// The tool may delete or overwrite something.
    destructive: Option<bool>,
    /// A repeated call has no further effect.
    idempotent: Option<bool>,
    /// The tool reaches beyond its server.
    open_world: Option<bool>,
}

impl McpServer {
    fn new(
        status: ServerStatus,
        (tools, left_out): (Vec<ListedTool>, LeftOut),
        calls: &ServerCalls,
        since: Timestamp,
        is_admin: bool,
    ) -> Self {
        let error = |(message, at)| {
            let message = if is_admin { message } else { HIDDEN_ERROR.to_owned() };
            McpServerError { message, at }
        };
        let listed = |tool: ListedTool| McpTool {
            p50_ms: calls.tools.get(&tool.offered_name()).copied().and_then(millis),
            ..McpTool::from(tool)
        };
        Self {
            name: status.label,
            transport: match status.transport {
                ServerTransport::Stdio => Transport::Stdio,
                ServerTransport::Http => Transport::Http,
            },
            address: is_admin.then_some(status.address),
            state: match status.state {
                ServerState::Connected => ConnectionWord::Connected,
                ServerState::Connecting => ConnectionWord::Connecting,
                ServerState::Failed => ConnectionWord::Failed,
                ServerState::LoginRequired => ConnectionWord::LoginRequired,
            },
            latency_ms: status.latency.and_then(millis),
            last_error: status.last_error.map(error),
            calls: McpCalls::new(calls, since),
            tools: tools.into_iter().map(listed).collect(),
            left_out,
        }
    }
}

impl McpCalls {
    fn new(calls: &ServerCalls, since: Timestamp) -> Self {
        let half_hour = |period: &CallPeriod| McpCallPeriod {
            start: period.start,
            total: period.n_calls,
            failed: period.n_failed,
            mean_ms: period.mean.and_then(millis),
        };
        Self {
            since,
            total: calls.n_calls,
            failed: calls.n_failed,
            p50_ms: calls.median.and_then(millis),
            p95_ms: calls.p95.and_then(millis),
            half_hours: calls.periods.iter().map(half_hour).collect(),
        }
    }
}

fn millis(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_millis()).ok()
}

impl From<ListedTool> for McpTool {
    fn from(ListedTool { spec, is_changed }: ListedTool) -> Self {
        let ToolClaims { read_only, destructive, idempotent, open_world } =
            spec.claims.unwrap_or_default();
        Self {
            requires_approval: spec.is_guarded(),
            name: spec.name,
            title: spec.title,
            description: spec.description,
            input_schema: spec.parameters,
            effect: spec.effect,
            claims: Claims { read_only, destructive, idempotent, open_world },
            changed: is_changed,
            p50_ms: None,
        }
    }
}

/// List the configured MCP servers with their state and their tools.
///
/// Starts to connect to servers that are not connected, and does not wait for them. The statistics
/// of calls are counters of the process that answers: other nodes have their own, and a restart
/// begins anew.
#[utoipa::path(
    get,
    path = "/v1/mcp_servers",
    responses((status = 200, description = "All servers", body = McpServerList))
)]
async fn list(State(app): State<App>, caller: Caller) -> Json<McpServerList> {
    let mut data = Vec::new();
    for status in app.runs().server_statuses(caller.principal()) {
        let tools = app.runs().known_tools(caller.principal(), &status.label).await;
        let (calls, since) = app.runs().server_calls(caller.tenant(), &status.label);
        data.push(McpServer::new(status, tools, &calls, since, caller.has(Scope::Admin)));
    }
    Json(McpServerList { object: "list", data })
}

/// A call of a tool.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
struct TriedCall {
    /// The arguments. They must match the schema of the tool. Default: none.
    #[schema(value_type = Option<Object>)]
    arguments: Map<String, Value>,
}

/// The run that was started.
#[derive(Debug, Serialize, ToSchema)]
struct StartedRun {
    /// ID of the run.
    run_id: String,
}

/// Try a tool.
///
/// Starts a run of one call. The model is not asked. The run waits for an approval if the tool
/// needs one, and for answers if the tool asks the user. Follow it at `/v1/runs/{run_id}/events`.
#[utoipa::path(
    post,
    path = "/v1/mcp_servers/{server_name}/tools/{tool_name}/try",
    params(IdempotencyKeyHeader),
    request_body = TriedCall,
    responses(
        (status = 201, description = "The run has started", body = StartedRun),
        (status = 404, description = "There is no such server, or it has no such tool"),
    )
)]
async fn try_tool(
    State(app): State<App>,
    caller: Caller,
    PathParams((server, tool)): PathParams<(String, String)>,
    OptionalIdempotencyKey(key): OptionalIdempotencyKey,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<StartedRun>)> {
    let TriedCall { arguments } = typed(body)?;
    let handle = if let Some(handle) = app.find_by_key(caller.tenant(), key.as_ref()).await? {
        handle
    } else {
        check_tool(&app, &caller, &server, &tool).await?;
        let call_id = CallId::new(app.runs().new_id("call"));
        let mut request = app.chat_request(&caller);
        if request.model.is_empty() {
            // The model is not asked; any of them will do.
            let names = app.runs().model_names(caller.principal());
            request.model = names.into_iter().next().unwrap_or_default();
        }
        request.inputs = true;
        let request = one_call(request, call_id, &server, &tool, arguments);
        app.start(
            &caller,
            request,
            StartOptions { idempotency_key: key, ..StartOptions::default() },
        )
        .await?
    };
    Ok((StatusCode::CREATED, Json(StartedRun { run_id: handle.id().to_string() })))
}

/// Fails if there is no such server or tool. A server that cannot be reached now has all tools: the
/// run says what is wrong.
async fn check_tool(app: &App, caller: &Caller, server: &str, tool: &str) -> Result<()> {
    let (runs, who) = (app.runs(), caller.principal());
    if !runs.server_labels(who).iter().any(|label| label == server) {
        return Err(ApiError::not_found("MCP server", server));
    }
    match runs.server_tools(who, server).await {
        Ok(tools) if !tools.iter().any(|known| known.spec().name == tool) => {
            Err(ApiError::not_found("Tool", tool))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of an error may name the address, so only those who administer see it.
    #[test]
    fn errors_are_for_those_who_administer() {
        let status = |is_admin| {
            let status = ServerStatus {
                label: "crm".to_owned(),
                transport: ServerTransport::Http,
                address: "http://10.0.0.5/".to_owned(),
                state: ServerState::Failed,
                latency: None,
                last_error: Some(("no answer from 10.0.0.5".to_owned(), Timestamp::from_micros(0))),
            };
            let calls = ServerCalls::default();
            McpServer::new(status, Default::default(), &calls, Timestamp::from_micros(0), is_admin)
        };
        let (seen, hidden) = (status(true), status(false));
        assert_eq!(seen.address.as_deref(), Some("http://10.0.0.5/"));
        assert_eq!(seen.last_error.unwrap().message, "no answer from 10.0.0.5");
        assert_eq!((hidden.address, hidden.name.as_str()), (None, "crm"));
        assert_eq!(hidden.last_error.unwrap().message, HIDDEN_ERROR);
    }
}
