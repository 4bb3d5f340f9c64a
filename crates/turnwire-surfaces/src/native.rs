//! A run as it stands: what `GET /v1/runs/{id}` shows.
//!
//! Whoever comes late need not read a run from its first event. The snapshot is all events so
//! far, added up, and `last_seq` says how far: read on from there and every delta has something
//! to be added to. It is the same fold for a run that goes on and for one that is over.
//!
//! The heart of it is the ledger: who worked on the run and when, and for each call what was asked for, every try with its
//! time and why the one before did not count, and how it ended, in the words that all surfaces
//! share ([`CallState`]). What was said stands here as the journal has it, so that deltas fit;
//! only `text`, which is for showing, is cleaned. Results are a summary and a reference,
//! because they may be big.

use serde::Serialize;
use turnwire_contract::{
    Annotation, CallId, Completeness, ConversationId, Decision, DiscoveryOutcome, Event, Failure,
    InputId, ItemId, Recorded, Reply, RunId, RunOutcome, Seq, Timestamp, ToolKind, ToolOutcome,
    ToolRef, Usage,
};
use utoipa::ToSchema;

use crate::{
    call_state::CallState,
    clean::clean,
    native_event::{
        AnnotationShape, DecisionShape, FailureShape, ReplyShape, RunOutcomeShape, ToolKindShape,
        UsageShape,
    },
    preview::{WIRE_BYTES, result_ref, result_summary},
};

/// A run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunSnapshot {
    /// The run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Where it stands.
    pub status: RunWord,
    /// How it ended, with the reason; nothing while it goes on.
    #[schema(value_type = Option<RunOutcomeShape>)]
    pub outcome: Option<RunOutcome>,
    /// What the run needs and no worker has, if it is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Which model was asked for.
    pub model: String,
    /// The conversation it belongs to.
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
    /// The run it continues, where there is no conversation.
    #[schema(value_type = Option<String>)]
    pub continues: Option<RunId>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When a worker first took it up.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// Who has worked on it, in order: more than one if the others went away.
    pub workers: Vec<WorkerSnapshot>,
    /// How often the model has been asked; 0 before the first time.
    pub turn: u32,
    /// What the model is being asked again for, if it is.
    pub retrying: Option<Retrying>,
    /// How many unreadable parts of the model's answers were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_parts: u32,
    /// The answer so far: what was said in the last turn that said anything.
    pub text: String,
    /// Everything that was said and thought, in order.
    pub said: Vec<SaidSnapshot>,
    /// Every call, in order.
    pub calls: Vec<CallSnapshot>,
    /// Every tool server that was asked for its tools.
    pub servers: Vec<ServerSnapshot>,
    /// What the model cost so far.
    #[schema(value_type = UsageShape)]
    pub usage: Usage,
    /// The place of the last event in here; read on after it.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunWord {
    /// No worker has taken it up.
    Queued,
    /// It is being worked on.
    Running,
    /// Its worker has died, and no other has what it needs.
    Stalled,
    /// The model gave its answer, or handed calls to the client.
    Completed,
    /// It stopped at a limit.
    Incomplete,
    /// The model or the engine could not go on.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// A worker's time with a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkerSnapshot {
    /// 1 for the first.
    pub attempt: u32,
    /// When it took the run up.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When it ended the run, or recorded its last event before another one took over; nothing
    /// while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Whether it went on with what another worker had left.
    pub taken_over: bool,
}

/// A turn that is being tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Retrying {
    /// 2 for the second try.
    pub attempt: u32,
    /// What went wrong.
    #[schema(value_type = FailureShape)]
    pub reason: Failure,
    /// How long is waited first.
    pub delay_ms: u64,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// One thing that the model said or thought.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SaidSnapshot {
    /// The item.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// Said or thought.
    pub kind: SaidKind,
    /// In which turn.
    pub turn: u32,
    /// How far it has come.
    pub state: SaidState,
    /// The words so far.
    pub text: String,
    /// The refusal so far.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refusal: String,
    /// Where the statements come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<AnnotationShape>)]
    pub annotations: Vec<Annotation>,
}

/// Said or thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaidKind {
    /// Said to the person.
    Message,
    /// Thought aloud.
    Reasoning,
}

/// How far a text has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaidState {
    /// It may still grow.
    Open,
    /// The model finished it.
    Complete,
    /// It was cut.
    Cut,
    /// Its worker died; what follows replaces it.
    Superseded,
}

