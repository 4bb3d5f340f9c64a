//! The facts of each call, by its ID.
//!
//! An event about a call names the call and what is new; the tool, its server and the arguments
//! were in earlier events. [`CallBook`] remembers them, so that every tool frame of every surface
//! can repeat them and clients need not.
//!
//! It also enforces the rule about calls that all surfaces share: **every end has a start**, there
//! is one of each, and nothing comes after the end. A call that ends without having been started
//! (an unknown tool, invalid arguments, a denied approval) starts right before it ends;
//! [`CallBook::note`] reports that.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};
use turnwire_contract::{
    CallId, Event, ItemId, RecordedEvent, RunRequest, Seq, Timestamp, ToolRef, any_event,
};

use crate::{clean::clean, partial_json::PartialJson, preview};

/// Name of a call whose name the model left out.
pub(crate) const UNNAMED: &str = "(unnamed)";

/// All calls of one run.
#[derive(Debug, Default)]
pub struct CallBook {
    request: Option<Arc<RunRequest>>,
    calls: HashMap<CallId, Call>,
    turn: u32,
    n_open: usize,
}

/// The facts of a call.
#[derive(Debug)]
pub struct Call {
    /// ID of the tool call.
    pub call_id: CallId,
    /// ID of the output item of the call.
    pub item_id: ItemId,
    /// The tool and its kind.
    pub tool: ToolRef,
    /// The turn in which the model made the call.
    pub turn: u32,
    /// The start of the call, if a tool started.
    pub started: Option<Started>,
    /// Whether it has ended.
    pub is_over: bool,
    arguments: Arguments,
    /// The arguments that the tool's spec marks as telling.
    telling: Vec<String>,
    /// The label given by the tool, or made from the complete arguments.
    label: String,
    /// Time of the tool's last report.
    heard_at: Option<Timestamp>,
}

/// The first start of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Seq of the event.
    pub seq: Seq,
    /// Time of the event.
    pub at: Timestamp,
}

/// What an event means for the start and end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEvent {
    /// Neither a start nor an end.
    Neither,
    /// The call starts.
    Began,
    /// The call ends.
    Ended,
    /// The call ends without having started: a surface shows both, the start first.
    BeganAndEnded,
}

#[derive(Debug)]
enum Arguments {
    Growing(Box<PartialJson>),
    Whole(String),
}

impl CallBook {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one event. All events have to be applied, in order.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    pub fn note(&mut self, recorded: &RecordedEvent) -> CallEvent {
        match &recorded.event {
            Event::RunQueued { request } => self.request = Some(Arc::clone(request)),
            Event::TurnStarted { turn } => {
                self.turn = *turn;
                self.n_open = 0;
            }
            Event::CallAnnounced { call_id, item_id, tool } => {
                self.announce(call_id, item_id, tool);
            }
            Event::ArgumentsAdded { call_id, text } => {
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.add_arguments(text);
                }
            }
            Event::ArgumentsFinished { call_id, arguments, .. } => {
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.finish_arguments(arguments);
                }
            }
            Event::ToolStarted { call_id, label, .. } => {
                return self.start(call_id, label, recorded);
            }
            any_event!(
                ToolPhase ToolProgressed ToolOutputAdded InputRequested InputResolved
                ToolRetried; call_id
            ) => {
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.heard_at = Some(recorded.at);
                }
            }
            Event::ApprovalResolved { call_id, arguments: Some(arguments), .. } => {
                if let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) {
                    call.replace_arguments(arguments);
                }
            }
            Event::ToolFinished { call_id, .. } => return self.finish(call_id),
            _ => {}
        }
        CallEvent::Neither
    }

    /// The facts of a call; `None` if it was never announced.
    pub fn get(&self, call_id: &CallId) -> Option<&Call> {
        self.calls.get(call_id)
    }

    /// The request of the run.
    pub fn request(&self) -> Option<&Arc<RunRequest>> {
        self.request.as_ref()
    }

    /// The latest turn; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Number of calls in the latest turn that have not ended. Calls that the client executes after
    /// the run do not count, because this run does not end them.
    pub fn n_open(&self) -> usize {
        self.n_open
    }

    fn announce(&mut self, call_id: &CallId, item_id: &ItemId, tool: &ToolRef) {
        let specs = self.request.as_ref().map_or(&[][..], |request| &request.tools);
        let spec = specs.iter().find(|spec| spec.name == tool.name);
        let call = Call {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            tool: tool.clone(),
            turn: self.turn,
            started: None,
            is_over: false,
            arguments: Arguments::Growing(Box::default()),
            telling: spec.map(|spec| spec.telling_arguments.clone()).unwrap_or_default(),
            label: String::new(),
            heard_at: None,
        };
        if self.calls.insert(call_id.clone(), call).is_none() && !is_for_client(tool) {
            self.n_open += 1;
        }
    }

    fn start(&mut self, call_id: &CallId, label: &str, recorded: &RecordedEvent) -> CallEvent {
        let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) else {
            return CallEvent::Neither;
        };
        if !label.is_empty() {
            call.label = preview::shortened(label, preview::LABEL_CHARS);
        }
        call.heard_at = Some(recorded.at);
        if call.started.is_some() {
            return CallEvent::Neither;
        }
        call.started = Some(Started { seq: recorded.seq, at: recorded.at });
        CallEvent::Began
    }

    fn finish(&mut self, call_id: &CallId) -> CallEvent {
        let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) else {
            return CallEvent::Neither;
        };
        call.is_over = true;
        if !is_for_client(&call.tool) {
            self.n_open = self.n_open.saturating_sub(1);
        }
        if call.started.is_some() { CallEvent::Ended } else { CallEvent::BeganAndEnded }
    }
}

