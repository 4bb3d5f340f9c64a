//! The response object: what a run is, to a client of this surface.
//!
//! Open Responses wants all 31 of its keys at all times, null where there is nothing, and
//! official clients read the same object; so there is one shape, in the order the original has.

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    AskBefore, Failure, Generation, IncompleteReason, InputFormat, RunId, RunRequest, ServerUse,
    Timestamp, ToolChoice, ToolKind, ToolSpec, Usage,
};
use utoipa::ToSchema;

use super::{
    echo::{Echo, IGNORED},
    ids,
    item::OutputItem,
};

/// The whole answer to a request, finished or not.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Response {
    /// Its name: `resp_…`.
    pub id: String,
    /// What this object is.
    pub object: ObjectKind,
    /// Always null: there are no access programs here, but official clients expect the key.
    #[schema(value_type = Option<Object>)]
    pub access_programs: Option<Value>,
    /// When it was asked for, in seconds since 1970.
    pub created_at: i64,
    /// How far it has come.
    pub status: ResponseStatus,
    /// Whether nobody waits for it.
    pub background: bool,
    /// When it was completed, in seconds since 1970.
    pub completed_at: Option<i64>,
    /// What went wrong.
    pub error: Option<ResponseError>,
    /// As asked for.
    pub frequency_penalty: f64,
    /// Why it is not whole.
    pub incomplete_details: Option<IncompleteDetails>,
    /// As asked for.
    pub instructions: Value,
    /// As asked for.
    pub max_output_tokens: Option<u64>,
    /// As asked for.
    pub max_tool_calls: Option<u64>,
    /// The model that answers.
    pub model: String,
    /// What came of it, so far.
    pub output: Vec<OutputItem>,
    /// As asked for.
    pub parallel_tool_calls: bool,
    /// As asked for.
    pub presence_penalty: f64,
    /// The response that it continues.
    pub previous_response_id: Option<String>,
    /// As asked for.
    pub prompt_cache_key: Option<String>,
    /// As asked for.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Value,
    /// As asked for.
    pub safety_identifier: Option<String>,
    /// As asked for.
    pub service_tier: String,
    /// As asked for.
    pub store: bool,
    /// As asked for.
    pub temperature: f64,
    /// As asked for.
    #[schema(value_type = Object)]
    pub text: Value,
    /// As asked for.
    pub tool_choice: Value,
    /// As asked for.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// As asked for.
    pub top_logprobs: u64,
    /// As asked for.
    pub top_p: f64,
    /// As asked for.
    pub truncation: String,
    /// What it cost; null until it is over.
    pub usage: Option<ResponseUsage>,
    /// As asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client's own notes.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// The conversation it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationName>,
    /// What official responses have no field for; not there when there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<ResponseNote>,
}

/// What official responses have no field for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseNote {
    /// The fields of the request that were not heeded, by us or by the model's provider.
    pub ignored: Vec<String>,
}

/// What kind of object it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A response.
    #[default]
    Response,
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    /// It waits to be worked on.
    Queued,
    /// It is being worked on.
    InProgress,
    /// It is whole.
    Completed,
    /// It failed.
    Failed,
    /// It stopped at a limit.
    Incomplete,
    /// Somebody stopped it.
    Cancelled,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseError {
    /// The family: `rate_limit_error`, `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// The official code that fits best.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The parameter at fault; always null here.
    pub param: Option<String>,
    /// The code of ours.
    pub turnwire: OwnCode,
}

/// A code of ours, beside the official one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnCode {
    /// As `docs/errors.md` lists it.
    pub code: String,
    /// How long to wait before it is worth another try, if somebody has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<&Failure> for ResponseError {
    fn from(failure: &Failure) -> Self {
        let code = official_code(&failure.code);
        let (own, retry_after_ms) = (failure.code.clone(), failure.retry_after_ms);
        Self {
            kind: family(code),
            code: code.to_owned(),
            message: failure.message.clone(),
            param: None,
            turnwire: OwnCode { code: own, retry_after_ms },
        }
    }
}

