//! Elicitation: requests of a server for user input during a call.
//!
//! Since protocol version 2026-07-28 a server answers a call with its requests, and the call is
//! repeated with the replies. Earlier versions send a separate request to the client. Both are
//! passed to the call's [`ToolContext`].

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData,
        InputRequest, InputRequests, InputResponses,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};
use tracing::warn;
use turnwire_contract::{Question, Reply, ToolContext, ToolError, json_size};

use super::router::{MessageRouter, QuestionCount};

/// Maximum size of a question: its message and its schema in JSON. A run records both.
const MAX_QUESTION_BYTES: usize = 64 * 1024;

/// Our client handler, which answers requests of the server.
pub(super) struct McpClientHandler {
    config: ClientConfig,
    router: Arc<MessageRouter>,
}

impl McpClientHandler {
    pub(super) fn new(config: ClientConfig, router: Arc<MessageRouter>) -> Self {
        Self { config, router }
    }
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(question) = question(&params) else {
            return Ok(elicit_result(Reply::Declined, &json!({})));
        };
        let schema = question.schema.clone();
        Ok(elicit_result(self.router.ask(question).await, &schema))
    }
}

/// Gets replies to all requests of a server.
pub(super) async fn input_responses(
    label: &str,
    requests: InputRequests,
    context: &ToolContext,
    questions: &QuestionCount,
) -> Result<InputResponses, ToolError> {
    let mut responses = InputResponses::new();
    for (key, request) in requests {
        let response = match request {
            InputRequest::Elicitation(request) => {
                match question(&request.params).filter(|_| questions.add(label)) {
                    Some(question) => {
                        let schema = question.schema.clone();
                        to_json(elicit_result(context.ask(question).await, &schema))
                    }
                    None => to_json(elicit_result(Reply::Declined, &json!({}))),
                }
            }
            InputRequest::ListRoots(_) => json!({ "roots": [] }),
            _ => {
                return Err(ToolError::failed(format!(
                    "the server `{label}` sent a request of an unsupported type"
                )));
            }
        };
        responses.insert(key, response);
    }
    Ok(responses)
}

/// Converts a request. Returns `None` for unsupported kinds, and for what nobody would read.
pub(super) fn question(params: &ElicitRequestParams) -> Option<Question> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params
    else {
        return None;
    };
    let remaining = MAX_QUESTION_BYTES.checked_sub(message.len());
    if remaining.and_then(|remaining| json_size(requested_schema, remaining)).is_none() {
        warn!("MCP elicitation with more than 64 KiB declined");
        return None;
    }
    let schema = serde_json::to_value(requested_schema).ok()?;
    Some(Question { message: message.clone(), schema })
}

/// Converts a reply. Missing fields get the default of the schema.
fn elicit_result(reply: Reply, schema: &Value) -> ElicitResult {
    match reply {
        Reply::Accepted { content } => {
            let content = Value::Object(with_defaults(content, schema));
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    }
}

fn with_defaults(mut content: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        if let Some(default) = field.get("default")
            && !content.contains_key(name)
        {
            content.insert(name.clone(), default.clone());
        }
    }
    content
}

fn to_json(result: ElicitResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

#[cfg(test)]
#[path = "elicitation_tests.rs"]
mod tests;
