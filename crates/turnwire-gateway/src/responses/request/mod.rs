//! What a client asks for, from the body it sent to a run that can begin.
//!
//! Pure: values go in, contract types or a [`ClientError`] come out. What has to be looked up,
//! such as items and files that are only named, is looked up by the caller in between. The way
//! of a request:
//!
//! 1. [`crate::json::read`] reads the bytes within limits;
//! 2. [`read`] takes the body apart and checks each field: [`CreateResponse`];
//! 3. [`read_tools`] and [`read_choice`] say which tools are wished for and which stay on
//!    offer, those of [`additional_tools`] among them; the caller finds them;
//! 4. [`references`] names the items and files to look up, and [`read_input`] turns the input
//!    into items and answers to approval requests;
//! 5. [`check_calls`] sees to it that calls and outputs pair up, and [`take_first_calls`] makes
//!    calls of what a person has allowed;
//! 6. [`into_run`] puts the run together, with the [`echo`] that every response repeats.
//!
//! Nothing is dropped in silence: each step says what of the request it did not heed, and
//! [`not_taken`] what the chosen model cannot be told.

mod calls;
mod choice;
mod echo;
mod error;
mod fields;
mod ignored;
mod input;
mod into_run;
mod native_items;
mod parts;
mod summary;
mod tools;
mod unread;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use self::{
    calls::{check_calls, name_calls, take_first_calls},
    choice::{names_web_search, read_choice},
    echo::echo,
    error::{ClientError, refuse_unknown},
    ignored::{check_custom_tools, not_taken},
    input::{
        ADDITIONAL_TOOLS, ApprovalAnswer, FoundFile, Input, LookedUp, References, additional_tools,
        read_input, read_items, references,
    },
    into_run::{Settled, into_run},
    summary::{unwrap_summary, wrap_summary},
    tools::{
        FILE_SEARCH, McpWish, PlacedTool, ToolWish, WEB_SEARCH, Wishes, bare_functions, read_tools,
    },
};

use self::{
    fields::{Fields, known_word},
    unread::Unread,
};
use crate::limits::RequestLimits;

/// What `include` may name.
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

/// Of those, what changes something here.
const INCLUDED: [&str; 3] =
    ["file_search_call.results", "web_search_call.action.sources", "reasoning.encrypted_content"];

/// What the model is asked for besides its words.
const LOGPROBS: &str = "message.output_text.logprobs";

/// Fields of the body that mean nothing here and that clients send without being asked to. They
/// do not change what is answered, so their senders are told instead of turned away.
const REPORTED: [&str; 5] =
    ["access_programs", "client_metadata", "context_management", "image", "prompt_cache_options"];

/// How many texts may end an answer.
const MAX_STOPS: usize = 4;

/// The body of `POST /v1/responses`, each field checked.
#[derive(Debug, Clone, Default, PartialEq, ToSchema)]
pub struct CreateResponse {
    /// Which model; the server's own choice if not set.
    pub model: Option<String>,
    /// What is new: a text, or a list of items.
    pub input: Option<InputBody>,
    /// What the application tells the model.
    pub instructions: Option<String>,
    /// The response that this one continues.
    pub previous_response_id: Option<String>,
    /// The conversation that this response continues and adds to.
    #[schema(value_type = Option<Conversation>)]
    pub conversation: Option<String>,
    /// The tools that the model may use.
    #[schema(value_type = Vec<Object>, required = false)]
    pub tools: ToolsAsWritten,
    /// Whether the model must, may or must not use tools: a word, or an object that names some.
    pub tool_choice: Option<Value>,
    /// Whether tools may run side by side; true if not set.
    pub parallel_tool_calls: Option<bool>,
    /// How many calls may be carried out.
    #[schema(minimum = 1)]
    pub max_tool_calls: Option<u32>,
    /// How long an answer may become.
    #[schema(minimum = 1)]
    pub max_output_tokens: Option<u32>,
    /// More is wilder.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Only the likeliest words that make up this share.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// In which form the answer comes.
    #[schema(required = false)]
    pub text: TextOptions,
    /// How long to think, and how to tell of it.
    #[schema(required = false)]
    pub reasoning: ReasoningOptions,
    /// What else the response shows.
    #[schema(required = false)]
    pub include: Vec<String>,
    /// Notes of the client: at most 16, keys of 64 and values of 512 characters.
    #[schema(required = false)]
    pub metadata: BTreeMap<String, String>,
    /// Whether the response can be read and continued later; true if not set.
    pub store: Option<bool>,
    /// Whether to answer at once and work on.
    pub background: Option<bool>,
    /// Whether to send events as they happen.
    pub stream: Option<bool>,
    /// How to send them.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<StreamOptions>,
    /// What to do with more than the model can read: `auto` or `disabled`.
    pub truncation: Option<String>,
    /// How fast and at which price, in the words of the model's provider.
    pub service_tier: Option<String>,
    /// How many alternatives to show for each token.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<u32>,
    /// More makes frequent words rarer.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// More makes words rarer that have been said.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// The answer ends before any of these: a text, or a list of at most four.
    #[schema(required = false)]
    pub stop: Vec<String>,
    /// The same seed gives the same answer, as far as the provider can.
    pub seed: Option<i64>,
    /// The client's name for its user.
    pub user: Option<String>,
    /// The client's name for its user, as a hash.
    pub safety_identifier: Option<String>,
    /// Which requests share a beginning.
    pub prompt_cache_key: Option<String>,
    /// How long the shared beginning is of use.
    pub prompt_cache_retention: Option<String>,
    /// What to do when the client hangs up; see [`Self::cancels_on_disconnect`].
    pub on_disconnect: Option<OnDisconnect>,
    /// `false` over a WebSocket: get ready, and ask nothing yet.
    pub generate: Option<bool>,
    /// What of the body is not heeded.
    #[schema(ignore)]
    pub ignored: Vec<String>,
}

