//! The projection: events of the journal in, events of the protocol out.
//!
//! **Pauses.** Whether people are the only ones awaited follows from the events so far, but whether
//! their answer is already there does not: an earlier decision for the conversation answers in the
//! same moment. So the end of a run with interrupts is *held*: it is sent with the event that ends
//! the pause, or by a reader that finds nothing after it ([`AgUi::pause`]). Its number is taken in
//! any case.

use std::sync::Arc;

use serde_json::json;
use turnwire_contract::{
    Approvals, ConversationId, Event, Failure, RecordedEvent, RunId, RunOutcome, RunRequest,
    Timestamp, Usage, any_event,
};

use super::{
    event::{
        AgUiEvent, AgUiFrame, Interrupt, Out, Outcome, PROTOCOL_VERSION, ProtocolVersion,
        TokenUsage, metadata,
    },
    message_list::{MessageList, messages_of},
    origin::{Origin, answering_run},
    pause::{Approval, Question},
    speech::Speech,
    tools::Tools,
};
use crate::{
    BudgetQuestion, Projection,
    calls::{CallBook, CallEvent},
    clean::clean,
};

/// The projection of AG-UI.
#[derive(Debug, Default)]
pub struct AgUi {
    /// Set if the version is not the one that the request named.
    forced_version: Option<ProtocolVersion>,
    version: ProtocolVersion,
    run: Option<Arc<RunRequest>>,
    our_run_id: Option<RunId>,
    thread_id: String,
    /// The run of the protocol that the next frames belong to.
    run_id: String,
    first_run_id: String,
    /// Number of runs of the protocol so far.
    n_runs: u32,
    book: CallBook,
    speech: Speech,
    tools: Tools,
    list: MessageList,
    step: Option<String>,
    pause: Option<AgUiFrame>,
    /// Tokens of all turns so far.
    used: Usage,
    /// Tokens that earlier runs of the protocol have reported.
    reported: Usage,
    last_number: u64,
}

/// What an event means for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseEffect {
    /// Nothing: people are still awaited.
    None,
    /// It was no pause: the answer was there at once.
    Dropped,
    /// The run was handed back with its questions, and has ended.
    Final,
    /// The run goes on.
    Ended,
}

impl AgUi {
    /// Creates a projection for the version that the request named.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a projection for this version.
    pub fn for_version(version: ProtocolVersion) -> Self {
        Self { forced_version: Some(version), version, ..Self::default() }
    }

    /// The end of the run with interrupts, if only people are awaited after the last event. It is
    /// the next frame, whatever happens.
    pub fn pause(&self) -> Option<&AgUiFrame> {
        self.pause.as_ref()
    }

    fn begin(&mut self, run_id: &RunId, request: &Arc<RunRequest>, out: &mut Out) {
        let mut origin = Origin::of(request);
        let earlier = match &mut origin {
            Some(origin) => std::mem::take(&mut origin.messages),
            None => messages_of(run_id, request),
        };
        self.list.begin(earlier);
        let known = origin.as_ref();
        let conversation = request.conversation_id.as_ref().map(ConversationId::to_string);
        let thread = known.map(|origin| origin.thread_id.clone()).or(conversation);
        self.thread_id = thread.unwrap_or_else(|| run_id.to_string());
        self.run_id = known.map_or_else(|| run_id.to_string(), |origin| origin.run_id.clone());
        self.first_run_id.clone_from(&self.run_id);
        let asked_for = known.map(Origin::version);
        self.version = self.forced_version.or(asked_for).unwrap_or_default();
        self.our_run_id = Some(run_id.clone());
        self.run = Some(Arc::clone(request));
        self.start_run(origin.and_then(|origin| origin.parent_run_id), out);
    }

    fn start_run(&mut self, parent_run_id: Option<String>, out: &mut Out) {
        self.n_runs += 1;
        let conversation = self.run.as_ref().and_then(|run| run.conversation_id.as_ref());
        let run_id = self.our_run_id.as_ref().map(RunId::as_str).unwrap_or_default();
        let facts = match conversation {
            Some(conversation) => {
                json!({ "run_id": run_id, "conversation_id": conversation.as_str() })
            }
            None => json!({ "run_id": run_id }),
        };
        out.send(AgUiEvent::RunStarted {
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            protocol_version: PROTOCOL_VERSION,
            parent_run_id,
            metadata: metadata(&facts),
        });
    }

