//! Texts, reasoning and sources.
//!
//! Clients refuse a delta or an end without its start. So a start is added where the journal lacks
//! one, and an end is sent only for what is open.

use std::collections::HashMap;

use serde_json::Value;
use turnwire_contract::{Annotation, Event, ItemId};

use super::chunk::{TextPart, UiChunk};
use crate::clean::{Cleaner, clean};

/// Media type of a cited file whose type is not known.
const UNKNOWN_MEDIA: &str = "application/octet-stream";

/// The texts and the reasoning of the open turn.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// Open parts, with what they need to be cleaned.
    open: HashMap<(Kind, ItemId), Cleaner>,
    /// All items of the turn, also closed ones.
    items: Vec<ItemId>,
    n_sources: u32,
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
            Event::AnnotationAdded { annotation, .. } => self.source(annotation, out),
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
        self.open.insert((kind, item_id.clone()), Cleaner::new());
        self.items.push(item_id.clone());
        let part = TextPart { id: item_id.to_string() };
        out.push(match kind {
            Kind::Text => UiChunk::TextStart(part),
            Kind::Reasoning => UiChunk::ReasoningStart(part),
        });
    }

    fn add(&mut self, kind: Kind, item_id: &ItemId, text: &str, out: &mut Vec<UiChunk>) {
        self.start(kind, item_id, out);
        let cleaner = self.open.entry((kind, item_id.clone())).or_default();
        let delta = cleaner.clean(text).into_owned();
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
        if self.open.remove(&(kind, item_id.clone())).is_some() {
            out.push(end_of(kind, item_id));
        }
    }

    /// Ends what is open. There is nothing unless an end cannot be read.
    pub(super) fn end_all(&mut self, out: &mut Vec<UiChunk>) {
        let mut open: Vec<(Kind, ItemId)> = self.open.drain().map(|(part, _)| part).collect();
        open.sort();
        out.extend(open.iter().map(|(kind, item_id)| end_of(*kind, item_id)));
    }

    fn source(&mut self, annotation: &Annotation, out: &mut Vec<UiChunk>) {
        let field = |name: &str| {
            let text = annotation.source.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(|text| clean(text).into_owned())
        };
        let source_id = format!("source_{}", self.n_sources + 1);
        let chunk = match (field("url"), field("filename").or_else(|| field("file_id"))) {
            (Some(url), _) => UiChunk::SourceUrl { source_id, url, title: field("title") },
            (None, Some(title)) => UiChunk::SourceDocument {
                source_id,
                media_type: UNKNOWN_MEDIA.to_owned(),
                title,
                filename: field("filename"),
            },
            (None, None) => return,
        };
        self.n_sources += 1;
        out.push(chunk);
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

fn end_of(kind: Kind, item_id: &ItemId) -> UiChunk {
    let part = TextPart { id: item_id.to_string() };
    match kind {
        Kind::Text => UiChunk::TextEnd(part),
        Kind::Reasoning => UiChunk::ReasoningEnd(part),
    }
}
