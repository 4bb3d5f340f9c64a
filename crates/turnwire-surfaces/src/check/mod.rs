//! The lifecycle checker: validates a stream of `/v1/responses` events, whoever sent it.
//!
//! It is next to the surface it checks, because both use the same official vocabulary. It does not
//! depend on the projection or its types, though: events are read as JSON, as a client of any
//! vendor reads them. It is a fold over the events, without I/O: the caller passes each event it
//! reads ([`Checker::event`]), and gets the [`Report`] at the end.
//!
//! A [`Finding`] is a fault if an official client fails on it or gets wrong information, and a note
//! otherwise. Additions of other vendors are accepted: unknown events are noted once per name, and
//! unknown items are only checked for what holds for all items. Reading order: `code` has all
//! findings, `vocabulary` the official events, `item` and `items` the state of a client, and
//! `final_checks` the checks at the end.

mod code;
mod final_checks;
mod finding;
mod item;
mod items;
mod vocabulary;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::{
    code::{Code, Level},
    finding::{Finding, Location, Report},
};
use self::{
    finding::Notebook,
    items::Items,
    vocabulary::{Phase, Subject, subject_of, wanted},
};

/// What is known of a stream before it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether the stream was resumed with `starting_after`: it need not start at the beginning,
    /// and items it continues are treated as added.
    pub is_resumed: bool,
    /// Whether it is sent as server-sent events, which may end with `[DONE]`.
    pub is_sse: bool,
}

/// Checks a stream, event by event.
#[derive(Debug, Default)]
pub struct Checker {
    options: CheckOptions,
    notes: Notebook,
    n_events: u64,
    /// The number of the event before.
    last_number: Option<u64>,
    is_unnumbered: bool,
    response: Seen,
    items: Items,
    /// Calls that ended according to our own events.
    finished_calls: BTreeSet<String>,
    /// Unknown names that were noted.
    unknown: BTreeSet<String>,
    /// Whether a turn was withdrawn with all its items.
    has_withdrawn: bool,
    has_done_marker: bool,
}

/// The response so far.
#[derive(Debug, Default)]
struct Seen {
    id: Option<String>,
    was_created: bool,
    was_in_progress: bool,
    has_error: bool,
    end: Option<Phase>,
}

