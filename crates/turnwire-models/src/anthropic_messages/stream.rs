//! Converts events of the Messages API to [`ModelPart`]s.
//!
//! An answer is a sequence of blocks, each with a start, deltas and a stop. Only state that spans
//! several events of a block is stored here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use tracing::warn;
use turnwire_contract::{Annotation, Finish, ModelPart, Usage};

use super::{REDACTED, SIGNATURE};
use crate::{
    lenient_json,
    provider_error::{Fault, ParsedError},
    seal::{MAX_SEALED_BYTES, Origin},
    translator::{Dialect, Flow, Truncated, broken, no_arguments},
};

/// State of one answer.
#[derive(Debug, Default)]
pub(super) struct MessageStream {
    /// Who answers.
    origin: Origin,
    /// What the answer is made over.
    prefix: String,
    open: BTreeMap<u32, OpenBlock>,
    /// Calls that stopped without arguments. The end of the answer decides whether they have none
    /// or were cut off.
    calls_without_arguments: Vec<u32>,
    n_calls: u32,
    usage: UsageBody,
    stop_reason: Option<String>,
}

/// State of a block until it stops.
#[derive(Debug)]
enum OpenBlock {
    Call { key: u32, input: Map<String, Value>, has_arguments: bool },
    Thoughts { signature: String },
    Other,
}

impl MessageStream {
    /// Creates the state for an answer of `origin` to the request with the hash `prefix`.
    pub(super) fn new(origin: &Origin, prefix: &str) -> Self {
        Self { origin: origin.clone(), prefix: prefix.to_owned(), ..Self::default() }
    }

    fn sealed(&self, kind: &str, content: &str) -> ModelPart {
        ModelPart::EncryptedContent(self.origin.seal_over(&self.prefix, kind, content))
    }

    fn start(&mut self, index: u32, block: Block, parts: &mut Vec<ModelPart>) {
        let open = match block {
            Block::Text { text } => {
                parts.push(ModelPart::Text(text));
                OpenBlock::Other
            }
            Block::Thinking { thinking, signature } => {
                parts.push(ModelPart::Reasoning(thinking));
                OpenBlock::Thoughts { signature }
            }
            Block::RedactedThinking { data } => {
                parts.push(self.sealed(REDACTED, &data));
                OpenBlock::Other
            }
            Block::ToolUse { id, name, input } => {
                let key = self.n_calls;
                self.n_calls += 1;
                let id = Some(id).filter(|id| !id.is_empty());
                parts.push(ModelPart::CallStarted { key, id, name });
                OpenBlock::Call { key, input, has_arguments: false }
            }
            Block::Unknown => OpenBlock::Other,
        };
        self.open.insert(index, open);
    }

    fn add(&mut self, index: u32, delta: Delta, parts: &mut Vec<ModelPart>) {
        match (delta, self.open.get_mut(&index)) {
            (Delta::Text { text }, _) => parts.push(ModelPart::Text(text)),
            (Delta::Thinking { thinking }, _) => parts.push(ModelPart::Reasoning(thinking)),
            (Delta::Signature { signature: more }, Some(OpenBlock::Thoughts { signature }))
                if signature.len() + more.len() <= MAX_SEALED_BYTES =>
            {
                signature.push_str(&more);
            }
            (
                Delta::InputJson { partial_json },
                Some(OpenBlock::Call { key, has_arguments, .. }),
            ) => {
                *has_arguments |= !partial_json.is_empty();
                parts.push(ModelPart::CallArguments { key: *key, text: partial_json });
            }
            (Delta::Citations { citation }, _) => {
                parts.extend(annotation_of(citation).map(ModelPart::Annotation));
            }
            (Delta::InputJson { partial_json: lost } | Delta::Signature { signature: lost }, _) => {
                warn!(index, "delta for an unknown content block ignored");
                parts.push(ModelPart::Unreadable { bytes: lost.len() as u64 });
            }
            (Delta::Unknown, _) => {}
        }
    }

    fn stop(&mut self, index: u32, parts: &mut Vec<ModelPart>) {
        match self.open.remove(&index) {
            Some(OpenBlock::Call { key, input, has_arguments: false }) if input.is_empty() => {
                self.calls_without_arguments.push(key);
            }
            Some(OpenBlock::Call { key, input, has_arguments: false }) => {
                let text = Value::Object(input).to_string();
                parts.push(ModelPart::CallArguments { key, text });
            }
            Some(OpenBlock::Thoughts { signature }) if !signature.is_empty() => {
                parts.push(self.sealed(SIGNATURE, &signature));
            }
            _ => {}
        }
    }

