//! What the events so far mean, and what has to happen next.
//!
//! Pure: no I/O, no clock, no tasks. The state is a fold over the events, so a fresh run and
//! a run read back from the journal after a crash cannot differ.
//!
//! Three questions are asked of it: [`RunState::next_step`], [`RunState::prompt`], and what
//! would have to be recorded to close everything that is open ([`RunState::closing_events`]).
//! There is one answer to the last one, whoever asks: a turn that ends well, a cancel, a time
//! limit, a broken model, a takeover.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde_json::Value;
use turnwire_contract::{
    ApprovalAnswer, Approvals, CallId, Completeness, Content, Decision, DiscoveryOutcome, Effect,
    Entry, Event, Failure, Finish, FirstCall, IncompleteReason, InputId, Item, ItemId, Limits,
    Prompt, Reply, Role, RunId, RunOutcome, RunRequest, ServerUse, Timestamp, ToolChoice, ToolKind,
    ToolOutcome, ToolRef, ToolSpec, Usage,
    seeded::{Fault, is_seeded},
};

use crate::{
    citations::{Sources, citations},
    compaction::compacted,
    failures,
    output::{Output, is_reached},
    tool_result::{add_edit_note, add_unknown_outcome_note, outcome_unknown, prefix, tool_result},
};

/// What the model is told of a call that nobody could be asked about.
const NOBODY_TO_ASK: &str = "nobody can be asked on this connection";
/// What it is told if that is because the tool is not what it was.
const CHANGED: &str = "the tool's definition has changed since it was last trusted, and nobody can \
                       be asked about it on this connection";
/// How much it is shown of arguments that were too long.
const SHOWN_OF_CUT: usize = 1024;
/// What it is told of a call that nobody has answered about.
const NOT_IN_TIME: &str = "nobody answered in time";

/// What has to happen next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask these servers for their tools.
    Discover(Vec<ServerUse>),
    /// Ask the model for its next turn.
    AskModel,
    /// Ask a person about these calls.
    AskApproval(Vec<CallId>),
    /// Carry out these calls, all at the same time.
    RunTools(Vec<CallId>),
    /// Do not carry out these calls.
    SkipCalls {
        /// The calls.
        calls: Vec<CallId>,
        /// Why not.
        reason: String,
    },
    /// Nothing, until a person has answered.
    Wait,
    /// End the run.
    Finish(RunOutcome),
}

/// The meaning of a run's events so far.
#[derive(Debug, Clone)]
pub struct RunState {
    request: Arc<RunRequest>,
    /// The conversation before this run.
    history: Vec<Entry>,
    /// What this run adds to it.
    added: Vec<Entry>,
    /// The input, while calls that come first are not settled: what came of them comes before.
    held_input: Vec<Entry>,
    /// The servers that are being asked for their tools.
    discovering: Vec<(String, ItemId)>,
    /// The servers that have been asked.
    asked: Vec<String>,
    /// The tools that servers brought.
    discovered: Vec<Arc<ToolSpec>>,
    turn: u32,
    turn_is_open: bool,
    last_finish: Option<Finish>,
    message: Option<OpenMessage>,
    reasoning: Option<OpenReasoning>,
    /// What the open turn has said so far; enters the history with the turn, or not at all.
    said: Vec<Entry>,
    /// The calls of the latest turn, in the order the model named them.
    calls: Vec<Call>,
    all_call_ids: Vec<CallId>,
    /// What tools ask people and nobody has answered yet.
    questions: Vec<OpenQuestion>,
    /// The tools that a person has allowed for the rest of the conversation, in this run.
    remembered: Vec<String>,
    n_dispatched: u32,
    /// How much the model has said.
    output: Output,
    /// What tools have found that an answer may cite.
    sources: Sources,
    /// What the last round of tools came to, and how many rounds in a row came to the same.
    last_round: Option<u64>,
    n_same_rounds: u32,
    n_workers: u32,
    /// How many workers have brought the run on, and whether the present one has.
    n_fruitful_workers: u32,
    is_fruitful: bool,
    usage: Usage,
    /// Whether something was recorded that cannot be read: what follows from it is not known.
    is_unreadable: bool,
    outcome: Option<RunOutcome>,
}

#[derive(Debug, Clone)]
struct OpenMessage {
    item_id: ItemId,
    text: String,
    refusal: String,
    /// Whether the model has named sources itself.
    has_sources: bool,
}

#[derive(Debug, Clone)]
struct OpenReasoning {
    item_id: ItemId,
    text: String,
}

