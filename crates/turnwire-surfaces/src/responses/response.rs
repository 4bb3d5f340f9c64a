//! The response object of the Responses API.
//!
//! Open Responses requires all 31 of its keys at all times, null if there is no value, and official
//! clients read the same object. So there is one format, with the keys in the original order.

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    AskBefore, Failure, Generation, IncompleteReason, InputFormat, RunId, RunRequest, ServerUse,
    Timestamp, ToolChoice, ToolKind, ToolSpec, Usage,
};
use utoipa::ToSchema;

use super::{
    ids,
    item::OutputItem,
    surface_data::{IGNORED, SurfaceData},
};
use crate::usage_note::UsageNote;

/// Key of the metadata with warnings about the answer.
const WARNINGS: &str = "turnwire_warnings";

/// A response.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Response {
    /// ID of the response: `resp_…`.
    pub id: String,
    /// Always `response`.
    pub object: ObjectKind,
    /// Always null. Official clients expect the key.
    #[schema(value_type = Option<Object>)]
    pub access_programs: Option<Value>,
    /// Time of creation, in Unix seconds.
    pub created_at: i64,
    /// Status of the response.
    pub status: ResponseStatus,
    /// Whether the response runs in the background.
    pub background: bool,
    /// Time of completion, in Unix seconds. Null unless `status` is `completed`.
    pub completed_at: Option<i64>,
    /// Why the response failed. Null otherwise.
    pub error: Option<ResponseError>,
    /// `frequency_penalty` of the request. Default: 0.
    pub frequency_penalty: f64,
    /// Why the response is incomplete. Null otherwise.
    pub incomplete_details: Option<IncompleteDetails>,
    /// `instructions` of the request.
    pub instructions: Value,
    /// `max_output_tokens` of the request.
    pub max_output_tokens: Option<u64>,
    /// `max_tool_calls` of the request.
    pub max_tool_calls: Option<u64>,
    /// Name of the model that was used.
    pub model: String,
    /// The output items so far.
    pub output: Vec<OutputItem>,
    /// `parallel_tool_calls` of the request. Default: true.
    pub parallel_tool_calls: bool,
    /// `presence_penalty` of the request. Default: 0.
    pub presence_penalty: f64,
    /// ID of the response it continues.
    pub previous_response_id: Option<String>,
    /// `prompt_cache_key` of the request.
    pub prompt_cache_key: Option<String>,
    /// `reasoning` of the request.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Value,
    /// `safety_identifier` of the request.
    pub safety_identifier: Option<String>,
    /// `service_tier` of the request. Default: `default`.
    pub service_tier: String,
    /// Whether the response is stored. Default: true.
    pub store: bool,
    /// `temperature` of the request. Default: 1.
    pub temperature: f64,
    /// `text` of the request.
    #[schema(value_type = Object)]
    pub text: Value,
    /// `tool_choice` of the request. Default: `auto`.
    pub tool_choice: Value,
    /// `tools` of the request, without secrets.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// `top_logprobs` of the request. Default: 0.
    pub top_logprobs: u64,
    /// `top_p` of the request. Default: 1.
    pub top_p: f64,
    /// `truncation` of the request. Default: `disabled`.
    pub truncation: String,
    /// Tokens used. Null until the response ends.
    pub usage: Option<ResponseUsage>,
    /// `user` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Key-value pairs set by the client. If a part of the model's answer could not be read,
    /// `turnwire_warnings` is among them at the end.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// The conversation of the response. Missing if it belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationName>,
    /// Additional fields of Turnwire. Missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<ResponseNote>,
}

/// Fields that the official format does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseNote {
    /// Paths of the request fields that were ignored, by the gateway or by the model provider.
    pub ignored: Vec<String>,
}

/// Type of the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A response.
    #[default]
    Response,
}

/// Status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    /// The run has not started yet.
    Queued,
    /// The run is in progress.
    InProgress,
    /// The response is complete.
    Completed,
    /// The run failed.
    Failed,
    /// The run stopped at a limit.
    Incomplete,
    /// The run was cancelled.
    Cancelled,
}

/// Why a response failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseError {
    /// Category of the error: `rate_limit_error`, `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// The closest code of the OpenAI API, such as `rate_limit_exceeded`.
    pub code: String,
    /// Human-readable message.
    pub message: String,
    /// Always null.
    pub param: Option<String>,
    /// Turnwire's own failure code.
    pub turnwire: OwnCode,
}

/// Turnwire's own failure code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnCode {
    /// Stable failure code, as listed in `docs/errors.md`.
    pub code: String,
    /// Time to wait before a retry in milliseconds, if the provider named one.
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

/// Why a response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct IncompleteDetails {
    /// `max_output_tokens` and `content_filter` are official reasons; `max_output_bytes`,
    /// `max_turns`, `max_cost`, `insufficient_quota`, `max_tool_calls`, `time_limit`, `repeated_call`
    /// and `cancelled` are Turnwire's own.
    #[schema(value_type = String)]
    pub reason: &'static str,
}

/// A reference to a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConversationName {
    /// ID of the conversation.
    pub id: String,
}

