//! A call of a tool: the request, rounds of elicitation, and tasks.

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
    asking::answers,
    connection::Connection,
    result::read,
    task,
    tool::{McpTool, Stop, cancelled},
    wire::Mailbox,
};

/// Key of the idempotency key in `_meta`; the same for every attempt of a call.
const IDEMPOTENCY_KEY: &str = "dev.turnwire/idempotencyKey";

/// Maximum number of elicitation rounds per call.
const MAX_ROUNDS: usize = 10;

/// A request of a call. Later rounds contain the replies to the server's requests.
struct Round {
    arguments: JsonObject,
    key: String,
    responses: Option<InputResponses>,
    state: Option<String>,
    as_a_task: bool,
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        match context.begun_task() {
            Some(task) => self.watch(task, &context).await,
            None => self.begin(request, &context).await,
        }
    }
}

impl McpTool {
    /// Calls the tool, and again after each round of elicitation.
    async fn begin(
        &self,
        request: ToolRequest,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let (name, label) = (&self.spec.name, &self.server.label);
        let mut round = Round {
            arguments: request.arguments,
            key: request.idempotency_key,
            responses: None,
            state: None,
            as_a_task: self.server.is_called_as_a_task(name),
        };
        for _ in 0..MAX_ROUNDS {
            let connection = self.connection(context).await?;
            let _under_way = connection.calls.token();
            let mailbox = Mailbox::new(context.run_id.clone());
            let sent = self.send(&connection, self.called(&round, context), &mailbox);
            let answer = match sent.await {
                Ok(handle) => self.answer(handle, &mailbox, context).await,
                Err(error) => Err(Stop::Failed(error)),
            };
            match answer {
                Ok(ServerResult::CallToolResult(result))
                    if !round.as_a_task && says_that_it_wants_a_task(&result, name) =>
                {
                    self.call_as_a_task(&mut round);
                }
                Ok(ServerResult::CallToolResult(result)) => return read(result),
                Ok(ServerResult::InputRequiredResult(asked)) => {
                    let InputRequiredResult { input_requests, request_state, .. } = asked;
                    let requests = input_requests.unwrap_or_default();
                    round.responses = Some(answers(label, requests, context).await?);
                    round.state = request_state;
                }
                Ok(other) => match task::created(&other) {
                    Some(created) => return self.follow(created, context).await,
                    None => return Err(ToolError::Failed(unsupported(label))),
                },
                Err(Stop::Cancelled) => return Err(cancelled()),
                Err(Stop::Failed(error))
                    if !round.as_a_task && wants_a_task(&error, &connection) =>
                {
                    self.call_as_a_task(&mut round);
                }
                Err(Stop::Failed(error)) => {
                    return Err(self.problem(error, &connection, &mailbox));
                }
            }
        }
        Err(ToolError::failed(format!("the server `{label}` asks again and again")))
    }

    fn call_as_a_task(&self, round: &mut Round) {
        let (server, tool) = (&self.server, &self.spec.name);
        debug!(server = %server.label, %tool, "MCP tool requires task mode");
        server.call_as_a_task(tool);
        round.as_a_task = true;
    }

    /// Builds the request.
    fn called(&self, round: &Round, context: &ToolContext) -> ClientRequest {
        let mut request = if round.as_a_task {
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
        request.extensions_mut().insert(RequestMetaObject::from(meta));
        request
    }
}

fn unsupported(label: &str) -> String {
    format!("the server `{label}` answered with something else than a result")
}

/// Whether the server requires the tool to be called as a task. Old servers then report an unknown
/// method, and have not executed the call.
fn wants_a_task(error: &ServiceError, connection: &Connection) -> bool {
    let is_unknown = matches!(
        error,
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND
    );
    is_unknown && !connection.is_newer()
}

/// The same error from the official TypeScript SDK, which returns it as a result. The text contains
/// the name of the tool, so it cannot be confused with a regular result.
fn says_that_it_wants_a_task(result: &CallToolResult, name: &str) -> bool {
    let words = format!("MCP error -32601: Tool {name} requires task augmentation");
    let first = result.content.first();
    let is_it =
        |block: &ContentBlock| block.as_text().is_some_and(|it| it.text.starts_with(&words));
    result.is_error == Some(true) && first.is_some_and(is_it)
}
