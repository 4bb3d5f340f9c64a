//! The request of a client: `RunAgentInput`.
//!
//! Unknown fields are ignored, because clients of other versions send them. What is known is
//! checked.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::ToolSpec;
use turnwire_surfaces::ag_ui::{InterruptId, Origin};
use utoipa::ToSchema;

use super::messages::{ClientMessage, read_messages};
use crate::{
    Result,
    client_error::{ClientError, shown},
    client_tools::{ClientTool, read_client_tools},
    fingerprint::fingerprint,
    limits::RequestLimits,
    typed,
};

/// Maximum length of the ID of a thread or a run, in characters.
const MAX_ID: usize = 255;

/// The request body.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RunAgentInput {
    /// ID of the thread, 1 to 255 characters. It is a conversation: one per tenant and thread. The
    /// ID of an existing conversation continues that conversation. Required.
    #[schema(value_type = String, min_length = 1, max_length = 255)]
    thread_id: Option<String>,
    /// ID of the run, 1 to 255 characters, new for every run. The same request with the same ID
    /// starts no second run within a day: it gets the stream of the first. Required.
    #[schema(value_type = String, min_length = 1, max_length = 255)]
    run_id: Option<String>,
    /// Version of the protocol that the client speaks. Default: a version before 1.0.
    protocol_version: Option<String>,
    /// ID of the run that this one branched from.
    parent_run_id: Option<String>,
    /// Messages of the thread. Those that the conversation has already are left out. Required.
    #[schema(value_type = Vec<Object>)]
    messages: Option<Vec<Value>>,
    /// Functions that the client executes. Their results come as messages with the role `tool` in
    /// the next request.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Facts for the model, added to its instructions.
    context: Option<Vec<ContextItem>>,
    /// `turnwire` has the options of this server; everything else is ignored.
    #[schema(value_type = Option<Object>)]
    forwarded_props: Option<Value>,
    /// Answers to interrupts. The run that asked goes on, and its stream under this `runId`.
    resume: Option<Vec<ResumeEntry>>,
}

/// A fact for the model.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct ContextItem {
    /// What the value is.
    description: String,
    /// The value.
    value: String,
}

/// The answer to an interrupt.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResumeEntry {
    /// ID of the interrupt. Required.
    #[schema(value_type = String)]
    interrupt_id: Option<String>,
    /// Whether it is answered. A cancelled approval is a denial. Required.
    #[schema(value_type = ResumeStatus)]
    status: Option<ResumeStatus>,
    /// The answer, as the `responseSchema` of the interrupt describes it.
    #[schema(value_type = Option<Object>)]
    payload: Option<Value>,
}

/// Whether an interrupt is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResumeStatus {
    /// Answered.
    Resolved,
    /// Dismissed.
    Cancelled,
}

/// A request that was checked.
#[derive(Debug)]
pub(crate) struct AgentRequest {
    /// What is kept with the run. Its messages are those of the client.
    pub(super) origin: Origin,
    pub(super) messages: Vec<ClientMessage>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) context: Vec<ContextItem>,
    pub(super) options: ForwardedOptions,
    pub(super) answers: Vec<InterruptAnswer>,
}

#[derive(Debug)]
pub(super) struct InterruptAnswer {
    pub(super) id: InterruptId,
    pub(super) status: ResumeStatus,
    pub(super) payload: Map<String, Value>,
    /// Path in the request, such as `resume[1]`.
    pub(super) param: String,
}

/// The options of this server, in `forwardedProps.turnwire`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ForwardedOptions {
    /// Name of a model.
    pub(super) model: Option<String>,
    /// What happens to the run when its client disconnects.
    pub(super) on_disconnect: Option<OnDisconnect>,
}

/// What happens to a run when its client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnDisconnect {
    Continue,
    Cancel,
}

