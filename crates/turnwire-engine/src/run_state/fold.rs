//! Applies events to the state.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde_json::Value;
use turnwire_contract::{
    ApprovalAnswer, CallId, Completeness, Content, Decision, DiscoveryOutcome, Effect, Entry,
    Event, Finish, Item, ItemId, Role, RunRequest, ToolKind, ToolOutcome, ToolRef, ToolSpec, Usage,
    any_event,
};

use super::{Approval, Call, OpenMessage, OpenQuestion, OpenReasoning, RunState};
use crate::tool_result::{add_edit_note, add_unknown_outcome_note, prefix, tool_result};

/// Bytes of truncated arguments shown to the model.
const SHOWN_OF_CUT: usize = 1024;

impl RunState {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event) {
        self.output.note(event);
        match event {
            Event::Unknown(_) => self.is_unreadable |= event.is_unreadable(),
            any_event!(
                RunQueued LogprobsAdded TurnRetried PartSkipped ToolPhase ToolProgressed
                ToolOutputAdded ToolStayedSilent
            ) => {}
            Event::RunStarted => self.n_workers = 1,
            Event::DiscoveryStarted { item_id, server } => {
                self.discovering.push((server.clone(), item_id.clone()));
            }
            Event::ToolsDiscovered { server, outcome, .. } => self.discover(server, outcome),
            Event::RunTakenOver { attempt, .. } => {
                self.n_workers = *attempt;
                self.is_fruitful = false;
            }
            Event::TurnStarted { turn } => self.open_turn(*turn),
            Event::TurnAbandoned { .. } => self.withdraw_turn(),
            Event::TurnFinished { finish, usage, .. } => {
                self.note_progress();
                self.close_turn(*finish, *usage);
            }
            any_event!(
                MessageStarted AnnotationAdded TextAdded RefusalAdded MessageFinished ReasoningAdded
                ReasoningFinished
            ) => self.apply_speech(event),
            any_event!(
                CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved
                InputRequested InputResolved ToolTaskStarted ToolStarted ToolRetried ToolFinished
            ) => self.apply_call(event),
            Event::RunFinished { outcome, .. } => {
                self.added.append(&mut self.held_input);
                self.outcome = Some(outcome.clone());
            }
        }
    }

    /// Applies text and reasoning of the model.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`apply` has matched every event")]
    fn apply_speech(&mut self, event: &Event) {
        match event {
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
                let open = self.reasoning.get_or_insert_with(|| {
                    Box::new(OpenReasoning { item_id: item_id.clone(), text: String::new() })
                });
                open.text.push_str(text);
            }
            Event::ReasoningFinished { item_id, text, encrypted_content, .. } => {
                self.reasoning = None;
                let (text, encrypted_content) = (text.clone(), encrypted_content.clone());
                self.said.push(entry(item_id, Item::Reasoning { text, encrypted_content }));
            }
            _ => {}
        }
    }

    /// Applies tool calls, from announcement to outcome.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`apply` has matched every event")]
    fn apply_call(&mut self, event: &Event) {
        match event {
            Event::ToolTaskStarted { call_id, task } => {
                self.change(call_id, |call| call.task = Some(task.clone()));
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
            Event::ApprovalRequested { call_id, expires_at, budget, .. } => {
                let approval = Approval::Requested { expires_at: *expires_at };
                let budget = budget.as_ref().map(|budget| budget.scope);
                self.asked_budgets.extend(budget);
                self.change(call_id, |call| {
                    call.approval = approval;
                    call.budget = budget;
                });
            }
            Event::ApprovalResolved { call_id, .. } => {
                event.answer().into_iter().for_each(|answer| self.resolve(call_id, answer));
            }
            Event::InputRequested { .. } | Event::InputResolved { .. } => {
                self.note_question(event);
            }
            Event::ToolStarted { call_id, attempt, .. }
            | Event::ToolRetried { call_id, attempt, .. } => {
                self.change(call_id, |call| {
                    call.attempts = *attempt;
                    call.may_repeat = false;
                });
            }
            Event::ToolFinished { call_id, outcome, .. } => {
                if matches!(outcome, ToolOutcome::Succeeded { .. }) {
                    self.note_progress();
                }
                self.finish_call(call_id, outcome);
            }
            _ => {}
        }
    }

    fn change(&mut self, call_id: &CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.call_mut(call_id) {
            change(call);
        }
    }

    pub(super) fn call_mut(&mut self, call_id: &CallId) -> Option<&mut Call> {
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
        self.message = Some(Box::new(OpenMessage {
            item_id: item_id.clone(),
            text: String::new(),
            refusal: String::new(),
            has_sources: false,
        }));
    }

    /// A withdrawn turn leaves nothing in the history.
    fn withdraw_turn(&mut self) {
        self.turn = self.turn.saturating_sub(1);
        self.turn_is_open = false;
        self.calls.clear();
        self.said.clear();
    }

    /// Adds the turn's output to the history, and those calls that the model finished, in the order
    /// in which the model began them: providers sign their reasoning in its place.
    fn close_turn(&mut self, finish: Finish, usage: Usage) {
        self.turn_is_open = false;
        self.last_finish = Some(finish);
        self.usage += usage;
        self.open_usage = None;
        let said = std::mem::take(&mut self.said);
        if finish == Finish::Interrupted {
            self.added.extend(said);
            return;
        }
        let is_new = |call: &&Call| !self.is_in_history(&call.call_id);
        let told = self.calls.iter().filter(|call| self.is_told(call)).filter(is_new);
        let told = told.map(|call| (call.n_said_before, entry(&call.item_id, call.item())));
        let mut told: Vec<(u32, Entry)> = told.rev().collect();
        for (n, said) in (0..).zip(said) {
            while let Some((_, call)) = told.pop_if(|(n_said_before, _)| *n_said_before <= n) {
                self.added.push(call);
            }
            self.added.push(said);
        }
        self.added.extend(told.into_iter().rev().map(|(_, call)| call));
        self.settle_round();
    }

    /// Returns whether the call enters the history. A call over the limit does, so that the model
    /// sees the error. A call truncated together with the whole answer does not.
    fn is_told(&self, call: &Call) -> bool {
        let has_finished = matches!(self.last_finish, Some(Finish::Answered | Finish::CalledTools));
        call.is_whole() || call.was_cut() && has_finished
    }

    /// Returns whether the call is part of the history. Then this run adds only its result.
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
        // A call in the request has been approved, or needs no approval.
        let spec = self.spec_of(tool).filter(|_| self.turn > 0);
        let needs_approval = spec.is_some_and(ToolSpec::is_guarded);
        let budget = self.budget_asked_before(call_id);
        self.asked_budgets.extend(budget);
        self.all_call_ids.push(call_id.clone());
        self.calls.push(Call {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            tool: tool.clone(),
            arguments: String::new(),
            attempts: 0,
            edited_from: None,
            task: None,
            may_repeat: false,
            completeness: None,
            n_said_before: u32::try_from(self.said.len()).unwrap_or(u32::MAX),
            budget,
            approval: if needs_approval { Approval::Needed } else { Approval::NotNeeded },
            outcome: None,
        });
    }

    fn note_question(&mut self, event: &Event) {
        if let Event::InputRequested {
            call_id,
            input_id,
            message,
            schema,
            expires_at,
            unknown_outcome,
        } = event
        {
            self.questions.push(OpenQuestion {
                call_id: call_id.clone(),
                input_id: input_id.clone(),
                schema: schema.clone(),
                expires_at: *expires_at,
                unknown_outcome: unknown_outcome.then(|| message.clone()),
            });
        }
        if let Event::InputResolved { input_id, reply, .. } = event {
            self.note_settled(input_id, reply);
            self.questions.retain(|question| question.input_id != *input_id);
        }
    }

    fn resolve(&mut self, call_id: &CallId, answer: ApprovalAnswer) {
        let Some(call) = self.call_mut(call_id) else { return };
        let answer = call.as_counted(answer);
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

    /// Adds the results to the history, in call order, once every server-side call has ended.
    /// Results of client-side calls come with a later run.
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
                let effect = self.spec_of(&call.tool).map(|spec| spec.effect);
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

    /// Hashes a round of calls, arguments and results, to detect repeated rounds.
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

    /// Returns the call as a history item.
    fn item(&self) -> Item {
        let written =
            if self.was_cut() { prefix(&self.arguments, SHOWN_OF_CUT) } else { &self.arguments };
        let is_text = self.tool.kind == ToolKind::Custom;
        let arguments = if is_text { written.to_owned() } else { legal_arguments(written) };
        let ToolRef { name, kind, server } = self.tool.clone();
        Item::Call { call_id: self.call_id.clone(), name, arguments, kind, server }
    }
}

