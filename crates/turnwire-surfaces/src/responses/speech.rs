//! Messages and reasoning, as items with parts.
//!
//! A part is open until the next one starts or the item is closed, so at most one part of an item
//! is open, and it is always the last.

use std::mem;

use serde_json::{Map, Value};
use turnwire_contract::{Annotation, Completeness, Event, ItemId};

use super::{
    event::{
        AnnotationFrame, PartFrame, RefusalDelta, RefusalDone, ResponseEvent, SummaryDelta,
        SummaryDone, SummaryPartFrame, TextDelta, TextDone,
    },
    item::{
        AssistantRole, ItemStatus, MessageItem, OutputContent, OutputItem, OutputText,
        ReasoningItem, Refusal, SummaryPart, TokenLogprob,
    },
    projection::{ItemState, ResponseWriter, Responses},
};

/// A reasoning item has one part.
const SUMMARY_INDEX: usize = 0;

impl Responses {
    /// Projects events about messages and reasoning.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    pub(super) fn tell_speech(&mut self, event: &Event) {
        match event {
            Event::MessageStarted { item_id } => {
                self.message(item_id);
            }
            Event::LogprobsAdded { logprobs, .. } => {
                self.writer.untold_logprobs.extend(logprobs.iter().map(TokenLogprob::from));
            }
            Event::TextAdded { item_id, text } => {
                if let Some(output_index) = self.message(item_id) {
                    self.writer.add_text(output_index, item_id, text);
                }
            }
            Event::RefusalAdded { item_id, text } => {
                if let Some(output_index) = self.message(item_id) {
                    self.writer.add_refusal(output_index, item_id, text);
                }
            }
            Event::AnnotationAdded { item_id, annotation } => {
                if let Some(output_index) = self.message(item_id) {
                    self.writer.annotate(output_index, item_id, annotation);
                }
            }
            Event::MessageFinished { item_id, text, refusal, completeness } => {
                if let Some(output_index) = self.message(item_id) {
                    self.writer.say_what_is_missing(output_index, item_id, text, refusal);
                    self.writer.close_message(output_index, item_id, *completeness);
                    self.item_states.insert(item_id.clone(), ItemState::Closed);
                }
            }
            Event::ReasoningAdded { item_id, text } => {
                if let Some(output_index) = self.reasoning(item_id) {
                    self.writer.add_thought(output_index, item_id, text);
                }
            }
            Event::ReasoningFinished { item_id, text, encrypted_content, completeness } => {
                if let Some(output_index) = self.reasoning(item_id) {
                    self.writer.think_what_is_missing(output_index, item_id, text);
                    self.writer.close_reasoning(
                        output_index,
                        item_id,
                        encrypted_content.as_deref(),
                        *completeness,
                    );
                    self.item_states.insert(item_id.clone(), ItemState::Closed);
                }
            }
            _ => {}
        }
    }

    /// Closes whatever the run left open. The engine leaves nothing open; a journal that lost its
    /// end might.
    pub(super) fn close_speech(&mut self) {
        let mut open: Vec<(usize, ItemId)> = Vec::new();
        for (item_id, state) in &mut self.item_states {
            if let ItemState::Open(output_index) = *state {
                open.push((output_index, item_id.clone()));
                *state = ItemState::Closed;
            }
        }
        open.sort();
        for (output_index, item_id) in open {
            self.writer.close_message(output_index, &item_id, Completeness::Cut);
            self.writer.close_reasoning(output_index, &item_id, None, Completeness::Cut);
            self.writer.close_list(output_index, &item_id);
        }
    }

    /// Index of an open message. Adds the message if it is new; `None` if it is closed.
    fn message(&mut self, item_id: &ItemId) -> Option<usize> {
        let new = |id| {
            let (status, role) = (ItemStatus::InProgress, AssistantRole::Assistant);
            OutputItem::Message(MessageItem { id, status, role, content: Vec::new() })
        };
        self.opened(item_id, new)
    }

    fn reasoning(&mut self, item_id: &ItemId) -> Option<usize> {
        let new = |id| {
            let (status, summary) = (ItemStatus::InProgress, Vec::new());
            OutputItem::Reasoning(ReasoningItem { id, status, summary, encrypted_content: None })
        };
        self.opened(item_id, new)
    }

    /// Index of an open item. Adds the item if it is new; `None` if it is closed.
    pub(super) fn opened(
        &mut self,
        item_id: &ItemId,
        new: impl FnOnce(ItemId) -> OutputItem,
    ) -> Option<usize> {
        match self.item_states.get(item_id) {
            Some(ItemState::Open(output_index)) => Some(*output_index),
            Some(ItemState::Closed) => None,
            None => {
                let output_index = self.writer.add_item(new(item_id.clone()));
                self.item_states.insert(item_id.clone(), ItemState::Open(output_index));
                Some(output_index)
            }
        }
    }
}

