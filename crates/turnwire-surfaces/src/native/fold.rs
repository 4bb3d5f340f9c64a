//! How the events of a run add up to its snapshot.

use turnwire_contract::{
    CallId, Completeness, DiscoveryOutcome, Event, Failure, ItemId, LeftOut, RecordedEvent, Seq,
    Timestamp, ToolOutcome, ToolRef, Usage, any_event,
};

use super::{
    ApprovalSnapshot, AttemptSnapshot, CallSnapshot, InputSnapshot, ProgressSnapshot, Retrying,
    RunSnapshot, RunWord, ServerSnapshot, TextKind, TextSnapshot, TextState, WorkerSnapshot,
};
use crate::{
    BudgetQuestion,
    call_state::CallState,
    clean::clean,
    preview::{WIRE_BYTES, result_ref, result_summary},
};

/// Builds a snapshot event by event, so that not all events have to be in memory.
#[derive(Debug, Clone, Default)]
pub struct SnapshotFold {
    snapshot: Option<RunSnapshot>,
    /// Time of the last event.
    last: Option<Timestamp>,
}

impl SnapshotFold {
    /// Applies one event. All events have to be applied, in order.
    pub fn note(&mut self, recorded: &RecordedEvent) {
        match &mut self.snapshot {
            None => self.snapshot = Some(RunSnapshot::begin(recorded)),
            Some(snapshot) => {
                if matches!(recorded.event, Event::RunTakenOver { .. }) {
                    snapshot.part_with_worker(self.last.unwrap_or(recorded.at));
                }
                snapshot.note(recorded);
            }
        }
        self.last = Some(recorded.at);
    }

    /// The state of the run; `None` if there was no event.
    pub fn snapshot(self) -> Option<RunSnapshot> {
        let mut snapshot = self.snapshot?;
        snapshot.text = snapshot.answer();
        let asks = |call: &CallSnapshot| {
            matches!(call.state, CallState::NeedsApproval | CallState::NeedsInput)
        };
        if snapshot.status == RunWord::Running && snapshot.calls.iter().any(asks) {
            snapshot.status = RunWord::NeedsInput;
        }
        Some(snapshot)
    }
}

impl RunSnapshot {
    /// The snapshot, marked as stalled if `lack` names what the run needs and no worker has.
    pub fn stalled_by(mut self, lack: Option<String>) -> Self {
        if lack.is_some() {
            self.status = RunWord::Stalled;
        }
        self.stalled = lack;
        self
    }