impl AgentRequest {
    /// Reads and checks a body.
    pub(crate) fn read(body: Value, limits: &RequestLimits) -> Result<Self> {
        let fingerprint = fingerprint([body.to_string().as_bytes()]);
        let input: RunAgentInput = typed(body)?;
        let thread_id = needed_id(input.thread_id, "threadId")?;
        let run_id = needed_id(input.run_id, "runId")?;
        let sent = input.messages.ok_or_else(|| ClientError::missing("messages"))?;
        if sent.len() > limits.items {
            let message = format!("There may be at most {} messages.", limits.items);
            return Err(ClientError::new("too_many_items", "messages", message).into());
        }
        let messages = read_messages(&sent, limits)?;
        let answers = input.resume.unwrap_or_default();
        let answers = answers.into_iter().enumerate().map(|(n, entry)| entry.read(n));
        let origin = Origin {
            thread_id,
            run_id,
            parent_run_id: input.parent_run_id,
            is_v1: input.protocol_version.as_deref().is_some_and(is_v1),
            fingerprint,
            messages: sent.into_iter().filter_map(for_snapshot).collect(),
        };
        Ok(Self {
            origin,
            messages,
            tools: read_client_tools(client_tools(&input.tools.unwrap_or_default()), limits)?,
            context: input.context.unwrap_or_default(),
            options: read_options(input.forwarded_props.as_ref())?,
            answers: answers.collect::<Result<_, _>>()?,
        })
    }

    /// The context, as a part of the instructions.
    pub(super) fn context_text(&self) -> Option<String> {
        let line = |item: &ContextItem| format!("{}: {}", item.description, item.value);
        let lines: Vec<String> = self.context.iter().map(line).collect();
        let heading = "What the application says about the situation:";
        (!lines.is_empty()).then(|| format!("{heading}\n{}", lines.join("\n")))
    }
}

impl ResumeEntry {
    fn read(self, n: usize) -> Result<InterruptAnswer, ClientError> {
        let param = format!("resume[{n}]");
        let needed = |name: &str| ClientError::missing(format!("{param}.{name}"));
        let id = self.interrupt_id.ok_or_else(|| needed("interruptId"))?;
        let status = self.status.ok_or_else(|| needed("status"))?;
        let Ok(id) = id.parse() else {
            let message = format!("There is no interrupt `{}`.", shown(&id));
            let param = format!("{param}.interruptId");
            return Err(ClientError::not_found("interrupt_not_found", param, message));
        };
        let payload = match self.payload {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(payload)) => payload,
            Some(other) => {
                let param = format!("{param}.payload");
                return Err(ClientError::wrong_type(param, "an object", &other));
            }
        };
        Ok(InterruptAnswer { id, status, payload, param })
    }
}

fn needed_id(id: Option<String>, param: &str) -> Result<String, ClientError> {
    let id = id.ok_or_else(|| ClientError::missing(param))?;
    let fits = (1..=MAX_ID).contains(&id.chars().count()) && !id.chars().any(char::is_control);
    if fits {
        return Ok(id);
    }
    let message = format!("`{param}` must have 1 to {MAX_ID} characters, all of them visible.");
    Err(ClientError::invalid(param, message))
}

fn is_v1(version: &str) -> bool {
    version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .is_some_and(|major: u32| major >= 1)
}

/// A message as a snapshot returns it: activities stay with the client, and clients refuse `null`.
fn for_snapshot(mut message: Value) -> Option<Value> {
    if message.get("role").and_then(Value::as_str) == Some("activity") {
        return None;
    }
    if let Value::Object(fields) = &mut message {
        fields.retain(|_, value| !value.is_null());
    }
    Some(message)
}

/// The functions of a client.
fn client_tools(tools: &[Value]) -> Vec<ClientTool> {
    let as_tool = |(n, tool): (usize, &Value)| {
        let field = |name: &str| Some((name.to_owned(), tool.get(name)?.clone()));
        let fields = ["name", "description", "parameters"].into_iter().filter_map(field);
        (format!("tools[{n}]"), fields.collect())
    };
    tools.iter().enumerate().map(as_tool).collect()
}

fn read_options(props: Option<&Value>) -> Result<ForwardedOptions> {
    match props.and_then(|props| props.get("turnwire")) {
        None | Some(Value::Null) => Ok(ForwardedOptions::default()),
        Some(options) => typed(options.clone()).map_err(|error| {
            let param = error.param.as_deref().unwrap_or_default();
            let param = format!("forwardedProps.turnwire.{param}");
            error.about(param.trim_end_matches('.').to_owned())
        }),
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