impl ResponseWriter {
    fn message_at(&mut self, output_index: usize) -> Option<&mut MessageItem> {
        let Some(OutputItem::Message(message)) = self.response.output.get_mut(output_index) else {
            return None;
        };
        Some(message)
    }

    fn add_text(&mut self, output_index: usize, item_id: &ItemId, text: &str) {
        let Some(content_index) = self.text_part(output_index, item_id) else { return };
        let logprobs = mem::take(&mut self.untold_logprobs);
        let Some(part) = self.last_text(output_index) else { return };
        part.text.push_str(text);
        part.logprobs.extend(logprobs.iter().cloned());
        self.send(ResponseEvent::TextDelta(TextDelta {
            item_id: item_id.clone(),
            output_index,
            content_index,
            delta: text.to_owned(),
            logprobs,
        }));
    }

    fn add_refusal(&mut self, output_index: usize, item_id: &ItemId, text: &str) {
        let Some(content_index) = self.refusal_part(output_index, item_id) else { return };
        let parts = self.message_at(output_index).map(|message| &mut message.content);
        if let Some(OutputContent::Refusal(part)) = parts.and_then(|parts| parts.last_mut()) {
            part.refusal.push_str(text);
        }
        self.send(ResponseEvent::RefusalDelta(RefusalDelta {
            item_id: item_id.clone(),
            output_index,
            content_index,
            delta: text.to_owned(),
        }));
    }

    fn annotate(&mut self, output_index: usize, item_id: &ItemId, annotation: &Annotation) {
        let Some(content_index) = self.text_part(output_index, item_id) else { return };
        let Some(part) = self.last_text(output_index) else { return };
        let annotation = wire_annotation(annotation);
        let annotation_index = part.annotations.len();
        part.annotations.push(annotation.clone());
        self.send(ResponseEvent::AnnotationAdded(AnnotationFrame {
            item_id: item_id.clone(),
            output_index,
            content_index,
            annotation_index,
            annotation,
        }));
    }

    fn last_text(&mut self, output_index: usize) -> Option<&mut OutputText> {
        match self.message_at(output_index)?.content.last_mut()? {
            OutputContent::OutputText(part) => Some(part),
            OutputContent::Refusal(_) => None,
        }
    }

    /// Index of the open text part. Adds one if another kind of part is open, or none.
    fn text_part(&mut self, output_index: usize, item_id: &ItemId) -> Option<usize> {
        let content = &self.message_at(output_index)?.content;
        match content.last() {
            Some(OutputContent::OutputText(_)) => Some(content.len() - 1),
            Some(OutputContent::Refusal(_)) | None => self.add_part(
                output_index,
                item_id,
                OutputContent::OutputText(OutputText::default()),
            ),
        }
    }

    fn refusal_part(&mut self, output_index: usize, item_id: &ItemId) -> Option<usize> {
        let content = &self.message_at(output_index)?.content;
        match content.last() {
            Some(OutputContent::Refusal(_)) => Some(content.len() - 1),
            Some(OutputContent::OutputText(_)) | None => {
                self.add_part(output_index, item_id, OutputContent::Refusal(Refusal::default()))
            }
        }
    }

    fn add_part(
        &mut self,
        output_index: usize,
        item_id: &ItemId,
        part: OutputContent,
    ) -> Option<usize> {
        self.close_part(output_index, item_id);
        let content = &mut self.message_at(output_index)?.content;
        let content_index = content.len();
        content.push(part.clone());
        let item_id = item_id.clone();
        let frame = PartFrame { item_id, output_index, content_index, part };
        self.send(ResponseEvent::PartAdded(frame));
        Some(content_index)
    }

    /// Closes the last part, if there is one.
    fn close_part(&mut self, output_index: usize, item_id: &ItemId) {
        let content = self.message_at(output_index).map(|message| &message.content);
        let Some((part, content_index)) =
            content.and_then(|content| Some((content.last()?.clone(), content.len() - 1)))
        else {
            return;
        };
        match part.clone() {
            OutputContent::OutputText(OutputText { text, logprobs, .. }) => {
                self.send(ResponseEvent::TextDone(TextDone {
                    item_id: item_id.clone(),
                    output_index,
                    content_index,
                    text,
                    logprobs,
                }));
            }
            OutputContent::Refusal(Refusal { refusal }) => {
                let item_id = item_id.clone();
                let done = RefusalDone { item_id, output_index, content_index, refusal };
                self.send(ResponseEvent::RefusalDone(done));
            }
        }
        let item_id = item_id.clone();
        let frame = PartFrame { item_id, output_index, content_index, part };
        self.send(ResponseEvent::PartDone(frame));
    }

