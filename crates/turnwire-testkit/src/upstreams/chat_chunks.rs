//! [`ModelPart`]s in the chunks of Chat Completions, as vLLM and `OpenAI` send them.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};
use turnwire_contract::{Finish, ModelPart, Prompt, Usage};

/// Writes one answer.
#[derive(Debug)]
pub(super) struct Chunks {
    id: String,
    model: String,
    created: u64,
    wants_usage: bool,
    usage: Option<Usage>,
}

impl Chunks {
    /// An answer to `prompt`; the usage is told to those who ask for it.
    pub(super) fn new(prompt: &Prompt, wants_usage: bool) -> Self {
        // Servers give their calls ids; these are the same for the same prompt.
        let mut hasher = DefaultHasher::new();
        format!("{:?}", prompt.items).hash(&mut hasher);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("{:016x}", hasher.finish()),
            model: prompt.model.clone(),
            created: now.as_secs(),
            wants_usage,
            usage: None,
        }
    }

    /// Every answer begins with who speaks.
    pub(super) fn opening(&self) -> Value {
        self.delta(json!({ "role": "assistant", "content": "" }))
    }

    /// What is sent for `part`.
    pub(super) fn of(&mut self, part: ModelPart) -> Vec<Value> {
        match part {
            ModelPart::Text(text) => vec![self.delta(json!({ "content": text }))],
            ModelPart::Refusal(text) => vec![self.delta(json!({ "refusal": text }))],
            ModelPart::Reasoning(text) => vec![self.delta(json!({ "reasoning_content": text }))],
            ModelPart::CallStarted { key, id, name } => {
                let function = json!({ "name": name, "arguments": "" });
                vec![self.call(json!({
                    "index": key,
                    "id": self.call_id(key, id),
                    "type": "function",
                    "function": function,
                }))]
            }
            ModelPart::CallArguments { key, text } => {
                vec![self.call(json!({ "index": key, "function": { "arguments": text } }))]
            }
            ModelPart::Usage(usage) => {
                self.usage = Some(usage);
                Vec::new()
            }
            ModelPart::Finished(finish) => self.ending(finish),
            // This wire has no word for them.
            ModelPart::ReasoningSeal(_)
            | ModelPart::Annotation(_)
            | ModelPart::Unreadable { .. } => Vec::new(),
        }
    }

    /// The whole answer in one piece, for those who do not want a stream.
    pub(super) fn whole(&self, parts: Vec<ModelPart>) -> Value {
        let mut message = Map::new();
        let mut calls: Vec<Value> = Vec::new();
        let (mut usage, mut finish) = (Usage::default(), Finish::Answered);
        for part in parts {
            match part {
                ModelPart::Text(text) => append(&mut message, "content", &text),
                ModelPart::Refusal(text) => append(&mut message, "refusal", &text),
                ModelPart::Reasoning(text) => append(&mut message, "reasoning_content", &text),
                ModelPart::CallStarted { key, id, name } => calls.push(json!({
                    "id": self.call_id(key, id),
                    "type": "function",
                    "function": { "name": name, "arguments": "" },
                })),
                // The calls of a script are not interleaved.
                ModelPart::CallArguments { text, .. } => {
                    let function = calls.last_mut().and_then(|call| call.get_mut("function"));
                    if let Some(function) = function.and_then(Value::as_object_mut) {
                        append(function, "arguments", &text);
                    }
                }
                ModelPart::Usage(cost) => usage = cost,
                ModelPart::Finished(end) => finish = end,
                ModelPart::ReasoningSeal(_)
                | ModelPart::Annotation(_)
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

    fn ending(&self, finish: Finish) -> Vec<Value> {
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
