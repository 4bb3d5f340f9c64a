//! Converts events of the Responses API to [`ModelPart`]s.
//!
//! The API sends content up to three times: in deltas, in the `done` event of the part, and in the
//! `done` event of the item. The state of each item is stored, so that content is reported once
//! even if a server omits one of the three.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{Annotation, Finish, ModelPart, ToolRef, ToolSpec, Usage};

use super::ENCRYPTED;
use crate::{
    lenient_json,
    logprobs::{self, LogprobBody},
    provider_error::{Fault, ParsedError},
    reported_cost::ReportedCost,
    seal::Origin,
    translator::{Dialect, Flow, Truncated, broken, no_arguments},
};

/// State of one answer.
#[derive(Debug, Default)]
pub(super) struct ResponseStream {
    /// Who answers.
    origin: Origin,
    /// Offered names of tools in namespaces, by namespace and own name.
    offered: HashMap<(String, String), String>,
    items: BTreeMap<u32, ItemState>,
    has_calls: bool,
}

#[derive(Debug, Default)]
struct ItemState {
    is_started: bool,
    has_content: bool,
    is_done: bool,
}

impl ResponseStream {
    /// Creates the state for an answer of `origin` to a prompt with `tools`.
    pub(super) fn new(tools: &[Arc<ToolSpec>], origin: Origin) -> Self {
        let in_namespace = |tool: &Arc<ToolSpec>| {
            let space = tool.server.clone().filter(|_| tool.kind.is_run_by_client())?;
            let own = ToolRef::own_name_of(&tool.name, &space).to_owned();
            Some(((space, own), tool.name.clone()))
        };
        let offered = tools.iter().filter_map(in_namespace).collect();
        Self { origin, offered, ..Self::default() }
    }

    fn item(&mut self, index: u32) -> &mut ItemState {
        self.items.entry(index).or_default()
    }

    fn add(&mut self, index: u32, part: ModelPart, parts: &mut Vec<ModelPart>) {
        self.item(index).has_content = true;
        parts.push(part);
    }

    fn start_call(&mut self, key: u32, call: ToolCall, parts: &mut Vec<ModelPart>) -> String {
        self.has_calls = true;
        if !std::mem::replace(&mut self.item(key).is_started, true) {
            let id = call.call_id.or(call.id).filter(|id| !id.is_empty());
            let tool = (call.namespace.unwrap_or_default(), call.name);
            let name = self.offered.get(&tool).cloned().unwrap_or(tool.1);
            parts.push(ModelPart::CallStarted { key, id, name });
        }
        call.arguments
    }

    fn add_arguments(&mut self, key: u32, text: String, parts: &mut Vec<ModelPart>) {
        // Before its start a call has no name. The end of the item contains both.
        if self.item(key).is_started && !text.is_empty() {
            self.add(key, ModelPart::CallArguments { key, text }, parts);
        }
    }

    fn finish_item(&mut self, index: u32, item: OutputItem, parts: &mut Vec<ModelPart>) {
        if std::mem::replace(&mut self.item(index).is_done, true) {
            return;
        }
        let is_new = !self.item(index).has_content;
        match item {
            OutputItem::FunctionCall(call) => {
                let arguments = self.start_call(index, call, parts);
                if is_new && arguments.trim().is_empty() {
                    parts.push(no_arguments(index));
                } else if is_new {
                    self.add_arguments(index, arguments, parts);
                }
            }
            OutputItem::CustomToolCall(call) => {
                let input = self.start_call(index, call, parts);
                if is_new {
                    self.add_arguments(index, input, parts);
                }
            }
            OutputItem::Message { content } => {
                let texts = content.into_iter().flat_map(OutputContent::into_parts);
                parts.extend(texts.filter(|_| is_new));
            }
            OutputItem::Reasoning { content, summary, encrypted_content } => {
                let thoughts = content.unwrap_or_default().into_iter().chain(summary);
                let thoughts: Vec<String> = thoughts.map(|thought| thought.text).collect();
                if is_new {
                    parts.push(ModelPart::Reasoning(thoughts.join("\n\n")));
                }
                let encrypted_content =
                    encrypted_content.map(|content| self.origin.seal(ENCRYPTED, &content));
                parts.extend(encrypted_content.map(ModelPart::EncryptedContent));
            }
            OutputItem::Unknown => {}
        }
    }