impl Call {
    /// The tool's name, cleaned and never empty: a model may call a tool without a name.
    pub(crate) fn shown_name(&self) -> String {
        let name = clean(&self.tool.name);
        if name.is_empty() { UNNAMED.to_owned() } else { name.into_owned() }
    }

    /// The tool's display name: `server.name`, or the name alone.
    pub fn title(&self) -> String {
        match &self.tool.server {
            Some(server) => format!("{server}.{}", self.tool.own_name()),
            None => self.tool.name.clone(),
        }
    }

    /// The arguments in short form: as given by the tool once it has started, else by the rule of
    /// [`preview::label`], also while they are generated.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.arguments {
            Arguments::Growing(partial) if self.label.is_empty() => {
                Cow::Owned(preview::label(&self.telling, partial))
            }
            Arguments::Growing(_) | Arguments::Whole(_) => Cow::Borrowed(&self.label),
        }
    }

    /// The complete arguments as text, once they are closed.
    pub fn raw_arguments(&self) -> Option<&str> {
        match &self.arguments {
            Arguments::Growing(_) => None,
            Arguments::Whole(arguments) => Some(arguments),
        }
    }

    /// The arguments as data. Text that is not a JSON object becomes `invalid_arguments`, and no
    /// text is an empty object.
    pub fn arguments(&self) -> Map<String, Value> {
        let raw = match &self.arguments {
            Arguments::Growing(partial) => return partial.snapshot(),
            Arguments::Whole(raw) => raw.trim(),
        };
        if raw.is_empty() {
            return Map::new();
        }
        serde_json::from_str(raw).unwrap_or_else(|_| {
            let raw = Value::String(raw.to_owned());
            Map::from_iter([("invalid_arguments".to_owned(), raw)])
        })
    }

    /// How long the tool has been silent, `elapsed_ms` after its start.
    pub(crate) fn silent_ms(&self, elapsed_ms: u64, at: Timestamp) -> u64 {
        match (self.started, self.heard_at) {
            (Some(started), Some(heard_at)) if heard_at > started.at => {
                let silent = at.since(heard_at).as_millis();
                u64::try_from(silent).unwrap_or(u64::MAX).min(elapsed_ms)
            }
            _ => elapsed_ms,
        }
    }

    fn add_arguments(&mut self, text: &str) {
        match &mut self.arguments {
            Arguments::Growing(partial) => partial.push(text),
            Arguments::Whole(_) => {}
        }
    }

    /// Replaces the model's arguments by those of the user.
    fn replace_arguments(&mut self, arguments: &str) {
        let mut partial = PartialJson::default();
        partial.push(arguments);
        self.label = preview::label(&self.telling, &partial);
        self.arguments = Arguments::Whole(arguments.to_owned());
    }

    /// Keeps only the raw text from here on; the parser is dropped.
    fn finish_arguments(&mut self, arguments: &str) {
        let Arguments::Growing(partial) = &mut self.arguments else { return };
        if partial.n_bytes() == 0 {
            partial.push(arguments);
        }
        self.label = preview::label(&self.telling, partial);
        self.arguments = Arguments::Whole(arguments.to_owned());
    }
}

fn is_for_client(tool: &ToolRef) -> bool {
    tool.kind.is_run_by_client()
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
