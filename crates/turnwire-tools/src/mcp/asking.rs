//! What a server wants to know from a person in the middle of a call.
//!
//! The newer generation of the protocol answers a call with its questions and is called again
//! with the answers; the older one asks by a request of its own. Either way the question goes to
//! whoever watches the call, in our words.

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
use turnwire_contract::{Question, Reply, ToolContext, ToolError};

use super::wire::Wire;

/// How we answer what a server asks of us.
pub(super) struct Us {
    config: ClientConfig,
    wire: Arc<Wire>,
}

impl Us {
    pub(super) fn new(config: ClientConfig, wire: Arc<Wire>) -> Self {
        Self { config, wire }
    }
}

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(question) = question(&params) else {
            return Ok(answer(Reply::Declined, &json!({})));
        };
        let schema = question.schema.clone();
        Ok(answer(self.wire.ask(question).await, &schema))
    }
}

/// Has everything answered that a server wants to know before it goes on.
pub(super) async fn answers(
    label: &str,
    requests: InputRequests,
    context: &ToolContext,
) -> Result<InputResponses, ToolError> {
    let mut responses = InputResponses::new();
    for (key, request) in requests {
        let response = match request {
            InputRequest::Elicitation(request) => match question(&request.params) {
                Some(question) => {
                    let schema = question.schema.clone();
                    written(answer(context.ask(question).await, &schema))
                }
                None => written(answer(Reply::Declined, &json!({}))),
            },
            InputRequest::ListRoots(_) => json!({ "roots": [] }),
            _ => {
                return Err(ToolError::failed(format!(
                    "the server `{label}` asks for something that is not done here"
                )));
            }
        };
        responses.insert(key, response);
    }
    Ok(responses)
}

/// The question in our words; nothing if it is of a kind that we do not ask.
fn question(params: &ElicitRequestParams) -> Option<Question> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params
    else {
        return None;
    };
    let schema = serde_json::to_value(requested_schema).ok()?;
    Some(Question { message: message.clone(), schema })
}

/// The reply in the protocol's words. What the person left out and the server has a usual value
/// for is that value.
fn answer(reply: Reply, schema: &Value) -> ElicitResult {
    match reply {
        Reply::Accepted { content } => {
            let content = Value::Object(with_usual_values(content, schema));
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    }
}

fn with_usual_values(mut content: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        if let Some(usual) = field.get("default")
            && !content.contains_key(name)
        {
            content.insert(name.clone(), usual.clone());
        }
    }
    content
}

fn written(result: ElicitResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

#[cfg(test)]
#[path = "asking_tests.rs"]
mod tests;
