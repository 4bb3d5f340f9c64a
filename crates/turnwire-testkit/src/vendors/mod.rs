//! Strict doubles of model providers, on loopback.
//!
//! A double is a table of rules ([`rules`]) and one validator per dialect (`chat`, `messages`,
//! `responses`). It refuses what its vendor refuses, with the vendor's status and format
//! (`errors`); it remembers the signatures that it gave and wants them back; and it counts what the
//! vendor's cache would have had ([`cache`]). What its model says is in the last user message
//! ([`plan()`]), so that a scenario is data.

pub mod cache;
mod chat;
mod chat_stream;
pub mod errors;
mod messages;
mod messages_stream;
mod plan;
mod responses;
mod responses_stream;
pub mod rules;
mod schemas;
mod seals;

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::{sync::DropGuard, task::TaskTracker};

use self::{
    cache::{Cache, Segments, Tokens},
    errors::{Broken, VendorError},
    plan::{Answer, End, Piece, Place},
    rules::Rules,
};
use crate::upstreams::serve;

pub use self::plan::plan;

/// A provider of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    OpenAi,
    OpenAiChat,
    Azure,
    Anthropic,
    /// A family whose thinking is bound to everything before it.
    AnthropicPreserved,
    /// Its dialect that is compatible with `OpenAI`.
    Gemini,
    Mistral,
    DeepSeek,
    Xai,
    Groq,
    /// With Gemini 3 behind it.
    OpenRouter,
    Ollama,
    Vllm,
    LlamaCpp,
    LmStudio,
}

/// An API that several vendors have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Chat,
    Messages,
    Responses,
}

impl Vendor {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Azure,
        Self::Anthropic,
        Self::AnthropicPreserved,
        Self::Gemini,
        Self::Mistral,
        Self::DeepSeek,
        Self::Xai,
        Self::Groq,
        Self::OpenRouter,
        Self::Ollama,
        Self::Vllm,
        Self::LlamaCpp,
        Self::LmStudio,
    ];

    /// Whether it has errors of this class, which a plan names.
    pub fn has_error(self, class: &str) -> bool {
        VendorError::of_class(self, class).is_some()
    }
}

/// A server of one vendor, until dropped.
#[derive(Debug)]
pub struct VendorDouble {
    vendor: Vendor,
    address: SocketAddr,
    state: Arc<Double>,
    _tasks: TaskTracker,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Double {
    vendor: Vendor,
    rules: Rules,
    /// Whether a request that breaks a rule is refused, or only noted.
    refuses: bool,
    memory: Mutex<Memory>,
}

/// What a double remembers.
#[derive(Debug, Default)]
struct Memory {
    requests: Vec<Value>,
    broken: Vec<Broken>,
    tokens: Vec<Tokens>,
    caches: HashMap<String, Cache>,
    attempts: HashMap<(String, usize), usize>,
    given: Given,
}

/// What was given with an answer and has to come back as it was: by the id of the answer's first
/// call, or by any signature in it.
type Given = HashMap<String, Arc<[Value]>>;

/// A request.
#[derive(Debug)]
struct Asked<'a> {
    vendor: Vendor,
    rules: &'a Rules,
    account: String,
    body: &'a Value,
}

impl VendorDouble {
    /// Starts a double that refuses what its vendor refuses.
    pub async fn start(vendor: Vendor) -> io::Result<Self> {
        Self::with_rules(vendor, Rules::of(vendor), true).await
    }

    /// Starts a double that notes what its vendor refuses, and answers nevertheless.
    pub async fn noting(vendor: Vendor) -> io::Result<Self> {
        Self::with_rules(vendor, Rules::of(vendor), false).await
    }

    /// Starts a double with other rules.
    pub async fn with_rules(vendor: Vendor, rules: Rules, refuses: bool) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Double { vendor, rules, refuses, memory: Mutex::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let (tasks, stop) = serve(listener, router);
        Ok(Self { vendor, address, state, _tasks: tasks, _stop: stop })
    }

    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Returns the base URL for an adapter.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.state.rules.base)
    }

    /// Returns the bodies of all requests.
    pub fn requests(&self) -> Vec<Value> {
        self.state.memory().requests.clone()
    }

    /// Returns the rules that were broken, in the order of the requests.
    pub fn broken(&self) -> Vec<Broken> {
        self.state.memory().broken.clone()
    }

    /// Returns the tokens of each answer.
    pub fn tokens(&self) -> Vec<Tokens> {
        self.state.memory().tokens.clone()
    }
}

impl Double {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dialect {
    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/responses",
        }
    }
}