    /// The snapshot of `events`; `None` if there are none.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a RecordedEvent>) -> Option<Self> {
        let mut fold = SnapshotFold::default();
        events.into_iter().for_each(|recorded| fold.note(recorded));
        fold.snapshot()
    }

    fn begin(first: &RecordedEvent) -> Self {
        let mut snapshot = Self {
            run_id: first.run_id.clone(),
            status: RunWord::Queued,
            outcome: None,
            stalled: None,
            model: String::new(),
            conversation_id: None,
            continues: None,
            created_at: first.at,
            started_at: None,
            finished_at: None,
            workers: Vec::new(),
            turn: 0,
            retrying: None,
            skipped_parts: 0,
            text: String::new(),
            said: Vec::new(),
            calls: Vec::new(),
            servers: Vec::new(),
            usage: Usage::default(),
            last_seq: Seq::START,
        };
        snapshot.note(first);
        snapshot
    }

    fn note(&mut self, recorded: &RecordedEvent) {
        self.last_seq = recorded.seq;
        let at = recorded.at;
        match &recorded.event {
            Event::RunQueued { request } => {
                self.model.clone_from(&request.model);
                self.conversation_id.clone_from(&request.conversation_id);
                self.continues.clone_from(&request.continues);
            }
            Event::RunStarted => {
                self.status = RunWord::Running;
                self.started_at = Some(at);
                self.take_up(1, at, false);
            }
            Event::RunTakenOver { attempt, worker, last_heard } => {
                self.status = RunWord::Running;
                self.started_at.get_or_insert(at);
                self.take_up(*attempt, at, true);
                if let Some(taker) = self.workers.last_mut() {
                    taker.name.clone_from(worker);
                    taker.previous_last_heard = *last_heard;
                }
            }
            Event::TurnStarted { turn } => {
                self.turn = *turn;
                self.retrying = None;
            }
            Event::TurnRetried { attempt, reason, delay_ms, .. } => {
                let (attempt, delay_ms, reason) = (*attempt, *delay_ms, reason.clone());
                self.retrying = Some(Retrying { attempt, reason, delay_ms, at });
            }
            Event::TurnAbandoned { turn } => self.abandon(*turn),
            Event::PartSkipped { .. } => self.skipped_parts += 1,
            Event::TurnFinished { usage, .. } => {
                self.usage += *usage;
                self.retrying = None;
            }
            any_event!(
                MessageStarted TextAdded RefusalAdded AnnotationAdded MessageFinished
                ReasoningAdded ReasoningFinished
            ) => self.note_text(&recorded.event),
            Event::DiscoveryStarted { item_id, server } => self.ask(item_id, server),
            Event::ToolsDiscovered { item_id, server, outcome, left_out } => {
                self.hear(item_id, server, outcome, left_out);
            }
            Event::CallAnnounced { call_id, item_id, tool } => {
                self.announce(call_id, item_id, tool, at);
            }
            any_event!(
                ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved ToolStarted
                ToolPhase ToolProgressed ToolOutputAdded InputRequested InputResolved
                ToolStayedSilent ToolRetried ToolFinished
            ) => self.note_call(recorded),
            Event::RunFinished { outcome, usage } => {
                self.status = RunWord::at_end(outcome);
                self.outcome = Some(outcome.clone());
                self.finished_at = Some(at);
                self.usage = *usage;
                self.retrying = None;
                self.part_with_worker(at);
            }
            Event::Unknown(_) | Event::LogprobsAdded { .. } | Event::ToolTaskStarted { .. } => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`note` has matched every event")]
    fn note_text(&mut self, event: &Event) {
        match event {
            Event::MessageStarted { item_id } => self.open(item_id, TextKind::Message),
            Event::TextAdded { item_id, text } => {
                self.update_said(item_id, |said| said.text.push_str(text));
            }
            Event::RefusalAdded { item_id, text } => {
                self.update_said(item_id, |said| said.refusal.push_str(text));
            }
            Event::AnnotationAdded { item_id, annotation } => {
                self.update_said(item_id, |said| said.annotations.push(annotation.clone()));
            }
            Event::MessageFinished { item_id, text, refusal, completeness } => {
                self.close(item_id, TextKind::Message, text, *completeness);
                self.update_said(item_id, |said| said.refusal.clone_from(refusal));
            }
            Event::ReasoningAdded { item_id, text } => {
                self.open(item_id, TextKind::Reasoning);
                self.update_said(item_id, |said| said.text.push_str(text));
            }
            Event::ReasoningFinished { item_id, text, completeness, .. } => {
                self.close(item_id, TextKind::Reasoning, text, *completeness);
            }
            _ => {}
        }
    }

    /// Finds a call.
    pub fn call(&self, call_id: &CallId) -> Option<&CallSnapshot> {
        self.calls.iter().rev().find(|call| call.call_id == *call_id)
    }

    fn take_up(&mut self, attempt: u32, since: Timestamp, taken_over: bool) {
        let (until, name, previous_last_heard) = (None, None, None);
        let worker =
            WorkerSnapshot { attempt, since, until, taken_over, name, previous_last_heard };
        self.workers.push(worker);
    }

    /// Ends the time of the current worker at `until`.
    fn part_with_worker(&mut self, until: Timestamp) {
        if let Some(worker) = self.workers.last_mut() {
            worker.until.get_or_insert(until);
        }
    }

    /// Marks the texts of a withdrawn turn as superseded.
    fn abandon(&mut self, turn: u32) {
        self.retrying = None;
        let withdrawn = self.said.iter_mut().filter(|said| said.turn == turn);
        withdrawn.for_each(|said| said.state = TextState::Superseded);
    }

    fn open(&mut self, item_id: &ItemId, kind: TextKind) {
        self.retrying = None;
        if self.said.iter().rev().any(|said| said.item_id == *item_id) {
            return;
        }
        self.said.push(TextSnapshot {
            item_id: item_id.clone(),
            kind,
            turn: self.turn,
            state: TextState::Open,
            text: String::new(),
            refusal: String::new(),
            annotations: Vec::new(),
        });
    }

    fn close(&mut self, item_id: &ItemId, kind: TextKind, text: &str, completeness: Completeness) {
        self.open(item_id, kind);
        self.update_said(item_id, |said| {
            text.clone_into(&mut said.text);
            said.state = TextState::of(completeness);
        });
    }

    fn update_said(&mut self, item_id: &ItemId, update: impl FnOnce(&mut TextSnapshot)) {
        if let Some(said) = self.said.iter_mut().rev().find(|said| said.item_id == *item_id) {
            update(said);
        }
    }

    /// What [`Answer`](crate::Answer) would be if the run ended here: the text of the last turn
    /// that has any, or its refusal.
    fn answer(&self) -> String {
        let heard = |said: &&TextSnapshot| said.is_answer() && !said.is_empty();
        let last = self.said.iter().rfind(heard).map(|said| said.turn);
        let of_last = || self.said.iter().filter(heard).filter(|said| Some(said.turn) == last);
        let text: String = of_last().map(|said| clean(&said.text)).collect();
        if text.is_empty() { of_last().map(|said| clean(&said.refusal)).collect() } else { text }
    }

    fn ask(&mut self, item_id: &ItemId, server: &str) {
        let (server, item_id) = (server.to_owned(), item_id.clone());
        let (tools, failure, left_out) = (None, None, LeftOut::default());
        self.servers.push(ServerSnapshot { server, item_id, tools, failure, left_out });
    }

    fn hear(
        &mut self,
        item_id: &ItemId,
        server: &str,
        outcome: &DiscoveryOutcome,
        left_out: &LeftOut,
    ) {
        if !self.servers.iter().any(|asked| asked.item_id == *item_id) {
            self.ask(item_id, server);
        }
        let Some(asked) = self.servers.iter_mut().find(|asked| asked.item_id == *item_id) else {
            return;
        };
        asked.left_out.clone_from(left_out);
        match outcome {
            DiscoveryOutcome::Listed { tools } => {
                asked.tools = Some(tools.iter().map(|tool| tool.name.clone()).collect());
            }
            DiscoveryOutcome::Failed { failure } => asked.failure = Some(failure.clone()),
        }
    }

    fn announce(&mut self, call_id: &CallId, item_id: &ItemId, tool: &ToolRef, at: Timestamp) {
        self.retrying = None;
        self.calls.push(CallSnapshot {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            tool: tool.name.clone(),
            kind: tool.kind,
            server: tool.server.clone(),
            turn: self.turn,
            state: CallState::Preparing,
            arguments: String::new(),
            arguments_complete: false,
            announced_at: at,
            approval: None,
            inputs: Vec::new(),
            attempts: Vec::new(),
            started_at: None,
            finished_at: None,
            duration_ms: None,
            progress: None,
            output_so_far: String::new(),
            summary: None,
            failure: None,
            result_bytes: None,
            result_ref: None,
        });
    }

    /// Applies an event to its call, unless the call has ended.
    fn note_call(&mut self, recorded: &RecordedEvent) {
        let Some(call_id) = recorded.event.call_id() else { return };
        let call = self.calls.iter_mut().rev().find(|call| call.call_id == *call_id);
        if let Some(call) = call.filter(|call| call.finished_at.is_none()) {
            call.note(recorded);
        }
    }
}

impl CallSnapshot {
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    fn note(&mut self, recorded: &RecordedEvent) {
        let at = recorded.at;
        if let Some(state) = CallState::after(&recorded.event) {
            self.state = state;
        }
        match &recorded.event {
            Event::ArgumentsAdded { text, .. } => self.arguments.push_str(text),
            Event::ArgumentsFinished { arguments, completeness, .. } => {
                self.arguments.clone_from(arguments);
                self.arguments_complete = *completeness == Completeness::Complete;
                // From here on the client executes it; the run gets no further events about it.
                if self.kind.is_run_by_client() && self.arguments_complete {
                    self.state = CallState::Running;
                }
            }
            any_event!(
                ApprovalRequested ApprovalResolved InputRequested InputResolved
            ) => self.note_question(&recorded.event, at),
            Event::ToolStarted { attempt, .. } => self.attempt(*attempt, at, None),
            Event::ToolRetried { attempt, reason, .. } => {
                self.attempt(*attempt, at, Some(reason.clone()));
            }
            Event::ToolPhase { phase, .. } => {
                self.heard(at).phase = Some(phase.clone());
            }
            Event::ToolProgressed { progress, total, message, .. } => {
                let heard = self.heard(at);
                heard.progress = Some(*progress);
                heard.total = *total;
                heard.message.clone_from(message);
            }
            Event::ToolOutputAdded { text, .. } => {
                self.heard(at);
                self.add_output(text);
            }
            Event::ToolStayedSilent { elapsed_ms, .. } => {
                self.progress.get_or_insert_default().silent_at_ms = Some(*elapsed_ms);
            }
            Event::ToolFinished { outcome, duration_ms, .. } => {
                self.finish(outcome, *duration_ms, recorded);
            }
            _ => {}
        }
    }

    /// Applies what people are asked, and what they answer.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    fn note_question(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::ApprovalRequested {
                expires_at, changed, effect, server_claims, budget, ..
            } => {
                let approval = self.approval();
                approval.requested_at = Some(at);
                approval.expires_at = *expires_at;
                approval.changed.clone_from(changed);
                approval.effect = *effect;
                approval.server_claims = *server_claims;
                approval.budget = BudgetQuestion::of(budget.as_deref());
            }
            Event::ApprovalResolved { decision, arguments, remember, by, .. } => {
                let edited = arguments.clone();
                let edited = edited.map(|edited| std::mem::replace(&mut self.arguments, edited));
                let approval = self.approval();
                approval.resolved_at = Some(at);
                approval.decision = Some(decision.clone());
                approval.edited_from = edited;
                approval.remember = *remember;
                approval.by.clone_from(by);
            }
            Event::InputRequested {
                input_id,
                message,
                schema,
                expires_at,
                unknown_outcome,
                ..
            } => {
                self.heard(at);
                self.inputs.push(InputSnapshot {
                    input_id: input_id.clone(),
                    message: message.clone(),
                    schema: schema.clone(),
                    requested_at: at,
                    expires_at: *expires_at,
                    unknown_outcome: *unknown_outcome,
                    reply: None,
                });
            }
            Event::InputResolved { input_id, reply, .. } => {
                self.heard(at);
                let asked = self.inputs.iter_mut().find(|asked| asked.input_id == *input_id);
                if let Some(asked) = asked {
                    asked.reply = Some(reply.clone());
                }
            }
            _ => {}
        }
    }

    fn approval(&mut self) -> &mut ApprovalSnapshot {
        self.approval.get_or_insert(ApprovalSnapshot {
            requested_at: None,
            resolved_at: None,
            decision: None,
            expires_at: None,
            changed: None,
            effect: None,
            server_claims: None,
            budget: None,
            edited_from: None,
            remember: false,
            by: None,
        })
    }

    /// Starts a new attempt. Progress and output of the one before are dropped.
    fn attempt(&mut self, attempt: u32, at: Timestamp, reason: Option<Failure>) {
        if self.attempts.iter().any(|known| known.attempt == attempt) {
            return;
        }
        self.started_at.get_or_insert(at);
        self.progress = None;
        self.output_so_far.clear();
        self.attempts.push(AttemptSnapshot { attempt, at, reason });
    }

    fn heard(&mut self, at: Timestamp) -> &mut ProgressSnapshot {
        let progress = self.progress.get_or_insert_default();
        progress.heard_at = Some(at);
        progress.silent_at_ms = None;
        progress
    }

    /// Appends output and keeps its end. Only cuts at twice the limit, so that a tool that writes
    /// byte by byte does not cause a copy each time.
    fn add_output(&mut self, text: &str) {
        self.output_so_far.push_str(text);
        if self.output_so_far.len() > 2 * WIRE_BYTES {
            let start =
                self.output_so_far.ceil_char_boundary(self.output_so_far.len() - WIRE_BYTES);
            self.output_so_far.drain(..start);
        }
    }

    fn finish(&mut self, outcome: &ToolOutcome, duration_ms: u64, recorded: &RecordedEvent) {
        self.finished_at = Some(recorded.at);
        self.duration_ms = Some(duration_ms);
        self.summary = Some(result_summary(outcome));
        self.output_so_far.clear();
        self.failure = outcome.failure();
        if let ToolOutcome::Succeeded { output } = outcome {
            self.result_bytes = Some(output.total_bytes());
            let (run_id, call_id) = (recorded.run_id.as_str(), self.call_id.as_str());
            self.result_ref = Some(result_ref(run_id, call_id));
        }
    }
}
