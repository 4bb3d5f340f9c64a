//! The current state of a run: the snapshot that `GET /v1/runs/{id}` returns.
//!
//! A client that joins late need not read a run from its first event. The snapshot is the fold of
//! all events so far, and `last_seq` is the seq of the last one: events after it can be applied to
//! the snapshot. The fold is the same for a run in progress and for one that has ended.
//!
//! It lists the workers that executed the run, and for each call the arguments, every attempt with
//! its time and the reason for the retry, and the outcome, with the states that all surfaces share
//! ([`CallState`]). Texts are those of the journal, so that deltas can be appended; only `text`,
//! which is for display, is cleaned. Results are a summary and a reference, because they may be
//! large.

use serde::Serialize;
use turnwire_contract::{
    Annotation, CallId, Completeness, ConversationId, Decision, DiscoveryOutcome, Event, Failure,
    InputId, ItemId, RecordedEvent, Reply, RunId, RunOutcome, Seq, Timestamp, ToolKind,
    ToolOutcome, ToolRef, Usage,
};
use utoipa::ToSchema;

use crate::{
    call_state::CallState,
    clean::clean,
    preview::{WIRE_BYTES, result_ref, result_summary},
};

/// Current state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunSnapshot {
    /// ID of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Status of the run.
    pub status: RunWord,
    /// How the run ended, with the reason. Null while it is in progress.
    pub outcome: Option<RunOutcome>,
    /// If the run is stalled: the model, server or tool it needs and no worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Name of the model.
    pub model: String,
    /// ID of the conversation. Null if the run belongs to none.
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
    /// ID of the run it continues, if it belongs to no conversation.
    #[schema(value_type = Option<String>)]
    pub continues: Option<RunId>,
    /// Time of the request.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time at which a worker started the run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// Time at which the run ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// Workers that executed the run, in order. There is more than one after a takeover.
    pub workers: Vec<WorkerSnapshot>,
    /// Number of the current turn; 0 before the first one.
    pub turn: u32,
    /// The pending retry of a model request. Null if there is none.
    pub retrying: Option<Retrying>,
    /// Number of unreadable parts in the model's output that were skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_parts: u32,
    /// The answer so far: the text of the last turn that has any.
    pub text: String,
    /// All messages and reasoning of the model, in order.
    pub said: Vec<TextSnapshot>,
    /// All tool calls, in order.
    pub calls: Vec<CallSnapshot>,
    /// All tool servers that were asked to list their tools.
    pub servers: Vec<ServerSnapshot>,
    /// Tokens used so far.
    pub usage: Usage,
    /// Seq of the last event in this snapshot. Pass it as `after` to get later events.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
}

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunWord {
    /// No worker has started it.
    Queued,
    /// A worker executes it.
    Running,
    /// Its worker has died, and no other worker has the model, server or tool it needs.
    Stalled,
    /// The model gave its answer, or the run ended with calls for the client.
    Completed,
    /// It stopped at a limit.
    Incomplete,
    /// The model or the engine could not continue.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// The time a worker executed a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkerSnapshot {
    /// Number of the worker in the order of execution, from 1.
    pub attempt: u32,
    /// Time at which the worker started or took over the run.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// Time at which it ended the run, or of its last event before a takeover. Missing while it
    /// executes the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Whether it took the run over from another worker.
    pub taken_over: bool,
}

/// A retry of a model request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Retrying {
    /// Number of the attempt; 2 for the first retry.
    pub attempt: u32,
    /// Why the attempt before failed.
    pub reason: Failure,
    /// Delay before the retry, in milliseconds.
    pub delay_ms: u64,
    /// Time at which the retry was decided.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A message or reasoning text of the model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextSnapshot {
    /// ID of the item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Whether it is a message or reasoning.
    pub kind: TextKind,
    /// Number of the turn, from 1.
    pub turn: u32,
    /// State of the text.
    pub state: TextState,
    /// The text so far.
    pub text: String,
    /// The refusal so far. Missing if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// Sources of the text. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
}

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// A message to the user.
    Message,
    /// Reasoning of the model.
    Reasoning,
}

/// State of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextState {
    /// More text may follow.
    Open,
    /// The model finished the text.
    Complete,
    /// The text was cut off.
    Cut,
    /// The worker died; a text that follows replaces this one.
    Superseded,
}

/// State of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallSnapshot {
    /// ID of the tool call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// ID of the output item of the call.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Name of the tool.
    pub tool: String,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the tool's server. Null if the tool has none.
    pub server: Option<String>,
    /// Number of the turn in which the model made the call; 0 for calls that came with the request.
    pub turn: u32,
    /// State of the call.
    pub state: CallState,
    /// The arguments so far, as JSON text.
    pub arguments: String,
    /// Whether the arguments are complete.
    pub arguments_complete: bool,
    /// Time at which the model named the call.
    #[schema(value_type = String, format = DateTime)]
    pub announced_at: Timestamp,
    /// The approval of the call. Null if none was requested.
    pub approval: Option<ApprovalSnapshot>,
    /// Questions that the tool asked the user. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputSnapshot>,
    /// All attempts to execute the call.
    pub attempts: Vec<AttemptSnapshot>,
    /// Time at which the first attempt started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// Time at which the call ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// Execution time in milliseconds. Null until the call ends.
    pub duration_ms: Option<u64>,
    /// Latest progress of the tool. Null if it reported none.
    pub progress: Option<ProgressSnapshot>,
    /// Partial output of the tool: the last 32 KiB. Missing if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_so_far: String,
    /// Summary of the result on one line. Null until the call ends.
    pub summary: Option<String>,
    /// Why the call failed. Null otherwise.
    pub failure: Option<Failure>,
    /// Size of the full result in bytes, if the call succeeded.
    pub result_bytes: Option<u64>,
    /// Path of the full result, if the call succeeded: `/v1/runs/{run_id}/calls/{call_id}/result`.
    pub result_ref: Option<String>,
}

/// Approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApprovalSnapshot {
    /// Time of the approval request. Null if an earlier run requested it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub requested_at: Option<Timestamp>,
    /// Time of the decision.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Timestamp>,
    /// The decision. Null while it is pending.
    pub decision: Option<Decision>,
    /// Time at which the approval request expires. Missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The new definition of the tool, if it differs from the one that was approved before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The model's arguments, if the user replaced them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_from: Option<String>,
    /// Whether the decision applies to the rest of the conversation. Missing if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Where the decision was made, such as `/v1/runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A question that a tool asked the user.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputSnapshot {
    /// ID of the question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// Text of the question.
    pub message: String,
    /// JSON schema of the answer.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// Time of the question.
    #[schema(value_type = String, format = DateTime)]
    pub requested_at: Timestamp,
    /// Time at which the question expires. Missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The answer. Null while the tool waits for it.
    pub reply: Option<Reply>,
}

/// One attempt to execute a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttemptSnapshot {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time at which the attempt started.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Why the attempt before failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Failure>,
}

/// Latest progress of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ProgressSnapshot {
    /// Current phase, as named by the tool.
    pub phase: Option<String>,
    /// Work done so far, in the tool's own unit.
    pub progress: Option<f64>,
    /// Total amount of work, in the same unit.
    pub total: Option<f64>,
    /// What the tool is doing.
    pub message: Option<String>,
    /// Time of the tool's last report. Null if it has not reported since it started.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub heard_at: Option<Timestamp>,
    /// Execution time in milliseconds when the tool was last found silent.
    pub silent_at_ms: Option<u64>,
}

/// A tool server that was asked to list its tools.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServerSnapshot {
    /// Label of the server.
    pub server: String,
    /// ID of the output item of the listing.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Names of its tools. Null while it is being asked, or if it failed.
    pub tools: Option<Vec<String>>,
    /// Why the listing failed. Null otherwise.
    pub failure: Option<Failure>,
}

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
            Event::RunTakenOver { attempt } => {
                self.status = RunWord::Running;
                self.started_at.get_or_insert(at);
                self.take_up(*attempt, at, true);
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
            Event::DiscoveryStarted { item_id, server } => self.ask(item_id, server),
            Event::ToolsDiscovered { item_id, server, outcome } => {
                self.hear(item_id, server, outcome);
            }
            Event::CallAnnounced { call_id, item_id, tool } => {
                self.announce(call_id, item_id, tool, at);
            }
            Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolStarted { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::InputRequested { .. }
            | Event::InputResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::ToolRetried { .. }
            | Event::ToolFinished { .. } => self.note_call(recorded),
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

    /// Finds a call.
    pub fn call(&self, call_id: &CallId) -> Option<&CallSnapshot> {
        self.calls.iter().rev().find(|call| call.call_id == *call_id)
    }

    fn take_up(&mut self, attempt: u32, since: Timestamp, taken_over: bool) {
        self.workers.push(WorkerSnapshot { attempt, since, until: None, taken_over });
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
        self.servers.push(ServerSnapshot { server, item_id, tools: None, failure: None });
    }

    fn hear(&mut self, item_id: &ItemId, server: &str, outcome: &DiscoveryOutcome) {
        if !self.servers.iter().any(|asked| asked.item_id == *item_id) {
            self.ask(item_id, server);
        }
        let Some(asked) = self.servers.iter_mut().find(|asked| asked.item_id == *item_id) else {
            return;
        };
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
            Event::ApprovalRequested { expires_at, changed, .. } => {
                let approval = self.approval();
                approval.requested_at = Some(at);
                approval.expires_at = *expires_at;
                approval.changed.clone_from(changed);
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
            Event::InputRequested { input_id, message, schema, expires_at, .. } => {
                self.heard(at);
                self.inputs.push(InputSnapshot {
                    input_id: input_id.clone(),
                    message: message.clone(),
                    schema: schema.clone(),
                    requested_at: at,
                    expires_at: *expires_at,
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

    fn approval(&mut self) -> &mut ApprovalSnapshot {
        self.approval.get_or_insert(ApprovalSnapshot {
            requested_at: None,
            resolved_at: None,
            decision: None,
            expires_at: None,
            changed: None,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl RunWord {
    /// The status of a run with this outcome.
    pub fn at_end(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed => Self::Completed,
            RunOutcome::Incomplete { .. } => Self::Incomplete,
            RunOutcome::Failed { .. } => Self::Failed,
            RunOutcome::Cancelled => Self::Cancelled,
        }
    }
}

impl TextSnapshot {
    /// Whether it can be part of the answer.
    fn is_answer(&self) -> bool {
        self.kind == TextKind::Message && self.state != TextState::Superseded
    }

    fn is_empty(&self) -> bool {
        clean(&self.text).is_empty() && clean(&self.refusal).is_empty()
    }
}

impl TextState {
    fn of(completeness: Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self::Complete,
            Completeness::Cut => Self::Cut,
            Completeness::Superseded => Self::Superseded,
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