impl Asked<'_> {
    fn model(&self) -> &str {
        text(self.body, "model")
    }

    /// Who may open what was sealed for this request.
    fn owner(&self) -> (Vendor, &str, &str) {
        // OpenAI binds to the organisation, others to the model as well.
        let model = if self.rules.dialect == Dialect::Responses { "" } else { self.model() };
        (self.vendor, &self.account, model)
    }

    fn broken(&self, headers: &HeaderMap, given: &Given) -> Vec<Broken> {
        let mut broken = match self.rules.dialect {
            Dialect::Chat => chat::broken(self, given),
            Dialect::Messages => messages::broken(self, headers, given),
            Dialect::Responses => responses::broken(self),
        };
        let fields = self.body.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let refused = fields.filter(|name| self.rules.refused_fields.contains(name));
        broken.extend(refused.map(|name| {
            let message = match self.vendor {
                Vendor::Mistral => name.to_owned(),
                _ => format!("Unsupported parameter: '{name}' is not supported with this model."),
            };
            let status = if self.vendor == Vendor::Mistral { 422 } else { 400 };
            Broken { status, ..Broken::new("parameter", message).code("unsupported_parameter") }
        }));
        broken
    }

    fn place(&self) -> Place {
        Place::of(&match self.rules.dialect {
            Dialect::Chat => chat::spoken(self.body),
            Dialect::Messages => messages::spoken(self.body),
            Dialect::Responses => responses::spoken(self.body),
        })
    }

    fn segments(&self) -> Segments {
        match self.rules.dialect {
            Dialect::Chat => chat::segments(self.body),
            Dialect::Messages => messages::segments(self.body),
            Dialect::Responses => responses::segments(self.body),
        }
    }

    /// Whether a forced choice is without effect.
    fn ignores_choice(&self) -> bool {
        let choice = match self.body.get("tool_choice") {
            Some(Value::String(word)) if word == "required" => self.rules.required,
            Some(Value::Object(_)) if self.rules.dialect != Dialect::Messages => self.rules.named,
            _ => return false,
        };
        choice == rules::Choice::Ignored
    }

    /// The frames of the answer, and those that end it.
    fn frames(
        &self,
        answer: &Answer,
        tokens: Tokens,
        given: &mut Given,
    ) -> (Vec<String>, Vec<String>) {
        match self.rules.dialect {
            Dialect::Chat => chat_stream::frames(self, answer, tokens, given),
            Dialect::Messages => messages_stream::frames(self, answer, tokens, given),
            Dialect::Responses => responses_stream::frames(self, answer, tokens),
        }
    }
}

async fn answer(
    State(double): State<Arc<Double>>,
    uri: Uri,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let Double { vendor, rules, refuses, .. } = &*double;
    if uri.path() != format!("{}{}", rules.base, rules.dialect.path()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let key = headers.get("x-api-key").or_else(|| headers.get("authorization"));
    let account = key.and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let asked = Asked { vendor: *vendor, rules, account, body: &body };
    let mut memory = double.memory();
    memory.requests.push(body.clone());
    let broken = asked.broken(&headers, &memory.given);
    memory.broken.extend(broken.iter().cloned());
    if let Some(first) = broken.first().filter(|_| *refuses) {
        return refusal(*vendor, &first.error(*vendor));
    }
    let nonce = seals::digest((&asked.account, body.to_string()));
    let place = asked.place();
    let attempt = memory.attempts.entry(place.position.clone()).or_default();
    let n_before = std::mem::replace(attempt, *attempt + 1);
    let (prefix, length) = rules.given_ids;
    let id_of = |at: usize| {
        // It is unlike any word, so that no name of a tool is mistaken for it.
        format!("{prefix}{}", seals::letters((nonce, at), length))
    };
    let mut answer = place.answer(n_before, messages::thinks(&asked), nonce, id_of);
    if asked.ignores_choice() {
        answer.pieces = vec![Piece::Say("I would rather not.".to_owned())];
    }
    if let End::Fails(class) = &answer.end
        && let Some(error) = VendorError::of_class(*vendor, class)
    {
        return refusal(*vendor, &error);
    }
    let exact = rules.dialect == Dialect::Messages;
    let cache = memory.caches.entry(asked.account.clone()).or_default();
    let mut tokens = cache.take(asked.segments(), exact);
    for piece in &answer.pieces {
        let length = piece.to_text().len() as u64 / 4 + 1;
        tokens.output += length;
        if matches!(piece, Piece::Think(_)) {
            tokens.reasoning += length;
        }
    }
    memory.tokens.push(tokens);
    let (mut frames, end) = asked.frames(&answer, tokens, &mut memory.given);
    drop(memory);
    let stays = match answer.end {
        End::Whole | End::Odd | End::Fails(_) => {
            frames.extend(end);
            false
        }
        End::Hangs => true,
        End::Cut => {
            frames.truncate(1);
            false
        }
        End::Breaks => {
            frames.truncate(1);
            frames.push(broken_frame(*vendor));
            false
        }
    };
    let sent = stream::iter(frames.into_iter().map(Ok::<_, Infallible>));
    let rest = if stays { stream::pending().left_stream() } else { stream::empty().right_stream() };
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(sent.chain(rest))).into_response()
}

fn refusal(vendor: Vendor, error: &VendorError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = (status, Json(error.body(vendor))).into_response();
    for (name, value) in &error.headers {
        response.headers_mut().insert(*name, axum::http::HeaderValue::from_static(value));
    }
    response
}

/// An error after the status 200.
fn broken_frame(vendor: Vendor) -> String {
    let Some(error) = VendorError::of_class(vendor, "interrupted") else { return String::new() };
    let body = error.body(vendor);
    match Rules::of(vendor).dialect {
        Dialect::Messages => event("error", &body),
        Dialect::Chat => {
            let body = body.as_array().and_then(|bodies| bodies.first()).unwrap_or(&body);
            data(body)
        }
        Dialect::Responses => {
            let mut fields = serde_json::json!({
                "type": "error", "code": "server_is_overloaded", "message": "Overloaded",
                "param": null, "sequence_number": 9,
            });
            if let Some(error) = body.get("error").filter(|error| error.is_object()) {
                fields =
                    serde_json::json!({ "type": "error", "error": error, "sequence_number": 9 });
            }
            event("error", &fields)
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

impl Piece {
    fn to_text(&self) -> String {
        match self {
            Self::Think(text) | Self::Say(text) => text.clone(),
            Self::Call { name, arguments, .. } => format!("{name}{arguments}"),
        }
    }
}

/// The list in a field; empty if there is none.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text in a field; empty if there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
