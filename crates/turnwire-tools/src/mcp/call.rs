//! A call of a tool: the request, rounds of elicitation, and tasks.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::{
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock,
        CustomRequest, ErrorCode, GetExtensions, InputRequiredResult, InputResponses, JsonObject,
        RequestMetaObject, ServerResult,
    },
    service::ServiceError,
};
use serde_json::json;
use tracing::debug;
use turnwire_contract::{Tool, ToolContext, ToolError, ToolOutput, ToolRequest, ToolSpec};

use super::{
    connection::Connection,
    elicitation::input_responses,
    result::convert,
    router::{PendingCall, QuestionCount},
    task,
    tool::{McpTool, NoResponse, cancelled},
};

use crate::Result;

/// Key of the idempotency key in `_meta`; the same for every attempt of a call.
const IDEMPOTENCY_KEY: &str = "dev.turnwire/idempotencyKey";

/// Keys of the trace context in `_meta`.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Maximum number of elicitation rounds per call.
const MAX_ROUNDS: usize = 10;

/// A request of a call. Later rounds contain the replies to the server's requests.
struct Round {
    arguments: JsonObject,
    key: String,
    responses: Option<InputResponses>,
    state: Option<String>,
    as_task: bool,
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn shared_spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    async fn call(&self, request: ToolRequest, context: ToolContext) -> Result<ToolOutput> {
        match context.begun_task() {
            Some(task) => self.poll_task(task, &context, &QuestionCount::new()).await,
            None => self.start_call(request, &context).await,
        }
    }
}

impl McpTool {
    /// Calls the tool, and again after each round of elicitation.
    async fn start_call(&self, request: ToolRequest, context: &ToolContext) -> Result<ToolOutput> {
        let (name, label) = (&self.spec.name, &self.server.label);
        let mut round = Round {
            arguments: request.arguments,
            key: request.idempotency_key,
            responses: None,
            state: None,
            as_task: self.server.requires_task(name),
        };
        let questions = QuestionCount::new();
        for _ in 0..MAX_ROUNDS {
            let connection = self.connection(context).await?;
            let _call_token = connection.calls.token();
            let pending = PendingCall::new(context, &questions);
            let sent = self.send(&connection, self.build_request(&round, context), &pending);
            let response = match sent.await {
                Ok(handle) => self.response(handle, &pending, context).await,
                Err(error) => Err(NoResponse::Failed(error)),
            };
            match response {
                Ok(ServerResult::CallToolResult(result))
                    if !round.as_task && result_requires_task_mode(&result, name) =>
                {
                    self.switch_to_task(&mut round);
                }
                Ok(ServerResult::CallToolResult(result)) => return convert(result),
                Ok(ServerResult::InputRequiredResult(asked)) => {
                    let InputRequiredResult { input_requests, request_state, .. } = asked;
                    let requests = input_requests.unwrap_or_default();
                    round.responses =
                        Some(input_responses(label, requests, context, &questions).await?);
                    round.state = request_state;
                }
                Ok(other) => match task::created_task(&other) {
                    Some(created_task) => {
                        return self.follow_task(created_task, context, &questions).await;
                    }
                    None => return Err(ToolError::Failed(unsupported(label))),
                },
                Err(NoResponse::Cancelled) => return Err(cancelled()),
                Err(NoResponse::Failed(error))
                    if !round.as_task && requires_task_mode(&error, &connection) =>
                {
                    self.switch_to_task(&mut round);
                }
                Err(NoResponse::Failed(error)) => {
                    return Err(self.call_error(error, &connection, &pending));
                }
            }
        }
        Err(ToolError::failed(format!("the server `{label}` asked for input too many times")))
    }

    fn switch_to_task(&self, round: &mut Round) {
        let (server, tool) = (&self.server, &self.spec.name);
        debug!(server = %server.label, %tool, "MCP tool requires task mode");
        server.set_requires_task(tool);
        round.as_task = true;
    }

    fn build_request(&self, round: &Round, context: &ToolContext) -> ClientRequest {
        let mut request = if round.as_task {
            // In the old protocol the call requests a task. The protocol library no longer supports
            // this.
            let params = json!({
                "name": self.spec.name,
                "arguments": round.arguments,
                "task": { "ttl": task::time_to_live(context) },
            });
            ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
        } else {
            let mut params = CallToolRequestParams::new(self.spec.name.clone())
                .with_arguments(round.arguments.clone());
            params.input_responses.clone_from(&round.responses);
            params.request_state.clone_from(&round.state);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), json!(round.key));
        if let Some(trace) = context.trace() {
            meta.insert(TRACEPARENT.to_owned(), json!(trace.traceparent));
            let state = trace.tracestate.as_ref();
            meta.extend(state.map(|state| (TRACESTATE.to_owned(), json!(state))));
        }
        request.extensions_mut().insert(RequestMetaObject::from(meta));
        request
    }
}

fn unsupported(label: &str) -> String {
    format!("the server `{label}` returned an unexpected response instead of a result")
}

/// Whether the server requires the tool to be called as a task. Old servers then report an unknown
/// method, and have not executed the call.
fn requires_task_mode(error: &ServiceError, connection: &Connection) -> bool {
    let is_unknown = matches!(
        error,
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND
    );
    is_unknown && !connection.uses_new_protocol()
}

/// The same error from the official TypeScript SDK, which returns it as a result. The text contains
/// the name of the tool, so it cannot be confused with a regular result.
fn result_requires_task_mode(result: &CallToolResult, name: &str) -> bool {
    let words = format!("MCP error -32601: Tool {name} requires task augmentation");
    let first = result.content.first();
    let is_it =
        |block: &ContentBlock| block.as_text().is_some_and(|it| it.text.starts_with(&words));
    result.is_error == Some(true) && first.is_some_and(is_it)
}