/// Tokens used by a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseUsage {
    /// Number of input tokens.
    pub input_tokens: u64,
    /// Details of the input tokens.
    pub input_tokens_details: InputTokensDetails,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Details of the output tokens.
    pub output_tokens_details: OutputTokensDetails,
    /// Sum of input and output tokens.
    pub total_tokens: u64,
    /// What the official format has no field for. Absent if the cost is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub turnwire: Option<UsageNote>,
}

/// Details of the input tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputTokensDetails {
    /// Number of tokens read from the cache of the provider.
    pub cached_tokens: u64,
    /// Always 0, because providers do not report it consistently. Official clients expect a number.
    pub cache_write_tokens: u64,
}

/// Details of the output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct OutputTokensDetails {
    /// Number of reasoning tokens.
    pub reasoning_tokens: u64,
}

impl From<Usage> for ResponseUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nanos } =
            usage;
        Self {
            input_tokens,
            input_tokens_details: InputTokensDetails { cached_tokens, cache_write_tokens: 0 },
            output_tokens,
            output_tokens_details: OutputTokensDetails { reasoning_tokens },
            total_tokens: input_tokens + output_tokens,
            turnwire: UsageNote::of(cost_nanos),
        }
    }
}

impl Response {
    /// Says something about the answer where the official format has room for it.
    pub(super) fn warn(&mut self, warning: String) {
        if let Some(pairs) = self.metadata.as_object_mut() {
            pairs.insert(WARNINGS.to_owned(), Value::String(warning));
        }
    }

    /// The response to `request`, before its run starts.
    pub(super) fn new(run_id: &RunId, created: Timestamp, request: &RunRequest) -> Self {
        let surface_data = SurfaceData(&request.surface_data);
        let generation = &request.generation;
        let background = surface_data.get("background").unwrap_or(false);
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
            frequency_penalty: surface_data.get("frequency_penalty").unwrap_or(0.0),
            incomplete_details: None,
            instructions: surface_data
                .get("instructions")
                .unwrap_or_else(|| json!(request.instructions)),
            max_output_tokens: surface_data
                .get("max_output_tokens")
                .or(generation.max_output_tokens.map(u64::from)),
            max_tool_calls: surface_data.get("max_tool_calls"),
            model: surface_data.get("model").unwrap_or_else(|| request.model.clone()),
            output: Vec::new(),
            parallel_tool_calls: surface_data
                .get("parallel_tool_calls")
                .unwrap_or(request.parallel_tool_calls),
            presence_penalty: surface_data.get("presence_penalty").unwrap_or(0.0),
            previous_response_id: surface_data.get("previous_response_id").or_else(previous),
            prompt_cache_key: surface_data.get("prompt_cache_key"),
            reasoning: surface_data.get("reasoning").unwrap_or_else(
                || json!({ "effort": generation.reasoning_effort, "summary": null }),
            ),
            safety_identifier: surface_data.get("safety_identifier"),
            service_tier: surface_data.get("service_tier").unwrap_or_else(|| "default".to_owned()),
            store: surface_data.get("store").unwrap_or(true),
            temperature: surface_data.get("temperature").or(generation.temperature).unwrap_or(1.0),
            text: surface_data.get("text").unwrap_or_else(|| text(generation)),
            tool_choice: surface_data
                .get("tool_choice")
                .unwrap_or_else(|| tool_choice(&request.tool_choice)),
            tools: surface_data.get("tools").unwrap_or_else(|| tools(request)),
            top_logprobs: surface_data.get("top_logprobs").unwrap_or(0),
            top_p: surface_data.get("top_p").or(generation.top_p).unwrap_or(1.0),
            truncation: surface_data.get("truncation").unwrap_or_else(|| "disabled".to_owned()),
            usage: None,
            user: surface_data.get("user"),
            metadata: surface_data.get("metadata").unwrap_or_else(|| json!(request.metadata)),
            conversation: conversation.map(|id| ConversationName { id: id.to_string() }),
            turnwire: surface_data.get(IGNORED).map(|ignored| ResponseNote { ignored }),
        }
    }
}

/// A timestamp in Unix seconds.
pub(crate) fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

/// The official code closest to our `code`.
fn official_code(code: &str) -> &'static str {
    match code {
        "model_rejected" | "content_filtered" => "invalid_prompt",
        // Not in the types of the official clients, but sent by OpenAI and expected by clients.
        "context_length_exceeded" => "context_length_exceeded",
        "model_rate_limited" => "rate_limit_exceeded",
        _ => "server_error",
    }
}

/// The `type` of an official code.
fn family(code: &str) -> &'static str {
    match code {
        "rate_limit_exceeded" => "rate_limit_error",
        "server_error" => "server_error",
        _ => "invalid_request_error",
    }
}

/// The reason in `incomplete_details`.
pub(super) fn reason(reason: IncompleteReason) -> &'static str {
    match reason {
        IncompleteReason::MaxOutputTokens => "max_output_tokens",
        IncompleteReason::MaxOutputBytes => "max_output_bytes",
        IncompleteReason::MaxTurns => "max_turns",
        IncompleteReason::MaxCost => "max_cost",
        IncompleteReason::InsufficientQuota => "insufficient_quota",
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

/// The tools in the format of a request, each server once.
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