    /// Processes the final response, which repeats all items.
    fn finish(&mut self, response: Response, parts: &mut Vec<ModelPart>) -> Result<(), Fault> {
        if let Some(error) = response.error.filter(|error| !error.is_null()) {
            return Err(ParsedError::of(error).in_mid_stream());
        }
        if self.items.is_empty() {
            for (index, item) in (0..).zip(response.output) {
                self.finish_item(index, item, parts);
            }
        }
        parts.extend(response.usage.map(|usage| ModelPart::Usage(usage.into_usage())));
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let finish = match (response.status.as_deref(), reason.as_deref()) {
            (Some("failed" | "cancelled"), _) => {
                return Err(broken("the provider aborted the answer"));
            }
            (_, Some("content_filter")) => Finish::ContentFilter,
            (Some("incomplete"), _) | (_, Some(_)) => Finish::Length,
            _ if self.has_calls => Finish::CalledTools,
            _ => Finish::Answered,
        };
        parts.push(ModelPart::Finished(finish));
        Ok(())
    }
}

impl Dialect for ResponseStream {
    type Chunk = ResponseEvent;

    fn chunk(&mut self, event: ResponseEvent, parts: &mut Vec<ModelPart>) -> Result<Flow, Fault> {
        match event {
            ResponseEvent::ItemAdded { output_index, item } => {
                if let OutputItem::FunctionCall(call) | OutputItem::CustomToolCall(call) = item {
                    // Arguments in this event are repeated later, and taken then.
                    self.start_call(output_index, call, parts);
                }
            }
            ResponseEvent::ItemDone { output_index, item } => {
                self.finish_item(output_index, item, parts);
            }
            ResponseEvent::TextDelta { output_index, delta, logprobs } => {
                parts.extend(logprobs::part_of(logprobs));
                self.add(output_index, ModelPart::Text(delta), parts);
            }
            ResponseEvent::RefusalDelta { output_index, delta } => {
                self.add(output_index, ModelPart::Refusal(delta), parts);
            }
            ResponseEvent::ReasoningDelta { output_index, delta } => {
                self.add(output_index, ModelPart::Reasoning(delta), parts);
            }
            ResponseEvent::SummaryPartAdded { output_index, summary_index } => {
                if summary_index > 0 {
                    self.add(output_index, ModelPart::Reasoning("\n\n".to_owned()), parts);
                }
            }
            ResponseEvent::AnnotationAdded { annotation } => {
                let annotation = annotation.and_then(annotation_of);
                parts.extend(annotation.map(ModelPart::Annotation));
            }
            ResponseEvent::ArgumentsDelta { output_index, delta } => {
                self.add_arguments(output_index, delta, parts);
            }
            ResponseEvent::ArgumentsDone { output_index, arguments } => {
                if !self.item(output_index).has_content {
                    self.add_arguments(output_index, arguments, parts);
                }
            }
            ResponseEvent::Finished { response } => {
                return self.finish(response, parts).map(|()| Flow::Over);
            }
            ResponseEvent::Failed { response } => {
                let error = response.error.unwrap_or_default();
                return Err(ParsedError::of(error).in_mid_stream());
            }
            ResponseEvent::Error(mut fields) => {
                // OpenAI nests the error; its own SDK expects it at the top level.
                let error = fields.shift_remove("error").filter(Value::is_object);
                fields.shift_remove("type");
                return Err(ParsedError::of(error.unwrap_or(fields.into())).in_mid_stream());
            }
            ResponseEvent::Unknown => {}
        }
        Ok(Flow::More)
    }

    fn done(&mut self, _parts: &mut Vec<ModelPart>) -> Result<(), Fault> {
        Err(broken("the answer ended without its last event"))
    }

