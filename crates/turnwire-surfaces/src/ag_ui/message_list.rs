//! The messages of the thread as a client has them.
//!
//! The protocol cannot withdraw one message. A snapshot replaces them all, and what it leaves out
//! is gone. So after a withdrawn turn the client gets the messages it came with, and all messages
//! of this run but those of that turn.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{Content, Item, Role, RunId, RunRequest};

use crate::clean::clean;

/// The messages of a thread.
#[derive(Debug, Default)]
pub(super) struct MessageList {
    earlier: Vec<Value>,
    /// Messages of this run whose turn has ended.
    kept: Vec<ListedMessage>,
    /// Messages of the open turn.
    open: Vec<ListedMessage>,
    turn_is_open: bool,
}

/// A message, in the protocol's shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedMessage {
    id: String,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ListedCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ListedCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: ListedFunction,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ListedFunction {
    name: String,
    arguments: String,
}

impl ListedMessage {
    fn new(id: &str, role: &'static str) -> Self {
        let (id, tool_calls) = (id.to_owned(), Vec::new());
        Self { id, role, content: None, tool_calls, tool_call_id: None, metadata: None }
    }
}

impl MessageList {
    /// Starts with the messages that the client has.
    pub(super) fn begin(&mut self, earlier: Vec<Value>) {
        self.earlier = earlier;
    }

    pub(super) fn begin_turn(&mut self) {
        self.turn_is_open = true;
    }

    pub(super) fn keep_turn(&mut self) {
        self.turn_is_open = false;
        self.kept.append(&mut self.open);
    }

    /// Forgets the open turn. Returns whether there was anything to forget.
    pub(super) fn withdraw_turn(&mut self) -> bool {
        self.turn_is_open = false;
        !std::mem::take(&mut self.open).is_empty()
    }

    pub(super) fn add_text(&mut self, id: &str, role: &'static str, text: String) {
        let message = ListedMessage { content: Some(text), ..ListedMessage::new(id, role) };
        match self.current().iter_mut().find(|known| known.id == id) {
            // The calls of a message may come before its text has ended.
            Some(known) => known.content = message.content,
            None => self.current().push(message),
        }
    }

    pub(super) fn add_call(&mut self, parent: &str, call_id: &str, name: &str) {
        let function = ListedFunction { name: name.to_owned(), arguments: String::new() };
        let call = ListedCall { id: call_id.to_owned(), kind: "function", function };
        let list = self.current();
        if let Some(message) = list.iter_mut().find(|message| message.id == parent) {
            message.tool_calls.push(call);
        } else {
            let tool_calls = vec![call];
            list.push(ListedMessage { tool_calls, ..ListedMessage::new(parent, "assistant") });
        }
    }

    pub(super) fn set_arguments(&mut self, call_id: &str, arguments: &str) {
        let mut calls = self.current().iter_mut().flat_map(|message| &mut message.tool_calls);
        if let Some(call) = calls.find(|call| call.id == call_id) {
            arguments.clone_into(&mut call.function.arguments);
        }
    }

    pub(super) fn add_result(&mut self, id: &str, call_id: &str, content: &str, metadata: &Value) {
        self.current().push(ListedMessage {
            content: Some(content.to_owned()),
            tool_call_id: Some(call_id.to_owned()),
            metadata: Some(metadata.clone()),
            ..ListedMessage::new(id, "tool")
        });
    }

    /// All messages that are not withdrawn.
    pub(super) fn snapshot(&self) -> Vec<Value> {
        let kept = self.kept.iter().filter_map(|message| serde_json::to_value(message).ok());
        self.earlier.iter().cloned().chain(kept).collect()
    }

    fn current(&mut self) -> &mut Vec<ListedMessage> {
        if self.turn_is_open { &mut self.open } else { &mut self.kept }
    }
}

/// The messages of a request that came from another surface.
pub(super) fn messages_of(run_id: &RunId, request: &RunRequest) -> Vec<Value> {
    let entries = request.before.iter().cloned().chain(request.entries(run_id));
    let message = |id: &str, item: &Item| {
        let Item::Message { role, content } = item else { return None };
        let role = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let text = content.iter().map(text_of).collect();
        serde_json::to_value(ListedMessage { content: Some(text), ..ListedMessage::new(id, role) })
            .ok()
    };
    entries.filter_map(|entry| message(entry.id.as_str(), &entry.item)).collect()
}

fn text_of(content: &Content) -> String {
    match content {
        Content::Text { text } | Content::Refusal { text } => clean(text).into_owned(),
        Content::Image { .. } | Content::File { .. } => String::new(),
    }
}