/// A call of the latest turn, as far as it has come.
#[derive(Debug, Clone)]
pub struct Call {
    /// Which call.
    pub call_id: CallId,
    item_id: ItemId,
    /// Which tool.
    pub tool: ToolRef,
    /// The arguments so far, as raw JSON text.
    pub arguments: String,
    /// How often the tool was started on it.
    pub attempts: u32,
    /// The arguments as the model wrote them, if a person has put others in their place.
    edited_from: Option<String>,
    /// The name under which the tool works on without us, if it does.
    pub task: Option<String>,
    completeness: Option<Completeness>,
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

/// Something that a tool asks a person, and nobody has answered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The call whose tool asks.
    pub call_id: CallId,
    /// The question.
    pub input_id: InputId,
    /// The JSON Schema of what it wants to know.
    pub schema: Value,
    /// Until when the answer may come.
    pub expires_at: Option<Timestamp>,
}

impl RunState {
    /// A run that has been asked for, in a conversation with this `history`.
    pub fn new(run_id: &RunId, request: Arc<RunRequest>, history: Vec<Entry>) -> Self {
        let mut added = stubs_for_open_calls(&request, &history);
        let mut held_input = request.entries(run_id);
        if request.first_calls.is_empty() {
            added.append(&mut held_input);
        }
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
            usage: Usage::default(),
            is_unreadable: false,
            outcome: None,
        }
    }

    /// What was asked for.
    pub fn request(&self) -> &Arc<RunRequest> {
        &self.request
    }

    /// How far the run may go.
    pub fn limits(&self) -> &Limits {
        &self.request.limits
    }

    /// How many turns have begun.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Whether something was recorded that cannot be read. Nobody can go on with such a run.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Whether a person is being asked something.
    pub(crate) fn asks_people(&self) -> bool {
        !self.questions.is_empty() || self.calls.iter().any(Call::waits_for_approval)
    }

    /// How the run ended, if it has.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// How many bytes the next turn of the model may have.
    pub fn room_for_turn(&self) -> usize {
        self.output.room_for_turn(self.limits())
    }

    /// What this run adds to its conversation.
    pub fn added(&self) -> &[Entry] {
        &self.added
    }

    /// How many workers may have died over the run before it is given up: those under whom a
    /// turn or a tool was finished do not count against it.
    pub fn max_deaths(&self) -> u32 {
        self.n_fruitful_workers.saturating_add(self.limits().max_recoveries)
    }

    /// A call of the latest turn.
    pub fn call(&self, call_id: &CallId) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.call_id == *call_id)
    }

    /// The calls of the latest turn, in the order the model named them.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.calls.iter().map(|call| &call.call_id)
    }

    /// Whether the latest turn has calls that the client carries out.
    pub(crate) fn calls_client(&self) -> bool {
        self.calls.iter().any(|call| call.tool.kind.is_run_by_client())
    }

    /// Whether the run or its conversation has ever had a call of this id.
    pub fn knows_call(&self, call_id: &CallId) -> bool {
        self.all_call_ids.contains(call_id) || self.history.iter().any(|e| is_call(e, call_id))
    }

    /// What is known about a tool that was offered to the model.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.offered().find(|spec| spec.name == name).map(Arc::as_ref)
    }

    /// What is known about every tool that is offered to the model.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.request.tools.iter().chain(&self.discovered)
    }

    /// The item of a server that is being asked for its tools.
    pub(crate) fn discovering(&self, server: &str) -> Option<&ItemId> {
        self.discovering.iter().find(|(label, _)| label == server).map(|(_, item_id)| item_id)
    }

    /// What the model is asked next.
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
        }
    }

    /// The conversation as the model is shown it.
    fn items(&self) -> Vec<Arc<Item>> {
        let history = self.history.iter().map(|entry| Arc::clone(&entry.item)).collect();
        let mut items = match self.limits().whole_results_for {
            // The turn under way is the newest of them.
            Some(n_turns) => compacted(history, n_turns.saturating_sub(1)),
            None => history,
        };
        items.extend(self.added.iter().map(|entry| Arc::clone(&entry.item)));
        items
    }

    /// Whoever insists on a tool insists on it once: a model that had to call one after each
    /// result could never answer.
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

