//! Converts chunks of Chat Completions to [`ModelPart`]s.
//!
//! `finish_reason` is reported at the end of the stream, not when it arrives: the usage follows it,
//! and some servers send more text (`finish_twice_and_more.sse`).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use turnwire_contract::{Finish, ModelPart, Usage, json_size};

use super::{
    DETAILS, EXTRA_CONTENT, REASONING_CONTENT,
    calls::{CallDelta, Calls, FunctionDelta},
};
use crate::{
    lenient_json,
    logprobs::{self, LogprobBody},
    provider_error::{Fault, ParsedError},
    reported_cost::ReportedCost,
    seal::{MAX_SEALED_BYTES, Origin},
    translator::{Dialect, Flow, Truncated, broken, no_arguments},
};

/// State of one answer.
#[derive(Debug)]
pub(super) struct ChatStream {
    /// Who answers.
    origin: Origin,
    calls: Calls,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    has_content: bool,
    /// Whether the open reasoning came as `reasoning_content`, which is given back by that name.
    has_reasoning_content: bool,
    /// The `reasoning_details` so far.
    details: Vec<Map<String, Value>>,
    /// Bytes that may still be kept until the end of the answer.
    remaining_bytes: usize,
}

impl ChatStream {
    /// Creates the state for an answer of `origin`. `tool_names` are the offered tools: as the
    /// server knows them, and their own.
    pub(super) fn new(
        tool_names: impl IntoIterator<Item = (String, String)>,
        origin: Origin,
    ) -> Self {
        Self {
            origin,
            calls: Calls::new(tool_names),
            usage: None,
            finish_reason: None,
            has_content: false,
            has_reasoning_content: false,
            details: Vec::new(),
            remaining_bytes: MAX_SEALED_BYTES,
        }
    }

    fn take_choice(&mut self, choice: ChoiceBody, parts: &mut Vec<ModelPart>) {
        parts.extend(logprobs::part_of(choice.logprobs.and_then(|logprobs| logprobs.content)));
        // Some servers repeat the whole message in the last chunk, and some send only that chunk
        // (`message_in_last_chunk.sse`).
        let message = choice.message.filter(|_| !self.has_content);
        if let Some(delta) = choice.delta {
            self.take_delta(delta, parts);
        }
        if let Some(message) = message {
            self.take_delta(*message, parts);
        }
        let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
        self.finish_reason = self.finish_reason.take().or(reason);
    }

    fn take_delta(&mut self, delta: Delta, parts: &mut Vec<ModelPart>) {
        let before = parts.len();
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (reasoning, content) = (said(delta.reasoning), said(delta.reasoning_content));
        self.has_reasoning_content |= content.is_some();
        parts.extend(reasoning.or(content).map(ModelPart::Reasoning));
        for detail in delta.reasoning_details.into_iter().flatten() {
            self.take_detail(detail);
        }
        match delta.content {
            Some(Value::String(text)) if !text.is_empty() => {
                self.seal_reasoning(parts);
                parts.push(ModelPart::Text(text));
            }
            Some(Value::Array(pieces)) => parts.extend(pieces.iter().filter_map(part_of_piece)),
            _ => {}
        }
        if let Some(refusal) = said(delta.refusal) {
            self.seal_reasoning(parts);
            parts.push(ModelPart::Refusal(refusal));
        }
        let has_calls = delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        if has_calls || delta.function_call.is_some() {
            self.seal_reasoning(parts);
        }
        for mut call in delta.tool_calls.into_iter().flatten() {
            call.extra_content = call.extra_content.filter(|extra| self.may_keep(extra));
            self.calls.add(call, parts);
        }
        if let Some(function) = delta.function_call {
            let (index, function) = (Some(0), Some(*function));
            self.calls.add(CallDelta { index, function, ..CallDelta::default() }, parts);
        }
        self.has_content |= parts.len() > before || !self.calls.is_empty();
    }

