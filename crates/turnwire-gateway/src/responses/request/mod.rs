//! Parses and validates a request, from its body to a run.
//!
//! These functions are pure: they take values and return contract types or a [`ClientError`].
//! Lookups, such as of referenced items and files, are done by the caller in between. The steps:
//!
//! 1. [`crate::json::read`] parses the bytes within limits;
//! 2. [`read`] validates each field of the body: [`CreateResponse`];
//! 3. [`references`] lists the items and files to look up, and [`read_input`] turns the input into
//!    items and answers to approval requests;
//! 4. [`check_calls`] checks that calls and outputs pair up, and [`take_first_calls`] returns the
//!    calls that a user has decided about;
//! 5. [`read_tools`] and [`read_choice`] return the requested tools and those that stay on offer,
//!    including [`additional_tools`]; the caller looks them up;
//! 6. [`into_run`] builds the run, with the [`surface_data`] that every response repeats.
//!
//! Nothing is dropped silently: each step reports the fields it ignored, and [`not_taken`] those
//! that the chosen model does not support.

mod arguments;
mod calls;
mod choice;
mod ignored;
mod input;
mod into_run;
mod native_items;
mod parts;
mod resolved;
mod summary;
mod surface_data;
mod tools;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use self::{
    calls::{check_calls, qualify_call_names, take_first_calls},
    choice::{names_web_search, read_choice},
    ignored::{check_custom_tools, not_taken},
    input::{
        ADDITIONAL_TOOLS, ApprovalAnswer, Input, References, additional_tools, read_input,
        read_items, references, references_of_attachments,
    },
    into_run::{ResolvedRequest, into_run},
    parts::read_attachments,
    resolved::{FoundFile, ResolvedReferences},
    summary::{unwrap_summary, wrap_summary},
    surface_data::surface_data,
    tools::{
        FILE_SEARCH, PlacedTool, RequestedServer, RequestedTool, RequestedTools, WEB_SEARCH,
        functions_by_name, read_tools,
    },
};

pub use crate::client_error::{ClientError, refuse_unknown};
use crate::{
    field_tracker::FieldTracker,
    fields::{Fields, known_word},
    limits::RequestLimits,
};

/// The values of `include`.
pub const INCLUDABLE: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

/// The values of `include` that have an effect here.
const INCLUDED: [&str; 3] =
    ["file_search_call.results", "web_search_call.action.sources", "reasoning.encrypted_content"];

/// The value of `include` that is passed to the model.
const LOGPROBS: &str = "message.output_text.logprobs";

/// Unsupported fields of the body that clients send by default. They do not change the answer, so
/// they are reported as ignored and not refused.
const REPORTED: [&str; 5] =
    ["access_programs", "client_metadata", "context_management", "image", "prompt_cache_options"];

/// Maximum number of stop sequences.
const MAX_STOPS: usize = 4;