/// === What comes next ===
impl RunState {
    /// What has to happen next.
    pub fn next_step(&self) -> Step {
        if let Some(outcome) = &self.outcome {
            return Step::Finish(outcome.clone());
        }
        if self.is_unreadable {
            return Step::Finish(RunOutcome::Failed { failure: Failure::journal_unreadable() });
        }
        let to_ask =
            self.request.servers.iter().filter(|server| !self.asked.contains(&server.label));
        let to_ask: Vec<ServerUse> = to_ask.cloned().collect();
        if !to_ask.is_empty() {
            return Step::Discover(to_ask);
        }
        let Some(finish) = self.last_finish else { return self.ask_again() };
        let stopped_by = match finish {
            Finish::Length if self.was_too_long() => Some(IncompleteReason::MaxOutputBytes),
            Finish::Length => Some(IncompleteReason::MaxOutputTokens),
            Finish::ContentFilter => Some(IncompleteReason::ContentFilter),
            Finish::Answered | Finish::CalledTools | Finish::Interrupted => None,
        };
        let open: Vec<&Call> = self.open_calls().collect();
        if let Some(reason) = stopped_by {
            return if open.is_empty() {
                Step::Finish(RunOutcome::Incomplete { reason })
            } else {
                skip(open, "the model's answer was cut off")
            };
        }
        if !open.is_empty() {
            return self.step_for(open);
        }
        if self.calls.is_empty() || self.calls.iter().any(|call| self.is_for_others(call)) {
            return Step::Finish(RunOutcome::Completed);
        }
        if self.calls.iter().any(Call::was_skipped) {
            return Step::Finish(RunOutcome::Incomplete { reason: IncompleteReason::MaxToolCalls });
        }
        if self.n_same_rounds >= self.limits().max_repeats {
            return Step::Finish(RunOutcome::Incomplete { reason: IncompleteReason::RepeatedCall });
        }
        self.ask_again()
    }

    /// Whether it was us who cut the latest turn. What is left out of a call does not count as
    /// said, so such a call counts by itself.
    fn was_too_long(&self) -> bool {
        let is_full = |call: &Call| {
            call.was_cut() && is_reached(call.arguments.len(), self.limits().max_arguments)
        };
        self.output.is_full(self.limits()) || self.calls.iter().any(is_full)
    }

    fn ask_again(&self) -> Step {
        if self.turn >= self.limits().max_turns && !self.turn_is_open {
            let reason = IncompleteReason::MaxTurns;
            return Step::Finish(RunOutcome::Incomplete { reason });
        }
        Step::AskModel
    }

    /// What to do about calls that have no end yet.
    fn step_for(&self, open: Vec<&Call>) -> Step {
        let room = self.limits().max_tool_calls.saturating_sub(self.n_dispatched);
        if room == 0 {
            return skip(open, "the run has used up its tool calls");
        }
        let to_ask: Vec<CallId> = open
            .iter()
            // Nobody is asked about half a call.
            .filter(|call| !call.was_cut())
            .filter(|call| call.approval == Approval::Needed || self.is_asked_about_late(call))
            .map(|call| call.call_id.clone())
            .collect();
        if !to_ask.is_empty() {
            return Step::AskApproval(to_ask);
        }
        let most = room.min(self.limits().max_parallel_calls.max(1));
        let batch = self.next_batch(&open, usize::try_from(most).unwrap_or(usize::MAX));
        if batch.is_empty() { Step::Wait } else { Step::RunTools(batch) }
    }

    /// Whether a person must allow a call that comes first and was not asked about: its tool may
    /// have become known only after it was announced.
    fn is_asked_about_late(&self, call: &Call) -> bool {
        let is_it = |first: &FirstCall| first.call_id == call.call_id && first.decision.is_none();
        call.approval == Approval::NotNeeded
            && self.turn == 0
            && self.request.first_calls.iter().any(is_it)
            && self.spec(&call.tool.name).is_some_and(ToolSpec::is_guarded)
    }

    /// The next calls that may run side by side: neighbours that allow it, or one alone.
    /// A call that waits for a person does not hold up others, unless order was asked for.
    fn next_batch(&self, open: &[&Call], most: usize) -> Vec<CallId> {
        let waits = |call: &Call| matches!(call.approval, Approval::Requested { .. });
        if !self.request.parallel_tool_calls {
            return open
                .first()
                .filter(|call| !waits(call))
                .map(|c| c.call_id.clone())
                .into_iter()
                .collect();
        }
        let mut ready = open.iter().filter(|call| !waits(call));
        let Some(first) = ready.next() else { return Vec::new() };
        let mut batch = vec![first.call_id.clone()];
        if self.may_run_beside_others(first) {
            let others = ready.take_while(|call| self.may_run_beside_others(call));
            batch.extend(others.take(most - 1).map(|call| call.call_id.clone()));
        }
        batch
    }

    /// A tool nobody knows does nothing, so it is in nobody's way.
    fn may_run_beside_others(&self, call: &Call) -> bool {
        self.spec(&call.tool.name).is_none_or(|spec| spec.parallel)
    }

    /// Calls of the latest turn that the server owes an end.
    fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.outcome.is_none() && !self.is_for_others(call))
    }

    /// Whether this run will not carry the call out: the client does, or the next run, once a
    /// person has answered.
    fn is_for_others(&self, call: &Call) -> bool {
        let is_handed_back =
            self.request.approvals == Approvals::HandBack && call.waits_for_approval();
        call.is_for_client() || is_handed_back
    }
}

fn skip(calls: Vec<&Call>, reason: &str) -> Step {
    let calls = calls.into_iter().map(|call| call.call_id.clone()).collect();
    Step::SkipCalls { calls, reason: reason.to_owned() }
}