/// One line of the ledger of calls.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallSnapshot {
    /// The call.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// The output item that stands for it.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The tool's name.
    pub tool: String,
    /// What kind of tool it is.
    #[schema(value_type = ToolKindShape)]
    pub kind: ToolKind,
    /// The server it lives on, if it lives on one.
    pub server: Option<String>,
    /// In which turn it was asked for; 0 for calls that came with the request.
    pub turn: u32,
    /// Where it stands.
    pub state: CallState,
    /// The arguments so far, as raw JSON text.
    pub arguments: String,
    /// Whether those are all of them.
    pub arguments_complete: bool,
    /// When the model named it.
    #[schema(value_type = String, format = DateTime)]
    pub announced_at: Timestamp,
    /// What a person was asked, if one was.
    pub approval: Option<ApprovalSnapshot>,
    /// What its tool has asked a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputSnapshot>,
    /// Every try.
    pub attempts: Vec<AttemptSnapshot>,
    /// When a tool first began to work on it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// How long the tool worked; nothing while the call goes on.
    pub duration_ms: Option<u64>,
    /// What the tool last told of its work.
    pub progress: Option<ProgressSnapshot>,
    /// What the tool let out early, the last 32 KiB of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_so_far: String,
    /// What came of it, on one line; nothing while the call goes on.
    pub summary: Option<String>,
    /// What went wrong, if there is a code for it.
    #[schema(value_type = Option<FailureShape>)]
    pub failure: Option<Failure>,
    /// How many bytes the whole result has, if it worked.
    pub result_bytes: Option<u64>,
    /// Where the whole result is, if it worked.
    pub result_ref: Option<String>,
}

/// What a person was asked about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApprovalSnapshot {
    /// When; nothing if the run before asked.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub requested_at: Option<Timestamp>,
    /// When the answer came.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Timestamp>,
    /// The answer.
    #[schema(value_type = Option<DecisionShape>)]
    pub decision: Option<Decision>,
    /// Until when it may come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// What the tool says of itself now, if its definition is not the one that was trusted
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The arguments as the model wrote them, if a person has put others in their place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_from: Option<String>,
    /// Whether the answer holds for the rest of the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Where the answer came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a tool has asked a person.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputSnapshot {
    /// The question.
    #[schema(value_type = String)]
    pub input_id: InputId,
    /// What is asked.
    pub message: String,
    /// The JSON Schema of the answer.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    pub requested_at: Timestamp,
    /// Until when the answer may come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The answer; nothing while the tool waits.
    #[schema(value_type = Option<ReplyShape>)]
    pub reply: Option<Reply>,
}

/// One try of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttemptSnapshot {
    /// 1 for the first.
    pub attempt: u32,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Why the try before it did not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FailureShape>)]
    pub reason: Option<Failure>,
}

/// What a tool last told of its work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct ProgressSnapshot {
    /// The phase it is in, in its own words.
    pub phase: Option<String>,
    /// How much is done, in its own unit.
    pub progress: Option<f64>,
    /// How much there is.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: Option<String>,
    /// When it last said anything; nothing if it has not since it began.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub heard_at: Option<Timestamp>,
    /// How long it had been at work when it was last found silent.
    pub silent_at_ms: Option<u64>,
}

/// A tool server that was asked for its tools.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServerSnapshot {
    /// Its label.
    pub server: String,
    /// The output item that stands for the question.
    #[schema(value_type = String)]
    pub item_id: ItemId,
    /// The tools it has for this run; nothing while it is being asked, or if it did not answer.
    pub tools: Option<Vec<String>>,
    /// Why it did not answer.
    #[schema(value_type = Option<FailureShape>)]
    pub failure: Option<Failure>,
}

/// A snapshot that is put together event by event, so that nobody needs all of them at once.
#[derive(Debug, Clone, Default)]
pub struct SnapshotFold {
    snapshot: Option<RunSnapshot>,
    /// When the last event was.
    last: Option<Timestamp>,
}

impl SnapshotFold {
    /// Takes note of one event. Every event has to come by here, in order.
    pub fn note(&mut self, recorded: &Recorded) {
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

    /// The run as it stands; nothing if there was no event.
    pub fn snapshot(self) -> Option<RunSnapshot> {
        let mut snapshot = self.snapshot?;
        snapshot.text = snapshot.answer();
        Some(snapshot)
    }
}

impl RunSnapshot {
    /// The same run, stalled if no worker has what it needs.
    pub fn stalled_by(mut self, lack: Option<String>) -> Self {
        if lack.is_some() {
            self.status = RunWord::Stalled;
        }
        self.stalled = lack;
        self
    }

    /// The run that `events` add up to; nothing if there are none.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Option<Self> {
        let mut fold = SnapshotFold::default();
        events.into_iter().for_each(|recorded| fold.note(recorded));
        fold.snapshot()
    }

