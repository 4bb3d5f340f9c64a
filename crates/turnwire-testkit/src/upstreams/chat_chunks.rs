//! Encodes [`ModelPart`]s as Chat Completions chunks, as vLLM and `OpenAI` send them.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};
use turnwire_contract::{Finish, ModelPart, Prompt, ToolKind, Usage};

/// Encodes one answer.
#[derive(Debug)]
pub(super) struct Chunks {
    id: String,
    model: String,
    created: u64,
    wants_usage: bool,
    usage: Option<Usage>,
    /// Number of alternatives per token, if logprobs are requested.
    logprobs: Option<u64>,
    /// The names of the offered custom tools.
    custom: HashSet<String>,
    /// The keys of calls of custom tools.
    custom_calls: HashSet<u32>,
}

impl Chunks {
    /// Creates the encoder of an answer to `prompt`.
    pub(super) fn new(prompt: &Prompt, wants_usage: bool) -> Self {
        // Call ids are deterministic for a prompt.
        let mut hasher = DefaultHasher::new();
        format!("{:?}", prompt.items).hash(&mut hasher);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let custom = prompt.tools.iter().filter(|tool| tool.kind == ToolKind::Custom);
        Self {
            id: format!("{:016x}", hasher.finish()),
            model: prompt.model.clone(),
            created: now.as_secs(),
            wants_usage,
            usage: None,
            logprobs: None,
            custom: custom.map(|tool| tool.name.clone()).collect(),
            custom_calls: HashSet::new(),
        }
    }

    /// Enables logprobs if the request asks for them.
    pub(super) fn with_logprobs(mut self, body: &Value) -> Self {
        let is_asked = body.get("logprobs") == Some(&Value::Bool(true));
        let most = body.get("top_logprobs").and_then(Value::as_u64).unwrap_or(0);
        self.logprobs = is_asked.then_some(most);
        self
    }

    /// Returns the first chunk, with the role.
    pub(super) fn opening(&self) -> Value {
        self.delta(json!({ "role": "assistant", "content": "" }))
    }

    /// Returns the chunks for `part`.
    pub(super) fn of(&mut self, part: ModelPart) -> Vec<Value> {
        match part {
            ModelPart::Text(text) => {
                let text = with_time(&text);
                let choice = json!({
                    "index": 0,
                    "delta": { "content": text },
                    "finish_reason": null,
                    "logprobs": self.logprobs_of(&text),
                });
                vec![self.chunk(json!([choice]))]
            }
            ModelPart::Refusal(text) => vec![self.delta(json!({ "refusal": text }))],
            ModelPart::Reasoning(text) => vec![self.delta(json!({ "reasoning_content": text }))],
            ModelPart::CallStarted { key, id, name } => {
                if self.custom.contains(&name) {
                    self.custom_calls.insert(key);
                }
                let mut call = self.new_call(key, id, &name);
                call.insert("index".to_owned(), json!(key));
                vec![self.call(Value::Object(call))]
            }
            ModelPart::CallArguments { key, text } if self.custom_calls.contains(&key) => {
                vec![self.call(json!({ "index": key, "custom": { "input": text } }))]
            }
            ModelPart::CallArguments { key, text } => {
                vec![self.call(json!({ "index": key, "function": { "arguments": text } }))]
            }
            ModelPart::Usage(usage) => {
                self.usage = Some(usage);
                Vec::new()
            }
            ModelPart::Finished(finish) => self.finish_chunks(finish),
            // Chat Completions cannot represent these.
            ModelPart::EncryptedContent(_)
            | ModelPart::Annotation(_)
            | ModelPart::Logprobs(_)
            | ModelPart::Unreadable { .. } => Vec::new(),
        }
    }