impl Call {
    /// Whether a person said no, and why.
    pub fn denied(&self) -> Option<&str> {
        match &self.answer()?.decision {
            Decision::Denied { reason } => Some(reason),
            Decision::Approved => None,
        }
    }

    /// What a person has answered, if one was asked and has.
    pub fn answer(&self) -> Option<&ApprovalAnswer> {
        match &self.approval {
            Approval::Resolved(answer) => Some(answer),
            Approval::NotNeeded | Approval::Needed | Approval::Requested { .. } => None,
        }
    }

    /// Until when the call waits for a person, if it does and not for ever.
    fn expires_at(&self) -> Option<Timestamp> {
        match &self.approval {
            Approval::Requested { expires_at } if self.outcome.is_none() => *expires_at,
            Approval::Requested { .. }
            | Approval::NotNeeded
            | Approval::Needed
            | Approval::Resolved(_) => None,
        }
    }

    /// Whether a person has been asked and has not answered.
    pub fn waits_for_approval(&self) -> bool {
        matches!(self.approval, Approval::Requested { .. }) && self.outcome.is_none()
    }

    /// Whether the client carries it out after the run: it must be whole for that.
    fn is_for_client(&self) -> bool {
        self.tool.kind.is_run_by_client() && self.completeness == Some(Completeness::Complete)
    }

    /// Whether the model has written more than was kept: it is never carried out.
    pub fn was_cut(&self) -> bool {
        self.completeness == Some(Completeness::Cut)
    }

    fn was_skipped(&self) -> bool {
        matches!(self.outcome, Some(ToolOutcome::Skipped { .. }))
    }
}

/// === Asking people ===
impl RunState {
    /// What is recorded at the moment `now` when calls need a person's permission: the question,
    /// and at once the answer if nobody can be asked, or if one was given earlier for the whole
    /// conversation. `is_allowed` knows of those that this run has not seen.
    pub fn asking_events(
        &self,
        calls: Vec<CallId>,
        now: Timestamp,
        is_allowed: impl Fn(&ToolSpec) -> bool,
    ) -> Vec<Event> {
        let asked = |call_id: CallId| {
            let spec = self.call(&call_id).and_then(|call| self.spec(&call.tool.name));
            let changed = spec.and_then(|spec| spec.changed.clone());
            let is_remembered = |spec: &ToolSpec| self.remembered.contains(&spec.name);
            let answer = if spec.is_some_and(|spec| is_remembered(spec) || is_allowed(spec)) {
                let yes = ApprovalAnswer::from(Decision::Approved).by("conversation");
                Some(ApprovalAnswer { remember: true, ..yes })
            } else if self.request.approvals == Approvals::Decline {
                let reason = if changed.is_some() { CHANGED } else { NOBODY_TO_ASK }.to_owned();
                Some(ApprovalAnswer::from(Decision::Denied { reason }).by("nobody"))
            } else {
                None
            };
            let patience = spec.and_then(|spec| spec.approval_expiry);
            let patience = patience.or(self.limits().approval_expiry);
            // A question that is handed back is answered by another run, whenever that comes.
            let waits = answer.is_none() && self.request.approvals == Approvals::Wait;
            let expires_at = patience.filter(|_| waits).map(|wait| now.later(wait));
            let answer = answer.map(|answer| Event::approval_resolved(call_id.clone(), answer));
            [Event::ApprovalRequested { call_id, expires_at, changed }].into_iter().chain(answer)
        };
        calls.into_iter().flat_map(asked).collect()
    }

    /// What nobody has answered in time, as of `now`.
    pub fn expired_events(&self, now: Timestamp) -> Vec<Event> {
        let is_due = |expires_at: Option<Timestamp>| expires_at.is_some_and(|at| at <= now);
        let calls = self.calls.iter().filter(|call| is_due(call.expires_at()));
        let denied = calls.map(|call| {
            let decision = Decision::Denied { reason: NOT_IN_TIME.to_owned() };
            let answer = ApprovalAnswer::from(decision).by("expiry");
            Event::approval_resolved(call.call_id.clone(), answer)
        });
        let questions = self.questions.iter().filter(|question| is_due(question.expires_at));
        denied.chain(questions.map(|question| question.put_aside("expiry"))).collect()
    }

    /// When the next question will have waited for too long.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let of_calls = self.calls.iter().filter_map(Call::expires_at);
        of_calls.chain(self.questions.iter().filter_map(|question| question.expires_at)).min()
    }

    /// What the tool of a call asks a person, in the order it did.
    pub fn questions<'a>(
        &'a self,
        call_id: &'a CallId,
    ) -> impl Iterator<Item = &'a OpenQuestion> + 'a {
        self.questions.iter().filter(move |question| question.call_id == *call_id)
    }

    /// A question that nobody has answered yet.
    pub fn question(&self, input_id: &InputId) -> Option<&OpenQuestion> {
        self.questions.iter().find(|question| question.input_id == *input_id)
    }

    /// What settles the questions of a call that is over.
    pub fn close_questions(&self, call_id: &CallId) -> Vec<Event> {
        self.questions(call_id).map(|question| question.put_aside("call_over")).collect()
    }
}