    /// Starts the next run of the protocol: the one that gave the answer, or one without a client.
    fn start_next_run(&mut self, event: &Event, out: &mut Out) {
        let named = source_of(event).and_then(answering_run).map(str::to_owned);
        let unnamed = || format!("{}:{}", self.first_run_id, self.n_runs + 1);
        let run_id = named.unwrap_or_else(unnamed);
        let parent = std::mem::replace(&mut self.run_id, run_id);
        self.start_run(Some(parent), out);
    }

    /// What `event` means for the pause.
    fn effect_on_pause(&self, event: &Event) -> PauseEffect {
        if matches!(source_of(event), Some("conversation" | "nobody")) {
            return PauseEffect::Dropped;
        }
        // One request may answer several questions, one after the other.
        if source_of(event).and_then(answering_run) == Some(self.run_id.as_str()) {
            return PauseEffect::Dropped;
        }
        // A call that needs an approval anyway is asked about right after a budget.
        if matches!(event, Event::ApprovalRequested { .. }) {
            return PauseEffect::Dropped;
        }
        let hands_back = self.run.as_ref().is_some_and(|run| run.approvals == Approvals::HandBack);
        let has_ended = matches!(event, Event::RunFinished { outcome: RunOutcome::Completed, .. });
        if has_ended && hands_back {
            return PauseEffect::Final;
        }
        if ends_pause(event) { PauseEffect::Ended } else { PauseEffect::None }
    }

    /// Ends a pause, if `event` does. Returns whether the event is shown.
    fn leave_pause(&mut self, event: &Event, out: &mut Out) -> bool {
        let Some(pause) = self.pause.take() else { return true };
        match self.effect_on_pause(event) {
            PauseEffect::None => {
                self.pause = Some(pause);
                false
            }
            PauseEffect::Dropped => {
                out.last_number = pause.number;
                true
            }
            effect @ (PauseEffect::Final | PauseEffect::Ended) => {
                out.last_number = pause.number;
                out.frames.push(pause);
                self.reported = self.used;
                if effect == PauseEffect::Ended {
                    self.start_next_run(event, out);
                }
                effect == PauseEffect::Ended
            }
        }
    }

    /// Holds the end of this run, if only people are awaited now.
    fn enter_pause(&mut self, at: Timestamp) {
        if self.step.is_some() || self.pause.is_some() {
            return;
        }
        let Some(run_id) = &self.our_run_id else { return };
        if let Some(interrupts) = self.tools.awaited_people(run_id, &self.book) {
            let event = self.paused(interrupts);
            self.pause = Some(AgUiFrame::new(self.last_number + 1, event, at));
        }
    }

    fn paused(&self, interrupts: Vec<Interrupt>) -> AgUiEvent {
        let outcome = Some(Outcome::Interrupt { interrupts });
        let usage = self.usage_since(self.used);
        let (thread_id, run_id) = (self.thread_id.clone(), self.run_id.clone());
        AgUiEvent::RunFinished { thread_id, run_id, result: None, outcome, usage }
    }

    /// The part of `total` that earlier runs of the protocol have not reported.
    fn usage_since(&self, total: Usage) -> Vec<TokenUsage> {
        let reported = self.reported;
        let usage = Usage {
            input_tokens: total.input_tokens.saturating_sub(reported.input_tokens),
            cached_tokens: total.cached_tokens.saturating_sub(reported.cached_tokens),
            output_tokens: total.output_tokens.saturating_sub(reported.output_tokens),
            reasoning_tokens: total.reasoning_tokens.saturating_sub(reported.reasoning_tokens),
            cost_nanos: None,
        };
        TokenUsage::list(self.run.as_ref().map_or("", |run| &run.model), usage)
    }

    fn begin_turn(&mut self, turn: u32, out: &mut Out) {
        self.end_turn(out);
        self.speech.begin_turn();
        self.tools.begin_turn();
        self.list.begin_turn();
        let step_name = format!("turn-{turn}");
        self.step = Some(step_name.clone());
        out.send(AgUiEvent::StepStarted { step_name });
    }

