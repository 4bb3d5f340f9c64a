//! Texts and reasoning of the model.

use serde::Serialize;
use turnwire_contract::{Annotation, Completeness, ItemId};

use super::{
    event::{AgUiEvent, Out, metadata},
    message_list::MessageList,
};
use crate::clean::Cleaner;

/// The texts that are open.
#[derive(Debug, Default)]
pub(super) struct Speech {
    messages: Vec<OpenText>,
    reasonings: Vec<OpenText>,
    /// The last message of the open turn, which later calls of the turn belong to.
    last_message: Option<ItemId>,
}

#[derive(Debug)]
struct OpenText {
    item_id: ItemId,
    /// What was sent.
    text: String,
    cleaner: Cleaner,
    annotations: Vec<Annotation>,
}

#[derive(Serialize)]
struct TextFacts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    annotations: &'a [Annotation],
}

/// The word for a text that is not complete.
pub(super) fn incomplete(completeness: Completeness) -> Option<&'static str> {
    match completeness {
        Completeness::Complete => None,
        Completeness::Cut => Some("cut"),
        Completeness::Superseded => Some("superseded"),
    }
}

impl OpenText {
    fn new(item_id: &ItemId) -> Self {
        let (text, cleaner) = (String::new(), Cleaner::new());
        Self { item_id: item_id.clone(), text, cleaner, annotations: Vec::new() }
    }

    /// Cleans the next piece. `None` if nothing of it is left: an empty delta says nothing.
    fn add(&mut self, text: &str) -> Option<String> {
        let delta = self.cleaner.clean(text).into_owned();
        self.text.push_str(&delta);
        Some(delta).filter(|delta| !delta.is_empty())
    }
}

impl Speech {
    pub(super) fn begin_turn(&mut self) {
        self.last_message = None;
    }

    /// The message that a call belongs to, if the turn has one.
    pub(super) fn last_message(&self) -> Option<&ItemId> {
        self.last_message.as_ref()
    }

    /// Opens a message, unless it is open.
    pub(super) fn open_message(&mut self, item_id: &ItemId, out: &mut Out) -> usize {
        if let Some(index) = index_of(&self.messages, item_id) {
            return index;
        }
        let message_id = item_id.to_string();
        out.send(AgUiEvent::TextMessageStart { message_id, role: "assistant" });
        self.last_message = Some(item_id.clone());
        self.messages.push(OpenText::new(item_id));
        self.messages.len() - 1
    }

    pub(super) fn add_text(&mut self, item_id: &ItemId, text: &str, out: &mut Out) {
        let index = self.open_message(item_id, out);
        let delta = self.messages.get_mut(index).and_then(|open| open.add(text));
        if let Some(delta) = delta {
            out.send(AgUiEvent::TextMessageContent { message_id: item_id.to_string(), delta });
        }
    }

    pub(super) fn annotate(&mut self, item_id: &ItemId, annotation: &Annotation) {
        if let Some(open) = self.messages.iter_mut().find(|open| open.item_id == *item_id) {
            open.annotations.push(annotation.clone());
        }
    }

    pub(super) fn finish_message(
        &mut self,
        item_id: &ItemId,
        completeness: Completeness,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let index = self.open_message(item_id, out);
        let OpenText { text, annotations, .. } = self.messages.remove(index);
        let facts = TextFacts { state: incomplete(completeness), annotations: &annotations };
        let has_facts = facts.state.is_some() || !annotations.is_empty();
        let metadata = has_facts.then(|| metadata(&facts));
        out.send(AgUiEvent::TextMessageEnd { message_id: item_id.to_string(), metadata });
        list.add_text(item_id.as_str(), "assistant", text);
    }

    /// Opens a reasoning, unless it is open.
    fn open_reasoning(&mut self, item_id: &ItemId, out: &mut Out) -> usize {
        if let Some(index) = index_of(&self.reasonings, item_id) {
            return index;
        }
        let message_id = item_id.to_string();
        out.send(AgUiEvent::ReasoningStart { message_id: message_id.clone() });
        out.send(AgUiEvent::ReasoningMessageStart { message_id, role: "reasoning" });
        self.reasonings.push(OpenText::new(item_id));
        self.reasonings.len() - 1
    }

    pub(super) fn add_reasoning(&mut self, item_id: &ItemId, text: &str, out: &mut Out) {
        let index = self.open_reasoning(item_id, out);
        let delta = self.reasonings.get_mut(index).and_then(|open| open.add(text));
        if let Some(delta) = delta {
            let message_id = item_id.to_string();
            out.send(AgUiEvent::ReasoningMessageContent { message_id, delta });
        }
    }

    /// Closes a reasoning. One without text has only encrypted content for the provider, and is not
    /// shown.
    pub(super) fn finish_reasoning(
        &mut self,
        item_id: &ItemId,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let Some(index) = index_of(&self.reasonings, item_id) else { return };
        let OpenText { text, .. } = self.reasonings.remove(index);
        let message_id = item_id.to_string();
        out.send(AgUiEvent::ReasoningMessageEnd { message_id: message_id.clone() });
        out.send(AgUiEvent::ReasoningEnd { message_id });
        list.add_text(item_id.as_str(), "reasoning", text);
    }

    /// Closes all that is open. A journal closes its texts itself, unless a part of it cannot be
    /// read.
    pub(super) fn close(&mut self, list: &mut MessageList, out: &mut Out) {
        while let Some(item_id) = self.reasonings.first().map(|open| open.item_id.clone()) {
            self.finish_reasoning(&item_id, list, out);
        }
        while let Some(item_id) = self.messages.first().map(|open| open.item_id.clone()) {
            self.finish_message(&item_id, Completeness::Cut, list, out);
        }
    }
}

fn index_of(open: &[OpenText], item_id: &ItemId) -> Option<usize> {
    open.iter().position(|open| open.item_id == *item_id)
}