impl OpenQuestion {
    fn put_aside(&self, by: &str) -> Event {
        Event::InputResolved {
            call_id: self.call_id.clone(),
            input_id: self.input_id.clone(),
            reply: Reply::Cancelled,
            by: Some(by.to_owned()),
        }
    }
}

/// === Closing what is open ===
impl RunState {
    /// What closes the open message and reasoning, if there are any.
    pub fn close_text(&self, completeness: Completeness) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(OpenReasoning { item_id, text }) = self.reasoning.clone() {
            events.push(Event::ReasoningFinished { item_id, text, seal: None, completeness });
        }
        if let Some(message) = self.message.clone() {
            events.extend(self.citations_of(&message, completeness));
            let OpenMessage { item_id, text, refusal, .. } = message;
            events.push(Event::MessageFinished { item_id, text, refusal, completeness });
        }
        events
    }

    /// What the message cites. A model that names its sources itself knows best, and what was
    /// withdrawn cites nothing.
    fn citations_of(&self, message: &OpenMessage, completeness: Completeness) -> Vec<Event> {
        if message.has_sources || completeness == Completeness::Superseded {
            return Vec::new();
        }
        let added =
            |annotation| Event::AnnotationAdded { item_id: message.item_id.clone(), annotation };
        citations(&message.text, &self.sources).into_iter().map(added).collect()
    }

    /// What closes the arguments that are still being written.
    pub fn close_arguments(&self, completeness: Completeness) -> Vec<Event> {
        let unfinished = self.calls.iter().filter(|call| call.completeness.is_none());
        unfinished
            .map(|call| Event::ArgumentsFinished {
                call_id: call.call_id.clone(),
                arguments: call.arguments.clone(),
                completeness,
            })
            .collect()
    }

    /// Everything that must be recorded to end the run here and now, the end included.
    pub fn closing_events(&self, outcome: RunOutcome) -> Vec<Event> {
        let mut events = self.close_discoveries();
        events.extend(self.close_text(Completeness::Cut));
        events.extend(self.close_arguments(Completeness::Cut));
        events.extend(self.questions.iter().map(|question| question.put_aside("call_over")));
        let stopped = why_skipped(&outcome);
        // A call that was cut while it was written is not for the client either.
        let open = self.calls.iter().filter(|call| call.outcome.is_none());
        events.extend(open.filter(|call| self.turn_is_open || !self.is_for_others(call)).map(
            |call| {
                let outcome = match call.attempts {
                    0 => ToolOutcome::Skipped { reason: stopped.to_owned() },
                    _ => outcome_unknown("the run ended while the tool was at work"),
                };
                Event::ToolFinished { call_id: call.call_id.clone(), outcome, duration_ms: 0 }
            },
        ));
        if self.turn_is_open {
            let finish = Finish::Interrupted;
            let usage = Usage::default();
            events.push(Event::TurnFinished { turn: self.turn, finish, usage });
        }
        events.push(Event::RunFinished { outcome, usage: self.usage });
        events
    }

    /// What ends the questions to servers that have not answered.
    fn close_discoveries(&self) -> Vec<Event> {
        let closed = |(server, item_id): &(String, ItemId)| Event::ToolsDiscovered {
            item_id: item_id.clone(),
            server: server.clone(),
            outcome: DiscoveryOutcome::Failed { failure: failures::run_stopped() },
        };
        self.discovering.iter().map(closed).collect()
    }

    /// What a worker records when it takes over a run that another one left.
    ///
    /// A turn cut in the middle is withdrawn and asked for again. A tool that was at work is
    /// called again only if that does no harm, or if it works on under a name and need not begin
    /// again; otherwise its outcome is unknown, and said so.
    pub fn takeover_events(&self) -> Vec<Event> {
        let mut events = vec![Event::RunTakenOver { attempt: self.n_workers + 1 }];
        if self.turn_is_open {
            events.extend(self.close_text(Completeness::Superseded));
            events.extend(self.close_arguments(Completeness::Superseded));
            events.extend(self.calls.iter().map(|call| Event::ToolFinished {
                call_id: call.call_id.clone(),
                outcome: ToolOutcome::Skipped { reason: "the answer was withdrawn".to_owned() },
                duration_ms: 0,
            }));
            events.push(Event::TurnAbandoned { turn: self.turn });
            return events;
        }
        // Whoever waits for the answers is gone with its worker; a tool that is called again
        // asks again.
        events.extend(self.questions.iter().map(|question| question.put_aside("call_over")));
        let at_work = self.open_calls().filter(|call| call.attempts > 0 && call.task.is_none());
        let unknown = at_work.filter(|call| {
            let effect = self.spec(&call.tool.name).map(|spec| spec.effect);
            effect.is_none_or(|effect| effect == Effect::Once) && !is_seeded(Fault::BlindRetry)
        });
        events.extend(unknown.map(|call| Event::ToolFinished {
            call_id: call.call_id.clone(),
            outcome: outcome_unknown("the server stopped while the tool was at work"),
            duration_ms: 0,
        }));
        events
    }
}