/// Request body of `POST /v1/responses`.
#[derive(Debug, Clone, Default, PartialEq, ToSchema)]
pub struct CreateResponse {
    /// Name of the model. Default: the default model of the server.
    pub model: Option<String>,
    /// The new input: a string, which is a user message, or an array of input items. Required
    /// unless the request continues a response or a conversation.
    pub input: Option<InputBody>,
    /// System instructions for the model. Those of a previous response do not carry over.
    pub instructions: Option<String>,
    /// ID of the response to continue. Cannot be combined with `conversation`.
    pub previous_response_id: Option<String>,
    /// ID of the conversation to continue. Input and output are added to it. Cannot be combined
    /// with `previous_response_id`.
    #[schema(value_type = Option<Conversation>)]
    pub conversation: Option<String>,
    /// Tools the model may call: functions, custom tools, `mcp` servers, `web_search` and
    /// `file_search`.
    #[schema(value_type = Vec<Object>, required = false)]
    pub tools: ToolsAsWritten,
    /// Whether the model calls tools: `auto`, `required` or `none`, or an object that names a tool
    /// or a set of allowed tools. Default: `auto`.
    pub tool_choice: Option<Value>,
    /// Whether calls of one turn may be executed in parallel. Default: true.
    pub parallel_tool_calls: Option<bool>,
    /// Maximum number of tool calls the run may execute. Cannot exceed the limit of the server.
    #[schema(minimum = 1)]
    pub max_tool_calls: Option<u32>,
    /// Maximum number of tokens the model may generate in one turn.
    #[schema(minimum = 1)]
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature, 0 to 2. Higher values make the output more random. Default: that of
    /// the model.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1: only the most likely tokens with this total probability are
    /// considered. Default: that of the model.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// Format of the output.
    #[schema(required = false)]
    pub text: TextOptions,
    /// Options for reasoning models.
    #[schema(required = false)]
    pub reasoning: ReasoningOptions,
    /// Additional output to include. `file_search_call.results`, `web_search_call.action.sources`,
    /// `reasoning.encrypted_content` and `message.output_text.logprobs` have an effect; other
    /// official values are accepted and ignored.
    #[schema(required = false)]
    pub include: Vec<String>,
    /// Up to 16 key-value pairs. Keys have up to 64 characters, values up to 512.
    #[schema(required = false)]
    pub metadata: BTreeMap<String, String>,
    /// Store the response, so that it can be retrieved and continued later. If false, nothing of it
    /// is written to the database, unless it has tools of the server, a `conversation`, a stored
    /// `previous_response_id`, an `Idempotency-Key` or `on_disconnect: "continue"`; it is then
    /// deleted when the client has read it. Default: true.
    pub store: Option<bool>,
    /// Return the response at once and run it in the background. Requires `store`. Default: false.
    pub background: Option<bool>,
    /// Stream the events of the response as server-sent events. Default: false.
    pub stream: Option<bool>,
    /// Options for streaming. `include_obfuscation` is accepted; true has no effect.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<StreamOptions>,
    /// What the model provider does if the input exceeds the context window: `auto` drops input,
    /// `disabled` fails. Default: `disabled`.
    pub truncation: Option<String>,
    /// Service tier, passed to the model provider.
    pub service_tier: Option<String>,
    /// Number of most likely tokens to return with log probabilities for each output token, 0 to
    /// 20.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<u32>,
    /// Penalty for tokens by their frequency so far, -2 to 2. Positive values reduce repetition.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// Penalty for tokens that have already occurred, -2 to 2. Positive values favor new topics.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// Up to 4 sequences at which the model stops generating: a string or an array of strings. They
    /// are not part of the output.
    #[schema(required = false)]
    pub stop: Vec<String>,
    /// Seed for sampling. With the same seed the model provider tries to return the same output.
    pub seed: Option<i64>,
    /// Identifier of the end user, passed to the model provider.
    pub user: Option<String>,
    /// Stable identifier of the end user, such as a hash, passed to the model provider for abuse
    /// detection.
    pub safety_identifier: Option<String>,
    /// Key that groups requests with a common prefix in the prompt cache of the model provider.
    pub prompt_cache_key: Option<String>,
    /// How long the model provider keeps the cached prefix.
    pub prompt_cache_retention: Option<String>,
    /// What happens to the run when the client disconnects: `continue` or `cancel`. Ignored with
    /// `background`. Default: `cancel` if `store` is false and there is no `Idempotency-Key`, else
    /// `continue`.
    pub on_disconnect: Option<OnDisconnect>,
    /// WebSocket only. If false, the input is prepared and the model is not called; a later
    /// response can continue from it. Default: true.
    pub generate: Option<bool>,
    /// The fields that were ignored.
    #[schema(ignore)]
    pub ignored: Vec<String>,
}

impl CreateResponse {
    /// Whether the response can be retrieved and continued later.
    pub fn stores(&self) -> bool {
        self.store.unwrap_or(true)
    }

    /// Whether the run is cancelled when its client disconnects. By default, only a response that
    /// is not stored is cancelled.
    pub fn cancels_on_disconnect(&self) -> bool {
        match self.on_disconnect {
            Some(requested) => requested == OnDisconnect::Cancel,
            None => !self.stores(),
        }
    }

    /// Whether `include` has `what`, one of [`INCLUDABLE`].
    pub fn includes(&self, what: &str) -> bool {
        self.include.iter().any(|named| named == what)
    }
}

