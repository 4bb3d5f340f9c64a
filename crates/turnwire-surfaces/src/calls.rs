//! The facts of each call, by its id.
//!
//! An event about a call names the call and says what is new; which tool it is, on which
//! server, with what arguments, was said before. The book remembers, so that every tool frame
//! of every surface can repeat it and no client has to.
//!
//! It also keeps the one rule about calls that all surfaces share: **every end has a start**,
//! there is one of each, and nothing comes after the end. A call that ends without having been
//! started (an unknown tool, arguments that do not fit, a person who said no) begins right
//! before it ends; [`CallBook::note`] says so.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};
use turnwire_contract::{CallId, Event, ItemId, Recorded, RunRequest, Seq, Timestamp, ToolRef};

use crate::{partial_json::PartialJson, preview};

/// All calls of one run.
#[derive(Debug, Default)]
pub struct CallBook {
    request: Option<Arc<RunRequest>>,
    calls: HashMap<CallId, Call>,
    turn: u32,
    n_open: usize,
}

/// What is known about a call.
#[derive(Debug)]
pub struct Call {
    /// The call.
    pub call_id: CallId,
    /// The output item that stands for it.
    pub item_id: ItemId,
    /// Which tool, and of what kind.
    pub tool: ToolRef,
    /// The turn that asked for it.
    pub turn: u32,
    /// When a tool began to work on it, if one did.
    pub started: Option<Started>,
    /// Whether it is over.
    pub is_over: bool,
    arguments: Arguments,
    /// Which arguments the tool's spec calls telling.
    telling: Vec<String>,
    /// The label in the tool's own words, or from the whole arguments.
    label: String,
    /// When the tool last said anything.
    heard_at: Option<Timestamp>,
}

/// The first start of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Its place in the journal.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
}

/// What an event means for the life of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallNews {
    /// It neither begins nor ends here.
    Neither,
    /// It begins.
    Began,
    /// It ends.
    Ended,
    /// It ends without having begun: a surface shows both, the start first.
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

    /// Takes note of one event. Every event has to come by here, in order.
    pub fn note(&mut self, recorded: &Recorded) -> CallNews {
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
            Event::ToolPhase { call_id, .. }
            | Event::ToolProgressed { call_id, .. }
            | Event::ToolOutputAdded { call_id, .. }
            | Event::InputRequested { call_id, .. }
            | Event::InputResolved { call_id, .. }
            | Event::ToolRetried { call_id, .. } => {
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
            Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::TurnAbandoned { .. }
            | Event::TurnFinished { .. }
            | Event::MessageStarted { .. }
            | Event::TextAdded { .. }
            | Event::RefusalAdded { .. }
            | Event::AnnotationAdded { .. }
            | Event::MessageFinished { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. }
            | Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::RunFinished { .. } => {}
        }
        CallNews::Neither
    }

    /// What is known about a call; nothing if it was never announced.
    pub fn get(&self, call_id: &CallId) -> Option<&Call> {
        self.calls.get(call_id)
    }

    /// What the run was asked to do.
    pub fn request(&self) -> Option<&Arc<RunRequest>> {
        self.request.as_ref()
    }

    /// The latest turn; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// How many calls of the latest turn have no end yet. Calls that the client carries out
    /// after the run do not count: this run will not end them.
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

    fn start(&mut self, call_id: &CallId, label: &str, recorded: &Recorded) -> CallNews {
        let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) else {
            return CallNews::Neither;
        };
        if !label.is_empty() {
            call.label = preview::shortened(label, preview::LABEL_CHARS);
        }
        call.heard_at = Some(recorded.at);
        if call.started.is_some() {
            return CallNews::Neither;
        }
        call.started = Some(Started { seq: recorded.seq, at: recorded.at });
        CallNews::Began
    }

    fn finish(&mut self, call_id: &CallId) -> CallNews {
        let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) else {
            return CallNews::Neither;
        };
        call.is_over = true;
        if !is_for_client(&call.tool) {
            self.n_open = self.n_open.saturating_sub(1);
        }
        if call.started.is_some() { CallNews::Ended } else { CallNews::BeganAndEnded }
    }
}

impl Call {
    /// The tool as people read it: `server.name`, or the name alone.
    pub fn title(&self) -> String {
        match &self.tool.server {
            Some(server) => format!("{server}.{}", self.tool.own_name()),
            None => self.tool.name.clone(),
        }
    }

    /// The arguments in a few words: what the tool calls them once it has started, else by the
    /// rule of [`preview::label`], also while they are being written.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.arguments {
            Arguments::Growing(partial) if self.label.is_empty() => {
                Cow::Owned(preview::label(&self.telling, partial))
            }
            Arguments::Growing(_) | Arguments::Whole(_) => Cow::Borrowed(&self.label),
        }
    }

    /// All of the arguments as they were written, once they are closed.
    pub fn raw_arguments(&self) -> Option<&str> {
        match &self.arguments {
            Arguments::Growing(_) => None,
            Arguments::Whole(arguments) => Some(arguments),
        }
    }

    /// The arguments as data. What is not a JSON object is shown as `invalid_arguments`, and
    /// no text at all is an empty object.
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

    /// How long the tool has said nothing, `elapsed_ms` into its work.
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

    /// A person has put other arguments in the place of the model's.
    fn replace_arguments(&mut self, arguments: &str) {
        let mut partial = PartialJson::default();
        partial.push(arguments);
        self.label = preview::label(&self.telling, &partial);
        self.arguments = Arguments::Whole(arguments.to_owned());
    }

    /// From here on the raw text is enough; the parts are let go.
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
