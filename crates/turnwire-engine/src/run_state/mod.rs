//! The state of a run, folded from its events.
//!
//! Pure: no I/O, no clock, no tasks. A fresh run and a run read from the journal after a crash have
//! the same state.
//!
//! It answers three questions: [`RunState::next_step`], [`RunState::prompt`], and which events
//! close everything open ([`RunState::closing_events`]), which is the same for a cancel, a time
//! limit and a model failure.

use std::sync::Arc;

use serde_json::Value;
use turnwire_contract::{
    ApprovalAnswer, BudgetScope, BudgetUse, CallId, Completeness, Decision, Entry, Finish, InputId,
    Item, ItemId, Limits, Prompt, RunId, RunOutcome, RunRequest, ServerUse, Timestamp, ToolChoice,
    ToolOutcome, ToolRef, ToolSpec, Usage,
};

use self::budget::AskedBudgets;
use crate::{citations::Sources, compaction::compacted, output::Output};

mod budget;
mod closing;
mod fold;
mod next_step;
mod questions;
mod settling;

pub(crate) use fold::item_prefix;
use fold::{is_call, stubs_for_open_calls};
pub(crate) use settling::INTERRUPTED;

/// The next step of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Discover the tools of these servers.
    Discover(Vec<ServerUse>),
    /// Request the next turn of the model.
    AskModel,
    /// Request approvals for these calls.
    AskApproval(Vec<CallId>),
    /// Ask a person whether the run may use more of this budget.
    AskBudget(BudgetUse),
    /// Ask a person about the outcomes of these interrupted calls.
    AskOutcome(Vec<CallId>),
    /// Execute these calls concurrently.
    RunTools(Vec<CallId>),
    /// End these calls without executing them.
    SkipCalls {
        /// Ids of the calls.
        calls: Vec<CallId>,
        /// The reason shown to the model.
        reason: String,
    },
    /// Wait for a person's answer.
    Wait,
    /// End the run with this outcome.
    Finish(RunOutcome),
}

impl Step {
    /// Returns what the step does, for operators.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Discover(_) => "discovery of tools",
            Self::AskModel => "turn of the model",
            Self::AskApproval(_) | Self::AskBudget(_) | Self::AskOutcome(_) => "question",
            Self::RunTools(_) => "calls of tools",
            Self::SkipCalls { .. } => "skipping of calls",
            Self::Wait => "waiting",
            Self::Finish(_) => "end",
        }
    }
}

/// The state folded from a run's events.
#[derive(Debug, Clone)]
pub struct RunState {
    request: Arc<RunRequest>,
    /// The conversation before this run.
    history: Vec<Entry>,
    added: Vec<Entry>,
    /// The input, held back until the calls in the request have ended: their results come first.
    held_input: Vec<Entry>,
    /// Servers with an open discovery.
    discovering: Vec<(String, ItemId)>,
    /// Servers whose discovery has ended.
    asked: Vec<String>,
    /// Tools from discovered servers.
    discovered: Vec<Arc<ToolSpec>>,
    turn: u32,
    turn_is_open: bool,
    last_finish: Option<Finish>,
    // Boxed, because a run that waits for a tool has neither, and many wait at once.
    message: Option<Box<OpenMessage>>,
    reasoning: Option<Box<OpenReasoning>>,
    /// Output of the open turn. Enters the history when the turn ends, or is withdrawn.
    said: Vec<Entry>,
    /// The calls of the latest turn, in the model's order.
    calls: Vec<Call>,
    all_call_ids: Vec<CallId>,
    /// Open questions of tools.
    questions: Vec<OpenQuestion>,
    /// Tools that a person allowed for the rest of the conversation, in this run.
    remembered: Vec<String>,
    n_dispatched: u32,
    /// Size of the model output.
    output: Output,
    /// Tool results that an answer may cite.
    sources: Sources,
    /// Fingerprint of the last round, and how many rounds in a row had it.
    last_round: Option<u64>,
    n_same_rounds: u32,
    n_workers: u32,
    /// Number of workers that made progress, and whether the current one has.
    n_fruitful_workers: u32,
    is_fruitful: bool,
    asked_budgets: AskedBudgets,
    usage: Usage,
    /// What is known of the usage of the open turn, which is in no event until the turn ends.
    /// Boxed, because it is there for a moment, and many runs wait.
    open_usage: Option<Box<Usage>>,
    /// Whether an event could not be decoded, which makes the state unreliable.
    is_unreadable: bool,
    outcome: Option<RunOutcome>,
}

#[derive(Debug, Clone)]
struct OpenMessage {
    item_id: ItemId,
    text: String,
    refusal: String,
    /// Whether the model sent citations itself.
    has_sources: bool,
}

#[derive(Debug, Clone)]
struct OpenReasoning {
    item_id: ItemId,
    text: String,
}