/// Input of a response: a string, or an array of items.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum InputBody {
    /// The text of one user message.
    Text(String),
    /// Input items.
    Items(Vec<Value>),
}

/// Conversation of a response, by its ID.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ConversationParam)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
enum Conversation {
    /// ID of the conversation.
    Id(String),
    /// An object with the ID.
    Object {
        /// ID of the conversation.
        id: String,
    },
}

/// Tools as the client sent them. They may contain secrets, so their `Debug` output is only a
/// count.
#[derive(Clone, Default, PartialEq)]
pub struct ToolsAsWritten(pub Vec<Value>);

impl fmt::Debug for ToolsAsWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tools", self.0.len())
    }
}

/// Options for the text output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct TextOptions {
    /// Format of the text. Default: `text`.
    #[schema(required = false)]
    pub format: AnswerFormat,
    /// Length of the answer: `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
}

/// Format of the text output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat {
    /// Plain text.
    #[default]
    Text,
    /// A JSON object of any shape.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// Name of the schema: 1 to 64 letters, digits, underscores and dashes.
        name: String,
        /// Description of the schema, for the model.
        description: Option<String>,
        /// The JSON schema.
        schema: Value,
        /// Whether the output must match the schema exactly. Default: false.
        #[schema(required = false)]
        strict: bool,
    },
}

/// Options for reasoning models.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ReasoningOptions {
    /// Reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`. Default:
    /// that of the model.
    pub effort: Option<String>,
    /// Summary of the reasoning: `auto`, `concise` or `detailed`. Without it there is no summary.
    pub summary: Option<String>,
    /// Earlier reasoning the model receives: `auto`, `current_turn` or `all_turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Reasoning mode, passed to the model provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether small events are padded. Accepted and ignored.
    pub include_obfuscation: Option<bool>,
}

/// What happens to a run when its client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// The run continues.
    Continue,
    /// The run is cancelled.
    Cancel,
}

/// Validates the body of a request. Unknown fields are refused.
pub fn read(body: Value, limits: &RequestLimits) -> Result<CreateResponse, ClientError> {
    let Value::Object(mut body) = body else {
        let message = "The body must be a JSON object.".to_owned();
        return Err(ClientError { message, param: None, code: "invalid_type", status: 400 });
    };
    // The two that can be large are moved, not copied.
    let input = take_input(&mut body)?;
    let tools = take_list(&mut body, "tools")?;
    let unread = FieldTracker::within(limits);
    let fields = Fields::of_body(&body, &unread);
    fields.pass_over(&["input", "tools"]);
    let mut request = CreateResponse {
        model: fields
            .value("model")
            .map(|_| fields.needed_name("model"))
            .transpose()?
            .map(str::to_owned),
        input,
        instructions: fields.owned_text("instructions")?,
        previous_response_id: fields.owned_text("previous_response_id")?,
        conversation: read_conversation(&fields)?,
        tools: ToolsAsWritten(tools),
        tool_choice: fields.value("tool_choice").cloned(),
        parallel_tool_calls: fields.flag("parallel_tool_calls")?,
        max_tool_calls: fields.whole("max_tool_calls", 1..=u32::MAX)?,
        max_output_tokens: fields.whole("max_output_tokens", 1..=u32::MAX)?,
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        text: read_text_options(&fields)?,
        reasoning: read_reasoning(&fields)?,
        include: read_include(&fields)?,
        metadata: metadata_of(&fields)?,
        store: fields.flag("store")?,
        background: fields.flag("background")?,
        stream: fields.flag("stream")?,
        stream_options: read_stream_options(&fields)?,
        truncation: fields.word("truncation", &["auto", "disabled"])?.map(str::to_owned),
        service_tier: fields.owned_text("service_tier")?,
        top_logprobs: fields.whole("top_logprobs", 0..=20)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        stop: read_stop(&fields)?,
        seed: read_seed(&fields)?,
        user: fields.owned_text("user")?,
        safety_identifier: fields.owned_text("safety_identifier")?,
        prompt_cache_key: fields.owned_text("prompt_cache_key")?,
        prompt_cache_retention: fields.owned_text("prompt_cache_retention")?,
        on_disconnect: read_on_disconnect(&fields)?,
        generate: fields.flag("generate")?,
        ignored: Vec::new(),
    };
    refuse_unsupported(&fields)?;
    fields.refuse_others(&REPORTED)?;
    check_together(&request)?;
    request.ignored = unread.left();
    Ok(request)
}