/// Why a response is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct IncompleteDetails {
    /// `max_output_tokens` and `content_filter` are official; `max_turns`, `max_tool_calls`,
    /// `time_limit`, `repeated_call` and `cancelled` are ours.
    #[schema(value_type = String)]
    pub reason: &'static str,
}

/// Which conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConversationName {
    /// Its name.
    pub id: String,
}

/// What a response cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// More about them.
    pub input_tokens_details: InputTokensDetails,
    /// Tokens written.
    pub output_tokens: u64,
    /// More about them.
    pub output_tokens_details: OutputTokensDetails,
    /// Both together.
    pub total_tokens: u64,
}

/// More about the tokens read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputTokensDetails {
    /// How many came from a cache.
    pub cached_tokens: u64,
    /// How many were put into a cache. Always 0, because no provider says it the same way; but
    /// official clients expect a number.
    pub cache_write_tokens: u64,
}

/// More about the tokens written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct OutputTokensDetails {
    /// How many were thoughts.
    pub reasoning_tokens: u64,
}

impl From<Usage> for ResponseUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, cached_tokens, output_tokens, reasoning_tokens } = usage;
        Self {
            input_tokens,
            input_tokens_details: InputTokensDetails { cached_tokens, cache_write_tokens: 0 },
            output_tokens,
            output_tokens_details: OutputTokensDetails { reasoning_tokens },
            total_tokens: input_tokens + output_tokens,
        }
    }
}

impl Response {
    /// A response to `request` that nobody has worked on yet.
    pub(super) fn new(run_id: &RunId, created: Timestamp, request: &RunRequest) -> Self {
        let echo = Echo(&request.echo);
        let generation = &request.generation;
        let background = echo.get("background").unwrap_or(false);
        let previous = || request.continues.as_ref().map(ids::response_id);
        let conversation = request.conversation_id.as_ref();
        Self {
            id: ids::response_id(run_id),
            object: ObjectKind::Response,
            access_programs: None,
            created_at: seconds(created),
            status: if background { ResponseStatus::Queued } else { ResponseStatus::InProgress },
            background,
            completed_at: None,
            error: None,
            frequency_penalty: echo.get("frequency_penalty").unwrap_or(0.0),
            incomplete_details: None,
            instructions: echo.get("instructions").unwrap_or_else(|| json!(request.instructions)),
            max_output_tokens: echo
                .get("max_output_tokens")
                .or(generation.max_output_tokens.map(u64::from)),
            max_tool_calls: echo.get("max_tool_calls"),
            model: echo.get("model").unwrap_or_else(|| request.model.clone()),
            output: Vec::new(),
            parallel_tool_calls: echo
                .get("parallel_tool_calls")
                .unwrap_or(request.parallel_tool_calls),
            presence_penalty: echo.get("presence_penalty").unwrap_or(0.0),
            previous_response_id: echo.get("previous_response_id").or_else(previous),
            prompt_cache_key: echo.get("prompt_cache_key"),
            reasoning: echo.get("reasoning").unwrap_or_else(
                || json!({ "effort": generation.reasoning_effort, "summary": null }),
            ),
            safety_identifier: echo.get("safety_identifier"),
            service_tier: echo.get("service_tier").unwrap_or_else(|| "default".to_owned()),
            store: echo.get("store").unwrap_or(true),
            temperature: echo.get("temperature").or(generation.temperature).unwrap_or(1.0),
            text: echo.get("text").unwrap_or_else(|| text(generation)),
            tool_choice: echo
                .get("tool_choice")
                .unwrap_or_else(|| tool_choice(&request.tool_choice)),
            tools: echo.get("tools").unwrap_or_else(|| tools(request)),
            top_logprobs: echo.get("top_logprobs").unwrap_or(0),
            top_p: echo.get("top_p").or(generation.top_p).unwrap_or(1.0),
            truncation: echo.get("truncation").unwrap_or_else(|| "disabled".to_owned()),
            usage: None,
            user: echo.get("user"),
            metadata: echo.get("metadata").unwrap_or_else(|| json!(request.metadata)),
            conversation: conversation.map(|id| ConversationName { id: id.to_string() }),
            turnwire: echo.get(IGNORED).map(|ignored| ResponseNote { ignored }),
        }
    }
}