    /// Closes what is open of a turn. A journal has closed it, unless a part of it cannot be read.
    fn close_turn(&mut self, out: &mut Out) {
        self.speech.close(&mut self.list, out);
        self.tools.close_arguments(&self.book, &mut self.list, out);
        if let Some(step_name) = self.step.take() {
            out.send(AgUiEvent::StepFinished { step_name });
        }
    }

    fn end_turn(&mut self, out: &mut Out) {
        self.close_turn(out);
        self.list.keep_turn();
    }

    /// Withdraws what the turn has shown.
    fn withdraw_turn(&mut self, out: &mut Out) {
        self.close_turn(out);
        self.tools.begin_turn();
        if self.list.withdraw_turn() {
            let messages = self.list.snapshot();
            out.send(AgUiEvent::MessagesSnapshot { messages });
        }
    }

    fn end_run(&mut self, outcome: &RunOutcome, total: Usage, out: &mut Out) {
        self.end_turn(out);
        let usage = self.usage_since(total);
        let is_v1 = self.version == ProtocolVersion::V1;
        let success = || Some(Outcome::Success { pending_tool_call_ids: Vec::new() });
        let (result, outcome) = match outcome {
            RunOutcome::Failed { failure: Failure { code, message, .. } } => {
                let (message, code) = (clean(message).into_owned(), code.clone());
                return out.send(AgUiEvent::RunError { message, code, usage });
            }
            RunOutcome::Incomplete { reason } => {
                (Some(json!({ "status": "incomplete", "reason": reason })), success())
            }
            RunOutcome::Cancelled if is_v1 => (None, Some(Outcome::Cancelled)),
            RunOutcome::Cancelled => (Some(json!({ "status": "cancelled" })), None),
            RunOutcome::Completed => match self.tools.pending() {
                pending if pending.is_empty() => (None, success()),
                pending_tool_call_ids if is_v1 => {
                    (None, Some(Outcome::Success { pending_tool_call_ids }))
                }
                pending => (Some(json!({ "pendingToolCallIds": pending })), success()),
            },
        };
        let (thread_id, run_id) = (self.thread_id.clone(), self.run_id.clone());
        out.send(AgUiEvent::RunFinished { thread_id, run_id, result, outcome, usage });
    }