/// Refuses fields that would change the answer and are not supported.
fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ClientError> {
    let refused = [
        ("prompt", "Stored prompts are not supported; send `instructions` and `input`."),
        ("moderation", "Moderation is not supported; leave out `moderation`."),
    ];
    for (name, message) in refused {
        if fields.value(name).is_some() {
            return Err(ClientError::new("unsupported_parameter", name, message));
        }
    }
    Ok(())
}

/// Checks fields that exclude each other.
fn check_together(request: &CreateResponse) -> Result<(), ClientError> {
    if request.previous_response_id.is_some() && request.conversation.is_some() {
        let message =
            "`previous_response_id` and `conversation` cannot be used together; send one of them.";
        return Err(ClientError::new(
            "mutually_exclusive_parameters",
            "previous_response_id",
            message,
        ));
    }
    if request.background == Some(true) && !request.stores() {
        let message = "A background response must be stored; leave out `store: false`.";
        return Err(ClientError::invalid("background", message));
    }
    let says_something = match &request.input {
        Some(InputBody::Text(_)) => true,
        Some(InputBody::Items(items)) => !items.is_empty(),
        None => false,
    };
    let continues = request.previous_response_id.is_some() || request.conversation.is_some();
    if !says_something && !continues && request.generate != Some(false) {
        return Err(ClientError::missing("input"));
    }
    Ok(())
}

fn take_input(body: &mut Map<String, Value>) -> Result<Option<InputBody>, ClientError> {
    match body.remove("input") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(InputBody::Text(text))),
        Some(Value::Array(items)) => Ok(Some(InputBody::Items(items))),
        Some(other) => Err(ClientError::wrong_type("input", "a string or a list", &other)),
    }
}

fn take_list(body: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, ClientError> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(ClientError::wrong_type(name, "a list", &other)),
    }
}

fn read_conversation(fields: &Fields<'_>) -> Result<Option<String>, ClientError> {
    match fields.value("conversation") {
        Some(Value::Object(_)) => {
            let Some(conversation) = fields.object("conversation")? else { return Ok(None) };
            let id = conversation.needed_text("id")?;
            conversation.refuse_others(&[])?;
            Ok(Some(id.to_owned()))
        }
        Some(other) if !other.is_string() => {
            Err(ClientError::wrong_type("conversation", "a string or an object", other))
        }
        _ => fields.owned_text("conversation"),
    }
}

fn read_text_options(fields: &Fields<'_>) -> Result<TextOptions, ClientError> {
    let Some(text) = fields.object("text")? else { return Ok(TextOptions::default()) };
    let format = text.object("format")?.map(|format| read_format(&format)).transpose()?;
    let verbosity = text.word("verbosity", &["low", "medium", "high"])?.map(str::to_owned);
    text.refuse_others(&[])?;
    Ok(TextOptions { format: format.unwrap_or_default(), verbosity })
}

fn read_format(format: &Fields<'_>) -> Result<AnswerFormat, ClientError> {
    let kind = format.word("type", &["text", "json_object", "json_schema"])?;
    let read = match kind.ok_or_else(|| ClientError::missing(format.path_of("type")))? {
        "text" => AnswerFormat::Text,
        "json_object" => AnswerFormat::JsonObject,
        _ => read_schema(format)?,
    };
    format.refuse_others(&[])?;
    Ok(read)
}

fn read_schema(format: &Fields<'_>) -> Result<AnswerFormat, ClientError> {
    let name = tools::checked_name(format, "name")?;
    let schema = format.object("schema")?;
    let schema = schema.ok_or_else(|| ClientError::missing(format.path_of("schema")))?;
    let schema = tools::checked_schema(&schema)?;
    let description = format.owned_text("description")?;
    let strict = format.flag("strict")?.unwrap_or(false);
    Ok(AnswerFormat::JsonSchema { name, description, schema, strict })
}