    /// Adds a detail, or what follows of the last one.
    fn take_detail(&mut self, mut more: Map<String, Value>) {
        const SAME: [&str; 2] = ["type", "index"];
        if !self.may_keep(&more) {
            self.details.clear();
            return;
        }
        let last = self.details.last_mut().filter(|last| {
            SAME.iter().all(|name| last.get(*name) == more.get(*name))
                && more.get("type").and_then(Value::as_str) != Some("reasoning.encrypted")
        });
        let Some(last) = last else {
            self.details.push(more);
            return;
        };
        for name in ["text", "summary"] {
            if let (Some(Value::String(text)), Some(Value::String(rest))) =
                (last.get_mut(name), more.get(name))
            {
                text.push_str(rest);
                more.shift_remove(name);
            }
        }
        last.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }

    /// Counts what is kept until the end. After the first that is too long nothing is kept: a part
    /// of what a provider gave is of no use to it.
    fn may_keep(&mut self, kept: &impl Serialize) -> bool {
        let n_bytes = json_size(kept, self.remaining_bytes);
        self.remaining_bytes = n_bytes.map_or(0, |n_bytes| self.remaining_bytes - n_bytes);
        n_bytes.is_some()
    }

    /// Ends reasoning whose text has to be given back.
    fn seal_reasoning(&mut self, parts: &mut Vec<ModelPart>) {
        if std::mem::take(&mut self.has_reasoning_content) {
            let seal = self.origin.seal(REASONING_CONTENT, "");
            parts.push(ModelPart::EncryptedContent(seal));
        }
    }

    fn take_usage(&mut self, usage: UsageBody, parts: &mut Vec<ModelPart>) {
        let usage = usage.into_usage();
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            parts.push(ModelPart::Usage(usage));
        }
    }

    fn finish(&mut self, parts: &mut Vec<ModelPart>) {
        self.seal_reasoning(parts);
        self.calls.close(parts);
        let details = std::mem::take(&mut self.details);
        if !details.is_empty() {
            let seal = self.origin.seal(DETAILS, &json!(details).to_string());
            parts.push(ModelPart::EncryptedContent(seal));
        }
        let of_calls = self.calls.extra_contents();
        if !of_calls.is_empty() {
            let seal = self.origin.seal(EXTRA_CONTENT, &Value::Object(of_calls).to_string());
            parts.push(ModelPart::EncryptedContent(seal));
        }
        let finish = match self.finish_reason.as_deref() {
            Some("length" | "model_length") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            // The server gave up.
            Some("error" | "abort" | "insufficient_system_resource") => Finish::Interrupted,
            // A call takes precedence over `finish_reason`, because several servers send `stop`.
            _ if self.calls.is_empty() => Finish::Answered,
            _ => Finish::CalledTools,
        };
        if finish == Finish::CalledTools {
            parts.extend(self.calls.without_arguments().map(no_arguments));
        }
        parts.push(ModelPart::Finished(finish));
    }
}

impl Dialect for ChatStream {
    type Chunk = Chunk;

    fn chunk(&mut self, chunk: Chunk, parts: &mut Vec<ModelPart>) -> Result<Flow, Fault> {
        if let Some(parsed) = chunk.parsed_error() {
            return Err(parsed.in_mid_stream());
        }
        // Only one choice was requested; others are ignored.
        let mut choices = chunk.choices.into_iter().flatten();
        if let Some(choice) = choices.find(|choice| choice.index.unwrap_or(0) == 0) {
            self.take_choice(choice, parts);
        }
        if let Some(usage) = chunk.usage {
            self.take_usage(*usage, parts);
        }
        Ok(Flow::More)
    }