    fn take_usage(&mut self, usage: Option<UsageBody>, parts: &mut Vec<ModelPart>) {
        if let Some(usage) = usage {
            self.usage.update(usage);
            parts.push(ModelPart::Usage(self.usage.as_usage()));
        }
    }

    fn finish(&mut self, parts: &mut Vec<ModelPart>) {
        let unstopped: Vec<u32> = self.open.keys().copied().collect();
        for index in unstopped {
            self.stop(index, parts);
        }
        let finish = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::ContentFilter,
            // Only a turn of tools that the provider executes pauses, and none is asked for.
            Some("pause_turn") => Finish::Interrupted,
            _ if self.n_calls > 0 => Finish::CalledTools,
            _ => Finish::Answered,
        };
        if finish == Finish::CalledTools {
            parts.extend(self.calls_without_arguments.drain(..).map(no_arguments));
        }
        parts.push(ModelPart::Finished(finish));
    }
}

impl Dialect for MessageStream {
    type Chunk = MessageEvent;

    fn chunk(&mut self, event: MessageEvent, parts: &mut Vec<ModelPart>) -> Result<Flow, Fault> {
        match event {
            MessageEvent::MessageStart { message } => self.take_usage(message.usage, parts),
            MessageEvent::ContentBlockStart { index, content_block } => {
                self.start(index, content_block, parts);
            }
            MessageEvent::ContentBlockDelta { index, delta } => self.add(index, delta, parts),
            MessageEvent::ContentBlockStop { index } => self.stop(index, parts),
            MessageEvent::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.take_usage(usage, parts);
            }
            MessageEvent::MessageStop => {
                self.finish(parts);
                return Ok(Flow::Over);
            }
            MessageEvent::Error { error } => return Err(ParsedError::of(error).in_mid_stream()),
            MessageEvent::Unknown => {}
        }
        Ok(Flow::More)
    }

    fn done(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Fault> {
        self.cut(parts).map_err(|Truncated| broken("the answer ended without a stop reason"))
    }

    fn cut(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Truncated> {
        if self.stop_reason.is_none() {
            return Err(Truncated);
        }
        self.finish(parts);
        Ok(())
    }

    fn whole(&mut self, body: &str, parts: &mut Vec<ModelPart>) -> Option<Result<(), Fault>> {
        let message: WholeMessage = lenient_json::from_str(body).ok()?;
        self.stop_reason = Some(message.stop_reason?);
        for (index, block) in (0..).zip(message.content) {
            self.start(index, block, parts);
            self.stop(index, parts);
        }
        self.take_usage(message.usage, parts);
        self.finish(parts);
        Some(Ok(()))
    }
}

/// An event of the stream.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageEvent {
    MessageStart {
        message: MessageHead,
    },
    ContentBlockStart {
        index: u32,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u32,
        delta: Delta,
    },
    ContentBlockStop {
        index: u32,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: Option<UsageBody>,
    },
    MessageStop,
    Error {
        #[serde(default)]
        error: Value,
    },
    /// `ping` and unknown events.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageHead {
    usage: Option<UsageBody>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageEnd {
    stop_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WholeMessage {
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<UsageBody>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        name: String,
        #[serde(default)]
        input: Map<String, Value>,
    },
    /// Tools that Anthropic executes itself are never requested.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "citations_delta")]
    Citations { citation: Map<String, Value> },
    #[serde(other)]
    Unknown,
}

fn annotation_of(mut citation: Map<String, Value>) -> Option<Annotation> {
    let kind = citation.shift_remove("type")?.as_str()?.to_owned();
    Some(Annotation { kind, source: Value::Object(citation) })
}

/// Input tokens are sent at the start, output tokens at the end.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageBody {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl UsageBody {
    fn update(&mut self, newer: Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.cache_read_input_tokens =
            newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.output_tokens_details =
            newer.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// Anthropic's `input_tokens` excludes tokens read from or written to the cache; [`Usage`]
    /// includes them.
    fn as_usage(&self) -> Usage {
        let cached_tokens = self.cache_read_input_tokens.unwrap_or(0);
        let input_tokens = self
            .input_tokens
            .unwrap_or(0)
            .saturating_add(cached_tokens)
            .saturating_add(self.cache_creation_input_tokens.unwrap_or(0));
        Usage {
            input_tokens,
            cached_tokens,
            output_tokens: self.output_tokens.unwrap_or(0),
            reasoning_tokens: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.thinking_tokens)
                .unwrap_or(0),
            cost_nanos: None,
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
