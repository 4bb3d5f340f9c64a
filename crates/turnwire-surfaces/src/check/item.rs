//! The state of one item as a client sees it: its parts, its texts, its lifecycle.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    code::Code,
    finding::Notebook,
    vocabulary::{List, Step, Text, has_life},
};

/// Fields that never change between the first and the last event about an item.
const FACTS: [&str; 6] = ["id", "type", "role", "call_id", "name", "server_label"];
/// Values of `status` for an item that is not done.
const UNFINISHED: [&str; 6] =
    ["in_progress", "queued", "searching", "calling", "interpreting", "generating"];

/// An item so far.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) output_index: u64,
    pub(super) id: Option<String>,
    pub(super) kind: Option<String>,
    /// As it was added; `None` if that was before the stream was resumed.
    first: Option<Value>,
    /// Its final state.
    pub(super) last: Option<Value>,
    parts: BTreeMap<(List, u64), Part>,
    /// The arguments, the input or the code of a call.
    text: Writing,
    has_begun: bool,
    end: Option<Step>,
}

#[derive(Debug, Default)]
struct Part {
    kind: Option<String>,
    text: Writing,
    n_annotations: u64,
    is_done: bool,
    /// Whether it was added before the stream was resumed.
    is_adopted: bool,
}

/// A text that is streamed in deltas.
#[derive(Debug, Default)]
struct Writing {
    so_far: Option<String>,
    whole: Option<String>,
    /// Whether some of it was sent before the stream was resumed.
    is_partial: bool,
}

impl Writing {
    fn add(&mut self, delta: &str, notes: &mut Notebook) {
        if self.whole.is_some() {
            notes.tell(Code::DeltaAfterWhole, "a delta comes after its whole");
        }
        self.so_far.get_or_insert_default().push_str(delta);
    }

    fn finish(&mut self, whole: &str, notes: &mut Notebook) {
        if self.whole.is_some() {
            notes.tell(Code::WholeTwice, "the whole has been told before");
        } else if let Some(so_far) = self.so_far.as_deref().filter(|_| !self.is_partial)
            && so_far != whole
        {
            notes.tell(
                Code::DeltasDiffer,
                format!("the deltas add up to {}, the whole is {}", shown(so_far), shown(whole)),
            );
        }
        self.whole = Some(whole.to_owned());
    }

    fn lacks_whole(&self) -> bool {
        self.so_far.is_some() && self.whole.is_none()
    }
}

impl Item {
    pub(super) fn added(output_index: u64, first: &Value) -> Self {
        let text = |key: &str| first.get(key).and_then(Value::as_str).map(str::to_owned);
        let (id, kind, first) = (text("id"), text("type"), Some(first.clone()));
        Self { output_index, id, kind, first, ..Self::default() }
    }

