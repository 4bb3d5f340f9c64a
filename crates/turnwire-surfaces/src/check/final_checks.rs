//! Checks at the end of a stream: the final response matches what was streamed, and there is one
//! end.

use serde_json::Value;

use super::{Checker, code::Code, items::Items, vocabulary::Phase};

/// A field that a server may change each time.
const ENCRYPTED_CONTENT: &str = "encrypted_content";

impl Checker {
    /// Handles the end of the response, whatever its status.
    pub(super) fn end(&mut self, phase: Phase, response: &Value) {
        if self.response.end.is_some() {
            self.notes.tell(Code::EndTwice, "the response has ended before");
            return;
        }
        self.response.end = Some(phase);
        if self.response.has_error && phase != Phase::Failed {
            let message = "an `error` came before, so this should be `response.failed`";
            self.notes.tell(Code::ErrorWithoutFailed, message);
        }
        let output = response.get("output").and_then(Value::as_array);
        let Some(output) = output else {
            self.notes.tell(Code::FieldMissing, "`response.output` should be a list");
            return;
        };
        self.check_open(phase);
        self.check_output(phase, output);
    }

    /// Reports items that are still open.
    fn check_open(&mut self, phase: Phase) {
        let (code, message) = if phase == Phase::Failed {
            (Code::ItemLeftOpen, "the response failed before it was done")
        } else {
            (Code::ItemNotDone, "the response ends before it is done")
        };
        for item in self.items.iter().filter(|item| item.last.is_none()) {
            self.notes.tell_of(code, item.name(), message);
        }
    }

    fn check_output(&mut self, phase: Phase, output: &[Value]) {
        let mut last_index = None;
        let mut listed = Vec::new();
        for (n, shown) in output.iter().enumerate() {
            let Some(item) = item_of(&self.items, n, shown) else {
                if !self.options.is_resumed {
                    let id = shown.get("id").and_then(Value::as_str).unwrap_or("?");
                    let message = format!("`{id}` was never added");
                    self.notes.tell(Code::OutputItemUnknown, message);
                }
                continue;
            };
            listed.push(item.output_index);
            if last_index.is_some_and(|last| item.output_index <= last) {
                let message = "it is listed behind an item that was added later";
                self.notes.tell_of(Code::OutputOrder, item.name(), message);
            }
            last_index = Some(item.output_index);
            if let Some(field) = item.last.as_ref().and_then(|last| difference(last, shown)) {
                let message = format!("`{field}` is not what it was when the item was done");
                self.notes.tell_of(Code::OutputItemDiffers, item.name(), message);
            }
        }
        // A failed response need not list its items, and a withdrawn turn is not part of it.
        if phase == Phase::Failed || self.has_withdrawn {
            return;
        }
        for item in self.items.iter().filter(|item| !listed.contains(&item.output_index)) {
            let status = item.last.as_ref().and_then(|last| last.get("status"));
            // An item that was cut off and replaced by another is rightly missing.
            let is_cut = status.and_then(Value::as_str) == Some("incomplete");
            if item.last.is_some() && !is_cut {
                let message = "it was done, and the final response does not have it";
                self.notes.tell_of(Code::OutputItemLost, item.name(), message);
            }
        }
    }

    /// Checks after the last event.
    pub(super) fn check_last(&mut self) {
        if self.n_events == 0 {
            // The rest of a stream may be empty.
            if !self.options.is_resumed {
                self.notes.tell(Code::StreamEmpty, "there is no event in it");
            }
            return;
        }
        if self.response.end.is_none() {
            if self.response.has_error {
                let message = "the stream ends after an `error`, without `response.failed`";
                self.notes.tell(Code::ErrorWithoutFailed, message);
            } else {
                self.notes.tell(Code::EndMissing, "the stream ends, and the response has not");
            }
        }
        if self.options.is_sse && !self.has_done_marker {
            self.notes.tell(Code::DoneMarkerMissing, "the stream ends without `[DONE]`");
        }
    }
}

/// The item with this ID, or at this index if it has no ID.
fn item_of<'a>(items: &'a Items, n: usize, shown: &Value) -> Option<&'a super::item::Item> {
    match shown.get("id").and_then(Value::as_str) {
        Some(id) => items.named(id),
        None => items.iter().nth(n),
    }
}

/// The first field in which two versions of an item differ. A field that only one of them has is
/// not a difference.
fn difference(one: &Value, other: &Value) -> Option<String> {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return None };
    let both = one.iter().filter_map(|(key, value)| Some((key, value, other.get(key)?)));
    both.filter(|(key, ..)| *key != ENCRYPTED_CONTENT)
        .find(|(_, one, other)| !agree(one, other))
        .map(|(key, ..)| key.clone())
}

fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(_), Value::Object(_)) => difference(one, other).is_none(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        _ => one == other,
    }
}