    fn show(&mut self, recorded: &RecordedEvent, change: CallEvent, out: &mut Out) {
        match &recorded.event {
            Event::RunQueued { request } => self.begin(&recorded.run_id, request, out),
            Event::RunTakenOver { attempt, .. } => {
                let value = json!({ "attempt": attempt });
                out.send(AgUiEvent::Custom { name: "turnwire.taken_over", value });
            }
            Event::TurnStarted { turn } => self.begin_turn(*turn, out),
            Event::TurnRetried { turn, attempt, reason, delay_ms } => {
                let value = json!({
                    "turn": turn,
                    "attempt": attempt,
                    "code": reason.code,
                    "message": clean(&reason.message),
                    "delay_ms": delay_ms,
                });
                out.send(AgUiEvent::Custom { name: "turnwire.turn_retried", value });
            }
            Event::PartSkipped { turn, bytes, reason } => {
                let message = clean(&reason.message);
                let value = json!({
                    "turn": turn, "bytes": bytes, "code": reason.code, "message": message,
                });
                out.send(AgUiEvent::Custom { name: "turnwire.part_skipped", value });
            }
            Event::TurnAbandoned { .. } => self.withdraw_turn(out),
            Event::TurnFinished { usage, .. } => {
                self.used += *usage;
                self.end_turn(out);
            }
            any_event!(
                MessageStarted TextAdded RefusalAdded AnnotationAdded MessageFinished
                ReasoningAdded ReasoningFinished
            ) => self.show_speech(&recorded.event, out),
            any_event!(
                CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved
                ToolStarted ToolPhase ToolProgressed ToolOutputAdded InputRequested InputResolved
                ToolStayedSilent ToolRetried ToolFinished
            ) => self.show_call(recorded, change, out),
            Event::RunFinished { outcome, usage } => self.end_run(outcome, *usage, out),
            any_event!(
                RunStarted Unknown LogprobsAdded DiscoveryStarted ToolsDiscovered ToolTaskStarted
            ) => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`show` has matched every event")]
    fn show_speech(&mut self, event: &Event, out: &mut Out) {
        let Self { speech, list, .. } = self;
        match event {
            Event::MessageStarted { item_id } => {
                speech.open_message(item_id, out);
            }
            Event::TextAdded { item_id, text } | Event::RefusalAdded { item_id, text } => {
                speech.add_text(item_id, text, out);
            }
            Event::AnnotationAdded { item_id, annotation } => speech.annotate(item_id, annotation),
            Event::MessageFinished { item_id, completeness, .. } => {
                speech.finish_message(item_id, *completeness, list, out);
            }
            Event::ReasoningAdded { item_id, text } => speech.add_reasoning(item_id, text, out),
            Event::ReasoningFinished { item_id, .. } => speech.finish_reasoning(item_id, list, out),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`show` has matched every event")]
    fn show_call(&mut self, recorded: &RecordedEvent, change: CallEvent, out: &mut Out) {
        let Self { book, speech, tools, list, .. } = self;
        let Some(call) = recorded.event.call_id().and_then(|call_id| book.get(call_id)) else {
            return;
        };
        match &recorded.event {
            Event::CallAnnounced { .. } => tools.announce(call, speech.last_message(), list, out),
            Event::ArgumentsAdded { call_id, text } => tools.add_arguments(call_id, text, out),
            Event::ArgumentsFinished { call_id, arguments, completeness } => {
                tools.finish_arguments(call_id, arguments, *completeness, list, out);
            }
            Event::ApprovalRequested {
                call_id,
                expires_at,
                changed,
                effect,
                server_claims,
                budget,
            } => {
                let approval = Approval {
                    expires_at: *expires_at,
                    changed: changed.clone(),
                    effect: *effect,
                    server_claims: *server_claims,
                    budget: BudgetQuestion::of(budget.as_deref()),
                };
                tools.ask(call_id, approval);
            }
            Event::ApprovalResolved { call_id, arguments, .. } => {
                tools.resolve(call_id, arguments.as_deref());
            }
            Event::InputRequested { call_id, input_id, message, schema, expires_at, .. } => {
                let question = Question {
                    input_id: input_id.clone(),
                    message: message.clone(),
                    schema: schema.clone(),
                    expires_at: *expires_at,
                };
                tools.ask_for_input(call_id, question);
                tools.report(call, recorded, Some(out));
            }
            Event::InputResolved { call_id, input_id, .. } => {
                tools.take_input(call_id, input_id);
                tools.report(call, recorded, Some(out));
            }
            Event::ToolFinished { .. } if change != CallEvent::Neither => {
                tools.finish(call, recorded, list, out);
            }
            Event::ToolFinished { .. } => {}
            _ => tools.report(call, recorded, Some(out)),
        }
    }

    /// Remembers what a tool reports while people are awaited, for the next frame about it.
    fn note_quietly(&mut self, recorded: &RecordedEvent) {
        let call = recorded.event.call_id().and_then(|call_id| self.book.get(call_id));
        if let Some(call) = call {
            self.tools.report(call, recorded, None);
        }
    }
}

impl Projection for AgUi {
    type Frame = AgUiFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<AgUiFrame> {
        let change = self.book.note(recorded);
        let mut out = Out::new(recorded.at, self.last_number);
        if self.leave_pause(&recorded.event, &mut out) {
            self.show(recorded, change, &mut out);
        } else {
            self.note_quietly(recorded);
        }
        self.last_number = out.last_number;
        if !recorded.event.ends_the_run() {
            self.enter_pause(recorded.at);
        }
        out.frames
    }
}

/// Who gave an answer.
fn source_of(event: &Event) -> Option<&str> {
    if let Event::ApprovalResolved { by, .. } | Event::InputResolved { by, .. } = event {
        return by.as_deref();
    }
    None
}

/// Whether an event ends a pause. Reports of tools that wait for people do not, nor does a new
/// worker.
fn ends_pause(event: &Event) -> bool {
    matches!(
        event,
        any_event!(
            ApprovalRequested ApprovalResolved InputRequested InputResolved CallAnnounced
            ToolStarted ToolRetried ToolFinished TurnStarted RunFinished
        )
    )
}