/// Results for calls that the conversation left open: the client never sent them, or the approval
/// was never resolved. Models reject a call without a result.
pub(super) fn stubs_for_open_calls(request: &RunRequest, history: &[Entry]) -> Vec<Entry> {
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
        let reason = "the conversation continued without it".to_owned();
        let outcome = ToolOutcome::Skipped { reason };
        Entry::new(result_id(item_id), tool_result(call_id, &outcome, usize::MAX))
    })
    .collect()
}

pub(super) fn is_call(entry: &Entry, call_id: &CallId) -> bool {
    matches!(&*entry.item, Item::Call { call_id: id, .. } if id == call_id)
}

fn entry(item_id: &ItemId, item: Item) -> Entry {
    Entry { id: item_id.clone(), item: Arc::new(item) }
}

/// Returns the arguments as a JSON object, whatever the model wrote.
fn legal_arguments(written: &str) -> String {
    let raw = written.trim();
    let is_object = serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_object());
    match raw {
        "" => "{}".to_owned(),
        _ if is_object => raw.to_owned(),
        _ => serde_json::json!({ "invalid_arguments": raw }).to_string(),
    }
}

/// Derives the id of a result from the id of its call.
fn result_id(item_id: &ItemId) -> String {
    let id = item_id.as_str();
    format!("fco_{}", id.split_once('_').map_or(id, |(_, rest)| rest))
}

/// Returns the item id prefix for calls of this kind.
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
