//! The items of a stream, by index and by ID.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{code::Code, finding::Notebook, item::Item};

/// All items so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    by_output_index: BTreeMap<u64, Item>,
    output_indices: BTreeMap<String, u64>,
    /// Index of the first item that was added in this stream.
    first_added: Option<u64>,
    calls: BTreeSet<String>,
    /// Calls whose output came first.
    outputs: BTreeSet<String>,
}

/// Items that may lack an ID according to the official types.
const NAMELESS: [&str; 2] = ["function_call", "custom_tool_call"];

impl Items {
    pub(super) fn len(&self) -> usize {
        self.by_output_index.len()
    }

    pub(super) fn has(&self, output_index: u64) -> bool {
        self.by_output_index.contains_key(&output_index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.by_output_index.values()
    }

    pub(super) fn named(&self, id: &str) -> Option<&Item> {
        self.by_output_index.get(self.output_indices.get(id)?)
    }

    pub(super) fn add(
        &mut self,
        output_index: u64,
        item: &Value,
        is_resumed: bool,
        notes: &mut Notebook,
    ) {
        // Items may have been added and done before the stream was resumed.
        let is_first_of_rest = is_resumed && self.first_added.is_none();
        let next = self.by_output_index.last_key_value().map_or(0, |(last, _)| last + 1);
        let next = (!is_first_of_rest).then_some(next);
        let is_taken = self.has(output_index);
        if is_taken {
            notes
                .tell(Code::ItemIndexReused, format!("there is an item at {output_index} already"));
        } else if let Some(next) = next.filter(|next| *next != output_index) {
            notes.tell(
                Code::ItemIndexGap,
                format!("the next item is {next}, and this is {output_index}"),
            );
        }
        let item = Item::added(output_index, item);
        match &item.id {
            Some(id) => {
                let owner = *self.output_indices.entry(id.clone()).or_insert(output_index);
                if owner != output_index {
                    notes.tell(Code::ItemIdReused, format!("there is an item `{id}` already"));
                }
            }
            None if item.kind.as_deref().is_some_and(|kind| NAMELESS.contains(&kind)) => {}
            None => notes.tell(Code::ItemIdMissing, "the item has no `id`"),
        }
        self.first_added.get_or_insert(output_index);
        self.by_output_index.insert(output_index, item);
    }

    /// Records which call an item is, or is the output of.
    pub(super) fn note_call(&mut self, item: &Value, notes: &mut Notebook) {
        let text = |key: &str| item.get(key).and_then(Value::as_str);
        let (Some(kind), Some(call_id)) = (text("type"), text("call_id")) else { return };
        if kind.ends_with("_output") {
            if !self.calls.contains(call_id) {
                self.outputs.insert(call_id.to_owned());
            }
            return;
        }
        if !self.calls.insert(call_id.to_owned()) {
            notes.tell(Code::CallIdReused, format!("there is a call `{call_id}` already"));
        }
        if self.outputs.contains(call_id) {
            notes.tell(Code::OutputBeforeCall, format!("the output of `{call_id}` came before it"));
        }
    }

    /// The item with this index and ID. In a resumed stream, an item that may have been added
    /// before is treated as added.
    pub(super) fn find(
        &mut self,
        output_index: u64,
        id: Option<&str>,
        is_resumed: bool,
        notes: &mut Notebook,
    ) -> Option<&mut Item> {
        let elsewhere =
            id.and_then(|id| self.output_indices.get(id)).copied().filter(|at| *at != output_index);
        let is_there = self.has(output_index);
        let may_be_earlier =
            is_resumed && self.first_added.is_none_or(|first| output_index < first);
        if !is_there && elsewhere.is_none() && may_be_earlier {
            self.by_output_index.insert(output_index, Item::adopted(output_index, id));
            if let Some(id) = id {
                self.output_indices.insert(id.to_owned(), output_index);
            }
        }
        let named = id.unwrap_or("?");
        let Some(item) = self.by_output_index.get_mut(&output_index) else {
            let (code, message) = match elsewhere {
                Some(at) => {
                    (Code::ItemIndexDiffers, format!("`{named}` is at {at}, not at {output_index}"))
                }
                None => (
                    Code::ItemUnknown,
                    format!("no item `{named}` has been added at {output_index}"),
                ),
            };
            notes.tell(code, message);
            return None;
        };
        match (item.id.as_deref(), id) {
            (Some(own), Some(id)) if own != id => {
                let message = format!("the item at {output_index} is `{own}`, not `{id}`");
                notes.tell(Code::ItemIdDiffers, message);
                None
            }
            _ => Some(item),
        }
    }
}
