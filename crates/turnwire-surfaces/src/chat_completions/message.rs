//! The message of a completion so far: what all turns of a run have said.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use turnwire_contract::{Annotation, CallId, ItemId, ToolKind, ToolRef};

use super::wire::{CalledCustomTool, CalledFunction, CompletionMessage, CompletionToolCall};
use crate::responses::item::TokenLogprob;

/// What stands between the texts of two turns.
pub(super) const BETWEEN_TURNS: &str = "\n\n";

/// The kind of the only citations that this dialect has.
const URL_CITATION: &str = "url_citation";

#[derive(Debug, Clone, Default)]
pub(super) struct MessageSoFar {
    message: MessageContent,
    /// How much of it was said before the current turn.
    before_turn: Amounts,
    /// How much of each message and reasoning item was received.
    items: HashMap<ItemId, ItemSoFar>,
}

/// What the turns have said.
#[derive(Debug, Clone, Default)]
struct MessageContent {
    content: String,
    refusal: String,
    reasoning: String,
    citations: Vec<Value>,
    logprobs: Vec<TokenLogprob>,
    calls: Vec<(CallId, CompletionToolCall)>,
}

/// How much was said at some moment, in the order of [`MessageContent`].
#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    content: usize,
    refusal: usize,
    reasoning: usize,
    citations: usize,
    logprobs: usize,
    calls: usize,
}

impl MessageContent {
    fn amounts(&self) -> Amounts {
        Amounts {
            content: self.content.len(),
            refusal: self.refusal.len(),
            reasoning: self.reasoning.len(),
            citations: self.citations.len(),
            logprobs: self.logprobs.len(),
            calls: self.calls.len(),
        }
    }

    fn cut_to(&mut self, amounts: Amounts) {
        self.content.truncate(amounts.content);
        self.refusal.truncate(amounts.refusal);
        self.reasoning.truncate(amounts.reasoning);
        self.citations.truncate(amounts.citations);
        self.logprobs.truncate(amounts.logprobs);
        self.calls.truncate(amounts.calls);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct ItemSoFar {
    text_bytes: usize,
    refusal_bytes: usize,
    /// Characters of the content before its text.
    starts_at: usize,
}

impl MessageSoFar {
    pub(super) fn begin_turn(&mut self) {
        self.before_turn = self.message.amounts();
    }

    /// Forgets the current turn. Returns whether it had calls.
    pub(super) fn withdraw_turn(&mut self) -> bool {
        let had_calls = self.message.calls.len() > self.before_turn.calls;
        self.message.cut_to(self.before_turn);
        had_calls
    }

    /// Whether the next text is the first of this item.
    pub(super) fn opens(&self, item_id: &ItemId) -> bool {
        self.items.get(item_id).is_none_or(|item| item.text_bytes == 0)
    }

    pub(super) fn add_text(&mut self, item_id: &ItemId, text: &str) {
        let item = self.items.entry(item_id.clone()).or_default();
        let content = &mut self.message.content;
        if item.text_bytes == 0 {
            if !content.is_empty() && !content.ends_with('\n') {
                content.push_str(BETWEEN_TURNS);
            }
            item.starts_at = content.chars().count();
        }
        item.text_bytes += text.len();
        content.push_str(text);
    }

    pub(super) fn add_refusal(&mut self, item_id: &ItemId, text: &str) {
        self.items.entry(item_id.clone()).or_default().refusal_bytes += text.len();
        self.message.refusal.push_str(text);
    }

    pub(super) fn add_reasoning(&mut self, item_id: &ItemId, text: &str) {
        self.items.entry(item_id.clone()).or_default().text_bytes += text.len();
        self.message.reasoning.push_str(text);
    }

    pub(super) fn add_logprobs(&mut self, logprobs: &[TokenLogprob]) {
        self.message.logprobs.extend_from_slice(logprobs);
    }

    pub(super) fn logprobs(&self) -> &[TokenLogprob] {
        &self.message.logprobs
    }

    pub(super) fn add_citation(&mut self, citation: Value) {
        self.message.citations.push(citation);
    }

    /// Characters of the content before the text of this item.
    pub(super) fn starts_at(&self, item_id: &ItemId) -> usize {
        self.items.get(item_id).map_or(0, |item| item.starts_at)
    }

    /// The text and refusal of a finished item that no delta has brought.
    pub(super) fn missing(&self, item_id: &ItemId, text: &str, refusal: &str) -> (String, String) {
        let item = self.items.get(item_id).copied().unwrap_or_default();
        let rest = |whole: &str, received| whole.get(received..).unwrap_or_default().to_owned();
        (rest(text, item.text_bytes), rest(refusal, item.refusal_bytes))
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.message.calls.is_empty()
    }

    /// Adds a call. Returns its index, and whether it is a custom tool.
    pub(super) fn add_call(&mut self, call_id: &CallId, tool: &ToolRef) -> (usize, bool) {
        let (id, name) = (call_id.to_string(), tool.own_name().to_owned());
        let is_custom = tool.kind == ToolKind::Custom;
        let call = if is_custom {
            let custom = CalledCustomTool { name, input: String::new() };
            CompletionToolCall::Custom { id, custom }
        } else {
            let function = CalledFunction { name, arguments: String::new() };
            CompletionToolCall::Function { id, function }
        };
        self.message.calls.push((call_id.clone(), call));
        (self.message.calls.len() - 1, is_custom)
    }

    /// Adds to the arguments of a call. Returns its index, and whether it is a custom tool.
    pub(super) fn add_arguments(&mut self, call_id: &CallId, text: &str) -> Option<(usize, bool)> {
        let mut calls = self.message.calls.iter_mut().enumerate();
        let (index, (_, call)) = calls.find(|(_, (id, _))| id == call_id)?;
        call.arguments().push_str(text);
        Some((index, matches!(call, CompletionToolCall::Custom { .. })))
    }

    /// The rest of the finished arguments that no delta has brought, if there is any.
    pub(super) fn missing_arguments(&mut self, call_id: &CallId, whole: &str) -> Option<String> {
        let (_, call) = self.message.calls.iter_mut().find(|(id, _)| id == call_id)?;
        let rest = whole.strip_prefix(call.arguments().as_str())?;
        (!rest.is_empty()).then(|| rest.to_owned())
    }

    pub(super) fn whole(&self) -> CompletionMessage {
        let MessageContent { content, refusal, reasoning, citations, calls, .. } = &self.message;
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let content = some(content);
        let says_nothing = content.is_none() && refusal.is_empty() && calls.is_empty();
        CompletionMessage {
            role: "assistant",
            // Null means that there is a refusal or a call instead.
            content: content.or_else(|| says_nothing.then(String::new)),
            refusal: some(refusal),
            reasoning_content: some(reasoning),
            annotations: citations.clone(),
            tool_calls: calls.iter().map(|(_, call)| call.clone()).collect(),
        }
    }
}

/// A citation in the format of this dialect; `None` for other kinds of sources. Its positions are
/// shifted by `offset`, the start of its message in the content.
pub(super) fn url_citation(annotation: &Annotation, offset: usize) -> Option<Value> {
    let Annotation { kind, source: Value::Object(source) } = annotation else { return None };
    if kind != URL_CITATION {
        return None;
    }
    let mut citation: Map<String, Value> = source.clone();
    citation.remove("type");
    for name in ["start_index", "end_index"] {
        if let Some(place) = citation.get_mut(name)
            && let Some(index) = place.as_u64()
        {
            *place = json!(index + offset as u64);
        }
    }
    Some(json!({ "type": URL_CITATION, URL_CITATION: citation }))
}