    fn done(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Fault> {
        if self.finish_reason.is_none() && !self.has_content {
            return Err(broken("the answer ended without content"));
        }
        self.finish(parts);
        Ok(())
    }

    fn cut(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Truncated> {
        if self.finish_reason.is_none() {
            return Err(Truncated);
        }
        self.finish(parts);
        Ok(())
    }

    fn whole(&mut self, body: &str, parts: &mut Vec<ModelPart>) -> Option<Result<(), Fault>> {
        let chunk: Chunk = lenient_json::from_str(body).ok()?;
        chunk.choices.as_ref().filter(|choices| !choices.is_empty())?;
        let result = self.chunk(chunk, parts).and_then(|_| self.done(parts));
        Some(result)
    }
}

/// A chunk. Every field may be missing or null, contrary to the specification.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    choices: Option<Vec<ChoiceBody>>,
    // What only the last chunk has, or only some servers send, is boxed here and below, because
    // every chunk is moved several times.
    usage: Option<Box<UsageBody>>,
    error: Option<Value>,
    #[serde(default, rename = "object", deserialize_with = "is_error")]
    is_error: bool,
    message: Option<Value>,
    code: Option<Value>,
}

impl Chunk {
    fn parsed_error(&self) -> Option<ParsedError> {
        match &self.error {
            Some(error) if !error.is_null() => Some(ParsedError::of(error.clone())),
            _ if self.is_error => Some(ParsedError::of(
                serde_json::json!({ "message": self.message, "code": self.code }),
            )),
            _ => None,
        }
    }
}

/// Whether the `object` of a chunk is `error`. Most chunks say something else there.
fn is_error<'de, D: Deserializer<'de>>(object: D) -> Result<bool, D::Error> {
    Ok(<&RawValue>::deserialize(object)?.get() == "\"error\"")
}

#[derive(Debug, Deserialize)]
struct ChoiceBody {
    index: Option<i64>,
    delta: Option<Delta>,
    message: Option<Box<Delta>>,
    finish_reason: Option<String>,
    logprobs: Option<LogprobsBody>,
}

#[derive(Debug, Deserialize)]
struct LogprobsBody {
    content: Option<Vec<LogprobBody>>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    content: Option<Value>,
    reasoning: Option<String>,
    reasoning_content: Option<String>,
    reasoning_details: Option<Vec<Map<String, Value>>>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    function_call: Option<Box<FunctionDelta>>,
}

/// Mistral sends the content of reasoning models as a list.
fn part_of_piece(piece: &Value) -> Option<ModelPart> {
    let text = |value: &Value| value.get("text")?.as_str().map(str::to_owned);
    match piece.get("type")?.as_str()? {
        "text" => text(piece).map(ModelPart::Text),
        "thinking" => {
            let thoughts = piece.get("thinking")?.as_array()?.iter().filter_map(text);
            Some(ModelPart::Reasoning(thoughts.collect()))
        }
        _ => None,
    }
}

#[derive(Debug, Deserialize)]
struct UsageBody {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// The name that cached tokens have at `api.deepseek.com`.
    prompt_cache_hit_tokens: Option<u64>,
    /// The place that they have at `api.moonshot.ai`.
    cached_tokens: Option<u64>,
    #[serde(flatten)]
    cost: ReportedCost,
}

impl UsageBody {
    fn into_usage(self) -> Usage {
        let (input, answer) =
            (self.prompt_tokens.unwrap_or(0), self.completion_tokens.unwrap_or(0));
        // Some count reasoning in the total alone.
        let uncounted = self.total_tokens.unwrap_or(0).saturating_sub(input.saturating_add(answer));
        Usage {
            input_tokens: input,
            cached_tokens: self
                .prompt_tokens_details
                .and_then(|it| it.cached_tokens)
                .or(self.prompt_cache_hit_tokens)
                .or(self.cached_tokens)
                .unwrap_or(0),
            output_tokens: answer.saturating_add(uncounted),
            reasoning_tokens: self
                .completion_tokens_details
                .and_then(|it| it.reasoning_tokens)
                .unwrap_or(uncounted),
            cost_nanos: self.cost.nanos(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
