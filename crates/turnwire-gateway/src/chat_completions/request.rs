//! Translates a Chat Completions request into a request of the Responses API.
//!
//! Both dialects ask for the same run, so there is one reader of requests, and this file only puts
//! the fields where that reader expects them. It validates what gets lost in translation;
//! everything else is validated by the reader, and [`FieldNames`] turns the paths in its errors
//! back into those that the client wrote. Fields that no one reads are reported, as in the other
//! dialect.

use serde_json::{Map, Value, json};

use super::{
    field_names::FieldNames,
    messages::MessageTranslator,
    tools::{translate_choice, translate_tool},
};
use crate::{
    client_error::ClientError, field_tracker::FieldTracker, fields::Fields, limits::RequestLimits,
};

/// Fields that have the same name and meaning in both dialects.
const SAME: [&str; 17] = [
    "model",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "seed",
    "user",
    "metadata",
    "parallel_tool_calls",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "stream",
    "max_tool_calls",
    "on_disconnect",
];

/// Fields that clients of other providers send by default. They are reported as ignored and not
/// refused.
const REPORTED: [&str; 27] = [
    "prediction",
    "top_k",
    "min_p",
    "repetition_penalty",
    // Ollama's options, which Open WebUI sends to every server if they are set.
    "repeat_penalty",
    "repeat_last_n",
    "tfs_z",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_ctx",
    "num_batch",
    "num_keep",
    "num_thread",
    "num_gpu",
    "use_mmap",
    "think",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking",
    "include_reasoning",
    "keep_alive",
    "options",
    "provider",
    "transforms",
    "plugins",
    "usage",
];

/// Fields that would change the answer and are not supported, and what to do instead.
const REFUSED: [(&str, &str); 5] = [
    ("functions", "`functions` is not supported; send `tools`."),
    ("function_call", "`function_call` is not supported; send `tool_choice`."),
    ("logit_bias", "`logit_bias` is not supported; leave it out."),
    ("audio", "Answers are text; leave out `audio`."),
    ("moderation", "Answers are not moderated here; leave out `moderation`."),
];

/// A request in the words of the Responses API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Translated {
    /// The body of the request.
    pub(crate) body: Value,
    /// Whether the stream ends with the tokens used.
    pub(super) include_usage: bool,
    /// What the client calls the fields of `body`.
    pub(super) names: FieldNames,
    /// Fields that were ignored, as the client wrote them.
    pub(super) ignored: Vec<String>,
}

pub(crate) fn translate(body: Value, limits: &RequestLimits) -> Result<Translated, ClientError> {
    let Value::Object(body) = body else {
        let message = "The body must be a JSON object.".to_owned();
        return Err(ClientError { message, param: None, code: "invalid_type", status: 400 });
    };
    let unread = FieldTracker::within(limits);
    let fields = Fields::of_body(&body, &unread);
    let mut translation = Translation::default();
    translation.copy_same(&fields);
    translation.read_limits(&fields)?;
    translation.read_format(&fields)?;
    translation.read_logprobs(&fields)?;
    translation.read_messages(&fields)?;
    translation.read_tools(&fields)?;
    let include_usage = translation.read_stream_options(&fields)?;
    // A client of this dialect keeps its history itself.
    translation.put("store", json!(fields.flag("store")?.unwrap_or(false)));
    refuse_unsupported(&fields)?;
    fields.refuse_others(&REPORTED)?;
    let Translation { body, names } = translation;
    Ok(Translated { body: Value::Object(body), include_usage, names, ignored: unread.left() })
}

fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ClientError> {
    let is_set = |value: &Value| match value {
        Value::Object(object) => !object.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    for (name, message) in REFUSED {
        if fields.value(name).is_some_and(is_set) {
            return Err(ClientError::new("unsupported_parameter", name, message));
        }
    }
    let kinds = fields.texts("modalities")?.unwrap_or_default();
    if kinds.iter().any(|kind| kind != "text") {
        let message = "Answers are text; `modalities` may only be [\"text\"].";
        return Err(ClientError::new("unsupported_parameter", "modalities", message));
    }
    if fields.value("n").is_some_and(|n| *n != json!(1)) {
        let message = "`n` must be 1: a run has one answer.";
        return Err(ClientError::invalid("n", message));
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Translation {
    body: Map<String, Value>,
    names: FieldNames,
}

impl Translation {
    fn put(&mut self, name: &str, value: Value) {
        self.body.insert(name.to_owned(), value);
    }

    fn copy_same(&mut self, fields: &Fields<'_>) {
        for name in SAME {
            if let Some(value) = fields.value(name) {
                self.put(name, value.clone());
            }
        }
    }

    fn read_limits(&mut self, fields: &Fields<'_>) -> Result<(), ClientError> {
        for name in ["max_tokens", "max_completion_tokens"] {
            if let Some(tokens) = fields.whole(name, 1..=u32::MAX)? {
                self.put("max_output_tokens", json!(tokens));
            }
        }
        if let Some(effort) = fields.value("reasoning_effort") {
            self.put("reasoning", json!({ "effort": effort }));
            self.names.add("reasoning.effort", "reasoning_effort");
        }
        Ok(())
    }

    fn read_format(&mut self, fields: &Fields<'_>) -> Result<(), ClientError> {
        let mut text = Map::new();
        if let Some(verbosity) = fields.value("verbosity") {
            text.insert("verbosity".to_owned(), verbosity.clone());
            self.names.add("text.verbosity", "verbosity");
        }
        if let Some(format) = fields.object("response_format")? {
            let mut flat =
                Map::from_iter([("type".to_owned(), json!(format.needed_text("type")?))]);
            self.names.add("text.format", "response_format");
            if let Some(schema) = format.object("json_schema")? {
                flat.extend(schema.all().clone());
                self.names.add("text.format", "response_format.json_schema");
                self.names.add("text.format.type", "response_format.type");
            }
            text.insert("format".to_owned(), Value::Object(flat));
        }
        if !text.is_empty() {
            self.put("text", Value::Object(text));
        }
        Ok(())
    }

    fn read_logprobs(&mut self, fields: &Fields<'_>) -> Result<(), ClientError> {
        if fields.flag("logprobs")? == Some(true) {
            self.put("include", json!(["message.output_text.logprobs"]));
        }
        if let Some(most) = fields.whole("top_logprobs", 0..=20)? {
            self.put("top_logprobs", json!(most));
        }
        Ok(())
    }

    fn read_messages(&mut self, fields: &Fields<'_>) -> Result<(), ClientError> {
        let messages = fields.list("messages")?.unwrap_or_default();
        if messages.is_empty() {
            return Err(ClientError::missing("messages"));
        }
        self.names.add("input", "messages");
        let mut translator = MessageTranslator::default();
        for (path, message) in messages {
            translator.read(&fields.inner(message, &path)?, &mut self.names)?;
        }
        self.put("input", Value::Array(translator.items));
        Ok(())
    }

    fn read_tools(&mut self, fields: &Fields<'_>) -> Result<(), ClientError> {
        let mut tools = Vec::new();
        for (path, tool) in fields.list("tools")?.into_iter().flatten() {
            tools.push(translate_tool(&fields.inner(tool, &path)?, &mut self.names)?);
        }
        if let Some(search) = fields.object("web_search_options")? {
            let path = format!("tools[{}]", tools.len());
            self.names.add(&path, "web_search_options");
            self.names.add(&format!("{path}.type"), "web_search_options");
            tools.push(translate_search(&search)?);
        }
        if !tools.is_empty() {
            self.put("tools", Value::Array(tools));
        }
        if let Some(choice) = fields.value("tool_choice") {
            let choice = match choice {
                Value::Object(_) => translate_choice(&fields.inner(choice, "tool_choice")?)?,
                other => other.clone(),
            };
            self.put("tool_choice", choice);
        }
        Ok(())
    }

    /// Returns whether the tokens used are part of the stream.
    fn read_stream_options(&mut self, fields: &Fields<'_>) -> Result<bool, ClientError> {
        let Some(options) = fields.object("stream_options")? else { return Ok(false) };
        if let Some(obfuscation) = options.flag("include_obfuscation")? {
            self.put("stream_options", json!({ "include_obfuscation": obfuscation }));
        }
        let include_usage = options.flag("include_usage")?;
        options.refuse_others(&[])?;
        Ok(include_usage == Some(true))
    }
}

/// A web search, as `web_search_options` asks for it.
fn translate_search(options: &Fields<'_>) -> Result<Value, ClientError> {
    let mut tool = Map::from_iter([("type".to_owned(), json!("web_search"))]);
    if let Some(size) = options.value("search_context_size") {
        tool.insert("search_context_size".to_owned(), size.clone());
    }
    if let Some(location) = options.object("user_location")? {
        location.pass_over(&["type"]);
        let mut flat = Map::from_iter([("type".to_owned(), json!("approximate"))]);
        if let Some(place) = location.object("approximate")? {
            flat.extend(place.all().clone());
        }
        tool.insert("user_location".to_owned(), Value::Object(flat));
    }
    Ok(Value::Object(tool))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