fn why_skipped(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "the run was over",
        RunOutcome::Incomplete { .. } => "the run reached a limit",
        RunOutcome::Failed { .. } => "the run failed",
        RunOutcome::Cancelled => "the run was cancelled",
    }
}

/// === The fold ===
impl RunState {
    /// Takes note of one event.
    pub fn apply(&mut self, event: &Event) {
        self.output.note(event);
        match event {
            Event::Unknown(_) => self.is_unreadable |= event.is_unreadable(),
            Event::RunQueued { .. }
            | Event::LogprobsAdded { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::ToolStayedSilent { .. } => {}
            Event::ToolTaskStarted { call_id, task } => {
                self.change(call_id, |call| call.task = Some(task.clone()));
            }
            Event::RunStarted => self.n_workers = 1,
            Event::DiscoveryStarted { item_id, server } => {
                self.discovering.push((server.clone(), item_id.clone()));
            }
            Event::ToolsDiscovered { server, outcome, .. } => self.discover(server, outcome),
            Event::RunTakenOver { attempt } => {
                self.n_workers = *attempt;
                self.is_fruitful = false;
            }
            Event::TurnStarted { turn } => self.open_turn(*turn),
            Event::TurnAbandoned { .. } => self.withdraw_turn(),
            Event::TurnFinished { finish, usage, .. } => {
                self.note_progress();
                self.close_turn(*finish, *usage);
            }
            Event::MessageStarted { item_id } => self.open_message(item_id),
            Event::AnnotationAdded { .. } => {
                self.message.iter_mut().for_each(|message| message.has_sources = true);
            }
            Event::TextAdded { text, .. } => {
                self.message.iter_mut().for_each(|message| message.text.push_str(text));
            }
            Event::RefusalAdded { text, .. } => {
                self.message.iter_mut().for_each(|message| message.refusal.push_str(text));
            }
            Event::MessageFinished { item_id, text, refusal, .. } => {
                self.message = None;
                let item = message_item(text, refusal);
                self.said.extend(item.map(|item| entry(item_id, item)));
            }
            Event::ReasoningAdded { item_id, text } => {
                let open = self.reasoning.get_or_insert_with(|| OpenReasoning {
                    item_id: item_id.clone(),
                    text: String::new(),
                });
                open.text.push_str(text);
            }
            Event::ReasoningFinished { item_id, text, seal, .. } => {
                self.reasoning = None;
                let (text, seal) = (text.clone(), seal.clone());
                self.said.push(entry(item_id, Item::Reasoning { text, seal }));
            }
            Event::CallAnnounced { call_id, item_id, tool } => {
                self.announce(call_id, item_id, tool);
            }
            Event::ArgumentsAdded { call_id, text } => {
                self.change(call_id, |call| call.arguments.push_str(text));
            }
            Event::ArgumentsFinished { call_id, arguments, completeness } => {
                self.change(call_id, |call| {
                    call.arguments.clone_from(arguments);
                    call.completeness = Some(*completeness);
                });
            }
            Event::ApprovalRequested { call_id, expires_at, .. } => {
                let approval = Approval::Requested { expires_at: *expires_at };
                self.change(call_id, |call| call.approval = approval);
            }
            Event::ApprovalResolved { call_id, .. } => {
                event.answer().into_iter().for_each(|answer| self.resolve(call_id, answer));
            }
            Event::InputRequested { .. } | Event::InputResolved { .. } => {
                self.note_question(event);
            }
            Event::ToolStarted { call_id, attempt, .. }
            | Event::ToolRetried { call_id, attempt, .. } => {
                self.change(call_id, |call| call.attempts = *attempt);
            }
            Event::ToolFinished { call_id, outcome, .. } => {
                if matches!(outcome, ToolOutcome::Succeeded { .. }) {
                    self.note_progress();
                }
                self.finish_call(call_id, outcome);
            }
            Event::RunFinished { outcome, .. } => {
                self.added.append(&mut self.held_input);
                self.outcome = Some(outcome.clone());
            }
        }
    }

    fn change(&mut self, call_id: &CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.call_mut(call_id) {
            change(call);
        }
    }

    fn call_mut(&mut self, call_id: &CallId) -> Option<&mut Call> {
        self.calls.iter_mut().rev().find(|call| call.call_id == *call_id)
    }

    fn note_progress(&mut self) {
        self.n_fruitful_workers += u32::from(!self.is_fruitful);
        self.is_fruitful = true;
    }

    fn open_turn(&mut self, turn: u32) {
        self.turn = turn;
        self.turn_is_open = true;
        self.last_finish = None;
        self.calls.clear();
        self.said.clear();
    }

    fn open_message(&mut self, item_id: &ItemId) {
        self.message = Some(OpenMessage {
            item_id: item_id.clone(),
            text: String::new(),
            refusal: String::new(),
            has_sources: false,
        });
    }

    /// Nothing of a withdrawn turn enters the history.
    fn withdraw_turn(&mut self) {
        self.turn = self.turn.saturating_sub(1);
        self.turn_is_open = false;
        self.calls.clear();
        self.said.clear();
    }

    /// What the turn said enters the history, its calls only if the model finished them.
    fn close_turn(&mut self, finish: Finish, usage: Usage) {
        self.turn_is_open = false;
        self.last_finish = Some(finish);
        self.usage += usage;
        self.added.append(&mut self.said);
        if finish == Finish::Interrupted {
            return;
        }
        let is_new = |call: &&Call| !self.is_in_history(&call.call_id);
        let told = self.calls.iter().filter(|call| self.is_told(call)).filter(is_new);
        let called: Vec<Entry> = told.map(|call| entry(&call.item_id, call.item())).collect();
        self.added.extend(called);
        self.settle_round();
    }

    /// Whether the call enters the history. One that was too long does, so that the model is told;
    /// one that was cut with the whole answer does not.
    fn is_told(&self, call: &Call) -> bool {
        let has_finished = matches!(self.last_finish, Some(Finish::Answered | Finish::CalledTools));
        call.is_whole() || call.was_cut() && has_finished
    }

    /// Whether the call came with the history; then this run adds only what came of it.
    fn is_in_history(&self, call_id: &CallId) -> bool {
        self.turn == 0 && self.history.iter().any(|entry| is_call(entry, call_id))
    }

    fn discover(&mut self, server: &str, outcome: &DiscoveryOutcome) {
        self.discovering.retain(|(label, _)| label != server);
        self.asked.push(server.to_owned());
        if let DiscoveryOutcome::Listed { tools } = outcome {
            self.discovered.extend(tools.iter().cloned());
        }
    }

    fn announce(&mut self, call_id: &CallId, item_id: &ItemId, tool: &ToolRef) {
        // A call that comes first has been asked about, or needs no asking.
        let spec = self.spec(&tool.name).filter(|_| self.turn > 0);
        let needs_approval = spec.is_some_and(ToolSpec::is_guarded);
        self.all_call_ids.push(call_id.clone());
        self.calls.push(Call {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            tool: tool.clone(),
            arguments: String::new(),
            attempts: 0,
            edited_from: None,
            task: None,
            completeness: None,
            approval: if needs_approval { Approval::Needed } else { Approval::NotNeeded },
            outcome: None,
        });
    }

    fn note_question(&mut self, event: &Event) {
        if let Event::InputRequested { call_id, input_id, schema, expires_at, .. } = event {
            self.questions.push(OpenQuestion {
                call_id: call_id.clone(),
                input_id: input_id.clone(),
                schema: schema.clone(),
                expires_at: *expires_at,
            });
        }
        if let Event::InputResolved { input_id, .. } = event {
            self.questions.retain(|question| question.input_id != *input_id);
        }
    }

    fn resolve(&mut self, call_id: &CallId, answer: ApprovalAnswer) {
        let Some(call) = self.call_mut(call_id) else { return };
        if let Some(arguments) = &answer.arguments {
            call.edited_from = Some(std::mem::replace(&mut call.arguments, arguments.clone()));
        }
        let remembered = (answer.remember && answer.decision == Decision::Approved)
            .then(|| call.tool.name.clone());
        call.approval = Approval::Resolved(answer);
        self.remembered.extend(remembered);
    }

    fn finish_call(&mut self, call_id: &CallId, outcome: &ToolOutcome) {
        let Some(call) = self.call_mut(call_id) else { return };
        call.outcome = Some(outcome.clone());
        let kind = call.tool.kind;
        if !call.was_skipped() {
            self.n_dispatched += 1;
        }
        if let ToolOutcome::Succeeded { output } = outcome {
            self.sources.note(kind, output);
        }
        self.settle_round();
    }

    /// Once every call that is ours has ended, the results enter the history, in the order of
    /// the calls. Those of the client come with a later run.
    fn settle_round(&mut self) {
        if self.turn_is_open || self.calls.is_empty() || self.open_calls().next().is_some() {
            return;
        }
        let limit = self.limits().output_to_model;
        let results: Vec<Entry> = self
            .calls
            .iter()
            .filter(|call| self.is_told(call))
            .filter_map(|call| Some((call, call.outcome.as_ref()?)))
            .map(|(call, outcome)| {
                let mut result = tool_result(&call.call_id, outcome, limit);
                let effect = self.spec(&call.tool.name).map(|spec| spec.effect);
                if effect == Some(Effect::Once) && matches!(outcome, ToolOutcome::TimedOut { .. }) {
                    add_unknown_outcome_note(&mut result);
                }
                if call.edited_from.is_some() {
                    add_edit_note(&mut result, &call.arguments);
                }
                Entry::new(result_id(&call.item_id), result)
            })
            .collect();
        let round = self.fingerprint();
        let same = self.last_round == Some(round);
        self.n_same_rounds = if same { self.n_same_rounds + 1 } else { 1 };
        self.last_round = Some(round);
        self.added.extend(results);
        self.added.append(&mut self.held_input);
    }

    /// The same for two rounds that called the same tools with the same arguments and got the
    /// same results; a round that brought news is never the same.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for call in &self.calls {
            (&call.tool.name, &call.arguments).hash(&mut hasher);
            if let Some(ToolOutcome::Succeeded { output }) = &call.outcome {
                (&output.text, output.total_bytes()).hash(&mut hasher);
                output.images.iter().for_each(|image| image.base64.hash(&mut hasher));
            }
            call.outcome.as_ref().and_then(ToolOutcome::problem).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Call {
    fn is_whole(&self) -> bool {
        self.completeness == Some(Completeness::Complete)
    }

    /// The call as the model is reminded of it.
    fn item(&self) -> Item {
        let written =
            if self.was_cut() { prefix(&self.arguments, SHOWN_OF_CUT) } else { &self.arguments };
        let is_text = self.tool.kind == ToolKind::Custom;
        let arguments = if is_text { written.to_owned() } else { legal_arguments(written) };
        let ToolRef { name, kind, server } = self.tool.clone();
        Item::Call { call_id: self.call_id.clone(), name, arguments, kind, server }
    }
}

/// Results for calls that the conversation left open and that nobody answers now: a client that
/// never came back with them, or a person who was asked and went on elsewhere. No model takes a
/// call without its result.
fn stubs_for_open_calls(request: &RunRequest, history: &[Entry]) -> Vec<Entry> {
    let mut open: Vec<(&CallId, &ItemId)> = Vec::new();
    for entry in history {
        match &*entry.item {
            Item::Call { call_id, .. } => open.push((call_id, &entry.id)),
            Item::CallResult { call_id, .. } => open.retain(|(id, _)| *id != call_id),
            Item::Message { .. } | Item::Reasoning { .. } => {}
        }
    }
    let is_answered = |id: &CallId| {
        let is_result =
            |item: &Item| matches!(item, Item::CallResult { call_id, .. } if call_id == id);
        request.input.iter().any(is_result)
            || request.first_calls.iter().any(|first| first.call_id == *id)
    };
    let open = open.into_iter().filter(|(call_id, _)| !is_answered(call_id));
    open.map(|(call_id, item_id)| {
        let reason = "the conversation went on without it".to_owned();
        let outcome = ToolOutcome::Skipped { reason };
        Entry::new(result_id(item_id), tool_result(call_id, &outcome, usize::MAX))
    })
    .collect()
}

fn is_call(entry: &Entry, call_id: &CallId) -> bool {
    matches!(&*entry.item, Item::Call { call_id: id, .. } if id == call_id)
}

fn entry(item_id: &ItemId, item: Item) -> Entry {
    Entry { id: item_id.clone(), item: Arc::new(item) }
}

/// The arguments as a JSON object, whatever the model wrote.
fn legal_arguments(written: &str) -> String {
    let raw = written.trim();
    let is_object = serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_object());
    match raw {
        "" => "{}".to_owned(),
        _ if is_object => raw.to_owned(),
        _ => serde_json::json!({ "invalid_arguments": raw }).to_string(),
    }
}

/// The name of a result, which follows from that of its call.
fn result_id(item_id: &ItemId) -> String {
    let id = item_id.as_str();
    format!("fco_{}", id.split_once('_').map_or(id, |(_, rest)| rest))
}

/// How the names of items begin that stand for calls of this kind.
pub(crate) fn item_prefix(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Function | ToolKind::Client => "fc",
        ToolKind::Custom => "ctc",
        ToolKind::Mcp => "mcp",
        ToolKind::WebSearch => "ws",
        ToolKind::FileSearch => "fs",
    }
}

fn message_item(text: &str, refusal: &str) -> Option<Item> {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Content::text(text));
    }
    if !refusal.is_empty() {
        content.push(Content::Refusal { text: refusal.to_owned() });
    }
    let role = Role::Assistant;
    (!content.is_empty()).then_some(Item::Message { role, content })
}