/// Whole seconds since 1970.
pub(super) fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

/// The official code that says best what our `code` says.
fn official_code(code: &str) -> &'static str {
    match code {
        "model_rejected" | "content_filtered" => "invalid_prompt",
        // Not in the types of the official clients, but what OpenAI sends and clients look for.
        "context_length_exceeded" => "context_length_exceeded",
        "model_rate_limited" => "rate_limit_exceeded",
        _ => "server_error",
    }
}

/// The family that an official code belongs to.
fn family(code: &str) -> &'static str {
    match code {
        "rate_limit_exceeded" => "rate_limit_error",
        "server_error" => "server_error",
        _ => "invalid_request_error",
    }
}

/// The limit in the words of `incomplete_details`.
pub(super) fn reason(reason: IncompleteReason) -> &'static str {
    match reason {
        IncompleteReason::MaxOutputTokens => "max_output_tokens",
        IncompleteReason::MaxOutputBytes => "max_output_bytes",
        IncompleteReason::MaxTurns => "max_turns",
        IncompleteReason::MaxToolCalls => "max_tool_calls",
        IncompleteReason::TimeLimit => "time_limit",
        IncompleteReason::RepeatedCall => "repeated_call",
        IncompleteReason::ContentFilter => "content_filter",
    }
}

fn text(generation: &Generation) -> Value {
    match &generation.answer_schema {
        None if generation.json_object => json!({ "format": { "type": "json_object" } }),
        None => json!({ "format": { "type": "text" } }),
        Some(schema) => json!({ "format": {
            "type": "json_schema",
            "name": generation.schema_name.as_deref().unwrap_or("answer"),
            "description": generation.schema_description,
            "schema": schema,
            "strict": generation.schema_strict.unwrap_or(true),
        } }),
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named { name } => json!({ "type": "function", "name": name }),
    }
}

/// The tools as a client would have named them: each server once.
fn tools(request: &RunRequest) -> Vec<Value> {
    let mut tools: Vec<Value> = request.servers.iter().map(server).collect();
    for spec in &request.tools {
        let tool = tool(spec);
        if spec.kind != ToolKind::Mcp || !is_known(&tools, &tool) {
            tools.push(tool);
        }
    }
    tools
}

fn is_known(tools: &[Value], server: &Value) -> bool {
    tools.iter().any(|tool| tool.get("server_label") == server.get("server_label"))
}

fn tool(spec: &ToolSpec) -> Value {
    match spec.kind {
        ToolKind::Function | ToolKind::Client => json!({
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
            "strict": spec.strict.unwrap_or(false),
        }),
        ToolKind::Custom => json!({
            "type": "custom",
            "name": spec.name,
            "description": spec.description,
            "format": spec.format.as_ref().unwrap_or(&InputFormat::Text),
        }),
        ToolKind::Mcp => server(&ServerUse::all_of(spec.server.clone().unwrap_or_default())),
        ToolKind::WebSearch => json!({ "type": "web_search" }),
        ToolKind::FileSearch => {
            let stores = spec.settings.get("vector_store_ids").cloned();
            json!({ "type": "file_search", "vector_store_ids": stores.unwrap_or_else(|| json!([])) })
        }
    }
}

fn server(server: &ServerUse) -> Value {
    let mut tool = Map::from_iter([
        ("type".to_owned(), json!("mcp")),
        ("server_label".to_owned(), json!(server.label)),
        ("allowed_tools".to_owned(), json!(server.allowed)),
    ]);
    let approval = match &server.ask_before {
        AskBefore::Nothing => json!("never"),
        AskBefore::Everything => json!("always"),
        AskBefore::Only(names) => json!({ "always": { "tool_names": names } }),
        AskBefore::AllBut(names) => json!({ "never": { "tool_names": names } }),
    };
    tool.insert("require_approval".to_owned(), approval);
    Value::Object(tool)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
