//! Checks the invariants of a journal.
//!
//! One check per invariant that a journal can show; the ids are those of ARCHITECTURE.md. The
//! others (I3, I6, I8, I9) have tests of their own.

use std::collections::{HashMap, HashSet};

use turnwire_contract::{
    Approvals, BudgetScope, CallId, Completeness, Decision, Event, InputId, Item, ItemId, Prompt,
    RecordedEvent, RunOutcome, RunRequest, Seq, ToolOutcome,
};

/// Returns all violations in a complete journal.
pub fn violations<'a>(journal: impl IntoIterator<Item = &'a RecordedEvent>) -> Vec<String> {
    let mut reader = JournalReader::default();
    for recorded in journal {
        reader.read(recorded);
    }
    reader.close();
    reader.wrong
}

/// Returns all violations in a history shown to the model (I7, I14).
pub fn history_violations(prompt: &Prompt) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut called: Vec<&CallId> = Vec::new();
    let mut answered: Vec<&CallId> = Vec::new();
    for item in &prompt.items {
        match &**item {
            Item::Call { call_id, arguments, .. } => {
                if !serde_json::from_str::<serde_json::Value>(arguments)
                    .is_ok_and(|arguments| arguments.is_object())
                {
                    wrong.push(format!("I14: {call_id} has arguments that are no object"));
                }
                called.push(call_id);
            }
            Item::CallResult { call_id, .. } => answered.push(call_id),
            Item::Message { .. } | Item::Reasoning { .. } => {
                if called != answered {
                    wrong.push(format!("I7: {called:?} were answered by {answered:?}"));
                }
            }
        }
    }
    if called != answered {
        wrong.push(format!("I7: {called:?} were answered by {answered:?}"));
    }
    wrong
}

#[derive(Default)]
struct JournalReader {
    wrong: Vec<String>,
    last: Seq,
    is_over: bool,
    turn_is_open: bool,
    has_client_tools: HashSet<String>,
    hands_approvals_back: bool,
    first_calls: HashSet<CallId>,
    questions: HashSet<ItemId>,
    texts: HashMap<ItemId, OpenText>,
    calls: HashMap<CallId, CallSeen>,
    budgets: BudgetsSeen,
}

/// Questions about budgets: nothing starts while one is open, and nothing after a no.
#[derive(Default)]
struct BudgetsSeen {
    open: HashSet<CallId>,
    asked: HashSet<BudgetScope>,
    is_refused: bool,
}