impl CreateResponse {
    /// Whether the response can be read and continued later.
    pub fn stores(&self) -> bool {
        self.store.unwrap_or(true)
    }

    /// Whether the run ends when the client that watches it hangs up. A response that nobody
    /// could ever read is given up, unless the client asks for something else.
    pub fn cancels_on_disconnect(&self) -> bool {
        match self.on_disconnect {
            Some(wish) => wish == OnDisconnect::Cancel,
            None => !self.stores(),
        }
    }

    /// Whether the response shows `what`, one of [`INCLUDABLE`].
    pub fn includes(&self, what: &str) -> bool {
        self.include.iter().any(|named| named == what)
    }
}

/// What the client says: plain words, or a list of items.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum InputBody {
    /// One message of the user.
    Text(String),
    /// Items, not yet read.
    Items(Vec<Value>),
}

/// A conversation, by its id.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ConversationWish)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
enum Conversation {
    /// The id.
    Id(String),
    /// The id in an object.
    Object {
        /// The id.
        id: String,
    },
}

/// Tools as the client wrote them. They may hold its secrets, so nothing prints them.
#[derive(Clone, Default, PartialEq)]
pub struct ToolsAsWritten(pub Vec<Value>);

impl fmt::Debug for ToolsAsWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tools", self.0.len())
    }
}

/// In which form the answer comes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct TextOptions {
    /// The form.
    #[schema(required = false)]
    pub format: AnswerFormat,
    /// How many words to make: `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
}

/// The form of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat {
    /// Words.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// What the schema is called.
        name: String,
        /// What it is for.
        description: Option<String>,
        /// The schema.
        schema: Value,
        /// Whether nothing else will do.
        #[schema(required = false)]
        strict: bool,
    },
}

/// How long to think, and how to tell of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ReasoningOptions {
    /// How long.
    pub effort: Option<String>,
    /// How to tell: `auto`, `concise` or `detailed`.
    pub summary: Option<String>,
    /// Which earlier thoughts the model is shown: `auto`, `current_turn` or `all_turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How thinking is carried out, in the words of the model's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How events are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether small events are padded.
    pub include_obfuscation: Option<bool>,
}

/// What happens to a run when its client hangs up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on.
    Continue,
    /// It is cancelled.
    Cancel,
}

/// Takes the body of a request apart. Fields nobody knows are refused.
pub fn read(body: Value, limits: &RequestLimits) -> Result<CreateResponse, ClientError> {
    let Value::Object(mut body) = body else {
        let message = "The body must be a JSON object.".to_owned();
        return Err(ClientError { message, param: None, code: "invalid_type", status: 400 });
    };
    // The two that can be big are moved, not copied.
    let input = take_input(&mut body)?;
    let tools = take_list(&mut body, "tools")?;
    let unread = Unread::within(limits);
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

/// Refuses what would change the answer and cannot be done.
fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ClientError> {
    let refused = [
        (
            "prompt",
            "Prompts kept on the server are not available; send `instructions` and `input`.",
        ),
        ("moderation", "Answers are not moderated here; leave out `moderation`."),
    ];
    for (name, message) in refused {
        if fields.value(name).is_some() {
            return Err(ClientError::new("unsupported_parameter", name, message));
        }
    }
    Ok(())
}

/// Fields that are good alone and make no sense together.
fn check_together(request: &CreateResponse) -> Result<(), ClientError> {
    if request.previous_response_id.is_some() && request.conversation.is_some() {
        let message = "`previous_response_id` and `conversation` both say what comes before; send one of them.";
        return Err(ClientError::new(
            "mutually_exclusive_parameters",
            "previous_response_id",
            message,
        ));
    }
    if request.background == Some(true) && !request.stores() {
        let message = "A response in the background must be stored: leave out `store: false`.";
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
    // The older name of the same thing.
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
    metadata_of(&Fields::of_body(body, &Unread::default()))
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
