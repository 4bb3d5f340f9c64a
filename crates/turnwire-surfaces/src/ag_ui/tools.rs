//! The calls of the open turn: their arguments, their questions, their progress and their results.

use serde::Serialize;
use turnwire_contract::{
    CallId, Completeness, Event, InputId, ItemId, RecordedEvent, RunId, ToolKind, ToolOutcome,
};

use super::{
    activity::Activity,
    event::{AgUiEvent, Interrupt, Out, metadata},
    message_list::MessageList,
    pause::{Approval, Question},
    speech::incomplete,
};
use crate::{
    call_state::CallState,
    calls::{Call, CallBook},
    clean::clean,
    preview::{WIRE_BYTES, result_ref, result_summary, sentence, wire_text},
    responses::ids::result_id,
};

/// The calls that have not ended.
#[derive(Debug, Default)]
pub(super) struct Tools {
    open: Vec<OpenCall>,
    /// The message of the calls of a turn without text.
    parent: Option<ItemId>,
}

#[derive(Debug)]
struct OpenCall {
    call_id: CallId,
    /// The client executes it, after the run.
    is_for_client: bool,
    arguments: Arguments,
    approval: Option<Approval>,
    questions: Vec<Question>,
    /// The arguments that a person has replaced the model's by.
    edited: Option<String>,
    activity: Option<Activity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Nothing was sent.
    None,
    /// Something was sent, and more may follow.
    Growing,
    Ended,
}

#[derive(Serialize)]
struct CallFacts<'a> {
    kind: ToolKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
}

#[derive(Serialize)]
struct ResultFacts<'a> {
    state: CallState,
    tool: String,
    kind: ToolKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    empty: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
}

#[derive(Serialize)]
struct Incomplete {
    state: &'static str,
}

impl OpenCall {
    fn waits_for_people(&self) -> bool {
        self.approval.is_some() || !self.questions.is_empty()
    }
}

impl Tools {
    pub(super) fn begin_turn(&mut self) {
        self.open.clear();
        self.parent = None;
    }

    /// Starts a call. It belongs to the last message of its turn; calls of a turn without text
    /// share a message that has nothing else.
    pub(super) fn announce(
        &mut self,
        call: &Call,
        message: Option<&ItemId>,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let parent = match message {
            Some(message) => message,
            None => self.parent.get_or_insert_with(|| call.item_id.clone()),
        };
        let (tool_call_name, facts) = (call.shown_name(), CallFacts::of(call));
        list.add_call(parent.as_str(), call.call_id.as_str(), &tool_call_name);
        out.send(AgUiEvent::ToolCallStart {
            tool_call_id: call.call_id.to_string(),
            tool_call_name,
            parent_message_id: parent.to_string(),
            metadata: metadata(&facts),
        });
        self.open.push(OpenCall {
            call_id: call.call_id.clone(),
            is_for_client: call.tool.kind.is_run_by_client(),
            arguments: Arguments::None,
            approval: None,
            questions: Vec::new(),
            edited: None,
            activity: None,
        });
    }

    pub(super) fn add_arguments(&mut self, call_id: &CallId, text: &str, out: &mut Out) {
        let Some(call) = self.get_mut(call_id) else { return };
        if call.arguments == Arguments::Ended || text.is_empty() {
            return;
        }
        call.arguments = Arguments::Growing;
        let (tool_call_id, delta) = (call_id.to_string(), text.to_owned());
        out.send(AgUiEvent::ToolCallArgs { tool_call_id, delta });
    }

    /// Ends the arguments. Arguments that were not generated, such as those of a repeated call, are
    /// sent in one piece.
    pub(super) fn finish_arguments(
        &mut self,
        call_id: &CallId,
        arguments: &str,
        completeness: Completeness,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let Some(call) = self.get_mut(call_id) else { return };
        let before = std::mem::replace(&mut call.arguments, Arguments::Ended);
        if before == Arguments::Ended {
            return;
        }
        let tool_call_id = call_id.to_string();
        if before == Arguments::None && !arguments.is_empty() {
            let (tool_call_id, delta) = (tool_call_id.clone(), arguments.to_owned());
            out.send(AgUiEvent::ToolCallArgs { tool_call_id, delta });
        }
        let metadata = incomplete(completeness).map(|state| metadata(&Incomplete { state }));
        out.send(AgUiEvent::ToolCallEnd { tool_call_id, metadata });
        list.set_arguments(call_id.as_str(), arguments);
    }

    /// Ends all arguments that have not ended. A journal does so itself, unless a part of it cannot
    /// be read.
    pub(super) fn close_arguments(
        &mut self,
        book: &CallBook,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let growing = self.open.iter().filter(|call| call.arguments != Arguments::Ended);
        for call_id in growing.map(|call| call.call_id.clone()).collect::<Vec<_>>() {
            let arguments = book.get(&call_id).and_then(Call::raw_arguments).unwrap_or_default();
            self.finish_arguments(&call_id, arguments, Completeness::Cut, list, out);
        }
    }

    pub(super) fn ask(&mut self, call_id: &CallId, approval: Approval) {
        if let Some(call) = self.get_mut(call_id) {
            call.approval = Some(approval);
        }
    }

    pub(super) fn resolve(&mut self, call_id: &CallId, arguments: Option<&str>) {
        if let Some(call) = self.get_mut(call_id) {
            call.approval = None;
            call.edited = arguments.map(str::to_owned);
        }
    }