impl BudgetsSeen {
    fn read(&mut self, event: &Event, hands_back: bool) -> Option<String> {
        match event {
            Event::RunQueued { request, .. } => {
                let decided = request.first_calls.iter().filter_map(|call| call.budget);
                self.asked.extend(decided);
                None
            }
            Event::ApprovalRequested { call_id, budget: Some(budget), .. } => {
                self.open.insert(call_id.clone());
                // A question that is handed back is on several calls.
                let is_same = hands_back && self.open.len() > 1;
                let is_new = self.asked.insert(budget.scope) || is_same;
                (!is_new).then(|| format!("{:?} is asked about twice", budget.scope))
            }
            Event::ApprovalResolved { call_id, decision, .. } => {
                self.is_refused |= self.open.remove(call_id) && *decision != Decision::Approved;
                None
            }
            Event::ToolStarted { call_id, .. } => (self.is_refused || !self.open.is_empty())
                .then(|| format!("{call_id} starts before the budget is allowed")),
            Event::TurnStarted { .. } => {
                self.is_refused.then(|| "the model is asked after a refused budget".to_owned())
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct OpenText {
    text: String,
    refusal: String,
    is_closed: bool,
}

#[derive(Default)]
struct CallSeen {
    arguments: String,
    arguments_closed: Option<Completeness>,
    n_starts: u32,
    n_ends: u32,
    attempt: u32,
    waits_for_approval: bool,
    was_denied: bool,
    is_for_client: bool,
    /// Open questions of its tool.
    asked: HashSet<InputId>,
}

impl JournalReader {
    fn complain(&mut self, complaint: impl Into<String>) {
        let last = self.last;
        self.wrong.push(format!("{} (at {last})", complaint.into()));
    }

    fn read(&mut self, recorded: &RecordedEvent) {
        if recorded.seq != self.last.next() {
            self.complain(format!("I5: {} follows", recorded.seq));
        }
        self.last = recorded.seq;
        if self.is_over {
            self.complain("I2: something follows the end of the run");
        }
        let hands_back = self.hands_approvals_back;
        if let Some(complaint) = self.budgets.read(&recorded.event, hands_back) {
            self.complain(complaint);
        }
        if let Some(call_id) = recorded.event.call_id() {
            self.read_call(&call_id.clone(), &recorded.event);
            return;
        }
        match &recorded.event {
            Event::RunQueued { request } => self.read_request(request),
            Event::TurnStarted { .. } => {
                if self.turn_is_open {
                    self.complain("a turn begins inside a turn");
                }
                if self.calls.values().any(|call| call.n_ends == 0) {
                    self.complain("I7: the model is asked while a call has no end");
                }
                self.turn_is_open = true;
            }
            Event::TurnFinished { .. } | Event::TurnAbandoned { .. } => {
                if !self.turn_is_open {
                    self.complain("a turn ends that did not begin");
                }
                self.turn_is_open = false;
                self.expect_no_open_text();
            }
            Event::MessageStarted { item_id } => {
                if self.texts.insert(item_id.clone(), OpenText::default()).is_some() {
                    self.complain(format!("{item_id} begins twice"));
                }
            }
            Event::TextAdded { item_id, text } => match self.open_text(item_id) {
                Some(open) => open.text.push_str(text),
                None => self.complain(format!("I11: text for {item_id}, which is not open")),
            },
            Event::RefusalAdded { item_id, text } => match self.open_text(item_id) {
                Some(open) => open.refusal.push_str(text),
                None => self.complain(format!("I11: refusal for {item_id}, which is not open")),
            },
            Event::ReasoningAdded { item_id, text } => {
                self.texts.entry(item_id.clone()).or_default();
                match self.open_text(item_id) {
                    Some(open) => open.text.push_str(text),
                    None => self.complain(format!("I11: thoughts for {item_id}, which is closed")),
                }
            }
            Event::MessageFinished { item_id, text, refusal, .. } => {
                self.close_text(item_id, text, refusal);
            }
            Event::ReasoningFinished { item_id, text, .. } => {
                self.texts.entry(item_id.clone()).or_default();
                self.close_text(item_id, text, "");
            }
            Event::RunFinished { outcome, .. } => {
                self.is_over = true;
                self.expect_everything_closed(outcome);
            }
            Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::AnnotationAdded { .. } => {}
            Event::DiscoveryStarted { item_id, .. } => {
                if !self.questions.insert(item_id.clone()) {
                    self.complain(format!("{item_id} is asked twice"));
                }
            }
            // Cached tools are recorded without a request to the server.
            Event::ToolsDiscovered { item_id, .. } => _ = self.questions.remove(item_id),
            other => self.complain(format!("{other:?} should name its call")),
        }
    }

    fn read_request(&mut self, request: &RunRequest) {
        let client = request.tools.iter().filter(|tool| tool.kind.is_run_by_client());
        self.has_client_tools = client.map(|tool| tool.name.clone()).collect();
        self.hands_approvals_back = request.approvals == Approvals::HandBack;
        self.first_calls = request.first_calls.iter().map(|call| call.call_id.clone()).collect();
    }

    fn open_text(&mut self, item_id: &ItemId) -> Option<&mut OpenText> {
        self.texts.get_mut(item_id).filter(|open| !open.is_closed)
    }

    fn close_text(&mut self, item_id: &ItemId, text: &str, refusal: &str) {
        let Some(open) = self.open_text(item_id) else {
            return self.complain(format!("{item_id} is closed but not open"));
        };
        open.is_closed = true;
        if open.text != text || open.refusal != refusal {
            self.complain(format!("I11: {item_id} is not the sum of its parts"));
        }
    }

    fn expect_no_open_text(&mut self) {
        if self.texts.values().any(|open| !open.is_closed) {
            self.complain("I12: a turn is over while a text is open");
        }
    }

    fn read_call(&mut self, call_id: &CallId, event: &Event) {
        if let Event::CallAnnounced { tool, .. } = event {
            let is_for_client = self.has_client_tools.contains(&tool.name);
            let seen = CallSeen { is_for_client, ..CallSeen::default() };
            if self.calls.insert(call_id.clone(), seen).is_some() {
                self.complain(format!("I1: {call_id} is announced twice"));
            }
            return;
        }
        // A call in the request is already complete and may have an answer.
        let came_first = self.first_calls.contains(call_id);
        let Some(call) = self.calls.get_mut(call_id) else {
            return self.complain(format!("I1: {call_id} was never announced"));
        };
        let mut wrong = Vec::new();
        if call.n_ends > 0 {
            wrong.push(format!("I1: something follows the end of {call_id}"));
        }
        match event {
            Event::ArgumentsAdded { text, .. } => {
                if call.arguments_closed.is_some() {
                    wrong.push(format!("I11: arguments of {call_id} grow after their end"));
                }
                call.arguments.push_str(text);
            }
            Event::ArgumentsFinished { arguments, completeness, .. } => {
                if call.arguments_closed.replace(*completeness).is_some() {
                    wrong.push(format!("arguments of {call_id} end twice"));
                }
                if call.arguments != *arguments && !came_first {
                    wrong.push(format!("I11: arguments of {call_id} are not their parts"));
                }
            }
            Event::ApprovalRequested { .. } => call.waits_for_approval = true,
            Event::ApprovalResolved { decision, .. } => {
                if !call.waits_for_approval && !came_first {
                    wrong.push(format!("{call_id} was answered but nobody asked"));
                }
                call.waits_for_approval = false;
                call.was_denied = *decision != turnwire_contract::Decision::Approved;
            }
            Event::ToolStarted { attempt, .. } => {
                call.n_starts += 1;
                call.attempt = *attempt;
                if call.n_starts > 1 {
                    wrong.push(format!("I1: {call_id} starts twice"));
                }
                if call.arguments_closed != Some(Completeness::Complete) {
                    wrong.push(format!("R18: {call_id} starts on cut arguments"));
                }
                if call.waits_for_approval || call.was_denied {
                    wrong.push(format!("{call_id} starts though nobody allowed it"));
                }
            }
            Event::ToolPhase { .. }
            | Event::ToolTaskStarted { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::ToolStayedSilent { .. } => {
                if call.n_starts == 0 {
                    wrong.push(format!("I1: {call_id} reports before its start"));
                }
            }
            Event::InputRequested { input_id, .. } => {
                if call.n_starts == 0 {
                    wrong.push(format!("I1: {call_id} asks before its start"));
                }
                if !call.asked.insert(input_id.clone()) {
                    wrong.push(format!("C15: {input_id} is asked twice"));
                }
            }
            Event::InputResolved { input_id, .. } => {
                if !call.asked.remove(input_id) {
                    wrong.push(format!("C15: {input_id} is answered, and does not wait"));
                }
            }
            Event::ToolRetried { attempt, .. } => {
                if *attempt != call.attempt + 1 {
                    wrong.push(format!("{call_id} is tried for the {attempt}th time"));
                }
                call.attempt = *attempt;
            }
            Event::ToolFinished { outcome, .. } => {
                call.n_ends += 1;
                if call.arguments_closed.is_none() {
                    wrong.push(format!("I12: {call_id} ends with its arguments open"));
                }
                if !call.asked.is_empty() {
                    wrong.push(format!("I12: {call_id} ends with {:?} open", call.asked));
                }
                wrong.extend(outcome_violation(call_id, call, outcome));
            }
            other => wrong.push(format!("{other:?} should not name a call")),
        }
        for complaint in wrong {
            self.complain(complaint);
        }
    }

    fn expect_everything_closed(&mut self, outcome: &RunOutcome) {
        if self.turn_is_open {
            self.complain("I12: the run is over while a turn is open");
        }
        self.expect_no_open_text();
        if !self.questions.is_empty() {
            self.complain("I12: the run is over while a question for tools is open");
        }
        let hands_back = self.hands_approvals_back;
        let left_to_client = |call: &CallSeen| {
            let is_left = call.is_for_client || hands_back && call.waits_for_approval;
            is_left && *outcome == RunOutcome::Completed
        };
        let open: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, call)| call.n_ends == 0 && !left_to_client(call))
            .map(|(call_id, _)| call_id.to_string())
            .collect();
        if !open.is_empty() {
            self.complain(format!("I2: the run is over while {open:?} are open"));
        }
    }

    fn close(&mut self) {
        if !self.is_over {
            self.complain("the run has no end");
        }
    }
}

/// I4: only a started tool can succeed, fail or time out.
fn outcome_violation(call_id: &CallId, call: &CallSeen, outcome: &ToolOutcome) -> Option<String> {
    let needs_start = match outcome {
        ToolOutcome::Succeeded { .. }
        | ToolOutcome::Failed { .. }
        | ToolOutcome::TimedOut { .. }
        | ToolOutcome::Cancelled
        | ToolOutcome::OutcomeUnknown { .. } => true,
        ToolOutcome::Denied { .. } | ToolOutcome::NotFound { .. } | ToolOutcome::Skipped { .. } => {
            false
        }
        ToolOutcome::InvalidArguments { .. } => return None,
    };
    (needs_start != (call.n_starts == 1))
        .then(|| format!("I4: {call_id} ended as {outcome:?} with {} starts", call.n_starts))
}