    /// An item that was added before the stream was resumed.
    pub(super) fn adopted(output_index: u64, id: Option<&str>) -> Self {
        let text = Writing { is_partial: true, ..Writing::default() };
        Self { output_index, id: id.map(str::to_owned), has_begun: true, text, ..Self::default() }
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn name(&self) -> (Option<&str>, u64) {
        (self.id.as_deref(), self.output_index)
    }

    /// Whether events for items of `kind` may be about this one.
    fn is_a(&self, kind: &str, notes: &mut Notebook) -> bool {
        match self.kind.as_deref() {
            Some(own) if own != kind => {
                let message = format!("it is about a `{kind}`, and the item is a `{own}`");
                notes.tell(Code::ItemKindDiffers, message);
                false
            }
            Some(_) | None => true,
        }
    }

    pub(super) fn add_part(&mut self, list: List, index: u64, part: &Value, notes: &mut Notebook) {
        let highest = self.parts.keys().filter(|(other, _)| *other == list).map(|key| key.1).max();
        if self.parts.contains_key(&(list, index)) {
            notes.tell(Code::PartIndexReused, format!("there is a part at {index} already"));
        } else if let Some(next) =
            highest.map(|highest| highest + 1).or((!self.is_adopted()).then_some(0))
            && index != next
        {
            notes.tell(Code::PartIndexGap, format!("the next part is {next}, and this is {index}"));
        }
        let kind = part.get("type").and_then(Value::as_str).map(str::to_owned);
        self.parts.insert((list, index), Part { kind, ..Part::default() });
    }

    /// The part an event is about, if there is one and it is still open.
    fn part(&mut self, list: List, index: u64, notes: &mut Notebook) -> Option<&mut Part> {
        if self.is_adopted() {
            let text = Writing { is_partial: true, ..Writing::default() };
            let adopted = Part { text, is_adopted: true, ..Part::default() };
            self.parts.entry((list, index)).or_insert(adopted);
        }
        let Some(part) = self.parts.get_mut(&(list, index)) else {
            notes.tell(Code::PartUnknown, format!("no part {index} has been added"));
            return None;
        };
        if part.is_done {
            notes.tell(Code::PartClosed, format!("part {index} is done already"));
            return None;
        }
        Some(part)
    }

    pub(super) fn part_done(&mut self, list: List, index: u64, done: &Value, notes: &mut Notebook) {
        let Some(part) = self.part(list, index, notes) else { return };
        part.is_done = true;
        let kind = done.get("type").and_then(Value::as_str);
        if let (Some(own), Some(kind)) = (part.kind.as_deref(), kind)
            && own != kind
        {
            let message = format!("a part that was added as `{own}` is done as `{kind}`");
            notes.tell(Code::PartKindDiffers, message);
        }
        if part.text.lacks_whole() {
            notes.tell(Code::WholeMissing, "the part is done, and its whole was never told");
        }
        let whole = part.text.whole.as_deref();
        if let (Some(whole), Some(text)) = (whole, text_of_part(done))
            && whole != text
        {
            let message = format!("{} was streamed, the part has {}", shown(whole), shown(text));
            notes.tell(Code::ContentDiffers, message);
        }
    }

    pub(super) fn annotate(&mut self, part: u64, index: u64, notes: &mut Notebook) {
        let Some(part) = self.part(List::Content, part, notes) else { return };
        if part.is_adopted && part.n_annotations == 0 {
            part.n_annotations = index;
        }
        if index != part.n_annotations {
            let next = part.n_annotations;
            notes.tell(
                Code::AnnotationIndexGap,
                format!("the next annotation is {next}, and this is {index}"),
            );
        }
        part.n_annotations = index + 1;
    }

    pub(super) fn add_text(&mut self, text: Text, event: &Value, notes: &mut Notebook) {
        let delta = event.get("delta").and_then(Value::as_str).unwrap_or_default();
        if let Some(writing) = self.writing(text, event, notes) {
            writing.add(delta, notes);
        }
    }

    pub(super) fn finish_text(&mut self, text: Text, event: &Value, notes: &mut Notebook) {
        let (Text::OfPart(_, _, field) | Text::OfItem(_, field)) = text;
        let whole = event.get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(writing) = self.writing(text, event, notes) {
            writing.finish(whole, notes);
        }
    }

    fn writing(&mut self, text: Text, event: &Value, notes: &mut Notebook) -> Option<&mut Writing> {
        match text {
            Text::OfPart(list, kind, _) => {
                let index = event.get(list.index()).and_then(Value::as_u64)?;
                let part = self.part(list, index, notes)?;
                if let (Some(own), Some(kind)) = (part.kind.as_deref(), kind)
                    && own != kind
                {
                    let message = format!("it is about a `{kind}`, and the part is a `{own}`");
                    notes.tell(Code::PartKindDiffers, message);
                    return None;
                }
                Some(&mut part.text)
            }
            Text::OfItem(kind, field) => {
                if !self.is_a(kind, notes) {
                    return None;
                }
                if self.end.is_some() {
                    let message = format!("the call has ended, and its {field} still come");
                    notes.tell(Code::CallAfterEnd, message);
                }
                Some(&mut self.text)
            }
        }
    }

    /// Applies a step in the lifecycle of a call.
    pub(super) fn live(&mut self, kind: &str, step: Step, notes: &mut Notebook) {
        if !self.is_a(kind, notes) {
            return;
        }
        let is_end = match step {
            Step::Begun | Step::GoesOn => false,
            Step::Worked | Step::Failed => true,
        };
        if self.end.is_some() {
            let (code, message) = if is_end {
                (Code::CallEndedTwice, "the call has ended before")
            } else {
                (Code::CallAfterEnd, "the call has ended")
            };
            notes.tell(code, message);
        }
        if !self.has_begun && step != Step::Begun {
            notes.tell(Code::CallNotStarted, "the call was never in progress");
        }
        self.has_begun = true;
        if is_end {
            self.end = Some(step);
        }
    }

    /// Applies the final state of the item.
    pub(super) fn done(&mut self, last: &Value, notes: &mut Notebook) {
        self.check_facts(last, notes);
        let status = last.get("status").and_then(Value::as_str);
        if let Some(status) = status.filter(|status| UNFINISHED.contains(status)) {
            notes.tell(Code::ItemUnfinished, format!("the item is done, and is `{status}`"));
        }
        // An item that was cut off may lack its ends.
        if status != Some("incomplete") {
            for ((_, index), part) in &self.parts {
                if !part.is_done {
                    notes.tell(Code::PartNotDone, format!("part {index} is not done"));
                }
            }
            if self.text.lacks_whole() {
                notes.tell(Code::WholeMissing, "the item is done, and its whole was never told");
            }
        }
        if self.kind.is_none() {
            self.kind = last.get("type").and_then(Value::as_str).map(str::to_owned);
        }
        self.check_text(last, notes);
        self.check_parts(List::Content, last, notes);
        self.check_parts(List::Summary, last, notes);
        self.check_life(last, status, notes);
        self.last = Some(last.clone());
    }

    fn check_facts(&self, last: &Value, notes: &mut Notebook) {
        let Some(first) = &self.first else { return };
        for fact in FACTS {
            let Some(was) = first.get(fact).filter(|was| !was.is_null()) else { continue };
            let is = last.get(fact).unwrap_or(&Value::Null);
            if was != is {
                notes.tell(Code::ItemChanged, format!("`{fact}` was {was} and is {is}"));
            }
        }
    }

    fn check_text(&self, last: &Value, notes: &mut Notebook) {
        let field = match self.kind.as_deref() {
            Some("function_call" | "mcp_call") => "arguments",
            Some("custom_tool_call") => "input",
            Some("code_interpreter_call") => "code",
            Some(_) | None => return,
        };
        let text = last.get(field).and_then(Value::as_str);
        if let (Some(whole), Some(text)) = (self.text.whole.as_deref(), text)
            && whole != text
        {
            let message = format!("{} was streamed, the call has {}", shown(whole), shown(text));
            notes.tell(Code::ArgumentsDiffer, message);
        }
    }

    fn check_parts(&self, list: List, done: &Value, notes: &mut Notebook) {
        let Some(shown_parts) = done.get(list.field()).and_then(Value::as_array) else { return };
        let streamed = self.parts.iter().filter(|((other, _), _)| *other == list);
        let mut n_streamed = 0;
        for ((_, index), part) in streamed {
            n_streamed += 1;
            let content_index = usize::try_from(*index).unwrap_or(usize::MAX);
            let text = shown_parts.get(content_index).and_then(text_of_part);
            if let (Some(whole), Some(text)) = (part.text.whole.as_deref(), text)
                && whole != text
            {
                let was = shown(whole);
                let message =
                    format!("{was} was streamed as part {index}, the item has {}", shown(text));
                notes.tell(Code::ContentDiffers, message);
            }
        }
        let is_message = self.kind.as_deref() == Some("message");
        if is_message && !self.is_adopted() && n_streamed != shown_parts.len() {
            let n_shown = shown_parts.len();
            let message = format!("{n_streamed} parts were streamed, the message has {n_shown}");
            notes.tell(Code::ContentDiffers, message);
        }
    }

    fn check_life(&self, last: &Value, status: Option<&str>, notes: &mut Notebook) {
        let Some(kind) = self.kind.as_deref().filter(|kind| has_life(kind)) else { return };
        let is_of_server = kind.starts_with("mcp_");
        let has_error = last.get("error").is_some_and(|error| !error.is_null());
        let has_failed = status == Some("failed") || is_of_server && has_error;
        // A failed search has no official end but its item, and one that was cut off may have none.
        let must_end =
            if is_of_server { status != Some("incomplete") } else { status == Some("completed") };
        match self.end {
            Some(Step::Worked) if has_failed => {
                notes.tell(
                    Code::CallOutcomeDiffers,
                    "the call completed, and its item says it failed",
                );
            }
            Some(Step::Failed) if !has_failed => {
                notes.tell(
                    Code::CallOutcomeDiffers,
                    "the call failed, and its item does not say so",
                );
            }
            Some(_) => {}
            None if !must_end || self.is_adopted() => {}
            None if self.has_begun => {
                notes.tell(Code::CallNotEnded, "nothing said that the call had ended");
            }
            None => notes.tell(Code::CallNotStarted, "nothing told of the call but its item"),
        }
    }
}

fn text_of_part(part: &Value) -> Option<&str> {
    part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str)
}

/// The end of a text, which is where two of them usually differ.
fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    let n_chars = text.chars().count();
    if n_chars <= MAX_CHARS {
        return format!("{text:?}");
    }
    let end: String = text.chars().skip(n_chars - MAX_CHARS).collect();
    format!("{n_chars} characters ending in {end:?}")
}