fn read_reasoning(fields: &Fields<'_>) -> Result<ReasoningOptions, ClientError> {
    const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    const SUMMARIES: [&str; 3] = ["auto", "concise", "detailed"];
    const CONTEXTS: [&str; 3] = ["auto", "current_turn", "all_turns"];
    let Some(reasoning) = fields.object("reasoning")? else {
        return Ok(ReasoningOptions::default());
    };
    let effort = reasoning.word("effort", &EFFORTS)?.map(str::to_owned);
    let summary = reasoning.word("summary", &SUMMARIES)?;
    // The older name of the same field.
    let summary = summary.or(reasoning.word("generate_summary", &SUMMARIES)?).map(str::to_owned);
    let context = reasoning.word("context", &CONTEXTS)?.map(str::to_owned);
    let mode = reasoning.owned_text("mode")?;
    reasoning.refuse_others(&[])?;
    Ok(ReasoningOptions { effort, summary, context, mode })
}

fn read_stop(fields: &Fields<'_>) -> Result<Vec<String>, ClientError> {
    let stops = match fields.value("stop") {
        Some(Value::String(stop)) => vec![stop.clone()],
        _ => fields.texts("stop")?.unwrap_or_default(),
    };
    if stops.len() > MAX_STOPS || stops.iter().any(String::is_empty) {
        let message = format!("`stop` may have at most {MAX_STOPS} texts, none of them empty.");
        return Err(ClientError::invalid("stop", message));
    }
    Ok(stops)
}

fn read_seed(fields: &Fields<'_>) -> Result<Option<i64>, ClientError> {
    let Some(value) = fields.value("seed") else { return Ok(None) };
    let seed = value.as_i64();
    seed.map(Some).ok_or_else(|| ClientError::wrong_type("seed", "a whole number", value))
}

fn read_include(fields: &Fields<'_>) -> Result<Vec<String>, ClientError> {
    let mut include = Vec::new();
    for (n, text) in fields.texts("include")?.into_iter().flatten().enumerate() {
        let path = format!("include[{n}]");
        let known = known_word(&text, &path, &INCLUDABLE)?;
        if !INCLUDED.contains(&known) && known != LOGPROBS {
            fields.report(&path);
        }
        if !include.iter().any(|named| named == known) {
            include.push(known.to_owned());
        }
    }
    Ok(include)
}

/// Reads the field `metadata` of any body that has one.
pub fn read_metadata(body: &Map<String, Value>) -> Result<BTreeMap<String, String>, ClientError> {
    metadata_of(&Fields::of_body(body, &FieldTracker::default()))
}

fn metadata_of(fields: &Fields<'_>) -> Result<BTreeMap<String, String>, ClientError> {
    let Some(notes) = fields.object("metadata")? else { return Ok(BTreeMap::new()) };
    let refused = |message: &str| Err(ClientError::new("metadata_too_large", "metadata", message));
    if notes.all().len() > 16 {
        return refused("`metadata` may have at most 16 pairs.");
    }
    let mut metadata = BTreeMap::new();
    for (key, value) in notes.all() {
        if key.chars().count() > 64 {
            return refused("A key of `metadata` may have at most 64 characters.");
        }
        let Value::String(value) = value else {
            return Err(ClientError::wrong_type(notes.path_of(key), "a string", value));
        };
        if value.chars().count() > 512 {
            return refused("A value of `metadata` may have at most 512 characters.");
        }
        metadata.insert(key.clone(), value.clone());
    }
    Ok(metadata)
}

fn read_stream_options(fields: &Fields<'_>) -> Result<Option<StreamOptions>, ClientError> {
    let Some(options) = fields.object("stream_options")? else { return Ok(None) };
    let include_obfuscation = options.flag("include_obfuscation")?;
    options.refuse_others(&[])?;
    if include_obfuscation == Some(true) {
        options.report("include_obfuscation");
    }
    Ok(Some(StreamOptions { include_obfuscation }))
}

fn read_on_disconnect(fields: &Fields<'_>) -> Result<Option<OnDisconnect>, ClientError> {
    let word = fields.word("on_disconnect", &["continue", "cancel"])?;
    Ok(word.map(|word| match word {
        "cancel" => OnDisconnect::Cancel,
        _ => OnDisconnect::Continue,
    }))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