impl Checker {
    /// Creates a checker.
    pub fn new(options: CheckOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Reports an event that is not JSON. `why` is the error of the parser.
    pub fn unreadable(&mut self, why: &str) {
        self.n_events += 1;
        self.notes.location = Location { event: Some(self.n_events), ..Location::default() };
        self.notes.tell(Code::NotJson, format!("this is not JSON: {why}"));
    }

    /// Handles the `[DONE]` at the end of server-sent events.
    pub fn done_marker(&mut self) {
        self.notes.location = Location::default();
        if self.has_done_marker {
            self.notes.tell(Code::AfterDoneMarker, "there is a second `[DONE]`");
        } else if self.response.end.is_none() && self.n_events > 0 {
            self.notes.tell(Code::DoneMarkerEarly, "`[DONE]` comes before the response has ended");
        }
        self.has_done_marker = true;
    }

    /// Checks the next event; `name` is that of its `event:` line, if it has one.
    pub fn event(&mut self, name: Option<&str>, event: &Value) {
        self.n_events += 1;
        self.notes.location = Location::of(self.n_events, event);
        if self.has_done_marker {
            self.notes.tell(Code::AfterDoneMarker, "an event follows `[DONE]`");
        }
        let Some(kind) = event.get("type").and_then(Value::as_str).filter(|_| event.is_object())
        else {
            self.notes.tell(Code::NotAnEvent, "this is not an object with a `type`");
            return;
        };
        if let Some(name) = name.filter(|name| *name != kind) {
            self.notes.tell(Code::NameDiffers, format!("`event:` says `{name}`"));
        }
        let subject = subject_of(kind);
        self.check_number(subject, event);
        self.check_beginning(subject);
        if self.response.end.is_some() && !is_end(subject) {
            self.notes.tell(Code::AfterEnd, "the response has ended");
        }
        if subject != Subject::Error && event.get("error").is_some_and(is_truthy) {
            self.notes.tell(Code::ErrorKey, "it has a top-level `error`");
        }
        if self.has_fields(subject, event) {
            self.read(subject, kind, event);
        }
    }

    /// The report, after the last event.
    pub fn finish(mut self) -> Report {
        self.notes.location = Location::default();
        self.check_last();
        let mut report = self.notes.report;
        report.events = self.n_events;
        report
    }

    fn check_number(&mut self, subject: Subject, event: &Value) {
        let Some(number) = event.get("sequence_number").and_then(Value::as_u64) else {
            let may_lack_it = matches!(subject, Subject::Unknown | Subject::Loose);
            // Reported once: if one event has no number, usually none has.
            if !may_lack_it && !std::mem::replace(&mut self.is_unnumbered, true) {
                self.notes.tell(Code::SequenceMissing, "it has no `sequence_number`");
            }
            return;
        };
        let last = self.last_number.replace(number);
        let (code, message) = match last {
            None if self.options.is_resumed || number == 0 => return,
            None => (Code::SequenceStart, format!("the first number is {number}, and not 0")),
            Some(last) if number == last + 1 => return,
            Some(last) if number == last => {
                (Code::SequenceRepeated, format!("the event before has the number {number}, too"))
            }
            Some(last) if number < last => {
                (Code::SequenceBackwards, format!("the number goes back from {last} to {number}"))
            }
            Some(last) => (
                Code::SequenceGap,
                format!("the number after {last} is {}, not {number}", last + 1),
            ),
        };
        self.notes.tell(code, message);
    }

    fn check_beginning(&mut self, subject: Subject) {
        let is_created = subject == Subject::Response(Phase::Created);
        let begins = self.n_events == 1 && !self.options.is_resumed;
        if begins && !is_created {
            self.notes.tell(Code::CreatedMissing, "the stream begins with something else");
        }
        if is_created && std::mem::replace(&mut self.response.was_created, true) {
            self.notes.tell(Code::CreatedTwice, "the response was created before");
        }
    }

    /// Whether the event has all required fields.
    fn has_fields(&mut self, subject: Subject, event: &Value) -> bool {
        let mut is_whole = true;
        for (field, want) in wanted(subject) {
            if !want.is_met_by(event.get(field)) {
                let message = format!("`{field}` should be {}", want.word());
                self.notes.tell(Code::FieldMissing, message);
                is_whole = false;
            }
        }
        is_whole
    }

    fn read(&mut self, subject: Subject, kind: &str, event: &Value) {
        let number = |key: &str| event.get(key).and_then(Value::as_u64).unwrap_or_default();
        let inner = |key: &str| event.get(key).unwrap_or(&Value::Null);
        match subject {
            Subject::Response(phase) => self.read_response(phase, inner("response")),
            Subject::Error => self.read_error(event),
            Subject::ItemAdded => {
                let is_resumed = self.options.is_resumed;
                let output_index = number("output_index");
                self.items.add(output_index, inner("item"), is_resumed, &mut self.notes);
                self.items.note_call(inner("item"), &mut self.notes);
            }
            Subject::ItemDone => self.finish_item(number("output_index"), inner("item")),
            Subject::PartAdded(list) => self.with_item(event, |item, notes| {
                item.add_part(list, number(list.index()), inner("part"), notes);
            }),
            Subject::PartDone(list) => self.with_item(event, |item, notes| {
                item.part_done(list, number(list.index()), inner("part"), notes);
            }),
            Subject::Delta(text) => {
                self.with_item(event, |item, notes| item.add_text(text, event, notes));
            }
            Subject::Whole(text) => {
                self.with_item(event, |item, notes| item.finish_text(text, event, notes));
            }
            Subject::Annotation => self.with_item(event, |item, notes| {
                item.annotate(number("content_index"), number("annotation_index"), notes);
            }),
            Subject::Life(call, step) => {
                self.with_item(event, |item, notes| item.live(call, step, notes));
            }
            Subject::Item => self.with_item(event, |_, _| {}),
            Subject::Loose => {}
            Subject::Own => self.read_own(kind, event),
            Subject::Unknown => {
                if self.unknown.insert(kind.to_owned()) {
                    self.notes.tell(Code::EventUnknown, format!("`{kind}` is not official"));
                }
            }
        }
    }

    fn read_response(&mut self, phase: Phase, response: &Value) {
        let id = response.get("id").and_then(Value::as_str);
        match (&self.response.id, id) {
            (_, None) => self.notes.tell(Code::FieldMissing, "`response.id` should be a text"),
            (Some(was), Some(id)) if was != id => {
                let message = format!("the response was `{was}` and is `{id}`");
                self.notes.tell(Code::ResponseIdChanged, message);
            }
            (None, Some(id)) => self.response.id = Some(id.to_owned()),
            (Some(_), Some(_)) => {}
        }
        let right: &[&str] = match phase {
            Phase::Created => &["queued", "in_progress"],
            Phase::Queued => &["queued"],
            Phase::InProgress => &["in_progress"],
            Phase::Completed => &["completed"],
            // There is no event for a cancelled response, so vendors use one of these.
            Phase::Failed => &["failed", "cancelled"],
            Phase::Incomplete => &["incomplete", "cancelled"],
        };
        let status = response.get("status").and_then(Value::as_str).unwrap_or("nothing");
        if !right.contains(&status) {
            let message =
                format!("the status is `{status}` and should be `{}`", right.join("` or `"));
            self.notes.tell(Code::StatusWrong, message);
        }
        match phase {
            Phase::Created => {}
            Phase::Queued => {
                if self.response.was_in_progress {
                    self.notes.tell(Code::StateBackwards, "it was in progress before");
                }
            }
            Phase::InProgress => {
                if std::mem::replace(&mut self.response.was_in_progress, true) {
                    self.check_snapshot(response);
                }
            }
            Phase::Completed | Phase::Failed | Phase::Incomplete => self.end(phase, response),
        }
    }

    /// Checks a repeated snapshot. After a recovery some servers send the response again, and
    /// helpers continue from the items it lists.
    fn check_snapshot(&mut self, response: &Value) {
        let n_listed = response.get("output").and_then(Value::as_array).map_or(0, Vec::len);
        let n_items = self.items.len();
        if n_listed < n_items && !self.options.is_resumed {
            let message = format!("it lists {n_listed} items, and {n_items} have been added");
            self.notes.tell(Code::SnapshotIncomplete, message);
        }
    }

    fn read_error(&mut self, event: &Value) {
        self.response.has_error = true;
        let flat = event.get("message");
        let nested = event.get("error").and_then(|error| error.get("message"));
        if !flat.or(nested).is_some_and(Value::is_string) {
            let message = "`message` or `error.message` should be a text";
            self.notes.tell(Code::FieldMissing, message);
        }
    }

    fn finish_item(&mut self, output_index: u64, last: &Value) {
        let id = last.get("id").and_then(Value::as_str);
        let is_resumed = self.options.is_resumed;
        let Some(item) = self.items.find(output_index, id, is_resumed, &mut self.notes) else {
            return;
        };
        if item.last.is_some() {
            self.notes.tell(Code::ItemDoneTwice, "it is done already");
        } else {
            item.done(last, &mut self.notes);
        }
    }

    /// Calls `act` with the item that an event is about, if it exists and is still open.
    fn with_item(&mut self, event: &Value, act: impl FnOnce(&mut item::Item, &mut Notebook)) {
        let output_index = event.get("output_index").and_then(Value::as_u64).unwrap_or_default();
        let id = event.get("item_id").and_then(Value::as_str);
        let is_resumed = self.options.is_resumed;
        let Some(item) = self.items.find(output_index, id, is_resumed, &mut self.notes) else {
            return;
        };
        if item.last.is_some() {
            self.notes.tell(Code::ItemClosed, "its item is done");
        } else {
            act(item, &mut self.notes);
        }
    }

    /// Checks an event of our extended profile. It may come before the item is added and after it
    /// is done.
    fn read_own(&mut self, kind: &str, event: &Value) {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let output_index = event.get("output_index").and_then(Value::as_u64);
        // The rest of a stream may refer to items that it does not contain.
        if let Some(output_index) =
            output_index.filter(|at| !self.options.is_resumed || self.items.has(*at))
        {
            self.items.find(output_index, text("item_id"), false, &mut self.notes);
        }
        if kind == "turnwire:turn_abandoned" {
            self.has_withdrawn = true;
        }
        let Some(call_id) = text("call_id").filter(|_| kind.starts_with("turnwire:tool_")) else {
            return;
        };
        if kind == "turnwire:tool_finished" {
            if !self.finished_calls.insert(call_id.to_owned()) {
                self.notes.tell(Code::CallEndedTwice, "the call has ended before");
            }
        } else if self.finished_calls.contains(call_id) {
            self.notes.tell(Code::CallAfterEnd, "the call has ended");
        }
    }
}

fn is_end(subject: Subject) -> bool {
    matches!(subject, Subject::Response(Phase::Completed | Phase::Failed | Phase::Incomplete))
}

/// Whether a value is truthy in a language that has such a notion.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
        Value::String(text) => !text.is_empty(),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