    fn begin(first: &Recorded) -> Self {
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

    fn note(&mut self, recorded: &Recorded) {
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
            Event::MessageStarted { item_id } => self.open(item_id, SaidKind::Message),
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
                self.close(item_id, SaidKind::Message, text, *completeness);
                self.update_said(item_id, |said| said.refusal.clone_from(refusal));
            }
            Event::ReasoningAdded { item_id, text } => {
                self.open(item_id, SaidKind::Reasoning);
                self.update_said(item_id, |said| said.text.push_str(text));
            }
            Event::ReasoningFinished { item_id, text, completeness, .. } => {
                self.close(item_id, SaidKind::Reasoning, text, *completeness);
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

    /// One call, if the run has it.
    pub fn call(&self, call_id: &CallId) -> Option<&CallSnapshot> {
        self.calls.iter().rev().find(|call| call.call_id == *call_id)
    }

    fn take_up(&mut self, attempt: u32, since: Timestamp, taken_over: bool) {
        self.workers.push(WorkerSnapshot { attempt, since, until: None, taken_over });
    }

    /// The worker that has the run was heard of at `until` for the last time.
    fn part_with_worker(&mut self, until: Timestamp) {
        if let Some(worker) = self.workers.last_mut() {
            worker.until.get_or_insert(until);
        }
    }

    /// Whatever a withdrawn turn said will be said again.
    fn abandon(&mut self, turn: u32) {
        self.retrying = None;
        let withdrawn = self.said.iter_mut().filter(|said| said.turn == turn);
        withdrawn.for_each(|said| said.state = SaidState::Superseded);
    }

    fn open(&mut self, item_id: &ItemId, kind: SaidKind) {
        self.retrying = None;
        if self.said.iter().rev().any(|said| said.item_id == *item_id) {
            return;
        }
        self.said.push(SaidSnapshot {
            item_id: item_id.clone(),
            kind,
            turn: self.turn,
            state: SaidState::Open,
            text: String::new(),
            refusal: String::new(),
            annotations: Vec::new(),
        });
    }

    fn close(&mut self, item_id: &ItemId, kind: SaidKind, text: &str, completeness: Completeness) {
        self.open(item_id, kind);
        self.update_said(item_id, |said| {
            text.clone_into(&mut said.text);
            said.state = SaidState::of(completeness);
        });
    }

    fn update_said(&mut self, item_id: &ItemId, update: impl FnOnce(&mut SaidSnapshot)) {
        if let Some(said) = self.said.iter_mut().rev().find(|said| said.item_id == *item_id) {
            update(said);
        }
    }

    /// What [`Answer`](crate::Answer) would be if the run ended here: all words of the last
    /// turn that has any, or its refusal if it has no others.
    fn answer(&self) -> String {
        let heard = |said: &&SaidSnapshot| said.is_answer() && !said.is_empty();
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

    /// Nothing changes about a call that is over.
    fn note_call(&mut self, recorded: &Recorded) {
        let Some(call_id) = recorded.event.call_id() else { return };
        let call = self.calls.iter_mut().rev().find(|call| call.call_id == *call_id);
        if let Some(call) = call.filter(|call| call.finished_at.is_none()) {
            call.note(recorded);
        }
    }
}

impl CallSnapshot {
    fn note(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        if let Some(state) = CallState::after(&recorded.event) {
            self.state = state;
        }
        match &recorded.event {
            Event::ArgumentsAdded { text, .. } => self.arguments.push_str(text),
            Event::ArgumentsFinished { arguments, completeness, .. } => {
                self.arguments.clone_from(arguments);
                self.arguments_complete = *completeness == Completeness::Complete;
                // From here on the client works on it; this run will not hear of it again.
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
            Event::RunQueued { .. }
            | Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnStarted { .. }
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
            | Event::CallAnnounced { .. }
            | Event::RunFinished { .. } => {}
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

    /// A new try begins its own story: what the one before said of itself is over.
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

    /// Keeps the end: twice as much is let in before the beginning is cut off, so that a tool
    /// that writes byte by byte does not cost a copy each time.
    fn add_output(&mut self, text: &str) {
        self.output_so_far.push_str(text);
        if self.output_so_far.len() > 2 * WIRE_BYTES {
            let start =
                self.output_so_far.ceil_char_boundary(self.output_so_far.len() - WIRE_BYTES);
            self.output_so_far.drain(..start);
        }
    }

    fn finish(&mut self, outcome: &ToolOutcome, duration_ms: u64, recorded: &Recorded) {
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
    /// Where a run stands that ended so.
    pub fn at_end(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed => Self::Completed,
            RunOutcome::Incomplete { .. } => Self::Incomplete,
            RunOutcome::Failed { .. } => Self::Failed,
            RunOutcome::Cancelled => Self::Cancelled,
        }
    }
}

impl SaidSnapshot {
    /// Whether it can be part of the answer.
    fn is_answer(&self) -> bool {
        self.kind == SaidKind::Message && self.state != SaidState::Superseded
    }

    fn is_empty(&self) -> bool {
        clean(&self.text).is_empty() && clean(&self.refusal).is_empty()
    }
}

impl SaidState {
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