/// A call of the latest turn and its progress.
#[derive(Debug, Clone)]
pub struct Call {
    /// Id of the call.
    pub call_id: CallId,
    item_id: ItemId,
    /// The called tool.
    pub tool: ToolRef,
    /// The arguments so far, as raw JSON text.
    pub arguments: String,
    /// Number of times the tool was started.
    pub attempts: u32,
    /// The model's arguments, if a person edited them.
    edited_from: Option<String>,
    /// Id of the tool's task, if the tool continues without a connection.
    pub task: Option<String>,
    /// Whether a person wants the call, whose outcome is unknown, to run again.
    pub may_repeat: bool,
    completeness: Option<Completeness>,
    /// Number of messages and reasoning items of its turn that stand before it.
    n_said_before: u32,
    /// The budget that the approval is about, if it is about one.
    budget: Option<BudgetScope>,
    approval: Approval,
    outcome: Option<ToolOutcome>,
}

#[derive(Debug, Clone, PartialEq)]
enum Approval {
    NotNeeded,
    Needed,
    Requested { expires_at: Option<Timestamp> },
    Resolved(ApprovalAnswer),
}

/// An unanswered question of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The call whose tool asks.
    pub call_id: CallId,
    /// Id of the question.
    pub input_id: InputId,
    /// JSON Schema of the answer.
    pub schema: Value,
    /// When the question expires.
    pub expires_at: Option<Timestamp>,
    /// Why the outcome of the call is unknown, if the engine asks about it.
    pub unknown_outcome: Option<String>,
}

impl RunState {
    /// Creates the state of a requested run in a conversation with this `history`.
    pub fn new(run_id: &RunId, request: Arc<RunRequest>, history: Vec<Entry>) -> Self {
        let mut added = stubs_for_open_calls(&request, &history);
        let mut input = request.entries(run_id);
        let n_before_calls = if request.first_calls.is_empty() {
            input.len()
        } else {
            input.len().min(request.n_before_calls)
        };
        let held_input = input.split_off(n_before_calls);
        added.append(&mut input);
        Self {
            added,
            held_input,
            request,
            history,
            discovering: Vec::new(),
            asked: Vec::new(),
            discovered: Vec::new(),
            turn: 0,
            turn_is_open: false,
            last_finish: None,
            message: None,
            reasoning: None,
            said: Vec::new(),
            calls: Vec::new(),
            all_call_ids: Vec::new(),
            questions: Vec::new(),
            remembered: Vec::new(),
            n_dispatched: 0,
            output: Output::default(),
            sources: Sources::default(),
            last_round: None,
            n_same_rounds: 0,
            n_workers: 0,
            n_fruitful_workers: 0,
            is_fruitful: false,
            asked_budgets: AskedBudgets::default(),
            usage: Usage::default(),
            open_usage: None,
            is_unreadable: false,
            outcome: None,
        }
    }

    /// Returns the request of the run.
    pub fn request(&self) -> &Arc<RunRequest> {
        &self.request
    }

    /// Returns the limits of the run.
    pub fn limits(&self) -> &Limits {
        &self.request.limits
    }

    /// Returns the number of workers so far.
    pub(crate) fn n_workers(&self) -> u32 {
        self.n_workers
    }

    /// Returns the number of started turns.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns whether an event could not be decoded. Such a run cannot be continued.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Returns whether an approval or a question is open.
    pub(crate) fn asks_people(&self) -> bool {
        !self.questions.is_empty() || self.calls.iter().any(Call::waits_for_approval)
    }

    /// Returns the outcome, if the run has ended.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// Returns the byte limit of the next turn.
    pub fn remaining_turn_bytes(&self) -> usize {
        self.output.remaining_turn_bytes(self.limits())
    }

    /// Returns everything that a run which continues this one starts with.
    pub(crate) fn context(&self) -> Vec<Entry> {
        [self.history.as_slice(), self.added()].concat()
    }

    /// Returns the entries that this run adds to its conversation.
    pub fn added(&self) -> &[Entry] {
        &self.added
    }

    /// Returns the maximum number of worker deaths. The run ends above it. Workers that finished a
    /// turn or a tool call do not count.
    pub fn max_deaths(&self) -> u32 {
        self.n_fruitful_workers.saturating_add(self.limits().max_recoveries)
    }

