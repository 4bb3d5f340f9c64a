//! Builds a run as a list of events, for the tests of this crate.
//!
//! Every event is a tenth of a second after the one before it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use turnwire_contract::{
    CallId, Completeness, Event, Finish, Item, ItemId, RecordedEvent, RunId, RunOutcome,
    RunRequest, Seq, Timestamp, ToolKind, ToolOutcome, ToolOutput, ToolRef, ToolSpec, Usage,
};

use crate::Projection;

/// A journal being built.
#[derive(Debug, Default)]
pub(crate) struct Story {
    events: Vec<RecordedEvent>,
    micros: i64,
    said: String,
    refused: String,
    n_messages: u32,
    turn: u32,
}

pub(crate) fn request() -> RunRequest {
    RunRequest::new("test", vec![Item::user("What is 5 times 4?")])
}

pub(crate) fn succeeded(text: &str) -> ToolOutcome {
    ToolOutcome::Succeeded { output: ToolOutput::text(text) }
}

pub(crate) fn failed(message: &str) -> ToolOutcome {
    ToolOutcome::Failed { failure: turnwire_contract::Failure::new("tool_failed", message) }
}

impl Story {
    pub(crate) fn new() -> Self {
        Self::of(request())
    }

    pub(crate) fn of(request: RunRequest) -> Self {
        Self::default()
            .then(Event::RunQueued { request: Arc::new(request) })
            .then(Event::RunStarted)
    }

    pub(crate) fn with_tools(tools: Vec<ToolSpec>) -> Self {
        let tools = tools.into_iter().map(Arc::new).collect();
        Self::of(RunRequest { tools, ..request() })
    }

    pub(crate) fn then(mut self, event: Event) -> Self {
        self.micros += 100_000;
        let seq = Seq(self.events.len() as u64 + 1);
        let at = Timestamp::from_micros(self.micros);
        self.events.push(RecordedEvent { run_id: RunId::new("run_1"), seq, at, event });
        self
    }

    /// Adds time to the tenth of a second.
    pub(crate) fn wait_ms(mut self, ms: i64) -> Self {
        self.micros += ms * 1000;
        self
    }

    pub(crate) fn turn(mut self) -> Self {
        self.turn += 1;
        let turn = self.turn;
        self.then(Event::TurnStarted { turn })
    }

    pub(crate) fn turn_done(self, finish: Finish) -> Self {
        let turn = self.turn;
        self.then(Event::TurnFinished { turn, finish, usage: Usage::default() })
    }

    pub(crate) fn message(mut self) -> Self {
        self.n_messages += 1;
        let item_id = self.item();
        self.then(Event::MessageStarted { item_id })
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.said.push_str(text);
        let item_id = self.item();
        self.then(Event::TextAdded { item_id, text: text.to_owned() })
    }

    pub(crate) fn refusal(mut self, text: &str) -> Self {
        self.refused.push_str(text);
        let item_id = self.item();
        self.then(Event::RefusalAdded { item_id, text: text.to_owned() })
    }

    pub(crate) fn message_done(mut self, completeness: Completeness) -> Self {
        let text = std::mem::take(&mut self.said);
        let refusal = std::mem::take(&mut self.refused);
        let item_id = self.item();
        self.then(Event::MessageFinished { item_id, text, refusal, completeness })
    }

    /// A whole message.
    pub(crate) fn says(self, deltas: &[&str]) -> Self {
        deltas
            .iter()
            .fold(self.message(), |story, delta| story.text(delta))
            .message_done(Completeness::Complete)
    }

    pub(crate) fn announced(self, call: &str, name: &str) -> Self {
        self.announced_as(
            call,
            ToolRef { name: name.to_owned(), kind: ToolKind::Function, server: None },
        )
    }

    pub(crate) fn announced_as(self, call: &str, tool: ToolRef) -> Self {
        let item_id = ItemId::new(format!("fc_{call}"));
        self.then(Event::CallAnnounced { call_id: CallId::from(call), item_id, tool })
    }

    pub(crate) fn writes(self, call: &str, text: &str) -> Self {
        self.then(Event::ArgumentsAdded { call_id: CallId::from(call), text: text.to_owned() })
    }

    pub(crate) fn written(self, call: &str, arguments: &str) -> Self {
        self.then(Event::ArgumentsFinished {
            call_id: CallId::from(call),
            arguments: arguments.to_owned(),
            completeness: Completeness::Complete,
        })
    }

    /// A call with all of its arguments in one piece.
    pub(crate) fn calls(self, call: &str, name: &str, arguments: &str) -> Self {
        self.announced(call, name).writes(call, arguments).written(call, arguments)
    }

    pub(crate) fn started(self, call: &str) -> Self {
        self.started_with(call, 1, "")
    }

    pub(crate) fn started_with(self, call: &str, attempt: u32, label: &str) -> Self {
        let label = label.to_owned();
        self.then(Event::ToolStarted { call_id: CallId::from(call), attempt, label })
    }

    pub(crate) fn finished(self, call: &str, outcome: ToolOutcome) -> Self {
        self.finished_after(call, outcome, 42)
    }

    pub(crate) fn finished_after(self, call: &str, outcome: ToolOutcome, duration_ms: u64) -> Self {
        self.then(Event::ToolFinished { call_id: CallId::from(call), outcome, duration_ms })
    }

    pub(crate) fn ended(self, outcome: RunOutcome) -> Self {
        let usage = Usage { input_tokens: 2000, output_tokens: 120, ..Usage::default() };
        self.then(Event::RunFinished { outcome, usage })
    }

    pub(crate) fn events(self) -> Vec<RecordedEvent> {
        self.events
    }

    /// All frames of `projection`.
    pub(crate) fn seen_by<P: Projection>(self, projection: &mut P) -> Vec<P::Frame> {
        self.events.iter().flat_map(|recorded| projection.project(recorded)).collect()
    }

    /// The frames of the last event only.
    pub(crate) fn last_seen_by<P: Projection>(self, projection: &mut P) -> Vec<P::Frame> {
        let frames = self.events.iter().map(|recorded| projection.project(recorded));
        frames.last().unwrap_or_default()
    }

    fn item(&self) -> ItemId {
        ItemId::new(format!("msg_{}", self.n_messages))
    }
}

/// Fails if growing something large takes much longer than growing something small.
///
/// The best of several rounds counts, so that a busy machine does not make it flaky; copying
/// everything in each step takes hundreds of times as long.
#[track_caller]
pub(crate) fn check_that_size_does_not_matter<T>(
    grown_to: impl Fn(usize) -> T,
    grow: impl Fn(&mut T),
) {
    let time = |n_bytes| {
        let mut grown = grown_to(n_bytes);
        let started = Instant::now();
        (0..1_000).for_each(|_| grow(&mut grown));
        started.elapsed()
    };
    let (mut small, mut big) = (Duration::MAX, Duration::MAX);
    for _ in 0..10 {
        small = small.min(time(100));
        big = big.min(time(8 << 20));
        if big < 10 * small {
            return;
        }
    }
    panic!("growing something small takes {small:?}, something big {big:?}");
}