    /// Sends the whole text of a message that was finished without having been streamed.
    fn say_what_is_missing(
        &mut self,
        output_index: usize,
        item_id: &ItemId,
        text: &str,
        refusal: &str,
    ) {
        let Some(message) = self.message_at(output_index) else { return };
        let has = |wanted: fn(&OutputContent) -> bool| message.content.iter().any(wanted);
        let has_text = has(|part| matches!(part, OutputContent::OutputText(_)));
        let has_refusal = has(|part| matches!(part, OutputContent::Refusal(_)));
        if !has_text && !text.is_empty() {
            self.add_text(output_index, item_id, text);
        }
        if !has_refusal && !refusal.is_empty() {
            self.add_refusal(output_index, item_id, refusal);
        }
    }

    fn close_message(&mut self, output_index: usize, item_id: &ItemId, completeness: Completeness) {
        if self.message_at(output_index).is_none() {
            return;
        }
        self.close_part(output_index, item_id);
        if let Some(message) = self.message_at(output_index) {
            message.status = completeness.into();
        }
        self.item_done(output_index);
    }
}

impl ResponseWriter {
    fn reasoning_at(&mut self, output_index: usize) -> Option<&mut ReasoningItem> {
        let Some(OutputItem::Reasoning(reasoning)) = self.response.output.get_mut(output_index)
        else {
            return None;
        };
        Some(reasoning)
    }

    fn add_thought(&mut self, output_index: usize, item_id: &ItemId, text: &str) {
        let Some(reasoning) = self.reasoning_at(output_index) else { return };
        if reasoning.summary.is_empty() {
            let part = SummaryPart::SummaryText { text: String::new() };
            reasoning.summary.push(part.clone());
            self.send_summary_part(ResponseEvent::SummaryPartAdded, output_index, item_id, part);
        }
        let parts = self.reasoning_at(output_index).map(|reasoning| &mut reasoning.summary);
        if let Some(SummaryPart::SummaryText { text: so_far }) = parts.and_then(|p| p.last_mut()) {
            so_far.push_str(text);
        }
        self.send(ResponseEvent::SummaryDelta(SummaryDelta {
            item_id: item_id.clone(),
            output_index,
            summary_index: SUMMARY_INDEX,
            delta: text.to_owned(),
        }));
    }

    fn think_what_is_missing(&mut self, output_index: usize, item_id: &ItemId, text: &str) {
        let is_silent =
            self.reasoning_at(output_index).is_some_and(|reasoning| reasoning.summary.is_empty());
        if is_silent && !text.is_empty() {
            self.add_thought(output_index, item_id, text);
        }
    }

    fn close_reasoning(
        &mut self,
        output_index: usize,
        item_id: &ItemId,
        encrypted_content: Option<&str>,
        completeness: Completeness,
    ) {
        let encrypted_content =
            encrypted_content.filter(|_| self.shows_encrypted_content()).map(str::to_owned);
        let Some(reasoning) = self.reasoning_at(output_index) else { return };
        reasoning.status = completeness.into();
        reasoning.encrypted_content = encrypted_content;
        let part = reasoning.summary.last().cloned();
        if let Some(part) = part {
            let SummaryPart::SummaryText { text } = part.clone();
            self.send(ResponseEvent::SummaryDone(SummaryDone {
                item_id: item_id.clone(),
                output_index,
                summary_index: SUMMARY_INDEX,
                text,
            }));
            self.send_summary_part(ResponseEvent::SummaryPartDone, output_index, item_id, part);
        }
        self.item_done(output_index);
    }

    fn send_summary_part(
        &mut self,
        frame: impl FnOnce(SummaryPartFrame) -> ResponseEvent,
        output_index: usize,
        item_id: &ItemId,
        part: SummaryPart,
    ) {
        let (item_id, summary_index) = (item_id.clone(), SUMMARY_INDEX);
        self.send(frame(SummaryPartFrame { item_id, output_index, summary_index, part }));
    }
}

/// The fields of the source, with its kind as their `type`.
fn wire_annotation(annotation: &Annotation) -> Value {
    let mut wire = Map::from_iter([("type".to_owned(), annotation.kind.clone().into())]);
    if let Value::Object(source) = &annotation.source {
        wire.extend(source.iter().map(|(key, value)| (key.clone(), value.clone())));
        wire.insert("type".to_owned(), annotation.kind.clone().into());
    }
    Value::Object(wire)
}