    /// Returns the whole answer without streaming.
    pub(super) fn whole(&self, parts: Vec<ModelPart>) -> Value {
        let mut message = Map::new();
        let mut calls: Vec<Value> = Vec::new();
        let (mut usage, mut finish) = (Usage::default(), Finish::Answered);
        for part in parts {
            match part {
                ModelPart::Text(text) => append(&mut message, "content", &text),
                ModelPart::Refusal(text) => append(&mut message, "refusal", &text),
                ModelPart::Reasoning(text) => append(&mut message, "reasoning_content", &text),
                ModelPart::CallStarted { key, id, name } => {
                    calls.push(Value::Object(self.new_call(key, id, &name)));
                }
                // The calls of a script are not interleaved.
                ModelPart::CallArguments { text, .. } => {
                    for (kind, written) in [("function", "arguments"), ("custom", "input")] {
                        let tool = calls.last_mut().and_then(|call| call.get_mut(kind));
                        if let Some(tool) = tool.and_then(Value::as_object_mut) {
                            append(tool, written, &text);
                        }
                    }
                }
                ModelPart::Usage(cost) => usage = cost,
                ModelPart::Finished(end) => finish = end,
                ModelPart::EncryptedContent(_)
                | ModelPart::Annotation(_)
                | ModelPart::Logprobs(_)
                | ModelPart::Unreadable { .. } => {}
            }
        }
        message.entry("content").or_insert(Value::Null);
        message.insert("role".to_owned(), json!("assistant"));
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        json!({
            "id": format!("chatcmpl-{}", self.id),
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "message": message, "finish_reason": word_for(finish) }],
            "usage": usage_body(usage),
        })
    }

    fn finish_chunks(&self, finish: Finish) -> Vec<Value> {
        let last = json!({ "index": 0, "delta": {}, "finish_reason": word_for(finish) });
        let mut chunks = vec![self.chunk(json!([last]))];
        if self.wants_usage {
            let mut chunk = self.chunk(json!([]));
            if let Some(fields) = chunk.as_object_mut() {
                fields.insert("usage".to_owned(), usage_body(self.usage.unwrap_or_default()));
            }
            chunks.push(chunk);
        }
        chunks
    }

    /// Each piece is one token, and each alternative is half as likely as the previous one.
    fn logprobs_of(&self, text: &str) -> Value {
        let Some(most) = self.logprobs else { return Value::Null };
        let token = |token: &str, logprob: f64| json!({ "token": token, "logprob": logprob, "bytes": token.as_bytes() });
        let others = ["a", "b", "c", "d", "e"].into_iter().zip([-1.0, -2.0, -3.0, -4.0, -5.0]);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let top: Vec<Value> = others.take(most).map(|(other, at)| token(other, at)).collect();
        let mut said = token(text, -0.25);
        if let Some(said) = said.as_object_mut() {
            said.insert("top_logprobs".to_owned(), Value::Array(top));
        }
        json!({ "content": [said], "refusal": null })
    }

    /// Returns the start of a call, without arguments.
    fn new_call(&self, key: u32, id: Option<String>, name: &str) -> Map<String, Value> {
        let is_custom = self.custom.contains(name);
        let (kind, written) =
            if is_custom { ("custom", "input") } else { ("function", "arguments") };
        let tool = json!({ "name": name, written: "" });
        Map::from_iter([
            ("id".to_owned(), json!(self.call_id(key, id))),
            ("type".to_owned(), json!(kind)),
            (kind.to_owned(), tool),
        ])
    }

    fn call(&self, call: Value) -> Value {
        self.delta(json!({ "tool_calls": [call] }))
    }

    fn delta(&self, delta: Value) -> Value {
        self.chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]))
    }

    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": format!("chatcmpl-{}", self.id),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn call_id(&self, key: u32, id: Option<String>) -> String {
        id.unwrap_or_else(|| format!("call_{}_{key}", self.id))
    }
}

/// Replaces `{now}` by the time in microseconds since 1970, so that a reader of the text can tell
/// how long it was on its way.
fn with_time(text: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text.replace("{now}", &now.as_micros().to_string())
}

fn append(fields: &mut Map<String, Value>, name: &str, text: &str) {
    if let Value::String(so_far) = fields.entry(name).or_insert_with(|| json!("")) {
        so_far.push_str(text);
    }
}

fn word_for(finish: Finish) -> Option<&'static str> {
    match finish {
        Finish::Answered => Some("stop"),
        Finish::CalledTools => Some("tool_calls"),
        Finish::Length => Some("length"),
        Finish::ContentFilter => Some("content_filter"),
        Finish::Interrupted => None,
    }
}

fn usage_body(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    })
}