    pub(super) fn ask_for_input(&mut self, call_id: &CallId, question: Question) {
        if let Some(call) = self.get_mut(call_id) {
            call.questions.push(question);
        }
    }

    pub(super) fn take_input(&mut self, call_id: &CallId, input_id: &InputId) {
        if let Some(call) = self.get_mut(call_id) {
            call.questions.retain(|question| question.input_id != *input_id);
        }
    }

    /// Applies a report of a tool, and sends it unless `out` is missing.
    pub(super) fn report(&mut self, call: &Call, recorded: &RecordedEvent, out: Option<&mut Out>) {
        let Some(open) = self.get_mut(&call.call_id) else { return };
        if open.activity.is_none() && Activity::starts_with(&recorded.event) {
            open.activity = Some(Activity::new(call, &call.shown_name()));
        }
        let Some(activity) = &mut open.activity else { return };
        activity.note(call, recorded);
        if let Some(out) = out {
            activity.send(out);
        }
    }

    pub(super) fn finish(
        &mut self,
        call: &Call,
        recorded: &RecordedEvent,
        list: &mut MessageList,
        out: &mut Out,
    ) {
        let Event::ToolFinished { outcome, duration_ms, .. } = &recorded.event else { return };
        let arguments = call.raw_arguments().unwrap_or_default();
        self.finish_arguments(&call.call_id, arguments, Completeness::Cut, list, out);
        self.report(call, recorded, Some(&mut *out));
        let place = self.open.iter().position(|open| open.call_id == call.call_id);
        let edited = place.and_then(|place| self.open.remove(place).edited);
        let shown = ShownResult::of(outcome);
        let facts = ResultFacts {
            state: CallState::at_end(outcome),
            tool: call.shown_name(),
            kind: call.tool.kind,
            server: call.tool.server.as_deref(),
            duration_ms: *duration_ms,
            code: outcome.failure().map(|failure| failure.code),
            empty: shown.is_empty,
            truncated: shown.total_bytes.is_some(),
            result_bytes: shown.total_bytes,
            result_ref: shown
                .total_bytes
                .map(|_| result_ref(recorded.run_id.as_str(), call.call_id.as_str())),
            arguments: edited,
        };
        let (message_id, metadata) = (result_id(&call.item_id).to_string(), metadata(&facts));
        let tool_call_id = call.call_id.to_string();
        list.add_result(&message_id, &tool_call_id, &shown.content, &metadata);
        let (content, role) = (shown.content, "tool");
        out.send(AgUiEvent::ToolCallResult { message_id, tool_call_id, content, role, metadata });
    }

    /// The calls that the client executes.
    pub(super) fn pending(&self) -> Vec<String> {
        let pending = self.open.iter().filter(|call| call.is_for_client);
        pending.map(|call| call.call_id.to_string()).collect()
    }

    /// What people are asked, if nothing else is awaited.
    pub(super) fn awaited_people(&self, run_id: &RunId, book: &CallBook) -> Option<Vec<Interrupt>> {
        let mut ours = self.open.iter().filter(|call| !call.is_for_client).peekable();
        ours.peek()?;
        let mut interrupts = Vec::new();
        // Until a question about a budget is answered, nothing else happens.
        let about_budget = |call: &OpenCall| call.approval.as_ref()?.budget.as_ref().map(drop);
        let is_held = self.open.iter().any(|call| about_budget(call).is_some());
        for open in ours {
            if !open.waits_for_people() {
                if is_held {
                    continue;
                }
                return None;
            }
            let call = book.get(&open.call_id)?;
            let tool = call.shown_name();
            let approval = open.approval.iter().map(|asked| asked.interrupt(run_id, call, &tool));
            interrupts.extend(approval);
            interrupts
                .extend(open.questions.iter().map(|asked| asked.interrupt(run_id, call, &tool)));
        }
        Some(interrupts)
    }

    fn get_mut(&mut self, call_id: &CallId) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|call| call.call_id == *call_id)
    }
}

impl<'a> CallFacts<'a> {
    fn of(call: &'a Call) -> Self {
        Self { kind: call.tool.kind, server: call.tool.server.as_deref() }
    }
}

/// The content of a result.
struct ShownResult {
    content: String,
    is_empty: bool,
    /// Size of the whole result, if not all of it is shown.
    total_bytes: Option<u64>,
}

impl ShownResult {
    fn of(outcome: &ToolOutcome) -> Self {
        let ToolOutcome::Succeeded { output } = outcome else {
            return Self { content: problem(outcome), is_empty: false, total_bytes: None };
        };
        let text = clean(&output.text);
        let beginning = wire_text(&text, WIRE_BYTES);
        let is_cut = beginning.truncated || output.rest.is_some();
        let content =
            if text.is_empty() { result_summary(outcome) } else { beginning.text.to_owned() };
        Self {
            content,
            is_empty: text.is_empty() && output.images.is_empty(),
            total_bytes: is_cut.then(|| output.total_bytes()),
        }
    }
}

/// Why a call did not succeed. That nobody knows is not the same as a failure.
fn problem(outcome: &ToolOutcome) -> String {
    let problem = outcome.problem().unwrap_or_default();
    let unknown = if matches!(outcome, ToolOutcome::OutcomeUnknown { .. }) {
        "outcome unknown: "
    } else {
        ""
    };
    sentence(&format!("Error: {unknown}{problem}"))
}
