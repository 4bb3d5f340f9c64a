//! Texts, reasoning and sources.
//!
//! Clients refuse a delta or an end without its start. So a start is added where the journal lacks
//! one, and an end is sent only for what is open.

use std::collections::HashMap;

use turnwire_contract::{Annotation, Event, ItemId};

use super::{
    chunk::{TextPart, UiChunk},
    citation::Citation,
};
use crate::clean::Cleaner;

/// The texts and the reasoning of the open turn.
#[derive(Debug, Default)]
pub(super) struct Speech {
    open: HashMap<(Kind, ItemId), OpenPart>,
    /// All items of the turn, also closed ones.
    items: Vec<ItemId>,
    n_sources: u32,
}

/// A part that has started and not ended.
#[derive(Debug, Default)]
struct OpenPart {
    cleaner: Cleaner,
    citations: Vec<Citation>,
}

/// Kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Text,
    Reasoning,
}

impl Speech {
    /// The chunks of an event about a text, reasoning or a source.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the projection matches every event")]
    pub(super) fn project(&mut self, event: &Event, out: &mut Vec<UiChunk>) {
        match event {
            Event::MessageStarted { item_id } => self.start(Kind::Text, item_id, out),
            // A refusal is sent like any text, because the user has to see it.
            Event::TextAdded { item_id, text } | Event::RefusalAdded { item_id, text } => {
                self.add(Kind::Text, item_id, text, out);
            }
            Event::AnnotationAdded { item_id, annotation } => {
                self.cite(item_id, annotation, out);
            }
            Event::MessageFinished { item_id, .. } => self.end(Kind::Text, item_id, out),
            Event::ReasoningAdded { item_id, text } => {
                self.add(Kind::Reasoning, item_id, text, out);
            }
            Event::ReasoningFinished { item_id, .. } => self.end(Kind::Reasoning, item_id, out),
            _ => {}
        }
    }

    fn start(&mut self, kind: Kind, item_id: &ItemId, out: &mut Vec<UiChunk>) {
        if self.open.contains_key(&(kind, item_id.clone())) {
            return;
        }
        self.open.insert((kind, item_id.clone()), OpenPart::default());
        self.items.push(item_id.clone());
        let part = TextPart { id: item_id.to_string() };
        out.push(match kind {
            Kind::Text => UiChunk::TextStart(part),
            Kind::Reasoning => UiChunk::ReasoningStart(part),
        });
    }

    fn add(&mut self, kind: Kind, item_id: &ItemId, text: &str, out: &mut Vec<UiChunk>) {
        self.start(kind, item_id, out);
        let part = self.open.entry((kind, item_id.clone())).or_default();
        let delta = part.cleaner.clean(text).into_owned();
        if delta.is_empty() {
            return;
        }
        let id = item_id.to_string();
        out.push(match kind {
            Kind::Text => UiChunk::TextDelta { id, delta },
            Kind::Reasoning => UiChunk::ReasoningDelta { id, delta },
        });
    }

    fn end(&mut self, kind: Kind, item_id: &ItemId, out: &mut Vec<UiChunk>) {
        if let Some(part) = self.open.remove(&(kind, item_id.clone())) {
            out.push(end_of(kind, item_id, part));
        }
    }

    /// Ends what is open. There is nothing unless an end cannot be read.
    pub(super) fn end_all(&mut self, out: &mut Vec<UiChunk>) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        out.extend(open.into_iter().map(|((kind, item_id), part)| end_of(kind, &item_id, part)));
    }

    fn cite(&mut self, item_id: &ItemId, annotation: &Annotation, out: &mut Vec<UiChunk>) {
        let id = format!("source_{}", self.n_sources + 1);
        let Some(citation) = Citation::read(annotation, id) else { return };
        self.n_sources += 1;
        out.push(UiChunk::of_source(&citation.source));
        if let Some(part) = self.open.get_mut(&(Kind::Text, item_id.clone())) {
            part.citations.push(citation);
        }
    }

    /// Forgets the items of the last turn.
    pub(super) fn start_turn(&mut self) {
        self.items.clear();
    }

    /// The items of the turn so far.
    pub(super) fn take_items(&mut self) -> Vec<ItemId> {
        std::mem::take(&mut self.items)
    }
}

fn end_of(kind: Kind, item_id: &ItemId, part: OpenPart) -> UiChunk {
    let id = item_id.to_string();
    match kind {
        Kind::Text => UiChunk::TextEnd { id, citations: part.citations },
        Kind::Reasoning => UiChunk::ReasoningEnd(TextPart { id }),
    }
}