    fn cut(&mut self, _parts: &mut Vec<ModelPart>) -> Result<(), Truncated> {
        Err(Truncated)
    }

    fn whole(&mut self, body: &str, parts: &mut Vec<ModelPart>) -> Option<Result<(), Fault>> {
        let response: Response = lenient_json::from_str(body).ok()?;
        response.status.as_ref()?;
        Some(self.finish(response, parts))
    }
}

/// An event of the stream. Redundant events are not listed.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum ResponseEvent {
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: u32, item: OutputItem },
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: u32, item: OutputItem },
    #[serde(rename = "response.output_text.delta")]
    TextDelta { output_index: u32, delta: String, logprobs: Option<Vec<LogprobBody>> },
    #[serde(rename = "response.refusal.delta")]
    RefusalDelta { output_index: u32, delta: String },
    #[serde(
        rename = "response.reasoning_text.delta",
        alias = "response.reasoning_summary_text.delta",
        alias = "response.reasoning.delta"
    )]
    ReasoningDelta { output_index: u32, delta: String },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPartAdded { output_index: u32, summary_index: u32 },
    #[serde(rename = "response.output_text.annotation.added")]
    AnnotationAdded { annotation: Option<Map<String, Value>> },
    #[serde(
        rename = "response.function_call_arguments.delta",
        alias = "response.custom_tool_call_input.delta"
    )]
    ArgumentsDelta { output_index: u32, delta: String },
    #[serde(
        rename = "response.function_call_arguments.done",
        alias = "response.custom_tool_call_input.done"
    )]
    ArgumentsDone {
        output_index: u32,
        #[serde(alias = "input")]
        arguments: String,
    },
    #[serde(rename = "response.completed", alias = "response.incomplete")]
    Finished { response: Response },
    #[serde(rename = "response.failed")]
    Failed { response: Response },
    #[serde(rename = "error")]
    Error(Map<String, Value>),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputItem {
    Message {
        #[serde(default)]
        content: Vec<OutputContent>,
    },
    Reasoning {
        content: Option<Vec<Thought>>,
        #[serde(default)]
        summary: Vec<Thought>,
        encrypted_content: Option<String>,
    },
    FunctionCall(ToolCall),
    CustomToolCall(ToolCall),
    #[serde(other)]
    Unknown,
}

/// A call of a function, or of a custom tool, whose arguments are in `input`.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    id: Option<String>,
    call_id: Option<String>,
    name: String,
    namespace: Option<String>,
    #[serde(default, alias = "input")]
    arguments: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputContent {
    OutputText {
        text: String,
        logprobs: Option<Vec<LogprobBody>>,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Unknown,
}

impl OutputContent {
    fn into_parts(self) -> Vec<ModelPart> {
        match self {
            Self::OutputText { text, logprobs } => {
                logprobs::part_of(logprobs).into_iter().chain([ModelPart::Text(text)]).collect()
            }
            Self::Refusal { refusal } => vec![ModelPart::Refusal(refusal)],
            Self::Unknown => Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Thought {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Response {
    status: Option<String>,
    #[serde(default)]
    output: Vec<OutputItem>,
    usage: Option<UsageBody>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct UsageBody {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<TokenDetails>,
    output_tokens_details: Option<TokenDetails>,
    #[serde(flatten)]
    cost: ReportedCost,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct TokenDetails {
    #[serde(default)]
    cached_tokens: u64,
    #[serde(default)]
    reasoning_tokens: u64,
}

impl UsageBody {
    fn into_usage(self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            cached_tokens: self.input_tokens_details.unwrap_or_default().cached_tokens,
            output_tokens: self.output_tokens,
            reasoning_tokens: self.output_tokens_details.unwrap_or_default().reasoning_tokens,
            cost_nanos: self.cost.nanos(),
        }
    }
}

fn annotation_of(mut annotation: Map<String, Value>) -> Option<Annotation> {
    let kind = annotation.shift_remove("type")?.as_str()?.to_owned();
    Some(Annotation { kind, source: Value::Object(annotation) })
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