    /// Returns a call of the latest turn.
    pub fn call(&self, call_id: &CallId) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.call_id == *call_id)
    }

    /// Returns the calls of the latest turn, in the model's order.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.calls.iter().map(|call| &call.call_id)
    }

    /// Notes what the open turn has used so far, all its attempts together, so that it is counted
    /// however the turn ends.
    pub(crate) fn note_usage(&mut self, usage: Usage) {
        self.open_usage = Some(Box::new(usage));
    }

    /// Returns whether the latest turn has client-side calls.
    pub(crate) fn calls_client(&self) -> bool {
        self.calls.iter().any(|call| call.tool.kind.is_run_by_client())
    }

    /// Returns whether the run or its conversation has a call with this id.
    pub fn knows_call(&self, call_id: &CallId) -> bool {
        self.all_call_ids.contains(call_id) || self.history.iter().any(|e| is_call(e, call_id))
    }

    /// Returns the spec of a tool that was offered to the model.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.offered().find(|spec| spec.name == name).map(Arc::as_ref)
    }

    /// Returns the spec of the tool of a call. A call in the request may be one of an earlier run,
    /// which may have offered the tool under another name, and another tool under this one.
    pub fn spec_of(&self, tool: &ToolRef) -> Option<&ToolSpec> {
        self.shared_spec_of(tool).map(Arc::as_ref)
    }

    /// The same, to keep it.
    pub(crate) fn shared_spec_of(&self, tool: &ToolRef) -> Option<&Arc<ToolSpec>> {
        let of_server = || self.offered().filter(|spec| spec.server == tool.server);
        let exact = of_server().find(|spec| spec.name == tool.name);
        let is_it = |spec: &&Arc<ToolSpec>| {
            spec.server.is_some() && spec.own_name.is_none() && spec.own_name() == tool.own_name()
        };
        exact.or_else(|| of_server().find(is_it))
    }

    /// Returns the specs of all offered tools.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.request.tools.iter().chain(&self.discovered)
    }

    /// Returns the item of an open discovery.
    pub(crate) fn discovering(&self, server: &str) -> Option<&ItemId> {
        self.discovering.iter().find(|(label, _)| label == server).map(|(_, item_id)| item_id)
    }

    /// Returns the next prompt.
    pub fn prompt(&self) -> Prompt {
        let request = &self.request;
        Prompt {
            model: request.model.clone(),
            instructions: request.instructions.clone(),
            items: self.items(),
            tools: self.offered().cloned().collect(),
            tool_choice: self.tool_choice(),
            parallel_tool_calls: request.parallel_tool_calls,
            generation: request.generation.clone(),
            trace: None,
        }
    }

    /// Returns the conversation as shown to the model.
    fn items(&self) -> Vec<Arc<Item>> {
        let history = self.history.iter().map(|entry| Arc::clone(&entry.item)).collect();
        let mut items = match self.limits().whole_results_for {
            Some(n_turns) => compacted(history, n_turns),
            None => history,
        };
        items.extend(self.added.iter().map(|entry| Arc::clone(&entry.item)));
        items
    }

    /// A forced tool choice applies until the first call. Otherwise the model could never answer.
    fn tool_choice(&self) -> ToolChoice {
        match &self.request.tool_choice {
            ToolChoice::Required | ToolChoice::Named { .. } if self.n_dispatched > 0 => {
                ToolChoice::Auto
            }
            choice @ (ToolChoice::Auto
            | ToolChoice::None
            | ToolChoice::Required
            | ToolChoice::Named { .. }) => choice.clone(),
        }
    }
}

impl Call {
    /// Returns the reason of a denial, if a person denied the call.
    pub fn denied(&self) -> Option<&str> {
        match &self.answer()?.decision {
            Decision::Denied { reason } => Some(reason),
            Decision::Approved => None,
        }
    }

    /// Returns the approval answer, if there is one.
    pub fn answer(&self) -> Option<&ApprovalAnswer> {
        match &self.approval {
            Approval::Resolved(answer) => Some(answer),
            Approval::NotNeeded | Approval::Needed | Approval::Requested { .. } => None,
        }
    }

    /// Returns when the open approval expires.
    fn expires_at(&self) -> Option<Timestamp> {
        match &self.approval {
            Approval::Requested { expires_at } if self.outcome.is_none() => *expires_at,
            Approval::Requested { .. }
            | Approval::NotNeeded
            | Approval::Needed
            | Approval::Resolved(_) => None,
        }
    }

    /// Returns whether an approval is open.
    pub fn waits_for_approval(&self) -> bool {
        matches!(self.approval, Approval::Requested { .. }) && self.outcome.is_none()
    }

    /// Returns whether the client executes the call after the run. The call must be complete.
    fn is_for_client(&self) -> bool {
        self.tool.kind.is_run_by_client() && self.completeness == Some(Completeness::Complete)
    }

    /// Returns whether the arguments exceeded the limit. Such a call is never executed.
    pub fn was_cut(&self) -> bool {
        self.completeness == Some(Completeness::Cut)
    }

    fn was_skipped(&self) -> bool {
        matches!(self.outcome, Some(ToolOutcome::Skipped { .. }))
    }
}
